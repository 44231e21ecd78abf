"""Dumping: the dump that is served; with an archive, one after another, until nobody needs the archive.

Without an archive, the first error ends the dump server: its readers read by themselves.
"""

from __future__ import annotations

import contextlib
import logging
import os
import random
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from canal_group.binlog.archive.archive import Archive
from canal_group.binlog.archive.disk import disk_errors
from canal_group.binlog.archive.manifest import FileEntry
from canal_group.binlog.archive.operating.retention import DiskMarks
from canal_group.binlog.archive.options import ArchiveOptions
from canal_group.binlog.dump_server.archive_intake import ArchiveIntake
from canal_group.binlog.dump_server.dump import HEARTBEATS, SourceDump
from canal_group.binlog.formats.events import ARTIFICIAL_FLAG, MAGIC, header_of
from canal_group.binlog.server.dump.dump_connection import DumpConnection
from canal_group.binlog.server.dump.dump_request import dump_from
from canal_group.binlog.server.source import SourceAddress
from canal_group.binlog.server.starts.binary_logs import binlog_sizes
from canal_group.binlog.server.starts.logged import next_event
from canal_group.binlog.steady_clock import steady_us
from canal_group.merge.back_off import BackOff
from canal_group.merge.errors import (
    CanalGroupError,
    CorruptEvent,
    PositionPurged,
    RetryableError,
    SourceUnavailable,
)
from canal_group.merge.values.resets.reset import tells_reset
from canal_group.merge.values.retention.kept_position import KeptPosition


class SentFile:
    """A `Readable` that is read once, from its beginning on; it has a connection of its own to the source.

    Args:
        address: the source.
        server: identity of the server that must answer.
        entry: the file.
        stopped: ends a read that waits for the source.

    Raises:
        SourceUnavailable, SourceUnfit: the source does not answer, or another server does.
        PositionPurged: it does not have the file, or another one of the name.
    """

    def __init__(
        self, address: SourceAddress, server: str, entry: FileEntry, stopped: threading.Event
    ) -> None:
        self._address, self._entry, self._stopped = address.scanner("repair"), entry, stopped
        self.size = entry.size
        self._held, self._begin = bytearray(MAGIC), 0
        self._connection = DumpConnection(self._address, replies=False)
        try:
            self._require(server)
            self._connection.register(checksums=True)
            annotations = self._connection.facts.mariadb
            self._packets = self._connection.request(
                dump_from(entry.name, len(MAGIC), self._address.server_id, annotations=annotations)
            )
        except BaseException:
            self._connection.close()
            raise

    def _require(self, server: str) -> None:
        found = self._connection.facts.identity
        if found != server:
            raise SourceUnavailable(f"Server {found} answers instead of {server}.")
        sizes = binlog_sizes(self._address, self._connection.connection)
        if sizes.get(self._entry.name) != self._entry.size:
            has = f"has another {self._entry.name}" if self._entry.name in sizes else "no longer has it"
            raise PositionPurged(f"The source {self._address.location} {has}.", file=self._entry.name)

    def read_at(self, offset: int, size: int) -> bytes:
        """Return the next bytes, see `Readable`.

        Raises:
            SourceUnavailable: the source does not send them.
            CorruptEvent: it sends another file.
            RetryableError: it was stopped.
        """
        assert offset == self._begin, "it is read once"
        while not self._held and offset < self.size:
            self._take(next_event(self._address, self._packets))
        data = bytes(self._held[:size])
        del self._held[:size]
        self._begin += len(data)
        return data

    def _take(self, event: bytes) -> None:
        if self._stopped.is_set():
            raise RetryableError("The copy of a damaged file was stopped.")
        header = header_of(event)
        if not header.log_pos or header.flags & ARTIFICIAL_FLAG or header.event_type in HEARTBEATS:
            return
        if self._begin == len(MAGIC) and header.timestamp != self._entry.created_s:
            raise CorruptEvent(f"{self._entry.name} of the source was created at another time.")
        self._held += event

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


_log = logging.getLogger(__name__)

#: pauses between two dumps that fail, seconds
_FIRST_PAUSE_S: Final = 0.5
_PAUSE_MAX_S: Final = 30.0
#: a source whose last proof of idleness is so recent has nothing that was not read, heartbeats
_RECENT_HEARTBEATS: Final = 3


