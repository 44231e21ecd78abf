"""The world of one schedule: creates all processes, injects the faults, ends them, and waits for delivery."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

from support.defaults import batch_limits, group_settings

from canal_group.actors.meta.memory import MemoryStore
from canal_group.merge.errors import CanalGroupError
from canal_group.merge.events import Event
from canal_group.merge.group import Group, GroupSettings
from canal_group.merge.instructions import Instruction
from canal_group.merge.order.dead_shard import WAIT
from canal_group.merge.values.member import Policy
from simulation.canal_consumer import CanalConsumer
from simulation.channel import Channel
from simulation.consumer import Consumer
from simulation.consumption import LOOK, ViolationError
from simulation.driver import Driver
from simulation.hostile_reader import HostileReader
from simulation.invariants import Invariants
from simulation.looker import Looker
from simulation.loop import MS, Loop, S
from simulation.network import Network
from simulation.operator import Operator
from simulation.process import Process
from simulation.range_reader import RangeReader
from simulation.schedule import FAULTS, FAULTS_US, LASTING_MAX_US, Fault, Happening, Schedule, schedule_of
from simulation.seeds import Outcome
from simulation.server import Server, Surroundings
from simulation.shard import Shard
from simulation.source import Source
from simulation.zookeeper import DESTINATION, ZooKeeper

#: how long delivery of everything may take after the last fault
RECOVERY_MAX_US = 60 * S
OUTSTANDING_MAX = 3
#: silence after which a consumer's client id is free
LEASE_US = 3 * S
#: how often cursors pass what nothing is kept of
QUIET_US = 400 * MS
#: how long a replay has rings while another client waits for them
REPLAY_TURN_US = 1_500 * MS
#: commits of a busy table of which nothing is kept
BUSY_COMMITS = 12
#: how often the bounds of servers are checked
LOOK_US = 400 * MS
#: by how much the world's processes differ in their monotonic clocks
CLOCK_APART_US = 1_000 * S


_shell = logging.getLogger("canal_group.actors")


class _Listening(logging.Handler):
    """Ends the simulation when the shell logs a defect of ours; its process would end, or continue."""

    def __init__(self, loop: Loop) -> None:
        super().__init__(logging.ERROR)
        self._loop = loop

    def emit(self, record: logging.LogRecord) -> None:
        """Check whether an error is a defect."""
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and not isinstance(error, CanalGroupError):
            self._loop.defect(error)


@contextlib.contextmanager
def _validating() -> Iterator[None]:
    """Validate a group after every event that it handles."""
    handle = Group.handle

    def handle_and_validate(group: Group, event: Event) -> list[Instruction]:
        instructions = handle(group, event)
        group.validate()
        return instructions

    with mock.patch.object(Group, "handle", handle_and_validate):
        yield


class World:
    """All processes and services of a simulation.

    Args:
        seed: of all randomness while it runs.
        schedule: its parts and its faults.
        telling: whether its story is kept.
    """

    def __init__(self, seed: int, schedule: Schedule, *, telling: bool = False) -> None:
        self.seed = seed
        self.schedule = schedule
        self.loop = loop = Loop(seed, telling=telling)
        loop.note("world", "{}", schedule)
        self.network = Network(loop)
        self.sources = [
            Source(loop, index, schedule.skews_us[index], schedule.coarse[index], schedule.gtids)
            for index in range(schedule.shards)
        ]
        self.invariants = Invariants(
            loop,
            self.sources,
            OUTSTANDING_MAX,
            late=schedule.dead_shard != WAIT,
            newcomer=schedule.shards - 1 if schedule.joins_at_us is not None else None,
            elections_fence=schedule.cursors_in_zookeeper,
            at_once=schedule.flush_s is None,
            replays=bool(schedule.replays_max),
        )
        self.zookeeper = ZooKeeper(
            loop,
            self.network,
            self.invariants.elected,
            self.invariants.written,
            self.invariants.forgotten,
        )
        medium = None if schedule.cursors_in_zookeeper else MemoryStore()
        self.cursors_channel = self.zookeeper.channel
        if medium is not None:
            self.cursors_channel = Channel(loop, self.network, "cursors")
        settings = self._settings()
        around = Surroundings(
            loop,
            self.network,
            self.zookeeper,
            self.cursors_channel,
            medium,
            schedule.flush_s,
            self.invariants,
            settings,
            list(settings.shards),
        )
        self.shards: list[Shard] = []
        self.servers: list[Server] = []
        shards: dict[str, Shard] = {}
        for index in range(schedule.servers):
            if not shards or not schedule.shared_shards:
                shards = {
                    f"s{source.index}": Shard(
                        loop,
                        f"s{source.index}@{index}",
                        source,
                        schedule.ring_size,
                        loop.chance.randrange(CLOCK_APART_US),
                    )
                    for source in self.sources
                }
                self.shards += shards.values()
            self.servers.append(
                Server(around, f"server{index}", shards, loop.chance.randrange(CLOCK_APART_US))
            )
        self.drivers = [Driver(loop, self.network, server, around.made) for server in self.servers]
        self.consumers: list[Consumer | RangeReader] = [
            (CanalConsumer if schedule.canal and client == "one" else Consumer)(
                loop, self.network, self.invariants, f"consumer{index}", client, self.servers, schedule.depth
            )
            for index, client in enumerate(schedule.consumers)
        ]
        if schedule.hostile:
            self.consumers.append(HostileReader(loop, self.network, self.invariants, self.servers))
        if schedule.offset_ranges:
            self.consumers.append(RangeReader(loop, self.network, self.invariants, self.servers))
        looker = Looker(loop, self.network, self.invariants, "looker", LOOK, self.servers, 1)
        self.lookers = [looker] if schedule.looks else []
        self.operator = Operator(loop, self.network, self.servers)
        #: shards whose errors an operator looks at
        self.watched: set[int] = set()
        #: number of cursor writes at the last check whether everything is delivered
        self._writes_seen = -1
        #: the shard that the group does not wait for in the end
        self._without: int | None = None
        for process in (*self.processes, *self.drivers):
            process.start()
        loop.after(LOOK_US, self._look)
        for commit in schedule.commits:
            loop.after(commit.at_us, self._committing(commit.shard, commit.rows, ddl=commit.ddl))
        if schedule.joins_at_us is not None:
            newcomer = f"s{schedule.shards - 1}"
            loop.after(schedule.joins_at_us, lambda: self.operator.spawn(self.operator.add(newcomer)))
        for happening in schedule.happenings:
            loop.after(happening.at_us, lambda happening=happening: self._happen(happening))

    def _settings(self) -> GroupSettings:
        schedule = self.schedule
        return group_settings(
            DESTINATION,
            tuple(f"s{index}" for index in range(schedule.shards - (schedule.joins_at_us is not None))),
            limits=batch_limits(
                rows_max=6,
                bytes_max=800,
                outstanding_max=OUTSTANDING_MAX,
                ddl_isolation=schedule.ddl_isolation,
                empty_headers_max=2,
                ring_headers_max=schedule.ring_size,
            ),
            lease_us=LEASE_US,
            dead_shard=schedule.dead_shard,
            drop_after_us=schedule.drop_after_us,
            unacknowledged_us=schedule.unacknowledged_us,
            quiet_us=QUIET_US,
            replays_max=schedule.replays_max,
            replay_turn_us=REPLAY_TURN_US,
        )

    @property
    def processes(self) -> list[Process]:
        """The processes that can be killed."""
        return [*self.shards, *self.servers, *self.consumers, *self.lookers, self.operator]

    def _committing(self, shard: int, rows: tuple[int, ...], *, ddl: bool) -> Callable[[], None]:
        return lambda: self.sources[shard].commit(rows, ddl=ddl)

    def _look(self) -> None:
        slots = sum(shard.ring_size for shard in self.servers[0].shards.values())
        for server in self.servers:
            if server.alive:
                server.candidate.describe()
            if server.machine is not None:
                self.invariants.bounded(server.machine, slots)
        self.loop.after(LOOK_US, self._look)

    # ---- running ---------------------------------------------------------------------------------------

    def run(self) -> Outcome:
        """Run the schedule; return the outcome."""
        with _validating():
            return self._run()

    def _run(self) -> Outcome:
        violation, healed_us = None, 0
        listening = _Listening(self.loop)
        _shell.addHandler(listening)
        _shell.propagate = False
        logging.disable(logging.WARNING)
        try:
            self.loop.run(FAULTS_US)
            self.heal()
            if self.schedule.ends_without_one:
                self._end_without_one()
            healed_us = self.loop.now_us
            self.loop.run(healed_us + self._recovery_max_us, self._done)
            if self.missing:
                raise ViolationError(f"{self.missing} headers are not delivered long after the last fault")
        except AssertionError as error:
            violation = str(error) or "an assertion of the project's own"
            self.loop.note("simulation", "stops: {}", violation)
        finally:
            logging.disable(logging.NOTSET)
            _shell.propagate = True
            _shell.removeHandler(listening)
        self.loop.telling = False
        for process in (*self.processes, *self.drivers):
            process.kill()
        return Outcome(
            self.seed,
            violation,
            self.loop.now_us - healed_us,
            {**self.invariants.counts, "steps": self.loop.steps},
            self.loop.story,
        )

    def _end_without_one(self) -> None:
        """Wait until all of the others' headers are delivered, while an operator skips the dead first shard.

        Its source comes back after that.
        """
        dead = self.sources[0]
        if not self.invariants.is_known(dead.index):
            return
        dead.away_until_us = self.loop.now_us + 2 * self._recovery_max_us
        skipping = self.operator.spawn(self.operator.skip(f"s{dead.index}"))
        self._without, self._writes_seen = dead.index, -1
        self.loop.run(self.loop.now_us + self._recovery_max_us, lambda: skipping.done() or self._done())
        if self.missing and not skipping.done():
            raise ViolationError(f"{self.missing} headers wait for a shard that is skipped")
        skipping.cancel()
        self._without, self._writes_seen, dead.away_until_us = None, -1, 0

    @property
    def _recovery_max_us(self) -> int:
        """How long recovery may take: a shard whose clock is ahead waits for the others' clocks."""
        ahead_us = max(source.skew_max_us for source in self.sources)
        return RECOVERY_MAX_US + ahead_us - min(source.skew_us for source in self.sources)

    def _done(self) -> bool:
        """Return whether everything is delivered; checks only after a cursor was written."""
        if self._writes_seen == self.invariants.writes:
            return False
        self._writes_seen = self.invariants.writes
        return not self.missing

    @property
    def missing(self) -> int:
        """Number of headers that some client's position has not passed."""
        dead = self._without
        # An offset range is the same whenever it is read, so it cannot continue without a shard that it had.
        # Its reader then waits, and the rows that it holds in the rings may stop the others.
        if dead is not None and any(
            isinstance(consumer, RangeReader) and consumer.reads_again(dead) for consumer in self.consumers
        ):
            return 0
        return self.invariants.missing(
            list(dict.fromkeys(consumer.client_id for consumer in self.consumers)), dead
        )

    def heal(self) -> None:
        """End every fault."""
        self.loop.note("simulation", "heals everything")
        self.network.heal()
        for channel in (self.zookeeper.channel, self.cursors_channel):
            channel.heal()
        for source in self.sources:
            source.away_until_us = 0
        for shard in self.shards:
            shard.slow_until_us = 0
        for consumer in self.consumers:
            consumer.fickle = 0.0
        for process in self.processes:
            process.wake()
            process.start()

    # ---- faults ----------------------------------------------------------------------------------------

    def _happen(self, happening: Happening) -> None:
        self.loop.note("fault", "{} ({}, {} us)", happening.fault, happening.whom, happening.lasting_us)
        _FAULTS[happening.fault](self, happening)

    def later(self, happening: Happening, action: Callable[[], Any]) -> None:
        """Run an action when a lasting fault ends."""
        self.loop.after(happening.lasting_us, action)

    def pause(self, process: Process, happening: Happening) -> None:
        """Pause a process for a while."""
        process.pause()
        incarnation = process.incarnation
        self.later(happening, lambda: process.incarnation == incarnation and process.wake())

    def set_for(self, thing: object, name: str, value: float, happening: Happening) -> None:
        """Set a probability for a while."""
        setattr(thing, name, value)
        self.later(happening, lambda: setattr(thing, name, 0.0))

    def active(self, happening: Happening) -> Server:
        """Return the active server in most cases, because faults of standbys show less."""
        active = [server for server in self.servers if server.machine is not None]
        return _one(active if active and happening.whom % 4 else self.servers, happening)


