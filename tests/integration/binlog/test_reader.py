# ruff: noqa: DTZ001 - DATETIME has no zone
"""The reader on real MariaDB servers."""

from __future__ import annotations

import contextlib
import datetime as dt
import struct
import threading
from decimal import Decimal

import pytest
from support.deadline import await_true
from support.defaults import chunk_limits, source_reader
from support.rows.all_types import ALL_TYPES, ROW_1
from support.sources.recorder import Recorder, await_rows, of_app, reading

from canal_group.binlog.server.binlog_stream import resume_after
from canal_group.merge.errors import (
    PositionPurged,
    PositionRefused,
    SourceUnavailable,
    UnsupportedEvent,
)
from canal_group.merge.values.chunk import Op, TableName
from canal_group.merge.values.header import WHOLE, Flag
from canal_group.merge.values.position import Position


def test_all_types_round_trip(mariadb, source_address):
    with reading(source_address(mariadb)) as recorder:
        mariadb.execute(
            "SET time_zone = '+00:00'",
            "SET sql_mode = ''",
            ALL_TYPES,
            ROW_1,
            "INSERT INTO app.t (id) VALUES (1)",
            "INSERT INTO app.t (id, da, dt6, ts0, y, en, st, t6, c, vu, bi, vb, tx) VALUES "
            "(2, '0000-00-00', '2026-00-10', '0000-00-00', 0, 'nothing', '', '00:00:00.000001', "
            "'', '', '', '', '')",
            "UPDATE app.t SET u4 = 4000000000, tx = NULL, t3 = '11:12:13.5' WHERE id = 1",
            "DELETE FROM app.t WHERE id = 2",
        )
        await_rows(recorder, "t", 5)
    one, two, three, update, delete = recorder.rows("t")
    assert one["after"] == {
        "id": 18446744073709551615,
        "i1": -128,
        "u1": 255,
        "i2": -32768,
        "u2": 65535,
        "i3": -8388608,
        "u3": 16777215,
        "i4": -2147483648,
        "u4": 4294967295,
        "i8": -9223372036854775808,
        "f": 1.5,
        "d": -2.25e300,
        "dec1": Decimal("-1234567890123456789012345678.0123456789"),
        "dec2": Decimal("12345678901234567890123456789012345.123456789012345678901234567890"),
        "dec3": Decimal("-0.00001"),
        "b1": 1,
        "b9": 0b100000001,
        "b64": 0x8000000000000001,
        "da": dt.date(9999, 12, 31),
        "t0": -dt.timedelta(hours=838, minutes=59, seconds=59),
        "t3": -dt.timedelta(milliseconds=500),
        "t6": -dt.timedelta(hours=1, minutes=2, seconds=3, microseconds=4),
        "dt0": dt.datetime(1000, 1, 1),
        "dt3": dt.datetime(2026, 2, 3, 4, 5, 6, 789000),
        "dt6": dt.datetime(1999, 12, 31, 23, 59, 59, 999999),
        "ts0": dt.datetime(2038, 1, 19, 3, 14, 7, tzinfo=dt.UTC),
        "ts6": dt.datetime(1970, 1, 1, 0, 0, 1, 1, tzinfo=dt.UTC),
        "y": 2155,
        "c": "char",
        "vc": "é€",
        "vu": "日本😀",
        "bi": b"\x01\x02" + bytes(6),
        "vb": b"\xff\x00\xff",
        "bl": b"\x89PNG",
        "tx": "tëxt",
        "lt": "😀",
        "en": "ü",
        "enl": "é",
        "st": "a,d",
        "js": '{"a": [1, "ü"]}',
        "g": bytes(4) + struct.pack("<BIdd", 1, 1, 1, 2),
    }
    assert {key: value for key, value in two["after"].items() if value is not None} == {"id": 1}
    assert {key: value for key, value in three["after"].items() if value is not None} == {
        "id": 2,
        "y": 0,
        "en": "",
        "st": "",
        "t6": dt.timedelta(microseconds=1),
        "c": "",
        "vu": "",
        "bi": bytes(8),
        "vb": b"",
        "tx": "",
    }
    assert update["before"] == two["after"]
    changed = {"u4": 4000000000, "t3": dt.timedelta(hours=11, minutes=12, seconds=13.5)}
    assert update["after"] == {**two["after"], **changed}
    assert delete["before"] == three["after"]
    assert delete["after"] is None


