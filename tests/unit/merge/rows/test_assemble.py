"""Batches of two shards, spelled out: what typed and envelope make of them."""

from decimal import Decimal

import pyarrow as pa
import pytest
from support.ddl.statement_rows import statement_row
from support.rows.batch_rows import UUID, batch, column, headers, one_shard, table

from canal_group.merge.errors import SchemaMismatch
from canal_group.merge.rows.assemble import BatchRows, RowNumbers, ShardRows, ShardTable
from canal_group.merge.rows.envelope import ENVELOPE, envelope
from canal_group.merge.rows.typed import TYPED, typed
from canal_group.merge.values.chunk import MYSQL_TYPE, PRIMARY_KEY, STATEMENTS, Op, TableName
from canal_group.merge.values.header import WHOLE, Flag, no_headers

ORDERS, ITEMS = TableName("shop", "orders"), TableName("shop", "items")


ORDERS_COLUMNS = [column("id", pa.int64(), "bigint"), column("total", pa.decimal128(10, 2), "decimal(10,2)")]


def statements(*rows):
    schema = STATEMENTS.set(0, pa.field("_sequence", pa.int64()))
    return pa.Table.from_pylist([statement_row(*one, at="_sequence") for one in rows], schema=schema)


NORTH = ShardRows(
    (
        table(
            ORDERS,
            ORDERS_COLUMNS,
            [
                (7, 0, Op.INSERT, None, {"id": 1, "total": Decimal("9.50")}),
                (7, 2, Op.UPDATE, {"id": 1, "total": Decimal("9.50")}, {"id": 2, "total": None}),
                (9, 3, Op.DELETE, {"id": 2, "total": None}, None),
            ],
        ),
        table(
            ITEMS, [column("name", pa.utf8(), "varchar(9)")], [(7, 1, Op.INSERT, None, {"name": "x"})], key=()
        ),
    ),
    statements((8, 0, "shop", "orders", "ALTER", "alter table orders add x int")),
)
SOUTH = ShardRows((table(ORDERS, ORDERS_COLUMNS, [(0, 1, Op.INSERT, None, {"id": 5, "total": Decimal(1)})]),))
#: north's 7 with three changes; south's 0 with two of which the sink dropped one; north's 8, a statement;
#: north's 9, the second fragment of a transaction
ORDER = headers(
    {"shard": 0, "sequence": 7, "row_end": 3, "commit_us": 10, "key_us": 10, "begin_offset": 4,
     "gtid_source": 1, "gtid_number": 41},
    {"shard": 1, "sequence": 0, "row_end": 2, "commit_us": 12, "key_us": 20, "file": 2, "begin_offset": 900,
     "gtid_source": 3, "gtid_number": 5, "flags": WHOLE | Flag.LATE},
    {"shard": 0, "sequence": 8, "commit_us": 30, "key_us": 30, "begin_offset": 50, "flags": WHOLE | Flag.DDL,
     "gtid_source": 4, "gtid_number": 1},
    {"shard": 0, "sequence": 9, "commit_us": 31, "key_us": 31, "row_begin": 3, "row_end": 4,
     "begin_offset": 60, "flags": Flag.END},
)  # fmt: skip
BATCH = batch(ORDER, NORTH, SOUTH)


def test_typed_is_one_table_in_merged_order():
    result = typed(BATCH, ORDERS)
    assert result.to_pydict() == {
        "id": [1, 2, 5, 2],
        "total": [Decimal("9.50"), None, Decimal("1.00"), None],
        "_op": ["INSERT", "UPDATE", "INSERT", "DELETE"],
        "_shard": ["north", "north", "south", "north"],
        "_seq": [100, 102, 104, 106],
        "_commit_us": [10, 10, 12, 31],
        "_key_us": [10, 10, 20, 31],
        "_late": [False, False, True, False],
        "_gtid": [f"{UUID}:41", f"{UUID}:41", "0-2-5", ""],
        "_file": ["bin.000001", "bin.000001", "mysql-bin.000007", "bin.000001"],
        "_pos": [4, 4, 900, 60],
        "_row": [0, 2, 1, 3],
        "_absent": [None] * 4,
    }
    assert result.schema.field("total").metadata == {MYSQL_TYPE: b"decimal(10,2)"}
    assert result.schema.metadata == {PRIMARY_KEY: b'["id"]'}
    assert result.schema.equals(pa.schema([*ORDERS_COLUMNS, *TYPED]))


