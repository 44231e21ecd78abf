"""The ids that a shard's headers get from its rows."""

import json

import numpy as np
import pyarrow as pa
import pytest
from support.group.builders import Tx, chunk_of

from canal_group.actors.shard.order_ids import OrderIds
from canal_group.merge.errors import DataError
from canal_group.merge.order.id_timeline import ID_MAX
from canal_group.merge.values.chunk import Chunk, Op, TableName, TableRows, partial_schema, rows_schema

NEW, SET, GONE, READ = Op.INSERT, Op.UPDATE, Op.DELETE, Op.READ
#: an image in which the column is not logged
ABSENT = "absent"


def table_of(*rows, name="shop.orders", kind=None):
    """Return rows (header, op, id before, id after); None is NULL, and no image where there is none."""
    kind = kind or pa.int64()
    schema = rows_schema([pa.field("note", pa.utf8()), pa.field("id", kind)], json.dumps([]).encode())
    values = [[None if v == ABSENT else v for v in column] for column in zip(*rows, strict=True)]
    headers, ops, before, after = values
    image = schema.field("after").type
    images = [
        pa.array([None if op in without else {"id": v} for v, op in zip(ids, ops, strict=True)], image)
        for ids, without in ((before, {NEW, READ}), (after, {GONE}))
    ]
    arrays = [
        pa.array(headers, pa.int32()),
        pa.array(range(len(rows)), pa.int64()),
        pa.array(ops, pa.uint8()),
    ]
    marks = [[bytes([2 if row[bit] == ABSENT else 0]) for row in rows] for bit in (2, 3)]
    if any(mark != b"\0" for side in marks for mark in side):
        schema = partial_schema(schema)
        images += [pa.array(side, pa.binary(1)) for side in marks]
    return TableRows(
        TableName(*name.split(".")), pa.RecordBatch.from_arrays([*arrays, *images], schema=schema)
    )


def ids_of(*tables, headers=3, columns=None):
    chunk = chunk_of(*(Tx(number) for number in range(headers)))
    chunk = Chunk(chunk.headers, chunk.names, tables)
    OrderIds("s0", columns or {r"shop\.orders": "id"}).give(chunk)
    return chunk.headers["order_id"].tolist()


def test_a_header_gets_the_greatest_id_that_its_rows_write():
    assert ids_of(table_of((0, NEW, None, 7), (0, NEW, None, 9), (0, NEW, None, 8), (2, NEW, None, 3))) == [
        9,
        0,
        3,
    ]


def test_rows_that_write_no_new_id_do_not_count():
    table = table_of((0, SET, 7, 7), (0, GONE, 8, None), (1, SET, 7, 9), (2, SET, None, 4))
    assert ids_of(table) == [0, 9, 4]
    assert ids_of(table_of((0, READ, None, 7), (1, NEW, None, 5))) == [0, 5, 0]


def test_null_is_not_an_id():
    assert ids_of(table_of((0, NEW, None, None), (1, SET, 5, None), (1, NEW, None, 6))) == [0, 6, 0]


def test_only_named_tables_count_and_the_first_match_applies():
    tables = table_of((0, NEW, None, 7)), table_of((1, NEW, None, 9), name="shop.items")
    assert ids_of(*tables) == [7, 0, 0]
    assert ids_of(*tables, columns={r"shop\..*": "id"}) == [7, 9, 0]
    with pytest.raises(DataError, match="no column price"):
        ids_of(*tables, columns={r"shop\.orders": "price", r"shop\..*": "id"})


def test_several_runs_of_one_table_count_together():
    assert ids_of(
        table_of((0, NEW, None, 7), (1, NEW, None, 2)), table_of((0, NEW, None, 5), (1, NEW, None, 6))
    ) == [
        7,
        6,
        0,
    ]


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint8(), pa.uint32(), pa.uint64()])
def test_all_integers_are_ids(kind):
    assert ids_of(table_of((0, NEW, None, 7), (1, NEW, None, None), kind=kind)) == [7, 0, 0]


def test_a_column_that_an_update_did_not_log_was_not_written():
    assert ids_of(table_of((0, SET, 7, ABSENT), (1, SET, ABSENT, 9))) == [0, 9, 0]


def test_a_slice_has_the_ids_of_its_rows():
    table = table_of((0, NEW, None, 7), (1, NEW, None, 9), (2, SET, 3, 3))
    assert ids_of(TableRows(table.name, table.rows.slice(1))) == [0, 9, 0]


@pytest.mark.parametrize(
    ("table", "what"),
    [
        (
            table_of((1, NEW, None, "x"), kind=pa.utf8()),
            "column id of shop.orders is not an integer, but string",
        ),
        (
            table_of((0, NEW, None, 5), (1, NEW, None, -3)),
            "id of a row in shop.orders is not an id, which is from 1",
        ),
        (table_of((0, NEW, None, 5), (1, NEW, None, 0)), "is not an id"),
        (table_of((1, NEW, None, ID_MAX + 1), kind=pa.uint64()), "is not an id"),
        (
            table_of((0, NEW, None, 5), (1, NEW, None, ABSENT)),
            "a row is inserted into shop.orders whose id the source",
        ),
    ],
)
def test_what_cannot_order_is_an_error_that_names_the_offset(table, what):
    with pytest.raises(
        DataError, match=rf"Shard s0 cannot be ordered by id at bin.000001:\d+: .*{what}"
    ) as caught:
        ids_of(table)
    assert caught.value.hint
    assert caught.value.details["file"] == "bin.000001"


def test_the_greatest_id_orders():
    assert (
        ids_of(table_of((0, NEW, None, ID_MAX), kind=pa.uint64()))[0] == ID_MAX == np.iinfo(np.int64).max - 1
    )
