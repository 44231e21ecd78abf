"""Borrow rows from a shared-memory server: map them, and give them back once nothing refers to them."""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import socket
import threading
import weakref
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import pyarrow as pa

from canal_group.merge.errors import CanalGroupError, error_from_dict
from canal_group.shared_memory.handshake import GREETING_TIMEOUT_S
from canal_group.shared_memory.wire import (
    SharedMemoryAddress,
    deadline_s,
    handshake_as_client,
    receive_block,
    receive_with_file,
    send,
)

#: without this seal the owner could shrink the memory while it is read, which kills the reader by SIGBUS
_NEEDED_SEALS = fcntl.F_SEAL_SHRINK


@dataclass(frozen=True, slots=True)
class SharedMemoryAnswer:
    """A checked answer: its tables, and the location of their rows."""

    #: of each payload: schema and table; None: statements
    names: tuple[tuple[str, str] | None, ...]
    #: of each payload: offset and length of its stream in the memory, bytes
    ranges: tuple[tuple[int, int], ...]
    #: number of the segment that holds the rows; None: the rows follow the message
    segment: int | None
    #: size of the segment, or of what follows the message, bytes
    size: int

    @classmethod
    def of(cls, message: Mapping[str, Any]) -> Self:
        """Return the answer that a message describes.

        Raises:
            OSError: the message is not an answer, or names ranges outside of the memory.
        """
        try:
            names = tuple(map(_name, message["names"]))
            ranges = tuple((_count(begin), _count(length)) for begin, length in message["ranges"])
            segment, size = message["segment"], _count(message["size"])
            if segment is not None:
                _count(segment)
        except (KeyError, TypeError, ValueError) as error:
            raise OSError("the server sent an invalid answer") from error
        if len(names) != len(ranges) or any(begin + length > size for begin, length in ranges):
            raise OSError("the server's answer names ranges outside of the memory, or not one for each name")
        return cls(names, ranges, segment, size)


def numbers(message: Mapping[str, Any], name: str) -> list[int]:
    """Return the list of whole numbers, zero or greater, that a message holds under a name.

    Raises:
        OSError: there is no such list.
    """
    try:
        return [_count(each) for each in message[name]]
    except (KeyError, TypeError, ValueError) as error:
        raise OSError(f"the server sent an invalid answer: {name!r} is not a list of numbers") from error


def mapped(file: int, size: int) -> pa.Buffer:
    """Return shared memory as a buffer, mapped as long as the buffer exists, and close its file.

    Raises:
        OSError: the file is not shared memory of that size, or its owner could shrink it.
    """
    try:
        # Fails for a file that cannot have seals: on a disk, a pipe, a device.
        seals = fcntl.fcntl(file, fcntl.F_GET_SEALS)
        if not seals & _NEEDED_SEALS or not 0 < size == os.fstat(file).st_size:
            raise PermissionError(
                f"the server can shrink the memory that it lent, or it has not {size} bytes"
            )
        return pa.py_buffer(mmap.mmap(file, size, prot=mmap.PROT_READ))
    finally:
        os.close(file)


def _name(value: Any) -> tuple[str, str] | None:
    if value is None:
        return None
    schema, table = value
    if not isinstance(schema, str) or not isinstance(table, str):
        raise TypeError("a name is not a string")
    return schema, table


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise TypeError(f"{value!r} is not a whole number, zero or greater")
    return value


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
