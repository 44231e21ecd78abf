"""The shard actor: owns one source's intake, and hands out headers and rows.

Every call carries the group's `epoch` and `generation`. Of two groups the shard serves the one with the newer
epoch. A call under another generation than the current one is refused, because sequences are only valid
within one generation.

A shard that gets no request for a while closes its source by itself. Its group was paused or cut off, and the
shards of the now active server read the same source under the same server id.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from canal_group.actors.ports import Host, Lock
from canal_group.actors.process.host import OS_HOST
from canal_group.actors.process.imports import freeze_imports
from canal_group.actors.process.log import ActorLog
from canal_group.actors.process.loop_thread import LoopThread
from canal_group.actors.shard.intake import Intake, IntakeState
from canal_group.actors.shard.intervals import INTERVALS, ShardIntervals
from canal_group.actors.shard.report import NOTHING, ShardReport
from canal_group.actors.shard.shard_counters import ShardCounters
from canal_group.actors.shard.shard_source import ShardSource
from canal_group.actors.shard.shard_wiring import ShardWiring
from canal_group.actors.store.ring import RingStore
from canal_group.actors.store.rows import Payload, gather
from canal_group.actors.transport.bind_address import certificate_where_reached, node_host
from canal_group.actors.transport.row_server import RowAddress, RowServer
from canal_group.actors.transport.row_ticket import RowTicket
from canal_group.actors.transport.rpc_server import RpcServer
from canal_group.actors.transport.rpc_wire import RpcAddress
from canal_group.binlog.server.listener import Reader
from canal_group.merge.errors import FencedError, ShardUnavailable
from canal_group.merge.rows.row_key import RowKey
from canal_group.merge.values.chunk import TableName
from canal_group.merge.values.position import Position
from canal_group.merge.values.skips.skipped_event import SkippedEvent
from canal_group.merge.values.start import ShardStart

#: how long headers are gathered for one report while there are many, seconds
GATHER_S = 0.1
#: how long `open` waits until it is known where the source's stream begins, seconds
OPEN_TIMEOUT_S = 20.0
#: polls that wait at once: one of the group, and one of the group before it
POLLS_MAX = 2

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Held:
    """An intake under one term.

    The first three fields never change, so that they always belong to the same ring. The others describe the
    last report; `polling` guards them.
    """

    #: (epoch, generation) of the group that is served
    term: tuple[int, int]
    intake: Intake
    #: the ring's rollback generation under this term; a later term rolls the ring back
    rollback_generation: int
    polling: Lock
    #: the low watermark that was reported last, and when, seconds
    reported_us: int | None = None
    reported_at_s: float = 0.0
    #: what consumers call its tables, and when that was compared last, seconds
    tables: frozenset[str] | None = None
    tables_at_s: float = float("-inf")
    #: whether the last report was so large that more headers are certain to follow
    busy: bool = False


class Shard:
    """One shard; `ShardActor` is the actor.

    Args:
        wiring: the shard's settings.
        host: the host that it runs on.
        make_reader: makes a reader that reports to an intake; None: the reader that the wiring names.
        intervals: at which it reports, checks and logs.
    """

    def __init__(
        self,
        wiring: ShardWiring,
        host: Host = OS_HOST,
        make_reader: Callable[[Intake], Reader] | None = None,
        intervals: ShardIntervals = INTERVALS,
    ) -> None:
        self._wiring = wiring
        self._host = host
        self._make_reader = make_reader
        self._intervals = intervals
        self._name = wiring.source.name
        self._source = ShardSource(wiring)
        self._counters = ShardCounters()
        self._opening = host.lock()
        #: never set; the watch thread waits on it
        self._pause = host.event()
        #: time of the group's last request, seconds
        self._asked_at_s = host.clock_s()
        #: the intake of the group that is served; None if nothing is read
        self._held: _Held | None = None
        #: (epoch, generation) of the group that is served, even if nothing is read for it
        self._term = (0, 0)
        self._asking = host.lock()
        #: how long an event has to be read to be logged next, seconds
        self._slow_s = intervals.slowest_s
        self._rpc_server: RowServer | None = None
        self._rpc_address: RpcAddress | None = None
        host.start(self._watch, f"watch-{self._name}")

    def open(
        self,
        epoch: int,
        generation: int,
        position: Position | None,
        history: str | None = None,
        skips: Sequence[SkippedEvent] = (),
        read_to: Sequence[Position] = (),
    ) -> Position:
        """Hand out what follows `position` (None: the source's current position) under a new generation.

        If the ring begins exactly at `position`, it is rolled back; otherwise the source is read again from
        there.

        Args:
            epoch: of the group.
            generation: of the group, in that epoch.
            position: where to begin.
            history: the schema history as reports have had it last, and as it was stored; None: none was.
            skips: the events that operators have left out.
            read_to: up to where client ids have read: what is before these positions is compared as well.

        Returns:
            Where the stream begins.

        Raises:
            FencedError: a group with a newer epoch or generation opened it; nothing was changed.
            DataError: the source cannot be read from there.
            ShardUnavailable: the source does not answer yet; call again to continue waiting.
        """
        with self._opening:
            if (epoch, generation) < self._term:
                raise FencedError(
                    f"Shard {self._name} already serves epoch {self._term[0]}, generation {self._term[1]}.",
                    our_epoch=epoch,
                    current_epoch=self._term[0],
                )
            self._asked_at_s = self._host.clock_s()
            term, held = (epoch, generation), self._held
            goes_on = position is not None and held is not None and held.intake.stands_at(position)
            # Between two epochs another server's shard may have read on, and stored what it learned.
            anew = epoch != self._term[0] and not goes_on
            if anew:
                self._leave()
                held = None
            self._term = term
            self._source.restore(history, anew=anew)
            self._source.skip(skips)
            self._source.read_to = tuple(read_to)
            if held is not None and held.term == term and held.intake.ended is not None:
                # It ended before it was known where its stream begins.
                self._leave()
                held = None
            if held is not None and held.term != term:
                if position is not None and goes_on:
                    held.intake.ring.rollback()
                    self._hold(held.intake)
                    return position
                self._leave()
                held = None
            if held is None:
                ring = RingStore(self._wiring.store, self._host)
                make_reader = self._make_reader or self._source.reader
                intake = Intake(
                    self._name,
                    ring,
                    make_reader,
                    position,
                    self._source.columns,
                    self._host,
                    self._source.process,
                    self._counters,
                    destination=self._wiring.destination,
                    slow_s=self._intervals.slow_s,
                )
            else:
                intake = held.intake
            # Also on a repeated call: earlier reports may not have arrived.
            self._hold(intake)
            try:
                opened = intake.opened_at(OPEN_TIMEOUT_S)
            finally:
                self._asked_at_s = self._host.clock_s()
            return position or opened

    def close(self, epoch: int) -> None:
        """Close the source and drop the ring, unless a group with a newer epoch opened it."""
        with self._opening:
            if epoch >= self._term[0]:
                self._leave()

    def _hold(self, intake: Intake) -> None:
        self._held = _Held(self._term, intake, intake.ring.rollback_generation, self._host.lock())

    def _leave(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            held.intake.close()

    def _watch(self) -> None:
        """Close the source when no request has come for a long time; runs until the process ends."""
        while True:
            self._say_what_is_slow()
            left_s = self._asked_at_s + self._wiring.silence_max_s - self._host.clock_s()
            if left_s > 0:
                self._pause.wait(min(left_s, self._intervals.watch_s))
                continue
            with self._opening:
                if self._held is not None and self._silent():
                    _log.warning(
                        "closes its source: its group sends no requests", extra={"shard": self._name}
                    )
                    self._leave()
            self._pause.wait(self._intervals.watch_s)

    def _say_what_is_slow(self) -> None:
        """Log an event that takes long, once when it has, and again whenever it has taken twice as long."""
        held = self._held
        reading = None if held is None else held.intake.reading
        if reading is None or reading.for_s < self._intervals.slow_s:
            self._slow_s = self._intervals.slowest_s
        elif reading.for_s >= self._slow_s:
            self._slow_s = 2 * reading.for_s
            _log.warning("is busy: %s", reading, extra={"shard": self._name})

    def _silent(self) -> bool:
        return self._host.clock_s() >= self._asked_at_s + self._wiring.silence_max_s

    def poll(
        self,
        epoch: int,
        generation: int,
        items_max: int,
        wait_s: float,
        done: int = NOTHING,
        skips: Sequence[SkippedEvent] | None = None,
    ) -> ShardReport:
        """Return new headers or a new low watermark, waiting `wait_s` for either; first `free` up to `done`.

        Args:
            epoch: of the group.
            generation: of the group, in that epoch.
            items_max: most headers.
            wait_s: how long to wait, seconds.
            done: the last sequence that the ring may drop.
            skips: the events that operators have left out; None: as before.

        Raises:
            ShardUnavailable: this shard is not open under that generation.
        """
        held = self._current(epoch, generation)
        self._asked_at_s = self._host.clock_s()
        if done != NOTHING:
            held.intake.ring.ack(done, held.rollback_generation)
        if skips is not None:
            self._source.skip(skips)
            held.intake.retry()
        with held.polling:
            return self._report(held, items_max, wait_s)

    def _report(self, held: _Held, items_max: int, wait_s: float) -> ShardReport:
        intake = held.intake
        low_watermark_us = intake.low_watermark_us()
        news = (low_watermark_us is not None and low_watermark_us != held.reported_us) or (
            intake.state is IntakeState.STOPPED
        )
        gather_s = GATHER_S if held.busy else 0.0
        # After a concurrent rollback this poll may not read any more.
        run = intake.ring.get_within(
            0.0 if news else wait_s,
            items_max=items_max,
            rollback_generation=held.rollback_generation,
            gather_s=gather_s,
        )
        held.busy = intake.ring.is_much(run)
        error = intake.error if intake.state is IntakeState.STOPPED else None
        if error is not None and not len(run):
            intake.wait_stopped(wait_s)
        # After the rows: it has every statement before them.
        history = self._source.news()
        return ShardReport(
            run if len(run) else None,
            self._news_of(held),
            error,
            intake.server,
            intake.ring.short,
            source_us=intake.source_now_us(),
            created=intake.created(run),
            history=history,
            tables=self._tables_of(held),
            reading=str(intake.reading or ""),
        )

    def _reports_at_once(self, wait_s: float) -> bool:
        """Return whether a poll is answered without a wait."""
        held = self._held
        return held is not None and not held.busy and (not wait_s or held.intake.ring.has_news)

    def _tables_of(self, held: _Held) -> frozenset[str] | None:
        """Return the tables if the group does not know them yet; looked at once in a while."""
        now_s = self._host.clock_s()
        if now_s < held.tables_at_s + self._intervals.repeat_s:
            return None
        held.tables_at_s, tables = now_s, self._source.tables()
        if tables == held.tables:
            return None
        held.tables = tables
        return tables

    def _news_of(self, held: _Held) -> int | None:
        """Return the low watermark if it has to be reported: a new one, or after a while the old one again.

        The low watermark of a finished source is its last: if it got lost, the group would wait for ever.
        """
        low_watermark_us, now_s = held.intake.low_watermark_us(), self._host.clock_s()
        if low_watermark_us == held.reported_us and now_s < held.reported_at_s + self._intervals.repeat_s:
            return None
        held.reported_us, held.reported_at_s = low_watermark_us, now_s
        return low_watermark_us

    def rpc_address(self) -> RpcAddress:
        """Return where a group can open the RPC connection by which it polls and frees."""
        with self._asking:
            if self._rpc_address is None:
                self._rpc_address = self._opened_rpc_server()
            return self._rpc_address

    def _opened_rpc_server(self) -> RpcAddress:
        polls = ThreadPoolExecutor(POLLS_MAX, thread_name_prefix="poll")
        waiting = 0

        async def poll(epoch: int, generation: int, items_max: int, wait_s: float, *more: Any) -> ShardReport:
            nonlocal waiting
            if not waiting and self._reports_at_once(wait_s):
                # To pass it to a thread costs more than to answer it.
                return self.poll(epoch, generation, items_max, 0.0, *more)
            waiting += 1
            try:
                return await asyncio.get_running_loop().run_in_executor(
                    polls, self.poll, epoch, generation, items_max, wait_s, *more
                )
            finally:
                waiting -= 1

        async def free(*arguments: Any) -> None:
            self.free(*arguments)

        host = node_host()
        opening = RpcServer({"poll": poll, "free": free}).open(host, certificate_where_reached(host))
        return LoopThread(f"line-{self._name}").run(opening).result()

    def rows_at(self) -> RowAddress:
        """Return where rows are handed out."""
        with self._asking:
            if self._rpc_server is None:
                self._rpc_server = RowServer(self._rows)
            return self._rpc_server.address

    def _rows(self, ticket: RowTicket) -> Iterator[Payload]:
        """Yield the rows that a ticket names, see `canal_group.actors.store.rows`.

        Raises:
            ShardUnavailable: this shard is not open under that generation.
            UsageError: a part of them is acknowledged already.
        """
        ring = self._current(ticket.epoch, ticket.generation).intake.ring
        return gather(ring.fetch(ticket.begin, ticket.end), ticket.selection)

    def describe(self, schema: str, table: str) -> list[bytes]:
        """Return a table's definitions, see `ShardSource.describe`."""
        return self._source.describe(TableName(schema, table))

    def locate(self, start: ShardStart) -> Position:
        """Return where a start is in the source's binlog now, see `ShardSource.locate`."""
        return self._source.locate(start)

    def beginning(self, *, latest: bool) -> tuple[bool, Position | None]:
        """Return where a client id without a cursor begins, see `ShardSource.beginning`."""
        return self._source.beginning(latest=latest)

    def changes_of(self, key: RowKey, bytes_max: int) -> dict[str, Any]:
        """Return where the last changes of a row are in the source's binlog, see `ShardSource.changes_of`."""
        return self._source.changes_of(key, bytes_max)

    def schema(self) -> list[dict[str, Any]]:
        """Return the definitions of the source's tables, see `ShardSource.schema`."""
        return self._source.schema()

    def rebuild_schema(self) -> dict[str, Any]:
        """Forget what is known of the source's tables, see `ShardSource.rebuild_schema`."""
        self._source.rebuild_schema()
        return {"shard": self._name}

    def free(self, epoch: int, generation: int, sequence: int) -> None:
        """Drop everything up to and including `sequence`; a late call of an older generation does nothing."""
        held = self._held
        if held is not None and held.term == (epoch, generation):
            held.intake.ring.ack(sequence, held.rollback_generation)

    def status(self) -> dict[str, Any]:
        """Return the shard's state as a JSON object."""
        held = self._held
        state = held.intake.describe() if held is not None else {"state": "closed", "error": None}
        return {
            "shard": self._name,
            "source": self._source.location,
            "failover": self._source.failover(),
            "definitions": self._source.definitions(),
            "pid": os.getpid(),
            "arrow_bytes": pa.total_allocated_bytes(),
            **state,
        }

    def _current(self, epoch: int, generation: int) -> _Held:
        held = self._held
        if held is None or held.term != (epoch, generation):
            raise ShardUnavailable(
                f"Shard {self._name} is not open under epoch {epoch}, generation {generation}.",
                retry_after_s=0.1,
            )
        if held.intake.ended is not None:
            raise held.intake.ended
        return held


class ShardActor(Shard):
    """One shard in a process of its own.

    A plain class that `canal_group.actors.driver.launch` turns into an actor.
    """

    def __init__(self, wiring: ShardWiring, log: ActorLog) -> None:
        freeze_imports()
        log.set_up()
        self._log = log
        super().__init__(wiring)

    def __repr__(self) -> str:
        """Return where the actor's output comes from, see `ActorLog`."""
        return self._log.text
