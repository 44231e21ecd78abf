"""Close connections of a Flight server that send too much, or nothing, before they are authenticated.

Flight accepts messages of any size, and reads a whole request before it passes on the headers: there is no
option for it, and middleware comes too late. So this checks the server's own sockets every few milliseconds.
The kernel tells how many bytes each has received, and the server's handlers tell which of them made a call
that was admitted. A socket is shut down, never closed: its owner closes it.

To list all descriptors costs as much as all else that a quiet process does. A new socket gets the lowest
free descriptor: while that one stays free, only the sockets that are known are looked at. If another one
was closed at the same moment, the new one gets that: so all are listed as well when a connection that is
not known has made a call, and once in a while.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import stat
import struct
import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TypeAlias
from urllib.parse import unquote

from canal_group.actors.admission.held_connections import HeldConnections
from canal_group.actors.process.clock import clock_s
from canal_group.conf.listeners.connection_bounds import ConnectionBounds

_log = logging.getLogger(__name__)

#: pause between two looks, seconds; while a connection is unauthenticated the shorter one
LOOK_S, LOOK_CLOSELY_S = 0.05, 0.005
#: longest time for which the descriptors are not listed, seconds
LIST_S = 0.5
#: part of a processor that looking may take: the more sockets there are, the longer the pauses
SHARE_MAX = 0.1
#: seconds between two log lines on refusals
LOG_S = 10.0
#: u64 in the kernel's `struct tcp_info`: bytes that the connection has brought
_BYTES_RECEIVED = struct.Struct("=128xQ")

#: address and port of a connection's other end
Peer: TypeAlias = tuple[str, int]
#: an admitted call: the connection's other end, and the caller's name
_Heard: TypeAlias = tuple[Peer, str]


@dataclass(slots=True)
class _Connection:
    inode: int
    descriptor: int
    peer: Peer
    #: when it was seen first
    since_s: float
    #: caller of the first admitted call; None: no call was admitted yet
    name: str | None = None
    #: it is ended, and the server has not closed it yet
    shut: bool = False
    #: bytes received so far, and their number at the last admitted call
    received: int = 0
    counted: int = 0

    @property
    def open_bytes(self) -> int:
        """Bytes since the connection's last admitted call."""
        return self.received - self.counted


