"""The group: the state machine that turns shards' headers into acknowledged batches.

One mutation door: `handle(event)` returns what has to be done. Rules:

1. There is one recovery: a *rewind*. Whenever a ring is lost, everything that is not acknowledged is forgotten and
   every shard is opened again at the oldest cursor, under a new generation. What carries an older generation is
   ignored.
2. A batch is delivered under the epoch of the consumer that asked; its rows stay in the rings until every
   subscriber has acknowledged them.
3. An acknowledgement is answered after the cursor store has the cursor; then the rings are freed.
4. A refused request changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import singledispatchmethod
from typing import Any

import numpy as np

from merge.errors import CanalGroupError, FencedError, NotSubscribed, RetryableError
from merge.events import (
    AckRequested,
    ConsumerLeased,
    ConsumerTouched,
    CursorNotSaved,
    CursorSaved,
    Event,
    ForgetClient,
    FreeRing,
    GetRequested,
    GetTimedOut,
    Instruction,
    LeaseConsumer,
    LeaseFailed,
    OpenShard,
    PlanRequested,
    Refuse,
    ReleaseConsumer,
    ReleaseRequested,
    Reply,
    RollbackRequested,
    SaveCursor,
    ShardFailed,
    ShardLost,
    ShardOpened,
    ShardReported,
    Started,
    SubscribeRequested,
    Ticked,
    UnsubscribeRequested,
)
from merge.merged_log import MergedLog
from merge.position import GroupPosition, Position
from merge.progress import Progress
from merge.subscriber import BatchLimits, Subscriber
from merge.timeline import Timeline


class ShardState(StrEnum):
    """What the group knows of a shard."""

    #: asked to read on, no answer yet
    OPENING = "opening"
    #: its headers come in
    OPEN = "open"
    #: stopped at data it cannot process
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """What a group is made of."""

    destination: str
    #: names by shard_index
    shards: tuple[str, ...]
    limits: BatchLimits = BatchLimits()
    #: how long a consumer may be silent before its client id is free again
    lease_us: int = 10_000_000
    #: go on without a shard whose frontier stood still for so long; None: wait for ever
    skip_after_us: int | None = None


@dataclass(slots=True)
class _Shard:
    state: ShardState = ShardState.OPENING
    #: when the state was entered
    since_us: int = 0
    #: when the frontier last moved
    moved_us: int = 0
    #: where it was opened; None until it was
    opened_at: Position | None = None
    #: where it was asked to open; None: where its settings say
    asked_at: Position | None = None
    #: why it is not open
    error: CanalGroupError | None = None
    reason: str = ""


class Group:
    """Merges shards and serves subscribers; see the module's rules.

    Args:
        settings: what the group is made of.
        epoch: fencing epoch of the server that runs it.
    """

    def __init__(self, settings: GroupSettings, epoch: int) -> None:
        self.settings = settings
        self.epoch = epoch
        #: grows with each rewind
        self.generation = 0
        self._shards = [_Shard() for _ in settings.shards]
        self._subscribers: dict[str, Subscriber] = {}
        #: merging begins when every shard has told where it stands
        self._timeline: Timeline | None = None
        self._log = MergedLog()
        #: where the log begins
        self._base = Progress.at(GroupPosition())
        #: leases that the coordinator is asked for: call -> request
        self._leasing: dict[int, SubscribeRequested] = {}
        #: subscriptions to answer when their cursor is stored, or known at all
        self._subscribing: dict[str, int] = {}
        self._late = 0

    def handle(self, event: Event) -> list[Instruction]:
        """Take an event and return what has to be done, in order."""
        try:
            return self._on(event)
        except CanalGroupError as error:
            call = getattr(event, "call", None)
            if call is None:
                raise
            return [Refuse(call, error)]

    @singledispatchmethod
    def _on(self, event: Event) -> list[Instruction]:
        raise AssertionError(f"no such event: {event!r}")

    # ---- shards ----------------------------------------------------------------------------------------

    @_on.register
    def _(self, event: Started) -> list[Instruction]:
        for state in event.consumers:
            subscriber = Subscriber(state.client_id, self.epoch, self.settings.limits)
            subscriber.filter, subscriber.cursor = state.filter, state.cursor
            # Its consumer may be alive and well: it keeps its epoch, and a lease from now on.
            subscriber.holder, subscriber.epoch, subscriber.seen_us = state.holder, state.epoch, event.at_us
            self._subscribers[state.client_id] = subscriber
        return self._rewind(event.at_us)

    @_on.register
    def _(self, event: ShardOpened) -> list[Instruction]:
        shard = self._shards[event.shard]
        if event.generation != self.generation or shard.state is not ShardState.OPENING:
            return []
        shard.state, shard.since_us, shard.moved_us = ShardState.OPEN, event.at_us, event.at_us
        shard.opened_at, shard.error, shard.reason = event.position, None, ""
        if self._timeline is not None or any(other.opened_at is None for other in self._shards):
            return []
        return self._begin(event.at_us)

    @_on.register
    def _(self, event: ShardReported) -> list[Instruction]:
        if event.generation != self.generation or self._timeline is None:
            return []
        shard = self._shards[event.shard]
        if shard.state is ShardState.FAILED:
            shard.state, shard.since_us, shard.error = ShardState.OPEN, event.at_us, None
        before_us = self._timeline.frontier_us(event.shard)
        if event.run is not None:
            self._timeline.append(event.shard, event.run)
        if event.frontier_us is not None:
            self._timeline.promise(event.shard, event.frontier_us)
        if self._timeline.frontier_us(event.shard) > before_us:
            shard.moved_us = event.at_us
            self._timeline.include(event.shard)
        return self._advance()

    @_on.register
    def _(self, event: ShardLost) -> list[Instruction]:
        shard = self._shards[event.shard]
        if event.generation != self.generation or shard.state is not ShardState.OPEN:
            return []
        instructions = self._rewind(event.at_us)
        shard.reason = event.reason
        return instructions

    @_on.register
    def _(self, event: ShardFailed) -> list[Instruction]:
        shard = self._shards[event.shard]
        if event.generation == self.generation and shard.state is not ShardState.FAILED:
            shard.state, shard.since_us, shard.error = ShardState.FAILED, event.at_us, event.error
        return []

    def _rewind(self, at_us: int) -> list[Instruction]:
        """Forget what is not acknowledged and open every shard at the oldest cursor."""
        self.generation += 1
        if self._timeline is not None:
            self._late += self._timeline.late
        self._timeline = None
        self._log = MergedLog()
        instructions: list[Instruction] = []
        for index, name in enumerate(self.settings.shards):
            before = self._shards[index]
            position = self._oldest(name) or before.opened_at or before.asked_at
            self._shards[index] = _Shard(since_us=at_us, moved_us=at_us, asked_at=position)
            instructions.append(OpenShard(index, self.generation, position))
        for subscriber in self._subscribers.values():
            subscriber.rewind(self.settings.shards, self._log.base)
        return instructions

    def _oldest(self, shard: str) -> Position | None:
        """Return the smallest cursor of the subscribers on a shard."""
        positions = [
            subscriber.cursor.shards[shard]
            for subscriber in self._subscribers.values()
            if subscriber.cursor is not None and shard in subscriber.cursor.shards
        ]
        return min(positions, default=None)

    def _begin(self, at_us: int) -> list[Instruction]:
        """Start merging: of every shard it is known where it stands."""
        opened: dict[str, Position] = {}
        for name, shard in zip(self.settings.shards, self._shards, strict=True):
            position = shard.opened_at or shard.asked_at
            assert position is not None, "merging begins at known positions"
            opened[name] = position
            shard.moved_us = at_us if shard.opened_at is not None else shard.moved_us
        sequences = [s.cursor.sequence for s in self._subscribers.values() if s.cursor is not None]
        self._base = Progress.at(GroupPosition(opened, min(sequences, default=0)))
        self._timeline = Timeline([position.key_us for position in opened.values()])
        # What went out before had keys up to the greatest of these: nothing may go out below it.
        for index in range(len(opened)):
            self._timeline.promise(index, max(position.key_us for position in opened.values()))
        instructions: list[Instruction] = []
        for subscriber in self._subscribers.values():
            known = subscriber.cursor or GroupPosition({}, self._base.ack.sequence)
            complete = GroupPosition({**opened, **known.shards}, known.sequence)
            subscriber.stand_at(complete, self.settings.shards)
            call = self._subscribing.get(subscriber.client_id)
            if call is not None:
                instructions.append(self._save_subscription(call, subscriber))
        return instructions

    def _advance(self) -> list[Instruction]:
        """Let headers out of the timeline and answer the gets that wait for them."""
        assert self._timeline is not None
        headers = self._timeline.advance()
        if not len(headers):
            return []
        self._log.append(headers)
        return [
            instruction
            for subscriber in self._subscribers.values()
            for instruction in self._serve(subscriber)
        ]

    def _serve(self, subscriber: Subscriber) -> list[Instruction]:
        """Answer a subscriber's waiting gets as far as there are batches."""
        instructions: list[Instruction] = []
        while subscriber.waiting and self._timeline is not None:
            call, request = next(iter(subscriber.waiting.items()))
            try:
                subscriber.ledger.check_room()
            except RetryableError as error:
                instructions.append(Refuse(call, error))
                del subscriber.waiting[call]
                continue
            batch = subscriber.next_batch(
                self._log, self._timeline.names.as_tuple(), self.settings.shards, self.generation, request.rows_max
            )
            if batch is None:
                break
            del subscriber.waiting[call]
            instructions.append(Reply(call, batch))
        return instructions

    # ---- consumers -------------------------------------------------------------------------------------

    @_on.register
    def _(self, event: SubscribeRequested) -> list[Instruction]:
        for request in self._leasing.values():
            if request.client_id == event.client_id:
                raise RetryableError(f"Client {event.client_id} is being taken by {request.holder}.")
        subscriber = self._subscribers.get(event.client_id)
        if subscriber is not None:
            subscriber.check_free(event.holder, self.settings.lease_us, event.at_us)
        self._leasing[event.call] = event
        return [LeaseConsumer(event.call, event.client_id, event.holder)]

    @_on.register
    def _(self, event: LeaseFailed) -> list[Instruction]:
        self._leasing.pop(event.call, None)
        raise event.error

    @_on.register
    def _(self, event: ConsumerLeased) -> list[Instruction]:
        request = self._leasing.pop(event.call)
        subscriber = self._subscribers.get(event.client_id)
        if subscriber is None:
            subscriber = Subscriber(event.client_id, self.epoch, self.settings.limits)
            subscriber.rewind(self.settings.shards, self._log.base)
            self._subscribers[event.client_id] = subscriber
            if self._timeline is not None:
                subscriber.stand_at(self._base.ack, self.settings.shards)
        instructions: list[Instruction] = []
        if subscriber.epoch:
            over = FencedError(
                f"{request.holder} took over client {event.client_id}.",
                our_epoch=subscriber.epoch,
                current_epoch=event.epoch,
            )
            instructions += [Refuse(call, over) for call in subscriber.waiting]
            subscriber.waiting.clear()
        subscriber.rollback()
        subscriber.notice = None
        subscriber.holder, subscriber.epoch = request.holder, event.epoch
        subscriber.filter, subscriber.seen_us = request.filter, event.at_us
        self._subscribing[event.client_id] = event.call
        if self._timeline is not None or subscriber.cursor is not None:
            instructions.append(self._save_subscription(event.call, subscriber))
        return instructions

    def _save_subscription(self, call: int, subscriber: Subscriber) -> Instruction:
        return SaveCursor(call, subscriber.client_id, subscriber.filter, subscriber.cursor)

    @_on.register
    def _(self, event: ConsumerTouched) -> list[Instruction]:
        self._consumer(event.client_id, event.epoch, event.at_us)
        return [Reply(event.call, None)]

    @_on.register
    def _(self, event: GetRequested) -> list[Instruction]:
        subscriber = self._consumer(event.client_id, event.epoch, event.at_us)
        if subscriber.notice is not None:
            notice, subscriber.notice = subscriber.notice, None
            raise notice
        subscriber.ledger.check_room()
        subscriber.waiting[event.call] = event
        return self._serve(subscriber)

    @_on.register
    def _(self, event: GetTimedOut) -> list[Instruction]:
        subscriber = self._subscribers.get(event.client_id)
        if subscriber is None or event.call not in subscriber.waiting:
            return []
        del subscriber.waiting[event.call]
        # A stopped shard holds the group for good: whoever waits must hear why.
        for shard in self._shards:
            if shard.state is ShardState.FAILED and shard.error is not None:
                return [Refuse(event.call, shard.error)]
        return [Reply(event.call, None)]

    @_on.register
    def _(self, event: PlanRequested) -> list[Instruction]:
        subscriber = self._consumer(event.client_id, event.epoch, event.at_us)
        return [Reply(event.call, subscriber.ledger.find(event.batch_id))]

    @_on.register
    def _(self, event: AckRequested) -> list[Instruction]:
        subscriber = self._consumer(event.client_id, event.epoch, event.at_us)
        if subscriber.saving is not None:
            raise RetryableError(
                f"An acknowledgement of client {event.client_id} is being written.",
                hint="Acknowledge one batch at a time.",
                retry_after_s=0.05,
            )
        batch = subscriber.ledger.check_ack(event.batch_id)
        subscriber.saving = event.call, batch
        return [SaveCursor(event.call, event.client_id, subscriber.filter, batch.ack)]

    @_on.register
    def _(self, event: CursorSaved) -> list[Instruction]:
        subscriber = self._subscribers[event.client_id]
        if subscriber.saving is not None and subscriber.saving[0] == event.call:
            batch, subscriber.saving = subscriber.saving[1], None
            subscriber.acked(batch, self.settings.shards)
            return [Reply(event.call, batch.ack), *self._free()]
        if self._subscribing.get(event.client_id) == event.call:
            del self._subscribing[event.client_id]
        return [Reply(event.call, (subscriber.epoch, subscriber.cursor)), *self._free()]

    @_on.register
    def _(self, event: CursorNotSaved) -> list[Instruction]:
        subscriber = self._subscribers[event.client_id]
        if subscriber.saving is not None and subscriber.saving[0] == event.call:
            subscriber.saving = None
        if self._subscribing.get(event.client_id) == event.call:
            del self._subscribing[event.client_id]
            subscriber.holder = ""
        raise event.error

    @_on.register
    def _(self, event: RollbackRequested) -> list[Instruction]:
        subscriber = self._consumer(event.client_id, event.epoch, event.at_us)
        if subscriber.saving is not None:
            raise RetryableError(
                f"An acknowledgement of client {event.client_id} is being written.", retry_after_s=0.05
            )
        count = subscriber.rollback(event.batch_id)
        subscriber.notice = None
        return [Reply(event.call, count), *self._serve(subscriber)]

    @_on.register
    def _(self, event: UnsubscribeRequested) -> list[Instruction]:
        self._consumer(event.client_id, event.epoch, event.at_us)
        subscriber = self._subscribers.pop(event.client_id)
        gone = NotSubscribed(f"Client {event.client_id} unsubscribed.")
        return [
            *(Refuse(call, gone) for call in subscriber.waiting),
            ReleaseConsumer(event.client_id),
            ForgetClient(event.call, event.client_id),
            *self._free(),
        ]

    @_on.register
    def _(self, event: ReleaseRequested) -> list[Instruction]:
        subscriber = self._consumer(event.client_id, event.epoch, event.at_us)
        return [*self._release(subscriber), Reply(event.call, None)]

    @_on.register
    def _(self, event: Ticked) -> list[Instruction]:
        instructions: list[Instruction] = []
        for subscriber in self._subscribers.values():
            silent_us = event.at_us - subscriber.seen_us
            busy = subscriber.saving or subscriber.waiting or subscriber.client_id in self._subscribing
            if subscriber.holder and not busy and silent_us > self.settings.lease_us:
                instructions += self._release(subscriber)
        return instructions + self._skip_dead(event.at_us)

    def _skip_dead(self, at_us: int) -> list[Instruction]:
        """Go on without shards whose frontier stood still for too long, if that is the policy."""
        skip_after_us = self.settings.skip_after_us
        if skip_after_us is None:
            return []
        dead = [index for index, shard in enumerate(self._shards) if at_us - shard.moved_us > skip_after_us]
        instructions: list[Instruction] = []
        if self._timeline is None:
            known = all(shard.opened_at or shard.asked_at for shard in self._shards)
            missing = {index for index, shard in enumerate(self._shards) if shard.opened_at is None}
            if not known or not missing <= set(dead):
                return []
            instructions += self._begin(at_us)
        assert self._timeline is not None
        for index in dead:
            if not self._timeline.excluded(index):
                self._timeline.exclude(index)
                instructions += self._advance()
        return instructions

    def _release(self, subscriber: Subscriber) -> list[Instruction]:
        """Let a consumer go: its outstanding batches are the next one's."""
        subscriber.rollback()
        subscriber.notice = None
        subscriber.holder = ""
        gone = NotSubscribed(f"Client {subscriber.client_id} was released.")
        refusals: list[Instruction] = [Refuse(call, gone) for call in subscriber.waiting]
        subscriber.waiting.clear()
        return [*refusals, ReleaseConsumer(subscriber.client_id)]

    def _consumer(self, client_id: str, epoch: int, at_us: int) -> Subscriber:
        """Return the subscriber that a call is for, if the caller is its current consumer."""
        subscriber = self._subscribers.get(client_id)
        if subscriber is None:
            raise NotSubscribed(
                f"Client {client_id} is not subscribed to {self.settings.destination}.", hint="Subscribe first."
            )
        subscriber.check_holder(epoch, at_us)
        return subscriber

    def _free(self) -> list[Instruction]:
        """Free what every subscriber has behind it."""
        if self._timeline is None or not self._subscribers:
            return []
        done = min(subscriber.done for subscriber in self._subscribers.values())
        gone = self._log.truncate(done)
        if not len(gone):
            return []
        self._base = self._base.past(gone, self._timeline.names.as_tuple(), self.settings.shards)
        return [
            FreeRing(int(shard), self.generation, int(gone["sequence"][gone["shard"] == shard][-1]))
            for shard in np.unique(gone["shard"])
        ]

    # ---- for people ------------------------------------------------------------------------------------

    def describe(self, at_us: int) -> dict[str, Any]:
        """Return the group's state as a JSON object: shards, who holds the group, subscribers."""
        timeline = self._timeline
        held = timeline.held_by() if timeline is not None else None
        if timeline is None:
            held = next((i for i, shard in enumerate(self._shards) if shard.opened_at is None), None)
        return {
            "destination": self.settings.destination,
            "epoch": self.epoch,
            "generation": self.generation,
            "merging": timeline is not None,
            "watermark_us": timeline.watermark_us if timeline is not None else None,
            "headers_pending": timeline.pending if timeline is not None else 0,
            "headers_kept": self._log.tip - self._log.base,
            "late": self._late + (timeline.late if timeline is not None else 0),
            "held_by": self.settings.shards[held] if held is not None else None,
            "held_since_s": (at_us - self._shards[held].moved_us) / 1e6 if held is not None else None,
            "shards": [self._describe_shard(index, at_us) for index in range(len(self._shards))],
            "clients": [self._describe_client(subscriber) for subscriber in self._subscribers.values()],
        }

    def _describe_shard(self, index: int, at_us: int) -> dict[str, Any]:
        shard, timeline = self._shards[index], self._timeline
        position = self._base.ack.shards.get(self.settings.shards[index]) if timeline is not None else None
        return {
            "shard": self.settings.shards[index],
            "state": shard.state.value,
            "state_since_s": (at_us - shard.since_us) / 1e6,
            "frontier_us": timeline.frontier_us(index) if timeline is not None else None,
            "frontier_still_s": (at_us - shard.moved_us) / 1e6,
            "skipped": timeline.excluded(index) if timeline is not None else False,
            "acked_position": str(position) if position is not None else None,
            "error": str(shard.error) if shard.error is not None else shard.reason or None,
        }

    def _describe_client(self, subscriber: Subscriber) -> dict[str, Any]:
        return {
            "client_id": subscriber.client_id,
            "filter": subscriber.filter,
            "holder": subscriber.holder or None,
            "epoch": subscriber.epoch,
            "cursor": subscriber.cursor.to_json() if subscriber.cursor is not None else None,
            "outstanding": [
                {"batch_id": batch.batch_id, "rows": batch.rows} for batch in subscriber.ledger.outstanding
            ],
        }

