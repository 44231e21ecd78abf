# ruff: noqa: DTZ001 - DATETIME has no zone
"""The decoder over binlogs of a real MySQL 9.7.4; the SQL that made each lies beside it."""

from __future__ import annotations

import datetime as dt
import json
import struct
from decimal import Decimal

import pyarrow as pa
import pytest
from support.binlog.binlog_bytes import SIZES_5_1, File
from support.binlog.binlog_bytes import events_of as hand_made
from support.binlog.decoding import BIG, FILE, Reading, events_of, read, with_checksum
from support.defaults import chunk_limits

from canal_group.binlog.formats.event_types import REFUSED, SKIPPED, EventType
from canal_group.binlog.formats.event_types import type_name as name_of
from canal_group.binlog.formats.gtid_events import parse_start
from canal_group.merge.errors import CorruptEvent, UnsupportedEvent
from canal_group.merge.values.chunk import MYSQL_TYPE, PRIMARY_KEY, Op, TableName
from canal_group.merge.values.header import WHOLE, Flag
from canal_group.merge.values.position import Position


def test_all_types_are_read_exactly():
    reading = read("all_types")
    assert [int(h["flags"]) for h in reading.headers] == [WHOLE | Flag.DDL, WHOLE, WHOLE, WHOLE, WHOLE]
    after = reading.rows[0]["after"]
    assert after == {
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
        "u8": 18446744073709551615,
        "f": 1.5,
        "dbl": -2.25e300,
        "dec1": Decimal("12345678901234567890123456789012345.123456789012345678901234567890"),
        "dec2": Decimal(9999999999),
        "b1": 1,
        "b64": 0x8000000000000001,
        "dt": dt.date(9999, 12, 31),
        "tm": -dt.timedelta(hours=838, minutes=59, seconds=59),
        "dtm": dt.datetime(1000, 1, 1, 0, 0, 0, 1),
        "ts": dt.datetime(2038, 1, 19, 3, 14, 7, 499999, tzinfo=dt.UTC),
        "y": 2155,
        "c": "char",
        "vc": "é",
        "vcu": "日本😀",
        "bi": b"\x01\x02" + bytes(6),
        "vb": b"\xff\x00\xff",
        "tb": b"\x89",
        "bl": b"\x89PNG",
        "mb": b"\x00",
        "lb": b"\x01",
        "tt": "t",
        "tx": "tëxt",
        "en": "ü",
        "st": "a,d",
        "js": '{"a": [1, -1, 1.5, true, false, null, "x", {"b": 18446744073709551615}]}',
        "g": bytes(4) + struct.pack("<BIIdddd", 1, 2, 2, 0, 0, 1, 1),
        "pt": bytes(4) + struct.pack("<BIdd", 1, 1, 1, 2),
    }
    assert {**reading.rows[1]["after"], "id": None} == dict.fromkeys(after)
    assert [(row["_op"], row["before"] is None, row["after"] is None) for row in reading.rows] == [
        (Op.INSERT, True, False),
        (Op.INSERT, True, False),
        (Op.UPDATE, False, False),
        (Op.DELETE, False, True),
    ]
    assert (reading.rows[2]["before"]["js"], reading.rows[2]["after"]["js"]) == (None, "[]")
    assert [row["_header"] for row in reading.rows] == [1, 2, 3, 4]


def test_fields_say_what_the_source_calls_their_type():
    table = read("all_types").chunks[0].tables[0].rows
    fields = {f.name: f for f in table.schema.field("after").type}
    names = {name: f.metadata[MYSQL_TYPE].decode() for name, f in fields.items()}
    assert json.loads(table.schema.metadata[PRIMARY_KEY]) == ["id"]
    assert names["u4"] == "int unsigned"
    assert names["u3"] == "mediumint unsigned"
    assert names["dec1"] == "decimal(65,30)"
    assert names["dec2"] == "decimal(10,0) unsigned"
    assert names["vc"] == "varchar(300)"
    assert names["vcu"] == "varchar(300)"
    assert names["c"] == "char(10)"
    assert names["bi"] == "binary(8)"
    assert names["dtm"] == "datetime(6)"
    assert names["y"] == "year"
    assert names["tt"] == "tinytext"
    assert names["lb"] == "longblob"
    assert names["en"] == "enum('a','b','ü')"
    assert names["st"] == "set('a','b','c','d')"
    assert names["pt"].startswith("point ")
    assert fields["dec1"].type == pa.decimal256(65, 30)
    assert fields["dec2"].type == pa.decimal128(10, 0)
    assert fields["ts"].type == pa.timestamp("us", tz="UTC")
    assert fields["dtm"].type == pa.timestamp("us")
    assert fields["tm"].type == pa.duration("us")
    assert fields["u8"].type == pa.uint64()
    assert pa.types.is_dictionary(fields["en"].type)
    assert all(f.nullable for f in fields.values())


