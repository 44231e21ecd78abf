"""What rows mean after statements that are hard to follow: each is compared with what SELECT returned.

All cases are written first, and then read from a stored history that began before them.
"""

from __future__ import annotations

import datetime as dt
import logging
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import pymysql
import pytest
from integration.unprepared_servers import end_of
from support.ddl.backlog import PREPARE, backlog_bytes, fill, sent_bytes, written
from support.ddl.definition_cases import CASES, Case, In, Row
from support.deadline import await_true
from support.defaults import definitions_of
from support.sources.recorder import await_rows, reading

from canal_group.actors.sink.consumer_view import ConsumerView, History
from canal_group.binlog.formats.byte_cursor import ByteCursor
from canal_group.binlog.formats.event_types import EventType
from canal_group.binlog.formats.events import CHECKSUM_SIZE, HEADER_SIZE, header_of, parse_query
from canal_group.binlog.formats.query_status import FLAGS, VARIABLES, QueryStatus
from canal_group.merge.errors import UnsupportedEvent
from canal_group.merge.values.chunk import TableName

COLUMNS = (
    "SELECT COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
    " ORDER BY ORDINAL_POSITION"
)


def schema_of(case: Case) -> str:
    return f"case_{CASES.index(case)}"


class Written:
    """What the cases have written, and what is read of it."""

    def __init__(self, server, source_address):
        self.server, self.address = server, source_address(server)
        self.expected = {}
        self.cases = [case for case in CASES if server.engine in case.engines]
        with closing(server.connect()) as self.connection, self.connection.cursor() as self.cursor:
            for case in self.cases:
                self._execute(f"DROP DATABASE IF EXISTS {schema_of(case)}")
                self._execute(f"CREATE DATABASE {schema_of(case)}")
                self._execute(f"USE {schema_of(case)}")
                for sql in case.before:
                    self._execute(sql)
            self._execute(
                "CREATE DATABASE IF NOT EXISTS last", "CREATE TABLE IF NOT EXISTS last.row (id INT)"
            )
            start = end_of(server, source_address)
            self.stored = self._begun(start)
            self.start = end_of(server, source_address)
            for case in self.cases:
                self._execute(f"USE {schema_of(case)}")
                self.expected[case.name] = [
                    row for step in case.steps for row in self._step(step, schema_of(case))
                ]
            self._execute("INSERT INTO last.row VALUES (1)")
        self.found, self.error = self._read()

    def _execute(self, *statements):
        for sql in statements:
            try:
                self.cursor.execute(sql)
            except pymysql.Error as error:
                raise AssertionError(f"{sql} is refused: {error}") from error
        return self.cursor.fetchall()

    def _step(self, step, schema):
        """Execute a step; return the rows that SELECT has of it."""
        if isinstance(step, In):
            self._execute(f"SET NAMES {step.charset}")
            self.connection._execute_command(3, step.sql.encode(step.codec))
            self.connection._read_query_result()
            self._execute("SET NAMES utf8mb4")
        elif isinstance(step, Row):
            self._execute(step.sql)
            self.cursor.execute(COLUMNS, (schema, step.table))
            columns = [name for (name,) in self.cursor.fetchall()]
            listed = ", ".join("`" + name.replace("`", "``") + "`" for name in columns)
            ((*values,),) = self._execute(f"SELECT {listed} FROM `{step.table}` WHERE {step.where}")
            return [(step.table, dict(zip(columns, values, strict=True)))]
        else:
            self._execute(step.format(schema=schema))
        return []

    def _select(self, schema, table):
        for case in self.cases:
            if schema == schema_of(case) and (not case.tables or table in case.tables):
                return TableName(schema, table)
        return TableName(schema, table) if schema == "last" else None

    def _begun(self, start):
        definitions = definitions_of("s1", self._select)
        with reading(self.address, start=start, select=self._select, definitions=definitions) as recorder:
            await_true(lambda: recorder.of("caught_up") or recorder.error, "the history begins")
        return definitions.news().text

    def _read(self):
        definitions = definitions_of("s1", self._select)
        definitions.restore(self.stored)
        found, error, view = {}, None, ConsumerView(History.DROP)
        try:
            with reading(
                self.address, start=self.start, select=self._select, definitions=definitions
            ) as recorder:
                await_true(lambda: recorder.error or recorder.rows("row"), "the last row")
        except Exception as stopped:  # noqa: BLE001 - each case says what stopped all of them
            error = stopped
        for chunk in recorder.of("chunk"):
            tables = view.apply(chunk).tables
            rows = [(row, each.name) for each in tables for row in each.rows.to_pylist()]
            for row, name in sorted(rows, key=lambda found: (found[0]["_header"], found[0]["_row"])):
                if row["after"] is not None:
                    found.setdefault(name.schema, []).append((name.table, row["after"]))
        return found, error


