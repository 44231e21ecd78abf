"""Unnamed tables: completes table maps from a lookup, above all with column names.

Before MySQL 8.0 and MariaDB 10.5, and with `binlog_row_metadata` other than FULL, table maps hold no column
names, no keys and no values of ENUM and SET columns. NO_LOG and older servers leave out signs and charsets.
A live stream knows them from the definitions of its server's tables, see `canal_group.binlog.history`. For
files an operator may name a lookup. Without one:

- columns are called @1, @2 and so on, as mysqlbinlog calls them;
- numbers without a known sign are signed;
- ENUM and SET without their values are numbers: an ENUM's index in its list, a SET's bits;
- strings without a known charset are binary, which loses nothing.

MariaDB's table maps never say that a BINARY column is a UUID, an INET4 or an INET6, that a VARBINARY column
is a VECTOR, or how many fraction digits the old temporal types have (`mysql56_temporal_format=OFF`, and up to
10.0). A lookup supplies this too, for files and live streams, whether columns are named or not. It is used
for a column that still has its name, and whose present type has the size in the table map. Without a lookup,
addresses and vectors are bytes, and such times have no fraction. The lookup of files describes the present:
see docs/lookups.md. MySQL's VECTOR has a type of its own.

Nor do MariaDB's table maps say which columns the server fills itself, see `special`. A live stream refuses
rows whose columns may be such, if a lookup does not know them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from canal_group.binlog.columns.special import may_be_special, named_hashes
from canal_group.binlog.columns.table_lookup import ColumnFacts, TableLookup
from canal_group.binlog.columns.table_map import TableMap
from canal_group.binlog.columns.types import moments
from canal_group.binlog.columns.types.column import Column, Role
from canal_group.binlog.columns.types.documents import GEOMETRY_NAMES
from canal_group.binlog.columns.types.strings import SHORT_MAX
from canal_group.merge.errors import UnsupportedEvent
from canal_group.merge.values.types.kinds import Storage
from canal_group.merge.values.types.table import BY_NAME, TABLE, ColumnType, TypeRow

_WHOLE_BY_SIZE = {row.size: row.code for row in TABLE if row.storage is Storage.INTEGER}
#: type of binary strings -> types that MariaDB's table maps call so
_HIDDEN = {
    code: tuple(row for row in TABLE if row.hidden_in is code)
    for code in {row.hidden_in for row in TABLE if row.hidden_in is not None}
}


def completed(table: TableMap, lookup: TableLookup, *, mariadb: bool, names_needed: bool = False) -> TableMap:
    """Return a table map with a name for each column.

    Args:
        table: a table map, with names or without.
        lookup: describes the table. For a map without names, an answer with another number of
            columns describes another version of the table, and is not used.
        mariadb: whether MariaDB wrote it.
        names_needed: whether a map without names, or one that may have special columns, is refused if the
            lookup does not know its table.

    Raises:
        UnsupportedEvent: it is.
        DataError: the lookup contradicts the map.
    """
    if table.named:
        if not mariadb:
            return table
        special = may_be_special(table)
        if not special and not any(map(_is_vague, table.columns)):
            return table
        return _with_facts_by_name(table, lookup, needed=special and names_needed)
    facts = lookup.columns(table)
    if facts is not None and len(facts) == len(table.columns):
        if mariadb:
            table = replace(table, columns=tuple(map(_sharpened, table.columns, facts)))
        return _with_facts(table, facts)
    if names_needed:
        raise UnsupportedEvent(
            f"The rows of {table.schema}.{table.table} come without column names, and its definition is not "
            "known.",
            hint="SET GLOBAL binlog_row_metadata = FULL; and start after what is logged already.",
        )
    columns = (
        _bare(column, f"@{ordinal}", charsets_known=table.charsets_known)
        for ordinal, column in enumerate(table.columns, start=1)
    )
    return replace(table, columns=tuple(columns), named=True)


def _with_facts_by_name(table: TableMap, lookup: TableLookup, *, needed: bool) -> TableMap:
    columns_now = lookup.columns(table)
    if columns_now is None and needed:
        raise UnsupportedEvent(
            f"{table.schema}.{table.table} may be system-versioned, or have hidden columns. MariaDB does not "
            "log that, and the definition of that time is not known.",
            hint="If the table was altered since, start after the last ALTER TABLE and load earlier rows of "
            "the table otherwise, or leave the table out. The account needs SELECT or REFERENCES on it.",
            table=f"{table.schema}.{table.table}",
        )
    facts = {fact.name: fact for fact in columns_now or ()}
    hashes = named_hashes(table.columns) - facts.keys()
    columns = (
        replace(_sharpened(column, facts[column.name]), role=facts[column.name].role)
        if column.name in facts
        else replace(column, role=Role.HASH if column.name in hashes else column.role)
        for column in table.columns
    )
    return replace(table, columns=tuple(columns))


def _with_facts(table: TableMap, facts: Sequence[ColumnFacts]) -> TableMap:
    columns = []
    for column, fact in zip(table.columns, facts, strict=True):
        whole = replace(
            column,
            name=fact.name,
            unsigned=column.unsigned if table.signs_known else fact.unsigned,
            collation=column.collation if table.charsets_known else fact.collation,
            values=column.values or fact.values,
            geometry=_geometry(fact) if column.type is ColumnType.GEOMETRY else "",
            role=fact.role,
        )
        columns.append(_bare(whole, fact.name, charsets_known=True))
    in_key = sorted((fact for fact in facts if fact.key_ordinal), key=lambda fact: fact.key_ordinal)
    key = tuple(fact.name for fact in in_key)
    return replace(table, columns=tuple(columns), primary_key=key, named=True)


def _geometry(fact: ColumnFacts) -> str:
    """Return a geometry's type as table maps have it: MySQL has two names for one."""
    row = BY_NAME.get(fact.type)
    return fact.type if row is None or row.geometry is None else GEOMETRY_NAMES[row.geometry]


def _is_vague(column: Column) -> bool:
    return column.type in moments.OLD or any(_may_hide(row, column) for row in _HIDDEN.get(column.type, ()))


def _may_hide(row: TypeRow, column: Column) -> bool:
    return row.hidden_in is column.type and column.binary and row.fits_hidden(column.size)


def _sharpened(column: Column, fact: ColumnFacts) -> Column:
    """Return a column of MariaDB with what its table map cannot say."""
    row = BY_NAME.get(fact.type)
    if row is None:
        return column
    if column.type in moments.OLD:
        return replace(column, decimals=fact.decimals) if row.old is not None else column
    if not _may_hide(row, column) or column.size != (row.size or fact.size):
        return column
    if row.code is column.type:
        return replace(column, address=row.name)
    return replace(column, type=row.code, size=1 if column.size <= SHORT_MAX else 2)


def _bare(column: Column, name: str, *, charsets_known: bool) -> Column:
    kind = column.type
    if kind in (ColumnType.ENUM, ColumnType.SET) and not column.values:
        return Column(_WHOLE_BY_SIZE[column.size], name=name, unsigned=True)
    if kind in (ColumnType.STRING, ColumnType.VAR_STRING) and not charsets_known:
        # Read it like a VARCHAR, which is not padded: whether it should be padded is unknown.
        return Column(ColumnType.VARCHAR, size=column.size, name=name)
    return replace(column, name=name)
