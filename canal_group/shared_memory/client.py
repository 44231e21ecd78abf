"""Borrow rows from a shared-memory server: map them, and give them back once nothing refers to them."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import weakref
from collections import deque
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from canal_group.merge.errors import CanalGroupError, error_from_dict
from canal_group.shared_memory.answer import SharedMemoryAnswer, mapped, numbers
from canal_group.shared_memory.handshake import GREETING_TIMEOUT_S
from canal_group.shared_memory.wire import (
    SharedMemoryAddress,
    deadline_s,
    handshake_as_client,
    receive_block,
    receive_with_file,
    send,
)


class _Loan:
    """Referenced by all buffers of one answer; once it is garbage-collected, the segment is given back."""

    __slots__ = ("__weakref__", "mapped")

    def __init__(self, mapped: pa.Buffer) -> None:
        self.mapped = mapped


class SharedMemoryClient:
    """A connection to a shared-memory server; safe to use from several threads.

    Args:
        address: of the server.
        timeout_s: how long an answer may take, seconds.

    Raises:
        OSError: there is no such server on this machine, or it does not know the secret.
    """

    def __init__(self, address: SharedMemoryAddress, timeout_s: float) -> None:
        self._lock = threading.Lock()
        self._timeout_s = timeout_s
        #: segments that were released since the last request; any thread may append
        self._returned: deque[int] = deque()
        self._mapped: dict[int, pa.Buffer] = {}
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.settimeout(GREETING_TIMEOUT_S)
            self._socket.connect(address.path)
            handshake_as_client(self._socket, address.key, address.secret)
        except BaseException:
            self._socket.close()
            raise

    def borrow(self, ticket: Mapping[str, Any]) -> list[tuple[tuple[str, str] | None, pa.Buffer]]:
        """Return the payloads that a ticket names: the name and the stream of each.

        The streams are in shared memory. If the server cannot lend more, it sends them, and they are copies.

        Raises:
            CanalGroupError: the server refuses.
            OSError: the server disconnected, does not answer in time, or its answer is invalid. The client
                cannot be used any more.
        """
        with self._lock:
            returned = [self._returned.popleft() for _ in range(len(self._returned))]
            until_s = deadline_s(self._timeout_s)
            send(self._socket, {"ticket": ticket, "returned": returned}, until_s)
            message, file = receive_with_file(self._socket, until_s)
            answer = self._understood(message, file)
            block = (
                receive_block(self._socket, answer.size, until_s)
                if answer.segment is None
                else self._lent(answer.segment, answer.size)
            )
        return [
            (name, block.slice(begin, size))
            for name, (begin, size) in zip(answer.names, answer.ranges, strict=True)
        ]

    def _understood(self, message: Mapping[str, Any], file: int | None) -> SharedMemoryAnswer:
        """Return the checked answer of a message, after mapping the memory that came with it."""
        with contextlib.ExitStack() as unused:
            if file is not None:
                unused.callback(os.close, file)
            for dropped in numbers(message, "dropped"):
                self._mapped.pop(dropped, None)
            if "error" in message:
                raise _refusal(message["error"])
            answer = SharedMemoryAnswer.of(message)
            if file is not None and answer.segment is not None:
                unused.pop_all()
                self._mapped[answer.segment] = mapped(file, answer.size)
        return answer

    def _lent(self, number: int, size: int) -> pa.Buffer:
        """Return the bytes of a segment; it is given back once nothing refers to them."""
        segment = self._mapped.get(number)
        if segment is None or segment.size != size:
            raise OSError(f"the server lent segment {number} of {size} bytes, but sent none of that size")
        loan = _Loan(segment)
        weakref.finalize(loan, self._returned.append, number).atexit = False
        return pa.foreign_buffer(segment.address, segment.size, loan)

    def close(self) -> None:
        """Close the connection; borrowed rows stay mapped as long as something refers to them."""
        with contextlib.suppress(OSError):
            # Wakes the thread that waits for an answer, which holds the lock.
            self._socket.shutdown(socket.SHUT_RDWR)
        with self._lock:
            self._socket.close()
            self._mapped.clear()


def _refusal(value: Any) -> CanalGroupError:
    try:
        return error_from_dict(value)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise OSError("the server sent an invalid error") from error
