"""Durable files: up to where the files that a reader reads are durable in the archive of its source.

A file is known by its name and by when it was created: after a reset the names come again. The dump server
says where the archive ends; what is durable of other files is looked for in the manifests.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from typing import Final

from canal_group.binlog.archive.history import History
from canal_group.binlog.server.dump.archived import Archived, entry_of
from canal_group.binlog.server.dump_server.wire import ArchiveEnd
from canal_group.binlog.server.semi_sync.replies import Ring
from canal_group.binlog.server.source import SourceAddress
from canal_group.merge.errors import CanalGroupError
from canal_group.merge.values.position import file_order
from canal_group.merge.values.resets.reset import created_again

_log = logging.getLogger(__name__)

#: all of a file
_ALL: Final = (1 << 63) - 1


class DurableFiles:
    """Releases a ring's headers. Used by the thread that reads and by that of the keeper.

    Args:
        address: the source.
        ring: holds back what is not durable.
    """

    def __init__(self, address: SourceAddress, ring: Ring) -> None:
        self._address, self._ring = address, ring
        self._lock = threading.Lock()
        self._server = ""
        self._end: ArchiveEnd | None = None
        #: of the files that are read, by name: when they were created, and up to where they are durable
        self._created: dict[str, int] = {}
        self._durable: dict[str, int] = {}
        #: why nothing of a file is durable; empty: the archive has all of them
        self.lacks = ""

    def reading(self, created: Mapping[str, int]) -> None:
        """Note the files of which headers are stored next, and when they were created, seconds since 1970."""
        with self._lock:
            if created != self._created:
                self._created = dict(created)
                self._look()

    def reached(self, server: str, end: ArchiveEnd) -> None:
        """Note up to where the archive of a server is durable."""
        with self._lock:
            before, self._server, self._end = self._end, server, end
            if before is None or (before.history, before.file) != (end.history, end.file):
                self._look()
            else:
                self._release()

    def _look(self) -> None:
        """Look for each file in the manifests: what they say changes when a file is begun."""
        self.lacks, self._durable = "", {}
        if self._end is None:
            return
        try:
            histories = Archived(self._address, self._server).histories()
        except CanalGroupError as error:
            self.lacks = error.message
            _log.warning("%s", error, extra={"shard": self._address.name})
        else:
            for file, created_s in self._created.items():
                self._durable[file] = self._durable_in(histories, file, created_s)
        self._release()

    def _durable_in(self, histories: Sequence[History], file: str, created_s: int) -> int:
        """Return up to where a file is durable by the manifests; 0: nothing of it is."""
        entries = [(each, entry_of(each, file)) for each in histories]
        sizes = [
            entry.size
            for _, entry in entries
            if entry is not None and not created_again(entry.created_s, created_s)
        ]
        if sizes:
            return max(sizes)
        if any(_had(each, file, created_s) for each in histories):
            return _ALL
        assert self._end is not None, "the archive has an end"
        if file_order(file) < file_order(self._end.file):
            self.lacks = f"the archive {self._end.history} does not have {file}"
        return 0

    def _release(self) -> None:
        """Let the ring hand out what is durable now."""
        durable, end = dict(self._durable), self._end
        if end is not None and end.file in self._created:
            same = not created_again(self._created[end.file], end.created_s)
            durable[end.file] = max(durable.get(end.file, 0), end.offset if same else 0)
        self._ring.release(durable)


def _had(history: History, file: str, created_s: int) -> bool:
    """Return whether a history had a file that its limits have removed."""
    manifest = history.manifest
    return (
        bool(manifest.files)
        and created_s >= manifest.created_s
        and file_order(file) < file_order(manifest.files[0].name)
    )
