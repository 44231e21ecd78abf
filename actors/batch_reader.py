"""Reads the rows of delivered batches: from all shards at once, put in merged order."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import ray
from ray.actor import ActorHandle

from actors.ray_errors import translated
from actors.store.rows import RowStreams, read
from merge.assemble import BatchRows, ShardRows, ShardTable
from merge.chunk import TableName
from merge.envelope import envelope
from merge.errors import CanalGroupError
from merge.ledger import Batch
from merge.table_filter import TableFilter
from merge.typed import typed

#: batches whose headers are kept at hand, so that their rows need no second question
PLANS_MAX = 128
#: how long a shard may take to send its part of a batch, seconds
FETCH_TIMEOUT_S = 30.0


class BatchReader:
    """Rows of outstanding batches, by client. Safe to use from several threads.

    Args:
        shard: returns the actor of the shard of a name.
        plan: asks the group for an outstanding batch: (client_id, epoch, batch_id).
    """

    def __init__(self, shard: Callable[[str], ActorHandle], plan: Callable[[str, int, int], Batch]) -> None:
        self._shard = shard
        self._plan = plan
        self._plans: OrderedDict[tuple[str, int, int], Batch] = OrderedDict()
        self._lock = threading.Lock()

    def remember(self, client_id: str, epoch: int, batch: Batch) -> None:
        """Keep a batch's headers at hand."""
        with self._lock:
            self._plans[client_id, epoch, batch.batch_id] = batch
            while len(self._plans) > PLANS_MAX:
                self._plans.popitem(last=False)

    def envelope(self, client_id: str, epoch: int, batch_id: int, table_filter: str) -> pa.Table:
        """Return all tables' changes that the filter wants; see `merge.envelope`."""
        return envelope(self._rows(client_id, epoch, batch_id), TableFilter(table_filter))

    def typed(self, client_id: str, epoch: int, batch_id: int, table: str, *, before: bool) -> pa.Table:
        """Return one table's changes; see `merge.typed`."""
        schema, _, name = table.partition(".")
        return typed(self._rows(client_id, epoch, batch_id), TableName(schema, name), before=before)

    def _rows(self, client_id: str, epoch: int, batch_id: int) -> BatchRows:
        with self._lock:
            batch = self._plans.get((client_id, epoch, batch_id))
        if batch is None:
            batch = self._plan(client_id, epoch, batch_id)
            self.remember(client_id, epoch, batch)
        try:
            return self._fetch(batch)
        except CanalGroupError:
            # The rings moved on: the group knows whether the batch was acknowledged or taken back.
            self._plan(client_id, epoch, batch_id)
            raise

    def _fetch(self, batch: Batch) -> BatchRows:
        headers = batch.headers
        asked: dict[int, Any] = {}
        for shard in np.unique(headers["shard"][headers["rows"] > 0]).tolist():
            sequences = headers["sequence"][headers["shard"] == shard]
            fetch = self._shard(batch.shards[shard]).fetch.options(concurrency_group="rows")
            begin, end = int(sequences[0]), int(sequences[-1]) + 1
            asked[shard] = fetch.remote(batch.server_epoch, batch.generation, begin, end)
        rows = [ShardRows()] * len(batch.shards)
        for shard, reference in asked.items():
            with translated(f"Shard {batch.shards[shard]}"):
                rows[shard] = _read(ray.get(reference, timeout=FETCH_TIMEOUT_S))
        return BatchRows(
            order=headers,
            shards=tuple(rows),
            shard_names=batch.shards,
            names=batch.names,
            first_sequence=batch.start.sequence,
        )


def _read(streams: RowStreams) -> ShardRows:
    """Return a shard's rows as tables, without copying them."""
    return ShardRows(
        tables=tuple(ShardTable(name, read(stream)) for name, stream in streams.tables),
        statements=read(streams.statements) if streams.statements is not None else None,
    )