def test_commit_times_are_the_gtid_events_microseconds():
    reading = read("all_types")
    times = [int(h["commit_us"]) for h in reading.headers]
    expected = [
        int.from_bytes(event[19 + 42 : 19 + 49], "little") & (2**55 - 1)
        for event in events_of("all_types")
        if event[4] == EventType.GTID
    ]
    assert times == expected
    assert times == sorted(times)
    assert any(time % 1_000_000 for time in times)
    stamps = [struct.unpack_from("<I", e)[0] for e in events_of("all_types") if e[4] == EventType.GTID]
    assert all(abs(time // 1_000_000 - stamp) <= 1 for time, stamp in zip(times, stamps, strict=True))
    assert not reading.decoder.whole_seconds


def test_original_commit_time_of_another_server_is_not_taken():
    event = next(e for e in events_of("all_types") if e[4] == EventType.GTID)
    at = 19 + 42
    immediate = int.from_bytes(event[at : at + 7], "little")
    replicated = bytearray(
        event[:at]
        + (immediate | 1 << 55).to_bytes(7, "little")
        + (immediate - 5_000_000).to_bytes(7, "little")
        + event[at + 7 :]
    )
    struct.pack_into("<I", replicated, 9, len(replicated))
    events = events_of("all_types")
    index = events.index(event)
    events[index] = with_checksum(bytes(replicated))
    reading = Reading().feed(events, spliced=True).close()
    assert int(reading.headers[0]["commit_us"]) == immediate


#: commit times of the fixture `replicated`, less `BASE_US`: of the server that was read, and of the origins
BASE_US = 1_795_477_140_000_000
OWN_US = [7_034_409, 7_070_775, 7_070_824, 7_385_354]
ORIGIN_US = [3_359_222, 3_374_300, 3_380_700, 7_385_354]


@pytest.mark.parametrize("fast_path", [True, False])
@pytest.mark.parametrize(("original", "expected"), [(False, OWN_US), (True, ORIGIN_US)])
def test_a_replica_s_binlog_has_the_times_of_both_servers(original, expected, fast_path):
    """A definition, a row, a row under a tagged GTID, and the replica's own."""
    reading = Reading()
    reading.builder.fast_path.original = original
    for event in events_of("replicated"):
        if not fast_path:
            reading.builder.fast_path.is_open = False
        reading.feed([event])
    reading.close()
    assert [int(header["commit_us"]) - BASE_US for header in reading.headers] == expected


def test_an_impossible_origin_time_is_corrupt_on_every_path():
    events = events_of("replicated")
    index = next(i for i, each in enumerate(events) if each[4] == EventType.GTID_TAGGED)
    start = parse_start(EventType.GTID_TAGGED, events[index][19:-4], 1, original=True)
    stamp = varied_long(start.commit_us)
    assert events[index].count(stamp) == 1
    events[index] = with_checksum(events[index].replace(stamp, varied_long(1 << 55)))
    for original in (False, True):
        reading = Reading()
        reading.builder.fast_path.original = original
        with pytest.raises(CorruptEvent, match="Commit time 36028797018963968 exceeds"):
            reading.feed(events)


def varied_long(value):
    """Return a number from 2^49 to 2^56 in MySQL's serialization format: eight bytes."""
    return (value << 8 | 0x7F).to_bytes(8, "little")


def test_an_origin_that_wrote_no_time_has_that_of_its_event_s_header():
    """A MySQL 5.7 or MariaDB: the replica writes 0."""
    events = events_of("replicated")
    index = next(i for i, each in enumerate(events) if each[4] == EventType.GTID)
    unknown = bytearray(events[index])
    unknown[19 + 49 : 19 + 56] = bytes(7)
    events[index] = with_checksum(bytes(unknown))
    reading = Reading()
    reading.builder.fast_path.original = True
    first = reading.feed(events).close().headers[0]
    assert int(first["commit_us"]) == struct.unpack_from("<I", unknown)[0] * 1_000_000


def test_positions_are_the_offsets_in_the_file():
    reading = read("all_types")
    events = events_of("all_types")
    begins = [struct.unpack_from("<I", e, 13)[0] - len(e) for e in events if e[4] == EventType.GTID]
    assert [int(h["begin_offset"]) for h in reading.headers] == begins
    assert [int(h["end_offset"]) for h in reading.headers][:-1] == begins[1:]
    assert {reading.chunks[0].names[int(h["file"])] for h in reading.headers} == {FILE}
    assert [int(h["gtid_number"]) for h in reading.headers] == list(
        range(int(reading.headers[0]["gtid_number"]), int(reading.headers[0]["gtid_number"]) + 5)
    )
    source = reading.chunks[0].names[int(reading.headers[0]["gtid_source"])]
    assert len(source) == 36
    assert reading.decoder.offset == 4, "the file ends in a rotate to the next one"
    assert reading.decoder.file != FILE


def test_charsets_are_decoded():
    assert read("charsets").rows[0]["after"] == {
        "a": "é",
        "b": "日本",
        "c": "中文",
        "d": b"\x00\x01",
        "e": b"a\x00\x00\x00",
        "f": "ab😀",
        "g": "日本",
        "h": "中",
    }


def test_json_is_printed_like_the_server_prints_it():
    assert [row["after"]["d"] for row in read("json_opaque").rows] == [
        '"2026-01-02 03:04:05.678000"',
        '"-25:00:01.500000"',
        "12.345",
        '"base64:type15:AP8="',
        '"2026-01-02"',
        '"big"',
        "4294967296",
    ]


def test_generated_and_invisible_columns():
    rows = read("column_order_generated").rows
    assert rows[0]["after"] == {"id": 1, "a": 2, "b": 4, "c": 6, "d": 4}
    assert rows[1]["after"] == {"id": 1, "a": 3, "b": 6, "c": 9, "d": 4}
    invisible = read("gipk").chunks[0].tables[0].rows
    assert json.loads(invisible.schema.metadata[PRIMARY_KEY]) == ["my_row_id"]


def test_vectors_are_lists_of_floats():
    assert [row["after"]["e"] for row in read("vector").rows] == [[1.0, 2.0, 3.0]] * 2


def test_files_without_checksums_are_read():
    reading = read("checksum_none")
    assert [row["after"]["id"] for row in reading.rows] == [1, 2]


def test_statements_in_canals_terms():
    reading = read("ddl")
    assert [(s["op"], s["schema"], s["table"], s["_header"]) for s in reading.statements] == [
        ("CREATE", "fx", "j", 0),
        ("ALTER", "fx", "j", 1),
        ("ALTER", "fx", "j", 3),
        ("RENAME", "fx", "j2", 4),
        ("CREATE", "fx", "ct", 5),
        ("TRUNCATE", "fx", "ct", 6),
        ("ERASE", "fx", "ct", 7),
        ("QUERY", "fx", "", 8),
        ("QUERY", "fx", "", 9),
        ("CREATE", "fx", "k", 10),
        ("ALTER", "fx", "k", 11),
    ]
    flags = [int(h["flags"]) for h in reading.headers]
    assert flags[2] == WHOLE, "rows"
    assert flags[5] == WHOLE, "CREATE TABLE ... SELECT holds rows too: it is not a definition on its own"
    assert all(f == WHOLE | Flag.DDL for i, f in enumerate(flags) if i not in (2, 5))


def test_create_table_select_is_a_statement_and_its_rows():
    reading = read("ddl")
    statement = next(s for s in reading.statements if s["_header"] == 5)
    rows = [row for row in reading.rows if row["_header"] == 5]
    assert (statement["_row"], [row["_row"] for row in rows]) == (0, [1])
    assert int(reading.headers[5]["rows"]) == 2


def test_savepoints_are_passed_over():
    assert [row["after"]["id"] for row in read("savepoint").rows] == [30, 32]


def test_foreign_key_cascades_and_several_tables_in_one_transaction():
    reading = read("foreign_key_cascade")
    deletes = [row for row in reading.rows if row["_op"] == Op.DELETE]
    assert len({row["_header"] for row in deletes}) == 1
    assert sorted(row["_row"] for row in deletes) == [0, 1]
    assert len(reading.chunks[0].tables) == 2


def test_tables_without_transactions_and_temporary_tables():
    reading = read("temp_and_myisam")
    assert [(row["_op"], (row["after"] or row["before"])["id"]) for row in reading.rows] == [
        (Op.INSERT, 1),
        (Op.INSERT, 2),
        (Op.DELETE, 1),
        (Op.DELETE, 2),
    ]


def test_deselected_tables_leave_empty_headers():
    reading = read("foreign_key_cascade", select=lambda s, t: TableName(s, "renamed") if t == "par" else None)
    assert [int(h["rows"]) for h in reading.headers] == [1, 0, 1, 0, 1]
    assert {str(table.name) for table in reading.chunks[0].tables} == {"fx.renamed"}
    nothing = read("foreign_key_cascade", select=lambda _s, _t: None)
    assert [int(h["rows"]) for h in nothing.headers] == [0] * 5
    assert nothing.chunks[0].tables == ()
    assert nothing.chunks[0].statements is None
    assert all(int(h["bytes"]) == 1 for h in nothing.headers)


@pytest.mark.parametrize("rows_max", [1, 100, 1000, 1999, 2000])
def test_huge_transaction_is_cut_into_fragments(rows_max):
    whole = read("big_transaction")
    reading = read("big_transaction", limits=chunk_limits(rows_max=rows_max))
    assert [row["after"]["id"] for row in reading.rows] == list(range(1, BIG + 1))
    assert [row["_row"] for row in reading.rows] == list(range(BIG))
    fragments = reading.headers[1:]
    flags = [int(h["flags"]) for h in fragments]
    assert flags[0] & Flag.BEGIN
    assert flags[-1] & Flag.END
    assert all(not f & Flag.BEGIN for f in flags[1:])
    assert all(not f & Flag.END for f in flags[:-1])
    assert [int(h["row_begin"]) for h in fragments] == [0, *(int(h["row_end"]) for h in fragments[:-1])]
    assert int(fragments[-1]["row_end"]) == BIG
    for field in ("commit_us", "begin_offset", "gtid_number"):
        assert {int(h[field]) for h in fragments} == {int(whole.headers[1][field])}
    ends = [int(h["end_offset"]) for h in fragments]
    assert ends == sorted(ends)
    assert ends[-1] == int(whole.headers[1]["end_offset"])


@pytest.mark.parametrize("skip", [1, 100, 1234, 1999, 2000])
def test_resumed_inside_a_transaction_hands_over_the_rest_only(skip):
    events = events_of("big_transaction")
    second = [i for i, e in enumerate(events) if e[4] == EventType.GTID][1]
    begin = struct.unpack_from("<I", events[second], 13)[0] - len(events[second])
    reading = Reading(start=Position(FILE, begin, rows_into_transaction=skip))
    reading.decoder.offset = 4  # a stream from a file's beginning: what comes before is passed over
    reading.feed(events).close()
    assert [row["_row"] for row in reading.rows] == list(range(skip, BIG))
    (header,) = reading.headers
    assert int(header["flags"]) == Flag.END
    assert (int(header["row_begin"]), int(header["row_end"]), int(header["rows"])) == (skip, BIG, BIG - skip)


@pytest.mark.parametrize(
    ("fixture", "type_name", "hint"),
    [
        ("md_minimal", "TABLE_MAP (19)", "binlog_row_metadata = FULL; and start"),
    ],
)
def test_an_unreadable_event_is_refused_with_its_offset_and_a_hint(fixture, type_name, hint):
    events = events_of(fixture)
    reading = Reading()
    with pytest.raises(UnsupportedEvent) as caught:
        reading.feed(events)
    details = caught.value.details
    assert (details["shard"], details["file"], details["event"]) == ("s1", FILE, type_name)
    starts = {struct.unpack_from("<I", e, 13)[0] - len(e) for e in events}
    assert details["offset"] in starts
    assert hint in caught.value.hint
    assert f"{FILE}:{details['offset']}" in str(caught.value)


@pytest.mark.parametrize("number", [0, 6, 20, 22, 26, 43, 99, 173, 255])
def test_unknown_and_refused_types_stop(number):
    events = events_of("all_types")
    gtid = next(e for e in events if e[4] == EventType.GTID)
    index = events.index(gtid)
    event = bytearray(gtid)
    event[4] = number
    with pytest.raises(UnsupportedEvent) as caught:
        Reading().feed([*events[:index], with_checksum(bytes(event))])
    assert caught.value.details["offset"] == struct.unpack_from("<I", gtid, 13)[0] - len(gtid)
    assert str(number) in str(caught.value.details["event"])
    assert caught.value.hint


@pytest.mark.parametrize("number", [43, 99, 173, 255])
@pytest.mark.parametrize(("version", "checksum"), [("9.7.4", True), ("10.11.6-MariaDB-log", False)])
def test_unknown_types_that_a_replica_may_ignore_are_counted(number, version, checksum):
    """Inside a transaction and between two; on MariaDB 0x8000 is another flag, and not a permission."""
    file = File(version, SIZES_5_1 + bytes(16), checksum=checksum)
    file.add(number, b"?" * 30, flags=0x80).query("BEGIN").add(number, b"", flags=0x180).xid()
    reading = Reading().feed(hand_made(file.data)).close()
    assert [int(h["flags"]) for h in reading.headers] == [WHOLE]
    assert reading.builder.losses.ignored_events == {name_of(number): 2}
    refused = hand_made(file.add(number, b"", flags=0x8000).data)
    with pytest.raises(UnsupportedEvent, match=f"unknown type {number}") as caught:
        Reading().feed(refused)
    assert caught.value.details["offset"] == sum(map(len, refused[:-1])) + 4


def test_a_known_type_is_refused_with_any_flags():
    file = File("9.7.4", SIZES_5_1 + bytes(16), checksum=True).add(EventType.INCIDENT, bytes(2), flags=0x80)
    with pytest.raises(UnsupportedEvent, match="INCIDENT"):
        Reading().feed(hand_made(file.data))


def test_no_type_is_both_skipped_and_refused():
    assert not set(SKIPPED) & set(REFUSED)
    assert all(SKIPPED.values())
    assert all(REFUSED.values())


def test_every_flipped_bit_is_noticed():
    events = events_of("charsets")
    for index, event in enumerate(events[:-1]):
        for at in range(19, len(event), 7):
            broken = bytearray(event)
            broken[at] ^= 0x10
            with pytest.raises((CorruptEvent, UnsupportedEvent)):
                Reading().feed([*events[:index], bytes(broken)])


def test_a_corrupt_checksum_names_the_offset():
    events = events_of("all_types")
    index, event = next((i, e) for i, e in enumerate(events) if e[4] == EventType.WRITE_ROWS)
    broken = bytearray(event)
    broken[40] ^= 1
    with pytest.raises(CorruptEvent, match="Checksum") as caught:
        Reading().feed([*events[:index], bytes(broken)])
    assert caught.value.details["file"] == FILE
    assert caught.value.details["offset"] == struct.unpack_from("<I", event, 13)[0] - len(event)


def test_truncated_rows_with_a_right_checksum_are_noticed():
    events = events_of("all_types")
    index, event = next((i, e) for i, e in enumerate(events) if e[4] == EventType.WRITE_ROWS)
    for cut in (1, 5, 50, 200):
        short = bytearray(event[: -4 - cut] + bytes(4))
        struct.pack_into("<I", short, 9, len(short))
        struct.pack_into("<I", short, 13, struct.unpack_from("<I", event, 13)[0] - cut)
        with pytest.raises(CorruptEvent):
            Reading().feed([*events[:index], with_checksum(bytes(short))])


def test_a_gap_in_the_offsets_is_noticed():
    events = events_of("all_types")
    reading = Reading()
    reading.decoder.feed(events[0])
    with pytest.raises(CorruptEvent, match="bytes were read"):
        reading.decoder.feed(events[3])


def test_rows_without_their_transaction_are_refused():
    events = events_of("all_types")
    rows = next(e for e in events if e[4] == EventType.WRITE_ROWS)
    table_map = next(e for e in events if e[4] == EventType.TABLE_MAP)
    with pytest.raises(CorruptEvent, match="between transactions"):
        Reading().feed([events[0], table_map, rows], spliced=True)


def test_table_maps_do_not_outlive_their_file():
    events = events_of("all_types")
    reading = Reading().feed(events)
    first_rows = next(i for i, e in enumerate(events) if e[4] == EventType.WRITE_ROWS)
    again = [
        e for e in events[:first_rows] if e[4] not in (EventType.TABLE_MAP, EventType.FORMAT_DESCRIPTION)
    ]
    with pytest.raises(CorruptEvent, match="without its table map"):
        reading.feed([*again, events[first_rows]], spliced=True)


def test_a_transaction_that_its_file_does_not_end_was_rolled_back():
    events = events_of("all_types")
    first_rows = next(i for i, e in enumerate(events) if e[4] == EventType.WRITE_ROWS)
    rotate = events[-1]
    reading = Reading().feed([*events[: first_rows + 1], rotate], spliced=True).close()
    assert [int(h["flags"]) for h in reading.headers] == [WHOLE | Flag.DDL]
    assert reading.rows == []
    cut = Reading(limits=chunk_limits(rows_max=1))
    with pytest.raises(CorruptEvent, match="ends inside a transaction"):
        cut.feed([*events[: first_rows + 1], rotate], spliced=True)


@pytest.mark.parametrize("kept", [2, 5])
def test_a_consumed_transaction_without_an_end_is_refused(kept):
    """The rows of the next transaction are not taken for its own, nor is it dropped in silence."""
    events, rotate = events_of("big_transaction"), events_of("all_types")[-1]
    second = [i for i, e in enumerate(events) if e[4] == EventType.GTID][1]
    begin = struct.unpack_from("<I", events[second], 13)[0] - len(events[second])
    reading = Reading(start=Position(FILE, begin, rows_into_transaction=100))
    reading.decoder.offset = 4
    with pytest.raises(CorruptEvent, match="its first rows were handed over already"):
        reading.feed([*events[: second + kept], rotate], spliced=True)


def test_offsets_go_on_beyond_four_gigabytes():
    """log_pos has 32 bits: what counts is the running offset."""
    event = next(e for e in events_of("all_types") if e[4] == EventType.GTID)
    beyond = (1 << 32) + 1000
    reading = Reading(start=Position(FILE, 4))
    reading.decoder.feed(events_of("all_types")[0])
    reading.decoder.offset = beyond
    wrapped = bytearray(event)
    struct.pack_into("<I", wrapped, 13, (beyond + len(event)) % (1 << 32))
    reading.decoder.feed(with_checksum(bytes(wrapped)))
    assert reading.decoder.offset == beyond + len(event)


def test_a_rotation_to_where_no_file_reaches_is_refused():
    event = struct.pack("<IBIIIH", 0, EventType.ROTATE, 1, 19 + 8 + 16 + 4, 0, 0x20)
    event += struct.pack("<Q", (1 << 64) - 1) + b"mysql-bin.000002"
    with pytest.raises(CorruptEvent, match=r"Offset 18446744073709551615 is impossible.*ROTATE"):
        Reading().feed([events_of("all_types")[0], with_checksum(event + bytes(4))])


def test_statements_that_change_rows_are_refused():
    events = events_of("savepoint")
    index, event = next((i, e) for i, e in enumerate(events) if e[4] == EventType.QUERY and b"BEGIN" in e)
    sql = b"insert into j values ('secret')"
    begin = event.index(b"BEGIN")
    changed = bytearray(event[:begin] + sql + bytes(4))
    struct.pack_into("<I", changed, 9, len(changed))
    with pytest.raises(UnsupportedEvent, match=r"changes rows: INSERT on \w+\.j\.") as caught:
        Reading().feed([*events[: index + 1], with_checksum(bytes(changed))], spliced=True)
    assert "binlog_format=ROW" in caught.value.hint
    assert "secret" not in str(caught.value.to_dict())
