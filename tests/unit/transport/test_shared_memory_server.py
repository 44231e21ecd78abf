"""The shared-memory server: lending rows, reusing segments, and refusing clients."""

import gc
import mmap
import os
import socket
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.deadline import await_true
from support.descriptors import open_files

from canal_group.actors.store.rows import Payload, opened
from canal_group.actors.store.segments import SIZE_MIN_BYTES, LentBytes, Segments
from canal_group.actors.transport.shared_memory_server import CONNECTIONS_MAX, Offer, SharedMemoryServer
from canal_group.merge.errors import ShardUnavailable
from canal_group.merge.values.chunk import TableName
from canal_group.shared_memory import handshake, wire
from canal_group.shared_memory.client import SharedMemoryClient

DEADLINE_S = 20.0
ORDERS = TableName("shop", "orders")


def payloads(whom, ticket):
    """Return the rows of a ticket, which has (first, count) of each payload, or None to be refused."""
    if ticket["rows"] is None:
        raise ShardUnavailable("The shard is not open.", retry_after_s=0.1)
    return Offer(
        [
            Payload(None if number % 2 else ORDERS, [pa.record_batch({"id": range(first, first + count)})])
            for number, (first, count) in enumerate(ticket["rows"])
        ]
    )


@pytest.fixture
def server():
    made = SharedMemoryServer(payloads)
    yield made
    made.close()


@pytest.fixture
def client(server):
    made = SharedMemoryClient(server.admit(), DEADLINE_S)
    yield made
    made.close()


def borrow(client, *rows):
    lent = client.borrow({"rows": list(rows)})
    return opened((name and TableName(*name), stream) for name, stream in lent)


def ids(rows):
    return [table.rows["id"].to_pylist() for table in rows.tables]


def mapped():
    """Return how many segments are mapped by clients in this process: servers map theirs writable."""
    maps = Path("/proc/self/maps").read_text().splitlines()
    return sum("canal-group rows" in line and line.split()[1].startswith("r--") for line in maps)


def soon():
    return wire.deadline_s(DEADLINE_S)


def open_segments():
    """Return how many files of segments this process has open, by servers and clients."""
    return sum("canal-group rows" in name for name in open_files())


def test_rows_are_read_where_they_were_written(client):
    rows = borrow(client, (0, 3), (10, 2), (20, 1_000))
    assert ids(rows) == [[0, 1, 2], list(range(20, 1_020))]
    assert rows.statements["id"].to_pylist() == [10, 11]
    assert is_in(client, rows)


def is_in(client, rows):
    """Return whether rows are in a segment that a client has mapped."""
    first_byte = rows.tables[0].rows["id"].chunk(0).buffers()[1].address
    return any(each.address <= first_byte < each.address + each.size for each in client._mapped.values())


def test_nothing_and_a_refusal_are_answers_too(client):
    assert ids(borrow(client)) == []
    with pytest.raises(ShardUnavailable, match="not open") as caught:
        client.borrow({"rows": None})
    assert caught.value.retry_after_s == 0.1
    assert ids(borrow(client, (1, 1))) == [[1]]


def test_a_segment_is_reused_when_it_has_no_readers(client):
    """1. rows in use do not change while others are lent; 2. once released, their segment is lent next."""
    held = borrow(client, (0, 100))
    column = held.tables[0].rows["id"]
    del held
    for number in range(5):
        assert ids(borrow(client, (number, 100))) == [list(range(number, number + 100))]
    assert column.to_pylist() == list(range(100))
    assert len(client._mapped) == 2, "the one that is held, and the one that came and went"
    del column
    first, second = borrow(client, (7, 1)), borrow(client, (8, 1))
    assert (ids(first), ids(second), len(client._mapped)) == ([[7]], [[8]], 2)


def test_what_is_more_than_may_be_lent_is_sent(client):
    """1. the limit is one segment; 2. while it is lent, rows are sent; 3. given back, it is replaced by a
    larger one, and its memory is freed; 4. rows that never fit are sent; 5. the larger one is lent again.
    """
    few = SharedMemoryServer(payloads, bytes_max=2 * SIZE_MIN_BYTES)
    client = SharedMemoryClient(few.admit(), DEADLINE_S)
    held = borrow(client, (0, 1))
    larger = SIZE_MIN_BYTES // 8
    for _ in range(2):
        sent = borrow(client, (5, larger), (7, 1))
        assert (ids(sent), sent.statements["id"].to_pylist()) == ([list(range(5, 5 + larger))], [7])
        assert not is_in(client, sent)
    del held
    assert is_in(client, borrow(client, (0, larger)))
    assert [each.size for each in client._mapped.values()] == [2 * SIZE_MIN_BYTES]
    assert ids(borrow(client, (0, 4 * larger))) == [list(range(4 * larger))]
    assert is_in(client, borrow(client, (0, larger)))
    client.close()
    few.close()


