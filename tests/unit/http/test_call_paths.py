"""The paths of operators' calls: each has one, which reads its fields and refuses what it cannot mean."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest
import requests

from canal_group.actors.admission.access import Grant, Grants
from canal_group.actors.admission.audit_log import AuditLog
from canal_group.actors.http.app import App
from canal_group.actors.http.callers import Callers
from canal_group.actors.http.listener import Listener, listening
from canal_group.actors.http.recent_log import RecentLog
from canal_group.merge.calls.call import CALLS, Call, operate, operator_calls
from canal_group.merge.calls.operators import (
    AddShard,
    GivePolicy,
    Operation,
    RebuildSchema,
    RemoveClient,
    RemoveShard,
    Resolve,
    Rewind,
    RollBackClient,
    ShowJoined,
    ShowSchema,
    SkipEvent,
    Trace,
    TraceKey,
)
from canal_group.merge.calls.values import ShardName
from canal_group.merge.errors import UsageError
from canal_group.merge.values.member import Policy
from canal_group.merge.values.position import Position

DEADLINE_S = 60.0
BASE = "/api/instances/shop"
START = {
    "file": "b.000001",
    "offset": 4,
    "gtid_set": "",
    "commit_us": 0,
    "key_us": 0,
    "rows_into_transaction": 0,
}
TYPE = "/tables/shop.orders/columns/note/type"
#: what callers have been told: a request, its body, and the call that it makes
REQUESTS: list[tuple[str, str, Any, Call[Any]]] = [
    ("GET", "/transactions/0-1-42", None, Trace("0-1-42")),
    ("GET", "/transactions/0-1-42?shard=s1", None, Trace("0-1-42", "s1")),
    ("GET", "/changes?key=shop.orders:42", None, TraceKey("shop.orders:42", 64 << 20)),
    ("GET", "/changes?key=a.b:4&within_bytes=5&shard=s0", None, TraceKey("a.b:4", 5, "s0")),
    ("POST", "/clients/app/rewind", {"to": "-2h"}, Rewind("app", "-2h", by="ops")),
    ("POST", "/clients/app/rewind", {"to": "-2h", "new": True}, Rewind("app", "-2h", new=True, by="ops")),
    ("POST", "/clients/app/rollback", None, RollBackClient("app", by="ops")),
    ("DELETE", "/clients/app", None, RemoveClient("app", by="ops")),
    ("POST", "/shards/s0/hold", None, GivePolicy("s0", Policy.HOLD, by="ops")),
    ("POST", "/shards", {"shard": {"name": "s2"}}, AddShard({"name": "s2"}, by="ops")),
    (
        "POST",
        "/shards",
        {"shard": {"name": "s2"}, "start": START},
        AddShard({"name": "s2"}, Position("b.000001", 4), by="ops"),
    ),
    ("DELETE", "/shards/s0", None, RemoveShard("s0", by="ops")),
    ("DELETE", "/shards/s0?now=true", None, RemoveShard("s0", now=True, by="ops")),
    ("POST", "/shards/s0/events/skip", {"at": "b:4"}, SkipEvent("s0", "b:4", by="ops")),
    (
        "POST",
        "/shards/s0/events/skip",
        {"at": "b:4", "whole_transaction": True},
        SkipEvent("s0", "b:4", whole_transaction=True, by="ops"),
    ),
    ("GET", "/shards/s0/schema", None, ShowSchema("s0")),
    ("GET", "/tables/shop.orders", None, ShowJoined("shop.orders")),
    ("PUT", TYPE, {"type": "text"}, Resolve("shop.orders", "note", "text", by="ops")),
    ("PUT", TYPE, {"type": None}, Resolve("shop.orders", "note", None, by="ops")),
    ("POST", "/shards/s0/schema/rebuild", None, RebuildSchema("s0", by="ops")),
]


class Instance:
    """Has two shards and a client, and answers a call with its name."""

    destination = "shop"

    def __init__(self) -> None:
        theirs = Grant("theirs", client_ids=frozenset({"other"}), operate=True)
        grants = [("ops", Grant("ops", operate=True)), ("reader", Grant("reader")), ("theirs", theirs)]
        self.grants = Grants.of(grants)
        self.asked: list[Call[Any]] = []
        self.requests = SimpleNamespace(answer=self._answer, client={"app": {"client_id": "app"}}.get)
        self.changes = 0
        self.refusal: Exception | None = None

    def state(self) -> dict[str, Any]:
        return {"group": {"shards": [{"shard": "s0"}, {"shard": "s1"}]}, "gateway": {}}

    def changed(self) -> None:
        self.changes += 1

    def _answer(self, call: Call[Any]) -> Any:
        self.asked.append(call)
        if self.refusal is not None:
            raise self.refusal
        return {"call": call.declared.name}


class Http:
    def __init__(self, folder: Path) -> None:
        self.instance = Instance()
        made: list[Listener] = []

        def admitted(host: str, port: int, name: str) -> None:
            made[0].guard.let_in(f"ip:{host}:{port}", name)

        self.audit_log = folder / "audit.jsonl"
        callers = Callers(
            lambda: {"shop": self.instance},  # type: ignore[dict-item]
            admitted,
            anybody=False,
        )
        audit_log = AuditLog(self.audit_log)
        app = App(dict, callers, audit_log, RecentLog(), hosts=["*"])
        self.openapi = app.asgi.openapi
        made.append(Listener(app.asgi, listening("127.0.0.1", 0), "127.0.0.1"))
        self.listener = made[0]

    def __call__(self, method: str, path: str, body: Any = None, token: str = "ops") -> Any:
        headers = {"Authorization": f"Bearer {token}"}
        url = self.listener.url + BASE + path
        return requests.request(method, url, json=body, headers=headers, timeout=DEADLINE_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.listener.close()

    @property
    def audited(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.audit_log.read_text().splitlines()]


@pytest.fixture(scope="module")
def listening_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Http]:
    with Http(tmp_path_factory.mktemp("http")) as called:
        yield called


@pytest.fixture
def called(listening_once: Http) -> Http:
    listening_once.instance = Instance()
    listening_once.audit_log.unlink(missing_ok=True)
    return listening_once


@pytest.mark.parametrize(("method", "path", "body", "call"), REQUESTS)
def test_a_request_makes_a_call(called: Http, method: str, path: str, body: Any, call: Call[Any]):
    answer = called(method, path, body)
    assert (answer.status_code, answer.json()) == (200, {"call": call.declared.name}), answer.text
    assert called.instance.asked == [call]


@pytest.mark.parametrize(("method", "path", "body", "call"), REQUESTS)
def test_only_an_operator_makes_it(called: Http, method: str, path: str, body: Any, call: Call[Any]):
    refused = called(method, path, body, token="reader")
    assert (refused.status_code, refused.json()["error"]) == (403, "AccessDenied")
    assert f"the operation {call.declared.name} on shop" in refused.json()["message"]
    assert called.instance.asked == []
    assert not called.audit_log.exists()


@pytest.mark.parametrize(
    ("method", "path", "body", "call"), [each for each in REQUESTS if each[1].startswith("/clients/")]
)
def test_an_operator_of_some_client_ids_operates_no_other(
    called: Http, method: str, path: str, body: Any, call: Call[Any]
):
    refused = called(method, path, body, token="theirs")
    assert (refused.status_code, refused.json()["error"]) == (403, "AccessDenied")
    assert "client id app of shop" in refused.json()["message"]
    assert called.instance.asked == []


def test_every_call_of_an_operator_has_its_path(called: Http):
    routes = {
        (method.upper(), path): entry["operationId"]
        for path, methods in called.openapi()["paths"].items()
        for method, entry in methods.items()
    }
    for name, kind in operator_calls().items():
        path = kind.declared.path
        assert path is not None
        assert routes[path.method, "/api/instances/{destination}" + path.template] == name


def test_a_change_is_in_the_audit_log_and_in_the_next_state(called: Http):
    called("DELETE", "/shards/s0?now=true")
    called.instance.refusal = UsageError("It is the only shard.")
    refused = called("DELETE", "/shards/s1")
    assert (refused.status_code, refused.json()["message"]) == (409, "It is the only shard.")
    assert called.instance.changes == 2
    assert [(line["operation"], line["shard"], line["now"], line["result"]) for line in called.audited] == [
        ("shard_remove", "s0", True, "begun"),
        ("shard_remove", "s0", True, "done"),
        ("shard_remove", "s1", False, "begun"),
        ("shard_remove", "s1", False, "refused: UsageError: It is the only shard."),
    ]
    assert {line["who"] for line in called.audited} == {"ops at 127.0.0.1"}


def test_a_question_is_in_no_audit_log(called: Http):
    assert called("GET", "/tables/shop.orders").status_code == 200
    assert not called.audit_log.exists()
    assert called.instance.changes == 0


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/transactions/nonsense", None, 400),
        ("GET", "/transactions/0-1-1?shard=s9", None, 404),
        ("GET", "/changes", None, 400),
        ("GET", "/changes?key=nonsense", None, 400),
        ("GET", "/changes?key=a.b:4&within_bytes=0", None, 400),
        ("GET", "/changes?key=a.b:4&within_bytes=1073741825", None, 400),
        ("GET", "/changes?key=a.b:4&within_bytes=many", None, 400),
        ("POST", "/clients/nobody/rollback", None, 404),
        ("POST", "/clients/a$b/rollback", None, 400),
        ("POST", "/clients/app/rewind", {}, 400),
        ("POST", "/clients/app/rewind", None, 400),
        ("POST", "/shards/s9/hold", None, 404),
        ("POST", "/shards/s0/wait", None, 400),
        ("POST", "/shards/s0/events/skip", {"at": "x" * 301}, 400),
        ("POST", "/shards", {"shard": "s2"}, 400),
        ("POST", "/shards", {"shard": {}, "start": {"file": "b.000001"}}, 400),
        ("PUT", TYPE, {}, 400),
        ("PUT", TYPE, None, 400),
    ],
)
def test_what_a_request_cannot_mean_is_refused_before_it_is_a_call(
    called: Http, method: str, path: str, body: Any, status: int
):
    refused = called(method, path, body)
    assert (refused.status_code, bool(refused.json()["message"])) == (status, True), refused.text
    assert called.instance.asked == []
    assert not called.audit_log.exists()


def test_the_document_says_what_the_calls_docstring_and_types_say(called: Http):
    entry = called.openapi()["paths"]["/api/instances/{destination}/shards/{shard}"]["delete"]
    assert entry["summary"].startswith("Remove a shard when everything that it has committed")
    assert "Raises" not in entry["description"]
    shard, now = entry["parameters"][1:]
    assert (shard["name"], shard["in"], shard["description"]) == ("shard", "path", "The shard's name.")
    assert (now["name"], now["in"], now["required"], now["schema"]["default"]) == (
        "now",
        "query",
        False,
        False,
    )
    answer = entry["responses"]["200"]["content"]["application/json"]["schema"]
    assert (answer["title"], answer["required"]) == ("ShardRemoved", ["shard", "role"])
    changes = called.openapi()["paths"]["/api/instances/{destination}/changes"]["get"]["parameters"][2][
        "schema"
    ]
    assert (changes["minimum"], changes["maximum"], changes["default"]) == (1, 1 << 30, 64 << 20)


@contextmanager
def declared(name: str) -> Iterator[None]:
    try:
        yield
    finally:
        del CALLS[name]


def test_a_path_with_a_word_comes_before_one_with_a_field(tmp_path: Path):
    with declared("shard_refresh"):

        @operate("shard_refresh", "POST /shards/{shard}/refresh", audited=("shard",))
        class RefreshShard(Operation[dict[str, Any]]):
            """Refresh a shard.

            Args:
                shard: The shard's name.
            """

            shard: ShardName

        with Http(tmp_path) as called:
            assert called("POST", "/shards/s0/refresh").json() == {"call": "shard_refresh"}
            assert called("POST", "/shards/s0/skip").json() == {"call": "shard_policy"}
            assert called.instance.asked[0] == RefreshShard("s0", by="ops")
            assert called.audited[0]["operation"] == "shard_refresh"