def _one(among: list[Any], happening: Happening) -> Any:
    return among[happening.whom % len(among)]


def _hand_over(world: World, happening: Happening) -> None:
    server = world.active(happening)
    if server.alive and not server.paused:
        server.spawn(server.close())


def _kill_server(world: World, happening: Happening) -> None:
    world.active(happening).relaunch()
    if not world.schedule.shared_shards:
        index = world.servers.index(world.active(happening))
        for shard in world.servers[index].shards.values():
            shard.restart(500 * MS)


def _cut(world: World, happening: Happening, other: str) -> None:
    world.network.cut(world.active(happening).name, other, happening.lasting_us)


def _away(thing: Any, world: World, happening: Happening) -> None:
    thing.away_until_us = world.loop.now_us + happening.lasting_us


def _slow(world: World, happening: Happening) -> None:
    _one(world.shards, happening).slow_until_us = world.loop.now_us + happening.lasting_us


def _gateway_slow(world: World, happening: Happening) -> None:
    world.set_for(world.network, "late", 0.7, happening)
    world.set_for(world.network, "mute", 0.3, happening)


def _consumer_away(world: World, happening: Happening) -> None:
    client_id = _one(world.consumers, happening).client_id
    for consumer in world.consumers:
        if consumer.client_id == client_id:
            consumer.restart(LEASE_US + happening.lasting_us)


