"""RPC wire format: addresses and frames of a connection between two processes of one instance.

RPC connections serve frequent small calls, which cost several times as much through Ray; docs/adr/0009 has
the figures. Ray only passes on the address and the secret. The calls are frames on a socket: four bytes of
length, and a pickle.

A pickle is safe only if its sender is trusted. Both ends therefore prove that they know the secret before
anything else is sent. The secret itself is never sent.
"""

from __future__ import annotations

import asyncio
import pickle
import socket
import struct
from dataclasses import dataclass, field
from typing import Any

#: bind address if both ends are on one machine
LOOPBACK = "127.0.0.1"
#: longest frame, bytes; the largest answers are batches, with 92 bytes for each transaction
FRAME_BYTES_MAX = 1 << 30
#: of a frame's body, before it
LENGTH = struct.Struct("<I")
#: a machine that disappears without closing the connection is noticed after about 15 seconds
_KEEPALIVE = ((socket.TCP_KEEPIDLE, 5), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 2))


@dataclass(frozen=True, slots=True)
class RpcAddress:
    """Address of an RPC server, and the secret that both ends know."""

    host: str
    port: int
    secret: bytes = field(repr=False)
    #: PEM; the only certificate to trust at this address. None: without TLS
    certificate: bytes | None = field(default=None, repr=False)


def pack(message: Any, bytes_max: int = FRAME_BYTES_MAX) -> bytes:
    """Return a message as a frame.

    Raises:
        ValueError: the message is longer than `bytes_max`.
        Exception: the message cannot be pickled.
    """
    body = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    if len(body) > bytes_max:
        raise ValueError(f"an RPC message of {len(body)} bytes is longer than {bytes_max}")
    return LENGTH.pack(len(body)) + body


def unpacked(body: memoryview) -> Any:
    """Return the message of a frame.

    Raises:
        OSError: the bytes are not a message.
    """
    try:
        return pickle.loads(body)  # noqa: S301  both ends have passed the handshake
    except Exception as error:
        raise OSError(f"an RPC message cannot be unpickled: {type(error).__name__}: {error}") from error


def tune(transport: asyncio.Transport) -> None:
    """Set the socket options of an RPC connection: send without delay, and detect an unreachable peer."""
    sock: socket.socket = transport.get_extra_info("socket")
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEPALIVE:
        sock.setsockopt(socket.IPPROTO_TCP, option, value)
