"""Spark's shapes of rows, and the options of a query; without a Spark."""

import dataclasses
import pickle
from decimal import Decimal

import pyarrow as pa
import pytest

from canal_group.merge.errors import ConfigError, SchemaGrown, SchemaMismatch, UsageError
from canal_group.merge.rows.envelope import ENVELOPE
from canal_group.merge.rows.typed import BEFORE, TYPED
from canal_group.merge.values.position import GroupPosition, Position
from canal_group.spark.options import Options, as_offset, first_of, from_offset, moment_us
from canal_group.spark.shapes import (
    CHANGE,
    FIXED,
    added_columns,
    check_columns,
    envelope_rows,
    spark_fields,
    table_schema,
    typed_rows,
)

GIVEN = {"gateway": "grpc://h:1", "destination": "shop", "client": "c"}


def typed(ops, columns, *, before=None):
    count = len(ops)
    ours = {
        "_op": pa.array(ops).dictionary_encode(),
        "_shard": pa.array(["s0"] * count).dictionary_encode(),
        "_seq": pa.array(range(10, 10 + count), pa.int64()),
        "_commit_us": pa.array([1_000_000] * count, pa.int64()),
        "_key_us": pa.array([1_000_000] * count, pa.int64()),
        "_late": pa.array([False] * count),
        "_gtid": pa.array(["g:1"] * count),
        "_file": pa.array(["bin.000001"] * count),
        "_pos": pa.array([4] * count, pa.int64()),
        "_row": pa.array(range(count), pa.int64()),
        "_absent": pa.nulls(count, TYPED.field("_absent").type),
    }
    extra = {} if before is None else {BEFORE: before, "_before_absent": ours["_absent"]}
    return pa.table(columns | ours | extra)


def schema_of(rows):
    own = [field for field in rows.schema if not field.name.startswith("_")]
    return pa.schema([*spark_fields(pa.schema(own)), *CHANGE])


def test_an_update_is_two_rows_with_numbers_of_their_own():
    before = pa.array([None, {"id": 2, "note": "old"}, {"id": 3, "note": "c"}, None])
    rows = typed(
        ["INSERT", "UPDATE", "DELETE", "READ"],
        {"id": pa.array([1, 2, 3, 4]), "note": pa.array(["a", "new", "c", "d"])},
        before=before,
    )
    made = typed_rows(rows, "shop.orders", schema_of(rows), new_columns="fail")
    assert made.schema.equals(schema_of(rows))
    assert made.select(["id", "note", "_change_type", "_seq", "_commit_version"]).to_pylist() == [
        {"id": 1, "note": "a", "_change_type": "insert", "_seq": 21, "_commit_version": 10},
        {"id": 2, "note": "old", "_change_type": "update_preimage", "_seq": 22, "_commit_version": 10},
        {"id": 2, "note": "new", "_change_type": "update_postimage", "_seq": 23, "_commit_version": 10},
        {"id": 3, "note": "c", "_change_type": "delete", "_seq": 25, "_commit_version": 10},
        {"id": 4, "note": "d", "_change_type": "read", "_seq": 27, "_commit_version": 10},
    ]


def test_chosen_columns_are_all_that_is_asked_for_and_made():
    rows = typed(["INSERT", "DELETE"], {"id": pa.array([1, 2]), "note": pa.array(["a", "b"])})
    everything = pa.schema([("id", pa.int64()), ("note", pa.utf8())])
    schema = table_schema(everything, "shop.orders", ("_seq", "_commit_version", "id"))
    assert schema.names == ["id", "_commit_version", "_seq"]
    added = added_columns(schema.names)
    assert added == ["_row", "_seq"]
    came = rows.select(["id", "_op", *added])
    made = typed_rows(came, "shop.orders", schema, new_columns="fail")
    assert made.to_pydict() == {"id": [1, 2], "_commit_version": [10, 10], "_seq": [21, 23]}
    assert table_schema(everything, "shop.orders", ()).names == ["id", "note", *CHANGE.names]
    with pytest.raises(ConfigError, match=r"shop\.orders has no column speed, _speed"):
        table_schema(everything, "shop.orders", ("id", "speed", "_speed"))


def test_types_that_spark_lacks_become_wider_ones():
    rows = typed(
        ["INSERT"],
        {
            "tiny": pa.array([255], pa.uint8()),
            "big": pa.array([2**64 - 1], pa.uint64()),
            "state": pa.array(["new"]).dictionary_encode(),
            "exact": pa.array([None], pa.decimal256(60, 2)),
        },
    )
    made = typed_rows(rows, "shop.orders", schema_of(rows), new_columns="fail").to_pylist()[0]
    assert (made["tiny"], int(made["big"]), made["state"], made["exact"]) == (255, 2**64 - 1, "new", None)


