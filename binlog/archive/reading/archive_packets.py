"""Archive packets: the events of a history from a position on, as its source sends them in a dump.

It is a source of packets, see `canal_group.binlog.server.dump.packet_source`: before each file come a
ROTATE that names it and its format description. What follows the open file is waited for, or ends the
stream.
"""

from __future__ import annotations

import struct
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Sequence
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
    header_of,
)
from canal_group.binlog.formats.format_description import parse_format_description
from canal_group.binlog.native.file_events import FileBuffer
from canal_group.merge.errors import CorruptEvent, SourceUnavailable, UnsupportedEvent
from canal_group.merge.values.position import Position

#: how often a reader that follows looks for more, seconds: at first, and then half as often each time, down
#: to the last
_FIRST_LOOK_S: Final = 0.005
LOOK_EVERY_S: Final = 0.05
#: looks for more of a file between two at the manifest
_LOOKS_PER_REFRESH: Final = 10
_HEADER: Final = struct.Struct("<IBIIIH")
_SIZE_END: Final = 13


def _ends(_at_rest: bool, _waited_s: float) -> bool:
    """Return False: nothing comes at the end."""
    return False


class ArchivePackets:
    """Reads a history. Used by one thread, except `interrupt`.

    Args:
        history: what is read; it must have the file of `begin`.
        begin: where the events begin, see `canal_group.binlog.archive.reading.lookup`: one begins there.
        follow: asked at the end whether to wait for more; else the stream ends there. It gets whether
            everything before was read and handed over, and how long nothing has come, seconds.
        start: where the stream begins, at the events or after them; None: there.
        named: whether only the first event says which file and offset the events begin at.

    Raises:
        PositionPurged, SourceUnfit, CorruptEvent: see `History.open`.
    """

    #: of the ROTATE that comes first
    checksum = CHECKSUM_NONE

    def __init__(
        self,
        history: History,
        begin: Position,
        *,
        follow: Callable[[bool, float], bool] = _ends,
        start: Position | None = None,
        named: bool = False,
    ) -> None:
        self.history, self._follow = history, follow
        #: where the stream begins
        self.start = begin if start is None else start
        #: file and offset of the first event
        self.file_offset = ("", len(MAGIC)) if named else (begin.file, begin.offset)
        #: what was read; the usual events are taken in place
        self.buffer = FileBuffer()
        #: bytes of the files that were read
        self.read_bytes = 0
        self._interrupted = threading.Event()
        #: events to return before the events in `buffer`
        self._first: deque[bytes] = deque()
        #: of the events of the file that is read, and when that was created, seconds since 1970
        self.file_checksum = CHECKSUM_NONE
        self.created_s = 0
        self._file = begin.file
        self._looks = 0
        #: whether everything that was read is handed over
        self._at_rest = False
        self._source = self._opened(begin.file, begin.offset)
        self._at = begin.offset

    @property
    def file(self) -> str:
        """The file that is being read."""
        return self._file

    @property
    def has_more(self) -> bool:
        """Whether the archive holds bytes that were not read yet."""
        return self._at < self._source.size or bool(self._later())

    @property
    def read_to(self) -> tuple[str, int]:
        """File and offset of the end of the last event that was taken."""
        return self._file, self._at - len(self.buffer)

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
                f"{self.history.name}/{self._file} is damaged: there cannot be {error}.",
                hint="Run `canal-group archive verify`.",
                file=f"{self.history.name}/{self._file}",
            ) from error

    def readable(self, wait_s: float) -> bool:
        """Return whether there is more to read now; wait for that, seconds."""
        if self._first or self._interrupted.is_set() or self.has_more:
            return True
        return wait_s > 0 and (self._interrupted.wait(min(wait_s, LOOK_EVERY_S)) or self.has_more)

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
        at_rest, self._at_rest = self._at_rest, False
        began_s, look_s = time.monotonic(), _FIRST_LOOK_S
        while not self._interrupted.is_set():
            with memoryview(self.buffer) as room:
                data = self._source.read_at(self._at, room.nbytes)
                room[: len(data)] = data
            if data:
                self.buffer.received(len(data))
                self.read_bytes += len(data)
                self._at += len(data)
                return
            if self._goes_on(self._later()):
                return
            if not self._follow(at_rest, time.monotonic() - began_s):
                raise SourceUnavailable(
                    f"The archive of {self.history.name} ends at {self._file}:{self._at:,}."
                )
            self._interrupted.wait(look_s)
            look_s = min(2 * look_s, LOOK_EVERY_S)
        raise SourceUnavailable("The reading of the archive was interrupted.")

    def note_empty(self) -> None:
        """Note that what was read is handed over; it says nothing of the source."""
        self._at_rest = True

    def idle_us(self, event: bytes, reached: object) -> None:  # noqa: ARG002 - others need them
        """Return None: an archive proves nothing of when its source was idle."""
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
        source = self.history.open(file)
        try:
            description = self._description(source)
            self._first.append(self._rotate(file, offset))
            self.file_checksum = parse_format_description(description).checksum
            self.created_s = header_of(description).timestamp
            if offset != len(MAGIC):
                self._first.append(description)
        except BaseException:
            source.close()
            raise
        return source

    def _description(self, source: Readable) -> bytes:
        """Return a file's format description.

        Raises:
            SourceUnavailable: it was not written yet.
        """
        at = len(MAGIC)
        head = source.read_at(at, HEADER_SIZE)
        size = int.from_bytes(head[_SIZE_END - 4 : _SIZE_END], "little")
        event = head
        while len(event) < size and (more := source.read_at(at + len(event), size - len(event))):
            event += more
        if len(event) < max(size, HEADER_SIZE):
            raise SourceUnavailable(f"A file of the archive of {self.history.name} has just been begun.")
        return event

    def _rotate(self, file: str, offset: int) -> bytes:
        body = struct.pack("<Q", offset) + file.encode()
        size = HEADER_SIZE + len(body) + (CHECKSUM_SIZE if self.file_checksum == CHECKSUM_CRC32 else 0)
        event = _HEADER.pack(0, EventType.ROTATE, 0, size, 0, ARTIFICIAL_FLAG) + body
        return event + struct.pack("<I", zlib.crc32(event)) if self.file_checksum == CHECKSUM_CRC32 else event

    def _make_room(self) -> None:
        try:
            self.buffer.make_room()
        except OverflowError as error:
            raise UnsupportedEvent(f"An event in {self._file} is larger than 1 GiB.") from error

    def _later(self) -> str:
        """Return the closed file after the present file; empty: no file is closed after this file yet."""
        files = self.history.manifest.files
        names = [each.name for each in files]
        self._looks += 1
        if self._file == names[-1] and not (self._looks - 1) % _LOOKS_PER_REFRESH:
            self.history.refresh()
            files = self.history.manifest.files
            names = [each.name for each in files]
        index = names.index(self._file) if self._file in names else -1
        if not 0 <= index < len(files) - 1 or files[index].state is State.OPEN:
            return ""
        # The file may have grown between the last read and its close.
        return "" if self._at < files[index].size else names[index + 1]

    def _goes_on(self, file: str) -> bool:
        """Read the next file; return False if there is none, or it has just been begun."""
        if not file:
            return False
        if len(self.buffer):
            raise CorruptEvent(
                f"{self.history.name}/{self._file} ends inside an event.",
                hint="Run `canal-group archive verify`.",
                file=f"{self.history.name}/{self._file}",
            )
        try:
            source = self._opened(file, len(MAGIC))
        except SourceUnavailable:
            return False
        self._source.close()
        self._file, self._at, self._source = file, len(MAGIC), source
        return True
