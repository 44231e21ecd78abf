"""The calls of a group's consumers, and what the coordinator and the cursor store answer to them.

Rules:

1. A batch is delivered under the epoch of the consumer that asked.
2. An acknowledgement is answered after the cursor store has the cursor; then the rings are freed. Where it
   is unknown whether the store has it, the consumer is told so and the write repeated until it is known.
3. A refused request changes nothing, beyond that its consumer is known to be alive.
4. Calls wait for the writes by which cursors follow shards that join or leave.
"""

from __future__ import annotations

from dataclasses import replace
from functools import singledispatchmethod

from merge.cursor_writes import Saving
from merge.errors import CanalGroupError, FencedError, NotSubscribed, RetryableError
from merge.events import (
    AckRequested,
    ConsumerLeased,
    ConsumerTouched,
    CursorNotSaved,
    CursorSaved,
    Event,
    GetRequested,
    GetTimedOut,
    LeaseFailed,
    PlanRequested,
    ReleaseRequested,
    RollbackRequested,
    SpanRequested,
    SubscribeRequested,
    UnsubscribeRequested,
)
from merge.instructions import ForgetClient, Instruction, LeaseConsumer, Refuse, ReleaseConsumer, Reply
from merge.stream import Stream
from merge.subscriber import Subscriber
from merge.subscribers import Subscribers


