"""Verification: compare what a consumer received with what the writers did and what the servers hold.

The stream to verify is the first occurrence of each `(shard, file, pos, row)` in the order of delivery: what
an at-least-once consumer keeps. Every delivery is checked too: even rows that were rolled back later must
have been delivered completely and in order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from canal_group.programs.demo.delivered import IDENTITY, Delivered, of_transactions
from canal_group.programs.demo.replica import Replica, Rows, compare
from canal_group.programs.demo.written import Record

_Ints: TypeAlias = NDArray[np.int64]
#: (shard, gtid, table, op) -> row changes
_Counts: TypeAlias = Counter[tuple[str, str, str, str]]

#: differences of each kind that are put into words
SHOWN_MAX = 4


@dataclass(frozen=True, slots=True)
class Findings:
    """What is wrong with a stream; see `DemoReport` for what each count means."""

    #: distinct rows that a snapshot has read, and rows that came again
    snapshot_rows: int
    again: int
    #: distinct row changes and statements, and transactions
    rows: int
    transactions: int
    order_violations: int
    split_transactions: int
    missing: int
    duplicates: int
    tables_equal: bool
    #: the first few faults of each kind, for people
    words: tuple[str, ...]


def prove(
    delivered: Delivered, records: Sequence[Record], servers: Rows, replica: Replica | None = None
) -> Findings:
    """Judge what was delivered.

    Args:
        delivered: everything the consumer got.
        records: what the writers committed.
        servers: what the servers hold now, see `replica.read_tables`.
        replica: what it had before, and which snapshots it began with; None: nothing.
    """
    stream = delivered.table()
    codes, first = _codes(stream, IDENTITY)
    accepted = stream.take(pa.array(np.sort(first)))
    changes = of_transactions(accepted)

    backwards = [*_backwards(stream), *_backwards_of_shards(accepted)]
    split = {*_split(stream, _ints(stream, "run")), *_split(accepted, np.zeros(len(accepted), np.int64))}
    twice = _repeated(stream, codes, first, delivered.kept())
    written, came = _written(records), _came(changes)
    missing, unwritten = written - came, came - written
    replica = replica or Replica()
    replica.apply(accepted)
    differences = [*replica.differences, *compare(replica.rows, servers)]

    return Findings(
        snapshot_rows=pc.sum(pc.equal(accepted.column("op"), "READ")).as_py() or 0,
        again=len(stream) - len(accepted),
        rows=len(changes),
        transactions=len(_codes(changes, ("shard", "gtid"))[1]),
        order_violations=len(backwards),
        split_transactions=len(split),
        missing=missing.total(),
        duplicates=len(twice) + unwritten.total(),
        tables_equal=not differences,
        words=(
            *_some(backwards),
            *_some(f"{transaction} is not contiguous." for transaction in sorted(split)),
            *_some(f"{where} was delivered twice." for where in twice),
            *_some(_counted(missing, "written, but not delivered")),
            *_some(_counted(unwritten, "more than was written")),
            *_some(differences),
        ),
    )


def _backwards(stream: pa.Table) -> Iterator[str]:
    """Yield the rows of a run where the key decreases or the number does not grow."""
    key_us, seq = _ints(stream, "key_us"), _ints(stream, "seq")
    same_run = np.diff(_ints(stream, "run")) == 0
    for index in np.flatnonzero(same_run & (np.diff(key_us) < 0)).tolist():
        yield f"{_where(stream, index + 1)}: the key decreases from {key_us[index]} to {key_us[index + 1]}."
    wrong = same_run & (np.diff(key_us) >= 0) & (np.diff(seq) <= 0)
    for index in np.flatnonzero(wrong).tolist():
        yield f"{_where(stream, index + 1)}: the number goes from {seq[index]} to {seq[index + 1]}."


def _backwards_of_shards(accepted: pa.Table) -> Iterator[str]:
    """Yield the rows where a shard's own order is not that of its binlog."""
    for shard in pc.unique(accepted.column("shard")).to_pylist():
        own = accepted.filter(pc.equal(accepted.column("shard"), shard))
        # Files of a binlog are numbered with leading zeros: their names sort.
        order = np.stack([pc.rank(own.column("file"), tiebreaker="dense").to_numpy(), _ints(own, "pos")])
        step = np.diff(order.astype(np.int64))
        rows = np.diff(_ints(own, "row"))
        backwards = (step[0] < 0) | ((step[0] == 0) & ((step[1] < 0) | ((step[1] == 0) & (rows <= 0))))
        for index in np.flatnonzero(backwards).tolist():
            yield f"{_where(own, index + 1)}: comes after {_where(own, index)}."


