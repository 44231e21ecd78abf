"""What a driver tells a gateway's process, with an actor that answers at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from socket import create_server
from types import SimpleNamespace
from typing import Any

import pytest
from ray.exceptions import RayTaskError

from canal_group.actors.driver import gateway_process
from canal_group.actors.driver.gateway_process import GatewayProcess
from canal_group.actors.driver.gateways import Gateways
from canal_group.actors.gateway.wiring import DestinationActors, DestinationWiring
from canal_group.conf.load import build_instance
from canal_group.conf.settings import InstanceSettings
from canal_group.merge.errors import ServerUnavailable

ACTORS = DestinationActors("group", "shard/", ("a",))


class Actor:
    """A gateway that serves what it is told, but for what a test says it cannot."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.calls = 0
        self.unserved: dict[str, str] = {}
        self.error: Exception | None = None

    def __getattr__(self, method: str) -> Any:
        answer = getattr(self, f"_{method}")
        return SimpleNamespace(
            options=lambda **_: SimpleNamespace(remote=lambda *asked: lambda: answer(*asked))
        )

    def _version(self) -> int:
        return 1 << 60

    def _serve(self, _version: int, destinations: list[DestinationWiring]) -> dict[str, str]:
        if self.error is not None:
            raise RayTaskError("serve", "its traceback", self.error)
        self.calls += 1
        self.told = [each.destination for each in destinations if each.actors is not None]
        return self.unserved


def settings(name: str, canal_port: int | None = None, port: int = 0) -> InstanceSettings:
    canal = {} if canal_port is None else {"canal": {"port": canal_port}}
    shards = [{"name": "a", "host": "db", "user": "canal"}]
    own = {"preset": "memory", "destination": name, "shards": shards, "gateway": {"port": port}}
    return build_instance({**own, **canal})


@pytest.fixture
def actor(monkeypatch: pytest.MonkeyPatch) -> Actor:
    def get(answer: Callable[[], Any], **_: float) -> Any:
        return answer()

    monkeypatch.setattr(gateway_process.ray, "get", get)
    monkeypatch.setattr(gateway_process.ray, "kill", lambda *_, **_named: None)
    return Actor()


@pytest.fixture
def process(actor: Actor) -> Iterator[GatewayProcess]:
    made = GatewayProcess(settings("first"), lambda _: actor, None)
    yield made
    for name in list(made._users):
        made.withdraw(name, ())


def add(process: GatewayProcess, name: str) -> None:
    process.reserve(settings(name))
    process.add(settings(name), ACTORS, ())


def test_a_port_that_was_free_is_not_shared_with_a_file_that_names_it(process: GatewayProcess):
    """Its certificate and its bounds are another one's."""
    free = process.reserve(settings("a", 0)).canal
    assert free is not None
    named = process.reserve(settings("b", free.port)).canal
    assert named is not free
    assert process.reserve(settings("c", free.port)).canal is named


def test_a_destination_that_cannot_be_served_is_refused_alone(process: GatewayProcess, actor: Actor):
    add(process, "a")
    actor.unserved = {"b": "The group of b has no actor."}
    with pytest.raises(ServerUnavailable, match="The group of b has no actor"):
        add(process, "b")
    actor.unserved = {"a": "The group of a has no actor."}
    add(process, "c")
    assert actor.told == ["a", "c"]


def test_a_defect_of_the_gateway_refuses_a_destination_and_ends_nothing(
    process: GatewayProcess, actor: Actor
):
    """The server goes on after errors of ours and of Ray's, and after no others."""
    actor.error = ValueError("a defect")
    with pytest.raises(ServerUnavailable, match="The gateway failed: ValueError"):
        add(process, "a")


def test_a_server_that_ends_waits_for_no_answer_of_a_gateway(actor: Actor):
    """One that hangs would be waited for once for each of its destinations."""
    with create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    gateways = Gateways(lambda _: actor)
    processes = {}
    for name in ("a", "b"):
        processes[name], addresses = gateways.take(settings(name, port=port))
        gateways.add(processes[name], settings(name, port=port), ACTORS)
    calls = actor.calls
    gateways.close()
    for name, process in processes.items():
        gateways.give_back(process, settings(name, port=port))
    assert actor.calls == calls
    with create_server(("127.0.0.1", addresses.gateway.port)):
        pass
