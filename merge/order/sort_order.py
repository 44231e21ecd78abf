"""By what the transactions of a group are ordered: their commit times, or the global ids that they write.

Equal ones: the shard with the smaller index comes first, see `canal_group.merge.values.header.merged`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from canal_group.merge.order.id_timeline import END_OF_KEYS, IdTimeline
from canal_group.merge.order.timeline import Timeline
from canal_group.merge.values.commit_time import CommitTimes


@dataclass(frozen=True, slots=True)
class SortOrder:
    """Makes the timelines of a group."""

    #: how far ahead of its source's clock a commit time may be, microseconds
    ahead_max_us: int
    #: with ids: an id is committed at most so long after a greater one, microseconds; None: by commit times
    ids_within_us: int | None
    #: which server's commit times the shards read
    commit_times: CommitTimes

    @property
    def by_id(self) -> bool:
        """Whether ids order the transactions."""
        return self.ids_within_us is not None

    def timeline(self, shards: int) -> Timeline:
        """Return a timeline of so many shards."""
        if self.ids_within_us is None:
            return Timeline(shards, self.ahead_max_us)
        return IdTimeline(shards, self.ahead_max_us, within_us=self.ids_within_us)

    def describe(self, timeline: Timeline | None) -> dict[str, Any]:
        """Return the kind of order, and with ids the watermark in ids, as a JSON object."""
        if self.ids_within_us is None:
            return {"kind": "time"}
        watermark = timeline.watermark_id if isinstance(timeline, IdTimeline) else END_OF_KEYS
        return {
            "kind": "id",
            "commit_within_s": self.ids_within_us / 1e6,
            "watermark_id": watermark if watermark != END_OF_KEYS else None,
        }
