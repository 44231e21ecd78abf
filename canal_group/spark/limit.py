"""A limit: the group position that a bounded read ends at, where that is not the end of an offset range.

Offset ranges are runs of the merged log and end where that does. A position is a place in each shard's
binlog, wherever those are, so the last offset ranges may reach beyond it in some shards: rows behind its
places are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from canal_group.spark.shapes import encoded
from merge.values.offset_range import reaches_back
from merge.values.position import GroupPosition, Position, file_order

#: of `merge.rows.typed.TYPED`, what tells on which side of a limit a row stands
COLUMNS = frozenset({"_shard", "_file", "_pos", "_gtid"})
#: "uuid:number", "uuid:tag:number" or "domain-server-number"
_GTID = r"^(?P<source>.+)[:-](?P<number>[0-9]+)$"


def reached(limit: GroupPosition, place: GroupPosition) -> bool:
    """Return whether nothing behind a place stands within a limit."""
    return limit.shards.keys() <= place.shards.keys() and reaches_back(limit.shards, place.shards)


def crossed(limit: GroupPosition, end: GroupPosition) -> bool:
    """Return whether an offset range that ends there may have rows beyond a limit."""
    return not (end.shards.keys() <= limit.shards.keys() and reaches_back(end.shards, limit.shards))


def within(rows: pa.Table, limit: GroupPosition, servers: Mapping[str, str]) -> pa.Table:
    """Return the rows that stand up to and with a limit; those of a shard that it does not name do not.

    Args:
        rows: typed with `COLUMNS`, or envelopes.
        limit: between two transactions in each shard.
        servers: identities of the servers that the rows are of, by shard.
    """
    prefix = "_" if "_shard" in rows.schema.names else ""
    shards, files, gtids = (encoded(rows.column(prefix + name)) for name in ("shard", "file", "gtid"))
    begins = rows.column(f"{prefix}pos").to_numpy()
    kept = np.zeros(len(rows), dtype=bool)
    for code, shard in enumerate(shards.dictionary.to_pylist()):
        place = limit.shards.get(shard)
        if place is None:
            continue
        mine = shards.indices.to_numpy() == code
        if place.is_of(servers[shard]):
            kept |= mine & _before(place, files, begins)
        else:
            kept |= mine & _held(place, gtids)
    return rows.filter(pa.array(kept))


def _before(place: Position, files: Any, begins: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which transactions begin before a place between two, and so end there at the latest."""
    base, number = file_order(place.file)
    found = [file_order(name) for name in files.dictionary.to_pylist()]
    numbers = np.array([each if name == base else np.iinfo(np.int64).max for name, each in found])
    of_row = numbers[files.indices.to_numpy()]
    before: NDArray[np.bool_] = (of_row < number) | ((of_row == number) & (begins < place.offset))
    return before


def _held(place: Position, gtids: Any) -> NDArray[np.bool_]:
    """Return which transactions are before a place of another server, by their GTIDs."""
    parts = pc.extract_regex(gtids.dictionary, _GTID)
    sources = pc.fill_null(pc.struct_field(parts, "source"), "").dictionary_encode()
    numbers = pc.fill_null(pc.struct_field(parts, "number").cast(pa.int64()), 0).to_numpy(
        zero_copy_only=False
    )
    held = np.zeros(len(numbers), dtype=bool)
    for code, source in enumerate(sources.dictionary.to_pylist()):
        mine = sources.indices.to_numpy() == code
        held[mine] = place.gtid_set.holds(source, numbers[mine])
    of_row: NDArray[np.bool_] = held[gtids.indices.to_numpy()]
    return of_row
