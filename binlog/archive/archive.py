"""Archive: the folder below which each history of each server has its own.

    FOLDER/
        SERVER.lock             held by the process that writes the binlog of this server
        SERVER@CREATED/         a history, see `history`

A server whose binlog was reset, restored or replaced, or of which files are missing here, begins a new
history: nothing is ever overwritten.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TypeAlias

from canal_group.binlog.archive.disk import FileLayer, disk_errors, replace_whole
from canal_group.binlog.archive.forms.key import NO_KEYS, Keys
from canal_group.binlog.archive.history import History
from canal_group.binlog.archive.manifest import MANIFEST, Manifest, manifest_bytes
from canal_group.binlog.archive.moved_history import found_moved
from canal_group.binlog.archive.store import Store
from canal_group.merge.errors import DataError
from canal_group.merge.file_name import file_name, server_identity

#: takes the name of a history that cannot be read, and the error
Damaged: TypeAlias = Callable[[str, DataError], None]


class Archive:
    """The histories below a folder.

    Args:
        disk: where it is.
        folder: its path; it need not exist.
        keys: what encrypts and decrypts.
        store: where moved files are; None: nowhere.
    """

    def __init__(
        self, disk: FileLayer, folder: Path, keys: Keys = NO_KEYS, store: Store | None = None
    ) -> None:
        self.disk, self.folder, self.keys, self.store = disk, folder, keys, store

    def histories(self, server: str | None = None, damaged: Damaged | None = None) -> list[History]:
        """Return the histories of a server, or of all, by when they begin.

        Args:
            server: whose; None: of all servers.
            damaged: takes the name of a history whose manifest cannot be read, and the error. The history is
                then left out; None: the error is raised.

        Raises:
            CorruptEvent, UnsupportedEvent: a manifest cannot be read.
            RetryableError: the folder cannot be used.
        """
        with disk_errors(self.folder):
            names = [
                name for name in self.disk.names(self.folder) if server in (None, name.partition("@")[0])
            ]
            folders = [self.folder / name for name in names if "@" in name]
            there = [folder for folder in folders if MANIFEST in self.disk.names(folder)]
            found = [each for folder in there if (each := self._read(folder, damaged)) is not None]
        return sorted(found, key=_begun)

    def _read(self, folder: Path, damaged: Damaged | None) -> History | None:
        try:
            return History(self.disk, folder, self.keys, self.store)
        except DataError as error:
            if damaged is None:
                raise
            damaged(folder.name, error)
            return None

    def newest(self, server: str) -> History | None:
        """Return the history of a server that was begun last; None: the server has no history."""
        found = self.histories(server)
        return found[-1] if found else None

    def lock(self, server: str) -> AbstractContextManager[None]:
        """Hold the right to write the binlog of a server.

        Raises:
            UsageError: another process holds it, or this cannot be the identity of a server.
            RetryableError: the folder cannot be used.
        """
        file = self.folder / file_name(f"{server_identity(server)}.lock")
        with disk_errors(self.folder):
            self.disk.make_folder(self.folder)
        return self.disk.lock(file)

    def begin_moved(self, server: str) -> History | None:
        """Return a new history with the files that the store has of a server; None: it has none.

        Call it under the lock, if there is no history of the server here.

        Raises:
            CorruptEvent, UnsupportedEvent: the manifest in the store cannot be read.
            RetryableError: the store does not answer.
        """
        found = None if self.store is None else found_moved(self.store, server)
        if found is None:
            return None
        name, manifest = found
        return self._made(self.folder / file_name(name), manifest)

    def begin(self, server: str, created_s: int) -> History:
        """Return a new history, without files. Call it under the lock.

        Args:
            server: whose it is.
            created_s: when its first file was created, seconds since 1970.
        """
        number, folder = 1, self.folder / file_name(f"{server}@{created_s}")
        while MANIFEST in self.disk.names(folder):
            number += 1  # within one second
            folder = self.folder / file_name(f"{server}@{created_s}.{number}")
        return self._made(folder, Manifest(server, created_s))

    def _made(self, folder: Path, manifest: Manifest) -> History:
        self.disk.make_folder(folder)
        replace_whole(self.disk, folder / MANIFEST, manifest_bytes(manifest))
        return History(self.disk, folder, self.keys, self.store)


def _begun(history: History) -> tuple[str, int, int, str]:
    """Return the sort key of a history: its server, its first second, and its number within the second."""
    return history.manifest.server, history.manifest.created_s, len(history.name), history.name