@pytest.mark.parametrize(("kind", "as_it_is"), [("decimal", Decimal(2**63)), ("string", str(2**63))])
def test_64_bits_without_a_sign_become_what_the_query_says(kind, as_it_is):
    rows = typed(["INSERT", "INSERT"], {"big": pa.array([7, 2**63], pa.uint64())})
    schema = spark_fields(rows.select(["big"]).schema, kind)
    assert typed_rows(rows, "shop.orders", schema, new_columns="fail")["big"][1].as_py() == as_it_is
    narrow = spark_fields(rows.select(["big"]).schema, "bigint")
    small = typed_rows(rows.slice(0, 1), "shop.orders", narrow, new_columns="fail")
    assert (small.to_pydict(), small.schema.types) == ({"big": [7]}, [pa.int64()])
    with pytest.raises(SchemaMismatch, match=r"Column big of shop\.orders is uint64 and does not fit"):
        typed_rows(rows, "shop.orders", narrow, new_columns="fail")


def test_unknown_columns_fail_or_are_ignored_and_missing_ones_are_null():
    rows = typed(["INSERT"], {"id": pa.array([1]), "colour": pa.array(["red"])})
    schema = pa.schema([("gone", pa.utf8()), ("id", pa.int64()), ("_seq", pa.int64())])
    for new_columns in ("fail", "evolve"):
        with pytest.raises(SchemaGrown, match="has a column colour that the query's schema does not have"):
            typed_rows(rows, "shop.orders", schema, new_columns=new_columns)
    with pytest.raises(SchemaGrown, match="has a column colour"):
        check_columns(rows.schema, "shop.orders", schema.names)
    check_columns(rows.schema, "shop.orders", [*schema.names, "colour"])
    made = typed_rows(rows, "shop.orders", schema, new_columns="ignore")
    assert made.to_pylist() == [{"gone": None, "id": 1, "_seq": 21}]


def test_values_that_do_not_fit_are_an_error_and_never_another_value():
    rows = typed(["INSERT"], {"id": pa.array([2**40])})
    schema = pa.schema([("id", pa.int32())])
    with pytest.raises(SchemaMismatch, match=r"Column id of shop\.orders is int64 and does not fit"):
        typed_rows(rows, "shop.orders", schema, new_columns="fail")


@pytest.mark.parametrize("with_preimages", [False, True])
def test_a_part_without_rows_of_the_table_is_empty(with_preimages):
    rows = typed([], {}, before=pa.array([], pa.struct([])) if with_preimages else None)
    rows = rows.set_column(0, "_op", pa.array([], pa.dictionary(pa.int32(), pa.utf8())))
    schema = pa.schema([("id", pa.int64()), *CHANGE])
    assert typed_rows(rows, "shop.orders", schema, new_columns="fail").equals(schema.empty_table())


def envelope(*rows):
    blank = dict.fromkeys(ENVELOPE.names) | {"shard": "s0", "schema": "shop", "table": "orders", "seq": 1}
    blank |= {"commit_us": 5_000, "key": []}
    return pa.Table.from_pylist([blank | row for row in rows], schema=ENVELOPE)


def test_canals_old_holds_what_an_update_changed_only():
    update = {
        "op": "UPDATE",
        "key": [("id", "1")],
        "before": [("id", "1"), ("a", "x"), ("b", None), ("c", "1"), ("d", None)],
        "after": [("id", "1"), ("a", "y"), ("b", None), ("c", None), ("d", "2")],
    }
    insert = {"op": "INSERT", "key": [], "after": [("id", "2")]}
    delete = {"op": "DELETE", "before": [("id", "1")]}
    ddl = {"op": "ALTER", "key": [], "sql": "ALTER TABLE orders ..."}
    read = {"op": "READ", "key": [], "after": [("id", "3")]}
    rows = envelope(update, insert, delete, ddl, read)
    made = envelope_rows(rows, "canal", FIXED["canal"]).to_pylist()
    assert made[0]["old"] == [[("a", "x"), ("c", "1"), ("d", None)]]
    assert [row["pkNames"] for row in made] == [["id"], *[None] * 4], "as in canal: null without a key"
    assert [row["old"] for row in made[1:]] == [None] * 4
    assert [row["type"] for row in made] == ["UPDATE", "INSERT", "DELETE", "ALTER", "INSERT"]
    assert [row["data"] for row in made[1:]] == [
        [[("id", "2")]],
        [[("id", "1")]],
        None,
        [[("id", "3")]],
    ]
    assert [(row["isDdl"], row["es"]) for row in made] == [*[(False, 5)] * 3, (True, 5), (False, 5)]


