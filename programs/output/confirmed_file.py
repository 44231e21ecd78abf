"""Confirmed file: a file that one writer appends to, of which only a confirmed part lasts.

Who confirms keeps the part's length and checksum elsewhere. The length is carried and not asked of the file:
where a file ends says what was written, also by a writer that was killed, and not what was confirmed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import zlib
from pathlib import Path
from typing import NamedTuple

from canal_group.merge.errors import FencedError, SinkRefused

#: bytes that are read at once
_BLOCK_BYTES = 1 << 20


class Part(NamedTuple):
    """The beginning of a file."""

    #: bytes
    size: int = 0
    crc32: int = 0


class ConfirmedFile:
    """A file that is locked and open; raises OSError besides what is listed.

    Args:
        path: the file; it is made if needed.

    Raises:
        FencedError: another process has it open.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        #: what was written, with the confirmed part
        self.written = Part()
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise FencedError(
                f"Another process writes to {path}.", hint="Stop it, or name another file."
            ) from None

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return os.fstat(self._fd).st_size

    def begin_after(self, confirmed: Part) -> None:
        """Cut off what comes after the confirmed part.

        Raises:
            SinkRefused: the file does not begin with this part; it is left as it is.
        """
        if self.size < confirmed.size:
            raise self._differs(f"is shorter than the {confirmed.size} bytes that were confirmed")
        if self._crc32(confirmed.size) != confirmed.crc32:
            raise self._differs(f"was changed: its first {confirmed.size} bytes are not what was confirmed")
        os.ftruncate(self._fd, confirmed.size)
        self.written = confirmed

    def append(self, data: bytes) -> None:
        """Write after what was written; after an error only `begin_after` may follow."""
        size, rest = self.written.size, memoryview(data)
        while rest:
            count = os.pwrite(self._fd, rest, size)
            size, rest = size + count, rest[count:]
        self.written = Part(size, zlib.crc32(data, self.written.crc32))

    def sync(self) -> Part:
        """Write to the disk; return the part of the file that lasts then.

        Raises:
            SinkRefused: the file ends elsewhere, so that another program writes to it.
        """
        os.fsync(self._fd)
        if not os.path.samestat(os.fstat(self._fd), self._path.stat()):
            raise self._differs("was replaced while it was written")
        if self.size != self.written.size:
            raise self._differs(f"has {self.size} bytes, and {self.written.size} were written")
        return self.written

    def close(self) -> None:
        """Release the file."""
        with contextlib.suppress(OSError):
            os.close(self._fd)

    def _crc32(self, size: int) -> int:
        checksum, at = 0, 0
        while at < size:
            block = os.pread(self._fd, min(_BLOCK_BYTES, size - at), at)
            if not block:
                break
            checksum, at = zlib.crc32(block, checksum), at + len(block)
        return checksum

    def _differs(self, how: str) -> SinkRefused:
        return SinkRefused(
            f"{self._path} {how}.",
            hint="No other program may write to it: restore it, or name another file.",
        )
