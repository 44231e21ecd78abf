"""Modes: whether and when a source is told that a transaction is safe here, by `semi_sync` of its address."""

from __future__ import annotations

from typing import assert_never

from canal_group.binlog.server.dump.own_dump import OwnDump
from canal_group.binlog.server.semi_sync.replies import NO_REPLIES, NoReplies, Replies, Ring, unfreed
from canal_group.binlog.server.semi_sync.wake import Wake
from canal_group.binlog.server.source import SourceAddress
from canal_group.binlog.server.starts.stream_start import FromOffset
from canal_group.merge.values.position import Position


class SemiSync:
    """The mode of one reader, used by one thread: the source does not wait."""

    def replayed(self, start: FromOffset, opened: Position | None) -> FromOffset:  # noqa: ARG002 - others need it
        """Return the start of a stream that begins no later than what a source must not count as replied to.

        Args:
            start: where it would begin.
            opened: where the reader's first stream began; None: it has not begun.
        """
        return start

    def wake(self) -> Wake | None:
        """Return the wake-up that ends a dump's wait when a reply is due; None: nothing has to."""
        return None

    def replies(self, dump: OwnDump, start: Position) -> NoReplies:  # noqa: ARG002 - others need it
        """Return the replies on a dump connection.

        Args:
            dump: the connection.
            start: position where the stream begins.
        """
        return NO_REPLIES


class WhenStored(SemiSync):
    """The source is told of what was handed over."""

    #: replies wait until this ring has freed the rows that were handed over; None: replies do not wait
    _ring: Ring | None = None

    def replies(self, dump: OwnDump, start: Position) -> NoReplies:
        """Return replies; the first is to what was handed over before, if that was of this server."""
        replies = Replies(dump.packets, self._ring)
        if start.server == dump.server:
            replies.owe(start.file, start.offset)
        return replies


class WhenFreed(WhenStored):
    """The source is told of what a ring has freed: of what all cursors are past.

    Args:
        ring: where the reader's listener stores what it gets.
    """

    def __init__(self, ring: Ring) -> None:
        self._ring: Ring = ring
        #: whether the next stream begins at what the ring has not freed
        self._replays = True

    def replayed(self, start: FromOffset, opened: Position | None) -> FromOffset:
        """Return the start with a dump that begins at what the ring has not freed, unless it was purged."""
        replays, self._replays = self._replays, True
        if not replays or (opened is not None and not opened.is_of(start.position.server)):
            return start  # the ring begins at a position of another server
        assert opened is not None or self._ring.cursors[2] < 0, "a ring without a beginning is empty"
        file_offset = None if opened is None else unfreed(self._ring, opened)
        return start if file_offset is None else start.replayed(file_offset, self._purged)

    def wake(self) -> Wake | None:
        """Return the event that the ring sets when it frees something."""
        wake = Wake()
        self._ring.on_free(wake.set)
        return wake

    def _purged(self) -> None:
        self._replays = False


def semi_sync_of(address: SourceAddress, ring: Ring | None) -> SemiSync:
    """Return the mode of an address.

    Args:
        address: the source.
        ring: where what is read is stored; needed if replies wait for cursors.
    """
    match address.semi_sync:
        case "off" | "archive":
            return SemiSync()
        case "ring":
            return WhenStored()
        case "cursor":
            assert ring is not None, "replies that wait for cursors need the ring"
            return WhenFreed(ring)
        case _:
            assert_never(address.semi_sync)
