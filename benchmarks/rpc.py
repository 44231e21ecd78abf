"""RPC: what a call between an instance's processes costs, by ours, by gRPC, by actions of Flight and by Ray.

The calls are those that come often, with answers of the sizes that they have in `latency` (`quiet`) and in
`group` (`bulk`, `small`): a group polls its shards from a loop, and a gateway asks its group from threads.
Each is made again and again by one caller, at once (`busy`) and every few milliseconds (`paced`), as polls of
a quiet stream come. Processor time is that of caller and server together, the answer's making and reading
included. Every library but Ray sends the same pickles. Of Ray, the time of its other processes is left out.

`beyond_ours_cpu_ms` is what a library costs a call more than ours. `batch_ms` is what a batch of a quiet
stream waits for on its way to a consumer: a poll, a get, and the word that its rows may leave.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks._load import cpus
from benchmarks._rpc_client import LIBRARIES, Client, connected
from canal_group.actors.process.loop_thread import LoopThread

_ROUNDS = 2
#: calls of a round, back to back and paced
_BUSY, _PACED = 500, 100
_WARM_UP = 100
#: a shard is polled at most every 10 ms, and there are several
_PACE_S = 0.004


def _poll(headers: int) -> tuple[Any, ...]:
    return "poll", 1, 1, headers, 1.0, 7


def _get(headers: int) -> tuple[Any, ...]:
    return "get", "1001", 1, headers, 3.0, 1 << 32


#: name -> whether it is made from a loop, and what is called
_CASES: dict[str, tuple[bool, tuple[Any, ...]]] = {
    "poll_quiet": (True, _poll(3)),
    "poll_bulk": (True, _poll(450)),
    "poll_small": (True, _poll(4_096)),
    "get_quiet": (False, _get(20)),
    "get_bulk": (False, _get(1_310)),
    "confirm": (False, ("confirm", "1001", 1, 1 << 32)),
}
#: what a batch of a quiet stream waits for
_OF_A_BATCH = ("poll_quiet", "get_quiet", "confirm")


class _Measured:
    """Calls of one case by one library."""

    def __init__(self) -> None:
        self.took_s: list[NDArray[np.float64]] = []
        #: of each round, seconds a call
        self.client_s: list[float] = []
        self.server_s: list[float] = []

    @property
    def cpu_ms(self) -> float:
        both = np.add(self.client_s, self.server_s)
        return float(np.median(both)) * 1e3

    def report(self, ours: _Measured) -> dict[str, float]:
        """Return milliseconds a call."""
        p50, p99 = np.percentile(np.concatenate(self.took_s), [50, 99]) * 1e3
        return {
            "cpu_ms": round(self.cpu_ms, 4),
            "caller_cpu_ms": round(float(np.median(self.client_s)) * 1e3, 4),
            "server_cpu_ms": round(float(np.median(self.server_s)) * 1e3, 4),
            "beyond_ours_cpu_ms": round(self.cpu_ms - ours.cpu_ms, 4),
            "p50_ms": round(float(p50), 3),
            "p99_ms": round(float(p99), 3),
        }


def measure(size: float) -> dict[str, Any]:
    """Return the cost of each call by each library."""
    paces = {"busy": (0.0, max(int(_BUSY * size), 1)), "paced": (_PACE_S, max(int(_PACED * size), 1))}
    costs = {
        pace: {case: {library: _Measured() for library in LIBRARIES} for case in _CASES} for pace in paces
    }
    loop = LoopThread("calls")
    for _ in range(_ROUNDS):
        for library in LIBRARIES:
            with connected(library, loop) as client:
                for case in _CASES:
                    _make(loop, client, case, 0.0, max(int(_WARM_UP * size), 1), _Measured())
                    for pace, (pause_s, count) in paces.items():
                        _make(loop, client, case, pause_s, count, costs[pace][case][library])
    return {
        "batch_ms": {
            library: round(sum(_p50_ms(costs["paced"][case][library]) for case in _OF_A_BATCH), 3)
            for library in LIBRARIES
        },
        **{
            pace: {
                case: {library: each.report(by_library["ours"]) for library, each in by_library.items()}
                for case, by_library in cases.items()
            }
            for pace, cases in costs.items()
        },
        "cpus": cpus(),
    }


def _p50_ms(measured: _Measured) -> float:
    return float(np.median(np.concatenate(measured.took_s))) * 1e3


def _make(loop: LoopThread, client: Client, case: str, pause_s: float, count: int, into: _Measured) -> None:
    """Make the calls of a case, and note what they cost."""
    from_loop, call = _CASES[case]
    server_s, client_s = client.call("spent"), time.process_time()
    if from_loop:
        took_s = loop.run(_from_loop(client, call, pause_s, count)).result()
    else:
        took_s = _from_thread(lambda: client.call(*call), pause_s, count)
    into.client_s.append((time.process_time() - client_s) / count)
    into.server_s.append((client.call("spent") - server_s) / count)
    into.took_s.append(took_s)


async def _from_loop(
    client: Client, call: tuple[Any, ...], pause_s: float, count: int
) -> NDArray[np.float64]:
    took_s = np.empty(count)
    for index in range(count):
        if pause_s:
            await asyncio.sleep(pause_s)
        began_s = time.perf_counter()
        await client.ask(*call)
        took_s[index] = time.perf_counter() - began_s
    return took_s


def _from_thread(call: Callable[[], Any], pause_s: float, count: int) -> NDArray[np.float64]:
    took_s, pause = np.empty(count), threading.Event()
    for index in range(count):
        if pause_s:
            pause.wait(pause_s)
        began_s = time.perf_counter()
        call()
        took_s[index] = time.perf_counter() - began_s
    return took_s
