"""Deliveries: everything that a consumer received, in order, in the form that the verification uses.

An image, a map from column to text, becomes one string: `column=value` cells in the table's order, separated
by `CELL_END`. A NULL is `NULL`, a character that no value of the demo has. A row's identity is `(shard, file,
pos, row)`; a row that is delivered again has the same identity.

Rows of pages of a snapshot, and the mark at its end, have a `row` below 0: they are of no transaction.

A *run* is what was delivered between two rollbacks: within a run the stream only goes forward.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

#: between two cells of an image
CELL_END: Final = "\x1f"
#: a NULL in an image
NULL: Final = "\x00"
IDENTITY: Final = ("shard", "file", "pos", "row")

#: one delivered row change or statement
DELIVERED = pa.schema(
    [
        ("shard", pa.utf8()),
        ("file", pa.utf8()),
        ("pos", pa.int64()),
        ("row", pa.int64()),
        ("seq", pa.int64()),
        ("key_us", pa.int64()),
        ("gtid", pa.utf8()),
        ("table", pa.utf8()),
        ("op", pa.utf8()),
        ("key", pa.utf8()),
        ("before", pa.utf8()),  # null: no such image
        ("after", pa.utf8()),
        ("written_us", pa.int64()),  # when its statement was sent; null where the row does not say
        ("arrived_us", pa.int64()),
        ("run", pa.int64()),
        ("batch", pa.int64()),  # ordinal of the delivery
    ]
)


@dataclass(slots=True)
class _Delivery:
    batch_id: int
    rows: pa.Table
    #: rows that are not of pages
    changes: int
    taken_back: bool = False
    acked: bool = False


@dataclass(slots=True)
class Delivered:
    """The deliveries of one consumer: its gets, acknowledgements and rollbacks."""

    _deliveries: list[_Delivery] = field(default_factory=list)
    _run: int = 0

    def add(self, batch_id: int, envelope: pa.Table, arrived_us: int) -> None:
        """Take a batch that was just delivered.

        Args:
            batch_id: of the batch.
            envelope: its rows, see `canal_group.merge.rows.envelope.ENVELOPE`.
            arrived_us: when its rows were at hand, microseconds since 1970 UTC.
        """
        count = len(envelope)
        columns = {name: envelope.column(name) for name in DELIVERED.names if name in envelope.schema.names}
        columns |= {name: pa.chunked_array([_lines(columns[name])]) for name in ("key", "before", "after")}
        written = pc.map_lookup(envelope.column("after"), pa.scalar("written_us"), "first")
        columns["written_us"] = written.cast(pa.int64())
        ours = {"arrived_us": arrived_us, "run": self._run, "batch": len(self._deliveries)}
        for name, value in ours.items():
            columns[name] = pa.repeat(pa.scalar(value, pa.int64()), count)
        rows = pa.table([columns[name] for name in DELIVERED.names], schema=DELIVERED)
        # A copy: it lets go of the message it came in, whose buffers Arrow's engine finds badly aligned.
        rows = rows.take(pa.array(np.arange(count)))
        self._deliveries.append(_Delivery(batch_id, rows, len(of_transactions(rows))))

    def acked(self, batch_id: int) -> None:
        """Record that a batch was acknowledged."""
        for delivery in self._deliveries[::-1]:
            if delivery.batch_id == batch_id and not delivery.taken_back:
                delivery.acked = True
                return

    def taken_back(self, from_batch_id: int | None = None) -> None:
        """Record that outstanding batches, all or from one on, were rolled back: they come again."""
        for delivery in self._deliveries:
            if not delivery.acked and (from_batch_id is None or delivery.batch_id >= from_batch_id):
                delivery.taken_back = True
        self._run += 1

    def lost(self) -> None:
        """Record that the server rolled back all batches: each may come again."""
        for delivery in self._deliveries:
            delivery.taken_back = True
        self._run += 1

    def table(self) -> pa.Table:
        """Return every delivered row, repetitions included: (n,) of `DELIVERED`."""
        return pa.concat_tables([DELIVERED.empty_table(), *(each.rows for each in self._deliveries)])

    def arrived(self) -> int:
        """Return how many rows arrived and were not given back, or were acknowledged before: quickly."""
        return sum(each.changes for each in self._deliveries if each.acked or not each.taken_back)

    def distinct(self) -> int:
        """Return how many different rows were delivered."""
        changes = of_transactions(self.table())
        return len(changes.group_by(list(IDENTITY)).aggregate([]))

    def kept(self) -> Any:
        """Return for each row of `table()` whether its batch was not given back: (n,) bool."""
        flags = [np.full(len(each.rows), not each.taken_back) for each in self._deliveries]
        return np.concatenate([np.empty(0, np.bool_), *flags])


def of_transactions(stream: pa.Table) -> pa.Table:
    """Return the rows of `DELIVERED` that are not of pages of a snapshot."""
    return stream.filter(pc.greater_equal(stream.column("row"), 0))


def cell(column: str, value: str | None) -> str:
    """Return one cell of an image."""
    return f"{column}={NULL if value is None else value}"


def _lines(maps: Any) -> Any:
    """Return the string of each image: (n,) maps become (n,) utf8, null where there is no map."""
    array = maps.combine_chunks() if isinstance(maps, pa.ChunkedArray) else maps
    values = pc.fill_null(array.items, NULL)
    cells = pc.binary_join_element_wise(array.keys, values, "=")
    lists = pa.ListArray.from_arrays(array.offsets, cells)
    return pc.if_else(array.is_valid(), pc.binary_join(lists, CELL_END), None)
