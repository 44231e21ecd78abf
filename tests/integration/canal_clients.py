"""Clients of canal's protocol for tests: canal-python, unchanged, and one that says what a test wants."""

from __future__ import annotations

import contextlib
import json
import os
import random
import socket
import ssl
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from integration.differential import kinds
from support.soak import patient

from canal_group.actors.gateway.canal.login import scrambled
from canal_group.canal_protocol import entry_pb2, packet_pb2

#: seconds that any answer may take
ANSWER_S = patient(40.0)
_SCRIPT = Path(__file__).parents[1] / "support/clients/canal_python.py"


class ClientProcess:
    """A client of canal's in a process of its own: what it can do is called by name."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def __getattr__(self, method: str) -> Any:
        return lambda **arguments: self._call(method, arguments)

    def _call(self, method: str, arguments: dict[str, Any]) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([method, arguments]) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        if "error" in answer:
            raise ConnectionError(answer["error"])
        return answer["value"]


class CanalPython(ClientProcess):
    """canal-python: a method of its `Client` is called by name."""

    def open(self, address: str, destination: str, **subscription: Any) -> None:
        """Connect, log in without a password, and subscribe."""
        host, _, port = address.rpartition(":")
        self.connect(host=host, port=int(port))
        self.check_valid(username="", password="")
        self.subscribe(**{"client_id": "1001", "destination": destination, **subscription})


@contextmanager
def canal_python() -> Iterator[CanalPython]:
    """Run a process with canal-python."""
    # Its generated code needs protobuf's pure Python.
    environment = {**os.environ, "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "python"}
    with running([sys.executable, str(_SCRIPT)], environment) as process:
        yield CanalPython(process)


@contextmanager
def running(command: list[str], environment: Mapping[str, str]) -> Iterator[subprocess.Popen[str]]:
    """Run a process that reads commands and writes answers, until its input ends."""
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    try:
        yield process
    finally:
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        process.wait(timeout=ANSWER_S)
        process.stdout.close()


class Refused(Exception):  # noqa: N818  named for what happened
    """The server answered with an error."""


class RawClient:
    """A connection that sends and receives packets one by one."""

    def __init__(
        self,
        address: str,
        destination: str,
        client_id: str = "1001",
        *,
        tls: ssl.SSLContext | None = None,
        wait_s: float = ANSWER_S,
    ) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host.strip("[]"), int(port)), timeout=wait_s)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname=host)
        self._destination, self._client_id = destination, client_id
        handshake = self.receive()
        assert (handshake.type, handshake.version) == (packet_pb2.HANDSHAKE, 1)
        self.seed = packet_pb2.Handshake.FromString(handshake.body).seeds

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def send(self, kind: int, body: Any) -> None:
        self.send_bytes(packet_pb2.Packet(type=kind, body=body.SerializeToString()).SerializeToString())

    def send_bytes(self, data: bytes) -> None:
        self.socket.sendall(struct.pack(">i", len(data)) + data)

    def receive(self) -> packet_pb2.Packet:
        (length,) = struct.unpack(">i", self._exactly(4))
        return packet_pb2.Packet.FromString(self._exactly(length))

    def _exactly(self, count: int) -> bytes:
        found = bytearray()
        while len(found) < count:
            data = self.socket.recv(min(count - len(found), 1 << 20))
            if not data:
                raise ConnectionError("the server closed the connection")
            found += data
        return bytes(found)

    def acknowledged(self) -> None:
        """Receive an Ack; raise Refused if it has an error."""
        packet = self.receive()
        assert packet.type == packet_pb2.ACK
        ack = packet_pb2.Ack.FromString(packet.body)
        if ack.error_code:
            raise Refused(f"{ack.error_code} {ack.error_message}")

    def log_in(self, user: str = "", password: str | None = None, *, plain: bool = False) -> RawClient:
        shown = (password or "").encode()
        if password is not None and not plain:
            shown = scrambled(shown, self.seed).hex().encode()
        auth = packet_pb2.ClientAuth(username=user, password=shown, net_read_timeout=10_000)
        self.send(packet_pb2.CLIENTAUTHENTICATION, auth)
        self.acknowledged()
        return self

    def _named(self) -> dict[str, str]:
        return {"destination": self._destination, "client_id": self._client_id}

    def subscribe(self, table_filter: str = "") -> RawClient:
        self.send(packet_pb2.SUBSCRIPTION, packet_pb2.Sub(**self._named(), filter=table_filter))
        self.acknowledged()
        return self

    def unsubscribe(self) -> None:
        self.send(packet_pb2.UNSUBSCRIPTION, packet_pb2.Unsub(**self._named()))
        self.acknowledged()

    def ask(self, fetch_size: int = 1000, timeout: int = 10_000, *, auto_ack: bool = False) -> None:
        """Send a get, without waiting for its answer; the timeout in milliseconds."""
        named = self._named()
        self.send(
            packet_pb2.GET,
            packet_pb2.Get(**named, fetch_size=fetch_size, timeout=timeout, unit=2, auto_ack=auto_ack),
        )

    def answer(self) -> tuple[int, list[entry_pb2.Entry]]:
        """Receive the answer to a get: the batch's id, and its entries."""
        packet = self.receive()
        if packet.type == packet_pb2.ACK:
            ack = packet_pb2.Ack.FromString(packet.body)
            raise Refused(f"{ack.error_code} {ack.error_message}")
        messages = packet_pb2.Messages.FromString(packet.body)
        return messages.batch_id, [entry_pb2.Entry.FromString(each) for each in messages.messages]

    def get(self, fetch_size: int = 1000, timeout: int = 10_000, *, auto_ack: bool = False) -> Any:
        self.ask(fetch_size, timeout, auto_ack=auto_ack)
        return self.answer()

    def ack(self, batch_id: int) -> None:
        self.send(packet_pb2.CLIENTACK, packet_pb2.ClientAck(**self._named(), batch_id=batch_id))

    def rollback(self, batch_id: int = 0) -> None:
        self.send(packet_pb2.CLIENTROLLBACK, packet_pb2.ClientRollback(**self._named(), batch_id=batch_id))