def test_transactions_tables_and_definitions_in_order(mariadb, source_address):
    with reading(source_address(mariadb)) as recorder:
        mariadb.execute(
            "CREATE TABLE app.a (id INT PRIMARY KEY, v VARCHAR(10))",
            "CREATE TABLE app.b (id INT PRIMARY KEY)",
            "BEGIN",
            "INSERT INTO app.a VALUES (1, 'x'), (2, 'y')",
            "INSERT INTO app.b VALUES (1)",
            "UPDATE app.a SET v = 'z' WHERE id = 2",
            "SAVEPOINT here",
            "DELETE FROM app.a",
            "ROLLBACK TO here",
            "COMMIT",
            "ALTER TABLE app.a ADD COLUMN w INT DEFAULT 7 FIRST",
            "INSERT INTO app.a (id, v) VALUES (3, 'n')",
            "RENAME TABLE app.b TO app.c",
            "TRUNCATE TABLE app.c",
            "CREATE TABLE app.d AS SELECT * FROM app.a",
            "DROP TABLE app.c",
        )
        await_true(lambda: len(recorder.transactions) >= 9, "nine transactions")
    headers = recorder.transactions
    assert [int(h["flags"]) & Flag.DDL for h in headers] == [4, 4, 0, 4, 0, 4, 4, 0, 4]
    assert [int(h["rows"]) for h in headers] == [1, 1, 4, 1, 1, 1, 1, 4, 1]
    assert [row["_row"] for row in recorder.rows("a")] == [0, 1, 3, 0]
    assert [row["_row"] for row in recorder.rows("b")] == [2]
    assert recorder.rows("a")[2]["after"] == {"id": 2, "v": "z"}
    assert recorder.rows("a")[3]["after"] == {"w": 7, "id": 3, "v": "n"}
    assert [(s["op"], s["table"]) for s in recorder.statements] == [
        ("CREATE", "a"),
        ("CREATE", "b"),
        ("ALTER", "a"),
        ("RENAME", "c"),
        ("TRUNCATE", "c"),
        ("CREATE", "d"),
        ("ERASE", "c"),
    ]
    assert len(recorder.rows("d")) == 3
    begins, ends = ([int(h[k]) for h in headers] for k in ("begin_offset", "end_offset"))
    assert begins[1:] == ends[:-1]
    numbers = [int(h["gtid_number"]) for h in headers]
    assert numbers == list(range(numbers[0], numbers[0] + 9))


def test_starts_after_what_is_there_and_anywhere_else(mariadb, source_address):
    """1. A reader without a position sees only what comes. 2. Each header's end is a position to begin at."""
    mariadb.execute("CREATE TABLE app.p (id INT PRIMARY KEY)", "INSERT INTO app.p VALUES (1)")
    with reading(source_address(mariadb)) as recorder:
        mariadb.execute("INSERT INTO app.p VALUES (2)", "FLUSH BINARY LOGS", "INSERT INTO app.p VALUES (3)")
        await_rows(recorder, "p", 2)
    assert [row["after"]["id"] for row in recorder.rows("p")] == [2, 3]
    (opened,) = recorder.of("opened")
    assert recorder.events[0] == ("opened", opened)
    assert str(opened.gtid_set) != ""
    for number, chunk in enumerate(recorder.chunks):
        rest = sum(table.rows.num_rows for later in recorder.chunks[number + 1 :] for table in later.tables)
        start = resume_after(chunk)
        with reading(source_address(mariadb), start=start) as again:
            await_rows(again, "p", rest)
        assert again.of("opened") == [start]
        assert len(again.rows("p")) == rest


