"""Interning of the strings that headers point to."""

from __future__ import annotations

import numpy as np

from canal_group.merge.values.header import HeaderRun, Headers


class Names:
    """A table of strings; each string has one index, for as long as the table lives.

    It grows by one entry a binlog file and one a GTID source, so its owner starts a new one with each run.
    """

    def __init__(self) -> None:
        self._index: dict[str, int] = {}
        self._tuple: tuple[str, ...] = ()

    def intern(self, name: str) -> int:
        """Return the index of a name; a new name gets the next index."""
        return self._index.setdefault(name, len(self._index))

    def adopt(self, run: HeaderRun) -> Headers:
        """Return a copy of the run's headers whose indexes point into this table."""
        table = np.array([self.intern(name) for name in run.names], dtype="<u4")
        headers = run.headers.copy()
        for column in ("file", "gtid_source"):
            headers[column] = table[headers[column]]
        return headers

    def as_tuple(self) -> tuple[str, ...]:
        """Return the names, each at its index."""
        if len(self._tuple) != len(self._index):
            self._tuple = tuple(self._index)
        return self._tuple
