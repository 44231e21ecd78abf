"""Rows head: the fixed part of a rows event, which says what its images hold.

Layout: `Rows_event` in MySQL's rows_event.h.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from canal_group.binlog.columns.table_map import table_id
from canal_group.binlog.formats.byte_cursor import ByteCursor
from canal_group.merge.errors import CorruptEvent

#: extra data begins with its own length
_EXTRA_DATA_MIN = 2


@dataclass(frozen=True, slots=True)
class RowsHead:
    """The fixed part of a rows event: what its images hold."""

    table_id: int
    column_count: int
    #: whether each image holds every column
    full: bool
    #: where the images begin in the body
    images_at: int


def parse_rows_head(body: bytes, *, version: int, update: bool, post_header_size: int) -> RowsHead:
    """Return the fixed part of a rows event.

    Args:
        body: the event without header and checksum.
        version: 1 or 2; version 2 has a field of extra data before the column count.
        update: whether a second bitmap follows, of the image after the change.
        post_header_size: as the format description says.

    Raises:
        CorruptEvent: lengths do not fit.
    """
    cursor = ByteCursor(body)
    cursor.take((4 if post_header_size == 6 else 6) + 2)  # noqa: PLR2004
    if version > 1:
        extra = struct.unpack("<H", cursor.take(2))[0]
        if extra < _EXTRA_DATA_MIN:
            raise CorruptEvent("A rows event's extra data is shorter than its own length.")
        cursor.take(extra - 2)
    count = cursor.packed()
    bitmaps = [cursor.take((count + 7) // 8) for _ in range(2 if update else 1)]
    every = (1 << count) - 1
    full = all(int.from_bytes(bitmap, "little") & every == every for bitmap in bitmaps)
    return RowsHead(table_id(body, post_header_size), count, full, cursor.at)
