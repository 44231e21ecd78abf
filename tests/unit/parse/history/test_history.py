"""The schema history: what is known where, and what is known again when reading goes back."""

from __future__ import annotations

import json

import pytest

from actors.parse.history import histories as all_of_them
from actors.parse.history import history as module
from actors.parse.history.facts import Change, Place, Present
from actors.parse.history.histories import SERVERS_MAX, Histories
from actors.parse.history.history import SchemaHistory
from actors.parse.schema.catalog import Catalog
from actors.parse.schema.definition import TableDefinition
from actors.parse.schema.statement import ServerVersion, Statement
from merge.errors import DataError

MARIADB = ServerVersion.parse("10.11.6-MariaDB")
UTF8MB4 = 45


def make():
    catalog = Catalog(UTF8MB4)
    catalog.set_schema("app", UTF8MB4)
    return catalog


def place(offset, file="binlog.000001", server="7"):
    return Place(server, file, offset)


def change(offset, sql, file="binlog.000001"):
    return Change(place(offset, file), Statement(sql, "app", MARIADB))


def present(*changes, tables=()):
    """What a server shows: some tables, and those that the changes leave."""
    catalog = make()
    for sql in tables:
        catalog.apply(Statement(sql, "app", MARIADB))
    return Present(catalog, changes)


def begun(*changes, tables=(), at=100):
    history = SchemaHistory(make)
    history.begin(place(at), present(*changes, tables=tables))
    return history


def names(history, table="t"):
    found = history.table("app", table)
    return [each.name for each in found.columns] if isinstance(found, TableDefinition) else None


def test_what_no_statement_touches_is_as_it_is_at_present():
    history = begun(change(200, "CREATE TABLE u (id INT)"), tables=["CREATE TABLE t (id INT, v INT)"])
    assert names(history) == ["id", "v"]


def test_what_is_created_is_known_from_there_on():
    steps = [change(200, "CREATE TABLE t (id INT)"), change(300, "ALTER TABLE t ADD v INT")]
    history = begun(*steps, tables=["CREATE TABLE t (id INT, v INT)"])
    assert names(history) is None
    history.apply(steps[0])
    assert names(history) == ["id"]
    history.apply(steps[1])
    assert names(history) == ["id", "v"]


def test_what_is_altered_is_known_after_the_last_statement_only():
    steps = [change(200, "ALTER TABLE t ADD v INT"), change(300, "ALTER TABLE t ADD w INT")]
    history = begun(*steps, tables=["CREATE TABLE t (id INT, v INT, w INT)"])
    assert names(history) is None
    assert history.known_after("app", "t") == place(300)
    history.apply(steps[0])
    assert names(history) is None
    history.apply(steps[1])
    assert names(history) == ["id", "v", "w"]
    assert history.known_after("app", "t") is None


def test_an_alter_that_leaves_the_present_as_it_is_counts():
    """`v` was an INT before, although the statement makes it what the server shows."""
    step = change(200, "ALTER TABLE t MODIFY v BIGINT")
    history = begun(step, tables=["CREATE TABLE t (id INT, v BIGINT)"])
    assert names(history) is None
    history.apply(step)
    assert names(history) == ["id", "v"]


def test_a_table_that_a_rename_brings_is_not_the_one_that_had_the_name():
    step = change(200, "RENAME TABLE t TO old, new TO t")
    history = begun(step, tables=["CREATE TABLE t (id INT, extra INT)", "CREATE TABLE old (id INT)"])
    assert names(history) is None
    assert names(history, "old") is None
    history.apply(step)
    assert names(history) == ["id", "extra"]
    assert names(history, "old") == ["id"]


def test_a_statement_that_nobody_understands_leaves_nothing_known_before_it():
    step = change(200, "FROBNICATE EVERYTHING")
    history = begun(step, tables=["CREATE TABLE t (id INT)"])
    assert names(history) is None
    history.apply(step)
    assert names(history) == ["id"]


def test_reading_goes_back_and_knows_what_it_knew():
    history = begun(tables=["CREATE TABLE t (id INT)"])
    history.apply(change(200, "ALTER TABLE t ADD v INT"))
    history.apply(change(300, "ALTER TABLE t ADD w INT"))
    for offset, known in ((100, ["id"]), (200, ["id", "v"]), (250, ["id", "v"]), (300, ["id", "v", "w"])):
        again = begun(tables=["CREATE TABLE t (id INT)"])
        again.apply(change(200, "ALTER TABLE t ADD v INT"))
        again.apply(change(300, "ALTER TABLE t ADD w INT"))
        again.go_to(place(offset))
        assert names(again) == known
    history.go_to(place(200))
    history.apply(change(300, "ALTER TABLE t ADD w INT"))
    assert names(history) == ["id", "v", "w"]


