"""The group's process: the real machine with replays, and a small shell around it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from canal_group.actors.shard.report import NOTHING, ShardReport
from canal_group.merge import events as ev
from canal_group.merge import instructions as do
from canal_group.merge.calls.call import Call
from canal_group.merge.calls.consumers import Get, GetRange
from canal_group.merge.errors import CanalGroupError, CoordinatorUnavailable, RolledBack, UsageError
from canal_group.merge.group import GroupSettings
from canal_group.merge.replay.replaying_group import ReplayingGroup
from canal_group.merge.values.lane import lane_of
from canal_group.merge.values.position import GroupPosition
from simulation.loop import MS, Future, Loop
from simulation.network import Line, Network
from simulation.process import Process
from simulation.snapshots.shard import Fetched, Shard

TICK_US = 100 * MS
#: between two attempts to open a shard
REOPEN_US = 100 * MS
POLL_S, POLL_HEADERS_MAX = 0.5, 64
PACE_US = 25 * MS
#: after what was acknowledged the ring is told so
FREE_WITHIN_US = 10 * MS


@dataclass
class Store:
    """What is durable: cursors and epochs."""

    #: seconds after which a cursor is durable that was acknowledged; 0: at once
    flush_us: int = 0
    #: probability that a write fails, and that its answer only is lost
    failing: float = 0.0
    epoch: int = 0
    cursors: dict[str, do.SaveCursor] = field(default_factory=dict)
    leases: dict[str, int] = field(default_factory=dict)
    decisions: str | None = None


@dataclass
class _Followed:
    """A shard under one generation."""

    generation: int
    #: the last sequence that the ring may drop, and the last one that it was told to drop
    done: int = NOTHING
    told: int = NOTHING
    #: whether it is going to be told
    telling: bool = False
    #: what it is told does not arrive in another order
    line: Line = field(default_factory=Line)

    def to_tell(self) -> int:
        """Return the sequence that the ring has to be told to drop, or NOTHING; it then counts as told."""
        if self.done == self.told:
            return NOTHING
        self.told = self.done
        return self.done


class GroupServer(Process):
    """One server with the group; it takes over from itself when it was killed.

    Args:
        loop: its time.
        network: between it and the shards.
        settings: of the group.
        shards: its shards.
        store: what is durable.
    """

    def __init__(
        self, loop: Loop, network: Network, settings: GroupSettings, shards: list[Shard], store: Store
    ) -> None:
        super().__init__(loop, "group")
        self._network, self._settings, self._shards, self._store = network, settings, shards, store

    @property
    def forgets_cursors(self) -> bool:
        """Whether what was acknowledged may be forgotten when it is killed."""
        return self._store.flush_us > 0

    def begin(self) -> None:
        """Take over."""
        self._store.epoch += 1
        self.machine = ReplayingGroup(self._settings, self._store.epoch)
        self._calls: dict[int, Future] = {}
        self._number = 0
        self._followed: dict[tuple[int, int], _Followed] = {}
        self._unflushed: dict[str, do.SaveCursor] = {}
        known = [
            ev.ConsumerState(
                save.client_id,
                save.filter,
                None if save.cursor is None else GroupPosition.from_json(save.cursor.to_json()),
                "",
                self._store.leases.get(save.client_id, 0),
                save.dropped,
                save.losses,
                save.quiet_since,
                save.lasting,
                save.unread,
            )
            for save in self._store.cursors.values()
        ]
        #: the cursors that it found, by client id
        self.found = {each.client_id: each.cursor for each in known if each.cursor is not None}
        self.tell(ev.Started(self.now_us, tuple(known), self._store.decisions))
        self.after(TICK_US, self._tick)

    def _tick(self) -> None:
        self.tell(ev.Ticked(self.now_us))
        self.machine.validate()
        self.after(TICK_US, self._tick)

    # ---- calls -------------------------------------------------------------------------------------------

    async def give(self, call: Call[Any]) -> Any:
        """Return the machine's answer to a call."""
        self._number += 1
        number, answer = self._number, Future()
        self._calls[number] = answer
        self.tell(ev.Asked(number, call, self.now_us))
        if isinstance(call, Get | GetRange) and not answer.done:
            timed_out = ev.GetTimedOut(number, call.client_id)
            self.after(round(call.timeout_s * 1e6), lambda: self.tell(timed_out))
        return await self.awaiting(answer)

    async def rows(self, headers: Any, generation: int, shards: tuple[str, ...]) -> list[Fetched]:
        """Return the rows and statements of a batch, header by header."""
        found: dict[int, list[Fetched]] = {}
        begins: dict[int, int] = {}
        for shard in sorted(set(headers["shard"].tolist())):
            mine = headers["sequence"][headers["shard"] == shard]
            begins[shard] = int(mine[0])
            process = next(each for each in self._shards if each.name == shards[shard])
            term = (self.machine.epoch, generation)
            ends = int(mine[-1]) + 1
            try:
                found[shard] = await self._network.call(self, process, "fetch", *term, begins[shard], ends)
            except UsageError as error:
                # The batch was rolled back meanwhile, and others have acknowledged these rows.
                raise RolledBack(error.message) from error
        pairs = zip(headers["shard"].tolist(), headers["sequence"].tolist(), strict=True)
        return [found[shard][sequence - begins[shard]] for shard, sequence in pairs]

    # ---- instructions --------------------------------------------------------------------------------------

    def tell(self, event: ev.Event) -> None:
        """Give the machine an event and do what it says."""
        for instruction in self.machine.handle(event):
            self._carry_out(instruction)

    def _carry_out(self, instruction: do.Instruction) -> None:  # noqa: C901, PLR0912 - one case an instruction
        match instruction:
            case do.Reply(number, value):
                self._calls.pop(number).set(value)
            case do.Refuse(number, error):
                self._calls.pop(number).fail(error)
            case do.OpenShard(shard, generation):
                followed = self._followed[lane_of(generation), shard] = _Followed(generation)
                self.spawn(self._follow(shard, followed, instruction))
            case do.FreeRing(shard, generation, sequence):
                found = self._followed.get((lane_of(generation), shard))
                if found is not None and found.generation == generation:
                    found.done = sequence
                    if not found.telling:
                        found.telling = True
                        self.after(FREE_WITHIN_US, lambda: self.spawn(self._free(shard, found)))
            case do.CloseLane(lane):
                for shard, process in enumerate(self._shards):
                    self._followed.pop((lane, shard), None)
                    self.spawn(self._close(process, lane))
            case do.SaveCursor():
                self.after(self._delay_us(), lambda: self._save(instruction))
            case do.ForgetClient():
                self.after(self._delay_us(), lambda: self._forget(instruction))
            case do.LeaseConsumer(number, client_id):
                epoch = self._store.leases[client_id] = self._store.leases.get(client_id, 0) + 1
                leased = ev.ConsumerLeased(number, client_id, epoch, self.now_us)
                self.after(self._delay_us(), lambda: self.tell(leased))
            case do.SaveDdl(version, text):
                self._store.decisions = text
                self.after(self._delay_us(), lambda: self.tell(ev.DdlSaved(version, self.now_us)))
            case do.ReleaseConsumer() | do.KeepArchived():
                pass
            case _:
                raise AssertionError(f"{instruction} is not expected")

    def _delay_us(self) -> int:
        return self.loop.chance.randrange(MS, 8 * MS)

    def _save(self, save: do.SaveCursor) -> None:
        store, chance = self._store, self.loop.chance
        if chance.random() < store.failing:
            error = CoordinatorUnavailable("The store did not answer.")
            if chance.random() < 0.5:
                store.cursors[save.client_id] = save
            self.tell(ev.CursorNotSaved(save.number, save.client_id, error))
            return
        if store.flush_us and save.client_id in store.cursors:
            if not self._unflushed:
                self.after(store.flush_us, self._flush)
            self._unflushed[save.client_id] = save
        else:
            store.cursors[save.client_id] = save
        self.tell(ev.CursorSaved(save.number, save.client_id))

    def _forget(self, forget: do.ForgetClient) -> None:
        if self.loop.chance.random() < self._store.failing:
            error = CoordinatorUnavailable("The store did not answer.")
            self.tell(ev.ClientNotForgotten(forget.number, forget.client_id, error))
            return
        self._store.cursors.pop(forget.client_id, None)
        self._unflushed.pop(forget.client_id, None)
        self.tell(ev.ClientForgotten(forget.number, forget.client_id))

    def _flush(self) -> None:
        self._store.cursors.update(self._unflushed)
        self._unflushed.clear()

    async def _close(self, process: Shard, lane: int) -> None:
        await self._network.call(self, process, "close_lane", self.machine.epoch, lane)

    # ---- shards --------------------------------------------------------------------------------------------

    def _is_followed(self, shard: int, followed: _Followed) -> bool:
        return self._followed.get((lane_of(followed.generation), shard)) is followed

    async def _follow(self, shard: int, followed: _Followed, asked: do.OpenShard) -> None:
        term = (self.machine.epoch, followed.generation)
        while True:
            process = self._shards[shard]
            try:
                opened = await self._network.call(self, process, "open", *term, asked.position, asked.read_to)
                break
            except CanalGroupError as error:
                if not self._is_followed(shard, followed):
                    return
                self.tell(ev.ShardNotOpened(shard, followed.generation, error))
                await self.sleep(REOPEN_US)
        if not self._is_followed(shard, followed):
            return
        self.tell(ev.ShardOpened(shard, followed.generation, opened, self.now_us))
        try:
            while self._is_followed(shard, followed):
                await self._poll(shard, followed, process)
        except CanalGroupError as error:
            if self._is_followed(shard, followed):
                self.note("loses s{}: {}", shard, error)
                self.tell(ev.ShardLost(shard, followed.generation, str(error), self.now_us))

    async def _poll(self, shard: int, followed: _Followed, process: Shard) -> None:
        asked_us, term = self.now_us, (self.machine.epoch, followed.generation)
        report: ShardReport = await self._network.call(
            self, process, "poll", *term, POLL_HEADERS_MAX, POLL_S, followed.to_tell(), line=followed.line
        )
        if not self._is_followed(shard, followed):
            return
        if report.error is not None:
            self.tell(ev.ShardFailed(shard, followed.generation, report.error, self.now_us))
        if report.run is not None or report.frontier_us is not None or report.full:
            self.tell(
                ev.ShardReported(
                    shard,
                    followed.generation,
                    report.run,
                    report.frontier_us,
                    self.now_us,
                    report.server,
                    report.full,
                    report.error is not None,
                    source_us=report.source_us,
                    asked_us=asked_us,
                    created=report.created,
                )
            )
        await self.sleep(max(MS, PACE_US - (self.now_us - asked_us)))

    async def _free(self, shard: int, followed: _Followed) -> None:
        followed.telling, done = False, followed.to_tell()
        if done != NOTHING:
            term = (self.machine.epoch, followed.generation)
            await self._network.call(self, self._shards[shard], "free", *term, done, line=followed.line)
