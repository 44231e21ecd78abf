"""A limit: the group position where a bounded read ends, if that is not the end of an offset range.

Offset ranges are runs of the merged log and end where it ends. A group position has a position in each
shard's binlog, independent of the merged order. So the last offset ranges may reach past it in some shards:
rows after the limit are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from canal_group.merge.values.offset_range import reaches_back
from canal_group.merge.values.position import GroupPosition, Position, file_order
from canal_group.spark.shapes import encoded

#: columns of `canal_group.merge.rows.typed.TYPED` that tell whether a row is before a limit
COLUMNS = frozenset({"_shard", "_file", "_pos", "_gtid"})
#: "uuid:number", "uuid:tag:number" or "domain-server-number"
_GTID = r"^(?P<source>.+)[:-](?P<number>[0-9]+)$"


def reached(limit: GroupPosition, position: GroupPosition) -> bool:
    """Return whether no row after a position is within a limit."""
    return limit.shards.keys() <= position.shards.keys() and reaches_back(limit.shards, position.shards)


def crossed(limit: GroupPosition, end: GroupPosition) -> bool:
    """Return whether an offset range with this end may have rows past a limit."""
    return not (end.shards.keys() <= limit.shards.keys() and reaches_back(end.shards, limit.shards))


def within(rows: pa.Table, limit: GroupPosition, servers: Mapping[str, str]) -> pa.Table:
    """Return the rows up to a limit; rows of a shard that the limit does not name are left out.

    Args:
        rows: typed with `COLUMNS`, or envelopes.
        limit: a position between two transactions in each shard.
        servers: identities of the servers of the rows, by shard.
    """
    prefix = "_" if "_shard" in rows.schema.names else ""
    shards, files, gtids = (encoded(rows.column(prefix + name)) for name in ("shard", "file", "gtid"))
    begins = rows.column(f"{prefix}pos").to_numpy()
    keep = np.zeros(len(rows), dtype=bool)
    for code, shard in enumerate(shards.dictionary.to_pylist()):
        position = limit.shards.get(shard)
        if position is None:
            continue
        mine = shards.indices.to_numpy() == code
        if position.is_of(servers[shard]):
            keep |= mine & _before(position, files, begins)
        else:
            keep |= mine & _held(position, gtids)
    return rows.filter(pa.array(keep))


def _before(position: Position, files: Any, begins: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which transactions begin (and so end) before a position, which is between two transactions."""
    base, number = file_order(position.file)
    orders = [file_order(name) for name in files.dictionary.to_pylist()]
    numbers = np.array([each if name == base else np.iinfo(np.int64).max for name, each in orders])
    of_row = numbers[files.indices.to_numpy()]
    before: NDArray[np.bool_] = (of_row < number) | ((of_row == number) & (begins < position.offset))
    return before


def _held(position: Position, gtids: Any) -> NDArray[np.bool_]:
    """Return which transactions are before a position of another server, by their GTIDs."""
    parts = pc.extract_regex(gtids.dictionary, _GTID)
    sources = pc.fill_null(pc.struct_field(parts, "source"), "").dictionary_encode()
    numbers = pc.fill_null(pc.struct_field(parts, "number").cast(pa.int64()), 0).to_numpy(
        zero_copy_only=False
    )
    held = np.zeros(len(numbers), dtype=bool)
    for code, source in enumerate(sources.dictionary.to_pylist()):
        mine = sources.indices.to_numpy() == code
        held[mine] = position.gtid_set.holds(source, numbers[mine])
    of_row: NDArray[np.bool_] = held[gtids.indices.to_numpy()]
    return of_row
