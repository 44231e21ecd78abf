"""State words: what `status`, `top`, the page and docs/operating.md call states of shards and client ids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

from canal_group.merge.order.shard_state import ShardPhase
from canal_group.merge.values.member import Policy, Role


class ShardWord(StrEnum):
    """A state of a shard; several may be true at once."""

    #: its actor does not answer
    UNAVAILABLE = "unavailable"
    #: it reads nothing, and is not asked to
    CLOSED = "closed"
    #: the group asks it to open, and it has not
    OPENING = "opening"
    CONNECTING = "connecting"
    STREAMING = "streaming"
    #: stopped at its data, or not opened because a store fails
    STOPPED = "stopped"
    #: read to its end
    FINISHED = "finished"
    #: it waits for room
    RING_FULL = "ring full"
    JOINING = Role.JOINING.value
    LEAVING = Role.LEAVING.value
    CATCHING_UP = "catching up"
    #: the group goes on without it
    SKIPPED = "skipped"
    #: an operator said so
    HOLD = Policy.HOLD.value
    SKIP = Policy.SKIP.value
    SHARED_DUMP = "shared dump"


class ClientWord(StrEnum):
    """A state of a client id; several may be true at once."""

    CONSUMED = "has a consumer"
    NO_CONSUMER = "no consumer"
    #: nothing of it is stored
    LOOK = "look"
    #: it holds rows for a while only
    UNACKNOWLEDGED = "never acknowledged"
    #: a full ring keeps rows for it
    HOLDS = "holds a full ring"
    #: it reads alone until it has caught up with the others
    REPLAYED = "replayed"
    #: the same, as soon as it has a consumer and others have caught up
    REPLAY_WAITS = "waits for a replay"
    #: nothing is held for it
    DROPPED = "dropped"
    PURGED = "purged"


def shard_words(
    shard: Mapping[str, Any], grouped: Mapping[str, Any], full_rings: Iterable[Mapping[str, Any]]
) -> list[str]:
    """Return the states of a shard, the first of which is what its reader does.

    Args:
        shard: the state that the shard reports.
        grouped: the state that its group reports; empty if it reports none.
        full_rings: of its group, see `canal_group.merge.delivery.full_rings`.
    """
    reads = ShardWord(shard["state"])
    phase = grouped.get("state")
    if phase == ShardPhase.OPENING and reads in (ShardWord.CLOSED, ShardWord.CONNECTING):
        reads = ShardWord.OPENING
    elif phase == ShardPhase.FAILED and reads is ShardWord.CLOSED:
        reads = ShardWord.STOPPED
    words = [reads]
    if any(full["shard"] == shard["shard"] for full in full_rings):
        words.append(ShardWord.RING_FULL)
    if grouped.get("role", "member") in (Role.JOINING, Role.LEAVING):
        words.append(ShardWord(grouped["role"]))
    if grouped.get("catching_up"):
        words.append(ShardWord.CATCHING_UP)
    elif grouped.get("skipped"):
        words.append(ShardWord.SKIPPED)
    if grouped.get("policy"):
        words.append(ShardWord(grouped["policy"]))
    if shard.get("shares_dump"):
        words.append(ShardWord.SHARED_DUMP)
    return [word.value for word in words]


def client_words(client: Mapping[str, Any], full_rings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the states of a client id; `client` as its group reports it, `full_rings` as above."""
    words = [ClientWord.CONSUMED if client["holder"] else ClientWord.NO_CONSUMER]
    if client["look"]:
        words.append(ClientWord.LOOK)
    elif not client["lasting"]:
        words.append(ClientWord.UNACKNOWLEDGED)
    if shards_held(client["client_id"], full_rings):
        words.append(ClientWord.HOLDS)
    replay = client.get("replay")
    if replay is not None:
        words.append(ClientWord.REPLAY_WAITS if replay["state"] == "waiting" else ClientWord.REPLAYED)
    if client["dropped"]:
        words.append(ClientWord.DROPPED)
    if client["error"]:
        words.append(ClientWord.PURGED)
    return [word.value for word in words]


def shards_held(client_id: str, full_rings: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the shards whose full rings keep rows for a client id."""
    return [full["shard"] for full in full_rings if client_id in full["clients"]]
