"""Streams: read canal's streams and ours side by side, and feed the comparison of each shard."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol

from canal_group.actors.sink.sink import Sink
from canal_group.programs.migration.compare.canal_client import CanalClient
from canal_group.programs.migration.compare.change import Change, Item
from canal_group.programs.migration.compare.comparison import Comparison
from canal_group.programs.migration.compare.entries import items_of

#: canal's unit of a batch is entries, or KiB
_BATCH: Final = 1_000
_WAIT_S: Final = 0.2
_LEFT_OUT: Final = "changes of tables that the instance file leaves out"


class Source(Protocol):
    """A stream of entries, in order."""

    def read(self) -> Sequence[tuple[str, Item]]:
        """Return the next items, each with the name of its shard if the stream says it; none if none came."""


class CanalSource:
    """A stream of a server that speaks canal's protocol; what is read is acknowledged.

    Args:
        client: its subscription.
    """

    def __init__(self, client: CanalClient) -> None:
        self._client = client

    def read(self) -> Sequence[tuple[str, Item]]:
        """Return the items of the next batch; none if none came within a moment."""
        batch_id, messages = self._client.get(_BATCH, _WAIT_S)
        items = [item for message in messages for item in items_of(message)]
        if messages:
            self._client.ack(batch_id)
        return items


def compare(
    ours: Source,
    theirs: Mapping[str, Source],
    sink: Sink,
    *,
    rows_max: int,
    idle_s: float,
    differences_max: int = 1,
    without: Collection[str] = frozenset(),
) -> dict[str, Comparison]:
    """Return the comparison of each shard.

    Args:
        ours: the merged stream.
        theirs: canal's stream of each shard, by the shard's name.
        sink: which tables are kept here, and how they are called.
        rows_max: rows of a shard that are enough.
        idle_s: how long nothing may come that can be compared.
        differences_max: differences of a shard with which it ends.
        without: columns that are not compared, `schema.table.column` in lower case.
    """
    comparisons = {shard: Comparison(differences_max, without) for shard in theirs}
    waiting_since_s = time.monotonic()
    while time.monotonic() - waiting_since_s < idle_s:
        going = [shard for shard, each in comparisons.items() if not each.is_over and each.rows < rows_max]
        if not going:
            break
        before = _progress(comparisons)
        if all(comparisons[shard].wants_ours for shard in going):
            for shard, item in ours.read():
                if shard in going:
                    comparisons[shard].ours(item)
        for shard in going:
            if comparisons[shard].wants_theirs:
                for _, item in theirs[shard].read():
                    _take(comparisons[shard], sink, item)
        if _progress(comparisons) != before:
            waiting_since_s = time.monotonic()
    return comparisons


def _take(comparison: Comparison, sink: Sink, item: Item) -> None:
    """Feed an item of canal's, under the name that its table has here."""
    if isinstance(item, Change) and not item.is_text_of_rows:
        name = sink.select(item.schema, item.table)
        if name is None:
            comparison.known[_LEFT_OUT] += 1
            return
        item = replace(item, schema=name.schema, table=name.table)
    comparison.theirs(item)


def _progress(comparisons: Mapping[str, Comparison]) -> int:
    return sum(each.transactions + len(each.differences) for each in comparisons.values())
