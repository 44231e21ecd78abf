"""Dump server access: how a reader finds the dump server of its source, starts it, and decides to read by it.

The first reader of a source on a machine binds the socket's name, which only one process can, and hands the
listening socket to the process that it starts. So two readers never start two dump servers, readers that come
while it starts wait in the socket's queue, and nothing is left over when the process ends.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from canal_group.binlog.dump_window.attempts import Attempts
from canal_group.binlog.server.dump_server.archive_keeper import ArchiveKeeper
from canal_group.binlog.server.dump_server.attachment import Attachment, NotAttached
from canal_group.binlog.server.dump_server.durable_files import DurableFiles
from canal_group.binlog.server.dump_server.spare import SPARE
from canal_group.binlog.server.dump_server.wire import address_fields, packets_of, socket_name
from canal_group.binlog.server.semi_sync.replies import Ring
from canal_group.binlog.server.source import SourceAddress
from canal_group.merge.errors import CanalGroupError, CorruptEvent
from canal_group.merge.values.position import Position
from canal_group.merge.values.retention.kept_position import RINGS, KeptPosition, kept_files

_log = logging.getLogger(__name__)

#: returns the positions from which clients of a group read on; none: the group has not said them
NeededBy: TypeAlias = Callable[[], Sequence[KeptPosition]]

#: how long a reader without a stream waits for the answer of a dump server, which may have to start, seconds
_BEGIN_WAIT_S = 3.0
#: how long a reader that reads by itself waits for it, seconds: its shard is silent meanwhile
_MOVE_WAIT_S = 0.5
#: readers that wait for a dump server which starts
_BACKLOG = 1024


def not_told() -> Sequence[KeptPosition]:
    """Return no positions: no group says them."""
    return ()


def knock(address: SourceAddress, server: str) -> bool:
    """Return whether a source has a dump server now, which then goes on for a while, as for any request."""
    return _say(address, server, file="", offset=0, created_s=0)


def report_damage(address: SourceAddress, server: str, error: CanalGroupError, where: str = "") -> None:
    """Let the dump server of a source, if there is one, look at a file of its archive that is damaged.

    Args:
        address: the source.
        server: its identity.
        error: why the file cannot be read; it may say nothing of damage.
        where: name of the history, a slash, and the file's name; empty: the error has them.
    """
    where = where or str(error.details.get("file", ""))
    if isinstance(error, CorruptEvent) and "/" in where:
        _say(address, server, damaged=where)


def _say(address: SourceAddress, server: str, **request: Any) -> bool:
    """Send a request whose answer is not waited for; return whether there is a dump server."""
    with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as sock:
        sock.settimeout(_MOVE_WAIT_S)
        try:
            sock.connect(socket_name(address, server))
            sock.sendall(packets_of(json.dumps(request).encode()))
        except OSError:
            return False
    return True


class DumpServerAccess:
    """One reader's way to the dump server of its source. Used by one thread; `attached` by any.

    Args:
        address: the source.
        ring: where what is read is stored; None: nowhere.
        needed: returns from where on clients read, if the group says it; the ring does not know of clients
            that are further back.
    """

    def __init__(self, address: SourceAddress, ring: Ring | None = None, needed: NeededBy = not_told) -> None:
        self._address, self._ring, self._needed = address, ring, needed
        self._attempts = Attempts()
        self._keeper: ArchiveKeeper | None = None
        #: what lets the ring hand out what is durable; None: the ring waits for nothing
        self._durable = DurableFiles(address, ring) if ring is not None and ring.gated else None
        #: the attachment that the next stream reads
        self._next: Attachment | None = None
        #: whether the dump server serves the reader
        self.attached = False

    def begin(self, position: Position, server: str) -> Attachment | None:
        """Return the attachment for a stream from a position; None: the reader reads the source by itself.

        Args:
            position: of the source itself, outside of a transaction or at its beginning.
            server: identity of the source.
        """
        attachment, self._next = self._next, None
        if attachment is not None:
            if attachment.position == position:
                return self._taken(attachment)
            attachment.close()
        if not self._attempts.due(time.monotonic()):
            return None
        attachment = self._attach(position, server, _BEGIN_WAIT_S)
        return None if attachment is None else self._taken(attachment)

    def another(self, position: Position, server: str) -> Attachment | None:
        """Return a second attachment, which a reader reads beside its stream; None: no server attaches it."""
        try:
            sock = connected(self._address, position, server, _MOVE_WAIT_S)
            return Attachment(sock, position, _MOVE_WAIT_S, self._address.read_timeout_s)
        except NotAttached:
            return None

    def move(self, position: Position, server: str) -> bool:
        """Return whether a dump server can send the next stream, from `position`; ask at intervals only."""
        if not self._attempts.due(time.monotonic()):
            return False
        self._next = self._attach(position, server, _MOVE_WAIT_S)
        return self._next is not None

    def hurry(self) -> None:
        """Ask at once for the next stream: what another one sent has ended, see `Attempts`."""
        self._attempts.hurry()

    def left(self) -> None:
        """Note that the stream has ended, if a dump server served it and it was not lost."""
        if self.attached:
            self.attached = False
            self._attempts.left()

    def lost(self, why: str) -> None:
        """Note that the dump server no longer serves the reader."""
        self.attached = False
        self._attempts.lost(time.monotonic())
        shard = {"shard": self._address.name}
        _log.info("no longer reads %s from a dump server: %s", self._address.location, why, extra=shard)

    @property
    def archive_state(self) -> Mapping[str, Any] | None:
        """What the archive has, as the dump server reports it; None: not known. Any thread may ask."""
        keeper = self._keeper
        state = None if keeper is None else keeper.state
        return state if state is None or self._durable is None else {**state, "lacks": self._durable.lacks}

    def reading(self, created: Mapping[str, int]) -> None:
        """Note the files of which chunks are handed over next, and when they were created."""
        if self._durable is not None:
            self._durable.reading(created)

    def close(self) -> None:
        """Close an attachment that no stream has taken, and need the archive no more."""
        if self._next is not None:
            self._next.close()
            self._next = None
        if self._keeper is not None:
            self._keeper.close()
            self._keeper = None

    def keep(self, position: Position, server: str) -> None:
        """Need the archive from now on, if there is one, whatever the reader does meanwhile."""
        if self._address.archive is None or (self._keeper is not None and self._keeper.server == server):
            return
        if self._keeper is not None:
            self._keeper.close()
        address, durable = self._address, self._durable
        self._keeper = ArchiveKeeper(
            f"{address.destination}/{address.name}",
            server,
            lambda: connected(address, position, server, _BEGIN_WAIT_S),
            lambda: self._kept(position, server),
            lambda end: None if durable is None else durable.reached(server, end),
        )

    def _kept(self, opened: Position, server: str) -> tuple[KeptPosition, ...]:
        """Return where clients read on; by the ring alone, it is where the last header ends that it freed."""
        told = tuple(self._needed())
        if told or self._ring is None:
            return told
        at = self._ring.first_position() or opened
        return kept_files([(RINGS, replace(at, server=at.server or server))])

    def _taken(self, attachment: Attachment) -> Attachment:
        self.attached = True
        self._attempts.attached(time.monotonic())
        shard = {"shard": self._address.name}
        _log.info(
            "reads %s from a dump server from %s", self._address.location, attachment.position, extra=shard
        )
        return attachment

    def _attach(self, position: Position, server: str, wait_s: float) -> Attachment | None:
        try:
            sock = connected(self._address, position, server, wait_s)
            return Attachment(sock, position, wait_s, self._address.read_timeout_s)
        except NotAttached as why:
            self._attempts.refused(time.monotonic(), answered=why.answered)
            _log.debug("is not served by a dump server: %s", why, extra={"shard": self._address.name})
            return None


def connected(address: SourceAddress, position: Position, server: str, wait_s: float) -> socket.socket:
    """Return a connection to a source's dump server, which is started if there is none.

    Args:
        address: the source.
        position: where a reader is; a dump server that is started begins near it.
        server: identity of the source.
        wait_s: timeout of the connection.

    Raises:
        NotAttached: there is none, and none can be started.
    """
    name = socket_name(address, server)
    for _ in range(2):
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.settimeout(wait_s)
        try:
            sock.connect(name)
        except OSError as error:
            sock.close()
            if error.errno != errno.ECONNREFUSED:
                raise NotAttached(f"its socket cannot be reached: {error}") from error
            _start(address, name, position, server)
        else:
            SPARE.drop()
            return sock
    raise NotAttached("it ended while it started")


def _start(address: SourceAddress, name: str, position: Position, server: str) -> None:
    with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as listener:
        try:
            listener.bind(name)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return
            raise NotAttached(f"its socket cannot be bound: {error}") from error
        listener.listen(_BACKLOG)
        order = {
            "source": address_fields(address),
            "server": server,
            "file": position.file,
            "offset": position.offset,
        }
        try:
            SPARE.take().serve(listener, json.dumps(order).encode())
        except OSError as error:
            raise NotAttached(f"it cannot be started: {error}") from error
