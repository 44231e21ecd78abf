"""Dumps: chooses where the packets of a reader's streams come from."""

from __future__ import annotations

from canal_group.binlog.server.dump.own_dump import open_dump
from canal_group.binlog.server.dump.packet_source import PacketSource
from canal_group.binlog.server.dump_server.access import DumpServerAccess
from canal_group.binlog.server.dump_server.shared_dump import SharedDump
from canal_group.binlog.server.semi_sync.modes import SemiSync
from canal_group.binlog.server.semi_sync.replies import NO_REPLIES, NoReplies
from canal_group.binlog.server.source import SourceAddress
from canal_group.binlog.server.starts.stream_start import FromOffset
from canal_group.merge.errors import CanalGroupError


class OwnDumps:
    """The packet sources of one reader; used by one thread, `shared` by any. Each is a dump of the source.

    Args:
        address: the source.
        semi_sync: what it is told.
    """

    #: whether a dump server sends what is read
    shared = False

    def __init__(self, address: SourceAddress, semi_sync: SemiSync) -> None:
        self._address, self._semi_sync = address, semi_sync

    def open(self, start: FromOffset, server: str) -> tuple[PacketSource, FromOffset, NoReplies]:
        """Return a packet source, the start as it has it, and what the source is told.

        Args:
            start: where a stream begins.
            server: identity of the server.

        Raises:
            SourceUnavailable, SourceUnfit: see `open_dump`.
        """
        dump = open_dump(self._address, start, server, self._semi_sync.wake())
        return dump, start, self._semi_sync.replies(dump, start.position)

    def better(self, start: FromOffset, server: str, *, caught_up: bool, prepared: int) -> bool:  # noqa: ARG002
        """Return whether a stream is to be ended, because another source of packets serves what follows.

        Args:
            start: where the next stream would begin.
            server: identity of the server.
            caught_up: whether the stream has just caught up with its source.
            prepared: how many XA transactions are prepared there.
        """
        return False

    def lost(self, error: CanalGroupError) -> bool:  # noqa: ARG002 - others need it
        """Return whether an error says nothing of the source, so that the next stream reads that itself."""
        return False

    def left(self) -> None:
        """Note that a stream has ended."""

    def close(self) -> None:
        """Close what no stream has taken."""


class DumpServer(OwnDumps):
    """A dump server sends a stream if it covers its start; else the stream has a dump of its own.

    It knows offsets in one server's binlog only, and replies to no source.

    Args:
        address: the source.
        semi_sync: what it is told.
    """

    def __init__(self, address: SourceAddress, semi_sync: SemiSync) -> None:
        super().__init__(address, semi_sync)
        self._access = DumpServerAccess(address)
        #: whether a stream by GTID has reached the end that the server's binlog had when it began: from there
        #: on, nothing in the binlog is in the position's GTID set
        self._met_end = False

    @property
    def shared(self) -> bool:  # type: ignore[override]
        """Whether a dump server sends what is read."""
        return self._access.attached

    def open(self, start: FromOffset, server: str) -> tuple[PacketSource, FromOffset, NoReplies]:
        """Return the stream of the dump server, or a dump of the source."""
        served = start.served()
        attachment = None
        if served is not None and self._may_serve(start, server):
            attachment = self._access.begin(start.position, server)
        if served is None or attachment is None:
            return super().open(start, server)
        return SharedDump(self._address.name, attachment), served, NO_REPLIES

    def better(self, start: FromOffset, server: str, *, caught_up: bool, prepared: int) -> bool:
        """Return whether the dump server covers the start, and does not send the stream already."""
        self._met_end |= caught_up
        return (
            not self._access.attached
            and not prepared
            and self._may_serve(start, server)
            and self._access.move(start.position, server)
        )

    def lost(self, error: CanalGroupError) -> bool:
        """Return whether the dump server has sent the stream: it says nothing of the source."""
        if not self._access.attached:
            return False
        # The next stream is the source's own: it says what is wrong with the source, if anything.
        self._access.lost(error.message)
        return True

    def left(self) -> None:
        """Note that a stream has ended."""
        self._access.left()

    def close(self) -> None:
        """Close an attachment that no stream has taken."""
        self._access.close()

    def _may_serve(self, start: FromOffset, server: str) -> bool:
        position = start.position
        return (
            position.server == server
            and not position.rows_into_transaction
            and (self._met_end or not start.by_gtid)
        )


def dumps_of(address: SourceAddress, semi_sync: SemiSync) -> OwnDumps:
    """Return where the packets of a reader of a source come from.

    Args:
        address: the source.
        semi_sync: what it is told.
    """
    shares = address.dump_window_bytes_max and address.semi_sync == "off"
    return (DumpServer if shares else OwnDumps)(address, semi_sync)
