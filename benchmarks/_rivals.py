"""Rivals: other readers of the same binlogs, measured for comparison with the pipeline.

A raw dump copies binlogs without decoding them, as fast as a server sends them. mysql-replication decodes
rows in Python.
"""

from __future__ import annotations

import heapq
import importlib.util
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import count
from operator import itemgetter
from pathlib import Path
from typing import Any

import pymysql
from pymysql.constants import COMMAND

from benchmarks._load import binlogs
from playground.database.mysql import mysqlbinlog
from playground.database.server_process import CANAL_PASSWORD, DatabaseServer

#: environment variable with a reader's password, which clients of both servers know
PASSWORD_VARIABLE = "MYSQL_PWD"
_CLIENTS = ("mariadb-binlog", "mysqlbinlog")
_NON_BLOCKING = 1
_OK = 0


def raw_dumps(made: Sequence[DatabaseServer]) -> tuple[float, str]:
    """Dump all servers' binlogs in parallel; return total bytes per second, and the name of the reader."""
    clients = [_client(server) for server in made]
    sizes = [sum(size for _, size in binlogs(server)) for server in made]
    with tempfile.TemporaryDirectory(prefix="cg-bench-") as folder:
        commands = [
            _dump(client, server, f"{folder}/{index}-")
            for index, (client, server) in enumerate(zip(clients, made, strict=True))
        ]
        began_s = time.monotonic()
        running = [
            subprocess.Popen(command, stdout=subprocess.DEVNULL, env=_environment()) for command in commands
        ]
        ended = [process.wait() for process in running]
        took_s = time.monotonic() - began_s
    if any(ended):
        raise RuntimeError("a raw dump failed")
    names = {Path(client[0]).name if client else "own reader of raw packets" for client in clients}
    return sum(sizes) / took_s, ", ".join(sorted(names))


def _client(server: DatabaseServer) -> list[str] | None:
    """Return the command of the server's own client for binlogs, or None if it is not installed.

    Neither encrypts: the pipeline's connections are not encrypted either.
    """
    if server.engine == "mysql":
        return [str(mysqlbinlog()), "--ssl-mode=DISABLED", "--get-server-public-key"]
    path = next(filter(None, map(shutil.which, _CLIENTS)), None)
    return [path, "--no-defaults"] if path else None


def _dump(client: list[str] | None, server: DatabaseServer, result: str) -> list[str]:
    where, first = server.address(), binlogs(server)[0][0]
    if client is None:
        return [sys.executable, "-m", __name__, "raw", json.dumps([_account(server), first])]
    return [
        *client,
        "--raw",
        "--read-from-remote-server",
        "--to-last-log",
        f"--host={where.host}",
        "--protocol=tcp",
        f"--port={where.port}",
        f"--user={where.user}",
        f"--result-file={result}",
        first,
    ]


def replication_rows_per_s(made: Sequence[DatabaseServer], rows: int) -> float | None:
    """Merge rows of all servers with mysql-replication and a heap; None if it is not installed."""
    arguments = json.dumps([[_account(server) for server in made], binlogs(made[0])[0][0], rows])
    command = [sys.executable, "-m", __name__, "replication", arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=_environment())
    took_s = json.loads(done.stdout)
    return rows / took_s if took_s else None


def _account(server: DatabaseServer) -> dict[str, Any]:
    where = server.address()
    return {"host": where.host, "port": where.port, "user": where.user}


def _environment() -> dict[str, str]:
    """Return the environment of a reader; every user of the machine could read a command line."""
    return {**os.environ, PASSWORD_VARIABLE: CANAL_PASSWORD}


# ---- in processes of their own -------------------------------------------------------------------------


def _raw(account: dict[str, Any], first: str) -> int:
    """Dump a server's binlogs and count their bytes."""
    connection = pymysql.connect(**account, password=os.environ[PASSWORD_VARIABLE], ssl_disabled=True)
    with connection.cursor() as cursor:
        cursor.execute("SET @master_binlog_checksum = 'CRC32', @mariadb_slave_capability = 4")
    driver: Any = connection
    request = struct.pack("<IHI", 4, _NON_BLOCKING, 77) + first.encode()
    driver._execute_command(COMMAND.COM_BINLOG_DUMP, request)  # noqa: SLF001 - no public way
    received = 0
    while True:
        packet = driver._read_packet()  # noqa: SLF001
        if packet.get_all_data()[0] != _OK:
            return received
        received += len(packet.get_all_data()) - 1


def _replication(accounts: list[dict[str, Any]], first: str, rows: int) -> float | None:
    """Merge `rows` rows by time; return the seconds it took."""
    if importlib.util.find_spec("pymysqlreplication") is None:
        return None
    library = importlib.import_module("pymysqlreplication")
    inserts = importlib.import_module("pymysqlreplication.row_event").WriteRowsEvent

    def stream(index: int, account: dict[str, Any]) -> Iterator[tuple[int, int, int]]:
        reader = library.BinLogStreamReader(
            connection_settings={**account, "password": os.environ[PASSWORD_VARIABLE]},
            server_id=7000 + index,
            log_file=first,
            log_pos=4,
            resume_stream=True,
            only_events=[inserts],
        )
        for event in reader:
            yield event.timestamp, index, len(event.rows)
        reader.close()

    began_s = time.monotonic()
    merged = heapq.merge(*map(stream, count(), accounts), key=itemgetter(0, 1))
    while rows > 0:
        rows -= next(merged)[2]
    return time.monotonic() - began_s


if __name__ == "__main__":
    arguments = json.loads(sys.argv[2])
    print(json.dumps(_raw(*arguments) if sys.argv[1] == "raw" else _replication(*arguments)))