def test_huge_transaction_comes_in_fragments(mariadb, source_address):
    count = 20_000
    with reading(source_address(mariadb), limits=chunk_limits(bytes_max=100_000)) as recorder:
        mariadb.execute(
            "CREATE TABLE app.h (id INT PRIMARY KEY, v VARCHAR(100))",
            f"INSERT INTO app.h SELECT seq, REPEAT('x', 50) FROM app.seq_1_to_{count}",
            "INSERT INTO app.h VALUES (0, 'after')",
        )
        await_rows(recorder, "h", count + 1)
    fragments = [h for h in recorder.headers if not int(h["flags"]) & Flag.DDL and h["rows"]]
    *fragments, last = fragments
    assert int(last["flags"]) == WHOLE
    assert len(fragments) > 5
    assert int(fragments[0]["flags"]) == Flag.BEGIN
    assert int(fragments[-1]["flags"]) == Flag.END
    assert all(int(h["flags"]) == 0 for h in fragments[1:-1])
    assert len({int(h["begin_offset"]) for h in fragments}) == 1
    assert int(fragments[-1]["end_offset"]) == int(last["begin_offset"])
    rows = recorder.rows("h")[:-1]
    assert [row["after"]["id"] for row in rows] == list(range(1, count + 1))
    assert [row["_row"] for row in rows] == list(range(count))
    assert all(sum(t.rows.num_rows for t in chunk.tables) < 3000 for chunk in recorder.chunks)


def test_connection_lost_inside_a_transaction(own_mariadb, source_address):
    """1. A huge transaction is half handed over. 2. The server dies and is back. 3. The rest comes once."""
    count = 5000
    server = own_mariadb
    with reading(source_address(server), limits=chunk_limits(rows_max=500)) as recorder:
        server.execute("CREATE TABLE app.h (id INT PRIMARY KEY, v VARCHAR(3000))")
        await_true(lambda: recorder.statements, "the table")
        recorder.gate.clear()
        server.execute(f"INSERT INTO app.h SELECT seq, REPEAT('x', 3000) FROM app.seq_1_to_{count}")
        await_true(lambda: recorder.held, "a part of the transaction")
        server.kill()
        server.start()
        recorder.gate.set()
        server.execute("INSERT INTO app.h VALUES (0, '')")
        await_rows(recorder, "h", count + 1)
    lost = next(i for i, (kind, _) in enumerate(recorder.events) if kind == "disconnected")
    before = next(value for kind, value in reversed(recorder.events[:lost]) if kind == "chunk")
    assert not int(before.headers[-1]["flags"]) & Flag.END, "it was lost inside the transaction"
    assert [row["after"]["id"] for row in recorder.rows("h")] == [*range(1, count + 1), 0]
    assert [row["_row"] for row in recorder.rows("h")] == [*range(count), 0]
    begins = [h for h in recorder.headers if int(h["flags"]) & Flag.BEGIN and not int(h["flags"]) & Flag.DDL]
    assert len([h for h in begins if h["rows"]]) == 2
    row_ends = [(int(h["row_begin"]), int(h["row_end"])) for h in recorder.headers if h["rows"]][1:-1]
    assert [begin for begin, _ in row_ends[1:]] == [end for _, end in row_ends[:-1]]


def test_server_killed_again_and_again(own_mariadb, source_address):
    """A writer inserts row after row while the server is killed: each row it committed comes once."""
    server = own_mariadb
    server.execute("CREATE TABLE app.k (id INT PRIMARY KEY)")
    committed = []
    stop = threading.Event()

    def write():
        number = 0
        while not stop.is_set():
            number += 1
            with contextlib.suppress(Exception):
                server.execute(f"INSERT INTO app.k VALUES ({number})")
                committed.append(number)

    with reading(source_address(server)) as recorder:
        writer = threading.Thread(target=write)
        writer.start()
        try:
            for _ in range(3):
                want = len(recorder.rows("k")) + 20
                await_true(lambda want=want: len(recorder.rows("k")) >= want, "rows keep coming")
                server.kill()
                server.start()
        finally:
            stop.set()
            writer.join()
        server.execute("INSERT INTO app.k VALUES (0)")
        await_true(lambda: any(r["after"]["id"] == 0 for r in recorder.rows("k")), "the last row")
    seen = [row["after"]["id"] for row in recorder.rows("k")]
    assert len(seen) == len(set(seen)), "nothing twice"
    assert set(committed) <= set(seen), "nothing lost"
    in_table = {row[0] for row in server.execute("SELECT id FROM app.k")}
    assert set(seen) == in_table
    assert len(recorder.of("opened")) == 1
    assert len(recorder.of("connected")) >= 4


