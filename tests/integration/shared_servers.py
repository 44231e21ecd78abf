"""Instances that the tests of files share: each test has tables of its own, and the stream begins with them.

Their databases are shared by nobody else: tests that reset or stop servers do not meet these. Whoever ends or
changes an instance starts one for itself, with `shop`; who kills a process of it need not: it comes back.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
import ray
from integration.group_fixtures import all_started
from integration.shop import DEADLINE_S, Shop
from integration.zookeeper_fixtures import eventually
from kazoo.client import KazooClient
from support.work_units import uses_last_instance

import canal_group
from canal_group.actors.coordination.embedded import EmbeddedZooKeeper
from canal_group.actors.driver.instance import Instance
from canal_group.gateway.gateway_client import GatewayClient
from canal_group.merge.calls.consumers import Status
from canal_group.zookeeper.tree import Tree
from playground.database.mariadb import MariaDbServer
from playground.database.server_process import DatabaseServer


class SharedShop(Shop):
    """New tables at servers that an instance reads already.

    Between `begin` and `end` the stream is the test's: who subscribes first stands where `begin` returned.

    Args:
        shop: what the instance serves.
        instance: the active one.
        folder: the test's own.
    """

    def __init__(self, shop: Shop, instance: Instance, folder: Path) -> None:
        super().__init__(shop.servers, shop.zookeeper_hosts, folder)
        self.destination = shop.destination
        self.instance = instance

    def connect(self, instance: Instance | None = None, **options: Any) -> canal_group.Consumer:
        """Connect to the instance that is active, or to another one."""
        return super().connect(instance or self.instance, **options)

    def begin(self) -> None:
        """Read on to where the tables are new: after what earlier tests have left."""
        mark = f"begin_{uuid.uuid4().hex[:8]}"
        with self.connect(client_id="begin") as consumer:
            for index, server in enumerate(self.servers):
                server.execute(f"CREATE TABLE shop_{index}.{mark} (id INT)")
            awaited = set(self.written)
            while awaited:
                batch = consumer.get_without_ack(10_000, timeout=DEADLINE_S)
                assert batch is not None, f"the new tables of {awaited} are not in the stream"
                rows = batch.envelope()
                awaited -= set(rows.filter(pc.equal(rows["table"], mark))["shard"].to_pylist())
                consumer.ack(batch.batch_id)
            # A request that the last test left behind may have subscribed when that test had ended.
            self.end(but="begin")
            consumer.unsubscribe()

    def end(self, but: str = "") -> None:
        """Let everybody go who has subscribed, but one: nothing is kept for them in the next test."""
        for client_id in self.client_ids():
            if client_id != but:
                with self.connect(client_id=client_id) as consumer:
                    consumer.unsubscribe()

    def client_ids(self) -> list[str]:
        """Return everybody who has subscribed."""
        with closing(GatewayClient(self.instance.uri, self.destination)) as gateway_client:
            return [str(client["client_id"]) for client in gateway_client.ask(Status())["group"]["clients"]]

    @contextmanager
    def lent(self) -> Iterator[SharedShop]:
        """Begin, and end."""
        self.begin()
        yield self
        self.end()


@pytest.fixture(scope="session")
def shared_servers() -> Iterator[list[DatabaseServer]]:
    """Two servers that nobody stops or resets; they number the same domain, and the second is far ahead."""
    with all_started(MariaDbServer(), MariaDbServer()) as servers:
        servers[1].execute("SET SESSION gtid_seq_no = 100000", "CREATE DATABASE ahead")
        yield servers


@pytest.fixture(scope="module")
def shared_options() -> dict[str, Any]:
    """Settings of a file's shared instance; a file may have others."""
    return {}


class LastInstance:
    """The instance that was started last for a whole file, until one with other settings is asked for.

    Files with the same settings share it if a process runs them one after the other: `sort_units` sees to it.
    """

    def __init__(self) -> None:
        self._running = ExitStack()
        self._made_of: object = None
        self._last: tuple[Shop, Instance] | None = None

    def of(
        self, servers: list[DatabaseServer], zookeeper_hosts: str, folder: Path, options: dict[str, Any]
    ) -> tuple[Shop, Instance]:
        """Return a running instance over servers, and its shop."""
        made_of = [server.port for server in servers], options
        if self._last is None or self._made_of != made_of:
            self.close()
            shop = Shop(servers, zookeeper_hosts, folder)
            self._made_of, self._last = made_of, (shop, self._running.enter_context(shop.serve(**options)))
        return self._last

    def close(self) -> None:
        """End the instance."""
        self._last = None
        self._running.close()


