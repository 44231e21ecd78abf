"""What a request may hold: everything else is a sentence, and comes no further than the gateway."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight
from ray.exceptions import RayActorError, RayTaskError
from support.group.builders import Source, Tx, World
from support.instance.gateway import gateway_server
from support.security.guarded_server import own_connection

from canal_group.actors.gateway import group_handle
from canal_group.actors.gateway.batch_reader import BatchReader, Part
from canal_group.actors.gateway.delivery_lease import DeliveryLease
from canal_group.actors.gateway.gateway import GatewayServer
from canal_group.actors.gateway.joined_schemas import JoinedSchemas
from canal_group.actors.gateway.operator_requests import OperatorRequests
from canal_group.actors.gateway.requests import Requests
from canal_group.actors.store.rows import Payload
from canal_group.actors.transport.flight_errors import our_error
from canal_group.actors.transport.ray_errors import translated
from canal_group.actors.transport.row_server import RowServer
from canal_group.actors.transport.row_ticket import RowTicket
from canal_group.actors.transport.shared_memory_server import Offer, SharedMemoryServer
from canal_group.merge.calls.body import call_of
from canal_group.merge.calls.call import CALLS, Call
from canal_group.merge.calls.consumers import AckAndGet, Get
from canal_group.merge.errors import CanalGroupError, ConfigError, RetryableError, RolledBack, UsageError
from canal_group.merge.rows.chosen_types import TypeOverrides
from canal_group.merge.values.position import GroupPosition
from canal_group.shared_memory.client import SharedMemoryClient

#: numbers that JSON can bring, and Python makes strange things of
STRANGE = (math.nan, math.inf, -math.inf, 10**400, -1, True, "1", [1], {}, 0.5)


class Group:
    """Notes what it is asked."""

    def __init__(self) -> None:
        self.asked: list[Call[Any]] = []

    def ask(self, call: Call[Any]) -> None:
        self.asked.append(call)
        raise RetryableError("enough")

    def status(self) -> dict[str, Any]:
        return {"active": True, "clients": []}


def request(name: str, **changed: Any) -> Group:
    """Answer a request that holds what it should but for what is changed; return the group that was asked."""
    offset_range = {"start": GroupPosition({}, 0).to_json(), "rows_max": 1, "bytes_max": 1}
    if name == "offset_range":
        offset_range |= {key: changed.pop(key) for key in tuple(changed) if key not in {"timeout_s", "epoch"}}
    body = {"client_id": "a", "epoch": 1, "holder": "h", "offset_range": offset_range}
    body |= {"start": offset_range["start"], "timeout_s": 0, "rows_max": 1, "batch_id": 1, **changed}
    group = Group()
    operator = OperatorRequests("shop", group, None, dict)
    requests = Requests("shop", 10.0, group, operator, None, snapshot=False)  # type: ignore[arg-type]
    call = call_of(CALLS[name], json.loads(json.dumps(body)))
    with pytest.raises(RetryableError):
        requests.get(call) if isinstance(call, Get | AckAndGet) else requests.answer(call, may_disturb=True)
    return group


def refused(name: str, error: type[UsageError] = UsageError, **changed: Any) -> None:
    """Let a request be refused before the group is asked, which raises another error."""
    with pytest.raises(error):
        request(name, **changed)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, True, "1", [1], {}])
@pytest.mark.parametrize("name", ["get", "offset_range"])
def test_a_wait_is_a_finite_number(name: str, value: object):
    refused(name, timeout_s=value)


@pytest.mark.parametrize(
    ("value", "waits"), [(10**400, 30.0), (1e300, 30.0), (-1, 0.0), (2, 2.0), (0.5, 0.5)]
)
def test_a_wait_is_cut_to_what_may_be(value: float, waits: float):
    (call,) = request("get", timeout_s=value).asked
    assert call.timeout_s == waits


@pytest.mark.parametrize("value", STRANGE)
@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("get", "rows_max"),
        ("get", "seen_id"),
        ("get", "epoch"),
        ("offset_range", "rows_max"),
        ("offset_range", "bytes_max"),
        ("offset_range", "rows_min"),
        ("offset_range", "key_us_max"),
        ("offset_range", "epoch"),
        ("ack", "batch_id"),
        ("ack_and_get", "batch_id"),
        ("rollback", "batch_id"),
        ("touch", "epoch"),
        ("release", "epoch"),
        ("unsubscribe", "epoch"),
    ],
)
def test_numbers_are_whole_and_have_64_bits(name: str, field: str, value: object):
    refused(name, **{field: value})


def test_numbers_that_are_bounds_for_nothing_are_heard():
    assert request("get", rows_max=1 << 62, seen_id=None).asked
    assert request("offset_range", rows_max=1 << 62, bytes_max=1 << 62, rows_min=None, key_us_max=None).asked


@pytest.mark.parametrize("holder", ["", "h" * 257, "a\nb", None, 7, ["h"]])
def test_a_holder_is_a_name_that_can_be_kept_and_shown(holder: object):
    refused("subscribe", holder=holder)


@pytest.mark.parametrize(
    "session", ["0x", "0x" + "1" * 17, "x", "1 ", "0x1\n", "1" * 100_000, None, 7, "1_0"]
)
def test_a_session_is_one_of_zookeeper_s(session: object):
    refused("subscribe", session=session)


@pytest.mark.parametrize("session", ["", "0x100a2b3c4d50000", "-0x7eff123456780001", "100a2b3c4d50000"])
def test_sessions_of_zookeeper_s_are_heard(session: str):
    (call,) = request("subscribe", session=session, holder="host:1:äö").asked
    assert call.session == session


#: what RE2 refuses, what is too long, and what is too large
PATTERNS = ("(a)\\1", "(?=a)a", "a" * 5_000, "shop\\.(a{1000}){1000}")


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_that_is_refused_never_reaches_the_group(pattern: str):
    refused("subscribe", ConfigError, filter=pattern)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_that_the_cursor_store_kept_is_refused_as_well(pattern: str):
    """It was written before there was a bound: rows are asked for, and no pattern is tried."""
    world = World.of(Source(Tx(10)))
    world.subscribe("a")
    world.report(0)
    batch = world.get("a")
    empty = replace(batch, headers=batch.headers[:0])
    joined = JoinedSchemas(TypeOverrides, lambda _: [])
    rows = BatchReader(lambda _: None, lambda *_: empty, joined)  # type: ignore[arg-type, return-value]
    with pytest.raises(ConfigError):
        rows.envelope("a", 1, batch.batch_id, pattern)
    assert rows.envelope("a", 1, batch.batch_id, "shop\\..*").num_rows == 0


@pytest.mark.parametrize("part", [(0, 0), (5, 2), (2, 2), (-1, 2), (0, -1)])
def test_impossible_parts_are_refused(part: tuple[int, int]):
    with pytest.raises(UsageError, match="no part"):
        Part(*part)


# ---- what a caller sees


class NoGroup:
    """An actor that is away."""

    def __getattr__(self, method: str) -> object:
        raise RayActorError


@pytest.fixture
def gateway_client(monkeypatch: pytest.MonkeyPatch) -> Iterator[GatewayServer]:
    monkeypatch.setattr(group_handle.ray, "get_actor", lambda _: NoGroup())
    # Nobody is asked: what is tried here never comes so far.
    monkeypatch.setattr(
        group_handle.GroupHandle, "delivery_lease", lambda *_: DeliveryLease(lambda: None, lambda _: 1.0)
    )
    with gateway_server() as made:
        yield made


def asked(gateway_client: GatewayServer, name: str, body: str) -> dict[str, Any]:
    with own_connection(f"grpc://127.0.0.1:{gateway_client.port}") as client:
        (answer,) = client.do_action(flight.Action(name, body.encode()))
        return dict(json.loads(answer.body.to_pybytes())["error"])


def rows_asked(gateway_client: GatewayServer, ticket: str) -> str:
    with (
        own_connection(f"grpc://127.0.0.1:{gateway_client.port}") as client,
        pytest.raises(flight.FlightServerError) as refusal,
    ):
        client.do_get(flight.Ticket(ticket.encode())).read_all()
    return str(refusal.value)


def shows_nothing_of_ours(text: str) -> bool:
    return not any(word in text for word in ("Traceback", "/work", "/root", "/usr", ".py", "/secret"))


MINE = '"destination": "shop", "client_id": "a", "epoch": 1, "batch_id": 1, "format": "envelope"'


@pytest.mark.parametrize("number", ["1e999", "-1e999", "NaN", "1" * 400, "[]", '"x"'])
def test_a_strange_number_is_refused_in_a_sentence(gateway_client: GatewayServer, number: str):
    refusal = asked(gateway_client, "get", f'{{{MINE}, "timeout_s": 0, "rows_max": {number}}}')
    assert refusal["error"] == "UsageError"
    assert shows_nothing_of_ours(str(refusal))
    assert len(refusal["message"]) < 300
    for field in ("epoch", "batch_id"):
        assert f"{field}: " in rows_asked(gateway_client, f'{{{MINE}, "{field}": {number}}}')
    reply = rows_asked(gateway_client, f'{{{MINE}, "part": [0, {number}]}}')
    assert shows_nothing_of_ours(reply.partition("gRPC client debug context")[0])


@pytest.mark.parametrize(
    "part", ["[0, 0]", "[5, 2]", "[]", "[1]", "[1, 2, 3]", "7", "[1e999, 1]", "{}", "null"]
)
def test_a_strange_part_is_refused_in_a_sentence(gateway_client: GatewayServer, part: str):
    reply = rows_asked(gateway_client, f'{{{MINE}, "part": {part}}}')
    assert "part" in reply or "ticket is malformed" in reply
    assert shows_nothing_of_ours(reply.partition("gRPC client debug context")[0])


def test_a_client_id_is_not_longer_than_a_node_s_name(gateway_client: GatewayServer):
    body = {"destination": "shop", "client_id": "a" * 129}
    assert "not a text of at most 128" in asked(gateway_client, "lease_state", json.dumps(body))["message"]


@pytest.mark.parametrize(
    "error", [OSError(2, "gone", "/secret/file"), AssertionError("/secret"), MemoryError()]
)
def test_an_unforeseen_error_is_logged_and_hidden_from_the_caller(
    gateway_client: GatewayServer,
    error: Exception,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    def breaks(*_: object) -> None:
        raise error

    monkeypatch.setattr(group_handle.GroupHandle, "status", breaks)
    monkeypatch.setattr(group_handle.GroupHandle, "delivery_lease", breaks)
    refusal = asked(gateway_client, "status", '{"destination": "shop"}')
    reply = rows_asked(gateway_client, f"{{{MINE}}}")
    for shown in (str(refusal), reply.partition("gRPC client debug context")[0]):
        assert f"failed with an internal error ({type(error).__name__})" in shown
        assert shows_nothing_of_ours(shown)
    broken = [record for record in caplog.records if record.levelno == logging.ERROR and record.exc_info]
    assert sum(record.exc_info[1] is error for record in broken if record.exc_info) == 2


class NoLonger(DeliveryLease):
    """Lets two messages out, and then nothing."""

    def __init__(self, error: Exception) -> None:
        super().__init__(lambda: None, lambda _: 1.0)  # type: ignore[arg-type, return-value]
        self._error, self._left = error, 3

    def check(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise self._error


@pytest.mark.parametrize("error", [RolledBack("It was taken back.", batch_id=1), OSError("/secret/file")])
def test_an_error_between_two_messages_is_told_as_before_the_first(
    gateway_client: GatewayServer, error: Exception, monkeypatch: pytest.MonkeyPatch
):
    """The schema, a dictionary and two messages are out by then."""
    table = pa.table({"name": pa.array(list("abcdefgh") * 1_000).dictionary_encode(), "n": range(8_000)})
    delivery_leases = [NoLonger(error), DeliveryLease(lambda: None, lambda _: 1.0)]  # type: ignore[arg-type, return-value]
    monkeypatch.setattr(group_handle.GroupHandle, "delivery_lease", lambda *_: delivery_leases.pop(0))
    monkeypatch.setattr(Requests, "filter_of", lambda *_: "")
    monkeypatch.setattr(BatchReader, "envelope", lambda *_, **__: table)
    monkeypatch.setattr(gateway_client, "_reply_bytes_max", table.nbytes // 4)
    with own_connection(f"grpc://127.0.0.1:{gateway_client.port}") as client:
        reader = client.do_get(flight.Ticket(f"{{{MINE}}}".encode()))
        counts = [reader.read_chunk().data.num_rows for _ in range(2)]
        with pytest.raises(flight.FlightServerError) as caught:
            reader.read_chunk()
        assert counts == [2_000, 2_000]
        ours = our_error(caught.value)
        assert type(ours) is (RolledBack if isinstance(error, RolledBack) else CanalGroupError)
        assert shows_nothing_of_ours(str(caught.value))
        again = client.do_get(flight.Ticket(f"{{{MINE}}}".encode())).read_all()
        assert again.equals(table)


def test_an_actor_s_error_is_not_shown_with_its_traceback():
    """Ray gives it the class of its cause as well: a ValueError would be the caller's."""
    theirs = RayTaskError("describe", "Traceback: /secret/file.py", ValueError("no")).as_instanceof_cause()
    assert isinstance(theirs, ValueError)
    with pytest.raises(RuntimeError) as caught, translated("Shard s0"):
        raise theirs
    assert shows_nothing_of_ours(str(caught.value))
    assert not isinstance(caught.value, ValueError)


