"""The table of column types: it is whole, and a definition gives the type that rows have."""

from dataclasses import replace

import pyarrow as pa
import pytest

from canal_group.binlog.charsets.charsets import BINARY_COLLATION
from canal_group.binlog.columns.columns import field_of
from canal_group.binlog.columns.types.column import Column
from canal_group.binlog.columns.types.reader import read_columns
from canal_group.binlog.columns.types.table import TYPES
from canal_group.binlog.formats.byte_cursor import ByteCursor
from canal_group.binlog.native.images import Layout
from canal_group.binlog.schema.definition import ColumnDefinition, TableDefinition
from canal_group.binlog.server.described import described
from canal_group.merge.errors import CorruptEvent, UnsupportedEvent
from canal_group.merge.values.types.table import BY_NAME, ColumnType

#: they become other types when a table map is read
READ_AS_OTHERS = {ColumnType.NEWDATE, ColumnType.TYPED_ARRAY}
UTF8MB4 = 45
#: a column of each type, as a table map says it
COLUMNS = {
    ColumnType.NEWDECIMAL: {"precision": 12, "decimals": 3},
    ColumnType.FLOAT: {"size": 4},
    ColumnType.DOUBLE: {"size": 8},
    ColumnType.BIT: {"size": 9},
    ColumnType.ENUM: {"size": 1, "values": ("a", "b")},
    ColumnType.SET: {"size": 1, "values": ("a", "b")},
}


def column(kind, **changes):
    return Column(kind, **{"size": 2, **COLUMNS.get(kind, {}), **changes})


def test_a_geometry_of_unknown_kind_is_called_geometry():
    """Files of old servers do not say which, and no definition does."""
    assert TYPES[ColumnType.GEOMETRY].sql(column(ColumnType.GEOMETRY)).split()[0] == "geometry"
    point = column(ColumnType.GEOMETRY, geometry="point")
    assert TYPES[ColumnType.GEOMETRY].sql(point).split()[0] == "point"


def type_of(name, **changes):
    """Return the type of a column that a definition has."""
    whole = ColumnDefinition("c", name, length=9, precision=12, scale=3, values=("a", "b"))
    (logged,) = described(TableDefinition("app", "t", (replace(whole, **changes),))).columns
    assert logged.name == "c"
    return logged.type


def test_every_type_has_a_row():
    assert set(TYPES) == set(ColumnType) - READ_AS_OTHERS


@pytest.mark.parametrize("kind", sorted(set(ColumnType) - READ_AS_OTHERS))
def test_a_possible_column_of_each_type_can_be_decoded(kind):
    row = TYPES[kind]
    assert row.possible(column(kind))
    Layout([row.plan(column(kind))])
    assert field_of(column(kind, name="c")).metadata[b"mysql_type"]


def read(kind, meta):
    return read_columns(bytes([kind]), ByteCursor(bytes([len(meta)]) + meta), "app.t")


@pytest.mark.parametrize(
    ("kind", "meta"),
    [
        (ColumnType.FLOAT, b"\x08"),
        (ColumnType.DOUBLE, b"\x04"),
        (ColumnType.NEWDECIMAL, b"\x00\x00"),
        (ColumnType.NEWDECIMAL, b"\x42\x00"),
        (ColumnType.NEWDECIMAL, b"\x05\x06"),
        (ColumnType.NEWDECIMAL, b"\x41\x1f"),
        (ColumnType.BIT, b"\x00\x00"),
        (ColumnType.BIT, b"\x01\x08"),
        (ColumnType.TIME2, b"\x07"),
        (ColumnType.DATETIME2, b"\x07"),
        (ColumnType.TIMESTAMP2, b"\x07"),
        (ColumnType.STRING, bytes([ColumnType.ENUM, 3])),
        (ColumnType.STRING, bytes([ColumnType.SET, 5])),
        (ColumnType.BLOB, b"\x00"),
        (ColumnType.BLOB, b"\x05"),
        (ColumnType.BLOB_COMPRESSED, b"\x05"),
        (ColumnType.JSON, b"\x05"),
        (ColumnType.GEOMETRY, b"\x00"),
        (ColumnType.VECTOR, b"\x05"),
    ],
)
def test_a_size_that_no_column_has_is_refused(kind, meta):
    with pytest.raises(CorruptEvent, match=r"Column 1 of app\.t is a \w+ of an impossible size\."):
        read(kind, meta)


def test_every_name_of_a_type_is_known():
    """As `information_schema.COLUMNS.DATA_TYPE` has them, on either vendor."""
    expected = (
        "tinyint smallint mediumint int bigint float double decimal bit year date time datetime timestamp "
        "char binary varchar varbinary tinytext text mediumtext longtext tinyblob blob mediumblob longblob "
        "enum set uuid inet4 inet6 json vector geometry point linestring polygon multipoint "
        "multilinestring multipolygon geometrycollection geomcollection"
    )
    assert set(BY_NAME) == set(expected.split())


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_a_definition_gives_the_type_that_rows_have(name):
    kind = BY_NAME[name].code
    text = name.endswith("text") or name in ("char", "varchar")
    collation = UTF8MB4 if text else BINARY_COLLATION
    address = name if name in ("uuid", "inet4", "inet6") else ""
    rows = field_of(column(kind, collation=collation, address=address)).type
    rows = rows.value_type if pa.types.is_dictionary(rows) else rows
    assert type_of(name, collation=collation) == rows


@pytest.mark.parametrize("name", ["tinyint", "smallint", "mediumint", "int", "bigint"])
def test_a_definition_says_which_numbers_have_no_sign(name):
    kind = BY_NAME[name].code
    assert type_of(name, unsigned=True) == field_of(column(kind, unsigned=True)).type


def test_a_type_that_is_not_known_is_refused_and_never_taken_for_text():
    with pytest.raises(UnsupportedEvent, match=r"Column c of app\.t is of type xmltype, which is unknown\."):
        type_of("xmltype")
