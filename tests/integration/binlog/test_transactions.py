"""Compressed, prepared and two-phase events of real MariaDB servers."""

from __future__ import annotations

import pymysql
import pytest
from support.deadline import await_true
from support.defaults import chunk_limits
from support.sources.recorder import await_rows, reading

from canal_group.binlog.server.binlog_stream import resume_after
from canal_group.merge.errors import PositionPurged
from canal_group.merge.values.chunk import Op
from canal_group.merge.values.header import WHOLE, Flag
from canal_group.merge.values.position import Position


def test_compressed_rows_and_statements(own_mariadb, source_address):
    server = own_mariadb
    server.execute("SET GLOBAL log_bin_compress = ON", "SET GLOBAL log_bin_compress_min_len = 10")
    with reading(source_address(server)) as recorder:
        server.execute(
            "CREATE TABLE app.z (id INT PRIMARY KEY, v VARCHAR(2000), w INT)",
            "INSERT INTO app.z VALUES (1, REPEAT('a', 2000), 1), (2, REPEAT('b', 2000), 2)",
            "UPDATE app.z SET v = REPEAT('c', 2000)",
            "DELETE FROM app.z WHERE id = 1",
        )
        await_rows(recorder, "z", 5)
    assert recorder.statements[0]["op"] == "CREATE"
    assert recorder.statements[0]["sql"].startswith("CREATE TABLE app.z (id INT")
    one, two = ({"id": i, "v": c * 2000, "w": i} for i, c in ((1, "a"), (2, "b")))
    expected = [
        (Op.INSERT, None, one),
        (Op.INSERT, None, two),
        (Op.UPDATE, one, {**one, "v": "c" * 2000}),
        (Op.UPDATE, two, {**two, "v": "c" * 2000}),
        (Op.DELETE, {**one, "v": "c" * 2000}, None),
    ]
    assert [(row["_op"], row["before"], row["after"]) for row in recorder.rows("z")] == expected


def prepare(server, number):
    """Leave an XA transaction behind that inserts its number."""
    server.execute(
        f"XA START 'x{number}'",
        f"INSERT INTO app.x VALUES ({number})",
        f"XA END 'x{number}'",
        f"XA PREPARE 'x{number}'",
    )


def ids(recorder):
    return [row["after"]["id"] for row in recorder.rows("x")]


def test_rows_of_xa_transactions_come_with_their_commit(own_mariadb, source_address):
    """1. Three are prepared. 2. Other rows are written. 3. One commits, one is rolled back, one waits."""
    server = own_mariadb
    with reading(source_address(server)) as recorder:
        server.execute("CREATE TABLE app.x (id INT PRIMARY KEY)")
        for number in (1, 2, 3):
            prepare(server, number)
        server.execute("INSERT INTO app.x VALUES (100)")
        (_, before, *_), *_ = server.execute("SHOW MASTER STATUS")
        server.execute("XA COMMIT 'x2'", "XA ROLLBACK 'x1'")
        server.execute(
            "XA START 'one'", "INSERT INTO app.x VALUES (4)", "XA END 'one'", "XA COMMIT 'one' ONE PHASE"
        )
        await_rows(recorder, "x", 3)
        server.execute("XA ROLLBACK 'x3'")
    assert ids(recorder) == [100, 2, 4]
    commit = next(h for h in recorder.headers if int(h["begin_offset"]) == before)
    assert (int(commit["flags"]), int(commit["rows"])) == (WHOLE, 1)
    numbers = [int(h["gtid_number"]) for h in recorder.headers]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers))), "no GTID is missing"


def test_a_reader_that_begins_after_the_prepare_finds_its_rows(own_mariadb, source_address):
    """1. Prepared in the first file. 2. Files and rows follow, and a reader that has read all that ends.

    3. The server is killed and recovers what is prepared. 4. A new reader begins where the other ended.
    5. The transactions commit: their rows come, once, and nothing comes again.
    """
    server = own_mariadb
    with reading(source_address(server)) as recorder:
        server.execute("CREATE TABLE app.x (id INT PRIMARY KEY)")
        prepare(server, 1)
        server.execute("FLUSH BINARY LOGS", "INSERT INTO app.x VALUES (100)", "FLUSH BINARY LOGS")
        prepare(server, 2)
        server.execute("INSERT INTO app.x VALUES (101)")
        await_rows(recorder, "x", 2)
    start = resume_after(recorder.chunks[-1])
    server.kill()
    server.start()
    with reading(source_address(server), start=start) as again:
        server.execute("XA COMMIT 'x2'")
        await_rows(again, "x", 1)
        server.execute("INSERT INTO app.x VALUES (102)", "XA COMMIT 'x1'", "INSERT INTO app.x VALUES (103)")
        await_rows(again, "x", 4)
    assert ids(again) == [2, 102, 1, 103]
    begins = [(h["file"], h["begin_offset"]) for h in again.headers if h["rows"]]
    assert len(begins) == len(set(begins)) == 4


