"""The world of a seed: sources, shards, a group, its consumers, what goes wrong, and what must be at last."""

from __future__ import annotations

import contextlib
import logging
import random
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import astuple, fields
from enum import StrEnum
from pathlib import Path
from typing import Any, Final
from unittest import mock

from support.defaults import batch_limits, group_settings

from canal_group.actors.snapshot import page_workers
from simulation.consumption import ViolationError
from simulation.loop import MS, Loop, S
from simulation.network import Network
from simulation.process import Process
from simulation.seeds import Outcome
from simulation.snapshots.consumer import Consumer
from simulation.snapshots.group import GroupServer, Store
from simulation.snapshots.pages import Pages
from simulation.snapshots.range_consumer import RangeConsumer
from simulation.snapshots.shard import DESTINATION, Shard, Told, Trouble
from simulation.snapshots.source import Images, Shape, Source, Vendor
from simulation.snapshots.writer import Writer

#: how long sources are written to and things go wrong, and how long it may take then until all is delivered
FAULTS_US, RECOVERY_MAX_US = 700 * MS, 60 * S
#: pages of which one may be in flight at a fault, and how long after its SELECT that is
PAGES_MAX, IN_FLIGHT_MAX_US = 12, 20 * MS
#: how often it is looked at whether all was delivered
LOOK_US = 50 * MS
#: when more is written after the last fault: a consumer gets nothing of what has no rows
LAST_WRITES_US = (100 * MS, 2 * S, 8 * S, 30 * S)
#: of a dead process
RESTART_US = 100 * MS
#: where pages are kept: no disk is slower than the simulation
FOLDER: Final = "/dev/shm" if Path("/dev/shm").is_dir() else None


_VENDORS: Final[tuple[Vendor, ...]] = ("mysql", "mariadb", "bare")
_IMAGES: Final[tuple[Images, ...]] = ("full", "differences", "noblob", "minimal", "vague")


class Fault(StrEnum):
    """What may go wrong."""

    KILL_SHARD = "a shard is killed"
    CUT_OFF = "a shard goes on, and another one in its place"
    LOSE_PAGES = "a shard goes on on another machine"
    KILL_GROUP = "the group is killed"
    KILL_CONSUMER = "the consumer is killed"
    FAIL_OVER = "a replica takes over"
    CRASH = "a replica takes over from a source that is gone"
    SOURCE_AWAY = "a source is away"
    STALL = "commits wait for a replica"
    DEFINE = "a statement"
    PAUSE = "pause"
    RESUME = "resume"
    AGAIN = "again"
    PART = "part"
    STOP = "stop"


#: how often each of them is chosen
_WEIGHTS: Final = {
    Fault.KILL_SHARD: 4,
    Fault.CUT_OFF: 3,
    Fault.LOSE_PAGES: 3,
    Fault.KILL_GROUP: 5,
    Fault.KILL_CONSUMER: 4,
    Fault.FAIL_OVER: 3,
    Fault.CRASH: 3,
    Fault.SOURCE_AWAY: 2,
    Fault.STALL: 8,
    Fault.DEFINE: 6,
    Fault.PAUSE: 2,
    Fault.AGAIN: 2,
    Fault.PART: 1,
    Fault.STOP: 1,
}


class _Listening(logging.Handler):
    """Ends the simulation when the shell logs a defect of ours; its process would go on."""

    def __init__(self, loop: Loop) -> None:
        super().__init__(logging.WARNING)
        self._loop = loop

    def emit(self, record: logging.LogRecord) -> None:
        """Note what is logged, and end if it is a defect."""
        text = record.getMessage()
        self._loop.note("log", "{}", text)
        if "defect" in text or "failed:" in text:
            self._loop.defect(AssertionError(text))


