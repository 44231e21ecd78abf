"""The shared-memory server: rows lent in shared memory, to a process of the same machine.

Rows that pass a socket are copied four times on their way, and each page of them is new to who receives it.
Here they are written once, into a segment that the other process maps and reads in place; it says which
segments it has let go of with its next request, or by closing the connection.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import socket
import struct
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from actors.store.rows import Payload
from actors.store.segments import Segments
from actors.transport.flight_errors import MALFORMED
from canal_group.shared_memory.handshake import new_secret
from canal_group.shared_memory.wire import (
    KEY_BYTES,
    SharedMemoryAddress,
    deadline_s,
    handshake_as_server,
    new_name,
    receive,
    send,
    send_block,
)
from merge.errors import CanalGroupError

_log = logging.getLogger(__name__)

#: connections that are held at once, proved or not; one more is closed at once, and its rows go by Flight. A
#: door lends 2 GiB at most by that
CONNECTIONS_MAX = 16
#: who was admitted last; one more, and the first of them has to be admitted again
ADMITTED_MAX = 1_024
#: what may be lent over one connection, and kept for it, bytes; what is more is sent
LENT_BYTES_MAX = 128 << 20
#: what is sent is sent in pieces of so many bytes
PIECE_BYTES = 1 << 20
#: how long no connection is accepted after one could not be, seconds
ACCEPT_PAUSE_S = 0.2
#: struct ucred: process, user and group
_CREDENTIALS = struct.Struct("3i")
#: streams begin at multiples of this, as Arrow wants its buffers
_ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class Offer:
    """What a ticket names."""

    payloads: Sequence[Payload]
    #: called before anything is written where its reader could see it, and once more when all is written,
    #: before the reader is told; raises a CanalGroupError: it may not leave
    check: Callable[[], None] = lambda: None


class SharedMemoryServer:
    """Lends rows from the moment it is made, until it is closed or its process ends.

    Args:
        offer: finds what a ticket names, for who was admitted as `whom`: (whom, ticket); called from several
            threads.
        bytes_max: what may be lent over one connection.
        own_user: whether processes of other users are let go at once: the name of the socket is there for all
            users of the machine to read, and connections are few.
    """

    def __init__(
        self,
        offer: Callable[[Any, Mapping[str, Any]], Offer],
        bytes_max: int = LENT_BYTES_MAX,
        *,
        own_user: bool = False,
    ) -> None:
        self._offer = offer
        self._own_user = own_user
        self._bytes_max = bytes_max
        self._name = new_name()
        #: by key: the secret, and who was admitted with it
        self._admitted: OrderedDict[bytes, tuple[bytes, Any]] = OrderedDict()
        self._connections: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(f"\0{self._name}")
        self._socket.listen(CONNECTIONS_MAX)
        threading.Thread(target=self._listen, name="shared-memory", daemon=True).start()

    def admit(self, whom: Any = None) -> SharedMemoryAddress:
        """Return how somebody can reach the door; `offer` is told who it is."""
        key, secret = secrets.token_bytes(KEY_BYTES), new_secret()
        with self._lock:
            self._admitted[key] = secret, whom
            while len(self._admitted) > ADMITTED_MAX:
                self._admitted.popitem(last=False)
        return SharedMemoryAddress(self._name, key, secret)

    def close(self) -> None:
        """Lend no more; what is lent stays with who has it."""
        self._closed.set()
        with self._lock:
            for connection in (self._socket, *self._connections):
                # Wakes the thread that waits for it; closing alone does not.
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            self._socket.close()

    def _listen(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError as error:
                if self._closed.is_set():
                    return
                # The process has no file left, perhaps: it may have one again.
                _log.warning("shared-memory server: a connection cannot be accepted: %s", error)
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
                _log.warning("shared-memory server: a connection cannot be served: %s", error)
                self._forget(connection)

    def _forget(self, connection: socket.socket) -> None:
        with self._lock:
            self._connections.discard(connection)
        connection.close()

    def _serve(self, connection: socket.socket) -> None:
        segments = Segments(self._bytes_max)
        try:
            key = handshake_as_server(connection, self._secret_of)
            with self._lock:
                _, whom = self._admitted[key]
            while True:
                self._answer(connection, segments, whom, receive(connection))
        except (OSError, *MALFORMED) as error:
            # Its rows go by Flight, which says what is wrong.
            _log.debug("shared-memory server: %s", error)
        except Exception:  # noqa: BLE001  whatever it is, the connection ends
            _log.exception("shared-memory server: a request broke")
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
        segment = None
        try:
            offer = self._offer(whom, request["ticket"])
            places, size = _places(offer.payloads)
            segment = segments.lend(size) if places else None
            block = bytearray(size) if segment is None else segment.bytes
            for payload, (begin, length) in zip(offer.payloads, places, strict=True):
                # A segment that was lent before is mapped by its reader: what is written is seen.
                offer.check()
                payload.write(pa.py_buffer(memoryview(block)[begin : begin + length]))
            offer.check()
        except CanalGroupError as error:
            if segment is not None:
                segments.give_back([segment.number])
            refusal = {"error": error.to_dict(), "dropped": segments.take_dropped()}
            send(connection, refusal, deadline_s())
            return
        names = [payload.name for payload in offer.payloads]
        answer = {"names": names, "places": places, "dropped": segments.take_dropped()}
        until_s = deadline_s()
        if segment is None:
            send(connection, answer | {"segment": None, "size": size}, until_s)
            _send_pieces(connection, memoryview(block), offer, until_s)
            return
        answer |= {"segment": segment.number, "size": segment.size}
        send(connection, answer, until_s, None if segment.known else segment.file)
        segment.known = True


def _user_of(connection: socket.socket) -> int:
    """Return the user id of who connected, as the kernel saw it then."""
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, user, _ = _CREDENTIALS.unpack(found)
    return int(user)


def _send_pieces(connection: socket.socket, block: memoryview, offer: Offer, until_s: float) -> None:
    """Send what cannot be lent, piece by piece, as long as it may leave.

    Raises:
        OSError: the other end is gone or too slow, or must not have the rest.
    """
    for begin in range(0, len(block), PIECE_BYTES):
        try:
            offer.check()
        except CanalGroupError as error:
            raise ConnectionAbortedError("the rest may not leave") from error
        send_block(connection, block[begin : begin + PIECE_BYTES], until_s)


def _places(payloads: Sequence[Payload]) -> tuple[list[tuple[int, int]], int]:
    """Return where each payload's stream stands in a segment, (begin, bytes), and how long that is."""
    places, end = [], 0
    for payload in payloads:
        size = payload.size()
        places.append((end, size))
        end += -(-size // _ALIGNMENT) * _ALIGNMENT
    return places, end
