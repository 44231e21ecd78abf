"""The audit: whether the stream held, told by what nobody could have made up.

Witnesses are the consumers' journals, ZooKeeper's transaction logs, what the writers committed, and what the
servers hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice, pairwise
from statistics import median
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from canal_group.demo.delivered import IDENTITY, Delivered
from canal_group.demo.proof import prove
from canal_group.demo.replica import Rows
from canal_group.demo.writer import Record
from chaos.cursors import CursorWrite, regressions
from chaos.journal import Delivery
from chaos.stream import Accepted, double_active, not_durable, stream_of
from merge.position import file_order

#: faults of each kind that are put into words
SHOWN_MAX: Final = 5
_S_US: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Findings:
    """What is wrong with a stream, and how long it was held."""

    #: written and not acknowledged, acknowledged and not durable, or not what the servers hold
    lost: int
    #: acknowledged twice, come again as something else, or never written
    duplicated: int
    #: keys, numbers, or rows of one transaction that do not follow each other
    reordered: int
    #: places where the cursor goes back
    cursor_regressions: int
    #: acknowledgements accepted under an epoch that was over
    double_active: int
    #: for each fault the seconds until the stream was beyond it
    recovery_s: tuple[float, ...]
    #: distinct row changes and statements, and batches
    rows: int
    batches: int
    #: what is wrong, in words; the first few of each kind
    words: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not (
            self.lost + self.duplicated + self.reordered + self.cursor_regressions + self.double_active
        )

    def to_dict(self) -> dict[str, int | float | None]:
        """Return the counts, and the median and the longest recovery."""
        return {
            "lost": self.lost,
            "duplicated_after_dedup": self.duplicated,
            "reordered": self.reordered,
            "cursor_regressions": self.cursor_regressions,
            "double_active": self.double_active,
            "recovery_s_p50": round(median(self.recovery_s), 1) if self.recovery_s else None,
            "recovery_s_max": round(max(self.recovery_s), 1) if self.recovery_s else None,
        }


def audit(
    deliveries: Iterable[Delivery],
    writes: Sequence[CursorWrite],
    records: Sequence[Record],
    servers: Rows,
    over_us: Sequence[int],
) -> Findings:
    """Judge a stream.

    Args:
        deliveries: what all consumers got, and what became of it.
        writes: every write of the cursor.
        records: what the writers committed.
        servers: what the servers hold now.
        over_us: for each fault from when on recovery is counted, microseconds since 1970.
    """
    stream = stream_of(deliveries, writes)
    delivered = Delivered()
    for _, run in groupby(stream, lambda one: (one.delivery.run, one.delivery.server_epoch)):
        for one in run:
            delivered.add(one.delivery.batch_id, one.rows, one.acked_us)
        delivered.lost()
    proof = prove(delivered, records, servers)
    lost, twice, back = list(not_durable(stream)), list(_twice(stream)), list(regressions(writes))
    disorder, double = list(_disorder(stream)), list(double_active(stream, writes))
    return Findings(
        # Tables that differ though nothing is missing are a loss that was not counted otherwise.
        lost=len(lost) + (proof.missing or int(not proof.tables_equal)),
        duplicated=len(twice) + proof.duplicates,
        reordered=len(disorder) + proof.order_violations + proof.split_transactions,
        cursor_regressions=len(back),
        double_active=len(double),
        recovery_s=tuple(_recovery_s(stream, over_us)),
        rows=proof.rows,
        batches=len(stream),
        words=(*proof.words, *_some(lost), *_some(twice), *_some(disorder), *_some(back), *_some(double)),
    )


def _twice(stream: Sequence[Accepted]) -> Iterator[str]:
    """Yield the rows that the cursor had passed before their batch was acknowledged."""
    for before, after in pairwise(stream):
        places = after.rows.group_by(["shard", "file"]).aggregate([("pos", "min")]).to_pylist()
        for place in places:
            passed = before.cursor.shards.get(place["shard"])
            if passed is None:
                continue
            begin = (file_order(place["file"]), place["pos_min"])
            if begin < (file_order(passed.file), passed.offset):
                yield (
                    f"{after} holds {place['shard']} {place['file']}:{place['pos_min']},"
                    f" which {before} had acknowledged up to {passed}."
                )


def _disorder(stream: Sequence[Accepted]) -> Iterator[str]:
    """Yield the places within one server's epoch where the key of a new row goes back."""
    if not stream:
        return
    rows = pa.concat_tables([one.rows.select([*IDENTITY, "key_us"]) for one in stream])
    epochs = np.repeat([one.delivery.server_epoch for one in stream], [len(one.rows) for one in stream])
    numbered = rows.append_column("index", pa.array(np.arange(len(rows))))
    first = numbered.group_by(list(IDENTITY)).aggregate([("index", "min")])["index_min"].to_numpy()
    first = np.sort(first)
    key_us, epoch = rows["key_us"].to_numpy()[first], epochs[first]
    for index in np.flatnonzero((np.diff(key_us) < 0) & (np.diff(epoch) == 0)).tolist():
        row = rows.slice(first[index + 1], 1).to_pylist()[0]
        yield f"{row}: the key goes back from {key_us[index]} within epoch {epoch[index]}."


def _recovery_s(stream: Sequence[Accepted], over_us: Sequence[int]) -> Iterator[float]:
    """Yield for each fault the time until a row was acknowledged that was committed after it.

    Commits are stamped with whole seconds: only those of the next second are known to come after. A fault
    that nothing was committed after says nothing.
    """
    newest_us = [int(pc.max(one.rows["commit_us"]).as_py() or 0) for one in stream]
    acked = sorted(zip((one.acked_us for one in stream), newest_us, strict=True))
    for since_us in over_us:
        beyond_us = (since_us // _S_US + 1) * _S_US
        until_us = next((at_us for at_us, newest in acked if at_us > since_us and newest >= beyond_us), None)
        if until_us is not None:
            yield (until_us - since_us) / _S_US


def _some(words: Iterable[str]) -> Iterator[str]:
    yield from islice(words, SHOWN_MAX)