def _unsubscribe(world: World, happening: Happening) -> None:
    consumer = _one(world.consumers, happening)
    # With two consumers of one client id, each shares the other's subscription.
    if sum(other.client_id == consumer.client_id for other in world.consumers) == 1:
        consumer.unsubscribes = True


def _purge(world: World, happening: Happening) -> None:
    source = _one(world.sources, happening)
    source.purge()
    world.invariants.purged(source)


def _busy_table(world: World, happening: Happening) -> None:
    source = _one(world.sources, happening)
    for index in range(BUSY_COMMITS):
        world.loop.after(happening.lasting_us * index // (2 * BUSY_COMMITS), lambda: source.commit((0,)))
    world.loop.after(happening.lasting_us, lambda: _purge(world, happening))


def _fail_over(world: World, happening: Happening) -> None:
    source = _one(world.sources, happening)
    if world.schedule.gtids:
        source.fail_over()
        world.invariants.failed_over(source)


def _shard_policy(world: World, happening: Happening) -> None:
    name = f"s{_one(world.sources, happening).index}"
    policy = (Policy.SKIP, Policy.HOLD)[happening.lasting_us % 2]
    world.operator.spawn(world.operator.give(name, policy))
    world.later(happening, lambda: world.operator.spawn(world.operator.give(name, Policy.RESUME)))


def _bad_event(world: World, happening: Happening) -> None:
    source = _one(world.sources, happening)
    source.spoils = True
    if source.index not in world.watched:
        world.watched.add(source.index)
        world.operator.spawn(world.operator.leave_out(f"s{source.index}"))


def _shard_leaves(world: World, happening: Happening) -> None:
    name = f"s{_one(world.sources, happening).index}"
    world.operator.spawn(world.operator.remove(name, now=happening.lasting_us % 3 == 0))


def _fickle(world: World, happening: Happening) -> None:
    for consumer in world.consumers:
        world.set_for(consumer, "fickle", 0.3, happening)


_FAULTS: dict[Fault, Callable[[World, Happening], Any]] = {
    Fault.KILL_SHARD: lambda w, h: _one(w.shards, h).restart(h.lasting_us // 4),
    Fault.KILL_GROUP: lambda w, h: w.active(h).restart(h.lasting_us // 8),
    Fault.KILL_SERVER: _kill_server,
    Fault.KILL_CONSUMER: lambda w, h: _one(w.consumers, h).restart(h.lasting_us // 4),
    Fault.PAUSE_SHARD: lambda w, h: w.pause(_one(w.shards, h), h),
    Fault.PAUSE_SERVER: lambda w, h: w.pause(w.active(h), h),
    Fault.PAUSE_CONSUMER: lambda w, h: w.pause(_one(w.consumers, h), h),
    Fault.HAND_OVER: _hand_over,
    Fault.CUT_COORDINATOR: lambda w, h: _cut(w, h, "zookeeper"),
    Fault.CUT_SHARD: lambda w, h: _cut(w, h, _one(w.shards, h).name),
    Fault.CUT_CONSUMER: lambda w, h: _cut(w, h, _one(w.consumers, h).name),
    Fault.COORDINATOR_AWAY: lambda w, h: _away(w.zookeeper.channel, w, h),
    Fault.COORDINATOR_LOSES: lambda w, h: w.set_for(w.zookeeper.channel, "lost", 0.4, h),
    Fault.COORDINATOR_DELAYS: lambda w, h: w.set_for(w.zookeeper.channel, "stray", 0.2, h),
    Fault.CURSORS_DELAY: lambda w, h: w.set_for(w.cursors_channel, "stray", 0.4, h),
    Fault.CURSORS_FAIL: lambda w, h: w.set_for(w.cursors_channel, "lost", 0.5, h),
    Fault.NETWORK_LOSES: lambda w, h: w.set_for(w.network, "lost", 0.3, h),
    Fault.NETWORK_REPEATS: lambda w, h: w.set_for(w.network, "twice", 0.4, h),
    Fault.NETWORK_DELAYS: lambda w, h: w.set_for(w.network, "stray", 0.3, h),
    Fault.ANSWERS_LATE: lambda w, h: w.set_for(w.network, "late", 0.3, h),
    Fault.GROUP_SLOW: lambda w, h: w.network.slow(w.active(h).name, h.lasting_us),
    Fault.GATEWAY_SLOW: _gateway_slow,
    Fault.SOURCE_AWAY: lambda w, h: _away(_one(w.sources, h), w, h),
    Fault.SHARD_SLOW: _slow,
    Fault.CLOCK_BACK: lambda w, h: _one(w.sources, h).step(-h.lasting_us // 3),
    Fault.CLOCK_FORWARD: lambda w, h: _one(w.sources, h).step(h.lasting_us // 3),
    Fault.CLOCK_FAR: lambda w, h: _one(w.sources, h).step((h.lasting_us - LASTING_MAX_US // 2) * 40),
    Fault.FUTURE_STAMP: lambda w, h: _one(w.sources, h).commit((1,), ahead_us=2 * 3600 * S),
    Fault.CURSORS_TWICE: lambda w, h: (
        w.zookeeper.channel is w.cursors_channel or w.set_for(w.cursors_channel, "twice", 0.5, h)
    ),
    Fault.RANGES: lambda w, h: w.schedule.offset_ranges and w.consumers[-1].restart(h.lasting_us // 4),
    Fault.UNSUBSCRIBE: _unsubscribe,
    Fault.PURGE: _purge,
    Fault.BUSY_TABLE: _busy_table,
    Fault.FICKLE: _fickle,
    Fault.CONSUMER_AWAY: _consumer_away,
    Fault.SHARD_POLICY: _shard_policy,
    Fault.SHARD_LEAVES: _shard_leaves,
    Fault.FAILOVER: _fail_over,
    Fault.BAD_EVENT: _bad_event,
}


def simulate(seed: int, faults: tuple[Fault, ...] = FAULTS, *, telling: bool = False) -> Outcome:
    """Run the world of a seed; the same seed gives the same outcome, with or without the story."""
    return World(seed, schedule_of(seed, faults), telling=telling).run()
