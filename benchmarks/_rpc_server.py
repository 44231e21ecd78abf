"""The server of the `rpc` benchmark: the calls of a shard and of a group, answered by several libraries.

Runs in a process of its own until its stdin ends. The first line of its stdout says where it listens.

A poll is answered on a thread, as by a shard, whose thread waits for its ring; the other calls on the loop,
as by a group, whose machine lives there. All libraries but Ray send the same pickles, and look at a secret
first: ours once for a connection, the others for each call. Ray makes its own, and starts the process itself.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

import grpc
import grpc.aio
import numpy as np
from pyarrow import flight

from canal_group.actors.admission.access import Grant, Grants
from canal_group.actors.admission.token_middleware import TokenMiddleware, caller_of
from canal_group.actors.process.imports import freeze_imports
from canal_group.actors.shard.report import ShardReport
from canal_group.actors.transport.rpc_server import RpcServer
from canal_group.conf.listeners.gateway_settings import GatewayBounds
from canal_group.merge.calls.batch import Batch
from canal_group.merge.values.header import HEADER, WHOLE, HeaderRun, Headers
from canal_group.merge.values.position import GroupPosition, Position
from canal_group.merge.values.progress import Progress

#: calls that are answered on the loop, by name
Calls: TypeAlias = dict[str, Callable[..., Awaitable[Any]]]
SECRET = "0123456789abcdef" * 4
#: headers that a poll, or a get, can be answered with: whoever calls says which by the bound that it passes
COUNTS = (0, 3, 20, 450, 1_310, 4_096)
SHARDS = 4
GRPC_OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
_NAMES = ("mysql-bin.000001", "3e11fa47-71ca-11e1-9e33-c80aa9429562")
_POLLS_MAX = 2


def dumps(message: Any) -> bytes:
    """Return a message as ours sends it."""
    return pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)


def _headers(count: int) -> Headers:
    headers = np.zeros(count, dtype=HEADER)
    headers["sequence"] = np.arange(count)
    headers["shard"] = np.arange(count) % SHARDS
    headers["flags"] = WHOLE
    headers["rows"] = headers["row_end"] = 1
    headers["bytes"] = 200
    headers["commit_us"] = headers["key_us"] = 1_700_000_000_000_000 + np.arange(count)
    headers["gtid_source"], headers["gtid_number"] = 1, np.arange(1, count + 1)
    return headers


def _batch(count: int) -> Batch:
    shards = tuple(f"s{index}" for index in range(SHARDS))
    position = GroupPosition({shard: Position(_NAMES[0], 4, server=_NAMES[1]) for shard in shards})
    progress = Progress.at(position)
    return Batch(1 << 32, progress, progress, _headers(count), _NAMES, 0, count, 1, shards)


REPORTS = {count: ShardReport(HeaderRun(_headers(count), _NAMES), 1, None, "1-2-3") for count in COUNTS}
BATCHES = {count: _batch(count) for count in COUNTS}


def _poll(_epoch: int, _generation: int, items_max: int, _wait_s: float, _done: int) -> ShardReport:
    return REPORTS[items_max]


async def _get(_client_id: str, _epoch: int, rows_max: int, _timeout_s: float, _seen_id: int) -> Batch:
    return BATCHES[rows_max]


async def _confirm(_client_id: str, _epoch: int, _batch_id: int) -> float:
    return 1.0


async def _spent() -> float:
    """Return the processor time of this process until now, seconds."""
    return time.process_time()


_ON_LOOP: Calls = {"get": _get, "confirm": _confirm, "spent": _spent}


def _all_on_loop() -> Calls:
    polls = ThreadPoolExecutor(_POLLS_MAX, thread_name_prefix="poll")

    async def poll(*arguments: Any) -> ShardReport:
        return await asyncio.get_running_loop().run_in_executor(polls, _poll, *arguments)

    return {"poll": poll, **_ON_LOOP}


class RayCalls:
    """The calls as an actor of Ray answers them, on its loop."""

    def __init__(self) -> None:
        self._calls = _all_on_loop()

    async def call(self, method: str, *arguments: Any) -> Any:
        """Return the answer to a call."""
        return await self._calls[method](*arguments)


# ---- the servers -----------------------------------------------------------------------------------------


async def _ours() -> str:
    return pickle.dumps(await RpcServer(_all_on_loop()).open()).hex()


async def _grpc() -> str:
    def handler(call: Callable[..., Awaitable[Any]]) -> grpc.RpcMethodHandler:
        async def handle(request: tuple[Any, ...], context: grpc.aio.ServicerContext) -> Any:
            if ("authorization", f"Bearer {SECRET}") not in context.invocation_metadata():
                await context.abort(grpc.StatusCode.UNAUTHENTICATED, "The secret is missing or wrong.")
            return None, await call(*request)

        return grpc.unary_unary_rpc_method_handler(handle, pickle.loads, dumps)

    server = grpc.aio.server(options=GRPC_OPTIONS)
    handlers = {name: handler(call) for name, call in _all_on_loop().items()}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("calls", handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    _KEPT.append(server)
    return f"127.0.0.1:{port}"


class _Actions(flight.FlightServerBase):  # type: ignore[misc]  # pyarrow is untyped
    """Answers calls as actions on Flight's own threads: a poll right there, the others through the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        grants = Grants.of([(SECRET, Grant("caller"))])
        tokens = TokenMiddleware(lambda: grants, GatewayBounds().calls_max)
        super().__init__("grpc://127.0.0.1:0", middleware=tokens.middleware)

    def do_action(self, context: Any, action: flight.Action) -> list[flight.Result]:
        caller_of(context)
        request = pickle.loads(action.body)
        if action.type == "poll":
            value: Any = _poll(*request)
        else:
            value = asyncio.run_coroutine_threadsafe(_awaited(action.type, request), self._loop).result()
        return [flight.Result(dumps((None, value)))]


async def _awaited(name: str, request: tuple[Any, ...]) -> Any:
    return await _ON_LOOP[name](*request)


async def _flight() -> str:
    server = _Actions(asyncio.get_running_loop())
    threading.Thread(target=server.serve, daemon=True).start()
    _KEPT.append(server)
    return f"grpc://127.0.0.1:{server.port}"


#: servers that nobody else holds
_KEPT: list[Any] = []
SERVERS = {"ours": _ours, "grpc": _grpc, "flight": _flight}


async def _serve(library: str) -> None:
    print(await SERVERS[library](), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    freeze_imports()
    asyncio.run(_serve(sys.argv[1]))
    os._exit(0)  # what a library has begun on threads of its own is not waited for
