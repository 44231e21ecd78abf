"""Disk: how an archive reaches files. `Disk` is the real one; tests have one that loses what was not synced.

Nothing is durable before `sync` of the file, and no name (of a new, renamed or removed file) before
`sync_folder`.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from canal_group.merge.errors import RetryableError, UsageError

#: only the owner reads what an archive holds
PRIVATE = 0o600
PRIVATE_FOLDER = 0o700


class OpenFile(Protocol):
    """One open file."""

    @property
    def size(self) -> int:
        """Its length, bytes."""

    def read_at(self, offset: int, size: int) -> bytes:
        """Return bytes from an offset on, fewer only at the end of the file."""

    def append(self, data: bytes | memoryview) -> None:
        """Write bytes after the end.

        Raises:
            OSError: not all of them are written, perhaps some.
        """

    def truncate(self, size: int) -> None:
        """Cut the file."""

    def sync(self) -> None:
        """Make its content durable."""

    def close(self) -> None:
        """Close it."""


class FileLayer(Protocol):
    """Where an archive keeps its files. All of it raises OSError as the system does."""

    def make_folder(self, folder: Path) -> None:
        """Make a folder for its owner only, and its parents; durable."""

    def create(self, file: Path) -> OpenFile:
        """Make a file that does not exist, to append to."""

    def open(self, file: Path, *, append: bool = False) -> OpenFile:
        """Open a file to read, or also to append."""

    def rename(self, file: Path, name: Path) -> None:
        """Give a file another name in its folder; what has that name is replaced."""

    def remove(self, file: Path) -> None:
        """Remove a file."""

    def names(self, folder: Path) -> list[str]:
        """Return the names in a folder, sorted; none if it does not exist."""

    def sync_folder(self, folder: Path) -> None:
        """Make the names in a folder durable."""

    def free(self, folder: Path) -> tuple[int, int]:
        """Return the free bytes of a folder's disk, and all of them."""

    def lock(self, file: Path) -> AbstractContextManager[None]:
        """Hold a lock that one process can hold.

        Raises:
            UsageError: another process holds it.
        """


class _DiskFile:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @property
    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def read_at(self, offset: int, size: int) -> bytes:
        data = os.pread(self._descriptor, size, offset)
        while data and len(data) < size:
            more = os.pread(self._descriptor, size - len(data), offset + len(data))
            if not more:
                break
            data += more
        return data

    def append(self, data: bytes | memoryview) -> None:
        with memoryview(data) as view:
            written = 0
            while written < len(view):
                written += os.write(self._descriptor, view[written:])

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)

    def sync(self) -> None:
        os.fsync(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)


class Disk:
    """The files of this machine."""

    def make_folder(self, folder: Path) -> None:
        """Make a folder for its owner only, and its parents; durable."""
        missing = [each for each in (folder, *folder.parents) if not each.exists()]
        folder.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        for each in missing:
            self.sync_folder(each.parent)

    def create(self, file: Path) -> OpenFile:
        """Make a file that does not exist, to append to."""
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        return _DiskFile(os.open(file, flags, PRIVATE))

    def open(self, file: Path, *, append: bool = False) -> OpenFile:
        """Open a file to read, or also to append."""
        flags = (os.O_RDWR | os.O_APPEND if append else os.O_RDONLY) | os.O_CLOEXEC | os.O_NOFOLLOW
        return _DiskFile(os.open(file, flags))

    def rename(self, file: Path, name: Path) -> None:
        """Give a file another name in its folder; what has that name is replaced."""
        file.replace(name)

    def remove(self, file: Path) -> None:
        """Remove a file."""
        file.unlink()

    def names(self, folder: Path) -> list[str]:
        """Return the names in a folder, sorted; none if it does not exist."""
        try:
            return sorted(os.listdir(folder))  # noqa: PTH208 - names, not paths
        except FileNotFoundError:
            return []

    def sync_folder(self, folder: Path) -> None:
        """Make the names in a folder durable."""
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def free(self, folder: Path) -> tuple[int, int]:
        """Return the free bytes of a folder's disk, and all of them."""
        disk = os.statvfs(folder)
        return disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize

    @contextlib.contextmanager
    def lock(self, file: Path) -> Iterator[None]:
        """Hold a lock on a file; only one process can hold the lock."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        with disk_errors(file.parent):
            descriptor = os.open(file, flags, PRIVATE)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno not in (errno.EAGAIN, errno.EACCES):
                    raise
                holder = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip()
                raise UsageError(
                    f"Process {holder or 'unknown'} writes to the archive already ({file}).",
                    hint="One process writes the binlog of a server to a folder. End the other one, or give "
                    "this one a folder of its own.",
                ) from error
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
            yield
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """Turn an OSError into one of ours: the disk of an archive fails, and may be mended."""
    try:
        yield
    except OSError as error:
        raise RetryableError(
            f"The disk of the archive {folder} fails: {error.strerror or error}.",
            hint="Free space on it, or mend it; what was not durable is sent again.",
            retry_after_s=5.0,
        ) from error


def replace_whole(disk: FileLayer, file: Path, data: bytes) -> None:
    """Replace a file's content as a whole, durably: after a crash there is the old content or the new one.

    Raises:
        OSError: it could not be written; the old content is unchanged, unless only its name was not synced.
    """
    temporary = file.with_name(f"{file.name}.tmp")
    with contextlib.closing(create_anew(disk, temporary)) as made:
        made.append(data)
        made.sync()
    disk.rename(temporary, file)
    disk.sync_folder(file.parent)


def create_anew(disk: FileLayer, temporary: Path) -> OpenFile:
    """Make a temporary file, in place of what a crash has left of an earlier one."""
    with contextlib.suppress(FileNotFoundError):
        disk.remove(temporary)
    return disk.create(temporary)


def aside(disk: FileLayer, file: Path, why: str) -> Path:
    """Return a name for a file that is set aside, which no other one has."""
    names, number = disk.names(file.parent), 1
    free = file.with_name(f"{file.name}.{why}")
    while free.name in names:
        number += 1
        free = file.with_name(f"{file.name}-{number}.{why}")
    return free


def read_whole(disk: FileLayer, file: Path) -> bytes:
    """Return a file's content."""
    with contextlib.closing(disk.open(file)) as opened:
        return opened.read_at(0, opened.size)
