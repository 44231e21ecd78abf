"""Table rules: what leaves the shard of a table's rows."""

import hashlib
import hmac
import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statement_rows import statement_row

from actors.sink.keyed_hash import keyed_hashes
from actors.sink.mask import Mask, MaskKind
from actors.sink.processing import Processing
from actors.sink.table_rule import KEPT, TableRule
from conf.filters.expression_text import ExpressionError, parse_expression
from merge.errors import DataError
from merge.rows.absent import absent_in
from merge.rows.expression import fulfilled, value_of
from merge.values.chunk import (
    ABSENT,
    MYSQL_TYPE,
    PRIMARY_KEY,
    STATEMENTS,
    Chunk,
    Op,
    StatementKind,
    StatementSource,
    TableName,
    TableRows,
    partial_schema,
    rows_schema,
)
from merge.values.ddl_mark import DdlMark
from merge.values.header import HEADER, WHOLE, Flag

SOURCE = TableName("shop_0", "orders")
SCHEMA = rows_schema(
    [
        pa.field("id", pa.int64(), metadata={MYSQL_TYPE: b"bigint"}),
        pa.field("Note", pa.utf8(), metadata={MYSQL_TYPE: b"text"}),
        pa.field("state", pa.dictionary(pa.int32(), pa.utf8()), metadata={MYSQL_TYPE: b"enum"}),
    ],
    json.dumps(["id"]).encode(),
)
IMAGES = st.fixed_dictionaries(
    {
        "id": st.one_of(st.none(), st.integers(-3, 3)),
        "Note": st.one_of(st.none(), st.sampled_from(["", "a", "ab", "é€", "SECRET"])),
        "state": st.one_of(st.none(), st.sampled_from(["new", "done"])),
    }
)
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just(Op.INSERT), st.none(), IMAGES),
        st.tuples(st.just(Op.UPDATE), IMAGES, IMAGES),
        st.tuples(st.just(Op.DELETE), IMAGES, st.none()),
    ),
    max_size=12,
)


