"""Answers of a shared-memory server, checked before anything is opened, mapped or read."""

from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import pyarrow as pa

#: without this seal the owner could shrink the memory while it is read, which kills the reader by SIGBUS
_NEEDED_SEALS = fcntl.F_SEAL_SHRINK


@dataclass(frozen=True, slots=True)
class SharedMemoryAnswer:
    """A checked answer: which rows it has, and where they are."""

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
