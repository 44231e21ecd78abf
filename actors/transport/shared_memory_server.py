"""Shared-memory server: lend rows in shared memory to a process of the same machine.

Rows that are sent through a socket are copied four times, and the receiver needs new pages of memory for
them. Here they are written once, into a segment that the reader maps and reads in place. The reader's next
request says which segments it has released; if it closes the connection, it releases all of them.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import struct
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from canal_group.actors.admission.unsent_rows import HeldRows
from canal_group.actors.process.stranger_log import stranger_log
from canal_group.actors.store.rows import Payload
from canal_group.actors.store.segments import LentBytes, Segment, Segments
from canal_group.actors.transport.flight_errors import MALFORMED
from canal_group.merge.errors import CanalGroupError
from canal_group.merge.values.chunk import TableName
from canal_group.shared_memory.handshake import GREETING_TIMEOUT_S, new_secret
from canal_group.shared_memory.wire import (
    KEY_BYTES,
    MESSAGE_TIMEOUT_S,
    SharedMemoryAddress,
    deadline_s,
    handshake_as_server,
    new_name,
    receive,
    send,
    send_block,
)

_log = stranger_log(__name__)

#: connections that are held at once, authenticated or not. A further connection is closed at once, and its
#: rows are sent by Flight
CONNECTIONS_MAX = 16
#: how many admitted clients are remembered; one more, and the oldest must be admitted again
ADMITTED_MAX = 1_024
#: limit of the segments of one connection, lent or free, bytes; further rows are sent
LENT_BYTES_MAX = 128 << 20
#: rows are sent in pieces of this size, bytes
PIECE_BYTES = 1 << 20
#: pause after a connection could not be accepted, seconds
ACCEPT_PAUSE_S = 0.2
#: struct ucred: process id, user id and group id
_CREDENTIALS = struct.Struct("3i")
#: streams begin at multiples of this, bytes, as Arrow requires of its buffers
_ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class Offer:
    """The rows that a ticket names, and a check whether they may still be given away."""

    payloads: Sequence[Payload]
    #: called before each write into memory that the reader may see, and once more before the reader is told
    #: of the rows; raises a CanalGroupError if the reader may not have them
    check: Callable[[], None] = lambda: None
    #: bytes held for the answers until lent or sent; None: not counted
    held: HeldRows | None = None


@dataclass(frozen=True, slots=True)
class _Written:
    """The rows of an offer as they are lent or sent."""

    names: list[TableName | None]
    ranges: list[tuple[int, int]]
    #: None: they are sent
    segment: Segment | None
    block: memoryview
    #: of the offer
    check: Callable[[], None]
    held: HeldRows | None


class SharedMemoryServer:
    """Lend rows, from construction until it is closed or its process ends.

    Args:
        offer: returns the rows that a ticket names: (whom, ticket), where `whom` is what `admit` was called
            with; called from several threads.
        bytes_max: limit of the segments of one connection.
        lent_max: of those of all connections together.
        own_user: whether connections of other users are closed at once. Every user of the machine can read
            the name of the socket, and only `CONNECTIONS_MAX` connections are held.
        admitted_max: how many admitted clients are remembered.
        piece_bytes: size of the pieces in which rows are sent that cannot be lent.
        greeting_timeout_s: how long a client's handshake may take, seconds.
        message_timeout_s: how long a message may take, with the rows that follow it, seconds.
    """

    def __init__(
        self,
        offer: Callable[[Any, Mapping[str, Any]], Offer],
        bytes_max: int = LENT_BYTES_MAX,
        *,
        lent_max: int = CONNECTIONS_MAX * LENT_BYTES_MAX,
        own_user: bool = False,
        admitted_max: int = ADMITTED_MAX,
        piece_bytes: int = PIECE_BYTES,
        greeting_timeout_s: float = GREETING_TIMEOUT_S,
        message_timeout_s: float = MESSAGE_TIMEOUT_S,
    ) -> None:
        self._offer = offer
        self._own_user = own_user
        self._admitted_max, self._piece_bytes = admitted_max, piece_bytes
        self._greeting_timeout_s, self._message_timeout_s = greeting_timeout_s, message_timeout_s
        self._bytes_max = bytes_max
        self._lent = LentBytes(lent_max)
        self._name = new_name()
        #: key -> the secret, and the `whom` admitted with that secret
        self._admitted: OrderedDict[bytes, tuple[bytes, Any]] = OrderedDict()
        self._connections: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(f"\0{self._name}")
        self._socket.listen(CONNECTIONS_MAX)
        threading.Thread(target=self._listen, name="shared-memory", daemon=True).start()

    def admit(self, whom: Any = None) -> SharedMemoryAddress:
        """Return an address for one client, with a secret of its own; `offer` is called with its `whom`."""
        key, secret = secrets.token_bytes(KEY_BYTES), new_secret()
        with self._lock:
            self._admitted[key] = secret, whom
            while len(self._admitted) > self._admitted_max:
                self._admitted.popitem(last=False)
        return SharedMemoryAddress(self._name, key, secret)

    def close(self) -> None:
        """Stop lending; readers keep the segments borrowed so far."""
        self._closed.set()
        with self._lock:
            for connection in (self._socket, *self._connections):
                _shut(connection)
            self._socket.close()

    def _listen(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError as error:
                if self._closed.is_set():
                    return
                # The process may be out of file descriptors; that can pass.
                _log.warning("shared-memory server: a connection could not be accepted: %s", error)
                if self._closed.wait(ACCEPT_PAUSE_S):
                    return
                continue
            with self._lock:
                full = len(self._connections) >= CONNECTIONS_MAX
                if full or (self._own_user and _user_of(connection) != os.geteuid()):
                    connection.close()
                    continue
                self._connections.add(connection)
            try:
                threading.Thread(
                    target=self._serve, args=(connection,), name="shared-memory", daemon=True
                ).start()
            except RuntimeError as error:
                _log.warning("shared-memory server: no thread could be started for a connection: %s", error)
                self._forget(connection)

    def _forget(self, connection: socket.socket) -> None:
        with self._lock:
            self._connections.discard(connection)
        connection.close()

    def _serve(self, connection: socket.socket) -> None:
        segments = Segments(self._bytes_max, self._lent)
        try:
            key = handshake_as_server(connection, self._secret_of, self._greeting_timeout_s)
            with self._lock:
                _, whom = self._admitted[key]
            while True:
                request = receive(connection, self._message_timeout_s)
                self._answer(connection, segments, whom, request)
        except (OSError, *MALFORMED) as error:
            # The client then fetches its rows by Flight, which reports what is wrong.
            _log.debug("shared-memory server: a connection ended: %s", error)
        except Exception:  # noqa: BLE001  any error ends the connection
            _log.exception("shared-memory server: a request failed with an unexpected error")
        finally:
            self._forget(connection)
            segments.close()

    def _secret_of(self, key: bytes) -> bytes | None:
        with self._lock:
            admitted = self._admitted.get(key)
        return None if admitted is None else admitted[0]

    def _answer(
        self, connection: socket.socket, segments: Segments, whom: Any, request: dict[str, Any]
    ) -> None:
        segments.give_back(request["returned"])
        try:
            written = self._written(segments, whom, request["ticket"])
        except CanalGroupError as error:
            refusal = {"error": error.to_dict(), "dropped": segments.take_dropped()}
            send(connection, refusal, deadline_s(self._message_timeout_s))
            return
        answer = {"names": written.names, "ranges": written.ranges, "dropped": segments.take_dropped()}
        until_s = deadline_s(self._message_timeout_s)
        segment = written.segment
        if segment is None:
            send(connection, answer | {"segment": None, "size": len(written.block)}, until_s)
            self._send_pieces(connection, written, until_s)
            return
        answer |= {"segment": segment.number, "size": segment.size}
        send(connection, answer, until_s, None if segment.has_file else segment.file)
        segment.has_file = True

    def _written(self, segments: Segments, whom: Any, ticket: Mapping[str, Any]) -> _Written:
        """Write the rows of a ticket, which are not referred to any more then; raises as `offer`."""
        offer = self._offer(whom, ticket)
        ranges, size = _ranges(offer.payloads)
        segment = segments.lend(size) if ranges else None
        block = memoryview(bytearray(size)) if segment is None else segment.bytes
        try:
            for payload, (begin, length) in zip(offer.payloads, ranges, strict=True):
                # The reader has the segment mapped from an earlier answer, and sees each write.
                offer.check()
                payload.write(pa.py_buffer(block[begin : begin + length]))
            offer.check()
        except BaseException:
            if segment is not None:
                segments.give_back([segment.number])
            if offer.held is not None:
                offer.held.give_back()
            raise
        if segment is not None and offer.held is not None:
            offer.held.give_back()
        names = [payload.name for payload in offer.payloads]
        return _Written(names, ranges, segment, block, offer.check, offer.held)

    def _send_pieces(self, connection: socket.socket, written: _Written, until_s: float) -> None:
        """Send rows that cannot be lent, piece by piece; check before each piece whether they may be sent.

        Raises:
            OSError: the client disconnected or is too slow, or may not have the rest.
        """
        block, held = written.block, written.held
        if held is not None:
            held.sending(len(block), partial(_shut, connection))
        for begin in range(0, len(block), self._piece_bytes):
            try:
                written.check()
            except CanalGroupError as error:
                raise ConnectionAbortedError("the rest of the rows may not be sent") from error
            send_block(connection, block[begin : begin + self._piece_bytes], until_s)
            if held is not None:
                held.read(self._piece_bytes)


def _shut(connection: socket.socket) -> None:
    """Wake the thread that waits on a socket; closing it does not."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _user_of(connection: socket.socket) -> int:
    """Return the user id of the client's process when it connected, by the kernel."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, user, _ = _CREDENTIALS.unpack(credentials)
    return int(user)


def _ranges(payloads: Sequence[Payload]) -> tuple[list[tuple[int, int]], int]:
    """Return where each payload's stream goes in a segment, (begin, bytes), and the size of all of them."""
    ranges, end = [], 0
    for payload in payloads:
        size = payload.size()
        ranges.append((end, size))
        end += -(-size // _ALIGNMENT) * _ALIGNMENT
    return ranges, end
