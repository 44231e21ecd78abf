"""By time: where a stream continues on another server if GTIDs cannot be used.

The binlog is searched for the transaction that was delivered last, its anchor, from the commit time of the
position less `fallback_us` on. A server that lacks the transaction, and on which nothing was committed since,
lags or was left alone: it is retried, as a server is that lacks GTIDs.

Anchor: the last transaction that was delivered, looked for in another server's binlog without GTIDs.

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

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import pymysql

from canal_group.binlog.formats.events import MAGIC
from canal_group.binlog.server.source import ServerFacts, SourceAddress
from canal_group.binlog.server.starts.available import earliest_available
from canal_group.binlog.server.starts.binary_logs import log_end
from canal_group.binlog.server.starts.scan import Scan
from canal_group.binlog.server.starts.up_to import up_to
from canal_group.merge.errors import PositionPurged, SourceUnavailable
from canal_group.merge.values.chunk import Chunk
from canal_group.merge.values.header import Flag, origin_of
from canal_group.merge.values.position import Position


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


_SECOND_US = 1_000_000


@dataclass(frozen=True, slots=True)
class FoundByTime:
    """Where to continue, and what comes again."""

    position: Position
    #: whether the transaction that was delivered last was found
    anchored: bool
    dropped: int
    repeated: int


def continued_by_time(
    address: SourceAddress,
    connection: pymysql.Connection[Any],
    facts: ServerFacts,
    position: Position,
    fallback_us: int,
) -> FoundByTime:
    """Return where a stream continues on the server that answers, which is not that of `position`.

    Args:
        address: the server.
        connection: an open connection to it.
        facts: what it reports about itself.
        position: of another server, at a transaction's end, with the commit time of the one before.
        fallback_us: how long before that time the search begins.

    Raises:
        SourceUnavailable: the server lacks the transaction, and nothing was committed there since.
        PositionPurged: its binlog begins after that transaction.
        SourceUnfit: see `Scan`.
    """
    scan = Scan(address, connection, facts)
    oldest = earliest_available(address, connection, facts)
    try:
        start = scan.at_time(max(0, position.commit_us - fallback_us))
    except PositionPurged:
        # The transaction may be in the oldest file nevertheless.
        start = oldest
    end = log_end(address, connection, facts)
    search = AnchorSearch(
        position.commit_us, position.origin_id, facts.server_id, ordered=facts.commits_in_order
    )
    with scan.stream(start, end, original_times=True) as stream:
        after = start.file, start.offset
        for chunk in up_to(address, stream, end):
            after = _take(search, chunk) or after
            if search.anchored:
                break
        created_us = stream.created.get(start.file, 0) * _SECOND_US
    if not search.anchored:
        if start.file == oldest.file and created_us > position.commit_us:
            raise _purged(address, facts, position, oldest)
        if not search.later:
            raise _lacks(address, facts, position)
    found = search.found((start.file, max(start.offset, len(MAGIC))))
    at = scan.position_at(*(found.begin or after))
    moved = replace(at, commit_us=position.commit_us, key_us=position.key_us, origin_id=position.origin_id)
    return FoundByTime(moved, search.anchored, found.dropped, found.repeated)


def _take(search: AnchorSearch, chunk: Chunk) -> tuple[str, int] | None:
    """Take a chunk's transactions, up to the anchor; return where the last one ends."""
    ends = chunk.headers[(chunk.headers["flags"] & Flag.END) != 0]
    after = None
    for header in ends:
        origin_id = origin_of(chunk.names[header["gtid_source"]], int(header["gtid_number"]))
        file, commit_us = chunk.names[header["file"]], int(header["commit_us"])
        search.take(
            Logged(
                file=file,
                offset=int(header["begin_offset"]),
                server_id=origin_id,
                original_us=commit_us if origin_id else 0,
                commit_us=commit_us,
            )
        )
        after = file, int(header["end_offset"])
        if search.anchored:
            break
    return after


def _lacks(address: SourceAddress, facts: ServerFacts, position: Position) -> SourceUnavailable:
    return SourceUnavailable(
        f"Server {facts.identity}, which answers for shard {address.name} at {address}, lacks the "
        f"transaction before {position} of server {position.server}, and has none that was committed "
        "later. The shard continues when the server has caught up, or commits something new.",
        shard=address.name,
        commit_us=position.commit_us,
    )


def _purged(
    address: SourceAddress, facts: ServerFacts, position: Position, oldest: Position
) -> PositionPurged:
    return PositionPurged(
        f"The binlog of server {facts.identity}, which answers for shard {address.name} at {address}, begins "
        f"with {oldest.file}, after the transaction before {position} of server {position.server}.",
        hint="Read a server whose binlog goes back further, or load the tables again.",
        shard=address.name,
        oldest_file=oldest.file,
        commit_us=position.commit_us,
    )
