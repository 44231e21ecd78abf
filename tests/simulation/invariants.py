"""What must hold whatever happens; the simulation tells it what everybody does and it knows the truth.

Safety:

1. Epochs grow. What is delivered or accepted is the newest epoch's; what is written is no older than what the
   cursor store has seen.
2. A cursor never moves backwards, and passes nothing that its consumer has not acknowledged.
3. An acknowledgement is accepted when the cursor is durable, in the order of delivery, and each whole
   transaction is accepted once.
4. Transactions of a shard never change their order. What is delivered after another shard's was not committed
   before it, by the world's clock, but for what the clocks of the two sources explain: their skews, the steps
   that they made, and how early they stamp; see `Source.key_min_us` and `key_max_us`. Nor does anything come
   after what a cursor has passed and was committed later by more than that. Excused is a shard that was
   skipped, removed, or joined the others; nothing else is flagged late, but after a step back. Nothing of a
   shard that is held becomes late. The product's keys are not looked at.
5. A transaction is never interleaved with another, and begins with its beginning.
6. What stands at or before the cursor is not delivered again.
7. No more batches are outstanding, nor headers held, than the bounds say.
8. A shard that is removed leaves a cursor behind everything that it committed before, as far as its clock and
   ours agree on that, unless it was dropped at once, or the cursor is of a client id that was dropped. What
   it commits later is not delivered, likewise, and nothing any more once a cursor says that it left.
9. A client id that was dropped for being away goes on at its cursor. If it says so, it misses what the others
   have behind them, and nothing more.

Liveness: a while after the last fault everybody has everything, but for what a shard that is dead and skipped
holds; and that too when it is back.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from actors.ports import Subscription
from merge.events import Resume
from merge.group import Group
from merge.header import Flag
from merge.ledger import Batch
from merge.member import Policy
from merge.position import GroupPosition
from simulation.loop import Loop, S
from simulation.source import Place, Source

#: as whole numbers: the enumeration's own operators are slow
BEGIN, END, LATE = int(Flag.BEGIN), int(Flag.END), int(Flag.LATE)
#: after so long a shard that is held has caught up with what went out before: clocks differ by less than a
#: second, and some stamp whole ones
CAUGHT_UP_US = 2 * S


class ViolationError(AssertionError):
    """Something happened that must not."""


@dataclass(slots=True)
class Delivery:
    """A batch as it was delivered."""

    batch: Batch
    places: list[Place]
    #: the least key that any header up to its last may have
    least_us: int
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
    #: the same of what the known cursor has passed
    passed_us: int = 0
    #: where it first began
    first: list[int] = field(default_factory=list)
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
    #: whether the cursor store says that it was dropped, or a consumer ever heard so
    dropped: bool = False
    was_dropped: bool = False
    #: whether its consumer keeps its place itself, and may go back
    keeps_place: bool = False
    #: whether its consumer gives up the subscription
    unsubscribes: bool = False
    #: whether its consumer gives up what it missed
    resumes_now: bool = False


@dataclass(frozen=True, slots=True)
class Removal:
    """A shard's removal, as a server took it."""

    epoch: int
    #: the world's time of the request, microseconds
    at_us: int
    #: headers that its source had then
    there: int
    #: whether what is not acknowledged is dropped
    now: bool


#: up to how long after its removal a shard may be drained: its clock is read by polls, which wait a second
LEAVES_WITHIN_US = 3 * S


