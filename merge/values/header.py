"""Headers: what the control plane knows of a transaction.

A header is a fixed-size record of a transaction, or of one fragment of a transaction that is too large for
one chunk. It never contains rows. Headers are numpy structured arrays of `HEADER`. A tuple of names beside
the array holds each string (binlog file names, GTID sources) once, and a header holds the string's index.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntFlag
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from canal_group.merge.values.ddl_mark import DdlMark

Headers: TypeAlias = NDArray[np.void]


class Flag(IntFlag):
    """Bits of a header's `flags`."""

    #: the first fragment of its transaction
    BEGIN = 1
    #: the last fragment of its transaction; a transaction in one piece has BEGIN and END
    END = 2
    #: a statement that changes definitions, not rows; always BEGIN | END
    DDL = 4
    #: its commit time is before its shard's low watermark; its key was raised
    LATE = 8
    #: its commit time is too far ahead of its source's clock and not believed; its key is its shard's last
    FUTURE = 16
    #: its group is ordered by id: its position is by `order_key`, and LATE says that its id came too late
    BY_ID = 32
    #: a statement that `merge.ddl` delivers from another table, or shard; its header has no rows
    WITHHELD = 64
    #: a page of a snapshot: always BEGIN | END. A page begins and ends where the transaction before the page
    #: ends, has that transaction's commit time and no GTID, and is never LATE. The ordinals of a page
    #: continue the ordinals of the previous page at the same offset; a page without rows takes one ordinal
    PAGE = 128


#: first character of the names that `origin_source` makes; no GTID begins with it
_ORIGIN = "@"

WHOLE = Flag.BEGIN | Flag.END

HEADER = np.dtype(
    [
        ("sequence", "<i8"),  # number in the shard's ring, from 0, without gaps
        ("shard", "<u2"),  # shard_index within the group
        ("flags", "<u2"),  # bits of Flag
        ("rows", "<i4"),  # row changes (or statements) kept by the sink
        ("row_begin", "<i8"),  # ordinals of its row changes in the source's transaction: row_begin inclusive,
        ("row_end", "<i8"),  # row_end exclusive; those of tables that the sink leaves out are not counted
        ("bytes", "<i8"),  # bytes of its rows in memory
        ("commit_us", "<i8"),  # commit time as the source wrote it, microseconds since 1970 UTC
        ("key_us", "<i8"),  # its key in the timeline: never smaller than the shard's previous key
        ("file", "<u4"),  # index of the binlog file in names
        ("begin_offset", "<i8"),  # where its transaction begins in the file
        ("end_offset", "<i8"),  # where it ends: the next event's offset
        # index of the GTID's source in names: "uuid", "uuid:tag" or "domain-server"; see also `origin_source`
        ("gtid_source", "<u4"),
        ("gtid_number", "<i8"),  # number within the source; 0: no GTID
        ("order_id", "<i8"),  # greatest global id that its rows write, from 1; 0: none, or not ordered by id
        ("order_key", "<i8"),  # in a group ordered by id, its key there; else 0
    ]
)


@dataclass(frozen=True, slots=True)
class HeaderRun:
    """Consecutive headers of one shard, with the names to which their indexes point."""

    headers: Headers
    names: tuple[str, ...]
    #: by sequence: the mark of a DDL statement on a table
    ddls: Mapping[int, DdlMark] = field(default_factory=dict)
    #: by sequence: the cursor of the shard's snapshot from this header on, as text, or its `SnapshotEnd`
    snapshots: Mapping[int, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.headers)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the headers as bytes: the type of an array costs more than the headers of a report."""
        return _unpickled, (self.headers.tobytes(), self.names, self.ddls, self.snapshots)

    def before(self, until_us: int, believed_us: int) -> tuple[HeaderRun, bool]:
        """Return the headers before the first that commits at `until_us` or later, and whether there is one.

        Args:
            until_us: microseconds since 1970 UTC.
            believed_us: commit times after this one are not believed and end nothing.
        """
        commit_us = self.headers["commit_us"]
        after = (
            (self.headers["flags"] & Flag.BEGIN != 0) & (commit_us >= until_us) & (commit_us <= believed_us)
        )
        if not after.any():
            return self, False
        return replace(self, headers=self.headers[: int(np.argmax(after))]), True


def _unpickled(
    headers: bytes, names: tuple[str, ...], ddls: Mapping[int, DdlMark], snapshots: Mapping[int, str]
) -> HeaderRun:
    return HeaderRun(np.frombuffer(headers, dtype=HEADER), names, ddls, snapshots)


def merged(headers: Headers, key: str = "key_us") -> Headers:
    """Return headers in merged order: by key, equal keys by shard_index; within a shard as they were.

    Args:
        headers: (n,) HEADER.
        key: the field that holds the key: `key_us`, or `order_key` in a group ordered by id.
    """
    return headers[np.lexsort((headers["shard"], headers[key]))]


def page_rows(headers: Headers | np.void) -> NDArray[np.int64]:
    """Return for each header the `page_rows` of the position after it."""
    return np.where(headers["flags"] & Flag.PAGE != 0, headers["row_end"], 0)


def no_headers() -> Headers:
    """Return an empty array of headers."""
    return np.empty(0, dtype=HEADER)


def origin_source(server_id: int) -> str:
    """Return the source of a transaction without GTID, whose commit time is that of the server it began on.

    Args:
        server_id: of the server that committed it first.
    """
    return f"{_ORIGIN}{server_id}"


def origin_of(source: str, number: int) -> int:
    """Return the server id in a source that `origin_source` made; 0 for any other."""
    return int(source.removeprefix(_ORIGIN)) if not number and source.startswith(_ORIGIN) else 0


def gtid_text(source: str, number: int) -> str:
    """Return a transaction's GTID as the source's server prints it; empty: the transaction has no GTID."""
    if not number:
        return ""
    return f"{source}{':' if len(source) >= UUID_CHARS else '-'}{number}"


#: length of a server's uuid in text; a MariaDB source ("domain-server") is always shorter
UUID_CHARS = 36