def test_typed_brings_the_image_before_on_request():
    result = typed(BATCH, ORDERS, before=True)
    assert result.column("_before").to_pylist() == [
        None, {"id": 1, "total": Decimal("9.50")}, None, {"id": 2, "total": None},
    ]  # fmt: skip
    assert result.column("_before_absent").to_pylist() == [None] * 4
    assert result.drop_columns(["_before", "_before_absent"]).equals(typed(BATCH, ORDERS))


def test_typed_brings_the_image_before_only_if_a_row_is_an_update():
    assert typed(BATCH, ORDERS, before="updates").equals(typed(BATCH, ORDERS, before=True))
    gone = {"id": 1, "total": None}
    changes = [(0, 0, Op.INSERT, None, gone), (0, 1, Op.DELETE, gone, None)]
    without = one_shard(table(ORDERS, ORDERS_COLUMNS, changes), rows=2)
    assert typed(without, ORDERS, before="updates").equals(typed(without, ORDERS))


def test_typed_brings_chosen_columns_only():
    result = typed(BATCH, ORDERS, columns=["total", "speed"], added=["_shard"])
    assert result.schema.names == ["total", "_op", "_shard", "_seq"]
    assert result.equals(typed(BATCH, ORDERS).select(result.schema.names))
    assert typed(BATCH, ORDERS, columns=[], added=[]).schema.names == ["_op", "_seq"]


def test_envelope_is_everything_in_merged_order():
    result = envelope(BATCH)
    assert result.schema == ENVELOPE
    result.validate(full=True)
    columns = result.to_pydict()
    first, changed = [("id", "1"), ("total", "9.50")], [("id", "2"), ("total", None)]
    assert columns == {
        "seq": [100, 101, 102, 104, 105, 106],
        "shard": ["north", "north", "north", "south", "north", "north"],
        "schema": ["shop"] * 6,
        "table": ["orders", "items", "orders", "orders", "orders", "orders"],
        "op": ["INSERT", "INSERT", "UPDATE", "INSERT", "ALTER", "DELETE"],
        "commit_us": [10, 10, 10, 12, 30, 31],
        "key_us": [10, 10, 10, 20, 30, 31],
        "late": [False, False, False, True, False, False],
        "gtid": [f"{UUID}:41"] * 3 + ["0-2-5", f"{UUID}:tag:1", ""],
        "file": ["bin.000001"] * 3 + ["mysql-bin.000007", "bin.000001", "bin.000001"],
        "pos": [4, 4, 4, 900, 50, 60],
        "row": [0, 1, 2, 1, 0, 3],
        "key": [[("id", "1")], [], [("id", "2")], [("id", "5")], [], [("id", "2")]],
        "before": [None, None, first, None, None, changed],
        "after": [first, [("name", "x")], changed, [("id", "5"), ("total", "1.00")], None, None],
        "sql": [None, None, None, None, "alter table orders add x int", None],
        "ddl_schema": [None, None, None, None, "shop", None],
        "tables": [None] * 4 + [[{"schema": "shop", "table": "orders", "role": "", "kept": True}], None],
    }


def test_an_update_that_changes_the_key_shows_both():
    change = (0, 0, Op.UPDATE, {"id": 1, "total": None}, {"id": 2, "total": None})
    row = envelope(one_shard(table(ORDERS, ORDERS_COLUMNS, [change], key=("id",)))).to_pylist()[0]
    assert row["key"] == [("id", "2")]
    assert row["before"][0] == ("id", "1")


