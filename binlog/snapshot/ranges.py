"""Ranges: where a table is divided, so that its parts are read side by side.

A table is divided at keys that are there, which its server finds, orders and counts: it estimates the rows
of a range by looking into its index (EXPLAIN). A probe is a value between two keys, to find a key near it.
A bad probe, or an estimate that stale statistics bound, makes ranges uneven or fewer, and changes nothing of
what they hold.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from canal_group.binlog.schema.definition import ColumnDefinition
from canal_group.binlog.snapshot.row_order import RowOrder
from canal_group.merge.snapshot.cursor import KeyRange
from canal_group.merge.snapshot.key import Key, literal
from canal_group.merge.values.types.table import BY_NAME

RANGES_MAX: Final = 16
#: a range of fewer rows is not divided
ROWS_MIN: Final = 10_000
#: probes of one division, each a look into the index
PROBES_MAX: Final = 48
#: a part of a range that is this even is good enough
_EVEN: Final = 0.35, 0.65
#: a part below this is not worth a range
_UNEVEN: Final = 0.02
_NUMBER: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?")
_MOMENT: Final = re.compile(r"'[0-9]{4}-[0-9]{2}-[0-9]{2}.*'")
_BYTES: Final = re.compile(r"(_(?P<charset>[a-z0-9]+) )?X'(?P<hex>[0-9a-f]*)'")
#: characters that every charset with a byte for each of them has
_LETTERS: Final = b"0123456789abcdefghijklmnopqrstuvwxyz"
_WIDE: Final = ("ucs2", "utf16", "utf16le", "utf32")


class Index(Protocol):
    """The index of a table's order, at its server; its methods raise SourceUnavailable and SourceUnfit."""

    def first(self, where: str, *, last: bool = False) -> Key | None:
        """Return the first or last key for which a condition holds; None: no row fulfils the condition."""

    def rows(self, where: str) -> int:
        """Return about how many rows a condition holds for."""


@dataclass(slots=True)
class _Part:
    rows: KeyRange
    count: int


def ranges_of(
    index: Index, order: RowOrder, ranges_max: int = RANGES_MAX, rows_min: int = ROWS_MIN
) -> tuple[KeyRange, ...]:
    """Return the ranges of a table; together they have every key that there is or will be.

    Raises:
        SourceUnavailable, SourceUnfit: see `Index`.
    """
    first = index.first("")
    if first is None:
        return (KeyRange(),)
    parts = [_Part(KeyRange(), index.rows(f"{order.after(first)}"))]
    whole: list[_Part] = []
    while parts and len(parts) + len(whole) < ranges_max:
        largest = max(parts, key=lambda part: part.count)
        parts.remove(largest)
        divided = _divided(index, order, largest) if largest.count >= 2 * rows_min else ()
        if divided:
            parts += divided
        else:
            whole.append(largest)
    return tuple(part.rows for part in (*parts, *whole))


def _divided(index: Index, order: RowOrder, part: _Part) -> tuple[_Part, ...]:
    """Return a part in two of about the same size; none if no key divides it."""
    within = order.within(part.rows)
    ends = index.first(within), index.first(within, last=True)
    if ends[0] is None or ends[1] is None or ends[0] == ends[1]:
        return ()
    best: tuple[float, Key, int, int] | None = None
    fraction = 0.0
    search = _probes(order, ends[0], ends[1], lambda: fraction)
    for number, probe in enumerate(search):
        if number == PROBES_MAX:
            break
        key = index.first(f"({within}) AND ({probe})" if within else probe)
        if key is None or key == ends[1]:
            fraction = 1.0
            continue
        # Servers double estimates, and say of none more than half of the table: only two of them compare.
        left = index.rows(order.within(KeyRange(part.rows.after, key)))
        right = index.rows(order.within(KeyRange(key, part.rows.until)))
        fraction = left / max(left + right, 1)
        if best is None or abs(fraction - 0.5) < abs(best[0] - 0.5):
            best = fraction, key, left, right
        if _EVEN[0] <= fraction <= _EVEN[1]:
            break
    if best is None or not _UNEVEN < best[0] < 1 - _UNEVEN:
        return ()
    _, key, left, right = best
    before, after = KeyRange(part.rows.after, key), KeyRange(key, part.rows.until)
    return _Part(before, left), _Part(after, right)


def _probes(order: RowOrder, first: Key, last: Key, fraction: Callable[[], float]) -> Iterator[str]:
    """Yield conditions whose first key may divide what is between two keys.

    Args:
        order: of the table.
        first: of the range.
        last: of the range.
        fraction: returns which part of the rows is before the key of the last probe.
    """
    common = next(index for index, pair in enumerate(zip(first, last, strict=True)) if pair[0] != pair[1])
    column, prefix = order.columns[common], order.prefix(first[:common])
    for value in _values(column, first[common], last[common], fraction):
        condition = order.not_less(column, value)
        yield f"{prefix} AND {condition}" if prefix else condition


def _values(column: ColumnDefinition, first: str, last: str, fraction: Callable[[], float]) -> Iterator[str]:
    if _NUMBER.fullmatch(first) and _NUMBER.fullmatch(last):
        yield from map(literal, _halves(_whole(first), _whole(last), fraction))
    elif _MOMENT.fullmatch(first) and _MOMENT.fullmatch(last):
        yield from (_day(number) for number in _halves(_ordinal(first), _ordinal(last), fraction))
    else:
        yield from _texts(column, first, last)


def _halves(low: int, high: int, fraction: Callable[[], float]) -> Iterator[int]:
    """Yield numbers between two, each the middle of what the one before leaves."""
    while high - low > 1:
        middle = (low + high) // 2
        yield middle
        if fraction() < 0.5:  # noqa: PLR2004 - half of the rows
            low = middle
        else:
            high = middle


def _whole(number: str) -> int:
    return int(float(number)) if "e" in number else int(number.partition(".")[0])


def _ordinal(moment: str) -> int:
    """Return the day of a date; the nearest one that a calendar has."""
    year, month, day = (int(part) for part in moment[1:11].split("-"))
    return dt.date(max(year, 1), max(month, 1), min(max(day, 1), 28)).toordinal()


def _day(ordinal: int) -> str:
    return literal(dt.date.fromordinal(ordinal).isoformat())


def _texts(column: ColumnDefinition, first: str, last: str) -> Iterator[str]:
    """Yield texts or bytes that begin as both do: what follows is a letter, or some byte."""
    ends = [_BYTES.fullmatch(each) for each in (first, last)]
    if ends[0] is None or ends[1] is None or (ends[0]["charset"] or "") in _WIDE:
        return
    charset, values = ends[0]["charset"] or "", [bytes.fromhex(end["hex"]) for end in ends if end is not None]
    same = next(
        (index for index, pair in enumerate(zip(*values, strict=False)) if pair[0] != pair[1]),
        min(map(len, values)),
    )
    begins = values[0][:same]
    if charset and not begins.isascii():
        # Half a character is in no charset.
        begins = b""
    nexts = _LETTERS if charset else bytes(range(0, 256, 8))
    fixed = BY_NAME[column.type]
    size = fixed.size if fixed.hidden_in is not None else column.length if column.type == "binary" else 0
    # From the middle outwards: the first ones are likely to do.
    for byte in sorted(nexts, key=lambda byte: abs(nexts.index(byte) - len(nexts) // 2)):
        yield literal((begins + bytes([byte])).ljust(size, bytes(1)), charset)