def _split(stream: pa.Table, run: _Ints) -> set[str]:
    """Return the transactions whose rows do not follow each other within one run; a page is of none."""
    codes, first = _codes(stream, ("shard", "gtid"))
    if not len(codes):
        return set()
    codes = np.where(_ints(stream, "row") < 0, -1, codes)
    # Where a block of rows of one transaction and run begins; one such block a transaction and run is right.
    begins = np.flatnonzero(np.concatenate(([True], (np.diff(codes) != 0) | (np.diff(run) != 0))))
    blocks, counts = np.unique(np.stack([codes[begins], run[begins]]), axis=1, return_counts=True)
    return {
        _transaction(stream, int(first[code]))
        for code in np.unique(blocks[0][(counts > 1) & (blocks[0] >= 0)])
    }


def _repeated(stream: pa.Table, codes: _Ints, first: _Ints, keep: Any) -> list[str]:
    """Return the rows that came again though their batch was not given back, or came again as others."""
    _, kept_first = np.unique(codes[keep], return_index=True)
    again = np.ones(int(keep.sum()), np.bool_)
    again[kept_first] = False
    indexes = set(np.flatnonzero(keep)[again].tolist())
    content, _ = _codes(stream, (*IDENTITY, "gtid", "table", "op", "key", "before", "after"))
    indexes |= set(np.flatnonzero(content != content[first[codes]]).tolist())
    return [_where(stream, index) for index in sorted(indexes)]


def _written(records: Iterable[Record]) -> _Counts:
    counts: _Counts = Counter()
    for record in records:
        for gtid, changes in record.by_gtid():
            for change in changes:
                counts[record.shard, gtid, change.table, change.op] += change.rows
    return counts


def _came(accepted: pa.Table) -> _Counts:
    groups = accepted.group_by(["shard", "gtid", "table", "op"]).aggregate([([], "count_all")])
    names = zip(*(groups.column(name).to_pylist() for name in ("shard", "gtid", "table", "op")), strict=True)
    return Counter(dict(zip(names, groups.column("count_all").to_pylist(), strict=True)))


def _counted(counts: _Counts, what: str) -> Iterator[str]:
    for (shard, gtid, table, op), count in sorted(counts.items()):
        yield f"{shard} {gtid}: {count} {op} of {table} {what}."


def _codes(stream: pa.Table, columns: Sequence[str]) -> tuple[_Ints, _Ints]:
    """Return each row's value of `columns` as a number (n,), and where each value first stands (k,)."""
    texts = [pc.fill_null(stream.column(name).cast(pa.utf8()), "\x02") for name in columns]
    joined = pc.binary_join_element_wise(*texts, "\x03").combine_chunks()
    codes = joined.dictionary_encode().indices.to_numpy().astype(np.int64)
    _, first = np.unique(codes, return_index=True)
    return codes, first


def _ints(stream: pa.Table, name: str) -> _Ints:
    values: _Ints = stream.column(name).to_numpy()
    return values


def _where(stream: pa.Table, index: int) -> str:
    shard, file, pos, row = (stream.column(name)[index].as_py() for name in IDENTITY)
    return f"{shard} {file}:{pos} row {row}"


def _transaction(stream: pa.Table, index: int) -> str:
    return f"{stream.column('shard')[index].as_py()} {stream.column('gtid')[index].as_py()}"


def _some(words: Iterable[str]) -> Iterator[str]:
    yield from islice(words, SHOWN_MAX)
