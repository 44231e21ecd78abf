"""The compiled part of canal's entries, and columns that do not fit together: they are refused."""

from __future__ import annotations

import random
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from canal_group.canal_protocol import entry_pb2
from canal_group.merge.rows.canal.entries import ENTRY, ROWS, TRANSACTION
from canal_group.merge.rows.canal.wire import varint
from canal_group.merge.rows.native.canal import Rows, encode
from canal_group.merge.rows.text import values_of

NONE = np.empty(0, np.uint8)


def column(texts, *, head=b"", number_max=None, absent=NONE, kind=None):
    array = pa.array(texts, kind or pa.utf8())
    return (head, head + b"wide", b"", values_of(array, ""), number_max, absent)


def ops(*values):
    return np.array(values, np.uint8)


def row_changes(rows):
    return entry_pb2.RowChange.FromString(rows.block[rows.begins[0] :].tobytes()).rowDatas


def test_rows_are_field_12_of_a_row_change():
    changes = row_changes(Rows([], [column(["ab", None, "cdef"])], ops(1, 1, 1)))
    assert [[each.value for each in row.afterColumns] for row in changes] == [["ab"], [""], ["cdef"]]
    assert [row.afterColumns[0].isNull for row in changes] == [False, True, False]


@pytest.mark.parametrize("size", [0, 1, 31, 32, 33, 64, 127, 128, 16_384])
def test_constant_bytes_of_any_size_are_written(size):
    # Field 3 is the column's name, field 10 its type.
    named, typed = (bytes([field << 3 | 2]) + varint(size) + b"n" * size for field in (3, 10))
    _, _, _, *rest = column(["ab", None])
    changes = row_changes(Rows([], [(named, b"", typed, *rest)] * 2, ops(1, 1)))
    for row, value in zip(changes, ("ab", ""), strict=True):
        for each in row.afterColumns:
            assert (each.name, each.value, each.mysqlType) == ("n" * size, value, "n" * size)


@pytest.mark.parametrize(
    ("kind", "was", "now", "updated"),
    [
        (pa.utf8(), "a", "a", False),
        (pa.utf8(), "a", "b", True),
        (pa.utf8(), "a", "ab", True),
        (pa.utf8(), "", None, True),
        (pa.utf8(), None, None, False),
        (pa.binary(), b"\xe9", b"\xe9", False),
        (pa.binary(), b"\xe9", b"\xe8", True),
        (pa.int8(), -1, -1, False),
        (pa.uint64(), 1, 2, True),
        (pa.float64(), 0.0, -0.0, True),  # MySQL prints them otherwise
        (pa.float64(), float("nan"), -float("nan"), False),
        (pa.decimal128(9, 2), Decimal("1.50"), Decimal("1.51"), True),
        (pa.decimal256(65, 30), Decimal("-1E-30"), Decimal("1E-30"), True),
        (pa.decimal256(65, 30), Decimal("1E-30"), Decimal("1E-30"), False),
        (pa.duration("us"), 1, 2, False),  # of a column without a fraction
        (pa.timestamp("us"), 1, 1_000_000, True),
        (pa.dictionary(pa.int32(), pa.utf8()), "a", "b", True),
        (pa.dictionary(pa.int32(), pa.utf8()), "a", "a", False),
    ],
)
def test_a_column_is_updated_if_its_text_is_another_one(kind, was, now, updated):
    sides = [
        [(b"", b"", b"", values_of(pa.array([value], kind), "time"), None, NONE)] for value in (was, now)
    ]
    (change,) = row_changes(Rows(*sides, ops(2)))
    assert change.afterColumns[0].updated is updated


@pytest.mark.parametrize("value", [0, 127, 128, 255, None])
def test_a_number_above_the_limit_has_the_wider_head(value):
    rows = Rows([], [column([value], number_max=127, kind=pa.uint8())], ops(1))
    assert (b"wide" in rows.block.tobytes()[rows.begins[0] :]) is (value is not None and value > 127)