class Dumping:
    """Dumps a source, again and again if it is archived.

    Args:
        address: the source.
        server: identity of the server that must answer.
        file: file at which the reader that starts the dump server is positioned.
        offset: offset of this reader in `file`.
        kept: returns the positions that somebody reads from later; None: that is not known yet.
    """

    def __init__(
        self,
        address: SourceAddress,
        server: str,
        file: str,
        offset: int,
        kept: Callable[[], Sequence[KeptPosition] | None],
    ) -> None:
        self.address, self._server, self._file, self._offset, self._kept = address, server, file, offset, kept
        options = address.archive
        self._archive = None if options is None else _Opened(options, server)
        #: what is dumped now
        self.dump: SourceDump | None = None
        #: why nothing is
        self.why = "it has not begun"
        self._anew = False
        self._back_off = BackOff(_PAUSE_MAX_S)
        self._next_s = 0.0

    def begin(self, now_s: float) -> SourceDump | None:
        """Return a dump that has just begun; None: there is one, or it failed, or it is not due.

        Raises:
            CanalGroupError: it failed, and there is no archive.
        """
        if self.dump is not None or now_s < self._next_s:
            return None
        try:
            self.dump = self._begun()
        except CanalGroupError as error:
            self.failed(error, now_s)
        return self.dump

    def failed(self, error: CanalGroupError, now_s: float) -> None:
        """End the dump; the next one begins after a pause.

        Raises:
            CanalGroupError: there is no archive.
        """
        dump, self.dump = self.dump, None
        if dump is not None:
            dump.close()
            if dump.window.end:
                self._back_off.reset()
            error = _reset_of(dump) or error
        if self._archive is None:
            raise error
        # A dump that could not begin has begun no history.
        self._anew = tells_reset(error) or (dump is None and self._anew)
        pause_s = self._back_off.failed(_FIRST_PAUSE_S, random.random())  # noqa: S311 - no secret
        self._next_s = now_s + pause_s
        if error.message != self.why:
            _log.warning("%s The source %s is dumped again in %.1f s.", error, self.address.location, pause_s)
        self.why = error.message

    def describe(self) -> dict[str, Any]:
        """Return the state of the archive as a JSON object."""
        dump = self.dump
        if dump is None or dump.intake is None:
            return {"state": "waiting", "error": self.why}
        return {"state": "writing", "error": None, "behind_s": self._behind_s(dump), **dump.intake.describe()}

    def close(self) -> None:
        """End the dump, and let others write the archive."""
        dump, self.dump = self.dump, None
        if dump is not None:
            dump.close()
        if self._archive is not None:
            self._archive.close()

    def _begun(self) -> SourceDump:
        opened = self._archive
        if opened is None:
            return SourceDump(self.address, self._server, self._file, self._offset)
        archive = opened.archive()

        def intake_of(anew: bool) -> ArchiveIntake:
            options = opened.options
            return ArchiveIntake(
                archive,
                options,
                self._server,
                opened.marks,
                self._kept,
                anew=anew,
                sent=partial(SentFile, self.address, self._server),
            )

        return SourceDump(self.address, self._server, self._file, self._offset, intake_of, anew=self._anew)

    def _behind_s(self, dump: SourceDump) -> float | None:
        """Return since when the source may have something that was not read, seconds; None: not known."""
        if dump.idle_us is None:
            return None
        behind_us = steady_us() - dump.idle_us
        recent_us = _RECENT_HEARTBEATS * self.address.heartbeat_ms * 1000
        return 0.0 if behind_us <= recent_us else behind_us / 1e6


def _reset_of(dump: SourceDump) -> CanalGroupError | None:
    """Return the error of a closed dump whose source has begun the archived file again; None: it has not.

    The source may refuse the offset because it is inside of an event there: it has described its file before.
    """
    error = None if dump.intake is None else dump.intake.error
    return error if isinstance(error, CanalGroupError) and tells_reset(error) else None


class _Opened:
    """The archive, whose lock is held from the first dump on.

    Args:
        options: where it is.
        server: identity of the server that is dumped.
    """

    def __init__(self, options: ArchiveOptions, server: str) -> None:
        self.options, self._server = options, server
        self.marks = DiskMarks(options.disk_high, options.disk_low)
        self._archive: Archive | None = None
        #: descriptor of the archive's folder: another one of the name is not the one whose lock is held
        self._folder = -1
        self._held = contextlib.ExitStack()

    def archive(self) -> Archive:
        """Return the archive, and hold its lock; both anew if its folder was removed.

        Raises:
            ConfigError: its keys or its store cannot be used.
            UsageError: another process writes it.
            RetryableError: its folder cannot be used.
        """
        archive = self._archive
        if archive is not None and self._is_there(archive.folder):
            return archive
        self.close()
        self._archive = None
        archive = self.options.opened()
        with contextlib.ExitStack() as held, disk_errors(archive.folder):
            held.enter_context(archive.lock(self._server))
            self._folder = os.open(archive.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            held.callback(os.close, self._folder)
            self._held = held.pop_all()
        self._archive = archive
        return archive

    def _is_there(self, folder: Path) -> bool:
        """Return whether a folder is the one whose lock is held, and not one that was made again."""
        with disk_errors(folder):
            try:
                return os.path.samestat(folder.stat(), os.fstat(self._folder))
            except FileNotFoundError:
                return False

    def close(self) -> None:
        """Let the lock go."""
        self._held.close()
