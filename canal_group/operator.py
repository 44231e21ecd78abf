"""An operator: asks what `calls` declares of a running instance, such as to add a shard or to skip one.

from canal_group.operator import Operator, calls

operator = Operator("grpc://127.0.0.1:11113", "shop")
moved = operator.ask(calls.Rewind("app", "earliest"))
print(moved["to"])
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any, TypeVar

from canal_group.gateway.gateway_client import GatewayClient, fields
from canal_group.gateway.operator_token import find_token
from canal_group.gateway.tls import UNSAID, Tls
from canal_group.merge.calls import operators as calls
from canal_group.merge.calls.answer_type import read_answer
from canal_group.merge.calls.call import OperatorCall
from canal_group.merge.calls.consumers import Status
from canal_group.merge.errors import ServerUnavailable
from canal_group.merge.values.member import Policy

__all__ = ["Operator", "Policy", "calls"]

#: polling interval while waiting for a change to complete, seconds
LOOK_EVERY_S = 0.3

R = TypeVar("R")


class Operator:
    """Calls a running instance through its gateway. Safe to use from several threads.

    Args:
        uri: the gateway, "grpc://host:port" or "grpc+tls://host:port".
        destination: the logical instance.
        token: of a client that may operate; None: the one that `serve` stores for its own user on this
            machine, if its settings name no clients.
        tls: the authorities that we trust, and our certificate.
    """

    def __init__(self, uri: str, destination: str, token: str | None = None, tls: Tls = UNSAID) -> None:
        self.destination = destination
        self._gateway_client = GatewayClient(uri, destination, find_token if token is None else token, tls)

    def ask(self, call: OperatorCall[R]) -> R:
        """Make a call and return its answer, whose type the call declares.

        Args:
            call: one of `calls`; its class says what it does and what is wrong when.

        Raises:
            CanalGroupError: what the call's class says.
            ServerUnavailable: there is no answer, or no readable one; it is unknown whether the call was
                processed.
        """
        return self._gateway_client.ask_for(call, partial(read_answer, call))

    def status(self) -> dict[str, Any]:
        """Return the state of the instance, as `canal-group status --json` prints it."""
        return self._gateway_client.ask_for(Status(), fields)

    def joined(self, shard: str, timeout_s: float) -> bool:
        """Wait until a shard is a member that every cursor has; return whether that happened in time."""
        return self._became(shard, "member", timeout_s)

    def left(self, shard: str, timeout_s: float) -> bool:
        """Wait until no cursor has a shard that is leaving; return whether that happened in time."""
        return self._became(shard, "left", timeout_s)

    def close(self) -> None:
        """Close the connection."""
        self._gateway_client.close()

    def _became(self, shard: str, role: str, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        while True:
            if self._is(shard, role):
                return True
            if time.monotonic() > deadline:
                return False
            time.sleep(LOOK_EVERY_S)

    def _is(self, shard: str, role: str) -> bool:
        try:
            reconciled, roles = self._gateway_client.ask_for(Status(), _roles)
        except ServerUnavailable:
            return False
        return reconciled and roles.get(shard, "left") == role


def _roles(value: Any) -> tuple[bool, dict[str, str]]:
    group = value["group"]
    return bool(group.get("reconciled")), {one["shard"]: one["role"] for one in group.get("shards", [])}
