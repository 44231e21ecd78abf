"""Full tables: a consumer that begins with a snapshot, on a whole instance beside its four servers.

- idle: nobody writes meanwhile; from the subscription to the last row, typed and acknowledged;
- busy: the same while the servers commit one-row transactions, and for a while after the snapshot is over.

`raw`, `pymysql` and `connectorx` read the same rows from all servers at once, see `_table_rivals`;
connectorx's figures are null if it is not installed. `busy_ratio` is the busy one's rows a second of tables,
of the idle one's. `latency` is from the answer to a commit until the consumer has its row, from the first
batch on while there is a snapshot, and after it. Peaks are the kernel's (VmHWM).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from benchmarks._load import BULK_ROWS, NAME, SCHEMA, SHARDS, await_until, cpus, fill, peak_rss_mib, servers
from benchmarks._pipeline import DESTINATION, OUTSTANDING, WAIT_S, instance, processes
from benchmarks._table_rivals import PYMYSQL_PART, of_connectorx, of_pymysql, raw, rows_per_s
from benchmarks._writers import Writers
from benchmarks.latency import percentiles, ratios
from canal_group.client.client import connect
from canal_group.gateway.gateway_client import GatewayClient
from canal_group.merge.calls.consumers import Status
from playground.database.engine import Engine
from playground.database.server_process import DatabaseServer

_ROWS = 4_000_000
#: transactions a second of all servers while it is busy
RATE = 2_000
#: for how long they are written at most, and after the snapshot, seconds; what of that is not counted
_BUSY_S, _AFTER_S, _JOINS_S = 60, 8.0, 2.0


@dataclass(frozen=True, slots=True)
class _Reading:
    """A snapshot that was read, and changes."""

    rows_per_s: float
    #: peaks of processes, MiB
    peaks: dict[str, float]
    #: (n,) ids of the changes, and when each came, seconds
    ids: NDArray[np.int64]
    read_s: NDArray[np.float64]
    #: when the first batch came, and when the snapshot was over
    first_s: float
    over_s: float


def measure(size: float, engine: Engine = Engine.MARIADB, *, rate: int = RATE) -> dict[str, Any]:
    """Return rows per second, ratios, latencies and peaks.

    Args:
        size: multiplies the rows.
        engine: of the servers.
        rate: transactions a second of all servers while it is busy.
    """
    with servers(engine) as made:
        rows = fill(made, "bulk", max(1, int(_ROWS * size) // SHARDS // BULK_ROWS)).rows
        for server in made:
            server.execute(f"GRANT SELECT ON {SCHEMA}.* TO canal@127.0.0.1")
        idle = _read(made, rows)
        rivals = _rivals(made, rows)
        with Writers(made, rate // SHARDS * _BUSY_S, rate / SHARDS, 0) as writers:
            busy = _read(made, rows, writers)
            meanwhile, after = _latencies(busy, writers)
    return {
        "rows_per_s": round(idle.rows_per_s),
        **{f"{name}_rows_per_s": value and round(value) for name, value in rivals.items()},
        **{f"ratio_to_{name}": value and round(idle.rows_per_s / value, 2) for name, value in rivals.items()},
        "busy_rows_per_s": round(busy.rows_per_s),
        "busy_ratio": round(busy.rows_per_s / idle.rows_per_s, 2),
        "changes_meanwhile": int((busy.read_s <= busy.over_s).sum()),
        "latency": {"meanwhile": meanwhile, "after": after, "ratio": ratios(meanwhile, after)},
        **{f"peak_mib_{name}": peak for name, peak in idle.peaks.items()},
        "rows": rows,
        "cpus": cpus(),
    }


def _rivals(made: Sequence[DatabaseServer], rows: int) -> dict[str, float | None]:
    connectorx, part = of_connectorx(), rows // SHARDS // PYMYSQL_PART
    return {
        "raw": rows_per_s(made, raw, rows),
        "pymysql": rows_per_s(made, of_pymysql(part), part * SHARDS),
        "connectorx": None if connectorx is None else rows_per_s(made, connectorx, rows),
    }


def _read(made: Sequence[DatabaseServer], rows: int, writers: Writers | None = None) -> _Reading:
    """Read the rows of all tables, and changes of writers for a while more."""
    with ExitStack() as open_:
        folder = open_.enter_context(TemporaryDirectory(prefix="cg-bench-"))
        running = open_.enter_context(
            instance(made, archive={"folder": str(Path(folder, "archive"))}, start="latest")
        )
        client = open_.enter_context(closing(GatewayClient(running.uri, DESTINATION)))

        def opened() -> bool:
            return bool(client.ask(Status())["group"].get("merging"))

        await_until(opened, "the shards were not opened", WAIT_S)
        began_s, first_s, over_s, read = time.monotonic(), 0.0, 0.0, 0
        ids, came = [np.zeros(0, np.int64)], [np.zeros(0)]
        reader = open_.enter_context(
            connect(running.uri, destination=DESTINATION, wait_s=WAIT_S, client_id="copy", snapshot="initial")
        )
        for batch, (table, read_s) in reader.prefetch(
            lambda each: (each.table(NAME), time.monotonic()), depth=OUTSTANDING, timeout=WAIT_S
        ):
            reader.ack(batch.batch_id)
            first_s = first_s or read_s
            selected = pc.equal(table["_op"], "READ")
            read += int(pc.sum(selected).as_py() or 0)
            if table.num_rows:
                ids.append(table["id"].filter(pc.invert(selected)).to_numpy().astype(np.int64))
                came.append(np.full(len(ids[-1]), read_s))
            if not over_s and not batch.ack_position.snapshots:
                over_s = read_s
            if over_s and (writers is None or read_s > over_s + _AFTER_S):
                break
        if read + sum(map(len, ids)) < rows:
            raise RuntimeError(f"{read} rows of {rows} came")
        peaks = {name: peak_rss_mib(pid) for name, pid in processes(reader).items()}
    return _Reading(
        read / (over_s - began_s), peaks, np.concatenate(ids), np.concatenate(came), first_s, over_s
    )


def _latencies(reading: _Reading, writers: Writers) -> tuple[dict[str, float], dict[str, float]]:
    """Return the percentiles of the latency while there was a snapshot, and after it."""
    writers.end()
    index, read_s = writers.index_of(reading.ids), reading.read_s
    answered_s = writers.written().answered_s[index]
    ours = (index >= 0) & (answered_s > reading.first_s)
    meanwhile, after = ours & (read_s <= reading.over_s), ours & (read_s > reading.over_s + _JOINS_S)
    if not meanwhile.any() or not after.any():
        raise RuntimeError("no change came beside the snapshot, or after it: measure more rows")
    return percentiles((read_s - answered_s)[meanwhile]), percentiles((read_s - answered_s)[after])
