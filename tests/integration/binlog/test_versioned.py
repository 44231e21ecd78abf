"""System-versioned tables of a real MariaDB: a mirror of what consumers get is what the server selects."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import random
from collections import Counter

import pymysql
import pytest
from integration.unprepared_servers import end_of
from support.sources.recorder import await_rows, reading

from canal_group.actors.shard.row_search import changes_of
from canal_group.actors.sink.consumer_view import ConsumerView, History
from canal_group.merge.errors import UnsupportedEvent
from canal_group.merge.rows.row_key import RowKey
from canal_group.merge.values.chunk import Op, TableName
from canal_group.merge.values.rows.absent import absent_in

EXPLICIT = """id INT PRIMARY KEY, a INT, s TIMESTAMP(6) GENERATED ALWAYS AS ROW START,
    e TIMESTAMP(6) GENERATED ALWAYS AS ROW END, b TEXT, PERIOD FOR SYSTEM_TIME (s, e)"""
#: name -> columns and options
TABLES = {
    "implicit": "(id INT PRIMARY KEY, a INT, b TEXT UNIQUE) WITH SYSTEM VERSIONING",
    "explicit": f"({EXPLICIT}) WITH SYSTEM VERSIONING",
    "partly": "(id INT PRIMARY KEY, a INT WITHOUT SYSTEM VERSIONING, b TEXT) WITH SYSTEM VERSIONING",
    "divided": """(id INT PRIMARY KEY, a INT, b TEXT) WITH SYSTEM VERSIONING
        PARTITION BY SYSTEM_TIME (PARTITION past HISTORY, PARTITION present CURRENT)""",
    "keyless": "(id INT, a INT, b TEXT) WITH SYSTEM VERSIONING",
}
STATEMENTS = (
    "INSERT IGNORE INTO app.{table} (id, a, b) VALUES ({one}, {a}, 'b{one}')",
    "INSERT IGNORE INTO app.{table} (id, a, b) VALUES ({one}, {a}, 'b'), ({two}, 7, NULL), (30, 7, 'c')",
    "INSERT INTO app.{table} (id, a, b) VALUES ({one}, {a}, NULL) ON DUPLICATE KEY UPDATE a = {a} + 1",
    "REPLACE INTO app.{table} (id, a, b) VALUES ({one}, {a}, NULL), ({two}, {a}, 'b{two}')",
    "UPDATE app.{table} SET a = {a} WHERE id IN ({one}, {two})",
    "UPDATE app.{table} SET a = a + 1, b = NULL WHERE id >= {one}",
    "UPDATE app.{table} SET a = a WHERE id = {one}",
    "UPDATE IGNORE app.{table} SET id = {two} WHERE id = {one}",
    "DELETE FROM app.{table} WHERE id = {one}",
    "DELETE FROM app.{table} WHERE id BETWEEN {one} AND {two}",
    "DELETE HISTORY FROM app.{table} BEFORE SYSTEM_TIME NOW(6) - INTERVAL 1 MICROSECOND",
    "DELETE HISTORY FROM app.{table}",
    # The same time for several changes of a row, and one before the row began.
    "SET timestamp = {a} + 1700000000",
    "SET timestamp = DEFAULT",
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
)


def play(server, seed, statements, option):
    """Execute random statements in one session; some of them are refused."""
    chance = random.Random(seed)
    with contextlib.closing(server.connect()) as connection, connection.cursor() as cursor:
        cursor.execute(option)
        for _ in range(statements):
            one, two = sorted(chance.choices(range(1, 12), k=2))
            table = chance.choice(list(TABLES))
            statement = chance.choice(STATEMENTS).format(
                table=table, one=one, two=two, a=chance.randrange(99)
            )
            with contextlib.suppress(pymysql.err.MySQLError):
                cursor.execute(statement)
        cursor.execute("COMMIT")
        cursor.execute("SET timestamp = DEFAULT")
        cursor.execute("INSERT INTO app.last VALUES (1)")


class Mirror:
    """The rows of a table, as a consumer has them that applies each change by the table's key."""

    def __init__(self):
        #: (name, value) of each column -> how often it is there
        self.rows = Counter()
        self.applied = Counter()

    def apply(self, rows):
        key = json.loads(rows.schema.metadata[b"primary_key"])
        absent = {side: absent_in(rows, side) for side in ("before", "after")}
        columns = [field.name for field in rows.schema.field("after").type]
        for index, change in enumerate(rows.to_pylist()):
            self.applied[change["_op"]] += 1
            images = {}
            for side, bits in absent.items():
                image = change[side]
                if image is not None:
                    images[side] = {
                        name: image[name]
                        for at, name in enumerate(columns)
                        if bits is None or not bits[index, at]
                    }
            old = {}
            if change["_op"] != Op.INSERT:
                before = images["before"]
                assert set(key) <= set(before)
                found = [
                    row for row in self.rows if all(dict(row)[name] == before[name] for name in key or before)
                ]
                assert len(found) == 1, (change, found)
                assert before.items() <= dict(found[0]).items()
                old = dict(found[0])
                self.rows[found[0]] -= 1
                self.rows = +self.rows
            if change["_op"] != Op.DELETE:
                row = tuple((old | images["after"]).items())
                assert [name for name, _ in row] == columns, change
                if key:
                    values = [dict(row)[name] for name in key]
                    assert not any([dict(each)[name] for name in key] == values for each in self.rows), change
                self.rows[row] += 1