def test_a_statement_that_comes_again_is_applied_once():
    history = begun(tables=["CREATE TABLE t (id INT)"])
    for _ in range(2):
        history.apply(change(200, "ALTER TABLE t ADD v INT"))
    assert names(history) == ["id", "v"]


@pytest.mark.parametrize(
    ("where", "covered"),
    [
        (place(100), True),
        (place(99), False),
        (place(4, "binlog.000002"), True),
        (place(400, "binlog.000000"), False),
        (place(400, "other.000002"), False),
        (place(400, server="8"), False),
    ],
)
def test_it_covers_what_follows_its_beginning_on_its_server(where, covered):
    assert begun().covers(where) is covered


def test_nothing_is_covered_before_it_begins():
    assert not SchemaHistory(make).covers(place(100))


def test_what_a_statement_leaves_unknown_is_learned_and_forgotten_again():
    history = begun()
    history.apply(change(200, "CREATE TABLE t AS SELECT 1 AS a"))
    assert names(history) is None
    history.learn(place(210), present(tables=["CREATE TABLE t (a INT)"]))
    assert names(history) == ["a"]
    history.go_to(place(200))
    assert names(history) is None


def test_what_was_altered_since_is_not_learned():
    history = begun()
    history.apply(change(200, "CREATE TABLE t AS SELECT 1 AS a"))
    later = change(300, "ALTER TABLE t ADD b INT")
    history.learn(place(210), present(later, tables=["CREATE TABLE t (a INT, b INT)"]))
    assert names(history) is None
    assert history.known_after("app", "t") == place(300)
    history.apply(later)
    assert names(history) == ["a", "b"]


def test_it_stays_bounded_and_cannot_go_back_before_what_it_folded(monkeypatch):
    monkeypatch.setattr(module, "FACTS_MAX", 4)
    history = begun(tables=["CREATE TABLE t (id INT)"])
    for number in range(5):
        history.apply(change(200 + number, f"ALTER TABLE t ADD c{number} INT"))
    assert names(history) == ["id", "c0", "c1", "c2", "c3", "c4"]
    assert not history.covers(place(200))
    assert history.covers(place(201))
    history.go_to(place(201))
    assert names(history) == ["id", "c0", "c1"]


def test_a_history_that_was_stored_knows_what_it_knew():
    history = begun(
        change(200, "ALTER TABLE t ADD v INT"),
        tables=["CREATE TABLE t (id INT, v INT)", "CREATE TABLE u (a INT)"],
    )
    history.apply(change(200, "ALTER TABLE t ADD v INT"))
    history.apply(change(300, "ALTER TABLE t ADD w INT"))
    history.apply(change(310, "DROP TABLE u"))
    history.learn(place(320), present(tables=["CREATE TABLE late (x INT)"]))
    histories = Histories()
    histories.keep(history)
    again = Histories()
    again.load(histories.to_text(), make)
    assert again.to_text() == histories.to_text()
    (loaded,) = again
    for where in (100, 200, 300, 310, 320):
        history.go_to(place(where))
        loaded.go_to(place(where))
        for table in ("t", "u", "late"):
            assert names(loaded, table) == names(history, table)
    assert names(loaded) == ["id", "v", "w"]
    assert names(loaded, "u") is None
    assert names(loaded, "late") == ["x"]


def test_a_table_that_is_not_kept_any_more_is_not_loaded():
    histories = Histories()
    histories.keep(begun(tables=["CREATE TABLE t (id INT)", "CREATE TABLE u (id INT)"]))
    again = Histories()
    again.load(histories.to_text(), lambda: Catalog(UTF8MB4, keep=lambda _schema, table: table == "u"))
    (loaded,) = again
    assert names(loaded) is None
    assert names(loaded, "u") == ["id"]


def test_histories_of_the_last_servers_are_kept():
    histories = Histories()
    for server in range(SERVERS_MAX + 1):
        history = SchemaHistory(make)
        history.begin(place(100, server=str(server)), present(tables=["CREATE TABLE t (id INT)"]))
        histories.keep(history)
    assert histories.of("0") is None
    assert histories.covering(place(99, server="1")) is None
    assert histories.covering(place(100, server="1")) is not None


