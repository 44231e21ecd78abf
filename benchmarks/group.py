"""Group: how fast a whole instance drains the backlog of four servers, compared with its rivals.

The clock runs from the moment when the paused servers resume until a consumer has acknowledged the last row.
It includes connections, parsing, rings, timeline, ledger, gateway and the client's own decoding, but not the
start of processes. That is a first start: each shard also reads its backlog for the statements in it, because
it does not know its tables yet. Then the client id is rewound, and the same instance reads everything again,
as after any restart: the ratios are of this second reading.

There are two backlogs: `bulk`, transactions of a hundred rows of eleven columns of mixed types, and `small`,
transactions of one row.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from statistics import harmonic_mean
from typing import Any

from benchmarks._load import BULK_ROWS, SHARDS, Backlog, cpus, fill, paused, servers
from benchmarks._pipeline import DESTINATION, Passage, await_followed, consumer, instance, paced, read_all
from benchmarks._rivals import raw_dumps, replication_rows_per_s
from canal_group.operator import Operator, calls
from playground.database.engine import Engine
from playground.database.server_process import DatabaseServer

#: rows of each backlog, over all servers
_BULK, _SMALL = 8_000_000, 400_000
#: rows that mysql-replication reads of each
_REPLICATION_ROWS = 40_000


def measure(size: float, engine: Engine = Engine.MARIADB, *, pace: str = "") -> dict[str, Any]:
    """Return rows per second and the ratios for both backlogs.

    Args:
        size: multiplies the backlogs.
        engine: kind of the servers.
        pace: the instance's `merge.latency`; empty: the default.
    """
    with servers(engine) as made:
        bulk = _measured(made, "bulk", int(_BULK * size) // SHARDS // BULK_ROWS, pace)
        small = _measured(made, "small", int(_SMALL * size) // SHARDS, pace)
    return {**bulk, "small": small, "cpus": cpus()}


def _measured(made: Sequence[DatabaseServer], procedure: str, times: int, pace: str) -> dict[str, Any]:
    backlog = fill(made, procedure, times)
    rival = replication_rows_per_s(made, min(_REPLICATION_ROWS, backlog.rows // 4))
    # Before and after, because a machine's speed may change meanwhile; the times are compared.
    before, raw_by = raw_dumps(made)
    first, passage = _drained(made, backlog, pace)
    after, _ = raw_dumps(made)
    return _report(backlog, first, passage, harmonic_mean((before, after)), raw_by, rival)


def _drained(made: Sequence[DatabaseServer], backlog: Backlog, pace: str) -> tuple[Passage, Passage]:
    """Launch an instance, resume the servers, and read everything, twice."""
    with ExitStack() as pause:
        pause.enter_context(paused(made))
        with instance(made, **paced(pace)) as running:
            await_followed(running)
            pause.close()
            since_s = time.monotonic()
            with consumer(running) as reader:
                first = read_all(reader, backlog.rows, since_s)
            with closing(Operator(running.uri, DESTINATION, running.address.operator_token)) as operator:
                operator.ask(calls.Rewind(reader.client_id, "earliest"))
            since_s = time.monotonic()
            with consumer(running) as reader:
                return first, read_all(reader, backlog.rows, since_s)


def _report(
    backlog: Backlog, first: Passage, passage: Passage, raw: float, raw_by: str, rival: float | None
) -> dict[str, Any]:
    rows_per_s = passage.rows / passage.took_s
    return {
        "first_start_rows_per_s": round(first.rows / first.took_s),
        "rows_per_s": round(rows_per_s),
        "ratio_to_raw_dump": round(backlog.bytes / passage.took_s / raw, 3),
        "ratio_to_mysql_replication": round(rows_per_s / rival, 2) if rival else None,
        "rows": passage.rows,
        "transactions_per_s": round(backlog.transactions / passage.took_s),
        "mib_per_s": round(backlog.bytes / passage.took_s / (1 << 20), 1),
        "raw_dump_mib_per_s": round(raw / (1 << 20), 1),
        "raw_dump_by": raw_by,
        "mysql_replication_rows_per_s": round(rival) if rival else None,
        "batches": passage.batches,
    }
