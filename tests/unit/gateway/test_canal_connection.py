"""A connection of canal's protocol to a group that answers late: what is sent, seen, acknowledged."""

from __future__ import annotations

import logging
import time
from collections import deque

import pytest
from integration.canal_clients import RawClient, Refused
from support.group.row_group import LOST, RowGroup, canal_server, rows_of

from canal_group.actors.gateway.canal.login import CanalLogin
from canal_group.canal_protocol import entry_pb2, packet_pb2
from canal_group.merge.errors import RolledBack, ShardUnavailable

ROWS = 300


def client_of(address: str, client_id: str = "1001") -> RawClient:
    return RawClient(address, "shop", client_id).log_in()


@pytest.mark.parametrize(
    ("where", "failure"),
    [
        ("lease", LOST),
        ("lease", RolledBack("It was rolled back.")),
        ("rows", ShardUnavailable("No rows came.", retry_after_s=0.0)),
        ("lost get", LOST),
        ("get", LOST),
    ],
    ids=["late lease", "rolled back", "no rows", "lost answer", "late group"],
)
def test_a_batch_that_could_not_be_sent_is_sent_by_the_next_get(where, failure):
    group = RowGroup(4 * ROWS)
    with client_of(canal_server(group)).subscribe() as client:
        batch_id, entries = client.get(ROWS)
        got = rows_of(entries)
        # The next one is prefetched, and fails on its way; and the one after it, which is asked for.
        group.leases_end = where == "lease"
        group.failures[where] = deque([failure, failure])
        client.ack(batch_id)
        while len(got) < group.count:
            batch_id, entries = client.get(ROWS)
            got += rows_of(entries)
            client.ack(batch_id)
        assert client.get(timeout=-1) == (-1, [])
    assert not group.failures[where]
    assert got == list(range(group.count))
    assert group.rows_acknowledged == got


def test_the_group_is_never_told_of_a_batch_that_was_not_sent():
    group, sent = RowGroup(4 * ROWS), {0}
    with client_of(canal_server(group)).subscribe() as client:
        for _ in range(4):
            batch_id, _ = client.get(ROWS)
            sent.add(batch_id)
            client.ack(batch_id)
        client.get(timeout=-1)
    assert set(group.seen) <= sent


@pytest.mark.parametrize(("where", "times"), [("ack", 1), ("ack", 3), ("lost ack", 1)])
def test_batches_without_entries_are_acknowledged_in_order_after_a_retry(where, times):
    group = RowGroup(30, filtered=range(10))
    # Of the batch without entries; then again with the next get, and when its batch is sent.
    group.failures[where] = deque([LOST] * times)
    with client_of(canal_server(group)).subscribe() as client:
        for rows in (range(10, 20), range(20, 30)):
            batch_id, entries = client.get(10)
            assert rows_of(entries) == list(rows)
            client.ack(batch_id)
        assert client.get(timeout=-1) == (-1, [])
    assert not group.failures[where]
    assert group.rows_acknowledged == list(range(30))


def test_a_batch_without_entries_is_acknowledged_with_nothing_after_it():
    group = RowGroup(10, filtered=range(10))
    group.failures["ack"] = deque([LOST])
    with client_of(canal_server(group)).subscribe() as client:
        assert client.get(10, timeout=200) == (-1, [])
        assert client.get(10, timeout=-1) == (-1, [])
        assert group.rows_acknowledged == list(range(10))


@pytest.mark.parametrize("wanted", [True, False])
def test_a_batch_of_an_end_alone_is_acknowledged_where_ends_are_not_sent(wanted):
    group = RowGroup(20, filtered=range(10))
    group.has_ends, group.sends_ends = True, wanted
    with client_of(canal_server(group)).subscribe() as client:
        batch_id, entries = client.get(10)
        if wanted:
            assert [each.entryType for each in entries] == [entry_pb2.TRANSACTIONEND]
            client.ack(batch_id)
            batch_id, entries = client.get(10)
            assert entries.pop().entryType == entry_pb2.TRANSACTIONEND
        assert rows_of(entries) == list(range(10, 20))
        client.ack(batch_id)
        assert client.get(timeout=-1) == (-1, [])
    assert group.rows_acknowledged == list(range(20))


@pytest.mark.parametrize("where", ["ack", "lost ack"])
def test_a_failed_automatic_ack_is_repeated_and_the_get_answered_once(where):
    group = RowGroup(30)
    with client_of(canal_server(group)).subscribe() as client:
        group.failures[where] = deque([LOST])
        got = [rows_of(client.get(10, auto_ack=True)[1]) for _ in range(3)]
        assert client.get(timeout=-1) == (-1, [])
    assert got == [list(range(first, first + 10)) for first in (0, 10, 20)]
    assert group.rows_acknowledged == list(range(30))


@pytest.mark.parametrize("more", [0, 100_000])
@pytest.mark.parametrize("what", ["ack", "packet", "length", "rollback"])
def test_a_refused_client_reads_the_reason_and_the_end(what, more, caplog):
    group = RowGroup(20)
    with client_of(canal_server(group)).subscribe() as client:
        batch_id, _ = client.get(10)
        client.get(10)
        if what == "ack":
            client.ack(batch_id + 1)
        elif what == "rollback":
            group.failures["rollback"] = deque([LOST])
            client.rollback(batch_id)
        elif what == "packet":
            client.send(packet_pb2.HEARTBEAT, packet_pb2.Ack())
        else:
            client.socket.sendall(b"\x7f\xff\xff\xff" + bytes(100))
        # A socket that is closed with unread bytes takes back what it has sent.
        client.socket.sendall(bytes(more))
        why = {
            "ack": "the older batch",
            "packet": "not a request",
            "length": "is refused",
            "rollback": "No answer",
        }
        with pytest.raises(Refused, match=f"400 .*{why[what]}"):
            client.answer()
        with pytest.raises(ConnectionError):
            client.receive()
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING], "no traceback"


def test_wrong_logins_wait_longer_each_time_and_their_lines_are_bounded(caplog):
    caplog.set_level(logging.INFO, "canal_group.actors")
    address = canal_server(RowGroup(1), CanalLogin.of("canal", "secret"))
    began_s = time.monotonic()
    for _ in range(4):
        with RawClient(address, "shop") as client, pytest.raises(Refused, match="user or password is wrong"):
            client.log_in("x" * 3_000, "wrong")
    assert time.monotonic() > began_s + 0.1 + 0.2 + 0.4
    with RawClient(address, "shop") as client:
        client.log_in("canal", "secret").subscribe()
    with RawClient(address, "shop") as client:
        began_s = time.monotonic()
        client.log_in("canal", "secret")
        assert time.monotonic() < began_s + 0.7, "one that succeeded ends the waiting"
    lines = [record.getMessage() for record in caplog.records if "refused" in record.getMessage()]
    assert lines
    assert max(map(len, lines)) < 600


def test_two_clients_that_do_not_read_keep_the_others_waiting_for_seconds():
    """Their answers together are more than all answers may have: each gives way to the next."""
    big = RowGroup(100_000, entry_bytes=60_000)
    address = canal_server(big, unsent_bytes_max=24 << 20)
    slow = [client_of(address, str(number)).subscribe() for number in (1, 2)]
    for client in slow:
        client.ask(300)
    time.sleep(0.5)
    with client_of(address, "3").subscribe() as client:
        began_s = time.monotonic()
        assert len(client.get(300)[1]) == 300
    assert time.monotonic() < began_s + 20.0
    for client in slow:
        client.close()
