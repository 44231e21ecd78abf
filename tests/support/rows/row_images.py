"""Handmade rows events: encode values to the bytes that a server would log for them.

This is a second, slow implementation of the formats, in the other direction: the decoder must read back what
it writes.
"""

from __future__ import annotations

import datetime as dt
import struct

from canal_group.binlog.columns.columns import Losses, TableSchema
from canal_group.binlog.columns.rows import RowsBuilder
from canal_group.binlog.columns.table_map import TableMap
from canal_group.binlog.columns.types.column import Column
from canal_group.binlog.formats.event_types import UPDATES, WRITES, EventType
from canal_group.merge.values.chunk import TableName

#: operations of JSON differences
REPLACE, INSERT, REMOVE = range(3)
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_PACKED = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)


def schema_of(columns):
    """Return the schema of a table of these columns, named by their index."""
    named = tuple(
        Column(
            **{
                **{field: getattr(column, field) for field in Column.__dataclass_fields__},
                "name": f"c{index}",
            }
        )
        for index, column in enumerate(columns)
    )
    return TableSchema.of(TableName("s", "t"), TableMap("s", "t", named, ()))


def image(values):
    """Return a row's image; None is null."""
    nulls = sum(1 << index for index, value in enumerate(values) if value is None)
    present = b"".join(value for value in values if value is not None)
    return nulls.to_bytes((len(values) + 7) // 8, "little") + present


def bitmap(indexes, count):
    """Return a bitmap of `count` bits, of which those at `indexes` are set."""
    return sum(1 << index for index in indexes).to_bytes((count + 7) // 8, "little")


def difference(operation, path, value=None):
    """Return a JSON difference: REPLACE, INSERT or REMOVE, at a path as the server writes it."""
    parts = [path.encode()] if operation == REMOVE else [path.encode(), json_binary(value)]
    return bytes([operation]) + b"".join(_packed(len(part)) + part for part in parts)


def differences(*each):
    """Return the value of a JSON column that is stored as differences."""
    return sized(b"".join(each), 4)


def _packed(number):
    if number < 251:
        return bytes([number])
    return b"\xfc" + struct.pack("<H", number) if number < 2**16 else b"\xfd" + number.to_bytes(3, "little")


def rows_body(event_type, count, images, *, extra=b"", id_size=6, before=None, after=None, options=b"\0"):
    """Return a rows event's body, of tables of `count` columns.

    Args:
        event_type: of the event.
        count: how many columns its table has.
        images: see `image`; images before and after a change alternate.
        extra: its extra data.
        id_size: bytes of its table id.
        before: bitmap of the columns that images before a change have; None: all of them.
        after: the same for images after a change.
        options: of PARTIAL_UPDATE_ROWS, before each image after the change.
    """
    version_2 = event_type >= EventType.WRITE_ROWS
    head = bytes(id_size) + b"\1\0"
    if version_2:
        head += struct.pack("<H", 2 + len(extra)) + extra
    head += bytes([count]) if count < 251 else b"\xfc" + struct.pack("<H", count)
    every = b"\xff" * ((count + 7) // 8)
    if event_type not in WRITES:
        head += every if before is None else before
    if event_type in WRITES | UPDATES:
        head += every if after is None else after
    if event_type == EventType.PARTIAL_UPDATE_ROWS:
        images = [each if nth % 2 == 0 else options + each for nth, each in enumerate(images)]
    return head + b"".join(images)


def rows_of(columns, events):
    """Decode (event type, body) pairs; return the record batch and the losses."""
    losses = Losses()
    builder = RowsBuilder(schema_of(columns), losses)
    for header, (event_type, body) in enumerate(events):
        builder.add(event_type, body, post_header_size=10, header=header, row_begin=0)
    batch = builder.finish()
    batch.validate(full=True)
    return batch, losses


def values_of(column, stored):
    """Decode values of one column, given as bytes or None."""
    body = rows_body(EventType.WRITE_ROWS, 1, [image([value]) for value in stored])
    batch, losses = rows_of([column], [(EventType.WRITE_ROWS, body)])
    return [row["after"]["c0"] for row in batch.to_pylist()], losses


def integer(value, size):
    return (value % (1 << 8 * size)).to_bytes(size, "little")


def sized(value, length):
    return len(value).to_bytes(length, "little") + value


def decimal(unscaled, precision, scale):
    """`decimal2bin`: groups of nine digits from the point, the first bit inverted, negatives inverted."""
    digits = f"{abs(unscaled):0{precision}d}"
    whole, fraction = digits[: precision - scale], digits[precision - scale :]
    lead = len(whole) % 9
    groups = [whole[:lead]] + [whole[at : at + 9] for at in range(lead, len(whole), 9)]
    groups += [fraction[at : at + 9] for at in range(0, len(fraction), 9)]
    packed = bytearray(b"".join(int(g).to_bytes(_PACKED[len(g)], "big") for g in groups if g))
    if unscaled < 0:
        packed = bytearray(byte ^ 0xFF for byte in packed)
    packed[0] ^= 0x80
    return bytes(packed)


def _fraction(micros, digits):
    size = (digits + 1) // 2
    return (micros // 100 ** (3 - size)).to_bytes(size, "big")


def date(value: dt.date):
    return (value.year << 9 | value.month << 5 | value.day).to_bytes(3, "little")


def datetime2(value: dt.datetime, digits):
    days = (value.year * 13 + value.month) << 5 | value.day
    whole = 1 << 39 | days << 17 | value.hour << 12 | value.minute << 6 | value.second
    return whole.to_bytes(5, "big") + _fraction(value.microsecond, digits)


def timestamp2(value: dt.datetime, digits):
    micros = (value - EPOCH) // dt.timedelta(microseconds=1)
    return (micros // 1_000_000).to_bytes(4, "big") + _fraction(micros % 1_000_000, digits)


def time2(value: dt.timedelta, digits):
    micros = value // dt.timedelta(microseconds=1)
    seconds, rest = divmod(abs(micros), 1_000_000)
    size = (digits + 1) // 2
    number = (seconds // 3600) << 12 | seconds // 60 % 60 << 6 | seconds % 60
    number = number << 8 * size | rest // 100 ** (3 - size)
    sign = -1 if micros < 0 else 1
    return ((1 << 8 * size + 23) + sign * number).to_bytes(3 + size, "big")


def old_datetime(value: dt.datetime):
    return int(value.strftime("%Y%m%d%H%M%S")).to_bytes(8, "little")


def old_time(value: dt.timedelta):
    seconds = abs(value) // dt.timedelta(seconds=1)
    digits = seconds // 3600 * 10000 + seconds // 60 % 60 * 100 + seconds % 60
    return integer(-digits if value < dt.timedelta() else digits, 3)


def json_binary(value):
    """Return a Python value as binary JSON (the comment at the top of MySQL's json_binary.h)."""
    kind, data = _json(value)
    return bytes([kind]) + data


def _json(value):  # noqa: C901, PLR0911 - one branch a type
    match value:
        case None:
            return 4, b"\0"
        case bool():
            return 4, b"\1" if value else b"\2"
        case int() if -(2**15) <= value < 2**15:
            return 5, struct.pack("<h", value)
        case int() if 0 <= value < 2**16:
            return 6, struct.pack("<H", value)
        case int() if -(2**31) <= value < 2**31:
            return 7, struct.pack("<i", value)
        case int() if 0 <= value < 2**32:
            return 8, struct.pack("<I", value)
        case int() if -(2**63) <= value < 2**63:
            return 9, struct.pack("<q", value)
        case int():
            return 10, struct.pack("<Q", value)
        case float():
            return 11, struct.pack("<d", value)
        case str():
            return 12, _json_sized(value.encode())
        case (kind, bytes(data)):  # an opaque value, with its column type
            return 15, bytes([kind]) + _json_sized(data)
        case _:
            small = _json_container(value, 2)
            return small or _json_container(value, 4)


def _json_sized(data):
    size, length = len(data), b""
    while size > 0x7F:
        length += bytes([size & 0x7F | 0x80])
        size >>= 7
    return length + bytes([size]) + data


def _json_container(value, width):
    keys = [key.encode() for key in value] if isinstance(value, dict) else []
    values = list(value.values()) if isinstance(value, dict) else list(value)
    at = 2 * width + len(keys) * (width + 2) + len(values) * (width + 1)
    key_entries, value_entries, tail = b"", b"", b""
    for key in keys:
        key_entries += (at + len(tail)).to_bytes(8, "little")[:width] + struct.pack("<H", len(key))
        tail += key
    inlined = {4: 1, 5: 2, 6: 2, **({7: 4, 8: 4} if width == 4 else {})}
    for each in values:
        kind, data = _json(each)
        if kind in inlined:
            value_entries += bytes([kind]) + data.ljust(width, b"\0")
        else:
            value_entries += bytes([kind]) + (at + len(tail)).to_bytes(8, "little")[:width]
            tail += data
    size = at + len(tail)
    if width == 2 and size >= 2**16:
        return None
    head = len(values).to_bytes(width, "little") + size.to_bytes(width, "little")
    kind = (0 if isinstance(value, dict) else 2) + (width == 4)
    return kind, head + key_entries + value_entries + tail
