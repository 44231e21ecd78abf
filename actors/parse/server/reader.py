"""Source reader: follows one shard for as long as it runs, across lost connections.

A lost connection is followed by a new one from where the source had been read up to: each transaction
reaches the listener once, whole or in fragments, in the order of the binlog. An error that no new
connection mends is raised.

A source that is idle rotates and purges its files all the same: its rotations and heartbeats move the
place. A position whose file was purged nevertheless, because a cursor held it, goes on at the oldest file if
nothing is missing between them; their GTIDs say that.

One reader reads one server. Where another one answers at a later connection, it ends with ShardUnavailable:
whoever restarts it starts it at a transaction's end, from where a stream can go on by GTID.

What is not promised: that the listener keeps what it was given. Whoever restarts a reader starts it at the
position that was kept.
"""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, Literal, Protocol

import numpy as np
import pymysql

from actors.parse.grammar.chunk_builder import Limits
from actors.parse.grammar.tables import Select
from actors.parse.server.binlog_stream import BinlogStream, resume_after
from actors.parse.server.clock import SourceClock
from actors.parse.server.low_watermarks import MARGIN_US, CaughtUp
from actors.parse.server.preflight import preflight, require
from actors.parse.server.server_lookup import ServerLookup
from actors.parse.server.source import ServerFacts, SourceAddress, connect, server_facts, translated
from actors.parse.server.start import (
    StartBy,
    binlog_files,
    earliest_position,
    goes_by_gtid,
    latest_position,
    past_purged,
)
from merge.errors import PositionPurged, RetryableError, ShardUnavailable
from merge.values.chunk import Chunk
from merge.values.header import Flag
from merge.values.position import Position
from merge.values.progress import gtids_after

_BACKOFF_MIN_S = 0.1
_BACKOFF_MAX_S = 10.0


class Listener(Protocol):
    """Who is told what a reader reads; called from the thread that runs it, one call at a time."""

    def opened(self, position: Position) -> None:
        """Take note of where the stream begins; called once, before everything else."""

    def chunk_read(self, chunk: Chunk) -> None:
        """Take a chunk. May block for as long as there is no room: the source waits."""

    def caught_up(self, frontier_us: int) -> None:
        """Take a promise: no later transaction of the source will have a smaller commit time."""

    def connected(self, skew_us: int, server_version: str) -> None:
        """Take note that a stream is open; `skew_us` is the source's clock minus ours."""

    def disconnected(self, error: RetryableError, retry_after_s: float) -> None:
        """Take note that the stream ended, or could not be opened; the next try comes in `retry_after_s`."""


class Reader(Protocol):
    """Who reads a source, of whatever kind, and tells a listener."""

    @property
    def server(self) -> str:
        """Identity of the server whose binlog is read; empty: not known. It is set once."""

    @property
    def position(self) -> Position | None:
        """Where to go on: behind what the listener took; None: not known yet."""

    @property
    def created(self) -> Mapping[str, int]:
        """When the files that were read were created, seconds since 1970; those of the chunks so far."""

    def source_now_us(self) -> int | None:
        """Return the time by the clock that stamps commits, microseconds since 1970 UTC; None: not known."""

    def run(self, start: Position | None) -> None:
        """Read from `start` on until `stop`; see `SourceReader.run`."""

    def stop(self) -> None:
        """End the run soon; see `SourceReader.stop`."""


