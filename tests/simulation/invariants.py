"""What must hold whatever happens; the simulation tells it what everybody does and it knows the truth.

Safety:

1. Epochs grow. What is delivered or accepted is the newest epoch's; what is written is no older than what the
   cursor store has seen.
2. A cursor never moves backwards, and passes nothing that its consumer has not acknowledged.
3. An acknowledgement is accepted when the cursor is durable, in the order of delivery, and each whole
   transaction is accepted once.
4. Keys never decrease, nor do transactions of a shard change their order; a key is its commit time, raised to
   the key before, unless it is flagged late; nothing is late unless a clock stepped back or a shard was
   skipped.
5. A transaction is never interleaved with another, and begins with its beginning.
6. What stands at or before the cursor is not delivered again.
7. No more batches are outstanding, nor headers held, than the bounds say.

Liveness: a while after the last fault everybody has everything.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from actors.ports import Subscription
from merge.group import Group
from merge.header import Flag
from merge.ledger import Batch
from merge.position import GroupPosition
from simulation.loop import Loop
from simulation.source import Place, Source

#: as whole numbers: the enumeration's own operators are slow
BEGIN, END, LATE = int(Flag.BEGIN), int(Flag.END), int(Flag.LATE)


class ViolationError(AssertionError):
    """Something happened that must not."""


@dataclass(slots=True)
class Delivery:
    """A batch as it was delivered."""

    batch: Batch
    places: list[Place]
    #: key of its last header
    last_us: int
    #: whether its last header ends a transaction
    whole: bool


@dataclass(slots=True)
class Consumption:
    """What one client id was given and has acknowledged."""

    #: whether somebody was told that it is subscribed, and so from where on it gets everything
    begun: bool = False
    #: for each shard the index behind the durable cursor, and the cursor itself
    durable: list[int] = field(default_factory=list)
    cursor: GroupPosition | None = None
    #: for each shard the index behind what the active server knows to be durable
    known: list[int] = field(default_factory=list)
    #: keys never fall below this: greatest key that the known cursor has passed
    passed_us: int = 0
    #: by batch id
    delivered: dict[int, Delivery] = field(default_factory=dict)
    #: newest delivery that ended there: (server epoch, generation, index of the merged log) -> it
    ends: dict[tuple[int, int, int], Delivery] = field(default_factory=dict)
    #: headers of everything delivered
    seen: set[Place] = field(default_factory=set)
    #: last batch id accepted, and headers of what was accepted
    accepted_id: int = 0
    accepted: set[Place] = field(default_factory=set)
    #: headers in batches that a consumer has finished
    finished: set[Place] = field(default_factory=set)


class Invariants:
    """Sees everything and raises `ViolationError` as soon as something is wrong.

    Args:
        loop: its time, for the story.
        sources: the truth.
        outstanding_max: bound on batches of a client id.
        late: whether the policy may make transactions late.
        elections_fence: whether an election fences the cursor store, and not only the claim after it.
    """

    def __init__(
        self,
        loop: Loop,
        sources: list[Source],
        outstanding_max: int,
        *,
        late: bool,
        elections_fence: bool,
    ) -> None:
        self._loop = loop
        self._sources = sources
        self._outstanding_max = outstanding_max
        self._may_be_late = late
        self._elections_fence = elections_fence
        self._epoch = 0
        #: the newest epoch that the cursor store has seen
        self._fence = 0
        self._consumptions: dict[str, Consumption] = {}
        #: for each shard the keys of its headers, as far as they were needed
        self._keys: list[list[int]] = [[] for _ in sources]
        #: writes that came through
        self.writes = 0
        #: what happened how often
        self.counts = {"elections": 0, "batches": 0, "acks": 0, "again": 0, "late": 0}

    def _of(self, client_id: str) -> Consumption:
        if client_id not in self._consumptions:
            self._consumptions[client_id] = Consumption()
        return self._consumptions[client_id]

    def _require(self, holds: bool, what: str) -> None:
        if not holds:
            self._loop.note("invariants", "{}", what)
            raise ViolationError(what)

    # ---- servers ---------------------------------------------------------------------------------------

    def elected(self, epoch: int, server: str) -> None:
        """Note that a server was elected."""
        self._loop.note("zookeeper", "elects {} for epoch {}", server, epoch)
        self._require(epoch > self._epoch, "an epoch does not grow")
        self._epoch = epoch
        if self._elections_fence:
            self._fence = epoch
        self.counts["elections"] += 1

    def claimed(self, epoch: int) -> None:
        """Note that the cursor store has seen an epoch."""
        self._require(epoch >= self._fence, "an older epoch claims the cursors")
        self._fence = epoch

    def took_over(self, epoch: int, subscriptions: list[Subscription]) -> None:
        """Note what a server begins with."""
        if epoch != self._epoch:
            return
        for subscription in subscriptions:
            consumption = self._of(subscription.client_id)
            self._require(subscription.cursor == consumption.cursor, "a server begins at another cursor")
            self._know(consumption, subscription.cursor)

    def bounded(self, group: Group, ring_slots: int) -> None:
        """Check the bounds of a server."""
        stream = group._stream
        kept = stream.log.tip - stream.log.base
        pending = stream._timeline.pending if stream._timeline is not None else 0
        self._require(kept + pending <= ring_slots, "more headers are held than the rings hold")
        for subscriber in group._consumers._subscribers.values():
            count = len(subscriber.ledger.outstanding)
            self._require(count <= self._outstanding_max, "too many batches are outstanding")

    # ---- batches ---------------------------------------------------------------------------------------

    def delivered(self, client_id: str, batch: Batch) -> None:
        """Check a batch that leaves the server."""
        self._require(batch.server_epoch == self._epoch, "a server delivers that is not the active one")
        consumption = self._of(client_id)
        self._require(
            not consumption.delivered or batch.batch_id > max(consumption.delivered), "an id does not grow"
        )
        places = self.places(batch)
        self._loop.note("group", "delivers {} {} to {}", batch.batch_id & 0xFFFF, places, client_id)
        before = consumption.ends.get((batch.server_epoch, batch.generation, batch.log_start))
        self._check_order(consumption, before, batch, places)
        self._check_whole(before, batch, places)
        for shard, index in places:
            self._require(index >= consumption.known[shard], "what the cursor has passed is delivered again")
        flags = int(batch.headers["flags"][-1])
        delivery = Delivery(batch, places, int(batch.headers["key_us"][-1]), bool(flags & END))
        consumption.delivered[batch.batch_id] = delivery
        consumption.ends[batch.server_epoch, batch.generation, batch.log_stop] = delivery
        self.counts["batches"] += 1
        self.counts["again"] += places[0] in consumption.seen
        consumption.seen.update(places)

    def places(self, batch: Batch) -> list[Place]:
        """Return which headers of the sources a batch holds, in its order."""
        headers = batch.headers
        columns = [
            headers[name].tolist() for name in ("shard", "file", "begin_offset", "row_begin", "row_end")
        ]
        return [
            (shard, self._sources[shard].index_of(batch.names[file], begin, row_begin, row_end))
            for shard, file, begin, row_begin, row_end in zip(*columns, strict=True)
        ]

    def _check_order(
        self, consumption: Consumption, before: Delivery | None, batch: Batch, places: list[Place]
    ) -> None:
        lowest_us = before.last_us if before is not None else consumption.passed_us
        seen: dict[int, int] = {}
        keys, flags = batch.headers["key_us"].tolist(), batch.headers["flags"].tolist()
        for key_us, flag, (shard, index) in zip(keys, flags, places, strict=True):
            self._require(key_us >= lowest_us, "keys decrease")
            lowest_us = key_us
            self._require(seen.get(shard, -1) < index, "a shard's transactions change their order")
            seen[shard] = index
            if flag & LATE:
                self.counts["late"] += 1
                stepped_back = self._sources[shard].stepped_back
                self._require(self._may_be_late or stepped_back, "something is late for no reason")
            elif not self._may_be_late and not self._sources[shard].stepped_back:
                self._require(key_us == self._key_us(shard, index), "a key is not what it has to be")

    def _key_us(self, shard: int, index: int) -> int:
        """Return the key of a header that was never late."""
        keys, records = self._keys[shard], self._sources[shard].records
        while len(keys) <= index:
            keys.append(max(keys[-1] if keys else 0, records[len(keys)][7]))
        return keys[index]

    def _check_whole(self, before: Delivery | None, batch: Batch, places: list[Place]) -> None:
        """After a fragment that is not its transaction's last one, the next header is the next fragment."""
        flags = batch.headers["flags"].tolist()
        last = before.places[-1] if before is not None and not before.whole else None
        for flag, (shard, index) in zip(flags, places, strict=True):
            if last is None:
                self._require(bool(flag & BEGIN), "a transaction comes without its beginning")
            else:
                self._require((shard, index) == (last[0], last[1] + 1), "a transaction is split by another")
            last = None if flag & END else (shard, index)

    def received(self, client_id: str, upto: list[int], places: list[Place]) -> None:
        """Check that a consumer misses nothing between two batches.

        Args:
            client_id: whose cursor it uses.
            upto: for each shard the index behind what it has received; is moved on.
            places: what it receives.
        """
        consumption = self._of(client_id)
        for shard, index in places:
            known = max(upto[shard], consumption.durable[shard])
            before = (shard, index - 1)
            self._require(
                index <= known or before in consumption.finished, "a consumer receives what comes later"
            )
            upto[shard] = max(upto[shard], index + 1)

    def behind(self, client_id: str) -> list[int]:
        """Return for each shard the index behind what the active server knows to be durable."""
        return list(self._of(client_id).known)

    def finished(self, client_id: str, places: list[Place]) -> None:
        """Note that a consumer has done what it wanted with rows, and is about to acknowledge them."""
        self._of(client_id).finished.update(places)

    # ---- cursors ---------------------------------------------------------------------------------------

    def written(self, subscription: Subscription, epoch: int) -> None:
        """Check a write that the cursor store took."""
        self._loop.note("cursors", "hold {} of epoch {}", subscription.client_id, epoch)
        self._require(epoch >= self._fence, "an older epoch writes a cursor")
        consumption, cursor = self._of(subscription.client_id), subscription.cursor
        assert cursor is not None
        self.writes += 1
        behind = self._indexes(cursor)
        if consumption.cursor is not None:
            self._require(cursor.sequence >= consumption.cursor.sequence, "a cursor's sequence decreases")
        for shard, (old, new) in enumerate(
            zip(consumption.durable, behind, strict=bool(consumption.durable))
        ):
            self._require(old <= new, "a cursor moves backwards")
            for index in range(old, new) if consumption.begun else ():
                self._require((shard, index) in consumption.finished, "a cursor passes what nobody finished")
        consumption.durable, consumption.cursor = behind, cursor

    def subscribed(self, client_id: str, cursor: GroupPosition) -> None:
        """Note that a consumer is told where it begins."""
        consumption = self._of(client_id)
        self._require(self._indexes(cursor) == consumption.durable, "a consumer begins at another cursor")
        if not consumption.begun:
            self._know(consumption, cursor)
        consumption.begun = True

    def accepted(self, epoch: int, client_id: str, batch_id: int) -> None:
        """Check an acknowledgement that is answered."""
        self._require(epoch == self._epoch, "a server accepts that is not the active one")
        consumption = self._of(client_id)
        delivery = consumption.delivered[batch_id]
        self._loop.note("group", "accepts {} of {}", batch_id & 0xFFFF, client_id)
        self._require(batch_id > consumption.accepted_id, "acknowledgements are accepted out of order")
        consumption.accepted_id = batch_id
        behind = self._indexes(delivery.batch.ack)
        for durable, accepted in zip(consumption.durable, behind, strict=True):
            self._require(durable >= accepted, "an acknowledgement is accepted before it is durable")
        flags = delivery.batch.headers["flags"].tolist()
        for flag, place in zip(flags, delivery.places, strict=True):
            whole = flag & BEGIN and flag & END
            self._require(not whole or place not in consumption.accepted, "a transaction is accepted twice")
            consumption.accepted.add(place)
        self._know(consumption, delivery.batch.ack)
        self.counts["acks"] += 1

    def _know(self, consumption: Consumption, cursor: GroupPosition | None) -> None:
        if cursor is not None:
            consumption.known = self._indexes(cursor)
            consumption.passed_us = max(position.key_us for position in cursor.shards.values())

    def _indexes(self, cursor: GroupPosition) -> list[int]:
        return [
            source.index_after(cursor.shards[f"s{index}"]) if f"s{index}" in cursor.shards else 0
            for index, source in enumerate(self._sources)
        ]

    # ---- in the end ------------------------------------------------------------------------------------

    def missing(self, client_ids: list[str]) -> int:
        """Return how many headers with rows are not behind the durable cursor of one of the client ids."""
        count = 0
        for client_id in client_ids:
            durable = self._of(client_id).durable or [0] * len(self._sources)
            for source, behind in zip(self._sources, durable, strict=True):
                count += sum(1 for record in source.records[behind:] if record[3])
        return count
