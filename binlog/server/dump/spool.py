"""Spool: bytes that a source has sent, and that are read once more, in the order in which they came.

`MEMORY_BYTES` stay in memory, the rest is in a file in the folder for temporary files (TMPDIR, or /tmp). The
file has no name and the mode 0600: it ends with the process that holds it, however that ends.
"""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from typing_extensions import Buffer

#: bytes of a spool's file; the part of its disk that stays free for others, such as cursors
SPOOL_BYTES_MAX: Final = 4 << 30
FREE_MIN: Final = 0.1
#: bytes that are written at a time
MEMORY_BYTES: Final = 1 << 20


class AheadEndsError(Exception):
    """Nothing more can be read ahead of a stream, which lacks nothing. Its text says why."""


class Spool:
    """Takes bytes until `read_into` is called first. Used by one thread.

    Args:
        bytes_max: limit of the file.
        free_min: the part of its disk that it leaves free.
    """

    def __init__(self, bytes_max: int, *, free_min: float = FREE_MIN) -> None:
        self._bytes_max, self._free_min = bytes_max, free_min
        self._file: int | None = None
        #: bytes of the file, and what comes after them: the first `_held` bytes of a buffer, which is filled
        #: again and again, because memory that is new costs as much as writing
        self._stored = 0
        self._memory = bytearray(2 * MEMORY_BYTES)
        self._held = 0
        #: how many bytes were read
        self._read = 0

    def put(self, data: Buffer) -> None:
        """Append bytes.

        Raises:
            AheadEndsError: they are appended, and no more should be.
        """
        with memoryview(data) as view:
            held = self._held + view.nbytes
            if held > len(self._memory):
                self._memory += bytes(held - len(self._memory))
            self._memory[self._held : held] = view
        self._held = held
        if held >= MEMORY_BYTES:
            try:
                self._store()
            except OSError as error:
                raise AheadEndsError(f"no temporary file takes more ({error.strerror})") from error

    @property
    def unread(self) -> bool:
        """Whether the spool holds bytes that `read_into` has not returned."""
        return self._read < self._stored + self._held

    def read_into(self, room: Buffer) -> int:
        """Read the next bytes into a buffer; return how many.

        Raises:
            OSError: the file cannot be read.
        """
        with memoryview(room) as view:
            left = self._stored - self._read
            if left > 0:
                assert self._file is not None, "it holds what is stored"
                size = os.preadv(self._file, [view[: min(left, view.nbytes)]], self._read)
                if not size:
                    raise OSError("the file has been cut")
            else:
                size = min(self._held + left, view.nbytes)
                view[:size] = self._memory[-left : size - left]
        self._read += size
        if not self.unread:
            self.close()
        return size

    def close(self) -> None:
        """Forget everything, and free the disk."""
        file, self._file = self._file, None
        self._stored, self._memory, self._held, self._read = 0, bytearray(), 0, 0
        if file is not None:
            os.close(file)

    def _store(self) -> None:
        """Write what is in memory to the file.

        Raises:
            OSError: it cannot be written; what the file holds of it does not count.
            AheadEndsError: a limit is reached.
        """
        size = self._held
        if self._stored + size > self._bytes_max:
            raise AheadEndsError(f"{self._bytes_max:,} bytes are the limit")
        if self._file is None:
            with tempfile.TemporaryFile(buffering=0) as made:
                self._file = os.dup(made.fileno())
        disk = os.fstatvfs(self._file)
        if disk.f_bavail * disk.f_frsize - size < disk.f_blocks * disk.f_frsize * self._free_min:
            raise AheadEndsError(f"{self._free_min:.0%} of the disk of temporary files stays free")
        with memoryview(self._memory) as view:
            written = 0
            while written < size:
                written += os.pwrite(self._file, view[written:size], self._stored + written)
        self._stored += size
        self._held = 0
