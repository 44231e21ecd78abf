# ruff: noqa: DTZ001 - DATETIME has no zone
"""Every binlog of a real MySQL 5.5.9, MariaDB 10.2.11 and 10.11 says what the SQL beside it did."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal

import pytest
from support.binlog.decoding import FIXTURES
from support.binlog.fixture_changes import changes_of, deletes, inserts, updates

from canal_group.binlog.columns.table_lookup import ColumnFacts, NoLookup
from canal_group.binlog.files.binlog_files import BinlogFiles
from canal_group.merge.errors import CorruptEvent, UnsupportedEvent
from canal_group.merge.values.chunk import TableName
from canal_group.programs.command.binlog.tool import show

OLD = [FIXTURES.parent / name for name in ("mysql-5.5.9", "mariadb-10.2.11")]
old = pytest.mark.parametrize("folder", OLD, ids=lambda folder: folder.name)
POINT = b"\0\0\0\0\1\1\0\0\0" + bytes.fromhex("000000000000f03f 0000000000000040")
#: the values of all_types' first row: no sign and no charset is known, ENUM and SET are numbers
ROW = [
    1, -128, -1, -32768, -1, -8388608, -1, -2147483648, -1, -9223372036854775808, -1,
    Decimal("-12345678901234567890123456789012345.123456789012345678901234567890"), Decimal("12345678.90"),
    1.5, -2.25e100, 1, 2**64 - 1, dt.date(2020, 2, 29), -dt.timedelta(hours=838, minutes=59, seconds=59),
    dt.datetime(9999, 12, 31, 23, 59, 59), dt.datetime(2038, 1, 19, 3, 14, 7, tzinfo=dt.UTC), 2155,
    "é".encode("latin-1"), "日本😀".encode(), "中文".encode("gbk"), b"ab", b"cd", b"tiny",
    "ucs日".encode("utf-16-be"), b"medium", b"long", b"tb", b"bl", b"mb", b"\0\xff", 2, 5, POINT,
    "ch日".encode(),
]  # fmt: skip


def numbered(values):
    """Return an image whose columns have no names, without its nulls."""
    return {f"@{ordinal}": value for ordinal, value in enumerate(values, start=1) if value is not None}


@old
def test_all_types(folder):
    (_, _, *changes) = changes_of(folder / "all_types.binlog")
    first, second, third, update, delete = changes
    assert first == ("INSERT", "app.t", None, numbered(ROW))
    assert second == ("INSERT", "app.t", None, numbered([2]))
    assert [name for name in numbered(ROW) if name not in third[3]] == [
        "@18",
        "@20",
        "@21",
    ]  # zero dates
    assert third[3]["@19"] == dt.timedelta(0)
    assert update == ("UPDATE", "app.t", first[3], {**first[3], "@8": 5, "@24": b"neu"})
    assert delete == ("DELETE", "app.t", second[3], None)


def rows(*values):
    return [numbered([value] if isinstance(value, int) else value) for value in values]


def changes():
    """Return the changes of transactions.sql; a trigger's rows stand before those that set it off."""
    m, n = "app.m", "app.n"
    return [
        ("QUERY", "app."),
        ("CREATE", "app.t"),
        ("CREATE", m),
        *inserts(m, *rows([1, b"a"], [2, b"b"])),
        *updates(m, *zip(rows([1, b"a"], [2, b"b"]), rows([1, b"c"], [2, b"c"]), strict=True)),
        *deletes(m, *rows([1, b"c"])),
        *inserts("app.t", *rows(10, 12)),
        ("CREATE", n),
        *inserts(n, *rows(1)),
        ("QUERY", "app."),
        ("QUERY", "app."),
        *(
            change
            for number in (5, 6, 7)
            for change in (*inserts(m, *rows([number, b"tr"])), *inserts(n, *rows(number)))
        ),
        ("RENAME", "app.n2"),
        *inserts(m, *rows([8, b"tr"])),
        *inserts("app.n2", *rows([8, 4])),
        ("TRUNCATE", "app.n2"),
        ("ERASE", "app.n2"),
        ("CREATE", "app.k"),
        *inserts("app.k", *rows(1), *rows(2)),
    ]


