"""Binlog stream: one connection that dumps one shard's binlog from a position on.

The fast path reads everything that has arrived in one call. Only events that it does not handle are read one
by one.

The stream yields chunks, and low watermarks when it has caught up (see `low_watermarks`). It does not
reconnect: the stream ends with its connection, and the next stream reads again what was not yielded.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping

from binlog.columns.read_counts import ReadCounts
from binlog.columns.table_lookup import TableLookup
from binlog.formats.event_types import EventType
from binlog.formats.events import CHECKSUM_NONE, MAGIC, parse_header
from binlog.grammar.binlog_decoder import BinlogDecoder
from binlog.grammar.chunk_builder import ChunkBuilder, Limits
from binlog.grammar.reading import Reading
from binlog.grammar.skips import Skips
from binlog.grammar.tables import Select
from binlog.server.clock import STALE_US, SourceClock
from binlog.server.dump.dump_connection import DumpConnection
from binlog.server.dump.dump_request import OFFSET_MAX, DumpRequest, dump_after, dump_from
from binlog.server.dump_server.attachment import Attachment
from binlog.server.dump_server.wire import idle_moment_us, is_notice
from binlog.server.low_watermarks import CaughtUp, LowWatermarks
from binlog.server.packets import PacketReader
from binlog.server.semi_sync.replies import Replies, Ring
from binlog.server.semi_sync.wake import Wake
from binlog.server.source import SourceAddress, server_error
from binlog.server.starts.start import explained_by_gtid, oldest_file, require_contained
from merge.errors import DataError, Detail, PositionPurged, PositionRefused, SourceUnavailable
from merge.values.chunk import Chunk
from merge.values.header import Flag, origin_of
from merge.values.position import Position

_OK, _EOF, _ERROR = 0x00, 0xFE, 0xFF
#: shortest time between two chunks of a source that writes steadily, seconds: a chunk costs as much as
#: hundreds of rows. What arrives after a pause is yielded at once
LINGER_S = 0.01


class BinlogStream:
    """One dump connection. Iterate it once; `interrupt` ends it from another thread.

    Args:
        address: the source.
        start: where to begin: at the beginning of a transaction, or after some of its rows.
        select: which tables to decode, under which name.
        limits: when a chunk is full.
        server: identity of the server that must answer: the one of the control connection, on which `start`
            was checked and the clock is measured. One address may lead to several servers. Empty: any server.
        measure: measures the source's clock; called at the beginning, and whenever the last measurement is
            old.
        margin_us: see `LowWatermarks`.
        lead_in: file and offset of an earlier event at which the dump begins, to learn which XA transactions
            are prepared at `start`, or not to reply to what is before it; None: the dump begins at `start`.
        by_gtid: whether to request what is not in the start's GTID set, wherever the source has it; `start`
            may then be a position of any server.
        lookup: answers what table maps do not say about columns; None: nothing does.
        verbatim: whether statements that cannot be followed are passed on as text, or refused; see
            `binlog.grammar.statements`.
        ring: where the owner stores what the stream yields; needed if the address says that the source gets
            its replies when that is freed.
        original_times: whether commit times are those of the servers that committed first, as far as the
            source writes them, and transactions without GTID name these servers; see `origin_source`. They
            always are if the address says so.
        withheld_us: returns by how much low watermarks are lowered, see `LowWatermarks`.
        dump_server: sends what follows `start` for the source, and is closed with the stream; None: the
            source does. Without `lead_in`, `by_gtid` and semi-synchronous replication only.
        skips: the events to leave out; None: none.

    Raises:
        SourceUnavailable: the source does not answer, another server does, or it lags behind `start`.
        SourceUnfit: it denies access, or by GTID it has nothing in common with `start`.
    """

    def __init__(
        self,
        address: SourceAddress,
        start: Position,
        select: Select,
        limits: Limits,
        measure: Callable[[], SourceClock],
        *,
        margin_us: int,
        server: str = "",
        lead_in: tuple[str, int] | None = None,
        by_gtid: bool = False,
        lookup: TableLookup | None = None,
        verbatim: bool = False,
        ring: Ring | None = None,
        original_times: bool = False,
        withheld_us: Callable[[], int] = lambda: 0,
        dump_server: Attachment | None = None,
        skips: Skips | None = None,
    ) -> None:
        self._address = address
        self._start = start
        self._by_gtid = by_gtid
        # By GTID the source says which file it begins with; until then the position is unknown.
        place = Position("", len(MAGIC), rows_into_transaction=start.rows_into_transaction)
        self._place = place if by_gtid else start
        self._dump_at = _dump_at(self._place, lead_in) if dump_server is None else (start.file, start.offset)
        self._builder = ChunkBuilder(limits)
        self._builder.fast_path.original = original_times or address.commit_times.original
        #: when the last chunk was taken, `time.monotonic`
        self._flushed_s = 0.0
        self._measure = measure
        self._withheld_us = withheld_us
        self._wake: Wake | None = None
        self._dump_server = dump_server
        self._connection: DumpConnection | None = None
        try:
            self._low_watermarks = LowWatermarks(measure(), margin_us)
            if dump_server is None:
                self._connection = DumpConnection(address)
            checksum = CHECKSUM_NONE if self._connection is None else self._prepare(self._connection, server)
            self._decoder = BinlogDecoder(
                address.name,
                self._place,
                select,
                self._builder,
                checksum=checksum,
                lookup=lookup,
                verbatim=verbatim,
                skips=skips,
            )
            self._decoder.file, self._decoder.offset = self._dump_at
            self._packets = self._dump(ring) if dump_server is None else dump_server.packets
            waits = address.semi_sync == "cursor"
            self._replies = Replies(self._packets, ring if waits else None)
            if self._connection is not None and start.server == self._connection.facts.identity:
                self._replies.owe(start.file, start.offset)
        except BaseException:
            self.close()
            raise

    @property
    def clock(self) -> SourceClock:
        """The last measurement of the source's clock."""
        return self._low_watermarks.clock

    @property
    def reading_at(self) -> tuple[str, int, int]:
        """File, beginning of the open transaction, and end of the event that is being read."""
        return self._decoder.file, self._decoder.begun_at, self._decoder.offset

    @property
    def reading(self) -> Reading:
        """Which event is being read, see `BinlogDecoder.reading`."""
        return self._decoder.reading

    @property
    def place(self) -> tuple[str, int] | None:
        """File and offset that the source has been read up to.

        None inside a transaction, before the start, or while a chunk is open. Ask for it between two items.
        Everything before it was yielded, or is not wanted.
        """
        decoder = self._decoder
        if decoder.in_transaction or not decoder.passed_start or self._builder.gathers:
            return None
        return decoder.file, decoder.offset

    @property
    def created(self) -> Mapping[str, int]:
        """Creation times of the files that the dump went through, see `BinlogDecoder.created`."""
        return self._decoder.created

    @property
    def whole_seconds(self) -> bool:
        """Whether the source stamps commits in whole seconds."""
        return self._decoder.whole_seconds

    @property
    def shares_dump(self) -> bool:
        """Whether a dump server sends the stream."""
        return self._dump_server is not None

    @property
    def prepared(self) -> int:
        """How many XA transactions are prepared: a stream that begins now would not have their rows."""
        return self._decoder.prepared

    def begin(self) -> None:
        """Read up to the format description of the file that the dump begins in.

        Raises:
            As the iteration.
        """
        while not self._decoder.described:
            packet = self._packets.take()
            if packet is None:
                self._fill()
            elif self._dump_server is None or not is_notice(packet):
                self._decoder.feed(self._event(packet))

    def keep_time(self) -> None:
        """Measure the source's clock if the last measurement is old.

        Raises:
            SourceUnavailable: the source does not answer.
        """
        if self._low_watermarks.clock.stale:
            self._low_watermarks.clock = self._measure()

    @property
    def counts(self) -> ReadCounts:
        """What was read since the stream began."""
        return ReadCounts.of(self._packets.read_bytes, self._builder.losses)

    def _prepare(self, connection: DumpConnection, server: str) -> int:
        """Register after checking that the server is `server` and has all that was read before.

        Returns:
            The checksum of the events before the first format description.
        """
        address, facts = self._address, connection.facts
        if server not in ("", facts.identity):
            raise SourceUnavailable(
                f"Two servers answer for shard {address.name} at {address}: {server} on the first "
                f"connection, {facts.identity} on the second. A binlog must be read from one server. This "
                "ends by itself after a failover; a load balancer in front of the source must keep to one "
                "server.",
                shard=address.name,
            )
        if self._by_gtid:
            require_contained(address, connection.connection, facts, self._start)
        return connection.register()

    def _dump(self, ring: Ring | None) -> PacketReader:
        """Request the dump; the decoder skips what comes before `start`."""
        assert self._connection is not None, "no dump server serves the stream"
        if self._address.semi_sync == "cursor":
            assert ring is not None, "replies that wait for cursors need the ring"
            self._wake = Wake()
            ring.on_free(self._wake.set)
        return self._connection.request(self._request(), self._wake)

    def _request(self) -> DumpRequest:
        if self._by_gtid:
            return dump_after(self._start.gtid_set, self._address.server_id)
        return dump_from(*self._dump_at, self._address.server_id)

    def __iter__(self) -> Iterator[Chunk | CaughtUp]:
        """Yield chunks and low watermarks until the connection ends.

        Raises:
            SourceUnavailable: the connection ended.
            PositionPurged, CorruptEvent, UnsupportedEvent, DataError: see `BinlogDecoder`.
        """
        packets, decoder = self._packets, self._decoder
        while True:
            decoder.run(packets.buffer)
            packet = packets.take()
            if packet is not None:
                if self._dump_server is not None and is_notice(packet):
                    yield from self._noticed(packet)
                    continue
                event = self._event(packet)
                event_type = yield from self._read(event)
                if event_type in (EventType.HEARTBEAT, EventType.HEARTBEAT_V2) and self._stands_at(event):
                    yield from self._low_watermark()
                continue
            if not decoder.in_transaction and not packets.readable(self._linger_s()):
                # Nothing more has arrived: yield what is complete. (The rest of an open transaction is on its
                # way, so no chunk is closed inside one.)
                yield from self._flush()
                if packets.empty and self._dump_server is None:
                    moment_us = self.clock.now_us()
                    # Bytes may have arrived while the chunk was handed over: only an empty socket counts.
                    if not packets.readable():
                        self._low_watermarks.found_empty(moment_us)
            if decoder.described:  # the source has accepted the request
                self._replies.freed()
            self._fill()

    def located(self, error: DataError) -> DataError:
        """Return an error that was raised between two items, with shard, file and offset."""
        return self._decoder.located(error, "what was read before")

    def _noticed(self, notice: bytes) -> Iterator[Chunk | CaughtUp]:
        """Take the dump server's word for how far its source has been read, see `binlog.dump_window.idle`.

        What is known of the source, such as whether it replicates, may not hold for an old moment: a reader
        that is behind takes a later one.
        """
        moment_us = idle_moment_us(notice)
        if moment_us is not None and self.clock.now_us() - moment_us <= STALE_US:
            self._low_watermarks.found_empty(moment_us)
            yield from self._low_watermark()

    def _fill(self) -> None:
        """Wait for bytes and take them in."""
        try:
            self._packets.fill()
        except SourceUnavailable as error:
            raise self._unavailable(error.message) from error
        except DataError as error:
            raise self._decoder.located(error, "the event after") from error

    def _read(self, event: bytes) -> Generator[Chunk, None, int]:
        """Read one event, yield the chunks it fills, and return its type.

        Raises:
            DataError: it cannot be read; every whole transaction before it was yielded.
        """
        decoder, builder = self._decoder, self._builder
        try:
            event_type = decoder.feed(event)
            if builder.full:
                yield from self._flush()
            while decoder.go_on():
                if builder.full:
                    yield from self._flush()
        except DataError:
            if builder.in_transaction:
                builder.discard()
            yield from self._flush()
            raise
        return event_type

    def _stands_at(self, heartbeat: bytes) -> bool:
        """Return whether the source has sent all it had; if it skipped something, move to its offset."""
        if not self._by_gtid or self._decoder.in_transaction:
            return True
        passed_over = (parse_header(heartbeat).log_pos - self._decoder.offset) % (1 << 32)
        self._decoder.offset += passed_over
        return not passed_over

    def _event(self, packet: bytes) -> bytes:
        if not packet:
            raise self._unavailable("The source sent an empty packet.")
        mark = packet[0]
        if mark == _OK:
            return packet[1:]
        if mark == _EOF:
            raise self._unavailable("The source ended the stream.")
        if self._dump_server is not None:
            raise self._unavailable(f"The dump server ended: {packet[1:].decode('utf-8', 'replace')}")
        code = int.from_bytes(packet[1:3], "little")
        text = packet[9:] if packet[3:4] == b"#" else packet[3:]
        error = server_error(self._address, code, text.decode("utf-8", "replace"))
        if isinstance(error, DataError):
            raise self._explained(error) from None
        raise error

    def _unavailable(self, message: str) -> SourceUnavailable:
        return SourceUnavailable(f"{message} (shard {self._address.name})", shard=self._address.name)

    def _explained(self, error: DataError) -> DataError:
        """Return a refusal with the position that was refused; if purged, also with the oldest file."""
        place: dict[str, Detail] = {
            **error.details,
            "file": self._start.file,
            "offset": self._start.offset,
        }
        message = f"{error.message} The position is {self._start}."
        if self._by_gtid:
            return explained_by_gtid(self._address, error, self._start, place)
        if not isinstance(error, PositionPurged):
            refused = PositionRefused if type(error) is DataError else type(error)
            return refused(message, hint=error.hint, **place)
        oldest = oldest_file(self._address)
        return PositionPurged(
            f"{message} The oldest file available is {oldest or 'unknown'}.",
            hint="Load the tables again, or start at a later position and accept that changes are missing.",
            **{**place, "oldest_file": oldest},
        )

    def _flush(self) -> Iterator[Chunk]:
        chunk = self._decoder.close_chunk()
        if chunk is not None:
            yield chunk
            self._flushed_s = time.monotonic()
        decoder = self._decoder
        if decoder.passed_start:
            self._replies.handed_over(decoder.file, decoder.begun_at, all_read=not decoder.in_transaction)

    def _linger_s(self) -> float:
        """Return how long to wait for more events before a complete chunk is yielded, seconds.

        A COMMIT that waits for a reply is not held longer for a fuller chunk.
        """
        if self._replies.asked:
            return 0.0
        return max(0.0, self._flushed_s + LINGER_S - time.monotonic())

    def _low_watermark(self) -> Iterator[Chunk | CaughtUp]:
        if self._decoder.in_transaction:
            return
        # Measure before making the low watermark: an old measurement may be wrong by now.
        self.keep_time()
        low_watermark = self._low_watermarks.make(
            whole_seconds=self._decoder.whole_seconds, withheld_us=self._withheld_us()
        )
        if low_watermark is not None:
            yield from self._flush()
            yield low_watermark

    def interrupt(self) -> None:
        """End the connection from any thread; the iteration raises SourceUnavailable."""
        self._packets.interrupt()

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
        if self._dump_server is not None:
            self._dump_server.close()
        if self._wake is not None:
            self._wake.close()


def _dump_at(start: Position, lead_in: tuple[str, int] | None) -> tuple[str, int]:
    """Return the file and offset to request.

    An offset beyond 4 GiB cannot be requested; the dump then begins at the beginning of the file.
    """
    file, offset = lead_in or (start.file, start.offset)
    return file, offset if offset <= OFFSET_MAX else len(MAGIC)


def resume_after(chunk: Chunk) -> Position:
    """Return where a stream continues after a chunk: after its last transaction, or after rows of it."""
    last = chunk.headers[-1]
    file = chunk.names[int(last["file"])]
    if int(last["flags"]) & Flag.END:
        origin_id = origin_of(chunk.names[int(last["gtid_source"])], int(last["gtid_number"]))
        return Position(file, int(last["end_offset"]), commit_us=int(last["commit_us"]), origin_id=origin_id)
    return Position(file, int(last["begin_offset"]), rows_into_transaction=int(last["row_end"]))
