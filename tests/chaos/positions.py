"""Positions of rows that mean the same on every server of a shard.

After a failover a shard has positions in two binlogs. By its GTID, each transaction then gets as its position
its number in the writer's record. Rows of a snapshot's pages have no GTID: they are before the transaction
that may follow the last one of their stream. Shards with one server keep their positions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count

import pyarrow as pa

from canal_group.merge.values.position import Position, file_order
from chaos.commits import Commits

#: the one file name that all transactions of a shard with a failover get
FILE = "commits.000001"
#: rows of pages in a stream, at most
PAGES_MAX = 1 << 40


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
        (placed,) = self.placed_in_order([rows])
        return placed

    def placed_in_order(self, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """Yield the rows of a stream, from its beginning on, with such `file` and `pos`."""
        followed, pages = dict.fromkeys(self._moved, -1), count(-PAGES_MAX)
        for rows in tables:
            columns = (
                {column: rows[column].to_pylist() for column in ("file", "pos", "row")} if self._moved else {}
            )
            names = (
                zip(rows["shard"].to_pylist(), rows["gtid"].to_pylist(), strict=True) if self._moved else ()
            )
            for index, (shard, gtid) in enumerate(names):
                if (shard, gtid) in self._ordinals:
                    followed[shard] = self._ordinals[shard, gtid]
                    columns["file"][index], columns["pos"][index] = FILE, followed[shard]
                elif shard in followed and columns["row"][index] < 0:
                    columns["file"][index], columns["pos"][index] = FILE, followed[shard] + 1
                    columns["row"][index] = next(pages)
            placed = rows
            for column, values in columns.items():
                where = rows.schema.get_field_index(column)
                field = rows.schema.field(where)
                placed = placed.set_column(where, field, pa.array(values, field.type))
            yield placed

    @property
    def moved(self) -> set[str]:
        """The shards that another server took over."""
        return set(self._moved)

    def passed(self, shard: str, position: Position) -> tuple[tuple[str, int], int]:
        """Return a position in the form in which it compares with the rows of its shard."""
        record = self._moved.get(shard)
        if record is None:
            return file_order(position.file), position.offset
        held = sum(position.gtid_set.contains(commit.gtid_set) for commit in record.commits)
        return file_order(FILE), held
