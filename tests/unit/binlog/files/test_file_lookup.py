"""What files say of tables that no server shows: names that they had, and which columns are hashes."""

from __future__ import annotations

from dataclasses import replace

from canal_group.actors.sink.consumer_view import ConsumerView, History
from canal_group.binlog.charsets.charsets import BINARY_COLLATION
from canal_group.binlog.columns.columns import TableSchema
from canal_group.binlog.columns.table_lookup import ColumnFacts, NoLookup
from canal_group.binlog.columns.table_map import TableMap
from canal_group.binlog.columns.types.column import Column
from canal_group.binlog.columns.unnamed_tables import completed
from canal_group.binlog.files.file_lookup import FileLookup
from canal_group.binlog.formats.events import Query
from canal_group.merge.values.chunk import TableName
from canal_group.merge.values.types.table import ColumnType

BIG, TEXT = Column(ColumnType.LONGLONG, unsigned=True), Column(ColumnType.BLOB, size=2)


def table_of(*columns):
    named = tuple(replace(column, name=name) for name, column in columns)
    return TableMap("app", "t", named, (), named=True, nullable=b"\xff")


def shown(table, lookup):
    schema = TableSchema.of(TableName("app", "t"), completed(table, lookup, mariadb=True))
    return ConsumerView(History.DROP).columns(schema.arrow.field("after").type, schema.special).names


class Present(NoLookup):
    """A server that has the table without its hashes, or with columns of their names."""

    def __init__(self, *names):
        self._names = names

    def columns(self, _table):
        return [ColumnFacts(name, True, BINARY_COLLATION, (), 0) for name in self._names]


def test_hashes_of_unique_keys_are_told_by_name_where_no_lookup_says_them():
    table = table_of(("a", TEXT), ("b", TEXT), ("DB_ROW_HASH_1", BIG), ("DB_ROW_HASH_2", BIG))
    for lookup in (NoLookup(), Present("a", "b")):
        assert shown(table, lookup) == ["a", "b"]


def test_other_columns_with_such_names_are_shown():
    table = table_of(("DB_ROW_HASH_1", BIG), ("a", TEXT), ("DB_ROW_HASH_2", TEXT), ("DB_ROW_HASH_3", BIG))
    assert shown(table, NoLookup()) == ["DB_ROW_HASH_1", "a", "DB_ROW_HASH_2"]
    table = table_of(("a", TEXT), ("DB_ROW_HASH_1", BIG))
    assert shown(table, Present("a", "DB_ROW_HASH_1")) == ["a", "DB_ROW_HASH_1"], "a statement defines it"


def test_names_are_followed_through_the_statements_of_files():
    lookup = FileLookup(NoLookup())
    for sql in ("CREATE TABLE c LIKE t", "RENAME TABLE t TO u, c TO t"):
        lookup.redefine(Query("app", sql, b""), "f", 4)
    assert lookup.lineage("app", "u").origins == (TableName("app", "t"),)
    assert set(lookup.origins("app", "t")) == {TableName("app", "c")}
    assert lookup.lineage("app", "u").reads is None
