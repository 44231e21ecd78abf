"""What a caller shows is checked before what a caller sends; a head is bounded as a whole."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from canal_group.actors.admission.access import Grant, Grants
from canal_group.actors.gateway.requests import seen_by
from canal_group.actors.http.app import App
from canal_group.actors.http.callers import Callers
from canal_group.actors.http.listener import HEAD_BYTES_MAX, Listener, listening
from canal_group.actors.http.recent_log import RecentLog

DEADLINE_S = 20.0
STATE: dict[str, Any] = {"group": {"active": True, "cannot_open": None, "shards": []}, "gateway": {}}


class Shop:
    destination = "shop"

    def __init__(self) -> None:
        self.grants = Grants.of([("ops", Grant("ops", operate=True)), ("reader", Grant("reader"))])

    def state(self) -> dict[str, Any]:
        return STATE

    def state_for(self, grant: Grant) -> dict[str, Any]:
        return seen_by(grant, STATE)


def application() -> App:
    served = {"shop": Shop()}
    callers = Callers(lambda: served, lambda *_: None, anybody=False)  # type: ignore[arg-type,return-value]
    return App(
        lambda: served,  # type: ignore[arg-type,return-value]
        callers,
        None,  # type: ignore[arg-type]
        RecentLog(),
        hosts=["*"],
    )


@contextmanager
def listener(app: Any) -> Iterator[tuple[str, int]]:
    opened = Listener(app, listening("127.0.0.1", 0), "127.0.0.1")
    host, _, port = opened.url.removeprefix("http://").rpartition(":")
    try:
        yield host, int(port)
    finally:
        opened.close()


@pytest.fixture(scope="module")
def service() -> Iterator[tuple[str, int]]:
    with listener(application().asgi) as address:
        yield address


def answers(connection: socket.socket) -> bytes:
    """Return all that comes until the other end closes the connection."""
    data = b""
    while part := connection.recv(1 << 16):
        data += part
    return data


def asked(address: tuple[str, int], *pieces: bytes) -> tuple[int, dict[str, Any]]:
    """Return the status and the JSON of one answer; the other end has to close the connection."""
    with socket.create_connection(address, timeout=DEADLINE_S) as connection:
        for piece in pieces:
            connection.sendall(piece)
        head, _, body = answers(connection).partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)


def request(method: str, path: str, *headers: str) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", *headers, "Connection: close"]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def guarded() -> list[tuple[str, str]]:
    """Return every path of the application that names an instance, and others that do not exist."""
    there = [
        (method.upper(), path.replace("{destination}", destination))
        for path, methods in application().asgi.openapi()["paths"].items()
        for method in methods
        for destination in ("shop", "other")
        if path not in ("/live", "/ready")
    ]
    unknown = ["/api", "/api/nothing", "/metrics/x", "/pages", "/live/x", "/api/instances/", "//live"]
    return [
        *there,
        *(("GET", path) for path in unknown),
        ("BREW", "/api/instances/shop"),
        ("POST", "/metrics"),
    ]


@pytest.mark.parametrize("token", ["", "Authorization: Bearer unknown"], ids=["missing", "unknown"])
def test_a_stranger_gets_the_same_answer_everywhere_before_a_body(service, token):
    """No byte of the body is sent: whoever read or parsed it would wait."""
    shown = "unknown" if token else "missing"
    paths = guarded()
    assert len(paths) > 50
    for method, path in paths:
        headers = [each for each in (token, "Content-Type: application/json", "Content-Length: 1000") if each]
        status, body = asked(service, request(method, path, *headers))
        assert (status, body["message"]) == (401, f"The token is {shown}."), (method, path)


def test_a_body_of_an_operator_is_validated(service):
    headers = "Content-Type: application/json", "Content-Length: 8", "Authorization: Bearer ops"
    head = request("POST", "/api/instances/shop/stop", *headers)
    assert asked(service, head, b"not json") == (
        400,
        {"error": "UsageError", "message": "The body is not JSON.", "hint": "Send one JSON object."},
    )


def test_paths_that_name_no_instance_are_open(service):
    for path in ("/", "/live", "/ready", "/openapi.json", "/page/index.html"):
        with socket.create_connection(service, timeout=DEADLINE_S) as connection:
            connection.sendall(request("GET", path))
            assert answers(connection).startswith(b"HTTP/1.1 200 "), path


def test_no_path_around_the_open_ones_reaches_an_instance(service):
    for path in ("/page/../api/instances", "/page/..%2fapi/instances", "/live/../api/instances"):
        with socket.create_connection(service, timeout=DEADLINE_S) as connection:
            connection.sendall(request("GET", path))
            head = answers(connection)
            assert head.split()[1] in (b"401", b"404"), path
            assert b"shop" not in head


def padded(size: int, *, line: bool = False, pieces: int = 1) -> bytes:
    """Return a head of a size, bytes, whose request line or whose headers are long."""
    if line:
        empty = request("GET", "/live?")
        return request("GET", "/live?" + "x" * (size - len(empty)))
    names = [f"X-{number:04}: " for number in range(pieces)]
    empty = request("GET", "/live", *names)
    each, rest = divmod(size - len(empty), pieces)
    values = [each + (rest if index == 0 else 0) for index in range(pieces)]
    head = request("GET", "/live", *(name + "x" * value for name, value in zip(names, values, strict=True)))
    assert len(head) == size
    return head


HEADS = {"a line": {"line": True}, "a header": {}, "many headers": {"pieces": 1000}}


@pytest.mark.parametrize("kind", HEADS.values(), ids=list(HEADS))
@pytest.mark.parametrize("cut", [None, 1 << 10], ids=["at once", "in pieces"])
@pytest.mark.parametrize("size", [HEAD_BYTES_MAX + 64, 100_000, 250_000])
def test_a_head_beyond_the_bound_is_refused(service, kind, cut, size):
    head = padded(size, **kind)
    with socket.create_connection(service, timeout=DEADLINE_S) as connection:
        for at in range(0, size, cut or size):
            connection.sendall(head[at : at + (cut or size)])
        answer = answers(connection)
    assert answer.startswith(b"HTTP/1.1 431 ")
    body = json.loads(answer.partition(b"\r\n\r\n")[2])
    assert body["message"] == "The request line and the headers have more than 65,536 bytes together."


@pytest.mark.parametrize("kind", HEADS.values(), ids=list(HEADS))
def test_a_head_within_the_bound_is_read(service, kind):
    with socket.create_connection(service, timeout=DEADLINE_S) as connection:
        connection.sendall(padded(HEAD_BYTES_MAX - 64, **kind))
        assert answers(connection).startswith(b"HTTP/1.1 200 ")


def test_a_second_request_is_bounded_as_the_first(service):
    first = request("GET", "/live").replace(b"Connection: close\r\n", b"")
    with socket.create_connection(service, timeout=DEADLINE_S) as connection:
        connection.sendall(first + padded(100_000))
        answer = answers(connection)
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b"HTTP/1.1 431 " in answer


def test_a_head_that_is_not_http_is_a_bad_request(service):
    with socket.create_connection(service, timeout=DEADLINE_S) as connection:
        connection.sendall(b"not http\r\n\r\n")
        assert answers(connection).startswith(b"HTTP/1.1 400 ")
