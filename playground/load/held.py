"""Held: the rows that servers hold, to be compared with what a consumer received."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from canal_group.programs.demo.delivered import CELL_END, cell
from canal_group.programs.demo.replica import Rows
from canal_group.programs.demo.tables import TABLES, schema_name
from playground.database.server_process import DatabaseServer


def read_tables(servers: Sequence[DatabaseServer], names: Sequence[str]) -> Rows:
    """Return the rows of all shards, as their servers print them.

    Args:
        servers: the shards.
        names: theirs, by shard_index.
    """
    rows: Rows = {}
    for shard, (server, name) in enumerate(zip(servers, names, strict=True)):
        for table, key, image in _server_rows(server, shard):
            rows[name, table, key] = image
    return rows


def _server_rows(server: DatabaseServer, shard: int) -> Iterator[tuple[str, str, str]]:
    """Yield table, key and image of each row of a shard."""
    # Without converters, PyMySQL hands out the server's own text.
    with contextlib.closing(server.connect(schema_name(shard), conv={})) as connection:
        for table in TABLES:
            with connection.cursor() as cursor:
                cursor.execute(f"SELECT * FROM {table.source(shard)}")
                columns = [column[0] for column in cursor.description]
                for values in cursor:
                    cells = [cell(name, value) for name, value in zip(columns, values, strict=True)]
                    yield table.name, CELL_END.join(cells[: table.key_columns]), CELL_END.join(cells)
