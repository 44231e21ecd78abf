"""The consumer's view: which of MariaDB's logged columns and rows a consumer sees."""

import pyarrow as pa
import pytest
from support.rows.versioned_chunk import (
    IMPLICIT,
    MOMENT,
    NAME,
    NEVER,
    NEVER_SINCE_11_5,
    PAST,
    SOURCE,
    chunk,
    schema_of,
)

from canal_group.actors.sink.consumer_view import ConsumerView, History
from canal_group.merge.errors import DataError
from canal_group.merge.values.chunk import (
    ABSENT,
    PRIMARY_KEY,
    Chunk,
    Op,
    SpecialColumns,
    TableRows,
    partial_schema,
)
from canal_group.merge.values.rows.absent import absent_in

EXPLICIT = SpecialColumns(row_end="end")


def seen(ends, special=IMPLICIT, history=History.DROP, kind=MOMENT):
    return ConsumerView(history).apply(chunk(ends, special, kind))


CASES = [
    (None, NEVER, Op.INSERT),
    (None, NEVER_SINCE_11_5, Op.INSERT),
    (None, PAST, None),
    (None, 4_000_000_000_000_000, None),  # will end, and is not a row that SELECT shows
    (NEVER, NEVER, Op.UPDATE),
    (NEVER, PAST, Op.DELETE),
    (PAST, NEVER, Op.INSERT),
    (PAST, PAST, None),
    (NEVER, None, Op.DELETE),
    (PAST, None, None),
]


def test_what_becomes_of_each_change_of_a_versioned_table():
    result = seen([(before, after) for before, after, _ in CASES])
    (table,) = result.tables
    expected = [(index, op) for index, (_, _, op) in enumerate(CASES) if op is not None]
    changes = table.rows.to_pylist()
    assert [(change["_header"], change["_op"]) for change in changes] == expected
    for change in changes:
        whole = {"id": change["_header"]}
        assert change["before"] == (None if change["_op"] == Op.INSERT else whole)
        assert change["after"] == (None if change["_op"] == Op.DELETE else whole)
        assert change["_row"] == 7
    assert result.headers["rows"].tolist() == [int(op is not None) for *_, op in CASES]
    assert set(result.headers["row_begin"]) == {7}, "a dropped row keeps its ordinal"
    assert set(result.headers["row_end"]) == {8}
    assert (table.name, table.source, table.special) == (NAME, SOURCE, None)
    assert table.rows.schema.metadata[PRIMARY_KEY] == b'["id"]'


def test_of_periods_of_transaction_ids_the_greatest_id_has_not_ended():
    ids = {NEVER: 2**64 - 1, PAST: NEVER, None: None}
    cases = [each for each in CASES if {each[0], each[1]} <= set(ids)]
    (table,) = seen([(ids[before], ids[after]) for before, after, _ in cases], kind=pa.uint64()).tables
    assert table.rows.column("_op").to_pylist() == [op for *_, op in cases if op is not None]


def test_columns_of_an_explicit_period_are_columns_like_others():
    (table,) = seen([(NEVER, NEVER)], EXPLICIT).tables
    assert table.rows.schema.field("after").type == schema_of(MOMENT).field("after").type
    assert table.rows.schema.metadata[PRIMARY_KEY] == b'["id"]'


def test_history_that_is_kept_comes_as_it_was_logged_without_hashes():
    ends = [(before, after) for before, after, _ in CASES]
    result = seen(ends, history=History.KEEP)
    (table,) = result.tables
    columns = ["id", "start", "end"]
    (logged,) = chunk(ends, IMPLICIT).tables
    for side in ABSENT:
        images = logged.rows.column(side).to_pylist()
        expected = [each and {name: each[name] for name in columns} for each in images]
        assert [
            each and {name: value.value if hasattr(value, "value") else value for name, value in each.items()}
            for each in table.rows.column(side).to_pylist()
        ] == expected
    assert table.rows.column("_op").equals(logged.rows.column("_op"))
    assert table.rows.schema.metadata[PRIMARY_KEY] == b'["id", "end"]'
    assert result.headers["rows"].tolist() == [1] * len(ends)


def test_a_chunk_without_special_columns_is_the_same_chunk():
    source = chunk([(None, PAST)], None)
    assert ConsumerView(History.DROP).apply(source) is source


def test_a_transaction_of_history_alone_stays_as_a_header():
    result = seen([(None, PAST), (PAST, None)])
    assert result.tables == ()
    assert result.headers["rows"].tolist() == [0, 0]


def partial(ends, before_lacks, after_lacks, special=IMPLICIT):
    """Return a chunk whose images all lack some columns."""
    source = chunk(ends, special)
    (table,) = source.tables
    names = [field.name for field in schema_of(MOMENT).field("after").type]
    bits = [
        pa.array([bytes([sum(1 << names.index(name) for name in lacks)])] * len(ends), pa.binary(1))
        for lacks in (before_lacks, after_lacks)
    ]
    rows = pa.RecordBatch.from_arrays([*table.rows.columns, *bits], schema=partial_schema(schema_of(MOMENT)))
    return Chunk(source.headers, ("f",), (TableRows(NAME, rows, SOURCE, special),))


def test_images_that_say_when_their_row_ended_may_lack_other_columns():
    source = partial([(NEVER, NEVER), (NEVER, PAST)], ["start", "hash"], ["id", "start"])
    (table,) = ConsumerView(History.DROP).apply(source).tables
    assert table.rows.column("_op").to_pylist() == [Op.UPDATE, Op.DELETE]
    assert absent_in(table.rows, "before") is None
    assert absent_in(table.rows, "after").tolist() == [[True], [False]], "a delete has no image after"


@pytest.mark.parametrize(
    ("ends", "before_lacks", "after_lacks"),
    [((NEVER, PAST), ["end"], []), ((NEVER, NEVER), [], ["end"]), ((None, NEVER), [], ["end"])],
)
def test_an_image_that_does_not_say_whether_its_row_is_current_is_refused(ends, before_lacks, after_lacks):
    source = partial([ends], before_lacks, after_lacks)
    with pytest.raises(DataError, match=r"shop_0\.orders lacks the end .* it may be current, or history"):
        ConsumerView(History.DROP).apply(source)
    ConsumerView(History.KEEP).apply(source)


def test_the_columns_that_are_described_are_those_of_rows():
    logged = pa.schema(list(schema_of(MOMENT).field("after").type))
    for history in History:
        for special in (IMPLICIT, EXPLICIT, None):
            (table,) = seen([(NEVER, NEVER)], special, history).tables
            rows = pa.schema(list(table.rows.schema.field("after").type))
            assert ConsumerView(history).columns(logged, special) == rows
