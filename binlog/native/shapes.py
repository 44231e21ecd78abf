"""Shapes: the tuples that go into the compiled part and come out of it."""

from __future__ import annotations

from typing import TypeAlias

from canal_group.binlog.native.images import Block

#: kind, size, scale, members:
#:
#:     plain                           size bytes as they are, 1, 2, 4 or 8: integers, FLOAT, DOUBLE
#:     int24 uint24                    MEDIUMINT, to int32 and uint32
#:     decimal                         size: precision, to decimal128 up to 38, else decimal256; scale
#:     date                            to days, int32
#:     time datetime timestamp         as before MySQL 5.6, to microseconds, int64
#:     time2 datetime2 timestamp2      size: digits of the fraction, to microseconds, int64
#:     time_hires and the like         as in old MariaDB; size: digits of the fraction, to microseconds, int64
#:     year                            to int16
#:     bit                             size: bits, to uint64
#:     enum                            size in bytes, to int32; members: its values in UTF-8
#:     set                             size in bytes, to text; members: its values in UTF-8
#:     string                          size: bytes of the length before the value
#:     binary                          size: as of string; scale: bytes to which zeros pad it
#:     packed                          size: as of string; the value is compressed, see `native.packed`
#:     json                            size: as of string, to text
#:     list                            size: as of string; scale: bytes of an element
ColumnPlan: TypeAlias = tuple[str, int, int, tuple[bytes, ...]]

#: validity bitmap (None: no nulls), nulls, slots (fixed values, or rows + 1 int32 offsets), data of values of
#: any size (None: fixed values). Text is as stored; a SET and JSON are UTF-8.
ColumnBuffers: TypeAlias = tuple[Block | None, int, Block, Block | None]

#: validity bitmap of the images (None: each row has an image), number of rows without an image, columns
SideBuffers: TypeAlias = tuple[Block | None, int, list[ColumnBuffers]]
