"""By time: where a stream continues on another server if GTIDs cannot be used.

The binlog is searched for the transaction that was delivered last, see `anchor`, from the commit time of the
position less `fallback_us` on. A server that lacks the transaction, and on which nothing was committed since,
lags or was left alone: it is retried, as a server is that lacks GTIDs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pymysql

from canal_group.binlog.formats.events import MAGIC
from canal_group.binlog.server.source import ServerFacts, SourceAddress
from canal_group.binlog.server.starts.anchor import AnchorSearch, Logged
from canal_group.binlog.server.starts.available import earliest_available
from canal_group.binlog.server.starts.binary_logs import log_end
from canal_group.binlog.server.starts.scan import Scan
from canal_group.binlog.server.starts.up_to import up_to
from canal_group.merge.errors import PositionPurged, SourceUnavailable
from canal_group.merge.values.chunk import Chunk
from canal_group.merge.values.header import Flag, origin_of
from canal_group.merge.values.position import Position

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
