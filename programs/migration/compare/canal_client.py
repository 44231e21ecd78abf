"""Canal client: reads entries from a server that speaks canal's protocol, and acknowledges them.

Format: canal's packets, each after its length, four bytes; `canal_group.canal_protocol` has the messages.
"""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Self, TypeVar

from google.protobuf.message import DecodeError, Message

from canal_group.canal_protocol import packet_pb2 as pb
from canal_group.merge.errors import AccessDenied, CorruptEvent, ServerUnavailable

#: longest packet that is read, bytes
PACKET_BYTES_MAX: Final = 256 << 20
_CONNECT_S: Final = 10.0
#: time beyond that of a `get` for which the server may be silent
_SILENCE_S: Final = 30.0
_MAGIC, _VERSION = 17, 1
_MILLISECONDS: Final = 2
_NO_BATCH: Final = -1

_M = TypeVar("_M", bound=Message)


@dataclass(frozen=True, slots=True)
class CanalServer:
    """A server, and how to log in to it."""

    host: str
    port: int
    user: str = ""
    password: str = field(default="", repr=False)

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class CanalClient:
    """A subscription to a destination of a server.

    Args:
        server: where to connect to.
        destination: its name there.
        client_id: a number, as text.
        filter: canal's regular expressions; empty: the server's own filter.

    Raises:
        ServerUnavailable: it does not answer.
        AccessDenied: it refuses the login, or the subscription.
    """

    def __init__(self, server: CanalServer, destination: str, client_id: str, filter: str = "") -> None:  # noqa: A002
        self.server, self.destination = server, destination
        self.client_id = client_id
        self._named: dict[str, str] = {"destination": destination, "client_id": client_id}
        try:
            self._socket = socket.create_connection((server.host, server.port), _CONNECT_S)
        except OSError as error:
            raise ServerUnavailable(f"{server} does not answer ({error}).") from None
        try:
            self._log_in()
            self._ask(pb.SUBSCRIPTION, pb.Sub(**self._named, filter=filter))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def get(self, entries: int, timeout_s: float) -> tuple[int, Sequence[bytes]]:
        """Return a batch's id and its entries; -1 and none if none came in time.

        Raises:
            ServerUnavailable: the connection is lost.
            AccessDenied: the server refuses, with its reason.
        """
        self._socket.settimeout(timeout_s + _SILENCE_S)
        request = pb.Get(
            destination=self.destination,
            client_id=self.client_id,
            fetch_size=entries,
            timeout=int(timeout_s * 1_000),
            unit=_MILLISECONDS,
        )
        self._send(pb.GET, request)
        messages = self._parsed(pb.Messages, self._receive(pb.MESSAGES))
        return messages.batch_id, () if messages.batch_id == _NO_BATCH else list(messages.messages)

    def ack(self, batch_id: int) -> None:
        """Acknowledge a batch; the server does not answer."""
        self._send(pb.CLIENTACK, pb.ClientAck(**self._named, batch_id=batch_id))

    def unsubscribe(self) -> None:
        """Remove the subscription and its cursor."""
        self._ask(pb.UNSUBSCRIPTION, pb.Unsub(**self._named))

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _log_in(self) -> None:
        seeds = self._parsed(pb.Handshake, self._receive(pb.HANDSHAKE)).seeds
        scrambled = _scrambled(self.server.password, seeds) if self.server.password else b""
        self._ask(pb.CLIENTAUTHENTICATION, pb.ClientAuth(username=self.server.user, password=scrambled))

    def _ask(self, kind: pb.PacketType, message: Message) -> None:
        self._send(kind, message)
        self._receive(pb.ACK)

    def _send(self, kind: pb.PacketType, message: Message) -> None:
        packet = pb.Packet(magic_number=_MAGIC, version=_VERSION, type=kind, body=message.SerializeToString())
        content = packet.SerializeToString()
        try:
            self._socket.sendall(len(content).to_bytes(4) + content)
        except OSError as error:
            raise ServerUnavailable(f"The connection to {self.server} is lost ({error}).") from None

    def _receive(self, expected: pb.PacketType) -> bytes:
        """Return the body of the next packet.

        Raises:
            AccessDenied: the server answers with an error.
            CorruptEvent: it answers with another kind of packet.
        """
        length = int.from_bytes(self._read(4))
        if length > PACKET_BYTES_MAX:
            raise CorruptEvent(
                f"{self.server} announces a packet of {length} bytes.", hint="Is it canal's port?"
            )
        packet = self._parsed(pb.Packet, self._read(length))
        if packet.type == pb.ACK:
            ack = self._parsed(pb.Ack, packet.body)
            if ack.error_code:
                raise AccessDenied(f"{self.server} refuses {self.destination}: {ack.error_message.strip()}.")
        if packet.type != expected:
            raise CorruptEvent(f"{self.server} sent a packet of type {packet.type} instead of {expected}.")
        return packet.body

    def _parsed(self, kind: type[_M], content: bytes) -> _M:
        try:
            return kind.FromString(content)
        except DecodeError:
            raise CorruptEvent(
                f"{self.server} sent what is not a packet of canal's.", hint="Is it canal's port?"
            ) from None

    def _read(self, size: int) -> bytes:
        chunks, missing = list[bytes](), size
        try:
            while missing:
                chunk = self._socket.recv(min(missing, 1 << 20))
                if not chunk:
                    raise ServerUnavailable(f"{self.server} has closed the connection.")
                chunks.append(chunk)
                missing -= len(chunk)
        except OSError as error:
            raise ServerUnavailable(f"The connection to {self.server} is lost ({error}).") from None
        return b"".join(chunks)


def _scrambled(password: str, seeds: bytes) -> bytes:
    """Return the answer to a challenge, in hexadecimal digits: MySQL's native password."""
    stage1 = hashlib.sha1(password.encode()).digest()  # noqa: S324 - canal's protocol
    stage2 = hashlib.sha1(stage1).digest()  # noqa: S324
    mask = hashlib.sha1(seeds + stage2).digest()  # noqa: S324
    return bytes(one ^ other for one, other in zip(stage1, mask, strict=True)).hex().encode()
