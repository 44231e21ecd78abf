# ruff: noqa: DTZ001 - DATETIME has no zone
"""What servers between 5.6 and 9.x write and no fixture holds, made by hand after their formats."""

from __future__ import annotations

import datetime as dt
import json
import struct
import uuid

import pytest
from support.binlog.binlog_bytes import SIZES_5_1, File, events_of
from support.binlog.fixture_changes import changes_of, inserts
from support.binlog.old_files import COLUMNS, ROW, VALUES

from canal_group.binlog.files.binlog_files import BinlogFiles
from canal_group.binlog.formats.event_types import EventType
from canal_group.binlog.formats.format_description import parse_format_description
from canal_group.merge.errors import CorruptEvent
from canal_group.merge.values.chunk import TableName
from canal_group.merge.values.header import gtid_text
from canal_group.merge.values.types.table import ColumnType
from canal_group.programs.command.binlog.tool import show

#: HEARTBEAT, IGNORABLE, ROWS_QUERY, rows of version 2, GTID, ANONYMOUS_GTID, PREVIOUS_GTIDS
SIZES_5_6 = SIZES_5_1 + bytes([0, 0, 0, 10, 10, 10, 25, 25, 0])
#: TRANSACTION_CONTEXT, VIEW_CHANGE, XA_PREPARE
SIZES_5_7 = SIZES_5_6[:-3] + bytes([42, 42, 0, 18, 52, 0])
#: PARTIAL_UPDATE_ROWS, TRANSACTION_PAYLOAD, HEARTBEAT_V2
SIZES_8_0 = SIZES_5_7 + bytes([10, 0, 0])
#: ANNOTATE_ROWS, BINLOG_CHECKPOINT, GTID, GTID_LIST; 10.1 adds START_ENCRYPTION
SIZES_MARIADB = SIZES_5_1 + bytes(133) + bytes([0, 4, 19, 4])
SERVER = uuid.UUID("3e11fa47-71ca-11e1-9e33-c80aa9429562")
INT = [(ColumnType.LONG, b"")]
IGNORABLE_FLAG = 0x80
SECOND_US = 1_300_000_000_000_000


def write_rows_v2(file, columns, rows, extra=b"", number=7):
    """Append rows of version 2; `extra` follows its own length."""
    body = number.to_bytes(6, "little") + b"\1\0" + struct.pack("<H", 2 + len(extra)) + extra
    bitmap = (len(columns) + 7) // 8
    body += bytes([len(columns)]) + b"\xff" * bitmap
    return file.add(EventType.WRITE_ROWS, body + b"".join(bytes(bitmap) + row for row in rows))


def mysql_gtid(file, number, clock=b"", kind=EventType.GTID):
    source = SERVER.bytes if kind == EventType.GTID else bytes(16)
    return file.add(kind, b"\1" + source + struct.pack("<q", number) + clock)


def mariadb_gtid(file, number, flags=0, rest=b"", domain=3, server_id=9):
    body = struct.pack("<QIB", number, domain, flags) + rest
    return file.add(EventType.MARIADB_GTID, body.ljust(19, b"\0"), server_id=server_id)


def headers_of(path):
    return [
        (
            int(header["rows"]),
            int(header["commit_us"]),
            gtid_text(chunk.names[int(header["gtid_source"])], int(header["gtid_number"])),
        )
        for chunk in BinlogFiles([path], TableName)
        for header in chunk.headers
    ]


def image(*values):
    return {f"@{ordinal}": value for ordinal, value in enumerate(values, start=1)}


@pytest.mark.parametrize("extra", [b"", bytes(40), b"\0\x05\0\1\2"], ids=["none", "long", "ndb"])
@pytest.mark.parametrize("checksum", [False, True])
def test_mysql_5_6_with_gtids_and_the_text_of_statements(tmp_path, extra, checksum):
    """`binlog_rows_query_log_events` puts an event between BEGIN and the table map."""
    file = File("5.6.51-log", SIZES_5_6, checksum=checksum)
    file.add(EventType.PREVIOUS_GTIDS, struct.pack("<Q", 0))
    for number in (5, 6, 7):
        mysql_gtid(file, number).query("BEGIN")
        file.add(EventType.ROWS_QUERY, b"\x06INSERT", flags=IGNORABLE_FLAG)
        file.table_map(COLUMNS)
        write_rows_v2(file, COLUMNS, [ROW], extra).xid()
    path = file.write(tmp_path / "mysql-bin.000001")
    assert [list(change[3].values())[:10] for change in changes_of(path)] == [VALUES] * 3
    assert headers_of(path) == [(1, SECOND_US, f"{SERVER}:{number}") for number in (5, 6, 7)]


