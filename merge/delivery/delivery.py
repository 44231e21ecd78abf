"""Delivery: the waiting gets of one subscriber, and the batches that it was given.

Rules:

1. Gets are answered in the order in which they came, each with the next batch.
2. If batches were lost, the next get is refused with `RolledBack`, once. That refusal is the notice. It is
   the only refusal that changes the state.
3. An offset range is delivered from its start, or refused.
"""

from __future__ import annotations

from itertools import pairwise
from typing import assert_never

from canal_group.merge.calls.batch import Batch
from canal_group.merge.calls.consumers import Get, GetRange
from canal_group.merge.delivery.batch_limits import BatchLimits
from canal_group.merge.delivery.ledger import Ledger
from canal_group.merge.delivery.read_position import ReadPosition
from canal_group.merge.errors import CanalGroupError, RolledBack
from canal_group.merge.instructions import Instruction, Refuse, Reply
from canal_group.merge.order.stream import Stream
from canal_group.merge.values.offset_range import OffsetRange, same_positions
from canal_group.merge.values.position import GroupPosition


class Delivery:
    """Holds the calls of one subscriber that wait, and its outstanding batches; see the module's rules.

    Args:
        client_id: the client id.
        server_epoch: fencing epoch of the server; batch ids start from it.
        limits: bounds of its batches.
        after_id: batch ids up to this one were given to an earlier subscriber of the client id.
    """

    def __init__(self, client_id: str, server_epoch: int, limits: BatchLimits, after_id: int) -> None:
        self.ledger = Ledger(server_epoch, limits.outstanding_max, after_id)
        self.read_position = ReadPosition(limits)
        #: gets that wait for data, by number
        self.waiting: dict[int, Get | GetRange] = {}
        self._client_id = client_id
        #: error for the consumer's next get: its outstanding batches were lost
        self._notice: RolledBack | None = None

    @property
    def done(self) -> int:
        """Log index before which the subscriber needs no headers."""
        outstanding = self.ledger.outstanding
        return outstanding[0].log_start if outstanding else self.read_position.read

    # ---- requests --------------------------------------------------------------------------------------

    def check_get(self, seen_id: int | None) -> None:
        """Return if a get may wait for a batch.

        Args:
            seen_id: the get rolls back batches that were delivered after this one; None: it rolls back none.

        Raises:
            RolledBack: the notice.
            RetryableError: too many batches are outstanding.
        """
        if self._notice is not None:
            raise self._take_notice()
        self.ledger.check_room(seen_id)

    def get(self, number: int, call: Get) -> list[Instruction]:
        """Let a get wait for the next batch; roll back the batches that its `seen_id` shows to be lost."""
        given_up: list[Instruction] = []
        if call.seen_id is not None:
            given_up = self._give_up_gets()
            self._take_back_unseen(call.seen_id)
        self.waiting[number] = call
        return given_up

    def _give_up_gets(self) -> list[Instruction]:
        """Answer the waiting gets that have a `seen_id`: their consumer asks again and reads no answer."""
        given_up = [
            number
            for number, call in self.waiting.items()
            if isinstance(call, Get) and call.seen_id is not None
        ]
        return [self._reply(call, None) for call in given_up]

    def _take_back_unseen(self, seen_id: int) -> None:
        """Roll back what was delivered after `seen_id`: the answers got lost in transit."""
        for batch in self.ledger.outstanding:
            if batch.batch_id > seen_id:
                self.rollback(batch.batch_id)
                return

    def find_range(self, offset_range: OffsetRange) -> Batch | None:
        """Return the batch of an offset range if it is outstanding: a repeated request gets it again."""
        for batch in self.ledger.outstanding:
            if same_positions(batch.start, offset_range.noted_start) and (
                offset_range.until is None or same_positions(batch.end, offset_range.until)
            ):
                return batch
        return None

    # ---- answers ---------------------------------------------------------------------------------------

    def serve(self, stream: Stream, *, readable: bool) -> list[Instruction]:
        """Answer the waiting gets for which there are batches.

        Args:
            stream: one that merges.
            readable: whether new batches may be delivered; outstanding offset ranges are in any case.
        """
        instructions: list[Instruction] = []
        for number, call in list(self.waiting.items()):
            try:
                self.ledger.check_room()
                batch = self._next(call, stream, readable=readable)
            except CanalGroupError as error:
                instructions.append(self._refuse(number, error))
                continue
            if batch is None:
                break
            instructions.append(self._reply(number, batch))
        return instructions

    def _next(self, call: Get | GetRange, stream: Stream, *, readable: bool) -> Batch | None:
        """Deliver what a waiting get asks for; return None if it has to keep waiting."""
        found = self.find_range(call.offset_range) if isinstance(call, GetRange) else None
        if found is not None or not readable:
            return found
        match call:
            case GetRange():
                batch = self.read_position.next_range(self.ledger.next_id, call.offset_range, stream)
            case Get():
                batch = self.read_position.next_batch(self.ledger.next_id, stream, call.rows_max)
            case _:
                assert_never(call)
        if batch is not None:
            self.ledger.deliver(batch)
        return batch

    def timed_out(self, number: int, failure: CanalGroupError | None) -> Instruction:
        """Answer a get that timed out: with None, or with the failure because of which nothing will come."""
        return self._reply(number, None) if failure is None else self._refuse(number, failure)

    def refuse_waiting(self, error: CanalGroupError) -> list[Instruction]:
        """Refuse the gets that wait."""
        return [self._refuse(number, error) for number in list(self.waiting)]

    def refuse_ranges(self) -> list[Instruction]:
        """Refuse the offset ranges that wait: the consumer asked for another one, which begins elsewhere."""
        over = RolledBack(
            f"Client {self._client_id} has moved to another position.",
            hint="A later call asked for an offset range that begins elsewhere, or its snapshot was steered."
            " Drop this one.",
        )
        offset_ranges = [number for number, call in self.waiting.items() if isinstance(call, GetRange)]
        return [self._refuse(number, over) for number in offset_ranges]

    def _reply(self, number: int, value: Batch | None) -> Reply:
        del self.waiting[number]
        return Reply(number, value)

    def _refuse(self, number: int, error: CanalGroupError) -> Refuse:
        del self.waiting[number]
        return Refuse(number, error)

    # ---- rolling back ----------------------------------------------------------------------------------

    def rollback(self, batch_id: int | None = None) -> int:
        """Roll back a batch and every later one, or all; return how many. Raises as `Ledger.rollback`."""
        taken = self.ledger.rollback(batch_id)
        if taken:
            self.read_position.go_back(taken)
        return len(taken)

    def give_back(self, batch_id: int | None = None) -> int:
        """Roll back as `rollback`, for a consumer that knows it; the notice is no longer needed."""
        count = self.rollback(batch_id)
        self._notice = None
        return count

    def lose(self) -> list[Instruction]:
        """Forget what is outstanding: its log is gone. The consumer is told before it gets anything."""
        if self.ledger.rollback():
            self._notice = RolledBack(
                f"Batches of client {self._client_id} were rolled back: a shard or the group restarted.",
                hint="Discard the rows that you have not acknowledged, then get again.",
            )
        if self._notice is None or not self.waiting:
            return []
        return self.refuse_waiting(self._take_notice())

    def _take_notice(self) -> RolledBack:
        notice, self._notice = self._notice, None
        assert notice is not None, "there is a notice to deliver"
        return notice

    def acked(self, batch: Batch, stream: Stream) -> bool:
        """Remove a batch that is acknowledged; return whether it was outstanding."""
        held = self.ledger.holds(batch)
        if held:
            self.ledger.ack(batch.batch_id)
            self.read_position.passed(batch, stream)
        return held

    # ---- for tests ---------------------------------------------------------------------

    def validate(self, stream: Stream, cursor: GroupPosition | None, *, reading: bool) -> None:
        """Assert what holds between two events."""
        self.ledger.validate()
        outstanding = self.ledger.outstanding
        if not reading:
            assert not outstanding, "outstanding batches are in the log"
            return
        assert cursor is not None, "a subscriber that reads has a cursor"
        assert stream.log.base <= self.done <= self.read_position.read <= stream.log.tip
        assert all(batch.generation == stream.generation for batch in outstanding), "an earlier log is gone"
        assert all(
            batch.log_stop <= following.log_start or following.consumed is not None
            for batch, following in pairwise(outstanding)
        ), "batches follow each other in the log"