STORED = {"server": "7", "begin": ["b.000001", 4], "read_to": None, "facts": []}
STORED["first"] = {"tables": [], "schemas": {}, "unknown": []}
BAD = [
    {},
    {**STORED, "begin": ["b", 4]},
    {**STORED, "begin": None},
    {**STORED, "first": {"tables": [{}], "schemas": {}, "unknown": []}},
    {**STORED, "facts": [{"at": ["b", 5]}]},
    {**STORED, "facts": [{"at": ["b.000001", 5], "server": [False, 8], "sql_mode": "x", "more": 1}, 3]},
    {**STORED, "read_to": {"file": 1}},
]
TEXTS = ["", "{", "[]", '{"version": 2, "histories": []}']


@pytest.mark.parametrize("text", [*TEXTS, *(json.dumps({"version": 1, "histories": [bad]}) for bad in BAD)])
def test_a_text_that_holds_no_histories_is_refused(text):
    with pytest.raises(DataError, match="cannot be read"):
        Histories().load(text, make)


def test_histories_stay_within_their_limit(monkeypatch):
    monkeypatch.setattr(all_of_them, "TEXT_MAX", 100)
    histories = Histories()
    histories.keep(begun(tables=["CREATE TABLE t (id INT)"]))
    with pytest.raises(DataError, match="of at most 100"):
        histories.to_text()


def test_statements_of_other_tables_are_not_kept():
    history = SchemaHistory(lambda: Catalog(UTF8MB4, keep=lambda _schema, table: table == "t"))
    history.begin(place(100), present(tables=["CREATE TABLE t (id INT)"]))
    assert not history.apply(change(200, "ALTER TABLE u ADD v INT"))
    assert history.apply(change(300, "ALTER TABLE t ADD v INT"))
    assert len(history.to_json()["facts"]) == 1


def test_a_drop_is_kept_although_an_empty_catalog_knows_nothing_of_it():
    history = begun(tables=["CREATE TABLE t (id INT)"])
    history.apply(change(200, "DROP TABLE t"))
    history.apply(change(300, "CREATE TABLE IF NOT EXISTS t (other INT)"))
    history.go_to(place(100))
    assert names(history) == ["id"]
    history.go_to(place(300))
    assert names(history) == ["other"]


def test_a_schema_whose_default_was_changed_since_has_none_before():
    """A table that is created before the change has the earlier default; what that was, nobody knows."""
    steps = [
        change(200, "CREATE TABLE t (a VARCHAR(9))"),
        change(300, "ALTER DATABASE app CHARACTER SET latin2"),
        change(400, "CREATE TABLE u (a VARCHAR(9))"),
        change(500, "ALTER TABLE t ADD b INT"),
    ]
    shown = Catalog(UTF8MB4)
    shown.set_schema("app", 9)
    shown.apply(Statement("CREATE TABLE t (a VARCHAR(9) CHARSET utf8mb4, b INT)", "app", MARIADB))
    history = SchemaHistory(lambda: Catalog(UTF8MB4))
    history.begin(place(100), Present(shown, steps))
    known = []
    for step in steps:
        history.apply(step)
        known.append((names(history), names(history, "u")))
    assert known == [(None, None), (None, None), (None, ["a"]), (["a", "b"], ["a"])]


@pytest.mark.parametrize("known_before", [True, False])
def test_a_replacement_that_failed_has_dropped_the_table(known_before):
    """MariaDB logs CREATE OR REPLACE with its error, after it has dropped the old table."""
    sql = "CREATE OR REPLACE TABLE t (a INT, PRIMARY KEY (b))"
    failed = Change(place(200), Statement(sql, "app", MARIADB, failed=True))
    history = begun(*([failed] if known_before else []), tables=["CREATE TABLE t (id INT)"])
    history.apply(failed)
    assert history.table("app", "t") is None
    history.go_to(place(100))
    history.go_to(place(200))
    assert history.table("app", "t") is None


@pytest.mark.parametrize(
    ("sql", "kept"),
    [
        ("CREATE OR REPLACE USER u IDENTIFIED BY 'secret'", False),
        ("CREATE /*M!100103 OR REPLACE */ USER u IDENTIFIED BY 'secret'", False),
        ("SET STATEMENT max_statement_time=1 FOR GRANT DROP ON *.* TO u IDENTIFIED BY 'secret'", False),
        ("CREATE USER u IDENTIFIED BY 'a secret DATABASE'", False),
        ("DROP DATABASE app", True),
        ("/*!999999 GRANT */ DROP DATABASE app", True),
        ("CREATE OR REPLACE USER 'no end", True),
    ],
)
def test_a_statement_on_accounts_is_not_kept(sql, kept):
    """It may hold a password, and changes no definition."""
    for history in (begun(change(200, sql)), begun()):
        history.apply(change(200, sql))
        assert (json.dumps(sql) in json.dumps(history.to_json())) == kept
