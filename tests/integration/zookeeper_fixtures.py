"""A real ZooKeeper for tests, and ways to be cut off from it."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator

import pytest
from chaos.proxy import Proxy
from support.soak import patient

from canal_group.actors.coordination.embedded import EmbeddedZooKeeper
from canal_group.actors.coordination.zookeeper import ZooKeeperCoordinator
from canal_group.actors.group.stored.cursors import CURSORS, subscription_of, text_of
from canal_group.actors.meta.zookeeper import ZooKeeperStore
from canal_group.actors.ports import Key, Subscription

#: seconds that anything awaited in these tests may take
DEADLINE_S = patient(30.0)
#: seconds; short, as the server's ticks are
SESSION_S = 2.0


def eventually(condition: Callable[[], object], what: str, *, within_s: float = DEADLINE_S) -> None:
    """Return once `condition` holds; fail after `within_s` seconds."""
    deadline_s = time.monotonic() + within_s
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < deadline_s, f"still waiting for {what}"
        pause.wait(0.02)


class Campaign:
    """A campaign in a thread of its own."""

    def __init__(self, coordinator: ZooKeeperCoordinator) -> None:
        self.epoch: int | None = None
        self.error: Exception | None = None
        self._done = threading.Event()
        self._coordinator = coordinator
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        try:
            self.epoch = self._coordinator.campaign()
        except Exception as error:  # noqa: BLE001 - the test looks at it
            self.error = error
        finally:
            self._done.set()

    @property
    def over(self) -> bool:
        return self._done.is_set()

    def result(self) -> int:
        assert self._done.wait(DEADLINE_S), "the campaign still waits"
        if self.error is not None:
            raise self.error
        assert self.epoch is not None
        return self.epoch


class Cursors:
    """The cursors of a server in ZooKeeper, read and written on the thread that asks."""

    def __init__(self, coordinator: ZooKeeperCoordinator) -> None:
        self.store = ZooKeeperStore(coordinator.connection, coordinator.connection.tree)

    def load(self, epoch: int) -> list[Subscription]:
        names = self.store.names(CURSORS, epoch)
        texts = {name: self.store.get(Key(CURSORS, name), epoch) for name in names}
        return [subscription_of(name, text) for name, text in texts.items() if text is not None]

    def save(self, subscription: Subscription, epoch: int) -> None:
        self.store.put(Key(CURSORS, subscription.client_id), text_of(subscription), epoch)

    def forget(self, client_id: str, epoch: int) -> None:
        self.store.delete(Key(CURSORS, client_id), epoch)


@pytest.fixture(scope="module")
def zookeeper() -> Iterator[EmbeddedZooKeeper]:
    with EmbeddedZooKeeper(tick_ms=200) as server:
        yield server


@pytest.fixture
def proxy(zookeeper: EmbeddedZooKeeper) -> Iterator[Proxy]:
    proxy = Proxy(zookeeper.hosts)
    yield proxy
    proxy.close()


@pytest.fixture
def destination() -> str:
    """A destination that no other test uses."""
    return f"shop-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def coordinate(
    zookeeper: EmbeddedZooKeeper, destination: str
) -> Iterator[Callable[..., ZooKeeperCoordinator]]:
    """Make coordinators of one destination: `coordinate("a")`, owner and address after the name."""
    made: list[ZooKeeperCoordinator] = []

    def make(name: str, **options: object) -> ZooKeeperCoordinator:
        settings: dict[str, object] = {
            "hosts": zookeeper.hosts,
            "session_timeout_s": SESSION_S,
            "owner": name,
        }
        settings |= options
        coordinator = ZooKeeperCoordinator(destination=destination, address=f"{name}:11111", **settings)
        made.append(coordinator)
        return coordinator

    yield make
    for coordinator in made:
        coordinator.close()
