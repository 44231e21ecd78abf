"""Segments: shared memory that is lent to one reader, comes back, and is lent again.

Memory that is new to a process costs the kernel more than what is copied into it, so a segment is used again
and again. Its reader can neither write to it nor change its size.
"""

from __future__ import annotations

import fcntl
import logging
import mmap
import os
from collections.abc import Iterable
from dataclasses import dataclass, field

_log = logging.getLogger(__name__)

#: the smallest has so many bytes, and each size is twice the one before: so rows of the next batch fit into
#: what held those of the last. Pages that were never written to are no memory yet
SIZE_MIN_BYTES = 1 << 20
#: <linux/fcntl.h>; Python does not know it
_SEAL_FUTURE_WRITE = 0x10
_SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | _SEAL_FUTURE_WRITE


@dataclass(slots=True)
class Segment:
    """A piece of shared memory."""

    #: it is never that of another one of the same reader
    number: int
    size: int
    #: open, as long as the segment is kept
    file: int = field(init=False)
    #: its bytes, for us to write
    bytes: memoryview = field(init=False, repr=False)
    #: whether the reader has the file
    known: bool = False

    def __post_init__(self) -> None:
        self.file = os.memfd_create("canal-group rows", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(self.file, self.size)
            mapped = mmap.mmap(self.file, self.size)
            try:
                # Behind our own mapping, which stays writable.
                fcntl.fcntl(self.file, fcntl.F_ADD_SEALS, _SEALS)
            except OSError:
                mapped.close()
                raise
        except OSError:
            os.close(self.file)
            raise
        self.bytes = memoryview(mapped)

    def close(self) -> None:
        """Give it back to the kernel, once the reader has let go of it, too."""
        os.close(self.file)


class Segments:
    """The segments of one reader; used by one thread.

    Args:
        bytes_max: what all of them together may hold, lent or not.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._free: dict[int, Segment] = {}
        self._lent: dict[int, Segment] = {}
        self._next_number = 0
        self._dropped: list[int] = []

    def lend(self, size: int) -> Segment | None:
        """Return a segment of at least `size` bytes that nobody reads; None: there can be no more."""
        fitting = min((each for each in self._free.values() if each.size >= size), key=_size, default=None)
        if fitting is None:
            fitting = self._made(max(SIZE_MIN_BYTES, 1 << (size - 1).bit_length()))
            if fitting is None:
                return None
        self._free.pop(fitting.number, None)
        self._lent[fitting.number] = fitting
        return fitting

    def give_back(self, numbers: Iterable[int]) -> None:
        """Note which of the lent ones the reader has let go of; others are passed over."""
        for number in numbers:
            segment = self._lent.pop(number, None)
            if segment is not None:
                self._free[number] = segment

    def take_dropped(self) -> list[int]:
        """Return the numbers of those that were given up since this was asked last."""
        dropped, self._dropped = self._dropped, []
        return dropped

    def close(self) -> None:
        """Give up all of them; what the reader has mapped stays with it until it lets go."""
        for segment in (*self._free.values(), *self._lent.values()):
            segment.close()
        self._free.clear()
        self._lent.clear()

    def _made(self, size: int) -> Segment | None:
        """Make one, in place of free ones if need be, the smallest first."""
        if sum(map(_size, self._lent.values())) + size > self._bytes_max:
            return None
        held = sum(map(_size, (*self._free.values(), *self._lent.values())))
        for segment in sorted(self._free.values(), key=_size):
            if held + size <= self._bytes_max:
                break
            held -= segment.size
            self._dropped.append(segment.number)
            self._free.pop(segment.number).close()
        self._next_number += 1
        try:
            return Segment(self._next_number, size)
        except OSError as error:
            # A kernel without the seal, or a process without files or memory left: it is not asked again.
            _log.warning("rows are sent, for there is no shared memory to lend them in: %s", error)
            self._bytes_max = 0
            return None


def _size(segment: Segment) -> int:
    return segment.size
