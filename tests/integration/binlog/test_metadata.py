"""Servers with their default row metadata: columns get their names from the definitions of tables.

MySQL logs signs and charsets (MINIMAL), MariaDB nothing (NO_LOG). Most tests execute all statements before
the reader starts.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from integration.unprepared_servers import end_of
from support.deadline import await_true
from support.defaults import definitions_of
from support.sources.recorder import await_rows, of_app, reading

from canal_group.merge.errors import DefinitionContradicted, UnsupportedEvent
from canal_group.merge.values.position import Position


def after(recorder, table):
    return [row["after"] for row in recorder.rows(table)]


def test_rows_have_the_names_signs_values_and_key_of_their_table(unprepared, source_address):
    start = end_of(unprepared, source_address)
    unprepared.execute(
        "CREATE TABLE app.t (b INT UNSIGNED NOT NULL, a SMALLINT, e ENUM('x', 'y''z'), s SET('p', 'q'),"
        " c VARCHAR(20) CHARACTER SET latin1, d DECIMAL(10, 3), m DATETIME(3), w VARBINARY(9), j JSON,"
        " PRIMARY KEY (b, a))",
        "INSERT INTO app.t VALUES (4000000000, -7, 'y''z', 'p,q', 'caf\u00e9', 1.5,"
        " '2026-01-31 12:00:00.125', 'xyz', '[1]')",
    )
    with reading(source_address(unprepared), start=start) as recorder:
        await_rows(recorder, "t", 1)
        (row,) = after(recorder, "t")
        assert row["b"] == 4_000_000_000
        assert row["a"] == -7
        assert (row["e"], row["s"], row["c"], row["w"]) == ("y'z", "p,q", "caf\u00e9", b"xyz")
        assert str(row["d"]) == "1.500"
        assert row["m"].microsecond == 125_000
        (chunk,) = [each for each in recorder.of("chunk") if each.tables]
        assert chunk.tables[0].rows.schema.metadata[b"primary_key"] == b'["b", "a"]'


def test_rows_before_an_alter_are_read_with_the_table_as_it_was(unprepared, source_address):
    start = end_of(unprepared, source_address)
    unprepared.execute(
        "CREATE TABLE app.t (id INT PRIMARY KEY, v INT)",
        "INSERT INTO app.t VALUES (1, 10)",
        "ALTER TABLE app.t ADD COLUMN n VARCHAR(10) AFTER id",
        "INSERT INTO app.t VALUES (2, 'two', 20)",
        "ALTER TABLE app.t RENAME COLUMN v TO w",
        "INSERT INTO app.t VALUES (3, 'three', 30)",
        "ALTER TABLE app.t DROP COLUMN n, ADD COLUMN e ENUM('a', 'b')",
        "INSERT INTO app.t VALUES (4, 40, 'b')",
    )
    with reading(source_address(unprepared), start=start) as recorder:
        await_rows(recorder, "t", 4)
    assert after(recorder, "t") == [
        {"id": 1, "v": 10},
        {"id": 2, "n": "two", "v": 20},
        {"id": 3, "n": "three", "w": 30},
        {"id": 4, "w": 40, "e": "b"},
    ]


def test_tables_that_swap_their_names_keep_their_columns(unprepared, source_address):
    """As gh-ost and pt-online-schema-change do it."""
    start = end_of(unprepared, source_address)
    unprepared.execute(
        "CREATE TABLE app.t (id INT PRIMARY KEY, v INT)",
        "INSERT INTO app.t VALUES (1, 10)",
        "CREATE TABLE app._t_gho LIKE app.t",
        "ALTER TABLE app._t_gho ADD COLUMN extra INT",
        "INSERT INTO app._t_gho (id, v) SELECT id, v FROM app.t",
        "RENAME TABLE app.t TO app._t_del, app._t_gho TO app.t",
        "INSERT INTO app.t VALUES (2, 20, 200)",
        "DROP TABLE app._t_del",
    )
    with reading(source_address(unprepared), start=start) as recorder:
        await_rows(recorder, "t", 2)
    assert after(recorder, "t") == [{"id": 1, "v": 10}, {"id": 2, "v": 20, "extra": 200}]


def test_a_table_of_a_query_is_known_from_its_first_row(unprepared, source_address):
    start = end_of(unprepared, source_address)
    unprepared.execute(
        "CREATE TABLE app.source (id INT PRIMARY KEY, v VARCHAR(5))",
        "INSERT INTO app.source VALUES (1, 'one')",
        "CREATE TABLE app.t AS SELECT * FROM app.source",
    )
    with reading(source_address(unprepared), start=start) as recorder:
        await_rows(recorder, "t", 1)
    assert after(recorder, "t") == [{"id": 1, "v": "one"}]


def test_a_table_that_no_statement_touches_is_what_the_server_shows(unprepared, source_address):
    unprepared.execute("CREATE TABLE app.t (id INT PRIMARY KEY, v INT)")
    start = end_of(unprepared, source_address)
    unprepared.execute("INSERT INTO app.t VALUES (1, 10)")
    with reading(source_address(unprepared), start=start) as recorder:
        await_rows(recorder, "t", 1)
        unprepared.execute("ALTER TABLE app.t ADD COLUMN w INT FIRST", "INSERT INTO app.t VALUES (5, 2, 20)")
        await_rows(recorder, "t", 2)
    assert after(recorder, "t") == [{"id": 1, "v": 10}, {"w": 5, "id": 2, "v": 20}]


def test_rows_of_a_table_altered_but_not_created_since_are_refused(unprepared, source_address):
    unprepared.execute("CREATE TABLE app.t (id INT PRIMARY KEY, v INT)")
    start = end_of(unprepared, source_address)
    unprepared.execute(
        "INSERT INTO app.t VALUES (1, 10)",
        "ALTER TABLE app.t ADD COLUMN w INT FIRST",
        "INSERT INTO app.t VALUES (5, 2, 20)",
    )
    with (
        pytest.raises(UnsupportedEvent, match=r"app\.t .*was altered since") as told,
        reading(source_address(unprepared), start=start) as recorder,
    ):
        await_true(lambda: recorder.error, "the reader stops")
    position = told.value.hint.split()[2]
    file, _, offset = position.rpartition(":")
    with reading(source_address(unprepared), start=replace(start, file=file, offset=int(offset))) as recorder:
        await_rows(recorder, "t", 1)
    assert after(recorder, "t") == [{"w": 5, "id": 2, "v": 20}]


def test_a_restart_before_an_alter_reads_the_table_as_it_was(unprepared, source_address):
    """1. A reader reads past an ALTER. 2. A rewind: the next one begins before it, and knows as much."""
    address = source_address(unprepared)
    definitions = definitions_of(address.name, of_app)
    unprepared.execute("CREATE TABLE app.t (id INT PRIMARY KEY, v INT)")
    start = end_of(unprepared, source_address)
    unprepared.execute("INSERT INTO app.t VALUES (1, 10)")
    with reading(address, start=start, definitions=definitions) as recorder:
        await_rows(recorder, "t", 1)
        unprepared.execute("ALTER TABLE app.t ADD COLUMN w INT FIRST", "INSERT INTO app.t VALUES (5, 2, 20)")
        await_rows(recorder, "t", 2)
        (second,) = [each for each in recorder.of("chunk") if each.tables][-1:]
        middle = Position(
            second.names[second.headers[-1]["file"]],
            int(second.headers[-1]["begin_offset"]),
            server=start.server,
        )
    with reading(address, start=middle, definitions=definitions) as again:
        await_rows(again, "t", 1)
    assert after(again, "t") == [{"w": 5, "id": 2, "v": 20}]


def test_an_account_that_sees_no_table_is_told_before_it_reads(unprepared, source_address):
    unprepared.execute(
        "CREATE TABLE app.t (id INT PRIMARY KEY)",
        "DROP USER IF EXISTS blind@'%'",
        "CREATE USER blind@'%' IDENTIFIED BY 'x'",
        "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO blind@'%'",
    )
    from canal_group.binlog.server.preflight.preflight import preflight

    checks = {each.name: each for each in preflight(source_address(unprepared, user="blind", password="x"))}
    found = checks["SELECT or REFERENCES"]
    assert not found.ok
    assert "rows come without column names" in found.found
    assert found.fix.startswith("GRANT REFERENCES ON *.*")


def test_a_definition_that_contradicts_the_rows_is_refused(unprepared, source_address, monkeypatch):
    """A statement that the catalog would read wrong: here, a type that is not followed."""
    from canal_group.binlog.schema.catalog import Catalog

    start = end_of(unprepared, source_address)
    unprepared.execute(
        "CREATE TABLE app.t (id INT PRIMARY KEY, v INT)",
        "ALTER TABLE app.t MODIFY v BIGINT",
        "INSERT INTO app.t VALUES (1, 10)",
    )
    whole = Catalog.apply
    monkeypatch.setattr(
        Catalog, "apply", lambda self, each: whole(self, replace(each, sql=each.sql.replace("BIGINT", "INT")))
    )
    with (
        pytest.raises(DefinitionContradicted, match="the source shows `v` bigint"),
        reading(source_address(unprepared), start=start) as recorder,
    ):
        await_true(lambda: recorder.error, "the reader stops")


@pytest.mark.parametrize("reads", ["backlog", "live"])
def test_statements_of_other_sessions_do_not_stop_the_reader(unprepared, source_address, reads):
    """Who may create tables in a schema that is left out writes what is hard to read; kept rows go on."""
    quotes = "'" * 60_000
    size = 15 << 20
    statements = [
        "CREATE TABLE app.t (id INT PRIMARY KEY)",
        "INSERT INTO app.t VALUES (1)",
        "DROP DATABASE IF EXISTS own",
        "CREATE DATABASE own",
        f"CREATE TABLE own.a (c VARCHAR({'0' * 5_000}9), KEY i (c))",
        f"DROP INDEX i ON own.a -- {quotes}",
        f"CREATE TABLE own.b (c INT) /* {quotes} */",
        f"/* {'*' * size} */ CREATE TABLE own.c (c INT)",
        f"CREATE VIEW own.d AS SELECT '{'x' * 1_000_000}' AS a",
        f"CREATE TABLE own.e (c INT CHECK (1 = 1{' + 1' * 500}))",
        "INSERT INTO app.t VALUES (2)",
        "ALTER TABLE app.t ADD COLUMN v INT",
        "INSERT INTO app.t VALUES (3, 30)",
    ]
    if reads == "live":  # a kept table that only the source can tell of
        statements += [
            f"ALTER TABLE app.t /* {'*' * (2 << 20)} */ CHANGE v w INT",
            "INSERT INTO app.t VALUES (4, 40)",
        ]
    start = end_of(unprepared, source_address)
    if reads == "backlog":
        unprepared.execute(*statements)
    with reading(source_address(unprepared), start=start) as recorder:
        if reads == "live":
            await_true(lambda: recorder.of("caught_up") or recorder.error, "the history begins")
            unprepared.execute(*statements)
        await_rows(recorder, "t", 4 if reads == "live" else 3)
    assert after(recorder, "t")[:3] == [{"id": 1}, {"id": 2}, {"id": 3, "v": 30}]
    assert after(recorder, "t")[3:] == ([{"id": 4, "w": 40}] if reads == "live" else [])
