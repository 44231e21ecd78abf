"""What must hold of batches and spans: which headers they have, and in which order."""

from __future__ import annotations

from merge.header import Flag
from merge.ledger import Batch
from merge.position import GroupPosition
from simulation.consumption import Consumption, Delivery
from simulation.operator_checks import OperatorChecks
from simulation.source import Place

#: as whole numbers: the enumeration's own operators are slow
BEGIN, END, LATE = int(Flag.BEGIN), int(Flag.END), int(Flag.LATE)


class OrderChecks(OperatorChecks):
    """Rules 4 to 6 of `simulation.invariants`."""

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

    def finished(self, client_id: str, places: list[Place]) -> None:
        """Note that a consumer has done what it wanted with rows, and is about to acknowledge them."""
        self._of(client_id).finished.update(places)
