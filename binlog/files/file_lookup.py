"""File lookup: the origins of tables by the statements of files, beside the facts of another lookup.

It knows the statements that were read since the reader began: no history of files is stored.
"""

from __future__ import annotations

from collections.abc import Sequence

from canal_group.binlog.charsets.charsets import BINARY_COLLATION
from canal_group.binlog.columns.table_lookup import ColumnFacts, NoLookup, TableLookup
from canal_group.binlog.columns.table_map import TableMap
from canal_group.binlog.formats.events import Query
from canal_group.binlog.schema.catalog import Catalog
from canal_group.binlog.schema.definition import SourceName
from canal_group.binlog.schema.statement import ServerVersion
from canal_group.binlog.server.definitions.lost import lost
from canal_group.binlog.statements.logged_statement import statement_of
from canal_group.merge.errors import CorruptEvent
from canal_group.merge.values.chunk import Lineage, TableName

#: the version that the statements are parsed for: which executable comments it has does not matter for names
_VERSION = ServerVersion(True, 10, 11)


class FileLookup(NoLookup):
    """Adds the names that tables had to the facts of a lookup.

    Args:
        lookup: describes tables.
    """

    def __init__(self, lookup: TableLookup) -> None:
        self._lookup = lookup
        self._catalog = Catalog(BINARY_COLLATION)
        self._catalog.forget_all("Files do not show it.")

    def columns(self, table: TableMap) -> Sequence[ColumnFacts] | None:  # type: ignore[override]
        """Return the columns that the lookup has."""
        return self._lookup.columns(table)

    def redefine(self, query: Query, file: str, end: int) -> None:
        """Apply what a statement does to names."""
        self._lookup.redefine(query, file, end)
        try:
            self._catalog.apply(statement_of(query, _VERSION))
        except CorruptEvent:  # its settings cannot be read, and do not matter here
            return

    def lose(self, query: Query | None, file: str, end: int) -> None:
        """Apply that a statement is left out: any of its tables may be another one now."""
        self._lookup.lose(query, file, end)
        statement = lost(query, _VERSION)
        if statement is not None:
            self._catalog.apply(statement)

    def origins(self, schema: str, table: str) -> tuple[TableName, ...]:
        """Return the former names of a table, and the names of tables that LIKE copied for the table."""
        return tuple(TableName(*each) for each in self._catalog.ancestry(SourceName(schema, table)).names)

    def lineage(self, schema: str, table: str) -> Lineage:
        """Return where the values of a table come from, by the lookup and by the statements of files."""
        own = Lineage(reads=self._lookup.lineage(schema, table).reads)
        return own.with_more(
            self._catalog.ancestry(SourceName(schema, table)).reads, self.origins(schema, table)
        )
