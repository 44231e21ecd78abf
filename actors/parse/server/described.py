"""Described tables: the Arrow columns of a server's tables as they are now, before any row has arrived.

`columns` derives the Arrow types of rows from their table maps. This module derives them from
`information_schema`, for readers that need a table's schema beforehand. Layout: "The INFORMATION_SCHEMA
COLUMNS Table" in MySQL's reference manual; MariaDB has the same columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import Any

import pyarrow as pa

from actors.parse.charsets.charsets import BINARY_COLLATION
from actors.parse.columns.addresses import ADDRESS_SIZES
from actors.parse.columns.types.column import Column
from actors.parse.columns.types.table import BY_NAME, TYPES
from actors.parse.server.source import SourceAddress, connect, query
from merge.errors import SourceUnavailable, UnsupportedEvent
from merge.values.chunk import MYSQL_TYPE, TableName

_TABLES = (
    "SELECT TABLE_SCHEMA AS sch, TABLE_NAME AS tab FROM information_schema.TABLES WHERE TABLE_SCHEMA NOT IN"
    " ('information_schema', 'mysql', 'performance_schema', 'sys') AND TABLE_TYPE IN ('BASE TABLE', 'SYSTEM"
    " VERSIONED')"
)
_COLUMNS = (
    "SELECT TABLE_SCHEMA AS sch, TABLE_NAME AS tab, COLUMN_NAME AS name, DATA_TYPE AS kind,"
    " COLUMN_TYPE AS full_type, NUMERIC_PRECISION AS digits, NUMERIC_SCALE AS scale,"
    " CHARACTER_SET_NAME AS charset FROM"
    " information_schema.COLUMNS WHERE TABLE_SCHEMA = {schema} AND TABLE_NAME = {table}"
    " ORDER BY ORDINAL_POSITION"
)
#: any charset that becomes text
_TEXT_COLLATION = 45


def described(
    address: SourceAddress,
    select: Callable[[str, str], TableName | None],
    name: TableName,
    process: Callable[[TableName, pa.Schema], pa.Schema] = lambda _, schema: schema,
) -> list[pa.Schema]:
    """Return the columns of the tables that consumers know by one name, each different definition once.

    Several of the source's tables may be routed to that name. Fields have `mysql_type` in their metadata.

    Args:
        address: the source.
        select: returns what consumers call a table of the source, or None.
        name: the table.
        process: returns what leaves the shard of a table's columns, by the table's name in the source.

    Raises:
        SourceUnavailable: the source does not answer.
        SourceUnfit: it refuses the connection or a query.
        UnsupportedEvent: a column's type is not known.
    """
    with closing(connect(address)) as connection:
        tables = [table for table in _tables(address, connection) if select(*table) == name]
        schemas = [process(table, _columns(address, connection, table)) for table in tables]
    return list(dict.fromkeys(schemas))


def described_tables(
    address: SourceAddress, wanted: Callable[[TableName], bool]
) -> Iterator[tuple[TableName, pa.Schema]]:
    """Yield the wanted tables that the account can see, by the source's names, and their columns.

    Raises:
        SourceUnavailable, SourceUnfit, UnsupportedEvent: see `described`.
    """
    with closing(connect(address)) as connection:
        for table in _tables(address, connection):
            if wanted(table):
                yield table, _columns(address, connection, table)


def _tables(address: SourceAddress, connection: Any) -> list[TableName]:
    return [TableName(str(row["sch"]), str(row["tab"])) for row in query(address, connection, _TABLES)]


def _columns(address: SourceAddress, connection: Any, table: TableName) -> Any:
    quoted = {"schema": connection.escape(table.schema), "table": connection.escape(table.table)}
    columns = query(address, connection, _COLUMNS.format(**quoted))
    if not columns:
        raise SourceUnavailable(f"{table} of {address} was dropped while it was read.")
    return pa.schema(
        [
            pa.field(str(row["name"]), arrow_type(row), metadata={MYSQL_TYPE: str(row["full_type"]).encode()})
            for row in columns
        ]
    )


def arrow_type(row: Mapping[str, Any]) -> Any:
    """Return the Arrow type of a column's values, as `columns.field_of` does; an ENUM becomes plain text.

    Args:
        row: a row of `information_schema.COLUMNS`, with `sch tab name kind full_type digits scale charset`.

    Raises:
        UnsupportedEvent: the type is not known.
    """
    name = str(row["kind"]).lower()
    kind = BY_NAME.get(name)
    if kind is None:
        raise UnsupportedEvent(
            f"Column {row['name']} of {row['sch']}.{row['tab']} is of type {name}, which is not known.",
            hint="The server may be newer than this version: leave the table out.",
        )
    column = Column(
        kind,
        precision=int(row["digits"] or 0),
        decimals=int(row["scale"] or 0),
        unsigned="unsigned" in str(row["full_type"]),
        collation=_TEXT_COLLATION if row["charset"] else BINARY_COLLATION,
        address=name if name in ADDRESS_SIZES else "",
    )
    arrow = TYPES[kind].arrow(column)
    return arrow.value_type if pa.types.is_dictionary(arrow) else arrow
