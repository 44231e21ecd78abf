"""Pages again: those that entered a stream when it was read before, each at its own position."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from canal_group.actors.snapshot.page_folder import PageFolder
from canal_group.merge.values.chunk import Chunk
from canal_group.merge.values.header import Flag
from canal_group.merge.values.position import Position, file_order


class Part(NamedTuple):
    """A part of a chunk, by indexes of its headers, and the pages that follow it."""

    begin: int
    end: int
    pages: tuple[Chunk, ...]


class PagesAgain:
    """The pages of a folder that are still to come.

    Args:
        folder: has them.
        start: where the stream begins.

    Raises:
        DataError: a page cannot be read; so do the methods.
    """

    def __init__(self, folder: PageFolder, start: Position) -> None:
        self._pages = folder.after(start)
        self._next = next(self._pages, None)

    @property
    def done(self) -> bool:
        """Whether none is to come."""
        return self._next is None

    def up_to(self, file: str, offset: int) -> Iterator[Chunk]:
        """Yield the next pages that entered at or before an offset."""
        while self._next is not None and _position(self._next, 0) <= (*file_order(file), offset):
            page, self._next = self._next, next(self._pages, None)
            yield page

    def parts(self, chunk: Chunk) -> Iterator[Part]:
        """Yield a chunk in parts, each with the pages that entered after it; the first one may be empty."""
        begin, count = 0, len(chunk.headers)
        if self._next is not None and count and _position(self._next, 0) <= _position(chunk, count - 1):
            for index in range(count):
                header = chunk.headers[index]
                # A file begins where no transaction ends.
                for bit, side, end in (
                    (Flag.BEGIN, "begin_offset", index),
                    (Flag.END, "end_offset", index + 1),
                ):
                    if header["flags"] & bit:
                        pages = tuple(self.up_to(chunk.names[header["file"]], int(header[side])))
                        if pages:
                            yield Part(begin, end, pages)
                            begin = end
        if begin < count:
            yield Part(begin, count, ())


def _position(chunk: Chunk, index: int) -> tuple[str, int, int]:
    header = chunk.headers[index]
    return (*file_order(chunk.names[header["file"]]), int(header["end_offset"]))
