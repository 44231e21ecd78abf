"""The HTTP service's client of a group actor, by Ray.

It holds no RPC connection: the group takes those for signs that consumers can reach it.
"""

from __future__ import annotations

from typing import Any

import ray
from ray.actor import ActorHandle

from actors.gateway.group_handle import CALL_TIMEOUT_S
from actors.transport.ray_errors import translated
from merge.errors import CanalGroupError, ServerUnavailable


class RayGroup:
    """Calls a group actor; see `actors.gateway.group_port.GroupPort`. Safe to use from several threads.

    Args:
        actor: the group actor.
    """

    def __init__(self, actor: ActorHandle) -> None:
        self._actor = actor

    def call(self, method: str, *arguments: Any, wait_s: float = 0.0, **named: Any) -> Any:
        """Call a method of the actor and return its answer; see `GroupPort.call`."""
        _require_ray()
        with translated("The group"):
            return ray.get(
                getattr(self._actor, method).remote(*arguments, **named), timeout=CALL_TIMEOUT_S + wait_s
            )

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


def gateway_state(gateway: ActorHandle) -> dict[str, Any]:
    """Return a gateway's state as a JSON object; if it is unavailable, with an error."""
    try:
        _require_ray()
        with translated("The gateway"):
            state: dict[str, Any] = ray.get(gateway.describe.remote(), timeout=CALL_TIMEOUT_S)
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
