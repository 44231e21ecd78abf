"""A stream that stands still says for whom, and what to do; a look leaves nothing, however it ends."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import requests
from integration.shop import DEADLINE_S, Shop
from integration.zookeeper_fixtures import eventually
from kazoo.client import KazooClient
from prometheus_client import CollectorRegistry, generate_latest
from support.instance.program import PROGRAM, run

import canal_group
from canal_group.actors.coordination.embedded import EmbeddedZooKeeper
from canal_group.actors.http.metrics.instances import InstanceFamilies
from canal_group.actors.http.served import Served
from canal_group.actors.http.service import HttpService, HttpSettings
from canal_group.zookeeper.tree import Tree

SMALL = {"mode": "items", "size": 16}
ROWS = 40


def metric(state: dict[str, Any], name: str, label: str = "") -> float:
    """Return the value of the one series of a state that has this name and label."""
    registry = CollectorRegistry()
    registry.register(InstanceFamilies([state]))
    lines = generate_latest(registry).decode().splitlines()
    (line,) = [each for each in lines if each.startswith(f"canal_group_{name}{{") and label in each]
    return float(line.split()[-1])


def clients_of(served: Served) -> list[str]:
    return [client["client_id"] for client in served.state()["group"].get("clients", [])]


def taken(consumer: canal_group.Consumer, timeout: float) -> int:
    """Get the next batch and acknowledge it; return its rows, 0 if none came."""
    batch = consumer.get_without_ack(timeout=timeout)
    if batch is not None:
        consumer.ack(batch.batch_id)
    return 0 if batch is None else batch.rows


def test_a_full_ring_names_its_client_id_everywhere_until_it_is_removed(shop: Shop, zookeeper: KazooClient):
    """1. `old` asks to be kept and goes, `idle` does not ask; 2. `app` is there: `idle` is dropped, and `app`
    reads until the ring is full; 3. status, history, metrics name `old`; 4. `client remove` frees the ring:
    `app` gets the rest; 5. a look is killed: nothing stays; 6. `client set-aside` releases `app`.
    """
    with shop.serve(store=SMALL, consumer={"lease_s": 1, "unacknowledged_s": 1}) as instance:
        served = Served(instance)
        where = ("-d", shop.destination, "--gateway", instance.uri)
        run("consume", *where, "--client", "old", "--keep", "--timeout", "0.1")
        shop.connect(instance, client_id="idle").close()
        with shop.connect(instance, client_id="app") as app:

            def words() -> dict[str, list[str]]:
                return {each["client_id"]: each["words"] for each in served.state()["group"]["clients"]}

            dropped = ["no consumer", "never acknowledged", "dropped"]
            eventually(lambda: words()["idle"] == dropped, "the one that was not kept to be dropped")
            assert words()["old"] == ["no consumer"]
            shop.write(0, ROWS)
            rows = 0
            while more := taken(app, 3.0):
                rows += more
            assert rows < ROWS
            eventually(lambda: served.state()["group"]["full_rings"], "the full ring to be told")
            state = served.state()
            (full,) = state["group"]["full_rings"]
            assert full["clients"] == ["old"]
            assert full["why"].startswith("s0 waits: ring full, kept for client old (no consumer for ")
            assert full["why"].endswith(f"; canal-group client remove -d {shop.destination} old")
            assert state["shards"][0]["ring"]["full_of"] == "headers"
            said = " ".join(run("status", *where, "--wide").stdout.split())
            assert full["why"].partition("(")[0] in said
            assert "streaming, ring full" in said
            assert any("kept for client old" in each["what"] for each in served.watch(0)["events"])
            assert metric(state, "client_full_ring_seconds", 'client_id="old"') >= 5
            assert metric(state, "client_full_ring_seconds", 'client_id="app"') == 0
            listed = json.loads(run("client", "list", *where).stdout)["clients"]
            holds = {each["client_id"]: each["holds"] for each in listed}
            assert holds == {"old": ["s0"], "idle": [], "app": []}
            for client_id in ("old", "idle"):
                run("client", "remove", *where, client_id, "--yes")
            while rows < ROWS:
                rows += taken(app, DEADLINE_S)
            command = [*PROGRAM, "consume", *where, "--client", "look"]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as look:
                try:
                    eventually(lambda: "look" in clients_of(served), "the look")
                    shop.write(0, 1)
                    assert look.stdout is not None
                    assert json.loads(look.stdout.readline())
                finally:
                    look.send_signal(signal.SIGKILL)
            eventually(lambda: clients_of(served) == ["app"], "the look to end")
            node = Tree(shop.destination).client("look")
            eventually(lambda: not zookeeper.exists(node), "nothing to be left of the look")
            run("client", "set-aside", *where, "app")
            eventually(lambda: words() == {"app": ["no consumer", "dropped"]}, "the one that was set aside")


def test_without_zookeeper_no_server_is_active_and_consumers_wait(
    shop: Shop, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    """1. rows flow; 2. ZooKeeper is paused: status, its exit code, /ready and a metric say so; a get and an
    acknowledgement wait, with warnings; 3. it is back: both are answered.
    """
    with EmbeddedZooKeeper(tick_ms=200) as zookeeper:
        shop.zookeeper_hosts = zookeeper.hosts
        with shop.serve() as instance, shop.connect(instance) as getter, ThreadPoolExecutor(2) as pool:
            served = Served(instance)
            server = SimpleNamespace(instances={tmp_path / "shop.yaml": instance})
            http = HttpSettings(port=0, audit_log=tmp_path / "audit.jsonl")
            with (
                shop.connect(instance, client_id="acker") as acker,
                HttpService(server, http, lambda: False) as service,
            ):

                def ready() -> int:
                    return requests.get(f"{service.url}/ready", timeout=DEADLINE_S).status_code

                shop.write(0, 5)
                batch = acker.get_without_ack(timeout=DEADLINE_S)
                assert batch is not None
                eventually(lambda: taken(getter, 0.5) == 0, "the getter to wait")
                assert ready() == 200
                eventually(lambda: served.state()["group"]["servers"], "the servers to be told")
                (server_seen,) = served.state()["group"]["servers"]
                assert server_seen["active"]
                assert zookeeper.pid is not None
                os.kill(zookeeper.pid, signal.SIGSTOP)
                try:
                    eventually(lambda: "error" in served.state()["group"], "the silence", within_s=DEADLINE_S)
                    getting = pool.submit(getter.get_without_ack)
                    acking = pool.submit(acker.ack, batch.batch_id)
                    sentence = (
                        f"nobody is known to be active: ZooKeeper at {zookeeper.hosts} has not answered for"
                    )
                    assert served.state()["group"]["error"].startswith(sentence)
                    eventually(
                        lambda: not served.state()["group"]["servers"], "no server to be listed as active"
                    )
                    assert metric(served.state(), "coordinator_silence_seconds") > 4
                    status = run("status", "-d", shop.destination, "--gateway", instance.uri, status=3)
                    assert sentence in " ".join(status.stdout.split())
                    assert ready() == 503

                    def warned() -> int:
                        return sum("and waits on" in each.getMessage() for each in caplog.records)

                    with caplog.at_level(logging.WARNING):
                        eventually(lambda: warned() >= 2, "both to warn", within_s=DEADLINE_S)
                    assert not getting.done()
                    assert not acking.done()
                finally:
                    os.kill(zookeeper.pid, signal.SIGCONT)
                shop.write(0, 1)
                # If the server was elected again meanwhile, its rows come again.
                with contextlib.suppress(canal_group.RolledBack):
                    assert acking.result(DEADLINE_S) is not None
                eventually(lambda: ready() == 200, "the server to be ready again", within_s=DEADLINE_S)
                assert getting.result(DEADLINE_S) is not None