def same(own, shown):
    """Return whether a value of ours is what SELECT returns."""
    if isinstance(shown, bytes):
        return own == shown or own == shown.decode()
    if isinstance(own, Decimal) or isinstance(shown, Decimal):
        return Decimal(own) == Decimal(shown)
    if isinstance(own, dt.datetime):
        return own.replace(tzinfo=None) == shown
    return own == shown


def difference(written, case):
    """Return how the rows of a case differ from what SELECT returned; None if they do not."""
    expected, found = written.expected[case.name], written.found.get(schema_of(case), [])
    for number, (table, row) in enumerate(expected):
        if number == len(found):
            return f"row {number} of {table} has not come: {written.error}"
        own_table, own = found[number]
        if (own_table, list(own)) != (table, list(row)):
            return f"row {number} has {own_table} {list(own)}, SELECT {table} {list(row)}"
        if not all(same(own[name], value) for name, value in row.items()):
            return f"row {number} has {own}, SELECT {row}"
    return None


def test_rows_have_the_names_and_values_that_select_returns(unprepared_server, source_address):
    written = Written(unprepared_server, source_address)
    differences = {case.name: difference(written, case) for case in written.cases}
    assert {name: said for name, said in differences.items() if said} == {}
    assert written.error is None


def test_a_first_start_in_the_middle_of_statements_that_did_nothing(unprepared, source_address):
    """MySQL logs them; the rows before and after one mean what the table is."""
    create = "CREATE TABLE IF NOT EXISTS app.t (id INT PRIMARY KEY, name VARCHAR(20), n INT, m INT)"
    unprepared.execute(
        create,
        "ALTER TABLE app.t RENAME COLUMN name TO title, RENAME COLUMN n TO m, RENAME COLUMN m TO n",
    )
    start = end_of(unprepared, source_address)
    unprepared.execute(
        "INSERT INTO app.t VALUES (1, 'a', 2, 3)", create, "INSERT INTO app.t VALUES (2, 'b', 4, 5)"
    )
    with reading(source_address(unprepared), start=start) as recorder:
        await_true(lambda: recorder.error or len(recorder.rows("t")) == 2, "two rows")
    assert [row["after"] for row in recorder.rows("t")] == [
        {"id": 1, "title": "a", "m": 2, "n": 3},
        {"id": 2, "title": "b", "m": 4, "n": 5},
    ]


def read_first(server, address, start, rows):
    """Read everything with a reader that knows nothing; return how often the source sent its backlog."""
    before = sent_bytes(server)
    with reading(address, start=start) as recorder:
        await_rows(recorder, "u", len(rows["u"]))
        await_true(lambda: recorder.of("caught_up") or recorder.error, "the end of the binlog")
        sent = sent_bytes(server) - before
    for table, expected in rows.items():
        assert [row["after"] for row in recorder.rows(table)] == expected, table
    return sent / backlog_bytes(server, start)


