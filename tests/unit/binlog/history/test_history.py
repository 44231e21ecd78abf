"""The schema history: what is known where, and what is known again when reading goes back."""

from __future__ import annotations

import json

import pytest

from canal_group.binlog.history.facts import Change, LogPosition, Present
from canal_group.binlog.history.histories import SERVERS_MAX, Histories
from canal_group.binlog.history.history import SchemaHistory
from canal_group.binlog.schema.catalog import Catalog
from canal_group.binlog.schema.catalog_entry import ShownTable, View
from canal_group.binlog.schema.definition import SourceName, TableDefinition, UnknownTable
from canal_group.binlog.schema.statement import ServerVersion, Statement
from canal_group.merge.errors import DataError, DefinitionContradicted

MARIADB = ServerVersion.parse("10.11.6-MariaDB")
UTF8MB4 = 45


def make():
    return Catalog(UTF8MB4)


def position(offset, file="binlog.000001", server="7"):
    return LogPosition(server, file, offset)


def change(offset, sql, file="binlog.000001", **options):
    return Change(position(offset, file), Statement(sql, "app", MARIADB, **options))


def shown(sql):
    """What a server shows of a table, here a statement that makes it."""
    return ShownTable("app", sql.split()[2], sql, MARIADB)


def listed(tables=(), changes=(), views=(), schemas=None):
    return Present(
        [shown(sql).name for sql in tables],
        [View("app", name) for name in views],
        {"app": UTF8MB4} if schemas is None else schemas,
        changes,
    )


def begun(*changes, tables=(), at=100, read=True, limits=None, **present):
    """A history from a position on, on a server that has some tables after some changes."""
    history = SchemaHistory(make, **(limits or {}))
    history.begin(position(at), listed(tables, changes, **present))
    for sql in tables if read else ():
        assert history.learn(shown(sql), changes[-1].end if changes else position(at))
    return history


def stored(history):
    histories = Histories()
    histories.keep(history)
    return histories.take_text().text


def names(history, table="t"):
    definition = history.table("app", table)
    return [each.name for each in definition.columns] if isinstance(definition, TableDefinition) else None


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
    assert history.known_after("app", "t") == position(300)
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


def test_a_statement_that_cannot_be_parsed_makes_earlier_facts_unknown():
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
        again.go_to(position(offset))
        assert names(again) == known
    history.go_to(position(200))
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
        (position(100), True),
        (position(99), False),
        (position(4, "binlog.000002"), True),
        (position(400, "binlog.000000"), False),
        (position(400, "other.000002"), False),
        (position(400, server="8"), False),
    ],
)
def test_it_covers_what_follows_its_beginning_on_its_server(where, covered):
    assert begun().covers(where) is covered


def test_nothing_is_covered_before_it_begins():
    assert not SchemaHistory(make).covers(position(100))


def test_what_a_statement_leaves_unknown_is_learned_from_there_on():
    history = begun()
    history.apply(change(200, "CREATE TABLE t AS SELECT 1 AS a"))
    assert names(history) is None
    assert history.learn(shown("CREATE TABLE t (a INT)"), position(210))
    history.pass_to(position(210))
    assert names(history) == ["a"]
    history.go_to(position(199))
    assert names(history) is None
    history.go_to(position(200))
    assert names(history) == ["a"]


def test_what_was_altered_since_is_not_learned():
    history = begun()
    history.apply(change(200, "CREATE TABLE t AS SELECT 1 AS a"))
    later = history.touching(change(300, "ALTER TABLE t ADD b INT"))
    history.insert(later)
    assert history.learn(shown("CREATE TABLE t (a INT, b INT)"), position(310))
    assert names(history) is None
    assert history.known_after("app", "t") == position(300)
    history.apply(later)
    assert names(history) == ["a", "b"]


def test_a_table_that_was_changed_while_it_was_asked_is_not_learned():
    """Whether the answer has the statement is unknown; a statement on another table changes nothing."""
    for sql, known in (("ALTER TABLE t ADD b INT", False), ("ALTER TABLE u ADD b INT", True)):
        history = begun(tables=["CREATE TABLE t (a INT)", "CREATE TABLE u (a INT)"], read=False)
        history.insert(history.touching(change(150, sql)))
        assert history.learn(shown("CREATE TABLE t (a INT)"), position(140)) is known
        assert (SourceName("app", "t") in history.unread.values()) is not known


