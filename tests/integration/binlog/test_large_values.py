"""Rows that are a thousand times larger than their events, of real servers."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import pytest
from support.defaults import chunk_limits

from canal_group.binlog.grammar.decoding import Decoding
from canal_group.binlog.grammar.skips import Skips
from canal_group.binlog.server.binlog_stream import stream_of
from canal_group.binlog.server.clock import clock_of
from canal_group.binlog.server.low_watermarks import CaughtUp
from canal_group.binlog.server.source import connect, server_facts
from canal_group.binlog.server.starts.latest import latest_position
from canal_group.binlog.server.starts.stream_start import FromOffset
from canal_group.merge.errors import UnsupportedEvent
from canal_group.merge.values.chunk import TableName
from canal_group.merge.values.skips.skipped_event import SkippedEvent, Unit

MEMBERS, MEMBER_BYTES = 64, 100
#: bytes of a SET's longest value
VALUE_BYTES = MEMBERS * (MEMBER_BYTES + 1) - 1
ROWS = 30_000
TABLE = "CREATE TABLE app.t (id INT PRIMARY KEY AUTO_INCREMENT, s SET({}))".format(
    ",".join(f"'{number:0{MEMBER_BYTES}}'" for number in range(MEMBERS))
)
ALL = (1 << MEMBERS) - 1
LIMITS = chunk_limits(bytes_max=4 << 20)


def memory(key):
    """Return a number of this process's memory, bytes."""
    text = Path("/proc/self/status").read_text()
    return int(re.search(rf"{key}:\s+(\d+) kB", text)[1]) << 10


def asked(server, sql):
    """Return a server's answer of one row."""
    with contextlib.closing(server.connect()) as connection, connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchone()


@pytest.fixture
def named(server):
    """A server that logs the names of columns."""
    (shown,) = asked(server, "SELECT @@global.binlog_row_metadata")
    server.execute("SET GLOBAL binlog_row_metadata = 'FULL'", TABLE)
    yield server
    server.execute(f"SET GLOBAL binlog_row_metadata = '{shown}'")


class Stream:
    """A stream from the end of a server's log on."""

    def __init__(self, address):
        self._address = address
        with contextlib.closing(connect(address)) as connection:
            self._start = latest_position(address, connection, server_facts(address, connection))

    def chunks(self, limits, skips=()):
        """Yield the chunks up to the end of the log."""
        decoding = Decoding(
            lambda schema, table: TableName(schema, table) if schema == "app" else None,
            limits,
            skips=Skips(skips),
        )
        with contextlib.closing(connect(self._address)) as connection:
            measure = lambda: clock_of(self._address, connection)  # noqa: E731
            stream = stream_of(self._address, FromOffset(self._start), decoding, measure)
            with contextlib.closing(stream):
                for item in stream:
                    if isinstance(item, CaughtUp):
                        return
                    yield item


def test_a_tenants_set_flows_through_in_bounded_memory(named, source_address):
    stream = Stream(source_address(named))
    named.execute(
        f"INSERT INTO app.t (s) VALUES ({ALL})",
        *[f"INSERT INTO app.t (s) SELECT {ALL} FROM app.t LIMIT {ROWS}"] * 15,
    )
    assert asked(named, "SELECT COUNT(*) FROM app.t") >= (ROWS,)
    rows = counted = 0
    Path("/proc/self/clear_refs").write_text("5")
    before = memory("VmRSS")
    for chunk in stream.chunks(LIMITS):
        size = int(chunk.headers["bytes"].sum())
        held = sum(table.rows.get_total_buffer_size() for table in chunk.tables)
        rows += sum(table.rows.num_rows for table in chunk.tables)
        assert held <= size <= LIMITS.bytes_max + 2 * VALUE_BYTES
        counted += size
    assert rows >= ROWS
    assert counted >= rows * VALUE_BYTES > 40 * LIMITS.bytes_max
    assert memory("VmHWM") - before < 10 * LIMITS.bytes_max


def test_a_row_that_is_too_large_stops_by_name_and_can_be_left_out(named, source_address):
    stream = Stream(source_address(named))
    named.execute(*(f"INSERT INTO app.t (s) VALUES ({bits})" for bits in (1, ALL, 2)))
    limits = chunk_limits(row_bytes_max=VALUE_BYTES - 1)
    with pytest.raises(UnsupportedEvent) as stopped:
        list(stream.chunks(limits))
    text, details = str(stopped.value), stopped.value.details
    assert (
        f"app.t holds more than {VALUE_BYTES - 1} bytes; its value of column s alone has {VALUE_BYTES}"
        in text
    )
    assert f"shard s1, {details['event']} at {details['file']}:{details['offset']}" in text
    assert details["skippable"] == 1
    location = details["file"], details["created_s"], details["offset"], details["part"]
    skip = SkippedEvent("s1", "", *location, Unit.EVENT, "ops", 1_700_000_000_000_000)
    chunks = list(stream.chunks(limits, [skip]))
    found = [
        row["after"]["s"] for chunk in chunks for table in chunk.tables for row in table.rows.to_pylist()
    ]
    assert [int(text) for text in found] == [0, 1]
    assert sum(chunk.statements is not None for chunk in chunks) == 1, "a mark is in its place"
