"""The intervals at which a shard reports, checks its group, and logs what takes long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class ShardIntervals:
    """Intervals of a shard, seconds."""

    #: after which an unchanged low watermark is reported again, and the tables are compared again
    repeat_s: float = 1.0
    #: at which the shard checks whether its group is silent; after a pause of the process, at once
    watch_s: float = 1.0
    #: for which an event is read before status and reports name it
    slow_s: float = 1.0
    #: for which an event is read before it is logged
    slowest_s: float = 5.0


#: those of a shard that runs
INTERVALS: Final = ShardIntervals()
