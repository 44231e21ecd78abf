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
from collections import ChainMap
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import pymysql

from canal_group.binlog.columns.read_counts import ReadCounts
from canal_group.binlog.grammar.decoding import Decoding
from canal_group.binlog.grammar.reading import Reading
from canal_group.binlog.grammar.skips import SkipsOf, no_skips
from canal_group.binlog.server.binlog_stream import LINGER_S, BinlogStream
from canal_group.binlog.server.clock import SourceClock, clock_of
from canal_group.binlog.server.definitions.definition_lookup import DefinitionLookup
from canal_group.binlog.server.definitions.source_definitions import SourceDefinitions
from canal_group.binlog.server.dump.dumps import dumps_of
from canal_group.binlog.server.dump_server.access import NeededBy, not_told
from canal_group.binlog.server.hosts import SourceHosts
from canal_group.binlog.server.listener import Listener
from canal_group.binlog.server.low_watermarks import CaughtUp, LowWatermarks
from canal_group.binlog.server.preflight.preflight import preflight, require
from canal_group.binlog.server.replication import Withheld
from canal_group.binlog.server.semi_sync.modes import semi_sync_of
from canal_group.binlog.server.semi_sync.replies import Ring
from canal_group.binlog.server.source import connect, server_facts
from canal_group.binlog.server.starts.identity import Identity
from canal_group.binlog.server.starts.read_progress import ReadProgress, StartChoice
from canal_group.binlog.server.starts.server_log import ServerLog
from canal_group.binlog.server.starts.start import require_contained
from canal_group.binlog.server.starts.stream_start import FromOffset
from canal_group.merge.back_off import BackOff
from canal_group.merge.errors import (
    DataError,
    RetryableError,
    ShardUnavailable,
    SourceUnavailable,
    SourceUnfit,
)
from canal_group.merge.values.chunk import Chunk
from canal_group.merge.values.position import Position

#: limits of the first pause after a failure and of the longest ones, seconds
_FIRST_PAUSE_S, _PAUSE_MAX_S = 0.1, 10.0


