"""A batch: what a get is answered with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from canal_group.merge.values.header import Headers
from canal_group.merge.values.position import GroupPosition, Position
from canal_group.merge.values.progress import Progress

#: of a batch id, below the epoch of the server that delivered it
COUNTER_BITS: Final = 32


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """A contiguous run of the merged stream, delivered under one id."""

    batch_id: int
    #: progress of the stream before it
    before: Progress
    #: progress of the stream after it
    after: Progress
    #: its headers in merged order, with final keys
    headers: Headers
    #: what the headers' indexes point to
    names: tuple[str, ...]
    #: the merged log's index of its first header, and the index after its last
    log_start: int
    log_stop: int
    #: incarnation of the shards' rings that hold its rows
    generation: int
    #: names of the shards by shard_index, as the server that delivered it knew them
    shards: tuple[str, ...] = ()
    #: of an offset range: the positions up to which its subscriber had consumed each shard before it, by
    #: shard_index; None: the batch is a run of the merged log
    consumed: Mapping[int, Position] | None = None
    #: as the answer to a get: for how many seconds from then on its rows may be sent; see `Confirm`
    lease_s: float = 0.0

    @property
    def rows(self) -> int:
        """Number of row changes and statements in it."""
        return int(self.headers["rows"].sum())

    @property
    def server_epoch(self) -> int:
        """Fencing epoch of the server that delivered the batch."""
        return epoch_of(self.batch_id)

    @property
    def start(self) -> GroupPosition:
        """Position of the stream before it."""
        return self.before.end

    @property
    def ack(self) -> GroupPosition:
        """The cursor when it is acknowledged."""
        return self.after.ack

    @property
    def end(self) -> GroupPosition:
        """Position of the stream after it."""
        return self.after.end


def epoch_of(batch_id: int) -> int:
    """Return the fencing epoch of the server that delivered a batch."""
    return batch_id >> COUNTER_BITS