@old
def test_transactions(folder):
    """MyISAM, savepoints, CREATE SELECT, triggers, XA as before 5.7, DDL; MariaDB's compressed events too."""
    expected = changes()
    if folder.name.startswith("mysql"):
        expected.insert(expected.index(("CREATE", "app.n")) + 2, ("QUERY", "app."))  # DROP TEMPORARY TABLE
    else:
        x, y, z = [1, b"x" * 3000], [2, b"y" * 3000], [1, b"z" * 2000]
        expected += [
            ("CREATE", "app.c"),
            *inserts("app.c", *rows(x, y)),
            *updates("app.c", (numbered(x), numbered(z))),
            *deletes("app.c", *rows(z, y)),
        ]
    assert changes_of(folder / "transactions.binlog") == expected


@old
def test_statements_are_refused_by_a_stream_and_printed_by_the_tool(folder):
    path = folder / "statements.binlog"
    with pytest.raises(UnsupportedEvent, match="A statement in the binlog changes rows") as caught:
        changes_of(path)
    assert caught.value.details["file"] == path.name
    assert "binlog_format=ROW" in caught.value.hint
    lines = []
    show([path], lines.append, note=lines.append, as_json=True)
    printed = [json.loads(line) for line in lines]
    assert [(each["op"], each["table"]) for each in printed] == [
        ("QUERY", ""),
        ("CREATE", "t"),
        ("CREATE", "m"),
        *[("STATEMENT", "t")] * 3,
        ("STATEMENT", "m"),
        *[("STATEMENT", "t")] * 4,
        ("QUERY", ""),
        ("STATEMENT", "tmp"),
        ("QUERY", ""),
        ("STATEMENT", "t"),
        ("STATEMENT", "m"),
        ("STATEMENT", ""),  # ROLLBACK
        ("INSERT", "t"),
        ("STATEMENT", "t"),
        ("INSERT", "t"),
    ]
    rows = [each for each in printed if each["op"] == "INSERT"]
    assert all(each["after"] and "sql" not in each for each in rows)
    texts = [each["sql"] for each in printed if each["op"] == "STATEMENT"]
    assert texts[7].startswith("LOAD DATA INFILE")
    assert texts[-2] == "ROLLBACK"
    assert printed[-1]["after"]["@2"] == "row"


@old
def test_statements_are_counted_apart(folder):
    lines = []
    show([folder / "statements.binlog"], lines.append, note=lines.append, as_json=False)
    assert any(line.endswith("9 STATEMENT app.t") for line in lines)
    assert any(line.endswith("2 INSERT app.t") for line in lines)


class Known(NoLookup):
    """Says what types.sql made."""

    def columns(self, table):
        if table.table == "a":
            names = ["id", "u", "i4", "i6", "vc", "vs", "t", "b", "j", "tt", "lb", "bi", "b4"]
            types = ["int", "uuid", "inet4", "inet6", *["varchar"] * 7, "binary", "binary"]
            return [ColumnFacts(n, False, 63, (), 0, t) for n, t in zip(names, types, strict=True)]
        times = [
            ColumnFacts(f"{letter}{digits}", False, 63, (), 0, name, digits)
            for digits in range(7)
            for letter, name in (("t", "time"), ("d", "datetime"), ("s", "timestamp"))
        ]
        return [ColumnFacts("id", False, 63, (), 1, "int"), *times]


TYPES = FIXTURES.parent / "mariadb-10.11" / "types.binlog"


def rows_of(table, lookup=None):
    return [
        row["after"] or row["before"]
        for chunk in BinlogFiles([TYPES], TableName, lookup=lookup)
        for each in chunk.tables
        if each.name.table == table
        for row in each.rows.to_pylist()
    ]


