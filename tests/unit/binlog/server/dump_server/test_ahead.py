"""What a dump server sends ahead of a stream: events, until it sends no more."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from canal_group.binlog.formats.event_types import EventType
from canal_group.binlog.server.dump.packet_source import PacketSource
from canal_group.binlog.server.dump.spool import AheadEndsError
from canal_group.binlog.server.dump_server.shared_dump import SharedDump
from canal_group.binlog.server.dump_server.wire import ERROR, notice, packets_of
from canal_group.binlog.server.packets import PacketReader
from canal_group.merge.values.position import Position

POSITION = Position("mysql-bin.000001", 4)
EVENT = struct.pack("<IBIIIH", 0, EventType.XID, 1, 19, 23, 0)
NOW_US = 5_000_000
REACHED = SimpleNamespace(offset=23, in_transaction=False)


@contextmanager
def ahead() -> Iterator[tuple[PacketSource, socket.socket]]:
    """Yield what is read ahead, and the dump server's end of its connection."""
    ours, theirs = socket.socketpair()
    with theirs:
        attachment: Any = SimpleNamespace(
            packets=PacketReader(ours, 5.0, numbered=False), position=POSITION, close=ours.close
        )
        stream = SharedDump("s1", attachment, lambda: attachment, lambda: NOW_US)
        found = stream.ahead([EVENT])
        assert found is not None
        assert (found.start, found.file_offset) == (POSITION, (POSITION.file, POSITION.offset))
        yield found, theirs
        found.close()


def test_events_come_until_the_dump_server_is_gone() -> None:
    with ahead() as (found, dump_server):
        dump_server.sendall(packets_of(b"\0" + EVENT))
        found.fill()
        assert (found.take(), found.take()) == (EVENT, None)
        dump_server.close()
        with pytest.raises(AheadEndsError, match="sends no more"):
            found.fill()


def test_an_error_of_the_dump_server_ends_it() -> None:
    with ahead() as (found, dump_server):
        dump_server.sendall(packets_of(bytes([ERROR]) + b"it was too slow"))
        found.fill()
        with pytest.raises(AheadEndsError, match="it was too slow"):
            found.take()


@pytest.mark.parametrize(("moment_us", "proved"), [(NOW_US - 1, None), (NOW_US, NOW_US)])
def test_a_moment_before_the_search_proves_nothing(moment_us: int, proved: int | None) -> None:
    with ahead() as (found, dump_server):
        dump_server.sendall(notice(moment_us))
        found.fill()
        assert found.take() == b""
        assert found.idle_us(b"", REACHED) == proved


def test_without_another_connection_nothing_is_read_ahead() -> None:
    attachment: Any = SimpleNamespace(packets=SimpleNamespace(buffer=None), position=POSITION)
    assert SharedDump("s1", attachment).ahead([]) is None
