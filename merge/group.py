"""The group: the state machine that turns shards' headers into acknowledged batches.

Only `handle(event)` changes its state; it returns the instructions. `canal_group.merge.order.stream` knows
the shards and merges them, `canal_group.merge.delivery.subscribers` knows who reads the merged log, and
`canal_group.merge.delivery.consumers` answers the consumers' calls. The group connects the three. Rules:

1. There is one recovery: a *rewind*. Whenever a ring is lost, everything that is not acknowledged is
   forgotten and every shard is opened again at the oldest cursor, under a new generation.
2. A refused request changes nothing.
3. When a shard leaves, its actor is ended only after every cursor has the change. A removal at once is
   answered only then; a removal that drains the shard is answered at the start.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from canal_group.merge.calls.consumers import GetRange, Release, SubscribeAt, Unsubscribe
from canal_group.merge.calls.operators import GivePolicy, RemoveShard, Steering
from canal_group.merge.delivery.batch_limits import BatchLimits
from canal_group.merge.delivery.consumers import Consumers
from canal_group.merge.delivery.full_rings import full_rings
from canal_group.merge.delivery.subscribers import Subscribers
from canal_group.merge.errors import CanalGroupError, DataError, PositionPurged, UsageError
from canal_group.merge.event_skips import Stop
from canal_group.merge.events import (
    Asked,
    ConsumerLeased,
    DdlNotSaved,
    DdlSaved,
    Event,
    ShardAdded,
    ShardFailed,
    ShardLost,
    ShardNotOpened,
    ShardOpened,
    ShardReported,
    Started,
    Ticked,
)
from canal_group.merge.instructions import CloseShard, Instruction, Refuse, Reply
from canal_group.merge.order.ddl.policy import DdlPolicy
from canal_group.merge.order.ddl.rule import DdlRule
from canal_group.merge.order.dead_shard import DeadShard
from canal_group.merge.order.sort_order import SortOrder
from canal_group.merge.order.stream import Stream
from canal_group.merge.order.stream_status import describe_stream
from canal_group.merge.state_words import client_words
from canal_group.merge.trace import trace
from canal_group.merge.values.chunk import TableName
from canal_group.merge.values.commit_time import CommitTimes
from canal_group.merge.values.lane import LIVE
from canal_group.merge.values.loss import Purged
from canal_group.merge.values.marks.snapshot_mark import SnapshotEnd
from canal_group.merge.values.member import Role

#: how long a position must stay purged, or a shard must stay at an event, before the clients that need the
#: position or the event are set aside, microseconds; an address may lead to another server for a moment
PURGED_WAIT_US = 1_000_000


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """Settings of a group; `canal_group.actors.group.wiring` makes them, and `conf` has their defaults."""

    destination: str
    #: names by shard_index
    shards: tuple[str, ...]
    limits: BatchLimits
    #: how long a consumer may be silent before its client id is free again
    lease_us: int
    #: whether to continue without a silent shard
    dead_shard: DeadShard
    #: how far ahead of its source's clock a commit time may be; one further ahead is not believed
    ahead_max_us: int
    #: order by ids, and an id is committed at most so long after a greater one; None: order by commit time
    ids_within_us: int | None
    #: which server's commit times the shards read
    commit_times: CommitTimes
    #: drop a client id that has no consumer for longer while another one has; None: keep it for ever
    drop_after_us: int | None
    #: the same of a client id that has acknowledged nothing and did not ask to be kept; None: for ever
    unacknowledged_us: int | None
    #: a consumer may have the shards opened again at most so far before the others, in commit time; None: any
    apart_max_us: int | None
    #: where a client id goes on whose position a source has purged
    purged: Purged
    #: how often cursors pass what nothing is kept of; at each tick while a ring is full
    quiet_us: int
    #: client ids that there may be
    client_ids_max: int
    #: which of the statements that say the same of tables with one name are delivered
    ddl: DdlRule
    #: clients that are served by replays at once; 0: a client that is behind has all read again with it
    replays_max: int
    #: how long a replay may have rings while another one waits for them
    replay_turn_us: int


class Group:
    """Merges shards and serves subscribers; see the module's rules.

    Args:
        settings: shards, limits and intervals.
        epoch: fencing epoch of the server that runs it.
        lane: see `canal_group.merge.values.lane`.
        leasing: see `canal_group.merge.delivery.consumers.Consumers`.
    """

    def __init__(
        self,
        settings: GroupSettings,
        epoch: int,
        lane: int = LIVE,
        leasing: dict[int, SubscribeAt] | None = None,
    ) -> None:
        self.settings = settings
        self.epoch = epoch
        self._leasing = {} if leasing is None else leasing
        order = SortOrder(settings.ahead_max_us, settings.ids_within_us, settings.commit_times)
        self._stream = Stream(settings.shards, settings.dead_shard, order, lane)
        self._subscribers = Subscribers(
            self._stream,
            epoch,
            settings.limits,
            settings.lease_us,
            (settings.drop_after_us, settings.unacknowledged_us),
            settings.apart_max_us,
            settings.purged,
            settings.client_ids_max,
            apart=settings.replays_max > 0,
            single=lane != LIVE,
        )
        self._consumers = Consumers(
            settings.destination, self._stream, self._subscribers, settings.lease_us, self._leasing
        )
        #: when cursors last passed what nothing is kept of
        self._quiet_at_us = 0
        #: instructions that wait until every cursor has the current shards
        self._reconciling: list[Instruction] = []

    @property
    def generation(self) -> int:
        """Grows with each rewind."""
        return self._stream.generation

    def handle(self, event: Event) -> list[Instruction]:
        """Handle an event and return the instructions, in order."""
        try:
            return [*self._on(event), *self._reconcile(), *self._stream.ddl.write()]
        except CanalGroupError as error:
            number = getattr(event, "number", None)
            if number is None:
                raise
            return [Refuse(number, error)]

    def _reconcile(self) -> list[Instruction]:
        """Retire drained shards, and return the instructions that waited for every cursor to follow."""
        instructions: list[Instruction] = []
        for shard in self._drained():
            name = self._stream.shards[shard]
            self._subscribers.note_departure(name, self._stream.base.ack.shards[name])
            self._stream.retire(name)
            self._reconciling.append(CloseShard(shard))
            instructions += self._subscribers.reconcile()
        if self._reconciling and self._subscribers.reconciled:
            instructions += self._reconciling
            self._reconciling = []
        return instructions

    def _drained(self) -> list[int]:
        return self._stream.leaving.freed()

    def _on(self, event: Event) -> list[Instruction]:  # noqa: C901, PLR0911, PLR0912 - one case an event
        match event:
            case Started():
                if self.settings.ddl is not DdlRule.EVERY:
                    self._stream.ddl.policy = DdlPolicy(self.settings.ddl, event.ddl)
                self._subscribers.restore(event.consumers, event.at_us)
                return self._rewind(event.at_us)
            case Asked(call=GivePolicy()):
                return self._policy_given(event)
            case Asked(call=RemoveShard()):
                return self._removed(event)
            case Asked(call=call):
                instructions = self._consumers.answer(event)
                if isinstance(call, GetRange | Release | Unsubscribe | Steering):
                    instructions += self._rewind_if_sought(event.at_us)
                return instructions
            case ShardOpened():
                was_merging = self._stream.merging
                joined = self._stream.opened(event)
                return [*(self._subscribers.reconcile() if joined else ()), *self._went_on(was_merging)]
            case ShardNotOpened():
                self._stream.not_opened(event)
                return []
            case ShardReported():
                was_merging = self._stream.merging
                self._stream.reported(event)
                return [*self._note_ends(event), *self._went_on(was_merging)]
            case ShardFailed():
                self._stream.failed(event)
                return self._set_purged_aside(event.at_us)
            case ShardLost():
                return self._lost(event)
            case ShardAdded():
                return self._added(event)
            case DdlSaved():
                self._stream.ddl_saved(event.version)
                return self._went_on(was_merging=self._stream.merging)
            case DdlNotSaved():
                self._stream.ddl.not_saved()
                return []
            case Ticked():
                return self._ticked(event)
            case ConsumerLeased():
                return self._leased(event)
            case _:
                return self._consumers.handle(event)

    def _leased(self, event: ConsumerLeased) -> list[Instruction]:
        opened_for = self._subscribers.cursors
        instructions = self._consumers.handle(event)
        if self._stream.merging:
            # Otherwise the log begins inside a huge transaction, and the new client must not miss its start.
            placed = self._subscribers.all_placed
        else:
            # The cursor of a resuming client may be before the position at which the shards are being opened.
            placed = all(cursor in opened_for for cursor in self._subscribers.cursors)
        return instructions if placed else [*instructions, *self._open_for_clients(event.at_us)]

    def _note_ends(self, event: ShardReported) -> list[Instruction]:
        """Note the ends of snapshots that a report has, before a client gets what follows them."""
        if event.run is None or event.generation != self.generation:
            return []
        ends = [
            end for text in event.run.snapshots.values() if (end := SnapshotEnd.of_text(text)) is not None
        ]
        return self._subscribers.snapshots_ended(self._stream.shards[event.shard], ends) if ends else []

    def _lost(self, event: ShardLost) -> list[Instruction]:
        left = self._stream.membership.members[event.shard].role is Role.LEFT
        if event.generation != self.generation or left:
            return []
        instructions = self._rewind(event.at_us)
        self._stream.note_loss(event.shard, event.reason)
        return instructions

    def _ticked(self, event: Ticked) -> list[Instruction]:
        self._stream.ddl.ticked()
        released = self._subscribers.release_silent(event.at_us, reachable=event.reachable)
        released += self._subscribers.drop_away(event.at_us)
        released += self._subscribers.end_looks(event.at_us)
        released += self._subscribers.save_again()
        released += self._set_purged_aside(event.at_us)
        released += self._set_stopped_aside(event.at_us)
        was_merging = self._stream.merging
        stopped = self.settings.purged is not Purged.FAIL and self._stream.purged_after_all
        if self._stream.skip_silent(event.at_us) or stopped:
            return [*released, *self._rewind(event.at_us)]
        if self._subscribers.seeking:
            return [*released, *self._open_for_clients(event.at_us)]
        reconciled = () if self._subscribers.reconciled else self._subscribers.reconcile()
        return [*released, *reconciled, *self._pass_quiet(event.at_us), *self._went_on(was_merging)]

    def _pass_quiet(self, at_us: int) -> list[Instruction]:
        """Move the cursors past what nothing is kept of, if it is time to or a ring is full."""
        due = at_us - self._quiet_at_us >= self.settings.quiet_us
        if not self._stream.merging or not (due or self._stream.crowded):
            return []
        self._quiet_at_us = at_us
        return self._subscribers.pass_quiet()

    def _set_purged_aside(self, at_us: int) -> list[Instruction]:
        """Continue without the clients that need a position which a source has purged."""
        instructions: list[Instruction] = []
        for shard in self._stream.purged():
            name, state = self._stream.shards[shard], self._stream.states[shard]
            position, error, since_us = state.refused_at, state.error, state.purged_us
            assert position is not None, "a shard without a position begins where its settings say"
            assert isinstance(error, DataError), "a refused position has its error"
            waited = since_us is not None and at_us - since_us >= PURGED_WAIT_US
            set_aside = self._subscribers.purge(name, position, error, waited=waited)
            if set_aside is None:
                continue
            joined = self._stream.membership.with_joined
            nobody = not any(name in joined(cursor).shards for cursor in self._subscribers.cursors)
            if nobody and isinstance(error, PositionPurged):
                self._stream.give_up_position(shard)
            return [*instructions, *set_aside, *self._rewind(at_us)]
        return instructions

    def _set_stopped_aside(self, at_us: int) -> list[Instruction]:
        """Continue without the clients for which a shard was opened before an event that stops it."""
        for shard in self._stream.stopped_at_events():
            name, state = self._stream.shards[shard], self._stream.states[shard]
            if at_us - state.since_us < PURGED_WAIT_US:
                continue
            set_aside = self._subscribers.end_before_event(name, state)
            if set_aside is not None:
                return [*set_aside, *self._rewind(at_us)]
        return []

    def _rewind_if_sought(self, at_us: int) -> list[Instruction]:
        """Open every shard again if a consumer asked for a position that the log does not hold."""
        return self._open_for_clients(at_us) if self._subscribers.seeking else []

    def _open_for_clients(self, at_us: int) -> list[Instruction]:
        """Have read what clients need that the log does not hold."""
        return self._rewind(at_us)

    def _policy_given(self, asked: Asked[GivePolicy]) -> list[Instruction]:
        shard = self._stream.membership.index_of(asked.call.shard)
        was_merging = self._stream.merging
        rewind = self._stream.give_policy(shard, asked.call.policy, asked.at_us)
        moved = self._rewind(asked.at_us) if rewind else self._went_on(was_merging)
        return [*moved, Reply(asked.number, self._describe_shard(shard, asked.at_us))]

    def _added(self, event: ShardAdded) -> list[Instruction]:
        shard = self._stream.add(event.name, event.start)
        merging = self._stream.merging
        opening = [self._stream.open_new(shard, event.at_us)] if merging else self._rewind(event.at_us)
        return [*opening, Reply(event.number, self._describe_shard(shard, event.at_us))]

    def _removed(self, asked: Asked[RemoveShard]) -> list[Instruction]:
        name = asked.call.shard
        if name in self._stream.membership.orphans:
            return self._remove_orphan(asked)
        shard = self._stream.membership.index_of(name)
        if self._stream.membership.last_but(shard):
            raise UsageError(
                f"{name} is the only shard.",
                hint="Stop the instance instead, or wait until another shard has joined.",
            )
        if self._stream.membership.members[shard].role is Role.JOINING:
            self._stream.retire(name)
            self._reconciling.append(CloseShard(shard))
            self._reconciling.append(Reply(asked.number, {"shard": name, "role": Role.LEFT.value}))
            return self._subscribers.reconcile()
        if not asked.call.now:
            self._stream.drain(shard, asked.at_us)
            return [Reply(asked.number, self._describe_shard(shard, asked.at_us))]
        dropped = {
            "shard": name,
            "role": Role.LEFT.value,
            "rows_dropped": self._stream.log.rows_of(shard),
            "left_at": self._subscribers.positions_of(name),
        }
        self._stream.retire(name)
        self._reconciling += [CloseShard(shard), Reply(asked.number, dropped)]
        return [*self._subscribers.reconcile(), *self._rewind(asked.at_us)]

    def _remove_orphan(self, asked: Asked[RemoveShard]) -> list[Instruction]:
        """Remove a shard that the cursors hold and the settings lack."""
        name = asked.call.shard
        if not asked.call.now:
            raise UsageError(
                f"Shard {name} cannot be drained: the settings do not have it.",
                hint="Put it back into the instance file, or remove it with --now.",
            )
        left_at = self._subscribers.positions_of(name)
        self._stream.retire(name)
        dropped = {"shard": name, "role": Role.LEFT.value, "rows_dropped": 0, "left_at": left_at}
        self._reconciling.append(Reply(asked.number, dropped))
        return [*self._subscribers.reconcile(), *self._rewind(asked.at_us)]

    def _describe_shard(self, shard: int, at_us: int) -> dict[str, Any]:
        found: dict[str, Any] = self.describe(at_us)["shards"][shard]
        return found

    def _rewind(self, at_us: int) -> list[Instruction]:
        """Forget what is not acknowledged and open every shard at the oldest cursor."""
        elsewhere = [each.cursor for each in self._subscribers.elsewhere.values() if each.cursor is not None]
        opening = self._stream.rewind(self._subscribers.cursors, at_us, elsewhere)
        return [*self._subscribers.rewind(), *opening]

    def _went_on(self, was_merging: bool) -> list[Instruction]:
        """Position the subscribers if merging has just begun, and answer the gets that can be answered."""
        placed = self._subscribers.place() if self._stream.merging and not was_merging else []
        return [*placed, *self._subscribers.serve()]

    @property
    def gone(self) -> list[str]:
        """Names of the shards that have left and that no cursor holds; empty while that is not known."""
        known = self._stream.merging and self._subscribers.reconciled
        return self._stream.membership.retired if known else []

    def stop_of(self, name: str, event: str = "") -> Stop:
        """Return where a shard stands.

        Args:
            name: of the shard.
            event: "file:offset" of an event; if several clients have stopped at several events, the stop at
                this one is returned.

        Raises:
            UsageError: there is no such shard.
        """
        stops = self.stops_of(name)
        return min(stops, key=lambda stop: (bool(event) and stop.event != event, stop.error is None))

    def stops_of(self, name: str) -> list[Stop]:
        """Return where a shard stands, and the stops for which clients were set aside.

        Raises:
            UsageError: there is no such shard.
        """
        state = self._stream.states[self._stream.membership.index_of(name)]
        aside = [each.continuation.purged for each in self._subscribers.everybody]
        errors = [error for error in aside if error is not None and error.details.get("shard") == name]
        return [Stop.of(name, error, state.server, state.created) for error in [state.error, *errors]]

    def check_name(self, shard: str) -> None:
        """Return if a shard of this name can be added; raises as `Membership.check_name`."""
        self._stream.membership.check_name(shard)

    def describe(self, at_us: int) -> dict[str, Any]:
        """Return the group's state as a JSON object: shards, the shard that blocks the group, subscribers."""
        full = full_rings(self.settings.destination, self._stream, self._subscribers, at_us)
        clients = self._subscribers.describe(at_us)
        return {
            "destination": self.settings.destination,
            "epoch": self.epoch,
            **describe_stream(self._stream, at_us),
            "reconciled": self._subscribers.reconciled,
            "ddl": self._stream.describe_ddl(),
            "clients": [{**client, "words": client_words(client, full)} for client in clients],
            "had_clients": self._subscribers.had_any,
            "full_rings": full,
        }

    def trace(
        self,
        gtid: str,
        read: Mapping[str, str],
        shard: str | None = None,
        table: TableName | None = None,
    ) -> dict[str, Any]:
        """Return where a transaction is, see `canal_group.merge.trace.trace`."""
        return trace(self._stream, self._subscribers, gtid, read, shard, table)

    def validate(self) -> None:
        """Assert what holds between two events."""
        self._stream.validate()
        self._subscribers.validate()