class ConnectionGuard:
    """Watches over the connections of one port of this process, on a thread of its own.

    Args:
        bounds: of the connections.
    """

    def __init__(self, bounds: ConnectionBounds) -> None:
        self._bounds = bounds
        #: inodes, by the address of their other end, and by the name of whose call was let in
        self._unauthenticated = HeldConnections[int](bounds.unauthenticated_max)
        self._authenticated = HeldConnections[int](bounds.connections_max)
        #: by inode; None: another socket
        self._sockets: dict[int, _Connection | None] = {}
        #: the lowest free descriptor when they were listed last, and when that was
        self._lowest_free, self._listed_s = -1, -LIST_S
        #: calls admitted since the last look, also while the sockets are being listed
        self._heard: deque[_Heard] = deque()
        self._late: list[_Heard] = []
        #: connections that are to be ended
        self._ending: deque[Peer] = deque()
        self._closed = threading.Event()
        self._refusals, self._logged_s = 0, -LOG_S

    def start(self, port: int) -> None:
        """Watch over the connections of a port from now on."""
        threading.Thread(target=self._watch, args=(port,), name="connections", daemon=True).start()

    def close(self) -> None:
        """Watch no more."""
        self._closed.set()

    def let_in(self, peer: str, name: str) -> None:
        """Record a call that was admitted, with its caller.

        Args:
            peer: as gRPC names it, such as "ipv4:10.0.0.1:5000".
            name: of the caller, whose connections are counted together.
        """
        with contextlib.suppress(ValueError):
            self._heard.append((_peer_of(peer), name))

    def end(self, peer: str) -> None:
        """End a connection of which a call was let in, as its client reads too slowly while others wait."""
        with contextlib.suppress(ValueError):
            self._ending.append(_peer_of(peer))

    def _watch(self, port: int) -> None:
        took_s = 0.0
        while not self._closed.wait(
            max(took_s / SHARE_MAX, LOOK_CLOSELY_S if len(self._unauthenticated) else LOOK_S)
        ):
            began_s = time.thread_time()
            try:
                self._look(port)
            except Exception:  # noqa: BLE001  without it the server would not be watched at all
                _log.exception("checking the connections of port %s failed; it is tried again", port)
            took_s = time.thread_time() - began_s

    def _look(self, port: int) -> None:
        heard = self._late + self._drained()
        connections = list(self._connections(port, {peer for peer, _ in heard}))
        # A listed connection may have been let in only now: the peer is known at once, and its later messages
        # are read next time.
        self._late = self._drained()
        by_peer = {connection.peer: connection for connection in connections}
        for peer, name in heard:
            if peer in by_peer:
                by_peer[peer].counted = by_peer[peer].received
                self._authenticate(by_peer[peer], name)
        for peer, name in self._late:
            if peer in by_peer:
                self._authenticate(by_peer[peer], name)
        for _ in range(len(self._ending)):
            slow = by_peer.get(self._ending.popleft())
            if slow is not None:
                self._shut(slow, "reads too slowly while others wait")
        self._refuse([each for each in connections if each.name is None])
        for connection in connections:
            if connection.name is not None and connection.open_bytes > self._bounds.request_bytes_max:
                self._shut(connection, "sent a request that is too large")

    def _drained(self) -> list[_Heard]:
        return [self._heard.popleft() for _ in range(len(self._heard))]

    def _authenticate(self, connection: _Connection, name: str) -> None:
        if connection.name is None and not connection.shut:
            connection.name = name
            self._unauthenticated.remove(connection.inode)
            self._shut_one(
                self._authenticated.add(connection.inode, name), "was the oldest of a client with too many"
            )

    def _refuse(self, waiting: list[_Connection]) -> None:
        """Shut those of the unauthenticated connections that are too many, too old, or brought too much."""
        for connection in waiting:
            if not connection.shut and connection.inode not in self._unauthenticated:
                evicted = self._unauthenticated.add(connection.inode, connection.peer[0])
                self._shut_one(evicted, "was the oldest of too many unauthenticated")
        now_s, bounds = clock_s(), self._bounds
        for connection in waiting:
            if now_s - connection.since_s > bounds.unauthenticated_s:
                self._shut(connection, "made no call that was admitted")
        while True:
            still_open = [each for each in waiting if not each.shut]
            if sum(each.open_bytes for each in still_open) <= bounds.unauthenticated_bytes_max:
                return
            greatest = max(still_open, key=lambda each: each.open_bytes)
            self._shut(greatest, "sent too much before any call was admitted")

    def _connections(self, port: int, callers: set[Peer]) -> Iterator[_Connection]:
        """Yield the port's connections, with what they have brought; `callers` are among them."""
        # Before they are listed: what comes meanwhile is in the list, or takes it.
        lowest_free = _lowest_free()
        known = {each.peer for each in self._sockets.values() if each is not None}
        if lowest_free != self._lowest_free or clock_s() - self._listed_s >= LIST_S or callers - known:
            self._lowest_free, self._listed_s = lowest_free, clock_s()
            self._list(port)
        for connection in self._sockets.values():
            if connection is None:
                continue
            with _borrowed(connection) as borrowed:
                if borrowed is not None:
                    about = borrowed.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _BYTES_RECEIVED.size)
                    (connection.received,) = _BYTES_RECEIVED.unpack(about)
                    yield connection

    def _list(self, port: int) -> None:
        """Find the sockets of this process; forget closed sockets."""
        present = set()
        for descriptor in map(int, os.listdir("/proc/self/fd")):  # noqa: PTH208  their names are wanted
            inode = _socket_inode(descriptor)
            if inode is None:
                continue
            present.add(inode)
            if inode not in self._sockets:
                peer = _peer(descriptor, port)
                begun = None if peer is None else _Connection(inode, descriptor, peer, clock_s())
                self._sockets[inode] = begun
            connection = self._sockets[inode]
            if connection is not None:
                connection.descriptor = descriptor
        for inode in self._sockets.keys() - present:
            del self._sockets[inode]
            self._unauthenticated.remove(inode)
            self._authenticated.remove(inode)

    def _shut_one(self, inode: int | None, why: str) -> None:
        connection = None if inode is None else self._sockets[inode]
        if connection is not None:
            self._shut(connection, why)

    def _shut(self, connection: _Connection, why: str) -> None:
        if connection.shut:
            return
        connection.shut = True
        self._unauthenticated.remove(connection.inode)
        self._authenticated.remove(connection.inode)
        with _borrowed(connection) as borrowed:
            if borrowed is not None:
                with contextlib.suppress(OSError):
                    borrowed.shutdown(socket.SHUT_RDWR)
        self._refusals += 1
        if clock_s() - self._logged_s >= LOG_S:
            self._logged_s = clock_s()
            _log.warning(
                "a connection of %s was closed: it %s (%d were closed in all)",
                connection.peer[0],
                why,
                self._refusals,
            )


@contextlib.contextmanager
def _borrowed(connection: _Connection) -> Iterator[socket.socket | None]:
    """Lend the connection's socket by a descriptor of our own; None: its own one is another file by now."""
    try:
        # Said, or it would be asked for: what is done with it is the same for all families.
        borrowed = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 0, os.dup(connection.descriptor))
    except OSError:
        yield None
        return
    with borrowed:
        yield borrowed if _socket_inode(borrowed.fileno()) == connection.inode else None


def _lowest_free() -> int:
    """Return the descriptor that the next socket of this process gets."""
    descriptor = os.open("/", os.O_PATH | os.O_CLOEXEC)
    os.close(descriptor)
    return descriptor


def _socket_inode(descriptor: int) -> int | None:
    try:
        about = os.fstat(descriptor)
    except OSError:
        return None
    return about.st_ino if stat.S_ISSOCK(about.st_mode) else None


def _peer(descriptor: int, port: int) -> Peer | None:
    """Return the other end of a connection to a port of ours; None: the socket is none."""
    try:
        with socket.socket(fileno=os.dup(descriptor)) as borrowed:
            if borrowed.family not in (socket.AF_INET, socket.AF_INET6) or borrowed.getsockname()[1] != port:
                return None
            host, its_port = borrowed.getpeername()[:2]
    except OSError:
        return None
    return _plain(host), its_port


def _peer_of(peer: str) -> Peer:
    host, _, port = unquote(peer.partition(":")[2]).rpartition(":")
    return _plain(host.strip("[]")), int(port)


def _plain(host: str) -> str:
    """Return an address as it is compared.

    Raises:
        ValueError: the host is not an IP address.
    """
    address = ip_address(host.partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)
