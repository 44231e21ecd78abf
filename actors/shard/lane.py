"""A lane of a shard: the intake and ring of one stream of a group, under the newest of its generations.

A call under another generation than the current one is refused, because sequences are only valid within one
generation. A lane whose group is silent closes its source; `Shard` looks for that.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from canal_group.actors.ports import Host, Lock
from canal_group.actors.shard.intake import Intake, IntakeState
from canal_group.actors.shard.intervals import ShardIntervals
from canal_group.actors.shard.report import NOTHING, ShardReport
from canal_group.actors.shard.shard_counters import ShardCounters
from canal_group.actors.shard.shard_source import ShardSource
from canal_group.actors.shard.shard_wiring import ShardWiring
from canal_group.actors.store.ring import RingStore
from canal_group.actors.store.rows import Payload, gather
from canal_group.actors.transport.row_ticket import RowTicket
from canal_group.binlog.server.listener import Reader
from canal_group.merge.errors import FencedError, ShardUnavailable
from canal_group.merge.values.position import Position
from canal_group.merge.values.retention.kept_position import KeptPosition
from canal_group.merge.values.skips.skipped_event import SkippedEvent

#: how long headers are gathered for one report while there are many, seconds
GATHER_S = 0.1
#: how long `open` waits until it is known where the source's stream begins, seconds
OPEN_TIMEOUT_S = 20.0

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Held:
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
    #: destination names of the lane's tables, and the time of their last comparison, seconds
    tables: frozenset[str] | None = None
    tables_at_s: float = float("-inf")
    #: whether the last report was so large that more headers are certain to follow
    busy: bool = False


class Lane:
    """One stream of a group in a shard; see the module.

    Args:
        wiring: the shard's settings.
        host: the host that it runs on.
        make_reader: makes a reader that reports to an intake; None: the reader that the wiring names.
        intervals: at which it reports, checks and logs.
        live: whether it is of the live stream. What a replay learns of the source's tables is not stored: the
            live stream stores what it learned there.
    """

    def __init__(
        self,
        wiring: ShardWiring,
        host: Host,
        make_reader: Callable[[Intake], Reader] | None,
        intervals: ShardIntervals,
        *,
        live: bool,
    ) -> None:
        self.source = ShardSource(wiring)
        self._wiring = wiring
        self._host = host
        self._make_reader = make_reader
        self._intervals = intervals
        self._live = live
        self._name = wiring.source.name
        self._counters = ShardCounters()
        self._opening = host.lock()
        #: time of the group's last request, seconds
        self._asked_at_s = host.clock_s()
        #: the intake of the group that is served; None if nothing is read
        self.held: Held | None = None
        #: (epoch, generation) of the group that is served, even if nothing is read for it
        self.term = (0, 0)
        #: whether it is not opened any more
        self._ended = False
        #: how long an event has to be read to be logged next, seconds
        self._slow_s = intervals.slowest_s

    def open(
        self,
        epoch: int,
        generation: int,
        position: Position | None,
        history: str | None = None,
        skips: Sequence[SkippedEvent] = (),
        read_to: Sequence[Position] = (),
        needed: Sequence[KeptPosition] = (),
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
            needed: from where on client ids read: an archive keeps that.

        Returns:
            Where the stream begins.

        Raises:
            FencedError: a group with a newer epoch or generation opened it; nothing was changed.
            DataError: the source cannot be read from there, or its tables cannot be.
            UsageError: the position's cursor of a snapshot is none.
            ShardUnavailable: the source does not answer yet; call again to continue waiting.
        """
        with self._opening:
            if self._ended:
                raise not_open(self._name, epoch, generation)
            if (epoch, generation) < self.term:
                raise FencedError(
                    f"Shard {self._name} already serves epoch {self.term[0]}, generation {self.term[1]}.",
                    our_epoch=epoch,
                    current_epoch=self.term[0],
                )
            self._asked_at_s = self._host.clock_s()
            term, held = (epoch, generation), self.held
            # A snapshot is for the client of a replay alone.
            begin = None if position is None else replace(position, snapshot=None)
            expected = begin if self._live else position
            goes_on = expected is not None and held is not None and held.intake.stands_at(expected)
            # Between two epochs another server's shard may have read on, and stored what it learned.
            anew = epoch != self.term[0] and not goes_on
            if anew:
                self._leave()
                held = None
            self.term = term
            self.source.restore(history, anew=anew)
            self.source.skip(skips)
            self.source.read_to = tuple(read_to)
            self.source.needed = needed
            if held is not None and held.term == term and held.intake.ended is not None:
                # The reader ended before the start of the stream was known.
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
                snapshot = None
                if self._live:
                    self.source.remove_unused_pages()
                elif position is not None and position.snapshot:
                    snapshot = self.source.snapshot(position, self._host)
                ring = RingStore(self._wiring.store, self._host, gated=self._wiring.holds_back)
                make_reader = self._make_reader or self.source.reader
                intake = Intake(
                    self._name,
                    ring,
                    make_reader,
                    begin,
                    self.source.columns,
                    self._host,
                    self.source.process,
                    self._counters,
                    destination=self._wiring.destination,
                    snapshot=snapshot,
                    slow_s=self._intervals.slow_s,
                )
            else:
                intake = held.intake
            # Also on a repeated call: earlier reports may not have arrived.
            self._hold(intake)
            # While it waits here, its group is not silent.
            self._asked_at_s = self._host.clock_s() + OPEN_TIMEOUT_S
            try:
                opened = intake.opened_at(OPEN_TIMEOUT_S)
            finally:
                self._asked_at_s = self._host.clock_s()
            return position or opened

    def close(self, epoch: int) -> None:
        """Close the source and drop the ring, unless a group with a newer epoch opened it."""
        with self._opening:
            if epoch >= self.term[0]:
                self._leave()

    def end(self) -> None:
        """Close the source and drop the ring for ever."""
        with self._opening:
            self._ended = True
            self._leave()

    def _hold(self, intake: Intake) -> None:
        self.held = Held(self.term, intake, intake.ring.rollback_generation, self._host.lock())

    def _leave(self) -> None:
        held, self.held = self.held, None
        if held is not None:
            held.intake.close()

    @property
    def silent_in_s(self) -> float:
        """In how many seconds its group will have been silent for too long; negative: it was."""
        return self._asked_at_s + self._wiring.silence_max_s - self._host.clock_s()

    def close_if_silent(self) -> None:
        """Close the source if no request has come for a long time."""
        if self.silent_in_s > 0:
            return
        with self._opening:
            if self.held is not None and self.silent_in_s <= 0:
                _log.warning("closes its source: its group sends no requests", extra={"shard": self._name})
                self._leave()

    def say_what_is_slow(self) -> None:
        """Log an event that takes long, once when it has, and again whenever it has taken twice as long."""
        held = self.held
        reading = None if held is None else held.intake.reading
        if reading is None or reading.for_s < self._intervals.slow_s:
            self._slow_s = self._intervals.slowest_s
        elif reading.for_s >= self._slow_s:
            self._slow_s = 2 * reading.for_s
            _log.warning("is busy: %s", reading, extra={"shard": self._name})

    def poll(
        self,
        epoch: int,
        generation: int,
        items_max: int,
        wait_s: float,
        done: int = NOTHING,
        skips: Sequence[SkippedEvent] | None = None,
        needed: Sequence[KeptPosition] | None = None,
    ) -> ShardReport:
        """Return new headers or a new low watermark, waiting `wait_s` for either; first `free` up to `done`.

        Args:
            epoch: of the group.
            generation: of the group, in that epoch.
            items_max: most headers.
            wait_s: how long to wait, seconds.
            done: the last sequence that the ring may drop.
            skips: the events that operators have left out; None: as before.
            needed: from where on client ids read; None: as before.

        Raises:
            ShardUnavailable: this shard is not open under that generation.
        """
        held = self.current(epoch, generation)
        self._asked_at_s = self._host.clock_s()
        if done != NOTHING:
            held.intake.free(done, held.rollback_generation)
        if skips is not None:
            self.source.skip(skips)
            held.intake.retry()
        if needed is not None:
            self.source.needed = needed
        with held.polling:
            return self._report(held, items_max, wait_s)

    def _report(self, held: Held, items_max: int, wait_s: float) -> ShardReport:
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
        history = self.source.news() if self._live else None
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

    def reports_at_once(self, wait_s: float) -> bool:
        """Return whether a poll is answered without a wait."""
        held = self.held
        return held is not None and not held.busy and (not wait_s or held.intake.ring.has_news)

    def _tables_of(self, held: Held) -> frozenset[str] | None:
        """Return the tables if the group does not know them yet; looked at once in a while."""
        now_s = self._host.clock_s()
        if now_s < held.tables_at_s + self._intervals.repeat_s:
            return None
        held.tables_at_s, tables = now_s, self.source.tables()
        if tables == held.tables:
            return None
        held.tables = tables
        return tables

    def _news_of(self, held: Held) -> int | None:
        """Return the low watermark if it has to be reported: a new one, or after a while the old one again.

        The low watermark of a finished source is its last: if it got lost, the group would wait for ever.
        """
        low_watermark_us, now_s = held.intake.low_watermark_us(), self._host.clock_s()
        if low_watermark_us == held.reported_us and now_s < held.reported_at_s + self._intervals.repeat_s:
            return None
        held.reported_us, held.reported_at_s = low_watermark_us, now_s
        return low_watermark_us

    def rows(self, ticket: RowTicket) -> Iterator[Payload]:
        """Yield the rows that a ticket names, see `canal_group.actors.store.rows`.

        Raises:
            ShardUnavailable: this shard is not open under that generation.
            UsageError: a part of them is acknowledged already.
        """
        ring = self.current(ticket.epoch, ticket.generation).intake.ring
        return gather(ring.fetch(ticket.begin, ticket.end), ticket.selection)

    def free(self, epoch: int, generation: int, sequence: int) -> None:
        """Drop everything up to and including `sequence`; a late call of an older generation does nothing."""
        held = self.held
        if held is not None and held.term == (epoch, generation):
            held.intake.free(sequence, held.rollback_generation)

    def describe(self) -> dict[str, Any]:
        """Return its state as a JSON object."""
        held = self.held
        return held.intake.describe() if held is not None else {"state": "closed", "error": None}

    def current(self, epoch: int, generation: int) -> Held:
        """Return the intake under a term.

        Raises:
            ShardUnavailable: nothing is, or its source has to be opened again.
        """
        held = self.held
        if held is None or held.term != (epoch, generation):
            raise not_open(self._name, epoch, generation)
        if held.intake.ended is not None:
            raise held.intake.ended
        return held


def not_open(shard: str, epoch: int, generation: int) -> ShardUnavailable:
    """Return the error for a call under a generation that a shard is not open under."""
    return ShardUnavailable(
        f"Shard {shard} is not open under epoch {epoch}, generation {generation}.", retry_after_s=0.1
    )
