"""Progress: the position of a group after more headers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from canal_group.merge.values.gtids.gtid import GtidSet
from canal_group.merge.values.header import Flag, Headers, origin_of, page_rows
from canal_group.merge.values.marks.snapshot_mark import OVER
from canal_group.merge.values.position import GroupPosition, Position
from canal_group.merge.values.resets.last_transaction import LastTransaction


@dataclass(frozen=True, slots=True)
class Progress:
    """A point of the merged stream, as two positions."""

    #: the last point where every shard is at a transaction's end; only such a point may be a cursor
    ack: GroupPosition
    #: the point itself, perhaps inside a huge transaction of one shard
    end: GroupPosition
    #: whether a transaction has begun and not ended; after fragments without rows both positions are equal
    inside: bool = False

    @classmethod
    def at(cls, position: GroupPosition) -> Progress:
        """Return the progress at a cursor."""
        return cls(position, position)

    def past(
        self,
        headers: Headers,
        names: tuple[str, ...],
        shards: tuple[str, ...],
        servers: tuple[str, ...] = (),
        created: tuple[Mapping[str, int], ...] = (),
        snapshots: tuple[Mapping[int, str], ...] = (),
    ) -> Progress:
        """Return the progress after `headers`, which follow this point in merged order.

        Args:
            headers: in merged order, with final keys.
            names: what their indexes point to.
            shards: names of the shards by shard_index.
            servers: identities of the servers of the headers, by shard_index; empty: the same as before.
            created: when their binlog files were created, by shard_index; empty: as before, or unknown.
            snapshots: see `HeaderRun.snapshots`, by shard_index; empty: of no shard.
        """
        rows_up_to = np.cumsum(headers["row_end"] - headers["row_begin"])
        shard_of, ended = headers["shard"], (headers["flags"] & Flag.END) != 0
        ack, end = dict(self.ack.shards), dict(self.end.shards)
        for index in np.unique(shard_of):
            shard = shards[index]
            mine = np.flatnonzero(shard_of == index)
            ends = mine[ended[mine]]
            if len(ends):
                server = servers[index] if servers else ack[shard].server
                at_end = _at_end(ack[shard], headers, ends, names, server)
                if snapshots and snapshots[index]:
                    last_sequence = int(headers["sequence"][ends[-1]])
                    at_end = replace(
                        at_end, snapshot=_snapshot_at(last_sequence, snapshots[index], at_end.snapshot)
                    )
                ack[shard] = end[shard] = _stamped(at_end, ack[shard], created[index] if created else {})
            if not ended[mine[-1]]:
                last = headers[mine[-1]]
                begins_at = names[last["file"]], int(last["begin_offset"])
                same_offset = begins_at == (ack[shard].file, ack[shard].offset)
                inside = replace(
                    ack[shard],
                    file=begins_at[0],
                    offset=begins_at[1],
                    rows_into_transaction=int(last["row_end"]),
                    page_rows=ack[shard].page_rows if same_offset else 0,
                    server=servers[index] if servers else ack[shard].server,
                )
                end[shard] = _stamped(inside, ack[shard], created[index] if created else {})
        sequence = self.end.sequence + (int(rows_up_to[-1]) if len(rows_up_to) else 0)
        whole = np.flatnonzero(ended)
        acked = self.end.sequence + int(rows_up_to[whole[-1]]) if len(whole) else self.ack.sequence
        ack_position = replace(self.ack, shards=ack, sequence=acked)
        end_position = replace(self.end, shards=end, sequence=sequence)
        return Progress(
            ack_position,
            # One object for equal positions, so that the JSON text is made once.
            ack_position if end_position == ack_position else end_position,
            inside=not bool(ended[-1]) if len(ended) else self.inside,
        )


def gtids_after(
    gtid_set: GtidSet, headers: Headers, ends: NDArray[np.intp], names: tuple[str, ...]
) -> GtidSet:
    """Return a GTID set with the transactions of one shard added whose ends are `headers[ends]`."""
    numbers, sources = headers["gtid_number"][ends], headers["gtid_source"][ends]
    if len(sources) and (sources == sources[0]).all():
        return gtid_set.add(names[sources[0]], numbers) if numbers.any() else gtid_set
    sources, numbers = sources[numbers > 0], numbers[numbers > 0]
    # By last appearance: in a MariaDB domain the server that wrote last is the position.
    found, from_behind = np.unique(sources[::-1], return_index=True)
    for source in found[np.argsort(-from_behind)].tolist():
        gtid_set = gtid_set.add(names[source], numbers[sources == source])
    return gtid_set


def _stamped(position: Position, before: Position, created: Mapping[str, int]) -> Position:
    """Return a position with the creation time of its file; if unknown, that of `before` in the same file."""
    same_file = (before.file, before.server) == (position.file, position.server)
    return replace(position, created_s=created.get(position.file, before.created_s if same_file else 0))


def _snapshot_at(sequence: int, snapshots: Mapping[int, str], before: str | None) -> str | None:
    """Return the text of a shard's snapshot after a header; None: it is over, or there is none."""
    known = max((each for each in snapshots if each <= sequence), default=None)
    if known is None:
        return before
    return None if snapshots[known].startswith(OVER) else snapshots[known]


def _at_end(
    before: Position, headers: Headers, ends: NDArray[np.intp], names: tuple[str, ...], server: str
) -> Position:
    """Return the position after whole transactions and pages of one shard, with ends `headers[ends]`."""
    pages = headers["flags"][ends] & Flag.PAGE != 0
    logged = ends[~pages] if pages.any() else ends
    position = before
    if len(logged):
        last = headers[logged[-1]]
        position = Position(
            file=names[last["file"]],
            offset=int(last["end_offset"]),
            gtid_set=gtids_after(before.gtid_set, headers, logged, names),
            commit_us=int(last["commit_us"]),
            key_us=int(last["key_us"]),
            server=server,
            origin_id=origin_of(names[last["gtid_source"]], int(last["gtid_number"])),
            last=LastTransaction.of(last, names, server),
            snapshot=before.snapshot,
        )
    if not pages[-1]:
        return position
    # A page is no transaction: the last one is found again by what the position says of it.
    page = headers[ends[-1]]
    return replace(
        position,
        file=names[page["file"]],
        offset=int(page["end_offset"]),
        key_us=int(page["key_us"]),
        rows_into_transaction=0,
        page_rows=int(page_rows(page)),
        server=server,
    )