def batch(changes):
    """Return changes (op, before, after) as a batch of one header each."""
    rows = [
        {"_header": place, "_row": place, "_op": int(op), "before": before, "after": after}
        for place, (op, before, after) in enumerate(changes)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def changes_of(rows):
    return [(row["_row"], row["_op"], row["before"], row["after"]) for row in rows.to_pylist()]


@given(
    CHANGES,
    st.booleans(),
    st.sets(st.sampled_from(["insert", "update", "delete"])),
    st.booleans(),
)
def test_a_rule_does_what_one_does_row_by_row(changes, filtered, kinds, drop_unchanged):
    rule = TableRule(
        r"shop_\d\.orders",
        black_columns=frozenset({"state"}),
        kinds=frozenset(kinds),
        where=parse_expression("id > 0 OR note = 'ab'") if filtered else None,
        renamed={"note": "text"},
        masks={"note": Mask(MaskKind.LAST, last=1)},
        computed={"next": parse_expression("id + 1")},
        drop_unchanged=drop_unchanged,
    )

    def inside(image):
        return image is not None and (
            not filtered or (image["id"] is not None and image["id"] > 0) or image["Note"] == "ab"
        )

    def made(image):
        if image is None:
            return None
        note = image["Note"]
        return {
            "id": image["id"],
            "text": None if note is None else note[-1:] if len(note) > 1 else "",
            "next": None if image["id"] is None else image["id"] + 1,
        }

    expected = []
    for place, (_, old, new) in enumerate(changes):
        before, after = (made(image) if inside(image) else None for image in (old, new))
        if before is None and after is None:
            continue
        op = Op.INSERT if before is None else Op.DELETE if after is None else Op.UPDATE
        if op is Op.UPDATE and drop_unchanged and before == after:
            continue
        if op.name.lower() in kinds:
            expected.append((place, op, before, after))
    result = rule.apply(SOURCE, batch(changes))
    result.validate(full=True)
    assert changes_of(result) == expected
    assert result.schema == rule.schema(SOURCE, SCHEMA)
    assert result.schema.metadata[PRIMARY_KEY] == b'["id"]'


def buffers(array):
    """Return every byte that an array holds, its children's and dictionary's too."""
    sink = pa.BufferOutputStream()
    batches = pa.RecordBatch.from_arrays([array], ["x"])
    with pa.ipc.new_stream(sink, batches.schema) as writer:
        writer.write_batch(batches)
    own = b"".join(bytes(each) for each in array.buffers() if each is not None)
    return own + sink.getvalue().to_pybytes()


def test_of_a_row_outside_the_filter_no_byte_remains_not_even_under_a_null():
    secret = {"id": -1, "Note": "SECRET", "state": "new"}
    public = {"id": 1, "Note": "public", "state": "new"}
    changes = [(Op.UPDATE, secret, public), (Op.UPDATE, public, secret), (Op.INSERT, None, secret)]
    rule = TableRule("shop_0.orders", where=parse_expression("id > 0"))
    result = rule.apply(SOURCE, batch(changes))
    assert [(op, before, after) for _, op, before, after in changes_of(result)] == [
        (Op.INSERT, None, public),
        (Op.DELETE, public, None),
    ]
    assert b"SECRET" in buffers(batch(changes).column("before"))
    for side in ("before", "after"):
        assert b"SECRET" not in buffers(result.column(side))
        assert b"public" in buffers(result.column(side))


@pytest.mark.parametrize(
    ("mask", "value"),
    [
        (Mask(MaskKind.NULL), None),
        (Mask(MaskKind.CONSTANT, value="x"), "x"),
        (Mask(MaskKind.CONSTANT, value=7), 7),
        (Mask(MaskKind.LAST, last=3), "RET"),
        (Mask(MaskKind.LAST, last=6), ""),
        (Mask(MaskKind.HASH, salt=b"s"), hmac.new(b"s", b"SECRET", hashlib.sha256).hexdigest()),
    ],
)
def test_of_a_masked_value_no_byte_remains(mask, value):
    rows = batch([(Op.INSERT, None, {"id": 1, "Note": "SECRET", "state": "new"})])
    result = TableRule("shop_0.orders", masks={"note": mask}).apply(SOURCE, rows)
    assert result.column("after").to_pylist() == [{"id": 1, "Note": value, "state": "new"}]
    assert b"SECRET" not in buffers(result.column("after"))


def test_a_mask_takes_the_text_that_a_column_of_its_type_has():
    column = pa.field("at", pa.timestamp("us"), metadata={MYSQL_TYPE: b"datetime(3)"})
    rows = pa.RecordBatch.from_pylist(
        [{"_header": 0, "_row": 0, "_op": int(Op.INSERT), "before": None, "after": {"at": 1_500_000}}],
        schema=rows_schema([column], b"[]"),
    )
    result = TableRule("x", masks={"at": Mask(MaskKind.LAST, last=12)}).apply(SOURCE, rows)
    assert result.column("after").to_pylist() == [{"at": "00:00:01.500"}]


@given(
    st.binary(max_size=200),
    st.lists(st.one_of(st.none(), st.binary(max_size=300))),
    st.integers(0, 3),
)
def test_hashes_are_those_of_hmac(key, values, skip):
    array = pa.array(values, pa.binary())[skip:]
    expected = [
        None if value is None else hmac.new(key, value, hashlib.sha256).hexdigest() for value in values[skip:]
    ]
    assert keyed_hashes(key, array).to_pylist() == expected


@pytest.mark.parametrize(
    ("rule", "column"),
    [
        (TableRule("shop_0.orders", black_columns=frozenset({"notes"})), "notes"),
        (TableRule("shop_0.orders", white_columns=frozenset({"id", "notes"})), "notes"),
        (TableRule("shop_0.orders", where=parse_expression("a = 1")), "a"),
        (TableRule("shop_0.orders", computed={"x": parse_expression("y")}), "y"),
        (TableRule("shop_0.orders", renamed={"nothing": "x"}), "nothing"),
        (TableRule("shop_0.orders", masks={"nil": Mask(MaskKind.NULL)}), "nil"),
        (TableRule("shop_0.orders", renamed={"note": "ID"}), "id"),
        (TableRule("shop_0.orders", computed={"NOTE": parse_expression("id")}), "note"),
    ],
)
def test_a_column_that_is_not_there_or_would_be_there_twice_is_named_with_its_table(rule, column):
    with pytest.raises(DataError) as refused:
        rule.apply(SOURCE, batch([]))
    assert refused.value.details == {"table": "shop_0.orders", "column": column}
    assert f"column {column} of shop_0.orders" in str(refused.value)


def test_types_that_do_not_compare_are_refused_before_any_row_arrives():
    with pytest.raises(DataError, match=r"cannot be applied to shop_0\.orders: .* not with a string"):
        TableRule("shop_0.orders", where=parse_expression("id = 'x'")).schema(SOURCE, SCHEMA)


def test_an_error_does_not_show_the_value_that_caused_it():
    rows = batch([(Op.INSERT, None, {"id": 2**62 + 12345, "Note": "", "state": "new"})])
    with pytest.raises(DataError) as refused:
        TableRule("x", computed={"more": parse_expression("id * 4")}).apply(SOURCE, rows)
    assert "a value does not fit" in str(refused.value)
    assert str(2**62 + 12345) not in repr(refused.value.to_dict())
    assert refused.value.__cause__ is refused.value.__context__ is None


@pytest.mark.parametrize(
    ("rule", "key"),
    [
        (TableRule("x", renamed={"id": "number"}), ["number"]),
        (TableRule("x", black_columns=frozenset({"id"})), []),
        (TableRule("x", masks={"id": Mask(MaskKind.HASH)}), ["id"]),
        (TableRule("x", masks={"id": Mask(MaskKind.NULL)}), []),
    ],
)
def test_a_primary_key_is_named_as_long_as_it_is_one(rule, key):
    assert json.loads(rule.schema(SOURCE, SCHEMA).metadata[PRIMARY_KEY]) == key


def partial(absent_before):
    rows = batch(
        [(Op.UPDATE, {"id": 1, "Note": None, "state": None}, {"id": 1, "Note": "b", "state": "new"})]
    )
    bits = [pa.array([bytes([each])], pa.binary(1)) for each in (absent_before, 0)]
    return pa.RecordBatch.from_arrays([*rows.columns, *bits], schema=partial_schema(SCHEMA))


def test_absent_columns_stay_absent_under_their_new_places():
    rule = TableRule("x", black_columns=frozenset({"id"}), masks={"note": Mask(MaskKind.CONSTANT, value="m")})
    result = rule.apply(SOURCE, partial(0b110))
    assert result.column("before").to_pylist() == [{"Note": None, "state": None}]
    assert result.column(ABSENT["before"]).to_pylist() == [b"\x03"]
    assert result.column(ABSENT["after"]).to_pylist() == [b"\x00"]


def test_a_computed_column_is_never_absent():
    more = [f"c{place}" for place in range(6)]  # so that what is absent takes a byte more
    rule = TableRule("x", computed=dict.fromkeys(more, parse_expression("id * 2")))
    result = rule.apply(SOURCE, partial(0b110))
    result.validate(full=True)
    known = {"id": 1, "Note": None, "state": None, **dict.fromkeys(more, 2)}
    assert result.column("before").to_pylist() == [known]
    assert absent_in(result, "before").tolist() == [[False, True, True, *[False] * 6]]
    assert absent_in(result, "after") is None


def test_a_condition_on_an_absent_column_is_refused_and_on_another_it_is_not():
    with pytest.raises(DataError, match="binlog_row_image = FULL"):
        TableRule("x", where=parse_expression("note = 'b'")).apply(SOURCE, partial(0b110))
    assert TableRule("x", where=parse_expression("id = 1")).apply(SOURCE, partial(0b110)).num_rows == 1


def test_an_update_that_says_null_of_what_was_absent_is_a_change():
    rows = batch(
        [(Op.UPDATE, {"id": 1, "Note": None, "state": "new"}, {"id": 1, "Note": None, "state": "new"})]
    )
    assert TableRule("x", drop_unchanged=True).apply(SOURCE, rows).num_rows == 0
    for before, after, count in ((0b010, 0, 1), (0, 0b010, 1), (0b010, 0b010, 0), (0b110, 0b010, 1)):
        bits = [pa.array([bytes([each])], pa.binary(1)) for each in (before, after)]
        known = pa.RecordBatch.from_arrays([*rows.columns, *bits], schema=partial_schema(SCHEMA))
        assert TableRule("x", drop_unchanged=True).apply(SOURCE, known).num_rows == count


def chunk(changes, said=()):
    headers = np.zeros(len(changes) + len(said), HEADER)
    headers["rows"] = headers["row_end"] = 1
    headers["flags"] = WHOLE
    headers["flags"][len(changes) :] |= np.uint16(Flag.DDL)
    headers["bytes"] = 100
    statements = [
        statement_row(len(changes) + place, 0, "shop", "orders", op, "...") for place, op in enumerate(said)
    ]
    return Chunk(
        headers,
        ("f",),
        (TableRows(TableName("shop", "orders"), batch(changes), SOURCE),),
        pa.RecordBatch.from_pylist(statements, schema=STATEMENTS) if said else None,
        tuple(
            StatementSource((SOURCE,), StatementKind.QUERY if op == "QUERY" else StatementKind.DDL)
            for op in said
        ),
    )


def test_headers_count_what_is_kept_and_keep_their_ordinals():
    whole = {"id": 1, "Note": "a", "state": "new"}
    given_chunk = chunk([(Op.INSERT, None, whole), (Op.DELETE, whole, None)], ["ALTER", "QUERY"])
    rule = TableRule("shop_0.orders", kinds=frozenset({"insert", "query"}))
    other = TableRule(".*", kinds=frozenset())
    kept = Processing([rule, other]).apply(given_chunk)
    assert kept.headers["rows"].tolist() == [1, 0, 0, 1]
    assert kept.headers["row_end"].tolist() == [1, 1, 1, 1], "as if nothing had been dropped"
    assert (kept.headers["bytes"] > 0).tolist() == [True, False, False, True]
    assert [bool(flags & Flag.DDL) for flags in kept.headers["flags"]] == [False, False, False, True]
    assert kept.statements.column("op").to_pylist() == ["QUERY"]
    assert Processing([other]).apply(given_chunk).tables == ()
    assert given_chunk.headers["rows"].tolist() == [1, 1, 1, 1], "the parser's own chunk is not changed"


def test_a_statement_that_is_left_out_has_no_mark():
    given_chunk = chunk([], ["ALTER", "DROP"])
    first = DdlMark(1, "ALTER", "shop.orders", "shop_0.orders")
    given_chunk = replace(given_chunk, ddls={0: first, 1: first})
    kept = Processing([TableRule("shop_0.orders", kinds=frozenset({"insert"}))]).apply(given_chunk)
    assert kept.ddls == {}


def test_a_chunk_without_a_rule_is_the_same_chunk():
    given_chunk = chunk([(Op.INSERT, None, {"id": 1, "Note": "a", "state": "new"})], ["ALTER"])
    assert Processing().apply(given_chunk) is given_chunk
    assert Processing([TableRule("other.*")]).apply(given_chunk) is given_chunk
    assert TableRule("x").kinds == KEPT


COLUMNS = {
    "a": pa.array([1, 2, None, -3], pa.int32()),
    "u": pa.array([0, 2**64 - 1, None, 5], pa.uint64()),
    "t": pa.array(["x", "Xy%", None, ""], pa.utf8()),
    "d": pa.array(["2026-01-01", "2026-06-01", None, "2027-01-01"]).cast(pa.timestamp("us")),
    "f": pa.array([0.5, 2.0, None, 0.0], pa.float64()),
    "m": pa.array(["1.50", "2.00", None, "0.00"]).cast(pa.decimal128(10, 2)),
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a > 1", [False, True, False, False]),
        ("A <> 1", [False, True, False, True]),
        ("NOT a = 1", [False, True, False, True]),
        ("a IS NULL", [False, False, True, False]),
        ("a IS NOT NULL AND t <> ''", [True, True, False, False]),
        ("a IS NULL OR a = 1", [True, False, True, False]),
        ("a <=> NULL", [False, False, True, False]),
        ("a = NULL", [False, False, False, False]),
        ("a IN (1, -3)", [True, False, False, True]),
        ("a NOT IN (1, NULL)", [False, False, False, False]),
        ("a BETWEEN 1 AND 2", [True, True, False, False]),
        ("t LIKE 'x%'", [True, False, False, False]),
        ("LOWER(t) LIKE 'x%'", [True, True, False, False]),
        (r"t LIKE '%\\%'", [False, True, False, False]),
        ("d >= '2026-06-01'", [False, True, False, True]),
        ("u > 9223372036854775808", [False, True, False, False]),
        ("u > -1", [True, True, False, True]),
        ("u = a OR u = 0", [True, False, False, False]),
        ("m = 1.5", [True, False, False, False]),
        ("m > f", [True, False, False, False]),
        ("m > 1 AND f", [True, True, False, False]),
        ("a % 2 = 1", [True, False, False, False]),
        ("a / f > 1", [True, False, False, False]),
        ("CHAR_LENGTH(t) = 3", [False, True, False, False]),
        ("COALESCE(a, 9) = 9", [False, False, True, False]),
        ("CONCAT(t, '!') = 'x!'", [True, False, False, False]),
        ("CONCAT(a = 1, TRUE) = '11'", [True, False, False, False]),
        ("LEFT(t, 1) = 'X' OR RIGHT(t, 1) = 'x'", [True, True, False, False]),
        ("ABS(a) = 3", [False, False, False, True]),
        ("(a = 1) IS TRUE", [True, False, False, False]),
        ("(a = 1) IS FALSE", [False, True, False, True]),
        ("1 = 1", [True] * 4),
        ("NULL", [False] * 4),
    ],
)
def test_a_condition_means_what_sql_means(text, expected):
    assert fulfilled(parse_expression(text), COLUMNS, 4).to_pylist() == expected


@pytest.mark.parametrize("text", ["a = 'x'", "t > 1", "t", "d + 1", "d LIKE 'x'", "LOWER(a)"])
def test_a_condition_on_other_types_is_refused(text):
    with pytest.raises((pa.ArrowException, NotImplementedError)):
        fulfilled(parse_expression(text), COLUMNS, 4)


def test_an_overflow_is_refused():
    with pytest.raises(pa.ArrowException):
        value_of(parse_expression("a * a"), {"a": pa.array([2**40])}, 1)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a =",
        "a; b",
        "SELECT 1",
        "t.a = 1",
        "a IN (SELECT 1)",
        "SLEEP(1)",
        "a LIKE 'x' ESCAPE 'y'",
        "LENGTH(a)",
        "LEFT(a, b)",
        "x'41' = a",
        "a = 1 -- " + "x" * 5000,
        "(" * 200 + "a" + ")" * 200,
        "@a = 1",
        "COUNT(*)",
    ],
)
def test_what_is_no_expression_is_refused(text):
    with pytest.raises(ExpressionError):
        parse_expression(text)
