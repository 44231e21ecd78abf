"""Attacks on the shared-memory transport by either end: slow, silent or lying peers."""

from __future__ import annotations

import json
import os
import resource
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.descriptors import open_files
from support.security.second_user import as_nobody

from canal_group.actors.store.rows import Payload
from canal_group.actors.store.segments import Segment
from canal_group.actors.transport.shared_memory_server import Offer, SharedMemoryServer
from canal_group.merge.errors import ServerUnavailable
from canal_group.shared_memory import handshake, wire
from canal_group.shared_memory.client import SharedMemoryClient
from canal_group.shared_memory.rows import SharedMemoryRows
from canal_group.shared_memory.wire import SharedMemoryAddress

DEADLINE_S = 20.0
#: a peer's time limit in place of a minute, and the interval at which a slow peer sends a byte, seconds
SHORT_S, EVERY_S = 0.2, 0.02


def until(true: Callable[[], bool], what: str) -> None:
    end_s, pause = wire.deadline_s(DEADLINE_S), threading.Event()
    while not true():
        assert wire.deadline_s(0) < end_s, what
        pause.wait(0.01)


@pytest.fixture
def serving() -> Iterator[Callable[..., SharedMemoryServer]]:
    """Return a function that makes servers, which send as many rows as a ticket asks for."""
    made = []

    def serve(**timeouts: float) -> SharedMemoryServer:
        made.append(
            SharedMemoryServer(
                lambda _, ticket: Offer([Payload(None, [pa.record_batch({"id": range(ticket["rows"])})])]),
                bytes_max=0,
                **timeouts,
            )
        )
        return made[-1]

    yield serve
    for server in made:
        server.close()


@pytest.fixture
def server(serving: Callable[..., SharedMemoryServer]) -> SharedMemoryServer:
    return serving()


def connected(server: SharedMemoryServer) -> tuple[socket.socket, SharedMemoryAddress]:
    address, raw = server.admit(), socket.socket(socket.AF_UNIX)
    raw.settimeout(DEADLINE_S)
    raw.connect(address.path)
    return raw, address


def dripped(raw: socket.socket, data: bytes) -> int:
    """Send one byte per `EVERY_S` until the other end closes the connection; return how many were sent."""
    for number, byte in enumerate(data):
        raw.settimeout(EVERY_S)
        try:
            if raw.recv(1 << 16) == b"":
                return number
        except TimeoutError:
            pass
        except OSError:
            return number
        try:
            raw.send(bytes([byte]))
        except OSError:
            return number
    return len(data)


# ---- attacks of a client on the server


def test_a_handshake_that_comes_byte_by_byte_is_given_up(
    serving: Callable[..., SharedMemoryServer],
):
    server = serving(greeting_timeout_s=SHORT_S)
    raw, address = connected(server)
    with raw:
        assert (
            dripped(raw, address.key + bytes(handshake.NONCE_BYTES + handshake.RESPONSE_BYTES))
            <= SHORT_S / EVERY_S + 2
        )
    until(lambda: not server._connections, "its connection is closed")


def test_a_request_that_comes_byte_by_byte_is_given_up(
    serving: Callable[..., SharedMemoryServer],
):
    server = serving(message_timeout_s=SHORT_S)
    raw, address = connected(server)
    with raw:
        wire.handshake_as_client(raw, address.key, address.secret)
        body = json.dumps({"ticket": {"rows": 1}, "returned": [], "x": "x" * 1_000}).encode()
        assert dripped(raw, wire._LENGTH.pack(len(body)) + body) <= SHORT_S / EVERY_S + 2
    until(lambda: not server._connections, "its connection is closed")


def test_an_unread_answer_is_given_up(serving: Callable[..., SharedMemoryServer]):
    server = serving(message_timeout_s=SHORT_S)
    raw, address = connected(server)
    with raw:
        wire.handshake_as_client(raw, address.key, address.secret)
        wire.send(raw, {"ticket": {"rows": 1_000_000}, "returned": []}, wire.deadline_s(DEADLINE_S))
        until(lambda: not server._connections, "its rows are no longer held")


def test_an_idle_client_keeps_its_connection(serving: Callable[..., SharedMemoryServer]):
    """The deadline limits one message, not the time between two messages."""
    server = serving(message_timeout_s=SHORT_S)
    client = SharedMemoryClient(server.admit(), DEADLINE_S)
    client.borrow({"rows": 1})
    threading.Event().wait(3 * SHORT_S)
    assert len(client.borrow({"rows": 1})) == 1
    client.close()


