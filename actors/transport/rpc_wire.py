"""The wire of a line: a connection of their own between two processes of one instance, for many small calls.

A call through Ray costs a millisecond of processor time on both sides together, and each batch takes several.
Ray tells where the other end is, and what both know; the calls themselves are frames on a socket: four bytes
of length, and a pickle.

Who unpickles has to know who wrote: both ends prove that they know the secret before anything else is said,
and the secret itself never travels.
"""

from __future__ import annotations

import asyncio
import pickle
import socket
import struct
from dataclasses import dataclass, field
from typing import Any

from canal_group.shared_memory import handshake

#: where both ends are on one machine
LOOPBACK = "127.0.0.1"
#: a frame is no longer, bytes; the largest answers are batches, 92 bytes for each of their transactions
FRAME_BYTES_MAX = 1 << 30
#: how long either end may take to prove itself, seconds
GREETING_TIMEOUT_S = 5.0
_LENGTH = struct.Struct("<I")
#: a machine that is gone without a word is noticed after about 15 seconds
_KEEPALIVE = ((socket.TCP_KEEPIDLE, 5), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 2))


@dataclass(frozen=True, slots=True)
class RpcAddress:
    """Where a line can be opened, and what both ends know."""

    host: str
    port: int
    secret: bytes = field(repr=False)
    #: PEM; the only one to be trusted there. None: without TLS
    certificate: bytes | None = field(default=None, repr=False)


async def handshake_as_client(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, secret: bytes
) -> None:
    """Prove to a door that we know its secret, once it has proved the same to us.

    Raises:
        PermissionError: it does not know it.
    """
    mine = handshake.new_nonce()
    writer.write(mine)
    theirs = await reader.readexactly(handshake.NONCE_BYTES)
    handshake.check(
        await reader.readexactly(handshake.HANDSHAKE_BYTES), handshake.server_response(secret, mine, theirs)
    )
    writer.write(handshake.client_response(secret, mine, theirs))


async def handshake_as_server(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, secret: bytes
) -> None:
    """Prove to a caller that we know the secret, and wait until it has proved the same to us.

    Raises:
        PermissionError: it does not know it.
    """
    theirs, mine = await reader.readexactly(handshake.NONCE_BYTES), handshake.new_nonce()
    writer.write(mine + handshake.server_response(secret, theirs, mine))
    handshake.check(
        await reader.readexactly(handshake.HANDSHAKE_BYTES), handshake.client_response(secret, theirs, mine)
    )


def pack(message: Any) -> bytes:
    """Return a message as a frame.

    Raises:
        ValueError: it is too long.
        Exception: it cannot be pickled.
    """
    body = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    if len(body) > FRAME_BYTES_MAX:
        raise ValueError(f"a message of {len(body)} bytes is longer than {FRAME_BYTES_MAX}")
    return _LENGTH.pack(len(body)) + body


async def receive(reader: asyncio.StreamReader) -> Any:
    """Return the next message.

    Raises:
        OSError: the line broke, or what came is no message.
        asyncio.IncompleteReadError: it was closed.
    """
    (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
    if length > FRAME_BYTES_MAX:
        raise OSError(f"a frame of {length} bytes is longer than {FRAME_BYTES_MAX}")
    body = await reader.readexactly(length)
    try:
        return pickle.loads(body)  # noqa: S301  both ends have proved who they are
    except Exception as error:
        raise OSError(f"a message cannot be read: {type(error).__name__}: {error}") from error


def tune(writer: asyncio.StreamWriter) -> None:
    """Let a line's socket send at once, and notice when the other machine is gone."""
    sock: socket.socket = writer.get_extra_info("socket")
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEPALIVE:
        sock.setsockopt(socket.IPPROTO_TCP, option, value)
