"""Restart: from kill -9 of an actor to the first row that comes after it, by how many tables are known.

One MariaDB server with few tables, then with many, all of them known; its metadata are the defaults, so that
definitions are needed. A consumer reads and acknowledges. An actor is killed, a row is written, and the clock
stops when the consumer has that row. Ray has a spare process then, which becomes the actor. `again_s` is
without one: the shard's actor is killed once more, before there is another.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks._load import await_until, cpus, servers
from benchmarks._many_tables import make_tables
from benchmarks._pipeline import consumer, instance, processes
from canal_group.actors.driver.spare_process import spare_pid
from canal_group.client.consumer import Consumer
from canal_group.merge.errors import RolledBack
from playground.database.engine import Engine
from playground.database.server_process import DatabaseServer

#: tables of the server; the last is multiplied by the size
TABLES = (4, 10_000)
_ACTORS = ("s0", "group", "gateway")
_WAIT_S = 600.0
#: how long the spare process has to start, seconds
_SETTLED_S = 4.0


def measure(size: float) -> dict[str, Any]:
    """Return the seconds until the first row, by number of tables and by the actor that was killed."""
    times: dict[str, Any] = {}
    counts = (TABLES[0], max(2 * TABLES[0], int(TABLES[1] * size)))
    with servers(Engine.MARIADB, 1) as (server,):
        server.execute("SET GLOBAL binlog_row_metadata = DEFAULT")
        made = 0
        for count in counts:
            make_tables(server, made, count)
            made = count
            times[f"{count:,} tables"] = _killed(server, count)
    return {**times, "cpus": cpus()}


def _killed(server: DatabaseServer, count: int) -> dict[str, float]:
    with (
        TemporaryDirectory(prefix="cg-bench-") as folder,
        instance(
            [server],
            preset="file",
            cursor={"kind": "file", "folder": str(Path(folder, "cursors"))},
            coordination={"kind": "local", "folder": str(Path(folder, "epochs"))},
            filter={},
            start="latest",
            ray={},
        ) as running,
        consumer(running) as reader,
    ):
        _await_row(server, reader)
        _await_definitions(reader, count)
        times = {}
        for actor in _ACTORS:
            await_until(lambda: spare_pid() is not None, "the spare process was not there", _WAIT_S)
            threading.Event().wait(_SETTLED_S)
            times[f"{actor}_s"] = _first_row_s(server, reader, actor)
        times["again_s"] = _first_row_s(server, reader, _ACTORS[0])
        return times


def _first_row_s(server: DatabaseServer, reader: Consumer, actor: str) -> float:
    pid = processes(reader)[actor]
    since_s = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    _await_row(server, reader)
    return round(time.monotonic() - since_s, 2)


def _await_row(server: DatabaseServer, reader: Consumer) -> None:
    """Write a row and read until it comes."""
    number = time.monotonic_ns()
    server.execute(f"INSERT INTO many.t0 (id) VALUES ({number})")
    came = False
    while not came:
        try:
            batch = reader.get_without_ack(timeout=_WAIT_S)
            if batch is None:
                raise RuntimeError(f"the row did not come within {_WAIT_S:g} s")
            came = number in batch.table("many.t0")["id"].to_pylist()
            reader.ack(batch.batch_id)
        except RolledBack:
            came = False  # It comes again.


def _await_definitions(reader: Consumer, count: int) -> None:
    """Wait until all tables are known."""

    def known() -> bool:
        (shard,) = reader.status()["shards"]
        definitions = shard.get("definitions") or {"tables": 0, "unread": 1}
        return bool(definitions["tables"] >= count and not definitions["unread"])

    await_until(known, "the tables were not known", _WAIT_S)