def test_a_connection_lost_between_prepare_and_commit(own_mariadb, source_address):
    server = own_mariadb
    with reading(source_address(server)) as recorder:
        server.execute("CREATE TABLE app.x (id INT PRIMARY KEY)")
        prepare(server, 1)
        server.execute("INSERT INTO app.x VALUES (100)")
        await_rows(recorder, "x", 1)
        server.kill()
        server.start()
        server.execute("XA COMMIT 'x1'")
        await_rows(recorder, "x", 2)
    assert ids(recorder) == [100, 1]


def test_a_prepare_that_was_purged_is_an_error_that_names_it(own_mariadb, source_address):
    server = own_mariadb
    server.execute("CREATE TABLE app.x (id INT PRIMARY KEY)")
    prepare(server, 1)
    server.execute("FLUSH BINARY LOGS", "FLUSH BINARY LOGS")
    (file, offset, *_), *_ = server.execute("SHOW MASTER STATUS")
    server.execute("INSERT INTO app.x VALUES (100)", "XA COMMIT 'x1'")

    def purged():  # a file that the server may need for its own recovery goes a little later
        server.execute(f"PURGE BINARY LOGS TO '{file}'")
        return server.execute("SHOW BINARY LOGS")[0][0] == file

    await_true(purged, "the older files go")
    with (
        pytest.raises(PositionPurged, match="XA transaction X'7831',X'',1") as caught,
        reading(source_address(server), start=Position(file, offset)) as recorder,
    ):
        await_true(lambda: recorder.error is not None, "the error")
    assert caught.value.details["file"] == file
    assert ids(recorder) == [100], "what came before was handed over"


def test_a_large_xa_transaction_comes_in_fragments(own_mariadb, source_address):
    server, count = own_mariadb, 20_000
    with reading(source_address(server), limits=chunk_limits(bytes_max=100_000)) as recorder:
        server.execute(
            "CREATE TABLE app.x (id INT PRIMARY KEY, v VARCHAR(100))",
            "XA START 'x'",
            f"INSERT INTO app.x SELECT seq, REPEAT('x', 50) FROM app.seq_1_to_{count}",
            "XA END 'x'",
            "XA PREPARE 'x'",
            "XA COMMIT 'x'",
        )
        await_rows(recorder, "x", count)
    assert ids(recorder) == list(range(1, count + 1))
    assert [row["_row"] for row in recorder.rows("x")] == list(range(count))
    fragments = [h for h in recorder.headers if h["rows"] and not int(h["flags"]) & Flag.DDL]
    assert len(fragments) > 5
    assert len({int(h["begin_offset"]) for h in fragments}) == 1
    middle = next(
        c for c in recorder.chunks if c.headers[-1]["rows"] and not c.headers[-1]["flags"] & Flag.END
    )
    with reading(source_address(server), start=resume_after(middle)) as again:
        await_true(lambda: again.headers and again.headers[-1]["flags"] & Flag.END, "the rest")
    done = int(middle.headers[-1]["row_end"])
    assert ids(again) == list(range(done + 1, count + 1))


def test_an_alter_in_two_phases_counts_when_it_commits(own_mariadb, source_address):
    """1. An ALTER starts and fails: nothing. 2. One starts and commits: one statement, and rows fit it."""
    server = own_mariadb
    with reading(source_address(server)) as recorder:
        server.execute(
            "CREATE TABLE app.x (id INT PRIMARY KEY, v INT)", "INSERT INTO app.x VALUES (1, 1), (2, 1)"
        )
        with pytest.raises(pymysql.IntegrityError):
            server.execute("SET binlog_alter_two_phase = ON", "ALTER TABLE app.x ADD UNIQUE KEY (v)")
        server.execute("SET binlog_alter_two_phase = ON", "ALTER TABLE app.x ADD COLUMN w INT DEFAULT 7")
        server.execute("INSERT INTO app.x (id) VALUES (3)")
        await_rows(recorder, "x", 3)
    assert [(s["op"], s["sql"].rpartition(" ADD ")[2]) for s in recorder.statements] == [
        ("CREATE", "CREATE TABLE app.x (id INT PRIMARY KEY, v INT)"),
        ("ALTER", "COLUMN w INT DEFAULT 7"),
    ]
    assert recorder.rows("x")[-1]["after"] == {"id": 3, "v": None, "w": 7}
