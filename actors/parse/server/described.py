"""Described tables: the Arrow columns of a server's tables as they are now, before any row has arrived.

`columns` derives the Arrow types of rows from their table maps. This module derives them from
`information_schema`, for readers that need a table's schema beforehand. Layout: "The INFORMATION_SCHEMA
COLUMNS Table" in MySQL's reference manual; MariaDB has the same columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any

import pyarrow as pa

from actors.parse.columns.table_metadata import GEOMETRY_NAMES
from actors.parse.server.source import SourceAddress, connect, query
from merge.errors import SourceUnavailable
from merge.values.chunk import TableName

_TABLES = (
    "SELECT TABLE_SCHEMA AS sch, TABLE_NAME AS tab FROM information_schema.TABLES WHERE TABLE_SCHEMA NOT IN"
    " ('information_schema', 'mysql', 'performance_schema', 'sys') AND TABLE_TYPE = 'BASE TABLE'"
)
_COLUMNS = (
    "SELECT TABLE_SCHEMA AS sch, TABLE_NAME AS tab, COLUMN_NAME AS name, DATA_TYPE AS kind,"
    " COLUMN_TYPE AS full_type, NUMERIC_PRECISION AS digits, NUMERIC_SCALE AS scale FROM"
    " information_schema.COLUMNS WHERE TABLE_SCHEMA = {schema} AND TABLE_NAME = {table}"
    " ORDER BY ORDINAL_POSITION"
)
_DECIMAL128_DIGITS = 38
_SIGNED = {
    "tinyint": (pa.int8(), pa.uint8()),
    "smallint": (pa.int16(), pa.uint16()),
    "mediumint": (pa.int32(), pa.uint32()),
    "int": (pa.int32(), pa.uint32()),
    "bigint": (pa.int64(), pa.uint64()),
}
_PLAIN = {
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "time": pa.duration("us"),
    "datetime": pa.timestamp("us"),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "year": pa.int16(),
    "bit": pa.uint64(),
    "vector": pa.list_(pa.float32()),
}
_BINARY = {"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"}
_SPATIAL = {*GEOMETRY_NAMES, "geomcollection"}


def described(
    address: SourceAddress, select: Callable[[str, str], TableName | None], name: TableName
) -> pa.Schema | None:
    """Return the columns of a table by the name that consumers know; None if the source has no such table.

    Several of the source's tables may be routed to that name. Columns that the first of them lacks come last,
    and types are widened as pyarrow's permissive promotion does it.

    Args:
        address: the source.
        select: returns what consumers call a table of the source, or None.
        name: the table.

    Raises:
        SourceUnavailable: the source does not answer.
        SourceUnfit: it refuses the connection or a query.
        pa.ArrowException: the tables' columns cannot be unified.
    """
    with closing(connect(address)) as connection:
        tables = [
            (str(row["sch"]), str(row["tab"]))
            for row in query(address, connection, _TABLES)
            if select(str(row["sch"]), str(row["tab"])) == name
        ]
        schemas = []
        for schema, table in tables:
            quoted = {"schema": connection.literal(schema), "table": connection.literal(table)}
            columns = query(address, connection, _COLUMNS.format(**quoted))
            if not columns:
                raise SourceUnavailable(f"{schema}.{table} of {address} was dropped while it was read.")
            schemas.append(pa.schema([(str(row["name"]), arrow_type(row)) for row in columns]))
    return pa.unify_schemas(schemas, promote_options="permissive") if schemas else None


def arrow_type(row: Mapping[str, Any]) -> Any:
    """Return the Arrow type of a column's values, as `columns.field_of` does; an ENUM becomes plain text.

    Args:
        row: a row of `information_schema.COLUMNS`, with `kind full_type digits scale`.
    """
    kind = str(row["kind"]).lower()
    if kind in _SIGNED:
        return _SIGNED[kind]["unsigned" in str(row["full_type"])]
    if kind == "decimal":
        digits, scale = int(row["digits"]), int(row["scale"])
        return (pa.decimal256 if digits > _DECIMAL128_DIGITS else pa.decimal128)(digits, scale)
    if kind in _BINARY or kind in _SPATIAL:
        return pa.binary()
    return _PLAIN.get(kind, pa.utf8())
