"""Processing functions: what they add is with consumers, and what they may not do stops the shard."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from canal_group.actors.sink.mask import Mask, MaskKind
from canal_group.actors.sink.process import Process
from canal_group.actors.sink.processing import Processing
from canal_group.actors.sink.table_rule import TableRule
from canal_group.merge.errors import ConfigError, DataError
from canal_group.merge.values.chunk import (
    MYSQL_TYPE,
    Chunk,
    Op,
    TableName,
    TableRows,
    mysql_type_of,
    partial_schema,
    rows_schema,
)
from canal_group.merge.values.header import HEADER, WHOLE
from canal_group.programs.conformance.row_function import RowFunctionConformance

SOURCE = TableName("shop_0", "orders")
SCHEMA = rows_schema(
    [
        pa.field("id", pa.int64(), metadata={MYSQL_TYPE: b"bigint"}),
        pa.field("Country", pa.utf8(), metadata={MYSQL_TYPE: b"text"}),
        pa.field("secret", pa.utf8(), metadata={MYSQL_TYPE: b"text"}),
    ],
    json.dumps(["id"]).encode(),
)
CHANGES = [
    (Op.INSERT, None, {"id": 1, "Country": "CH", "secret": "s1"}),
    (Op.UPDATE, {"id": 1, "Country": "CH", "secret": "s1"}, {"id": 1, "Country": "FR", "secret": "s1"}),
    (Op.UPDATE, {"id": 1, "Country": "FR", "secret": "s1"}, {"id": 1, "Country": None, "secret": "s1"}),
    (Op.DELETE, {"id": 1, "Country": None, "secret": "s1"}, None),
]


class Shouts:
    """Adds a country in capital letters, and how long it is."""

    reads = ("country", "id")
    adds = pa.schema([("shout", pa.utf8()), ("size", pa.int32())])

    def __init__(self) -> None:
        self.calls: list[tuple[str, list[dict[str, object]]]] = []

    def process(self, table, rows):
        self.calls.append((table, rows.to_pylist()))
        country = rows.column(0)
        arrays = [*rows.columns, pc.utf8_upper(country), pc.utf8_length(country)]
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([*rows.schema, *self.adds]))


class TestShouts(RowFunctionConformance):
    @pytest.fixture
    def function(self):
        return Shouts()

    @pytest.fixture
    def rows(self):
        columns = {"country": ["CH", "FR", None], "id": [1, 2, 3]}
        return pa.RecordBatch.from_pydict(columns)


def batch(changes=CHANGES):
    rows = [
        {"_header": index, "_row": 7 * index, "_op": int(op), "before": before, "after": after}
        for index, (op, before, after) in enumerate(changes)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def rule_of(function, **keywords):
    return TableRule(r"shop_\d\.orders", process=Process("shout", lambda: function), **keywords)


def applied(function, rows=None, **keywords):
    return rule_of(function, **keywords).apply(SOURCE, batch() if rows is None else rows, None, "f:{}".format)


def failed(function, rows=None, **keywords):
    with pytest.raises(DataError) as caught:
        applied(function, rows, **keywords)
    assert "s1" not in str(caught.value)
    return caught.value.message


def test_both_images_have_the_added_columns_and_rows_stay_as_they_are():
    function = Shouts()
    result = applied(function)
    rows = result.to_pylist()
    assert [(row["_header"], row["_row"], row["_op"]) for row in rows] == [
        (index, 7 * index, int(op)) for index, (op, _, _) in enumerate(CHANGES)
    ]
    images = [
        row[side] and (row[side]["shout"], row[side]["size"]) for row in rows for side in ("before", "after")
    ]
    fr, ch, none = ("FR", 2), ("CH", 2), (None, None)
    assert images == [None, ch, ch, fr, fr, none, none, None]
    after = result.schema.field("after").type
    assert [each.name for each in after] == ["id", "Country", "secret", "shout", "size"]
    assert [mysql_type_of(after.field(name)) for name in ("shout", "size")] == ["computed", "computed"]
    assert (after.field("size").type, result.schema.metadata) == (pa.int32(), SCHEMA.metadata)


def test_it_gets_the_images_that_there_are_and_of_them_what_it_reads():
    function = Shouts()
    applied(function)
    ch, fr, none = ({"Country": each, "id": 1} for each in ("CH", "FR", None))
    assert function.calls == [(str(SOURCE), [ch, fr, none]), (str(SOURCE), [ch, fr, none])]


def test_it_gets_what_consumers_get():
    function = Shouts()
    function.reads = ("land", "secret")
    applied(
        function,
        renamed={"country": "land"},
        masks={"secret": Mask(MaskKind.CONSTANT, 0, "hidden", b"")},
        black_columns=frozenset({"id"}),
    )
    assert function.calls[0][1][0] == {"land": "CH", "secret": "hidden"}


def test_an_update_without_a_change_in_what_is_kept_is_dropped():
    same = {"id": 1, "Country": "CH"}
    changes = [(Op.UPDATE, {**same, "secret": "s1"}, {**same, "secret": "s12"})]
    result = applied(Shouts(), batch(changes), black_columns=frozenset({"secret"}), drop_unchanged=True)
    assert result.num_rows == 0


def test_columns_are_described_without_calling_the_function():
    function = Shouts()
    columns = Processing([rule_of(function)]).columns(SOURCE, pa.schema(list(SCHEMA.field("after").type)))
    assert columns.names == ["id", "Country", "secret", "shout", "size"]
    assert function.calls == []


def test_a_function_that_reads_nothing_adds_to_every_image():
    class Constant(Shouts):
        reads = ()
        adds = pa.schema([("one", pa.int64())])

        def process(self, _table, rows):
            return pa.RecordBatch.from_arrays([pa.repeat(pa.scalar(1), rows.num_rows)], schema=self.adds)

    assert [row["after"] and row["after"]["one"] for row in applied(Constant()).to_pylist()] == [
        1,
        1,
        1,
        None,
    ]


def test_a_column_that_is_read_has_to_be_in_every_image():
    def partial(absent_after):
        schema = partial_schema(SCHEMA)
        rows = [
            {**row, "_before_absent": b"\0", "_after_absent": bytes([absent_after])}
            for row in batch(CHANGES[1:2]).to_pylist()
        ]
        return pa.RecordBatch.from_pylist(rows, schema=schema)

    class Wide(Shouts):
        adds = pa.schema([(f"n{index}", pa.int64()) for index in range(6)])

        def process(self, _table, rows):
            nulls = [pa.nulls(rows.num_rows, pa.int64())] * 6
            return pa.RecordBatch.from_arrays(
                [*rows.columns, *nulls], schema=pa.schema([*rows.schema, *self.adds])
            )

    result = applied(Wide(), partial(0b100))
    assert result.column("_after_absent").to_pylist() == [b"\x04\x00"], "a bit for each of nine columns"
    assert failed(Shouts(), partial(0b010)).startswith(
        r"Plug-in 'shout' of the filter's rule 'shop_\\d\\.orders' reads column Country, which a row image "
        "lacks (binlog_row_image), on shop_0.orders, in the transactions from f:0 on."
    )


def raising(table, rows):
    raise KeyError("s1")


def lengthened(rows):
    return pa.concat_batches([rows, rows])


SHOUTED = Shouts().process


@pytest.mark.parametrize(
    ("process", "why"),
    [
        (raising, r"failed \(KeyError at test_process\.py:\d+\)"),
        (lambda *_: None, "returned a NoneType, and not a RecordBatch"),
        (lambda table, rows: pa.Table.from_batches([SHOUTED(table, rows)]), "returned a Table, and not"),
        (
            lambda _, rows: rows,
            "returned the columns Country string, id int64 instead of Country string, id",
        ),
        (
            lambda table, rows: SHOUTED(table, rows).rename_columns(["Country", "id", "shout", "other"]),
            "returned the columns .*, other int32 instead of .*, size int32",
        ),
        (lambda table, rows: SHOUTED(table, rows.slice(1)), "returned 2 rows for 3"),
        (lambda table, rows: lengthened(SHOUTED(table, rows)), "returned 6 rows for 3"),
        (
            lambda table, rows: SHOUTED(table, rows).take(pa.array([1, 0, 2])),
            "changed column Country or the order of the rows, and may only add columns",
        ),
        (
            lambda table, rows: SHOUTED(table, rows).set_column(
                1, rows.schema.field(1), pc.add(rows.column(1), 1)
            ),
            "changed column id or the order of the rows",
        ),
    ],
)
def test_what_a_function_may_not_do_stops_the_shard(process, why):
    function = Shouts()
    function.process = process
    with pytest.raises(
        DataError, match=rf"^Plug-in 'shout' of the filter's rule '.*' {why}.*, on shop_0.orders"
    ):
        applied(function)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            {"adds": pa.schema([("x", pa.list_(pa.int64()))])},
            "declares column x of type list<item: int64>, which",
        ),
        ({"adds": pa.schema([])}, "declares no schema of columns that it adds"),
        ({"adds": None}, "declares no schema"),
        ({"reads": ("nothing",)}, "reads column nothing, which consumers do not have"),
        ({"reads": ("secret",)}, "reads column secret, which consumers do not have"),
    ],
)
def test_what_it_declares_has_to_fit_before_a_row_is_read(change, why):
    function = Shouts()
    for name, value in change.items():
        setattr(function, name, value)
    rule = rule_of(function, black_columns=frozenset({"secret"}))
    with pytest.raises(DataError) as caught:
        rule.schema(SOURCE, SCHEMA)
    assert caught.value.message.startswith(
        f"Plug-in 'shout' of the filter's rule 'shop_\\\\d\\\\.orders' {why}"
    )
    assert caught.value.message.endswith("on shop_0.orders.")


def test_an_added_column_with_a_name_that_the_table_has_is_refused():
    function = Shouts()
    function.adds = pa.schema([("Secret", pa.utf8())])
    assert "names column secret of shop_0.orders, which the result would have twice" in failed(function)


def test_a_plug_in_that_is_missing_is_told_when_rows_come():
    def missing():
        raise ConfigError("There is no plug-in 'shout' on this machine.")

    with pytest.raises(ConfigError, match="no plug-in 'shout'"):
        TableRule("shop_0.orders", process=Process("shout", missing)).apply(SOURCE, batch())


def test_an_error_names_plug_in_table_file_and_offset():
    headers = np.zeros(len(CHANGES), HEADER)
    headers["flags"], headers["rows"] = WHOLE, 1
    headers["begin_offset"] = [40, 50, 60, 70]
    chunk = Chunk(headers, ("bin.000001",), (TableRows(SOURCE, batch(), SOURCE),), None)
    function = Shouts()
    function.process = raising
    with pytest.raises(
        DataError, match=r"^Plug-in 'shout' .* on shop_0\.orders, in .* from bin\.000001:40 on\."
    ):
        Processing([rule_of(function)]).apply(chunk)
