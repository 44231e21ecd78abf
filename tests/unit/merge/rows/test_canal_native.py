"""The compiled part of canal's entries, given arrays that do not fit together: they are refused."""

from __future__ import annotations

import random

import numpy as np
import pytest

from canal_group.canal_protocol import entry_pb2
from merge.rows.canal.entries import ENTRY, ROWS, TRANSACTION
from merge.rows.native.canal import Rows, encode

NONE = np.empty(0, np.uint8)


def column(ends, data=b"abcdef", *, head=b"", valid=NONE, wide=NONE, absent=NONE):
    return (head, head, b"", np.array(ends, np.int32), np.frombuffer(data, np.uint8), valid, wide, absent)


def ops(*values):
    return np.array(values, np.uint8)


def test_rows_are_field_12_of_a_row_change():
    rows = Rows([], [column([0, 2, 2, 6], valid=ops(1, 0, 1))], ops(1, 1, 1))
    found = entry_pb2.RowChange.FromString(rows.block[rows.begins[0] :].tobytes())
    assert [[each.value for each in row.afterColumns] for row in found.rowDatas] == [["ab"], [""], ["cdef"]]
    assert [row.afterColumns[0].isNull for row in found.rowDatas] == [False, True, False]


@pytest.mark.parametrize(
    ("before", "after", "changes"),
    [
        ([], [column([0, 2, 7])], ops(1, 1)),  # after the data
        ([], [column([-1, 2, 3])], ops(1, 1)),  # before it
        ([], [column([0, 4, 2])], ops(1, 1)),  # backwards
        ([], [column([0, 2])], ops(1, 1)),  # too few
        ([], [column([0, 1, 2], valid=ops(1))], ops(1, 1)),
        ([], [column([0, 1, 2], wide=ops(1, 0, 0))], ops(1, 1)),
        ([], [column([0, 1, 2], absent=ops(1))], ops(1, 1)),
        ([column([0, 1])], [column([0, 1]), column([0, 1])], ops(2)),  # other columns
        ([], [column([0, 1])], ops(3)),  # no image
        ([column([0, 1])], [], ops(2)),
        ([], [column([0, 1])], ops(0)),
        ([], [column([0, 1])], ops(4)),
    ],
)
def test_columns_that_do_not_fit_are_refused(before, after, changes):
    with pytest.raises(ValueError, match=r"a |an |images"):
        Rows(before, after, changes)


def said(**changed):
    transaction, entry = np.zeros(1, TRANSACTION), np.zeros(1, ENTRY)
    entry["kind"], entry["count"], entry["event"] = ROWS, 1, 1
    for name, value in changed.items():
        (transaction if name in TRANSACTION.names else entry)[name] = value
    return entry, transaction


def encoded(entry, transaction, ends=(0, 2), pieces=None, prefixes=(b"",)):
    rows = [Rows([], [column([0, 2])], ops(1))] if pieces is None else pieces
    gtid_ends, gtids = np.array(ends, np.int32), np.frombuffer(b"0-", np.uint8)
    return encode(entry, transaction, [b"f"], [b"s"], gtid_ends, gtids, rows, prefixes, 0)


@pytest.mark.parametrize(
    "changed",
    [
        {name: value}
        for name in ("rank", "piece", "first", "file", "shard")
        for value in (-1, 1, 1 << 62, -(1 << 62))
    ]
    + [{"kind": 0}, {"kind": 4}, {"count": 2}, {"count": 1 << 62}, {"row": -1}],
)
def test_entries_of_what_is_not_there_are_refused(changed):
    encoded(*said())
    with pytest.raises(ValueError, match=r"an entry|a transaction"):
        encoded(*said(**changed))


@pytest.mark.parametrize("ends", [(0, 3), (-1, 2), (2, 0), (0, 1, 2), (0,)])
def test_gtids_that_are_not_there_are_refused(ends):
    with pytest.raises(ValueError, match="a GTID"):
        encoded(*said(), ends=ends)


def test_pieces_without_their_tables_are_refused():
    with pytest.raises(ValueError, match="without the name"):
        encoded(*said(), prefixes=())


def test_the_longest_numbers_fit():
    entry, transaction = said(row=(1 << 63) - 1, event=3)
    for name in ("begin_offset", "millis", "server_id"):
        transaction[name] = -1
    transaction["end_offset"] = 1 << 62
    block, begins = encoded(entry, transaction)
    found = entry_pb2.Entry.FromString(block[begins[0] : begins[1]].tobytes())
    assert (found.header.logfileOffset, found.header.executeTime) == (-1, -1)


def test_random_arrays_are_encoded_or_refused():
    chance, refused = random.Random(7), 0
    for _ in range(3_000):
        rows = chance.randint(0, 4)
        columns = [
            column(
                sorted(chance.randint(-1 if chance.random() < 0.05 else 0, 7) for _ in range(rows + 1))
                if chance.random() < 0.9
                else [chance.randint(-9, 9) for _ in range(chance.randint(1, 6))],
                head=chance.randbytes(chance.randint(0, 9)),
                valid=ops(*(chance.randint(0, 1) for _ in range(chance.choice((0, rows, rows + 1))))),
            )
            for _ in range(chance.randint(0, 3))
        ]
        changes = ops(*(chance.randint(0 if chance.random() < 0.1 else 1, 3) for _ in range(rows)))
        try:
            found = Rows(columns, columns[: chance.randint(0, 3)], changes)
        except ValueError:
            refused += 1
        else:
            assert (np.diff(found.begins) > 0).all()
    assert 500 < refused < 3_000
