"""The near door: rows lent in shared memory, to a process of the same machine.

Rows that pass a socket are copied four times on their way, and each page of them is new to who receives it.
Here they are written once, into a segment that the other process maps and reads in place; it says which
segments it has let go of with its next request, or by closing the connection.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from actors.near import GREETING_TIMEOUT_S, NearAddress, prove_as_door, receive, send
from actors.proof import new_secret
from actors.store.rows import Parcel
from actors.store.segments import Segments
from merge.errors import CanalGroupError

_log = logging.getLogger(__name__)

#: connections that are held at once, proved or not; one more is closed at once
CONNECTIONS_MAX = 8
#: what may be lent over one connection, and kept for it, bytes
LENT_BYTES_MAX = 96 << 20
#: streams begin at multiples of this, as Arrow wants its buffers
_ALIGNMENT = 64


class NearDoor:
    """Lends rows from the moment it is made, until it is closed or its process ends.

    Args:
        parcels: finds what a ticket names; called from several threads.
        bytes_max: what may be lent over one connection.
    """

    def __init__(
        self, parcels: Callable[[Mapping[str, Any]], Sequence[Parcel]], bytes_max: int = LENT_BYTES_MAX
    ) -> None:
        self._parcels = parcels
        self._bytes_max = bytes_max
        #: how to reach it
        self.address = NearAddress(f"canal-group-{secrets.token_hex(16)}", new_secret())
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(self.address.path)
        self._socket.listen(CONNECTIONS_MAX)
        self._connections: set[socket.socket] = set()
        self._lock = threading.Lock()
        threading.Thread(target=self._listen, name="near", daemon=True).start()

    def close(self) -> None:
        """Lend no more; what is lent stays with who has it."""
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
            except OSError:
                return
            with self._lock:
                if len(self._connections) >= CONNECTIONS_MAX:
                    connection.close()
                    continue
                self._connections.add(connection)
            threading.Thread(target=self._serve, args=(connection,), name="near", daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        segments = Segments(self._bytes_max)
        try:
            connection.settimeout(GREETING_TIMEOUT_S)
            prove_as_door(connection, self.address.secret)
            connection.settimeout(None)
            while True:
                self._answer(connection, segments, receive(connection))
        except (OSError, KeyError, TypeError, ValueError) as error:
            _log.debug("near door: %s", error)
        finally:
            with self._lock:
                self._connections.discard(connection)
            connection.close()
            segments.close()

    def _answer(self, connection: socket.socket, segments: Segments, request: dict[str, Any]) -> None:
        segments.give_back(request["returned"])
        try:
            parcels = self._parcels(request["ticket"])
        except CanalGroupError as error:
            send(connection, {"error": error.to_dict()})
            return
        places, size = _places(parcels)
        segment = segments.lend(size) if places else None
        if segment is not None:
            for parcel, (begin, length) in zip(parcels, places, strict=True):
                parcel.write(pa.py_buffer(segment.bytes[begin : begin + length]))
        names = [parcel.name for parcel in parcels]
        answer = {"names": names, "places": places, "dropped": segments.take_dropped()}
        if segment is None:
            send(connection, answer | {"segment": None})
            return
        answer |= {"segment": segment.number, "size": segment.size}
        send(connection, answer, None if segment.known else segment.file)
        segment.known = True


def _places(parcels: Sequence[Parcel]) -> tuple[list[tuple[int, int]], int]:
    """Return where each parcel's stream stands in a segment, (begin, bytes), and how long that is."""
    places, end = [], 0
    for parcel in parcels:
        size = parcel.size()
        places.append((end, size))
        end += -(-size // _ALIGNMENT) * _ALIGNMENT
    return places, end
