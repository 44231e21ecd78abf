"""Archive repair: damaged files are quarantined, and copied anew from the object store or from their source.

Whoever finds a file damaged, a reader or a recovery, names it. It is read as a whole, and quarantined if it
is not what was written. A copy replaces it only if it has the SHA-256 that the manifest has.
"""

from __future__ import annotations

import contextlib
import logging
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Final, TypeAlias

from canal_group.binlog.archive.archive import Archive
from canal_group.binlog.archive.forms.readable import Readable
from canal_group.binlog.archive.history import History, form_of
from canal_group.binlog.archive.manifest import SUFFIXES, FileEntry, Form, State
from canal_group.binlog.archive.operating.verification import check
from canal_group.binlog.archive.upkeep import Upkeep
from canal_group.merge.back_off import BackOff
from canal_group.merge.errors import CanalGroupError, CorruptEvent, RetryableError

_log = logging.getLogger(__name__)

#: files that wait to be looked at, at most
SUSPECTS_MAX: Final = 64
#: pauses after a file that could not be copied, seconds
_FIRST_PAUSE_S: Final = 5.0
_PAUSE_MAX_S: Final = 3600.0

#: returns a closed file as its source sends it; the event ends a read
Sent: TypeAlias = Callable[[FileEntry, threading.Event], Readable]
#: the upkeep of a history, and its file
File: TypeAlias = tuple[Upkeep, FileEntry]


