"""Checks of batches and offset ranges: which headers they have, and in which order."""

from __future__ import annotations

from canal_group.merge.calls.batch import Batch
from canal_group.merge.values.header import Flag
from canal_group.merge.values.position import GroupPosition
from simulation.consumption import Consumption, Delivery
from simulation.operator_checks import OperatorChecks
from simulation.source import Reach, ReadPosition, Source

#: as whole numbers: the enumeration's own operators are slow
BEGIN, END, LATE = int(Flag.BEGIN), int(Flag.END), int(Flag.LATE)


class OrderChecks(OperatorChecks):
    """Rules 4 to 6 of `simulation.invariants`."""

    def delivered(self, client_id: str, batch: Batch) -> None:
        """Check a batch that leaves the server."""
        self._require(batch.server_epoch == self._epoch, "a server that is not active delivers a batch")
        consumption = self._of(client_id)
        self._require(batch.batch_id not in consumption.delivered, "an id comes twice")
        later = [each.batch for number, each in consumption.delivered.items() if number > batch.batch_id]
        if later:
            # Its answer leaves after that of a later request, which took it back.
            again = any(
                (each.generation, each.log_start) == (batch.generation, batch.log_start) for each in later
            )
            self._require(again, "an id does not grow")
            return
        positions = self.positions(batch)
        self._loop.note("group", "delivers {} {} to {}", batch.batch_id & 0xFFFF, positions, client_id)
        before = consumption.ends.get((batch.server_epoch, batch.generation, batch.log_start))
        self._check_positions(batch, positions)
        for shard, index in positions:
            self._check_fresh(consumption, batch, shard, index)
        delivery = self._check_order(consumption, before, batch, positions)
        self._check_whole(before, batch, positions)
        for shard, index in positions:
            self._check_stays(batch.server_epoch, shard, index)
        consumption.delivered[batch.batch_id] = delivery
        consumption.ends[batch.server_epoch, batch.generation, batch.log_stop] = delivery
        self.counts["batches"] += 1
        self.counts["again"] += positions[0] in consumption.seen
        consumption.seen.update(positions)

    def _check_positions(self, batch: Batch, positions: list[ReadPosition]) -> None:
        """Check that headers have the positions and the order of their server."""
        binlogs, seen = self._binlogs(batch), dict[int, int]()
        columns = ("file", "begin_offset", "row_begin", "row_end")
        rows = zip(*(batch.headers[name].tolist() for name in columns), strict=True)
        for (shard, index), (file, *rest) in zip(positions, rows, strict=True):
            at = binlogs[shard].index_of(batch.names[file], *rest)
            self._require(at == binlogs[shard].at[index], "a header is not where its server has it")
            self._require(seen.get(shard, -1) < at, "a shard's transactions change their order")
            seen[shard] = at

    def _check_fresh(self, consumption: Consumption, batch: Batch, shard: int, index: int) -> None:
        """Check that the cursor had not passed what is delivered.

        On the server of the cursor's position, file and offset decide: a transaction that this server
        committed after the position, and the other server before, may come again.
        """
        known = consumption.known[shard] if consumption.known else Reach()
        self._require(index not in known.placed, "headers that the cursor has passed are delivered again")
        same = batch.after.end.shards[f"s{shard}"].server == known.server
        opening = (batch.server_epoch, batch.generation, shard)
        barred = consumption.barred.setdefault(opening, frozenset() if same else known.passed)
        held = index in barred and not consumption.was_dropped
        self._require(not held, "headers that another server had delivered are delivered again")
        if index in known.passed:
            swapped = self._sources[shard].swapped(index)
            self._require(same and swapped, "headers of the cursor's GTID set are delivered again")
            consumption.repeated.add((shard, index))
            self.counts["repeated"] += 1

    def _check_order(
        self, consumption: Consumption, before: Delivery | None, batch: Batch, positions: list[ReadPosition]
    ) -> Delivery:
        """Check a batch's order."""
        least_us = before.least_us if before is not None else consumption.passed_us
        own_us = before.own_us if before is not None else 0
        start_us = before.start_us if before is not None else consumption.passed_most_us
        stamps, flags = batch.headers["commit_us"].tolist(), batch.headers["flags"].tolist()
        for stamp_us, flag, (shard, index) in zip(stamps, flags, positions, strict=True):
            source = self._sources[shard]
            self._require(stamp_us == source.records[index][7], "a commit time is not the source's")
            repeated = (shard, index) in consumption.repeated
            most_us = source.key_most_us(index)
            # Headers that the cursor had passed get the key of its end, and that key's order.
            in_order = max(most_us, start_us) >= own_us
            excused = repeated or self._excused(shard, batch.server_epoch, in_order)
            if most_us < least_us and not excused:
                early_us = least_us - most_us
                self._require(False, f"order is wrong by {early_us} us more than clocks explain")
            least_us = max(least_us, source.key_min_us[index])
            own_us = max(own_us, source.key_min_us[index])
            if flag & LATE:
                self.counts["late"] += 1
                moved = source.stepped_back or source.swapped(index)
                late = moved or self._excused(shard, batch.server_epoch, in_order=True)
                self._require(late, "a header is late without a reason")
                held_us = self._held.get((batch.server_epoch, shard))
                if held_us is not None and shard != self._newcomer and not moved:
                    self._check_not_passed(shard, index, held_us)
        return Delivery(batch, positions, least_us, own_us, start_us, bool(flags[-1] & END))

    def _excused(self, shard: int, epoch: int, in_order: bool) -> bool:
        """Return whether a shard's transactions may be late.

        Those of a newcomer may, until the next server begins with cursors that hold it. That server waits for
        it from the beginning, so only transactions that were released before precede it.
        """
        if shard in self._may_be_late:
            return True
        waited_for = self._joined_epoch is not None and epoch > self._joined_epoch
        return shard == self._newcomer and (not waited_for or in_order)

    def _check_whole(self, before: Delivery | None, batch: Batch, positions: list[ReadPosition]) -> None:
        """Check that a fragment which is not its transaction's last is followed by the next fragment."""
        flags = batch.headers["flags"].tolist()
        last = before.positions[-1] if before is not None and not before.whole else None
        for flag, (shard, index) in zip(flags, positions, strict=True):
            if last is None:
                self._require(bool(flag & BEGIN), "a transaction comes without its beginning")
            else:
                self._require((shard, index) == (last[0], last[1] + 1), "a transaction is split by another")
            last = None if flag & END else (shard, index)

    def received(
        self, client_id: str, upto: list[set[int]], batch: Batch, positions: list[ReadPosition]
    ) -> None:
        """Check that a consumer misses nothing between two batches.

        Args:
            client_id: whose cursor it uses.
            upto: for each shard what it has received; updated.
            batch: what it receives.
            positions: its headers, as (shard, index).
        """
        consumption, binlogs = self._of(client_id), self._binlogs(batch)
        for shard, index in positions:
            binlog = binlogs[shard]
            if consumption.durable:
                upto[shard] |= consumption.durable[shard].passed
            # What nothing is kept of is passed without the consumer.
            before = self._with_rows(self._sources[shard], binlog.before(binlog.at[index]) - upto[shard])
            if shard == self._newcomer:
                # The shard joined where its source began; possibly no cursor says so yet.
                before -= (
                    self._sources[shard].active.forgotten
                    if self._joined_after is None
                    else self._joined_after
                )
            lacking = {(shard, each) for each in before} - consumption.finished
            if index not in upto[shard] and not consumption.finished:
                # One that has acknowledged nothing goes on where the others are, and that is a loss.
                gone = frozenset().union(*(binlog.forgotten for binlog in self._sources[shard].binlogs))
                missed = lacking if any(each in gone for _, each in lacking) else set()
                consumption.missed |= missed
                lacking = lacking - missed
            has = index in upto[shard] or not lacking
            self._require(has, "a consumer receives a header before earlier ones")
            upto[shard].add(index)

    def moves(self, client_id: str) -> None:
        """Note that a reader moves its cursor to a place of its own."""
        self._of(client_id).keeps_position = True

    def read_range(
        self, client_id: str, start: GroupPosition, batch: Batch, positions: list[ReadPosition]
    ) -> None:
        """Check that an offset range holds exactly the headers between its ends, in each shard's order."""
        self._loop.note(client_id, "reads {}", positions)
        consumption = self._of(client_id)
        consumption.keeps_position = True
        self._check_positions(batch, positions)
        begin, end = self._reaches(start, consumption), self._reaches(batch.end, consumption)
        for source, first, last in zip(self._sources, begin, end, strict=True):
            found = {index for shard, index in positions if shard == source.index}
            again = last.passed - (first.placed if first.server == last.server else first.passed)
            there = last.passed - first.passed
            if f"s{source.index}" not in start.shards:
                # The shard joined after `start`, where its source began.
                known = source.index == self._newcomer and self._joined_after is not None
                there -= self._joined_after if known else source.active.forgotten
            self._require(
                self._with_rows(source, there) <= found <= again,
                "an offset range differs from the headers between its ends",
            )
            # Also what was purged since it came in: a shard that joins is not in every cursor yet.
            consumption.finished.update((source.index, index) for index in there | found)
        self.counts["offset_ranges"] += 1

    @staticmethod
    def _with_rows(source: Source, indexes: frozenset[int]) -> set[int]:
        return {index for index in indexes if source.has_rows(index)}

    def same_range(self, expected: list[ReadPosition], found: list[ReadPosition]) -> None:
        """Check that an offset range that was read again has the same rows in the same order.

        If the source failed over in between, the order is that of the answering server.
        """
        moved = {source.index for source in self._sources if source.failovers}
        with_rows = [
            [(shard, index) for shard, index in positions if self._sources[shard].records[index][3]]
            for positions in (expected, found)
        ]
        kept = [[position for position in positions if position[0] not in moved] for positions in with_rows]
        self._require(
            kept[0] == kept[1] and sorted(with_rows[0]) == sorted(with_rows[1]),
            "an offset range has other headers when it is read again",
        )
        self._require(
            bool(moved) or with_rows[0] == with_rows[1],
            "an offset range's order changes when it is read again",
        )
        self.counts["offset ranges again"] += 1

    def crowded(self, why: str, shard: int, positions: list[ReadPosition]) -> None:
        """Check that a range that was read before is refused only because a shard was not waited for then.

        When it is read again, the group waits for that shard, whose part may be larger than its ring.
        """
        self._loop.note("invariants", "an offset range is crowded out: {}", why)
        excused = bool(positions) and (shard in self._may_be_late or shard == self._newcomer)
        self._require(excused, f"an offset range is refused for no reason: {why}")
        self.counts["offset ranges crowded"] += 1

    def torn(self, why: str, positions: list[ReadPosition]) -> None:
        """Check that a range that was read before is refused only after a failover."""
        self._loop.note("invariants", "an offset range is torn: {}", why)
        moved = any(self._sources[shard].failovers for shard, _ in positions)
        self._require(moved, f"an offset range is refused without a failover: {why}")
        self.counts["offset ranges torn"] += 1

    def finished(self, client_id: str, positions: list[ReadPosition]) -> None:
        """Note that a consumer has processed rows and is about to acknowledge them."""
        self._of(client_id).finished.update(positions)