class SourceReader:
    """Follows one source.

    `run` blocks its thread; `stop` may be called from any thread, before or during the run.

    Args:
        hosts: the servers of the shard, of which this reader reads the one that is current now.
        decoding: which tables are decoded, and how; lookup and skips are those of each stream.
        listener: receives what is read.
        choice: where the first stream begins, and how one continues on another server.
        margin_us: how long a commit may take from its timestamp to the binlog.
        definitions: what is known of the tables' definitions, also from an earlier reader.
        ring: where the listener stores chunks; needed if the address says that the source gets its replies
            when that is freed.
        skips: what is left out of a server's binlog; asked for each stream.
        pace_s: shortest time between two chunks of a source that writes steadily, see `LINGER_S`.
        needed: returns from where on clients read the source, see `DumpServerAccess`.
    """

    def __init__(
        self,
        hosts: SourceHosts,
        decoding: Decoding,
        listener: Listener,
        *,
        choice: StartChoice,
        margin_us: int,
        definitions: SourceDefinitions,
        ring: Ring | None = None,
        skips: SkipsOf = no_skips,
        pace_s: float = LINGER_S,
        needed: NeededBy = not_told,
    ) -> None:
        self._hosts = hosts
        self._pace_s = pace_s
        self._address = address = hosts.current
        self._decoding = replace(
            decoding, original_times=decoding.original_times or address.commit_times.original
        )
        self._listener = listener
        self._margin_us = margin_us
        self._skips = skips
        self._stopped = threading.Event()
        self._lock = threading.Lock()  # guards _stream against a stop in between
        self._stream: BinlogStream | None = None
        self._definitions = definitions
        self._progress = ReadProgress(address, hosts, choice)
        self._read_to = choice.read_to
        self._semi_sync = semi_sync_of(address, ring)
        self._dumps = dumps_of(address, self._semi_sync, self._stopped, ring, needed)
        self._opened: Position | None = None
        #: the last measurement; None before the first
        self._clock: SourceClock | None = None
        #: what streams that have ended read
        self._ended_counts = ReadCounts()
        self._back_off = BackOff(_PAUSE_MAX_S)

    def run(self, start: Position | None) -> None:
        """Follow the source until `stop`.

        Args:
            start: where to begin; None: as the choice says.

        Raises:
            DataError: only an operator can fix it; see `canal_group.merge.errors`. Everything before it was
                handed over.
            ShardUnavailable: another server answers, or is to be read; nothing from it was handed over.
        """
        self._progress.position = start
        if start is not None:
            self._open(start)
        try:
            while not self._stopped.is_set():
                self._try()
        finally:
            self._dumps.close()

    def _try(self) -> None:
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
            self._dumps.left()

    def stop(self) -> None:
        """End the run soon: a wait for the source ends at once, a running call of the listener finishes."""
        self._stopped.set()
        with self._lock:
            if self._stream is not None:
                self._stream.interrupt()

    @property
    def position(self) -> Position | None:
        """Where to continue: everything before it was handed over; None if it is not known yet."""
        return self._progress.position

    @property
    def server(self) -> str:
        """Identity of the server that is read; empty until one was reached."""
        return self._progress.server

    @property
    def created(self) -> Mapping[str, int]:
        """Creation times of the files that are and were read, seconds since 1970, by name."""
        with self._lock:
            read, stream = self._progress.created, self._stream
            return read if stream is None else ChainMap(dict(stream.created), read)

    @property
    def counts(self) -> ReadCounts:
        """Bytes and losses of all streams so far, see `Reader`."""
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
        return self._dumps.shared

    @property
    def archive_state(self) -> Mapping[str, Any] | None:
        """What the archive has of the source, see `Reader`."""
        return self._dumps.archive_state

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
                f"Shard {self._address.name} reads {self._hosts.current.location} from now on, instead of "
                f"{self._address.location}: {error.message}",
                shard=self._address.name,
                retry_after_s=0.1,
            ) from error

    def _follow(self) -> None:
        address = self._address
        require(preflight(address), address.name)
        with contextlib.closing(connect(address)) as control:
            log = ServerLog(address, control, server_facts(address, control))
            self._progress.require_same_source(log.facts)
            start = self._semi_sync.replayed(self._progress.next_start(log), self._opened)
            check = self._hosts.checks(address, control)
            check()
            lookup = self._definitions.lookup(address, log.facts, self._known_at(log), self._skips)
            start, stream = self._opened_stream(start, log, lookup)
            # Only now is it known which server sends the stream.
            self._progress.reached(start, log.facts.identity)
            try:
                with self._lock:
                    self._stream = stream
                stream.begin()
                self._require_same(log, by_gtid=start.stays_by_gtid)
                if self._opened is None:
                    self._open(self._progress.begun(stream))
                if not self._stopped.is_set():
                    self._listener.connected(stream.clock.skew_us, log.facts.version)
                    if not start.by_gtid:
                        self._remember(lookup)
                    self._pump(start, stream, check, lookup, log)
            except (SourceUnavailable, DataError) as error:
                if not self._dumps.lost(error):
                    self._progress.recover(start, self._dumps.told(error), log)
            finally:
                with self._lock:
                    self._stream = None
                    self._ended_counts += stream.counts
                stream.close()

    def _opened_stream(
        self, start: FromOffset, log: ServerLog, lookup: DefinitionLookup
    ) -> tuple[FromOffset, BinlogStream]:
        address, server = self._address, log.facts.identity
        withheld = Withheld(address, log.facts)
        low_watermarks = LowWatermarks(
            lambda: self._measure(log.connection, withheld), self._margin_us, lambda: withheld.us
        )
        packets, start, replies = self._dumps.open(start, log)
        decoding = replace(self._decoding, lookup=lookup, skips=self._skips(server))
        stream = BinlogStream(address.name, packets, decoding, low_watermarks, replies, linger_s=self._pace_s)
        lookup.follow(stream)
        return start, stream

    def _require_same(self, log: ServerLog, *, by_gtid: bool) -> None:
        """Return if the server has what was read, up to the position and to those of readers after it.

        Raises:
            PositionRefused: it has something else, or that cannot be known.
            SourceUnavailable, SourceUnfit: it lacks some of it.
        """
        identity = Identity(log.address, log.facts, self._dumps.log_of(log), self._progress.known)
        identity.require(by_gtid=by_gtid)
        # A client that is set aside is no reader any more, while a stream goes on for the others.
        for each in self._read_to():
            if each.within(self._progress.known):
                continue
            replace(identity, log=log, position=each).require_further(
                partial(require_contained, log.address, log.connection, log.facts, each)
            )

    def _known_at(self, log: ServerLog) -> Position:
        """Return where definitions are known: on the server before, until something of this one was read."""
        if self._opened is None or self._progress.created or self._opened.is_of(log.facts.identity):
            return self._progress.known
        return self._opened

    def _remember(self, lookup: DefinitionLookup) -> None:
        """Let what the tables are be known from here on, even if nothing is read before they are altered."""
        position = self._progress.known
        if position.is_of(self._progress.server):
            lookup.begin(position)
            self._definitions.read_to(position)

    def _pump(
        self,
        start: FromOffset,
        stream: BinlogStream,
        check: Callable[[], None],
        lookup: DefinitionLookup,
        log: ServerLog,
    ) -> None:
        """Hand over the chunks of a stream, until the stream ends or a better stream follows."""
        for item in stream:
            self._back_off.reset()
            check()
            self._hosts.reached(self._address)
            caught_up = isinstance(item, CaughtUp)
            if isinstance(item, CaughtUp):
                self._caught_up(item, stream, lookup)
            else:
                self._hand_over(item, stream)
            if start.knows(stream.file_offset):
                try:
                    lookup.between(idle=caught_up)
                except DataError as error:
                    raise stream.located(error) from error
            if self._stopped.is_set() or self._dumps.better(
                self._progress.again, log, caught_up=caught_up, prepared=stream.prepared
            ):
                return

    def _caught_up(self, item: CaughtUp, stream: BinlogStream, lookup: DefinitionLookup) -> None:
        self._note_created(stream)
        # It may be smaller than the one before, if the source's clock was set back. The merger knows what it
        # has emitted, and handles that.
        moved = self._progress.move(stream)
        if moved is not None:
            self._definitions.read_to(moved)
            # First: a low watermark holds for all that was stored before it.
            self._listener.reached(moved)
        self._listener.caught_up(item.frontier_us)
        # The offset of a stream by GTID is known only now.
        if stream.file_offset is not None:
            self._remember(lookup)

    def _hand_over(self, item: Chunk, stream: BinlogStream) -> None:
        # A source that is never idle yields no low watermark; measure its clock nevertheless.
        stream.keep_time()
        self._note_created(stream)
        self._listener.chunk_read(item)
        position = self._progress.handed_over(item)
        self._definitions.read_to(position)
        self._listener.reached(position)

    def _note_created(self, stream: BinlogStream) -> None:
        """Note the files that were read before something of them is stored: an idle stream stores pages."""
        self._progress.created |= stream.created
        self._dumps.reading(self._progress.created)

    def _measure(self, control: pymysql.Connection[Any], withheld: Withheld) -> SourceClock:
        withheld.ask(control)
        self._clock = clock_of(self._address, control)
        return self._clock
