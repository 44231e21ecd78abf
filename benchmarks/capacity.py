"""Capacity: how much one group, one gateway and one consumer can carry.

`group`: the group as its actor runs it, without Ray: candidate, active group, followers, state machine, RPC.
It polls 4, 16 and 64 fake shards over their connections, and a reader in another process gets, confirms and
acknowledges its batches as a gateway does. With a `backlog` every poll is answered at once with a quarter of
a ring. `steady` shards commit 250 one-row transactions a second each, in both modes of `merge.latency`. One
loop does all of a group's work, so what it can carry is what it does in a second of its own processor time.

`rows`: a whole instance whose rings already hold a backlog, in transactions of a hundred rows and of one, so
that nothing is parsed meanwhile, and its consumer. Rows pass both hops in shared memory, and then by Flight
over TCP, as between machines. What a gateway or a consumer can carry on one processor is a second divided by
its processor time for a row.
"""

from __future__ import annotations

import asyncio
import json
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks._load import BULK_ROWS, SHARDS, Backlog, await_until, cpus, fill, servers
from benchmarks._pipeline import WAIT_S, instance, processes, read_all, spent_s
from benchmarks._ways import Way, Ways, consumer, used
from canal_group.actors.group.calls import GroupCalls
from canal_group.actors.group.candidate import Candidate
from canal_group.actors.group.registration import ShardRegistration
from canal_group.actors.group.wiring import ServerIdentity
from canal_group.actors.process.host import OS_HOST
from canal_group.actors.shard.channel import RayShardRpc
from canal_group.actors.shard.ports import ShardRpc
from canal_group.actors.transport.rpc_client import RpcClient
from canal_group.actors.transport.rpc_server import RpcServer
from canal_group.actors.transport.rpc_wire import RpcAddress
from canal_group.conf.load import build_instance
from canal_group.conf.settings import InstanceSettings
from canal_group.merge.values.position import Position
from playground.database.server_process import DatabaseServer

_GROUP_SHARDS = (4, 16, 64)
#: transactions a second of a steady shard
_RATE = 250
#: of a measurement of the group
_SECONDS = 3.0
#: rows of each backlog, over all servers
_BULK, _SMALL = 2_000_000, 200_000
#: rings that hold all of it
_RING = {"mode": "memory", "size": 1 << 19, "memunit_bytes": 1024}
_WAYS = {"shared_memory": Ways(Way.MEMORY, Way.MEMORY), "flight_tcp": Ways(Way.TCP, Way.TCP)}


