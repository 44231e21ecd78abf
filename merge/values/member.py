"""A member: what a group knows of a shard for as long as the group lives, whatever is rewound.

Rules:

1. A shard's index is its place in the instance file, and a shard that joins later gets the next one. No index
   is given twice, so that equal keys stay in one order through every join and departure.
2. Nor is a name: who left is remembered in the cursors (`GroupPosition.retired`), and joins no more.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from merge.values.position import Position

#: shards that one server may know, those that left included: an index is a u16 of a header
MEMBERS_MAX = 1 << 16
#: how far behind the others a newcomer may be when they begin to wait for it, microseconds; more than a
#: source that stamps whole seconds is behind when it has caught up
CAUGHT_UP_US = 2_000_000


class Role(StrEnum):
    """What a shard is to its group."""

    #: its rows are part of the stream
    MEMBER = "member"
    #: to become one, once it is known where it begins
    JOINING = "joining"
    #: a member until everything that it committed before its removal was asked for is acknowledged
    LEAVING = "leaving"
    #: none any more
    LEFT = "left"


class Policy(StrEnum):
    """Whether a shard that brings nothing holds the group."""

    #: as the settings say
    RESUME = "resume"
    #: it does, whatever the settings say
    HOLD = "hold"
    #: it does not, from now on
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
    #: whether it joined and is still far behind, so that nobody waits for it
    catching_up: bool = False
    #: with LEAVING: when that was asked for, microseconds of the shell's clock
    leaves_since_us: int = 0
    #: the same by its source's clock, microseconds since 1970 UTC: what it commits after that is not taken.
    #: None: no reading of that clock is known yet
    until_us: int | None = None

    @property
    def counted(self) -> bool:
        """Whether the stream begins only when it is known where this shard stands."""
        return self.role in (Role.MEMBER, Role.LEAVING)
