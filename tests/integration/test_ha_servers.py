"""Several servers for one destination: one serves, and nobody serves without knowing that it may."""

# ruff: noqa: F401, F811 - fixtures are imported, and used by name

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self

import pytest
import ray
from chaos.ensemble import Ensemble
from integration.shop import CLIENT, DEADLINE_S, Reading, Shop, in_background
from integration.test_cli import PROGRAM, instance_file, offline, run
from integration.zookeeper_fixtures import Proxy, eventually
from kazoo.client import KazooClient

import canal_group
from actors.coordination.embedded import EmbeddedZooKeeper
from actors.instance import Instance
from canal_group.door import GatewayDoor
from canal_group.operator import Operator
from merge.tree import Tree


@pytest.fixture
def proxy(one_zookeeper: EmbeddedZooKeeper) -> Iterator[Proxy]:
    proxy = Proxy(one_zookeeper.hosts)
    yield proxy
    proxy.close()


class Serve:
    """A `canal-group serve` process, and what it said."""

    def __init__(self, *options: str) -> None:
        self.process = subprocess.Popen([*PROGRAM, "serve", *options], stderr=subprocess.PIPE, text=True)
        self.lines: list[str] = []
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._news:
                self.lines.append(line.rstrip("\n"))
                self._news.notify_all()
        with self._news:
            self._news.notify_all()

    def says(self, *words: str, since: int = 0) -> str:
        """Wait for a line that holds all words, and return it."""
        found: list[str] = []

        def look() -> bool:
            found[:] = [line for line in self.lines[since:] if all(word in line for word in words)]
            return bool(found) or not self._reader.is_alive()

        with self._news:
            self._news.wait_for(look, DEADLINE_S)
        assert found, f"serve did not say {words}: {self.lines}"
        return found[0]

    def end(self, how: int = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        code = self.process.wait(DEADLINE_S)
        self._reader.join(DEADLINE_S)
        return code

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.end()
        assert self.process.stderr is not None
        self.process.stderr.close()


def state_of(instance: Instance) -> dict[str, object]:
    return dict(ray.get(instance.ask_state(), timeout=DEADLINE_S))


def active(instance: Instance) -> bool:
    try:
        return bool(state_of(instance)["active"])
    except ray.exceptions.RayError:
        return False


def test_a_standby_says_so_and_takes_over_from_a_killed_server_and_from_one_that_ends(
    offline: Shop, instance_file: Path, one_zookeeper: EmbeddedZooKeeper, zookeeper: KazooClient
):
    """Two `serve` processes on Rays of their own, and one consumer that never subscribes again.

    1. one serves, the other stands by and names it; 2. the active one is killed: the other serves, under a
    higher epoch; 3. a third starts and stands by; 4. SIGTERM: at its end the active one has given the
    destination up already; 5. the third serves; 6. nothing is lost, and the consumer's epoch is still the
    first.
    """
    tree = Tree(offline.destination)
    config = ("-c", str(instance_file))
    with ExitStack() as servers:
        first = servers.enter_context(Serve(*config))
        address = first.says("serving", offline.destination).split()[-1].removeprefix("grpc://")
        second = servers.enter_context(Serve(*config))
        second.says("standing by for", f"{address} serves")
        found = run("status", "-z", one_zookeeper.hosts, "-d", offline.destination, "--json").stdout
        assert json.loads(found)["group"]["server"] == address
        assert json.loads(zookeeper.get(tree.running)[0]) == {"active": True, "address": address}
        consumer = servers.enter_context(
            canal_group.connect(
                zookeeper=one_zookeeper.hosts, destination=offline.destination, client_id=CLIENT
            )
        )
        epoch = consumer.epoch
        reading = Reading(consumer)
        offline.write_everywhere(10)
        reading.until(15)
        before = consumer.status()["group"]["epoch"]
        first.end(signal.SIGKILL)
        offline.write_everywhere(10)
        second.says("serving", offline.destination)
        reading.until(35)
        assert consumer.status()["group"]["epoch"] > before
        third = servers.enter_context(Serve(*config))
        third.says("standing by for")
        assert second.end() == 0
        running = zookeeper.exists(tree.running)
        assert running is None or json.loads(zookeeper.get(tree.running)[0])["address"] in third.lines[-1]
        third.says("serving", offline.destination)
        offline.write_everywhere(5)
        reading.until(offline.rows)
        assert consumer.epoch == epoch
    reading.check(offline)


def test_a_server_that_was_paused_refuses_everything_and_stands_by(shop: Shop):
    """A group actor sleeps for longer than its session.

    1. a batch is outstanding at the first server; 2. its group is paused; 3. the second server is elected
    and serves the consumer; 4. the first wakes: it can neither deliver, ack nor read rows out, and stands by;
    5. the cursor is where the second's acks brought it.
    """
    with shop.serve() as first:
        eventually(lambda: active(first), "the first server")
        with shop.serve() as second, shop.connect(first) as old:
            shop.write(0, 20)
            batch = old.get_without_ack(5, timeout=20)
            assert batch is not None
            pid = int(str(state_of(first)["pid"]))
            os.kill(pid, signal.SIGSTOP)
            try:
                eventually(lambda: active(second), "the second server", within_s=DEADLINE_S)
                with shop.connect(second) as consumer:
                    reading = Reading(consumer)
                    reading.until(20)
                    cursor = consumer.cursor
                    os.kill(pid, signal.SIGCONT)
                    door = GatewayDoor(first.uri, shop.destination)
                    who = {"client_id": CLIENT, "epoch": old.epoch}
                    for request in (
                        lambda: door.ask("ack", **who, batch_id=batch.batch_id),
                        lambda: door.ask("get", **who, rows_max=5, timeout_s=0, seen_id=batch.batch_id),
                        lambda: door.rows(**who, batch_id=batch.batch_id, format="envelope"),
                        lambda: door.ask("standing", **who),
                        lambda: door.ask("subscribe", client_id="2002", holder="x"),
                    ):
                        with pytest.raises(canal_group.RetryableError):
                            request()
                    door.close()
                    eventually(
                        lambda: state_of_restarted(first).get("active_server") == address_of(second),
                        "the first server to stand by",
                        within_s=DEADLINE_S,
                    )
                    assert consumer.status()["group"]["clients"][0]["cursor"] == cursor.to_json()
                    shop.write(0, 5)
                    reading.until(25)
            finally:
                os.kill(pid, signal.SIGCONT) if _lives(pid) else None
    reading.check(shop)


def state_of_restarted(instance: Instance) -> dict[str, object]:
    try:
        return state_of(instance)
    except ray.exceptions.RayError:
        return {}


def address_of(instance: Instance) -> str:
    return instance.uri.removeprefix("grpc://")


def _lives(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_a_shard_whose_group_is_silent_leaves_its_source(shop: Shop):
    """1. rows flow; 2. the group is paused; 3. the shards' connections to the sources end by themselves."""
    with shop.serve() as instance, shop.connect(instance) as consumer:
        shop.write(0, 5)
        Reading(consumer).until(5)
        pid = int(str(state_of(instance)["pid"]))
        os.kill(pid, signal.SIGSTOP)
        try:
            for shard in instance.roster.actors:
                eventually(
                    lambda shard=shard: ray.get(shard.status.remote())["state"] == "closed",
                    "the shard to leave its source",
                    within_s=DEADLINE_S,
                )
        finally:
            os.kill(pid, signal.SIGCONT)
        shop.write(0, 5)
        reading = Reading(consumer)
        reading.until(5)


def test_a_stopped_destination_is_served_by_nobody_until_it_is_started(
    shop: Shop, one_zookeeper: EmbeddedZooKeeper, zookeeper: KazooClient
):
    """1. two servers; 2. `stop`: nobody serves, and both say who stopped it; 3. a consumer waits; 4. `start`:
    the consumer goes on where it was.
    """
    where = ("-z", one_zookeeper.hosts)
    with shop.serve() as first, shop.serve() as second:
        uris = f"{first.uri},{second.uri}"
        with canal_group.connect(uris, destination=shop.destination, client_id=CLIENT) as consumer:
            shop.write(0, 10)
            reading = Reading(consumer)
            reading.until(10)
            said = run("stop", shop.destination, *where, "--reason", "moving house").stdout
            assert "stopped by" in said
            assert zookeeper.exists(Tree(shop.destination).running) is None
            again = run("stop", shop.destination, *where, "--reason", "other").stdout
            assert "moving house" in again
            for instance in (first, second):
                eventually(lambda one=instance: state_of(one).get("stopped"), "the mark to be seen")
                status = run("status", "-g", instance.uri, "-d", shop.destination).stdout
                assert "moving house" in status
            with pytest.raises(canal_group.ServerUnavailable, match="moving house"):
                consumer.get_without_ack(timeout=0)
            shop.write(0, 5)
            assert "may be served again" in run("start", shop.destination, *where).stdout
            assert "was not stopped" in run("start", shop.destination, *where).stdout
            reading.until(15)
    reading.check(shop)


def test_canals_word_in_the_running_node_moves_the_destination_to_the_standby(
    shop: Shop, zookeeper: KazooClient
):
    """1. two servers, and a batch outstanding; 2. `"active": false` is written into `running`; 3. the other
    one serves, in good order: what was outstanding is rolled back and comes again, nothing is lost.
    """
    running = Tree(shop.destination).running
    with shop.serve() as first, ExitStack() as stack:
        eventually(lambda: active(first), "the first server")
        second = stack.enter_context(shop.serve())
        uris = f"{first.uri},{second.uri}"
        consumer = stack.enter_context(
            canal_group.connect(uris, destination=shop.destination, client_id=CLIENT)
        )
        shop.write(0, 10)
        reading = Reading(consumer)
        reading.until(10, batch_size=5)
        shop.write(0, 5)
        assert consumer.get_without_ack(2, timeout=20) is not None
        zookeeper.set(running, json.dumps({"active": False, "address": address_of(first)}).encode())
        eventually(lambda: active(second), "the second server", within_s=DEADLINE_S)
        assert not active(first)
        reading.until(15)
    reading.check(shop)


def test_a_folder_is_watched_and_its_files_are_served_restarted_and_stopped(offline: Shop, tmp_path: Path):
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
        assert "ServerUnavailable" in run("status", "-g", again, "-d", "two", status=1).stderr
        assert json.loads(run("status", "-g", one, "-d", "one", "--json").stdout)["group"]["active"]
        assert sum(line.startswith("serving one") for line in serve.lines) == 1
        assert two
        assert serve.end() == 0


def test_a_file_is_watched_its_shards_join_and_leave_and_any_other_change_restarts_it(
    offline: Shop, tmp_path: Path
):
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
            assert not any(line.startswith("stopping") for line in serve.lines)
        put(1, "start: earliest\n")
        since = serve.lines.index(serve.says(f"stopping {offline.destination}"))
        serve.says(f"serving {offline.destination}", since=since)
        assert serve.end() == 0


def test_a_changed_file_is_adopted_by_whoever_serves_and_by_a_standby_when_it_does(
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
        assert not [line for line in second.lines if "joins" in line or line.startswith("stopping")]
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


def test_one_of_three_zookeepers_may_die_while_an_instance_serves(shop: Shop, tmp_path: Path):
    """1. rows flow; 2. the ZooKeepers are killed one after the other, each back before the next one goes, the
    leader among them: the consumer keeps its epoch, nothing is lost; 3. two are killed: nothing is served
    until one is back.
    """
    ensemble = Ensemble(tmp_path / "ensemble")
    with ExitStack() as stack:
        stack.callback(ensemble.close)
        ensemble.start()
        ensemble.wait()
        shop._hosts = ensemble.hosts
        # No election of a leader takes so long.
        coordination = {"kind": "zookeeper", "hosts": ensemble.hosts, "session_timeout_s": 10}
        instance = stack.enter_context(shop.serve(coordination=coordination))
        consumer = stack.enter_context(shop.connect(instance))
        epochs = consumer.epoch, consumer.status()["group"]["epoch"]
        reading = Reading(consumer)
        for round_, member in enumerate(ensemble.members):
            member.end()
            shop.write(0, 5)
            reading.until(5 * round_ + 5)
            member.start()
            ensemble.wait()
        assert (consumer.epoch, consumer.status()["group"]["epoch"]) == epochs
        for member in ensemble.members[:2]:
            member.end()
        eventually(lambda: not active(instance), "serving to stop", within_s=DEADLINE_S)
        shop.write(0, 5)
        ensemble.members[0].start()
        reading.until(20)
    reading.check(shop)


def test_without_zookeeper_nothing_is_served_and_then_it_goes_on(shop: Shop, proxy: Proxy):
    """1. rows flow; 2. ZooKeeper is cut off: before the session can have ended, gets and acks are refused;
    3. it is back: the consumer goes on, and nothing is lost.
    """
    shop._hosts = proxy.hosts
    with shop.serve() as instance, shop.connect(instance) as consumer:
        shop.write(0, 10)
        reading = Reading(consumer)
        reading.until(10)
        shop.write(0, 5)
        batch = consumer.get_without_ack(2, timeout=20)
        assert batch is not None
        proxy.cut()
        door = GatewayDoor(instance.uri, shop.destination)
        who = {"client_id": CLIENT, "epoch": consumer.epoch}

        def refused(request: str, **body: object) -> bool:
            try:
                door.ask(request, **who, **body)
            except canal_group.RetryableError:
                return True
            return False

        get = {"rows_max": 1, "timeout_s": 0, "seen_id": batch.batch_id}
        eventually(lambda: refused("get", **get), "gets to be refused", within_s=DEADLINE_S)
        assert refused("ack", batch_id=batch.batch_id)
        with pytest.raises(canal_group.RetryableError):
            door.rows(**who, batch_id=batch.batch_id, format="envelope")
        door.close()
        proxy.mend()
        # Where the session outlived the cut, what the gets took before they were refused is outstanding.
        consumer.rollback()
        reading.rolled_back()
        reading.until(15)
    reading.check(shop)


def test_a_gateway_that_was_paused_lets_no_rows_out_after_a_hand_over(shop: Shop):
    """1. a batch is outstanding; 2. its gateway is paused, with a request for its rows before it; 3. its
    group hands over; 4. the gateway wakes: the rows are refused.
    """
    with shop.serve() as instance, shop.connect(instance) as consumer:
        shop.write(0, 10)
        batch = consumer.get_without_ack(5, timeout=20)
        assert batch is not None
        pid = ray.get(instance.gateway.pid.remote())
        os.kill(pid, signal.SIGSTOP)
        outcome: list[object] = []
        door = GatewayDoor(instance.uri, shop.destination)
        ticket = {"client_id": CLIENT, "epoch": consumer.epoch, "batch_id": batch.batch_id}

        def read() -> None:
            try:
                outcome.append(door.rows(**ticket, format="envelope"))
            except canal_group.CanalGroupError as error:
                outcome.append(error)

        try:
            reader = in_background(read)
            ray.get(instance.group.close.remote(), timeout=DEADLINE_S)
        finally:
            os.kill(pid, signal.SIGCONT)
        reader.join()
        door.close()
        assert isinstance(outcome[0], canal_group.RetryableError), outcome


def test_a_server_that_cannot_serve_leaves_it_to_another(shop: Shop, tmp_path: Path):
    """canal keeps `running` though the start of the instance failed.

    1. a server wins whose cursor file is damaged; 2. another one gets its turn, and serves.
    """
    damaged, sound = tmp_path / "damaged", tmp_path / "sound"
    damaged.mkdir()
    (damaged / f"{shop.destination}.cursors.json").write_text("{")
    with shop.serve(cursor={"kind": "file", "folder": str(damaged)}) as broken:
        eventually(lambda: not state_of_restarted(broken), "the first server to break", within_s=DEADLINE_S)
        with (
            shop.serve(cursor={"kind": "file", "folder": str(sound)}) as server,
            canal_group.connect(
                f"{broken.uri},{server.uri}", destination=shop.destination, client_id=CLIENT
            ) as consumer,
        ):
            shop.write(0, 5)
            reading = Reading(consumer)
            reading.until(5)
    reading.check(shop)
