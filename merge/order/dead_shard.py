"""Decide by the settings whether the group goes on without a shard that is silent.

Every decision that depends on the kind of policy is here; `canal_group.merge.order.waiting` knows the facts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, assert_never

#: `wait` for the shard, or go on without it after some silence
DeadShardKind: TypeAlias = Literal["wait", "skip_after"]

#: longest silence of a shard that an operator skips, or that has just joined, while its transaction is open,
#: microseconds
SILENCE_MAX_US = 5_000_000


@dataclass(frozen=True, slots=True)
class DeadShard:
    """The policy for a dead shard. Silence and lag are microseconds."""

    kind: DeadShardKind
    #: only with `skip_after`: silence after which the group goes on without the shard
    after_us: int = 0

    def skips(self, silent_us: int) -> bool:
        """Return whether the group goes on without a shard that has been silent for `silent_us`."""
        match self.kind:
            case "wait":
                return False
            case "skip_after":
                return silent_us > self.after_us
            case unknown:
                assert_never(unknown)

    def waits_again(self, lag_us: int) -> bool:
        """Return whether the group waits again for a shard that is not silent and lags by `lag_us`."""
        match self.kind:
            case "wait":
                return True
            case "skip_after":
                return lag_us <= self.after_us
            case unknown:
                assert_never(unknown)

    def takes_back(self, silent_us: int) -> bool:
        """Return whether the open transaction of a shard for which nobody waits is taken back."""
        match self.kind:
            case "wait":
                return silent_us > SILENCE_MAX_US
            case "skip_after":
                return silent_us > self.after_us
            case unknown:
                assert_never(unknown)


#: the policy for a shard about which an operator has decided
WAIT = DeadShard("wait")