def test_where_the_kernel_gives_no_such_memory_rows_are_sent(client, monkeypatch):
    """An older kernel refuses a seal that it does not know."""
    monkeypatch.setattr("canal_group.actors.store.segments._SEALS", 1 << 20)
    before = open_segments()
    for number in range(3):
        assert ids(borrow(client, (number, 2))) == [[number, number + 1]]
    assert (client._mapped, open_segments()) == ({}, before)


def test_the_rest_of_what_is_sent_stays_here_when_it_may_leave_no_more():
    checks = [5]

    def check():
        checks[0] -= 1
        if not checks[0]:
            raise ShardUnavailable("Not any more.")

    server = SharedMemoryServer(
        lambda whom, ticket: Offer(payloads(whom, ticket).payloads, check), bytes_max=0, piece_bytes=1_000
    )
    client = SharedMemoryClient(server.admit(), DEADLINE_S)
    checks[0] = 6
    assert ids(borrow(client, (0, 100))) == [list(range(100))]
    checks[0] = 6
    with pytest.raises(ConnectionResetError):
        borrow(client, (0, 1_000))
    client.close()
    server.close()


def test_shared_rows_outlive_their_server_and_nothing_else_stays_mapped(server):
    gc.collect()
    before = mapped()
    client = SharedMemoryClient(server.admit(), DEADLINE_S)
    rows = borrow(client, (0, 10))
    server.close()
    with pytest.raises(OSError, match=r".*"):
        borrow(client, (0, 1))
    client.close()
    gc.collect()
    assert ids(rows) == [list(range(10))]
    assert mapped() == before + 1
    del rows
    gc.collect()
    assert mapped() == before, "though the client is held"
    assert client is not None


def test_a_reader_can_neither_write_to_a_segment_nor_change_its_size(server):
    with socket.socket(socket.AF_UNIX) as raw:
        address = server.admit()
        raw.connect(address.path)
        wire.handshake_as_client(raw, address.key, address.secret)
        wire.send(raw, {"ticket": {"rows": [(0, 1)]}, "returned": []}, soon())
        answer, file = wire.receive_with_file(raw, soon())
        with pytest.raises(PermissionError):
            mmap.mmap(file, answer["size"])
        for size in (0, 2 * answer["size"]):
            with pytest.raises(PermissionError):
                os.ftruncate(file, size)
        os.close(file)


def test_an_offer_depends_on_the_admitted_caller():
    def offer(whom, ticket):
        return Offer([Payload(None, [pa.record_batch({"whom": [whom], "ticket": [ticket["for"]]})])])

    server = SharedMemoryServer(offer)
    for whom in ("anna", "bob"):
        client = SharedMemoryClient(server.admit(whom), DEADLINE_S)
        ((_, stream),) = client.borrow({"for": "it"})
        assert pa.ipc.open_stream(stream).read_all().to_pylist() == [{"whom": whom, "ticket": "it"}]
        client.close()
    server.close()


def test_an_admission_expires_after_too_many_later_ones():
    server = SharedMemoryServer(payloads, admitted_max=2)
    first, second, third = (server.admit() for _ in range(3))
    with pytest.raises(OSError, match=r".*"):
        SharedMemoryClient(first, DEADLINE_S)
    for address in (second, third):
        SharedMemoryClient(address, DEADLINE_S).close()
    server.close()


def test_what_may_not_leave_after_all_is_not_lent_and_its_segment_is_free():
    """The last check is made after all is written; the client gets its refusal."""
    checked = []

    def check():
        checked.append(1)
        if len(checked) % 4 == 2:
            raise ShardUnavailable("Not any more.")

    server = SharedMemoryServer(
        lambda whom, ticket: Offer(payloads(whom, ticket).payloads, check), SIZE_MIN_BYTES
    )
    client = SharedMemoryClient(server.admit(), DEADLINE_S)
    for number in range(3):
        with pytest.raises(ShardUnavailable, match="Not any more"):
            borrow(client, (number, 1))
        assert ids(borrow(client, (number, 1))) == [[number]]
    client.close()
    server.close()


def test_nothing_is_written_into_a_readers_memory_before_it_is_asked_for():
    """The reader has mapped a segment that it borrowed before."""
    allowed = [True]

    def check():
        if not allowed[0]:
            raise ShardUnavailable("Not any more.")

    server = SharedMemoryServer(lambda whom, ticket: Offer(payloads(whom, ticket).payloads, check))
    client = SharedMemoryClient(server.admit(), DEADLINE_S)
    assert ids(borrow(client, (1, 100))) == [list(range(1, 101))]
    (segment,) = client._mapped.values()
    before = segment.to_pybytes()
    allowed[0] = False
    with pytest.raises(ShardUnavailable, match="Not any more"):
        borrow(client, (7_000, 100))
    assert segment.to_pybytes() == before
    client.close()
    server.close()


