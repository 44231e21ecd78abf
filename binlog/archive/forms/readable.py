"""Readable: the bytes of a binlog file, in whatever form they are stored."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from canal_group.merge.errors import CorruptEvent

if TYPE_CHECKING:
    from typing_extensions import Buffer

_REPAIR = (
    "Copy the file from its server, or from another archive, and take it over with `canal-group archive "
    "adopt`; nothing of it is skipped."
)


class Readable(Protocol):
    """Bytes that can be read from any offset."""

    @property
    def size(self) -> int:
        """How many there are; of a file that is written, more at a later call."""

    def read_at(self, offset: int, size: int) -> bytes:
        """Return bytes from an offset on: at least one, unless the offset is at the end or after it.

        Raises:
            CorruptEvent: they are damaged, see `damaged_bytes`.
            OSError: they cannot be read.
        """

    def close(self) -> None:
        """Close what is open."""


def damaged_bytes(where: str, begin: int, end: int, why: str) -> CorruptEvent:
    """Return the error of bytes that are damaged; its details have `begin` and `end`.

    Args:
        where: the path of the file.
        begin: the first of the binlog's bytes that cannot be read.
        end: where they end.
        why: a part of a sentence.
    """
    return CorruptEvent(
        f"Bytes {begin:,} to {end:,} of the binlog in {where} are damaged: {why}.",
        hint=_REPAIR,
        file=where,
        begin=begin,
        end=end,
    )


class KnownBytes:
    """A file, or the beginning of a file, with a known length: missing bytes are an error.

    Args:
        source: the bytes; closed with this object.
        where: the path of the file, for messages.
        size: how many it has.
        damaged: ranges that cannot be read, bytes from and up to.
    """

    def __init__(
        self, source: Readable, where: str, size: int, damaged: Sequence[tuple[int, int]] = ()
    ) -> None:
        self._source, self._where, self.size, self._damaged = source, where, size, damaged

    def read_at(self, offset: int, size: int) -> bytes:
        """Return bytes from an offset on, see `Readable`."""
        end = min(self.size, offset + size)
        for begin, stop in self._damaged:
            if begin <= offset < stop:
                raise damaged_bytes(self._where, begin, stop, "the manifest says so")
            if offset < begin < end:
                end = begin
        data = self._source.read_at(offset, end - offset) if offset < end else b""
        if not data and offset < end:
            raise damaged_bytes(self._where, offset, self.size, "they are missing, or cannot be decrypted")
        return data

    def close(self) -> None:
        """Close the bytes."""
        self._source.close()


class ReadableStream(io.RawIOBase):
    """The bytes as a file that is read from its beginning on, or from where `seek` goes.

    Args:
        source: the bytes; closed with the stream.
    """

    def __init__(self, source: Readable) -> None:
        super().__init__()
        self._source = source
        self._at = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to an offset, and return it."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._source.size}[whence]
        self._at = base + offset
        return self._at

    def readinto(self, room: Buffer) -> int:
        """Read the next bytes into a buffer, and return how many."""
        with memoryview(room) as view:
            read = 0
            while read < view.nbytes and (data := self._source.read_at(self._at, view.nbytes - read)):
                view[read : read + len(data)] = data
                read += len(data)
                self._at += len(data)
        return read

    def close(self) -> None:
        """Close the bytes, too."""
        if not self.closed:
            self._source.close()
        super().close()
