"""Rows of a page in Arrow: what the stream touched, what is laid over them, and their keys for the server."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from canal_group.merge.errors import DataError
from canal_group.merge.snapshot.table_key import TableKey
from canal_group.merge.snapshot.table_rows import placed, touched_by
from canal_group.merge.values.chunk import Op, partial_schema, rows_schema

STATE = pa.dictionary(pa.int32(), pa.utf8())
COLUMNS = [pa.field("id", pa.int64()), pa.field("name", pa.utf8()), pa.field("state", STATE)]
IMAGE = pa.struct(COLUMNS)
KEY = TableKey(("id",), (pa.int64(),))
INSERT, UPDATE, DELETE = Op.INSERT, Op.UPDATE, Op.DELETE
PAGE = [{"id": n, "name": f"n{n}", "state": "new"} for n in range(1, 6)]


def images(rows):
    ids, names, states = ([row and row.get(f.name) for row in rows] for f in COLUMNS)
    state = pa.array(states, pa.utf8()).dictionary_encode().cast(STATE)
    arrays = [pa.array(ids, pa.int64()), pa.array(names, pa.utf8()), state]
    return pa.StructArray.from_arrays(arrays, fields=COLUMNS, mask=pa.array([row is None for row in rows]))


def batch(*changes):
    """Return a record batch of (op, before, after); columns that a dict lacks are absent from its image."""
    sides = [[change[side] for change in changes] for side in (1, 2)]
    schema = rows_schema(COLUMNS, b'["id"]')
    ops = pa.array([change[0] for change in changes], pa.uint8())
    numbers = range(len(changes))
    arrays = [pa.array(numbers, pa.int32()), pa.array(numbers, pa.int64()), ops, *map(images, sides)]
    if all(row is None or len(row) == len(COLUMNS) for side in sides for row in side):
        return pa.RecordBatch.from_arrays(arrays, schema=schema)
    for side in sides:
        bits = [sum((f.name not in (row or PAGE[0])) << i for i, f in enumerate(COLUMNS)) for row in side]
        arrays.append(pa.array([bytes([each]) for each in bits], pa.binary(1)))
    return pa.RecordBatch.from_arrays(arrays, schema=partial_schema(schema))


def page():
    return pa.RecordBatch.from_struct_array(images(PAGE))


def result(*batches, computed=frozenset()):
    rows, again = placed(page(), KEY, touched_by(batches, KEY, computed))
    return sorted(rows.to_pylist(), key=lambda row: row["id"]), again


def whole(number, name="x"):
    return {"id": number, "name": name, "state": "old"}


def test_rows_in_whole_images_are_dropped():
    changes = [(INSERT, None, whole(1)), (DELETE, whole(2), None), (UPDATE, whole(3), whole(9))]
    assert result(batch(*changes)) == (PAGE[3:], ())


def test_images_that_lack_columns_are_laid_over_rows_in_order():
    rows, again = result(
        batch((UPDATE, {"id": 2}, {"id": 2, "name": "a"})),
        batch((UPDATE, {"id": 4}, {"id": 4, "state": "old"}), (UPDATE, {"id": 2}, {"id": 2, "name": "b"})),
    )
    assert rows[1] == {"id": 2, "name": "b", "state": "new"}
    assert rows[3] == {"id": 4, "name": "n4", "state": "old"}
    assert len(rows) == len(PAGE)
    assert not again


def test_a_whole_image_counts_more_than_one_that_lacks_columns():
    changes = [(UPDATE, {"id": 2}, {"id": 2, "name": "a"}), (UPDATE, whole(2), whole(2))]
    assert result(batch(*changes)) == ([PAGE[0], *PAGE[2:]], ())


def test_rows_in_whole_images_are_dropped_beside_those_that_lack_columns():
    changes = [
        (UPDATE, {"id": 5}, {"id": 5, "name": "x"}),
        (UPDATE, whole(9), whole(1)),
        (INSERT, None, whole(2)),
    ]
    rows, again = result(batch(*changes))
    assert rows == [*PAGE[2:4], {**PAGE[4], "name": "x"}]
    assert not again


def test_a_row_with_other_columns_than_its_image_is_read_again():
    touched = touched_by([batch((UPDATE, {"id": 2}, {"id": 2, "name": "a"}))], KEY, frozenset())
    rows, again = placed(page().append_column("added", pa.array(range(5))), KEY, touched)
    assert rows.column("id").to_pylist() == [1, 3, 4, 5]
    assert again == (("2",),)


def test_a_row_without_its_computed_column_is_read_again():
    change = batch((UPDATE, {"id": 2}, {"id": 2, "state": "old"}))
    assert result(change, computed=frozenset({"name"})) == ([PAGE[0], *PAGE[2:]], (("2",),))


def test_a_row_that_moved_by_an_image_that_lacks_columns_is_known():
    touched = touched_by([batch((UPDATE, {"id": 2}, {"id": 8}))], KEY, frozenset())
    assert touched.moved == {(8,)}
    assert placed(page(), KEY, touched).rows.column("id").to_pylist() == [1, 3, 4, 5]


def test_an_image_without_the_key_is_refused():
    with pytest.raises(DataError, match="lacks a column of the key"):
        touched_by([batch((UPDATE, {"name": "n1"}, {"id": 1, "name": "x"}))], KEY, frozenset())


@pytest.mark.parametrize(
    ("kind", "value", "literal"),
    [
        (pa.uint64(), 2**64 - 1, "18446744073709551615"),
        (pa.utf8(), "a,'\0ÿ", "_utf8mb4 X'612c2700c3bf'"),
        (pa.binary(), b"\xff\0", "X'ff00'"),
        (pa.float32(), 5592405.5, "5592405.5e0"),
        (pa.decimal256(65, 2), Decimal("-12.50"), "-12.50"),
        (pa.date32(), dt.date(2026, 11, 26), "'2026-11-26'"),
        (pa.timestamp("us"), dt.datetime(2026, 1, 2, 3, 4, 5, 6), "'2026-01-02 03:04:05.000006'"),  # noqa: DTZ001
        (pa.duration("us"), dt.timedelta(hours=-100, microseconds=-5), "'-100:00:00.000005'"),
        (STATE, "new", "0"),
    ],
)
def test_a_row_is_asked_for_by_its_literal(kind, value, literal):
    plain = pa.array([value], kind.value_type if pa.types.is_dictionary(kind) else kind)
    column = plain.dictionary_encode() if pa.types.is_dictionary(kind) else plain
    key = TableKey(("k",), (kind,))
    (found,) = key.of([column], 1)
    assert key.for_server(found) == (literal,)
    # Among keys of a column that was altered meanwhile, too.
    assert key.among([column], {found, ("other",), (-1,)}) == {found: 0}
    assert key.among([column], {("other",), (-1,)}) == {}


def test_rows_with_some_keys_are_found():
    key = TableKey(("a", "b"), (pa.int64(), pa.utf8()))
    columns = [pa.array([1, 1, 2, 3], pa.int64()), pa.array(["x", "y", "x", "y"])]
    assert key.among(columns, {(1, "y"), (2, "x"), (2, "y"), (9, "x")}) == {(1, "y"): 1, (2, "x"): 2}
    zero = TableKey(("k",), (pa.float64(),))
    assert zero.among([pa.array([1.0, -0.0])], {(0.0,)}) == {(0.0,): 1}
