"""A gateway whose answers are none: a consumer hears a sentence, and turns to the next one."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyarrow import flight
from support.clients.odd_gateway import CURSOR, SUBSCRIBED, Gateway
from typer.testing import CliRunner

from canal_group.actors.transport.flight_errors import our_error
from canal_group.client.consumer import Consumer
from canal_group.client.range_rows import RangeRows
from canal_group.gateway.discovery import _address
from canal_group.gateway.gateway_client import GatewayClient
from canal_group.merge.errors import (
    CanalGroupError,
    RetryableError,
    ServerUnavailable,
    UsageError,
    error_from_dict,
    error_from_json,
)
from canal_group.merge.values.position import GroupPosition
from canal_group.operator import Operator, Policy, calls
from canal_group.programs.command.cli import app

NESTED = "[" * 100_000
BATCH = {"batch_id": 1, "rows": 0, "start": CURSOR, "ack": CURSOR, "end": CURSOR, "order": ""}


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    with Gateway() as odd:
        yield odd


@pytest.fixture
def consumer(gateway: Gateway) -> Iterator[Consumer]:
    gateway_client = GatewayClient(gateway.uri, "shop", shared_memory=False)
    with Consumer(gateway_client, "1001", "", 0.0, retry_s=0.0) as made:
        yield made


def range_of(consumer: Consumer) -> RangeRows:
    return RangeRows(consumer.gateway_client, "1001", 1, 7, CURSOR, CURSOR, "", {}, 0.0)


def status_command(consumer: Consumer) -> None:
    uri = consumer.gateway_client._where()
    done = CliRunner().invoke(app, ["status", "--gateway", uri, "-d", "shop"])
    if done.exception is not None:
        raise done.exception


#: request -> who makes it, and answers that lack something
REQUESTS: dict[str, tuple[Callable[[Consumer], object], list[Any]]] = {
    "subscribe": (
        lambda consumer: consumer.subscribe(),
        [
            None,
            {**SUBSCRIBED, "lease_s": math.nan},
            {**SUBSCRIBED, "lease_s": 0},
            {**SUBSCRIBED, "epoch": math.inf},
            {**SUBSCRIBED, "cursor": NESTED},
            {**SUBSCRIBED, "cursor": 5},
            {**SUBSCRIBED, "cursor": '{"shards": {"s0": {"file": "x"}}, "sequence": 0}'},
        ],
    ),
    "get": (
        lambda consumer: consumer.get_without_ack(timeout=0),
        [{**BATCH, "batch_id": "x"}, {**BATCH, "rows": []}, {**BATCH, "ack": 5}],
    ),
    "offset_range": (lambda consumer: consumer.offset_range(GroupPosition()), [{**BATCH, "end": NESTED}]),
    "ack": (lambda consumer: consumer.ack(1), [None, {"cursor": None}]),
    "locate": (lambda consumer: consumer.locate("latest"), [None, NESTED]),
    "rollback": (lambda consumer: consumer.rollback(), [None]),
    "lease_state": (lambda consumer: consumer.outstanding(), [{"outstanding": [{}]}]),
    "status": (lambda consumer: consumer.status(), [None]),
}
#: what is none of any of them
ANYWHERE = ["x", [], {}, [[5]]]


@pytest.mark.parametrize("request_name", REQUESTS)
def test_a_malformed_answer_gets_a_sentence(request_name: str, gateway: Gateway, consumer: Consumer):
    ask, odd = REQUESTS[request_name]
    for value in [*ANYWHERE, *odd]:
        if request_name == "status" and value == {}:
            continue  # an object is what it asks for
        gateway.values[request_name] = value
        with pytest.raises(ServerUnavailable, match="cannot be read"):
            ask(consumer)


def test_a_malformed_position_of_a_batch_gets_a_sentence_when_it_is_read(
    gateway: Gateway, consumer: Consumer
):
    gateway.values["get"] = {**BATCH, "ack": "{}"}
    gateway.values["ack"] = {"cursor": NESTED}
    batch = consumer.get_without_ack(timeout=0)
    assert batch is not None
    assert batch.end == GroupPosition()
    for position in (batch.ack_position, consumer.ack(batch.batch_id)):
        with pytest.raises(UsageError, match="is not a group position"):
            assert position.shards


@pytest.mark.parametrize(
    ("request_name", "ask"),
    [
        ("lease_state", lambda consumer: consumer._lease.cursor()),
        ("offset_range", lambda consumer: range_of(consumer)._planned_again(0.0)),
        ("status", status_command),
    ],
)
def test_so_is_one_that_the_lease_a_worker_and_a_command_ask_for(
    request_name: str, ask: Callable[[Consumer], object], gateway: Gateway, consumer: Consumer
):
    for value in ["x", [], {}, 5, {"group": 5}, {"cursor": NESTED, "epoch": 1}]:
        gateway.values[request_name] = value
        with pytest.raises(ServerUnavailable, match="cannot be read"):
            ask(consumer)


def test_a_malformed_resume_position_gets_a_sentence(consumer: Consumer):
    with pytest.raises(UsageError, match="resume is 'soon'"):
        consumer.subscribe(resume="soon")  # type: ignore[arg-type]


def test_so_is_what_an_operator_is_told(gateway: Gateway):
    operator = Operator(gateway.uri, "shop", "token")
    for name, ask in {
        "shard_add": lambda: operator.ask(calls.AddShard({})),
        "shard_remove": lambda: operator.ask(calls.RemoveShard("s0", now=True)),
        "shard_policy": lambda: operator.ask(calls.GivePolicy("s0", Policy.RESUME)),
    }.items():
        for value in [5, [], None, "x", {}, {"shard": 5}, {"shard": "s0", "role": "king", "left_at": {}}]:
            gateway.values[name] = value
            with pytest.raises(ServerUnavailable, match="cannot be read"):
                ask()
    gateway.values["status"] = {"group": {"shards": [5]}}
    assert not operator.joined("s0", 0.0)
    operator.close()


def test_the_next_gateway_is_asked_then(gateway: Gateway):
    gateway.values["subscribe"] = 5
    with Gateway() as good:
        gateway_client = GatewayClient(f"{gateway.uri},{good.uri}", "shop", shared_memory=False)
        with Consumer(gateway_client, "1001", "", 20.0) as consumer:
            assert consumer.subscribe() == GroupPosition()
            assert consumer.outstanding() == []
    assert gateway.asked == ["subscribe"]


def test_a_very_short_lease_does_not_keep_the_consumer_busy(gateway: Gateway, consumer: Consumer):
    gateway.values["subscribe"] = {**SUBSCRIBED, "lease_s": 1e-300}
    consumer._lease.take("", None)
    assert consumer._lease._touch_every_s >= 0.01


TOLD = [
    b"[]",
    b"5",
    b"{",
    b"\xff",
    b"{}",
    NESTED.encode(),
    b'{"message": "no", "details": 5}',
    b'{"message": "no", "details": {"hint": 5}}',
    b'{"message": "no", "details": {"message": 5}}',
]


@pytest.mark.parametrize("told", TOLD, ids=lambda told: told[:40])
def test_a_malformed_refusal_is_the_gateways_fault(told: bytes, gateway: Gateway, consumer: Consumer):
    gateway.told = told
    with pytest.raises(ServerUnavailable, match="does not answer"):
        consumer.read_rows(1)
    assert our_error(flight.FlightServerError("no", extra_info=told)) is None


def test_a_refusal_of_ours_is_what_it_was(gateway: Gateway, consumer: Consumer):
    gateway.told = b'{"error": "NotSubscribed", "message": "no"}'
    with pytest.raises(CanalGroupError, match="no") as caught:
        consumer.read_rows(1)
    assert type(caught.value).__name__ == "NotSubscribed"
    assert (
        type(our_error(flight.FlightServerError("no", extra_info=gateway.told))).__name__ == "NotSubscribed"
    )
    assert our_error(OSError()) is None


@pytest.mark.parametrize("said", ["x", math.nan, math.inf, -1, 1e300, None, [], {}])
def test_an_impossible_retry_after_becomes_one_second(said: object):
    for error in (
        error_from_dict({"error": "ServerUnavailable", "message": "x", "details": {"retry_after_s": said}}),
        error_from_json(
            json.dumps({"error": "ConsumerActive", "message": "", "details": {"retry_after_s": said, "y": 1}})
        ),
    ):
        assert isinstance(error, RetryableError)
        assert error.retry_after_s == 1.0
    assert error.details == {"y": 1}


@pytest.mark.parametrize("said", [b"5", b"[]", b"{", b'{"address": 5}', NESTED.encode()])
def test_a_running_node_without_a_gateway_names_none(said: bytes):
    assert _address(said) in ("", "5")
