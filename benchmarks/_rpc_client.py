"""The clients of the `rpc` benchmark: by each library as a group calls its shards and a gateway its group.

The group calls from its loop. The gateway calls from Flight's threads, each of which waits for its answer.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Protocol

import grpc
import grpc.aio
import ray
from pyarrow import flight

from benchmarks._rpc_server import GRPC_OPTIONS, SECRET, RayCalls, dumps
from canal_group.actors.process.loop_thread import LoopThread
from canal_group.actors.transport.rpc_client import RpcClient

_AUTHORIZATION = (("authorization", f"Bearer {SECRET}"),)
_TIMEOUT_S = 10.0
#: the first call waits until the actor has started
_RAY_TIMEOUT_S = 120.0
_RAY_STORE_BYTES = 100 << 20
#: calls at once that a group makes to its shards
_CALLS_MAX = 4


class Client(Protocol):
    """Calls a server."""

    async def ask(self, method: str, *arguments: Any) -> Any:
        """Return the answer to a call, on the loop."""
        ...

    def call(self, method: str, *arguments: Any) -> Any:
        """Return the answer to a call, on any other thread."""
        ...


class _Ours:
    def __init__(self, loop: LoopThread, address: str) -> None:
        self._loop = loop
        self._rpc = loop.run(RpcClient.open(pickle.loads(bytes.fromhex(address)), "The server")).result()

    async def ask(self, method: str, *arguments: Any) -> Any:
        return await self._rpc.ask(method, *arguments)

    def call(self, method: str, *arguments: Any) -> Any:
        return self._loop.run(self.ask(method, *arguments)).result(_TIMEOUT_S)


class _GrpcAio:
    """gRPC on a loop, also for threads."""

    def __init__(self, loop: LoopThread, address: str) -> None:
        self._loop, self._methods = loop, dict[str, Any]()
        self._channel = loop.run(self._open(address)).result()

    async def _open(self, address: str) -> grpc.aio.Channel:
        return grpc.aio.insecure_channel(address, GRPC_OPTIONS)

    async def ask(self, method: str, *arguments: Any) -> Any:
        if method not in self._methods:
            self._methods[method] = self._channel.unary_unary(f"/calls/{method}", dumps, pickle.loads)
        stub = self._methods[method]
        return (await stub(arguments, metadata=_AUTHORIZATION, timeout=_TIMEOUT_S))[1]

    def call(self, method: str, *arguments: Any) -> Any:
        return self._loop.run(self.ask(method, *arguments)).result(_TIMEOUT_S)


class _Grpc(_GrpcAio):
    """gRPC on a loop for the group, and without one for threads."""

    def __init__(self, loop: LoopThread, address: str) -> None:
        super().__init__(loop, address)
        self._for_threads = grpc.insecure_channel(address, GRPC_OPTIONS)
        self._stubs = dict[str, Any]()

    def call(self, method: str, *arguments: Any) -> Any:
        if method not in self._stubs:
            self._stubs[method] = self._for_threads.unary_unary(f"/calls/{method}", dumps, pickle.loads)
        return self._stubs[method](arguments, metadata=_AUTHORIZATION, timeout=_TIMEOUT_S)[1]


class _Flight:
    """Actions of Flight, which has no calls on a loop."""

    def __init__(self, _loop: LoopThread, address: str) -> None:
        self._client = flight.FlightClient(address)
        self._pool = ThreadPoolExecutor(_CALLS_MAX)
        headers = [(name.encode(), value.encode()) for name, value in _AUTHORIZATION]
        self._options = flight.FlightCallOptions(timeout=_TIMEOUT_S, headers=headers)

    async def ask(self, method: str, *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._pool, self.call, method, *arguments)

    def call(self, method: str, *arguments: Any) -> Any:
        action = flight.Action(method, dumps(arguments))
        (result,) = self._client.do_action(action, self._options)
        return pickle.loads(result.body)[1]


class _Ray:
    """Calls of an actor."""

    def __init__(self) -> None:
        self._actor = ray.remote(RayCalls).remote()

    async def ask(self, method: str, *arguments: Any) -> Any:
        return await self._actor.call.remote(method, *arguments)

    def call(self, method: str, *arguments: Any) -> Any:
        return ray.get(self._actor.call.remote(method, *arguments), timeout=_RAY_TIMEOUT_S)


#: name -> the server, and the client
_SERVED: dict[str, tuple[str, Callable[[LoopThread, str], Client]]] = {
    "ours": ("ours", _Ours),
    "grpc_aio": ("grpc", _GrpcAio),
    "grpc_sync": ("grpc", _Grpc),
    "flight": ("flight", _Flight),
}
LIBRARIES = (*_SERVED, "ray")


@contextmanager
def connected(library: str, loop: LoopThread) -> Iterator[Client]:
    """Run a library's server in a process of its own, and connect to it."""
    if library == "ray":
        with _ray() as calls:
            yield calls
        return
    server, client = _SERVED[library]
    command = [sys.executable, "-m", "benchmarks._rpc_server", server]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield client(loop, process.stdout.readline().strip())
        finally:
            process.kill()


@contextmanager
def _ray() -> Iterator[Client]:
    """Start a Ray of one node, and an actor in it, with the priority that those of an instance have."""
    os.environ.setdefault("RAY_worker_niceness", "0")
    ray.init(
        address="local",
        num_cpus=1,
        include_dashboard=False,
        log_to_driver=False,
        configure_logging=False,
        object_store_memory=_RAY_STORE_BYTES,
    )
    try:
        yield _Ray()
    finally:
        ray.shutdown()
