"""One client id on a destination: its consumer and what that asks for, and its writes to the cursor store.

Rules:

1. The cursor moves only to a batch's `ack` vector, and only after the cursor store has it.
2. A transaction at or before the cursor is never delivered, even if it comes out of the log again.
3. If a batch is lost while the write that acknowledges it is under way, nothing is delivered until the cursor
   store answers: only then is it known whether the cursor has passed that batch.
4. A look is a subscription of which nothing is stored. It needs no acknowledgements: a get says which batches
   it has read. It ends with its consumer.
5. Only these methods and those of its parts change a subscriber. A method that raises has changed nothing,
   with one exception: the notice that batches were lost, see `delivery`.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from canal_group.merge.calls.consumers import Ack, Get, GetRange, Rollback, SubscribeAt, Unsubscribe
from canal_group.merge.calls.resume import Resume
from canal_group.merge.delivery.batch_limits import BatchLimits
from canal_group.merge.delivery.continuation import Continuation
from canal_group.merge.delivery.cursor_writes import OWN_CALL, CursorWrites, Write
from canal_group.merge.delivery.delivery import Delivery
from canal_group.merge.delivery.lease import Lease
from canal_group.merge.delivery.phase import Phase
from canal_group.merge.delivery.write_phase import WritePhase
from canal_group.merge.errors import (
    CanalGroupError,
    FencedError,
    NotSubscribed,
    RetryableError,
    SubscriptionDropped,
    UsageError,
)
from canal_group.merge.events import (
    Asked,
    ConsumerLeased,
    ConsumerState,
)
from canal_group.merge.instructions import (
    ForgetClient,
    Instruction,
    Refuse,
    ReleaseConsumer,
    Reply,
    SaveCursor,
)
from canal_group.merge.order.stream import Stream
from canal_group.merge.values.loss import to_dicts
from canal_group.merge.values.position import GroupPosition


class Subscriber:
    """State of one client id; see the rules of this module and of the other modules of this package.

    Args:
        client_id: the client id.
        server_epoch: fencing epoch of the server; batch ids start from it.
        limits: bounds of its batches.
        after_id: batch ids up to this one were given to an earlier subscriber of the client id.
        look: whether it is a look.
    """

    def __init__(
        self,
        client_id: str,
        server_epoch: int,
        limits: BatchLimits,
        after_id: int = 0,
        *,
        look: bool = False,
    ) -> None:
        self.client_id = client_id
        self.look = look
        #: when its consumer asked for rows last, microseconds of the shell's clock
        self.read_us = 0
        self.writes = CursorWrites(client_id)
        self.delivery = Delivery(client_id, server_epoch, limits, after_id)
        #: the cursor and the phase of the client id
        self.continuation = Continuation(client_id, self.writes, self.delivery)
        #: canal's filter on `schema.table`; empty: everything
        self.filter = ""
        self.lease = Lease(client_id)
        #: the filter that the cursor store has, while a subscription with another filter is unanswered
        self._stored_filter: str | None = None
        #: the filter in the last write
        self._written_filter = ""

    @classmethod
    def restored(cls, state: ConsumerState, server_epoch: int, limits: BatchLimits, at_us: int) -> Subscriber:
        """Return a stored subscription. Its consumer may be alive, so it gets a lease that starts now.

        A subscription that is stored as dropped gets no lease: a consumer has to say where to continue.
        """
        subscriber = cls(state.client_id, server_epoch, limits)
        subscriber.filter = state.filter
        subscriber.lease.give("" if state.dropped else state.holder, state.epoch, at_us)
        subscriber.writes.restored()
        subscriber.continuation.restore(state)
        return subscriber

    @property
    def phase(self) -> Phase:
        """Its phase."""
        return self.continuation.phase

    @property
    def kept(self) -> bool:
        """Whether the rings hold the rows that it has not acknowledged."""
        return self.continuation.kept

    @property
    def cursor(self) -> GroupPosition | None:
        """Its durable position; None until the first position of the group is known."""
        return self.continuation.cursor

    # ---- its consumer ----------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """Whether its consumer waits for an answer; a waiting consumer sends no sign of life."""
        return bool(self.delivery.waiting) or self.writes.answers_somebody

    def check_consumer(self, epoch: int, at_us: int) -> None:
        """Return if a call with this epoch comes from its consumer; note that it is alive.

        Raises:
            RetryableError: the subscription is being removed.
            NotSubscribed, FencedError: as `Lease.check_holder`.
        """
        self.writes.check_not_forgetting()
        self.lease.check_holder(epoch, at_us)

    def check_last_consumer(self, epoch: int) -> None:
        """Return if a call with this epoch comes from its last consumer; raises as `check_consumer`.

        No other consumer has taken the client id since, but the lease may have expired.
        """
        self.writes.check_not_forgetting()
        self.lease.check_last(epoch)

    def check_kept(self, resume: Resume | None, at_us: int) -> None:
        """Return if it continues at its cursor, or if `resume` says where to continue.

        Raises:
            SubscriptionDropped: it was inactive for too long; nothing is lost yet.
        """
        if self.phase is Phase.DROPPED and resume is None:
            away_s = (at_us - self.lease.seen_us) / 1e6
            raise SubscriptionDropped(
                f"Client {self.client_id} was inactive for too long: its rows are no longer held.",
                hint="Subscribe with resume='cursor' to read the sources again from its cursor, if they still"
                " have the binlogs (every consumer is rolled back), or with resume='now' to continue where"
                " the others are and skip the rows in between.",
                away_s=away_s,
                cursor=self.cursor.to_json() if self.cursor is not None else None,
            )

    def check_readable(self, call: SubscribeAt) -> None:
        """Return if the cursor is known, or if a subscription says where to continue without.

        Raises:
            UsageError: what the cursor store has cannot be read; it is kept as it is.
        """
        error = self.continuation.unreadable
        if error is not None and not call.move and call.resume is not Resume.NOW:
            raise UsageError(
                f"Client {self.client_id} is set aside: {error.message}",
                hint=f"{error.hint} Or move it to a position (canal-group rewind), or subscribe with"
                " resume='now' to continue where the others are. What is stored is replaced then.",
            )

    def take_over(self, call: SubscribeAt, event: ConsumerLeased) -> list[Instruction]:
        """Give the client id to another consumer; its subscription is answered when it is written."""
        over = FencedError(
            f"{call.holder} took over client {self.client_id}.",
            hint="Another consumer took over. Stop this one.",
            our_epoch=self.lease.epoch,
            current_epoch=event.epoch,
        )
        refusals = self._refuse_all(over)
        self.delivery.give_back()
        self.continuation.reads_ranges = False
        self.lease.give(call.holder, event.epoch, event.at_us)
        self.read_us = event.at_us
        if call.keep or call.move:
            self.continuation.last()
        if self._stored_filter is None:
            self._stored_filter = self.filter
        self.filter = call.filter
        self.writes.subscribing = event.number
        self.continuation.resume(call.resume)
        return refusals

    def release(self) -> list[Instruction]:
        """Release the consumer; its outstanding batches are delivered to the next consumer. A look ends."""
        self.delivery.give_back()
        self.continuation.come_back()
        self.lease.holder, self.continuation.reads_ranges = "", False
        gone = NotSubscribed(f"Client {self.client_id} was released.", hint="Subscribe again.")
        if self.look:
            self.continuation.leave()
            self.writes.forget()
            forgets = ForgetClient(OWN_CALL, self.client_id)
            return [*self._refuse_all(gone), ReleaseConsumer(self.client_id), forgets]
        return [*self.delivery.refuse_waiting(gone), ReleaseConsumer(self.client_id)]

    def check_same_kind(self, call: SubscribeAt) -> None:
        """Return if a subscription does not turn a look into a client id of which something is stored.

        Raises:
            RetryableError: it does; the look ends by itself.
        """
        if self.look and not call.look:
            raise RetryableError(f"Client {self.client_id} is a look that is ending.", retry_after_s=0.2)

    def set_aside(self) -> list[Instruction]:
        """Release its consumer, and hold nothing for it until a consumer says where to continue.

        Raises:
            RetryableError: a write is under way, or a subscription is unanswered; nothing was changed.
        """
        self.writes.check_not_forgetting()
        self.writes.check_at_rest()
        released = self.release() if self.lease.holder else []
        if self.phase not in (Phase.DROPPED, Phase.LEAVING):
            self.continuation.drop()
        return released

    def unsubscribe(self, asked: Asked[Unsubscribe]) -> list[Instruction]:
        """Remove the subscription and its cursor; they are gone when the cursor store confirms it.

        Raises:
            RetryableError: a write is under way; nothing was changed.
        """
        if self.writes.follows_shards:
            self.writes.defer(asked)
            return []
        self.writes.check_none()
        gone = NotSubscribed(f"Client {self.client_id} unsubscribed.")
        released = self._refuse_all(gone)
        self.delivery.give_back()
        self.lease.holder = ""
        self.continuation.leave()
        self.writes.forget()
        return [*released, ReleaseConsumer(self.client_id), ForgetClient(asked.number, self.client_id)]

    def _refuse_all(self, error: CanalGroupError) -> list[Instruction]:
        """Refuse the gets that wait, and a subscription that is unanswered."""
        refusals = self.delivery.refuse_waiting(error)
        if self.writes.subscribing is not None:
            refusals.append(Refuse(self.writes.subscribing, error))
            self.writes.subscribing = None
        return refusals

    def _refused_subscription(self) -> list[Instruction]:
        """Release a consumer whose subscription could not be written; an earlier subscription stays."""
        self.writes.subscribing = None
        self.filter, self._stored_filter = self._stored_filter or "", None
        released = self.release()
        if not self.writes.durable:
            # The write may have arrived; then the store has a subscription that no consumer wants.
            self.continuation.leave()
            self.writes.abandon()
        return released

    # ---- writes ----------------------------------------------------------------------------------------

    def _save(self, write: Write, stream: Stream) -> list[Instruction]:
        """Write subscription and cursor; with a batch, the cursor after that batch."""
        self._written_filter = self.filter
        at = self.continuation
        cursor, since = at.cursor, at.quiet_since
        if write.batch is not None:
            cursor, since = at.cursor_after(write.batch, stream)
        dropped, lasting = at.phase is Phase.DROPPED, at.lasting or write.batch is not None
        stored = cursor, dropped, at.losses, since, lasting, at.unread
        return [SaveCursor(write.call, self.client_id, self.filter, *stored)]

    def save_subscription(self, stream: Stream) -> list[Instruction]:
        """Write the subscription if it is unanswered or has changed, and no write is under way.

        Nothing is written before its cursor is known.
        """
        if self.cursor is None or self.phase is Phase.LEAVING:
            return []
        if self.look:
            return self._answer_subscription()
        write = self.writes.store()
        return self._save(write, stream) if write is not None else []

    def answer_when_stored(self, reply: Reply, stream: Stream) -> list[Instruction]:
        """Write the subscription as an operator has changed it, and answer when the store has it.

        No write may be under way.
        """
        written = self.save_subscription(stream)
        if not self.writes.writing:
            return [*written, reply]
        self.writes.changing = reply
        return written

    def saved(self, call: int, stream: Stream) -> list[Instruction]:
        """Note that the cursor store has what was written, and answer the call that waited for it."""
        awaited = self.writes.phase is WritePhase.ACKING
        write = self.writes.saved(call)
        if self._stored_filter is not None:
            self._stored_filter = self._written_filter
        answers: list[Instruction] = []
        if write.batch is not None:
            self.continuation.lasting = True
            self.continuation.acked(write.batch, stream)
            if awaited:
                answers.append(Reply(call, self.cursor))
        elif self.writes.subscribing == call:
            answers += self._answer_subscription()
        changed = self.writes.take_changing()
        return [*answers, *([] if changed is None else [changed]), *self.save_subscription(stream)]

    def _answer_subscription(self) -> list[Instruction]:
        call, self.writes.subscribing, self._stored_filter = self.writes.subscribing, None, None
        return [] if call is None else [Reply(call, (self.lease.epoch, self.cursor))]

    def not_saved(self, call: int, error: CanalGroupError, stream: Stream) -> list[Instruction]:
        """Note that the cursor store refused a write, or may have, and refuse the call that waited for it."""
        awaited = self.writes.phase is WritePhase.ACKING
        self.writes.not_saved(call, retryable=isinstance(error, RetryableError))
        answers: list[Instruction] = [Refuse(call, error)] if awaited else []
        if (changed := self.writes.take_changing()) is not None:
            answers.append(Refuse(changed.number, error))
        if self.writes.phase is WritePhase.UNSURE:
            return answers
        if self.writes.subscribing == call:
            answers += [Refuse(call, error), *self._refused_subscription()]
        # Not at once: the store may be unavailable for a while. `reconcile` writes it, or who subscribes.
        if self.writes.subscribing is not None:
            answers += self.save_subscription(stream)
        return answers

    def save_again(self, stream: Stream) -> list[Instruction]:
        """Repeat what the cursor store has not confirmed: a write, or the removal of the subscription."""
        if self.writes.forget_again():
            return [ForgetClient(OWN_CALL, self.client_id)]
        write = self.writes.repeat()
        return self._save(write, stream) if write is not None else []

    # ---- gets ------------------------------------------------------------------------------------------

    def get(self, asked: Asked[Get], stream: Stream) -> list[Instruction]:
        """Let a get wait for the next batch.

        Raises:
            DataError: a source has purged the binlog that follows the cursor; nothing was changed.
            RolledBack, RetryableError: as `Delivery.check_get`.
        """
        if self.continuation.purged is not None:
            raise self.continuation.purged
        self.read_us = asked.at_us
        if self.look:
            self._pass_seen(asked.call.seen_id, stream)
        self.delivery.check_get(asked.call.seen_id)
        return self.delivery.get(asked.number, asked.call)

    def _pass_seen(self, seen_id: int | None, stream: Stream) -> None:
        for batch in self.delivery.ledger.outstanding:
            if seen_id is not None and batch.batch_id <= seen_id:
                self.continuation.acked(batch, stream)

    def get_range(self, asked: Asked[GetRange], stream: Stream) -> list[Instruction]:
        """Let a call wait for an offset range; a repeated request for an outstanding range is answered again.

        Raises:
            RetryableError: a write is under way, or too many batches are outstanding; nothing was changed.
            RolledBack: as `seek`.
        """
        call = asked.call
        found = self.delivery.find_range(call.offset_range)
        if found is not None:
            return [Reply(asked.number, found)]
        self.writes.check_none()
        self.delivery.ledger.check_room()
        self.read_us = asked.at_us
        refusals = self.continuation.seek(call.offset_range.start, stream, may_rewind=call.may_rewind)
        self.continuation.reads_ranges = True
        self.delivery.waiting[asked.number] = call
        return refusals

    def serve(self, stream: Stream) -> list[Instruction]:
        """Answer the waiting gets for which there are batches."""
        if not self.delivery.waiting:
            return []
        lost = self.writes.acknowledging
        decided = lost is None or self.delivery.ledger.holds(lost)
        answers = self.delivery.serve(stream, readable=decided and self.phase is Phase.READING)
        if any(isinstance(answer, Reply) for answer in answers):
            self.continuation.arrived()
        return answers

    def rollback(self, asked: Asked[Rollback]) -> list[Instruction]:
        """Roll back the batches that its consumer gives back, and answer.

        Raises:
            RetryableError: a write is under way; nothing was changed.
            RolledBack, UnknownBatch: as `Ledger.find`; nothing was changed.
        """
        if self.writes.follows_shards:
            self.writes.defer(asked)
            return []
        self.writes.check_none()
        return [Reply(asked.number, self.delivery.give_back(asked.call.batch_id))]

    def ack(self, asked: Asked[Ack], stream: Stream) -> list[Instruction]:
        """Write the cursor after the oldest outstanding batch; the call is answered when that is durable.

        Raises:
            RetryableError: another write is under way; nothing was changed.
            AckOutOfOrder, RolledBack, UnknownBatch: as `Ledger.check_ack`; nothing was changed.
        """
        ledger, unsure, batch_id = self.delivery.ledger, self.writes.unsure_of, asked.call.batch_id
        if self.look:
            self.continuation.acked(ledger.check_ack(batch_id), stream)
            return [Reply(asked.number, self.cursor)]
        if self.writes.follows_shards:
            ledger.check_ack(batch_id)
            self.writes.defer(asked)
            return []
        if unsure is None or not (unsure.batch_id == batch_id and ledger.holds(unsure)):
            self.writes.check_none()
        batch = ledger.check_ack(batch_id)
        return self._save(self.writes.acknowledge(asked.number, batch), stream)

    # ---- for people, and for tests -----------------------------------------------------------------------

    def acknowledged_us(self, stream: Stream) -> int | None:
        """Return the time up to which it has acknowledged everything, or the commit time of its cursor."""
        reached_us = stream.reached_us(self.delivery.done) if self.phase is Phase.READING else None
        if reached_us is not None or self.cursor is None:
            return reached_us
        commits = [position.commit_us for position in self.cursor.shards.values() if position.commit_us]
        return min(commits, default=None)

    def describe(self, at_us: int, stream: Stream) -> dict[str, Any]:
        """Return its state as a JSON object; `at_us`: now, microseconds of the shell's clock."""
        why = self.continuation.purged or self.continuation.unreadable
        return {
            "client_id": self.client_id,
            "filter": self.filter,
            "holder": self.lease.holder or None,
            "epoch": self.lease.epoch,
            "phase": self.phase.value,
            "look": self.look,
            "replay": None,
            "lasting": self.continuation.lasting,
            "away_s": None if self.lease.holder else (at_us - self.lease.seen_us) / 1e6,
            "dropped": self.phase is Phase.DROPPED,
            "error": str(why) if why is not None else None,
            "cursor": self.cursor.to_json() if self.cursor is not None else None,
            "cursor_commit_us": self.acknowledged_us(stream),
            "losses": to_dicts(self.continuation.losses),
            "unread": {shard: each.to_dict() for shard, each in self.continuation.unread.items()},
            "outstanding": self.delivery.ledger.describe(at_us),
            "totals": asdict(self.delivery.ledger.totals),
        }

    def validate(self, stream: Stream) -> None:
        """Assert what holds between two events."""
        reading = self.phase is Phase.READING
        self.writes.validate()
        self.delivery.validate(stream, self.cursor, reading=reading)
        assert stream.merging or not reading, "a subscriber reads only while the stream merges"
        knows_why = self.continuation.purged is not None
        assert (self.phase is Phase.PURGED) == knows_why, "a purged subscriber knows why"
        assert not (self.look and self.writes.durable), "nothing of a look is stored"
        assert self.kept or not self.delivery.waiting, "a subscriber that is not kept has no waiting calls"
        assert self.lease.holder or not self.delivery.waiting, "waiting calls come from the lease's holder"
