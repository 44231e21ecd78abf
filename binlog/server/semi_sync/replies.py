"""Replies: what a source with semi-synchronous replication is told, on its dump connection.

The source holds each COMMIT until a replica has replied to its last event. After a timeout of its own it
goes on without, until a replica has caught up.

Rules:

1. A reply follows only after everything up to its position was handed over, and, with a ring, after the ring
   has freed it: after the durable cursor of every client id that is kept has passed it.
2. One reply answers everything before it.
3. A source counts what lies before the beginning of a dump as replied to. With a ring a dump therefore begins
   at what that has not freed, see `unfreed`. A dump by GTID begins in the file of the first missing
   transaction: what the ring holds of earlier files counts as replied to. What it skips is owed a reply.

Layout: "Semi-Sync Replication" in MariaDB's replication protocol.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from canal_group.binlog.server.packets import PacketReader
from canal_group.merge.values.position import Position

#: first byte of a reply
_MARK = 0xEF


class Ring(Protocol):
    """What replies, and archives, depend on in a ring store."""

    @property
    def gated(self) -> bool:
        """Whether nothing is handed out before `release` says that it is durable."""

    def release(self, durable: Mapping[str, int]) -> None:
        """Let everything be handed out that ends at or before the durable offset of its file."""

    @property
    def cursors(self) -> tuple[int, int, int]:
        """Sequences of the last header freed, handed out, and stored."""

    def first_position(self) -> Position | None:
        """Return where the last freed header ends; None before the first."""

    def on_free(self, call: Callable[[], None]) -> None:
        """Let `call` be called, by any thread, after headers were freed; it replaces the one before."""


class NoReplies:
    """What a stream tells a source that does not wait: nothing."""

    @property
    def asked(self) -> bool:
        """Whether the source asked for a reply to something that was not handed over yet."""
        return False

    def handed_over(self, file: str, offset: int, *, all_read: bool) -> None:
        """Note that everything before an offset was handed over, and reply if that is due.

        Args:
            file: of the offset.
            offset: end of a transaction or of an event between two.
            all_read: whether no event after it was read.

        Raises:
            SourceUnavailable: the reply cannot be sent.
        """

    def freed(self) -> None:
        """Reply to what is due.

        Raises:
            SourceUnavailable: the reply cannot be sent.
        """


NO_REPLIES: Final = NoReplies()


class Replies(NoReplies):
    """Replies to one dump connection; see the module's rules. Used by the thread that reads it.

    Args:
        packets: the connection.
        ring: replies wait until it has freed what was handed over; None: they do not wait.
    """

    def __init__(self, packets: PacketReader, ring: Ring | None) -> None:
        self._packets = packets
        self._ring = ring
        #: sequence to be freed, and the offset to reply with then; at most one for each header in the ring
        self._due: deque[tuple[int, str, int]] = deque()
        self._replied = ("", 0)

    @property
    def asked(self) -> bool:
        """Whether it has asked, see `NoReplies`."""
        return self._packets.buffer.reply_awaited

    def handed_over(self, file: str, offset: int, *, all_read: bool) -> None:
        """Note that everything before an offset was handed over, and reply if that is due."""
        if not self.asked:
            return
        self._packets.buffer.reply_awaited = not all_read
        self.owe(file, offset)
        self.freed()

    def owe(self, file: str, offset: int) -> None:
        """Reply with an offset, at the next `freed`, as soon as the ring has freed what it holds now.

        A connection begins with the offset that was handed over before: the reply to it may have been lost.
        """
        stored = 0 if self._ring is None else self._ring.cursors[2]
        if self._due and self._due[-1][0] == stored:
            self._due.pop()
        self._due.append((stored, file, offset))

    def freed(self) -> None:
        """Reply to what the ring has freed; without a ring, to everything."""
        done, due = 0 if self._ring is None else self._ring.cursors[0], None
        while self._due and self._due[0][0] <= done:
            due = self._due.popleft()
        if due is not None:
            self._reply(*due[1:])

    def _reply(self, file: str, offset: int) -> None:
        if (file, offset) != self._replied:
            self._packets.reply(reply_of(file, offset))
            self._replied = file, offset


def unfreed(ring: Ring, opened: Position) -> tuple[str, int] | None:
    """Return file and offset of the first transaction that a ring holds; None if it is empty.

    Args:
        ring: where a stream is stored.
        opened: where the stream began.
    """
    freed, _, stored = ring.cursors
    if freed == stored:
        return None
    first = ring.first_position() or opened
    return first.file, first.offset


def reply_of(file: str, offset: int) -> bytes:
    """Return the payload by which a replica says that it has everything before an offset."""
    return struct.pack("<BQ", _MARK, offset) + file.encode()