def test_a_door_goes_on_when_the_process_has_files_again(
    server: SharedMemoryServer, caplog: pytest.LogCaptureFixture
):
    raw = socket.socket(socket.AF_UNIX)
    raw.settimeout(DEADLINE_S)
    address = server.admit()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Not 0: poll fails if it is given more files than this limit.
    resource.setrlimit(resource.RLIMIT_NOFILE, (1, hard))
    try:
        raw.connect(address.path)
        until(lambda: "Too many open files" in caplog.text, "accept has failed")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    with raw:
        wire.handshake_as_client(raw, address.key, address.secret)
    client = SharedMemoryClient(server.admit(), DEADLINE_S)
    assert len(client.borrow({"rows": 1})) == 1
    client.close()


def test_a_message_of_brackets_ends_one_connection_without_a_traceback(server: SharedMemoryServer):
    raw, address = connected(server)
    with raw:
        wire.handshake_as_client(raw, address.key, address.secret)
        raw.settimeout(DEADLINE_S)
        raw.sendall(wire._LENGTH.pack(1_000_000) + b"[" * 1_000_000)
        assert raw.recv(1) == b""


CONNECT = """
held = []
for _ in range(int(sys.argv[2])):
    held.append(socket.socket(socket.AF_UNIX))
    held[-1].connect(chr(0) + sys.argv[1])
    held[-1].settimeout(1)
heard = []
for each in held:
    try:
        heard.append(each.recv(1) == b"")
    except TimeoutError:
        heard.append(False)
print(all(heard))
"""


def test_another_user_of_the_machine_takes_no_connection_of_a_shard():
    """1. every user can read the socket's name; 2. a server for its own user only closes other users'
    connections at once; 3. a server for consumers of any user waits for their handshake, and lends nothing
    before it."""

    def offer(_whom: Any, _ticket: Any) -> Offer:
        return Offer([Payload(None, [pa.record_batch({"id": [1]})])])

    own, any_user = SharedMemoryServer(offer, own_user=True), SharedMemoryServer(offer)
    name = own.admit().name
    assert name in as_nobody("print(open('/proc/net/unix').read())")
    assert as_nobody(CONNECT, name, "20") == "True"
    assert as_nobody(CONNECT, any_user.admit().name, "2") == "False"
    client = SharedMemoryClient(own.admit(), DEADLINE_S)
    assert len(client.borrow({})) == 1
    for each in (client, own, any_user):
        each.close()


# ---- attacks of the server on a client


class Liar:
    """A gateway's shared-memory server that sends whatever answer a test gives it."""

    def __init__(self, answer: Callable[[socket.socket], None]) -> None:
        self.address = SharedMemoryAddress(wire.new_name(), bytes(wire.KEY_BYTES), handshake.new_secret())
        self._answer = answer
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(self.address.path)
        self._socket.listen()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        connection, _ = self._socket.accept()
        with connection:
            wire.handshake_as_server(connection, lambda _: self.address.secret)
            wire.receive(connection)
            self._answer(connection)

    def close(self) -> None:
        self._thread.join(DEADLINE_S)
        self._socket.close()


def said(message: dict[str, Any], file: int | None = None) -> Callable[[socket.socket], None]:
    return lambda to: wire.send(to, message, wire.deadline_s(DEADLINE_S), file)


SOUND: dict[str, Any] = {"names": [None], "ranges": [[0, 8]], "segment": None, "size": 8, "dropped": []}


@pytest.mark.parametrize(
    "lie",
    [
        {"names": 7},
        {"names": [["shop"]]},
        {"names": [[1, 2]]},
        {"names": []},
        {"ranges": [[0, 9]]},
        {"ranges": [[-8, 8]]},
        {"ranges": [[0, -8]]},
        {"ranges": [[0, 8.0]]},
        {"ranges": [[0, True]]},
        {"ranges": 1},
        {"size": -1},
        {"size": 1 << 70},
        {"size": 1 << 62},
        {"size": "8"},
        {"segment": 3},
        {"segment": "/etc/passwd"},
        {"segment": [1]},
        {"dropped": 7},
        {"dropped": [[1]]},
        {"error": 7},
        {"error": {}},
        {"error": {"message": "no", "details": 7}},
        {"error": {"message": "no", "details": {"message": "twice"}}},
    ],
    ids=str,
)
def test_an_impossible_answer_is_not_followed_and_rows_come_by_flight(lie: dict[str, Any]):
    liar = Liar(said(SOUND | lie))
    rows = SharedMemoryRows(liar.address.to_dict, DEADLINE_S)
    assert rows.borrow({}) is None
    rows.close()
    liar.close()


