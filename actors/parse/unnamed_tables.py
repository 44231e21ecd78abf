"""Unnamed tables: table maps that do not name their columns, completed as far as somebody knows.

Before MySQL 8.0 and MariaDB 10.5, and with `binlog_row_metadata=MINIMAL`, table maps hold no column names, no
keys and no values of ENUM and SET columns; older ones hold neither signs nor charsets. A live stream refuses
them, because the tables of its server may have changed since. Of files an operator may know better, and else
the bytes say what they say by themselves:

- columns are called @1, @2 and so on, as mysqlbinlog calls them;
- numbers without a known sign are signed;
- ENUM and SET without their values are numbers: an ENUM's place in its list, a SET's bits;
- strings without a known charset are binary, which loses nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from actors.parse.table_lookup import ColumnFacts, TableLookup
from actors.parse.table_map import Column, ColumnType, TableMap

_WHOLE_BY_SIZE = {
    1: ColumnType.TINY,
    2: ColumnType.SHORT,
    3: ColumnType.INT24,
    4: ColumnType.LONG,
    8: ColumnType.LONGLONG,
}


def completed(table: TableMap, lookup: TableLookup) -> TableMap:
    """Return a table map with a name for each column.

    Args:
        table: a table map without names.
        lookup: who is asked for the table; an answer with another number of columns is of another version of
            the table, and is not used.
    """
    facts = lookup.columns(table.schema, table.table)
    if facts is not None and len(facts) == len(table.columns):
        return _with_facts(table, facts)
    columns = (
        _bare(column, f"@{place}", charsets_known=table.charsets_known)
        for place, column in enumerate(table.columns, start=1)
    )
    return replace(table, columns=tuple(columns), named=True)


def _with_facts(table: TableMap, facts: Sequence[ColumnFacts]) -> TableMap:
    columns = []
    for column, fact in zip(table.columns, facts, strict=True):
        whole = replace(
            column,
            name=fact.name,
            unsigned=column.unsigned if table.signs_known else fact.unsigned,
            collation=column.collation if table.charsets_known else fact.collation,
            values=column.values or fact.values,
        )
        columns.append(_bare(whole, fact.name, charsets_known=True))
    key = tuple(fact.name for fact in facts if fact.primary_key)
    return replace(table, columns=tuple(columns), primary_key=key, named=True)


def _bare(column: Column, name: str, *, charsets_known: bool) -> Column:
    kind = column.type
    if kind in (ColumnType.ENUM, ColumnType.SET) and not column.values:
        return Column(_WHOLE_BY_SIZE[column.size], name=name, unsigned=True)
    if kind in (ColumnType.STRING, ColumnType.VAR_STRING) and not charsets_known:
        # Stored like a VARCHAR, which is not filled up to its length: whether it should be is not known.
        return Column(ColumnType.VARCHAR, size=column.size, name=name)
    return replace(column, name=name)