def test_low_watermarks_grow_while_idle(mariadb, source_address):
    with reading(source_address(mariadb)) as recorder:
        await_true(lambda: len(set(recorder.of("caught_up"))) >= 3, "promises grow", 30)
    low_watermarks = recorder.of("caught_up")
    assert low_watermarks == sorted(low_watermarks)
    assert all(low_watermark % 1_000_000 == 0 for low_watermark in low_watermarks), (
        "MariaDB stamps whole seconds"
    )


def test_no_transaction_breaks_a_low_watermark(mariadb, source_address):
    mariadb.execute("CREATE TABLE app.w (id INT PRIMARY KEY AUTO_INCREMENT, v INT)")
    stop = threading.Event()

    def write():
        with contextlib.closing(mariadb.connect("app")) as connection, connection.cursor() as cursor:
            while not stop.wait(0.003):
                cursor.execute("INSERT INTO w (v) VALUES (1)")

    # The margin covers what a busy machine may put between a commit's stamp and its place in the binlog.
    with reading(source_address(mariadb), margin_us=500_000) as recorder:
        writers = [threading.Thread(target=write) for _ in range(2)]
        for writer in writers:
            writer.start()
        await_true(lambda: len(recorder.rows("w")) > 1000, "a busy run", 120)
        stop.set()
        for writer in writers:
            writer.join()
        await_true(lambda: len(set(recorder.of("caught_up"))) >= 4, "promises after the run", 30)
        mariadb.execute("INSERT INTO app.w (v) VALUES (2)")
        await_true(lambda: recorder.rows("w")[-1]["after"]["v"] == 2, "the last row")
    promised = 0
    for kind, value in recorder.events:
        if kind == "caught_up":
            assert value >= promised
            promised = value
        elif kind == "chunk":
            assert all(int(time) >= promised for time in value.headers["commit_us"])
    assert promised


def test_slow_listener_holds_the_source_up_and_loses_nothing(mariadb, source_address):
    mariadb.execute("CREATE TABLE app.s (id INT PRIMARY KEY, v VARCHAR(1000))")
    with reading(source_address(mariadb), limits=chunk_limits(bytes_max=50_000)) as recorder:
        recorder.gate.clear()
        for part in range(20):
            numbers = f"app.seq_{part * 500 + 1}_to_{part * 500 + 500}"
            mariadb.execute(f"INSERT INTO app.s SELECT seq, REPEAT('y', 1000) FROM {numbers}")
        assert len(recorder.chunks) == 0
        recorder.gate.set()
        await_rows(recorder, "s", 10_000)
    assert [row["after"]["id"] for row in recorder.rows("s")] == list(range(1, 10_001))
    assert not recorder.of("disconnected")


def test_event_of_several_packets(own_mariadb, source_address):
    """An event over 16 MiB comes in several packets of the protocol."""
    server = own_mariadb
    server.execute("SET GLOBAL max_allowed_packet = 67108864")
    server.execute("CREATE TABLE app.l (id INT PRIMARY KEY, v LONGBLOB)")
    with reading(source_address(server)) as recorder:
        for number, size in enumerate((0xFFFFFF - 100, 0xFFFFFF, 40_000_000)):
            server.execute(f"INSERT INTO app.l VALUES ({number}, REPEAT('z', {size}))")
        await_rows(recorder, "l", 3)
    assert [len(row["after"]["v"]) for row in recorder.rows("l")] == [0xFFFFFF - 100, 0xFFFFFF, 40_000_000]


def test_purged_position_names_what_is_left(own_mariadb, source_address):
    server = own_mariadb
    server.execute("FLUSH BINARY LOGS", "FLUSH BINARY LOGS")

    def purged():
        server.execute("PURGE BINARY LOGS TO 'mysql-bin.000003'")
        return len(server.execute("SHOW BINARY LOGS")) == 1

    await_true(purged, "the server lets go of its old files")
    with (
        pytest.raises(PositionPurged) as caught,
        reading(source_address(server), start=Position("mysql-bin.000001", 4)) as recorder,
    ):
        await_true(lambda: recorder.error is not None, "the error")
    details = caught.value.details
    assert (details["file"], details["offset"]) == ("mysql-bin.000001", 4)
    assert details["oldest_file"] == "mysql-bin.000003"


