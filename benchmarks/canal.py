"""canal: how fast a client of canal's protocol drains four servers, compared with Flight and canal itself.

All read the same backlog in the same run, from an instance that is started anew: `canal` by a client that
takes the packets' bytes and acknowledges each batch, as a client that decodes lazily does, `flight` by our
own consumer, which reads typed rows. The clock runs from the moment when the paused servers resume until the
last row is acknowledged. Transactions have a hundred rows of eleven columns of mixed types (`bulk`), or one
row (`small`).

The same client then drains canal's own server: `canal_rows_per_s`, and `ratio_to_canal`, which is above 1
where ours is faster. One instance reads all four servers as a group and passes transactions on in the order
of their arrival, as the group instance that canal ships does; ours merges them by time. Its clock runs from
the client's connection, and a first pass without a clock lets its virtual machine compile. Where canal cannot
run, `canal_missing` says why.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from benchmarks._canal_server import MEASURED, WARM, CanalMissingError, canal_server
from benchmarks._load import BULK_ROWS, SHARDS, Backlog, cpus, fill, paused, servers
from benchmarks._pipeline import DESTINATION, WAIT_S, Passage, await_followed, consumer, instance, read_all
from canal_group.canal_protocol import packet_pb2
from playground.database.engine import Engine
from playground.database.server_process import DatabaseServer

#: rows of each backlog, over all servers
_BULK, _SMALL = 4_000_000, 200_000
#: how long no row may come, seconds
_SILENCE_S = 60.0
_CLIENT_ID = "1001"
_MILLISECONDS = 2
_LENGTH = struct.Struct(">i")


@dataclass(frozen=True, slots=True)
class _Get:
    """How a server is asked for a batch."""

    fetch_size: int
    timeout_ms: int


#: ours counts rows and answers as soon as there are any
_OURS = _Get(16_384, 10_000)
#: canal counts KiB of binlog, of which its ring holds 16,384, and waits for all of them until the time is up
_CANALS = _Get(4_096, 50)


def measure(size: float, engine: Engine = Engine.MARIADB) -> dict[str, Any]:
    """Return rows per second of both protocols and of canal, and their ratios, for both backlogs."""
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
        **_beside_canal(made, backlog, rows_per_s),
    }


def _beside_canal(made: Sequence[DatabaseServer], backlog: Backlog, rows_per_s: float) -> dict[str, Any]:
    try:
        with canal_server(made) as address:
            _read_packets(address, WARM, backlog.rows, _CANALS, time.monotonic())
            itself, _ = _read_packets(address, MEASURED, backlog.rows, _CANALS, time.monotonic())
    except CanalMissingError as error:
        return {"canal_missing": str(error)}
    canal_rows_per_s = itself.rows / itself.took_s
    return {
        "canal_rows_per_s": round(canal_rows_per_s),
        "ratio_to_canal": round(rows_per_s / canal_rows_per_s, 3),
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
    return _read_packets(running.canal_address, DESTINATION, rows, _OURS, since_s)


def _read_packets(
    address: str, destination: str, rows: int, how: _Get, since_s: float
) -> tuple[Passage, int]:
    """Read a destination until all rows have come and are acknowledged; return also the bytes."""
    passage, sent, last_s = Passage(), 0, time.monotonic()
    client = _Client(address, destination)
    try:
        while passage.rows < rows:
            data = client.get(how)
            batch_id, count = _counted(data)
            if count:
                last_s = time.monotonic()
            elif time.monotonic() - last_s > _SILENCE_S:
                raise RuntimeError(f"{passage.rows} of {rows} rows came, then none for {_SILENCE_S:g} s")
            if batch_id < 0:
                continue
            client.ack(batch_id)
            passage.rows += count
            passage.batches += 1
            sent += len(data)
        # The last acknowledgement is applied once a later request is answered.
        _, more = _counted(client.get(_Get(how.fetch_size, -1)))
        passage.took_s = time.monotonic() - since_s
    finally:
        client.close()
    if passage.rows + more != rows:
        raise RuntimeError(f"{passage.rows + more} rows came, not {rows}")
    return passage, sent


class _Client:
    """A client that takes packets as bytes."""

    def __init__(self, address: str, destination: str) -> None:
        host, _, port = address.rpartition(":")
        self._named = {"destination": destination, "client_id": _CLIENT_ID}
        self._socket = socket.create_connection((host, int(port)), timeout=WAIT_S)
        # No answer follows an acknowledgement: the next get would wait until it is confirmed.
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._receive()
        self._send(packet_pb2.CLIENTAUTHENTICATION, packet_pb2.ClientAuth())
        self._receive()
        self._send(packet_pb2.SUBSCRIPTION, packet_pb2.Sub(**self._named))
        self._receive()

    def get(self, how: _Get) -> bytearray:
        """Return the answer to a get."""
        get = packet_pb2.Get(fetch_size=how.fetch_size, timeout=how.timeout_ms, unit=_MILLISECONDS)
        get.destination, get.client_id = self._named["destination"], _CLIENT_ID
        self._send(packet_pb2.GET, get)
        return self._receive()

    def ack(self, batch_id: int) -> None:
        """Acknowledge a batch."""
        self._send(packet_pb2.CLIENTACK, packet_pb2.ClientAck(**self._named, batch_id=batch_id))

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
