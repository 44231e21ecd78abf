"""Durable files: written so that a crash leaves either the old content or the new one.

Names in a folder are not trusted, because others may write to it too. A file at a temporary name is removed
and not followed, and a lock is a file of our own that no other user can hold.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

#: mode of files that only their owner may read
PRIVATE = 0o600
#: mode of a file that other users of the machine may read
PUBLIC = 0o644
#: bytes that are read at once, from a file's end
_BLOCK = 4096
#: mode of folders that we make
PRIVATE_FOLDER = 0o700


def make_folder(folder: Path) -> None:
    """Make a folder that only its owner can enter, and its parents, unless it exists.

    Raises:
        OSError: it cannot be made.
    """
    # `mode` applies only to the last folder: parents get the system's default mode.
    folder.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)


def others_may_write(folder: Path) -> bool:
    """Return whether a user other than this one and root may change a folder's content.

    Raises:
        OSError: there is no such folder.
    """
    status = folder.stat()
    return status.st_uid not in (0, os.geteuid()) or bool(status.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def open_lock(file: Path) -> int:
    """Open a file for `flock`, and make it if needed; private, since any user who can open it can lock it.

    Raises:
        OSError: it cannot be opened, or it is a link.
    """
    fd = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, PRIVATE)
    status = os.fstat(fd)
    if status.st_uid == os.geteuid() and stat.S_IMODE(status.st_mode) != PRIVATE:
        os.fchmod(fd, PRIVATE)
    return fd


def append_lines(file: Path, text: str) -> None:
    """Add whole lines to a file, durably; what a crash has left of a line before them is removed.

    The caller must prevent concurrent writers.

    Raises:
        OSError: it could not be written; the file may end with a part of a line.
    """
    with os.fdopen(os.open(file, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW), "r+b") as stream:
        end = stream.seek(0, os.SEEK_END)
        while end:
            begin = max(0, end - _BLOCK)
            stream.seek(begin)
            last = stream.read(end - begin).rfind(b"\n")
            if last >= 0:
                end = begin + last + 1
                break
            end = begin
        stream.truncate(end)
        stream.seek(end)
        stream.write(text.encode())
        stream.flush()
        os.fsync(stream.fileno())


def replace_file(file: Path, content: str | bytes, mode: int = PRIVATE) -> None:
    """Replace a file's content as a whole, durably.

    The new content is written to a temporary file in the same folder, synced, and renamed; then the folder is
    synced. A file that a crash leaves behind is harmless. The caller must prevent concurrent writers.

    Args:
        file: the file to replace; a link is replaced itself, and not its target.
        content: its new content.
        mode: the file's mode, whatever the process's umask is.

    Raises:
        OSError: it could not be written; the old content is unchanged.
    """
    temporary = file.with_name(file.name + ".tmp")
    # It is left from a crash, or another user made it to redirect the write.
    temporary.unlink(missing_ok=True)
    made = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
    with os.fdopen(made, "wb") as stream:
        os.fchmod(made, mode)
        stream.write(content.encode() if isinstance(content, str) else content)
        stream.flush()
        os.fsync(stream.fileno())
    temporary.replace(file)
    _sync_folder(file.parent)


def remove_file(file: Path) -> None:
    """Remove a file durably, if there is one.

    Raises:
        OSError: it could not be removed, or it is unknown whether that is durable.
    """
    file.unlink(missing_ok=True)
    # Also if it was gone: an earlier call may have removed it and not have come this far.
    _sync_folder(file.parent)


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