@pytest.mark.parametrize("offset", [5, 900_000_000], ids=["inside an event", "past the end"])
def test_a_position_of_another_source_is_refused(mariadb, source_address, offset):
    (file, _, *_), *_ = mariadb.execute("SHOW MASTER STATUS")
    with (
        pytest.raises(PositionRefused) as caught,
        reading(source_address(mariadb), start=Position(file, offset)) as recorder,
    ):
        await_true(lambda: recorder.error is not None, "the error")
    assert not isinstance(caught.value, PositionPurged)
    assert f"{file}:{offset}" in str(caught.value)


def test_what_a_session_can_do_to_us_is_refused(own_mariadb, source_address):
    server, statements = own_mariadb, ["SET binlog_format = STATEMENT", "INSERT INTO app.x VALUES (2, 2)"]
    server.execute(
        "CREATE TABLE app.x (id INT PRIMARY KEY, v INT DEFAULT 0)", "INSERT INTO app.x (id) VALUES (9)"
    )

    def run():
        with reading(source_address(server)) as recorder:
            server.execute(*statements)
            await_true(lambda: recorder.error is not None, "the error")

    with pytest.raises(UnsupportedEvent, match=r"INSERT on app\.x") as caught:
        run()
    assert caught.value.hint


def test_only_selected_tables_are_decoded(mariadb, source_address):
    mariadb.execute("CREATE TABLE app.yes (id INT PRIMARY KEY)", "CREATE TABLE app.no (id INT PRIMARY KEY)")

    def select(schema, table):
        return TableName("sink", "renamed") if (schema, table) == ("app", "yes") else None

    with reading(source_address(mariadb), select=select) as recorder:
        mariadb.execute(
            "INSERT INTO app.no VALUES (1)",
            "ALTER TABLE app.no ADD COLUMN v INT",
            "BEGIN",
            "INSERT INTO app.no VALUES (2, 2)",
            "INSERT INTO app.yes VALUES (3)",
            "COMMIT",
        )
        await_rows(recorder, "renamed", 1)
    assert [int(h["rows"]) for h in recorder.headers] == [0, 0, 1]
    assert [int(h["flags"]) for h in recorder.headers] == [WHOLE] * 3
    assert recorder.statements == []


def test_source_that_is_not_there_is_tried_again(own_mariadb, source_address):
    server = own_mariadb
    server.stop()
    recorder = Recorder()
    reader = source_reader(source_address(server), of_app, chunk_limits(), recorder)
    thread = threading.Thread(target=reader.run, args=(None,))
    thread.start()
    await_true(lambda: len(recorder.of("disconnected")) >= 2, "two attempts")
    assert all(isinstance(error, SourceUnavailable) for error in recorder.of("disconnected"))
    server.start()
    await_true(lambda: recorder.of("caught_up"), "the first promise")
    reader.stop()
    thread.join(5)
    assert not thread.is_alive()


def test_stop_before_run_and_during_a_wait(mariadb, source_address):
    recorder = Recorder()
    reader = source_reader(source_address(mariadb), of_app, chunk_limits(), recorder)
    reader.stop()
    reader.run(None)
    assert recorder.events == []


def test_rows_hold_every_op(mariadb, source_address):
    with reading(source_address(mariadb)) as recorder:
        mariadb.execute(
            "CREATE TABLE app.o (id INT PRIMARY KEY, v INT)",
            "INSERT INTO app.o VALUES (1, 1)",
            "REPLACE INTO app.o VALUES (1, 2)",
            "INSERT INTO app.o VALUES (1, 3) ON DUPLICATE KEY UPDATE v = 4",
            "DELETE FROM app.o",
        )
        await_rows(recorder, "o", 4)
    assert [row["_op"] for row in recorder.rows("o")] == [Op.INSERT, Op.UPDATE, Op.UPDATE, Op.DELETE]
