"""Open binlog: the file of a history that is written, with what is known of its events."""

from __future__ import annotations

import contextlib
import zlib
from typing import Protocol

from canal_group.binlog.archive.disk import FileLayer, OpenFile, replace_whole
from canal_group.binlog.archive.file_scan import FileScan
from canal_group.binlog.archive.forms.blocks import BlocksFile
from canal_group.binlog.archive.forms.key import Key
from canal_group.binlog.archive.forms.readable import Readable
from canal_group.binlog.archive.history import History
from canal_group.binlog.archive.manifest import FileEntry, Form, State
from canal_group.binlog.archive.points import points_bytes
from canal_group.binlog.formats.events import MAGIC, header_of
from canal_group.merge.errors import DataError
from canal_group.merge.values.gtids.gtid import GtidSet


class WrittenFile(Readable, Protocol):
    """The bytes of the open file, in any form."""

    def append(self, data: bytes | memoryview) -> None:
        """Write bytes after the end."""

    def truncate(self, size: int) -> None:
        """Cut it."""

    def sync(self) -> None:
        """Make its content durable."""


def form_to_write(stored: OpenFile, entry: FileEntry, key: Key | None) -> WrittenFile:
    """Return the binlog's bytes of an open file, to read and to append to."""
    if entry.form is Form.PLAIN:
        return stored
    assert key is not None, "blocks are encrypted"
    return BlocksFile(stored, key, f"{entry.name}/{entry.created_s}")


class OpenBinlog:
    """Takes the events of the last file of a history. All of it raises OSError if the disk fails.

    Args:
        history: whose last file it is.
        scan: has read all of the file.
        file: its bytes.
    """

    def __init__(self, history: History, scan: FileScan, file: WrittenFile) -> None:
        self._history, self.scan, self._file = history, scan, file

    @classmethod
    def begun(
        cls, disk: FileLayer, history: History, name: str, description: bytes, gtids: GtidSet, key: Key | None
    ) -> OpenBinlog:
        """Return a new file without events: it is named in the manifest, and then made.

        Args:
            disk: where it is.
            history: it becomes the last file of that.
            name: its name at the server.
            description: its format description, the first event that it will have.
            gtids: the transactions before it, as far as they are known.
            key: encrypts it; None: nothing does.
        """
        entry = FileEntry(
            name=name,
            created_s=header_of(description).timestamp,
            description=zlib.crc32(description),
            state=State.OPEN,
            form=Form.PLAIN if key is None else Form.BLOCKS,
            size=0,
            gtids_before=str(gtids),
            gtids=str(gtids),
            key=key.id if key else "",
        )
        history.put(entry)
        file = form_to_write(disk.create(history.path(entry)), entry, key)
        file.append(MAGIC)
        disk.sync_folder(history.folder)
        return cls(history, FileScan(name, history.name, gtids, sent=True), file)

    @property
    def entry(self) -> FileEntry:
        """The file in the manifest."""
        entry = self._history.manifest.last
        assert entry is not None, "the open file is the last one"
        return entry

    def take(self, view: memoryview) -> int:
        """Write the events that are in the file, up to one that is not; return their bytes.

        Raises:
            CorruptEvent, UnsupportedEvent: an event is refused; those before it are written.
        """
        before = self.scan.offset
        try:
            size = self.scan.feed(view)
        except DataError:
            self._file.append(view[: self.scan.offset - before])
            raise
        self._file.append(view[:size])
        return size

    def sync(self) -> None:
        """Make all of it durable."""
        self._file.sync()

    def mark(self, disk: FileLayer) -> None:
        """Write the index, and say in the manifest how much of the file is durable, after `sync`."""
        self._write_index(disk, self.scan.whole_end)
        self._history.put(self._described(State.OPEN, self.scan.whole_end))

    def end(self, disk: FileLayer) -> None:
        """Close the file for good, after `sync`: nothing more comes."""
        self._write_index(disk, self.scan.offset)
        self._history.put(self._described(State.CLOSED, self.scan.offset))
        self._file.close()

    def cut(self, size: int) -> None:
        """Cut the file, as far as possible, and close it."""
        with contextlib.suppress(OSError):
            self._file.truncate(size)
        self.close()

    def close(self) -> None:
        """Close the file; more may come later."""
        with contextlib.suppress(OSError):
            self._file.close()

    def _write_index(self, disk: FileLayer, size: int) -> None:
        index = self._history.index_path(self.entry)
        replace_whole(disk, index, points_bytes(self.scan.points, size))

    def _described(self, state: State, size: int) -> FileEntry:
        scan, entry = self.scan, self.entry
        first_us, latest_us = scan.times_us
        closed = state is State.CLOSED
        return FileEntry(
            name=entry.name,
            created_s=scan.created_s,
            description=entry.description,
            state=state,
            form=entry.form,
            size=size,
            stored=self._stored() if closed else size,
            gtids_before=str(scan.gtids_before),
            gtids=str(scan.gtids()),
            first_us=first_us,
            latest_us=latest_us,
            sha256=scan.sha256 if closed else "",
            key=entry.key,
        )

    def _stored(self) -> int:
        file = self._file
        return file.stored_size if isinstance(file, BlocksFile) else file.size