def test_a_table_that_was_not_read_is_not_known():
    """Nor after it was stored and loaded: what is not known is not taken for free."""
    history = begun(tables=["CREATE TABLE t (id INT)"], read=False)
    again = Histories()
    again.load(stored(history), make)
    (loaded,) = again
    loaded.go_to(position(100))
    for each in (history, loaded):
        each.apply(change(200, "CREATE TABLE IF NOT EXISTS t (other INT)"))
        assert isinstance(each.table("app", "t"), UnknownTable)
        assert each.unread
    assert loaded.learn(shown("CREATE TABLE t (id INT)"), position(210))
    assert names(loaded) == ["id"]


# ---- statements that may have done nothing -----------------------------------------------------------------

OTHER = "CREATE TABLE IF NOT EXISTS t (other INT)"


@pytest.mark.parametrize("took_effect", [True, False])
def test_a_conditional_create_on_a_table_that_is_there_did_nothing(took_effect):
    """Unless the server says that it did something: then the table was not there."""
    history = begun(tables=["CREATE TABLE t (id INT)"])
    history.apply(change(200, OTHER, took_effect=took_effect))
    assert names(history) == (["other"] if took_effect else ["id"])


def test_a_conditional_create_in_a_backlog_keeps_what_the_server_shows():
    """The table was as it is now, or it was not there: its rows have one meaning in either case."""
    step = change(200, OTHER)
    history = begun(step, tables=["CREATE TABLE t (id INT)"])
    assert names(history) == ["id"]
    history.apply(step)
    assert names(history) == ["id"]


def test_a_conditional_create_is_believed_if_its_server_logs_no_effects():
    """A server that logs effects and logs none has done nothing, or has done it in another engine."""
    for version, known in ((MARIADB, None), (ServerVersion.parse("10.5.9-MariaDB"), ["other"])):
        history = begun()
        history.apply(Change(position(200), Statement(OTHER, "app", version)))
        assert names(history) == known
        history.apply(Change(position(300), Statement(OTHER.replace("other", "x"), "app", version)))
        assert names(history) == known


GENERATED = "CREATE TABLE IF NOT EXISTS `t` (\n  `other` int(1) NOT NULL\n)"
MYSQL = ServerVersion.parse("9.7.4")


@pytest.mark.parametrize(
    ("sql", "server", "known"),
    [
        (GENERATED, MARIADB, ["other"]),
        (GENERATED, MYSQL, None),
        (f"{GENERATED} START TRANSACTION", MYSQL, ["other"]),
    ],
)
def test_a_table_that_a_query_has_filled_was_created(sql, server, known):
    """MySQL logs a dump's statement on a table that is there, MariaDB does not."""
    history = begun()
    history.apply(Change(position(200), Statement(sql, "app", server)))
    assert names(history) == known


def test_a_view_is_in_the_way_of_a_table():
    history = begun(views=["t"])
    assert history.table("app", "t") is None
    history.apply(change(200, OTHER))
    history.apply(change(300, "DROP TABLE IF EXISTS t"))
    history.apply(change(400, OTHER))
    assert history.table("app", "t") is None
    history.apply(change(500, "DROP VIEW IF EXISTS t"))
    history.apply(change(600, OTHER, took_effect=True))
    assert names(history) == ["other"]


def test_a_view_that_a_statement_makes_is_in_the_way_too():
    history = begun()
    history.apply(change(200, "CREATE DEFINER=`a`@`%` SQL SECURITY DEFINER VIEW `app`.`t` AS SELECT 1"))
    history.apply(change(300, "CREATE TABLE IF NOT EXISTS t (other INT)"))
    history.apply(change(310, "RENAME TABLE t TO w"))
    history.apply(change(320, "DROP TABLE IF EXISTS w"))
    assert history.table("app", "t") is None
    assert history.table("app", "w") is None
    history.apply(change(400, "CREATE TABLE t (id INT)"))
    assert names(history) == ["id"]


