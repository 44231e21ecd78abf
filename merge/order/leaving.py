"""Leaving: shards that leave take along what they committed before they were asked to, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

from canal_group.merge.events import ShardReported
from canal_group.merge.order.shard_state import ShardState
from canal_group.merge.order.timeline import Timeline
from canal_group.merge.order.waiting import at_end
from canal_group.merge.values.header import HeaderRun
from canal_group.merge.values.member import Member, Role


class Leaving:
    """Knows of which leaving shards everything has come in; a rewind forgets that.

    Args:
        members: by shard_index; the list that the stream changes.
        states: by shard_index; the list that the stream changes.
    """

    def __init__(self, members: Sequence[Member], states: Sequence[ShardState]) -> None:
        self._members = members
        self._states = states
        #: shards of which nothing more is taken
        self.drained: set[int] = set()

    def ask(self, shard: int, timeline: Timeline | None, at_us: int) -> None:
        """Let a shard leave: nothing is taken that it commits from now on."""
        member = self._members[shard]
        if member.role is not Role.LEAVING:
            member.role, member.leaves_since_us = Role.LEAVING, at_us
            if timeline is not None and at_end(timeline, shard):
                self.drained.add(shard)
                timeline.exclude(shard)

    def freed(self) -> list[int]:
        """Return the shards of which everything that was taken is freed."""
        return [
            shard for shard in sorted(self.drained) if self._states[shard].taken == self._states[shard].freed
        ]

    def cut(self, event: ShardReported, timeline: Timeline) -> HeaderRun | None:
        """Return the headers of a report that a shard committed before it was asked to leave."""
        until_us, run = self._members[event.shard].until_us, event.run
        if until_us is None:
            return run
        more = False
        if run is not None:
            run, more = run.before(until_us, timeline.believed_us(event.shard))
        if more or (event.frontier_us or 0) >= until_us:
            self.drained.add(event.shard)
        return run

    def know_until(self, shard: int) -> None:
        """Find what the source's clock showed when its shard was asked to leave, if it was.

        A reading from before that does not tell: the clock may have been set forward since. Where it was set
        back, transactions that are still to come have stamps of before: the furthest reading since all of
        them were known decides.
        """
        member, state = self._members[shard], self._states[shard]
        if member.role is not Role.LEAVING or member.until_us is not None:
            return
        if state.clock_at_us is not None and state.clock_at_us >= member.leaves_since_us:
            member.until_us = member.leaves_since_us + state.clock_ahead_us
