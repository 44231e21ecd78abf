"""Server lookup: tables as a server's `information_schema` describes them now.

The description may be newer than the rows of a binlog; it is right only for tables that were not altered
since. A server shows only the columns on which the account has SELECT or REFERENCES. Layout: "The
INFORMATION_SCHEMA COLUMNS Table" in MySQL's reference manual; MariaDB has the same columns.
"""

from __future__ import annotations

import re
from typing import Any

import pymysql

from actors.parse.charsets.charsets import BINARY_COLLATION, collation_of
from actors.parse.columns.table_lookup import ColumnFacts
from actors.parse.columns.table_map import TableMap
from actors.parse.formats.events import Query
from actors.parse.server.source import SourceAddress, translated

_COLUMNS = (
    "SELECT c.COLUMN_NAME AS name, c.COLUMN_TYPE AS type, k.ORDINAL_POSITION AS key_place, "
    "c.CHARACTER_SET_NAME AS charset, c.DATA_TYPE AS plain, c.DATETIME_PRECISION AS decimals "
    "FROM information_schema.COLUMNS c LEFT JOIN information_schema.KEY_COLUMN_USAGE k ON k.TABLE_SCHEMA = "
    "c.TABLE_SCHEMA AND k.TABLE_NAME = c.TABLE_NAME AND k.COLUMN_NAME = c.COLUMN_NAME AND "
    "k.CONSTRAINT_NAME = 'PRIMARY' WHERE c.TABLE_SCHEMA = %s AND c.TABLE_NAME = %s "
    "ORDER BY c.ORDINAL_POSITION"
)
_VECTOR = re.compile(r"vector\((\d+)\)")
_FLOAT_SIZE = 4
_VALUE = re.compile(r"'((?:[^']|'')*)'")


class ServerLookup:
    """Queries a server for tables, each table once between two changes of definitions.

    Args:
        address: the server, for errors.
        connection: an open connection to it.
    """

    def __init__(self, address: SourceAddress, connection: pymysql.Connection[Any]) -> None:
        self._address = address
        self._connection = connection
        self._known: dict[tuple[str, str], list[ColumnFacts] | None] = {}

    def columns(self, table: TableMap) -> list[ColumnFacts] | None:
        """Return a table's columns in order; None if the server has no such table, or does not show it.

        Raises:
            SourceUnavailable, SourceUnfit: the server does not answer, or refuses.
        """
        name = table.schema, table.table
        if name not in self._known:
            self._known[name] = self._ask(*name)
        return self._known[name]

    def redefine(self, _query: Query, _file: str, _end: int) -> None:
        """Forget the answers: query the server again from now on."""
        self._known.clear()

    def tables(self) -> None:
        """Return None: the server shows the tables of now."""

    def _ask(self, schema: str, table: str) -> list[ColumnFacts] | None:
        with translated(self._address), self._connection.cursor(pymysql.cursors.DictCursor) as cursor:
            cursor.execute(_COLUMNS, (schema, table))
            rows = cursor.fetchall()
        return list(map(_facts, rows)) or None


def _facts(row: dict[str, Any]) -> ColumnFacts:
    kind = str(row["type"])
    listed = kind.startswith(("enum(", "set("))
    vector = _VECTOR.fullmatch(kind)
    return ColumnFacts(
        name=str(row["name"]),
        unsigned="unsigned" in kind and not listed,
        collation=collation_of(str(row["charset"])) if row["charset"] else BINARY_COLLATION,
        values=tuple(value.replace("''", "'") for value in _VALUE.findall(kind)) if listed else (),
        key_place=int(row["key_place"] or 0),
        type=str(row["plain"]).lower(),
        decimals=int(row["decimals"] or 0),
        size=_FLOAT_SIZE * int(vector[1]) if vector else 0,
    )
