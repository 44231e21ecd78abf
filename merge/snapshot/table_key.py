"""Table keys: the columns by which rows of a table are told apart, and their values in rows."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa

from canal_group.merge.snapshot.key import Key, real_literal
from canal_group.merge.snapshot.touched import RowKey
from canal_group.merge.values.rows.moments import is_moment, keys_of

_SECOND_US: Final = 1_000_000
_DAY_US: Final = 86_400 * _SECOND_US


@dataclass(frozen=True)
class TableKey:
    """A key whose columns are all there in each row, and which no two rows have.

    One without columns is that of a table in which rows are not told apart: one row touched is all touched.
    """

    #: names in the key's order
    columns: tuple[str, ...]
    #: Arrow types of their values in rows
    types: tuple[Any, ...]

    def of(self, columns: Sequence[Any], count: int) -> list[RowKey]:
        """Return the keys of rows.

        Args:
            columns: (n,) Arrays, one for each column of the key.
            count: n.

        Returns:
            (n,) keys; equal if and only if the binlog has equal values.
        """
        return list(zip(*map(_values, columns), strict=True)) if columns else [()] * count

    def for_server(self, key: RowKey) -> Key:
        """Return a row's key as its server understands it."""
        return tuple(_for_server(value, kind) for value, kind in zip(key, self.types, strict=True))


def _values(column: Any) -> list[Hashable]:
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.dictionary_decode()
    elif is_moment(kind):
        # Also tells apart dates that no calendar has.
        column = keys_of(column)
    elif pa.types.is_duration(kind):
        column = column.view(pa.int64())
    elif pa.types.is_integer(kind) and not column.null_count:
        return np.asarray(column).tolist()  # type: ignore[no-any-return]
    return column.to_pylist()  # type: ignore[no-any-return]


def _for_server(value: Any, kind: Any) -> str:
    """Return a value of a row as a literal."""
    if is_moment(kind):
        return f"'{_moment_text(value, with_time=not pa.types.is_date32(kind))}'"
    if pa.types.is_duration(kind):
        return f"'{'-' if value < 0 else ''}{_clock_text(abs(value))}'"
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, float):
        return real_literal(repr(value))
    if isinstance(value, str):
        return f"_utf8mb4 X'{value.encode().hex()}'"
    return f"X'{value.hex()}'" if isinstance(value, bytes) else str(value)


def _moment_text(number: int, *, with_time: bool) -> str:
    """Return the text of a number of `keys_of`."""
    date, clock_us = divmod(number, _DAY_US)
    text = f"{date >> 9:04}-{date >> 5 & 15:02}-{date & 31:02}"
    return f"{text} {_clock_text(clock_us)}" if with_time else text


def _clock_text(clock_us: int) -> str:
    seconds, us = divmod(clock_us, _SECOND_US)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{us:06}"
