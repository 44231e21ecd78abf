"""One client id on a destination: its cursor, its consumer's lease, its place in the merged log.

Rules:

1. The cursor moves only to where a batch's `ack` vector says, after the cursor store has it.
2. What stands at or before the cursor is never delivered, whatever comes out of the log again.
3. While the batch that a write acknowledges was lost meanwhile, nothing is delivered: whether that batch is
   behind the cursor is not known yet.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from merge.batch_limits import BatchLimits
from merge.cursor_writes import CursorWrites, Saving
from merge.errors import (
    CanalGroupError,
    NotSubscribed,
    RolledBack,
    SubscriptionDropped,
)
from merge.events import GetRequested, Resume, SpanRequested
from merge.instructions import Instruction, Refuse, ReleaseConsumer, Reply, SaveCursor
from merge.lease import Lease
from merge.ledger import Batch, Ledger
from merge.place import Place
from merge.position import GroupPosition, oldest
from merge.span import Span, reaches_back, same_places
from merge.stream import Stream


class Subscriber:
    """State of one client id; see the module's rules, and those of its parts: lease, ledger, writes, place.

    Args:
        client_id: the client id.
        server_epoch: fencing epoch of the server, from which batch ids begin.
        limits: bounds of its batches.
    """

    def __init__(self, client_id: str, server_epoch: int, limits: BatchLimits) -> None:
        self.client_id = client_id
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
        self.notice: RolledBack | None = None
        #: whether it was away for too long: no ring is kept for it until it says where to go on
        self.dropped = False
        #: its cursor when it gave up what it had missed: it does not go back behind that either
        self._gave_up_at: GroupPosition | None = None
        #: whether it has a place in the merged log
        self.placed = False
        self._place = Place(limits)
        #: whether it was stood where the log does not reach back to: the shards have to be opened again
        self.astray = False
        #: the cursor before it was stood there, until that is known to be possible
        self._came_from: GroupPosition | None = None

    # ---- its consumer ----------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """Whether its consumer waits for an answer: it cannot be heard of meanwhile."""
        return bool(self.waiting) or self.writes.answers_somebody

    def release(self) -> list[Instruction]:
        """Let the consumer go: its outstanding batches are the next one's."""
        self.rollback()
        self._come_back()
        self.notice = None
        self.lease.holder = ""
        gone = NotSubscribed(f"Client {self.client_id} was released.", hint="Subscribe again.")
        return [*self.refuse_waiting(gone), ReleaseConsumer(self.client_id)]

    # ---- being away ------------------------------------------------------------------------------------

    def check_kept(self, resume: Resume | None, at_us: int) -> None:
        """Return if it goes on at its cursor, or it was said where else.

        Raises:
            SubscriptionDropped: it was away for too long; nothing is lost yet.
        """
        if self.dropped and resume is None:
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
        self.dropped = self.writes.unsaved = True
        self.placed = False

    def take_up(self, resume: Resume | None) -> None:
        """Go on after a drop; `stand_at` has to follow."""
        if self.dropped:
            self.dropped, self.writes.unsaved = False, True
            if resume is Resume.NOW:
                self.cursor, self._gave_up_at = None, self.cursor

    # ---- cursor ----------------------------------------------------------------------------------------

    def save(self, saving: Saving, stream: Stream) -> list[Instruction]:
        """Write subscription and cursor; with a batch, the cursor behind it."""
        self.writes.begin(saving)
        cursor = self.cursor if saving.batch is None else stream.settled(saving.batch.ack)
        return [SaveCursor(saving.call, self.client_id, self.filter, cursor, self.dropped)]

    def save_subscription(self, stream: Stream) -> list[Instruction]:
        """Write a subscription that is not answered, or whose shards changed, if no write is under way.

        Its cursor has to be known.
        """
        call = self.writes.due
        if call is None or self.cursor is None:
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
        self.writes.unsaved |= not _same_shards(self.cursor, settled)
        self.cursor = settled

    def acked(self, batch: Batch, stream: Stream) -> None:
        """Move the cursor past a batch: the cursor store has it."""
        if self.ledger.holds(batch):
            self.ledger.ack(batch.batch_id)
            self.cursor = stream.settled(batch.ack)
            self._place.passed(batch)
        elif batch.generation == stream.generation and batch.behind is None:
            # It was taken back while it was being acknowledged, and its log is still there: go on behind it.
            self._place.go_behind(batch)
            self.cursor = stream.settled(batch.ack)
        elif stream.merging:
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
        self.placed = True
        if self._gave_up_at is not None:
            cursor, self._gave_up_at = _further(cursor, self._gave_up_at), None
        self._came_from = None
        settled = stream.settled(cursor)
        self.writes.unsaved |= self.cursor is not None and not _same_shards(cursor, settled)
        self.cursor = settled
        self._place.stand_at(settled, stream)

    def seek(self, start: GroupPosition, stream: Stream, *, may_rewind: bool) -> None:
        """Stand at `start`: everything before it is done with, whatever the cursor says.

        Raises:
            RolledBack: it is before the cursor, and that may not be; nothing was changed.
        """
        standing = self._place.position if stream.merging else self.cursor
        if standing is not None and same_places(standing, start):
            return
        forward = self.cursor is not None and reaches_back(self.cursor.shards, start.shards)
        if not forward and not may_rewind:
            raise RolledBack(
                f"Client {self.client_id} stands behind what is asked for.",
                hint="It was finished, or belongs to a run of the consumer that is over.",
            )
        self.rollback()
        self.notice = None
        before, self.cursor = self.cursor, stream.settled(start)
        base = stream.base
        if stream.merging and base.ack == base.end and reaches_back(base.ack.shards, start.shards):
            self.stand_at(start, stream)
        elif stream.merging or not forward:
            self.astray = True
            self._came_from = self._came_from or before

    def _come_back(self) -> None:
        """Stand where it stood before a `seek` whose place was not reached."""
        if self._came_from is not None:
            self.cursor, self.astray, self._came_from = self._came_from, True, None

    def rewind(self) -> list[Instruction]:
        """Forget outstanding batches: the log that they came from is gone. `stand_at` has to follow.

        The consumer hears of it before it gets anything again.
        """
        self.placed = False
        self.astray = False
        if self.ledger.rollback():
            self.notice = RolledBack(
                f"Batches of client {self.client_id} were rolled back: a shard or the group restarted.",
                hint="Forget what you did not finish and get again.",
            )
        if self.notice is None or not self.waiting:
            return []
        notice, self.notice = self.notice, None
        return self.refuse_waiting(notice)

    # ---- batches ---------------------------------------------------------------------------------------

    def serve(self, stream: Stream) -> list[Instruction]:
        """Answer the gets that wait, as far as there are batches."""
        instructions: list[Instruction] = []
        for call, request in list(self.waiting.items()):
            try:
                self.ledger.check_room()
                batch = self._next(request, stream)
            except CanalGroupError as error:
                instructions.append(Refuse(call, error))
                del self.waiting[call]
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
        if self._undecided or self.astray:
            return None
        if isinstance(request, SpanRequested):
            batch = self._place.next_span(self.ledger.next_id, request.span, stream)
        else:
            batch = self._place.next_batch(self.ledger.next_id, stream, request.rows_max)
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

    def refuse_waiting(self, error: CanalGroupError) -> list[Instruction]:
        """Refuse the gets that wait."""
        calls = list(self.waiting)
        self.waiting.clear()
        return [Refuse(call, error) for call in calls]

    def give_up_gets(self) -> list[Instruction]:
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

    def take_back_unseen(self, seen_id: int) -> None:
        """Take back what was delivered behind `seen_id`: the answers got lost on their way."""
        for batch in self.ledger.outstanding:
            if batch.batch_id > seen_id:
                self.rollback(batch.batch_id)
                return

    def describe(self) -> dict[str, Any]:
        """Return its state as a JSON object."""
        return {
            "client_id": self.client_id,
            "filter": self.filter,
            "holder": self.lease.holder or None,
            "epoch": self.lease.epoch,
            "dropped": self.dropped,
            "cursor": self.cursor.to_json() if self.cursor is not None else None,
            "outstanding": [
                {"batch_id": batch.batch_id, "rows": batch.rows} for batch in self.ledger.outstanding
            ],
        }


def _further(cursor: GroupPosition, other: GroupPosition) -> GroupPosition:
    """Return `cursor`, with those positions of `other` that are further."""
    shards = {
        name: other.shards[name]
        if name in other.shards and oldest([position, other.shards[name]]) == position
        else position
        for name, position in cursor.shards.items()
    }
    passed_us = max(cursor.retired_key_us, other.retired_key_us)
    sequence = max(cursor.sequence, other.sequence)
    return replace(cursor, shards=shards, sequence=sequence, retired_key_us=passed_us)


def _same_shards(one: GroupPosition, other: GroupPosition) -> bool:
    return one.shards.keys() == other.shards.keys() and one.retired == other.retired
