"""`Consumer.get` while answers are lost for longer than the consumer tries: all rows come, in order."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import flight

from canal_group.client.consumer import Consumer
from canal_group.gateway.gateway_client import GatewayClient
from canal_group.merge.calls.batch import Batch
from canal_group.merge.delivery.ledger import Ledger
from canal_group.merge.errors import CanalGroupError, RetryableError, RolledBack
from canal_group.merge.values.header import HEADER
from canal_group.merge.values.position import GroupPosition, Position
from canal_group.merge.values.progress import Progress

ROWS = 6
HEADERS = np.zeros(1, HEADER)


def at(row: int) -> GroupPosition:
    return GroupPosition({"s1": Position("bin.000001", 4 + row)}, row)


class Gateway(flight.FlightServerBase):
    """Delivers the rows from 0 up to `ROWS`, each in a batch; the real ledger keeps these."""

    def __init__(self) -> None:
        super().__init__("grpc://127.0.0.1:0")
        self.uri = f"grpc://127.0.0.1:{self.port}"
        self._consumer_epoch, self._server_epoch = 0, 0
        self.cursor = self._read = 0
        #: by batch id
        self.rows: dict[int, int] = {}
        #: requests that were answered, whether their answers were lost or not
        self.asked: list[str] = []
        #: how often a request is lost, a request's answer ("lost ack"), or the rows
        self.losses: dict[str, int] = {}
        self.elect()

    def elect(self) -> None:
        """Let another server become the active one."""
        self._server_epoch += 1
        self._ledger, self._read = Ledger(self._server_epoch, 8), self.cursor

    def _lose(self, what: str) -> None:
        if self.losses.get(what):
            self.losses[what] -= 1
            raise flight.FlightUnavailableError("it is lost")

    def do_action(self, _context: object, action: flight.Action) -> list[bytes]:
        self._lose(action.type)
        try:
            body = json.loads(action.body.to_pybytes())
            answer = {"value": getattr(self, action.type)(body)}
        except CanalGroupError as error:
            answer = {"error": error.to_dict()}
        self.asked.append(action.type)
        self._lose(f"lost {action.type}")
        return [json.dumps(answer).encode(), *self._rows_with(answer, body)]

    def _rows_with(self, answer: dict[str, Any], body: dict[str, Any]) -> list[pa.Buffer]:
        value = answer.get("value")
        value = value.get("batch", value) if isinstance(value, dict) else None
        if body.get("rows") is None or value is None or self.losses.get("rows"):
            return []
        assert body["rows"] == {"format": "envelope"}
        rows, stream = pa.table({"row": [self.rows[value["batch_id"]]]}), pa.BufferOutputStream()
        with pa.ipc.new_stream(stream, rows.schema) as writer:
            writer.write_table(rows)
        return [stream.getvalue()]

    def do_get(self, _context: object, ticket: flight.Ticket) -> flight.RecordBatchStream:
        self.asked.append("rows")
        self._lose("rows")
        try:
            batch_id = json.loads(ticket.ticket)["batch_id"]
            self._ledger.find(batch_id)
        except CanalGroupError as error:
            raise flight.FlightServerError(
                str(error), extra_info=json.dumps(error.to_dict()).encode()
            ) from None
        return flight.RecordBatchStream(pa.table({"row": [self.rows[batch_id]]}))

    # ---- requests

    def subscribe(self, _body: dict[str, Any]) -> dict[str, Any]:
        self._consumer_epoch += 1
        self.rollback({"batch_id": None})
        return {"epoch": self._consumer_epoch, "lease_s": 30, "cursor": at(self.cursor).to_json()}

    def touch(self, _body: dict[str, Any]) -> None:
        pass

    release = touch

    def lease_state(self, _body: dict[str, Any]) -> dict[str, Any]:
        return {"epoch": self._consumer_epoch, "cursor": at(self.cursor).to_json(), "outstanding": []}

    def get(self, body: dict[str, Any]) -> dict[str, Any] | None:
        unseen = [batch.batch_id for batch in self._ledger.outstanding if batch.batch_id > body["seen_id"]]
        if unseen:
            self.rollback({"batch_id": unseen[0]})
        if self._read == ROWS:
            return None
        before, after = Progress.at(at(self._read)), Progress.at(at(self._read + 1))
        batch_id = self._ledger.next_id
        self._ledger.deliver(Batch(batch_id, before, after, HEADERS, (), 0, 0, 0))
        self.rows[batch_id], self._read = self._read, self._read + 1
        texts = {"start": before.end.to_json(), "ack": after.ack.to_json(), "end": after.end.to_json()}
        return {"batch_id": batch_id, "rows": 1, **texts}

    def ack(self, body: dict[str, Any]) -> dict[str, Any]:
        batch = self._ledger.ack(body.get("batch_id"))
        self.cursor = batch.ack.sequence
        return {"cursor": batch.ack.to_json()}

    def ack_and_get(self, body: dict[str, Any]) -> dict[str, Any]:
        return {**self.ack(body), "batch": self.get(body)}

    def rollback(self, body: dict[str, Any]) -> int:
        taken = self._ledger.rollback(body.get("batch_id"))
        if taken:
            self._read = taken[0].start.sequence
        return len(taken)


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    with Gateway() as made:
        yield made


@pytest.fixture
def consumer(gateway: Gateway) -> Iterator[Consumer]:
    gateway_client = GatewayClient(gateway.uri, "shop", shared_memory=False)
    with Consumer(gateway_client, "1001", "", 0.0, retry_s=0.0) as made:
        made.subscribe()
        yield made


def rows_of(batch: Any) -> list[int]:
    rows: list[int] = batch.envelope()["row"].to_pylist()
    return rows


def rest(consumer: Consumer) -> list[int]:
    """Return the rows of all gets until there is nothing to get; repeat those that may be repeated."""
    numbers: list[int] = []
    while True:
        try:
            batch = consumer.get(1, timeout=0.0)
        except (RetryableError, RolledBack):
            continue
        if batch is None:
            return numbers
        numbers += rows_of(batch)


@pytest.mark.parametrize("what", ["get", "lost get", "rows", "ack", "lost ack", "lease_state"])
@pytest.mark.parametrize("times", [1, 3])
def test_a_get_that_fails_is_gone_on_with_by_the_next_one(gateway, consumer, what, times):
    assert rows_of(consumer.get(1)) == [0]
    gateway.losses = {what: times, "lost ack": times}
    with pytest.raises(RetryableError):
        consumer.get(1, timeout=0.0)
    assert rest(consumer) == [1, 2, 3, 4, 5]
    assert gateway.cursor == ROWS
    assert not any(gateway.losses.values())


def rolled_back(_gateway: Gateway, consumer: Consumer) -> None:
    consumer.rollback()


def subscribed_anew(_gateway: Gateway, consumer: Consumer) -> None:
    consumer.subscribe()


def failed_over(gateway: Gateway, _consumer: Consumer) -> None:
    gateway.elect()


def failed_over_and_subscribed(gateway: Gateway, consumer: Consumer) -> None:
    gateway.elect()
    consumer.subscribe()


@pytest.mark.parametrize("then", [rolled_back, subscribed_anew, failed_over, failed_over_and_subscribed])
@pytest.mark.parametrize("what", ["rows", "ack", "lost ack"])
def test_rows_of_a_failed_get_are_returned_once(
    gateway: Gateway, consumer: Consumer, what: str, then: Callable[[Gateway, Consumer], None]
):
    gateway.losses = {what: 1}
    with pytest.raises(RetryableError):
        consumer.get(1)
    then(gateway, consumer)
    assert rest(consumer) == list(range(ROWS))
    assert gateway.cursor == ROWS


def test_a_batch_not_returned_by_a_get_is_the_next_one(gateway, consumer):
    gateway.losses = {"rows": 1}
    with pytest.raises(RetryableError):
        consumer.get(1)
    batch = consumer.get_without_ack(1)
    assert rows_of(batch) == [0]
    consumer.ack(batch.batch_id)
    assert rest(consumer) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("what", ["rollback", "lost rollback"])
def test_a_rollback_without_an_answer_is_made_up_for_by_the_next_get(gateway, consumer, what):
    first, second, _ = (consumer.get_without_ack(1) for _ in range(3))
    gateway.losses = {what: 1}
    with pytest.raises(RetryableError):
        consumer.rollback(second.batch_id)
    consumer.ack(first.batch_id)
    assert rest(consumer) == [1, 2, 3, 4, 5]


def test_gets_of_several_threads_are_acknowledged_in_order(gateway, consumer):
    numbers: list[int] = []

    def read() -> None:
        numbers.extend(rest(consumer))

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(numbers) == list(range(ROWS))
    assert gateway.cursor == ROWS


def processed(consumer: Consumer) -> list[int]:
    """Return the rows of a loop that acknowledges with the next request; iterate again after each failure."""
    numbers: list[int] = []
    for _ in range(3 * ROWS):
        try:
            for batch in consumer.batches(1, timeout=0.0):
                numbers += rows_of(batch)
        except RetryableError:
            continue
        return numbers
    raise AssertionError("it does not go on")


def test_a_batch_is_acknowledged_with_the_request_for_the_next_one(gateway, consumer):
    assert processed(consumer) == list(range(ROWS))
    assert processed(consumer) == []
    assert gateway.asked == ["subscribe", "get", "rows", *["ack_and_get"] * ROWS, "get"]
    assert gateway.cursor == consumer.cursor.sequence == ROWS


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize(
    "what", ["get", "lost get", "rows", "ack_and_get", "lost ack_and_get", "lease_state"]
)
def test_rows_come_once_and_acknowledged_if_any_answer_is_lost(gateway, consumer, what, times):
    gateway.losses = {what: times, "lost ack_and_get": times}
    assert processed(consumer) == list(range(ROWS))
    assert gateway.cursor == ROWS
    assert not any(gateway.losses.values())


def test_an_unknown_acknowledgement_is_not_asked_for_beyond_the_timeout(gateway):
    gateway_client = GatewayClient(gateway.uri, "shop", shared_memory=False)
    with Consumer(gateway_client, "1001", "", 0.0, retry_s=None) as consumer:
        consumer.subscribe()
        batches = consumer.batches(1, timeout=0.0)
        assert rows_of(next(batches)) == [0]
        gateway.losses = {"ack_and_get": 1, "lease_state": 3}
        for left in (3, 2):
            with pytest.raises(RetryableError):
                next(batches)
            assert gateway.losses["lease_state"] == left
            batches = consumer.batches(1, timeout=0.0)
        assert processed(consumer) == [1, 2, 3, 4, 5]


def test_a_batch_not_returned_by_a_get_is_not_lost_with_an_acknowledgement(gateway, consumer):
    batches = consumer.batches(1, timeout=0.0)
    assert rows_of(next(batches)) == [0]
    gateway.losses = {"rows": 1, "ack": 1}
    for get in (lambda: consumer.get(1), lambda: next(batches)):
        with pytest.raises(RetryableError):
            get()
    assert processed(consumer) == [1, 2, 3, 4, 5]
    assert gateway.cursor == ROWS


def test_an_acknowledgement_that_is_refused_lets_the_rows_come_again(gateway, consumer):
    batches = consumer.batches(1, timeout=0.0)
    assert rows_of(next(batches)) == [0]
    gateway.elect()
    assert [rows_of(batch)[0] for batch in batches] == list(range(ROWS))
    assert gateway.cursor == ROWS


def test_a_batch_that_the_loop_leaves_is_not_acknowledged_and_comes_again(gateway, consumer):
    for batch in consumer.batches(1):
        if rows_of(batch) == [2]:
            break
    assert gateway.cursor == 2
    assert rest(consumer) == [2, 3, 4, 5]


def test_rows_come_with_a_small_batch_as_they_were_read_last(gateway, consumer):
    read = [rows_of(consumer.get_without_ack(1)) for _ in range(3)]
    assert read == [[0], [1], [2]]
    consumer.get_without_ack(1).table("shop.orders")
    assert gateway.asked[1:] == ["get", "rows", "get", "get", "get", "rows"], "others are asked for"


def test_an_answer_with_rows_that_is_lost_is_taken_back_and_comes_again(gateway, consumer):
    assert rows_of(consumer.get_without_ack(1)) == [0]
    gateway.losses = {"lost get": 1}
    with pytest.raises(RetryableError):
        consumer.get_without_ack(1)
    batch = consumer.get_without_ack(1)
    assert rows_of(batch) == [1]
    assert [each.batch_id for each in gateway._ledger.outstanding][1:] == [batch.batch_id]


def test_rows_that_came_with_a_batch_are_not_those_of_one_rolled_back(gateway, consumer):
    rows_of(consumer.get_without_ack(1))
    batch = consumer.get_without_ack(1)
    consumer.rollback(batch.batch_id)
    with pytest.raises(RolledBack):
        batch.envelope()
