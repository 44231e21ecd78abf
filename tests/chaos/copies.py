"""Copies: what clients have that began with a snapshot, and which of their rows and marks there may be.

A copy must equal what SELECT shows in the end, see `canal_group.programs.demo.replica`. Rows are read while
the snapshot of their shard goes on, and its mark comes once, with the position at which it is over. Rows that
come again are the same, as long as no operator has changed what is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from canal_group.merge.values.marks.snapshot_mark import SnapshotMark
from canal_group.merge.values.position import GroupPosition
from canal_group.programs.demo.delivered import IDENTITY
from canal_group.programs.demo.instance import shard_name
from canal_group.programs.demo.replica import Replica
from canal_group.programs.demo.tables import schema_name
from chaos.cursors import CursorWrite
from chaos.journal import Delivery
from chaos.ranges import OffsetRange
from chaos.schedule import JOINS_MAX, SHARDS
from chaos.stream import Accepted

#: columns of a row that are the same whenever it comes
_CONTENT: Final = ("gtid", "table", "op", "key", "before", "after", "sql")
_SCHEMAS: Final = {shard_name(shard): schema_name(shard) for shard in range(SHARDS + JOINS_MAX)}


class Copy(Replica):
    """The tables of a client that began with a snapshot; they may be read again later.

    Args:
        begun: where it began.
        ends: whether a shard has all of its rows when its mark comes. Not so if it was stopped, and tables
            were added afterwards, one by one.
    """

    def __init__(self, begun: GroupPosition, *, ends: bool) -> None:
        super().__init__(begun.shards)
        self._ends = ends

    def _may_read(self, _: str) -> bool:
        return True

    def _completed(self, shard: str) -> None:
        if self._ends:
            super()._completed(shard)


@dataclass(frozen=True, slots=True)
class Part:
    """Rows that a client has accepted, and the positions around them."""

    what: str
    start: GroupPosition
    end: GroupPosition
    #: see `canal_group.merge.rows.envelope.ENVELOPE`
    rows: pa.Table


def parts_of(
    stream: Iterable[Accepted], writes: Sequence[CursorWrite], begun: GroupPosition
) -> Iterator[Part]:
    """Yield the parts of a stream of batches; operators change the cursor, too."""
    before = {write.zxid: earlier.cursor for earlier, write in pairwise(writes)}
    at = begun
    for one in stream:
        if one.write is not None:
            at = before.get(one.write.zxid, at)
        yield Part(str(one), at, one.cursor, one.rows)
        at = one.cursor


def parts_of_ranges(offset_ranges: Iterable[OffsetRange]) -> Iterator[Part]:
    """Yield the parts of a stream of offset ranges."""
    for one in offset_ranges:
        start, end = (GroupPosition.from_json(text) for text in (one.start, one.end))
        yield Part(str(one), start, end, one.rows())


def misplaced(
    parts: Iterable[Part], begun: GroupPosition, moved: set[str], *, stopped: bool
) -> Iterator[str]:
    """Yield rows of snapshots that are not in one or came before, and marks that lack or are not at an end.

    Args:
        parts: of a client's stream.
        begun: where it began.
        moved: shards that another server took over, where offsets are others.
        stopped: whether an operator stopped a snapshot, which has no mark then.
    """
    completed: Counter[str] = Counter()
    known: set[tuple[Any, ...]] = set()
    for part in parts:
        open_, pages = part.start.snapshots, part.rows.filter(pc.less(part.rows["row"], 0))
        for identity in zip(*(pages[name].to_pylist() for name in IDENTITY), strict=True):
            if identity in known and identity[0] not in moved:
                yield f"{part.what}: {identity} came before."
            known.add(identity)
        reads = pages.filter(pc.equal(pages["op"], "READ"))
        for shard in sorted(set(reads["shard"].to_pylist()) - set(open_)):
            yield f"{part.what} reads rows of {shard}, which has no snapshot there."
        marks = [mark for sql in pages["sql"].to_pylist() if (mark := SnapshotMark.of_sql(sql)) is not None]
        counts = Counter(mark.shard for mark in marks)
        for shard in sorted({*open_, *counts}):
            over = shard in open_ and shard not in part.end.snapshots
            if counts[shard] != over:
                yield f"{part.what} has {counts[shard]} marks of {shard}, whose snapshot ends there: {over}."
        for mark in marks:
            # Other shards do not have the table that an operator names.
            own = [f"{name}: {why}" for name, why in mark.failed.items() if _is_of(name, mark.shard)]
            yield from (f"{part.what}: a table was not read: {failed}" for failed in own)
        completed += counts
    if not stopped:
        yield from (f"The mark of {shard} did not come." for shard in begun.shards if not completed[shard])


def _is_of(table: str, shard: str) -> bool:
    return table.partition(".")[0] == _SCHEMAS[shard]


class Again:
    """The rows that came several times.

    Args:
        deliveries: all batches of a client id, accepted or not.
        steered: from when to when operators changed what is read, microseconds since 1970.
        moved: shards that another server took over: pages that were not acknowledged are read again there.
    """

    def __init__(
        self, deliveries: Iterable[Delivery], steered: Sequence[tuple[int, int]], moved: set[str]
    ) -> None:
        self._moved = moved
        #: how many rows of pages came again
        self.count = 0
        #: those that were others, in words
        self.others: list[str] = []
        eras: dict[int, dict[tuple[Any, ...], tuple[Any, ...]]] = {}
        for _, run in groupby(deliveries, lambda one: one.run):
            each = list(run)
            era = sum(end_us < each[0].since_us for _, end_us in steered)
            # What was fetched while an operator asked may be of either side.
            if era == sum(begin_us < each[-1].step.at_us for begin_us, _ in steered):
                for delivery in each:
                    self._take(delivery, eras.setdefault(era, {}))

    def _take(self, delivery: Delivery, known: dict[tuple[Any, ...], tuple[Any, ...]]) -> None:
        rows = delivery.rows().select([*IDENTITY, *_CONTENT])
        for values in zip(*(column.to_pylist() for column in rows.columns), strict=True):
            identity, content = values[: len(IDENTITY)], values[len(IDENTITY) :]
            if identity[0] in self._moved:
                continue
            first = known.setdefault(identity, content)
            self.count += first is not content and identity[-1] < 0
            if first != content:
                self.others.append(f"{identity} came again as {content}, and was {first}.")
