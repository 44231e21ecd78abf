"""canal: how fast a client of canal's protocol drains the backlog of four servers, compared with Flight.

Both read the same backlog in the same run, from an instance that is started anew: `canal` by a client that
takes the packets' bytes and acknowledges each batch, as a client that decodes lazily does, `flight` by our
own consumer, which reads typed rows. The clock runs from the moment when the paused servers resume until the
last row is acknowledged. Transactions have a hundred rows of eleven columns of mixed types (`bulk`), or one
row (`small`).
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from benchmarks._load import BULK_ROWS, SHARDS, Backlog, cpus, fill, paused, servers
from benchmarks._pipeline import DESTINATION, WAIT_S, Passage, await_followed, consumer, instance, read_all
from canal_group.canal_protocol import packet_pb2
from canal_group.demo.database.engine import Engine
from canal_group.demo.database.server_process import DatabaseServer

#: rows of each backlog, over all servers
_BULK, _SMALL = 4_000_000, 200_000
#: rows that a get asks for
_FETCH_ROWS = 16_384
_LENGTH = struct.Struct(">i")
_CLIENT = {"destination": DESTINATION, "client_id": "1001"}


def measure(size: float, engine: Engine = Engine.MARIADB) -> dict[str, Any]:
    """Return rows per second of both protocols and their ratio, for both backlogs."""
    with servers(engine) as made:
        bulk = _measured(made, fill(made, "bulk", int(_BULK * size) // SHARDS // BULK_ROWS))
        small = _measured(made, fill(made, "small", int(_SMALL * size) // SHARDS))
    return {**bulk, "small": small, "cpus": cpus()}


def _measured(made: Sequence[DatabaseServer], backlog: Backlog) -> dict[str, Any]:
    canal, sent = _drained(made, backlog, _read_by_canal)
    flight, _ = _drained(made, backlog, _read_by_flight)
    rows_per_s, flight_rows_per_s = (each.rows / each.took_s for each in (canal, flight))
    return {
        "rows_per_s": round(rows_per_s),
        "flight_rows_per_s": round(flight_rows_per_s),
        "ratio_to_flight": round(rows_per_s / flight_rows_per_s, 3),
        "mib_per_s": round(sent / canal.took_s / (1 << 20), 1),
        "bytes_per_row": round(sent / canal.rows),
        "rows": canal.rows,
        "batches": canal.batches,
    }


def _drained(
    made: Sequence[DatabaseServer], backlog: Backlog, read: Callable[[Any, int, float], tuple[Passage, int]]
) -> tuple[Passage, int]:
    with ExitStack() as pause:
        pause.enter_context(paused(made))
        with instance(made, canal={"port": 0}) as running:
            await_followed(running)
            pause.close()
            return read(running, backlog.rows, time.monotonic())


def _read_by_flight(running: Any, rows: int, since_s: float) -> tuple[Passage, int]:
    with consumer(running) as reader:
        return read_all(reader, rows, since_s), 0


def _read_by_canal(running: Any, rows: int, since_s: float) -> tuple[Passage, int]:
    passage, sent = Passage(), 0
    client = _Client(running.canal_address)
    try:
        while passage.rows < rows:
            data = client.get()
            batch_id, found = _counted(data)
            if batch_id < 0:
                continue
            client.ack(batch_id)
            passage.rows += found
            passage.batches += 1
            sent += len(data)
        # The last acknowledgement is applied once a later request is answered.
        client.get(timeout=-1)
    finally:
        client.close()
    passage.took_s = time.monotonic() - since_s
    return passage, sent


class _Client:
    """A client that takes packets as bytes."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=WAIT_S)
        self._receive()
        self._send(packet_pb2.CLIENTAUTHENTICATION, packet_pb2.ClientAuth())
        self._receive()
        self._send(packet_pb2.SUBSCRIPTION, packet_pb2.Sub(**_CLIENT))
        self._receive()

    def get(self, timeout: int = 10_000) -> bytearray:
        """Return the answer to a get."""
        get = packet_pb2.Get(fetch_size=_FETCH_ROWS, timeout=timeout, unit=2)
        get.destination, get.client_id = DESTINATION, _CLIENT["client_id"]
        self._send(packet_pb2.GET, get)
        return self._receive()

    def ack(self, batch_id: int) -> None:
        """Acknowledge a batch."""
        self._send(packet_pb2.CLIENTACK, packet_pb2.ClientAck(**_CLIENT, batch_id=batch_id))

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _send(self, kind: Any, body: Any) -> None:
        data = packet_pb2.Packet(type=kind, body=body.SerializeToString()).SerializeToString()
        self._socket.sendall(_LENGTH.pack(len(data)) + data)

    def _receive(self) -> bytearray:
        (length,) = _LENGTH.unpack(self._exactly(_LENGTH.size))
        return self._exactly(length)

    def _exactly(self, count: int) -> bytearray:
        data = bytearray(count)
        view, at = memoryview(data), 0
        while at < count:
            received = self._socket.recv_into(view[at:])
            if not received:
                raise RuntimeError("the server closed the connection")
            at += received
        return data


def _counted(data: bytearray) -> tuple[int, int]:
    """Return a batch's id and its rows, which each entry's header says; entries are not decoded otherwise."""
    packet = packet_pb2.Packet.FromString(bytes(data))
    if packet.type != packet_pb2.MESSAGES:
        raise RuntimeError(packet_pb2.Ack.FromString(packet.body).error_message)
    messages = packet_pb2.Messages.FromString(packet.body)
    rows = 0
    for entry in messages.messages:
        at = entry.find(b"\x0a\x09rowsCount\x12")
        if at >= 0:
            size = entry[at + 12]
            rows += int(entry[at + 13 : at + 13 + size])
    return messages.batch_id, rows
