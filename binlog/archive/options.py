"""Options: where an archive is, and how it is written."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from canal_group.binlog.archive.archive import Archive
from canal_group.binlog.archive.disk import Disk
from canal_group.binlog.archive.forms.key import NO_KEYS, read_keys
from canal_group.binlog.archive.store import Store


@dataclass(frozen=True, slots=True)
class ArchiveOptions:
    """What concerns an archive, as a reader of a source has it and hands it to the dump server."""

    folder: str
    #: longest time between two syncs, seconds; 0: all that has arrived at once is synced at once
    sync_s: float
    #: bytes on the disk; the oldest closed files beyond them move to `store`, or are removed
    bytes_max: int
    #: how long a file stays after its last transaction; None: forever
    hours: float | None
    #: parts of the disk that are used when nothing more is written, and when it goes on
    disk_high: float
    disk_low: float
    #: file of the keys; None: the archive is not encrypted
    key_file: str | None
    #: address of the object store; None: files stay on this disk
    store: str | None

    def opened(self) -> Archive:
        """Return the archive, to read or to write.

        Raises:
            ConfigError: a key file cannot be read, or `store` is not an object store.
        """
        keys = NO_KEYS if self.key_file is None else read_keys(Path(self.key_file))
        return Archive(Disk(), Path(self.folder), keys, self._store())

    def _store(self) -> Store | None:
        if self.store is None:
            return None
        from canal_group.binlog.archive.object_store import ObjectStore  # noqa: PLC0415 - pyarrow.fs takes time

        return ObjectStore(self.store)
