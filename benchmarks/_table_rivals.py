"""Other readers of a server's full table, measured for comparison with a snapshot.

raw          the bytes of the text protocol, read from the socket and dropped
pymysql      PyMySQL's tuples, of a part of the rows
connectorx   connectorx's Arrow columns, if it is installed
"""

from __future__ import annotations

import importlib
import importlib.util
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pymysql

from benchmarks._load import SCHEMA, TABLE
from playground.database.server_process import DatabaseServer

_BUFFER_BYTES = 1 << 20
#: the packet that ends a result: the size of its payload, the payload's first byte, and bytes in all
_END_HEAD, _END, _END_BYTES = b"\5\0\0", b"\xfe", 9
#: PyMySQL reads one of so many rows
PYMYSQL_PART = 10


def rows_per_s(made: Sequence[DatabaseServer], read: Callable[[DatabaseServer], int], rows: int) -> float:
    """Return the rows per second of a reader that reads all servers at once.

    Args:
        made: the servers.
        read: reads one of them; returns how many rows, 0: it has not counted.
        rows: of all of them.
    """
    began_s = time.monotonic()
    with ThreadPoolExecutor(len(made)) as pool:
        count = sum(pool.map(read, made))
    took_s = time.monotonic() - began_s
    if count not in (0, rows):
        raise RuntimeError(f"{count} rows of {rows} came")
    return rows / took_s


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


def of_pymysql(rows: int) -> Callable[[DatabaseServer], int]:
    """Return a reader of the first rows of a server."""

    def read(server: DatabaseServer) -> int:
        with (
            closing(server.connect(SCHEMA)) as connection,
            connection.cursor(pymysql.cursors.SSCursor) as cursor,
        ):
            cursor.execute(f"SELECT * FROM {TABLE} ORDER BY id LIMIT {rows}")
            return sum(1 for _ in cursor)

    return read


def of_connectorx() -> Callable[[DatabaseServer], int] | None:
    """Return a reader of all rows of a server; None: it is not installed."""
    if importlib.util.find_spec("connectorx") is None:
        return None
    library: Any = importlib.import_module("connectorx")

    def read(server: DatabaseServer) -> int:
        where = server.address("root")
        source = f"mysql://{where.user}:{where.password}@{where.host}:{where.port}/{SCHEMA}"
        found = library.read_sql(source, f"SELECT * FROM {TABLE} ORDER BY id", return_type="arrow")
        return int(found.num_rows)

    return read
