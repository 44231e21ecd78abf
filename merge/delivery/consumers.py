"""Handle the calls of a group's consumers, and the answers of the coordinator and the cursor store.

Rules:

1. A batch is delivered under the epoch of the consumer that asked.
2. An acknowledgement is answered after the cursor store has the cursor; then the rings are freed. If it is
   unknown whether the store has it, the consumer is told, and the write is repeated until it is known.
3. A refused request changes nothing, except that its consumer is known to be alive.
4. When shards join or leave, every cursor is written; calls wait for these writes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, assert_never

from canal_group.merge.calls.client_id import checked_client_id
from canal_group.merge.calls.consumers import (
    Ack,
    Get,
    GetRange,
    Plan,
    Release,
    Rollback,
    SubscribeAt,
    Touch,
    Unsubscribe,
)
from canal_group.merge.calls.operators import SetClientAside, Steering, StopSnapshot
from canal_group.merge.calls.resume import Resume
from canal_group.merge.delivery.cursor_writes import OWN_CALL
from canal_group.merge.delivery.phase import Phase
from canal_group.merge.delivery.snapshot_steering import steered
from canal_group.merge.delivery.subscriber import Subscriber
from canal_group.merge.delivery.subscribers import Subscribers
from canal_group.merge.errors import CanalGroupError, NotSubscribed, RetryableError, UsageError
from canal_group.merge.events import (
    Asked,
    ClientEvent,
    ClientForgotten,
    ClientNotForgotten,
    ConsumerLeased,
    CursorNotSaved,
    CursorSaved,
    GetTimedOut,
    LeaseFailed,
)
from canal_group.merge.instructions import Instruction, LeaseConsumer, Refuse, ReleaseConsumer, Reply
from canal_group.merge.order.stream import Stream
from canal_group.merge.snapshot.cursor import SnapshotCursor
from canal_group.merge.values.offset_range import OffsetRange
from canal_group.merge.values.position import GroupPosition


class Consumers:
    """Answers the consumers of one stream; see the module's rules.

    Args:
        destination: its name, for messages.
        stream: the stream that they consume.
        subscribers: their subscriptions; shared with the group, which tells them about changes of the stream.
        lease_us: how long a consumer may be silent before its client id is free again.
        leasing: calls for whose lease the coordinator is asked, by number; shared by the streams of a group.
    """

    def __init__(
        self,
        destination: str,
        stream: Stream,
        subscribers: Subscribers,
        lease_us: int,
        leasing: dict[int, SubscribeAt],
    ) -> None:
        self._destination = destination
        self._stream = stream
        self._subscribers = subscribers
        self._lease_us = lease_us
        self._leasing = leasing

    # ---- subscribing -----------------------------------------------------------------------------------

    def answer(self, asked: Asked[Any]) -> list[Instruction]:
        """Answer a consumer's call; return the instructions.

        Raises:
            CanalGroupError: the call is refused; nothing was changed.
        """
        if isinstance(asked.call, SubscribeAt):
            return self._subscribe(asked)
        if isinstance(asked.call, Unsubscribe):
            return self._unsubscribe(asked)
        if isinstance(asked.call, SetClientAside):
            return self._set_aside(asked)
        if isinstance(asked.call, Steering):
            return self._steer(asked)
        return self._answer_holder(asked)

    def _answer_holder(self, asked: Asked[Any]) -> list[Instruction]:  # noqa: PLR0911 - one case a call
        """Answer a call that a consumer makes under its epoch; raises as `answer`."""
        subscriber = self._existing(asked.call.client_id)
        subscriber.check_consumer(asked.call.epoch, asked.at_us)
        match asked.call:
            case Get():
                return [*subscriber.get(asked, self._stream), *self._subscribers.serve()]
            case GetRange():
                return self._get_range(asked, subscriber)
            case Ack():
                return subscriber.ack(asked, self._stream)
            case Rollback():
                return [*subscriber.rollback(asked), *self._subscribers.serve()]
            case Plan(batch_id=batch_id):
                return [Reply(asked.number, subscriber.delivery.ledger.find(batch_id))]
            case Release():
                released = [*subscriber.release(), Reply(asked.number, None)]
                return [*released, *self._subscribers.free()]
            case Touch():
                return [Reply(asked.number, None)]
            case _:
                raise AssertionError(f"{asked.call} is not a consumer's call")

    def handle(self, event: ClientEvent) -> list[Instruction]:  # noqa: PLR0911 - one case an event
        """Handle an answer of the coordinator or the cursor store, or a timeout; return the instructions.

        Raises:
            CanalGroupError: a call that waited for it is refused; nothing was changed.
        """
        match event:
            case ConsumerLeased():
                return self._leased(event)
            case LeaseFailed():
                return self._not_leased(event)
            case GetTimedOut():
                return self._timed_out(event)
            case CursorSaved():
                return self._saved(event)
            case CursorNotSaved():
                return self._not_saved(event)
            case ClientForgotten():
                self._subscribers.forget(event.client_id)
                return [Reply(event.number, None)] if event.number != OWN_CALL else []
            case ClientNotForgotten():
                self._known(event.client_id).writes.not_forgotten()
                return [Refuse(event.number, event.error)] if event.number != OWN_CALL else []
            case _:
                assert_never(event)

    def _subscribe(self, asked: Asked[SubscribeAt]) -> list[Instruction]:
        call, at_us = asked.call, asked.at_us
        checked_client_id(call.client_id)
        self._check_not_leasing(call.client_id)
        subscriber = self._subscribers.find(call.client_id)
        if subscriber is None:
            self._subscribers.check_count({each.client_id for each in self._leasing.values()})
        else:
            subscriber.writes.check_not_forgetting()
            subscriber.lease.check_free(call.holder, self._lease_us, at_us)
            subscriber.check_same_kind(call)
            subscriber.check_readable(call)
        if call.snapshot:
            self._check_snapshot(call.look)
        start = self._start(call, subscriber)
        if start is not None:
            self._subscribers.check_apart(call.client_id, start)
        elif subscriber is not None:
            subscriber.check_kept(call.resume, at_us)
            if call.resume is Resume.CURSOR and not subscriber.kept and subscriber.cursor is not None:
                self._subscribers.check_apart(call.client_id, subscriber.cursor)
        if not call.may_disturb:
            self._check_undisturbed(call, subscriber)
        self._leasing[asked.number] = call
        return [LeaseConsumer(asked.number, call.client_id, call.holder)]

    def _check_snapshot(self, look: bool) -> None:
        """Return if a client id can have a snapshot.

        Raises:
            UsageError: there is no archive, or it is a look.
        """
        if look:
            raise UsageError(
                "A look cannot have a snapshot: what it has read is stored nowhere.",
                hint="Acknowledge what is read (consume --ack), or have it kept (--keep).",
            )
        if not self._subscribers.has_replays:
            raise UsageError(
                f"{self._destination} has no archive, so no client id can have a snapshot.",
                hint="Give the instance file an `archive`: pages of a snapshot are kept beside it.",
            )

    def _start(self, call: SubscribeAt, subscriber: Subscriber | None) -> GroupPosition | None:
        """Return the position at which a subscription begins.

        None: it continues at its cursor, or begins where the merged log does.

        Raises:
            RetryableError: the cursor is to be moved while it is being written; or it is to have a snapshot
                while the shards are being opened.
            UsageError: the position names a shard that the group never had.
        """
        had = subscriber is not None and (
            subscriber.cursor is not None or subscriber.continuation.unreadable is not None
        )
        known = had and not call.move
        if not known and call.snapshot and not self._stream.merging:
            raise RetryableError("The shards are being opened.", retry_after_s=0.5)
        if known or (call.start is None and call.ends is None):
            return None
        if subscriber is not None:
            subscriber.writes.check_none()
        if call.ends is not None:
            return self._subscribers.first_position(call.client_id, call.start, call.ends)
        assert call.start is not None, "a start is given, or ends"
        # Where somebody else's snapshot was says nothing about this client id's.
        return self._stream.membership.said(call.start.with_snapshots(dict.fromkeys(call.start.snapshots)))

    def _check_undisturbed(self, call: SubscribeAt, subscriber: Subscriber | None) -> None:
        """Return if a subscription does not roll back another client.

        Raises:
            AccessDenied: its rows are no longer held, and it wants them again.
            RetryableError: the log begins inside a transaction. A new client must not miss its beginning.
        """
        start = self._start(call, subscriber)
        at_end = start is not None and call.start is None
        if start is not None and not at_end:
            if not self._stream.holds(self._stream.reconciled(start)):
                self._subscribers.check_alone(call.client_id)
            return
        if subscriber is not None and subscriber.cursor is not None:
            if subscriber.kept or (call.resume is None and subscriber.phase is Phase.PURGED):
                return
            if call.resume is not Resume.NOW:
                self._subscribers.check_alone(call.client_id)
                return
        inside = self._stream.merging and self._stream.base.inside
        if inside and self._subscribers.others_consume(call.client_id):
            raise RetryableError(
                f"Client {call.client_id} cannot begin inside the large transaction that another client "
                "is reading.",
                retry_after_s=1.0,
            )

    def _not_leased(self, event: LeaseFailed) -> list[Instruction]:
        del self._leasing[event.number]
        return [Refuse(event.number, event.error)]

    def _leased(self, event: ConsumerLeased) -> list[Instruction]:
        request = self._leasing.pop(event.number)
        # The state may have changed while the coordinator was asked.
        found = self._subscribers.find(event.client_id)
        try:
            if found is not None:
                found.writes.check_not_forgetting()
                found.check_same_kind(request)
                found.check_readable(request)
            start = self._start(request, found)
            if request.snapshot:
                self._check_snapshot(request.look)
            if not request.may_disturb:
                self._check_undisturbed(request, found)
        except CanalGroupError as error:
            return [ReleaseConsumer(event.client_id), Refuse(event.number, error)]
        subscriber = self._subscribers.find_or_make(event.client_id, look=request.look)
        refusals = subscriber.take_over(request, event)
        base = self._stream.base
        if request.snapshot and (subscriber.cursor is None or request.move):
            begin = self._stream.reconciled(base.ack if start is None else start)
            text = SnapshotCursor(f"{event.client_id}-{event.epoch}-{event.at_us}").to_json()
            begin = begin.with_snapshots(dict.fromkeys(begin.shards, text))
            subscriber.continuation.forget_unread()
            refusals += subscriber.continuation.begin_snapshot(begin)
        elif start is not None:
            subscriber.continuation.begin_at(start, self._stream)
        elif subscriber.cursor is None and self._stream.merging and not base.inside:
            subscriber.continuation.stand_at(base.ack, self._stream)
        return [*refusals, *subscriber.save_subscription(self._stream)]

    def _unsubscribe(self, asked: Asked[Unsubscribe]) -> list[Instruction]:
        call = asked.call
        subscriber = self._existing(call.client_id)
        # Also if its lease has expired. Otherwise a consumer that was cut off could not tell this refusal
        # from the refusal after its request was granted, and the subscription would stay.
        subscriber.check_last_consumer(call.epoch)
        self._check_not_leasing(call.client_id)
        return [*subscriber.unsubscribe(asked), *self._subscribers.free()]

    def _set_aside(self, asked: Asked[SetClientAside]) -> list[Instruction]:
        subscriber = self._existing(asked.call.client_id)
        released = subscriber.set_aside()
        cursor = None if subscriber.cursor is None else subscriber.cursor.to_json()
        said = Reply(asked.number, {"client_id": subscriber.client_id, "cursor": cursor})
        written = subscriber.answer_when_stored(said, self._stream)
        return [*released, *written, *self._subscribers.free()]

    def _steer(self, asked: Asked[Steering]) -> list[Instruction]:
        """Give a client id another snapshot; it is as if its consumer had asked for another position."""
        call = asked.call
        subscriber = self._existing(call.client_id)
        self._check_snapshot(subscriber.look)
        self._check_not_leasing(call.client_id)
        subscriber.writes.check_not_forgetting()
        if subscriber.cursor is None or not subscriber.kept:
            raise UsageError(f"Nothing is kept for client {call.client_id}: it has to subscribe first.")
        subscriber.writes.check_stored()
        # No two snapshots of a client have one id: pages of an earlier one are of no use.
        new_id = f"{call.client_id}-{subscriber.lease.epoch}-{asked.at_us}"
        cursor, at, refusals = subscriber.cursor, subscriber.continuation, list[Instruction]()
        gives_up = isinstance(call, StopSnapshot) and bool(at.unread)
        if cursor.snapshots or not gives_up:
            cursor = steered(cursor, call, new_id)
            refusals = at.begin_snapshot(cursor)
        if gives_up:
            at.forget_unread()
        said = Reply(asked.number, {"client_id": call.client_id, "shards": sorted(cursor.snapshots)})
        return [*refusals, *subscriber.answer_when_stored(said, self._stream)]

    # ---- getting ---------------------------------------------------------------------------------------

    def _get_range(self, asked: Asked[GetRange], subscriber: Subscriber) -> list[Instruction]:
        call = asked.call
        call.offset_range.check()
        if self._stream.order.by_id and call.offset_range.key_us_max is not None:
            raise UsageError(
                "This destination is ordered by id, so an offset range of it cannot end at a time.",
                hint="Give the range a position as its end, or bounds of rows and bytes. In Spark, use a"
                " trigger other than availableNow, and no times.",
            )
        call = replace(call, offset_range=subscriber.continuation.from_cursor(self._said(call.offset_range)))
        for position in (call.offset_range.start, call.offset_range.until):
            subscriber.continuation.check_snapshots(position)
        if call.may_rewind:
            self._subscribers.check_apart(call.client_id, call.offset_range.start)
        if not call.may_disturb and subscriber.continuation.would_rewind(call, self._stream):
            self._subscribers.check_alone(call.client_id)
        asked = replace(asked, call=call)
        return [*subscriber.get_range(asked, self._stream), *self._subscribers.serve()]

    def _said(self, offset_range: OffsetRange) -> OffsetRange:
        """Return an offset range whose positions say nothing about which shards belong to the group."""
        until = offset_range.until
        said = self._stream.membership.said
        return replace(
            offset_range, start=said(offset_range.start), until=None if until is None else said(until)
        )

    def _timed_out(self, event: GetTimedOut) -> list[Instruction]:
        subscriber = self._subscribers.find(event.client_id)
        if subscriber is None or event.number not in subscriber.delivery.waiting:
            return []
        # A stopped shard blocks the group until an operator acts, so the caller has to learn why. A position
        # that only another client needs is not its failure.
        return [subscriber.delivery.timed_out(event.number, self._stream.failure(subscriber.cursor))]

    # ---- acknowledging ---------------------------------------------------------------------------------

    def _saved(self, event: CursorSaved) -> list[Instruction]:
        subscriber = self._known(event.client_id)
        answers = subscriber.saved(event.number, self._stream)
        return [*answers, *self._resume_deferred(subscriber), *self._subscribers.serve()]

    def _not_saved(self, event: CursorNotSaved) -> list[Instruction]:
        subscriber = self._known(event.client_id)
        answers = subscriber.not_saved(event.number, event.error, self._stream)
        return [*answers, *self._resume_deferred(subscriber), *self._subscribers.serve()]

    # ---- helpers ---------------------------------------------------------------------------------------

    def _existing(self, client_id: str) -> Subscriber:
        subscriber = self._subscribers.find(client_id)
        if subscriber is None:
            raise NotSubscribed(
                f"Client {client_id} is not subscribed to {self._destination}.", hint="Subscribe first."
            )
        return subscriber

    def _check_not_leasing(self, client_id: str) -> None:
        for request in self._leasing.values():
            if request.client_id == client_id:
                raise RetryableError(
                    f"Client {client_id} is being taken by {request.holder}.", retry_after_s=0.05
                )

    def _known(self, client_id: str) -> Subscriber:
        """Return the subscriber that the cursor store answers for."""
        subscriber = self._subscribers.find(client_id)
        assert subscriber is not None, "a subscriber is not forgotten while an answer is awaited"
        return subscriber

    def _resume_deferred(self, subscriber: Subscriber) -> list[Instruction]:
        """Handle the calls that waited for a write of our own."""
        instructions: list[Instruction] = []
        for asked in subscriber.writes.take_deferred():
            try:
                instructions += self.answer(asked)
            except CanalGroupError as error:
                instructions.append(Refuse(asked.number, error))
        return instructions
