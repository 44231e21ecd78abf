"""Segments: shared memory that is lent to one reader, given back, and lent again.

Mapping new memory costs the kernel more than the copy into it, so segments are reused. The reader can neither
write to a segment nor change its size.
"""

from __future__ import annotations

import fcntl
import logging
import mmap
import os
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field

_log = logging.getLogger(__name__)

#: bytes of the smallest segment. Sizes double, so that the next batch's rows fit into a segment of the last
#: one. Pages that were never written to take no memory
SIZE_MIN_BYTES = 1 << 20
#: <linux/fcntl.h>; Python does not know it
_SEAL_FUTURE_WRITE = 0x10
_SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | _SEAL_FUTURE_WRITE


@dataclass(slots=True)
class Segment:
    """A piece of shared memory."""

    #: unique among the segments of one reader
    number: int
    size: int
    #: file descriptor, open as long as the segment is kept
    file: int = field(init=False)
    #: the segment's bytes, writable by this process only
    bytes: memoryview = field(init=False, repr=False)
    #: whether the reader has received the file
    has_file: bool = False

    def __post_init__(self) -> None:
        self.file = os.memfd_create("canal-group rows", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(self.file, self.size)
            mapped = mmap.mmap(self.file, self.size)
            try:
                # Seal after mapping: our own mapping stays writable.
                fcntl.fcntl(self.file, fcntl.F_ADD_SEALS, _SEALS)
            except OSError:
                mapped.close()
                raise
        except OSError:
            os.close(self.file)
            raise
        self.bytes = memoryview(mapped)

    def close(self) -> None:
        """Close the file; the kernel frees the memory once the reader has released it, too."""
        os.close(self.file)


class LentBytes:
    """Bytes of the segments of all readers, lent or not. Safe to use from several threads.

    Args:
        bytes_max: limit of them.
    """

    def __init__(self, bytes_max: int) -> None:
        self._left = bytes_max
        self._lock = threading.Lock()

    def take(self, size: int) -> bool:
        """Return whether there may be a further segment of `size` bytes; it is counted then."""
        with self._lock:
            if size > self._left:
                return False
            self._left -= size
            return True

    def give_back(self, size: int) -> None:
        """Count a segment no more."""
        with self._lock:
            self._left += size


class Segments:
    """The segments of one reader; used by one thread.

    Args:
        bytes_max: limit of bytes of all segments together, lent or not.
        of_all: those of all readers.
    """

    def __init__(self, bytes_max: int, of_all: LentBytes) -> None:
        self._bytes_max, self._of_all = bytes_max, of_all
        self._free: dict[int, Segment] = {}
        self._lent: dict[int, Segment] = {}
        self._next_number = 0
        self._dropped: list[int] = []

    def lend(self, size: int) -> Segment | None:
        """Return a free segment of at least `size` bytes; None if there can be no more segments."""
        fitting = min((each for each in self._free.values() if each.size >= size), key=_size, default=None)
        if fitting is None:
            fitting = self._made(max(SIZE_MIN_BYTES, 1 << (size - 1).bit_length()))
            if fitting is None:
                return None
        self._free.pop(fitting.number, None)
        self._lent[fitting.number] = fitting
        return fitting

    def give_back(self, numbers: Iterable[int]) -> None:
        """Take back the segments that the reader has released; ignore numbers that are not lent."""
        for number in numbers:
            segment = self._lent.pop(number, None)
            if segment is not None:
                self._free[number] = segment

    def take_dropped(self) -> list[int]:
        """Return the numbers of the segments that were closed since the last call."""
        dropped, self._dropped = self._dropped, []
        return dropped

    def close(self) -> None:
        """Close all segments; what the reader has mapped stays valid until it releases it."""
        for segment in (*self._free.values(), *self._lent.values()):
            self._close(segment)
        self._free.clear()
        self._lent.clear()

    def _made(self, size: int) -> Segment | None:
        """Make a segment; if the limit requires it, close free ones first, the smallest first."""
        if sum(map(_size, self._lent.values())) + size > self._bytes_max:
            return None
        held = sum(map(_size, (*self._free.values(), *self._lent.values())))
        while held + size > self._bytes_max or not self._of_all.take(size):
            smallest = min(self._free.values(), key=_size, default=None)
            if smallest is None:
                return None
            held -= smallest.size
            self._dropped.append(smallest.number)
            self._close(self._free.pop(smallest.number))
        self._next_number += 1
        try:
            return Segment(self._next_number, size)
        except OSError as error:
            # The kernel lacks the seal, or the process has no files or memory left: do not try again.
            _log.warning("no shared memory for rows, they are sent instead: %s", error)
            self._of_all.give_back(size)
            self._bytes_max = 0
            return None

    def _close(self, segment: Segment) -> None:
        segment.close()
        self._of_all.give_back(segment.size)


def _size(segment: Segment) -> int:
    return segment.size
