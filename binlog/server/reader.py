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
import random
import threading
import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pymysql

from binlog.columns.read_counts import ReadCounts
from binlog.formats.events import MAGIC
from binlog.grammar.chunk_builder import Limits
from binlog.grammar.reading import Reading
from binlog.grammar.skips import SkipsOf, no_skips
from binlog.grammar.tables import Select
from binlog.server.binlog_stream import BinlogStream
from binlog.server.clock import SourceClock
from binlog.server.definitions.definition_lookup import DefinitionLookup
from binlog.server.definitions.source_definitions import SourceDefinitions
from binlog.server.dump_server.access import DumpServerAccess
from binlog.server.hosts import SourceHosts
from binlog.server.listener import Listener
from binlog.server.low_watermarks import CaughtUp
from binlog.server.preflight.preflight import preflight, require
from binlog.server.replication import Withheld
from binlog.server.semi_sync.replies import Ring, unfreed
from binlog.server.source import (
    ServerFacts,
    SourceAddress,
    connect,
    query,
    server_facts,
    translated,
)
from binlog.server.starts.beginning import beginning
from binlog.server.starts.identity import Identity
from binlog.server.starts.read_place import ReadPlace
from binlog.server.starts.server_log import ServerLog
from binlog.server.starts.start import StartBy, require_contained, require_not_reset
from merge.back_off import BackOff
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