class World:
    """See the module.

    Args:
        seed: of all that is random.
        folder: for pages.
        faults: what may go wrong; empty: all of it, each as often as it is worth.
        telling: whether its story is kept.
    """

    def __init__(self, seed: int, folder: Path, faults: tuple[Fault, ...], *, telling: bool) -> None:
        self.loop = loop = Loop(seed, telling=telling)
        self.seed, chance = seed, loop.chance
        self._weights = dict.fromkeys(faults, 1) if faults else _WEIGHTS
        self.network = Network(loop)
        self.trouble, self.told = Trouble(), Told()
        (vendor,) = chance.choices(_VENDORS, (12, 6, 1))
        shape = Shape(
            vendor,
            chance.choice(_IMAGES),
            ordered=chance.random() < 0.7,
            sends_unsynced=chance.random() < 0.3,
            keyed=chance.random() < 0.85,
        )
        loop.note("world", "{}", shape)
        self.sources = [Source(loop, index, shape) for index in range(chance.choice([1, 2, 2]))]
        prepares = chance.choice([0.0, 0.3])
        self.writers = [Writer(loop, source, prepares) for source in self.sources]
        ring_size = chance.choice([4, 16, 64])
        self._folder, self._sizes = folder, (ring_size, chance.choice([1, 2]))
        self.shards = list(map(self._shard, self.sources))
        #: those that others have taken the place of
        self.cut_off: list[Shard] = []
        by_name = {shard.name: shard.source for shard in self.shards}
        settings = group_settings(
            DESTINATION,
            tuple(by_name),
            limits=batch_limits(rows_max=64, bytes_max=20_000, outstanding_max=3, ring_headers_max=ring_size),
            lease_us=2 * S,
            quiet_us=1_000 * S,
            replays_max=2,
            # A consumer that is killed before it has acknowledged comes back.
            unacknowledged_us=None,
        )
        self.store = Store(flush_us=chance.choice([0, 0, 200 * MS]), failing=chance.choice([0.0, 0.05]))
        self.group = GroupServer(loop, self.network, settings, self.shards, self.store)
        # Some keep their positions themselves.
        self.consumer = (RangeConsumer if chance.random() < 0.3 else Consumer)(
            loop,
            self.network,
            self.group,
            "copy",
            by_name,
            chance.choice([1, 3]),
            snapshot=True,
            told=self.told,
        )
        self.consumer.fickle = chance.choice([0.0, 0.0, 0.1])
        others = [
            Consumer(loop, self.network, self.group, "live", by_name, 1, snapshot=False, told=Told())
            for _ in range(chance.random() < 0.4)
        ]
        self.consumers = [self.consumer, *others]
        self.trouble.failing, self.trouble.slow = chance.choice([0.0, 0.03]), chance.choice([0.0, 0.0, 0.1])
        self.trouble.replica, self.trouble.busy = chance.choice([0.0, 0.0, 0.2]), chance.choice([0.0, 0.2])
        self.trouble.in_flight = self._page_in_flight
        #: what goes wrong while a page is in flight, by the number of the page
        self._of_pages: dict[int, Fault] = {}
        self.faults = 0
        #: whether the snapshot was paused, which nothing but an operator ends
        self.paused = False
        self._begin()

    def _shard(self, source: Source) -> Shard:
        folder = self._folder / f"s{source.index}"
        return Shard(self.loop, source, folder, self._sizes, self.trouble, self.told)

    def _begin(self) -> None:
        loop, chance = self.loop, self.loop.chance
        for process in self.processes:
            process.start()
        busy = chance.choice([6, 12, 20])
        for writer in self.writers:
            for _ in range(busy):
                loop.after(chance.randrange(FAULTS_US), writer.write)
        if len(self.writers) > 1:
            for _ in range(chance.choice([0, 3])):
                one, other = chance.sample(self.writers, 2)
                loop.after(chance.randrange(FAULTS_US), lambda one=one, other=other: one.move_to(other))
        for _ in range(chance.choice([0, 2, 4, 6])):
            (fault,) = chance.choices(list(self._weights), list(self._weights.values()))
            self._plan(fault)
        # The others begin to write before the snapshot.
        loop.after(chance.randrange(300 * MS), self.consumer.start)

    @property
    def processes(self) -> list[Process]:
        """All but the consumer with the snapshot."""
        return [*self.shards, self.group, *self.consumers[1:]]

    def _plan(self, fault: Fault) -> None:
        """Let a fault happen at some time, or while some page is in flight."""
        if self.loop.chance.random() < 0.5:
            self._of_pages[self.loop.chance.randrange(1, PAGES_MAX)] = fault
        else:
            self._happen_after(self.loop.chance.randrange(50 * MS, FAULTS_US), fault)

    def _happen_after(self, delay_us: int, fault: Fault, shard: Shard | None = None, table: str = "") -> None:
        self.loop.after(delay_us, lambda: self._happen(fault, shard, table))
        if fault is Fault.PAUSE:
            self.loop.after(delay_us + 100 * MS, lambda: self._happen(Fault.RESUME, None, ""))

    def _page_in_flight(self, shard: Shard, table: str) -> None:
        fault = self._of_pages.pop(self.told.pages, None)
        if fault is not None:
            self._happen_after(self.loop.chance.randrange(IN_FLIGHT_MAX_US), fault, shard, table)

    def _happen(self, fault: Fault, shard: Shard | None, table: str) -> None:  # noqa: C901 - one case a fault
        loop, chance = self.loop, self.loop.chance
        loop.note("fault", "{}", fault)
        self.faults += 1
        self.paused |= fault is Fault.PAUSE
        shard = shard if shard in self.shards else chance.choice(self.shards)
        source, writer = shard.source, self.writers[shard.source.index]
        match fault:
            case Fault.KILL_SHARD:
                shard.restart(RESTART_US)
            case Fault.CUT_OFF:
                self.shards[source.index] = other = self._shard(source)
                self.cut_off.append(shard)
                other.start()
                shard.cut_off()
            case Fault.LOSE_PAGES:
                shard.kill()
                shard.lose_pages()
                self.consumer.forget_pages(shard.name)
                loop.after(RESTART_US, shard.start)
                # Until then the group may hand out some of which it has the headers.
                loop.after(RESTART_US, lambda: self.consumer.forget_pages(shard.name))
            case Fault.KILL_GROUP:
                self.group.restart(RESTART_US)
            case Fault.KILL_CONSUMER:
                self.consumer.restart(RESTART_US)
            case Fault.FAIL_OVER:
                source.fail_over()
            case Fault.CRASH:
                source.fail_over(crashed=True)
            case Fault.SOURCE_AWAY:
                source.away_until_us = loop.now_us + chance.randrange(20 * MS, 400 * MS)
            case Fault.STALL:
                source.active.stalled_until_us = loop.now_us + chance.randrange(20 * MS, 500 * MS)
                # Something is in the binlog meanwhile.
                for _ in range(3):
                    loop.after(chance.randrange(20 * MS), writer.write)
            case Fault.DEFINE:
                writer.define(table)
            case _ if self.consumer.alive:
                self.consumer.spawn(self.consumer.steer(fault.value))

    # ---- running -----------------------------------------------------------------------------------------

    def run(self) -> Outcome:
        """Run it; return its outcome."""
        violation, healed_us, shell = None, 0, logging.getLogger("canal_group.actors")
        listening = _Listening(self.loop)
        shell.addHandler(listening)
        propagated, shell.propagate = shell.propagate, False
        try:
            self.loop.run(FAULTS_US)
            self._heal()
            healed_us = self.loop.now_us
            while not self._done() and self.loop.now_us < healed_us + RECOVERY_MAX_US:
                self.loop.run(self.loop.now_us + LOOK_US)
            self._check()
        except AssertionError as error:
            violation = str(error) or f"an assertion of the project's own: {_where(error)}"
            self.loop.note("simulation", "stops: {}", violation)
        finally:
            shell.propagate = propagated
            shell.removeHandler(listening)
        self.loop.telling = False
        for process in (*self.consumers, *self.processes, *self.cut_off):
            process.kill()
        told = dict(zip((each.name for each in fields(Told)), astuple(self.told), strict=True))
        counts = {**told, "faults": self.faults, "steps": self.loop.steps}
        return Outcome(self.seed, violation, self.loop.now_us - healed_us, counts, self.loop.story)

    def _heal(self) -> None:
        """End all faults, and pauses."""
        self._of_pages.clear()
        for shard in self.cut_off:
            shard.kill()
        trouble = self.trouble
        trouble.failing = trouble.replica = trouble.slow = trouble.busy = self.store.failing = 0.0
        self.network.heal()
        for source in self.sources:
            source.away_until_us = 0
            for server in source.servers:
                server.stalled_until_us = 0
        for consumer in self.consumers:
            consumer.fickle, consumer.hurries = 0.0, True
        for process in (*self.processes, self.consumer):
            process.start()
        for writer in self.writers:
            for at_us in LAST_WRITES_US:
                self.loop.after(at_us, writer.write)
        if self.paused:
            self.consumer.spawn(self.consumer.steer(Fault.RESUME.value))

    def _done(self) -> bool:
        if not all(source.settled for source in self.sources):
            return False
        for consumer in self.consumers:
            copy = consumer.acknowledged
            if copy is None or consumer.copy is None:
                return False
            for source in self.sources:
                mine = copy.shards[f"s{source.index}"]
                if mine.count < source.due or mine.text is not None:
                    return False
        return True

    def _check(self) -> None:
        by_name = {shard.name: shard.source for shard in self.shards}
        for consumer in self.consumers:
            copy = consumer.acknowledged
            for name, source in by_name.items():
                mine = None if copy is None else copy.shards[name]
                count = source.due
                if mine is None or mine.count < count:
                    raise ViolationError(
                        f"{consumer.name} has not all {count} transactions of {name}: {mine}"
                    )
                if mine.text is not None:
                    raise ViolationError(f"{consumer.name}: the snapshot of {name} does not end: {mine.text}")
            assert copy is not None
            copy.check(by_name)


def _where(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "unknown" if trace is None else f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"


@contextlib.contextmanager
def _pages() -> Iterator[None]:
    """Let pages be read of simulated sources."""
    connection: Any = Pages
    with mock.patch.object(page_workers, "PageConnection", connection):
        yield


def simulate(seed: int, faults: tuple[Fault, ...] = (), *, telling: bool = False) -> Outcome:
    """Run one seed; only with some faults, if they are given."""
    folder = Path(tempfile.mkdtemp(prefix="canal-group-sim-", dir=FOLDER))
    random.seed(seed)
    try:
        with _pages():
            return World(seed, folder, faults, telling=telling).run()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
