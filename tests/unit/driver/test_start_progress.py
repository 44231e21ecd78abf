"""What an instance waits for while it starts, as a sentence."""

from __future__ import annotations

from typing import Any

import pytest

from canal_group.actors.driver.start_progress import progress
from canal_group.conf.load import build_instance

ELECTED = {"active": True}
NONE = "shop: [----------]"


def settings(**more: Any) -> Any:
    shards = [{"name": "a", "host": "a", "user": "canal"}]
    return build_instance({"preset": "memory", "destination": "shop", "shards": shards, **more})


def shard(name: str, state: str = "streaming", **more: Any) -> dict[str, Any]:
    return {"shard": name, "state": state, "error": None, "definitions": None, **more}


@pytest.mark.parametrize(
    ("shards", "count", "line"),
    [
        ([shard("a"), shard("b", "finished")], 2, "shop: all 2 shards stream"),
        ([shard("a")], 2, "shop: [#####-----] 1 of 2 shards stream; waits for 1 more"),
        (
            [shard("a"), shard("b", "closed")],
            2,
            "shop: [#####-----] 1 of 2 shards stream; waits for b (opens its source)",
        ),
        (
            [shard("a", "connecting", error="The source is not available: refused. Hint: start it.")],
            1,
            f"{NONE} 0 of 1 shards stream; waits for a (The source is not available: refused)",
        ),
        (
            [shard("a", "closed", definitions={"tables": 100, "unread": 60})],
            1,
            f"{NONE} 0 of 1 shards stream; waits for a (reads definitions: [####------] 40 of 100 tables)",
        ),
        (
            [shard(name, "connecting") for name in "abcde"],
            6,
            f"{NONE} 0 of 6 shards stream; waits for a (connecting), b (connecting), c (connecting), 3 more",
        ),
    ],
)
def test_shards_that_do_not_stream_are_counted_and_named(shards, count, line):
    assert progress(settings(), ELECTED, shards, count) == (line, line.endswith("shards stream"))


def test_an_election_is_waited_for():
    waiting = {"active": False, "active_server": None, "stopped": None}
    assert progress(settings(), waiting, [], 1) == ("shop waits to be elected", False)
    zookeeper = settings(coordination={"kind": "zookeeper", "hosts": "zk:2181"})
    assert progress(zookeeper, waiting, [], 1)[0] == "shop waits to be elected by ZooKeeper at zk:2181"


@pytest.mark.parametrize("told", [{"active_server": "b:1"}, {"stopped": "stopped by ops"}])
def test_a_standby_and_a_stopped_destination_wait_for_nothing(told):
    state = {"active": False, "active_server": None, "stopped": None, **told}
    assert progress(settings(), state, [], 1) == ("", False)
