"""A consumer's rows, borrowed from a gateway on its machine; what it does if the gateway is elsewhere."""

import json
import pickle
import threading

import pyarrow as pa
import pytest
from pyarrow import flight

import canal_group
from canal_group.actors.store.rows import Payload
from canal_group.actors.store.segments import SIZE_MIN_BYTES
from canal_group.actors.transport.shared_memory_server import Offer, SharedMemoryServer
from canal_group.client.consumer import Consumer
from canal_group.gateway.gateway_client import GatewayClient
from canal_group.merge.errors import RolledBack, ServerUnavailable
from canal_group.shared_memory.rows import SharedMemoryRows
from canal_group.shared_memory.wire import new_name
from canal_group.spark.options import Options

DEADLINE_S = 20.0


class Gateway:
    """Lend as many rows as a ticket asks for."""

    def __init__(self, bytes_max=4 * SIZE_MIN_BYTES):
        self.asked = 0
        self.server = SharedMemoryServer(self._offer, bytes_max)
        self.go_on = threading.Event()
        self.go_on.set()
        self.waiting = threading.Semaphore(0)

    def where(self):
        self.asked += 1
        return self.server.admit().to_dict()

    def _offer(self, _, ticket):
        self.waiting.release()
        assert self.go_on.wait(DEADLINE_S)
        if ticket["rows"] is None:
            raise RolledBack("Batch 7 was rolled back.")
        return Offer([Payload(None, [pa.record_batch({"id": range(ticket["rows"])})])])


@pytest.fixture
def gateway():
    made = Gateway()
    yield made
    made.server.close()


def ids(rows):
    return rows["id"].to_pylist()


def test_the_gateway_is_asked_once_and_one_connection_serves_all_calls(gateway):
    wire = SharedMemoryRows(gateway.where, DEADLINE_S)
    for count in (3, 0, 5):
        assert ids(wire.borrow({"rows": count})) == list(range(count))
    with pytest.raises(RolledBack, match="Batch 7"):
        wire.borrow({"rows": None})
    assert ids(wire.borrow({"rows": 1})) == [0]
    assert (gateway.asked, len(gateway.server._connections)) == (1, 1)
    wire.close()


def test_calls_side_by_side_are_answered_one_after_the_other(gateway):
    wire, answers = SharedMemoryRows(gateway.where, DEADLINE_S), []
    gateway.go_on.clear()
    threads = [
        threading.Thread(target=lambda count=count: answers.append(ids(wire.borrow({"rows": count}))))
        for count in range(1, 5)
    ]
    for thread in threads:
        thread.start()
    assert gateway.waiting.acquire(timeout=DEADLINE_S)
    assert not gateway.waiting.acquire(blocking=False), "one is asked for, and no other"
    gateway.go_on.set()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [list(range(count)) for count in range(1, 5)]
    assert (gateway.asked, len(gateway.server._connections)) == (1, 1)
    wire.close()


@pytest.mark.parametrize(
    "answer", [ServerUnavailable("away"), 7, {}, {"name": "x", "key": "y", "secret": ""}]
)
def test_a_gateway_that_does_not_say_where_is_not_asked_again(answer):
    calls = []

    def where():
        calls.append(1)
        if isinstance(answer, Exception):
            raise answer
        return answer

    wire = SharedMemoryRows(where, DEADLINE_S)
    assert [wire.borrow({"rows": 1}) for _ in range(3)] == [None] * 3
    assert len(calls) == 1


def test_a_door_on_another_machine_is_looked_for_once(gateway):
    elsewhere = {**gateway.where(), "name": new_name()}
    wire = SharedMemoryRows(lambda: elsewhere, DEADLINE_S)
    assert [wire.borrow({"rows": 1}) for _ in range(2)] == [None] * 2


def test_a_connection_that_broke_is_replaced(gateway):
    wire = SharedMemoryRows(gateway.where, DEADLINE_S)
    assert ids(wire.borrow({"rows": 2})) == [0, 1]
    for connection in list(gateway.server._connections):
        connection.shutdown(2)
    assert wire.borrow({"rows": 2}) is None, "the connection broke"
    assert ids(wire.borrow({"rows": 2})) == [0, 1]
    wire.close()
    assert wire.borrow({"rows": 2}) is None


def test_a_gateway_that_does_not_answer_in_time_is_away(gateway):
    wire = SharedMemoryRows(gateway.where, 0.1)
    gateway.go_on.clear()
    with pytest.raises(ServerUnavailable, match=r"within 0.1 s"):
        wire.borrow({"rows": 1})
    gateway.go_on.set()
    wire.close()


def test_a_waiting_caller_is_redirected_at_once_when_it_is_closed(gateway):
    wire, answers = SharedMemoryRows(gateway.where, DEADLINE_S), []
    gateway.go_on.clear()
    waiting = threading.Thread(target=lambda: answers.append(wire.borrow({"rows": 1})))
    waiting.start()
    assert gateway.waiting.acquire(timeout=DEADLINE_S)
    wire.close()
    waiting.join(DEADLINE_S)
    assert answers == [None]
    gateway.go_on.set()


def test_it_can_be_closed_while_its_address_is_requested():
    """`close` may run while the gateway is asked for the address, if the gateway does not answer."""

    def where():
        wire.close()

    wire = SharedMemoryRows(where, DEADLINE_S)
    assert wire.borrow({"rows": 1}) is None


class Both(flight.FlightServerBase):
    """A gateway that lends some rows in shared memory, and sends others by Flight."""

    def __init__(self):
        super().__init__("grpc://127.0.0.1:0")
        self.gateway, self.asked = Gateway(), []

    def do_action(self, _context, action):
        self.asked.append(action.type)
        return [json.dumps({"value": self.gateway.where()}).encode()]

    def do_get(self, _context, _ticket):
        return flight.RecordBatchStream(pa.table({"id": ["sent"]}))


def test_a_caller_without_shared_memory_opens_and_requests_none():
    """For every way to make a client, and for every copy that is sent to a task."""
    server = Both()
    uri = f"grpc://127.0.0.1:{server.port}"
    options = {"gateway": uri, "destination": "shop", "client": "1"}
    with server:
        for lends, client in (
            (True, GatewayClient(uri, "shop")),
            (True, Options.from_spark(options).gateway_client()),
            (False, GatewayClient(uri, "shop", shared_memory=False)),
            (False, Options.from_spark({**options, "sharedMemory": "false"}).gateway_client()),
        ):
            for copy in (client, pickle.loads(pickle.dumps(client))):
                server.asked.clear()
                assert ids(copy.rows(rows=1)) == ([0] if lends else ["sent"])
                assert server.asked == (["shared_memory"] if lends else [])
                copy.close()
        connected = []
        for chosen in (True, False):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(Consumer, "subscribe", lambda self, **_: connected.append(self.gateway_client))
                canal_group.connect(uri, destination="shop", shared_memory=chosen).close()
        assert [ids(client.rows(rows=1)) for client in connected] == [[0], ["sent"]]
        for client in connected:
            client.close()
    server.gateway.server.close()
