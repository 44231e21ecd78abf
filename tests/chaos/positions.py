"""Positions of rows that mean the same on every server of a shard.

After a failover a shard has positions in two binlogs. By its GTID, each transaction then gets as its position
its number in the writer's record. Shards with one server keep their positions.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from canal_group.merge.values.position import Position, file_order
from chaos.commits import Commits

#: the one file name that all transactions of a shard with a failover get
FILE = "commits.000001"


class Positions:
    """Maps transactions to their positions.

    Args:
        records: what the writers committed.
    """

    def __init__(self, records: Iterable[Commits]) -> None:
        self._moved = {record.shard: record for record in records if record.moved}
        self._ordinals = {
            (record.shard, commit.gtid): number
            for record in self._moved.values()
            for number, commit in enumerate(record.commits)
        }

    def placed(self, rows: pa.Table) -> pa.Table:
        """Return rows of an envelope with `file` and `pos` that no failover changes."""
        if not self._moved:
            return rows
        files, positions = rows["file"].to_pylist(), rows["pos"].to_pylist()
        for index, name in enumerate(zip(rows["shard"].to_pylist(), rows["gtid"].to_pylist(), strict=True)):
            if name in self._ordinals:
                files[index], positions[index] = FILE, self._ordinals[name]
        for column, values in (("file", files), ("pos", positions)):
            where = rows.schema.get_field_index(column)
            rows = rows.set_column(
                where, rows.schema.field(where), pa.array(values, rows.schema.field(where).type)
            )
        return rows

    def passed(self, shard: str, position: Position) -> tuple[tuple[str, int], int]:
        """Return a position in the form in which it compares with the rows of its shard."""
        record = self._moved.get(shard)
        if record is None:
            return file_order(position.file), position.offset
        held = sum(position.gtid_set.contains(commit.gtid_set) for commit in record.commits)
        return file_order(FILE), held