def changes(entries: list[entry_pb2.Entry]) -> Iterator[tuple[Any, Any]]:
    """Yield the header and the RowChange of each ROWDATA."""
    for entry in entries:
        if entry.entryType == entry_pb2.ROWDATA:
            yield entry.header, entry_pb2.RowChange.FromString(entry.storeValue)


def inserted_ids(entries: list[entry_pb2.Entry]) -> list[int]:
    """Return the ids of inserted orders, in order."""
    return [
        int(next(column.value for column in row.afterColumns if column.name == "id"))
        for _, change in changes(entries)
        if change.eventType == entry_pb2.INSERT
        for row in change.rowDatas
    ]


def write_all_types(server: Any, table: str, chance: random.Random, *, mariadb: bool, rows: int) -> None:
    """Insert, update and delete random rows of a table with a column of every type."""
    columns = kinds(chance, mariadb=mariadb)
    names = [f"c{index}" for index in range(len(columns))]
    definition = ", ".join(f"{name} {kind.sql}" for name, kind in zip(names, columns, strict=True))
    with contextlib.closing(server.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'")
        cursor.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, n INT, {definition}) CHARSET utf8mb4")
        for number in range(rows):
            values = [kind.value(chance) if chance.random() < 0.85 else ("NULL", ()) for kind in columns]
            parameters = [each for _, several in values for each in several]
            expressions = ", ".join(expression for expression, _ in values)
            cursor.execute(f"INSERT INTO {table} VALUES ({number}, 0, {expressions})", parameters)
        cursor.execute(f"UPDATE {table} SET n = 1")
        cursor.execute(f"DELETE FROM {table} WHERE id % 2")


def images_of(found: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Return the row changes in a client's entries as table, operation, image before, image after."""
    operations = {1: "INSERT", 2: "UPDATE", 3: "DELETE"}
    return [
        (
            entry["header"]["tableName"],
            operations[entry["stored"]["eventType"]],
            _image(row["beforeColumns"]),
            _image(row["afterColumns"]),
        )
        for entry in found
        if entry["type"] == "ROWDATA" and not entry["stored"]["isDdl"]
        for row in entry["stored"]["rowDatas"]
    ]


def _image(columns: list[dict[str, Any]]) -> dict[str, str | None] | None:
    return {each["name"]: None if each["isNull"] else each["value"] for each in columns} or None


def images_in(envelope: Any) -> list[tuple[Any, ...]]:
    """Return the row changes of an envelope in the same shape."""
    return [
        (
            row["table"],
            row["op"],
            *(None if row[side] is None else dict(row[side]) for side in ("before", "after")),
        )
        for row in envelope.to_pylist()
        if row["sql"] is None
    ]


def same_over_both(client: ClientProcess, consumer: Any, count: int) -> list[tuple[Any, ...]]:
    """Read so many row changes with both, and check that they are equal."""
    theirs: list[tuple[Any, ...]] = []
    ours: list[tuple[Any, ...]] = []
    until_s = time.monotonic() + ANSWER_S
    while len(theirs) < count:
        assert time.monotonic() < until_s, f"{len(theirs)} of {count} row changes came"
        message = client.get_without_ack(batch_size=1000, timeout=5_000, unit=2)
        theirs += images_of(message["entries"])
        client.ack(message_id=message["id"])
    while len(ours) < count:
        batch = consumer.get_without_ack(timeout=ANSWER_S)
        ours += images_in(batch.envelope())
        consumer.ack(batch.batch_id)
    assert theirs == ours
    return theirs
