"""One client id on a destination: its cursor, its consumer's lease, its place in the merged log.

Rules:

1. The cursor moves only to where a batch's `ack` vector says, after the cursor store has it.
2. What stands at or before the cursor is never delivered, whatever comes out of the log again.
3. While the batch that a write acknowledges was lost meanwhile, nothing is delivered: whether that batch is
   behind the cursor is not known yet.
4. Only these methods change a subscriber. Those that raise have changed nothing, but for the notice that
   batches were lost, see `delivery`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from merge.delivery.batch_limits import BatchLimits
from merge.delivery.cursor_writes import OWN_CALL, CursorWrites, Saving
from merge.delivery.delivery import Delivery
from merge.delivery.lease import Lease
from merge.delivery.ledger import Batch
from merge.delivery.phase import KEPT, Phase, Step, after
from merge.errors import (
    CanalGroupError,
    DataError,
    FencedError,
    NotSubscribed,
    RetryableError,
    RolledBack,
    SubscriptionDropped,
)
from merge.events import (
    AckRequested,
    ConsumerLeased,
    ConsumerState,
    GetRequested,
    RangeRequested,
    Resume,
    RollbackRequested,
    SubscribeRequested,
    UnsubscribeRequested,
)
from merge.instructions import ForgetClient, Instruction, Refuse, ReleaseConsumer, Reply, SaveCursor
from merge.order.stream import Stream
from merge.values.offset_range import reaches_back, same_places
from merge.values.position import GroupPosition, Position


class Subscriber:
    """State of one client id; see the module's rules, and those of phase, lease, ledger, writes and place.

    Args:
        client_id: the client id.
        server_epoch: fencing epoch of the server, from which batch ids begin.
        limits: bounds of its batches.
        after_id: batch ids up to this one were given to an earlier subscriber of the client id.
    """

    def __init__(self, client_id: str, server_epoch: int, limits: BatchLimits, after_id: int = 0) -> None:
        self.client_id = client_id
        self.phase = Phase.WAITING
        #: canal's filter on `schema.table`; empty: everything
        self.filter = ""
        #: durable place; None until the first position of the group is known
        self.cursor: GroupPosition | None = None
        self.lease = Lease(client_id)
        self.writes = CursorWrites(client_id)
        self.delivery = Delivery(client_id, server_epoch, limits, after_id)
        #: why it is PURGED
        self._purged: DataError | None = None
        #: its cursor when it gave up what it had missed: it does not go back behind that either
        self._gave_up_at: GroupPosition | None = None
        #: whether it began with this log, of which it has acknowledged nothing
        self.new = True
        #: the cursor before it sought another position, and why it was PURGED; until rows came from there
        self._came_from: tuple[GroupPosition | None, DataError | None] | None = None
        #: the filter that the cursor store has, while a subscription with another one is not answered
        self._stored_filter: str | None = None
        #: the filter in the last write
        self._written_filter = ""

    @classmethod
    def restored(cls, state: ConsumerState, server_epoch: int, limits: BatchLimits, at_us: int) -> Subscriber:
        """Return a stored subscription. Its consumer may be alive: it has a lease from now.

        Unless the subscription is stored as dropped: then it has to say first where it goes on.
        """
        subscriber = cls(state.client_id, server_epoch, limits)
        subscriber.filter, subscriber.cursor = state.filter, state.cursor
        subscriber.phase = Phase.DROPPED if state.dropped else Phase.WAITING
        subscriber.lease.give("" if state.dropped else state.holder, state.epoch, at_us)
        subscriber.writes.durable, subscriber.new = True, state.cursor is None
        return subscriber

    def _go(self, step: Step) -> None:
        self.phase = after(self.phase, step)

    @property
    def kept(self) -> bool:
        """Whether the rings hold what it has not acknowledged."""
        return self.phase in KEPT

    # ---- its consumer ----------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """Whether its consumer waits for an answer: it cannot be heard of meanwhile."""
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

        Nobody else has the client id, though the lease may have run out.
        """
        self.writes.check_not_forgetting()
        self.lease.check_last(epoch)

    def take_over(self, request: SubscribeRequested, event: ConsumerLeased) -> list[Instruction]:
        """Give it to another consumer, whose subscription is answered when it is written."""
        over = FencedError(
            f"{request.holder} took over client {self.client_id}.",
            hint="Another consumer took over. Stop this one.",
            our_epoch=self.lease.epoch,
            current_epoch=event.epoch,
        )
        refusals = self._refuse_all(over)
        self.delivery.give_back()
        self.lease.give(request.holder, event.epoch, event.at_us)
        if self._stored_filter is None:
            self._stored_filter = self.filter
        self.filter = request.filter
        self.writes.subscribing = event.call
        self._resume(request.resume)
        return refusals

    def release(self) -> list[Instruction]:
        """Let the consumer go: its outstanding batches are the next one's."""
        self.delivery.give_back()
        self._come_back()
        self.lease.holder = ""
        gone = NotSubscribed(f"Client {self.client_id} was released.", hint="Subscribe again.")
        return [*self.delivery.refuse_waiting(gone), ReleaseConsumer(self.client_id)]

    def unsubscribe(self, request: UnsubscribeRequested) -> list[Instruction]:
        """Give up the subscription and its cursor; it is gone when the cursor store confirms that.

        Raises:
            RetryableError: a write is under way; nothing was changed.
        """
        if self.writes.follows_shards:
            self.writes.defer(request)
            return []
        self.writes.check_none()
        gone = NotSubscribed(f"Client {self.client_id} unsubscribed.")
        released = self._refuse_all(gone)
        self.delivery.give_back()
        self.lease.holder = ""
        self._leave()
        self.writes.forget(request.call)
        return [*released, ReleaseConsumer(self.client_id), ForgetClient(request.call, self.client_id)]

    def _refuse_all(self, error: CanalGroupError) -> list[Instruction]:
        """Refuse the gets that wait, and a subscription that is not answered."""
        refusals = self.delivery.refuse_waiting(error)
        if self.writes.subscribing is not None:
            refusals.append(Refuse(self.writes.subscribing, error))
            self.writes.subscribing = None
        return refusals

    def _leave(self) -> None:
        self._go(Step.LEAVE)
        self._purged = self._came_from = None

    def not_forgotten(self) -> None:
        """Take note that the store may not have forgotten it; `save_again` asks again."""
        self.writes.forget_later()

    def _refused_subscription(self) -> list[Instruction]:
        """Let the consumer go whose subscription could not be written; an earlier one stays."""
        self.writes.subscribing = None
        self.filter, self._stored_filter = self._stored_filter or "", None
        released = self.release()
        if not self.writes.durable:
            # The write may have arrived: what the store has now nobody asked for.
            self._leave()
            self.writes.forget_later()
        return released

    # ---- being away, and purged ------------------------------------------------------------------------

    def check_kept(self, resume: Resume | None, at_us: int) -> None:
        """Return if it goes on at its cursor, or it was said where else.

        Raises:
            SubscriptionDropped: it was away for too long; nothing is lost yet.
        """
        if self.phase is Phase.DROPPED and resume is None:
            away_s = (at_us - self.lease.seen_us) / 1e6
            raise SubscriptionDropped(
                f"Client {self.client_id} was away for too long: its rows are no longer held.",
                hint="Subscribe with resume='cursor' to have the sources read again from its cursor, as far"
                " as they still have it (every consumer is rolled back), or with resume='now' to go on where"
                " the others are and miss what is between.",
                away_s=away_s,
                cursor=self.cursor.to_json() if self.cursor is not None else None,
            )

    def drop(self) -> None:
        """Keep nothing for it any more; its cursor stays."""
        self._go(Step.DROP)
        self._purged = None
        self.writes.unsaved = True

    def needs(self, shard: str, position: Position, stream: Stream) -> bool:
        """Return whether it is for this subscriber that a shard was asked to open at `position`."""
        if not self.kept or self.cursor is None:
            return False
        return stream.with_joined(self.cursor).shards.get(shard) == position

    def begin_anew(self) -> None:
        """Begin where the log will begin; a rewind has to follow."""
        assert self.new, "who began earlier has a place of its own"
        self.cursor = None

    @property
    def seeks(self) -> bool:
        """Whether its cursor is a position that its consumer asked for, and nothing came from there yet."""
        return self._came_from is not None

    def purge(self, error: DataError) -> list[Instruction]:
        """Take note that a source has purged what follows its cursor.

        Who sought that position comes back to where it was; a rewind has to follow. Else nothing is kept
        for it until its consumer says where to go on.
        """
        if self.seeks:
            self._come_back()
        else:
            self._go(Step.PURGE)
            self._purged = _told(self.client_id, error)
        return self.delivery.refuse_waiting(error)

    def _resume(self, where: Resume | None) -> None:
        """Go on after a drop or a purge; `stand_at` has to follow.

        Who was dropped goes on at its cursor if it was not asked where: it was not dropped yet when it
        subscribed. Who is purged does so only if that was said.
        """
        if self.kept or (where is None and self.phase is Phase.PURGED):
            return
        self.writes.unsaved |= self.phase is Phase.DROPPED
        self._go(Step.RESUME)
        self._purged = None
        if where is Resume.NOW:
            self.cursor, self._gave_up_at = None, self.cursor

    # ---- cursor ----------------------------------------------------------------------------------------

    def _save(self, saving: Saving, stream: Stream) -> list[Instruction]:
        """Write subscription and cursor; with a batch, the cursor behind it."""
        self.writes.begin(saving)
        self._written_filter = self.filter
        cursor = self.cursor if saving.batch is None else stream.reconciled(saving.batch.ack)
        dropped = self.phase is Phase.DROPPED
        return [SaveCursor(saving.call, self.client_id, self.filter, cursor, dropped)]

    def save_subscription(self, stream: Stream) -> list[Instruction]:
        """Write a subscription that is not answered, or whose shards changed, if no write is under way.

        Its cursor has to be known.
        """
        call = self.writes.due
        if call is None or self.cursor is None or self.phase is Phase.LEAVING:
            return []
        return self._save(Saving(call, None), stream)

    def reconcile(self, stream: Stream) -> None:
        """Take note that shards joined or left; those that joined stand where they did."""
        if self.cursor is None:
            return
        reconciled = stream.reconciled(self.cursor)
        self.writes.unsaved |= not self.cursor.knows_shards_of(reconciled)
        self.cursor = reconciled

    def _acked(self, batch: Batch, stream: Stream) -> None:
        """Move the cursor past a batch: the cursor store has it."""
        self.new = False
        if self.delivery.acked(batch, stream):
            self.cursor = stream.reconciled(batch.ack)
        elif batch.generation == stream.generation and batch.behind is None and self.phase is Phase.READING:
            # It was taken back while it was being acknowledged, and its log is still there: go on behind it.
            self.delivery.place.go_behind(batch)
            self.cursor = stream.reconciled(batch.ack)
        elif stream.merging and self.kept:
            self.stand_at(batch.ack, stream)
        else:
            self.cursor = stream.reconciled(batch.ack)

    # ---- place in the stream ---------------------------------------------------------------------------

    def stand_at(self, cursor: GroupPosition, stream: Stream) -> None:
        """Make `cursor` the cursor, stand at the log's base and skip what stands at or before the cursor.

        Args:
            cursor: shards that it does not name stand where the log begins.
            stream: one that merges and stands between two transactions.
        """
        self._go(Step.PLACE)
        if self._gave_up_at is not None:
            cursor, self._gave_up_at = cursor.further(self._gave_up_at), None
        reconciled = stream.reconciled(cursor)
        self.writes.unsaved |= self.cursor is not None and not self.cursor.knows_shards_of(reconciled)
        self.cursor = reconciled
        self.delivery.place.stand_at(reconciled, stream)

    def saved(self, call: int, stream: Stream) -> list[Instruction]:
        """Take note that the cursor store has what was written, and answer who waited for it."""
        saving = self.writes.end(call)
        self.writes.durable = True
        if self._stored_filter is not None:
            self._stored_filter = self._written_filter
        answers: list[Instruction] = []
        if saving.batch is not None:
            self._acked(saving.batch, stream)
            if not saving.unsure:
                answers.append(Reply(call, self.cursor))
        elif self.writes.subscribing == call:
            self.writes.subscribing = self._stored_filter = None
            answers.append(Reply(call, (self.lease.epoch, self.cursor)))
        return answers + self.save_subscription(stream)

    def not_saved(self, call: int, error: CanalGroupError, stream: Stream) -> list[Instruction]:
        """Take note that the cursor store refused, or may have, and tell who waited for it."""
        saving = self.writes.end(call)
        answers: list[Instruction] = []
        if saving.batch is not None:
            if not saving.unsure:
                answers.append(Refuse(call, error))
            if isinstance(error, RetryableError):
                self.writes.repeat_later(saving)
                return answers
        elif self.writes.subscribing == call:
            answers += [Refuse(call, error), *self._refused_subscription()]
        answers += self.save_subscription(stream)
        # Not at once: the store may be away for a while. `reconcile` writes it.
        self.writes.unsaved |= saving.unsaved
        return answers

    def save_again(self, stream: Stream) -> list[Instruction]:
        """Ask the cursor store again for what it has not confirmed: a write, or that it forgets."""
        if self.writes.forget_again():
            return [ForgetClient(OWN_CALL, self.client_id)]
        saving = self.writes.saving
        if saving is None or saving.under_way:
            return []
        return self._save(replace(saving, under_way=True), stream)

    def _reads(self, stream: Stream) -> bool:
        return stream.merging and self.phase is Phase.READING

    def _stands_at(self, start: GroupPosition, stream: Stream) -> bool:
        positioned = self.delivery.place.position if self._reads(stream) else self.cursor
        return self.kept and positioned is not None and same_places(positioned, start)

    def _is_forward(self, sought: GroupPosition) -> bool:
        return self.cursor is not None and reaches_back(self.cursor.shards, sought.shards)

    def _holds(self, sought: GroupPosition, stream: Stream) -> bool:
        """Return whether it can stand at a position in the log that there is."""
        base = stream.base
        return self._reads(stream) and base.ack == base.end and reaches_back(base.ack.shards, sought.shards)

    def would_rewind(self, request: RangeRequested, stream: Stream) -> bool:
        """Return whether the shards have to be opened again for a range, with all that follows for others."""
        start = request.offset_range.start
        if self.delivery.find_range(request.offset_range) is not None or self._stands_at(start, stream):
            return False
        sought = stream.reconciled(start)
        forward = self._is_forward(sought)
        if self._holds(sought, stream) or not (forward or request.may_rewind):
            return False
        return stream.merging or not forward or not self.kept

    def _seek(self, start: GroupPosition, stream: Stream, *, may_rewind: bool) -> list[Instruction]:
        """Stand at `start`: everything before it is done with, whatever the cursor says.

        Other offset ranges that wait are refused: they begin elsewhere.

        Raises:
            RolledBack: it is before the cursor, and that may not be; nothing was changed.
        """
        if self._stands_at(start, stream):
            return []
        sought = stream.reconciled(start)
        forward, held = self._is_forward(sought), self._holds(sought, stream)
        if not forward and not may_rewind:
            raise RolledBack(
                f"Client {self.client_id} has consumed what is asked for.",
                hint="It was finished, or belongs to a run of the consumer that is over.",
            )
        refusals = self.delivery.refuse_ranges()
        self.new = False
        self.delivery.give_back()
        before, self.cursor = (self.cursor, self._purged), sought
        if held:
            self.stand_at(sought, stream)
        elif stream.merging or not forward or not self.kept:
            self._go(Step.SEEK)
            self._came_from, self._purged = self._came_from or before, None
        return refusals

    def _come_back(self) -> None:
        """Stand where it stood before a `seek` whose place was not reached."""
        if self._came_from is not None:
            (self.cursor, self._purged), self._came_from = self._came_from, None
            self._go(Step.SEEK if self._purged is None else Step.PURGE)

    def rewind(self) -> list[Instruction]:
        """Forget outstanding batches: the log that they came from is gone. `stand_at` has to follow.

        The consumer hears of it before it gets anything again.
        """
        self._go(Step.REWIND)
        self.new = self.cursor is None
        return self.delivery.lose()

    # ---- gets ------------------------------------------------------------------------------------------

    def get(self, request: GetRequested) -> list[Instruction]:
        """Let a get wait for the next batch.

        Raises:
            DataError: a source has purged what follows the cursor; nothing was changed.
            RolledBack, RetryableError: as `Delivery.check_get`.
        """
        if self._purged is not None:
            raise self._purged
        self.delivery.check_get(request.seen_id)
        return self.delivery.get(request)

    def get_range(self, request: RangeRequested, stream: Stream) -> list[Instruction]:
        """Let a call wait for an offset range; who asks again is answered again.

        Raises:
            RetryableError: a write is under way, or too many batches are outstanding; nothing was changed.
            RolledBack: as `_seek`.
        """
        found = self.delivery.find_range(request.offset_range)
        if found is not None:
            return [Reply(request.call, found)]
        self.writes.check_none()
        self.delivery.ledger.check_room()
        refusals = self._seek(request.offset_range.start, stream, may_rewind=request.may_rewind)
        self.delivery.waiting[request.call] = request
        return refusals

    def serve(self, stream: Stream) -> list[Instruction]:
        """Answer the gets that wait, as far as there are batches."""
        if not self.delivery.waiting:
            return []
        lost = self.writes.acknowledging
        decided = lost is None or self.delivery.ledger.holds(lost)
        answers = self.delivery.serve(stream, readable=decided and self.phase is Phase.READING)
        if any(isinstance(answer, Reply) for answer in answers):
            self._came_from = None
        return answers

    def rollback(self, request: RollbackRequested) -> list[Instruction]:
        """Take back what its consumer gives back, and answer.

        Raises:
            RetryableError: a write is under way; nothing was changed.
            RolledBack, UnknownBatch: as `Ledger.find`; nothing was changed.
        """
        if self.writes.follows_shards:
            self.writes.defer(request)
            return []
        self.writes.check_none()
        return [Reply(request.call, self.delivery.give_back(request.batch_id))]

    def ack(self, request: AckRequested, stream: Stream) -> list[Instruction]:
        """Write the cursor behind the oldest outstanding batch; it is answered when that is durable.

        Raises:
            RetryableError: another write is under way; nothing was changed.
            AckOutOfOrder, RolledBack, UnknownBatch: as `Ledger.check_ack`; nothing was changed.
        """
        ledger, unsure = self.delivery.ledger, self.writes.unsure_of
        if self.writes.follows_shards:
            ledger.check_ack(request.batch_id)
            self.writes.defer(request)
            return []
        if unsure is None or not (unsure.batch_id == request.batch_id and ledger.holds(unsure)):
            self.writes.check_none()
        batch = ledger.check_ack(request.batch_id)
        return self._save(Saving(request.call, batch), stream)

    # ---- for people, and for tests -----------------------------------------------------------------------

    def describe(self) -> dict[str, Any]:
        """Return its state as a JSON object."""
        return {
            "client_id": self.client_id,
            "filter": self.filter,
            "holder": self.lease.holder or None,
            "epoch": self.lease.epoch,
            "phase": self.phase.value,
            "dropped": self.phase is Phase.DROPPED,
            "error": str(self._purged) if self._purged is not None else None,
            "cursor": self.cursor.to_json() if self.cursor is not None else None,
            "outstanding": self.delivery.describe(),
        }

    def validate(self, stream: Stream) -> None:
        """Assert what holds between two events."""
        reading = self.phase is Phase.READING
        self.writes.validate()
        self.delivery.validate(stream, self.cursor, reading=reading)
        assert stream.merging or not reading, "nobody reads a log that is not there"
        assert (self.phase is Phase.PURGED) == (self._purged is not None), "who is purged knows why"
        assert self.kept or not self.delivery.waiting, "who is not kept waits for nothing"
        assert self.lease.holder or not self.delivery.waiting, "who waits has the lease"


def _told(client_id: str, error: DataError) -> DataError:
    """Return what a consumer is told whose cursor was purged."""
    return type(error)(
        f"Client {client_id} cannot go on at its cursor: {error.message}",
        hint=f"{error.hint} Then subscribe with resume='cursor' to try again, or with resume='now' to go on"
        " where the others are and miss what is between.".strip(),
        **error.details,
    )
