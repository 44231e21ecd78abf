"""Full tables: a consumer that begins with a snapshot, on a whole instance beside its four servers.

- idle: nobody writes meanwhile; from the subscription to the last row, typed and acknowledged;
- busy: the same while the servers commit one-row transactions.

`raw` is the bytes of the same rows in the text protocol, read from all servers at once and dropped;
`busy_ratio` is the busy one's rows a second of tables, of the idle one's. Peaks are the kernel's (VmHWM).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow.compute as pc

from benchmarks._load import BULK_ROWS, NAME, SCHEMA, SHARDS, await_until, cpus, fill, peak_rss_mib, servers
from benchmarks._pipeline import DESTINATION, OUTSTANDING, WAIT_S, instance, processes
from benchmarks._writers import Writers
from benchmarks.snapshot import raw
from canal_group.client.client import connect
from canal_group.gateway.gateway_client import GatewayClient
from canal_group.merge.calls.consumers import Status
from playground.database.engine import Engine
from playground.database.server_process import DatabaseServer

_ROWS = 4_000_000
#: transactions a second of all servers while it is busy, and for how long they are written at most, seconds
_BUSY_RATE, _BUSY_S = 2_000, 60


def measure(size: float, engine: Engine = Engine.MARIADB) -> dict[str, Any]:
    """Return rows per second, ratios and peaks."""
    with servers(engine) as made:
        rows = fill(made, "bulk", max(1, int(_ROWS * size) // SHARDS // BULK_ROWS)).rows
        for server in made:
            server.execute(f"GRANT SELECT ON {SCHEMA}.* TO canal@127.0.0.1")
        idle, peaks, _ = _read(made, rows)
        raw = _raw_rows_per_s(made, rows)
        rate, count = _BUSY_RATE / SHARDS, _BUSY_RATE // SHARDS * _BUSY_S
        with Writers(made, count, rate, 0):
            busy, _, changes = _read(made, rows)
    return {
        "rows_per_s": round(idle),
        "raw_rows_per_s": round(raw),
        "ratio_to_raw": round(idle / raw, 2),
        "busy_rows_per_s": round(busy),
        "busy_ratio": round(busy / idle, 2),
        "changes_meanwhile": changes,
        **{f"peak_mib_{name}": peak for name, peak in peaks.items()},
        "rows": rows,
        "cpus": cpus(),
    }


def _raw_rows_per_s(made: Sequence[DatabaseServer], rows: int) -> float:
    began_s = time.monotonic()
    with ThreadPoolExecutor(len(made)) as pool:
        list(pool.map(raw, made))
    return rows / (time.monotonic() - began_s)


def _read(made: Sequence[DatabaseServer], rows: int) -> tuple[float, dict[str, float], int]:
    """Return the rows of tables a second, the peaks of processes, and how many changes came meanwhile."""
    with ExitStack() as open_:
        folder = open_.enter_context(TemporaryDirectory(prefix="cg-bench-"))
        running = open_.enter_context(
            instance(made, archive={"folder": str(Path(folder, "archive"))}, start="latest")
        )
        client = open_.enter_context(closing(GatewayClient(running.uri, DESTINATION)))

        def opened() -> bool:
            return bool(client.ask(Status())["group"]["merging"])

        await_until(opened, "the shards were not opened", WAIT_S)
        began_s = time.monotonic()
        reader = open_.enter_context(
            connect(running.uri, destination=DESTINATION, wait_s=WAIT_S, client_id="copy", snapshot="initial")
        )
        read = changes = 0
        for batch, table in reader.prefetch(lambda each: each.table(NAME), depth=OUTSTANDING, timeout=WAIT_S):
            reader.ack(batch.batch_id)
            selected = int(pc.sum(pc.equal(table["_op"], "READ")).as_py() or 0)
            read, changes = read + selected, changes + table.num_rows - selected
            if not batch.ack_position.snapshots:
                break
        took_s = time.monotonic() - began_s
        if read + changes < rows:
            raise RuntimeError(f"{read} rows of {rows} came")
        peaks = {name: peak_rss_mib(pid) for name, pid in processes(reader).items()}
    return read / took_s, peaks, changes