class Consumers:
    """Answers the consumers of one stream; see the module's rules.

    Args:
        destination: its name, for people.
        stream: what they consume.
        subscribers: who they are; shared with the group, which tells them what moves.
        lease_us: how long a consumer may be silent before its client id is free again.
    """

    def __init__(self, destination: str, stream: Stream, subscribers: Subscribers, lease_us: int) -> None:
        self._destination = destination
        self._stream = stream
        self._subscribers = subscribers
        self._lease_us = lease_us
        #: leases that the coordinator is asked for: call -> request
        self._leasing: dict[int, SubscribeRequested] = {}

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
        subscriber = self._subscribers.find(event.client_id)
        if subscriber is not None:
            subscriber.lease.check_free(event.holder, self._lease_us, event.at_us)
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
        subscriber = self._subscribers.find_or_make(event.client_id)
        over = FencedError(
            f"{request.holder} took over client {event.client_id}.",
            hint="Another consumer took over. Stop this one.",
            our_epoch=subscriber.lease.epoch,
            current_epoch=event.epoch,
        )
        refusals = subscriber.refuse_waiting(over)
        if subscriber.writes.subscribing is not None:
            refusals.append(Refuse(subscriber.writes.subscribing, over))
        subscriber.rollback()
        subscriber.notice = None
        subscriber.lease.give(request.holder, event.epoch, event.at_us)
        subscriber.filter = request.filter
        subscriber.writes.subscribing = event.call
        subscriber.take_up(request.resume)
        base = self._stream.base
        if subscriber.cursor is None and self._stream.merging and not base.inside:
            subscriber.stand_at(base.ack, self._stream)
        return [*refusals, *subscriber.save_subscription(self._stream)]

    @handle.register
    def _(self, event: UnsubscribeRequested) -> list[Instruction]:
        subscriber = self._consumer(event.client_id, event.epoch, event.at_us)
        self._check_not_leasing(event.client_id)
        if subscriber.writes.follows_shards:
            subscriber.writes.defer(event)
            return []
        subscriber.writes.check_none()
        self._subscribers.forget(event.client_id)
        return [
            *subscriber.refuse_waiting(NotSubscribed(f"Client {event.client_id} unsubscribed.")),
            ReleaseConsumer(event.client_id),
            ForgetClient(event.call, event.client_id),
            *self._subscribers.free(),
        ]

    @handle.register
    def _(self, event: ReleaseRequested) -> list[Instruction]:
        subscriber = self._consumer(event.client_id, event.epoch, event.at_us)
        return [*subscriber.release(), Reply(event.call, None)]

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
        return [*given_up, *self._subscribers.serve()]

    @handle.register
    def _(self, event: SpanRequested) -> list[Instruction]:
        subscriber = self._consumer(event.client_id, event.epoch, event.at_us)
        event.span.check()
        found = subscriber.find_span(event.span)
        if found is not None:
            return [Reply(event.call, found)]
        subscriber.writes.check_none()
        subscriber.seek(event.span.start, self._stream, may_rewind=event.may_rewind)
        subscriber.ledger.check_room()
        subscriber.waiting[event.call] = event
        return self._subscribers.serve()

    @handle.register
    def _(self, event: GetTimedOut) -> list[Instruction]:
        subscriber = self._subscribers.find(event.client_id)
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
        if subscriber.writes.follows_shards:
            subscriber.writes.defer(event)
            return []
        subscriber.writes.check_none()
        count = subscriber.rollback(event.batch_id)
        subscriber.notice = None
        return [Reply(event.call, count), *self._subscribers.serve()]

    # ---- acknowledging ---------------------------------------------------------------------------------

    @handle.register
    def _(self, event: AckRequested) -> list[Instruction]:
        subscriber = self._consumer(event.client_id, event.epoch, event.at_us)
        if subscriber.writes.follows_shards:
            subscriber.ledger.check_ack(event.batch_id)
            subscriber.writes.defer(event)
            return []
        if not subscriber.is_unsure_of(event.batch_id):
            subscriber.writes.check_none()
        batch = subscriber.ledger.check_ack(event.batch_id)
        return subscriber.save(Saving(event.call, batch), self._stream)

    @handle.register
    def _(self, event: CursorSaved) -> list[Instruction]:
        subscriber, saving = self._saved(event.client_id, event.call)
        subscriber.writes.durable = True
        answers: list[Instruction] = []
        if saving.batch is not None:
            subscriber.acked(saving.batch, self._stream)
            if not saving.unsure:
                answers.append(Reply(event.call, subscriber.cursor))
        elif subscriber.writes.subscribing == event.call:
            subscriber.writes.subscribing = None
            answers.append(Reply(event.call, (subscriber.lease.epoch, subscriber.cursor)))
        answers += subscriber.save_subscription(self._stream)
        return [*answers, *self._resume_deferred(subscriber), *self._subscribers.serve()]

    @handle.register
    def _(self, event: CursorNotSaved) -> list[Instruction]:
        subscriber, saving = self._saved(event.client_id, event.call)
        answers: list[Instruction] = []
        if saving.batch is not None:
            if not saving.unsure:
                answers.append(Refuse(event.call, event.error))
            if isinstance(event.error, RetryableError):
                subscriber.writes.saving = replace(saving, unsure=True, under_way=False)
                return answers
        elif subscriber.writes.subscribing == event.call:
            subscriber.writes.subscribing = None
            answers += [Refuse(event.call, event.error), *subscriber.release()]
            if not subscriber.writes.durable:
                self._subscribers.forget(event.client_id)
        answers += subscriber.save_subscription(self._stream)
        # Not at once: the store may be away for a while. `settle` writes it.
        subscriber.writes.unsaved |= saving.unsaved
        return [*answers, *self._resume_deferred(subscriber), *self._subscribers.serve()]

    # ---- helpers ---------------------------------------------------------------------------------------

    def _consumer(self, client_id: str, epoch: int, at_us: int) -> Subscriber:
        """Return the subscriber that a call is for, if the caller is its current consumer."""
        subscriber = self._subscribers.find(client_id)
        if subscriber is None:
            raise NotSubscribed(
                f"Client {client_id} is not subscribed to {self._destination}.", hint="Subscribe first."
            )
        subscriber.lease.check_holder(epoch, at_us)
        return subscriber

    def _check_not_leasing(self, client_id: str) -> None:
        for request in self._leasing.values():
            if request.client_id == client_id:
                raise RetryableError(
                    f"Client {client_id} is being taken by {request.holder}.", retry_after_s=0.05
                )

    def _saved(self, client_id: str, call: int) -> tuple[Subscriber, Saving]:
        """Return whose write ended, and which, and count it as ended."""
        subscriber = self._subscribers.find(client_id)
        assert subscriber is not None, "it cannot be forgotten while a write is under way"
        return subscriber, subscriber.writes.end(call)

    def _resume_deferred(self, subscriber: Subscriber) -> list[Instruction]:
        """Take the calls that waited for a write which nobody asked for."""
        instructions: list[Instruction] = []
        for event in subscriber.writes.take_deferred():
            try:
                instructions += self.handle(event)
            except CanalGroupError as error:
                instructions.append(Refuse(event.call, error))
        return instructions
