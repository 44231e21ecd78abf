"""The audit: checks the streams against evidence that does not come from the product.

The evidence is the consumers' journals, ZooKeeper's transaction logs, what the writers committed and when by
their own clock, and the tables on the servers. Each client id is audited separately: one that takes batches,
and one that reads offset ranges and keeps its position itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import groupby, islice, pairwise
from pathlib import Path
from statistics import median
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa

from canal_group.binlog.archive.archive import Archive
from canal_group.merge.values.position import file_order
from canal_group.programs.demo.delivered import IDENTITY, Delivered, of_transactions
from canal_group.programs.demo.proof import prove
from chaos.archived import not_archived, too_early, unlike
from chaos.clocks import S_US
from chaos.commits import Commits
from chaos.copies import Again, Part, misplaced, parts_of, parts_of_ranges
from chaos.cursors import CursorWrite, regressions
from chaos.ends import stalls
from chaos.journal import Delivery
from chaos.lateness import Arrival, Oracle
from chaos.positions import Positions
from chaos.ranges import OffsetRange, broken, done_with, not_the_same, rereads
from chaos.stream import Accepted, double_active, not_durable, stream_of
from chaos.truth import Truth

#: how many faults of each kind are described
SHOWN_MAX: Final = 5


@dataclass(frozen=True, slots=True)
class Findings:
    """The faults of a stream, and its recovery times; several findings can be added."""

    #: written and not acknowledged, acknowledged and not durable, or not what the servers hold
    lost: int = 0
    #: acknowledged twice, delivered again with other content, or never written
    duplicated: int = 0
    #: keys, numbers, or rows of one transaction that do not follow each other
    reordered: int = 0
    #: writes by which the cursor goes back
    cursor_regressions: int = 0
    #: acknowledgements accepted under an epoch that had ended
    double_active: int = 0
    #: transactions delivered after others that were committed later; how many the schedule allows
    late: int = 0
    late_bound: int = 0
    #: late transactions that the schedule does not allow
    late_beyond: int = 0
    #: shards that a client id had not acknowledged to their end when it should have
    stalled: int = 0
    #: offset ranges that had other rows when they were read again, or are not contiguous
    range_faults: int = 0
    #: rows and marks that a snapshot must not have, or lacks
    snapshot_faults: int = 0
    #: rows that snapshots have read, and how many came again
    snapshot_rows: int = 0
    snapshot_again: int = 0
    #: transactions that a consumer got and the archive lacks, and archived files that are not the source's
    archive_faults: int = 0
    #: errors of servers that nobody foresaw
    defects: int = 0
    #: repeated readings of offset ranges
    range_rereads: int = 0
    #: distinct row changes and statements, and batches
    rows: int = 0
    batches: int = 0
    #: for each injected fault the seconds until the stream had recovered
    recovery_s: tuple[float, ...] = ()
    #: descriptions of the first few faults of each kind
    words: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether there are no faults."""
        order = self.reordered + self.late_beyond + self.range_faults
        owners = self.cursor_regressions + self.double_active
        ends = self.stalled + self.archive_faults + self.snapshot_faults + self.defects
        return not (self.lost + self.duplicated + order + owners + ends)

    def __add__(self, other: Self) -> Self:
        sums: dict[str, Any] = {
            field.name: getattr(self, field.name) + getattr(other, field.name) for field in fields(self)
        }
        return type(self)(**sums)

    def to_dict(self) -> dict[str, int | float | None]:
        """Return the counts, and the median and the longest recovery."""
        return {
            "lost": self.lost,
            "duplicated_after_dedup": self.duplicated,
            "reordered": self.reordered,
            "cursor_regressions": self.cursor_regressions,
            "double_active": self.double_active,
            "late": self.late,
            "late_bound": self.late_bound,
            "late_beyond": self.late_beyond,
            "stalled": self.stalled,
            "range_faults": self.range_faults,
            "archive_faults": self.archive_faults,
            "defects": self.defects,
            "range_rereads": self.range_rereads,
            "snapshot_faults": self.snapshot_faults,
            "snapshot_rows": self.snapshot_rows,
            "snapshot_again": self.snapshot_again,
            "recovery_s_p50": round(median(self.recovery_s), 1) if self.recovery_s else None,
            "recovery_s_max": round(max(self.recovery_s), 1) if self.recovery_s else None,
        }