def test_a_key_of_two_columns_keeps_its_order():
    columns = [column("a", pa.int32()), column("b", pa.int32()), column("c", pa.int32())]
    change = (0, 0, Op.DELETE, {"a": 1, "b": 2, "c": 3}, None)
    result = envelope(one_shard(table(ORDERS, columns, [change], key=("c", "a"))))
    assert result.column("key").to_pylist() == [[("c", "3"), ("a", "1")]]


@pytest.mark.parametrize("shards", [(), (ShardRows(),), (ShardRows(), ShardRows())])
def test_a_batch_with_nothing(shards):
    nothing = batch(no_headers(), *shards)
    assert typed(nothing, ORDERS).schema == TYPED
    assert typed(nothing, ORDERS).num_rows == 0
    assert typed(nothing, ORDERS, before=True).schema.names == [*TYPED.names, "_before", "_before_absent"]
    assert envelope(nothing).schema == ENVELOPE
    assert envelope(nothing).num_rows == 0


def test_a_table_without_rows_keeps_its_columns():
    empty = one_shard(table(ORDERS, ORDERS_COLUMNS, []))
    assert typed(empty, ORDERS).schema.equals(pa.schema([*ORDERS_COLUMNS, *TYPED]))
    assert typed(empty, ORDERS, before=True).schema.field("_before").type == pa.struct(ORDERS_COLUMNS)
    assert typed(empty, ITEMS).schema == TYPED
    assert envelope(empty).num_rows == 0


def test_a_transaction_without_rows_takes_no_number():
    order = headers({"sequence": 3, "row_end": 0}, {"sequence": 4})
    rows = table(ORDERS, ORDERS_COLUMNS, [(4, 0, Op.INSERT, None, {"id": 1, "total": None})])
    assert typed(batch(order, ShardRows((rows,))), ORDERS).column("_seq").to_pylist() == [100]


def test_rows_without_their_header_are_refused():
    for sequence in (-1, 1):
        rows = table(ORDERS, ORDERS_COLUMNS, [(sequence, 0, Op.INSERT, None, {"id": 1, "total": None})])
        with pytest.raises(AssertionError, match="without its header"):
            typed(one_shard(rows), ORDERS)


def test_a_gap_in_a_shards_sequences_is_refused():
    with pytest.raises(AssertionError, match="gap"):
        RowNumbers(batch(headers({"sequence": 1}, {"sequence": 3}), ShardRows()))


def versions(*column_lists, values):
    """One row for each version of a table, in this order."""
    order = headers(*({"sequence": index} for index in range(len(column_lists))))
    tables = [
        table(ORDERS, columns, [(index, 0, Op.INSERT, None, row)])
        for index, (columns, row) in enumerate(zip(column_lists, values, strict=True))
    ]
    return batch(order, ShardRows(tuple(tables)))


def test_columns_stand_in_the_newest_order_then_those_only_older_rows_have():
    both = versions(
        [column("id", pa.int64()), column("gone", pa.utf8(), "text"), column("name", pa.utf8())],
        [column("name", pa.utf8(), "varchar(5)"), column("new", pa.int8()), column("id", pa.int64())],
        values=[{"id": 1, "gone": "g", "name": "a"}, {"name": "b", "new": 7, "id": 2}],
    )
    result = typed(both, ORDERS, before=True)
    assert result.schema.names[:4] == ["name", "new", "id", "gone"]
    assert result.select([0, 1, 2, 3]).to_pylist() == [
        {"name": "a", "new": None, "id": 1, "gone": "g"},
        {"name": "b", "new": 7, "id": 2, "gone": None},
    ]
    assert result.schema.field("name").metadata == {MYSQL_TYPE: b"varchar(5)"}
    assert [row["after"] for row in envelope(both).to_pylist()] == [
        [("id", "1"), ("gone", "g"), ("name", "a")],
        [("name", "b"), ("new", "7"), ("id", "2")],
    ]