def test_a_first_start_reads_the_backlog_once(unprepared, source_address, caplog):
    """As far as a limit allows; and the rows are those of before and after every statement, in any case."""
    caplog.set_level(logging.WARNING)
    unprepared.execute(*PREPARE)
    start = end_of(unprepared, source_address)
    rows = written(unprepared)
    assert read_first(unprepared, source_address(unprepared), start, rows) < 1.15
    assert "source sends what follows twice" not in caplog.text
    assert read_first(unprepared, source_address(unprepared, spool_bytes_max=0), start, rows) > 1.9
    assert "source sends what follows twice" not in caplog.text
    limit = 3 << 20
    limited = source_address(unprepared, spool_bytes_max=limit)
    assert 1.3 < read_first(unprepared, limited, start, rows) < 1.85
    assert f"because {limit:,} bytes are the limit: the source sends what follows twice" in caplog.text


def test_a_statement_before_the_spool_was_full_counts(unprepared, source_address):
    """The rows before it are not read with the definition after it."""
    unprepared.execute(*PREPARE, "CREATE TABLE app.early (id INT, v INT)")
    start = end_of(unprepared, source_address)
    unprepared.execute(
        "INSERT INTO app.early VALUES (1, 2)",
        "ALTER TABLE app.early CHANGE COLUMN id v INT, CHANGE COLUMN v id INT",
        *(fill("kept", "id, note", number) for number in range(4)),
    )
    limited = source_address(unprepared, spool_bytes_max=1 << 20)
    with (
        pytest.raises(UnsupportedEvent, match="was altered since"),
        reading(limited, start=start) as recorder,
    ):
        await_true(lambda: recorder.error or recorder.rows("early"), "the error")


def test_servers_log_no_setting_of_a_session_that_is_not_in_the_table(unprepared, source_address):
    """The table of status variables and flags has all that these sessions make a server write."""
    mariadb = unprepared.engine == "mariadb"
    start = end_of(unprepared, source_address)
    sessions = [
        "SET NAMES latin1",
        "SET NAMES utf8mb4, time_zone = '+03:00', lc_time_names = 'de_DE'",
        "SET foreign_key_checks = 0, unique_checks = 0, sql_auto_is_null = 1, autocommit = 1",
        "SET sql_mode = 'ANSI_QUOTES', explicit_defaults_for_timestamp = 0",
        "SET auto_increment_increment = 3, timestamp = 1.5",
    ]
    with closing(unprepared.connect()) as connection, connection.cursor() as cursor:
        for number, session in enumerate(sessions):
            for sql in (
                session,
                f"CREATE TABLE app.t{number} (id INT)",
                f"CREATE VIEW app.v{number} AS SELECT 1",
            ):
                cursor.execute(sql)
        for sql in (
            "CREATE DATABASE other",
            "DROP DATABASE other",
            "DROP TABLE app.t0, app.t1",
            "CREATE USER u",
        ):
            cursor.execute(sql)
        cursor.execute("DROP USER u")
    seen, bits = set(), 0
    for query in logged(unprepared, start):
        cursor = ByteCursor(query.status)
        while cursor:
            code = cursor.u8()
            assert code in VARIABLES[mariadb], (query.sql, query.status[cursor.at - 1 :])
            if code == 0:
                bits |= int.from_bytes(query.status[cursor.at : cursor.at + 4], "little")
            VARIABLES[mariadb][code].take(cursor, QueryStatus())
            seen.add(code)
    assert seen >= {0, 1, 4, 6, 129 if mariadb else 17}
    assert {bit for bit in range(32) if bits >> bit & 1} <= FLAGS.keys()


def logged(server, start):
    """Yield the QUERY events of a server's binlog from a position on."""
    ((folder,),) = server.execute("SELECT @@datadir")
    data, at = Path(folder, start.file).read_bytes(), start.offset
    while at < len(data):
        header = header_of(data[at : at + HEADER_SIZE])
        if header.event_type == EventType.QUERY:
            yield parse_query(data[at + HEADER_SIZE : at + header.size - CHECKSUM_SIZE])
        at += header.size
