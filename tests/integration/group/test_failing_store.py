"""A store that fails while a shard is opened: the state says so, and the shard goes on when it can."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import requests
from integration.shop import DEADLINE_S, Shop
from integration.zookeeper_fixtures import eventually
from support.instance.program import run

from canal_group.actors.http.served import Served
from canal_group.actors.http.service import HttpService, HttpSettings


def test_a_shard_with_an_unreadable_history_is_stopped_until_it_is_mended(shop: Shop, tmp_path: Path):
    """1. a folder is in the place of its schema history: status, /ready and the group's own line say so;
    2. it is taken away: the shard streams by itself, and the history of the state has an event.
    """
    folder = tmp_path / "cursors"
    in_the_way = folder / f"{shop.destination}@histories@s0.json"
    in_the_way.mkdir(parents=True)
    with shop.serve(cursor={"kind": "file", "folder": str(folder), "flush_s": None}) as instance:
        served = Served(instance)
        server: Any = SimpleNamespace(instances={tmp_path / "shop.yaml": instance})
        http = HttpSettings(port=0, audit_log=tmp_path / "audit.jsonl")
        with HttpService(server, http, lambda: False) as service:

            def words() -> list[list[str]]:
                return [shard["words"] for shard in served.state()["shards"]]

            def ready() -> int:
                return requests.get(f"{service.url}/ready", timeout=DEADLINE_S).status_code

            eventually(lambda: words() == [["stopped"], ["streaming"]], "s0 to be stopped")
            sentence = f"{in_the_way} cannot be read (Is a directory)."
            group = served.state()["group"]
            assert (group["held_by"], group["held_why"]) == ("s0", f"it stopped: {sentence}")
            assert ready() == 503
            said = run("status", "-d", shop.destination, "--gateway", instance.uri).stdout
            assert "".join(sentence.split()) in "".join(said.split()), "a long line is folded"
            in_the_way.rmdir()
            eventually(lambda: words() == [["streaming"], ["streaming"]], "s0 to go on")
            eventually(lambda: ready() == 200, "the server to be ready")
            assert "shard s0 is streaming" in [each["what"] for each in served.watch(0)["events"]]
