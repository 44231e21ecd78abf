"""The group actor as the gateway sees it: calls that end, with errors that consumers understand."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import ray
from ray.actor import ActorHandle

from actors.permit import Permit
from actors.ray_errors import translated
from merge.errors import CanalGroupError

#: how long a call to the group may take beyond what it is asked to wait, seconds
CALL_TIMEOUT_S = 10.0


class GroupHandle:
    """Calls the group actor. Safe to use from several threads.

    Args:
        name: of the actor.
    """

    def __init__(self, name: str) -> None:
        self._actor: ActorHandle = ray.get_actor(name)

    def call(self, method: str, *arguments: Any, wait_s: float = 0.0, **named: Any) -> Any:
        """Call a method of `actors.group.GroupActor` and return its answer.

        Args:
            method: its name.
            arguments: its arguments.
            wait_s: how long the call itself may wait for something.
            named: its arguments by name.

        Raises:
            CanalGroupError: the group's, or that it is away.
        """
        call = getattr(self._actor, method)
        with translated("The group"):
            return ray.get(call.remote(*arguments, **named), timeout=CALL_TIMEOUT_S + wait_s)

    def status(self) -> dict[str, Any]:
        """Return the group's state as a JSON object; one that is away has an error in it."""
        ask = self._actor.status.options(concurrency_group="status")
        try:
            with translated("The group"):
                status: dict[str, Any] = ray.get(ask.remote(), timeout=CALL_TIMEOUT_S)
        except CanalGroupError as error:
            return {"active": False, "error": str(error)}
        return status

    def permit(self, client_id: str, epoch: int, batch_id: int) -> Permit:
        """Return the group's word that the rows of an outstanding batch may leave."""

        def ask() -> Future[float]:
            # A future: Ray prints a traceback of an error that nobody fetches, as when the rows fail first.
            answer: Future[float] = self._actor.confirm.remote(client_id, epoch, batch_id).future()
            return answer

        return Permit(ask, _seconds)


def _seconds(answer: Future[float]) -> float:
    with translated("The group"):
        return float(answer.result(CALL_TIMEOUT_S))