def test_mysql_5_6_may_still_write_rows_of_version_1(tmp_path):
    file = File("5.6.51", SIZES_5_6, checksum=True).query("BEGIN").table_map(INT)
    path = file.insert(INT, [struct.pack("<i", 7)]).xid().write(tmp_path / "mysql-bin.000001")
    assert changes_of(path) == inserts("app.t", image(7))


def test_mysql_5_7_stamps_commits_with_whole_seconds(tmp_path):
    """Its GTID events have the logical clock and no commit time; anonymous ones come without GTIDs."""
    clock = b"\2" + struct.pack("<qq", 3, 4)
    file = File("5.7.44-log", SIZES_5_7, checksum=True)
    for kind in (EventType.GTID, EventType.ANONYMOUS_GTID):
        mysql_gtid(file, 5, clock, kind).query("BEGIN").table_map(INT)
        write_rows_v2(file, INT, [struct.pack("<i", 7)]).xid()
    path = file.write(tmp_path / "mysql-bin.000001")
    assert headers_of(path) == [(1, SECOND_US, f"{SERVER}:5"), (1, SECOND_US, "")]


#: DATETIME(3), TIME, TIMESTAMP(6), JSON, BIT(10), VARCHAR(300), DECIMAL(10,0), SET of 2 bytes
NEWER = [
    (ColumnType.DATETIME2, b"\3"),
    (ColumnType.TIME2, b"\0"),
    (ColumnType.TIMESTAMP2, b"\6"),
    (ColumnType.JSON, b"\4"),
    (ColumnType.BIT, b"\2\1"),
    (ColumnType.VARCHAR, b"\x2c\1"),
    (ColumnType.NEWDECIMAL, b"\x0a\0"),
    (ColumnType.STRING, b"\xf8\2"),
]
DOCUMENT = b"\0" + struct.pack("<HHHHBH", 1, 12, 11, 1, 5, 7) + b"a"
CLOCK = 1 << 12 | 2 << 6 | 3
NEWER_ROW = b"".join(
    (
        ((1 << 39) + (((2020 * 13 + 2) << 5 | 29) << 17 | CLOCK)).to_bytes(5, "big"),
        (4560).to_bytes(2, "big"),
        ((1 << 23) - CLOCK).to_bytes(3, "big"),
        (1_234_567_890).to_bytes(4, "big") + (123_456).to_bytes(3, "big"),
        struct.pack("<I", len(DOCUMENT)) + DOCUMENT,
        (0b10_0000_0001).to_bytes(2, "big"),
        struct.pack("<H", 3) + "é!".encode(),
        b"\x80\0\0\x30\x39",
        struct.pack("<H", 5),
    )
)


@pytest.mark.parametrize(
    ("version", "sizes"), [("5.7.44-log", SIZES_5_7), ("8.0.0-dmr", SIZES_8_0[:38]), ("8.0.20", SIZES_8_0)]
)
def test_newer_types_without_metadata_have_ordinals_for_names(tmp_path, version, sizes):
    file = File(version, sizes, checksum=True).query("BEGIN").table_map(NEWER)
    path = write_rows_v2(file, NEWER, [NEWER_ROW]).xid().write(tmp_path / "mysql-bin.000001")
    ((_, _, _, after),) = changes_of(path)
    assert str(after.pop("@7")) == "12345"
    assert after == {
        "@1": dt.datetime(2020, 2, 29, 1, 2, 3, 456_000),
        "@2": -dt.timedelta(hours=1, minutes=2, seconds=3),
        "@3": dt.datetime(2009, 2, 13, 23, 31, 30, 123_456, dt.UTC),
        "@4": '{"a": 7}',
        "@5": 0b10_0000_0001,
        "@6": "é!".encode(),
        "@8": 5,
    }
    lines = []
    show([path], lines.append, note=lines.append, as_json=True)
    assert json.loads(lines[0])["after"] == image(
        "2020-02-29 01:02:03.456", "-01:02:03", "2009-02-13 23:31:30.123456", '{"a": 7}', "513", "é!",
        "12345", "5",
    )  # fmt: skip


def test_old_times_beside_new_ones(tmp_path):
    """A table of 5.5 to which 5.6 added a column: both formats stand in one row."""
    columns = [(ColumnType.DATETIME, b""), (ColumnType.DATETIME2, b"\0"), (ColumnType.TIME, b"")]
    row = struct.pack("<Q", 20090213233130)
    row += ((1 << 39) + (((2020 * 13 + 2) << 5 | 29) << 17 | CLOCK)).to_bytes(5, "big")
    row += (11213).to_bytes(3, "little")
    file = File("5.6.51", SIZES_5_6, checksum=True).query("BEGIN").table_map(columns)
    path = write_rows_v2(file, columns, [row]).xid().write(tmp_path / "mysql-bin.000001")
    assert changes_of(path) == inserts(
        "app.t",
        image(
            dt.datetime(2009, 2, 13, 23, 31, 30),
            dt.datetime(2020, 2, 29, 1, 2, 3),
            dt.timedelta(hours=1, minutes=12, seconds=13),
        ),
    )


