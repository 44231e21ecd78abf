"""Instance files of one folder are served at one port of the gateway and one of canal's protocol."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import ray
from integration.canal_clients import RawClient, Refused
from integration.shop import DEADLINE_S
from integration.zookeeper_fixtures import eventually
from kazoo.client import KazooClient

import canal_group
from canal_group.actors.coordination.embedded import EmbeddedZooKeeper
from canal_group.actors.driver.instance import Instance
from canal_group.actors.driver.server import Server
from canal_group.conf.folder import read_folder
from canal_group.gateway.gateway_client import GatewayClient
from canal_group.merge.calls.consumers import Status
from canal_group.merge.errors import AccessDenied, RetryableError, RolledBack, UsageError
from canal_group.programs.demo.recorded_shards import recorded_shards


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


class Folder:
    """A folder of instance files, and the server that follows it."""

    def __init__(self, folder: Path, server: Server, hosts: str) -> None:
        self._folder, self._server = folder, server
        self.port, self.canal_port = free_port(), free_port()
        self._recorded = str(recorded_shards()[0].folder)
        for name in ("one", "two", "three"):
            (folder / f"{name}-secret").write_text(f"{name}-s3cret")
        (folder / "all-secret").write_text("all-s3cret")
        (folder / "server.yaml").write_text(
            "preset: default\n"
            f"coordination: {{hosts: '{hosts}', session_timeout_s: 4}}\n"
            f"gateway: {{port: {self.port}, clients: [{{name: all, token_file: all-secret}}]}}\n"
            f"canal: {{port: {self.canal_port}, user: canal}}\n"
        )

    def put(self, name: str, more: str = "", gateway: str = "", secret: str = "") -> Path:
        """Write a file whose token, and canal's password, are its own."""
        secret = secret or f"{name}-secret"
        file = self._folder / f"{name}.yaml"
        file.write_text(
            f"destination: {name}\nshards: [{{name: of-{name}, files: {self._recorded}}}]\n"
            f"gateway: {{token_file: {secret}, {gateway}}}\ncanal: {{password_file: {secret}}}\n{more}"
        )
        return file

    def follow(self) -> dict[str, Instance]:
        """Serve what there is; return the instances by name."""
        self._server.follow(read_folder(self._folder))
        return {each.settings.destination: each for each in self._server.instances.values()}

    @property
    def uri(self) -> str:
        return f"grpc://127.0.0.1:{self.port}"

    def connect(self, name: str, token: str = "", **options: Any) -> canal_group.Consumer:
        where = {"destination": name, "client_id": "reader", "wait_s": DEADLINE_S, **options}
        return canal_group.connect(self.uri, token=token or f"{name}-s3cret", **where)

    def canal(self, name: str, user: str = "canal", password: str = "") -> RawClient:
        client = RawClient(f"127.0.0.1:{self.canal_port}", name, "2002")
        return client.log_in(user, password or f"{name}-s3cret")

    def gateway_pid(self, name: str) -> int:
        return int(ray.get(self.follow()[name].gateway.actor.pid.remote()))


@pytest.fixture(scope="module")
def folder(
    one_ray: None, one_zookeeper: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Folder]:
    """Two instances that are served."""
    path = tmp_path_factory.mktemp("folder")
    with Server() as server:
        made = Folder(path, server, one_zookeeper.hosts)
        made.put("one")
        made.put("two")
        assert set(made.follow()) == {"one", "two"}
        yield made


def read(consumer: canal_group.Consumer) -> tuple[int, set[str]]:
    """Return the id of the next batch, and the shards of its rows."""
    until_s = time.monotonic() + DEADLINE_S
    while True:
        try:
            batch = consumer.get_without_ack(100, timeout=DEADLINE_S)
            assert batch is not None
            return batch.batch_id, set(batch.envelope()["shard"].to_pylist())
        except (RetryableError, RolledBack):
            if time.monotonic() > until_s:
                raise


def test_two_instances_are_read_at_one_port_by_both_protocols(folder: Folder):
    assert folder.gateway_pid("one") == folder.gateway_pid("two")
    with folder.connect("two", "all-s3cret", client_id="all") as consumer:
        consumer.unsubscribe()
    for name in ("one", "two"):
        with folder.connect(name) as consumer:
            batch_id, shards = read(consumer)
            assert shards == {f"of-{name}"}
            consumer.ack(batch_id)
            consumer.unsubscribe()
        with folder.canal(name).subscribe() as client:
            batch_id, entries = client.get(100)
            assert entries
            assert {
                each.value for entry in entries for each in entry.header.props if each.key == "shard"
            } <= {f"of-{name}"}
            client.ack(batch_id)


def test_an_unknown_destination_is_named_with_those_that_there_are(folder: Folder):
    with pytest.raises(UsageError, match="Destination 'x' is not served here; served: one, two"):
        folder.connect("x", "all-s3cret")
    client = folder.canal("x", password="one-s3cret")
    with client, pytest.raises(Refused, match="Destination 'x' is not served here; served: one"):
        client.subscribe()


