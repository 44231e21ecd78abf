"""Packets of canal's protocol: read from bytes that may be anything, and made.

A packet is sent after its length, four bytes, the most significant first. `canal_group.canal_protocol` has
the messages. Clients take the fields that they do not find for canal's defaults, so ours say all of them.
"""

from __future__ import annotations

import struct
from typing import TypeAlias, TypeVar

from google.protobuf.message import DecodeError, Message

from canal_group.canal_protocol.packet_pb2 import (
    ACK,
    CLIENTACK,
    CLIENTAUTHENTICATION,
    CLIENTROLLBACK,
    GET,
    HANDSHAKE,
    MESSAGES,
    NONE,
    SUBSCRIPTION,
    UNSUBSCRIPTION,
    Ack,
    ClientAck,
    ClientAuth,
    ClientRollback,
    Get,
    Handshake,
    Messages,
    Packet,
    PacketType,
    Sub,
    Unsub,
)
from canal_group.merge.errors import UsageError

#: the length in front of a packet
LENGTH = struct.Struct(">i")
#: what canal's server says of each packet
_MAGIC, _VERSION = 17, 1
#: field of a Packet that has its body, with a length
_BODY, _WITH_LENGTH = 5, 2

#: error codes of an Ack
FAILED, INCOMPLETE, NO_BATCH = 400, 401, 402

Request: TypeAlias = Sub | Unsub | Get | ClientAck | ClientRollback
_M = TypeVar("_M", bound=Message)

_REQUESTS: dict[int, type[Request]] = {
    SUBSCRIPTION: Sub,
    UNSUBSCRIPTION: Unsub,
    GET: Get,
    CLIENTACK: ClientAck,
    CLIENTROLLBACK: ClientRollback,
}
#: as which requests are counted
COUNTED = frozenset(f"canal_{kind.__name__.lower()}" for kind in _REQUESTS.values())
#: nanoseconds of the units of a timeout
_UNITS_NS = (1, 10**3, 10**6, 10**9, 60 * 10**9, 3_600 * 10**9, 86_400 * 10**9)
_MILLISECONDS = 2


def read_login(data: bytes) -> ClientAuth:
    """Return a client's answer to the handshake.

    Raises:
        UsageError: it is something else.
    """
    packet = _packet(data)
    if packet.type != CLIENTAUTHENTICATION:
        raise UsageError(f"A login is expected, not a packet of type {_type(packet)}.")
    return _body(ClientAuth, packet)


def read_request(data: bytes) -> Request:
    """Return the request in a packet of a client that has logged in.

    Raises:
        UsageError: it is not a request.
    """
    packet = _packet(data)
    kind = _REQUESTS.get(packet.type)
    if kind is None:
        raise UsageError(f"A packet of type {_type(packet)} is not a request.")
    return _body(kind, packet)


def timeout_s(request: Get) -> float | None:
    """Return for how many seconds a get waits; None: until there are rows."""
    timeout = request.timeout if request.HasField("timeout") else -1
    if timeout < 0:
        return 0.0
    valid = request.HasField("unit") and 0 <= request.unit < len(_UNITS_NS)
    unit_ns = _UNITS_NS[request.unit if valid else _MILLISECONDS]
    return None if timeout == 0 else timeout * unit_ns / 1e9


def handshake(seed: bytes) -> bytes:
    """Return the packet that a connection begins with."""
    body = Handshake(communication_encoding="utf8", seeds=seed, supported_compressions=NONE)
    return _framed(HANDSHAKE, body)


def ack(code: int = 0, sentence: str = "") -> bytes:
    """Return the packet that says that something was done, or why not."""
    return _framed(ACK, Ack(error_code=code, error_message=sentence))


def no_messages() -> bytes:
    """Return the packet for "no batch"."""
    return _framed(MESSAGES, Messages(batch_id=-1))


def messages_head(batch_id: int, entries_bytes: int) -> bytes:
    """Return the bytes before a batch's entries, which are fields of its Messages.

    Raises:
        UsageError: the packet would have more bytes than its length can say.
    """
    begin = Messages(batch_id=batch_id).SerializeToString()
    size = len(begin) + entries_bytes
    head = _head(MESSAGES).SerializeToString() + bytes([_BODY << 3 | _WITH_LENGTH]) + _varint(size) + begin
    length = len(head) + entries_bytes
    if length >= 1 << 31:
        raise UsageError(
            f"Batch {batch_id} has {length} bytes, and a packet at most {(1 << 31) - 1}.",
            hint="Lower batch.bytes_max in the instance file.",
        )
    return LENGTH.pack(length) + head


def _packet(data: bytes) -> Packet:
    packet = _parsed(Packet, data)
    if packet.compression > NONE:
        raise UsageError("Compressed packets are not supported.")
    return packet


def _body(kind: type[_M], packet: Packet) -> _M:
    return _parsed(kind, packet.body)


def _parsed(kind: type[_M], data: bytes) -> _M:
    message = kind()
    try:
        message.ParseFromString(data)
    except (DecodeError, RecursionError, ValueError):
        raise UsageError(f"{len(data)} bytes are not a valid {kind.DESCRIPTOR.name}.") from None
    return message


def _type(packet: Packet) -> str:
    valid = packet.type in PacketType.values()
    return PacketType.Name(packet.type) if valid else str(packet.type)


def _head(kind: PacketType) -> Packet:
    return Packet(magic_number=_MAGIC, version=_VERSION, type=kind, compression=NONE)


def _framed(kind: PacketType, body: Message) -> bytes:
    packet = _head(kind)
    packet.body = body.SerializeToString()
    data = packet.SerializeToString()
    return LENGTH.pack(len(data)) + data


def _varint(value: int) -> bytes:
    digits = bytearray()
    while value > 0x7F:  # noqa: PLR2004  seven bits a byte
        digits.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*digits, value])