def audit(
    client_id: str,
    deliveries: Iterable[Delivery],
    writes: Sequence[CursorWrite],
    truth: Truth,
    over_us: Sequence[int],
    steered: Sequence[tuple[int, int]] = (),
) -> Findings:
    """Audit the stream of a client id that takes batches.

    Args:
        client_id: its name.
        deliveries: the batches of all consumers, and their outcomes.
        writes: every write of the cursor.
        truth: the reference data.
        over_us: for each fault the time from which recovery is counted, microseconds since 1970.
        steered: from when to when operators changed what its snapshot reads.
    """
    deliveries = list(deliveries)
    stream, positions = stream_of(deliveries, writes), Positions(truth.records)
    rows = list(positions.placed_in_order(one.rows for one in stream))
    delivered = Delivered()
    each = zip(stream, rows, strict=True)
    for _, run in groupby(each, lambda one: (one[0].delivery.run, one[0].delivery.server_epoch)):
        for one, table in run:
            delivered.add(one.delivery.batch_id, table, one.acked_us)
        delivered.lost()
    lost, double = list(not_durable(stream)), list(double_active(stream, writes))
    twice, disorder = list(_twice(stream, rows, positions)), list(_disorder(stream, rows))
    acked_us = [one.acked_us for one in stream]
    ours = Findings(
        lost=len(lost),
        duplicated=len(twice),
        reordered=len(disorder),
        double_active=len(double),
        batches=len(stream),
        recovery_s=tuple(_recovery_s(list(_arrivals(rows, acked_us)), truth.oracle, over_us)),
        words=_first(lost, twice, disorder, double),
    )
    if truth.begun is not None:
        parts = parts_of(stream, writes, truth.begun)
        ours += _snapshot(truth, parts, positions.moved, Again(deliveries, steered, positions.moved))
    return ours + _proven(delivered, truth) + _cursors(writes) + _in_time(client_id, rows, acked_us, truth)


def audit_archive(archive: Archive, binlogs: Mapping[str, Path]) -> Findings:
    """Audit an archive to which nobody writes any more.

    Args:
        archive: the archive.
        binlogs: where the sources have their files, by identity.
    """
    wrong = list(unlike(archive, binlogs))
    return Findings(archive_faults=len(wrong), words=_first(wrong))


def audit_held_rows(
    archive: Archive,
    readings: Sequence[tuple[int, pa.Table]],
    records: Sequence[Commits],
    full: Sequence[tuple[int, int]],
) -> Findings:
    """Audit rows that may be delivered only when an archive has them.

    Args:
        archive: the archive, to which nobody writes any more.
        readings: when rows came, accepted or not, microseconds since 1970, and the rows.
        records: what the writers committed.
        full: from when to when the archive's disk took nothing.
    """
    lacking = list(not_archived(archive, (rows for _, rows in readings)))
    early = list(too_early(readings, records, full))
    return Findings(archive_faults=len(lacking) + len(early), words=_first(lacking, early))


def audit_ranges(
    client_id: str, offset_ranges: Sequence[OffsetRange], writes: Sequence[CursorWrite], truth: Truth
) -> Findings:
    """Audit a client id that keeps its position itself: each row once, and the same in each reading.

    Args:
        client_id: its name.
        offset_ranges: what its processes read.
        writes: every write of its cursor.
        truth: the reference data.
    """
    positions = Positions(truth.records)
    taken = done_with(offset_ranges)
    rows = list(positions.placed_in_order(offset_range.rows() for offset_range in taken))
    delivered = Delivered()
    for number, (offset_range, table) in enumerate(zip(taken, rows, strict=True)):
        delivered.add(number, table, offset_range.done_us)
    wrong = list(not_the_same(offset_ranges, positions.placed))
    chain = list(broken(taken, numbered=truth.begun is None))
    ours = Findings(
        range_faults=len(wrong) + len(chain),
        range_rereads=rereads(offset_ranges),
        batches=len(taken),
        words=_first(wrong, chain),
    )
    if truth.begun is not None:
        ours += _snapshot(truth, parts_of_ranges(taken), positions.moved, Again((), (), set()))
    done_us = [offset_range.done_us for offset_range in taken]
    return ours + _proven(delivered, truth) + _cursors(writes) + _in_time(client_id, rows, done_us, truth)


def _snapshot(truth: Truth, parts: Iterable[Part], moved: set[str], again: Again) -> Findings:
    """Check rows and marks of snapshots, and what came again; what is in the rows `_proven` checks."""
    assert truth.begun is not None
    wrong = list(misplaced(parts, truth.begun, moved, stopped=truth.stopped))
    return Findings(
        snapshot_faults=len(wrong) + len(again.others),
        snapshot_again=again.count,
        words=_first(wrong, again.others),
    )


