"""A batch as a consumer sees it: its positions, and its rows, which are read on demand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from canal_group.merge.values.position import GroupPosition
from canal_group.merge.whole import whole


class Batch:
    """A contiguous run of the merged stream, delivered under one id; its rows are read on demand.

    Reading raises RetryableError if a server or a shard was unavailable for longer than the consumer's
    `retry_s`. The batch is still outstanding then: read it again, or roll it back. Later batches cannot be
    acknowledged before it.
    """

    def __init__(self, value: dict[str, Any], read_rows: Callable[..., pa.Table]) -> None:
        self._read_rows = read_rows
        #: the id that `ack` and `rollback` take; ids only grow
        self.batch_id = whole(value["batch_id"])
        #: row changes and statements in it, before the subscription's filter
        self.rows = whole(value["rows"])
        #: position of the stream before the batch
        self.start = position_of(value, "start")
        #: the cursor after the batch is acknowledged
        self.ack_position = position_of(value, "ack")
        #: position of the stream after the batch
        self.end = position_of(value, "end")
        #: of an offset range: a digest of its transactions and their order; empty if it has no rows
        self.order = str(value.get("order", ""))
        #: with and without definitions
        self._envelopes: dict[bool, pa.Table] = {}

    def __repr__(self) -> str:
        return f"Batch(batch_id={self.batch_id}, rows={self.rows})"

    def envelope(self, *, definitions: bool = False) -> pa.Table:
        """Return the changes of all tables in merged order, with text maps.

        The schema is `canal_group.merge.rows.envelope.ENVELOPE`.

        Args:
            definitions: add `definition`, the types of the table's columns, see
                `canal_group.merge.rows.envelope`.

        Raises:
            RolledBack: the batch was rolled back in the meantime.
        """
        if definitions not in self._envelopes:
            options = {"definitions": True} if definitions else {}
            self._envelopes[definitions] = self._read_rows(self.batch_id, format="envelope", **options)
        return self._envelopes[definitions]

    def canal_entries(self, *, rows_max: int = 0) -> pa.Table:
        """Return all changes in merged order as canal's entries.

        The schema is `canal_group.merge.rows.canal.entries.ENTRIES`.

        Each row of the table is one entry: the column `entry` has the message that
        `canal_group.canal_protocol.entry_pb2.Entry` reads, the other columns say what is in it.

        Args:
            rows_max: row changes of one entry, for consumers that route each row by itself; 0: any number.

        Raises:
            RolledBack: the batch was rolled back in the meantime.
        """
        return self._read_rows(self.batch_id, format="canal", rows_max=rows_max)

    def table(self, name: str, *, before: bool = False) -> pa.Table:
        """Return one table's changes in merged order, as its own typed columns and `_op _shard _seq ...`.

        Args:
            name: "schema.table", after routes.
            before: add the before image as a struct `_before`.

        Raises:
            RolledBack: the batch was rolled back in the meantime.
            SchemaMismatch: the shards' versions of the table cannot be merged into one schema.
        """
        return self._read_rows(self.batch_id, format="typed", table=name, before=before)


def position_of(value: Mapping[str, Any], name: str) -> GroupPosition:
    """Return a position that a gateway's answer has; it is read when it is used first.

    Raises:
        LookupError, TypeError: the answer has no text there.
    """
    text = value[name]
    if not isinstance(text, str):
        raise TypeError(f"{name} is not a text")
    return GroupPosition.of_text(text)
