"""Archive packets: the events of a history from a position on, as its source sends them in a dump.

It is a source of packets, see `canal_group.binlog.server.dump.packet_source`: before each file come a
ROTATE that names it and its format description. What follows the open file is waited for, or ends the
stream.
"""

from __future__ import annotations

import struct
import threading
import zlib
from collections import deque
from collections.abc import Sequence
from typing import Final

from canal_group.binlog.archive.forms.readable import Readable
from canal_group.binlog.archive.history import History
from canal_group.binlog.archive.manifest import State
from canal_group.binlog.formats.event_types import EventType
from canal_group.binlog.formats.events import (
    ARTIFICIAL_FLAG,
    CHECKSUM_CRC32,
    CHECKSUM_NONE,
    CHECKSUM_SIZE,
    HEADER_SIZE,
    MAGIC,
)
from canal_group.binlog.formats.format_description import parse_format_description
from canal_group.binlog.native.file_events import FileBuffer
from canal_group.merge.errors import CorruptEvent, SourceUnavailable, UnsupportedEvent
from canal_group.merge.values.position import Position

#: interval at which a reader that follows looks for more, seconds
LOOK_EVERY_S: Final = 0.05
#: looks for more of a file between two at the manifest
_LOOKS_PER_REFRESH: Final = 10
_HEADER: Final = struct.Struct("<IBIIIH")
_SIZE_END: Final = 13


class ArchivePackets:
    """Reads a history. Used by one thread, except `interrupt`.

    Args:
        history: what is read; it must have the file of `start`.
        start: where the stream begins, see `canal_group.binlog.archive.reading.lookup`: an event begins
            there.
        follow: whether to wait for more at the end; else the stream ends there.

    Raises:
        PositionPurged, SourceUnfit, CorruptEvent: see `History.open`.
    """

    #: of the ROTATE that comes first
    checksum = CHECKSUM_NONE

    def __init__(self, history: History, start: Position, *, follow: bool) -> None:
        self._history, self._follow = history, follow
        #: where the stream begins
        self.start = start
        #: file and offset of the first event
        self.file_offset = start.file, start.offset
        #: what was read; the usual events are taken in place
        self.buffer = FileBuffer()
        #: bytes of the files that were read
        self.read_bytes = 0
        self._interrupted = threading.Event()
        #: events that come before what the buffer has
        self._first: deque[bytes] = deque()
        self._checksum = CHECKSUM_NONE
        self._file = start.file
        self._looks = 0
        self._source = self._opened(start.file, start.offset)
        self._at = start.offset

    @property
    def file(self) -> str:
        """The file that is being read."""
        return self._file

    def take(self) -> bytes | None:
        """Return the next event; None: it was not read yet.

        Raises:
            CorruptEvent: its header has an impossible size.
        """
        if self._first:
            return self._first.popleft()
        try:
            return self.buffer.take()
        except ValueError as error:
            raise CorruptEvent(
                f"{self._history.name}/{self._file} is damaged: there cannot be {error}.",
                hint="Run `canal-group archive verify`.",
                file=self._file,
            ) from error

    def readable(self, wait_s: float) -> bool:
        """Return whether there is more to read now; wait for that, seconds."""
        if self._first or self._interrupted.is_set() or self._more():
            return True
        return wait_s > 0 and (self._interrupted.wait(min(wait_s, LOOK_EVERY_S)) or self._more())

    def let_arrive(self, wait_s: float) -> None:
        """Wait for all of a time, seconds, or until an interrupt."""
        self._interrupted.wait(wait_s)

    def fill(self) -> None:
        """Read more, or go on with the next file; wait at the end of the last one.

        Raises:
            SourceUnavailable: the stream has ended, or was interrupted.
            PositionPurged, SourceUnfit, CorruptEvent: the next bytes cannot be read.
            UnsupportedEvent: an event is too large.
        """
        if self._first:
            return
        self._make_room()
        while not self._interrupted.is_set():
            with memoryview(self.buffer) as room:
                data = self._source.read_at(self._at, room.nbytes)
                room[: len(data)] = data
            if data:
                self.buffer.received(len(data))
                self.read_bytes += len(data)
                self._at += len(data)
                return
            later = self._later()
            if later:
                self._go_on(later)
                return
            if not self._follow:
                raise SourceUnavailable(f"The archive of {self._history.name} ends in {self._file}.")
            self._interrupted.wait(LOOK_EVERY_S)
        raise SourceUnavailable("The reading of the archive was interrupted.")

    def note_empty(self) -> None:
        """Do nothing: an archive does not say what its source has."""

    def idle_us(self, event: bytes, reached: object) -> None:  # noqa: ARG002 - others need them
        """Return None: likewise."""
        return

    def ahead(self, opening: Sequence[bytes]) -> None:  # noqa: ARG002 - others need it
        """Return None: the archive can be read twice."""
        return

    def interrupt(self) -> None:
        """End the stream, from any thread."""
        self._interrupted.set()

    def close(self) -> None:
        """Close the file."""
        self._source.close()

    def _opened(self, file: str, offset: int) -> Readable:
        """Return a file's bytes; what a source sends before its events comes first."""
        source = self._history.open(file)
        try:
            self._first.append(self._rotate(file, offset))
            description = self._description(source)
            self._checksum = parse_format_description(description).checksum
            if offset != len(MAGIC):
                self._first.append(description)
        except BaseException:
            source.close()
            raise
        return source

    def _description(self, source: Readable) -> bytes:
        """Return a file's format description."""
        at = len(MAGIC)
        head = source.read_at(at, HEADER_SIZE)
        size = int.from_bytes(head[_SIZE_END - 4 : _SIZE_END], "little")
        event = head
        while len(event) < size and (more := source.read_at(at + len(event), size - len(event))):
            event += more
        return event

    def _rotate(self, file: str, offset: int) -> bytes:
        """Return the ROTATE that a source sends before a file."""
        body = struct.pack("<Q", offset) + file.encode()
        size = HEADER_SIZE + len(body) + (CHECKSUM_SIZE if self._checksum == CHECKSUM_CRC32 else 0)
        event = _HEADER.pack(0, EventType.ROTATE, 0, size, 0, ARTIFICIAL_FLAG) + body
        return event + struct.pack("<I", zlib.crc32(event)) if self._checksum == CHECKSUM_CRC32 else event

    def _make_room(self) -> None:
        try:
            self.buffer.make_room()
        except OverflowError as error:
            raise UnsupportedEvent(f"An event in {self._file} is larger than 1 GiB.") from error

    def _more(self) -> bool:
        return self._at < self._source.size or bool(self._later())

    def _later(self) -> str:
        """Return the file after the one that is read, which must be closed; empty: there is none yet."""
        files = self._history.manifest.files
        names = [each.name for each in files]
        self._looks += 1
        if self._file == names[-1] and not (self._looks - 1) % _LOOKS_PER_REFRESH:
            self._history.refresh()
            files = self._history.manifest.files
            names = [each.name for each in files]
        index = names.index(self._file) if self._file in names else -1
        if not 0 <= index < len(files) - 1 or files[index].state is State.OPEN:
            return ""
        # It may have grown before it was closed.
        return "" if self._at < files[index].size else names[index + 1]

    def _go_on(self, file: str) -> None:
        """Read the next file."""
        if len(self.buffer):
            raise CorruptEvent(
                f"{self._history.name}/{self._file} ends inside an event.",
                hint="Run `canal-group archive verify`.",
                file=self._file,
            )
        self._source.close()
        self._file, self._at = file, len(MAGIC)
        self._source = self._opened(file, len(MAGIC))
