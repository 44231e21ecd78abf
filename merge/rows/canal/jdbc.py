"""JDBC types: the numbers of java.sql.Types that canal gives to columns.

An unsigned integer has the type of a signed one, and the next wider type in those rows whose value only that
one holds. An ENUM and a SET are texts here, and have the type of a text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

BIT, TINYINT, BIGINT, CHAR, DECIMAL, INTEGER, SMALLINT = -7, -6, -5, 1, 3, 4, 5
REAL, DOUBLE, VARCHAR, DATE, TIME, TIMESTAMP, BLOB, CLOB = 7, 8, 12, 91, 92, 93, 2004, 2005

_OF_WORD: Final = {
    "bit": BIT,
    "tinyint": TINYINT,
    "smallint": SMALLINT,
    "mediumint": INTEGER,
    "int": INTEGER,
    "integer": INTEGER,
    "bigint": BIGINT,
    "decimal": DECIMAL,
    "numeric": DECIMAL,
    "float": REAL,
    "double": DOUBLE,
    "year": VARCHAR,
    "date": DATE,
    "time": TIME,
    "datetime": TIMESTAMP,
    "timestamp": TIMESTAMP,
    "char": CHAR,
    "enum": CHAR,
    "set": CHAR,
    "varchar": VARCHAR,
    "json": VARCHAR,
    "vector": VARCHAR,
    **dict.fromkeys(("tinytext", "text", "mediumtext", "longtext"), CLOB),
    **dict.fromkeys(("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"), BLOB),
    **dict.fromkeys(("geometry", "point", "linestring", "polygon", "multipoint", "multilinestring"), BLOB),
    **dict.fromkeys(("multipolygon", "geometrycollection", "geomcollection"), BLOB),
}
#: a column without a type of MySQL's, such as one that a filter computes
_OF_ARROW: Final = (
    (pa.types.is_int8, TINYINT),
    (pa.types.is_int16, SMALLINT),
    (pa.types.is_int32, INTEGER),
    (pa.types.is_integer, BIGINT),
    (pa.types.is_boolean, BIT),
    (pa.types.is_decimal, DECIMAL),
    (pa.types.is_float32, REAL),
    (pa.types.is_floating, DOUBLE),
    (pa.types.is_date, DATE),
    (pa.types.is_timestamp, TIMESTAMP),
    (pa.types.is_duration, TIME),
    (pa.types.is_binary, BLOB),
    (pa.types.is_fixed_size_binary, BLOB),
)
#: unsigned type -> greatest value of the signed one
_SIGNED_MAX: Final = {8: (1 << 7) - 1, 16: (1 << 15) - 1, 32: (1 << 31) - 1, 64: (1 << 63) - 1}
_WIDER: Final = {TINYINT: SMALLINT, SMALLINT: INTEGER, INTEGER: BIGINT, BIGINT: DECIMAL}


@dataclass(frozen=True, slots=True)
class JdbcType:
    """The JDBC type of a column."""

    number: int
    #: the type of values above `number_max`, and that value; None: all values have one type
    wider: int = 0
    number_max: int | None = None


def jdbc_type(mysql_type: str, kind: Any) -> JdbcType:
    """Return the JDBC type of a column.

    Args:
        mysql_type: the column's type as the source writes it, such as `bigint unsigned`; empty if not known.
        kind: its Arrow type.
    """
    word = mysql_type.lower().partition("(")[0].partition(" ")[0]
    number = _OF_WORD.get(word)
    if number is None:
        return JdbcType(next((found for fits, found in _OF_ARROW if fits(kind)), VARCHAR))
    if number not in _WIDER or not pa.types.is_unsigned_integer(kind):
        return JdbcType(number)
    if word == "mediumint":
        return JdbcType(number)  # An INTEGER holds all of its values.
    return JdbcType(number, _WIDER[number], _SIGNED_MAX[kind.bit_width])


def plain_type(mysql_type: str) -> str:
    """Return a column's type without the comment that ours has for geometries."""
    return mysql_type.partition(" /*")[0]
