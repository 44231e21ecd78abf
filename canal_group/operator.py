"""An operator's calls: which shards a running instance has, and which of them it waits for."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from canal_group.gateway.gateway_client import GatewayClient, fields
from canal_group.gateway.operator_token import find_token
from canal_group.gateway.tls import UNSAID, Tls
from merge.errors import ServerUnavailable
from merge.values.position import Position

#: how often it is looked whether something has come about, seconds
LOOK_EVERY_S = 0.3


class Operator:
    """Changes a running instance through its gateway. Safe to use from several threads.

    Args:
        uri: the gateway, "grpc://host:port" or "grpc+tls://host:port".
        destination: the logical instance.
        token: of a client that may operate; None: the one that `serve` keeps for its own user on this
            machine, where its settings name nobody.
        tls: whom we trust, and who we are.
    """

    def __init__(self, uri: str, destination: str, token: str | None = None, tls: Tls = UNSAID) -> None:
        self.destination = destination
        self._gateway_client = GatewayClient(uri, destination, find_token if token is None else token, tls)

    def hold(self, shard: str) -> dict[str, Any]:
        """Wait for a shard that brings nothing, whatever the settings say; return its state.

        Holds, as `skip` does, until another word or until the server changes.

        Raises:
            UsageError: there is no such shard.
        """
        return self._policy(shard, "hold")

    def skip(self, shard: str) -> dict[str, Any]:
        """Go on without a shard; what it brings meanwhile is flagged late. Return its state.

        If a transaction of it is out in part, that is taken back: consumers hear RolledBack, and it comes
        again whole.

        Raises:
            UsageError: there is no such shard, or nobody would be left.
        """
        return self._policy(shard, "skip")

    def resume(self, shard: str) -> dict[str, Any]:
        """Treat a shard as the settings say again; return its state."""
        return self._policy(shard, "resume")

    def add(self, shard: Mapping[str, Any], start: Position | None = None) -> dict[str, Any]:
        """Let one more shard join the stream that goes on; return its state.

        It has joined, for good, when `joined` says so; what it begins with is raised to what is out already.

        Args:
            shard: as an entry of `shards` in an instance file; the server reads its secrets.
            start: where it begins; None: where `shard` says.

        Raises:
            ConfigError: the definition cannot hold.
            UsageError: the name belongs to a shard that is there, or that left.
        """
        begin = None if start is None else start.to_dict()
        return self._gateway_client.ask_for("shard_add", fields, wait_s=20, shard=dict(shard), start=begin)

    def remove(self, shard: str, *, now: bool = False) -> dict[str, Any]:
        """Let a shard leave, and return its state, or what was dropped.

        Args:
            shard: its name; it is not given again.
            now: drop what is not acknowledged (`rows_dropped` of them had been read, `left_at` says where
                each cursor stood); consumers hear RolledBack. Otherwise it leaves when what it has committed
                by now is acknowledged, and `left` says so.

        Raises:
            UsageError: there is no such shard, it is the only one, or it cannot be drained.
        """
        return self._gateway_client.ask_for("shard_remove", _dropped if now else fields, shard=shard, now=now)

    def joined(self, shard: str, timeout_s: float) -> bool:
        """Wait until a shard is a member that every cursor holds; return whether it is one in time."""
        return self._became(shard, "member", timeout_s)

    def left(self, shard: str, timeout_s: float) -> bool:
        """Wait until no cursor holds a shard that is to leave; return whether that is so in time."""
        return self._became(shard, "left", timeout_s)

    def close(self) -> None:
        """Close the connection."""
        self._gateway_client.close()

    def _policy(self, shard: str, policy: str) -> dict[str, Any]:
        return self._gateway_client.ask_for("shard_policy", _state, shard=shard, policy=policy)

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
            reconciled, roles = self._gateway_client.ask_for("status", _roles)
        except ServerUnavailable:
            return False
        return reconciled and roles.get(shard, "left") == role


def _state(value: Any) -> dict[str, Any]:
    """Return a shard's state."""
    return {**fields(value), "skipped": bool(value["skipped"])}


def _dropped(value: Any) -> dict[str, Any]:
    """Return what was dropped with a shard."""
    rows, left_at = int(value["rows_dropped"]), dict(value["left_at"])
    return {**fields(value), "rows_dropped": rows, "left_at": left_at}


def _roles(value: Mapping[str, Any]) -> tuple[bool, dict[str, str]]:
    """Return whether an instance's group is settled, and the roles of its shards."""
    group = value["group"]
    return bool(group.get("reconciled")), {one["shard"]: one["role"] for one in group.get("shards", [])}