@pytest.mark.parametrize(
    "version", ["10.0.38-MariaDB-log", "10.6.16-MariaDB-1:10.6.16+maria~deb11", "10.4.9"]
)
def test_mariadb_with_all_that_stands_between_transactions(tmp_path, version):
    """A build may leave MariaDB's name out: its events are read as what they are."""
    group_commit = struct.pack("<Q", 77)
    file = File(version, SIZES_MARIADB, checksum=True)
    file.add(EventType.MARIADB_GTID_LIST, struct.pack("<IIIQ", 1, 3, 9, 4))
    file.add(EventType.MARIADB_BINLOG_CHECKPOINT, struct.pack("<I", 16) + b"mysql-bin.000001")
    mariadb_gtid(file, 5, flags=0x01).query("CREATE TABLE t (id INT)")
    for number, flags, rest in ((6, 0, b""), (7, 0x02, group_commit), (8, 0x02 | 0x0C, group_commit)):
        mariadb_gtid(file, number, flags, rest)
        file.add(EventType.MARIADB_ANNOTATE_ROWS, b"INSERT INTO t VALUES (7)")
        file.table_map(INT).insert(INT, [struct.pack("<i", number)])
        (file.query("COMMIT") if number == 7 else file.xid()).add(
            EventType.MARIADB_BINLOG_CHECKPOINT, bytes(4)
        )
    path = file.write(tmp_path / "mysql-bin.000001")
    assert changes_of(path) == [("CREATE", "app.t"), *inserts("app.t", *map(image, (6, 7, 8)))]
    assert headers_of(path) == [(1, SECOND_US, f"3-9-{number}") for number in (5, 6, 7, 8)]
    assert parse_format_description(events_of(file.data)[0]).mariadb


def test_table_maps_of_more_columns_than_a_byte_counts(tmp_path):
    """The number of columns and the size of their metadata are length-encoded."""
    columns = [(ColumnType.VARCHAR, b"\x14\0")] * 300
    body = (7).to_bytes(6, "little") + b"\1\0\3app\0\1t\0" + b"\xfc" + struct.pack("<H", 300)
    body += bytes(kind for kind, _ in columns) + b"\xfc" + struct.pack("<H", 600) + b"\x14\0" * 300
    rows = (7).to_bytes(6, "little") + b"\1\0\2\0" + b"\xfc" + struct.pack("<H", 300) + b"\xff" * 38
    file = File("5.6.51", SIZES_5_6, checksum=True).query("BEGIN")
    file.add(EventType.TABLE_MAP, body + bytes(38))
    file.add(EventType.WRITE_ROWS, rows + bytes(38) + b"\1x" * 300).xid()
    assert changes_of(file.write(tmp_path / "b.1")) == inserts("app.t", image(*[b"x"] * 300))


@pytest.mark.parametrize("first", [251, 255])
def test_a_malformed_count_is_corrupt(tmp_path, first):
    body = (7).to_bytes(6, "little") + b"\1\0\3app\0\1t\0" + bytes([first]) + bytes(20)
    file = File("5.6.51", SIZES_5_6, checksum=True).query("BEGIN").add(EventType.TABLE_MAP, body)
    with pytest.raises(CorruptEvent, match=f"integer begins with byte {first}"):
        changes_of(file.write(tmp_path / "b.1"))


def test_a_replication_group_view_change_is_a_transaction_without_rows(tmp_path):
    """MySQL 5.7 and 8.0 log each change of the members, under a GTID of the group's own."""
    file = File("8.0.36", SIZES_8_0, checksum=True)
    mysql_gtid(file, 1).query("BEGIN").add(EventType.VIEW_CHANGE, b"17000:1".ljust(40, b"\0") + bytes(12))
    file.query("COMMIT")
    mysql_gtid(file, 2).query("BEGIN").table_map(INT)
    write_rows_v2(file, INT, [struct.pack("<i", 7)]).xid()
    path = file.write(tmp_path / "mysql-bin.000001")
    assert changes_of(path) == inserts("app.t", image(7))
    assert [(rows, gtid) for rows, _, gtid in headers_of(path)] == [(0, f"{SERVER}:1"), (1, f"{SERVER}:2")]