def measure(size: float) -> dict[str, Any]:
    """Return the capacity of a group, by number of shards, and that of a gateway and a consumer."""
    seconds = max(_SECONDS * size, 1.0)
    group = {
        f"{shards} shards": {
            "backlog": _of_group(shards, 0, "low", seconds),
            "steady": {
                latency: _of_group(shards, _RATE, latency, seconds) for latency in ("low", "throughput")
            },
        }
        for shards in _GROUP_SHARDS
    }
    rows = {}
    with servers() as made:
        for name, times in (("bulk", int(_BULK * size) // BULK_ROWS), ("small", int(_SMALL * size))):
            backlog = fill(made, name, max(times // SHARDS, 1))
            rows[name] = {way: _of_rows(made, backlog, each) for way, each in _WAYS.items()}
    return {"group": group, "rows": rows, "cpus": cpus()}


# ---- the group -------------------------------------------------------------------------------------------


class _CountedRpc(RayShardRpc):
    """A connection to a shard; counts polls of all of them."""

    polls = 0

    def poll(self, *arguments: Any) -> Any:
        _CountedRpc.polls += 1
        return super().poll(*arguments)


class _Channel:
    """The channel to a fake shard."""

    def __init__(self, name: str, address: RpcAddress) -> None:
        self._name, self._address = name, address

    async def open(
        self, epoch: int, generation: int, position: Position | None, *_: Any, **__: Any
    ) -> Position:
        del epoch, generation
        return position or Position("mysql-bin.000001", 4)

    async def rpc(self) -> ShardRpc:
        return _CountedRpc(await RpcClient.open(self._address, f"Shard {self._name}"))

    def close(self, epoch: int) -> None:
        pass

    def close_lane(self, epoch: int, lane: int) -> None:
        pass


class _Directory:
    """Finds fake shards."""

    def __init__(self, addresses: Sequence[RpcAddress]) -> None:
        self._addresses = addresses

    def find(self, shard: str) -> _Channel:
        return _Channel(shard, self._addresses[int(shard[1:])])


def _of_group(shards: int, rate: int, latency: str, seconds: float) -> dict[str, Any]:
    with _fake_shards(shards, rate) as addresses:
        return asyncio.run(_read(_settings(shards, latency), addresses, seconds))


@contextmanager
def _fake_shards(shards: int, rate: int) -> Iterator[list[RpcAddress]]:
    command = [sys.executable, "-m", "benchmarks._fake_shards", str(shards), str(rate)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield pickle.loads(bytes.fromhex(process.stdout.readline()))
        finally:
            process.kill()


def _settings(shards: int, latency: str) -> InstanceSettings:
    value = {
        "preset": "memory",
        "destination": "bench",
        "shards": [{"name": f"s{index}", "host": f"host{index}", "user": "canal"} for index in range(shards)],
        "merge": {"latency": latency},
    }
    return build_instance(value, source="the benchmark's settings")


async def _read(
    settings: InstanceSettings, addresses: Sequence[RpcAddress], seconds: float
) -> dict[str, Any]:
    """Run a group and its reader; return the transactions of a second, and of one of processor time."""
    registration = ShardRegistration(settings, _Directory(addresses))
    identity = ServerIdentity("127.0.0.1:1", "bench", "")
    candidate = Candidate(registration, identity, lambda: rpc_server.connections > 0, OS_HOST)
    rpc_server = RpcServer({"answer": GroupCalls(registration, candidate, OS_HOST).answer})
    address = pickle.dumps(await rpc_server.open()).hex()
    command = [sys.executable, "-m", "benchmarks._group_reader", address, str(seconds)]
    reader = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    assert reader.stdout is not None
    try:
        await reader.stdout.readline()
        polls, used_s = _CountedRpc.polls, time.process_time()
        line = await reader.stdout.readline()
        polls, used_s = _CountedRpc.polls - polls, time.process_time() - used_s
        if not line:
            raise RuntimeError("the reader of a group has failed")
    finally:
        if reader.returncode is None:
            reader.kill()
        await reader.wait()
        await candidate.close()
        rpc_server.close()
    read = json.loads(line)
    took_s = read["took_s"]
    return {
        "transactions_per_s": round(read["transactions"] / took_s),
        "us_per_transaction": round(used_s / read["transactions"] * 1e6, 2),
        "transactions_per_processor_s": round(read["transactions"] / used_s),
        "processors": round(used_s / took_s, 2),
        "reader_processors": round(read["reader_cpu_s"] / took_s, 2),
        "polls_per_s_of_a_shard": round(polls / took_s / len(addresses), 1),
        "batches_per_s": round(read["batches"] / took_s, 1),
        "commit_to_get_ms": {"p50": read["p50_ms"], "p99": read["p99_ms"]},
    }


# ---- gateway and consumer --------------------------------------------------------------------------------


def _of_rows(made: Sequence[DatabaseServer], backlog: Backlog, ways: Ways) -> dict[str, Any]:
    """Let the rings fill, then read them."""
    with tempfile.TemporaryDirectory(prefix="cg-way-") as name:
        folder = Path(name)
        with (
            used(ways, folder),
            instance(made, store=_RING) as running,
            consumer(running, ways.sent, folder) as reader,
        ):

            def filled() -> bool:
                return bool(sum(shard["rows"] for shard in reader.status()["shards"]) >= backlog.rows)

            await_until(filled, f"the rings did not get {backlog.rows} rows", WAIT_S)
            pids = processes(reader)
            before, since_s = spent_s(pids), time.monotonic()
            passage = read_all(reader, backlog.rows, since_s)
            cpu = {kind: used_s - before[kind] for kind, used_s in spent_s(pids).items()}
    return {
        "rows_per_s": round(passage.rows / passage.took_s),
        "us_per_row": {kind: round(used_s / passage.rows * 1e6, 3) for kind, used_s in cpu.items()},
        "rows_per_processor_s": {
            kind: round(passage.rows / cpu[kind]) for kind in ("gateway", "consumer") if cpu[kind]
        },
        "bytes_per_row": round(backlog.bytes / backlog.rows),
        "batches": passage.batches,
    }
