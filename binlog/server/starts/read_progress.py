"""How far a reader has come in its source, and where its next stream begins."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from canal_group.binlog.server.binlog_stream import BinlogStream
from canal_group.binlog.server.hosts import SourceHosts
from canal_group.binlog.server.listener import position_after
from canal_group.binlog.server.source import ServerFacts, SourceAddress
from canal_group.binlog.server.starts.beginning import beginning
from canal_group.binlog.server.starts.by_time import continued_by_time
from canal_group.binlog.server.starts.server_log import ServerLog
from canal_group.binlog.server.starts.start import StartBy, goes_by_gtid, goes_by_time
from canal_group.binlog.server.starts.stream_start import AfterGtids, FromOffset, StartAt
from canal_group.merge.errors import DataError, ShardUnavailable, SourceUnavailable
from canal_group.merge.values.chunk import Chunk
from canal_group.merge.values.position import Position
from canal_group.merge.values.start import parse_shard_start

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StartChoice:
    """Where a source is followed from, on its server and on another one."""

    #: where a run without a position begins; a time before now counts from when the source is first reached
    begin: str
    #: see `start`
    start_by: StartBy
    #: how long before the last commit time another server is read from, see `by_time`
    fallback_us: int
    #: returns the positions after that of a run up to which there are readers: what is before them is
    #: compared too, because GTIDs of other transactions may be in their sets
    read_to: Callable[[], tuple[Position, ...]] = tuple


class ReadProgress:
    """How far one reader, which reads one server, has come.

    Args:
        address: the source.
        hosts: the servers of the shard; they count how a stream continues on another one.
        choice: where the first stream begins, and how one continues on another server.
    """

    def __init__(self, address: SourceAddress, hosts: SourceHosts, choice: StartChoice) -> None:
        self._address, self._hosts, self._choice = address, hosts, choice
        #: everything before it was handed over: where to continue; None if it is not known yet
        self.position: Position | None = None
        #: identity of the server that is read; empty until one was reached
        self.server = ""
        #: creation times of the files that were read, seconds since 1970, by name
        self.created: dict[str, int] = {}
        #: how streams begin; None before the start is decided
        self._start_at: StartAt | None = None
        #: where the next stream begins, in place of `_start_at`
        self._recovered: FromOffset | None = None

    @property
    def known(self) -> Position:
        """The position; only for callers after the start of the first stream."""
        assert self.position is not None, "it is known where the stream began"
        return self.position

    # ---- the next stream

    def require_same_source(self, facts: ServerFacts) -> None:
        """Refuse a server other than the one that is read; only a new reader may read that one.

        Raises:
            ShardUnavailable: another server answers.
        """
        if self.server and self.server != facts.identity:
            raise ShardUnavailable(
                f"Another server answers for shard {self._address.name} at {self._address}: "
                f"{facts.identity} instead of {self.server}. The reader is restarted.",
                shard=self._address.name,
                retry_after_s=0.1,
            )

    def next_start(self, log: ServerLog) -> FromOffset:
        """Return where the next stream begins on the server that answers.

        Raises:
            SourceUnfit: see `goes_by_gtid`.
            SourceUnavailable, DataError: see `beginning` and `continued_by_time`.
        """
        if self._recovered is not None:
            return self._recovered
        if self.position is None:
            start = parse_shard_start(self._choice.begin, time.time_ns() // 1000)
            self.position = beginning(start, log.address, log.connection, log.facts)
        if self._start_at is not None:
            return self.again
        return self._first(log, self.position)

    def _first(self, log: ServerLog, position: Position) -> FromOffset:
        """Return where the first stream of a reader begins: by GTID, by commit time, or at its offset."""
        facts, start_by = log.facts, self._choice.start_by
        if goes_by_time(facts, position, start_by):
            return FromOffset(self._by_time(log, position))
        if not goes_by_gtid(self._address, facts, position, start_by):
            return FromOffset(position)
        if not position.is_of(facts.identity):
            self._hosts.continued("gtid")
        return AfterGtids(position)

    def _by_time(self, log: ServerLog, position: Position) -> Position:
        continued = continued_by_time(
            log.address, log.connection, log.facts, position, self._choice.fallback_us
        )
        self._hosts.continued("time", continued.dropped, continued.repeated)
        _log.warning(
            "continues on %s at %s by commit time: the last transaction that was delivered was %s, "
            "%d transactions are not repeated, %d may be",
            self._address.location,
            continued.position,
            "found" if continued.anchored else "not found",
            continued.dropped,
            continued.repeated,
            extra={"shard": self._address.name},
        )
        return continued.position

    def reached(self, start: FromOffset, server: str) -> None:
        """Note that a server sends a stream."""
        self.position, self.server = start.position, server
        self._start_at, self._recovered = start.then, None

    @property
    def again(self) -> FromOffset:
        """Where a stream would begin now, after one was reached."""
        assert self._start_at is not None, "it was decided with the first stream"
        return self._start_at(self.known)

    def recover(self, start: FromOffset, error: SourceUnavailable | DataError, log: ServerLog) -> None:
        """Find where to continue although a stream ended, see `FromOffset.recovered`.

        Raises:
            SourceUnavailable, DataError: there is nowhere to continue, or not yet; says why.
        """
        self._recovered = start.recovered(error, self.known, log, self.created)
        self.position = self._recovered.position

    # ---- as the stream goes on

    def begun(self, stream: BinlogStream) -> Position:
        """Return the position where a reader's first stream begins, with what its file says of itself."""
        self.position = self._created(self.known, stream)
        return self.position

    def handed_over(self, item: Chunk) -> Position:
        """Return the position after a chunk that was handed over."""
        self.position = position_after(self.known, item, self.server, self.created)
        return self.position

    def move(self, stream: BinlogStream) -> Position | None:
        """Move to the source's own offset, although nothing was handed over: files may be purged.

        Returns:
            The new position; None if it is the one of before.
        """
        position, file_offset = self.known, stream.file_offset
        if file_offset is None or file_offset == (position.file, position.offset):
            return None
        file, offset = file_offset
        moved = replace(
            position, file=file, offset=offset, rows_into_transaction=0, page_rows=0, server=self.server
        )
        self.position = self._created(moved, stream)
        return self.position

    @staticmethod
    def _created(position: Position, stream: BinlogStream) -> Position:
        return replace(position, created_s=stream.created.get(position.file, 0))