def test_a_caller_without_the_secret_is_lent_nothing(server):
    with pytest.raises(PermissionError):
        SharedMemoryClient(replace(server.admit(), secret=handshake.new_secret()), DEADLINE_S)
    with socket.socket(socket.AF_UNIX) as raw:
        raw.settimeout(DEADLINE_S)
        address = server.admit()
        raw.connect(address.path)
        raw.sendall(address.key + os.urandom(handshake.NONCE_BYTES + handshake.RESPONSE_BYTES))

        def ask():
            wire.send(raw, {"ticket": {"rows": [(0, 1)]}, "returned": []}, soon())
            return wire._exactly(raw, 1 << 20, soon())

        # The server closes the connection at once, perhaps before the request is sent.
        with pytest.raises(OSError, match=r".*"):
            ask()
    assert repr(address.secret) not in repr(address)


def test_a_silent_caller_is_not_awaited():
    server = SharedMemoryServer(payloads, greeting_timeout_s=0.05)
    silent = [socket.socket(socket.AF_UNIX) for _ in range(CONNECTIONS_MAX)]
    for each in silent:
        each.settimeout(DEADLINE_S)
        each.connect(server.admit().path)
    for each in silent:
        assert each.recv(1) == b"", "it was closed"
        each.close()
    client = SharedMemoryClient(server.admit(), DEADLINE_S)
    assert ids(borrow(client, (1, 1))) == [[1]]
    client.close()
    server.close()


def test_a_connection_beyond_the_bound_is_closed_at_once(server):
    clients = [SharedMemoryClient(server.admit(), DEADLINE_S) for _ in range(CONNECTIONS_MAX)]
    with pytest.raises(OSError, match=r".*"):
        SharedMemoryClient(server.admit(), DEADLINE_S)
    for each in clients:
        each.close()


@pytest.mark.parametrize(
    "message", [b"[]", b"{", b"{}", b'{"ticket": 1, "returned": []}', b'{"ticket": {}, "returned": 7}']
)
def test_a_caller_with_malformed_messages_is_disconnected(server, message):
    with socket.socket(socket.AF_UNIX) as raw:
        raw.settimeout(DEADLINE_S)
        address = server.admit()
        raw.connect(address.path)
        wire.handshake_as_client(raw, address.key, address.secret)
        raw.sendall(wire._LENGTH.pack(len(message)) + message)
        assert raw.recv(1) == b""


def test_a_message_without_end_is_not_waited_for(server):
    with socket.socket(socket.AF_UNIX) as raw:
        raw.settimeout(DEADLINE_S)
        address = server.admit()
        raw.connect(address.path)
        wire.handshake_as_client(raw, address.key, address.secret)
        raw.sendall(wire._LENGTH.pack(wire.MESSAGE_BYTES_MAX + 1))
        assert raw.recv(1) == b""


def test_files_that_a_caller_sends_are_not_kept(client):
    borrow(client, (0, 1))
    before = open_files().count(os.devnull)
    for _ in range(20):
        with Path(os.devnull).open() as file:
            wire.send(client._socket, {"ticket": {"rows": []}, "returned": []}, soon(), file.fileno())
        wire.receive_with_file(client._socket, soon())
    assert open_files().count(os.devnull) == before


@given(st.lists(st.one_of(st.integers(1, 5 * SIZE_MIN_BYTES), st.sampled_from([0, -1, -2]))))
def test_no_segment_is_lent_twice_and_all_of_them_stay_within_the_bound(sizes):
    """A positive number asks for that many bytes; any other gives back one of the lent segments."""
    bound, out = 8 * SIZE_MIN_BYTES, []
    of_all = LentBytes(bound)
    segments = Segments(bound, of_all)
    try:
        for size in sizes:
            if size > 0:
                lent = segments.lend(size)
                in_use = sum(each.size for each in out)
                assert lent is not None or in_use + max(2 * size, SIZE_MIN_BYTES) > bound
                if lent is not None:
                    assert lent.size >= size
                    assert lent.number not in [each.number for each in out]
                    out.append(lent)
            elif out:
                segments.give_back([out.pop(size % len(out)).number])
            assert sum(each.size for each in (*segments._lent.values(), *segments._free.values())) <= bound
    finally:
        segments.close()
    assert of_all.take(bound), "nothing is counted that is closed"


def test_what_is_lent_to_others_is_not_lent():
    """1. rows are sent while another reader has all that may be lent; 2. free segments make room for a larger
    one; 3. what a reader had that left is lent again.
    """
    few = SharedMemoryServer(payloads, lent_max=3 * SIZE_MIN_BYTES)
    other, client = (SharedMemoryClient(few.admit(), DEADLINE_S) for _ in range(2))
    held, larger = borrow(other, (0, SIZE_MIN_BYTES // 8)), SIZE_MIN_BYTES // 8
    assert is_in(other, held)
    assert is_in(client, borrow(client, (0, 1)))
    assert not is_in(client, borrow(client, (0, larger)))
    other.close()
    await_true(lambda: is_in(client, borrow(client, (0, larger))), "it is lent")
    client.close()
    few.close()
