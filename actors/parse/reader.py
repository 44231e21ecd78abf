"""Source reader: follows one shard for as long as it runs, across lost connections.

A lost connection is followed by a new one from the end of the last chunk handed over: each transaction
reaches the listener once, whole or in fragments, in the order of the binlog. An error that no new connection
mends is raised.

What is not promised: that the listener keeps what it was given. Whoever restarts a reader starts it at the
position that was kept.
"""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Collection
from typing import Any, Literal, Protocol

import pymysql

from actors.parse.binlog_stream import MARGIN_US, BinlogStream, CaughtUp, binlog_files, resume_after
from actors.parse.chunk_builder import Limits
from actors.parse.clock import SourceClock
from actors.parse.events import MAGIC
from actors.parse.preflight import preflight, require
from actors.parse.source import ServerFacts, SourceAddress, connect, query, server_facts, translated
from actors.parse.tables import Select
from merge.chunk import Chunk
from merge.errors import PositionPurged, RetryableError, SourceUnfit
from merge.gtid import NO_GTIDS, GtidSet, parse_gtid_set
from merge.position import Position

_BACKOFF_MIN_S = 0.1
_BACKOFF_MAX_S = 10.0
#: two clocks a hundred millionths apart drift by 1 ms in this time
_CLOCK_AGE_MAX_US = 10_000_000


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
        self._identity: str | None = None
        self._position: Position | None = None
        #: from which file's beginning the next stream looks for rows prepared before the position
        self._lead_in: str | None = None
        self._opened = False
        self._frontier_us = 0
        self._failures = 0
        self._random = random.Random()  # noqa: S311 - jitter

    def run(self, start: Position | None) -> None:
        """Follow the source until `stop`.

        Args:
            start: where to begin; None: where `begin` says.

        Raises:
            DataError: something only an operator can mend; see `merge.errors`. Everything before it was
            handed over.
        """
        self._position = start
        if start is not None:
            self._open(start)
        while not self._stopped.is_set():
            try:
                self._follow()
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
            if self._position is None:
                self._position = self._begin(self._address, control, facts)
                self._open(self._position)
            clock = self._measure(control)
            lead_in, self._lead_in = self._lead_in, None
            stream = BinlogStream(
                self._address,
                self._position,
                self._select,
                self._limits,
                clock,
                margin_us=self._margin_us,
                lead_in=lead_in,
            )
            try:
                with self._lock:
                    self._stream = stream
                if not self._stopped.is_set():
                    self._listener.connected(clock.skew_us, facts.version)
                    self._consume(stream, control)
            except PositionPurged as error:
                self._lead_in = self._earlier(error, lead_in, control)
            finally:
                with self._lock:
                    self._stream = None
                stream.close()

    def _consume(self, stream: BinlogStream, control: pymysql.Connection[Any]) -> None:
        for item in stream:
            self._failures = 0
            if isinstance(item, CaughtUp):
                # A new connection measures the clock anew and may promise less: what was promised stays.
                self._frontier_us = max(self._frontier_us, item.frontier_us)
                self._listener.caught_up(self._frontier_us)
                if not 0 <= stream.clock.age_us <= _CLOCK_AGE_MAX_US:
                    stream.clock = self._measure(control)
            else:
                self._listener.chunk_read(item)
                self._position = resume_after(item)
            if self._stopped.is_set():
                return

    def _earlier(self, error: PositionPurged, lead_in: str | None, control: pymysql.Connection[Any]) -> str:
        """Return from which file on the rows of an XA transaction are looked for that a stream lacked.

        First the file that the position is in; then one file further back than the stream began.

        Raises:
            PositionPurged: `error`, if it is about something else or no older file is left.
        """
        if "xid" not in error.details or self._position is None:
            raise error
        if lead_in is None:
            return self._position.file
        files = binlog_files(self._address, control)
        place = files.index(lead_in) if lead_in in files else 0
        if not place:
            raise error
        return files[place - 1]

    def _measure(self, control: pymysql.Connection[Any]) -> SourceClock:
        with translated(self._address):
            return SourceClock.measure(control)

    def _require_same_source(self, facts: ServerFacts) -> None:
        """Refuse another server behind the same address: offsets of one binlog mean nothing in another."""
        if self._identity is None:
            self._identity = facts.identity
        if self._identity != facts.identity:
            raise SourceUnfit(
                f"Another server answers for shard {self._address.name} at {self._address}: "
                f"{facts.identity} instead of {self._identity}.",
                hint="Positions are places in one server's binlog: start anew with one of this server.",
                shard=self._address.name,
            )


def latest_position(
    address: SourceAddress, connection: pymysql.Connection[Any], facts: ServerFacts
) -> Position:
    """Return the end of a source's binlog, with the GTID set of everything before it.

    MySQL shows both in one row. MariaDB is asked for the GTIDs at just that place.

    Raises:
        SourceUnfit: the source has no binlog.
    """
    rows = query(address, connection, facts.binlog_status_statement)
    if not rows:
        raise _no_binlog(address)
    file, offset = str(rows[0]["File"]), int(rows[0]["Position"])
    if facts.mariadb:
        return Position(file, offset, gtid_set=_gtids_at(address, connection, file, offset))
    return Position(file, offset, gtid_set=_gtids(rows[0].get("Executed_Gtid_Set")))


def earliest_position(
    address: SourceAddress, connection: pymysql.Connection[Any], facts: ServerFacts
) -> Position:
    """Return the beginning of a source's oldest binlog file, with the GTID set of everything before it.

    Raises:
        SourceUnfit: the source has no binlog.
    """
    rows = query(address, connection, "SHOW BINARY LOGS")
    if not rows:
        raise _no_binlog(address)
    file, offset = str(rows[0]["Log_name"]), len(MAGIC)
    if facts.mariadb:
        return Position(file, offset, gtid_set=_gtids_at(address, connection, file, offset))
    purged = query(address, connection, "SELECT @@global.gtid_purged AS gtids")
    return Position(file, offset, gtid_set=_gtids(purged[0]["gtids"]))


def _gtids_at(address: SourceAddress, connection: pymysql.Connection[Any], file: str, offset: int) -> GtidSet:
    asked = query(address, connection, f"SELECT BINLOG_GTID_POS('{file}', {offset}) AS gtids")
    return _gtids(asked[0]["gtids"])


def _gtids(text: str | None) -> GtidSet:
    return parse_gtid_set(text.replace("\n", "")) if text else NO_GTIDS


def _no_binlog(address: SourceAddress) -> SourceUnfit:
    return SourceUnfit(
        f"The source of shard {address.name} has no binlog.",
        hint="Add log_bin = mysql-bin to the server's configuration and restart it.",
        shard=address.name,
    )
