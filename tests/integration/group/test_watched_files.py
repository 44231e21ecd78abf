"""Instance files and folders that `serve` watches: what changes in them, changes what is served."""

from __future__ import annotations

import json
import signal
from contextlib import ExitStack
from pathlib import Path

import pytest
from integration.serve_process import Serve
from integration.shop import CLIENT, DEADLINE_S, Reading, Shop
from support.instance.program import run

import canal_group
from canal_group.actors.coordination.embedded import EmbeddedZooKeeper
from canal_group.operator import Operator


@pytest.mark.soak
def test_files_of_a_watched_folder_are_served_restarted_and_stopped(offline: Shop, tmp_path: Path):
    """One process, several destinations.

    1. two files are served, on one Ray; 2. a broken third is named, and a second file of one destination;
    3. a changed file restarts its instance; 4. a file that goes stops its instance; 5. the other never
    noticed.
    """
    folder = tmp_path / "instances"
    folder.mkdir()
    server = offline.servers[0]

    def put(name: str, destination: str, more: str = "") -> None:
        (folder / f"{name}.new").write_text(
            f"preset: memory\ndestination: {destination}\n"
            f"shards: [{{name: s0, host: 127.0.0.1, port: {server.port}, user: canal,"
            f" password_file: {tmp_path / 'password'}}}]\n"
            f"gateway: {{port: 0}}\nray: {{num_cpus: 2}}\n{more}"
        )
        (folder / f"{name}.new").rename(folder / f"{name}.yaml")

    put("one", "one")
    put("two", "two")
    with Serve("-c", str(folder), "--scan", "0.2") as serve:
        one = serve.says("serving one").split()[-1]
        two = serve.says("serving two").split()[-1]
        (folder / "three.yaml").write_text("preset: memory\ndestination: three\nshards: [{nam: x}]\n")
        put("four", "one")
        serve.says("three.yaml", "nam")
        serve.says("four.yaml", "one.yaml has 'one' too")
        put("two", "two", "start: earliest\n")
        serve.says("stopping two")
        again = serve.says("serving two", since=serve.lines.index(serve.says("stopping two"))).split()[-1]
        assert json.loads(run("status", "-g", again, "-d", "two", "--json").stdout)["group"]["active"]
        (folder / "two.yaml").unlink()
        (folder / "four.yaml").unlink()
        since = len(serve.lines)
        serve.says("stopping two", since=since)
        assert "ServerUnavailable" in run("status", "-g", again, "-d", "two", status=3).stderr
        assert json.loads(run("status", "-g", one, "-d", "one", "--json").stdout)["group"]["active"]
        assert sum(": serving one" in line for line in serve.lines) == 1
        assert two
        assert serve.end() == 0