class Invariants:
    """Sees everything and raises `ViolationError` as soon as something is wrong.

    Args:
        loop: its time, for the story.
        sources: the truth.
        outstanding_max: bound on batches of a client id.
        late: whether the settings' policy may make transactions late.
        newcomer: the shard that joins the others; None: none does.
        elections_fence: whether an election fences the cursor store, and not only the claim after it.
        at_once: whether an acknowledgement is durable when it is answered, and not a while later.
    """

    def __init__(
        self,
        loop: Loop,
        sources: list[Source],
        outstanding_max: int,
        *,
        late: bool,
        newcomer: int | None,
        elections_fence: bool,
        at_once: bool = True,
    ) -> None:
        self._loop = loop
        self._sources = sources
        self._outstanding_max = outstanding_max
        #: shards of which transactions may be late
        self._may_be_late = set(range(len(sources))) if late else {newcomer} - {None}
        self._newcomer = newcomer
        #: since when a shard is held, by (epoch, shard)
        self._held: dict[tuple[int, int], int] = {}
        #: removals by (epoch, shard), and those that a cursor says have happened
        self._removals: dict[tuple[int, int], Removal] = {}
        self._left: dict[int, Removal] = {}
        self._elections_fence = elections_fence
        self._at_once = at_once
        #: client ids whose cursor is before what a source has forgotten
        self._stranded: set[str] = set()
        self._epoch = 0
        #: the newest epoch that the cursor store has seen
        self._fence = 0
        self._consumptions: dict[str, Consumption] = {}
        #: writes that came through
        self.writes = 0
        #: what happened how often
        happened = (
            "elections",
            "batches",
            "acks",
            "again",
            "late",
            "removed",
            "policies",
            "dropped",
            "forgotten",
        )
        self.counts = dict.fromkeys((*happened, "spans", "spans again", "crowded"), 0)

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
            # What was acknowledged and not written comes again.
            consumption.known, consumption.passed_us = [], 0
            self._know(consumption, subscription.cursor)

    def bounded(self, group: Group, ring_slots: int) -> None:
        """Check the bounds of a server."""
        stream = group._stream
        kept = stream.log.tip - stream.log.base
        pending = stream._timeline.pending if stream._timeline is not None else 0
        self._require(kept + pending <= ring_slots, "more headers are held than the rings hold")
        for client in group.describe(0)["clients"]:
            count = len(client["outstanding"])
            self._require(count <= self._outstanding_max, "too many batches are outstanding")

    # ---- operators -------------------------------------------------------------------------------------

    def policy_given(self, epoch: int, shard: int, policy: Policy) -> None:
        """Note that a server says what an operator wanted of a shard."""
        self._loop.note("group", "is to {} s{}", policy, shard)
        self.counts["policies"] += 1
        self._held.pop((epoch, shard), None)
        if policy is Policy.HOLD:
            self._held[epoch, shard] = self._loop.now_us
        elif policy is Policy.SKIP:
            self._may_be_late.add(shard)

    def forgotten(self, client_id: str) -> None:
        """Note that a subscription is gone with its cursor."""
        self._loop.note("cursors", "forget {}", client_id)
        consumption = self._of(client_id)
        # One that was refused may have been written all the same.
        given_up = consumption.unsubscribes or not consumption.begun
        self._require(given_up, "a subscription is forgotten that nobody gave up")
        self._consumptions.pop(client_id, None)
        self.counts["forgotten"] += 1

    def unsubscribes(self, client_id: str) -> None:
        """Note that a consumer is about to give its subscription up."""
        self._of(client_id).unsubscribes = True

    def unsubscribed(self, client_id: str) -> None:
        """Check that a subscription is gone whose consumer was told so."""
        held = self._of(client_id).cursor is not None
        self._require(not held, "a subscription is held that was given up")

    def purged(self, source: Source) -> None:
        """Note that a source has forgotten what some have not read."""
        for client_id, consumption in self._consumptions.items():
            durable = consumption.durable
            if not durable or durable[source.index] < source.purged:
                self._stranded.add(client_id)

    def stranded(self, client_id: str, why: str, start: GroupPosition | None = None) -> None:
        """Check that a client is told of a purge that concerns it, or the place that it asked for."""
        asked = start is not None and self._is_purged(self._indexes(start, self._of(client_id)))
        self._require(asked or client_id in self._stranded, f"another client's purge: {why}")

    def _is_purged(self, behind: list[int]) -> bool:
        """Return whether a source has forgotten what follows a cursor."""
        return any(index < source.purged for source, index in zip(self._sources, behind, strict=True))

    def left(self, why: str, places: list[Place]) -> None:
        """Check that a reader is refused what it has read before only because a shard of it left."""
        removed = {shard for _, shard in self._removals}
        self._require(any(shard in removed for shard, _ in places), f"a span is refused: {why}")

    def crowded(self, why: str, shard: int) -> None:
        """Check that a reader is refused what it has read before only because of one that was not waited for.

        Read again, that is waited for, and may have more between than its ring holds.
        """
        self._require(shard in self._may_be_late, f"a span is refused: {why}")
        self.counts["crowded"] += 1

    def removed(self, epoch: int, shard: int, *, now: bool) -> None:
        """Note that a server lets a shard leave."""
        before = self._removals.get((epoch, shard))
        if before is None or (now and not before.now):
            self._loop.note("group", "removes s{}{}", shard, " at once" if now else "")
            there = len(self._sources[shard].records)
            self._removals[epoch, shard] = Removal(epoch, self._loop.now_us, there, now)
            # If another server takes over first, it is a member again that the others went on without.
            self._may_be_late.add(shard)

    def _owed(self, shard: int, removal: Removal) -> int:
        """Return the index behind what a shard that was removed still has to deliver."""
        source = self._sources[shard]
        for index in range(removal.there):
            if source.records[index][2] & BEGIN and source.committed_us[index] >= removal.at_us:
                return index
        return removal.there

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
        least_us = self._check_order(consumption, before, batch, places)
        self._check_whole(before, batch, places)
        for shard, index in places:
            known = consumption.known[shard] if consumption.known else 0
            self._require(index >= known, "what the cursor has passed is delivered again")
            self._check_stays(batch.server_epoch, shard, index)
        flags = int(batch.headers["flags"][-1])
        delivery = Delivery(batch, places, least_us, bool(flags & END))
        consumption.delivered[batch.batch_id] = delivery
        consumption.ends[batch.server_epoch, batch.generation, batch.log_stop] = delivery
        self.counts["batches"] += 1
        self.counts["again"] += places[0] in consumption.seen
        consumption.seen.update(places)

    def _check_stays(self, epoch: int, shard: int, index: int) -> None:
        """Check that a header is none of a shard that left, nor of one that is about to and younger."""
        self._require(shard not in self._left, "a shard is delivered that left")
        removal = self._removals.get((epoch, shard))
        if removal is not None and index >= removal.there:
            source = self._sources[shard]
            behind_us = source.stamp_error_us - min(0, source.skew_min_us) + LEAVES_WITHIN_US
            young = source.committed_us[index] - behind_us >= removal.at_us
            self._require(not young, "what a shard commits after its removal is delivered")

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
    ) -> int:
        """Check a batch's order; return the least key that any header up to its last may have."""
        least_us = before.least_us if before is not None else consumption.passed_us
        seen: dict[int, int] = {}
        stamps, flags = batch.headers["commit_us"].tolist(), batch.headers["flags"].tolist()
        for stamp_us, flag, (shard, index) in zip(stamps, flags, places, strict=True):
            source = self._sources[shard]
            self._require(seen.get(shard, -1) < index, "a shard's transactions change their order")
            seen[shard] = index
            self._require(stamp_us == source.records[index][7], "a commit time is not the source's")
            if source.key_max_us[index] < least_us and shard not in self._may_be_late:
                early_us = least_us - source.key_max_us[index]
                self._require(False, f"order is wrong by {early_us} us more than clocks explain")
            least_us = max(least_us, source.key_min_us[index])
            if flag & LATE:
                self.counts["late"] += 1
                excused = shard in self._may_be_late or source.stepped_back
                self._require(excused, "something is late for no reason")
                held_us = self._held.get((batch.server_epoch, shard))
                if held_us is not None and shard != self._newcomer and not source.stepped_back:
                    self._check_not_passed(shard, index, held_us)
        return least_us

    def _check_not_passed(self, shard: int, index: int, held_us: int) -> None:
        """Check that a late header was committed before, or soon after, its shard was held."""
        source = self._sources[shard]
        self._require(source.committed_us[index] < held_us + CAUGHT_UP_US, "a shard that is held is passed")

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
            durable = consumption.durable[shard] if consumption.durable else 0
            known = max(upto[shard], durable)
            before = (shard, index - 1)
            self._require(
                index <= known or before in consumption.finished, "a consumer receives what comes later"
            )
            upto[shard] = max(upto[shard], index + 1)

    def read_span(
        self, client_id: str, start: GroupPosition, places: list[Place], end: GroupPosition
    ) -> None:
        """Check that a span is what stands between its ends, in each shard's order."""
        self._loop.note(client_id, "reads {}", places)
        consumption = self._of(client_id)
        consumption.keeps_place = True
        begin, behind = self._indexes(start, consumption), self._indexes(end, consumption)
        for source, first, last in zip(self._sources, begin, behind, strict=True):
            found = [index for shard, index in places if shard == source.index]
            found = [index for index in found if source.records[index][3]]
            there = [index for index in range(first, last) if source.records[index][3]]
            self._require(found == there, "a span is not what stands between its ends")
            consumption.finished.update((source.index, index) for index in range(first, last))
        self.counts["spans"] += 1

    def same_span(self, expected: list[Place], found: list[Place]) -> None:
        """Check that a span that was read again has the same rows in the same order."""
        with_rows = [
            [(shard, index) for shard, index in places if self._sources[shard].records[index][3]]
            for places in (expected, found)
        ]
        self._require(with_rows[0] == with_rows[1], "a span is another one when it is read again")
        self.counts["spans again"] += 1

    def behind(self, client_id: str) -> list[int]:
        """Return for each shard the index behind what the active server knows to be durable."""
        return list(self._of(client_id).known or [0] * len(self._sources))

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
        behind = self._indexes(cursor, consumption)
        if consumption.cursor is not None and not consumption.keeps_place:
            self._require(cursor.sequence >= consumption.cursor.sequence, "a cursor's sequence decreases")
        self._check_who_left(subscription, consumption, epoch)
        if consumption.resumes_now:
            self._skip_to(consumption, behind)
        self.counts["dropped"] += subscription.dropped and not consumption.dropped
        consumption.dropped = subscription.dropped
        consumption.was_dropped |= subscription.dropped
        for shard, (old, new) in enumerate(
            zip(consumption.durable, behind, strict=bool(consumption.durable))
        ):
            self._require(old <= new or consumption.keeps_place, "a cursor moves backwards")
            # Who has acknowledged nothing begins where the log does, also after a purge.
            # So does a shard that joins.
            joins = consumption.cursor is not None and f"s{shard}" not in consumption.cursor.shards
            begins = self._is_new(consumption) or joins
            new_at = max(old, self._sources[shard].purged) if begins else old
            for index in range(new_at, new) if consumption.begun else ():
                self._require((shard, index) in consumption.finished, "a cursor passes what nobody finished")
        consumption.durable, consumption.cursor = behind, cursor
        if self._is_purged(behind):
            # What it needs is in the rings, and nowhere else.
            self._stranded.add(subscription.client_id)

    @staticmethod
    def _is_new(consumption: Consumption) -> bool:
        """Return whether nothing of a client id was ever acknowledged."""
        return not consumption.finished

    def _check_who_left(self, subscription: Subscription, consumption: Consumption, epoch: int) -> None:
        """Check that a cursor lets go of a shard behind everything that the shard owed."""
        cursor, before = subscription.cursor, consumption.cursor
        assert cursor is not None
        for name in cursor.retired:
            shard = int(name[1:])
            if shard not in self._left:
                self._require((epoch, shard) in self._removals, "a shard leaves that nobody removed")
                self._left[shard] = self._removals[epoch, shard]
                self.counts["removed"] += 1
            removal = self._left[shard]
            held = before is not None and name in before.shards
            if held and not removal.now and not consumption.was_dropped and not subscription.dropped:
                owed = self._owed(shard, removal)
                # A store that writes each while may write its last position and its departure at once.
                left = [(shard, index) for index in range(consumption.durable[shard], owed)]
                finished = consumption.finished.issuperset(left)
                self._require(finished, "a shard leaves with what it owes")

    def resumes(self, client_id: str, resume: Resume) -> None:
        """Note where a consumer says that it goes on which was told that it was dropped."""
        consumption = self._of(client_id)
        consumption.was_dropped = True
        # What it said before may have been done, though nobody answered.
        consumption.resumes_now |= resume is Resume.NOW

    def _skip_to(self, consumption: Consumption, behind: list[int]) -> None:
        """Check how far a consumer goes on that gives up what it missed, and count that as finished."""
        others = [one for one in self._consumptions.values() if one is not consumption and not one.dropped]
        for shard, (old, new) in enumerate(zip(consumption.durable, behind, strict=True)):
            for other in others:
                behind_other = other.durable if self._at_once or other.keeps_place else other.known
                passed = new <= old or not behind_other or new <= behind_other[shard]
                if other.keeps_place and not self._at_once:
                    # It is further than what is written.
                    unwritten = range(behind_other[shard], new) if behind_other else ()
                    passed |= other.finished.issuperset((shard, index) for index in unwritten)
                self._require(passed, "a consumer misses what nobody has behind it")
            consumption.finished.update((shard, index) for index in range(old, new))

    def subscribed(self, client_id: str, cursor: GroupPosition) -> None:
        """Note that a consumer is told where it begins."""
        consumption = self._of(client_id)
        begins = self._indexes(cursor, consumption)
        same = begins == consumption.durable
        if not self._at_once and not same:
            # It was acknowledged, and is not written yet.
            same = begins == consumption.known
        self._require(same or consumption.keeps_place, "a consumer begins at another cursor")
        self._know(consumption, cursor)
        consumption.first = consumption.first or begins
        consumption.begun, consumption.resumes_now = True, False

    def accepted(self, client_id: str, batch_id: int) -> None:
        """Check an acknowledgement that is answered."""
        self._require(batch_id >> 32 == self._epoch, "a server accepts that is not the active one")
        consumption = self._of(client_id)
        delivery = consumption.delivered.get(batch_id)
        if delivery is None:
            return  # its subscription was given up meanwhile
        self._loop.note("group", "accepts {} of {}", batch_id & 0xFFFF, client_id)
        self._require(batch_id > consumption.accepted_id, "acknowledgements are accepted out of order")
        consumption.accepted_id = batch_id
        behind = self._indexes(delivery.batch.ack, consumption)
        for shard, (durable, accepted) in enumerate(zip(consumption.durable, behind, strict=True)):
            done = durable >= accepted or shard in self._left or not self._at_once
            self._require(done, "an acknowledgement is accepted before it is durable")
        flags = delivery.batch.headers["flags"].tolist()
        for flag, place in zip(flags, delivery.places, strict=True):
            whole = flag & BEGIN and flag & END
            twice = self._at_once and whole and place in consumption.accepted
            self._require(not twice, "a transaction is accepted twice")
            consumption.accepted.add(place)
        self._know(consumption, delivery.batch.ack)
        self.counts["acks"] += 1

    def _know(self, consumption: Consumption, cursor: GroupPosition | None) -> None:
        if cursor is not None:
            known = consumption.known or consumption.first
            consumption.known = self._indexes(cursor, consumption)
            if not known:
                # What a source had purged before it first began says nothing of the order of what follows.
                return
            for source, before, behind in zip(self._sources, known, consumption.known, strict=True):
                least_us = max(source.key_min_us[before:behind], default=0)
                consumption.passed_us = max(consumption.passed_us, least_us)

    def _indexes(self, cursor: GroupPosition, consumption: Consumption) -> list[int]:
        """Return for each shard the index behind a cursor; where a shard left, the last one there was."""
        last = consumption.durable or [0] * len(self._sources)
        return [
            source.index_after(cursor.shards[f"s{index}"])
            if f"s{index}" in cursor.shards
            else last[index] * (f"s{index}" in cursor.retired)
            for index, source in enumerate(self._sources)
        ]

    def is_known(self, shard: int) -> bool:
        """Return whether a cursor holds a shard."""
        cursors = [consumption.cursor for consumption in self._consumptions.values()]
        return any(cursor is not None and f"s{shard}" in cursor.shards for cursor in cursors)

    # ---- in the end ------------------------------------------------------------------------------------

    def missing(self, client_ids: list[str], without: int | None) -> int:
        """Return how many headers with rows are not behind the durable cursor of one of the client ids.

        Args:
            client_ids: whose.
            without: a shard that does not count; None: all do that the cursor holds.
        """
        count = 0
        for client_id in client_ids:
            if client_id in self._stranded:
                continue
            consumption = self._of(client_id)
            durable = consumption.durable or [0] * len(self._sources)
            left = consumption.cursor.retired if consumption.cursor is not None else ()
            for source, behind in zip(self._sources, durable, strict=True):
                if source.index != without and f"s{source.index}" not in left:
                    # Who keeps its place has what it has read, should its last acknowledgement be lost.
                    has = consumption.finished if consumption.keeps_place else ()
                    count += sum(
                        1
                        for index, record in enumerate(source.records[behind:], behind)
                        if record[3] and (source.index, index) not in has
                    )
        return count