def test_debezium_has_changes_of_rows_only():
    rows = envelope(
        {"op": "INSERT", "after": [("id", "2")]}, {"op": "ALTER", "sql": "ALTER TABLE orders ..."}
    )
    (made,) = envelope_rows(rows, "debezium", FIXED["debezium"]).to_pylist()
    assert (made["op"], made["before"], made["after"], made["ts_ms"]) == ("c", None, [("id", "2")], 5)
    assert (made["source"]["db"], made["source"]["table"], made["source"]["sequence"]) == (
        "shop",
        "orders",
        1,
    )


# ---- options -----------------------------------------------------------------------------------------------


def test_options_ignore_case_and_never_show_the_token():
    given = GIVEN | {"TABLE": "shop.orders", "maxrowsperbatch": "7", "Token": "secret", "preimages": "FALSE"}
    options = Options.from_spark(given)
    assert (options.format, options.max_rows_per_batch, options.preimages) == ("typed", 7, False)
    assert "secret" not in repr(options)
    assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"gateway": ""}, "needs the option gateway"),
        ({"speed": "1"}, "has no option speed"),
        ({"format": "avro"}, "format cannot be 'avro'"),
        ({"format": "typed"}, "The typed format needs the option table"),
        ({"format": "canal", "table": "a.b"}, "The canal format does not take the option table"),
        ({"table": "orders"}, "'orders' is not a table name"),
        ({"table": "a.b", "filter": "x"}, "The options table and filter exclude each other"),
        ({"partitions": "0"}, "partitions cannot be '0'"),
        ({"partitions": str(2**63)}, "partitions cannot be '9223372036854775808'"),
        ({"partitions": "9" * 5_000}, "partitions cannot be '9999"),
        ({"retrySeconds": "soon"}, "retrySeconds cannot be 'soon'"),
        ({"retrySeconds": "1e300"}, "retrySeconds cannot be '1e300'"),
        ({"retrySeconds": "nan"}, "retrySeconds cannot be 'nan'"),
        ({"preimages": "maybe"}, "preimages cannot be 'maybe'"),
        ({"unsignedBigint": "int"}, "unsignedBigint cannot be 'int'"),
        ({"startingPosition": "2026-01-31"}, "startingPosition cannot be '2026-01-31'"),
        ({"startingPosition": "{}"}, "is not a group position"),
        ({"endingPosition": "cursor"}, "endingPosition cannot be 'cursor'"),
        ({"columns": "id,,note"}, "columns cannot be 'id,,note'"),
        ({"newColumns": "evolve"}, "newColumns cannot be evolve for the envelope format"),
        ({"newColumns": "evolve", "table": "a.b", "columns": "id"}, "evolve together with columns"),
        ({"columns": "id"}, "The envelope format does not take the option columns"),
        ({"minRowsPerBatch": "9", "maxRowsPerBatch": "8"}, "minRowsPerBatch, 9, is above maxRowsPerBatch, 8"),
    ],
)
def test_wrong_options_are_told_in_a_sentence(wrong, sentence):
    with pytest.raises((ConfigError, UsageError), match=sentence):
        Options.from_spark(GIVEN | wrong)


def test_an_offset_is_the_same_text_for_the_same_position():
    position = Position("bin.000001", 4, commit_us=7)
    one = GroupPosition({"b": position, "a": position}, 3)
    other = GroupPosition({"a": position, "b": dataclasses.replace(position)}, 3)
    assert str(as_offset(one)) == str(as_offset(other))
    assert from_offset(as_offset(one)) == one


def test_a_first_offset_says_where_its_micro_batch_began():
    begin = GroupPosition({"a": Position("bin.000001", 4)}, 0)
    end = GroupPosition({"a": Position("bin.000001", 90)}, 3)
    offset = as_offset(end, begin)
    assert (first_of(offset), from_offset(offset)) == (begin, end)
    assert first_of(as_offset(end)) is None


def test_a_time_needs_its_zone():
    assert moment_us("1970-01-01T00:00:01.5+00:00") == 1_500_000
    assert moment_us("1970-01-01T01:00:00+01:00") == 0
    assert moment_us("2026-01-01T00:00:00") is None
    assert moment_us("latest") is None