#: limits of the first pause after a failure and of the longest ones, seconds
_FIRST_PAUSE_S, _PAUSE_MAX_S = 0.1, 10.0


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
        definitions: what is known of the tables' definitions, also from an earlier reader.
        hosts: the servers of the shard, of which this reader reads the one at `address`.
        ring: where the listener stores chunks; see `BinlogStream`.
        skips: what is left out of a server's binlog; asked for each stream.
        read_to: positions after that of a run up to which there are readers: what is before them is compared
            too, because GTIDs of other transactions may be in their sets.
    """

    def __init__(
        self,
        address: SourceAddress,
        select: Select,
        limits: Limits,
        listener: Listener,
        *,
        margin_us: int,
        begin: str,
        start_by: StartBy,
        fallback_us: int,
        definitions: SourceDefinitions,
        hosts: SourceHosts,
        allow: Collection[str] = (),
        ring: Ring | None = None,
        skips: SkipsOf = no_skips,
        read_to: Sequence[Position] = (),
    ) -> None:
        self._skips = skips
        self._read_to = read_to
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
        self._definitions = definitions
        self._hosts = hosts
        self._place = ReadPlace(address, self._hosts, start_by, fallback_us)
        #: when the server has to execute the next statement, `time.monotonic`
        self._detect_at_s = 0.0
        self._ring = ring
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
        self._back_off = BackOff(_PAUSE_MAX_S)

    def run(self, start: Position | None) -> None:
        """Follow the source until `stop`.

        Args:
            start: where to begin; None: as `begin` says.

        Raises:
            DataError: only an operator can fix it; see `merge.errors`. Everything before it was handed over.
            ShardUnavailable: another server answers, or is to be read; nothing from it was handed over.
        """
        self._place.position = start
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
            wait_s = self._back_off.failed(_FIRST_PAUSE_S, random.random())  # noqa: S311  no secret
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
    def position(self) -> Position | None:
        """Where to continue: everything before it was handed over; None if it is not known yet."""
        return self._place.position

    @property
    def server(self) -> str:
        """Identity of the server that is read; empty until one was reached."""
        return self._place.server

    @property
    def created(self) -> dict[str, int]:
        """Creation times of the files that were read, seconds since 1970, by name."""
        return self._place.created

    @property
    def counts(self) -> ReadCounts:
        """What was read so far, see `Reader`."""
        with self._lock:
            stream = self._stream
            return self._ended_counts if stream is None else self._ended_counts + stream.counts

    @property
    def reading(self) -> Reading | None:
        """Which event is being read, see `Reader`."""
        with self._lock:
            return None if self._stream is None else self._stream.reading

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
            self._place.require_same_source(facts)
            if self._place.position is None:
                start = parse_shard_start(self._begin, time.time_ns() // 1000)
                self._place.position = beginning(start, self._address, control, facts)
            begin, by_gtid = self._place.next_begin(control, facts)
            lead_in = self._place.take_lead_in()
            self._detect_at_s = 0.0
            self._detect(control)
            replayed = None if lead_in is not None or by_gtid else self._unfreed(begin)
            self._replays = True
            at = replayed if lead_in is None else (lead_in, len(MAGIC))
            lookup = self._definitions.lookup(self._address, facts, self._known_at(facts), self._skips)
            stream = self._opened_stream(begin, at, control, facts, lookup, by_gtid=by_gtid)
            # Only now is it known which server sends the stream.
            self._place.reached(begin, facts.identity, by_gtid=by_gtid)
            try:
                with self._lock:
                    self._stream = stream
                stream.begin()
                self._require_same(control, facts, by_gtid=by_gtid)
                if self._opened is None:
                    self._open(self._place.begun(stream))
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
                else:
                    self._recover(error, lead_in, control, facts, by_gtid=by_gtid)
            finally:
                with self._lock:
                    self._stream = None
                    self._ended_counts += stream.counts
                stream.close()

    def _identity(self, control: pymysql.Connection[Any], facts: ServerFacts) -> Identity:
        return Identity(self._address, facts, ServerLog(self._address, control, facts), self._place.known)

    def _require_same(self, control: pymysql.Connection[Any], facts: ServerFacts, *, by_gtid: bool) -> None:
        """Return if the server has what was read, up to the position and to those of readers after it.

        Raises:
            PositionRefused: it has something else, or that cannot be known.
            SourceUnavailable, SourceUnfit: it lacks some of it.
        """
        identity = self._identity(control, facts)
        identity.require(by_gtid=by_gtid)
        self._read_to = [each for each in self._read_to if not each.within(self._place.known)]
        for each in self._read_to:
            replace(identity, position=each).require_further(
                partial(require_contained, self._address, control, facts, each)
            )

    def _recover(
        self,
        error: SourceUnavailable | DataError,
        lead_in: str | None,
        control: pymysql.Connection[Any],
        facts: ServerFacts,
        *,
        by_gtid: bool,
    ) -> None:
        """Find where to continue although a stream ended.

        Raises:
            SourceUnavailable, DataError: there is nowhere to continue, or not yet; says why.
        """
        if isinstance(error, PositionPurged):
            if by_gtid:
                # MySQL also says so of what it has executed, and has lost from the end of its log.
                self._identity(control, facts).require(by_gtid=True)
            self._place.get_past(error, lead_in, control, facts, by_gtid=by_gtid)
            return
        another = isinstance(error, PositionRefused) or "expected_created_s" in error.details
        if another and not by_gtid:
            require_not_reset(self._address, control, facts, self._place.known)
            self._identity(control, facts).require_end()
        raise error

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
            skips=self._skips(facts.identity),
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
        position, server = self._place.known, self._place.server
        return (
            not self._dump_server.attached
            and not stream.prepared
            and self._may_share_dump(position, server, by_gtid=bool(self._place.by_gtid))
            and self._dump_server.move(position, server)
        )

    def _known_at(self, facts: ServerFacts) -> Position:
        """Return where definitions are known: on the server before, until something of this one was read."""
        if self._opened is None or self._place.created or self._opened.is_of(facts.identity):
            return self._place.known
        return self._opened

    def _remember(self, lookup: DefinitionLookup) -> None:
        """Let what the tables are be known from here on, even if nothing is read before they are altered."""
        position = self._place.known
        if position.is_of(self._place.server):
            lookup.begin(position)
            self._definitions.read_to(position)

    def _consume(
        self, stream: BinlogStream, control: pymysql.Connection[Any], lookup: DefinitionLookup
    ) -> None:
        for item in stream:
            self._back_off.reset()
            self._detect(control)
            self._hosts.reached(self._address)
            if isinstance(item, CaughtUp):
                # It may be smaller than the one before, if the source's clock was set back. The merger knows
                # what it has emitted, and handles that.
                self._listener.caught_up(item.frontier_us)
                moved = self._place.move(stream)
                if moved is not None:
                    self._definitions.read_to(moved)
                # The place of a stream by GTID is known only now.
                if stream.place is not None:
                    self._remember(lookup)
            else:
                # A source that is never idle yields no low watermark; measure its clock nevertheless.
                stream.keep_time()
                self._place.created |= stream.created
                self._listener.chunk_read(item)
                self._definitions.read_to(self._place.handed_over(item))
            # The place of a stream by GTID is known from its first event on.
            if stream.place is not None or not self._place.by_gtid:
                try:
                    lookup.between(idle=isinstance(item, CaughtUp))
                except DataError as error:
                    raise stream.located(error) from error
            if self._stopped.is_set() or self._moves(stream, item):
                return

    def _measure(self, control: pymysql.Connection[Any], withheld: Withheld) -> SourceClock:
        withheld.ask(control)
        with translated(self._address):
            self._clock = SourceClock.measure(control)
        return self._clock
