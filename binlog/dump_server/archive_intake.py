"""Archive intake: appends what a dump sends to the archive of its source, in a thread of its own.

The thread that reads the source never waits for the disk: it leaves the source alone while the intake is
`full`, and ends the dump when the intake has failed. What was put and is not durable then is sent again.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from canal_group.binlog.archive.archive import Archive
from canal_group.binlog.archive.operating.retention import DiskMarks
from canal_group.binlog.archive.options import ArchiveOptions
from canal_group.binlog.archive.writer import ArchiveWriter
from canal_group.binlog.dump_server.archive_repair import ArchiveRepair, Sent
from canal_group.binlog.dump_server.archive_upkeep import ArchiveUpkeep
from canal_group.binlog.server.dump_server.wire import ArchiveEnd
from canal_group.binlog.server.semi_sync.wake import Wake
from canal_group.merge.errors import CanalGroupError, RetryableError
from canal_group.merge.values.position import Position
from canal_group.merge.values.retention.kept_position import KeptPosition

_log = logging.getLogger(__name__)

#: bytes that wait to be written, at most; one more event may come
QUEUE_BYTES_MAX: Final = 32 << 20
#: how long little that arrives is gathered before it is appended, seconds, and what is not little, bytes: to
#: wake up for each commit costs more than to write it; with `sync_s: always` a sync gathers
GATHER_S: Final = 0.02
GATHER_BYTES: Final = 1 << 18
#: what was put is written piece by piece if the pieces are so large on average, bytes: to copy them into one
#: takes longer than to write them
PIECE_BYTES: Final = 1 << 16
#: between two looks at what is due while nothing arrives, at the disk, and at the limits, seconds
_TICK_S: Final = 0.25
_LOOK_EVERY_S: Final = 0.5
_RETAIN_EVERY_S: Final = 10.0


class ArchiveIntake:
    """Writes one dump. Used by the thread that reads the source. The caller holds the lock of the server.

    Args:
        archive: where to.
        options: how.
        server: identity of the source.
        marks: when the disk is too full.
        kept: returns the positions that somebody reads from later; None: they are not known yet. The intake's
            thread calls it.
        anew: whether to begin a history.
        sent: see `ArchiveRepair`.

    Raises:
        CorruptEvent, UnsupportedEvent, SourceUnfit, RetryableError: see `ArchiveWriter`; or the disk is too
            full.
    """

    def __init__(
        self,
        archive: Archive,
        options: ArchiveOptions,
        server: str,
        marks: DiskMarks,
        kept: Callable[[], Sequence[KeptPosition] | None],
        *,
        anew: bool = False,
        sent: Sent | None = None,
    ) -> None:
        self._archive, self._options, self._marks, self._kept = archive, options, marks, kept
        self._writer = ArchiveWriter(archive, server, sync_s=options.sync_s, say=_log.warning, anew=anew)
        self._repair = ArchiveRepair(archive, sent)
        self._upkeep = ArchiveUpkeep(archive, options, self._writer, server, self._repair)
        self._looked_s = self._retained_s = 0.0
        self._changed = threading.Condition()
        self._queue: list[bytes | memoryview] = []
        self._queued_bytes = 0
        #: bytes for which the thread is woken, and since when it has appended nothing
        self._awaited_bytes = 0
        self._appended_s = 0.0
        self._closing = False
        #: the error that has stopped the archive; None: the archive is written
        self.error: Exception | None = None
        #: set when there is room again, when more is durable, and when writing has failed
        self.wake = Wake()
        #: up to where the archive outlasts a crash of the machine; None: nothing does
        self.end: ArchiveEnd | None = None
        try:
            self._upkeep.retain(kept(), time.time_ns() // 1000)
            _require_disk(archive, marks)
        except BaseException:
            with contextlib.closing(self.wake):
                self._end()
            raise
        self._durable: Position | None = None
        self._note_end()
        self._state = self._described()
        self._thread = threading.Thread(target=self._run, name="archive", daemon=True)

    @property
    def position(self) -> Position | None:
        """Where the dump has to begin; None: at the beginning of a file. Ask before `start`."""
        return self._writer.position

    def may_follow(self, file: str) -> bool:
        """Return whether the archive has all of the file before this one. Ask before `start`."""
        return self._writer.ended and self._writer.may_follow(file)

    def start(self) -> None:
        """Take events from now on."""
        self._thread.start()

    def put(self, events: bytes | memoryview) -> None:
        """Hand over events, whole ones, as the source has sent them.

        Raises:
            CanalGroupError: the archive cannot take what came before; nothing more is written.
        """
        self.require()
        with self._changed:
            self._queue.append(events)
            self._queued_bytes += len(events)
            if self._queued_bytes >= self._awaited_bytes:
                self._changed.notify()

    @property
    def full(self) -> bool:
        """Whether the source has to wait."""
        return self._queued_bytes >= QUEUE_BYTES_MAX

    def require(self) -> None:
        """Return if writing has not failed.

        Raises:
            CanalGroupError: why it has.
        """
        if self.error is not None:
            raise self.error

    def suspect(self, where: str) -> None:
        """Note that a reader found a closed file damaged, see `ArchiveRepair.suspect`."""
        self._repair.suspect(where)

    def describe(self) -> dict[str, Any]:
        """Return the durable position, and how much there is, as a JSON object."""
        return self._state

    def close(self) -> None:
        """Write what was put, make it durable, and end."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        with contextlib.closing(self.wake):
            if self._thread.ident is None:
                self._end()
            else:
                self._thread.join()

    def _run(self) -> None:
        try:
            while (pieces := self._next()) is not None:
                now_s = time.monotonic()
                for piece in pieces:
                    self._writer.take(piece)
                self._writer.sync_if_due(now_s)
                self._note_end()
                self._look(now_s)
                self._upkeep.pack()
        except Exception as error:  # noqa: BLE001 - the thread that reads the source raises it
            self.error = error
        finally:
            try:
                self._end()
            except CanalGroupError as error:
                self.error = self.error or error
            self.wake.set()

    def _end(self) -> None:
        """Make durable what was taken, and wait for what was begun."""
        try:
            self._writer.close()
        finally:
            self._upkeep.close()

    def _note_end(self) -> None:
        """Let the thread that serves readers tell them of what has become durable."""
        durable, history = self._writer.durable, self._writer.history
        if durable is None or durable is self._durable or history is None:
            return
        self._durable = durable
        self.end = ArchiveEnd(history.name, durable.file, durable.offset, durable.created_s)
        self.wake.set()

    def _look(self, now_s: float) -> None:
        """Look at the disk, and at what is to be removed, if that is due."""
        if now_s - self._looked_s < _LOOK_EVERY_S:
            return
        self._looked_s = now_s
        _require_disk(self._archive, self._marks)
        self._upkeep.repair(now_s)
        if self._upkeep.changed or now_s - self._retained_s >= _RETAIN_EVERY_S:
            self._retained_s = now_s
            self._upkeep.retain(self._kept(), time.time_ns() // 1000)
        self._state = self._described()

    def _next(self) -> list[bytes | memoryview] | None:
        """Return queued events; an empty list after a while without events, None after the end."""
        with self._changed:
            if not self._upkeep.packing:
                self._await(1, _TICK_S)
                if self._queue and self._options.sync_s:
                    self._await(GATHER_BYTES, self._appended_s + GATHER_S - time.monotonic())
            if not self._queue:
                return None if self._closing else []
            queue, self._queue = self._queue, []
            large, full = self._queued_bytes >= len(queue) * PIECE_BYTES, self.full
            self._queued_bytes = 0
        if full:
            self.wake.set()
        self._appended_s = time.monotonic()
        return queue if large else [b"".join(queue)]

    def _await(self, size: int, wait_s: float) -> None:
        """Wait until so many bytes were put, or for a time, or until the end; the caller holds the lock."""
        self._awaited_bytes = size
        if wait_s > 0:
            self._changed.wait_for(lambda: self._queued_bytes >= size or self._closing, wait_s)

    def _described(self) -> dict[str, Any]:
        durable, history = self._writer.durable, self._writer.history
        return {
            "folder": self._options.folder,
            "history": None if history is None else history.name,
            "file": None if durable is None else durable.file,
            "offset": None if durable is None else durable.offset,
            "gtid_set": "" if durable is None else str(durable.gtid_set),
            **self._upkeep.describe(),
        }


def _require_disk(archive: Archive, marks: DiskMarks) -> None:
    """Return if an archive's disk is not too full to write.

    Raises:
        RetryableError: it is, or cannot be used.
    """
    try:
        free, total = archive.disk.free(archive.folder)
    except OSError as error:
        raise RetryableError(
            f"The folder of the archive {archive.folder} cannot be used: {error.strerror or error}.",
            hint="Make it writable; its sources keep their binlogs meanwhile.",
            retry_after_s=5.0,
        ) from error
    if not marks.may_write(free, total):
        raise RetryableError(
            f"The disk of the archive {archive.folder} is used to {1 - free / total:.1%}: nothing more is "
            "written to it, and its sources keep their binlogs.",
            hint="Free space on it; writing goes on below archive.disk_low.",
            retry_after_s=5.0,
        )