@pytest.mark.parametrize(
    ("before", "after", "changes"),
    [
        ([], [column(["a"])], ops(1, 1)),  # too few
        ([], [column(["a", "b"], absent=ops(1))], ops(1, 1)),
        ([column(["a"])], [column(["a"]), column(["b"])], ops(2)),  # other columns
        ([column(["a"])], [column([1], kind=pa.int8())], ops(2)),
        ([column([1], kind=pa.int16())], [column([1], kind=pa.int8())], ops(2)),
        ([], [column(["a"])], ops(3)),  # no image
        ([column(["a"])], [], ops(2)),
        ([], [column(["a"])], ops(0)),
        ([], [column(["a"])], ops(4)),
    ],
)
def test_columns_that_do_not_fit_are_refused(before, after, changes):
    with pytest.raises(ValueError, match=r"a |an |images"):
        Rows(before, after, changes)


def arguments(**changed):
    transaction, entry = np.zeros(1, TRANSACTION), np.zeros(1, ENTRY)
    entry["kind"], entry["count"], entry["event"] = ROWS, 1, 1
    for name, value in changed.items():
        (transaction if name in TRANSACTION.names else entry)[name] = value
    return entry, transaction


def encoded(entry, transaction, ends=(0, 2), pieces=None, prefixes=(b"",)):
    rows = [Rows([], [column(["ab"])], ops(1))] if pieces is None else pieces
    gtid_ends, gtids = np.array(ends, np.int32), np.frombuffer(b"0-", np.uint8)
    return encode(entry, transaction, [b"f"], [b"s"], gtid_ends, gtids, rows, prefixes, 0)


@pytest.mark.parametrize(
    "changed",
    [
        {name: value}
        for name in ("rank", "piece", "first", "file", "shard")
        for value in (-1, 1, 1 << 62, -(1 << 62))
    ]
    + [{"kind": 0}, {"kind": 4}, {"count": 2}, {"count": 1 << 62}],
)
def test_entries_of_what_is_not_there_are_refused(changed):
    encoded(*arguments())
    with pytest.raises(ValueError, match=r"an invalid entry|an entry|a transaction"):
        encoded(*arguments(**changed))


@pytest.mark.parametrize("ends", [(0, 3), (-1, 2), (2, 0), (0, 1, 2), (0,)])
def test_gtids_that_are_not_there_are_refused(ends):
    with pytest.raises(ValueError, match="a GTID"):
        encoded(*arguments(), ends=ends)


def test_pieces_without_their_tables_are_refused():
    with pytest.raises(ValueError, match="without the name"):
        encoded(*arguments(), prefixes=())


@pytest.mark.parametrize("row", [(1 << 63) - 1, 0, -1, -(1 << 40), -(1 << 63)])
def test_the_longest_numbers_fit(row):
    """Ordinals below 0 are those of rows of a snapshot."""
    entry, transaction = arguments(row=row, event=3)
    for name in ("begin_offset", "millis", "server_id"):
        transaction[name] = -1
    transaction["end_offset"] = 1 << 62
    block, begins = encoded(entry, transaction)
    message = entry_pb2.Entry.FromString(block[begins[0] : begins[1]].tobytes())
    assert (message.header.logfileOffset, message.header.executeTime) == (-1, -1)
    assert [each.value for each in message.header.props if each.key == "row"] == [str(row)]


def test_random_columns_are_encoded_or_refused():
    chance, refused = random.Random(7), 0
    for _ in range(2_000):
        rows = chance.randint(0, 4)
        columns = [
            column(
                [chance.choice((None, "", "a", "é" * 40)) for _ in range(rows + (chance.random() < 0.1))],
                head=chance.randbytes(chance.randint(0, 70)),
                absent=ops(*(chance.randint(0, 1) for _ in range(chance.choice((0, 0, rows, rows + 1))))),
            )
            for _ in range(chance.randint(0, 3))
        ]
        changes = ops(*(chance.randint(0 if chance.random() < 0.1 else 1, 3) for _ in range(rows)))
        try:
            encoded_rows = Rows(columns, columns[: chance.randint(0, 3)], changes)
        except ValueError:
            refused += 1
        else:
            assert (np.diff(encoded_rows.begins) > 0).all()
    assert 300 < refused < 2_000
