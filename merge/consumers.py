"""The consumers of a group: who holds which client id, and what became of their calls.

Rules:

1. A batch is delivered under the epoch of the consumer that asked; its rows stay in the rings until every
   subscriber has acknowledged them.
2. An acknowledgement is answered after the cursor store has the cursor; then the rings are freed. Where it
   is unknown whether the store has it, the consumer is told so and the write repeated until it is known.
3. A refused request changes nothing, beyond that its consumer is known to be alive.
4. A consumer that waits for an answer is alive.
5. When shards join or leave, every cursor follows in a write of its own; calls wait for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import singledispatchmethod
from typing import Any

from merge.errors import CanalGroupError, FencedError, NotSubscribed, RetryableError
from merge.events import (
    AckRequested,
    ConsumerLeased,
    ConsumerState,
    ConsumerTouched,
    CursorNotSaved,
    CursorSaved,
    Event,
    ForgetClient,
    GetRequested,
    GetTimedOut,
    Instruction,
    LeaseConsumer,
    LeaseFailed,
    PlanRequested,
    Refuse,
    ReleaseConsumer,
    ReleaseRequested,
    Reply,
    RollbackRequested,
    SpanRequested,
    SubscribeRequested,
    UnsubscribeRequested,
)
from merge.ledger import Batch
from merge.position import GroupPosition
from merge.stream import Stream
from merge.subscriber import OWN_CALL, BatchLimits, Saving, Subscriber


class Consumers:
    """Serves the subscribers of one stream; see the module's rules.

    Args:
        destination: its name, for people.
        epoch: fencing epoch of the server.
        limits: bounds of each subscriber's batches.
        lease_us: how long a consumer may be silent before its client id is free again.
        stream: what they consume.
        drop_after_us: how long a client id may be without a consumer, while another one has one, before
            nothing is kept for it; None: for ever.
    """

    def __init__(
        self,
        destination: str,
        epoch: int,
        limits: BatchLimits,
        lease_us: int,
        stream: Stream,
        drop_after_us: int | None = None,
    ) -> None:
        self._destination = destination
        self._epoch = epoch
        self._limits = limits
        self._lease_us = lease_us
        self._drop_after_us = drop_after_us
        self._stream = stream
        self._subscribers: dict[str, Subscriber] = {}
        #: leases that the coordinator is asked for: call -> request
        self._leasing: dict[int, SubscribeRequested] = {}

    # ---- what the group asks of them -------------------------------------------------------------------

    @property
    def cursors(self) -> list[GroupPosition]:
        """The cursors that are known and for which something is kept."""
        return [s.cursor for s in self._kept if s.cursor is not None]

    @property
    def all_placed(self) -> bool:
        """Whether every subscriber has its place in the stream, but for those that were dropped."""
        return all(subscriber.placed for subscriber in self._kept)

    @property
    def _kept(self) -> list[Subscriber]:
        return [subscriber for subscriber in self._subscribers.values() if not subscriber.dropped]

    def places_of(self, shard: str) -> dict[str, str]:
        """Return where each cursor stands in a shard, by client id."""
        return {
            client_id: str(subscriber.cursor.shards[shard])
            for client_id, subscriber in self._subscribers.items()
            if subscriber.cursor is not None and shard in subscriber.cursor.shards
        }

    @property
    def astray(self) -> bool:
        """Whether one was stood where the log does not reach back to."""
        return any(subscriber.astray for subscriber in self._subscribers.values())

    def restore(self, states: Sequence[ConsumerState], at_us: int) -> None:
        """Take over stored subscriptions. Their consumers may be alive: each has a lease from now."""
        for state in states:
            subscriber = Subscriber(state.client_id, self._epoch, self._limits)
            subscriber.filter, subscriber.cursor, subscriber.durable = state.filter, state.cursor, True
            subscriber.holder, subscriber.epoch, subscriber.seen_us = state.holder, state.epoch, at_us
            subscriber.dropped = state.dropped
            self._subscribers[state.client_id] = subscriber

    def rewind(self) -> list[Instruction]:
        """Forget what is outstanding. A consumer hears of it before it gets anything again."""
        refusals: list[Instruction] = []
        for subscriber in self._subscribers.values():
            subscriber.rewind()
            if subscriber.notice is not None and subscriber.waiting:
                refusals += _refuse_waiting(subscriber, subscriber.notice)
                subscriber.notice = None
        return refusals

    def place(self) -> list[Instruction]:
        """Stand every subscriber at its cursor: merging has begun."""
        instructions: list[Instruction] = []
        for subscriber in self._kept:
            cursor = subscriber.cursor or self._stream.base.ack
            subscriber.stand_at(cursor, self._stream)
            instructions += self._save_subscription(subscriber)
        return instructions

    def settle(self) -> list[Instruction]:
        """Let every cursor follow shards that joined or left; also where that could not be written before."""
        instructions: list[Instruction] = []
        for subscriber in self._subscribers.values():
            subscriber.settle(self._stream)
            instructions += self._save_subscription(subscriber)
        return instructions

    @property
    def settled(self) -> bool:
        """Whether every stored cursor has the shards of this moment."""
        return not any(
            subscriber.lacks_shards for subscriber in self._subscribers.values() if subscriber.durable
        )

    def serve(self) -> list[Instruction]:
        """Answer the gets that wait, as far as there are batches."""
        if not self._stream.merging:
            return []
        served = [answer for subscriber in self._kept for answer in self._serve(subscriber)]
        return served + self._free()

    def release_silent(self, at_us: int) -> list[Instruction]:
        """Let consumers go whose lease has run out."""
        instructions: list[Instruction] = []
        for subscriber in self._subscribers.values():
            if subscriber.busy:
                subscriber.seen_us = at_us
            elif subscriber.holder and at_us - subscriber.seen_us > self._lease_us:
                instructions += self._release(subscriber)
        return instructions

    def save_again(self) -> list[Instruction]:
        """Repeat the writes of which it is unknown whether the cursor store took them."""
        instructions: list[Instruction] = []
        for subscriber in self._subscribers.values():
            saving = subscriber.saving
            if saving is not None and not saving.under_way:
                instructions += subscriber.save(replace(saving, under_way=True), self._stream)
        return instructions

    def drop_away(self, at_us: int) -> list[Instruction]:
        """Keep nothing more for client ids that were without a consumer for too long and hold up others."""
        if self._drop_after_us is None or not any(subscriber.holder for subscriber in self._kept):
            return []
        instructions: list[Instruction] = []
        for subscriber in self._kept:
            away_us = at_us - subscriber.seen_us
            at_rest = not subscriber.busy and subscriber.saving is None
            if not subscriber.holder and at_rest and away_us > self._drop_after_us:
                subscriber.drop()
                instructions += self._save_subscription(subscriber)
        return [*instructions, *self._free()] if instructions else []

    # ---- subscribing -----------------------------------------------------------------------------------

    @singledispatchmethod
    def handle(self, event: Event) -> list[Instruction]:
        """Take an event of a consumer, the coordinator or the cursor store; return what has to be done.

        Raises:
            CanalGroupError: the request is refused; nothing was changed.
        """
        raise AssertionError(f"no such event: {event!r}")

    @handle.register
    def _(self, event: SubscribeRequested) -> list[Instruction]:
        self._check_not_leasing(event.client_id)
        subscriber = self._subscribers.get(event.client_id)
        if subscriber is not None:
            subscriber.check_free(event.holder, self._lease_us, event.at_us)
            subscriber.check_kept(event.resume, event.at_us)
        self._leasing[event.call] = event
        return [LeaseConsumer(event.call, event.client_id, event.holder)]

    @handle.register
    def _(self, event: LeaseFailed) -> list[Instruction]:
        del self._leasing[event.call]
        raise event.error

    @handle.register
    def _(self, event: ConsumerLeased) -> list[Instruction]:
        request = self._leasing.pop(event.call)
        subscriber = self._subscribers.get(event.client_id)
        if subscriber is None:
            subscriber = Subscriber(event.client_id, self._epoch, self._limits)
            self._subscribers[event.client_id] = subscriber
        over = FencedError(
            f"{request.holder} took over client {event.client_id}.",
            hint="Another consumer took over. Stop this one.",
            our_epoch=subscriber.epoch,
            current_epoch=event.epoch,
        )
        refusals = _refuse_waiting(subscriber, over)
        if subscriber.subscribing is not None:
            refusals.append(Refuse(subscriber.subscribing, over))
        subscriber.rollback()
        subscriber.notice = None
        subscriber.holder, subscriber.epoch = request.holder, event.epoch
        subscriber.filter, subscriber.seen_us = request.filter, event.at_us
        subscriber.subscribing = event.call
        subscriber.take_up(request.resume)
        base = self._stream.base
        if subscriber.cursor is None and self._stream.merging and not base.inside:
            subscriber.stand_at(base.ack, self._stream)
        return [*refusals, *self._save_subscription(subscriber)]

    @handle.register
    def _(self, event: UnsubscribeRequested) -> list[Instruction]:
        subscriber = self._consumer(event.client_id, event.epoch, event.at_us)
        self._check_not_leasing(event.client_id)
        if subscriber.follows_shards:
            subscriber.deferred.append(event)
            return []
        _check_not_saving(subscriber)
        del self._subscribers[event.client_id]
        return [
            *_refuse_waiting(subscriber, NotSubscribed(f"Client {event.client_id} unsubscribed.")),
            ReleaseConsumer(event.client_id),
            ForgetClient(event.call, event.client_id),
            *self._free(),
        ]

    @handle.register
    def _(self, event: ReleaseRequested) -> list[Instruction]:
        subscriber = self._consumer(event.client_id, event.epoch, event.at_us)
        return [*self._release(subscriber), Reply(event.call, None)]

    @handle.register
    def _(self, event: ConsumerTouched) -> list[Instruction]:
        self._consumer(event.client_id, event.epoch, event.at_us)
        return [Reply(event.call, None)]

    # ---- getting ---------------------------------------------------------------------------------------

    @handle.register
    def _(self, event: GetRequested) -> list[Instruction]:
        subscriber = self._consumer(event.client_id, event.epoch, event.at_us)
        if subscriber.notice is not None:
            notice, subscriber.notice = subscriber.notice, None
            raise notice
        given_up: list[Instruction] = []
        if event.seen_id is not None:
            given_up = subscriber.give_up_gets()
            subscriber.take_back_unseen(event.seen_id)
        try:
            subscriber.ledger.check_room()
        except RetryableError as error:
            return [*given_up, Refuse(event.call, error)]
        subscriber.waiting[event.call] = event
        return [*given_up, *self.serve()]

    @handle.register
    def _(self, event: SpanRequested) -> list[Instruction]:
        subscriber = self._consumer(event.client_id, event.epoch, event.at_us)
        event.span.check()
        found = subscriber.find_span(event.span)
        if found is not None:
            return [Reply(event.call, found)]
        _check_not_saving(subscriber)
        subscriber.seek(event.span.start, self._stream, may_rewind=event.may_rewind)
        subscriber.ledger.check_room()
        subscriber.waiting[event.call] = event
        return self.serve()

    @handle.register
    def _(self, event: GetTimedOut) -> list[Instruction]:
        subscriber = self._subscribers.get(event.client_id)
        if subscriber is None or event.call not in subscriber.waiting:
            return []
        del subscriber.waiting[event.call]
        # A stopped shard holds the group for good: whoever waits must hear why.
        failure = self._stream.failure
        return [Reply(event.call, None) if failure is None else Refuse(event.call, failure)]

    @handle.register
    def _(self, event: PlanRequested) -> list[Instruction]:
        subscriber = self._consumer(event.client_id, event.epoch, event.at_us)
        return [Reply(event.call, subscriber.ledger.find(event.batch_id))]

    @handle.register
    def _(self, event: RollbackRequested) -> list[Instruction]:
        subscriber = self._consumer(event.client_id, event.epoch, event.at_us)
        if subscriber.follows_shards:
            subscriber.deferred.append(event)
            return []
        _check_not_saving(subscriber)
        count = subscriber.rollback(event.batch_id)
        subscriber.notice = None
        return [Reply(event.call, count), *self.serve()]

    # ---- acknowledging ---------------------------------------------------------------------------------

    @handle.register
    def _(self, event: AckRequested) -> list[Instruction]:
        subscriber = self._consumer(event.client_id, event.epoch, event.at_us)
        if subscriber.follows_shards:
            subscriber.ledger.check_ack(event.batch_id)
            subscriber.deferred.append(event)
            return []
        if not subscriber.is_unsure_of(event.batch_id):
            _check_not_saving(subscriber)
        batch = subscriber.ledger.check_ack(event.batch_id)
        return subscriber.save(Saving(event.call, batch), self._stream)

    @handle.register
    def _(self, event: CursorSaved) -> list[Instruction]:
        subscriber, saving = self._saved(event.client_id, event.call)
        subscriber.durable = True
        answers: list[Instruction] = []
        if saving.batch is not None:
            subscriber.acked(saving.batch, self._stream)
            if not saving.unsure:
                answers.append(Reply(event.call, subscriber.cursor))
        elif subscriber.subscribing == event.call:
            subscriber.subscribing = None
            answers.append(Reply(event.call, (subscriber.epoch, subscriber.cursor)))
        answers += self._save_subscription(subscriber)
        return [*answers, *self._resume_deferred(subscriber), *self.serve()]

    @handle.register
    def _(self, event: CursorNotSaved) -> list[Instruction]:
        subscriber, saving = self._saved(event.client_id, event.call)
        answers: list[Instruction] = []
        if saving.batch is not None:
            if not saving.unsure:
                answers.append(Refuse(event.call, event.error))
            if isinstance(event.error, RetryableError):
                subscriber.saving = replace(saving, unsure=True, under_way=False)
                return answers
        elif subscriber.subscribing == event.call:
            subscriber.subscribing = None
            answers += [Refuse(event.call, event.error), *self._release(subscriber)]
            if not subscriber.durable:
                del self._subscribers[event.client_id]
        answers += self._save_subscription(subscriber)
        # Not at once: the store may be away for a while. `settle` writes it.
        subscriber.unsaved |= saving.unsaved
        return [*answers, *self._resume_deferred(subscriber), *self.serve()]

    # ---- helpers ---------------------------------------------------------------------------------------

    def _consumer(self, client_id: str, epoch: int, at_us: int) -> Subscriber:
        """Return the subscriber that a call is for, if the caller is its current consumer."""
        subscriber = self._subscribers.get(client_id)
        if subscriber is None:
            raise NotSubscribed(
                f"Client {client_id} is not subscribed to {self._destination}.", hint="Subscribe first."
            )
        subscriber.check_holder(epoch, at_us)
        return subscriber

    def _check_not_leasing(self, client_id: str) -> None:
        for request in self._leasing.values():
            if request.client_id == client_id:
                raise RetryableError(
                    f"Client {client_id} is being taken by {request.holder}.", retry_after_s=0.05
                )

    def _saved(self, client_id: str, call: int) -> tuple[Subscriber, Saving]:
        """Return whose write ended, and which, and count it as ended."""
        subscriber = self._subscribers[client_id]
        saving, subscriber.saving = subscriber.saving, None
        assert saving is not None, "an answer to a write that nobody asked for"
        assert saving.call == call, "an answer to another write than the one under way"
        return subscriber, saving

    def _save_subscription(self, subscriber: Subscriber) -> list[Instruction]:
        """Store a subscription that is not answered, or whose shards changed, if no write is under way.

        Its cursor has to be known.
        """
        call = subscriber.subscribing
        if call is None and subscriber.unsaved and subscriber.durable:
            call = OWN_CALL
        if call is None or subscriber.saving is not None or subscriber.cursor is None:
            return []
        return subscriber.save(Saving(call, None), self._stream)

    def _resume_deferred(self, subscriber: Subscriber) -> list[Instruction]:
        """Take the calls that waited for a write which nobody asked for."""
        instructions: list[Instruction] = []
        deferred, subscriber.deferred = subscriber.deferred, []
        for event in deferred:
            try:
                instructions += self.handle(event)
            except CanalGroupError as error:
                instructions.append(Refuse(event.call, error))
        return instructions

    def _serve(self, subscriber: Subscriber) -> list[Instruction]:
        """Answer a subscriber's waiting gets as far as there are batches."""
        instructions: list[Instruction] = []
        for call, request in list(subscriber.waiting.items()):
            try:
                subscriber.ledger.check_room()
            except RetryableError as error:
                instructions.append(Refuse(call, error))
                del subscriber.waiting[call]
                continue
            try:
                batch = self._next(subscriber, request)
            except CanalGroupError as error:
                instructions.append(Refuse(call, error))
                del subscriber.waiting[call]
                continue
            if batch is None:
                break
            del subscriber.waiting[call]
            instructions.append(Reply(call, batch))
        return instructions

    def _next(self, subscriber: Subscriber, request: GetRequested | SpanRequested) -> Batch | None:
        """Deliver what a waiting get asks for; None: it waits on."""
        if isinstance(request, GetRequested):
            return subscriber.next_batch(self._stream, request.rows_max)
        span = request.span
        found = subscriber.find_span(span)
        return found if found is not None else subscriber.next_span(span, self._stream)

    def _release(self, subscriber: Subscriber) -> list[Instruction]:
        """Let a consumer go: its outstanding batches are the next one's."""
        subscriber.rollback()
        subscriber.come_back()
        subscriber.notice = None
        subscriber.holder = ""
        gone = NotSubscribed(f"Client {subscriber.client_id} was released.", hint="Subscribe again.")
        return [*_refuse_waiting(subscriber, gone), ReleaseConsumer(subscriber.client_id)]

    def _free(self) -> list[Instruction]:
        """Free what every subscriber has behind it. Without any, everything is kept for the first one."""
        if not self._stream.merging or not self._kept or not self.all_placed:
            return []
        for subscriber in self._kept:
            subscriber.skip_behind(self._stream)
        return [*self._stream.free(min(subscriber.done for subscriber in self._kept))]

    # ---- for people ------------------------------------------------------------------------------------

    def describe(self) -> list[dict[str, Any]]:
        """Return each subscriber's state as a JSON object."""
        return [
            {
                "client_id": subscriber.client_id,
                "filter": subscriber.filter,
                "holder": subscriber.holder or None,
                "epoch": subscriber.epoch,
                "dropped": subscriber.dropped,
                "cursor": subscriber.cursor.to_json() if subscriber.cursor is not None else None,
                "outstanding": [
                    {"batch_id": batch.batch_id, "rows": batch.rows}
                    for batch in subscriber.ledger.outstanding
                ],
            }
            for subscriber in self._subscribers.values()
        ]


def _check_not_saving(subscriber: Subscriber) -> None:
    """Return if no write of the subscriber's cursor is under way."""
    if subscriber.saving is not None:
        raise RetryableError(
            f"The cursor of client {subscriber.client_id} is being written.",
            hint="Wait for the answer to the last acknowledgement.",
            retry_after_s=0.05,
        )


def _refuse_waiting(subscriber: Subscriber, error: CanalGroupError) -> list[Instruction]:
    """Refuse the gets that wait."""
    calls = list(subscriber.waiting)
    subscriber.waiting.clear()
    return [Refuse(call, error) for call in calls]