class ArchiveRepair:
    """Repairs closed files of one server, in a thread of its own. Used by the thread that writes the archive.

    Args:
        archive: whose files these are.
        sent: asks the source for a file; None: there is no source.
    """

    def __init__(self, archive: Archive, sent: Sent | None) -> None:
        self._archive, self._sent = archive, sent
        self._pool = ThreadPoolExecutor(1, "archive-repair")
        self._stopped = threading.Event()
        #: `HISTORY/FILE` by `suspect`
        self._suspects: dict[str, None] = {}
        self._lock = threading.Lock()  # guards _suspects
        self._checking: tuple[File, Future[str]] | None = None
        self._copying: tuple[File, Future[FileEntry]] | None = None
        self._back_off, self._due_s = BackOff(_PAUSE_MAX_S), 0.0
        #: files that could not be copied since the last pause, and why each could not, as it was said
        self._tried = set[str]()
        self._told: dict[str, str] = {}

    def suspect(self, where: str) -> None:
        """Note that a reader found a file damaged; any thread may do that.

        Args:
            where: name of the history, a slash, and the name of the file or of what holds it.
        """
        with self._lock:
            if len(self._suspects) < SUSPECTS_MAX:
                self._suspects[where] = None

    def step(self, upkeeps: Sequence[Upkeep], now_s: float) -> bool:
        """Take what the thread has found and copied, and give it more to do; return whether a file changed.

        Args:
            upkeeps: of the server's histories.
            now_s: the time of any clock that never steps back, seconds.

        Raises:
            RetryableError: the disk fails.
        """
        changed = self._finish(now_s)
        if self._checking is None and self._copying is None:
            self._begin(upkeeps, now_s)
        return changed

    def close(self) -> None:
        """End what the thread does, and wait for that."""
        self._stopped.set()
        self._pool.shutdown(cancel_futures=True)

    def _finish(self, now_s: float) -> bool:
        if self._checking is not None and self._checking[1].done():
            (file, checked), self._checking = self._checking, None
            self._note_checked(file, checked)
        if self._copying is None or not self._copying[1].done():
            return False
        ((upkeep, entry), copied), self._copying = self._copying, None
        if not _is_as_it_was((upkeep, entry)):
            if copied.exception() is None:
                upkeep.drop(copied.result())
            return False
        where = upkeep.history.where(entry)
        try:
            damaged = upkeep.repaired(copied.result())
        except (CanalGroupError, OSError) as error:
            self._tried.add(where)
            self._due_s = now_s + self._back_off.failed(_FIRST_PAUSE_S, random.random())  # noqa: S311
            if self._told.get(where) != str(error):
                _log.warning("%s stays damaged: %s", where, error)
            self._told[where] = str(error)
            return False
        self._back_off.reset()
        self._told.pop(where, None)
        _log.warning("%s is whole again; %s has the damaged one.", where, damaged)
        return True

    def _note_checked(self, file: File, checked: Future[str]) -> None:
        """Quarantine a file that was found damaged."""
        upkeep, entry = file
        where = upkeep.history.where(entry)
        try:
            wrong = checked.result()
        except (CanalGroupError, OSError) as error:
            _log.warning("%s may be damaged, and was not checked: %s", where, error)
            return
        if wrong and _is_as_it_was(file):
            upkeep.quarantine(entry.name, 0, entry.size)
            _log.warning("%s is quarantined, and copied anew: %s", where, wrong)

    def _begin(self, upkeeps: Sequence[Upkeep], now_s: float) -> None:
        while (where := self._next_suspect()) is not None:
            file = _closed(upkeeps, where)
            if file is not None:
                self._checking = file, self._pool.submit(self._wrong, file)
                return
        if now_s >= self._due_s:
            self._tried.clear()
        for upkeep, entry in _damaged(upkeeps):
            if upkeep.history.where(entry) not in self._tried:
                self._copying = (upkeep, entry), self._pool.submit(self._copied, (upkeep, entry))
                return

    def _next_suspect(self) -> str | None:
        with self._lock:
            where = next(iter(self._suspects), None)
            if where is not None:
                del self._suspects[where]
            return where

    def _wrong(self, file: File) -> str:
        """Return a sentence on the damage of a file; empty: it has none.

        Raises:
            CanalGroupError, OSError: it cannot be read now, which says nothing of it.
        """
        upkeep, entry = file
        # Its own: the manifest may be read again meanwhile.
        archive = self._archive
        history = History(archive.disk, upkeep.history.folder, archive.keys, archive.store)
        try:
            return check(history, entry).wrong
        except CorruptEvent as error:
            return str(error)

    def _copied(self, file: File) -> FileEntry:
        """Copy a file from where it is found first.

        Raises:
            CanalGroupError, OSError: it is found nowhere.
        """
        upkeep, entry = file
        last: CanalGroupError | OSError | None = None
        for opened in self._copies(upkeep, entry):
            try:
                with contextlib.closing(opened()) as source:
                    return upkeep.copy(entry.name, source)
            except (CanalGroupError, OSError) as error:
                last = error
        assert last is not None, "there is a source, or it was looked for in the store"
        raise last

    def _copies(self, upkeep: Upkeep, entry: FileEntry) -> Iterator[Callable[[], Readable]]:
        """Yield what opens a copy of a file: those in the object store, and then the source's own."""
        for form in (Form.ZSTD, Form.SEALED):
            yield from (
                lambda name=name, form=form: self._stored(name, replace(entry, form=form))
                for name in self._named(f"{upkeep.history.name}/{entry.name}{SUFFIXES[form]}.e")
                if name != entry.remote
            )
        if self._sent is not None:
            sent = self._sent
            yield lambda: sent(entry, self._stopped)

    def _named(self, begin: str) -> list[str]:
        if self._archive.store is None:
            return []
        try:
            return self._archive.store.names(begin)
        except RetryableError:
            return []  # the source may have it

    def _stored(self, name: str, entry: FileEntry) -> Readable:
        assert self._archive.store is not None, "it names the file"
        stored = self._archive.store.open(name)
        try:
            return form_of(stored, entry, self._archive.keys, name)
        except CanalGroupError:
            stored.close()
            raise


def _damaged(upkeeps: Sequence[Upkeep]) -> Iterator[File]:
    for upkeep in upkeeps:
        for entry in upkeep.history.manifest.files:
            if entry.state is State.QUARANTINED and entry.sha256:
                yield upkeep, entry


def _closed(upkeeps: Sequence[Upkeep], where: str) -> File | None:
    """Return a file that is named so, if it is thought to be whole."""
    history, _, name = where.partition("/")
    for upkeep in upkeeps:
        for entry in upkeep.history.manifest.files:
            named = upkeep.history.name == history and name in (entry.name, entry.stored_name)
            if named and entry.state in (State.CLOSED, State.MOVED):
                return upkeep, entry
    return None


def _is_as_it_was(file: File) -> bool:
    """Return whether a file was not removed, moved or compressed while the thread read it."""
    upkeep, entry = file
    return upkeep.history.manifest.entry(entry.name) == entry
