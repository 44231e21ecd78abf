"""Snapshot: how fast a table's rows are selected into Arrow columns, beside the bytes of its text protocol.

A server holds a table of eleven columns of mixed types. All of it is selected, one way after the other:

    ours       pages of Arrow columns, from the binary protocol
    rivals     see `benchmarks._table_rivals`

`rows_per_s` is rows per second of wall-clock time, in which the server works too, `rows_per_cpu_s` of the
thread's own processor time. Ratios are of wall-clock time. Each is the median of rounds in which all run one
after the other; those of connectorx are null if it is not installed.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any, NamedTuple

from benchmarks._load import SCHEMA, TABLE, cpus, fill, servers
from benchmarks._readers import address_at
from benchmarks._table_rivals import PYMYSQL_PART, of_connectorx, of_pymysql, raw
from canal_group.binlog.columns.columns import Losses
from canal_group.binlog.schema.definition import SourceName
from canal_group.binlog.server.definitions.dictionary import Dictionary
from canal_group.binlog.server.source import SourceAddress, connect, server_facts
from canal_group.binlog.snapshot.page import PageQuery
from canal_group.binlog.snapshot.page_reader import PageReader
from canal_group.binlog.snapshot.selected_table import SelectedTable
from canal_group.merge.values.chunk import TableName
from playground.database.engine import Engine

_ROUNDS = 5
_TRANSACTIONS = 5_000
_SERVER_ID = 4_000_001


class Speed(NamedTuple):
    """Rows per second."""

    wall: float
    cpu: float


def measure(size: float, engine: Engine = Engine.MARIADB) -> dict[str, Any]:
    """Return speeds and ratios."""
    with servers(engine, 1) as (server,):
        rows = fill([server], "bulk", max(1, int(_TRANSACTIONS * size))).rows
        server.execute(f"GRANT SELECT ON {SCHEMA}.* TO canal@127.0.0.1")
        address = address_at(server, "s1", _SERVER_ID)
        query = PageQuery(_table(address), order=("id",))
        _ours(address, query)  # warm up
        part = rows // PYMYSQL_PART
        pymysql, connectorx = of_pymysql(part), of_connectorx()
        rounds = [
            (
                _speed(lambda: _ours(address, query), rows),
                _speed(lambda: raw(server), rows),
                _speed(lambda: pymysql(server), part),
                None if connectorx is None else _speed(lambda: connectorx(server), rows),
            )
            for _ in range(_ROUNDS)
        ]
    ours, *rivals = zip(*rounds, strict=True)
    result: dict[str, Any] = {
        "rows_per_s": round(statistics.median(each.wall for each in ours)),
        "rows_per_cpu_s": round(statistics.median(each.cpu for each in ours)),
    }
    for name, speeds in zip(("raw", "pymysql", "connectorx"), rivals, strict=True):
        known = None not in speeds
        result[f"{name}_rows_per_s"] = (
            round(statistics.median(each.wall for each in speeds)) if known else None
        )
        ratios = [one.wall / two.wall for one, two in zip(ours, speeds, strict=True)] if known else []
        result[f"ratio_to_{name}"] = round(statistics.median(ratios), 2) if known else None
    return {**result, "rows": rows, "cpus": cpus()}


def _table(address: SourceAddress) -> SelectedTable:
    with closing(connect(address)) as connection:
        dictionary = Dictionary(address, connection, server_facts(address, connection))
        definition = dictionary.definition(SourceName(SCHEMA, TABLE))
    assert definition is not None, "the account sees the table"
    return SelectedTable.of(definition, TableName(SCHEMA, TABLE))


def _speed(read: Callable[[], int], rows: int) -> Speed:
    wall, cpu = time.monotonic(), time.thread_time()
    count = read()
    wall, cpu = time.monotonic() - wall, time.thread_time() - cpu
    assert count in (rows, 0), f"{count} rows of {rows}"
    return Speed(rows / wall, rows / cpu)


def _ours(address: SourceAddress, query: PageQuery) -> int:
    with closing(connect(address)) as connection:
        reader = PageReader(address, connection, Losses())
        return sum(page.rows.rows.num_rows for page in reader.pages(query))
