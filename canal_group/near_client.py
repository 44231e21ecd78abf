"""Who borrows rows at a near door: maps what is lent, and gives it back when nobody looks at it any more."""

from __future__ import annotations

import contextlib
import mmap
import os
import socket
import threading
import weakref
from collections import deque
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from canal_group.near import (
    GREETING_TIMEOUT_S,
    NearAddress,
    prove_as_caller,
    receive_block,
    receive_with_file,
    send,
)
from merge.errors import error_from_dict


class _Loan:
    """What the buffers of one answer hold on to; the segment is given back when it is gone."""

    __slots__ = ("__weakref__", "mapped")

    def __init__(self, mapped: pa.Buffer) -> None:
        self.mapped = mapped


class NearClient:
    """A connection to a near door; safe to use from several threads.

    Args:
        address: of the door.
        timeout_s: how long an answer may take.

    Raises:
        OSError: there is no such door on this machine, or it does not know the secret.
    """

    def __init__(self, address: NearAddress, timeout_s: float) -> None:
        self._lock = threading.Lock()
        #: segments that were let go of since the last request; filled by whatever thread does so
        self._returned: deque[int] = deque()
        self._mapped: dict[int, pa.Buffer] = {}
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.settimeout(GREETING_TIMEOUT_S)
            self._socket.connect(address.path)
            prove_as_caller(self._socket, address.key, address.secret)
            self._socket.settimeout(timeout_s)
        except BaseException:
            self._socket.close()
            raise

    def borrow(self, ticket: Mapping[str, Any]) -> list[tuple[tuple[str, str] | None, pa.Buffer]]:
        """Return what a ticket names: the name of each parcel, and its stream.

        It is read in place, or, where more would be lent than may be, was sent.

        Raises:
            CanalGroupError: what the door refuses with.
            OSError: the door is shut, or does not answer in time; there is no use of this client any more.
        """
        with self._lock:
            returned = [self._returned.popleft() for _ in range(len(self._returned))]
            send(self._socket, {"ticket": ticket, "returned": returned})
            answer, file = receive_with_file(self._socket)
            for dropped in answer["dropped"]:
                self._mapped.pop(dropped, None)
            if "error" in answer:
                raise error_from_dict(answer["error"])
            number = answer["segment"]
            if file is not None:
                self._mapped[number] = _mapped(file, answer["size"])
            block = receive_block(self._socket, answer["size"]) if number is None else self._lent(number)
        return [
            (None if name is None else (name[0], name[1]), block.slice(begin, size))
            for name, (begin, size) in zip(answer["names"], answer["places"], strict=True)
        ]

    def _lent(self, number: int) -> pa.Buffer:
        """Return a segment's bytes, which is given back when nobody looks at them any more."""
        mapped = self._mapped[number]
        loan = _Loan(mapped)
        weakref.finalize(loan, self._returned.append, number).atexit = False
        return pa.foreign_buffer(mapped.address, mapped.size, loan)

    def close(self) -> None:
        """End the connection; what is borrowed stays mapped until nobody looks at it any more."""
        with contextlib.suppress(OSError):
            # Whoever waits for an answer holds the lock, and waits no more.
            self._socket.shutdown(socket.SHUT_RDWR)
        with self._lock:
            self._socket.close()
            self._mapped.clear()


def _mapped(file: int, size: int) -> pa.Buffer:
    try:
        return pa.py_buffer(mmap.mmap(file, size, prot=mmap.PROT_READ))
    finally:
        os.close(file)
