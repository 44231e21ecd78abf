"""Columns that images do not say: what becomes of them in both formats."""

from __future__ import annotations

import pyarrow as pa
import pytest
from support.rows.batch_rows import batch, column, headers, one_shard
from support.rows.partial_batch import BATCH, CHANGES, COLUMNS, ORDERS, partial_table

from canal_group.merge.rows.assemble import ShardRows, ShardTable
from canal_group.merge.rows.envelope import ENVELOPE, envelope
from canal_group.merge.rows.typed import TYPED, typed
from canal_group.merge.values.chunk import Op, rows_schema
from canal_group.merge.values.rows.absent import absent_in, absent_names


def test_a_record_batch_tells_what_is_absent_as_a_table_does():
    rows = partial_table(CHANGES).rows
    (record_batch,) = rows.to_batches()
    for image in ("before", "after"):
        assert absent_in(record_batch, image).tolist() == absent_in(rows, image).tolist()


def test_typed_marks_what_is_absent():
    result = typed(BATCH, ORDERS, before=True)
    result.validate(full=True)
    assert result.schema.names == ["id", "a", "b", *TYPED.names, "_before", "_before_absent"]
    assert [result.column(name).to_pylist() for name in ("id", "a", "b")] == [
        [1, 1, 2, 2],
        [None, None, 1, None],
        [None, 5, 6, None],
    ]
    assert result.column("_absent").to_pylist() == [["b"], ["a"], None, ["a", "b"]]
    assert result.column("_before_absent").to_pylist() == [None, ["a", "b"], None, ["a", "b"]]
    assert result.column("_before").to_pylist()[1] == {"id": 1, "a": None, "b": None}


def test_an_envelope_has_only_what_is_known():
    result = envelope(BATCH)
    assert result.schema == ENVELOPE
    result.validate(full=True)
    assert result.column("before").to_pylist() == [
        None,
        [("id", "1")],
        [("id", "1"), ("a", "1"), ("b", "5")],
        [("id", "2")],
    ]
    assert result.column("after").to_pylist() == [
        [("id", "1"), ("a", None)],
        [("id", "1"), ("b", "5")],
        [("id", "2"), ("a", "1"), ("b", "6")],
        None,
    ]
    assert result.column("key").to_pylist() == [[("id", "1")], [("id", "1")], [("id", "2")], [("id", "2")]]


def test_a_key_that_is_not_known_is_not_in_the_envelopes():
    rows = partial_table([(0, Op.INSERT, None, {"a": 1})], key=("id", "a"))
    assert envelope(one_shard(rows)).column("key").to_pylist() == [[("a", "1")]]


def test_rows_with_and_without_marks_are_one_table():
    """A chunk's partial rows, and whole ones of another chunk and schema version."""
    columns = [*COLUMNS, column("new", pa.int32())]
    schema = rows_schema(columns, b'["id"]').set(0, pa.field("_sequence", pa.int64()))
    whole = {
        "_sequence": 1,
        "_row": 0,
        "_op": 1,
        "before": None,
        "after": {"id": 9, "a": 9, "b": 9, "new": 9},
    }
    tables = (partial_table(CHANGES[:1]), ShardTable(ORDERS, pa.Table.from_pylist([whole], schema=schema)))
    mixed = batch(headers({}, {"sequence": 1}), ShardRows(tables))
    result = typed(mixed, ORDERS)
    assert result.column("_absent").to_pylist() == [["b"], None]
    assert [len(image) for image in envelope(mixed).column("after").to_pylist()] == [2, 4]


@pytest.mark.parametrize("columns", [1, 7, 8, 9, 17])
def test_bitmaps_of_slices_and_chunks(columns):
    """Whatever the number of columns, and where in its buffers a table begins."""
    kinds = [column(f"c{at}", pa.int32()) for at in range(columns)]
    rows = [{f"c{at}": at for at in range(columns) if at % 3 != nth} for nth in range(3)]
    table = partial_table([(0, Op.INSERT, None, row) for row in rows], kinds, key=()).rows
    whole = pa.concat_tables([table, table])
    for part, nths in ((whole.slice(1, 4), (1, 2, 0, 1)), (whole.combine_chunks().slice(2, 2), (2, 0))):
        names = absent_names(absent_in(part, "after"), [each.name for each in kinds], len(part)).to_pylist()
        assert names == [[f"c{at}" for at in range(nth, columns, 3)] or None for nth in nths]
        assert absent_in(part, "before") is None