def unsealed(_: Path) -> int:
    """Return memory that its owner could shrink: a read past its new end kills the reader by SIGBUS."""
    file = os.memfd_create("rows")
    os.ftruncate(file, 4_096)
    return file


def short(_: Path) -> int:
    return Segment(1, 2_048).file


def on_disk(folder: Path) -> int:
    (folder / "rows").write_bytes(bytes(4_096))
    return os.open(folder / "rows", os.O_RDWR)


def pipe(_: Path) -> int:
    return os.pipe()[0]


@pytest.mark.parametrize("lent", [unsealed, short, on_disk, pipe])
def test_memory_that_could_be_cut_off_under_its_reader_is_not_mapped(
    lent: Callable[[Path], int], tmp_path: Path
):
    file = lent(tmp_path)
    before = open_files()
    name = str(Path(f"/proc/self/fd/{file}").readlink())
    liar = Liar(said(SOUND | {"segment": 1, "size": 4_096}, file))
    client = SharedMemoryClient(liar.address, DEADLINE_S)
    with pytest.raises(OSError, match=r"(?i)can shrink|invalid argument"):
        client.borrow({})
    assert client._mapped == {}
    client.close()
    liar.close()
    assert open_files().count(name) == before.count(name), "what came was closed"
    os.close(file)


def test_an_answer_that_comes_byte_by_byte_is_given_up():
    body = json.dumps(SOUND | {"names": [["x" * 5_000, ""]]}).encode()
    liar = Liar(lambda to: assert_given_up(to, wire._LENGTH.pack(len(body)) + body))
    rows = SharedMemoryRows(liar.address.to_dict, SHORT_S)
    with pytest.raises(ServerUnavailable, match=r"within 0.2 s"):
        rows.borrow({})
    rows.close()
    liar.close()
    assert given_up == [True]


given_up: list[bool] = []


def assert_given_up(to: socket.socket, data: bytes) -> None:
    given_up.append(dripped(to, data) <= SHORT_S / EVERY_S + 2)


@pytest.mark.parametrize(
    "changed",
    [
        {"name": "/run/dbus/system_bus_socket"},
        {"name": "dbus-1"},
        {"name": "canal-group-" + "0" * 31},
        {"name": "canal-group-" + "0" * 32 + "\n"},
        {"name": "canal-group-" + "0" * 32 + "\0x"},
        {"name": "canal-group-" + "A" * 32},
        {"name": 7},
        {"key": ""},
        {"key": b"DELETE /containers/all HTTP/1.1".hex()},
        {"key": "00" * 7},
        {"key": "00" * 9},
        {"key": "no hex"},
        {"secret": ""},
        {"secret": "00" * 31},
        {"secret": "00" * 33},
    ],
    ids=str,
)
def test_a_gateway_cannot_name_a_foreign_socket_or_what_is_written_to_it(
    changed: dict[str, Any], monkeypatch: pytest.MonkeyPatch
):
    address = SharedMemoryAddress(wire.new_name(), bytes(wire.KEY_BYTES), handshake.new_secret()).to_dict()
    with pytest.raises((TypeError, ValueError)):
        SharedMemoryAddress.from_dict(address | changed)
    opened: list[object] = []
    monkeypatch.setattr("canal_group.shared_memory.client.socket.socket", lambda *_: opened.append(1))
    assert SharedMemoryRows(lambda: address | changed, DEADLINE_S).borrow({}) is None
    assert opened == []


def test_a_foreign_socket_receives_nothing_chosen_by_a_gateway():
    """The original attack: a gateway chooses an abstract socket, and the bytes that are sent to it."""
    victim = socket.socket(socket.AF_UNIX)
    victim.bind(f"\0victim-{os.getpid()}")
    victim.listen()
    victim.setblocking(False)
    choice = {"name": f"victim-{os.getpid()}", "key": b"FLUSHALL\n".hex(), "secret": "00" * 32}
    assert SharedMemoryRows(lambda: choice, DEADLINE_S).borrow({}) is None
    with pytest.raises(BlockingIOError), victim:
        victim.accept()
