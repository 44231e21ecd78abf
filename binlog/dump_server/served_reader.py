"""Served reader: a reader's connection, as the dump server sees it."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from canal_group.binlog.dump_window.block import Block
from canal_group.binlog.server.dump_server.wire import REQUEST_BYTES_MAX, ArchiveEnd, own_user
from canal_group.merge.values.position import Position
from canal_group.merge.values.retention.kept_position import KeptPosition
from canal_group.merge.whole import TIMES_S, whole

_HEAD = 4
#: blocks that are sent by one call of the system
_BLOCKS_MAX = 64


@dataclass(frozen=True, slots=True)
class Request:
    """What a reader asks for: what follows a position."""

    file: str
    offset: int
    created_s: int


@dataclass(frozen=True, slots=True)
class Damaged:
    """What a reader says of a file of the archive that it could not read."""

    #: name of the history, a slash, and the file's name
    where: str


@dataclass(frozen=True, slots=True)
class Kept:
    """What a keeper says, again and again: it needs the archive, and from where on."""

    name: str
    #: positions at which the keeper's clients read on; empty: the keeper needs nothing
    positions: tuple[KeptPosition, ...]


class ServedReader:
    """A connection that never blocks the dump server.

    Args:
        sock: the connection; it is owned by this object.
    """

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._received = bytearray()
        #: packets that were begun and have to be sent before everything else
        self._owed = b""
        #: whether a block was sent in part
        self.inside_packet = False
        #: whether the reader's position was found
        self.attached = False
        #: what the connection has said, if it is a keeper's; it gets the archive's state instead of packets
        self.kept: Kept | None = None
        #: what it was told of the archive's durable end, likewise
        self.told: ArchiveEnd | None = None

    def fileno(self) -> int:
        """Return the descriptor of the connection."""
        return self._sock.fileno()

    @property
    def owes(self) -> bool:
        """Whether a part of a packet has to be sent."""
        return bool(self._owed)

    def receive(self) -> Request | Kept | Damaged | None:
        """Return a request if all of it has come; of a keeper that was faster than the dump server, the last.

        Raises:
            OSError: the reader has closed the connection.
            ValueError, KeyError, TypeError: it is not a request, or the process is another user's.
        """
        try:
            data = self._sock.recv(REQUEST_BYTES_MAX)
        except BlockingIOError:
            return None
        if not data:
            raise ConnectionResetError("the reader left")
        if self.attached or not own_user(self._sock):
            raise ValueError("it sent what it may not send")
        self._received += data
        fields = None
        while len(self._received) >= _HEAD:
            size = int.from_bytes(self._received[:3], "little")
            if size > REQUEST_BYTES_MAX:
                raise ValueError("its request is too long")
            if len(self._received) < _HEAD + size:
                break
            fields = json.loads(self._received[_HEAD : _HEAD + size])
            del self._received[: _HEAD + size]
        if fields is None:
            return None
        if "keeps" in fields:
            positions = tuple(
                KeptPosition(str(owner), Position.from_dict(position))
                for owner, position in fields["positions"]
            )
            self.kept = Kept(str(fields["keeps"]), positions)
            return self.kept
        if "damaged" in fields:
            return Damaged(str(fields["damaged"]))
        return Request(str(fields["file"]), whole(fields["offset"]), whole(fields["created_s"], TIMES_S))

    def send(self, skip: int, blocks: Iterable[Block]) -> int:
        """Send blocks without the first `skip` bytes, and return how many bytes were sent, perhaps none."""
        if self._owed:
            return 0
        views = [memoryview(block.packets) for block in islice(blocks, _BLOCKS_MAX)]
        views[0] = views[0][skip:]
        try:
            sent = self._sock.sendmsg(views)
        except BlockingIOError:
            return 0
        self.inside_packet = sent < sum(map(len, views))
        return sent

    def send_packet(self, packet: bytes) -> None:
        """Send packets of the dump server's own, now or by `send_owed`."""
        self._owed += packet
        self.send_owed()

    def send_owed(self) -> None:
        """Send what is left of the dump server's own packets, as far as possible."""
        if self._owed:
            try:
                sent = self._sock.send(self._owed)
            except BlockingIOError:
                return
            self._owed = self._owed[sent:]

    def close(self) -> None:
        """Close the connection."""
        self._sock.close()
