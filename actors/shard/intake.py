"""The intake of a shard: one reader thread that fills one ring.

An intake lives until the group asks for another position. It survives connection losses, because its reader
reconnects. At data that it cannot process it stops, reports the error, and retries the same position after a
while, because an operator may have repaired the source. If another server answers, the intake ends: the shard
is opened again, at a position that the new server has.
"""

from __future__ import annotations

import logging
import shlex
import traceback
from collections.abc import Callable
from enum import StrEnum
from typing import Any

import numpy as np
import pyarrow as pa

from canal_group.actors.ports import Host
from canal_group.actors.process.host import OS_HOST
from canal_group.actors.shard.intervals import INTERVALS
from canal_group.actors.shard.shard_counters import ShardCounters
from canal_group.actors.snapshot.lane_snapshot import LaneSnapshot, SnapshotParts
from canal_group.actors.store.ring import RingStore
from canal_group.binlog.grammar.reading import Reading
from canal_group.binlog.server.listener import Reader
from canal_group.merge.errors import (
    CanalGroupError,
    DataError,
    PositionRefused,
    RetryableError,
    ShardUnavailable,
)
from canal_group.merge.values.chunk import Chunk, TableName
from canal_group.merge.values.commit_time import END_OF_TIME_US
from canal_group.merge.values.header import Flag, HeaderRun
from canal_group.merge.values.marks.snapshot_mark import OVER
from canal_group.merge.values.position import ANY_SERVER, Position

_log = logging.getLogger(__name__)

#: pause of a shard that stopped at its data before it retries the same position, seconds
RETRY_STOPPED_S = 5.0
#: frames of a traceback that its log line has
_FRAMES_MAX = 8


class IntakeState(StrEnum):
    """State of the reader."""

    CONNECTING = "connecting"
    STREAMING = "streaming"
    #: stopped at data it cannot process
    STOPPED = "stopped"
    #: read to the end: no more rows will come
    FINISHED = "finished"


