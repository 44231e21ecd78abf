"""Binlog file: a named file of events that can be opened, as a `Path` can; an archive has others."""

from __future__ import annotations

import io
from typing import Literal, Protocol


class BinlogFile(Protocol):
    """A binlog or relay log, without its folder."""

    @property
    def name(self) -> str:
        """Its name, such as mysql-bin.000001."""

    def open(self, mode: Literal["rb"], buffering: Literal[0]) -> io.RawIOBase:
        """Open it to read, without a buffer.

        Raises:
            OSError: it cannot be opened.
        """


def buffered(file: BinlogFile) -> io.BufferedReader:
    """Open a file to read, with a buffer."""
    return io.BufferedReader(file.open("rb", 0))


def size_of(file: BinlogFile) -> int:
    """Return the length of a file, bytes."""
    with file.open("rb", 0) as opened:
        return opened.seek(0, io.SEEK_END)