def test_the_newest_version_is_the_one_of_the_last_row():
    """North's two rows stand before and after south's one."""
    one = {"id": 1, "old": 1}
    north = table(
        ORDERS,
        [column("old", pa.int8()), column("id", pa.int64())],
        [(0, 0, Op.INSERT, None, one), (1, 0, Op.INSERT, None, one)],
    )
    south = table(
        ORDERS, [column("id", pa.int64()), column("old", pa.int8())], [(0, 0, Op.INSERT, None, one)]
    )
    order = headers({"sequence": 0}, {"shard": 1, "sequence": 0}, {"sequence": 1})
    result = typed(batch(order, ShardRows((north,)), ShardRows((south,))), ORDERS)
    assert result.schema.names[:2] == ["old", "id"]


def test_a_source_without_gtids_may_name_nothing_but_its_file():
    rows = table(ORDERS, ORDERS_COLUMNS, [(0, 0, Op.INSERT, None, {"id": 1, "total": None})])
    nameless = BatchRows(headers({}), (ShardRows((rows,)),), ("north",), ("bin.000001",), 0)
    assert envelope(nameless).select(["gtid", "file"]).to_pylist() == [{"gtid": "", "file": "bin.000001"}]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("one", "two", "together", "values"),
    [
        (pa.int32(), pa.int64(), pa.int64(), [1, 2**40]),
        (pa.int32(), pa.uint32(), pa.int64(), [-1, 2**32 - 1]),
        (pa.int64(), pa.uint64(), pa.decimal128(20, 0), [-1, 2**64 - 1]),
        (pa.decimal128(10, 2), pa.decimal128(12, 4), pa.decimal128(12, 4), [Decimal(1), Decimal("0.0001")]),
        (pa.float32(), pa.float64(), pa.float64(), [0.5, 0.1]),
        (pa.utf8(), pa.dictionary(pa.int32(), pa.utf8()), pa.utf8(), ["a", "b"]),
        (pa.dictionary(pa.int8(), pa.utf8()), pa.dictionary(pa.int32(), pa.utf8()),
         pa.dictionary(pa.int32(), pa.utf8()), ["a", "b"]),
        (pa.dictionary(pa.int32(), pa.utf8()), pa.dictionary(pa.int32(), pa.utf8()),
         pa.dictionary(pa.int32(), pa.utf8()), ["a", "b"]),
    ],
)  # fmt: skip
def test_types_that_differ_are_widened(one, two, together, values, reverse):
    kinds = [one, two]
    if reverse:
        kinds, values = kinds[::-1], values[::-1]
    both = versions(*([column("x", kind)] for kind in kinds), values=[{"x": value} for value in values])
    result = typed(both, ORDERS, before=True)
    result.validate(full=True)
    assert result.schema.field("x").type == together
    assert result.column("x").to_pylist() == values


@pytest.mark.parametrize(
    ("one", "two", "values"),
    [
        (pa.int32(), pa.utf8(), [1, "a"]),
        (pa.timestamp("us"), pa.timestamp("us", "UTC"), [0, 0]),
        (pa.utf8(), pa.binary(), ["a", b"a"]),
        (pa.int64(), pa.float64(), [2**53 + 1, 0.5]),
    ],
)
def test_types_that_cannot_become_one_are_named(one, two, values):
    both = versions([column("x", one)], [column("x", two)], values=[{"x": value} for value in values])
    with pytest.raises(SchemaMismatch) as caught:
        typed(both, ORDERS)
    assert caught.value.details["table"] == "shop.orders"
    assert caught.value.details["column"] == "x"
    types = set(caught.value.details["types"].split(", "))
    assert types & {str(one), str(two)}
    assert len(types) == 2 or "tz=UTC" in caught.value.details["types"]
    assert envelope(both).num_rows == 2


