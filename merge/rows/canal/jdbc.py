"""JDBC types: the numbers of java.sql.Types that canal gives to columns.

An unsigned integer has the type of a signed one, and the next wider type in those rows whose value only that
one holds. An ENUM and a SET are texts here, and have the type of a text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from canal_group.merge.values.types.kinds import Jdbc
from canal_group.merge.values.types.table import row_of

#: a column without a type of MySQL's, such as one that a filter computes
_OF_ARROW: Final = (
    (pa.types.is_int8, Jdbc.TINYINT),
    (pa.types.is_int16, Jdbc.SMALLINT),
    (pa.types.is_int32, Jdbc.INTEGER),
    (pa.types.is_integer, Jdbc.BIGINT),
    (pa.types.is_boolean, Jdbc.BIT),
    (pa.types.is_decimal, Jdbc.DECIMAL),
    (pa.types.is_float32, Jdbc.REAL),
    (pa.types.is_floating, Jdbc.DOUBLE),
    (pa.types.is_date, Jdbc.DATE),
    (pa.types.is_timestamp, Jdbc.TIMESTAMP),
    (pa.types.is_duration, Jdbc.TIME),
    (pa.types.is_binary, Jdbc.BLOB),
    (pa.types.is_fixed_size_binary, Jdbc.BLOB),
)
#: unsigned type -> greatest value of the signed one
_SIGNED_MAX: Final = {8: (1 << 7) - 1, 16: (1 << 15) - 1, 32: (1 << 31) - 1, 64: (1 << 63) - 1}
_WIDER: Final = {
    Jdbc.TINYINT: Jdbc.SMALLINT,
    Jdbc.SMALLINT: Jdbc.INTEGER,
    Jdbc.INTEGER: Jdbc.BIGINT,
    Jdbc.BIGINT: Jdbc.DECIMAL,
}


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
        mysql_type: the column's type as the source writes it, such as `bigint unsigned`; empty if unknown.
        kind: its Arrow type.
    """
    row = row_of(mysql_type)
    if row is None or row.jdbc is None:
        return JdbcType(next((jdbc for fits, jdbc in _OF_ARROW if fits(kind)), Jdbc.VARCHAR))
    if row.jdbc not in _WIDER or not pa.types.is_unsigned_integer(kind):
        return JdbcType(row.jdbc)
    if row.size * 8 < row.arrow.bit_width:
        return JdbcType(row.jdbc)  # An INTEGER holds all values of a MEDIUMINT.
    return JdbcType(row.jdbc, _WIDER[row.jdbc], _SIGNED_MAX[kind.bit_width])


def plain_type(mysql_type: str) -> str:
    """Return a column's type without the comment that ours has for geometries."""
    return mysql_type.partition(" /*")[0]
