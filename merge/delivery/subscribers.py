"""The subscribers of one stream, all together: what becomes of them when it moves, and when time passes.

Rules:

1. Rows stay in the rings until every subscriber that is kept has acknowledged them.
2. When shards join or leave, every cursor follows in a write of its own.
3. A consumer that waits for an answer is alive.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from merge.delivery.batch_limits import BatchLimits
from merge.delivery.phase import Phase
from merge.delivery.subscriber import Subscriber
from merge.errors import AccessDenied, DataError, UsageError
from merge.events import ConsumerState
from merge.instructions import Instruction
from merge.order.stream import Stream
from merge.values.offset_range import reaches_back
from merge.values.position import ANY_SERVER, GroupPosition, Position


class Subscribers:
    """The client ids of a destination; see the module's rules.

    Args:
        stream: what they consume.
        epoch: fencing epoch of the server.
        limits: bounds of each subscriber's batches.
        lease_us: how long a consumer may be silent before its client id is free again.
        drop_after_us: how long a client id may be without a consumer, while another one has one, before
            nothing is kept for it; None: for ever.
        apart_max_us: how far before the others, in commit time, one may have the shards opened again; None:
            any.
    """

    def __init__(
        self,
        stream: Stream,
        epoch: int,
        limits: BatchLimits,
        lease_us: int,
        drop_after_us: int | None = None,
        apart_max_us: int | None = None,
    ) -> None:
        self._stream = stream
        self._epoch = epoch
        self._limits = limits
        self._lease_us = lease_us
        self._drop_after_us = drop_after_us
        self._apart_max_us = apart_max_us
        self._by_id: dict[str, Subscriber] = {}
        #: greatest batch id that a forgotten subscriber was given
        self._given_id = 0

    # ---- who there is ----------------------------------------------------------------------------------

    def find(self, client_id: str) -> Subscriber | None:
        """Return the subscriber of a client id; None: it has none."""
        return self._by_id.get(client_id)

    def find_or_make(self, client_id: str) -> Subscriber:
        """Return the subscriber of a client id; where it has none, it has one from now."""
        if client_id not in self._by_id:
            self._by_id[client_id] = Subscriber(client_id, self._epoch, self._limits, self._given_id)
        return self._by_id[client_id]

    def forget(self, client_id: str) -> None:
        """Keep nothing more of a client id, but that its batch ids are not given again."""
        forgotten = self._by_id.pop(client_id)
        self._given_id = max(self._given_id, forgotten.delivery.ledger.next_id - 1)

    def restore(self, states: Sequence[ConsumerState], at_us: int) -> None:
        """Take over stored subscriptions. Their consumers may be alive: each has a lease from now."""
        for state in states:
            restored = Subscriber.restored(state, self._epoch, self._limits, at_us)
            self._by_id[state.client_id] = restored

    @property
    def _kept(self) -> list[Subscriber]:
        return [subscriber for subscriber in self._by_id.values() if subscriber.kept]

    # ---- where they stand ------------------------------------------------------------------------------

    @property
    def cursors(self) -> list[GroupPosition]:
        """The cursors that are known and for which something is kept."""
        return [subscriber.cursor for subscriber in self._kept if subscriber.cursor is not None]

    @property
    def all_placed(self) -> bool:
        """Whether every subscriber that is kept has its place in the stream."""
        return all(subscriber.phase is Phase.READING for subscriber in self._kept)

    @property
    def seeking(self) -> bool:
        """Whether one was positioned before the start of the log."""
        return any(subscriber.phase is Phase.SEEKING for subscriber in self._by_id.values())

    @property
    def reconciled(self) -> bool:
        """Whether every stored cursor has the shards of this moment."""
        stored = (each for each in self._by_id.values() if each.phase is not Phase.LEAVING)
        return not any(each.writes.lacks_shards for each in stored if each.writes.durable)

    def others_consume(self, client_id: str) -> bool:
        """Return whether another client would be rolled back beside this one."""
        return any(each.client_id != client_id and each.lease.holder for each in self._kept)

    def check_alone(self, client_id: str) -> None:
        """Return if nobody else is rolled back where the sources are read again for a client.

        Raises:
            AccessDenied: another one consumes. Who that is, is told to operators only.
        """
        if self.others_consume(client_id):
            raise AccessDenied(
                f"The sources would have to be read again for client {client_id}, and another client would "
                "be rolled back for it.",
                hint="Use a token whose entry in gateway.clients says `rewind: true`, or ask while no other "
                "client consumes.",
                client=client_id,
            )

    def check_apart(self, client_id: str, start: GroupPosition) -> None:
        """Return if a client may read from `start`, though the shards have to be opened again for that.

        The others get nothing new until the sources are read again up to where they are. How long that is, is
        told by the commit times; a position that has none is taken at its word.

        Raises:
            UsageError: it is too far before another client that has a consumer.
        """
        base = self._stream.base.ack.shards
        if self._apart_max_us is None or not self._stream.merging or reaches_back(base, start.shards):
            return
        for other in self._kept:
            if other.client_id == client_id or not other.lease.holder or other.cursor is None:
                continue
            for shard, position in start.shards.items():
                further = other.cursor.shards.get(shard, position)
                apart_us = further.commit_us - position.commit_us if position.commit_us else 0
                if apart_us > self._apart_max_us:
                    raise UsageError(
                        f"Client {client_id} asks for what shard {shard} committed {apart_us / 1e6:.0f} s"
                        " before what another client has read; the bound is "
                        f"{self._apart_max_us / 1e6:.0f} s.",
                        hint="Read it through an instance of its own for these shards, or raise "
                        "consumer.apart_max_s: every other client waits while the sources are read again.",
                        shard=shard,
                        apart_s=apart_us / 1e6,
                    )

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

    def reconcile(self) -> list[Instruction]:
        """Let every cursor follow shards that joined or left; also where that could not be written before."""
        instructions: list[Instruction] = []
        for subscriber in self._by_id.values():
            subscriber.reconcile(self._stream)
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
            subscriber.delivery.place.skip_behind(self._stream)
        return [*self._stream.free(min(subscriber.delivery.done for subscriber in self._kept))]

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
        for subscriber in self._by_id.values():
            if subscriber.phase in (Phase.DROPPED, Phase.LEAVING):
                continue
            away_us = at_us - subscriber.lease.seen_us
            at_rest = not subscriber.busy and subscriber.writes.saving is None
            if not subscriber.lease.holder and at_rest and away_us > self._drop_after_us:
                subscriber.drop()
                instructions += subscriber.save_subscription(self._stream)
        return [*instructions, *self.free()] if instructions else []

    def save_again(self) -> list[Instruction]:
        """Repeat what it is unknown of whether the cursor store did it."""
        return [
            instruction
            for subscriber in self._by_id.values()
            for instruction in subscriber.save_again(self._stream)
        ]

    # ---- purged sources --------------------------------------------------------------------------------

    def purge(
        self, shard: str, position: Position, error: DataError, *, waited: bool
    ) -> list[Instruction] | None:
        """Take note that a source has purged what follows `position`, where a shard was asked to open.

        One client cannot stop the others: those that need the position are set aside. Who sought it hears of
        that at once. Another one keeps its place until `waited`, and as long as nobody else is kept. Who
        began with this log, which brought nothing, begins where the next one does.

        Args:
            shard: its name.
            position: where it was asked to open.
            error: why it cannot.
            waited: whether the source had time to become another one.

        Returns:
            What has to be done; None: nothing yet. A rewind has to follow if nobody needs the position now.
        """
        found = self._needing(shard, position)
        need = [subscriber for subscriber in found if not subscriber.new]
        seek = [subscriber for subscriber in need if subscriber.seeks]
        if not seek and need and (not waited or len(need) == len(self._kept)):
            return None
        for newcomer in found:
            if newcomer.new:
                newcomer.begin_anew()
        return [refusal for subscriber in seek or need for refusal in subscriber.purge(error)]

    def _needing(self, shard: str, position: Position) -> list[Subscriber]:
        """Return for whom a shard was asked to open at `position`; of a shared one, who is furthest back."""
        need = [subscriber for subscriber in self._kept if subscriber.needs(shard, position, self._stream)]
        if need or position.server != ANY_SERVER:
            return need
        keys = {
            subscriber.client_id: subscriber.cursor.shards[shard].key_us
            for subscriber in self._kept
            if subscriber.cursor is not None and shard in subscriber.cursor.shards
        }
        return [self._by_id[min(keys, key=lambda client_id: keys[client_id])]] if keys else []

    # ---- for people, and for tests ---------------------------------------------------------------------

    def validate(self) -> None:
        """Assert what holds between two events."""
        for subscriber in self._by_id.values():
            subscriber.validate(self._stream)

    def describe(self) -> list[dict[str, Any]]:
        """Return each subscriber's state as a JSON object."""
        return [subscriber.describe() for subscriber in self._by_id.values()]
