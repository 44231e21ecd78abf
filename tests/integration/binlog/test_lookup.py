# ruff: noqa: DTZ001 - DATETIME has no zone
"""What MariaDB's table maps leave open, asked of the source by a live stream."""

from __future__ import annotations

import contextlib
import datetime as dt
from types import SimpleNamespace

import pytest
from support.sources.recorder import await_rows, reading

from canal_group.binlog.server.server_lookup import ServerLookup
from canal_group.binlog.server.source import connect
from canal_group.merge.values.position import Position

ASKS = "SELECT COUNT(*) FROM mysql.general_log WHERE argument LIKE 'SHOW CREATE TABLE%`t`'"
#: stored with zeros at their ends, which a binlog does not hold
VALUES = ("6ccd780c-baba-4026-9564-5b8c65600000", "1.2.0.0", "1:2:3:4::")
BYTES = (
    bytes.fromhex("6ccd780cbaba402695645b8c65600000"),
    b"\1\2\0\0",
    bytes.fromhex("0001000200030004") + bytes(8),
)


@pytest.fixture
def address(mariadb, source_address):
    """A user that may read the binlog, and know of tables without reading them."""
    mariadb.execute(
        "CREATE OR REPLACE USER 'knows'@'127.0.0.1' IDENTIFIED BY 'x'",
        "GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO 'knows'@'127.0.0.1'",
        "GRANT REFERENCES ON app.* TO 'knows'@'127.0.0.1'",
        "CREATE TABLE app.t (id INT PRIMARY KEY, u UUID, i4 INET4, i6 INET6, b BINARY(16))",
    )
    return source_address(mariadb, user="knows", password="x")


@pytest.fixture
def full(mariadb):
    """The server logs names."""
    mariadb.execute("SET GLOBAL binlog_row_metadata = 'FULL'")
    yield
    mariadb.execute("SET GLOBAL binlog_row_metadata = DEFAULT")


def end_of_log(server):
    ((file, offset, *_),) = server.execute("SHOW MASTER STATUS")
    return Position(file, offset)


def insert(number, values=VALUES):
    listed = ", ".join(f"'{value}'" for value in values)
    return f"INSERT INTO app.t (id, u, i4, i6, b) VALUES ({number}, {listed}, '{number}')"


def addresses(row):
    return row["after"]["u"], row["after"]["i4"], row["after"]["i6"]


@contextlib.contextmanager
def logged(server):
    """Log all statements, so that they can be counted."""
    server.execute(
        "TRUNCATE mysql.general_log", "SET GLOBAL log_output = 'TABLE'", "SET GLOBAL general_log = ON"
    )
    try:
        yield
    finally:
        server.execute("SET GLOBAL general_log = OFF", "SET GLOBAL log_output = 'FILE'")


def test_addresses_are_text_and_a_table_is_asked_for_once(mariadb, address):
    with logged(mariadb), reading(address) as recorder:
        mariadb.execute(
            *[insert(number) for number in range(50)],
            "UPDATE app.t SET u = NULL WHERE id = 0",
            "FLUSH TABLES",  # the table has another number from here on, and is the same
            insert(50),
        )
        await_rows(recorder, "t", 52)
        ((asked,),) = mariadb.execute(ASKS)
    rows = recorder.rows("t")
    assert {addresses(row) for row in rows[:50]} == {VALUES}
    assert (addresses(rows[50]), rows[50]["before"]["u"]) == ((None, *VALUES[1:]), VALUES[0])
    assert rows[51]["after"]["b"] == b"50".ljust(16, b"\0")
    assert asked <= 2, "at most once more, after FLUSH"


def test_a_column_that_becomes_another_is_read_as_what_it_is(mariadb, address):
    """The table map is the same before and after: the rows stand in batches of their own all the same."""
    with reading(address) as recorder:
        mariadb.execute(insert(1))
        await_rows(recorder, "t", 1)
        mariadb.execute("ALTER TABLE app.t MODIFY u BINARY(16), DROP b, ADD new INT FIRST")
        mariadb.execute("INSERT INTO app.t (id, u, i4) VALUES (2, 'x', '1.2.3.4')")
        await_rows(recorder, "t", 2)
    one, two = recorder.rows("t")
    assert addresses(one) == VALUES
    assert addresses(two) == (b"x".ljust(16, b"\0"), "1.2.3.4", None)


def test_without_the_definition_of_that_time_addresses_are_bytes(full, mariadb, address):
    """1. Rows are logged, with names; 2. the table is altered; 3. the rows are read."""
    start = end_of_log(mariadb)
    mariadb.execute(
        insert(1), "ALTER TABLE app.t ADD new INT FIRST, CHANGE u uu UUID, MODIFY i4 VARCHAR(20), DROP b"
    )
    with reading(address, start) as recorder:
        await_rows(recorder, "t", 1)
    assert addresses(recorder.rows("t")[0]) == BYTES


@pytest.mark.parametrize("loss", ["DROP TABLE app.t", "REVOKE REFERENCES ON app.* FROM 'knows'@'127.0.0.1'"])
def test_without_an_answer_addresses_are_bytes(full, mariadb, address, loss):
    start = end_of_log(mariadb)
    mariadb.execute(insert(1), loss)
    with reading(address, start) as recorder:
        await_rows(recorder, "t", 1)
    assert addresses(recorder.rows("t")[0]) == BYTES


def test_fractions_of_times_in_the_old_format(mariadb, address):
    mariadb.execute("SET GLOBAL mysql56_temporal_format = OFF")
    try:
        mariadb.execute(
            "CREATE TABLE app.o (id INT PRIMARY KEY, t TIME(3), d DATETIME(6), s TIMESTAMP(1), p TIME)"
        )
    finally:
        mariadb.execute("SET GLOBAL mysql56_temporal_format = ON")
    with reading(address) as recorder:
        mariadb.execute(
            "SET time_zone = '+00:00'",
            "INSERT INTO app.o VALUES "
            "(1, '-01:02:03.004', '2020-01-02 03:04:05.987654', '2001-09-09 01:46:40.1', '01:00:00')",
        )
        await_rows(recorder, "o", 1)
    assert recorder.rows("o")[0]["after"] == {
        "id": 1,
        "t": -dt.timedelta(hours=1, minutes=2, seconds=3, milliseconds=4),
        "d": dt.datetime(2020, 1, 2, 3, 4, 5, 987654),
        "s": dt.datetime(2001, 9, 9, 1, 46, 40, 100_000, dt.UTC),
        "p": dt.timedelta(hours=1),
    }


def test_the_columns_of_a_key_are_in_its_order(mariadb, address):
    mariadb.execute("CREATE TABLE app.k (a INT, b INT, c INT, PRIMARY KEY (c, a))")
    with contextlib.closing(connect(address)) as connection:
        found = ServerLookup(address, connection).columns(SimpleNamespace(schema="app", table="k"))
    assert {column.name: column.key_ordinal for column in found} == {"a": 2, "b": 0, "c": 1}
