"""Transport: what rows cost by the way in which they pass from shards to the gateway, and on to a consumer.

The backlogs of `group` are drained by a consumer that acknowledges, each time by a new instance on the same
binlogs: with rows in shared memory, by Flight over a Unix socket, and by Flight over TCP on 127.0.0.1, on
both hops, and then on one of them only, with shared memory on the other. The clock runs from the moment the
servers go on, which were paused, until the last row is acknowledged. Processor time is that of all processes
of the instance, and of the consumer.

Single hops are measured on the larger backlog only. Rounds begin at another way each; figures are medians of
the rounds. `memory_gains` is by how much shared memory brings more rows a second than another way, and which
part of its processor time is saved: negative where shared memory is the worse one.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks._load import BULK_ROWS, SHARDS, Backlog, cpu_s, cpus, fill, paused, servers
from benchmarks._pipeline import DESTINATION, await_followed, instance, processes, read_all
from benchmarks._ways import Way, Ways, consumer, lends, used
from canal_group.gateway.gateway_client import GatewayClient
from playground.database.server_process import DatabaseServer

#: rows of each backlog, over all servers
_BULK, _SMALL = 8_000_000, 400_000
#: of the usual size; a larger one has more rounds, and not more rows
_ROUNDS = 3
_MEMORY, _UNIX, _TCP = Way.MEMORY, Way.UNIX, Way.TCP
_BOTH_HOPS = {
    "shared_memory": Ways(_MEMORY, _MEMORY),
    "flight_unix": Ways(_UNIX, _UNIX),
    "flight_tcp": Ways(_TCP, _TCP),
}
_ONE_HOP = {
    "flight_unix_to_gateway": Ways(_UNIX, _MEMORY),
    "flight_tcp_to_gateway": Ways(_TCP, _MEMORY),
    "flight_unix_to_consumer": Ways(_MEMORY, _UNIX),
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
    with servers() as made:
        backlog = fill(made, "bulk", int(_BULK * part) // SHARDS // BULK_ROWS)
        bulk = _measured(made, backlog, _BOTH_HOPS | _ONE_HOP, rounds)
        backlog = fill(made, "small", int(_SMALL * part) // SHARDS)
        small = _measured(made, backlog, _BOTH_HOPS, rounds)
    return {"bulk": bulk, "small": small, "rounds": rounds, "cpus": cpus()}


def _measured(
    made: Sequence[DatabaseServer], backlog: Backlog, ways: Mapping[str, Ways], rounds: int
) -> dict[str, Any]:
    passages: dict[str, list[_Drained]] = {name: [] for name in ways}
    names = list(ways)
    for number in range(rounds):
        begin = number * len(names) // rounds
        for name in names[begin:] + names[:begin]:
            passages[name].append(_drained(made, backlog, ways[name]))
    memory = passages["shared_memory"]
    return {
        "rows": backlog.rows,
        "memory_gains": {name: _gains(memory, each) for name, each in passages.items() if each is not memory},
        **{name: _report(each) for name, each in passages.items()},
    }


def _drained(made: Sequence[DatabaseServer], backlog: Backlog, ways: Ways) -> _Drained:
    """Launch an instance, let the servers go on, and read everything.

    Raises:
        RuntimeError: rows did not pass as they should have.
    """
    with tempfile.TemporaryDirectory(prefix="cg-way-") as name, ExitStack() as pause:
        folder = Path(name)
        pause.enter_context(paused(made))
        with used(ways, folder), instance(made) as running:
            await_followed(running)
            with contextlib.closing(GatewayClient(running.uri, DESTINATION)) as door:
                pids = processes(door)
            before = {kind: cpu_s(pid) for kind, pid in pids.items()}
            pause.close()
            since_s = time.monotonic()
            with consumer(running, ways.sent, folder) as reader:
                passage = read_all(reader, backlog.rows, since_s)
                spent = {kind: cpu_s(pid) - before[kind] for kind, pid in pids.items()}
                _check(ways, pids)
    own = {kind: spent.pop(kind) for kind in ("group", "gateway", "consumer")}
    millions = passage.rows / 1e6
    by_kind = {"shards": sum(spent.values()), **own}
    return _Drained(passage.rows / passage.took_s, {kind: each / millions for kind, each in by_kind.items()})


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
    """Return the medians of the rounds' gains: what is compared ran in the same round."""
    pairs = list(zip(memory, other, strict=True))
    return {
        "rows_per_s": round(median(ours.rows_per_s / each.rows_per_s - 1 for ours, each in pairs), 3),
        "cpu": round(median(1 - ours.cpu_s_of_all / each.cpu_s_of_all for ours, each in pairs), 3),
    }
