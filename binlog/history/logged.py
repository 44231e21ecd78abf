"""Logged tables: from a table's definition to the columns that its rows have in the binlog.

`table_of` goes the way that rows go: it makes the table map that a server without metadata would log, and
completes it with the facts of the definition. So the columns agree with those of rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from binlog.charsets.charsets import charset_of
from binlog.columns.addresses import ADDRESS_SIZES
from binlog.columns.table_lookup import ColumnFacts, NoLookup
from binlog.columns.table_map import TableMap
from binlog.columns.types.column import Column, ColumnType, Role
from binlog.columns.types.table import BY_NAME
from binlog.columns.unnamed_tables import completed
from binlog.schema.definition import ColumnDefinition, Generated, TableDefinition, Visibility
from merge.errors import UnsupportedEvent

_FLOAT_SIZE = 4
_ENUM_OF_ONE_BYTE = 255
#: bytes of a SET's value
_SET_SIZES = (1, 2, 3, 4, 8)
#: bytes of the length of a BLOB's or TEXT's value, by the name's first letters
_BLOB_SIZES = {"tiny": 1, "medium": 3, "long": 4}
_DOCUMENT_LENGTH_SIZE = 4


def facts_of(definition: TableDefinition) -> list[ColumnFacts]:
    """Return what a table's definition says of each column that is logged, in order."""
    key = {name: place for place, name in enumerate(definition.row_key, start=1)}
    return [
        ColumnFacts(
            name=column.name,
            unsigned=column.unsigned,
            collation=column.collation,
            values=column.values,
            key_place=key.get(column.name, 0),
            type=column.type,
            decimals=column.decimals,
            size=column.length * _FLOAT_SIZE if column.type == "vector" else 0,
            role=_role(column),
        )
        for column in definition.logged
    ]


def reads_of(definition: TableDefinition) -> dict[str, tuple[str, ...]]:
    """Return which columns' expressions read others, see `Lineage`."""
    return {column.name.lower(): column.reads for column in definition.columns if column.reads}


def table_of(definition: TableDefinition) -> TableMap:
    """Return a table map with all that is known of the columns of a table.

    Raises:
        UnsupportedEvent: a column's type is not known.
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
    # Only MariaDB has the types that its table maps do not tell apart.
    return completed(table, _Facts(facts_of(definition)), mariadb=True)


class _Facts(NoLookup):
    """Answers for one table."""

    def __init__(self, facts: Sequence[ColumnFacts]) -> None:
        self._found = facts

    def columns(self, _table: TableMap) -> Sequence[ColumnFacts]:  # type: ignore[override]
        """Return the facts."""
        return self._found


def _role(column: ColumnDefinition) -> Role:
    if column.visibility is Visibility.HIDDEN:
        return Role.HASH
    implicit = column.visibility is Visibility.SYSTEM
    if column.generated is Generated.ROW_END:
        return Role.IMPLICIT_ROW_END if implicit else Role.ROW_END
    return Role.IMPLICIT_ROW_START if implicit else Role.PLAIN


def _stored(defined: ColumnDefinition, table: str) -> Column:
    """Return how a column's values are stored, as the first part of a table map says it."""
    kind = BY_NAME.get(defined.type)
    if kind is None:
        raise UnsupportedEvent(
            f"Column {defined.name} of {table} is of type {defined.type}, which is not known.",
            hint="The server may be newer than this version: leave the table out.",
        )
    decimals = defined.scale if kind is ColumnType.NEWDECIMAL else defined.decimals
    return Column(kind, size=_size(kind, defined), precision=defined.precision, decimals=decimals)


def _size(kind: ColumnType, defined: ColumnDefinition) -> int:
    match kind:
        case ColumnType.STRING | ColumnType.VARCHAR:
            return ADDRESS_SIZES.get(defined.type, defined.length * charset_of(defined.collation).width)
        case ColumnType.BLOB:
            return next((size for word, size in _BLOB_SIZES.items() if defined.type.startswith(word)), 2)
        case ColumnType.ENUM:
            return 1 if len(defined.values) <= _ENUM_OF_ONE_BYTE else 2
        case ColumnType.SET:
            wanted = (len(defined.values) + 7) // 8
            return min(size for size in _SET_SIZES if size >= wanted)
        case ColumnType.JSON | ColumnType.GEOMETRY | ColumnType.VECTOR:
            return _DOCUMENT_LENGTH_SIZE
        case _:
            return defined.length  # a BIT's bits
