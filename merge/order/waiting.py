"""For whom the group waits: which shards the others may not go on without.

Rules:

1. A shard that is silent for longer than the settings allow is waited for again when it is back, and no
   further behind than that: what it brings meanwhile may be late. One whose ring is full is not silent: it
   waits for the consumers, not they for it. Nor is one that is at its end.
2. One that an operator skips is not waited for until it is resumed, and one that is held always is.
3. One that joins a stream which goes on is not waited for until it has caught up.
"""

from __future__ import annotations

from collections.abc import Sequence

from merge.errors import UsageError
from merge.order.shard_keys import END_OF_TIME_US
from merge.order.shard_state import ShardState
from merge.order.timeline import Timeline
from merge.values.member import CAUGHT_UP_US, Member, Policy

#: how long an open transaction of a shard that an operator skips, or that has just joined, may bring nothing,
#: microseconds
SILENCE_MAX_US = 5_000_000


class Waiting:
    """Looks at the shards of a stream and says for whom the others wait; see the module's rules.

    Args:
        members: by shard_index; the stream's, which grow and change.
        states: by shard_index, likewise.
        skip_after_us: go on without a shard that is silent for longer; None: wait for ever.
    """

    def __init__(
        self, members: Sequence[Member], states: Sequence[ShardState], skip_after_us: int | None
    ) -> None:
        self._members = members
        self._states = states
        self._skip_after_us = skip_after_us

    def check_skip(self, shard: int) -> None:
        """Return if an operator may skip a shard.

        Raises:
            UsageError: nobody would be left to go on.
        """
        skipped = self._members[shard]
        if not any(
            other.counted and other.policy is not Policy.SKIP
            for other in self._members
            if other is not skipped
        ):
            raise UsageError(
                f"{skipped.name} is the last shard that is not skipped.",
                hint="Resume another one first: somebody has to give the time.",
                shard=skipped.name,
            )

    def begins_again(self, timeline: Timeline, shard: int, at_us: int) -> bool:
        """Return whether the others wait again for a shard; take note of a newcomer that has caught up."""
        member = self._members[shard]
        if not member.counted or member.policy is Policy.SKIP:
            return False
        if member.catching_up:
            if timeline.lag_us(shard) > CAUGHT_UP_US:
                return False
            member.catching_up = False
        if member.policy is Policy.HOLD or self._skip_after_us is None:
            return True
        return not self._is_silent(timeline, shard, at_us) and timeline.lag_us(shard) <= self._skip_after_us

    def silent(self, timeline: Timeline | None, at_us: int) -> set[int]:
        """Return the shards that were silent for longer than the settings allow."""
        return {
            index
            for index, member in enumerate(self._members)
            if member.counted and member.policy is Policy.RESUME and self._is_silent(timeline, index, at_us)
        }

    def leaves_nobody(self, silent: set[int]) -> bool:
        """Return whether every shard is silent, or skipped: then nobody is left to go on."""
        counted = {index for index, member in enumerate(self._members) if member.counted}
        skipped = {index for index in counted if self._members[index].policy is Policy.SKIP}
        return counted <= silent | skipped

    def open_is_dead(self, timeline: Timeline, at_us: int) -> bool:
        """Return whether a transaction is out in part whose shard nobody waits for, and brings nothing."""
        if timeline.open_shard is None or not timeline.excluded(timeline.open_shard):
            return False
        by_settings = self._members[timeline.open_shard].policy is Policy.RESUME
        silence_max_us = self._skip_after_us if by_settings else None
        silent_us = self._silent_us(timeline.open_shard, at_us)
        return silent_us > (SILENCE_MAX_US if silence_max_us is None else silence_max_us)

    def _is_silent(self, timeline: Timeline | None, shard: int, at_us: int) -> bool:
        """Return whether a shard is silent for too long; one that is at its end has nothing more to say."""
        if self._skip_after_us is None or (timeline is not None and at_end(timeline, shard)):
            return False
        return self._silent_us(shard, at_us) > self._skip_after_us

    def _silent_us(self, shard: int, at_us: int) -> int:
        """Return for how long a shard has brought nothing though it could, microseconds."""
        state = self._states[shard]
        return at_us - max(state.moved_us, state.full_us)


def at_end(timeline: Timeline, shard: int) -> bool:
    """Return whether a shard has said that nothing comes any more."""
    return timeline.frontier_us(shard) == END_OF_TIME_US