def selected(server, table, history):
    """Return the rows of a table as the server shows them."""
    shown, versions = "*", ""
    if history is History.KEEP:
        shown, versions = "*" if table == "explicit" else "*, row_start, row_end", "FOR SYSTEM_TIME ALL"
    with contextlib.closing(server.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00'")
        cursor.execute(f"SELECT {shown} FROM app.{table} {versions}")
        return Counter(cursor.fetchall())


def without_zone(value):
    return value.replace(tzinfo=None) if isinstance(value, dt.datetime) else value


@contextlib.contextmanager
def logging(server, metadata):
    """Let a server log this much about tables."""
    (before,) = server.execute("SELECT @@GLOBAL.binlog_row_metadata")[0]
    server.execute(f"SET GLOBAL binlog_row_metadata = {metadata}")
    try:
        yield
    finally:
        server.execute(f"SET GLOBAL binlog_row_metadata = {before}")


@pytest.mark.parametrize(
    ("seed", "metadata", "image"),
    [(1, "NO_LOG", "FULL"), (2, "FULL", "MINIMAL"), (3, "NO_LOG", "NOBLOB")],
)
def test_a_mirror_of_versioned_tables_is_what_the_server_selects(
    mariadb, source_address, seed, metadata, image
):
    start = end_of(mariadb, source_address)
    with logging(mariadb, metadata):
        tables = (f"CREATE TABLE app.{name} {table}" for name, table in TABLES.items())
        mariadb.execute(*tables, "CREATE TABLE app.last (id INT)")
        play(mariadb, seed, 400, f"SET SESSION binlog_row_image = {image}")
    with reading(source_address(mariadb), start=start) as recorder:
        await_rows(recorder, "last", 1)
    for history in History:
        if history is History.KEEP and image == "NOBLOB":
            continue  # a row of the past is logged without the TEXT that a change did not touch
        mirrors = {name: Mirror() for name in (*TABLES, "last")}
        view = ConsumerView(history)
        for chunk in recorder.chunks:
            for table in view.apply(chunk).tables:
                mirrors[table.name.table].apply(table.rows)
        for name in TABLES:
            rows = mirrors[name].rows.items()
            mirrored = Counter({tuple(without_zone(value) for _, value in row): n for row, n in rows})
            assert mirrored == selected(mariadb, name, history), (history, name)
            assert min(mirrors[name].applied[op] for op in (Op.INSERT, Op.UPDATE, Op.DELETE)) > 5


def ops(recorder):
    """Return a consumer's rows: operations, and the image after, or before."""
    view = ConsumerView(History.DROP)
    return [
        (Op(row["_op"]), *(row["after"] or row["before"]).values())
        for chunk in recorder.chunks
        for table in view.apply(chunk).tables
        if table.name.table == "t"
        for row in table.rows.to_pylist()
    ]


def test_a_table_that_becomes_versioned_and_is_so_no_longer_is_followed(mariadb, source_address):
    start = end_of(mariadb, source_address)
    mariadb.execute(
        "CREATE TABLE app.t (id INT PRIMARY KEY, a INT)",
        "INSERT INTO app.t VALUES (1, 1)",
        "ALTER TABLE app.t ADD SYSTEM VERSIONING",
        "UPDATE app.t SET a = 2",
        "SET system_versioning_alter_history = KEEP",
        "ALTER TABLE app.t ADD COLUMN b INT",
        "UPDATE app.t SET a = 3",
        "ALTER TABLE app.t DROP SYSTEM VERSIONING",
        "UPDATE app.t SET a = 4",
        "DELETE FROM app.t",
        "CREATE TABLE app.last (id INT)",
        "INSERT INTO app.last VALUES (1)",
    )
    with reading(source_address(mariadb), start=start) as recorder:
        await_rows(recorder, "last", 1)
    assert ops(recorder) == [
        (Op.INSERT, 1, 1),
        (Op.UPDATE, 1, 2),
        (Op.UPDATE, 1, 3, None),
        (Op.UPDATE, 1, 4, None),
        (Op.DELETE, 1, 4, None),
    ]


@pytest.mark.parametrize("columns", ["id INT PRIMARY KEY, a TEXT UNIQUE", "id INT, row_time TIMESTAMP(6)"])
def test_named_rows_of_a_possibly_versioned_table_need_its_definition(mariadb, source_address, columns):
    """As a plain table's rows with names are not."""
    with logging(mariadb, "FULL"):
        mariadb.execute(
            f"CREATE TABLE app.t ({columns}) WITH SYSTEM VERSIONING",
            "CREATE TABLE app.plain (id INT PRIMARY KEY, made TIMESTAMP(6) NOT NULL DEFAULT NOW(6),"
            " changed TIMESTAMP(6) NOT NULL DEFAULT NOW(6))",
        )
        start = end_of(mariadb, source_address)
        mariadb.execute(
            "INSERT INTO app.plain (id) VALUES (1)",
            "ALTER TABLE app.plain ADD COLUMN b INT",
            "INSERT INTO app.t (id) VALUES (1)",
            "ALTER TABLE app.t DROP SYSTEM VERSIONING",
        )
        with (
            pytest.raises(UnsupportedEvent, match=r"app\.t may be system-versioned, or have hidden columns"),
            reading(source_address(mariadb), start=start) as recorder,
        ):
            await_rows(recorder, "t", 1)
    assert len(recorder.rows("plain")) == 1


def test_a_table_with_transaction_id_periods_is_refused_with_a_hint(mariadb, source_address):
    start = end_of(mariadb, source_address)
    mariadb.execute(
        f"CREATE TABLE app.t ({EXPLICIT.replace('TIMESTAMP(6)', 'BIGINT UNSIGNED')}) WITH SYSTEM VERSIONING",
        "INSERT INTO app.t (id) VALUES (1)",
    )
    with (
        pytest.raises(UnsupportedEvent, match="changes rows") as told,
        reading(source_address(mariadb), start=start) as recorder,
    ):
        await_rows(recorder, "t", 1)
    assert "give it a period of TIMESTAMP(6)" in told.value.hint


def test_the_last_changes_of_a_versioned_row_are_found_by_its_key(mariadb, source_address):
    mariadb.execute(
        "CREATE TABLE app.searched (id INT PRIMARY KEY, a INT) WITH SYSTEM VERSIONING",
        "INSERT INTO app.searched VALUES (1, 1), (2, 1)",
        "UPDATE app.searched SET a = 2",
        "DELETE FROM app.searched WHERE id = 1",
    )
    key = RowKey.parse("app.searched:1")
    found = changes_of(source_address(mariadb), TableName, ConsumerView(History.DROP), key, 1 << 20)
    assert [change["op"] for change in found["changes"]] == ["INSERT", "UPDATE", "DELETE"]
    assert found["unknown"] == 0