class SourceReader:
    """Follows one source.

    `run` blocks its thread; `stop` may be called from any thread, before or during the run.

    Args:
        address: the source.
        select: which tables are decoded and under which name; None leaves a table out. Asked once per table
        and
            schema version, and for each definition statement (with an empty table name if it is about no
            table).
        limits: when a chunk is full.
        listener: who is told.
        allow: preflight checks that may fail.
        margin_us: how long a commit may take from its stamp to the binlog.
        begin: where a run without a position begins: before the oldest change the source still has, or behind
            the latest.
        start_by: see `start`.
    """

    def __init__(
        self,
        address: SourceAddress,
        select: Select,
        limits: Limits,
        listener: Listener,
        *,
        allow: Collection[str] = (),
        margin_us: int = MARGIN_US,
        begin: Literal["earliest", "latest"] = "latest",
        start_by: StartBy = "auto",
    ) -> None:
        self._address = address
        self._select = select
        self._limits = limits
        self._listener = listener
        self._allow = allow
        self._margin_us = margin_us
        self._begin = earliest_position if begin == "earliest" else latest_position
        self._stopped = threading.Event()
        self._lock = threading.Lock()  # guards _stream against a stop in between
        self._stream: BinlogStream | None = None
        self._start_by = start_by
        #: identity of the server that is read; empty: none was reached yet
        self.server = ""
        #: up to where the source was read and all was handed over: where to go on; None: not known yet
        self.position: Position | None = None
        #: when the files that were read were created; an entry a file
        self.created: dict[str, int] = {}
        #: whether streams are asked for by GTID, once that is known: a server's order may differ from
        #: another's
        self._by_gtid: bool | None = None
        #: from which file's beginning the next stream looks for rows prepared before the position
        self._lead_in: str | None = None
        self._opened = False
        #: as it was measured last; None: not yet
        self._clock: SourceClock | None = None
        self._failures = 0
        self._random = random.Random()  # noqa: S311 - jitter

    def run(self, start: Position | None) -> None:
        """Follow the source until `stop`.

        Args:
            start: where to begin; None: where `begin` says.

        Raises:
            DataError: something only an operator can mend; see `merge.errors`. Everything before it was
                handed over.
            ShardUnavailable: another server answers; nothing of it was handed over.
        """
        self.position = start
        if start is not None:
            self._open(start)
        while not self._stopped.is_set():
            try:
                self._follow()
            except ShardUnavailable:
                raise
            except RetryableError as error:
                if self._stopped.is_set():
                    return
                wait_s = self._backoff_s()
                self._listener.disconnected(error, wait_s)
                self._stopped.wait(wait_s)

    def stop(self) -> None:
        """End the run soon: a wait for the source ends at once, a call of the listener is waited for."""
        self._stopped.set()
        with self._lock:
            if self._stream is not None:
                self._stream.interrupt()

    def source_now_us(self) -> int | None:
        """Return the source's time, see `Reader`; may be called from any thread."""
        clock = self._clock
        return None if clock is None else clock.source_now_us()

    def _open(self, position: Position) -> None:
        if not self._opened:
            self._opened = True
            self._listener.opened(position)

    def _backoff_s(self) -> float:
        """Return how long to wait: doubling from 0.1 s to 10 s, half of it by chance: readers spread."""
        limit_s = min(_BACKOFF_MAX_S, _BACKOFF_MIN_S * 2.0 ** min(self._failures, 10))
        self._failures += 1
        return limit_s * (0.5 + self._random.random() / 2)

    def _follow(self) -> None:
        """Open a stream and hand over what it yields, until it ends."""
        require(preflight(self._address, self._allow), self._address.name)
        with contextlib.closing(connect(self._address)) as control:
            facts = server_facts(self._address, control)
            self._require_same_source(facts)
            if self.position is None:
                self.position = self._begin(self._address, control, facts)
            by_gtid = self._by_gtid
            if by_gtid is None:
                by_gtid = goes_by_gtid(self._address, facts, self.position, self._start_by)
            lead_in, self._lead_in = self._lead_in, None
            stream = BinlogStream(
                self._address,
                self.position,
                self._select,
                self._limits,
                lambda: self._measure(control),
                server=facts.identity,
                margin_us=self._margin_us,
                lead_in=lead_in,
                by_gtid=by_gtid and lead_in is None,
                lookup=ServerLookup(self._address, control),
            )
            # Not before: now it is known who sends what comes.
            self.server, self._by_gtid = facts.identity, by_gtid
            try:
                with self._lock:
                    self._stream = stream
                if not self._opened:
                    stream.begin()
                    self.position = self._created(self.position, stream)
                    self._open(self.position)
                if not self._stopped.is_set():
                    self._listener.connected(stream.clock.skew_us, facts.version)
                    self._consume(stream)
            except PositionPurged as error:
                if "xid" in error.details:
                    self._lead_in = self._earlier(error, lead_in, control)
                elif lead_in is None and not by_gtid:
                    self.position = past_purged(self._address, control, facts, self.position, error)
                else:
                    raise
            finally:
                with self._lock:
                    self._stream = None
                stream.close()

    def _consume(self, stream: BinlogStream) -> None:
        for item in stream:
            self._failures = 0
            if isinstance(item, CaughtUp):
                # Less than before where the source's clock was set back: whoever merges knows what went out.
                self._listener.caught_up(item.frontier_us)
                self._move(stream)
            else:
                # A source that is never silent promises nothing, and its clock is known all the same.
                stream.keep_time()
                self.created |= stream.created
                self._listener.chunk_read(item)
                assert self.position is not None, "it is known where the stream began"
                self.position = behind(self.position, item, self.server, self.created)
            if self._stopped.is_set():
                return

    def _move(self, stream: BinlogStream) -> None:
        """Go where the source stands, though nothing was handed over: files before may be purged."""
        position, place = self.position, stream.place
        assert position is not None, "it is known where the stream began"
        if place is None or place == (position.file, position.offset):
            return
        file, offset = place
        moved = replace(position, file=file, offset=offset, rows_into_transaction=0, server=self.server)
        self.position = self._created(moved, stream)

    def _created(self, position: Position, stream: BinlogStream) -> Position:
        return replace(position, created_s=stream.created.get(position.file, 0))

    def _earlier(self, error: PositionPurged, lead_in: str | None, control: pymysql.Connection[Any]) -> str:
        """Return from which file on the rows of an XA transaction are looked for that a stream lacked.

        First the file that the position is in; then one file further back than the stream began.

        Raises:
            PositionPurged: `error`, if no older file is left.
        """
        position = self.position
        # A place of another server leads nowhere on this one; by GTID nothing was handed over of it yet.
        if position is None or not position.is_of(self.server):
            raise error
        if lead_in is None:
            return position.file
        files = binlog_files(self._address, control)
        place = files.index(lead_in) if lead_in in files else 0
        if not place:
            raise error
        return files[place - 1]

    def _measure(self, control: pymysql.Connection[Any]) -> SourceClock:
        with translated(self._address):
            self._clock = SourceClock.measure(control)
        return self._clock

    def _require_same_source(self, facts: ServerFacts) -> None:
        """Refuse another server than the one that this reader reads; it takes a new one to go on there."""
        if self.server and self.server != facts.identity:
            raise ShardUnavailable(
                f"Another server answers for shard {self._address.name} at {self._address}: "
                f"{facts.identity} instead of {self.server}.",
                shard=self._address.name,
                retry_after_s=0.1,
            )


def behind(before: Position, chunk: Chunk, server: str, created: Mapping[str, int]) -> Position:
    """Return where to go on after a chunk of a server, which follows `before`: with all GTIDs up to there.

    Args:
        before: where the chunk begins.
        chunk: what was read.
        server: identity of the server; empty: not known.
        created: when the files were created, by name.
    """
    ends = np.flatnonzero(chunk.headers["flags"] & Flag.END)
    gtids = gtids_after(before.gtid_set, chunk.headers, ends, chunk.names)
    after = resume_after(chunk)
    return replace(after, gtid_set=gtids, server=server, created_s=created.get(after.file, 0))
