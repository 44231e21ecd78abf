"""Upkeep: what happens to closed files: they are compressed, moved to a store, removed, repaired.

Each step is durable before the next one, and the manifest changes between them: a crash leaves the old form
    or the new one, and at most a file that a recovery removes.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from canal_group.binlog.archive.archive import Archive
from canal_group.binlog.archive.disk import OpenFile, aside, create_anew, disk_errors
from canal_group.binlog.archive.forms.frames import FRAME_BYTES, FrameCodec, frames_of
from canal_group.binlog.archive.forms.readable import Readable, damaged_bytes
from canal_group.binlog.archive.history import History
from canal_group.binlog.archive.manifest import FileEntry, Form, State
from canal_group.binlog.archive.open_binlog import form_to_write
from canal_group.merge.errors import CanalGroupError, CorruptEvent, RetryableError, UsageError

#: forms that wait to be compressed
AS_WRITTEN: Final = (Form.PLAIN, Form.BLOCKS)


class Upkeep:
    """Keeps the closed files of one history; the caller holds the lock of its server. Used by one thread.

    All of it raises RetryableError if the disk fails; it can be called again.

    Args:
        archive: whose keys and store are used.
        history: whose files these are.
    """

    def __init__(self, archive: Archive, history: History) -> None:
        self._archive = archive
        self._disk, self._keys, self._store = archive.disk, archive.keys, archive.store
        self.history = history
        self._packing: Iterator[FileEntry | None] | None = None

    @property
    def unpacked(self) -> FileEntry | None:
        """The oldest closed file that is not compressed; None: all are."""
        closed = (each for each in self.history.manifest.files if each.state is State.CLOSED)
        return next((each for each in closed if each.form in AS_WRITTEN), None)

    def pack(self, frames: int) -> bool:
        """Compress a part of the closed files, and return whether there is more to do.

        Args:
            frames: at most so many MiB.

        Raises:
            CorruptEvent: a file is not what was written: it is quarantined.
        """
        entry = self.unpacked
        if self._packing is None:
            if entry is None:
                return False
            self._packing = self._packed(entry)
        for _ in range(frames):
            try:
                with disk_errors(self.history.folder):
                    packed = next(self._packing, None)
            except BaseException:
                self._packing = None
                raise
            if packed is not None:
                self._packing = None
                break
        return self._packing is not None or self.unpacked is not None

    def move(self, name: str, epoch: int) -> None:
        """Move a compressed file to the store: upload, then manifest, then remove it here; see `upload`."""
        self.moved(name, self.upload(name, epoch))

    def upload(self, name: str, epoch: int) -> str:
        """Copy a compressed file to the store, and return its name there; any thread may do that.

        Args:
            name: its name at the server.
            epoch: that of the writer, which the stored name carries: who was fenced overwrites nothing.

        Raises:
            UsageError: it is not closed and compressed, there is no store, or that has another file of the
                name.
            RetryableError: the store does not answer.
        """
        entry = self._closed(name)
        if entry.form in AS_WRITTEN or self._store is None:
            why = "there is no object store" if self._store is None else "it is not compressed yet"
            raise UsageError(f"{self.history.where(entry)} cannot be moved: {why}.")
        remote = entry.remote_name(self.history.name, epoch)
        self._store.put(remote, self.history.path(entry))
        return remote

    def moved(self, name: str, remote: str) -> None:
        """Note in the manifest that a file is in the store, and remove it here.

        Args:
            name: its name at the server.
            remote: what `upload` has returned.

        Raises:
            UsageError: it is no longer here.
        """
        entry = self._closed(name)
        with disk_errors(self.history.folder):
            self.history.put(replace(entry, state=State.MOVED, remote=remote))
            self._disk.remove(self.history.path(entry))
            self._disk.sync_folder(self.history.folder)

    def prune(self, name: str) -> str:
        """Remove the oldest file of the history, and what an earlier call has left; see `finish_pruning`.

        Raises:
            UsageError: it is not the oldest one, or the newest one of its server.
        """
        with disk_errors(self.history.folder):
            self.finish_pruning()
            entry = self.history.manifest.entry(name)
            files = [each for each in self.history.manifest.files if each.state is not State.PRUNED]
            newest = self._archive.newest(self.history.manifest.server)
            last = len(files) == 1 and newest is not None and newest.folder == self.history.folder
            if entry is None or files[:1] != [entry] or last:
                which = "the newest file of its server" if last else "not the oldest file"
                raise UsageError(f"{name} is {which} in {self.history.name}.")
            self.history.put(replace(entry, state=State.PRUNED))
            return self.finish_pruning()

    def finish_pruning(self) -> str:
        """Remove the files that are marked as pruned, which a crash may have left.

        One that is in a store stays marked until there is that store, and it answers: the archive does not
        wait for that. Return why it does not answer; empty: it does.
        """
        why = ""
        for entry in self.history.manifest.files:
            if entry.state is State.PRUNED and (self._store is not None or not entry.remote):
                try:
                    self._remove_pruned(entry)
                except RetryableError as error:
                    why = f"{self.history.where(entry)} is no longer used, and stays in the store: {error}"
        return why

    def _remove_pruned(self, entry: FileEntry) -> None:
        """Remove the bytes of a file that is marked as pruned, and its name."""
        if entry.remote and self._store is not None:
            self._store.remove(entry.remote)
        for path in (self.history.path(entry), self.history.index_path(entry)):
            with contextlib.suppress(FileNotFoundError):
                self._disk.remove(path)
        self._disk.sync_folder(self.history.folder)
        self.history.forget(entry.name)

    def quarantine(self, name: str, begin: int, end: int) -> None:
        """Note that bytes of a closed file are damaged."""
        entry = self.history.manifest.entry(name)
        assert entry is not None, "the file is named"
        ranges = tuple(sorted({*entry.damaged, (begin, end)}))
        with disk_errors(self.history.folder):
            self.history.put(replace(entry, state=State.QUARANTINED, damaged=ranges))

    def repair(self, name: str, source: Readable) -> Path:
        """Replace a damaged file by a copy that is whole; return where the damaged one is.

        Args:
            name: of a file that was closed.
            source: the copy's bytes.

        Raises:
            UsageError: the copy is not the file that was written; nothing was changed.
        """
        return self.repaired(self.copy(name, source))

    def copy(self, name: str, source: Readable) -> FileEntry:
        """Write a copy of a damaged file beside it; return its entry for `repaired`. Any thread may do that.

        Args:
            name: of a file that was closed.
            source: the copy's bytes; they are read once from the beginning on.

        Raises:
            UsageError: the copy is not the file that was written.
        """
        with disk_errors(self.history.folder):
            return self._copy(name, source)

    def _copy(self, name: str, source: Readable) -> FileEntry:
        entry = self.history.manifest.entry(name)
        assert entry is not None and entry.sha256, "the file was closed"  # noqa: PT018
        key = self._keys.first
        made = replace(
            entry,
            state=State.CLOSED,
            form=Form.PLAIN if key is None else Form.BLOCKS,
            damaged=(),
            remote="",
            key=key.id if key else "",
        )
        temporary = self._temporary(made)
        with contextlib.closing(create_anew(self._disk, temporary)) as stored:
            try:
                if not self._copied(source, stored, made):
                    raise UsageError(
                        f"The copy of {name} is not the file that the archive had: its SHA-256 is another "
                        "one.",
                        hint=f"Expected {entry.size:,} bytes with {entry.sha256}.",
                    )
            except (CanalGroupError, OSError):
                self._disk.remove(temporary)
                raise
            return replace(made, stored=stored.size)

    def repaired(self, made: FileEntry) -> Path:
        """Put a copy in the place of a damaged file; return where the damaged one is.

        Args:
            made: what `copy` has returned.
        """
        entry = self.history.manifest.entry(made.name)
        assert entry is not None, "the file is named"
        folder = self.history.folder
        with disk_errors(folder):
            damaged = aside(self._disk, self.history.path(entry), "quarantined")
            there = entry.stored_name in self._disk.names(folder)
            # A reader finds either of both forms until the manifest says which one holds.
            first = there and entry.stored_name == made.stored_name
            if first:
                self._disk.rename(self.history.path(entry), damaged)
            self._disk.rename(self._temporary(made), self.history.path(made))
            self._disk.sync_folder(folder)
            self.history.put(made)
            if there and not first:
                self._disk.rename(self.history.path(entry), damaged)
                self._disk.sync_folder(folder)
        return Path(entry.remote) if entry.remote else damaged

    def drop(self, made: FileEntry) -> None:
        """Remove a copy that is not needed, see `copy`."""
        with disk_errors(self.history.folder):
            self._disk.remove(self._temporary(made))

    def _temporary(self, made: FileEntry) -> Path:
        return self.history.path(made, ".tmp")

    def _copied(self, source: Readable, stored: OpenFile, entry: FileEntry) -> bool:
        """Write a copy of a file; return whether it is that file."""
        key = self._keys.by_id(entry.key, entry.name) if entry.key else None
        file, sha256, at = form_to_write(stored, entry, key), hashlib.sha256(), 0
        while data := source.read_at(at, FRAME_BYTES):
            sha256.update(data)
            file.append(data)
            at += len(data)
        file.sync()
        return (at, sha256.hexdigest()) == (entry.size, entry.sha256)

    def _packed(self, entry: FileEntry) -> Iterator[FileEntry | None]:
        """Compress a file; yield None after each frame, and its entry at the end."""
        folder, key = self.history.folder, self._keys.first
        form = Form.ZSTD if key is None else Form.SEALED
        packed = replace(entry, form=form, key=key.id if key else "")
        temporary = self.history.path(packed, ".tmp")
        source = _Hashed(self.history.open(entry.name))
        with contextlib.closing(source), contextlib.closing(create_anew(self._disk, temporary)) as made:
            try:
                for part in frames_of(source, FrameCodec(f"{entry.name}/{entry.created_s}", key)):
                    made.append(part)
                    yield None
                if source.sha256 != entry.sha256:
                    why = "they are not those that were written"
                    raise damaged_bytes(self.history.where(entry), 0, entry.size, why)
            except CorruptEvent:
                self.quarantine(entry.name, 0, entry.size)
                raise
            made.sync()
            size = made.size
        self._disk.rename(temporary, self.history.path(packed))
        self._disk.sync_folder(folder)
        self.history.put(replace(packed, stored=size))
        self._disk.remove(self.history.path(entry))
        yield packed

    def _closed(self, name: str) -> FileEntry:
        entry = self.history.manifest.entry(name)
        if entry is None or entry.state is not State.CLOSED:
            raise UsageError(f"{name} is not a closed file of {self.history.name}.")
        return entry


class _Hashed:
    """Bytes that are read once from the beginning on, and hashed meanwhile."""

    def __init__(self, source: Readable) -> None:
        self._source, self._sha256 = source, hashlib.sha256()
        self.size = source.size

    @property
    def sha256(self) -> str:
        return self._sha256.hexdigest()

    def read_at(self, offset: int, size: int) -> bytes:
        data = self._source.read_at(offset, size)
        self._sha256.update(data)
        return data

    def close(self) -> None:
        self._source.close()
