"""A batch as a consumer has it: where it stands, and its rows, which are read when asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from merge.values.position import GroupPosition


class Batch:
    """A contiguous run of the merged stream, delivered under one id; rows are read when asked for."""

    def __init__(self, value: dict[str, Any], read_rows: Callable[..., pa.Table]) -> None:
        self._read_rows = read_rows
        #: what `ack` and `rollback` take; grows for ever
        self.batch_id = int(value["batch_id"])
        #: row changes and statements in it, before the subscription's filter
        self.rows = int(value["rows"])
        #: where the stream stood before it
        self.start = GroupPosition.from_json(value["start"])
        #: what the cursor becomes when it is acknowledged
        self.ack_position = GroupPosition.from_json(value["ack"])
        #: where the stream stands behind it
        self.end = GroupPosition.from_json(value["end"])
        #: of an offset range: which transactions it has in which order, as a digest; empty: it has no rows
        self.order = str(value.get("order", ""))
        self._envelope: pa.Table | None = None

    def __repr__(self) -> str:
        return f"Batch(batch_id={self.batch_id}, rows={self.rows})"

    def envelope(self) -> pa.Table:
        """Return all tables' changes in merged order, as `merge.rows.envelope.ENVELOPE`: images as text maps.

        Raises:
            RolledBack: the batch was taken back meanwhile.
        """
        if self._envelope is None:
            self._envelope = self._read_rows(self.batch_id, format="envelope")
        return self._envelope

    def table(self, name: str, *, before: bool = False) -> pa.Table:
        """Return one table's changes in merged order, as its own typed columns and `_op _shard _seq ...`.

        Args:
            name: "schema.table", after routes.
            before: add the before image as a struct `_before`.

        Raises:
            RolledBack: the batch was taken back meanwhile.
            SchemaMismatch: the shards' versions of the table cannot become one.
        """
        return self._read_rows(self.batch_id, format="typed", table=name, before=before)
