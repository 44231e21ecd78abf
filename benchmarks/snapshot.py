"""Snapshot: how fast a table's rows are selected into Arrow columns, beside the bytes of its text protocol.

A server holds a table of eleven columns of mixed types. All of it is selected, one way after the other:

    ours       pages of Arrow columns, from the binary protocol
    raw        the bytes of the text protocol, read from the socket and dropped
    pymysql    PyMySQL's tuples, of a part of the rows

`rows_per_s` is rows per second of wall-clock time, in which the server works too, `rows_per_cpu_s` of the
thread's own processor time. `ratio_to_raw` and `ratio_to_pymysql` are of wall-clock time. Each is the median
of rounds in which all run one after the other.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any, NamedTuple

import pymysql

from benchmarks._load import SCHEMA, TABLE, cpus, fill, servers
from benchmarks._readers import address_at
from canal_group.binlog.columns.columns import Losses
from canal_group.binlog.schema.definition import SourceName
from canal_group.binlog.server.definitions.dictionary import Dictionary
from canal_group.binlog.server.source import SourceAddress, connect, server_facts
from canal_group.binlog.snapshot.page import PageQuery
from canal_group.binlog.snapshot.page_reader import PageReader
from canal_group.binlog.snapshot.selected_table import SelectedTable
from canal_group.merge.values.chunk import TableName
from playground.database.engine import Engine
from playground.database.server_process import DatabaseServer

_ROUNDS = 5
_TRANSACTIONS = 5_000
#: PyMySQL reads one of so many rows
_PART = 10
_SERVER_ID = 4_000_001
_BUFFER_BYTES = 1 << 20
#: the packet that ends a result: the size of its payload, the payload's first byte, and bytes in all
_END_HEAD, _END, _END_BYTES = b"\5\0\0", b"\xfe", 9


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
        rounds = [
            (
                _speed(lambda: _ours(address, query), rows),
                _speed(lambda: raw(server), rows),
                _speed(lambda: _pymysql(server, rows // _PART), rows // _PART),
            )
            for _ in range(_ROUNDS)
        ]
    ours, raw, other = zip(*rounds, strict=True)
    return {
        "rows_per_s": round(statistics.median(each.wall for each in ours)),
        "rows_per_cpu_s": round(statistics.median(each.cpu for each in ours)),
        "raw_rows_per_s": round(statistics.median(each.wall for each in raw)),
        "pymysql_rows_per_s": round(statistics.median(each.wall for each in other)),
        "ratio_to_raw": round(statistics.median(one.wall / two.wall for one, two, _ in rounds), 2),
        "ratio_to_pymysql": round(statistics.median(one.wall / two.wall for one, _, two in rounds), 1),
        "rows": rows,
        "cpus": cpus(),
    }


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


def raw(server: DatabaseServer) -> int:
    """Read the bytes of a result up to its end; return 0, because rows are not counted."""
    with closing(server.connect(SCHEMA)) as connection:
        driver: Any = connection
        driver.query(f"SELECT * FROM {TABLE} ORDER BY id", unbuffered=True)
        buffer, tail = bytearray(_BUFFER_BYTES), b""
        while not (tail[:3] == _END_HEAD and tail[4:5] == _END):
            size = driver._rfile.readinto1(buffer)  # noqa: SLF001 - no public way
            assert size, "the server has ended the connection"
            tail = (tail + bytes(buffer[max(0, size - _END_BYTES) : size]))[-_END_BYTES:]
        driver._result.unbuffered_active = False  # noqa: SLF001 - the driver would wait for the end
        return 0


def _pymysql(server: DatabaseServer, rows: int) -> int:
    with closing(server.connect(SCHEMA)) as connection, connection.cursor(pymysql.cursors.SSCursor) as cursor:
        cursor.execute(f"SELECT * FROM {TABLE} ORDER BY id LIMIT {rows}")
        return sum(1 for _ in cursor)
