"""Decide for which shards the group waits. Which one it is waiting for: `Timeline.held_by`.

Rules:

1. The policy of the settings decides whether the group stops waiting for a silent shard, and when it waits
   for it again, see `dead_shard`; what the shard brings in between may be LATE. A shard whose ring is full is
   not silent: it waits for the consumers. Nor is a shard at its end.
2. The group does not wait for a shard that an operator skips, until it is resumed. It always waits for a
   shard that an operator holds.
3. The group does not wait for a shard that joins a running stream until the shard has caught up.
4. The low watermark of an idle replica is lowered by the lag that is allowed for, see `commit_time`. So far a
   shard may lag and still counts as caught up.
"""

from __future__ import annotations

from collections.abc import Sequence

from canal_group.merge.errors import UsageError
from canal_group.merge.order.dead_shard import WAIT, DeadShard
from canal_group.merge.order.shard_state import ShardState
from canal_group.merge.order.timeline import Timeline
from canal_group.merge.values.commit_time import END_OF_TIME_US
from canal_group.merge.values.member import CAUGHT_UP_US, Member, Policy


class Waiting:
    """Looks at the shards of a stream and says for which of them the others wait; see the module's rules.

    Args:
        members: the stream's own list, which grows and changes; by shard_index.
        states: likewise; by shard_index.
        dead_shard: the policy of the settings.
        withheld_us: by how much low watermarks may be lowered, microseconds.
    """

    def __init__(
        self,
        members: Sequence[Member],
        states: Sequence[ShardState],
        dead_shard: DeadShard,
        withheld_us: int = 0,
    ) -> None:
        self._members = members
        self._states = states
        self._dead_shard = dead_shard
        self._withheld_us = withheld_us

    def check_skip(self, shard: int) -> None:
        """Return if an operator may skip a shard.

        Raises:
            UsageError: every shard would be skipped.
        """
        skipped = self._members[shard]
        if not any(
            other.counted and other.policy is not Policy.SKIP
            for other in self._members
            if other is not skipped
        ):
            raise UsageError(
                f"{skipped.name} is the last shard that is not skipped.",
                hint="Resume another shard first: at least one shard has to advance the watermark.",
                shard=skipped.name,
            )

    def begins_again(self, timeline: Timeline, shard: int, at_us: int) -> bool:
        """Return whether the others wait again for a shard; note that a joined shard has caught up."""
        member = self._members[shard]
        if not member.counted or member.policy is Policy.SKIP:
            return False
        lag_us = max(0, timeline.lag_us(shard) - self._withheld_us)
        if member.catching_up:
            if lag_us > CAUGHT_UP_US:
                return False
            member.catching_up = False
        if member.policy is Policy.HOLD:
            return True
        silent = self._is_silent(timeline, shard, at_us)
        return not silent and self._dead_shard.waits_again(lag_us)

    def silent(self, timeline: Timeline | None, at_us: int) -> set[int]:
        """Return the shards that were silent for longer than the settings allow."""
        return {
            index
            for index, member in enumerate(self._members)
            if member.counted and member.policy is Policy.RESUME and self._is_silent(timeline, index, at_us)
        }

    def leaves_nobody(self, silent: set[int]) -> bool:
        """Return whether every shard is silent or skipped, so that none would remain."""
        counted = {index for index, member in enumerate(self._members) if member.counted}
        skipped = {index for index in counted if self._members[index].policy is Policy.SKIP}
        return counted <= silent | skipped

    def open_is_dead(self, timeline: Timeline, at_us: int) -> bool:
        """Return whether a transaction is open whose shard does not count and was silent for too long."""
        if timeline.open_shard is None or not timeline.excluded(timeline.open_shard):
            return False
        by_settings = self._members[timeline.open_shard].policy is Policy.RESUME
        policy = self._dead_shard if by_settings else WAIT
        return policy.takes_back(self._silent_us(timeline.open_shard, at_us))

    def _is_silent(self, timeline: Timeline | None, shard: int, at_us: int) -> bool:
        """Return whether a shard is silent for too long; a shard at its end never is."""
        if timeline is not None and at_end(timeline, shard):
            return False
        return self._dead_shard.skips(self._silent_us(shard, at_us))

    def _silent_us(self, shard: int, at_us: int) -> int:
        """Return for how long a shard has brought nothing although its ring had room, microseconds."""
        state = self._states[shard]
        return at_us - max(state.moved_us, state.full_us)


def at_end(timeline: Timeline, shard: int) -> bool:
    """Return whether a shard has reported that nothing more will come."""
    return timeline.frontier_us(shard) == END_OF_TIME_US
