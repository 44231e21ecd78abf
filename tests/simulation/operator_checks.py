"""Checks of the shards that operators skip, hold and remove."""

from __future__ import annotations

from canal_group.actors.ports import Subscription
from canal_group.merge.values.header import Flag
from canal_group.merge.values.member import Policy
from simulation.consumption import Consumption
from simulation.loop import S
from simulation.record import Record
from simulation.removal import Removal
from simulation.source import ReadPosition

#: as a whole number: the enumeration's own operators are slow
BEGIN = int(Flag.BEGIN)
#: after this time a held shard has caught up with what was released before: clocks differ by less than a
#: second, and some stamp whole seconds
CAUGHT_UP_US = 2 * S
#: how long after its removal a shard may still be drained: its clock is read by polls, which wait a second
LEAVES_WITHIN_US = 3 * S


class OperatorChecks(Record):
    """Rule 8 of `simulation.invariants`, and what rule 4 says of shards that are held."""

    def policy_given(self, epoch: int, shard: int, policy: Policy) -> None:
        """Note that a server applied an operator's policy to a shard."""
        self._loop.note("group", "is to {} s{}", policy, shard)
        self.counts["policies"] += 1
        self._held.pop((epoch, shard), None)
        if policy is Policy.HOLD:
            self._held[epoch, shard] = self._loop.now_us
        elif policy is Policy.SKIP:
            self._may_be_late.add(shard)

    def removed(self, epoch: int, shard: int, *, now: bool) -> None:
        """Note that a server lets a shard leave."""
        before = self._removals.get((epoch, shard))
        if before is None or (now and not before.now):
            self._loop.note("group", "removes s{}{}", shard, " at once" if now else "")
            there = len(self._sources[shard].records)
            self._removals[epoch, shard] = Removal(epoch, self._loop.now_us, there, now)
            # If another server takes over first, the shard is a member again that was not waited for.
            self._may_be_late.add(shard)

    def left(self, why: str, positions: list[ReadPosition]) -> None:
        """Check that a reader is refused a range that it read before only because one of its shards left."""
        removed = {shard for _, shard in self._removals}
        self._require(any(shard in removed for shard, _ in positions), f"an offset range is refused: {why}")

    def _owed(self, shard: int, removal: Removal) -> range:
        """Return the indexes that a removed shard must deliver: committed before its removal, anywhere."""
        source = self._sources[shard]
        for index in range(removal.there):
            if source.records[index][2] & BEGIN and source.committed_us[index] >= removal.at_us:
                # What the replica committed after the removal is dropped with the shard.
                return range(source.block(index).start if source.failovers else index)
        return range(removal.there)

    def _check_stays(self, epoch: int, shard: int, index: int) -> None:
        """Check that a header is not from a shard that left, and not younger than its shard's removal."""
        self._require(shard not in self._left, "headers of a shard that left are delivered")
        removal = self._removals.get((epoch, shard))
        if removal is not None and index >= removal.there:
            source = self._sources[shard]
            behind_us = source.stamp_error_us - min(0, source.skew_min_us) + LEAVES_WITHIN_US
            young = source.committed_us[index] - behind_us >= removal.at_us
            self._require(not young, "what a shard commits after its removal is delivered")

    def _check_who_left(self, subscription: Subscription, consumption: Consumption, epoch: int) -> None:
        """Check that a cursor drops a shard only after all that the shard had to deliver."""
        cursor, before = subscription.cursor, consumption.cursor
        assert cursor is not None
        for name in cursor.retired:
            shard = int(name[1:])
            if shard not in self._left:
                self._require((epoch, shard) in self._removals, "a shard leaves that no operator removed")
                self._left[shard] = self._removals[epoch, shard]
                self.counts["removed"] += 1
            removal = self._left[shard]
            held = before is not None and name in before.shards
            if held and not removal.now:
                # A periodic store may write the shard's last position and its departure in one write.
                passed = consumption.durable[shard].passed
                left = {(shard, index) for index in self._owed(shard, removal) if index not in passed}
                finished = left <= consumption.finished | consumption.lost
                self._require(finished, "a shard leaves before everything that it had to deliver was passed")

    def _check_not_passed(self, shard: int, index: int, held_us: int) -> None:
        """Check that a late header was committed before its shard was held, or soon after."""
        source = self._sources[shard]
        self._require(
            source.committed_us[index] < held_us + CAUGHT_UP_US, "a shard that is held was not waited for"
        )