def test_a_token_and_a_login_are_refused_at_the_other_destination(folder: Folder):
    with pytest.raises(AccessDenied, match="does not allow destination two"):
        folder.connect("two", "one-s3cret")
    client = folder.canal("two", password="one-s3cret")
    with client, pytest.raises(Refused, match="login of 'canal' is not for destination two"):
        client.subscribe()
    with pytest.raises(Refused, match="user or password is wrong"):
        folder.canal("two", password="guessed")


def test_a_file_that_comes_and_goes_disturbs_no_other_one(folder: Folder):
    """Nor does one that restarts: its own consumer, whose token no other file knows, is told to wait."""
    pid = folder.gateway_pid("one")
    with folder.connect("one", client_id="calm") as consumer, folder.canal("one").subscribe() as client:
        batch_id, _ = read(consumer)
        file = folder.put("three")
        assert "three" in folder.follow()
        with folder.connect("three") as other, ThreadPoolExecutor(1) as pool:
            assert read(other)[1] == {"of-three"}
            folder.put("three", "batch: {outstanding_max: 7}\n")
            asks = pool.submit(lambda: [read(other) for _ in range(4)])
            folder.follow()
            asks.result(DEADLINE_S)
            other.unsubscribe()
        file.unlink()
        assert set(folder.follow()) == {"one", "two"}
        # Without a rollback: it was never told to get again.
        consumer.ack(batch_id)
        consumer.unsubscribe()
        assert client.get(100)[1]
    assert folder.gateway_pid("one") == pid


def test_a_killed_gateway_comes_back_with_every_destination(folder: Folder):
    pid = folder.gateway_pid("one")
    with folder.connect("one", client_id="kept") as one, folder.connect("two", client_id="kept") as two:
        before = [read(one)[0], read(two)[0]]
        os.kill(pid, signal.SIGKILL)
        for consumer, batch_id in zip((one, two), before, strict=True):
            read(consumer)
            consumer.ack(batch_id)
            consumer.unsubscribe()
        for name in ("one", "two"):
            folder.canal(name).close()
    assert folder.gateway_pid("one") == folder.gateway_pid("two") != pid


def test_running_nodes_name_the_shared_address(folder: Folder, zookeeper: KazooClient):
    """A consumer finds each destination by ZooKeeper, where canal's tools see one server."""
    where = {"zookeeper": zookeeper.hosts and "{}:{}".format(*zookeeper.hosts[0]), "client_id": "found"}
    for name in ("one", "two"):
        with canal_group.connect(
            destination=name, token=f"{name}-s3cret", wait_s=DEADLINE_S, **where
        ) as consumer:
            assert read(consumer)[1] == {f"of-{name}"}
            consumer.unsubscribe()
        data, _ = zookeeper.get(f"/otter/canal/destinations/{name}/running")
        assert f"127.0.0.1:{folder.canal_port}".encode() in data
        assert zookeeper.get_children(f"/otter/canal/destinations/{name}/cluster") == [
            f"127.0.0.1:{folder.canal_port}"
        ]


def test_a_file_with_a_port_of_its_own_has_a_process_of_its_own(folder: Folder):
    file = folder.put("alone", "canal: null\n", "port: 0", secret="one-secret")
    file.write_text(file.read_text().replace("canal: {password_file: one-secret}\n", ""))
    alone = folder.follow()["alone"]
    assert folder.gateway_pid("alone") != folder.gateway_pid("one")
    with canal_group.connect(
        alone.uri, destination="alone", client_id="a", token="one-s3cret", wait_s=DEADLINE_S
    ) as consumer:
        assert read(consumer)[1] == {"of-alone"}
    with pytest.raises(UsageError, match="'one' is not served here; served: alone"):
        canal_group.connect(alone.uri, destination="one", client_id="a", token="one-s3cret", wait_s=1.0)
    file.unlink()
    assert "alone" not in folder.follow()


def test_a_file_that_differs_on_the_listener_is_refused(folder: Folder, caplog: pytest.LogCaptureFixture):
    ssl = "ssl: {cert: c.pem, key: k.pem}"
    file = folder.put("odd", gateway=ssl, secret="one-secret")
    try:
        assert "odd" not in folder.follow()
        assert "odd.yaml: `gateway.ssl` should be the same as in" in caplog.text
        assert "one.yaml" in caplog.text
        # Of a file that is served, its earlier settings stay.
        folder.put("two", gateway=ssl)
        pid = folder.gateway_pid("two")
        with closing(GatewayClient(folder.uri, "two", "two-s3cret")) as client:
            assert client.ask(Status())["gateway"]["pid"] == pid
    finally:
        file.unlink()
        folder.put("two")
        folder.follow()


def test_a_taken_port_is_a_sentence_and_the_server_goes_on(folder: Folder, caplog: pytest.LogCaptureFixture):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        file = folder.put("late", gateway=f"port: {taken.getsockname()[1]}", secret="one-secret")
        file.write_text(file.read_text().replace("canal: {password_file: one-secret}", "canal: null"))
        assert "late" not in folder.follow()
        assert "late.yaml cannot be served: The gateway cannot listen on 127.0.0.1" in caplog.text
    eventually(lambda: "late" in folder.follow(), "the port to be free")
    file.unlink()
    assert set(folder.follow()) == {"one", "two"}
