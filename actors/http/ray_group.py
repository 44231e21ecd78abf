"""The HTTP service's client of a group actor, by Ray.

It holds no RPC connection: the group takes those for signs that consumers can reach it.
"""

from __future__ import annotations

from typing import Any, TypeVar

import ray
from ray.actor import ActorHandle

from canal_group.actors.gateway.group_handle import CALL_TIMEOUT_S
from canal_group.actors.transport.ray_errors import translated
from canal_group.merge.calls.call import Call
from canal_group.merge.errors import CanalGroupError, ServerUnavailable

R = TypeVar("R")


class RayGroup:
    """Calls a group actor. Safe to use from several threads.

    See `canal_group.actors.gateway.group_port.GroupPort`.

    Args:
        actor: the group actor.
    """

    def __init__(self, actor: ActorHandle) -> None:
        self._actor = actor

    def ask(self, call: Call[R]) -> R:
        """Return the actor's answer to a call; see `GroupPort.ask`."""
        _require_ray()
        with translated("The group"):
            answer: R = ray.get(self._actor.answer.remote(call), timeout=CALL_TIMEOUT_S + call.wait_s)
        return answer

    def status(self) -> dict[str, Any]:
        """Return the group's state as a JSON object; if it is unavailable, with an error."""
        try:
            _require_ray()
            ask = self._actor.status.options(concurrency_group="status")
            with translated("The group"):
                status: dict[str, Any] = ray.get(ask.remote(), timeout=CALL_TIMEOUT_S)
        except CanalGroupError as error:
            return {"active": False, "error": str(error)}
        return status


def gateway_state(gateway: ActorHandle, destination: str) -> dict[str, Any]:
    """Return a gateway's state at one destination as a JSON object; if it is unavailable, with an error."""
    try:
        _require_ray()
        with translated("The gateway"):
            state: dict[str, Any] = ray.get(gateway.describe.remote(destination), timeout=CALL_TIMEOUT_S)
    except CanalGroupError as error:
        return {"error": str(error)}
    return state


def _require_ray() -> None:
    """Return if Ray runs: a call would start another one.

    Raises:
        ServerUnavailable: the server is stopping.
    """
    if not ray.is_initialized():
        raise ServerUnavailable("The server is stopping.", retry_after_s=1.0)