def test_a_schema_that_was_dropped_since_leaves_its_names_unknown():
    steps = [change(200, "CREATE OR REPLACE DATABASE app"), change(300, "CREATE TABLE t (id INT)")]
    history = begun(*steps, tables=["CREATE TABLE t (id INT)"])
    assert isinstance(history.table("app", "gone"), UnknownTable)
    assert history.table("other", "free") is None
    history.apply(steps[0])
    assert history.table("app", "gone") is None
    assert history.table("app", "t") is None
    history.apply(steps[1])
    assert names(history) == ["id"]


def test_a_statement_on_a_temporary_table_changes_no_other():
    history = begun(tables=["CREATE TABLE t (a INT, b INT)"])
    statements = (
        "ALTER TABLE t DROP a",
        "CREATE UNIQUE INDEX i ON t (a)",
        "DROP INDEX i ON t",
        "RENAME TABLE t TO u",
    )
    for offset, sql in enumerate(statements, 200):
        assert not history.apply(change(offset, sql, temporary=True)), sql
    assert names(history) == ["a", "b"]


# ---- what the source confirms ------------------------------------------------------------------------------


def test_what_was_followed_is_confirmed_by_what_the_source_shows():
    history = begun(tables=["CREATE TABLE t (id INT)"])
    assert not history.followed()
    history.apply(change(200, "ALTER TABLE t ADD v INT"))
    assert history.is_followed(SourceName("app", "t"))
    assert history.confirm(shown("CREATE TABLE t (id INT, v INT)"), position(210)) is None
    assert not history.followed()
    again = Histories()
    again.load(stored(history), make)
    (loaded,) = again
    loaded.go_to(position(205))
    assert loaded.followed()
    loaded.go_to(position(210))
    assert not loaded.followed(), "a confirmation is kept"


@pytest.mark.parametrize(
    ("sql", "phrase"),
    [
        ("CREATE TABLE t (v INT, id INT)", "column 1 is `id` int, and the source shows `v` int"),
        ("CREATE TABLE t (id INT, v INT UNSIGNED)", "unsigned"),
        ("CREATE TABLE t (id INT, v INT NOT NULL)", "NOT NULL"),
        ("CREATE TABLE t (id INT, v INT, w INT)", "it has 2 columns, and the source shows 3"),
        ("CREATE TABLE t (id INT, v INT, PRIMARY KEY (id))", "id"),
        ("CREATE TABLE t (id INT, v INT INVISIBLE)", "column 2"),
    ],
)
def test_what_the_source_contradicts_is_an_error_that_says_all(sql, phrase):
    history = begun(tables=["CREATE TABLE t (id INT)"])
    history.apply(change(200, "ALTER TABLE t ADD v INT"))
    history.read_rows(SourceName("app", "t"), position(250))
    wrong = history.confirm(shown(sql), position(900))
    assert isinstance(wrong, DefinitionContradicted)
    assert phrase in wrong.message
    assert "after ALTER TABLE, at binlog.000001:200" in wrong.message
    assert "between binlog.000001:250 and binlog.000001:900" in wrong.message
    assert wrong.details["followed"] == "(`id` int, `v` int) key none"


def test_a_backlog_that_ends_otherwise_than_the_source_shows_is_an_error():
    """What the source shows holds after the last statement; until there its rows were read as followed."""
    steps = [change(200, "CREATE TABLE t (id INT, v INT)"), change(300, "ALTER TABLE t ADD w INT")]
    history = begun(*steps, tables=["CREATE TABLE t (v INT, id INT, w INT)"])
    history.apply(steps[0])
    history.read_rows(SourceName("app", "t"), position(250))
    with pytest.raises(DefinitionContradicted, match=r"between binlog\.000001:250 and binlog\.000001:300"):
        history.apply(steps[1])


def test_what_is_learned_late_is_compared_with_what_was_followed():
    """A table is read when its last statement has been passed; trying again mends nothing."""
    step = change(200, "CREATE TABLE t (id INT, v INT)")
    history = begun(step, tables=["CREATE TABLE t (v INT, id INT)"], read=False)
    history.apply(step)
    history.apply(change(300, "CREATE TABLE other (id INT)"))
    history.read_rows(SourceName("app", "t"), position(350))
    with pytest.raises(DefinitionContradicted, match=r"between binlog\.000001:350"):
        history.learn(shown("CREATE TABLE t (v INT, id INT)"), position(400))
    history.go_to(position(400))
    with pytest.raises(DefinitionContradicted):
        history.pass_to(position(401))


