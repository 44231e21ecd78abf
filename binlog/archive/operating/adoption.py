"""Adoption: takes binlog files over that a server or `mysqlbinlog --raw` has written.

They begin a history, follow the newest one, or replace what is damaged in it. A file that the archive has is
compared with it. Each event is checked as if the server sent it.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from canal_group.binlog.archive.archive import Archive
from canal_group.binlog.archive.disk import OpenFile
from canal_group.binlog.archive.file_scan import EVENT_BYTES_MAX
from canal_group.binlog.archive.history import History
from canal_group.binlog.archive.manifest import FileEntry, State
from canal_group.binlog.archive.recovery import Say
from canal_group.binlog.archive.upkeep import Upkeep
from canal_group.binlog.archive.writer import ArchiveWriter
from canal_group.binlog.formats.events import HEADER_SIZE, IN_USE_FLAG, MAGIC, header_of
from canal_group.merge.errors import CorruptEvent, SourceUnfit, UsageError
from canal_group.merge.values.resets.reset import created_again

_READ_BYTES: Final = 1 << 20
#: a file is made durable when it ends: until then, it can be taken over again
_SYNC_S: Final = 3600.0
_FLAGS_AT: Final = len(MAGIC) + HEADER_SIZE - 2


class Adoption:
    """Takes files over. The caller holds the lock of the server. Used by one thread.

    Args:
        archive: where to.
        server: identity of the server that wrote the files.
        say: takes what a recovery of the archive has done.
    """

    def __init__(self, archive: Archive, server: str, say: Say) -> None:
        self._archive, self._server, self._say = archive, server, say
        self._writer = ArchiveWriter(archive, server, sync_s=_SYNC_S, say=say)

    def run(self, files: Sequence[Path]) -> Iterator[str]:
        """Take files over, and yield a sentence on each.

        Args:
            files: in the order in which they were written; the last one may be one that the server writes.

        Raises:
            CorruptEvent, UnsupportedEvent: a file cannot be what a server wrote; what is whole before is
                kept.
            UsageError: a file is not the one that the archive has under its name and creation time.
            SourceUnfit: a file cannot be read.
            RetryableError: the disk takes no more.
        """
        try:
            for file in files:
                try:
                    stored = self._archive.disk.open(file)
                except OSError as error:
                    raise SourceUnfit(f"{file} cannot be read: {error.strerror}.", file=str(file)) from error
                with contextlib.closing(_AsSent(stored)) as copy:
                    yield f"{file.name}: {self._adopted(file.name, copy, last=file == files[-1])}"
                while self._writer.upkeep is not None and self._writer.upkeep.pack(1):
                    pass
        finally:
            self._writer.close()

    def _adopted(self, name: str, copy: _AsSent, *, last: bool) -> str:
        """Take one file over; return its fate as a part of a sentence."""
        head = copy.read_at(0, len(MAGIC) + HEADER_SIZE)
        if head[: len(MAGIC)] != MAGIC or len(head) < len(MAGIC) + HEADER_SIZE:
            raise CorruptEvent(
                f"{name} is not a binlog.", hint="Name binlog files, in their order.", file=name
            )
        found = self._found(name, header_of(head[len(MAGIC) :]).timestamp)
        at = len(MAGIC)
        if found is None:
            if not self._writer.may_follow(name):
                self._writer.close()
                self._writer = ArchiveWriter(
                    self._archive, self._server, sync_s=_SYNC_S, say=self._say, anew=True
                )
            self._writer.expect(name)
        else:
            history, entry = found
            if entry.state is not State.OPEN:
                return _compared(self._archive, history, entry, copy)
            if self._writer.history is None or history.folder != self._writer.history.folder:
                raise UsageError(
                    f"{name} is not ended in {history.name}, which another history has followed."
                )
            at = _after_begun(history, entry, self._writer, copy)
        left = self._append(name, copy, at)
        if left and not last:
            raise CorruptEvent(
                f"{name} ends inside an event, and another file follows.",
                hint="Copy the file from its server again.",
                file=name,
            )
        taken = f"taken over, {copy.size - left:,} bytes"
        return f"{taken}; the last {left:,} bytes are not a whole event" if left else taken

    def _append(self, name: str, copy: _AsSent, at: int) -> int:
        """Take the events from an offset on; return the bytes after the last whole one."""
        held = bytearray()
        while data := copy.read_at(at, max(_READ_BYTES, len(held))):
            at += len(data)
            held += data
            size = _whole(held)
            if size < 0:
                raise CorruptEvent(
                    f"{name} has an event of an impossible size before {at:,}.",
                    hint="Copy the file from its server again.",
                    file=name,
                )
            with memoryview(held) as view, view[:size] as events:
                self._writer.append(events, 0.0)
            del held[:size]
        return len(held)

    def _found(self, name: str, created_s: int) -> tuple[History, FileEntry] | None:
        writes = self._writer.history
        for each in self._archive.histories(self._server):
            history = writes if writes is not None and each.folder == writes.folder else each
            entry = history.manifest.entry(name)
            if entry is not None and not created_again(entry.created_s, created_s):
                return history, entry
        return None


def _whole(events: bytearray) -> int:
    """Return how many bytes whole events at the beginning have; -1: one has an impossible size."""
    at = 0
    while at + HEADER_SIZE <= len(events):
        size = int.from_bytes(events[at + 9 : at + 13], "little")
        if not HEADER_SIZE <= size <= EVENT_BYTES_MAX:
            return -1
        if at + size > len(events):
            break
        at += size
    return at


def _compared(archive: Archive, history: History, entry: FileEntry, copy: _AsSent) -> str:
    """Compare a file with one that is closed in the archive; replace that if it is damaged."""
    sha256, at = hashlib.sha256(), 0
    while data := copy.read_at(at, _READ_BYTES):
        sha256.update(data)
        at += len(data)
    if sha256.hexdigest() != entry.sha256:
        raise UsageError(
            f"{entry.name} is not the file that the archive has under this name and creation time: SHA-256 "
            f"{sha256.hexdigest()} and {entry.sha256}.",
            hint="The copy is cut or damaged, or of another server.",
            file=entry.name,
        )
    try:
        whole = entry.state is not State.QUARANTINED and history.scan(entry).sha256 == entry.sha256
    except CorruptEvent:
        whole = False
    if whole:
        return "the archive has it"
    aside = Upkeep(archive, history).repair(entry.name, copy)
    return f"it replaces the damaged one, which is {aside.name} now"


def _after_begun(history: History, entry: FileEntry, writer: ArchiveWriter, copy: _AsSent) -> int:
    """Compare a file with what the archive has begun of it; return the offset after that."""
    position, at = writer.position, 0
    assert position is not None, "the file is open"
    with contextlib.closing(history.open(entry.name)) as source:
        while at < position.offset:
            data = source.read_at(at, min(_READ_BYTES, position.offset - at))
            if copy.read_at(at, len(data)) != data:
                raise UsageError(f"{entry.name} is not the file that the archive has begun, from {at:,} on.")
            at += len(data)
    return at


class _AsSent:
    """A file as its server sends it: not marked as in use."""

    def __init__(self, file: OpenFile) -> None:
        self._file = file

    @property
    def size(self) -> int:
        return self._file.size

    def read_at(self, offset: int, size: int) -> bytes:
        data = self._file.read_at(offset, size)
        index = _FLAGS_AT - offset
        if 0 <= index < len(data):
            data = data[:index] + bytes([data[index] & ~IN_USE_FLAG & 0xFF]) + data[index + 1 :]
        return data

    def close(self) -> None:
        self._file.close()