def _proven(delivered: Delivered, truth: Truth) -> Findings:
    """Compare the delivered rows with what was written, and with the servers' tables."""
    proof = prove(delivered, truth.expected, truth.servers, truth.replica())
    return Findings(
        # Tables that differ although no row is missing count as a loss.
        lost=proof.missing or int(not proof.tables_equal),
        duplicated=proof.duplicates,
        reordered=proof.order_violations + proof.split_transactions,
        rows=proof.rows,
        snapshot_rows=proof.snapshot_rows,
        words=proof.words,
    )


def _cursors(writes: Sequence[CursorWrite]) -> Findings:
    back = list(regressions(writes))
    return Findings(cursor_regressions=len(back), words=_first(back))


def _in_time(client_id: str, rows: Sequence[pa.Table], acked_us: Sequence[int], truth: Truth) -> Findings:
    """Check the order against commit times, and the end of the stream against its deadline."""
    arrivals = list(_arrivals(rows, acked_us))
    told = truth.oracle.judge(arrivals)
    stalled = list(stalls(client_id, arrivals, truth.expected, truth.end))
    unjustified = [f"Client {client_id}: {words}" for words in told.unjustified]
    return Findings(
        late=told.late,
        late_bound=told.bound,
        late_beyond=len(unjustified),
        stalled=len(stalled),
        words=_first(unjustified, stalled),
    )


def _arrivals(rows: Sequence[pa.Table], acked_us: Sequence[int]) -> Iterator[Arrival]:
    """Yield each transaction at its first delivery, which is complete with its last row."""
    came: dict[tuple[str, str], Arrival] = {}
    for table, at_us in zip(rows, acked_us, strict=True):
        for shard, gtid in dict.fromkeys(
            zip(table["shard"].to_pylist(), table["gtid"].to_pylist(), strict=True)
        ):
            came.setdefault((shard, gtid), Arrival(shard, gtid, at_us))
    yield from came.values()


def _twice(stream: Sequence[Accepted], rows: Sequence[pa.Table], positions: Positions) -> Iterator[str]:
    """Yield the rows that the cursor had passed before their batch was acknowledged."""
    for (before, _), (after, table) in pairwise(zip(stream, rows, strict=True)):
        begins = of_transactions(table).group_by(["shard", "file"]).aggregate([("pos", "min")]).to_pylist()
        for row in begins:
            passed = before.cursor.shards.get(row["shard"])
            if passed is None:
                continue
            begin = (file_order(row["file"]), row["pos_min"])
            if begin < positions.passed(row["shard"], passed):
                yield (
                    f"{after} holds {row['shard']} {row['file']}:{row['pos_min']},"
                    f" which {before} had acknowledged up to {passed}."
                )


def _disorder(stream: Sequence[Accepted], tables: Sequence[pa.Table]) -> Iterator[str]:
    """Yield the rows within one server's epoch at which the key of a new row goes back."""
    if not stream:
        return
    rows = pa.concat_tables([table.select([*IDENTITY, "key_us"]) for table in tables])
    epochs = np.repeat([one.delivery.server_epoch for one in stream], [len(table) for table in tables])
    numbered = rows.append_column("index", pa.array(np.arange(len(rows))))
    first = numbered.group_by(list(IDENTITY)).aggregate([("index", "min")])["index_min"].to_numpy()
    first = np.sort(first)
    key_us, epoch = rows["key_us"].to_numpy()[first], epochs[first]
    for index in np.flatnonzero((np.diff(key_us) < 0) & (np.diff(epoch) == 0)).tolist():
        row = rows.slice(first[index + 1], 1).to_pylist()[0]
        yield f"{row}: the key goes back from {key_us[index]} within epoch {epoch[index]}."


def _recovery_s(arrivals: Sequence[Arrival], oracle: Oracle, over_us: Sequence[int]) -> Iterator[float]:
    """Yield for each fault the time until a transaction was acknowledged that began after it.

    A fault after which nothing was committed is skipped.
    """
    acked = sorted((one.acked_us, oracle.begun_us(one)) for one in arrivals)
    for since_us in over_us:
        until_us = next((at_us for at_us, begun_us in acked if begun_us > since_us), None)
        if until_us is not None:
            yield (until_us - since_us) / S_US


def _first(*kinds: Iterable[str]) -> tuple[str, ...]:
    return tuple(words for kind in kinds for words in islice(kind, SHOWN_MAX))
