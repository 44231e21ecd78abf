"""The subscribers of one stream, all together: what becomes of them when it moves, and when time passes.

Rules:

1. Rows stay in the rings until every subscriber that is kept has acknowledged them.
2. When shards join or leave, every cursor follows in a write of its own.
3. A consumer that waits for an answer is alive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from merge.batch_limits import BatchLimits
from merge.events import ConsumerState
from merge.instructions import Instruction
from merge.position import GroupPosition
from merge.stream import Stream
from merge.subscriber import Subscriber


class Subscribers:
    """The client ids of a destination; see the module's rules.

    Args:
        stream: what they consume.
        epoch: fencing epoch of the server.
        limits: bounds of each subscriber's batches.
        lease_us: how long a consumer may be silent before its client id is free again.
        drop_after_us: how long a client id may be without a consumer, while another one has one, before
            nothing is kept for it; None: for ever.
    """

    def __init__(
        self,
        stream: Stream,
        epoch: int,
        limits: BatchLimits,
        lease_us: int,
        drop_after_us: int | None = None,
    ) -> None:
        self._stream = stream
        self._epoch = epoch
        self._limits = limits
        self._lease_us = lease_us
        self._drop_after_us = drop_after_us
        self._by_id: dict[str, Subscriber] = {}

    # ---- who there is ----------------------------------------------------------------------------------

    def find(self, client_id: str) -> Subscriber | None:
        """Return the subscriber of a client id; None: it has none."""
        return self._by_id.get(client_id)

    def find_or_make(self, client_id: str) -> Subscriber:
        """Return the subscriber of a client id; where it has none, it has one from now."""
        if client_id not in self._by_id:
            self._by_id[client_id] = Subscriber(client_id, self._epoch, self._limits)
        return self._by_id[client_id]

    def forget(self, client_id: str) -> None:
        """Keep nothing more of a client id."""
        del self._by_id[client_id]

    def restore(self, states: Sequence[ConsumerState], at_us: int) -> None:
        """Take over stored subscriptions. Their consumers may be alive: each has a lease from now."""
        for state in states:
            subscriber = self.find_or_make(state.client_id)
            subscriber.filter, subscriber.cursor, subscriber.dropped = (
                state.filter,
                state.cursor,
                state.dropped,
            )
            subscriber.lease.give(state.holder, state.epoch, at_us)
            subscriber.writes.durable = True

    @property
    def all(self) -> list[Subscriber]:
        """Every subscriber, also those that were dropped."""
        return list(self._by_id.values())

    @property
    def _kept(self) -> list[Subscriber]:
        return [subscriber for subscriber in self._by_id.values() if not subscriber.dropped]

    # ---- where they stand ------------------------------------------------------------------------------

    @property
    def cursors(self) -> list[GroupPosition]:
        """The cursors that are known and for which something is kept."""
        return [subscriber.cursor for subscriber in self._kept if subscriber.cursor is not None]

    @property
    def all_placed(self) -> bool:
        """Whether every subscriber has its place in the stream, but for those that were dropped."""
        return all(subscriber.placed for subscriber in self._kept)

    @property
    def astray(self) -> bool:
        """Whether one was stood where the log does not reach back to."""
        return any(subscriber.astray for subscriber in self._by_id.values())

    @property
    def settled(self) -> bool:
        """Whether every stored cursor has the shards of this moment."""
        return not any(each.writes.lacks_shards for each in self._by_id.values() if each.writes.durable)

    def places_of(self, shard: str) -> dict[str, str]:
        """Return where each cursor stands in a shard, by client id."""
        return {
            client_id: str(subscriber.cursor.shards[shard])
            for client_id, subscriber in self._by_id.items()
            if subscriber.cursor is not None and shard in subscriber.cursor.shards
        }

    # ---- the stream moves ------------------------------------------------------------------------------

    def rewind(self) -> list[Instruction]:
        """Forget what is outstanding. A consumer hears of it before it gets anything again."""
        return [refusal for subscriber in self._by_id.values() for refusal in subscriber.rewind()]

    def place(self) -> list[Instruction]:
        """Stand every subscriber at its cursor: merging has begun."""
        instructions: list[Instruction] = []
        for subscriber in self._kept:
            cursor = subscriber.cursor or self._stream.base.ack
            subscriber.stand_at(cursor, self._stream)
            instructions += subscriber.save_subscription(self._stream)
        return instructions

    def settle(self) -> list[Instruction]:
        """Let every cursor follow shards that joined or left; also where that could not be written before."""
        instructions: list[Instruction] = []
        for subscriber in self._by_id.values():
            subscriber.settle(self._stream)
            instructions += subscriber.save_subscription(self._stream)
        return instructions

    def serve(self) -> list[Instruction]:
        """Answer the gets that wait, as far as there are batches."""
        if not self._stream.merging:
            return []
        served = [answer for subscriber in self._kept for answer in subscriber.serve(self._stream)]
        return served + self.free()

    def free(self) -> list[Instruction]:
        """Free what every subscriber has behind it. Without any, everything is kept for the first one."""
        if not self._stream.merging or not self._kept or not self.all_placed:
            return []
        for subscriber in self._kept:
            subscriber.skip_behind(self._stream)
        return [*self._stream.free(min(subscriber.done for subscriber in self._kept))]

    # ---- time passes -----------------------------------------------------------------------------------

    def release_silent(self, at_us: int, *, reachable: bool) -> list[Instruction]:
        """Let consumers go whose lease has run out; none does while nobody can reach us."""
        instructions: list[Instruction] = []
        for subscriber in self._by_id.values():
            lease = subscriber.lease
            if subscriber.busy or (lease.holder and not reachable):
                lease.seen_us = at_us
            elif lease.holder and at_us - lease.seen_us > self._lease_us:
                instructions += subscriber.release()
        return instructions

    def drop_away(self, at_us: int) -> list[Instruction]:
        """Keep nothing more for client ids that were without a consumer for too long and hold up others."""
        if self._drop_after_us is None or not any(subscriber.lease.holder for subscriber in self._kept):
            return []
        instructions: list[Instruction] = []
        for subscriber in self._kept:
            away_us = at_us - subscriber.lease.seen_us
            at_rest = not subscriber.busy and subscriber.writes.saving is None
            if not subscriber.lease.holder and at_rest and away_us > self._drop_after_us:
                subscriber.drop()
                instructions += subscriber.save_subscription(self._stream)
        return [*instructions, *self.free()] if instructions else []

    def save_again(self) -> list[Instruction]:
        """Repeat the writes of which it is unknown whether the cursor store took them."""
        instructions: list[Instruction] = []
        for subscriber in self._by_id.values():
            saving = subscriber.writes.saving
            if saving is not None and not saving.under_way:
                instructions += subscriber.save(replace(saving, under_way=True), self._stream)
        return instructions

    def describe(self) -> list[dict[str, Any]]:
        """Return each subscriber's state as a JSON object."""
        return [subscriber.describe() for subscriber in self._by_id.values()]
