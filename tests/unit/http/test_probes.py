"""Probes are answered whatever others hold: silent connections or slow questions."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import requests
from support.security.guarded_server import open_still, until

from canal_group.actors.admission.access import Grant, Grants
from canal_group.actors.admission.calls import QUESTIONS_MAX
from canal_group.actors.driver.server import Server
from canal_group.actors.gateway.requests import seen_by
from canal_group.actors.http.app import App
from canal_group.actors.http.callers import Callers
from canal_group.actors.http.listener import Listener, listening
from canal_group.actors.http.recent_log import RecentLog
from canal_group.actors.http.service import HttpService, HttpSettings
from canal_group.conf.folder import FolderContent
from canal_group.conf.settings import InstanceSettings
from canal_group.merge.calls.call import Call
from canal_group.merge.calls.operators import Trace
from canal_group.merge.errors import ConfigError
from canal_group.merge.values.position import GroupPosition
from canal_group.programs.command.options import http_options

#: more than either test leaves to others
MANY = 40
SILENT = 64
DEADLINE_S = 60.0
SERVED = {"group": {"active": True, "cannot_open": None}, "gateway": {}}


class Slow:
    """An instance whose questions are answered when they are let go."""

    destination = "shop"

    def __init__(self) -> None:
        self.grants = Grants.of([(name, Grant(name, operate=True)) for name in ("ops", "other")])
        self.go_on = threading.Event()
        self.asked = 0
        self.requests = SimpleNamespace(answer=self._wait)

    def state(self) -> dict[str, Any]:
        return SERVED

    def state_for(self, grant: Grant) -> dict[str, Any]:
        return seen_by(grant, SERVED)

    def _wait(self, call: Call[Any]) -> Any:
        self.asked += 1
        assert self.go_on.wait(DEADLINE_S)
        return {"gtid": call.gtid} if isinstance(call, Trace) else GroupPosition({}).to_json()


class Running:
    def __init__(self, url: str, slow: Slow) -> None:
        self.url = url
        self.slow = slow

    def get(self, path: str, token: str = "") -> requests.Response:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return requests.get(self.url + path, headers=headers, timeout=DEADLINE_S)

    def connected(self) -> socket.socket:
        host, _, port = self.url.removeprefix("http://").rpartition(":")
        return socket.create_connection((host, int(port)))


@contextmanager
def running(starting: Callable[[], bool] = lambda: False) -> Iterator[Running]:
    slow = Slow()
    made: list[Listener] = []

    def admitted(host: str, port: int, name: str) -> None:
        made[0].guard.let_in(f"ip:{host}:{port}", name)

    callers = Callers(lambda: {"shop": slow}, admitted, anybody=True)  # type: ignore[dict-item]
    app = App(
        lambda: {"shop": slow},  # type: ignore[dict-item]
        callers,
        None,  # type: ignore[arg-type]
        RecentLog(),
        hosts=["*"],
        starting=starting,
    )
    made.append(Listener(app.asgi, listening("127.0.0.1", 0), "127.0.0.1"))
    try:
        yield Running(made[0].url, slow)
    finally:
        slow.go_on.set()
        made[0].close()


@pytest.mark.parametrize("said", [b"", b"GET /api/instances HTTP/1.1\r\nHost: "])
def test_silent_connections_keep_no_probe_out_and_give_way_to_new_ones(said: bytes):
    with running() as service:
        silent = [service.connected() for _ in range(SILENT)]
        for each in silent:
            each.sendall(said)
        for _ in range(3):
            assert service.get("/live").status_code == 200
            assert service.get("/ready").status_code == 200
        more = [service.connected() for _ in range(SILENT)]
        until(lambda: not any(map(open_still, silent)), "the oldest to be closed")
        assert service.get("/live").status_code == 200
        for each in silent + more:
            each.close()


@pytest.mark.parametrize(
    "path", ["/api/instances/shop/position?at=-2h", "/api/instances/shop/transactions/0-1-1"]
)
def test_slow_questions_of_one_caller_leave_threads_for_probes(path: str):
    with running() as service, ThreadPoolExecutor(MANY + 1) as pool:
        ours: list[Future[requests.Response]] = [pool.submit(service.get, path, "ops") for _ in range(MANY)]
        until(lambda: sum(each.done() for each in ours) == MANY - QUESTIONS_MAX, "the others to be refused")
        refused = [each.result() for each in ours if each.done()]
        assert {each.status_code for each in refused} == {503}
        assert all(int(each.headers["Retry-After"]) >= 1 for each in refused)
        assert "ops may have 4" in refused[0].json()["message"]
        assert service.get("/live").json() == {"live": True}
        assert service.get("/ready").json() == {"ready": True, "instances": 1, "active": 1}
        assert service.get("/api/instances/shop", "ops").status_code == 200
        other = pool.submit(service.get, path, "other")
        until(lambda: service.slow.asked == QUESTIONS_MAX + 1, "another caller's to be asked beside them")
        service.slow.go_on.set()
        answered = [each.result().status_code for each in (*ours, other)]
        assert answered.count(200) == QUESTIONS_MAX + 1
        assert service.get(path, "ops").status_code == 200, "its questions have ended"


def test_nothing_is_ready_before_every_given_file_is_decided():
    begins = [True]
    with running(starting=lambda: begins[0]) as service:
        early = service.get("/ready")
        assert (early.status_code, early.json()["ready"]) == (503, False)
        assert service.get("/live").status_code == 200
        begins[0] = False
        assert service.get("/ready").status_code == 200


def test_a_server_without_instances_is_ready_only_if_that_is_all_there_is(tmp_path: Path):
    settings = HttpSettings(port=0, audit_log=tmp_path / "audit.jsonl")
    with HttpService(SimpleNamespace(instances={}), settings) as service:
        assert requests.get(f"{service.url}/ready", timeout=DEADLINE_S).status_code == 503
    server = Server()
    with HttpService(server, settings, lambda: server.starting) as service:
        assert requests.get(f"{service.url}/ready", timeout=DEADLINE_S).status_code == 503
        server.follow(FolderContent())
        assert requests.get(f"{service.url}/ready", timeout=DEADLINE_S).status_code == 200


def test_a_taken_port_is_an_error_and_not_another_port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Also the default one."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        monkeypatch.setattr(http_options, "HTTP", address)
        settings = http_options.http_settings(address, None, None, tmp_path / "audit.jsonl")
        assert settings is not None
        with pytest.raises(ConfigError, match=f"HTTP service cannot listen on {address}: Address already"):
            HttpService(SimpleNamespace(instances={}), settings)


class Recording(Server):
    """A server whose instances cannot be started."""

    seen: list[bool]

    def start(self, file: Path, settings: InstanceSettings) -> None:  # noqa: ARG002  as the server's
        self.seen.append(self.starting)
        raise ConfigError(f"{file} is refused.")


def test_a_server_starts_until_each_file_is_started_or_refused_by_name(tmp_path: Path):
    server = Recording()
    server.seen = []
    assert server.starting, "no file was looked for"
    broken, fine = tmp_path / "broken.yaml", tmp_path / "fine.yaml"
    server.follow(FolderContent({}, {broken: ConfigError("It is broken.")}))
    assert not server.starting
    settings: Any = SimpleNamespace(destination="shop")
    server.follow(FolderContent({fine: settings}, {broken: ConfigError("It is broken.")}))
    assert server.seen == [True], "while it starts"
    assert not server.starting, "it was refused by name"
