"""The decoder over the events of a fixture."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

from support.defaults import chunk_limits

from canal_group.binlog.formats.event_types import EventType
from canal_group.binlog.grammar.binlog_decoder import BinlogDecoder
from canal_group.binlog.grammar.chunk_builder import ChunkBuilder
from canal_group.merge.values.chunk import TableName
from canal_group.merge.values.position import Position

FIXTURES = Path(__file__).parents[2] / "fixtures" / "mysql-9.7.4"
FILE = "mysql-bin.000001"
#: rows of the one large transaction
BIG = 2000


def everything(schema, table):
    return TableName(schema, table)


def events_of(name):
    """Return a fixture's events."""
    data = (FIXTURES / f"{name}.binlog").read_bytes()
    events, at = [], 4
    while at < len(data):
        (size,) = struct.unpack_from("<I", data, at + 9)
        events.append(data[at : at + size])
        at += size
    return events


class Reading:
    """A decoder over one list of events, and the chunks that came of it."""

    def __init__(self, select=everything, limits=None, start=None, checksum=1):
        self.builder = ChunkBuilder(limits or chunk_limits())
        self.decoder = BinlogDecoder(
            "s1", start or Position(FILE, 4), select, self.builder, checksum=checksum
        )
        self.chunks = []

    def feed(self, events, spliced=False):
        """Feed events; `spliced` ones do not follow each other in their file."""
        for event in events:
            (log_pos,) = struct.unpack_from("<I", event, 13)
            if spliced and event[4] != EventType.FORMAT_DESCRIPTION:
                self.decoder.offset = log_pos - len(event)
            self.decoder.feed(event)
            self.close_if_full()
            while self.decoder.go_on():
                self.close_if_full()
        return self

    def close_if_full(self):
        if self.builder.full:
            self.close()

    def close(self):
        chunk = self.builder.close(self.decoder.offset)
        if chunk is not None:
            self.chunks.append(chunk)
        return self

    @property
    def headers(self):
        return [header for chunk in self.chunks for header in chunk.headers]

    @property
    def rows(self):
        return [row for chunk in self.chunks for table in chunk.tables for row in table.rows.to_pylist()]

    @property
    def statements(self):
        return [row for chunk in self.chunks if chunk.statements for row in chunk.statements.to_pylist()]


def read(name, **options):
    return Reading(**options).feed(events_of(name)).close()


def with_checksum(event):
    return event[:-4] + struct.pack("<I", zlib.crc32(event[:-4]))
