"""The table of column types: it is whole, and a server's description gives the type that rows have."""

import pyarrow as pa
import pytest

from actors.parse.columns.charsets import BINARY_COLLATION
from actors.parse.columns.columns import field_of
from actors.parse.columns.types.column import Column, ColumnType
from actors.parse.columns.types.table import BY_NAME, TYPES
from actors.parse.native.images import Layout
from actors.parse.server.described import arrow_type
from merge.errors import UnsupportedEvent

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


def described(name, *, full_type="", charset=None, digits=12, scale=3):
    row = {"sch": "app", "tab": "t", "name": "c", "kind": name, "full_type": full_type or name}
    return arrow_type({**row, "charset": charset, "digits": digits, "scale": scale})


def test_every_type_has_a_row():
    assert set(TYPES) == set(ColumnType) - READ_AS_OTHERS


@pytest.mark.parametrize("kind", sorted(set(ColumnType) - READ_AS_OTHERS))
def test_a_possible_column_of_each_type_can_be_decoded(kind):
    row = TYPES[kind]
    assert row.possible(column(kind))
    Layout([row.plan(column(kind))])
    assert field_of(column(kind, name="c")).metadata[b"mysql_type"]


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_a_description_gives_the_type_that_rows_have(name):
    kind = BY_NAME[name]
    text = name.endswith("text") or name in ("char", "varchar")
    collation = UTF8MB4 if text else BINARY_COLLATION
    address = name if name in ("uuid", "inet4", "inet6") else ""
    rows = field_of(column(kind, collation=collation, address=address)).type
    rows = rows.value_type if pa.types.is_dictionary(rows) else rows
    assert described(name, charset="utf8mb4" if text else None) == rows


@pytest.mark.parametrize("name", ["tinyint", "smallint", "mediumint", "int", "bigint"])
def test_a_description_says_which_numbers_have_no_sign(name):
    kind = BY_NAME[name]
    assert described(name, full_type=f"{name}(10) unsigned") == field_of(column(kind, unsigned=True)).type


def test_a_type_that_is_not_known_is_refused_and_never_taken_for_text():
    with pytest.raises(
        UnsupportedEvent, match=r"Column c of app\.t is of type xmltype, which is not known\."
    ):
        described("xmltype")
