"""Table keys: the columns by which rows of a table are told apart, and their values in rows."""

from __future__ import annotations

import contextlib
from collections.abc import Hashable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from canal_group.merge.snapshot.key import Key, literal
from canal_group.merge.snapshot.touched import RowKey
from canal_group.merge.values.rows.moments import is_moment, kept_of, keys_of

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

    def among(self, columns: Sequence[Any], keys: AbstractSet[RowKey]) -> dict[RowKey, int]:
        """Return the indexes of those rows that have one of some keys, by key; columns as for `of`."""
        likely = _likely(columns[0], {key[0] for key in keys})
        found = self.of([kept_of(column, likely) for column in columns], int(likely.sum()))
        indexes = np.flatnonzero(likely).tolist()
        return {key: index for key, index in zip(found, indexes, strict=True) if key in keys}

    def for_server(self, key: RowKey) -> Key:
        """Return a row's key as its server understands it."""
        return tuple(_for_server(value, kind) for value, kind in zip(key, self.types, strict=True))


def _values(column: Any) -> list[Hashable]:
    column = _comparable(column)
    if pa.types.is_integer(column.type) and not column.null_count:
        return np.asarray(column).tolist()  # type: ignore[no-any-return]
    return column.to_pylist()  # type: ignore[no-any-return]


def _comparable(column: Any) -> Any:
    """Return values that are equal if and only if the binlog has equal values."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        # An ENUM's number: two numbers may have one text.
        return column.indices
    if is_moment(kind):
        # Also tells apart dates that no calendar has.
        return keys_of(column)
    return column.view(pa.int64()) if pa.types.is_duration(kind) else column


def _likely(column: Any, values: AbstractSet[Hashable]) -> NDArray[np.bool_]:
    """Return which rows may have one of some values in a column: a few rows, to compare exactly."""
    column = _comparable(column)
    # Arrow tells 0.0 from -0.0.
    if not pa.types.is_floating(column.type):
        # A value of a column that was altered since may not fit.
        with contextlib.suppress(pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            found = pc.is_in(column, value_set=pa.array(values, column.type))
            return found.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]
    return np.ones(len(column), np.bool_)


def _for_server(value: Any, kind: Any) -> str:
    """Return a value of a row as a literal."""
    if is_moment(kind):
        return literal(_moment_text(value, with_time=not pa.types.is_date32(kind)))
    if pa.types.is_duration(kind):
        return literal(f"{'-' if value < 0 else ''}{_clock_text(abs(value))}")
    return literal(value.encode(), "utf8mb4") if isinstance(value, str) else literal(value)


def _moment_text(number: int, *, with_time: bool) -> str:
    """Return the text of a number of `keys_of`."""
    date, clock_us = divmod(number, _DAY_US)
    text = f"{date >> 9:04}-{date >> 5 & 15:02}-{date & 31:02}"
    return f"{text} {_clock_text(clock_us)}" if with_time else text


def _clock_text(clock_us: int) -> str:
    seconds, us = divmod(clock_us, _SECOND_US)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{us:06}"
