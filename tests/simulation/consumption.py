"""The batches that one client id was given, and those that it has acknowledged."""

from __future__ import annotations

from dataclasses import dataclass, field

from canal_group.merge.calls.batch import Batch
from canal_group.merge.values.position import GroupPosition
from simulation.source import Reach, ReadPosition

#: client id of looks, of which nothing is stored
LOOK = "look"


class ViolationError(AssertionError):
    """An invariant was violated."""


@dataclass(slots=True)
class Delivery:
    """A batch as it was delivered."""

    batch: Batch
    positions: list[ReadPosition]
    #: the smallest key that any header up to its last may have
    least_us: int
    #: the same for the headers of its log alone, without those that the cursor had passed
    own_us: int
    #: the greatest key to which a header may be raised: what the cursor had passed when the log began
    start_us: int
    #: whether its last header ends a transaction
    whole: bool


@dataclass(slots=True)
class Consumption:
    """The state of one client id: what it was given, and what it has acknowledged."""

    #: whether a consumer was told that it is subscribed, and so from which position it gets everything
    begun: bool = False
    #: for each shard the headers before the durable cursor, and the cursor itself
    durable: list[Reach] = field(default_factory=list)
    cursor: GroupPosition | None = None
    #: for each shard the headers before the cursor that the active server knows to be durable
    known: list[Reach] = field(default_factory=list)
    #: the same for the headers that the known cursor has passed
    passed_us: int = 0
    #: the greatest key that those may have
    passed_most_us: int = 0
    #: where it first began
    first: list[Reach] = field(default_factory=list)
    #: by batch id
    delivered: dict[int, Delivery] = field(default_factory=dict)
    #: newest delivery that ended there: (server epoch, generation, index of the merged log) -> it
    ends: dict[tuple[int, int, int], Delivery] = field(default_factory=dict)
    #: headers of everything delivered
    seen: set[ReadPosition] = field(default_factory=set)
    #: headers that may be accepted twice: a server that committed them later delivered them again
    repeated: set[ReadPosition] = field(default_factory=set)
    #: for each (server epoch, generation, shard) the headers that must not come: a cursor of another
    #: server has them
    barred: dict[tuple[int, int, int], frozenset[int]] = field(default_factory=dict)
    #: last batch id accepted, and headers of what was accepted
    accepted_id: int = 0
    accepted: set[ReadPosition] = field(default_factory=set)
    #: headers in batches that a consumer has finished
    finished: set[ReadPosition] = field(default_factory=set)
    #: headers between where it was told to begin, which its source purged, and where it began: those that
    #: precede what it received, and those that are stored as lost
    missed: set[ReadPosition] = field(default_factory=set)
    lost: set[ReadPosition] = field(default_factory=set)
    #: whether the cursor store says that it was dropped, or a consumer was ever told so
    dropped: bool = False
    was_dropped: bool = False
    #: whether its consumer keeps its position itself, and may go back
    keeps_position: bool = False
    #: whether its consumer unsubscribes
    unsubscribes: bool = False
    #: whether its consumer skips the rows that it missed
    resumes_now: bool = False
