"""Progress: where a group stands after some more headers."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from merge.header import Flag, Headers
from merge.position import GroupPosition, Position


@dataclass(frozen=True, slots=True)
class Progress:
    """A point of the merged stream, told in two ways."""

    #: the last point where every shard is at a transaction's end: what a cursor may be
    ack: GroupPosition
    #: the point itself, perhaps inside a huge transaction of one shard
    end: GroupPosition

    @classmethod
    def at(cls, position: GroupPosition) -> Progress:
        """Return the progress at a cursor."""
        return cls(position, position)

    def past(self, headers: Headers, names: tuple[str, ...], shards: tuple[str, ...]) -> Progress:
        """Return the progress behind `headers`, which follow this point in merged order.

        Args:
            headers: in merged order, with final keys.
            names: what their indexes point to.
            shards: names of the shards by shard_index.
        """
        spans = np.cumsum(headers["row_end"] - headers["row_begin"])
        ack, end = dict(self.ack.shards), dict(self.end.shards)
        for index in np.unique(headers["shard"]):
            shard = shards[index]
            mine = headers[headers["shard"] == index]
            ends = np.flatnonzero(mine["flags"] & Flag.END)
            if len(ends):
                ack[shard] = end[shard] = _at_end(ack[shard], mine[ends], names)
            last = mine[-1]
            if not last["flags"] & Flag.END:
                end[shard] = replace(
                    ack[shard],
                    file=names[last["file"]],
                    offset=int(last["begin_offset"]),
                    rows_into_transaction=int(last["row_end"]),
                )
        sequence = self.end.sequence + (int(spans[-1]) if len(spans) else 0)
        whole = np.flatnonzero(headers["flags"] & Flag.END)
        acked = self.end.sequence + int(spans[whole[-1]]) if len(whole) else self.ack.sequence
        return Progress(
            replace(self.ack, shards=ack, sequence=acked), replace(self.end, shards=end, sequence=sequence)
        )


def _at_end(before: Position, ends: Headers, names: tuple[str, ...]) -> Position:
    """Return the position behind whole transactions of one shard."""
    gtid_set = before.gtid_set
    numbered = ends[ends["gtid_number"] > 0]
    # By last appearance: in a MariaDB domain the server that wrote last is the position.
    for source in reversed(dict.fromkeys(reversed(numbered["gtid_source"].tolist()))):
        gtid_set = gtid_set.add(names[source], numbered["gtid_number"][numbered["gtid_source"] == source])
    last = ends[-1]
    return Position(
        file=names[last["file"]],
        offset=int(last["end_offset"]),
        gtid_set=gtid_set,
        commit_us=int(last["commit_us"]),
        key_us=int(last["key_us"]),
    )
