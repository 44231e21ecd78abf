"""The recent history of an instance: samples of its state for plots, and what happened to it.

Both are taken from the states that are asked for, and are bounded: at least one every five seconds, and one a
second while somebody looks. Events are what
differs between two states, so what happens and is undone between two is not among them.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from canal_group.merge.state_words import ShardWord
from canal_group.merge.values.loss import Loss
from canal_group.merge.whole import whole

#: samples and events that are kept
SAMPLES_MAX = 600
EVENTS_MAX = 200


class History:
    """Samples and events of one instance. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._samples: deque[dict[str, Any]] = deque(maxlen=SAMPLES_MAX)
        self._events: deque[dict[str, Any]] = deque(maxlen=EVENTS_MAX)
        self._before: Mapping[str, Any] | None = None

    def take(self, state: Mapping[str, Any]) -> None:
        """Take a state, as `canal-group status --json` prints it, that is newer than the last."""
        sample = _sample(state)
        with self._lock:
            events = () if self._before is None else _events(self._before, state)
            self._events.extend({"time_us": state["now_us"], "what": what} for what in events)
            self._samples.append(sample)
            self._before = state

    def since(self, time_us: int) -> dict[str, list[dict[str, Any]]]:
        """Return the samples and events after a time, microseconds since 1970 UTC, the oldest first."""
        with self._lock:
            return {
                "samples": [each for each in self._samples if each["time_us"] > time_us],
                "events": [each for each in self._events if each["time_us"] > time_us],
            }


def _sample(state: Mapping[str, Any]) -> dict[str, Any]:
    group = state["group"]
    merged = {shard["shard"]: shard for shard in group.get("shards", ())}
    return {
        "time_us": state["now_us"],
        "watermark_us": group.get("watermark_us"),
        "shards": {
            shard["shard"]: {
                "lag_s": _lag_s(state, shard, merged.get(shard["shard"], {})),
                "rows": sum(shard["counters"]["rows"].values()) if "counters" in shard else None,
            }
            for shard in state["shards"]
        },
    }


def _lag_s(state: Mapping[str, Any], shard: Mapping[str, Any], merged: Mapping[str, Any]) -> float | None:
    frontier_us = merged.get("frontier_us")
    if not frontier_us:
        return None
    lag_us = whole(state["now_us"]) + int(shard.get("skew_us", 0)) - int(frontier_us)
    return max(lag_us, 0) / 1e6


def _events(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Yield what happened between two states, a sentence each."""
    old, new = before["group"], now["group"]
    yield from _server_events(old, new)
    if not (old.get("active") and new.get("active")):
        return
    yield from _group_events(before, now)


def _server_events(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    if old.get("stopped") != new.get("stopped"):
        yield f"stopped: {new['stopped']}" if new.get("stopped") else "put back into service"
    if old.get("active") != new.get("active"):
        yield f"active on {new['server']}" if new.get("active") else "no longer active on this server"
    elif new.get("active") and old["epoch"] != new["epoch"]:
        yield f"elected again, epoch {new['epoch']}"
    if new.get("error") and not old.get("error"):
        yield new["error"]


def _group_events(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    old, new = before["group"], now["group"]
    if old["generation"] != new["generation"] and old["epoch"] == new["epoch"]:
        yield f"rewind {new['generation']}: every shard is opened again at the oldest cursor"
    known = {shard["shard"]: shard for shard in old["shards"]}
    for shard in new["shards"]:
        yield from _shard_events(known.get(shard["shard"]), shard)
    readers = {shard["shard"]: shard for shard in before["shards"]}
    errors = {shard["shard"]: shard["error"] for shard in new["shards"]}
    for shard in now["shards"]:
        yield from _reader_events(readers.get(shard["shard"]), shard, errors.get(shard["shard"]))
    yield from _full_ring_events(old["full_rings"], new["full_rings"])
    clients = {client["client_id"]: client for client in old["clients"]}
    for client in new["clients"]:
        yield from _client_events(clients.pop(client["client_id"], None), client)
    for client_id in clients:
        yield f"client {client_id} was removed"


def _full_ring_events(before: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    old = {full["shard"]: full["clients"] for full in before}
    for full in now:
        if old.pop(full["shard"], None) != full["clients"]:
            yield full["why"]
    for shard in old:
        yield f"the ring of shard {shard} has room again"


def _shard_events(before: Mapping[str, Any] | None, now: Mapping[str, Any]) -> Iterator[str]:
    name = now["shard"]
    if before is None:
        yield f"shard {name} was added"
        return
    if before["role"] != now["role"]:
        yield f"shard {name} is {now['role']}"
    if before["policy"] != now["policy"]:
        yield f"shard {name}: {now['policy'] or 'resume'}"
    if before["skipped"] != now["skipped"]:
        yield f"the group {'goes on without' if now['skipped'] else 'waits again for'} shard {name}"


def _reader_events(
    before: Mapping[str, Any] | None, now: Mapping[str, Any], error: str | None
) -> Iterator[str]:
    """Yield a sentence for each change of a shard's reader; `error`: the group's error of this shard."""
    if before is None:
        return
    name = now["shard"]
    (was, *_), (word, *_) = before["words"], now["words"]
    if was != word:
        why = now["error"] or (error if word == ShardWord.STOPPED else None)
        yield f"shard {name} is {word}{f': {why}' if why else ''}"
    if before.get("failover") and now.get("failover"):
        switches = now["failover"]["switches"] - before["failover"]["switches"]
        if switches > 0:
            yield f"shard {name} reads {now['source']} instead of {before['source']}"
    if "counters" in before and "counters" in now:
        statements = now["counters"]["statements"] - before["counters"]["statements"]
        if statements > 0:
            yield f"shard {name}: {statements} statement{'s' if statements > 1 else ''}"


def _client_events(before: Mapping[str, Any] | None, now: Mapping[str, Any]) -> Iterator[str]:
    name = now["client_id"]
    if before is None:
        yield f"client {name} subscribed"
        return
    if before["holder"] != now["holder"]:
        yield f"client {name} has {'consumer ' + now['holder'] if now['holder'] else 'no consumer'}"
    was, replay = before.get("replay"), now.get("replay")
    if was is None and replay is not None:
        yield f"client {name} is further back than the rings: it is replayed"
    elif was is not None and replay is None:
        yield f"client {name} is replayed no more"
    if before["error"] != now["error"] and now["error"]:
        yield f"client {name} is set aside: {now['error']}"
    for loss in now["losses"]:
        if loss not in before["losses"]:
            yield f"client {name} lost {Loss.from_dict(loss)}"
    if not before["dropped"] and now["dropped"]:
        yield f"client {name} was dropped: it was inactive for too long"
