"""One client id on a destination: its cursor, its consumer's lease, its place in the merged log.

Rules:

1. The cursor moves only to where a batch's `ack` vector says, after the cursor store has it.
2. What stands at or before the cursor is never delivered, whatever comes out of the log again.
3. While the batch that a write acknowledges was lost meanwhile, nothing is delivered: whether that batch is
   behind the cursor is not known yet.
4. Only these methods change a subscriber. Those that raise have changed nothing.
5. Where its batches were lost, the next get is refused with `RolledBack`, once: that refusal is the notice,
   and the only one that changes something.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any, assert_never

from merge.batch_limits import BatchLimits
from merge.cursor_writes import OWN_CALL, CursorWrites, Saving
from merge.errors import (
    CanalGroupError,
    DataError,
    NotSubscribed,
    RetryableError,
    RolledBack,
    SubscriptionDropped,
)
from merge.events import ConsumerState, GetRequested, Resume, SpanRequested
from merge.instructions import ForgetClient, Instruction, Refuse, ReleaseConsumer, Reply, SaveCursor
from merge.lease import Lease
from merge.ledger import Batch, Ledger
from merge.phase import KEPT, Phase, Step, after
from merge.place import Place
from merge.position import GroupPosition, Position
from merge.span import Span, reaches_back, same_places
from merge.stream import Stream


class Subscriber:
    """State of one client id; see the module's rules, and those of phase, lease, ledger, writes and place.

    Args:
        client_id: the client id.
        server_epoch: fencing epoch of the server, from which batch ids begin.
        limits: bounds of its batches.
    """

    def __init__(self, client_id: str, server_epoch: int, limits: BatchLimits) -> None:
        self.client_id = client_id
        self.phase = Phase.WAITING
        #: canal's filter on `schema.table`; empty: everything
        self.filter = ""
        #: durable place; None until the first position of the group is known
        self.cursor: GroupPosition | None = None
        self.lease = Lease(client_id)
        self.ledger = Ledger(server_epoch, limits.outstanding_max)
        self.writes = CursorWrites(client_id)
        #: gets that wait for data, by call
        self.waiting: dict[int, GetRequested | SpanRequested] = {}
        #: told to the consumer with its next get: its outstanding batches were lost
        self._notice: RolledBack | None = None
        #: why it is PURGED
        self._purged: DataError | None = None
        #: its cursor when it gave up what it had missed: it does not go back behind that either
        self._gave_up_at: GroupPosition | None = None
        self._place = Place(limits)
        #: the cursor before it sought another position, until that is known to be there
        self._came_from: GroupPosition | None = None
        #: the filter that the cursor store has, while another one is being written
        self._stored_filter: str | None = None

    @classmethod
    def restored(cls, state: ConsumerState, server_epoch: int, limits: BatchLimits, at_us: int) -> Subscriber:
        """Return a stored subscription. Its consumer may be alive: it has a lease from now."""
        subscriber = cls(state.client_id, server_epoch, limits)
        subscriber.filter, subscriber.cursor = state.filter, state.cursor
        subscriber.phase = Phase.DROPPED if state.dropped else Phase.WAITING
        subscriber.lease.give(state.holder, state.epoch, at_us)
        subscriber.writes.durable = True
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
        return bool(self.waiting) or self.writes.answers_somebody

    def check_consumer(self, epoch: int, at_us: int) -> None:
        """Return if a call with this epoch comes from its consumer; note that it is alive.

        Raises:
            RetryableError: the subscription is being removed.
            NotSubscribed, FencedError: as `Lease.check_holder`.
        """
        self.writes.check_not_forgetting()
        self.lease.check_holder(epoch, at_us)

    def taken_over(self, holder: str, table_filter: str, call: int, epoch: int, at_us: int) -> None:
        """Give it to a consumer, whose subscription is answered when it is written."""
        self.rollback()
        self._notice = None
        self.lease.give(holder, epoch, at_us)
        if self._stored_filter is None:
            self._stored_filter = self.filter
        self.filter = table_filter
        self.writes.subscribing = call

    def release(self) -> list[Instruction]:
        """Let the consumer go: its outstanding batches are the next one's."""
        self.rollback()
        self._come_back()
        self._notice = None
        self.lease.holder = ""
        gone = NotSubscribed(f"Client {self.client_id} was released.", hint="Subscribe again.")
        return [*self.refuse_waiting(gone), ReleaseConsumer(self.client_id)]

    def leave(self, call: int) -> list[Instruction]:
        """Give up the subscription and its cursor; it is gone when the cursor store confirms that."""
        gone = NotSubscribed(f"Client {self.client_id} unsubscribed.")
        released = self.refuse_waiting(gone)
        self.rollback()
        self.lease.holder = ""
        self._go(Step.LEAVE)
        self.writes.forget(call)
        return [*released, ReleaseConsumer(self.client_id), ForgetClient(call, self.client_id)]

    def not_forgotten(self) -> None:
        """Take note that the store may not have forgotten it; `forget_again` asks again."""
        self.writes.forget_later()

    def _refused_subscription(self) -> list[Instruction]:
        """Let the consumer go whose subscription could not be written; an earlier one stays."""
        self.writes.subscribing = None
        self.filter, self._stored_filter = self._stored_filter or "", None
        released = self.release()
        if not self.writes.durable:
            # The write may have arrived: what the store has now nobody asked for.
            self._go(Step.LEAVE)
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

    def needs(self, shard: str, position: Position) -> bool:
        """Return whether it is for this subscriber that a shard was asked to open at `position`."""
        return self.kept and self.cursor is not None and self.cursor.shards.get(shard) == position

    @property
    def seeks(self) -> bool:
        """Whether its cursor is a position that its consumer asked for, and that was not reached yet."""
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
            self._purged = _purged(self.client_id, error)
        return self.refuse_waiting(error)

    def resume(self, where: Resume | None) -> None:
        """Go on after a drop or a purge, if it was said where; `stand_at` has to follow."""
        if self.kept or where is None:
            return
        self.writes.unsaved |= self.phase is Phase.DROPPED
        self._go(Step.RESUME)
        self._purged = None
        if where is Resume.NOW:
            self.cursor, self._gave_up_at = None, self.cursor

    # ---- cursor ----------------------------------------------------------------------------------------

    def save(self, saving: Saving, stream: Stream) -> list[Instruction]:
        """Write subscription and cursor; with a batch, the cursor behind it."""
        self.writes.begin(saving)
        cursor = self.cursor if saving.batch is None else stream.settled(saving.batch.ack)
        dropped = self.phase is Phase.DROPPED
        return [SaveCursor(saving.call, self.client_id, self.filter, cursor, dropped)]

    def save_subscription(self, stream: Stream) -> list[Instruction]:
        """Write a subscription that is not answered, or whose shards changed, if no write is under way.

        Its cursor has to be known.
        """
        call = self.writes.due
        if call is None or self.cursor is None or self.phase is Phase.LEAVING:
            return []
        return self.save(Saving(call, None), stream)

    def is_unsure_of(self, batch_id: int) -> bool:
        """Return whether the acknowledgement of this batch waits to be repeated: its consumer may do so."""
        batch = self.writes.unsure_of
        return batch is not None and batch.batch_id == batch_id and self.ledger.holds(batch)

    def settle(self, stream: Stream) -> None:
        """Take note that shards joined or left; those that joined stand where they did."""
        if self.cursor is None:
            return
        settled = stream.settled(self.cursor)
        self.writes.unsaved |= not self.cursor.knows_shards_of(settled)
        self.cursor = settled

    def _acked(self, batch: Batch, stream: Stream) -> None:
        """Move the cursor past a batch: the cursor store has it."""
        if self.ledger.holds(batch):
            self.ledger.ack(batch.batch_id)
            self.cursor = stream.settled(batch.ack)
            self._place.passed(batch, stream)
        elif batch.generation == stream.generation and batch.behind is None and self.phase is Phase.READING:
            # It was taken back while it was being acknowledged, and its log is still there: go on behind it.
            self._place.go_behind(batch)
            self.cursor = stream.settled(batch.ack)
        elif stream.merging and self.kept:
            self.stand_at(batch.ack, stream)
        else:
            self.cursor = stream.settled(batch.ack)

    # ---- place in the stream ---------------------------------------------------------------------------

    @property
    def done(self) -> int:
        """Log index before which it needs nothing any more."""
        outstanding = self.ledger.outstanding
        return outstanding[0].log_start if outstanding else self._place.read

    def skip_behind(self, stream: Stream) -> None:
        """Read past headers that are behind the cursor, so that they hold no ring."""
        self._place.skip_behind(stream)

    def stand_at(self, cursor: GroupPosition, stream: Stream) -> None:
        """Make `cursor` the cursor, stand at the log's base and skip what stands at or before the cursor.

        Args:
            cursor: shards that it does not name stand where the log begins.
            stream: one that merges and stands between two transactions.
        """
        self._go(Step.PLACE)
        if self._gave_up_at is not None:
            cursor, self._gave_up_at = cursor.further(self._gave_up_at), None
        self._came_from = None
        settled = stream.settled(cursor)
        self.writes.unsaved |= self.cursor is not None and not self.cursor.knows_shards_of(settled)
        self.cursor = settled
        self._place.stand_at(settled, stream)

    def saved(self, call: int, stream: Stream) -> list[Instruction]:
        """Take note that the cursor store has what was written, and answer who waited for it."""
        saving = self.writes.end(call)
        self.writes.durable = True
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
        # Not at once: the store may be away for a while. `settle` writes it.
        self.writes.unsaved |= saving.unsaved
        return answers

    def save_again(self, stream: Stream) -> list[Instruction]:
        """Ask the cursor store again for what it has not confirmed: a write, or that it forgets."""
        if self.writes.forget_again():
            return [ForgetClient(OWN_CALL, self.client_id)]
        saving = self.writes.saving
        if saving is None or saving.under_way:
            return []
        return self.save(replace(saving, under_way=True), stream)

    def seek(self, start: GroupPosition, stream: Stream, *, may_rewind: bool) -> list[Instruction]:
        """Stand at `start`: everything before it is done with, whatever the cursor says.

        Other spans that wait are refused: they begin elsewhere.

        Raises:
            RolledBack: it is before the cursor, and that may not be; nothing was changed.
        """
        reading = stream.merging and self.phase is Phase.READING
        positioned = self._place.position if reading else self.cursor
        if self.kept and positioned is not None and same_places(positioned, start):
            return []
        sought = stream.settled(start)
        forward = self.cursor is not None and reaches_back(self.cursor.shards, sought.shards)
        if not forward and not may_rewind:
            raise RolledBack(
                f"Client {self.client_id} has consumed what is asked for.",
                hint="It was finished, or belongs to a run of the consumer that is over.",
            )
        refusals = self._refuse_spans()
        self.rollback()
        self._notice = None
        before, self.cursor = self.cursor, sought
        base = stream.base
        held = reaches_back(base.ack.shards, sought.shards)
        if reading and base.ack == base.end and held:
            self.stand_at(sought, stream)
        elif stream.merging or not forward or not self.kept:
            self._go(Step.SEEK)
            self._came_from = self._came_from or before
        return refusals

    def _refuse_spans(self) -> list[Instruction]:
        over = RolledBack(
            f"Client {self.client_id} reads from another position by now.",
            hint="A later call asked for rows that do not follow these.",
        )
        spans = [call for call, request in self.waiting.items() if isinstance(request, SpanRequested)]
        return [self._refuse(call, over) for call in spans]

    def _come_back(self) -> None:
        """Stand where it stood before a `seek` whose place was not reached."""
        if self._came_from is not None:
            self.cursor, self._came_from = self._came_from, None
            self._go(Step.SEEK)

    def rewind(self) -> list[Instruction]:
        """Forget outstanding batches: the log that they came from is gone. `stand_at` has to follow.

        The consumer hears of it before it gets anything again.
        """
        self._go(Step.REWIND)
        if self.ledger.rollback():
            self._notice = RolledBack(
                f"Batches of client {self.client_id} were rolled back: a shard or the group restarted.",
                hint="Forget what you did not finish and get again.",
            )
        if self._notice is None or not self.waiting:
            return []
        notice, self._notice = self._notice, None
        return self.refuse_waiting(notice)

    # ---- batches ---------------------------------------------------------------------------------------

    def check_get(self, seen_id: int | None) -> None:
        """Return if a get may wait for a batch.

        Args:
            seen_id: what was delivered after it is taken back by the get; None: nothing is.

        Raises:
            RolledBack: the notice that what was outstanding is lost; it is told once.
            DataError: a source has purged what follows the cursor.
            RetryableError: too many batches are outstanding.
        """
        if self._purged is not None:
            raise self._purged
        if self._notice is not None:
            notice, self._notice = self._notice, None
            raise notice
        self.ledger.check_room(seen_id)

    def get(self, request: GetRequested) -> list[Instruction]:
        """Let a get wait for the next batch; what it shows to be lost is given up."""
        given_up: list[Instruction] = []
        if request.seen_id is not None:
            given_up = self._give_up_gets()
            self._take_back_unseen(request.seen_id)
        self.waiting[request.call] = request
        return given_up

    def get_span(self, request: SpanRequested, stream: Stream) -> list[Instruction]:
        """Let a call wait for a span; raises as `seek`."""
        refusals = self.seek(request.span.start, stream, may_rewind=request.may_rewind)
        self.waiting[request.call] = request
        return refusals

    def timed_out(self, call: int, failure: CanalGroupError | None) -> Instruction:
        """Answer a get that waits no longer: with nothing, or with why there will be nothing."""
        if failure is not None:
            return self._refuse(call, failure)
        del self.waiting[call]
        return Reply(call, None)

    def serve(self, stream: Stream) -> list[Instruction]:
        """Answer the gets that wait, as far as there are batches."""
        instructions: list[Instruction] = []
        for call, request in list(self.waiting.items()):
            try:
                self.ledger.check_room()
                batch = self._next(request, stream)
            except CanalGroupError as error:
                instructions.append(self._refuse(call, error))
                continue
            if batch is None:
                break
            del self.waiting[call]
            instructions.append(Reply(call, batch))
        return instructions

    def _next(self, request: GetRequested | SpanRequested, stream: Stream) -> Batch | None:
        """Deliver what a waiting get asks for; None: it waits on."""
        found = self.find_span(request.span) if isinstance(request, SpanRequested) else None
        if found is not None:
            return found
        if self._undecided or self.phase is not Phase.READING:
            return None
        match request:
            case SpanRequested():
                batch = self._place.next_span(self.ledger.next_id, request.span, stream)
            case GetRequested():
                batch = self._place.next_batch(self.ledger.next_id, stream, request.rows_max)
            case _:
                assert_never(request)
        if batch is not None:
            self.ledger.deliver(batch)
        return batch

    @property
    def _undecided(self) -> bool:
        """Whether it is unknown if a lost batch will have been acknowledged."""
        batch = self.writes.acknowledging
        return batch is not None and not self.ledger.holds(batch)

    def find_span(self, span: Span) -> Batch | None:
        """Return the span if it is outstanding: who asks again is answered again."""
        for batch in self.ledger.outstanding:
            if same_places(batch.start, span.start) and (
                span.until is None or same_places(batch.end, span.until)
            ):
                return batch
        return None

    def _refuse(self, call: int, error: CanalGroupError) -> Refuse:
        del self.waiting[call]
        return Refuse(call, error)

    def refuse_waiting(self, error: CanalGroupError) -> list[Instruction]:
        """Refuse the gets that wait."""
        return [self._refuse(call, error) for call in list(self.waiting)]

    def _give_up_gets(self) -> list[Instruction]:
        """Answer the gets that told what their consumer had seen: it asks again, so it reads no answer."""
        given_up = [
            call
            for call, request in self.waiting.items()
            if isinstance(request, GetRequested) and request.seen_id is not None
        ]
        for call in given_up:
            del self.waiting[call]
        return [Reply(call, None) for call in given_up]

    def rollback(self, batch_id: int | None = None) -> int:
        """Take back a batch and every later one, or all; return how many. Raises as `Ledger.rollback`."""
        taken = self.ledger.rollback(batch_id)
        if taken:
            self._place.go_back(taken)
        return len(taken)

    def rolled_back(self, batch_id: int | None) -> int:
        """Take back what the consumer gives back, which knows now what is lost; as `rollback`."""
        count = self.rollback(batch_id)
        self._notice = None
        return count

    def _take_back_unseen(self, seen_id: int) -> None:
        """Take back what was delivered behind `seen_id`: the answers got lost on their way."""
        for batch in self.ledger.outstanding:
            if batch.batch_id > seen_id:
                self.rollback(batch.batch_id)
                return

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
            "outstanding": [
                {"batch_id": batch.batch_id, "rows": batch.rows} for batch in self.ledger.outstanding
            ],
        }

    def validate(self, stream: Stream) -> None:
        """Assert what holds between two events."""
        self.writes.validate()
        self.ledger.validate()
        assert (self.phase is Phase.PURGED) == (self._purged is not None), "who is purged knows why"
        assert self.phase is not Phase.READING or stream.merging, "nobody reads a log that is not there"
        if self.phase is Phase.READING:
            assert self.cursor is not None, "who reads has a cursor"
            assert stream.log.base <= self.done <= self._place.read <= stream.log.tip
        else:
            assert not self.ledger.outstanding, "what is outstanding stands in the log"
        if not self.kept:
            assert not self.waiting or self.phase is Phase.LEAVING, "who is not kept waits for nothing"
        assert not (self.waiting and not self.lease.holder), "who waits has the lease"
        outstanding = self.ledger.outstanding
        for batch, following in pairwise(outstanding):
            assert batch.log_stop <= following.log_start or following.behind is not None
        for batch in outstanding:
            assert batch.generation == stream.generation, "batches of an earlier log are taken back"


def _purged(client_id: str, error: DataError) -> DataError:
    """Return what a consumer is told whose cursor was purged."""
    return type(error)(
        f"Client {client_id} cannot go on at its cursor: {error.message}",
        hint=f"{error.hint} Then subscribe with resume='cursor' to try again, or with resume='now' to go on"
        " where the others are and miss what is between.".strip(),
        **error.details,
    )