@pytest.mark.parametrize("name", [*TYPED.names, "_before"])
def test_a_column_with_a_name_of_ours_is_refused(name):
    rows = table(ORDERS, [column(name, pa.int64())], [(0, 0, Op.INSERT, None, {name: 1})])
    with pytest.raises(SchemaMismatch, match=f"has a column {name},"):
        typed(one_shard(rows), ORDERS, before=True)
    if name == "_before":
        assert typed(one_shard(rows), ORDERS).column("_before").to_pylist() == [1]
    assert envelope(one_shard(rows)).column("after").to_pylist() == [[(name, "1")]]


def test_enums_with_differing_values_become_one_column():
    kind = pa.dictionary(pa.int32(), pa.utf8())
    changes = [
        (0, row, Op.UPDATE, {"id": one}, {"id": two}) for row, (one, two) in enumerate(["ab", "bc", "ca"])
    ]
    tables = [table(ORDERS, [column("id", kind)], [change]) for change in changes]
    deleted = table(ORDERS, [column("id", kind)], [(0, 3, Op.DELETE, {"id": "z"}, None)])
    result = typed(one_shard(*reversed(tables), deleted, rows=4), ORDERS, before=True)
    result.validate(full=True)
    assert result.column("id").to_pylist() == ["b", "c", "a", "z"]
    assert [row["id"] for row in result.column("_before").to_pylist()] == ["a", "b", "c", "z"]
    assert len({str(chunk.dictionary) for chunk in result.column("id").chunks}) == 1


def test_a_ring_may_hand_out_one_table_in_chunks():
    kind = pa.dictionary(pa.int32(), pa.utf8())
    pieces = [
        table(ORDERS, [column("id", kind)], [(0, row, op, before, after)]).rows
        for row, (op, before, after) in enumerate(
            [(Op.INSERT, None, {"id": "a"}), (Op.DELETE, {"id": "b"}, None), (Op.INSERT, None, {"id": "c"})]
        )
    ]
    chunked = one_shard(ShardTable(ORDERS, pa.concat_tables(pieces)), rows=3)
    assert typed(chunked, ORDERS, before=True).column("id").to_pylist() == ["a", "b", "c"]
    assert envelope(chunked).column("key").to_pylist() == [[("id", "a")], [("id", "b")], [("id", "c")]]


def test_values_print_by_their_type():
    columns = [column("t", pa.timestamp("us"), "datetime(3)"), column("y", pa.int16(), "year")]
    rows = table(ORDERS, columns, [(0, 0, Op.INSERT, None, {"t": 1000, "y": 0})], key=())
    assert envelope(one_shard(rows)).column("after").to_pylist() == [
        [("t", "1970-01-01 00:00:00.001"), ("y", "0000")]
    ]


@pytest.mark.parametrize("before", [True, False])
def test_a_shard_may_leave_out_images_that_no_row_has(before):
    inserts = [(0, row, Op.INSERT, None, {"id": row}) for row in range(3)]
    whole = table(ORDERS, [column("id", pa.int64(), "bigint")], inserts)
    thin = ShardTable(ORDERS, whole.rows.drop_columns(["before"]))
    assert typed(one_shard(thin, rows=3), ORDERS, before=before) == typed(
        one_shard(whole, rows=3), ORDERS, before=before
    )
    assert envelope(one_shard(thin, rows=3)) == envelope(one_shard(whole, rows=3))


def test_a_withheld_statement_is_left_out_and_others_keep_their_numbers():
    order = ORDER.copy()
    order["flags"][2], order["rows"][2] = WHOLE | Flag.WITHHELD, 0
    whole, without = envelope(BATCH).to_pylist(), envelope(batch(order, NORTH, SOUTH)).to_pylist()
    assert [row for row in whole if row["op"] != "ALTER"] == without
    assert len(without) == len(whole) - 1