class Intake:
    """Reads a source from a position on into a ring; the module's docstring says how long one lives.

    Args:
        shard: its name, for the log.
        ring: an empty ring.
        make_reader: makes a reader that reports to the given listener (this intake).
        start: the start position; None: the source's latest position.
        tables: receives the latest columns of each table, by the name that consumers see.
        host: provides the thread on which it reads.
        process: returns the stored part of a chunk; None: all of it.
        counters: of the shard; None: of this intake alone.
        destination: the instance, for the commands that errors name.
        snapshot: the parts of the lane's snapshot; None: the lane has no snapshot.
        slow_s: how long an event is read before `status` names it, seconds.
    """

    def __init__(
        self,
        shard: str,
        ring: RingStore,
        make_reader: Callable[[Intake], Reader],
        start: Position | None,
        tables: dict[TableName, pa.Schema] | None = None,
        host: Host = OS_HOST,
        process: Callable[[Chunk], Chunk] | None = None,
        counters: ShardCounters | None = None,
        *,
        destination: str = "",
        snapshot: SnapshotParts | None = None,
        slow_s: float = INTERVALS.slow_s,
    ) -> None:
        self.ring = ring
        self.state = IntakeState.CONNECTING
        #: why it is not streaming
        self.error: CanalGroupError | None = None
        #: source clock minus local clock, microseconds
        self.skew_us = 0
        self.server_version = ""
        #: row changes and statements stored since the intake was opened
        self.rows = 0
        #: commit time of the last stored transaction
        self.commit_us = 0
        #: why the source has to be opened again; None if it has not
        self.ended: ShardUnavailable | None = None
        self._shard = shard
        self._destination = destination
        self._slow_s = slow_s
        self._tables = {} if tables is None else tables
        self._process = process
        self._counters = ShardCounters() if counters is None else counters
        #: the rules are not made for several threads, and those who read pages apply them, too
        self._applying = host.lock()
        self._snapshot = None if snapshot is None else LaneSnapshot(snapshot, self)
        self._reader = make_reader(self)
        self._start = start
        self._opened: Position | None = None
        self._outcome = host.event()
        self._closing = host.event()
        #: set when a reader that has stopped is to try again at once
        self._retrying = host.event()
        #: the low watermark, and the ring's put cursor when it was reported
        self._low_watermark: tuple[int, int] | None = None
        self._thread = host.start(self._run, f"reader-{shard}")

    # ---- for the shard -------------------------------------------------------------------------------------

    @property
    def server(self) -> str:
        """Identity of the server that is read; empty: not known."""
        return self._reader.server

    def opened(self, position: Position) -> None:
        """Note where the stream begins (the reader calls this)."""
        if self._opened is None:
            self._opened = position
            self._outcome.set()

    def opened_at(self, timeout_s: float) -> Position:
        """Wait until it is known where the stream begins, and return that position.

        Raises:
            DataError: the source cannot be read.
            ShardUnavailable: it is not known within `timeout_s`.
        """
        self._outcome.wait(timeout_s)
        if self._opened is not None:
            return self._opened
        if isinstance(self.error, DataError):
            raise self.error
        why = f": {self.error}" if self.error is not None else "."
        raise ShardUnavailable(f"Shard {self._shard} has not reached its source yet{why}", retry_after_s=0.5)

    def stands_at(self, position: Position) -> bool:
        """Return whether the ring, after a rollback, would begin exactly at `position`.

        A refused position may be of a client that is set aside by now: then the source is asked anew.
        """
        first = self.ring.first_position()
        if first is not None and not position.is_of(self.server):
            return False
        began = None if self._snapshot is None else self._snapshot.begins_with
        text = began if first is None or first.snapshot is None else first.snapshot
        first = first or self._opened
        refused = isinstance(self.error, PositionRefused)
        if first is None or refused or self.ended is not None or self._closing.is_set():
            return False
        over = text is not None and text.startswith(OVER)
        if (None if over else text) != position.snapshot:
            return False
        # Positions that only GTIDs identify may have the same file and offset.
        by_gtid = position.server == ANY_SERVER
        return (first.file, first.offset, first.rows_into_transaction, first.page_rows) == (
            position.file,
            position.offset,
            position.rows_into_transaction,
            position.page_rows,
        ) and not (by_gtid and first.gtid_set != position.gtid_set)

    def source_now_us(self) -> int | None:
        """Return the time of the source's clock, microseconds since 1970 UTC; None if unknown."""
        return self._reader.source_now_us()

    def created(self, run: HeaderRun) -> dict[str, int]:
        """Return the creation times of a run's binlog files, by name, as far as they are known."""
        files = run.headers["file"]
        # A shard's files follow each other: each begins where the index changes.
        first = np.flatnonzero(np.diff(files, prepend=files[:1] + 1))
        names = [run.names[index] for index in files[first].tolist()]
        times = self._reader.created
        return {name: times[name] for name in names if name in times}

    def low_watermark_us(self) -> int | None:
        """Return the low watermark of an idle source, if every header before it was handed out; else None."""
        low_watermark = self._low_watermark
        if low_watermark is None:
            return None
        frontier_us, put = low_watermark
        _, handed_out, stored = self.ring.cursors
        return frontier_us if handed_out == stored == put else None

    @property
    def reading(self) -> Reading | None:
        """Which event is being read, and since when; None: not known."""
        return self._reader.reading

    def wait_stopped(self, timeout_s: float) -> None:
        """Wait this many seconds, or until the intake is closed."""
        self._closing.wait(timeout_s)

    def retry(self) -> None:
        """Let a reader that has stopped at its data try again at once."""
        self._retrying.set()

    def free(self, sequence: int, rollback_generation: int) -> None:
        """Drop what was acknowledged, see `RingStore.ack`, and the pages of a snapshot up to there."""
        self.ring.ack(sequence, rollback_generation)
        if self._snapshot is not None:
            self._snapshot.freed(self.ring.first_position())

    def close(self) -> None:
        """Stop reading and wait until the thread has ended."""
        self._closing.set()
        self._retrying.set()
        self._reader.stop()
        self.ring.close()
        if self._snapshot is not None:
            self._snapshot.close()
        self._thread.join()
        self._counters.ended(self._reader.counts)

    @property
    def held_back(self) -> str | None:
        """Why the archive of the source lacks what was read, which waits for it; None: nothing waits."""
        held = self.ring.first_held
        if held is None:
            return None
        count, file, offset = held
        state = self._reader.archive_state
        if state is None:
            why = "the process that writes it is not reached"
        else:
            has = f"{state['file']}:{state['offset']}" if state.get("file") else "nothing"
            why = state["error"] or state.get("lacks") or f"it has {has}"
        return f"{count} transactions wait until the archive has {file}:{offset}: {why}"

    def describe(self) -> dict[str, Any]:
        """Return the intake's state as a JSON object."""
        latest, reading = self._reader.position or self._opened, self._reader.reading
        return {
            "state": self.state.value,
            "error": str(self.error) if self.error is not None else None,
            "server_version": self.server_version,
            "shares_dump": self._reader.shares_dump,
            "archive": self._reader.archive_state,
            "held_back": self.held_back,
            "reading": str(reading) if reading is not None and reading.for_s >= self._slow_s else None,
            "skew_us": self.skew_us,
            "position": str(latest) if latest is not None else None,
            "gtid_set": str(latest.gtid_set) if latest is not None else "",
            "commit_us": self.commit_us,
            "rows": self.rows,
            "counters": self._counters.describe(self._reader.counts),
            "ring": self.ring.describe(),
            "snapshot": None if self._snapshot is None else self._snapshot.describe(),
        }

    # ---- for the reader ------------------------------------------------------------------------------------

    def chunk_read(self, chunk: Chunk) -> None:
        """Store a chunk; wait while the ring is full, which pauses the reader.

        Raises:
            DataError: its ids or the rules of the filter cannot be applied; nothing was stored.
        """
        stored = self.processed(chunk)
        if self._snapshot is None:
            self.store(stored)
        else:
            self._snapshot.chunk_read(chunk, stored)

    def reached(self, position: Position) -> None:
        """Let pages of the snapshot enter where the stream is."""
        if self._snapshot is not None:
            self._snapshot.reached(position)

    def processed(self, chunk: Chunk) -> Chunk:
        """Return a chunk as it is stored; raises DataError, see `chunk_read`."""
        if self._process is None:
            return chunk
        try:
            with self._applying:
                return self._process(chunk)
        except DataError as error:
            raise self._located(chunk, self._process, error) from error

    def store(self, chunk: Chunk, begin: int = 0, end: int | None = None, *, written: bool = True) -> None:
        """Put headers of a chunk into the ring, and wait while there is no room; see `RingStore.put`."""
        for table in chunk.tables:
            self._tables[table.name] = table.rows.schema
        self.ring.put(chunk, begin, end, written=written)
        self.rows += int(chunk.headers["rows"][begin:end].sum())
        if len(chunk.headers):
            self.commit_us = int(chunk.headers["commit_us"][-1])
        if end is None or end == len(chunk.headers):
            self._counters.stored(chunk, self._reader.source_now_us())

    def store_page(self, page: Chunk, *, written: bool) -> None:
        """Store a chunk with a page of the snapshot in the ring."""
        low_watermark, put = self._low_watermark, self.ring.cursors[2]
        self.store(page, written=written)
        if low_watermark is not None and low_watermark[1] == put:
            # A page has no commit of its own: the low watermark still holds.
            self._low_watermark = low_watermark[0], self.ring.cursors[2]

    @property
    def bytes_held(self) -> int:
        """Bytes of rows in the ring that are not acknowledged."""
        return self.ring.bytes_held

    def wrote(self, count: int) -> None:
        """Let the next pages be handed out that wait to be written."""
        self.ring.wrote(count)

    def caught_up(self, frontier_us: int) -> None:
        """Store the source's low watermark, and wake threads that wait for headers."""
        self._low_watermark = frontier_us, self.ring.cursors[2]
        if frontier_us == END_OF_TIME_US and self.state is not IntakeState.FINISHED:
            self.state = IntakeState.FINISHED
            _log.info("finished rows=%d", self.rows, extra={"shard": self._shard})
        self.ring.wake()

    def connected(self, skew_us: int, server_version: str) -> None:
        """Set the state: the source streams."""
        self.state, self.error = IntakeState.STREAMING, None
        self.skew_us, self.server_version = skew_us, server_version
        if self._snapshot is not None:
            self._snapshot.connected(self.server, self._reader.created)
        _log.info("connected server=%s skew_us=%d", server_version, skew_us, extra={"shard": self._shard})

    def disconnected(self, error: RetryableError, retry_after_s: float) -> None:
        """Set the state: the source is disconnected."""
        self.state, self.error = IntakeState.CONNECTING, error
        self._counters.disconnected()
        _log.warning(
            "disconnected retry_after_s=%.1f: %s", retry_after_s, error, extra={"shard": self._shard}
        )

    def _run(self) -> None:
        start = self._start
        while not self._closing.is_set():
            try:
                self._reader.run(start)
            except ShardUnavailable as error:
                self.end(error)
                return
            except CanalGroupError as error:
                self._stop_at(error)
            except Exception as error:  # noqa: BLE001  a thread's end must not be silent, whatever ended it
                # The text of an error that nobody foresaw may hold a value of the source.
                where = "".join(traceback.format_tb(error.__traceback__)[-_FRAMES_MAX:])
                kind = type(error).__name__
                _log.error("reader failed: %s at\n%s", kind, where, extra={"shard": self._shard})
                self._stop_at(
                    DataError(
                        f"Shard {self._shard} stopped: {kind}.",
                        hint="This is a defect of canal-group; the shard's log holds the traceback.",
                        shard=self._shard,
                    )
                )
            self._retrying.wait(RETRY_STOPPED_S)
            self._retrying.clear()
            start = self._reader.position or self._start

    def end(self, error: ShardUnavailable) -> None:
        """Set the state: the source has to be opened again, or the ring was closed under the reader."""
        if not self._closing.is_set():
            self.ended = self.error = error
            self.state = IntakeState.CONNECTING
            self.ring.close()
            _log.warning("ended: %s", error, extra={"shard": self._shard})

    def _located(self, chunk: Chunk, process: Callable[[Chunk], Chunk], error: DataError) -> DataError:
        """Return an error of a chunk as one of the first transaction that has it."""
        for index, header in enumerate(chunk.headers):
            try:
                process(chunk.only(index))
            except DataError as found:
                file = chunk.names[header["file"]]
                located = {"file": file, "offset": int(header["begin_offset"]), "skippable": 1}
                handed_over = int(not header["flags"] & Flag.BEGIN)
                created_s = self._reader.created.get(file, 0)
                details = {**found.details, **located, "handed_over": handed_over, "created_s": created_s}
                return type(found)(found.message, hint=found.hint, **details)
        return error

    def _explained(self, error: CanalGroupError) -> CanalGroupError:
        """Add the command that skips the error's event to the error's hint, if the event can be skipped."""
        details = error.details
        if not details.get("skippable"):
            return error
        at = f"{details['file']}:{details['offset']}"
        words = ["canal-group", "shard", "skip-event", "-d", self._destination, self._shard, "--at", at]
        command = f"To go on without it: {shlex.join(words)}"
        hint = f"{error.hint} {command}" if error.hint else command
        return type(error)(error.message, hint=hint, **{**details, "server": self._reader.server})

    def _stop_at(self, error: CanalGroupError) -> None:
        error = self._explained(error)
        self.state, self.error = IntakeState.STOPPED, error
        self._counters.stopped_at(error)
        self._outcome.set()
        self.ring.wake()
        if not self._closing.is_set():
            _log.error("stopped: %s", error, extra={"shard": self._shard})
