"""Anchor: the last transaction that was delivered, looked for in another server's binlog without GTIDs.

A transaction without GTID is known on every server by two things that replication keeps: the id of the server
that committed it first, and the time of that commit in microseconds (MySQL from 8.0.1 on). The transaction
with those of a position is the anchor.

What precedes the anchor on the new server was delivered, and is dropped, as far as this holds:

- it was committed first by the anchor's server, by whose binlog it was read;
- its time there is not after the anchor's, and times do not decrease: that server's clock was not set back;
- the new server commits in the order of its source (`ordered`).

From the first transaction on that breaks one of these, everything is delivered. It may have been delivered
before: it is counted, never dropped. Without an anchor nothing is dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Logged(NamedTuple):
    """A transaction as a binlog has it."""

    file: str
    #: where it begins
    offset: int
    #: id of the server that committed the transaction first
    server_id: int
    #: commit time on the first server, microseconds since 1970; 0: the binlog does not have this time
    original_us: int
    #: commit time on the server that wrote this binlog
    commit_us: int


@dataclass(frozen=True, slots=True)
class Found:
    """Where a stream without GTIDs begins on another server."""

    #: file and offset; None: after the anchor
    begin: tuple[str, int] | None
    #: transactions before it that were delivered and do not come again
    dropped: int
    #: transactions after it that may have been delivered before
    repeated: int


class AnchorSearch:
    """Looks for the anchor among the transactions of a binlog, in their order; see the module's rules.

    Args:
        commit_us: commit time of the last transaction that was delivered.
        origin_id: id of the server that committed it first, at that time; 0: not known, it is not looked for.
        own_id: id of the server whose binlog this is.
        ordered: whether that server commits in the order of its source.
    """

    def __init__(self, commit_us: int, origin_id: int, own_id: int, *, ordered: bool) -> None:
        self._commit_us = commit_us
        self._origin_id = origin_id if ordered and origin_id != own_id else 0
        self._last_us = 0
        self._count = 0
        #: counts those that may have been delivered: all, and those from `_stop` on
        self._old, self._old_after_stop = 0, 0
        #: the first transaction that may not be dropped, and how many precede it
        self._stop: tuple[tuple[str, int], int] | None = None
        #: whether the anchor was found
        self.anchored = False
        #: whether a transaction was committed after the last one that was delivered
        self.later = False

    def take(self, logged: Logged) -> None:
        """Take the next transaction; not after the anchor was found."""
        assert not self.anchored, "nothing after the anchor is of interest"
        time_us = logged.original_us or logged.commit_us
        old = time_us <= self._commit_us
        ours = logged.server_id == self._origin_id and 0 < logged.original_us <= self._commit_us
        if self._stop is None and not (ours and time_us >= self._last_us):
            self._stop = (logged.file, logged.offset), self._count
        self._last_us = max(self._last_us, time_us)
        self._count += 1
        self._old += old
        self._old_after_stop += old and self._stop is not None
        self.later |= not old
        self.anchored = ours and logged.original_us == self._commit_us

    def found(self, start: tuple[str, int]) -> Found:
        """Return where to begin.

        Args:
            start: file and offset of the first transaction that was taken.
        """
        if not self.anchored:
            return Found(start, 0, self._old)
        if self._stop is None:
            return Found(None, self._count, 0)
        begin, dropped = self._stop
        return Found(begin, dropped, self._old_after_stop)