@pytest.mark.parametrize("kind", [ZeroDivisionError, IndexError, OverflowError, OSError])
def test_a_shard_says_as_little(kind: type[Exception]):
    def rows(_: RowTicket) -> list[Payload]:
        raise kind("/secret/file")

    gateway_client = RowServer(rows, "127.0.0.1")
    headers = [(b"authorization", f"Bearer {gateway_client.address.secret}".encode())]
    options = flight.FlightCallOptions(headers=headers)
    client = own_connection(gateway_client.address.location)
    ticket = RowTicket(1, 3, 0, 7).to_dict()
    for request in (ticket, ticket | {"epoch": math.inf}, ticket | {"begin": math.nan}):
        with pytest.raises(flight.FlightServerError) as refusal:
            client.do_get(flight.Ticket(json.dumps(request).encode()), options).read_all()
        reply = str(refusal.value).partition("gRPC client debug context")[0]
        assert "The ticket" in reply
        assert ".py" not in reply
    client.close()
    gateway_client.close()


@pytest.mark.parametrize("kind", [ZeroDivisionError, IndexError, OverflowError, AssertionError])
def test_an_error_of_a_borrowing_call_ends_only_its_connection(
    kind: type[Exception], caplog: pytest.LogCaptureFixture
):
    def offer(_whom: object, ticket: Any) -> Offer:
        if ticket["breaks"]:
            raise kind("/secret/file")
        return Offer([Payload(None, [pa.record_batch({"id": [1]})])])

    gateway_client = SharedMemoryServer(offer)
    broken, other = (
        SharedMemoryClient(gateway_client.admit(), 20.0),
        SharedMemoryClient(gateway_client.admit(), 20.0),
    )
    with pytest.raises(ConnectionResetError):
        broken.borrow({"breaks": True})
    assert len(other.borrow({"breaks": False})) == 1
    logged = [record for record in caplog.records if record.exc_info]
    assert bool(logged) == (kind is AssertionError), "that one nobody foresaw"
    for each in (broken, other, gateway_client):
        each.close()