@pytest.mark.soak
def test_a_watched_file_adds_and_removes_shards_or_restarts_the_server(offline: Shop, tmp_path: Path):
    """1. a file of one shard is served; 2. it gains another one, which joins, and loses it again: a consumer
    reads both and notices nothing; 3. a broken file changes nothing; 4. another start restarts the instance.
    """
    config = tmp_path / "shop.yaml"

    def put(shards: int, more: str = "") -> None:
        named = ", ".join(
            f"{{name: s{index}, host: 127.0.0.1, port: {server.port}, user: canal,"
            f" password_file: {tmp_path / 'password'}}}"
            for index, server in enumerate(offline.servers[:shards])
        )
        config.with_suffix(".new").write_text(
            f"preset: memory\ndestination: {offline.destination}\nshards: [{named}]\n"
            f"gateway: {{port: 0}}\nray: {{num_cpus: 2}}\n{more}"
        )
        config.with_suffix(".new").rename(config)

    put(1)
    with Serve("-c", str(config), "--scan", "0.2") as serve:
        for step in (f"reads {config}", "waits for Ray", f"waits for the actors of {offline.destination}"):
            serve.says(step)
        serve.says(f"{offline.destination}: all 1 shards stream")
        uri = serve.says("serving", "1 shards").split()[-1]
        with canal_group.connect(uri, destination=offline.destination, client_id=CLIENT) as consumer:
            put(2)
            serve.says("shard s1 joins")
            serve.says("serving", "2 shards")
            operator = Operator(uri, offline.destination)
            assert operator.joined("s1", DEADLINE_S)
            offline.write_everywhere(5)
            reading = Reading(consumer)
            reading.until(10)
            put(1)
            serve.says("shard s1 leaves when what it has committed is acknowledged")
            assert operator.left("s1", DEADLINE_S)
            operator.close()
            offline.write(0, 5)
            reading.until(15)
            reading.check(offline)
            config.write_text("{")
            serve.says("shop.yaml", "still served")
            assert not any(": stopping" in line for line in serve.lines)
            status = ("status", "-g", uri, "-d", offline.destination)
            assert "still served with earlier settings: " in run(*status).stdout
            put(1)
            serve.says("shop.yaml is right again")
            assert "earlier settings" not in run(*status).stdout
        put(1, "start: earliest\n")
        since = serve.lines.index(serve.says(f"stopping {offline.destination}"))
        serve.says(f"serving {offline.destination}", since=since)
        assert serve.end() == 0


@pytest.mark.soak
def test_a_changed_file_is_adopted_by_the_active_server_and_the_standby(
    offline: Shop, one_zookeeper: EmbeddedZooKeeper, tmp_path: Path
):
    """Two `serve` processes, each with a file of its own.

    1. one serves a shard, the other stands by; 2. both files gain a shard: who serves lets it join, the
    standby waits with it; 3. the active one is killed: the other serves both, and a consumer that goes by
    ZooKeeper misses nothing; 4. a file that loses the shard again lets it leave there.
    """

    def put(server: str, shards: int) -> Path:
        named = ", ".join(
            f"{{name: s{index}, host: 127.0.0.1, port: {source.port}, user: canal,"
            f" password_file: {tmp_path / 'password'}}}"
            for index, source in enumerate(offline.servers[:shards])
        )
        config = tmp_path / f"{server}.yaml"
        config.with_suffix(".new").write_text(
            f"preset: default\ndestination: {offline.destination}\nshards: [{named}]\n"
            f"coordination: {{kind: zookeeper, hosts: '{one_zookeeper.hosts}', session_timeout_s: 4}}\n"
            "cursor: {flush_s: null}\ngateway: {port: 0}\nray: {num_cpus: 2}\n"
        )
        config.with_suffix(".new").rename(config)
        return config

    find = {"zookeeper": one_zookeeper.hosts, "destination": offline.destination, "client_id": CLIENT}
    with ExitStack() as stack:
        first = stack.enter_context(Serve("-c", str(put("first", 1)), "--scan", "0.2"))
        uri = first.says("serving", "1 shards").split()[-1]
        second = stack.enter_context(Serve("-c", str(put("second", 1)), "--scan", "0.2"))
        second.says("standing by for")
        consumer = stack.enter_context(canal_group.connect(**find, wait_s=DEADLINE_S))
        put("second", 2)
        put("first", 2)
        first.says("shard s1 joins")
        operator = Operator(uri, offline.destination)
        assert operator.joined("s1", DEADLINE_S)
        operator.close()
        offline.write_everywhere(5)
        reading = Reading(consumer)
        reading.until(10)
        assert not [line for line in second.lines if "joins" in line or ": stopping" in line]
        first.end(signal.SIGKILL)
        offline.write_everywhere(5)
        uri = second.says("serving").split()[-1]
        second.says("shard s1 joins")
        reading.until(20)
        put("second", 1)
        second.says("shard s1 leaves")
        operator = Operator(uri, offline.destination)
        assert operator.left("s1", DEADLINE_S)
        operator.close()
        offline.write(0, 5)
        reading.until(25)
    reading.check(offline)
