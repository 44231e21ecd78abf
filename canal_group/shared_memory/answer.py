"""What a shared-memory server answers with, looked at before anything of it is opened, mapped or read."""

from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import pyarrow as pa

#: without this seal, its owner could cut the memory off under who reads it, which ends the reader's process
_NEEDED_SEALS = fcntl.F_SEAL_SHRINK


@dataclass(frozen=True, slots=True)
class SharedMemoryAnswer:
    """Where the rows of an answer are."""

    #: of each payload: schema and table; None: statements
    names: tuple[tuple[str, str] | None, ...]
    #: of each payload: where its stream begins, and how many bytes it has
    places: tuple[tuple[int, int], ...]
    #: of the memory that they are lent in; None: they follow the message
    segment: int | None
    #: bytes of that memory, or of what follows
    size: int

    @classmethod
    def of(cls, message: Mapping[str, Any]) -> Self:
        """Return what a message says.

        Raises:
            OSError: it is no answer, or names places outside of what it brings.
        """
        try:
            names = tuple(map(_name, message["names"]))
            places = tuple((_count(begin), _count(length)) for begin, length in message["places"])
            segment, size = message["segment"], _count(message["size"])
            if segment is not None:
                _count(segment)
        except (KeyError, TypeError, ValueError) as error:
            raise OSError("what came is no answer") from error
        if len(names) != len(places) or any(begin + length > size for begin, length in places):
            raise OSError("an answer names places outside of what it brings")
        return cls(names, places, segment, size)


def numbers(message: Mapping[str, Any], name: str) -> list[int]:
    """Return a list of whole numbers in a message.

    Raises:
        OSError: it is none.
    """
    try:
        return [_count(each) for each in message[name]]
    except (KeyError, TypeError, ValueError) as error:
        raise OSError("what came is no answer") from error


def mapped(file: int, size: int) -> pa.Buffer:
    """Return shared memory as a buffer, which can be read as long as it is held, and close its file.

    Raises:
        OSError: the file is no memory of that size which stays as large as it is.
    """
    try:
        # Fails on whatever is no sealed memory: a file on a disk, a pipe, a device.
        seals = fcntl.fcntl(file, fcntl.F_GET_SEALS)
        if not seals & _NEEDED_SEALS or not 0 < size == os.fstat(file).st_size:
            raise PermissionError("what is lent can be cut off")
        return pa.py_buffer(mmap.mmap(file, size, prot=mmap.PROT_READ))
    finally:
        os.close(file)


def _name(said: Any) -> tuple[str, str] | None:
    if said is None:
        return None
    schema, table = said
    if not isinstance(schema, str) or not isinstance(table, str):
        raise TypeError("a name is no text")
    return schema, table


def _count(said: Any) -> int:
    if type(said) is not int or said < 0:
        raise TypeError(f"{said!r} is no count")
    return said
