"""Transport: what rows cost by the way in which they pass from shards to the gateway, and on to a consumer.

The backlogs of `group`, but shorter ones, are drained by a consumer that acknowledges: with rows in shared
memory, by Flight over a Unix socket, and by Flight over TCP on 127.0.0.1, on both hops, and then by TCP on
one of them only, with shared memory on the other. Each way has an instance of its own, in one Ray. It reads
the backlog once, which does not count, and then in each round again after a rewind. The clock runs from the
request for the rewind until the last row is acknowledged. Processor time is that of all processes of the
instance, and of the consumer.

Single hops are measured on the larger backlog only. Figures are medians of the rounds. `memory_gains` is by
how much shared memory brings more rows a second than another way, and which part of its processor time is
saved: negative where shared memory is the worse one.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import ray

from benchmarks._load import BULK_ROWS, SHARDS, Backlog, cpus, fill, servers
from benchmarks._pipeline import DESTINATION, instance, processes, read_all, spent_s
from benchmarks._ways import Way, Ways, consumer, lends, used
from canal_group.actors.driver import local_ray
from canal_group.operator import Operator, calls
from playground.database.server_process import DatabaseServer

#: rows of each backlog, over all servers
_BULK, _SMALL = 2_000_000, 200_000
#: of the usual size; a larger one has more rounds, and not more rows
_ROUNDS = 3
_MEMORY, _UNIX, _TCP = Way.MEMORY, Way.UNIX, Way.TCP
_BOTH_HOPS = {
    "shared_memory": Ways(_MEMORY, _MEMORY),
    "flight_unix": Ways(_UNIX, _UNIX),
    "flight_tcp": Ways(_TCP, _TCP),
}
_ONE_HOP = {
    "flight_tcp_to_gateway": Ways(_TCP, _MEMORY),
    "flight_tcp_to_consumer": Ways(_MEMORY, _TCP),
}


@dataclass(frozen=True, slots=True)
class _Drained:
    """How a backlog was read once."""

    rows_per_s: float
    #: processor time of each kind of process, seconds for a million rows
    cpu_s: dict[str, float]

    @property
    def cpu_s_of_all(self) -> float:
        return sum(self.cpu_s.values())


def measure(size: float) -> dict[str, Any]:
    """Return rows a second and processor time by every way, and what shared memory gains."""
    rounds, part = max(round(_ROUNDS * size), 1), min(size, 1.0)
    with servers() as made, _one_ray():
        backlog = fill(made, "bulk", int(_BULK * part) // SHARDS // BULK_ROWS)
        bulk = _measured(made, backlog, _BOTH_HOPS | _ONE_HOP, rounds)
        backlog = fill(made, "small", int(_SMALL * part) // SHARDS)
        small = _measured(made, backlog, _BOTH_HOPS, rounds)
    return {"bulk": bulk, "small": small, "rounds": rounds, "cpus": cpus()}


@contextmanager
def _one_ray() -> Iterator[None]:
    """Run a Ray for all instances: to start one takes longer than to read a backlog."""
    local_ray.start(DESTINATION)
    try:
        yield
    finally:
        ray.shutdown()


def _measured(
    made: Sequence[DatabaseServer], backlog: Backlog, ways: Mapping[str, Ways], rounds: int
) -> dict[str, Any]:
    passages = {name: _drained(made, backlog, each, rounds) for name, each in ways.items()}
    memory = passages["shared_memory"]
    return {
        "rows": backlog.rows,
        "memory_gains": {name: _gains(memory, each) for name, each in passages.items() if each is not memory},
        **{name: _report(each) for name, each in passages.items()},
    }


def _drained(made: Sequence[DatabaseServer], backlog: Backlog, ways: Ways, rounds: int) -> list[_Drained]:
    """Launch an instance and read everything, once and then in each round.

    Raises:
        RuntimeError: rows did not pass as they should have.
    """
    with tempfile.TemporaryDirectory(prefix="cg-way-") as name:
        folder = Path(name)
        with used(ways, folder), instance(made) as running:
            with consumer(running, ways.sent, folder) as reader:
                read_all(reader, backlog.rows, time.monotonic())
                client_id, pids = reader.client_id, processes(reader)
                _check(ways, pids)
            drained = []
            for _ in range(rounds):
                before, since_s = spent_s(pids), time.monotonic()
                with closing(Operator(running.uri, DESTINATION, running.address.operator_token)) as operator:
                    operator.ask(calls.Rewind(client_id, "earliest"))
                with consumer(running, ways.sent, folder) as reader:
                    passage = read_all(reader, backlog.rows, since_s)
                millions = passage.rows / 1e6
                cpu = {kind: (used_s - before[kind]) / millions for kind, used_s in spent_s(pids).items()}
                drained.append(_Drained(passage.rows / passage.took_s, cpu))
    return drained


def _check(ways: Ways, pids: dict[str, int]) -> None:
    """Return if rows passed as they should have: who cannot lend them sends them, without a word."""
    shards = [pid for kind, pid in pids.items() if kind not in ("group", "gateway", "consumer")]
    lent = any(map(lends, shards)), lends(pids["gateway"])
    if lent != (ways.fetched is Way.MEMORY, ways.sent is Way.MEMORY):
        raise RuntimeError(f"rows were to pass by {ways}; lent by shards, and by the gateway: {lent}")


def _report(rounds: Sequence[_Drained]) -> dict[str, Any]:
    kinds = rounds[0].cpu_s
    return {
        "rows_per_s": round(median(each.rows_per_s for each in rounds)),
        "cpu_s_per_million_rows": round(median(each.cpu_s_of_all for each in rounds), 4),
        "by_process": {kind: round(median(each.cpu_s[kind] for each in rounds), 4) for kind in kinds},
        "all_rounds_rows_per_s": [round(each.rows_per_s) for each in rounds],
        "all_rounds_cpu_s": [round(each.cpu_s_of_all, 4) for each in rounds],
    }


def _gains(memory: Sequence[_Drained], other: Sequence[_Drained]) -> dict[str, float]:
    """Return the gains by the medians of the rounds."""
    rows_per_s = [median(each.rows_per_s for each in rounds) for rounds in (memory, other)]
    cpu = [median(each.cpu_s_of_all for each in rounds) for rounds in (memory, other)]
    return {
        "rows_per_s": round(rows_per_s[0] / rows_per_s[1] - 1, 3),
        "cpu": round(1 - cpu[0] / cpu[1], 3),
    }
