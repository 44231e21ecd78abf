"""Lanes: which of a group's streams a generation is of.

A group has a live stream, and for each client that is further back a stream of its own, see
`canal_group.merge.replay`. The number of a stream, its lane, is above the count of its openings in each of
its generations. So a generation names a ring of a shard by itself.
"""

from __future__ import annotations

from typing import Final

#: of the count of openings, below the lane
COUNTER_BITS: Final = 32
#: the lane of the live stream; those of replays are greater, and none is used twice in an epoch
LIVE: Final = 0


def before_first(lane: int) -> int:
    """Return the generation of a stream that was not opened yet."""
    return lane << COUNTER_BITS


def lane_of(generation: int) -> int:
    """Return the lane that a generation belongs to."""
    return generation >> COUNTER_BITS
