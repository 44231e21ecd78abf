"""Files of old servers, made by hand after their formats: no checksums, no names, old rows, old times."""

from __future__ import annotations

import pytest
from support.binlog.binlog_bytes import SIZES_5_1, File
from support.binlog.fixture_changes import changes_of
from support.binlog.old_files import COLUMNS, ROW, VALUES, Known, transaction

from canal_group.binlog.columns.table_lookup import ColumnFacts
from canal_group.binlog.files.binlog_files import BinlogFiles
from canal_group.binlog.formats.event_types import EventType
from canal_group.merge.errors import CorruptEvent, UnsupportedEvent
from canal_group.merge.values.chunk import TableName
from canal_group.merge.values.types.table import ColumnType


@pytest.mark.parametrize(
    ("version", "checksum"),
    [
        ("5.1.73-log", None),
        ("5.5.62", None),
        ("5.6.0-m4", None),
        ("5.6.51-log", False),
        ("5.7.44-log", True),
        ("5.2.14-MariaDB", None),
        ("5.5.68-MariaDB", True),
        ("10.0.38-MariaDB-log", True),
        ("10.6.16-MariaDB", False),
    ],
)
def test_rows_of_old_servers(tmp_path, version, checksum):
    file = transaction(File(version, checksum=checksum)).write(tmp_path / "mysql-bin.000001")
    rows = changes_of(file)
    assert [row[:3] for row in rows] == [("INSERT", "app.t", None)] * 2
    after = rows[0][3]
    assert [after[f"@{ordinal}"] for ordinal in range(1, 11)] == VALUES
    assert str(after["@11"]) == "123.45"


def test_table_ids_of_four_bytes(tmp_path):
    sizes = bytearray(SIZES_5_1)
    for kind in (EventType.TABLE_MAP, EventType.WRITE_ROWS_V1):
        sizes[kind - 1] = 6
    file = transaction(File("5.1.4-beta", bytes(sizes)), id_size=4).write(tmp_path / "mysql-bin.000001")
    assert len(changes_of(file)) == 2


def test_commit_times_are_the_seconds_of_the_first_event(tmp_path):
    path = transaction(File("5.5.62")).write(tmp_path / "mysql-bin.000001")
    (chunk,) = BinlogFiles([path], TableName)
    assert int(chunk.headers[0]["commit_us"]) == 1_300_000_000_000_000
    assert int(chunk.headers[0]["gtid_number"]) == 0


FACTS = [
    ColumnFacts("id", unsigned=True, collation=63, values=(), key_ordinal=1),
    ColumnFacts("name", unsigned=False, collation=45, values=(), key_ordinal=0),
    ColumnFacts("code", unsigned=False, collation=8, values=(), key_ordinal=0),
    *(ColumnFacts(name, False, 63, (), 0) for name in ("ts", "dtm", "tm", "da", "y")),
    ColumnFacts("en", unsigned=False, collation=45, values=("x", "y"), key_ordinal=0),
    ColumnFacts("bl", unsigned=False, collation=63, values=(), key_ordinal=0),
    ColumnFacts("de", unsigned=False, collation=63, values=(), key_ordinal=0),
]


def test_a_lookup_gives_names_signs_charsets_and_values(tmp_path):
    path = transaction(File("5.5.62")).write(tmp_path / "mysql-bin.000001")
    (chunk,) = BinlogFiles([path], TableName, lookup=Known(FACTS))
    after = chunk.tables[0].rows.to_pylist()[0]["after"]
    assert list(after) == [fact.name for fact in FACTS]
    assert (after["id"], after["name"], after["code"]) == (2**32 - 5, "é!", "ab")
    assert (after["en"], after["bl"]) == ("y", b"\xff\xfe")
    assert chunk.tables[0].rows.schema.metadata[b"primary_key"] == b'["id"]'


def test_a_lookup_of_another_version_of_the_table_is_not_used(tmp_path):
    path = transaction(File("5.5.62")).write(tmp_path / "mysql-bin.000001")
    (chunk,) = BinlogFiles([path], TableName, lookup=Known(FACTS[1:]))
    assert "@1" in chunk.tables[0].rows.to_pylist()[0]["after"]


@pytest.mark.parametrize("kind", [20, 21, 22])
def test_rows_from_before_the_release_are_refused_by_name(tmp_path, kind):
    path = File("5.1.5-alpha").query("BEGIN").add(kind, bytes(20)).write(tmp_path / "mysql-bin.000001")
    with pytest.raises(UnsupportedEvent, match="PRE_GA_") as caught:
        changes_of(path)
    assert "before its release" in caught.value.hint


@pytest.mark.parametrize("kind", [6, 8, 9, 10, 11, 12, 17, 18])
def test_load_events_are_refused_by_name(tmp_path, kind):
    path = File("5.0.96").query("BEGIN").add(kind, bytes(30)).write(tmp_path / "mysql-bin.000001")
    with pytest.raises(UnsupportedEvent, match=EventType(kind).name):
        changes_of(path)


def test_a_type_beyond_the_format_description_is_corrupt(tmp_path):
    path = File("5.1.73").query("BEGIN").table_map(COLUMNS)
    path = path.insert(COLUMNS, [ROW], kind=EventType.WRITE_ROWS).write(tmp_path / "mysql-bin.000001")
    with pytest.raises(CorruptEvent, match="does not know type 30"):
        changes_of(path)


def test_version_three_is_refused(tmp_path):
    file = File("4.1.22")
    path = tmp_path / "mysql-bin.000001"
    path.write_bytes(file.data[:23] + b"\3\0" + file.data[25:])
    with pytest.raises(UnsupportedEvent, match="Binlog version 3"):
        changes_of(path)


def test_headers_of_another_size_are_refused_as_such(tmp_path):
    file = File("5.5.62")
    path = tmp_path / "mysql-bin.000001"
    size_at = 4 + 19 + 2 + 50 + 4
    path.write_bytes(file.data[:size_at] + b"\x1b" + file.data[size_at + 1 :])
    with pytest.raises(UnsupportedEvent, match="Event headers of 27 bytes are not supported") as caught:
        changes_of(path)
    assert "version" not in str(caught.value)


class Altered(Known):
    """Knows a table that becomes another with the first definition that is read."""

    def redefine(self, _query, _file, _end):
        self.facts = [self.facts[0]._replace(type="binary")]


def test_a_table_that_is_altered_is_asked_for_again(tmp_path):
    """Its table map is the same before and after, and its rows are of two types in one chunk."""
    columns, value = [(ColumnType.STRING, b"\xfe\x10")], bytes(range(16))
    file = File("10.11.6-MariaDB-log", checksum=False)
    for number in (7, 8):
        file.query("BEGIN").table_map(columns, number).insert(columns, [b"\x10" + value], number).xid()
        if number == 7:
            file.query("ALTER TABLE t MODIFY u BINARY(16)")
    lookup = Altered([ColumnFacts("u", False, 63, (), 0, "uuid")])
    (chunk,) = BinlogFiles([file.write(tmp_path / "mysql-bin.000001")], TableName, lookup=lookup)
    assert [table.rows.column("after").to_pylist() for table in chunk.tables] == [
        [{"u": "00010203-0405-0607-0809-0a0b0c0d0e0f"}],
        [{"u": value}],
    ]
