"""Types that an operator chose for columns."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from canal_group.merge.errors import UsageError
from canal_group.merge.rows.chosen_types import COLUMNS_MAX, TypeOverrides, parse_type
from canal_group.merge.values.chunk import TableName

ORDERS = TableName("shop", "orders")


@pytest.mark.parametrize(
    ("type_name", "kind"),
    [
        ("TEXT", pa.utf8()),
        ("bigint  Unsigned", pa.uint64()),
        ("decimal( 20 , 4 )", pa.decimal128(20, 4)),
        ("decimal(65)", pa.decimal256(65, 0)),
        ("timestamp", pa.timestamp("us", tz="UTC")),
    ],
)
def test_types_are_written_as_in_mysql(type_name: str, kind: object) -> None:
    assert parse_type(type_name) == kind


@pytest.mark.parametrize(
    "type_name", ["", "varchar(5)", "decimal", "decimal(0)", "decimal(77)", "decimal(4,5)", "int8"]
)
def test_others_are_refused_with_those_that_there_are(type_name: str) -> None:
    with pytest.raises(UsageError, match="is not a type that can be chosen") as caught:
        TypeOverrides().changed(ORDERS, "total", type_name)
    assert "bigint unsigned" in caught.value.hint


def test_choices_are_read_as_they_were_written() -> None:
    chosen = TypeOverrides().changed(ORDERS, "Total", "Decimal(9, 2)").changed(ORDERS, "note", "text")
    again = TypeOverrides.from_json(chosen.to_json())
    assert again.of(ORDERS) == {"total": pa.decimal128(9, 2), "note": pa.utf8()}
    assert again.of(TableName("shop", "items")) == {}
    less = again.changed(ORDERS, "TOTAL", None)
    assert less.of(ORDERS) == {"note": pa.utf8()}
    assert less.changed(ORDERS, "note", None) == TypeOverrides()
    with pytest.raises(UsageError, match="No type was chosen for column total of shop"):
        less.changed(ORDERS, "total", None)
    assert TypeOverrides.from_json(None) == TypeOverrides()


@pytest.mark.parametrize(
    "text", ["", "[]", '{"version": 2, "types": {}}', '{"version": 1, "types": {"a.b": {"c": "x"}}}', "3"]
)
def test_damaged_choices_are_refused(text: str) -> None:
    with pytest.raises((ValueError, TypeError)):
        TypeOverrides.from_json(text)


def test_there_are_only_so_many() -> None:
    full = TypeOverrides.from_json(
        json.dumps({"version": 1, "types": {"a.b": {f"c{number}": "text" for number in range(COLUMNS_MAX)}}})
    )
    assert len(full.changed(TableName("a", "b"), "c7", "blob").of(TableName("a", "b"))) == COLUMNS_MAX
    with pytest.raises(UsageError, match="1,000 columns have a chosen type"):
        full.changed(ORDERS, "total", "text")
