"""Binlog stream: one connection that dumps one shard's binlog from a position on.

What has arrived is offered to the fast path, all at once, and only what is not usual there is read event by
event.

The stream yields chunks, and promises when it has caught up (see `low_watermarks`). It does not reconnect:
when the connection ends, so does the stream, and what was not yielded is read again by the next one.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any

import pymysql

from actors.parse.columns.columns import Losses
from actors.parse.columns.table_lookup import TableLookup
from actors.parse.formats.event_types import EventType
from actors.parse.formats.events import CHECKSUM_CRC32, CHECKSUM_NONE, MAGIC, parse_header
from actors.parse.grammar.binlog_decoder import BinlogDecoder
from actors.parse.grammar.chunk_builder import ChunkBuilder, Limits
from actors.parse.grammar.tables import Select
from actors.parse.server.clock import SourceClock
from actors.parse.server.dump_request import DumpRequest, dump_behind, dump_from, session
from actors.parse.server.low_watermarks import MARGIN_US, CaughtUp, LowWatermarks
from actors.parse.server.packets import PacketReader
from actors.parse.server.preflight import register
from actors.parse.server.source import (
    ServerFacts,
    SourceAddress,
    connect,
    query,
    server_error,
    server_facts,
    translated,
)
from actors.parse.server.start import explained_by_gtid, oldest_file, require_contained
from merge.errors import DataError, Detail, PositionPurged, PositionRefused, SourceUnavailable
from merge.values.chunk import Chunk
from merge.values.header import Flag
from merge.values.position import Position

_OK, _EOF, _ERROR = 0x00, 0xFE, 0xFF
#: a dump is asked for with an offset of 32 bits
_OFFSET_MAX = (1 << 32) - 1
#: chunks of a source that writes steadily go out so often at most, seconds: one costs as much as hundreds of
#: rows. What comes after a pause goes out at once
LINGER_S = 0.01


class BinlogStream:
    """One dump connection. Iterate it once; `interrupt` ends it from another thread.

    Args:
        address: the source.
        start: where to begin: a transaction's beginning, or rows into it.
        select: which tables to decode, under which name.
        limits: when a chunk is full.
        server: identity of the server that must answer: that of the control connection, by which `start` was
            judged and the clock is measured. Behind one address there may be several. Empty: anyone may.
        measure: measures the source's clock; called at the beginning, and whenever the last measurement is
            old.
        margin_us: see `LowWatermarks`.
        lead_in: the file whose beginning the dump begins at, to learn which XA transactions stand prepared at
            `start`; None: at `start`.
        by_gtid: whether to ask for what is not in the start's GTID set, wherever the source has it; `start`
            is then a place of any server.
        lookup: who is asked what the columns are that MariaDB's table maps leave open; None: they stay bytes.

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
        server: str = "",
        margin_us: int = MARGIN_US,
        lead_in: str | None = None,
        by_gtid: bool = False,
        lookup: TableLookup | None = None,
    ) -> None:
        self._address = address
        self._start = start
        self._by_gtid = by_gtid
        # By GTID the source says which file it begins with: the place is not known before.
        place = Position("", len(MAGIC), rows_into_transaction=start.rows_into_transaction)
        self._place = place if by_gtid else start
        self._dump_at = _dump_at(self._place, lead_in)
        self._builder = ChunkBuilder(limits)
        #: when the last chunk was taken, `time.monotonic`
        self._flushed_s = 0.0
        self._measure = measure
        self._low_watermarks = LowWatermarks(measure(), margin_us)
        self._connection = connect(address)
        try:
            facts = self._require(server)
            checksum = self._prepare(facts)
            self._decoder = BinlogDecoder(
                address.name, self._place, select, self._builder, checksum=checksum, lookup=lookup
            )
            self._packets = self._dump()
        except BaseException:
            self.close()
            raise

    @property
    def clock(self) -> SourceClock:
        """The source's clock, as it was measured last."""
        return self._low_watermarks.clock

    @property
    def place(self) -> tuple[str, int] | None:
        """File and offset that the source has been read up to; None: it stands inside what is not whole.

        To be asked between two items. What is before it was yielded, or is not wanted.
        """
        decoder = self._decoder
        if decoder.in_transaction or not decoder.passed_start or self._builder.gathers:
            return None
        return decoder.file, decoder.offset

    @property
    def created(self) -> Mapping[str, int]:
        """When the files were created that the dump went through, see `BinlogDecoder.created`."""
        return self._decoder.created

    def begin(self) -> None:
        """Read up to the description of the file that the dump begins in.

        Raises:
            As the iteration.
        """
        while not self._decoder.described:
            packet = self._packets.take()
            if packet is None:
                self._fill()
            else:
                self._decoder.feed(self._event(packet))

    def keep_time(self) -> None:
        """Measure the source's clock if the last measurement is old.

        Raises:
            SourceUnavailable: the source does not answer.
        """
        if self._low_watermarks.clock.stale:
            self._low_watermarks.clock = self._measure()

    @property
    def losses(self) -> Losses:
        """What could not be handed on as it was, since the stream began."""
        return self._builder.losses

    def _require(self, server: str) -> ServerFacts:
        """Ask who is at the other end, and whether it has all that was read before the start."""
        address = self._address
        facts = server_facts(address, self._connection)
        if server not in ("", facts.identity):
            raise SourceUnavailable(
                f"Two servers answer for shard {address.name} at {address}: {server} to the first "
                f"connection, {facts.identity} to the second, and a binlog is read from one. This passes "
                "when one has just taken over; a balancer in front of the source has to keep to one server.",
                shard=address.name,
            )
        if self._by_gtid:
            require_contained(address, self._connection, facts, self._start)
        return facts

    def _prepare(self, facts: ServerFacts) -> int:
        address, connection = self._address, self._connection
        for assignments in session(address.heartbeat_ms):
            query(address, connection, f"SET {assignments}")
        with translated(address):
            register(connection, address)
        none = facts.variables.get("binlog_checksum", "NONE").upper() == "NONE"
        return CHECKSUM_NONE if none else CHECKSUM_CRC32

    def _dump(self) -> PacketReader:
        """Ask for the dump; what comes before `start` the decoder passes over."""
        self._decoder.file, self._decoder.offset = self._dump_at
        request = self._request()
        for assignment in request.session:
            query(self._address, self._connection, f"SET {assignment}")
        driver: Any = self._connection
        with translated(self._address):
            driver._execute_command(request.command, request.payload)  # noqa: SLF001 - no public way
        return PacketReader(driver._sock, self._address.read_timeout_s)  # noqa: SLF001

    def _request(self) -> DumpRequest:
        if self._by_gtid:
            return dump_behind(self._start.gtid_set, self._address.server_id)
        return dump_from(*self._dump_at, self._address.server_id)

    def __iter__(self) -> Iterator[Chunk | CaughtUp]:
        """Yield chunks and promises until the connection ends.

        Raises:
            SourceUnavailable: the connection ended.
            PositionPurged, CorruptEvent, UnsupportedEvent, DataError: see `BinlogDecoder`.
        """
        packets, decoder = self._packets, self._decoder
        while True:
            decoder.run(packets.buffer)
            packet = packets.take()
            if packet is not None:
                event = self._event(packet)
                event_type = yield from self._read(event)
                if event_type in (EventType.HEARTBEAT, EventType.HEARTBEAT_V2) and self._stands_at(event):
                    yield from self._low_watermark()
                continue
            if not decoder.in_transaction and not packets.readable(self._linger_s()):
                # Nothing more is here: what is complete goes out now. The rest of an open transaction is on
                # its way.
                yield from self._flush()
                if packets.empty:
                    moment_us = self.clock.now_us()
                    # Bytes may have come while the chunk was handed over: only an empty socket counts.
                    if not packets.readable():
                        self._low_watermarks.found_empty(moment_us)
            self._fill()

    def _fill(self) -> None:
        """Wait for bytes and take them in."""
        try:
            self._packets.fill()
        except SourceUnavailable as error:
            raise self._unavailable(error.message) from error
        except DataError as error:
            raise self._decoder.located(error, "the event behind") from error

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
        """Return whether the source has sent all that it had; go where it is, if it passed something over."""
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
        code = int.from_bytes(packet[1:3], "little")
        text = packet[9:] if packet[3:4] == b"#" else packet[3:]
        error = server_error(self._address, code, text.decode("utf-8", "replace"))
        if isinstance(error, DataError):
            raise self._explained(error) from None
        raise error

    def _unavailable(self, message: str) -> SourceUnavailable:
        return SourceUnavailable(f"{message} (shard {self._address.name})", shard=self._address.name)

    def _explained(self, error: DataError) -> DataError:
        """Return a refusal with the position refused, and for a purged one the oldest file there is."""
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
            hint="Load the tables anew, or start at a later position knowing that changes are missing.",
            **{**place, "oldest_file": oldest},
        )

    def _flush(self) -> Iterator[Chunk]:
        chunk = self._decoder.close_chunk()
        if chunk is not None:
            yield chunk
            self._flushed_s = time.monotonic()

    def _linger_s(self) -> float:
        """Return for how long more is waited for before what is complete goes out, seconds."""
        return max(0.0, self._flushed_s + LINGER_S - time.monotonic())

    def _low_watermark(self) -> Iterator[Chunk | CaughtUp]:
        if self._decoder.in_transaction:
            return
        # Before it promises, not after: what an old measurement says may be false by now.
        self.keep_time()
        low_watermark = self._low_watermarks.make(whole_seconds=self._decoder.whole_seconds)
        if low_watermark is not None:
            yield from self._flush()
            yield low_watermark

    def interrupt(self) -> None:
        """End the connection from any thread; the iteration raises SourceUnavailable."""
        self._packets.interrupt()

    def close(self) -> None:
        """Close the connection."""
        driver: Any = self._connection
        with contextlib.suppress(pymysql.Error, OSError):
            driver._force_close()  # noqa: SLF001 - a dump connection takes no COM_QUIT


def _dump_at(start: Position, lead_in: str | None) -> tuple[str, int]:
    """Return the file and offset to ask for.

    A place beyond 4 GiB cannot be asked for: its file's beginning is.
    """
    if lead_in is not None or start.offset > _OFFSET_MAX:
        return lead_in or start.file, len(MAGIC)
    return start.file, start.offset


def resume_after(chunk: Chunk) -> Position:
    """Return where a stream goes on after a chunk: behind its last transaction, or rows into it."""
    last = chunk.headers[-1]
    file = chunk.names[int(last["file"])]
    if int(last["flags"]) & Flag.END:
        return Position(file, int(last["end_offset"]), commit_us=int(last["commit_us"]))
    return Position(file, int(last["begin_offset"]), rows_into_transaction=int(last["row_end"]))
