"""Logged tables: from a table's definition to the columns that its rows have in the binlog.

`table_of` goes the way that rows go: it makes the table map that a server without metadata would log, and
completes it with the facts of the definition. So the columns agree with those of rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from canal_group.binlog.charsets.charsets import charset_of
from canal_group.binlog.columns.table_lookup import ColumnFacts, NoLookup
from canal_group.binlog.columns.table_map import TableMap
from canal_group.binlog.columns.types.column import Column, Role
from canal_group.binlog.columns.types.strings import listed_size
from canal_group.binlog.columns.unnamed_tables import completed
from canal_group.binlog.schema.ancestry import Ancestry
from canal_group.binlog.schema.definition import ColumnDefinition, Generated, TableDefinition, Visibility
from canal_group.binlog.schema.names import folded
from canal_group.merge.errors import UnsupportedEvent
from canal_group.merge.values.chunk import Lineage, TableName
from canal_group.merge.values.types.kinds import Storage
from canal_group.merge.values.types.table import BY_NAME, TypeRow


def facts_of(definition: TableDefinition) -> list[ColumnFacts]:
    """Return the facts of each logged column of a table's definition, in order."""
    key = {name: ordinal for ordinal, name in enumerate(definition.row_key, start=1)}
    return [
        ColumnFacts(
            name=column.name,
            unsigned=column.unsigned,
            collation=column.collation,
            values=column.values,
            key_ordinal=key.get(column.name, 0),
            type=column.type,
            decimals=column.decimals,
            size=_list_size(column),
            role=_role(column),
        )
        for column in definition.logged
    ]


def lineage_of(definition: TableDefinition, ancestry: Ancestry | None = None) -> Lineage:
    """Return where the values of a table come from, by its definition and its ancestry, if that is known."""
    ancestry = (ancestry or Ancestry()).defining(definition)
    # Columns of rows are compared in lower case.
    own = {folded(column.name): column.name.lower() for column in definition.columns}
    reads = {
        own.get(name, name): tuple(own.get(each, each) for each in read)
        for name, read in ancestry.reads.items()
    }
    return Lineage(tuple(TableName(*name) for name in ancestry.names), reads)


def table_of(definition: TableDefinition) -> TableMap:
    """Return a table map with all facts about the columns of a table.

    Raises:
        UnsupportedEvent: a column's type is unknown.
    """
    name = f"{definition.schema}.{definition.table}"
    table = TableMap(
        definition.schema,
        definition.table,
        tuple(_stored(column, name) for column in definition.logged),
        (),
        named=False,
        signs_known=False,
        charsets_known=False,
    )
    # Only MariaDB has types that its table maps do not distinguish.
    return completed(table, _Facts(facts_of(definition)), mariadb=True)


class _Facts(NoLookup):
    def __init__(self, facts: Sequence[ColumnFacts]) -> None:
        self._facts = facts

    def columns(self, _table: TableMap) -> Sequence[ColumnFacts]:  # type: ignore[override]
        """Return the facts."""
        return self._facts


def _role(column: ColumnDefinition) -> Role:
    if column.visibility is Visibility.HIDDEN:
        return Role.HASH
    implicit = column.visibility is Visibility.SYSTEM
    if column.generated is Generated.ROW_END:
        return Role.IMPLICIT_ROW_END if implicit else Role.ROW_END
    return Role.IMPLICIT_ROW_START if implicit else Role.PLAIN


def _stored(defined: ColumnDefinition, table: str) -> Column:
    """Return how a column's values are stored, as the first part of a table map has it."""
    row = BY_NAME.get(defined.type)
    if row is None:
        raise UnsupportedEvent(
            f"Column {defined.name} of {table} is of type {defined.type}, which is unknown.",
            hint="The server may be newer than this version: leave the table out.",
        )
    decimals = defined.scale if row.storage is Storage.DECIMAL else defined.decimals
    return Column(row.code, size=_size(row, defined), precision=defined.precision, decimals=decimals)


def _size(row: TypeRow, defined: ColumnDefinition) -> int:
    if row.storage in (Storage.ENUM, Storage.SET):
        return listed_size(row.storage, len(defined.values))
    if row.storage is Storage.CHAR and row.size:
        return row.size
    # Of a BIT it is bits, of a string the most bytes.
    return row.length_size or defined.length * charset_of(defined.collation).width


def _list_size(column: ColumnDefinition) -> int:
    """Return the bytes of a list's value; 0 of other types."""
    row = BY_NAME.get(column.type)
    return 0 if row is None else column.length * row.unit
