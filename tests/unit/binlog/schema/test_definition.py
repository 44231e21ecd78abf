"""Definitions as JSON, and what table maps have of them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from canal_group.binlog.schema.definition import ColumnDefinition, Generated, Key, TableDefinition, Visibility

names = st.text(min_size=1, max_size=5)
columns = st.builds(
    ColumnDefinition,
    name=names,
    type=names,
    unsigned=st.booleans(),
    length=st.integers(0),
    values=st.lists(st.text()).map(tuple),
    nullable=st.booleans(),
    generated=st.sampled_from(Generated),
    visibility=st.sampled_from(Visibility),
)
keys = st.builds(
    Key, names, st.lists(names).map(tuple), st.booleans(), st.lists(st.integers(0)).map(tuple), st.booleans()
)
tables = st.builds(
    TableDefinition,
    names,
    names,
    st.lists(columns).map(tuple),
    st.lists(names).map(tuple),
    st.integers(0, 4000),
    st.lists(keys).map(tuple),
    st.booleans(),
)


@given(tables)
def test_json_keeps_a_table(table):
    assert TableDefinition.from_json(json.loads(json.dumps(table.to_json()))) == table


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"schema": "a"},
        {"schema": "a", "table": 1, "columns": []},
        {"schema": "a", "table": "t", "columns": {}},
        {"schema": "a", "table": "t", "columns": [1]},
        {"schema": "a", "table": "t", "columns": [{"name": "x", "type": "int", "nullable": 1}]},
        {"schema": "a", "table": "t", "columns": [{"name": "x", "type": "int", "values": "y"}]},
        {"schema": "a", "table": "t", "columns": [{"name": "x", "type": "int", "visibility": "?"}]},
        {
            "schema": "a",
            "table": "t",
            "columns": [],
            "keys": [{"name": "k", "columns": [], "prefixes": ["1"]}],
        },
        {"schema": "a", "table": "t", "columns": [], "more": 1},
    ],
)
def test_other_json_is_refused(data):
    with pytest.raises(ValueError):  # noqa: PT011 - the messages differ
        TableDefinition.from_json(data)


ID = ColumnDefinition("id", "int", nullable=False)
NAME = ColumnDefinition("name", "text")


def test_mariadb_logs_columns_that_it_does_not_show():
    key = Key("k", ("name",), True, hashed=True)
    table = TableDefinition("a", "t", (ID, NAME), ("id",), keys=(key,), versioned=True)
    assert [column.name for column in table.logged] == ["id", "name", "row_start", "row_end", "DB_ROW_HASH_1"]
    assert table.row_key == ("id", "row_end")


def test_a_hidden_column_takes_no_name_that_the_table_has():
    taken = ColumnDefinition("db_row_hash_2", "int")
    keys = (Key("k", ("name",), True, hashed=True), Key("l", ("name", "id"), True, hashed=True))
    table = TableDefinition("a", "t", (ID, taken, NAME), ("id",), keys=keys)
    assert [column.name for column in table.logged[3:]] == ["DB_ROW_HASH_1", "DB_ROW_HASH_3"]


def test_a_period_that_the_table_defines_is_not_added_again():
    end = ColumnDefinition("till", "timestamp", generated=Generated.ROW_END)
    table = TableDefinition("a", "t", (ID, end), ("id", "till"), versioned=True)
    assert table.logged == (ID, end)
    assert table.row_key == ("id", "till")


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (Key("k", ("ID",), True), ("ID",)),
        (Key("k", ("id",), False), ()),
        (Key("k", ("id",), True, (3,)), ()),
        (Key("k", ("id",), True, hashed=True), ()),
        (Key("k", ("",), True), ()),
        (Key("k", ("id", "name"), True), ()),
    ],
)
def test_without_a_primary_key_the_first_whole_unique_key_identifies_rows(key, expected):
    assert TableDefinition("a", "t", (ID, NAME), keys=(key,)).row_key == expected


def test_a_primary_key_goes_before_a_unique_one():
    key = Key("k", ("code",), True)
    table = TableDefinition("a", "t", (ID, replace(ID, name="code")), ("id",), keys=(key,))
    assert table.row_key == ("id",)


def test_json_leaves_out_what_a_table_has_not():
    assert set(TableDefinition("a", "t", (ID,)).to_json()) == {"schema", "table", "columns"}
