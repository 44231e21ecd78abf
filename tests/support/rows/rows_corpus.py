"""Rows events of the fixtures, each with the schema of its table.

As a program, `python -m support.rows.rows_corpus`, it damages them. That needs only the decoder: `make asan`
runs it under AddressSanitizer.
"""

from __future__ import annotations

import contextlib
import functools
import struct
import sys
from pathlib import Path

from canal_group.binlog.columns.columns import Losses, TableSchema
from canal_group.binlog.columns.rows import RowsBuilder
from canal_group.binlog.columns.table_map import parse_table_map, table_id
from canal_group.binlog.formats.event_types import ROWS, EventType
from canal_group.merge.errors import CorruptEvent, UnsupportedEvent
from canal_group.merge.values.chunk import TableName

FIXTURES = Path(__file__).parents[2] / "fixtures" / "mysql-9.7.4"
#: longer events are damaged at every n-th byte
_EVERY_BYTE_MAX = 1000


@functools.cache
def corpus():
    """Return (fixture, schema, event type, body) of each rows event whose table map is read."""
    return [each for path in sorted(FIXTURES.glob("*.binlog")) for each in _of_file(path)]


def _of_file(path):
    data, at, tables = path.read_bytes(), 4, {}
    crc = 0 if path.stem == "checksum_none" else 4
    while at < len(data):
        event_type = data[at + 4]
        (size,) = struct.unpack_from("<I", data, at + 9)
        body = data[at + 19 : at + size - crc]
        if event_type == EventType.TABLE_MAP:
            tables.pop(table_id(body), None)
            with contextlib.suppress(UnsupportedEvent):
                table = parse_table_map(body, mariadb=False)
                if table.named:
                    tables[table_id(body)] = TableSchema.of(TableName(table.schema, table.table), table)
        elif event_type in ROWS and table_id(body) in tables:
            yield path.stem, tables[table_id(body)], event_type, body
        at += size


def decode(schema, event_type, body):
    """Return the rows of an event after reading all of their bytes; None if it is refused."""
    builder = RowsBuilder(schema, Losses())
    try:
        rows = builder.add(event_type, body, post_header_size=10, header=0, row_begin=0)
    except (CorruptEvent, UnsupportedEvent):
        assert len(builder) == 0
        assert builder.finish().num_rows == 0
        return None
    batch = builder.finish()
    batch.validate(full=True)
    assert batch.num_rows == rows
    return batch


def damaged(body):
    """Yield a body cut at every length, and with every bit flipped."""
    step = 1 if len(body) <= _EVERY_BYTE_MAX else len(body) // 250
    for size in range(0, len(body), step):
        yield body[:size]
    for at in range(0, len(body), step):
        for bit in range(8):
            flipped = bytearray(body)
            flipped[at] ^= 1 << bit
            yield bytes(flipped)


def main() -> None:
    tried = refused = 0
    for _, schema, event_type, body in corpus():
        for each in damaged(body):
            tried += 1
            refused += decode(schema, event_type, each) is None
    sys.stdout.write(f"{tried} damaged events: {refused} refused, {tried - refused} read as other rows\n")


if __name__ == "__main__":
    sys.exit(main())
