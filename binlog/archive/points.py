"""Points: the sparse index of a file, where a reader may begin, by offset, commit time and GTID set.

It lies beside the file, as `NAME.index`: one JSON object with a CRC32 of itself. It holds nothing that the
file does not say, so it is made again from that when it is missing, damaged, or of another length of the
file.
"""

from __future__ import annotations

import json
import zlib
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import astuple, dataclass

from canal_group.merge.values.gtids.gtid import GtidSet, parse_gtid_set


@dataclass(frozen=True, slots=True)
class Point:
    """An offset between two transactions."""

    offset: int
    #: the greatest commit time of the file's transactions before it, microseconds since 1970; 0: there is
    #: none
    latest_us: int
    #: all transactions before it
    gtids: str

    def gtid_set(self) -> GtidSet:
        """Return all transactions before it."""
        return parse_gtid_set(self.gtids)


def points_bytes(points: Sequence[Point], size: int) -> bytes:
    """Return the index of a file of `size` bytes as it is stored."""
    content = json.dumps([size, *(astuple(point) for point in points)], separators=(",", ":"))
    return f"{zlib.crc32(content.encode()):08x} {content}\n".encode()


def parse_points(data: bytes, size: int) -> list[Point] | None:
    """Return the points that were stored; None if they are damaged, or of another length of the file."""
    crc32, _, content = data.removesuffix(b"\n").partition(b" ")
    if crc32 != f"{zlib.crc32(content):08x}".encode():
        return None
    of_size, *points = json.loads(content)
    return [Point(*each) for each in points] if of_size == size else None


def point_before(points: Sequence[Point], offset: int) -> Point | None:
    """Return the last point at or before an offset; None if there is none."""
    index = bisect_right(points, offset, key=lambda point: point.offset)
    return points[index - 1] if index else None


def point_before_time(points: Sequence[Point], time_us: int) -> Point | None:
    """Return the last point before which all transactions of the file were committed before a time."""
    index = bisect_right(points, time_us - 1, key=lambda point: point.latest_us)
    return points[index - 1] if index else None


def point_within(points: Sequence[Point], gtids: GtidSet) -> Point | None:
    """Return the last point before which a GTID set has every transaction; None if there is none."""
    low, high = 0, len(points)
    while low < high:
        middle = (low + high) // 2
        if gtids.contains(points[middle].gtid_set()):
            low = middle + 1
        else:
            high = middle
    return points[low - 1] if low else None
