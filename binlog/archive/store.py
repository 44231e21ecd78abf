"""Store: where an archive's closed files may be instead of the disk."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from canal_group.binlog.archive.forms.readable import Readable


class Store(Protocol):
    """Keeps files under names that are never given again."""

    def put(self, name: str, file: Path) -> None:
        """Keep a file, whole.

        Raises:
            UsageError: there is another one of this name; nothing was changed.
            RetryableError: it is not sure to be kept.
        """

    def open(self, name: str) -> Readable:
        """Return a file that is kept, to read parts of it.

        Raises:
            CorruptEvent: there is none.
            RetryableError: the store does not answer.
        """

    def names(self, begin: str) -> list[str]:
        """Return the names of kept files that begin so, sorted; it ends in the middle of a file's name.

        Raises:
            RetryableError: the store does not answer.
        """

    def folders(self, begin: str) -> list[str]:
        """Return the folders of kept files whose names begin so, sorted.

        Raises:
            RetryableError: the store does not answer.
        """

    def remove(self, name: str) -> None:
        """Remove a file, if it is kept."""