_LAST = LastInstance()


@pytest.fixture(scope="session")
def last_instance(one_ray: None, one_zookeeper: EmbeddedZooKeeper) -> Iterator[LastInstance]:
    yield _LAST
    _LAST.close()


@pytest.fixture(scope="session")
def files_of_last_instance(request: pytest.FixtureRequest) -> set[Path]:
    """Return the files whose tests use the last instance."""
    return {item.path for item in request.session.items if uses_last_instance(item)}


@pytest.fixture(scope="module", autouse=True)
def no_idle_instance(request: pytest.FixtureRequest, files_of_last_instance: set[Path]) -> None:
    """End the last instance before a file that does not use it: it would go on to poll its shards."""
    if request.path not in files_of_last_instance:
        _LAST.close()


@pytest.fixture(scope="module")
def shared_instance(
    last_instance: LastInstance,
    one_zookeeper: EmbeddedZooKeeper,
    shared_servers: list[DatabaseServer],
    shared_options: dict[str, Any],
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Shop, Instance]:
    folder = tmp_path_factory.mktemp("shared")
    return last_instance.of(shared_servers, one_zookeeper.hosts, folder, shared_options)


@pytest.fixture
def served(shared_instance: tuple[Shop, Instance], tmp_path: Path) -> Iterator[SharedShop]:
    """A shop of the test's own, on an instance that other tests share."""
    with SharedShop(*shared_instance, tmp_path).lent() as shop:
        yield shop


@pytest.fixture
def unshared(shop: Shop, tmp_path: Path) -> Iterator[SharedShop]:
    """A shop on an instance of the test's own, whose logs may keep what nobody can read.

    Those of `shared_servers` are read from their beginning; whoever reads these so resets them first.
    """
    with shop.serve() as instance, SharedShop(shop, instance, tmp_path).lent() as own:
        yield own


class Pair:
    """Two servers of one shop: the first one is active, until it hands over.

    Args:
        instances: in any order; one of them is active, or soon will be.
        shop: what they serve.
        zookeeper: sees what they write.
    """

    def __init__(self, instances: tuple[Instance, Instance], shop: Shop, zookeeper: KazooClient) -> None:
        self._shop, self._zookeeper = shop, zookeeper
        eventually(lambda: any(map(_is_active, instances)), "one of two to be active", within_s=DEADLINE_S)
        self.first, self.second = sorted(instances, key=_is_active, reverse=True)

    def hand_over(self) -> None:
        """Let the first server give up its activity in good order, as canal asks for it, and stand by."""
        released = {"active": False, "address": self.first.uri.removeprefix("grpc://")}
        self._zookeeper.set(Tree(self._shop.destination).running, json.dumps(released).encode())
        eventually(lambda: not _is_active(self.first), "the first server to stand by", within_s=DEADLINE_S)


def state_of(instance: Instance) -> dict[str, Any]:
    """Return a server's state, also while it stands by."""
    return dict(ray.get(instance.ask_state(), timeout=DEADLINE_S))


def _is_active(instance: Instance) -> bool:
    return bool(state_of(instance)["active"])


@pytest.fixture(scope="module")
def whole_shop(
    one_ray: None,
    one_zookeeper: EmbeddedZooKeeper,
    shared_servers: list[DatabaseServer],
    tmp_path_factory: pytest.TempPathFactory,
) -> Shop:
    """What the two instances of a file serve, all its tests long."""
    return Shop(shared_servers, one_zookeeper.hosts, tmp_path_factory.mktemp("shared"))


@pytest.fixture(scope="module")
def shared_instances(whole_shop: Shop) -> Iterator[tuple[Instance, Instance]]:
    with whole_shop.serve() as one, whole_shop.serve() as other:
        yield one, other


@pytest.fixture
def pair(shared_instances: tuple[Instance, Instance], whole_shop: Shop, zookeeper: KazooClient) -> Pair:
    """Two servers that a file's tests share, whoever of them is active now."""
    return Pair(shared_instances, whole_shop, zookeeper)


@pytest.fixture
def pair_shop(
    pair: Pair,
    shared_instances: tuple[Instance, Instance],
    whole_shop: Shop,
    zookeeper: KazooClient,
    tmp_path: Path,
) -> Iterator[SharedShop]:
    """A shop of the test's own, served by the pair."""
    with SharedShop(whole_shop, pair.first, tmp_path).lent() as shop:
        yield shop
        # They may have swapped roles.
        shop.instance = Pair(shared_instances, whole_shop, zookeeper).first
