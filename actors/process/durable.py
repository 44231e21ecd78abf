"""Files of ours: written so that a crash leaves the old content or the new one, and nothing else.

No name in a folder is believed, for others may write to it as well: what stands at a temporary name is
removed and not followed, and a lock is a file of our own that nobody else can hold.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

#: of our files, their owner's alone
PRIVATE = 0o600
#: of a file that other users of the machine may read
PUBLIC = 0o644
#: of folders that we make
PRIVATE_FOLDER = 0o700


def make_folder(folder: Path) -> None:
    """Make a folder that its owner alone can enter, and its parents, unless it is there.

    Raises:
        OSError: it cannot be made.
    """
    # `mode` is for the last one only: parents are as the system makes them.
    folder.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)


def others_may_write(folder: Path) -> bool:
    """Return whether another user than we and root may change what stands in a folder.

    Raises:
        OSError: there is no such folder.
    """
    known = folder.stat()
    return known.st_uid not in (0, os.geteuid()) or bool(known.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def open_lock(file: Path) -> int:
    """Open a file for `flock`, and make it if need be; whoever can open it could hold the lock for ever.

    Raises:
        OSError: it cannot be opened, or a link stands there.
    """
    fd = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, PRIVATE)
    known = os.fstat(fd)
    if known.st_uid == os.geteuid() and stat.S_IMODE(known.st_mode) != PRIVATE:
        os.fchmod(fd, PRIVATE)
    return fd


def replace_file(file: Path, text: str, mode: int = PRIVATE) -> None:
    """Replace a file's content as a whole, durably.

    The new content is written beside it, synced, and renamed over it; then the folder is synced. A leftover
    of a crash is harmless. Two writers at once must be kept apart by the caller.

    Args:
        file: what is replaced; a link that stands there is replaced, too, and not what it leads to.
        text: the content.
        mode: who may read it, whatever the process's mask says.

    Raises:
        OSError: it could not be written; the old content stands.
    """
    temporary = file.with_name(file.name + ".tmp")
    # A leftover, or what somebody has put there to be written to.
    temporary.unlink(missing_ok=True)
    made = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
    with os.fdopen(made, "w", encoding="utf-8") as stream:
        os.fchmod(made, mode)
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    temporary.replace(file)
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
