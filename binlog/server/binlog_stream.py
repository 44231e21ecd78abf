"""Binlog stream: one connection that dumps one shard's binlog from a position on.

The fast path reads everything that has arrived in one call. Only events that it does not handle are read one
by one.

The stream yields chunks, and low watermarks when it has caught up (see `low_watermarks`). It does not
reconnect: the stream ends with its connection, and the next stream reads again what was not yielded.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from canal_group.binlog.columns.read_counts import ReadCounts
from canal_group.binlog.grammar.decoding import Decoding
from canal_group.binlog.grammar.reading import Reading
from canal_group.binlog.server.clock import SourceClock
from canal_group.binlog.server.dump.archive_first import search_packets
from canal_group.binlog.server.dump.packet_source import PacketSource
from canal_group.binlog.server.low_watermarks import CaughtUp, LowWatermarks
from canal_group.binlog.server.semi_sync.replies import NO_REPLIES, NoReplies
from canal_group.binlog.server.source import SourceAddress
from canal_group.binlog.server.starts.stream_start import FromOffset
from canal_group.merge.errors import DataError, SourceUnavailable
from canal_group.merge.values.chunk import Chunk
from canal_group.merge.values.header import Flag, origin_of
from canal_group.merge.values.position import Position

#: shortest time between two chunks of a source that writes steadily, seconds: a chunk costs as much as
#: hundreds of rows. What arrives after a pause is yielded at once
LINGER_S = 0.01
#: longest time between two chunks of a source that never pauses, seconds: its connection is never empty
BUSY_CHUNK_S = 0.1
#: transactions of a chunk after which the next one is not read as it arrives: a source that writes more fills
#: its connection meanwhile, and waits
SPARSE_HEADERS_MAX = 64


class BinlogStream:
    """The decoded events of one packet source, which is closed with it. Iterate it once.

    Args:
        shard: name for errors.
        packets: where events come from.
        decoding: which tables to decode, and how.
        low_watermarks: makes those of the stream.
        replies: what the source is told of what was handed over.
        linger_s: see `LINGER_S`.
    """

    def __init__(
        self,
        shard: str,
        packets: PacketSource,
        decoding: Decoding,
        low_watermarks: LowWatermarks,
        replies: NoReplies = NO_REPLIES,
        *,
        linger_s: float = LINGER_S,
    ) -> None:
        self._shard = shard
        self._pause_s = linger_s
        self._packets = packets
        self._low_watermarks = low_watermarks
        self._replies = replies
        #: when the last chunk was taken, `time.monotonic`
        self._flushed_s = 0.0
        #: when one is yielded although more has arrived, on the same clock
        self._due_s = time.monotonic() + max(BUSY_CHUNK_S, linger_s)
        #: whether that had few transactions
        self._sparse = False
        #: the events that `begin` has read; None: others were read since
        self._opening: list[bytes] | None = []
        self._decoder, self._builder = decoding.decoder(shard, packets.start, packets.checksum)
        self._decoder.file, self._decoder.offset = packets.file_offset

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
    def file_offset(self) -> tuple[str, int] | None:
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
    def prepared(self) -> int:
        """How many XA transactions are prepared: a stream that begins now would not have their rows."""
        return self._decoder.prepared

    def begin(self) -> None:
        """Read up to the format description of the file that the events begin in.

        Raises:
            As the iteration.
        """
        while not self._decoder.described:
            event = self._packets.take()
            if event is None:
                self._fill()
            elif event:
                self._decoder.feed(event)
                if self._opening is not None:
                    self._opening.append(event)

    def ahead(self) -> PacketSource | None:
        """Return a source of what this stream will read, to be read before it, see `PacketSource`.

        None if there is none, or if the stream is being read.
        """
        return None if self._opening is None else self._packets.ahead(self._opening)

    def keep_time(self) -> None:
        """Measure the source's clock if the last measurement is old.

        Raises:
            SourceUnavailable: the source does not answer.
        """
        self._low_watermarks.keep_time()

    @property
    def counts(self) -> ReadCounts:
        """What was read since the stream began."""
        return ReadCounts.of(self._packets.read_bytes, self._builder.losses)

    def __iter__(self) -> Iterator[Chunk | CaughtUp]:
        """Yield chunks and low watermarks until the events end.

        Raises:
            SourceUnavailable: the connection ended.
            PositionPurged, CorruptEvent, UnsupportedEvent, DataError: see `BinlogDecoder`.
        """
        packets, decoder, self._opening = self._packets, self._decoder, None
        while True:
            decoder.run(packets.buffer)
            event = packets.take()
            if event is not None:
                if event:
                    yield from self._read(event)
                moment_us = packets.idle_us(event, decoder)
                if moment_us is not None:
                    yield from self._low_watermark(moment_us)
                continue
            if not decoder.in_transaction and not packets.readable(self._linger_s()):
                # Nothing more has arrived: yield the complete transactions. (The rest of an open transaction
                # is on the way, so no chunk is closed inside a transaction.)
                yield from self._flush()
                # Bytes may have arrived while the chunk was handed over.
                packets.note_empty()
                if self._sparse:
                    # What arrives until the next chunk may be yielded is read at once: to wake up for each
                    # event costs as much as tens of rows.
                    packets.let_arrive(self._linger_s())
            elif self._overdue:
                yield from self._flush()
            if decoder.described:  # the source has accepted the request
                self._replies.freed()
            self._fill()

    def located(self, error: DataError) -> DataError:
        """Return an error that was raised between two items, with shard, file and offset."""
        return self._decoder.located(error, "what was read before")

    def _fill(self) -> None:
        try:
            self._packets.fill()
        except SourceUnavailable as error:
            raise SourceUnavailable(f"{error.message} (shard {self._shard})", shard=self._shard) from error
        except DataError as error:
            raise self._decoder.located(error, "the event after") from error

    def _read(self, event: bytes) -> Iterator[Chunk]:
        """Read one event, and yield the chunks it fills.

        Raises:
            DataError: it cannot be read; every whole transaction before it was yielded.
        """
        decoder, builder = self._decoder, self._builder
        try:
            decoder.feed(event)
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

    def _flush(self) -> Iterator[Chunk]:
        chunk = self._decoder.close_chunk()
        if chunk is not None:
            self._sparse = len(chunk.headers) <= SPARSE_HEADERS_MAX
            yield chunk
            self._flushed_s = time.monotonic()
            self._due_s = self._flushed_s + max(BUSY_CHUNK_S, self._pause_s)
        decoder = self._decoder
        if decoder.passed_start:
            self._replies.handed_over(decoder.file, decoder.begun_at, all_read=not decoder.in_transaction)

    @property
    def _overdue(self) -> bool:
        """Whether a chunk is yielded although more has arrived."""
        return not self._decoder.in_transaction and time.monotonic() > self._due_s

    def _linger_s(self) -> float:
        """Return how long to wait for more events before a complete chunk is yielded, seconds.

        A COMMIT that waits for a reply is not held longer for a fuller chunk.
        """
        if self._replies.asked:
            return 0.0
        return max(0.0, self._flushed_s + self._pause_s - time.monotonic())

    def _low_watermark(self, moment_us: int) -> Iterator[Chunk | CaughtUp]:
        """Yield the low watermark that a moment proves, and what was read before it."""
        if self._decoder.in_transaction:
            return
        # Measure before making the low watermark: an old measurement may be wrong by now.
        self.keep_time()
        low_watermark = self._low_watermarks.make(moment_us, whole_seconds=self._decoder.whole_seconds)
        if low_watermark is not None:
            yield from self._flush()
            yield low_watermark

    def interrupt(self) -> None:
        """End the connection from any thread; the iteration raises SourceUnavailable."""
        self._packets.interrupt()

    def close(self) -> None:
        """Close the connection."""
        self._packets.close()


def stream_of(
    address: SourceAddress,
    start: FromOffset,
    decoding: Decoding,
    measure: Callable[[], SourceClock],
    *,
    server: str = "",
    until: tuple[str, int] | None = None,
) -> BinlogStream:
    """Return a stream for a search, over the archive and a dump of its own, which never replies.

    Its low watermarks say that the source has no more, and not of which time.

    Args:
        address: the source.
        start: where to begin.
        decoding: which tables to decode, and how; commit times are original ones if the address says so.
        measure: see `LowWatermarks`.
        server: see `open_dump`; empty: the archive is not read.
        until: file and offset up to which is read, which the source has; None: not known.

    Raises:
        SourceUnavailable, SourceUnfit: see `open_dump`.
    """
    if address.commit_times.original:
        decoding = replace(decoding, original_times=True)
    low_watermarks = LowWatermarks(measure, margin_us=0)
    packets = search_packets(address, start, server, until)
    return BinlogStream(address.name, packets, decoding, low_watermarks)


def resume_after(chunk: Chunk) -> Position:
    """Return where a stream continues after a chunk: after its last transaction, or after rows of it."""
    last = chunk.headers[-1]
    file = chunk.names[int(last["file"])]
    if int(last["flags"]) & Flag.END:
        origin_id = origin_of(chunk.names[int(last["gtid_source"])], int(last["gtid_number"]))
        return Position(file, int(last["end_offset"]), commit_us=int(last["commit_us"]), origin_id=origin_id)
    return Position(file, int(last["begin_offset"]), rows_into_transaction=int(last["row_end"]))
