"""One of canal's listeners with several destinations: logins come before the destination is said."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from typing import Any

import pytest
from integration.canal_clients import ANSWER_S, RawClient, Refused
from support.group.row_group import RowGroup, canal_destination, canal_table, rows_of, serving

from canal_group.actors.gateway.canal.destination import THREADS
from canal_group.actors.gateway.canal.login import CanalLogin
from canal_group.canal_protocol import packet_pb2

A, B = CanalLogin.of("a", "a-s3cret"), CanalLogin.of("b", "b-s3cret")


def client_of(port: int, name: str, user: str = "", password: str | None = None) -> RawClient:
    return RawClient(f"127.0.0.1:{port}", name).log_in(user, password)


def test_two_destinations_are_read_at_one_port_each_with_its_login():
    groups = {"a": RowGroup(3), "b": RowGroup(5)}
    table = canal_table(canal_destination(groups["a"], "a", A), canal_destination(groups["b"], "b", B))
    server = serving(table)
    for name, group in groups.items():
        with client_of(server.port, name, name, f"{name}-s3cret").subscribe() as client:
            batch_id, entries = client.get(10)
            assert rows_of(entries) == list(range(group.count))
            client.ack(batch_id)
            assert client.get(timeout=-1) == (-1, [])
    assert {name: group.rows_acknowledged[-1] for name, group in groups.items()} == {"a": 2, "b": 4}
    client = client_of(server.port, "b", "a", "a-s3cret")
    with client, pytest.raises(Refused, match="login of 'a' is not for destination b"):
        client.subscribe()
    client = RawClient(f"127.0.0.1:{server.port}", "a")
    with client, pytest.raises(Refused, match="user or password is wrong"):
        client.log_in("a", "b-s3cret")
    counted = [table.counters_of(name).describe()["sent_rows"] for name in ("a", "b")]
    assert counted == [3, 5]
    server.close()


def test_unknown_and_absent_destinations_are_named_with_the_others():
    server = serving(
        canal_table(canal_destination(RowGroup(1), "a"), canal_destination(RowGroup(1), "b", B), gone=None)
    )
    client = client_of(server.port, "x")
    with client, pytest.raises(Refused, match="400 Destination 'x' is not served here; served: a"):
        client.subscribe()
    with client_of(server.port, "gone") as client:
        with pytest.raises(Refused, match="400 Destination 'gone' is not served here now; served: a"):
            client.subscribe()
        client.ask()
        with pytest.raises(Refused, match="not served here now"):
            client.answer()
    server.close()


def test_guesses_at_a_destination_beside_an_open_one_wait_longer_each_time():
    server = serving(canal_table(canal_destination(RowGroup(1), "a"), canal_destination(RowGroup(1), "b", B)))
    began_s = time.monotonic()
    for _ in range(3):
        client = client_of(server.port, "b", "b", "guessed")
        with client, pytest.raises(Refused, match="login of 'b' is not for destination b"):
            client.subscribe()
    assert time.monotonic() > began_s + 0.1 + 0.2
    client_of(server.port, "b", "b", "b-s3cret").subscribe().close()
    server.close()


def test_a_withdrawn_destination_ends_its_connections_and_no_others():
    stays = canal_destination(RowGroup(4), "stays")
    server = serving(canal_table(stays, canal_destination(RowGroup(4), "goes")))
    port = server.port
    with client_of(server.port, "stays").subscribe() as kept, client_of(server.port, "goes") as ended:
        ended.subscribe()
        ended.get(2)
        batch_id, _ = kept.get(2)
        server.serve(canal_table(stays, goes=None))
        with pytest.raises(ConnectionError):
            ended.receive()
        kept.ack(batch_id)
        assert rows_of(kept.get(2)[1]) == [2, 3]
        server.close()
        with pytest.raises(ConnectionError):
            kept.receive()
    with pytest.raises(ConnectionError):
        client_of(port, "stays")


class Hangs(RowGroup):
    """A group that does not answer subscriptions until it is told to."""

    def __init__(self) -> None:
        super().__init__(1)
        self.asked, self.told = threading.Semaphore(0), threading.Event()

    def subscribe(self, *call: Any, **named: Any) -> dict[str, Any]:
        self.asked.release()
        self.told.wait()
        return super().subscribe(*call, **named)


def test_a_destination_that_does_not_answer_keeps_nothing_from_the_others():
    hangs = Hangs()
    server = serving(canal_table(canal_destination(hangs, "hangs"), canal_destination(RowGroup(3), "b")))
    with ExitStack() as stack:
        stack.callback(server.close)
        stack.callback(hangs.told.set)
        for _ in range(THREADS):
            client = stack.enter_context(client_of(server.port, "hangs"))
            client.send(packet_pb2.SUBSCRIPTION, packet_pb2.Sub(destination="hangs", client_id="1001"))
            assert hangs.asked.acquire(timeout=ANSWER_S)
        client = stack.enter_context(RawClient(f"127.0.0.1:{server.port}", "b", wait_s=5.0))
        assert rows_of(client.log_in().subscribe().get()[1]) == [0, 1, 2]


def test_a_connection_reads_one_destination():
    server = serving(canal_table(*(canal_destination(RowGroup(1), name) for name in ("a", "b"))))
    with client_of(server.port, "a").subscribe() as client:
        client._destination = "b"
        with pytest.raises(Refused, match="This connection reads a as client 1001"):
            client.subscribe()
    server.close()