def test_what_has_no_meaning_for_rows_is_taken_from_the_source():
    history = begun()
    history.apply(change(200, "CREATE TABLE t (id INT) CHARSET latin1"))
    assert history.confirm(shown("CREATE TABLE t (id INT) CHARSET utf8mb4"), position(210)) is None
    history.apply(change(300, "ALTER TABLE t ADD v TEXT"))
    assert history.table("app", "t").columns[1].collation == UTF8MB4


def test_a_value_of_four_bytes_that_the_source_cannot_show_is_kept():
    history = begun()
    history.apply(change(200, "CREATE TABLE t (e ENUM('\U0001f600', 'b'))"))
    assert history.confirm(shown("CREATE TABLE t (e ENUM('?', 'b'))"), position(210)) is None
    assert history.table("app", "t").columns[0].values == ("\U0001f600", "b")


def test_a_table_that_is_renamed_is_followed_under_its_new_name():
    history = begun(tables=["CREATE TABLE t (id INT)"])
    history.apply(change(200, "RENAME TABLE t TO u"))
    assert history.followed() == [SourceName("app", "u")]
    history.apply(change(300, "DROP TABLE u"))
    assert not history.followed()


def test_it_stays_bounded_and_cannot_go_back_before_what_it_folded():
    history = begun(tables=["CREATE TABLE t (id INT)"], limits={"facts_max": 4})
    for number in range(5):
        history.apply(change(200 + number, f"ALTER TABLE t ADD c{number} INT"))
    assert names(history) == ["id", "c0", "c1", "c2", "c3", "c4"]
    assert not history.covers(position(200))
    assert history.covers(position(201))
    history.go_to(position(201))
    assert names(history) == ["id", "c0", "c1"]


def test_a_history_that_was_stored_knows_what_it_knew():
    history = begun(
        change(200, "ALTER TABLE t ADD v INT"),
        tables=["CREATE TABLE t (id INT, v INT)", "CREATE TABLE u (a INT)"],
    )
    history.apply(change(200, "ALTER TABLE t ADD v INT"))
    history.apply(change(300, "ALTER TABLE t ADD w INT"))
    history.apply(change(310, "DROP TABLE u"))
    history.apply(change(315, "CREATE TABLE late SELECT 1 AS x"))
    assert history.learn(shown("CREATE TABLE late (x INT)"), position(320))
    histories = Histories()
    histories.keep(history)
    text, whole = histories.take_text()
    assert whole
    history.apply(change(330, "ALTER TABLE t ADD x INT"))
    more = histories.take_text()
    assert not more.whole
    assert len(more.text) < len(text)
    again = Histories()
    # An addition that was written twice, because its answer was lost, counts once.
    again.load(text + more.text + more.text + '{"fact": torn', make)
    again.rewrite()
    histories.rewrite()
    assert again.take_text() == histories.take_text()
    (loaded,) = again
    for where in (100, 200, 300, 310, 320, 330):
        history.go_to(position(where))
        loaded.go_to(position(where))
        for table in ("t", "u", "late"):
            assert names(loaded, table) == names(history, table)
    assert names(loaded) == ["id", "v", "w", "x"]
    assert names(loaded, "u") is None
    assert names(loaded, "late") == ["x"]


def test_histories_of_the_last_servers_are_kept():
    histories = Histories()
    for server in range(SERVERS_MAX + 1):
        history = SchemaHistory(make)
        history.begin(position(100, server=str(server)), listed(["CREATE TABLE t (id INT)"]))
        histories.keep(history)
    assert histories.of("0") is None
    assert histories.covering(position(99, server="1")) is None
    assert histories.covering(position(100, server="1")) is not None


