"""Own dump: a reader's own connection to its source, which sends the binlog."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace

from canal_group.binlog.dump_window.idle import Idle
from canal_group.binlog.formats.event_types import EventType
from canal_group.binlog.formats.events import CHECKSUM_NONE
from canal_group.binlog.server.dump.dump_connection import DumpConnection
from canal_group.binlog.server.dump.packet_source import OverPackets, PacketSource, Reached
from canal_group.binlog.server.dump.spool import Spool
from canal_group.binlog.server.packets import PacketReader
from canal_group.binlog.server.semi_sync.wake import Wake
from canal_group.binlog.server.source import SourceAddress, server_error
from canal_group.binlog.server.starts.stream_start import FromOffset
from canal_group.binlog.steady_clock import steady_us
from canal_group.merge.errors import DataError, SourceUnavailable

_OK, _EOF = 0x00, 0xFE
_HEARTBEATS = (EventType.HEARTBEAT, EventType.HEARTBEAT_V2)


class OwnDump(OverPackets):
    """The packets of one dump connection; see `open_dump`.

    A heartbeat proves the last moment at which the socket was empty, see `low_watermarks`.

    Args:
        address: the source.
        start: where the stream begins.
        packets: what the source sends.
        checksum: of the events before the first format description.
        server: identity of the server that sends; empty: not known.
        resources: what is closed with it.
        clock_us: our steady clock.
    """

    def __init__(
        self,
        address: SourceAddress,
        start: FromOffset,
        packets: PacketReader,
        *,
        checksum: int = CHECKSUM_NONE,
        server: str = "",
        resources: contextlib.ExitStack | None = None,
        clock_us: Callable[[], int] = steady_us,
    ) -> None:
        super().__init__(packets)
        self.start, self.file_offset = start.decoded, start.file_offset
        self.checksum = checksum
        self.server = server
        self._address, self._begun = address, start
        self._resources = resources or contextlib.ExitStack()
        self._clock_us = clock_us
        self._idle = Idle()
        #: events that are returned before what the source sends
        self._again: deque[bytes] = deque()

    def take(self) -> bytes | None:
        """Return the next event, see `PacketSource`."""
        if self._again:
            return self._again.popleft()
        packet = self.packets.take()
        if packet is None:
            return None
        if packet in (b"", bytes([_OK])):
            raise self._unavailable("The source sent an empty packet.")
        mark = packet[0]
        if mark == _OK:
            return packet[1:]
        if mark == _EOF:
            raise self._unavailable("The source ended the stream.")
        code = int.from_bytes(packet[1:3], "little")
        text = packet[9:] if packet[3:4] == b"#" else packet[3:]
        error = server_error(self._address, code, text.decode("utf-8", "replace"))
        if isinstance(error, DataError):
            raise self._begun.explained(self._address, error) from None
        raise error

    def note_empty(self) -> None:
        """Note the moment, if nothing has arrived since; only an empty socket counts."""
        if self.packets.empty:
            moment_us = self._clock_us()
            if not self.packets.readable():
                self._idle.found_empty(moment_us)

    def idle_us(self, event: bytes, reached: Reached) -> int | None:
        """Return the moment that a heartbeat proves; None: it is another event, or proves nothing."""
        if event[4] not in _HEARTBEATS or not self._begun.at_rest(reached, event):
            return None
        return self._idle.heartbeat()

    def ahead(self, opening: Sequence[bytes]) -> PacketSource | None:
        """Return a source of the same events, see `PacketSource`; None if the source waits for replies."""
        address = self._address
        if address.replies or not address.spool_bytes_max or self._begun.by_gtid:
            return None
        spool = Spool(address.spool_bytes_max)
        self._resources.callback(spool.close)
        # All of the transaction that it begins in is read.
        start = FromOffset(replace(self.start, rows_into_transaction=0), self.file_offset)
        ahead = OwnDump(address, start, self.packets.ahead(spool), checksum=self.checksum, server=self.server)
        ahead._again.extend(opening)
        return ahead

    def close(self) -> None:
        """Close the connection."""
        self._resources.close()

    def _unavailable(self, message: str) -> SourceUnavailable:
        return SourceUnavailable(f"{message} (shard {self._address.name})", shard=self._address.name)


def open_dump(
    address: SourceAddress, start: FromOffset, server: str = "", wake: Wake | None = None
) -> OwnDump:
    """Connect to a source, and request what follows a start.

    Args:
        address: the source.
        start: where the stream begins.
        server: identity of the server that must answer: the one of the control connection, on which `start`
            was checked and the clock is measured. One address may lead to several servers. Empty: any server.
        wake: see `PacketReader`; it is closed with the dump.

    Raises:
        SourceUnavailable: the source does not answer, another server does, or it lags behind `start`.
        SourceUnfit: it denies access, or by GTID it has nothing in common with `start`.
    """
    with contextlib.ExitStack() as resources:
        if wake is not None:
            resources.callback(wake.close)
        connection = resources.enter_context(contextlib.closing(DumpConnection(address)))
        facts = connection.facts
        if server not in ("", facts.identity):
            raise SourceUnavailable(
                f"Two servers answer for shard {address.name} at {address}: {server} on the first "
                f"connection, {facts.identity} on the second. A binlog must be read from one server. This "
                "ends by itself after a failover; a load balancer in front of the source must keep to one "
                "server.",
                shard=address.name,
            )
        start.require_contained(address, connection.connection, facts)
        checksum = connection.register()
        packets = connection.request(start.request(address.server_id), wake)
        return OwnDump(
            address,
            start,
            packets,
            checksum=checksum,
            server=facts.identity,
            resources=resources.pop_all(),
        )
