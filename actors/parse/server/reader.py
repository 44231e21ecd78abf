"""Source reader: follows one shard until it is stopped, and reconnects when the connection is lost.

After a lost connection the reader opens a new one at the position that it had read up to. Each transaction
reaches the listener once, whole or in fragments, in the order of the binlog. The reader raises an error that
a new connection cannot fix.

An idle source still rotates and purges its files, so its rotations and heartbeats move the read position. If
a cursor held a position whose file was purged, the reader continues at the oldest file, provided that the
GTIDs prove that no transaction is missing in between.

One reader reads one server. If another server answers a later connection, the reader raises
ShardUnavailable. Its owner then restarts it at the end of a transaction, where a stream can continue by GTID.

Not guaranteed: that the listener keeps what it was given. The owner restarts a reader at the position that
was stored.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pymysql

from actors.parse.columns.read_counts import ReadCounts
from actors.parse.formats.events import MAGIC
from actors.parse.grammar.chunk_builder import Limits
from actors.parse.grammar.tables import Select
from actors.parse.server.back_off import BackOff
from actors.parse.server.binlog_stream import BinlogStream
from actors.parse.server.clock import SourceClock
from actors.parse.server.definitions.definition_lookup import DefinitionLookup
from actors.parse.server.definitions.source_definitions import SourceDefinitions
from actors.parse.server.dump_server.access import DumpServerAccess
from actors.parse.server.hosts import SourceHosts
from actors.parse.server.listener import Listener, position_after
from actors.parse.server.low_watermarks import MARGIN_US, CaughtUp
from actors.parse.server.preflight import preflight, require
from actors.parse.server.replication import Withheld
from actors.parse.server.semi_sync.replies import Ring, unfreed
from actors.parse.server.source import (
    ServerFacts,
    SourceAddress,
    connect,
    query,
    server_facts,
    translated,
)
from actors.parse.server.starts.beginning import beginning
from actors.parse.server.starts.by_time import FALLBACK_US, continued_by_time
from actors.parse.server.starts.remaining import with_remaining
from actors.parse.server.starts.start import (
    StartBy,
    binlog_files,
    goes_by_gtid,
    goes_by_time,
    past_purged,
    require_not_reset,
)
from merge.errors import (
    DataError,
    PositionPurged,
    PositionRefused,
    RetryableError,
    ShardUnavailable,
    SourceUnavailable,
    SourceUnfit,
)
from merge.values.chunk import Chunk
from merge.values.position import Position
from merge.values.start import parse_shard_start

_log = logging.getLogger(__name__)


class SourceReader:
    """Follows one source.

    `run` blocks its thread; `stop` may be called from any thread, before or during the run.

    Args:
        address: the source.
        select: which tables are decoded and under which name; None leaves a table out. Called once per table
            and schema version, and for each definition statement (with an empty table name if the statement
            concerns no table).
        limits: when a chunk is full.
        listener: receives what is read.
        allow: preflight checks that may fail.
        margin_us: how long a commit may take from its timestamp to the binlog.
        begin: where a run without a position begins; a time before now counts from when the source is first
            reached.
        start_by: see `start`.
        fallback_us: how long before the last commit time another server is read from, see `by_time`.
        definitions: what is known of the tables' definitions, from an earlier reader; None: nothing.
        hosts: the servers of the shard, of which this reader reads the one at `address`; None: only that one.
        ring: where the listener stores chunks; see `BinlogStream`.
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
        begin: str = "latest",
        start_by: StartBy = "auto",
        fallback_us: int = FALLBACK_US,
        definitions: SourceDefinitions | None = None,
        hosts: SourceHosts | None = None,
        ring: Ring | None = None,
    ) -> None:
        self._address = address
        self._select = select
        self._limits = limits
        self._listener = listener
        self._allow = allow
        self._margin_us = margin_us
        self._begin = begin
        self._stopped = threading.Event()
        self._lock = threading.Lock()  # guards _stream against a stop in between
        self._stream: BinlogStream | None = None
        self._start_by = start_by
        self._fallback_us = fallback_us
        self._definitions = SourceDefinitions(address.name, select) if definitions is None else definitions
        self._hosts = SourceHosts([address]) if hosts is None else hosts
        #: when the server has to execute the next statement, `time.monotonic`
        self._detect_at_s = 0.0
        self._ring = ring
        #: identity of the server that is read; empty until one was reached
        self.server = ""
        #: everything before this position was handed over: where to continue; None if it is not known yet
        self.position: Position | None = None
        #: creation times of the files that were read, seconds since 1970, by name
        self.created: dict[str, int] = {}
        #: whether streams are requested by GTID; None until that is decided. It does not change afterwards,
        #: because the order of transactions may differ between servers
        self._by_gtid: bool | None = None
        #: file from whose beginning the next stream looks for XA rows that were prepared before the position
        self._lead_in: str | None = None
        self._opened: Position | None = None
        #: whether the next stream begins at what the ring has not freed, if replies wait for that
        self._replays = True
        #: the last measurement; None before the first
        self._clock: SourceClock | None = None
        #: what streams that have ended read
        self._ended_counts = ReadCounts()
        self._dump_server = DumpServerAccess(address)
        #: whether a stream by GTID has reached the end that the server's binlog had when it began: from there
        #: on, nothing in the binlog is in the position's GTID set
        self._met_end = False
        self._back_off = BackOff()

    def run(self, start: Position | None) -> None:
        """Follow the source until `stop`.

        Args:
            start: where to begin; None: as `begin` says.

        Raises:
            DataError: only an operator can fix it; see `merge.errors`. Everything before it was handed over.
            ShardUnavailable: another server answers, or is to be read; nothing from it was handed over.
        """
        self.position = start
        if start is not None:
            self._open(start)
        try:
            while not self._stopped.is_set():
                self._try()
        finally:
            self._dump_server.close()

    def _try(self) -> None:
        """Follow the source until the stream ends, and wait if it could not be read."""
        try:
            self._follow()
        except ShardUnavailable:
            raise
        except SourceUnfit as error:
            self._hosts.failed(self._address, error.message)
            raise
        except RetryableError as error:
            if self._stopped.is_set():
                return
            self._require_this_host(error)
            wait_s = self._back_off.failed()
            self._listener.disconnected(error, wait_s)
            self._stopped.wait(wait_s)
        finally:
            self._dump_server.left()

    def stop(self) -> None:
        """End the run soon: a wait for the source ends at once, a running call of the listener finishes."""
        self._stopped.set()
        with self._lock:
            if self._stream is not None:
                self._stream.interrupt()

    @property
    def counts(self) -> ReadCounts:
        """What was read so far, see `Reader`."""
        with self._lock:
            stream = self._stream
            return self._ended_counts if stream is None else self._ended_counts + stream.counts

    @property
    def shares_dump(self) -> bool:
        """Whether a dump server sends what is read, see `Reader`."""
        return self._dump_server.attached

    def source_now_us(self) -> int | None:
        """Return the source's time, see `Reader`; may be called from any thread."""
        clock = self._clock
        return None if clock is None else clock.source_now_us()

    def _open(self, position: Position) -> None:
        if self._opened is None:
            self._opened = position
            self._listener.opened(position)

    def _require_this_host(self, error: RetryableError) -> None:
        """Count a failure of the server; leave it if another one is to be read now.

        Raises:
            ShardUnavailable: another server is to be read; only a new reader may read that one.
        """
        if self._hosts.failed(self._address, error.message):
            raise ShardUnavailable(
                f"Shard {self._address.name} reads {self._hosts.current.place} from now on, instead of "
                f"{self._address.place}: {error.message}",
                shard=self._address.name,
                retry_after_s=0.1,
            ) from error

    def _detect(self, control: pymysql.Connection[Any]) -> None:
        """Let the server execute a statement, if there is another server and the time has come.

        Raises:
            SourceUnavailable: it fails.
        """
        if self._hosts.several and time.monotonic() >= self._detect_at_s:
            sql = self._hosts.detecting.sql
            try:
                query(self._address, control, sql)
            except DataError as error:
                raise SourceUnavailable(
                    f"The source of shard {self._address.name} at {self._address} does not execute {sql!r} "
                    f"(reader.detecting.sql): {error.message}",
                    shard=self._address.name,
                ) from error
            self._detect_at_s = time.monotonic() + self._hosts.detecting.interval_s

    def _unfreed(self, begin: Position) -> tuple[str, int] | None:
        """Return where the ring begins, if the source must not count what it holds as replied to."""
        if self._address.semi_sync != "cursor" or not self._replays:
            return None
        assert self._ring is not None, "replies that wait for cursors need the ring"
        if self._opened is not None and not self._opened.is_of(begin.server):
            return None  # the ring begins at a position of another server
        assert self._opened is not None or self._ring.cursors[2] < 0, "a ring without a beginning is empty"
        return unfreed(self._ring, self._opened) if self._opened is not None else None

    def _follow(self) -> None:
        """Open a stream and hand over what it yields, until it ends."""
        require(preflight(self._address, self._allow), self._address.name)
        with contextlib.closing(connect(self._address)) as control:
            facts = server_facts(self._address, control)
            self._require_same_source(facts)
            if self.position is None:
                start = parse_shard_start(self._begin, time.time_ns() // 1000)
                self.position = beginning(start, self._address, control, facts)
            begin, by_gtid = self._continue(self.position, control, facts)
            lead_in, self._lead_in = self._lead_in, None
            self._detect_at_s = 0.0
            self._detect(control)
            replayed = None if lead_in is not None or by_gtid else self._unfreed(begin)
            self._replays = True
            at = replayed if lead_in is None else (lead_in, len(MAGIC))
            lookup = self._definitions.lookup(self._address, facts, self._known_at(facts))
            stream = self._opened_stream(begin, at, control, facts, lookup, by_gtid=by_gtid)
            # Only now is it known which server sends the stream.
            self.position, self.server, self._by_gtid = begin, facts.identity, by_gtid
            try:
                with self._lock:
                    self._stream = stream
                if self._opened is None:
                    stream.begin()
                    self.position = self._created(self.position, stream)
                    self._open(self.position)
                if not self._stopped.is_set():
                    self._listener.connected(stream.clock.skew_us, facts.version)
                    if not by_gtid:
                        self._remember(lookup)
                    self._consume(stream, control, lookup)
            except (SourceUnavailable, DataError) as error:
                if stream.shares_dump:
                    # The next stream is the source's own: it says what is wrong with the source, if anything.
                    self._dump_server.lost(error.message)
                elif isinstance(error, PositionPurged) and replayed is not None:
                    self._replays = False
                elif isinstance(error, PositionPurged):
                    self._get_past(error, lead_in, control, facts, by_gtid=by_gtid)
                else:
                    another = isinstance(error, PositionRefused) or "expected_created_s" in error.details
                    if another and not by_gtid:
                        require_not_reset(self._address, control, facts, self.position)
                    raise
            finally:
                with self._lock:
                    self._stream = None
                    self._ended_counts += stream.counts
                stream.close()

    def _opened_stream(
        self,
        begin: Position,
        lead_in: tuple[str, int] | None,
        control: pymysql.Connection[Any],
        facts: ServerFacts,
        lookup: DefinitionLookup,
        *,
        by_gtid: bool,
    ) -> BinlogStream:
        """Return a stream from a position: from a dump server if that covers it, else from the source."""
        withheld = Withheld(self._address, facts)
        dump_server = None
        if lead_in is None and self._may_share_dump(begin, facts.identity, by_gtid=by_gtid):
            dump_server = self._dump_server.begin(begin, facts.identity)
        stream = BinlogStream(
            self._address,
            begin,
            self._select,
            self._limits,
            lambda: self._measure(control, withheld),
            server=facts.identity,
            margin_us=self._margin_us,
            lead_in=lead_in,
            by_gtid=by_gtid and lead_in is None and dump_server is None,
            lookup=lookup,
            ring=self._ring,
            withheld_us=lambda: withheld.us,
            dump_server=dump_server,
        )
        lookup.follow(stream)
        return stream

    def _may_share_dump(self, position: Position, server: str, *, by_gtid: bool) -> bool:
        """Return whether a dump server of `server` may be asked for what follows a position.

        It knows places in that server's binlog only, and replies to no source.
        """
        return (
            self._dump_server.wanted
            and self._address.semi_sync == "off"
            and position.server == server
            and not position.rows_into_transaction
            and (self._met_end or not by_gtid)
        )

    def _moves(self, stream: BinlogStream, item: Chunk | CaughtUp) -> bool:
        """Return whether the next stream reads from a dump server, which covers the position by now."""
        self._met_end |= isinstance(item, CaughtUp)
        position = self.position
        assert position is not None, "it is known where the stream began"
        return (
            not self._dump_server.attached
            and not stream.prepared
            and self._may_share_dump(position, self.server, by_gtid=bool(self._by_gtid))
            and self._dump_server.move(position, self.server)
        )

    def _get_past(
        self,
        error: PositionPurged,
        lead_in: str | None,
        control: pymysql.Connection[Any],
        facts: ServerFacts,
        *,
        by_gtid: bool,
    ) -> None:
        """Find where to continue although the source refused a position as purged.

        Raises:
            PositionPurged: nowhere, as transactions are missing; its details hold what the source still has.
            DataError: as `past_purged`.
        """
        assert self.position is not None, "a position was refused"
        if "xid" in error.details:
            self._settle(error)
            self._lead_in = self._earlier(error, lead_in, control)
        elif lead_in is not None:
            raise error
        elif by_gtid:
            raise with_remaining(self._address, control, facts, error) from error
        else:
            try:
                self.position = past_purged(self._address, control, facts, self.position, error)
            except PositionPurged as purged:
                raise with_remaining(self._address, control, facts, purged) from error

    def _known_at(self, facts: ServerFacts) -> Position:
        """Return where definitions are known: on the server before, until something of this one was read."""
        assert self.position is not None, "it is known where the stream begins"
        if self._opened is None or self.created or self._opened.is_of(facts.identity):
            return self.position
        return self._opened

    def _remember(self, lookup: DefinitionLookup) -> None:
        """Let what the tables are be known from here on, even if nothing is read before they are altered."""
        assert self.position is not None, "it is known where the stream began"
        if self.position.is_of(self.server):
            lookup.begin(self.position)
            self._definitions.read_to(self.position)

    def _consume(
        self, stream: BinlogStream, control: pymysql.Connection[Any], lookup: DefinitionLookup
    ) -> None:
        for item in stream:
            self._back_off.reached()
            self._detect(control)
            self._hosts.reached(self._address)
            if isinstance(item, CaughtUp):
                # It may be smaller than the one before, if the source's clock was set back. The merger knows
                # what it has emitted, and handles that.
                self._listener.caught_up(item.frontier_us)
                self._move(stream)
                # The place of a stream by GTID is known only now.
                if stream.place is not None:
                    self._remember(lookup)
            else:
                # A source that is never idle yields no low watermark; measure its clock nevertheless.
                stream.keep_time()
                self.created |= stream.created
                self._listener.chunk_read(item)
                assert self.position is not None, "it is known where the stream began"
                self.position = position_after(self.position, item, self.server, self.created)
                self._definitions.read_to(self.position)
            if self._stopped.is_set() or self._moves(stream, item):
                return

    def _move(self, stream: BinlogStream) -> None:
        """Move the position to that of the source, although nothing was handed over: files may be purged."""
        position, place = self.position, stream.place
        assert position is not None, "it is known where the stream began"
        if place is None or place == (position.file, position.offset):
            return
        file, offset = place
        moved = replace(position, file=file, offset=offset, rows_into_transaction=0, server=self.server)
        self.position = self._created(moved, stream)
        self._definitions.read_to(self.position)

    def _created(self, position: Position, stream: BinlogStream) -> Position:
        return replace(position, created_s=stream.created.get(position.file, 0))

    def _settle(self, error: PositionPurged) -> None:
        """Continue by file and offset on this server, from the XA COMMIT that was found first on it by GTID.

        Files of another server mean nothing on this one; everything before the COMMIT was delivered, or comes
        with it.
        """
        position = self.position
        assert position is not None, "it is known where the stream began"
        if position.is_of(self.server):
            return
        file, offset = error.details["file"], error.details["begin_offset"]
        assert isinstance(file, str), "an event has a file"
        assert isinstance(offset, int), "a transaction begins somewhere"
        self.position = replace(
            position, file=file, offset=offset, server=self.server, created_s=self.created.get(file, 0)
        )
        self._by_gtid = False

    def _earlier(self, error: PositionPurged, lead_in: str | None, control: pymysql.Connection[Any]) -> str:
        """Return the file from which to look for the rows of an XA transaction that a stream lacked.

        The first try is the file of the position; each further try goes one file further back.

        Raises:
            PositionPurged: `error`, if no older file is left.
        """
        position = self.position
        assert position is not None, "it is known where the stream began"
        if lead_in is None:
            return position.file
        files = binlog_files(self._address, control)
        place = files.index(lead_in) if lead_in in files else 0
        if not place:
            raise error
        return files[place - 1]

    def _continue(
        self, position: Position, control: pymysql.Connection[Any], facts: ServerFacts
    ) -> tuple[Position, bool]:
        """Return where the next stream begins on the server that answers, and whether by GTID.

        Raises:
            SourceUnfit: see `goes_by_gtid`.
            SourceUnavailable, PositionPurged: see `continued_by_time`.
        """
        if self._by_gtid is not None:
            return position, self._by_gtid
        if not goes_by_time(facts, position, self._start_by):
            by_gtid = goes_by_gtid(self._address, facts, position, self._start_by)
            if by_gtid and not position.is_of(facts.identity):
                self._hosts.continued("gtid")
            return position, by_gtid
        found = continued_by_time(self._address, control, facts, position, self._fallback_us)
        self._hosts.continued("time", found.dropped, found.repeated)
        _log.warning(
            "continues on %s at %s by commit time: the last transaction that was delivered was %s, "
            "%d transactions are not repeated, %d may be",
            self._address.place,
            found.position,
            "found" if found.anchored else "not found",
            found.dropped,
            found.repeated,
            extra={"shard": self._address.name},
        )
        return found.position, False

    def _measure(self, control: pymysql.Connection[Any], withheld: Withheld) -> SourceClock:
        withheld.ask(control)
        with translated(self._address):
            self._clock = SourceClock.measure(control)
        return self._clock

    def _require_same_source(self, facts: ServerFacts) -> None:
        """Refuse a server other than the one that this reader reads; only a new reader may read that one."""
        if self.server and self.server != facts.identity:
            raise ShardUnavailable(
                f"Another server answers for shard {self._address.name} at {self._address}: "
                f"{facts.identity} instead of {self.server}. The reader is restarted.",
                shard=self._address.name,
                retry_after_s=0.1,
            )
