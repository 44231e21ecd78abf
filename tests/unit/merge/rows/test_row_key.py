"""Which changes concern the row of a primary key that is given as text."""

from __future__ import annotations

import datetime as dt
import json

import pyarrow as pa
import pytest

from canal_group.merge.errors import UsageError
from canal_group.merge.rows.row_key import RowKey
from canal_group.merge.values.chunk import MYSQL_TYPE, TableName, rows_schema


def rows(key, images, **columns):
    """Row changes of columns (type, MySQL's type), from (before, after) images; None: no image."""
    fields = [
        pa.field(name, kind, metadata={MYSQL_TYPE: mysql.encode()}) for name, (kind, mysql) in columns.items()
    ]
    schema = rows_schema(fields, json.dumps(key).encode())
    numbers = range(len(images))
    values = {
        "_header": list(numbers),
        "_row": list(numbers),
        "_op": [2] * len(images),
        "before": [before for before, _ in images],
        "after": [after for _, after in images],
    }
    return pa.RecordBatch.from_pydict(values, schema=schema)


ID, NOTE = (pa.int64(), "bigint"), (pa.utf8(), "varchar(9)")


def test_a_row_is_a_table_and_the_text_of_its_key():
    assert RowKey.parse("shop.orders:42") == RowKey(TableName("shop", "orders"), "42")
    assert RowKey.parse("shop.items:a:b,7").value == "a:b,7"


@pytest.mark.parametrize("wrong", ["", "orders:1", "shop.orders", "shop.orders:", ".orders:1", "shop.:1"])
def test_what_names_no_row_is_refused(wrong):
    with pytest.raises(UsageError, match="names no row"):
        RowKey.parse(wrong)


def test_an_insert_an_update_from_or_to_the_key_and_a_delete_concern_it():
    mine, other = {"id": 42, "note": "x"}, {"id": 7, "note": "42"}
    images = [(None, mine), (None, other), (mine, other), (other, mine), (mine, None), (other, None)]
    found = RowKey.parse("shop.orders:42").changes(rows(["id"], images, id=ID, note=NOTE))
    assert found.tolist() == [True, False, True, True, True, False]


def test_all_columns_of_a_key_count_in_their_order():
    images = [(None, {"b": "7", "a": 1}), (None, {"b": "1", "a": 7}), (None, {"b": None, "a": 1})]
    found = RowKey.parse("shop.items:1,7").changes(rows(["a", "b"], images, b=NOTE, a=ID))
    assert found.tolist() == [True, False, False]


def test_the_value_of_one_column_may_hold_commas():
    found = RowKey.parse("shop.t:a,b").changes(rows(["note"], [(None, {"note": "a,b"})], note=NOTE))
    assert found.tolist() == [True]


def test_a_value_is_written_as_the_server_prints_it():
    at = {"at": dt.datetime(2026, 1, 31, 12, 0, 0, 5000)}  # noqa: DTZ001 - DATETIME has no zone
    table = rows(["at"], [(None, at)], at=(pa.timestamp("us"), "datetime(3)"))
    assert RowKey.parse("shop.t:2026-01-31 12:00:00.005").changes(table).tolist() == [True]


def test_another_number_of_values_is_refused_with_the_names_of_the_columns():
    table = rows(["a", "b"], [], b=NOTE, a=ID)
    with pytest.raises(UsageError, match=r"has 2 columns \(a, b\), and '1' has 1 values"):
        RowKey.parse("shop.items:1").changes(table)


def test_without_a_known_key_nothing_is_known():
    assert RowKey.parse("shop.t:1").changes(rows([], [(None, {"id": 1})], id=ID)) is None
