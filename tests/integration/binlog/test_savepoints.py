"""Rows that a real MariaDB rolled back and logged all the same: the stream has what SELECT has afterwards."""

from __future__ import annotations

import contextlib
import random
from collections import Counter

import pymysql
import pytest
from support.deadline import await_true
from support.defaults import chunk_limits
from support.soak import first_quick
from support.sources.recorder import reading

from canal_group.binlog.server.binlog_stream import resume_after
from canal_group.merge.errors import UnsupportedEvent
from canal_group.merge.values.chunk import Op

TRANSACTIONS = 60
NAMES = ("a", "A", "`ä`", "`a `", "b", "`we``ird`")


def transaction(chance):
    """Return statements of a transaction with savepoints, some of them wrong."""
    begin, *ends = chance.choice(
        [("BEGIN", "COMMIT"), ("BEGIN", "COMMIT"), ("BEGIN", "ROLLBACK")]
        + [
            ("XA START 'x'", "XA END 'x'", "XA PREPARE 'x'", f"XA {end} 'x'")
            for end in ("COMMIT", "ROLLBACK")
        ]
    )
    yield begin
    for _ in range(chance.randrange(2, 14)):
        row = chance.randrange(8)
        name = chance.choice(NAMES)
        yield chance.choice(
            [
                f"INSERT INTO app.i (v) VALUES ({row}), ({row})",
                f"INSERT INTO app.j (v) VALUES ({row})",
                f"UPDATE app.i SET v = v + 1 WHERE v = {row}",
                f"DELETE FROM app.j WHERE v = {row}",
                f"INSERT INTO app.m (v) VALUES ({row})",
                f"UPDATE app.m SET v = v + 1 WHERE v = {row}",
                "CREATE OR REPLACE TEMPORARY TABLE app.x (a INT)",
                f"SAVEPOINT {name}",
                f"SAVEPOINT {name}",
                f"ROLLBACK TO {name}",
                f"ROLLBACK TO SAVEPOINT {name}",
                f"RELEASE SAVEPOINT {name}",
            ]
        )
    yield from ends


def replayed(recorder):
    """Return the rows of each table after the changes of a stream."""
    found = {name: Counter() for name in "ijm"}
    for chunk in recorder.chunks:
        assert [int(rows) for rows in chunk.headers["rows"]] == counted(chunk)
        for header in range(len(chunk.headers)):
            changes = [
                (row["_row"], name, row)
                for name in found
                for each in chunk.tables
                if each.name.table == name
                for row in each.rows.to_pylist()
                if row["_header"] == header
            ]
            for _, name, row in sorted(changes, key=lambda change: change[0]):
                if row["_op"] != Op.INSERT:
                    before = tuple(row["before"].values())
                    assert found[name][before], f"{name} has no row {before} to change"
                    found[name][before] -= 1
                if row["_op"] != Op.DELETE:
                    found[name][tuple(row["after"].values())] += 1
    return {name: +rows for name, rows in found.items()}


def counted(chunk):
    found = Counter()
    for rows in (*(table.rows for table in chunk.tables), *([chunk.statements] if chunk.statements else [])):
        found.update(rows.column("_header").to_pylist())
    return [found[header] for header in range(len(chunk.headers))]


def selected(server):
    return {name: Counter(server.execute(f"SELECT id, v FROM app.{name}")) for name in "ijm"}


@pytest.fixture
def server(mariadb):
    mariadb.execute(
        *(
            f"CREATE TABLE app.{name} (id INT AUTO_INCREMENT PRIMARY KEY, v INT) ENGINE = {engine}"
            for name, engine in (("i", "InnoDB"), ("j", "InnoDB"), ("m", "MyISAM"))
        )
    )
    return mariadb


@pytest.mark.parametrize("seed", first_quick(1, range(8)))
def test_transactions_by_chance(server, source_address, seed):
    chance = random.Random(seed)
    with reading(source_address(server)) as recorder:
        connection = server.connect()
        with connection, connection.cursor() as cursor:
            for _ in range(TRANSACTIONS):
                for sql in transaction(chance):
                    with contextlib.suppress(pymysql.MySQLError):  # a savepoint that was not set
                        cursor.execute(sql)
            cursor.execute("CREATE TABLE app.last (a INT)")
        await_true(
            lambda: recorder.statements[-1:] and "last" in recorder.statements[-1]["sql"], "all is read"
        )
    assert replayed(recorder) == selected(server)


def inserted(*values):
    """Return statements that each insert 60 rows of a value."""
    return [f"INSERT INTO app.i (v) SELECT {value} FROM seq_1_to_60" for value in values]


def values(recorder):
    return [row["after"]["v"] for row in recorder.rows("i")]


def test_rows_that_were_handed_over_cannot_be_taken_back(server, source_address):
    """1. A chunk ends after the savepoint, and the rollback stops the shard. 2. A restart does not help."""
    position = None

    def stop(*statements):
        nonlocal position
        with reading(source_address(server), position, chunk_limits(rows_max=100)) as recorder:
            server.execute(*statements, database="app")
            await_true(lambda: recorder.error, "the stream stops")
            position = resume_after(recorder.chunks[-1]) if recorder.chunks else position

    begin = ("BEGIN", "INSERT INTO app.m VALUES (1, 1)", *inserted(1), "SAVEPOINT a")
    for statements in ((*begin, *inserted(2, 3), "ROLLBACK TO a", "COMMIT"), ("DO 1",)):
        with pytest.raises(
            UnsupportedEvent, match=r"Rows after a savepoint were rolled back.*shard s1"
        ) as caught:
            stop(*statements)
        assert "handed over before" in caught.value.hint
    assert position.rows_into_transaction


def test_a_restart_after_a_rollback(server, source_address):
    """1. Chunks end before the savepoint and after the rollback. 2. A restart after any of them goes on."""
    address, limits = source_address(server), chunk_limits(rows_max=100)
    with reading(address, None, limits) as recorder:
        server.execute(
            *("BEGIN", "INSERT INTO app.m VALUES (1, 1)", *inserted(1, 2), "SAVEPOINT a", *inserted(3)),
            *(
                "ROLLBACK TO a",
                *inserted(4, 5, 6),
                "SAVEPOINT a",
                *inserted(7),
                "ROLLBACK TO a",
                *inserted(8),
            ),
            "COMMIT",
            database="app",
        )
        await_true(lambda: 8 in values(recorder), "all is read")
    whole = values(recorder)
    assert Counter(whole) == dict.fromkeys((1, 2, 4, 5, 6, 8), 60)
    seen = 0
    for chunk in recorder.chunks[:-1]:
        seen += sum(table.rows.num_rows for table in chunk.tables if table.name.table == "i")
        with reading(address, resume_after(chunk), limits) as again:
            # The commit may come in a chunk of its own, and nothing is left before it.
            left = len(whole) - seen
            await_true(lambda again=again, left=left: len(values(again)) >= left, "the rest is read")
        assert values(again) == whole[seen:]
    assert len(recorder.chunks) >= 4
