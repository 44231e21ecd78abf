"""The events of an instance: what differs between two of its states."""

from __future__ import annotations

from typing import Any

from canal_group.actors.http.history import History


def state(word: str, *, error: str | None = None, group_error: str | None = None) -> dict[str, Any]:
    merged = {"shard": "s0", "role": "member", "policy": None, "skipped": False, "error": group_error}
    group = {
        "active": True,
        "server": "a:1",
        "epoch": 1,
        "generation": 1,
        "shards": [merged],
        "full_rings": [],
        "clients": [],
    }
    return {"now_us": 1, "group": group, "shards": [{"shard": "s0", "words": [word], "error": error}]}


def events(*states: dict[str, Any]) -> list[str]:
    history = History()
    for each in states:
        history.take(each)
    return [each["what"] for each in history.since(0)["events"]]


def test_a_shard_that_stops_is_an_event_with_its_reason():
    full = "The disk is full."
    assert events(state("opening"), state("stopped", group_error=full), state("streaming")) == [
        f"shard s0 is stopped: {full}",
        "shard s0 is streaming",
    ]
    assert events(state("streaming"), state("connecting", error="It is gone.", group_error=full)) == [
        "shard s0 is connecting: It is gone."
    ]
    assert events(state("connecting", group_error=full), state("streaming", group_error=full)) == [
        "shard s0 is streaming"
    ]
