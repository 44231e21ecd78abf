"""Archive upkeep: a server's closed files are compressed, moved and removed while it is written.

A step compresses one MiB, so that what arrives does not wait. Uploads have a thread of their own.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from canal_group.binlog.archive.archive import Archive
from canal_group.binlog.archive.history import History
from canal_group.binlog.archive.manifest import FileEntry, State
from canal_group.binlog.archive.moved_history import moved_files, publish
from canal_group.binlog.archive.operating.retention import (
    ArchivedHistory,
    Limits,
    Removal,
    removals,
)
from canal_group.binlog.archive.options import ArchiveOptions
from canal_group.binlog.archive.upkeep import AS_WRITTEN, Upkeep
from canal_group.binlog.archive.writer import ArchiveWriter
from canal_group.binlog.dump_server.archive_repair import ArchiveRepair
from canal_group.merge.errors import CanalGroupError, CorruptEvent, DataError, UsageError
from canal_group.merge.values.retention.kept_position import KeptPosition

_log = logging.getLogger(__name__)

#: pause after an upload that has failed, seconds
_UPLOAD_AGAIN_S = 30.0


class ArchiveUpkeep:
    """Keeps the closed files of one server, and of servers that nobody writes. Used by one thread.

    Args:
        archive: whose files these are.
        options: what may stay.
        writer: of the newest history.
        server: identity of the server, whose lock is held.
        repair: replaces damaged files; closed with this object.
    """

    def __init__(
        self,
        archive: Archive,
        options: ArchiveOptions,
        writer: ArchiveWriter,
        server: str,
        repair: ArchiveRepair,
    ) -> None:
        self._repair = repair
        self._archive, self._options, self._writer, self._server = archive, options, writer, server
        #: of the server's histories before the one that is written
        self._older = [Upkeep(archive, each) for each in archive.histories(server) if not self._written(each)]
        #: stored names carry when the process began: who was fenced overwrites nothing
        self._epoch = time.time_ns() // 1000
        self._number = 0
        self._uploads = ThreadPoolExecutor(1, "archive-upload") if options.store is not None else None
        self._upload: tuple[Upkeep, str, Future[str]] | None = None
        self._upload_after_s = 0.0
        #: by history: which files its manifest in the store names, or will name
        self._published: dict[str, tuple[FileEntry, ...]] = {}
        self._publishing: Future[None] | None = None
        #: histories of other servers whose manifests cannot be read, each reported once
        self._damaged = set[str]()
        #: whether a file was compressed since the last `retain`
        self._changed = False
        self._warn_of_moved()

    @property
    def packing(self) -> bool:
        """Whether a closed file waits to be compressed."""
        return any(each.unpacked is not None for each in self._upkeeps())

    @property
    def changed(self) -> bool:
        """Whether `retain` may find something new to do: a file was compressed, or an upload has ended."""
        return self._changed or (self._upload is not None and self._upload[2].done())

    def pack(self) -> None:
        """Compress the next part of a closed file, if one waits.

        Raises:
            RetryableError: the disk fails.
        """
        upkeep = next((each for each in self._upkeeps() if each.unpacked is not None), None)
        if upkeep is not None:
            before = upkeep.unpacked
            try:
                upkeep.pack(1)
                self._changed |= upkeep.unpacked is not before
            except CorruptEvent as error:
                _log.warning("%s It is quarantined, and copied anew.", error)

    def retain(self, kept: Sequence[KeptPosition] | None, now_us: int) -> None:
        """Move or remove the files beyond the limits, and say who loses what.

        Args:
            kept: positions that are read from later; None: they are not known, so that no file is too old.
            now_us: the time, microseconds since 1970.

        Raises:
            RetryableError: the disk fails.
        """
        self._changed = False
        self._finish_upload()
        self._publish()
        for removal in self._beyond(Limits(self._options.bytes_max, None), kept or (), now_us):
            if self._uploads is None:
                self._remove(removal)
            else:
                self._begin_upload(removal)
        if kept is not None:
            for removal in self._beyond(Limits(None, self._options.hours), kept, now_us):
                self._remove(removal)

    def repair(self, now_s: float) -> None:
        """Go on with the repair of damaged files, see `ArchiveRepair`.

        Raises:
            RetryableError: the disk fails.
        """
        self._changed |= self._repair.step(self._upkeeps(), now_s)

    def describe(self) -> dict[str, Any]:
        """Return how much there is of the server, as a part of a JSON object."""
        files = [each for upkeep in self._upkeeps() for each in upkeep.history.manifest.files]
        created_s = [each.created_s for each in files if each.state is not State.PRUNED]
        position = self._writer.position
        open_bytes = 0 if self._writer.ended or position is None else position.offset
        closed = [each for each in files if each.here and each.state is not State.OPEN]
        return {
            "bytes": open_bytes + sum(each.stored for each in closed),
            "files": len(created_s),
            "moved": sum(each.state is State.MOVED for each in files),
            "damaged": sum(each.state is State.QUARANTINED for each in files),
            "oldest_us": min(created_s, default=0) * 1_000_000,
        }

    def close(self) -> None:
        """Wait for an upload that has begun, and note it: else nothing removes the file from the store."""
        self._repair.close()
        if self._uploads is not None:
            self._uploads.submit(lambda: None).result()
            self._finish_upload()
            self._publish()
            self._uploads.shutdown()

    def _warn_of_moved(self) -> None:
        """Say which files cannot be read because the settings no longer name the store that has them."""
        if self._options.store is None and (moved := self.describe()["moved"]):
            _log.warning(
                "%d files of the archive %s were moved to an object store, and archive.store names none: "
                "they are not read, and stay there when limits remove them. Set archive.store as it was.",
                moved,
                self._archive.folder,
            )

    def _upkeeps(self) -> list[Upkeep]:
        upkeep = self._writer.upkeep
        return [*self._older, *([] if upkeep is None else [upkeep])]

    def _written(self, history: History) -> bool:
        return self._writer.history is not None and self._writer.history.folder == history.folder

    def _beyond(self, limits: Limits, kept: Sequence[KeptPosition], now_us: int) -> list[Removal]:
        own = {each.history.folder: each.history for each in self._upkeeps()}
        histories = [own.get(each.folder, each) for each in self._archive.histories(None, self._left_out)]
        planned = [ArchivedHistory(each.name, each.manifest) for each in histories]
        return removals(planned, limits, kept, now_us)

    def _left_out(self, folder: str, error: DataError) -> None:
        """Leave a damaged history of another server out of the limits: it does not stop this server's."""
        if folder.partition("@")[0] == self._server:
            raise error
        if folder not in self._damaged:
            self._damaged.add(folder)
            _log.warning("%s Nothing of it is removed, and its bytes do not count for bytes_max.", error)

    def _remove(self, removal: Removal) -> None:
        own = next((each for each in self._upkeeps() if each.history.name == removal.history), None)
        if own is not None:
            self._removed(own, removal)
            return
        # Another process writes the other servers of the folder, unless their shards are gone.
        with contextlib.suppress(UsageError), self._archive.lock(removal.history.partition("@")[0]):
            for history in self._archive.histories(None, self._left_out):
                if history.name == removal.history:
                    self._removed(Upkeep(self._archive, history), removal)

    def _removed(self, upkeep: Upkeep, removal: Removal) -> None:
        _log.log(logging.WARNING if removal.losers else logging.INFO, "removes %s", removal)
        if left := upkeep.prune(removal.entry.name):
            _log.warning("%s", left)

    def _begin_upload(self, removal: Removal) -> None:
        """Begin to move a file to the store, unless another one is being moved, or it has to wait."""
        own = next((each for each in self._upkeeps() if each.history.name == removal.history), None)
        entry = removal.entry
        ready = entry.state is State.CLOSED and entry.form not in AS_WRITTEN
        if own is None or self._upload is not None or not ready or time.monotonic() < self._upload_after_s:
            return
        assert self._uploads is not None, "there is a store"
        self._upload = own, entry.name, self._uploads.submit(own.upload, entry.name, self._epoch)

    def _publish(self) -> None:
        """Let the store say which files of a history it has, for an archive on another machine."""
        if self._uploads is None or self._archive.store is None:
            return
        if self._publishing is not None:
            if not self._publishing.done():
                return
            error, self._publishing = self._publishing.exception(), None
            if error is not None:
                self._published.clear()
                _log.warning("the store does not say which files it has: %s", error)
        for upkeep in self._upkeeps():
            history, files = upkeep.history, moved_files(upkeep.history.manifest)
            if files != self._published.get(history.name, ()):
                self._published[history.name] = files
                self._number += 1
                args = self._archive.disk, self._archive.store, history, files, self._epoch, self._number
                self._publishing = self._uploads.submit(publish, *args)
                return

    def _finish_upload(self) -> None:
        if self._upload is None or not self._upload[2].done():
            return
        (upkeep, name, uploaded), self._upload = self._upload, None
        try:
            upkeep.moved(name, uploaded.result())
        except (CanalGroupError, OSError) as error:
            self._upload_after_s = time.monotonic() + _UPLOAD_AGAIN_S
            _log.warning("%s of %s stays on the disk of the archive: %s", name, upkeep.history.name, error)
