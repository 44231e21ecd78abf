"""A plain reader: a process that dumps one server and notes when each transaction has arrived, no more.

It looks at nothing but the type of an event, keeps no order with other servers, and hands rows to nobody: no
reader of the server has them sooner. What a merged stream adds is measured against it.
"""

from __future__ import annotations

import multiprocessing
import struct
import time
from multiprocessing.connection import Connection
from typing import Any, Self

import numpy as np
import pymysql
from numpy.typing import NDArray
from pymysql.constants import COMMAND

from benchmarks._load import binlogs
from playground.database.server_process import DatabaseServer, ServerAddress

_SERVER_ID = 78
_SILENCE_S = 60.0
#: number and place of an event's type in a packet, whose first byte says that it holds one
_XID, _TYPE_AT = 16, 5
_OK = 0


class PlainReader:
    """Reads a server from its end on; a context manager, which ends it.

    Args:
        server: the server; nothing writes to it before this returns.
        count: transactions to read.
    """

    def __init__(self, server: DatabaseServer, count: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._results, theirs = context.Pipe(duplex=False)
        arguments = (server.address(), *binlogs(server)[-1], count, theirs)
        self._process = context.Process(target=_read, args=arguments, daemon=True)
        self._process.start()
        theirs.close()
        self._results.recv()

    def arrived_s(self) -> NDArray[np.float64]:
        """Wait for the end; return when each transaction had arrived, seconds of `time.monotonic`."""
        arrived_s: NDArray[np.float64] = self._results.recv()
        return arrived_s

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.join()


def _read(address: ServerAddress, file: str, offset: int, count: int, results: Connection) -> None:
    """Say that reading has begun, read, and send the times; the process fails if the connection does."""
    connection = pymysql.connect(
        host=address.host,
        port=address.port,
        user=address.user,
        password=address.password,
        read_timeout=_SILENCE_S,
    )
    with connection.cursor() as cursor:
        cursor.execute(
            "SET @master_binlog_checksum = 'CRC32', @source_binlog_checksum = 'CRC32', "
            "@mariadb_slave_capability = 4"
        )
    driver: Any = connection
    request = struct.pack("<IHI", offset, 0, _SERVER_ID) + file.encode()
    driver._execute_command(COMMAND.COM_BINLOG_DUMP, request)  # noqa: SLF001 - no public way
    results.send(None)
    arrived_s, arrived = np.zeros(count), 0
    while arrived < count:
        packet = driver._read_packet().get_all_data()  # noqa: SLF001
        if packet[0] != _OK:
            raise RuntimeError(f"the dump has ended after {arrived} of {count} transactions")
        if packet[_TYPE_AT] == _XID:
            arrived_s[arrived] = time.monotonic()
            arrived += 1
    results.send(arrived_s)
