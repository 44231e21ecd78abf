"""A member: what a group knows of a shard for the lifetime of the group; a rewind does not reset it.

Rules:

1. A shard's index is its index in the instance file; a shard that joins later gets the next one. No index is
   reused, so that equal keys keep their order when shards join or leave.
2. No name is reused either: the cursors record which shards have left (`GroupPosition.retired`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from canal_group.merge.values.position import Position

#: greatest lag of a joining shard at which the others begin to wait for it, microseconds; more than the lag
#: of a caught-up source that stamps whole seconds
CAUGHT_UP_US = 2_000_000


class Role(StrEnum):
    """Role of a shard in its group."""

    #: its rows are part of the stream
    MEMBER = "member"
    #: becomes a member when its start position is known
    JOINING = "joining"
    #: a member until everything that it committed before the request to remove it is acknowledged
    LEAVING = "leaving"
    #: no longer a member
    LEFT = "left"


class Policy(StrEnum):
    """Whether the group waits for a shard that brings nothing."""

    #: as the settings say
    RESUME = "resume"
    #: it waits, whatever the settings say
    HOLD = "hold"
    #: it does not wait, from now on
    SKIP = "skip"


@dataclass(slots=True)
class Member:
    """A shard of the group, by shard_index."""

    name: str
    role: Role = Role.MEMBER
    policy: Policy = Policy.RESUME
    #: when the policy was given, microseconds of the shell's clock
    policy_since_us: int = 0
    #: where to begin, as an operator said; None: where the shard's settings say
    start: Position | None = None
    #: whether the shard joined and still lags, so that the group does not wait for the shard
    catching_up: bool = False
    #: with LEAVING: when the removal was requested, microseconds of the shell's clock
    leaves_since_us: int = 0
    #: the same by its source's clock, microseconds since 1970 UTC; later commits are not taken. None: no
    #: reading of that clock is known yet
    until_us: int | None = None

    @property
    def counted(self) -> bool:
        """Whether merging begins only when the position of this shard is known."""
        return self.role in (Role.MEMBER, Role.LEAVING)