def test_compressed_columns_and_addresses():
    first, second, empty, third, wrapped, *_ = rows_of("a", Known())
    assert first == {
        "id": 1, "u": "123e4567-e89b-12d3-a456-426655440000", "i4": "1.2.3.4", "i6": "::0.1.0.2", "vc": "aé",
        "vs": b"x", "t": "téxt", "b": b"blob", "j": "{}", "tt": "日本", "lb": b"long",
        "bi": b"b".ljust(16, b"\0"),
        "b4": b"b4\0\0",
    }  # fmt: skip
    assert second == {
        "id": 2, "u": "6ccd780c-baba-4026-9564-5b8c656024db", "i4": "1.2.0.0", "i6": "1:2:3:4::6:7:8",
        "vc": "é" * 200, "vs": b"y" * 100, "t": "z" * 5000, "b": b"w" * 70000, "j": "[1]", "tt": "q" * 200,
        "lb": b"l" * 200, "bi": bytes(16), "b4": bytes(4),
    }  # fmt: skip
    assert set(empty.values()) == {3, None}
    assert (third["u"], third["i4"], third["i6"]) == (
        "ffffffff-ffff-ffff-ffff-ffffffffffff", "0.0.0.0", "::ffff:1.2.3.4",
    )  # fmt: skip
    assert (third["vc"], third["t"], third["b"], third["lb"]) == ("", "", b"", b"")
    assert (wrapped["t"], wrapped["b"]) == ("wrapped " * 50, b"v" * 300)


def test_the_types_that_columns_are_said_to_have():
    (table,) = (
        each for chunk in BinlogFiles([TYPES], TableName, lookup=Known()) for each in chunk.tables
        if each.name.table == "a"
    )  # fmt: skip
    fields = table.rows.schema.field("after").type
    assert [field.metadata[b"mysql_type"].decode() for field in fields] == [
        "int", "uuid", "inet4", "inet6", "varchar(200)", "varbinary(100)", "text", "mediumblob", "longtext",
        "tinytext", "longblob", "binary(16)", "binary(4)",
    ]  # fmt: skip


def cut(time, digits):
    unit = 10 ** (6 - digits)
    return time.replace(microsecond=time.microsecond // unit * unit)


def test_fractions_as_old_mariadbs_store_them():
    low, mid, zero, null = rows_of("o", Known())
    datetime = dt.datetime(2020, 1, 2, 3, 4, 5, 987654)
    stamp = dt.datetime(2001, 9, 9, 1, 46, 40, 123456, dt.UTC)
    whole = dt.timedelta(hours=838, minutes=59, seconds=59)
    for digits in range(7):
        unit = 10 ** (6 - digits)
        assert low[f"t{digits}"] == -whole - dt.timedelta(microseconds=123456 // unit * unit)
        assert low[f"d{digits}"] == cut(datetime, digits)
        assert low[f"s{digits}"] == cut(stamp, digits)
        assert mid[f"t{digits}"] == dt.timedelta(seconds=1, microseconds=500_000 if digits else 0)
        assert mid[f"d{digits}"] == dt.datetime(1000, 1, 1)
        assert zero[f"t{digits}"] == whole + dt.timedelta(microseconds=10**6 - unit)
        assert zero[f"d{digits}"] is zero[f"s{digits}"] is null[f"d{digits}"] is None


def test_without_a_lookup_addresses_are_bytes_and_fractions_an_error():
    """Nothing tells how long such times are: they are read as having no fraction, and do not fit."""
    chunks = []
    with pytest.raises(CorruptEvent, match="impossible digits") as caught:
        chunks.extend(BinlogFiles([TYPES], TableName))
    rows = [row["after"] for chunk in chunks for table in chunk.tables for row in table.rows.to_pylist()]
    assert "FORCE" in caught.value.hint
    assert rows[0]["u"] == bytes.fromhex("123e4567e89b12d3a456426655440000")
    assert (rows[0]["i4"], rows[0]["vc"], rows[1]["t"]) == (b"\1\2\3\4", "aé", "z" * 5000)
