"""Server lookup: tables as a server shows them now.

The description may be newer than the rows of a binlog; it is right only for tables that were not altered
since. A server shows only tables on which the account has SELECT or REFERENCES.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import pymysql

from canal_group.binlog.columns.table_lookup import ColumnFacts
from canal_group.binlog.columns.table_map import TableMap
from canal_group.binlog.formats.events import Query
from canal_group.binlog.history.logged import facts_of, lineage_of
from canal_group.binlog.schema.definition import SourceName, TableDefinition
from canal_group.binlog.server.definitions.dictionary import Dictionary
from canal_group.binlog.server.source import SourceAddress, server_facts
from canal_group.merge.values.chunk import Lineage, TableName


class ServerLookup:
    """Queries a server for tables, each table once between two changes of definitions.

    Args:
        address: the server, for errors.
        connection: an open connection to it, whose session is changed.
    """

    def __init__(self, address: SourceAddress, connection: pymysql.Connection[Any]) -> None:
        self._address = address
        self._connection = connection
        self._known: dict[tuple[str, str], TableDefinition | None] = {}

    def columns(self, table: TableMap) -> list[ColumnFacts] | None:
        """Return a table's columns in order; None if the server has no such table, or does not show it.

        Raises:
            SourceUnavailable, SourceUnfit: the server does not answer, or refuses.
        """
        definition = self._definition(table.schema, table.table)
        return None if definition is None else facts_of(definition)

    def origins(self, _schema: str, _table: str) -> tuple[TableName, ...]:
        """Return no origins: a server does not tell the former names of a table."""
        return ()

    def lineage(self, schema: str, table: str) -> Lineage:
        """Return which columns read others now.

        Raises:
            SourceUnavailable, SourceUnfit: the server does not answer, or refuses.
        """
        definition = self._definition(schema, table)
        return Lineage() if definition is None else lineage_of(definition)

    def _definition(self, schema: str, table: str) -> TableDefinition | None:
        name = schema, table
        if name not in self._known:
            self._known[name] = self._dictionary.definition(SourceName(*name))
        return self._known[name]

    def redefine(self, _query: Query, _file: str, _end: int) -> None:
        """Forget the answers: query the server again from now on."""
        self._known.clear()

    def lose(self, _query: Query | None, _file: str, _end: int) -> None:
        """Forget the answers: query the server again from now on."""
        self._known.clear()

    def tables(self) -> None:
        """Return None: the server shows the tables of now."""

    @cached_property
    def _dictionary(self) -> Dictionary:
        return Dictionary(self._address, self._connection, server_facts(self._address, self._connection))
