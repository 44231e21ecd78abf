"""The gateway's client of the shard actors, which it finds by the names of their shards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import ray
from ray.actor import ActorHandle

from canal_group.actors.transport.ray_errors import translated
from canal_group.actors.transport.row_server import RowAddress
from canal_group.merge.errors import CanalGroupError, ShardUnavailable

#: how long a shard may take to tell its state, seconds
STATUS_TIMEOUT_S = 10.0
#: the same for where its rows are
ADDRESS_TIMEOUT_S = 10.0


class ShardActors:
    """Finds shard actors by name. Safe to use from several threads.

    Args:
        prefix: what the actors' names begin with; the shard's name follows.
        shards: names of the shards that were launched.
    """

    def __init__(self, prefix: str, shards: Sequence[str]) -> None:
        self._prefix = prefix
        self._launched = list(shards)
        self._actors: dict[str, ActorHandle] = {}

    def actor(self, shard: str) -> ActorHandle:
        """Return the actor of a shard. A name is given once, so that it stays the right one.

        Raises:
            ShardUnavailable: it has none: it left, or is being launched.
        """
        if shard not in self._actors:
            try:
                self._actors[shard] = ray.get_actor(self._prefix + shard)
            except ValueError as error:
                raise ShardUnavailable(f"Shard {shard} has no actor.", retry_after_s=0.5) from error
        return self._actors[shard]

    def rows_at(self, shard: str) -> RowAddress:
        """Return where the rows of a shard are.

        Raises:
            RetryableError: it does not say.
        """
        with translated(f"Shard {shard}"):
            ask = self.actor(shard).rows_at.options(concurrency_group="status")
            address: RowAddress = ray.get(ask.remote(), timeout=ADDRESS_TIMEOUT_S)
        return address

    def status(self, grouped: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return each shard's state as a JSON object, asking all at once; those that left have none.

        Args:
            grouped: the shards as the group tells of them; empty: it does not.
        """
        names = (
            [shard["shard"] for shard in grouped if shard["role"] != "left"] if grouped else self._launched
        )
        states = {shard["shard"]: shard for shard in grouped}
        answers: list[tuple[str, Any]] = [(name, self._ask(name)) for name in names]
        return [self._answer(name, reference, states.get(name, {})) for name, reference in answers]

    def _ask(self, shard: str) -> Any:
        try:
            return self.actor(shard).status.options(concurrency_group="status").remote()
        except ShardUnavailable as error:
            return error

    def _answer(self, shard: str, reference: Any, last: Mapping[str, Any]) -> dict[str, Any]:
        try:
            if isinstance(reference, CanalGroupError):
                raise reference
            with translated(f"Shard {shard}"):
                state: dict[str, Any] = ray.get(reference, timeout=STATUS_TIMEOUT_S)
        except CanalGroupError as error:
            return {"shard": shard, "state": "unavailable", "error": f"{error}{_last_answer(last)}"}
        return state


def _last_answer(state: Mapping[str, Any]) -> str:
    """Return a sentence on a shard's last answer to its group, and what it was reading; empty: not known."""
    answered_us = state.get("answered_us")
    if not answered_us:
        return ""
    when = datetime.fromtimestamp(answered_us / 1e6, UTC).isoformat(" ", "milliseconds")
    reading = state["reading"] or "nothing was read yet"
    return f" It answered its group last at {when}: {reading}."
