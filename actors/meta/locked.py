"""A lock between processes on a file that is replaced as a whole."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from actors.process.durable import open_lock
from merge.errors import CoordinatorUnavailable


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Exclude other writers with a separate lock file, because the data file itself is replaced.

    Raises:
        CoordinatorUnavailable: the lock file cannot be opened.
    """
    lock = file.with_name(f"{file.name}.lock")
    try:
        fd = open_lock(lock)
    except OSError as error:
        raise CoordinatorUnavailable(f"{lock} cannot be opened ({error.strerror}).") from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