HEAD = '{"version":2}\n{"of":"7"}\n{"begin":["b.000001",4],"schemas":{}}\n'
BAD = [
    "{",
    "[]",
    '{"version":1}',
    '{"of":"7"}',
    '{"version":2}\n{"read_to":{}}',
    '{"version":2}\n{"of":"7"}\n{"begin":["b",4]}',
    HEAD + '{"begin":null}',
    HEAD + '{"first":{"columns":[{}]}}',
    HEAD + '{"first":{"schema":"a"}}',
    HEAD + '{"first":{"schema":"a","table":"b","shown":"","server":[1]}}',
    HEAD + '{"fact":{"at":["b",5]}}',
    HEAD + '{"fact":{"at":["b.000001",5],"server":[false,8],"touches":{"names":[["a"]]}}}',
    HEAD + '{"fact":3}',
    HEAD + '{"read_to":{"file":1}}',
    HEAD + '{"begin":["b.000001",4],"schemas":{"collations":{"a":"x"}}}',
]


@pytest.mark.parametrize("text", BAD)
def test_a_text_that_holds_no_histories_is_refused(text):
    with pytest.raises(DataError, match="cannot be read"):
        Histories().load(text + "\n", make)


def test_histories_stay_within_their_limit():
    histories = Histories(text_max=100)
    histories.keep(begun(tables=["CREATE TABLE t (id INT)"]))
    with pytest.raises(DataError, match="of at most 100"):
        histories.take_text()


def test_additions_are_written_whole_once_they_exceed_the_rest():
    histories = Histories(added_min=1000)
    history = begun(tables=["CREATE TABLE t (id INT)"])
    histories.keep(history)
    wholes = []
    for number in range(20):
        history.apply(change(200 + number, f"ALTER TABLE t ADD c{number} INT"))
        wholes.append(histories.take_text().whole)
    assert wholes[0]
    assert not any(wholes[1:4])
    assert any(wholes[4:])


def test_statements_that_define_no_table_are_not_kept():
    history = begun(tables=["CREATE TABLE t (id INT)"])
    assert not history.apply(change(200, "ANALYZE TABLE t"))
    assert not history.apply(change(210, "TRUNCATE TABLE t"))
    assert history.apply(change(300, "ALTER TABLE u ADD v INT"))
    assert len(history.facts) == 1


def test_a_drop_is_kept_although_an_empty_catalog_knows_nothing_of_it():
    history = begun(tables=["CREATE TABLE t (id INT)"])
    history.apply(change(200, "DROP TABLE t"))
    history.apply(change(300, "CREATE TABLE IF NOT EXISTS t (other INT)", took_effect=True))
    history.go_to(position(100))
    assert names(history) == ["id"]
    history.go_to(position(300))
    assert names(history) == ["other"]


def test_a_schema_with_a_changed_default_has_none_before():
    """A table that is created before the change has the earlier default; what that was, nobody knows."""
    steps = [
        change(200, "CREATE TABLE t (a VARCHAR(9))"),
        change(300, "ALTER DATABASE app CHARACTER SET latin2"),
        change(400, "CREATE TABLE u (a VARCHAR(9))"),
        change(500, "ALTER TABLE t ADD b INT"),
    ]
    tables = ["CREATE TABLE t (a VARCHAR(9) CHARSET utf8mb4, b INT)"]
    history = begun(*steps, tables=tables, schemas={"app": 9})
    known = []
    for step in steps:
        history.apply(step)
        known.append((names(history), names(history, "u")))
    assert known == [(None, None), (None, None), (None, ["a"]), (["a", "b"], ["a"])]


@pytest.mark.parametrize("known_before", [True, False])
def test_a_replacement_that_failed_has_dropped_the_table(known_before):
    """MariaDB logs CREATE OR REPLACE with its error, after it has dropped the old table."""
    sql = "CREATE OR REPLACE TABLE t (a INT, PRIMARY KEY (b))"
    failed = Change(position(200), Statement(sql, "app", MARIADB, failed=True))
    history = begun(failed) if known_before else begun(tables=["CREATE TABLE t (id INT)"])
    history.apply(failed)
    assert history.table("app", "t") is None
    history.go_to(position(100))
    history.go_to(position(200))
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
        assert (json.dumps(sql) in stored(history)) == kept
