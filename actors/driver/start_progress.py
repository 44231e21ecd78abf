"""What instances wait for until all of their shards stream, a line each time that it changes."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ray
from ray import ObjectRef

from canal_group.actors.driver.instance import Instance
from canal_group.conf.settings import InstanceSettings
from canal_group.merge.back_off import BackOff

_log = logging.getLogger(__name__)

#: pauses between two looks at an instance, seconds: the first, and the longest
LOOK_FIRST_S = 1.0
LOOK_MAX_S = 15.0
#: how long an actor may take to answer before it is asked again, seconds
ANSWER_S = 5.0
#: shards that a line names
_SHOWN = 3
#: characters of a bar
_BAR = 10
#: states of shards that wait for nothing
_STREAMING = {"streaming", "finished"}


class StartProgress:
    """Logs what the instances of a server wait for; `tell` is called often and never waits."""

    def __init__(self) -> None:
        self._starts: dict[Path, _Start] = {}

    def tell(self, instances: Mapping[Path, Instance]) -> None:
        """Log what is new of the instances that do not stream yet."""
        for file in self._starts.keys() - instances.keys():
            del self._starts[file]
        for file, instance in instances.items():
            start = self._starts.get(file)
            if start is None or start.instance is not instance:
                start = self._starts[file] = _Start(instance)
            start.look()


class _Start:
    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self._pauses = BackOff(LOOK_MAX_S)
        self._look_at_s = 0.0
        self._answers: list[ObjectRef[dict[str, Any]]] = []
        self._last = ""
        self._is_done = False

    def look(self) -> None:
        now_s = time.monotonic()
        if self._is_done:
            return
        if not self._answers:
            if now_s < self._look_at_s:
                return
            self._answers = [self.instance.ask_state(), *map(_ask_shard, self.instance.actor_registry.actors)]
            self._look_at_s = now_s
        ready, late = ray.wait(self._answers, num_returns=len(self._answers), timeout=0)
        if late and now_s < self._look_at_s + ANSWER_S:
            return
        (group, *shards), self._answers = self._answers, []
        self._look_at_s = now_s + self._pauses.failed(LOOK_FIRST_S, 1.0)
        state = _state(group) if group in ready else {}
        if not state:
            return
        known = [found for each in shards if each in ready and (found := _state(each))]
        line, self._is_done = progress(self.instance.settings, state, known, len(shards))
        if line and line != self._last:
            _log.info("%s", line, extra={"destination": self.instance.settings.destination})
        self._last = line


def progress(
    settings: InstanceSettings, group: Mapping[str, Any], shards: Sequence[Mapping[str, Any]], count: int
) -> tuple[str, bool]:
    """Return a sentence on an instance that starts, and whether it waits for nothing any more.

    Args:
        settings: of the instance.
        group: the state of its group.
        shards: the states of its shards that answered.
        count: how many shards there are.

    Returns:
        An empty sentence while it stands by, or is stopped.
    """
    if not group["active"]:
        if group["active_server"] or group["stopped"]:
            return "", False
        elector = settings.coordination
        by = f" by ZooKeeper at {elector.hosts}" if elector.kind == "zookeeper" else ""
        return f"{settings.destination} waits to be elected{by}", False
    waits = [f"{each['shard']} ({_why(each)})" for each in shards if each.get("state") not in _STREAMING]
    streaming = len(shards) - len(waits)
    if streaming == count:
        return f"{settings.destination}: all {count} shards stream", True
    named = waits[:_SHOWN]
    if streaming + len(named) < count:
        named.append(f"{count - streaming - len(named)} more")
    counted = f"{_bar(streaming, count)} {streaming} of {count} shards stream"
    return f"{settings.destination}: {counted}; waits for {', '.join(named)}", False


def _why(shard: Mapping[str, Any]) -> str:
    """Return the reason why a shard does not stream, in a few words."""
    if shard.get("error"):
        return str(shard["error"]).partition(". ")[0].rstrip(".")
    known = shard.get("definitions") or {}
    if known.get("unread"):
        read, tables = known["tables"] - known["unread"], known["tables"]
        return f"reads definitions: {_bar(read, tables)} {read} of {tables} tables"
    return "opens its source" if shard.get("state") == "closed" else str(shard.get("state"))


def _bar(done: int, count: int) -> str:
    return f"[{'#' * (_BAR * done // count):-<{_BAR}}]"


def _ask_shard(actor: Any) -> ObjectRef[dict[str, Any]]:
    answer: ObjectRef[dict[str, Any]] = actor.status.options(concurrency_group="status").remote()
    return answer


def _state(answer: ObjectRef[dict[str, Any]]) -> dict[str, Any]:
    """Return an actor's state; empty if it restarts."""
    try:
        state: dict[str, Any] = ray.get(answer)
    except ray.exceptions.RayError:
        return {}
    return state
