"""The gateway's client of the group actor: calls with timeouts, and errors that consumers understand."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import Any, TypeVar

import ray
from ray.actor import ActorHandle

from canal_group.actors.gateway.delivery_lease import DeliveryLease
from canal_group.actors.process.loop_thread import LoopThread
from canal_group.actors.transport.ray_errors import translated
from canal_group.actors.transport.rpc_client import KeptRpcClient
from canal_group.actors.transport.rpc_wire import RpcAddress
from canal_group.merge.calls.call import Call
from canal_group.merge.calls.consumers import Confirm
from canal_group.merge.errors import CanalGroupError, ServerUnavailable

R = TypeVar("R")

#: how long a call to the group may take beyond what it is asked to wait, seconds
CALL_TIMEOUT_S = 10.0
#: how long after it is closed its loop ends, seconds: calls that came just before are refused there
CLOSE_S = 5.0


class GroupHandle:
    """Calls the group actor. Safe to use from several threads.

    It keeps an RPC connection to the group open from the start, so that the group knows that consumers can
    reach it.

    Args:
        name: of the actor.

    Raises:
        ServerUnavailable: there is no such actor: it ended, and cannot be started again.
    """

    def __init__(self, name: str) -> None:
        try:
            self._actor: ActorHandle = ray.get_actor(name)
        except ValueError as error:
            raise ServerUnavailable(f"There is no actor {name}.", retry_after_s=0.5) from error
        self._rpc = KeptRpcClient("The group", self._find)
        self._loop = LoopThread("rpc")
        self._keeping = self._loop.run(self._rpc.keep())
        self._closed = False

    def close(self) -> None:
        """Close the connection: calls end, and later ones are refused, with ServerUnavailable."""
        self._closed = True
        self._keeping.cancel()
        self._loop.end(CLOSE_S)

    def ask(self, call: Call[R]) -> R:
        """Return the group's answer to a call; see `GroupPort.ask`."""
        return _answer(self._asked(call), CALL_TIMEOUT_S + call.wait_s)

    async def ask_from(self, call: Call[R]) -> R:
        """Return the group's answer to a call as `ask` does, without blocking the loop of the caller."""
        answer: asyncio.Future[R] = asyncio.wrap_future(self._asked(call))
        with translated("The group"):
            async with asyncio.timeout(CALL_TIMEOUT_S + call.wait_s):
                return await answer

    def status(self) -> dict[str, Any]:
        """Return the group's state as a JSON object; if it is unavailable, with an error."""
        ask = self._actor.status.options(concurrency_group="status")
        try:
            with translated("The group"):
                status: dict[str, Any] = ray.get(ask.remote(), timeout=CALL_TIMEOUT_S)
        except CanalGroupError as error:
            return {"active": False, "error": str(error)}
        return status

    def delivery_lease(
        self, client_id: str, epoch: int, batch_id: int, answered: tuple[float, float] | None = None
    ) -> DeliveryLease:
        """Return a delivery lease for the rows of an outstanding batch; `answered` as of `DeliveryLease`."""
        confirm = Confirm(client_id, epoch, batch_id)
        return DeliveryLease(
            lambda: self._asked(confirm), lambda answer: float(_answer(answer, CALL_TIMEOUT_S)), answered
        )

    def _asked(self, call: Call[R]) -> Future[R]:
        if self._closed:
            raise ServerUnavailable("The destination is not served here any more.", retry_after_s=0.5)
        answer: Future[R] = Future()
        self._loop.call(self._rpc.ask_for, answer, "answer", call)
        return answer

    async def _find(self) -> RpcAddress:
        with translated("The group"):
            # While the process starts again, Ray asks again.
            address: RpcAddress = await self._actor.rpc_address.options(max_task_retries=-1).remote()
        return address


def _answer(answer: Future[R], timeout_s: float) -> R:
    try:
        with translated("The group"):
            return answer.result(timeout_s)
    finally:
        answer.cancel()
