"""Wire format of the shared-memory transport: addresses, handshake and messages.

A message is four bytes of length and a JSON object, on a Unix socket in the kernel's abstract namespace. An
answer may come with an open file, the memory that holds its rows, or may be followed by the rows' bytes.

Neither end trusts the other. A message as a whole has one deadline. A client connects only to names of this
project. It checks an answer before it opens, maps or reads anything.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import socket
import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import pyarrow as pa

from canal_group.shared_memory.handshake import (
    GREETING_BYTES,
    GREETING_TIMEOUT_S,
    NONCE_BYTES,
    RESPONSE_BYTES,
    SECRET_BYTES,
    ClientHandshake,
    ServerHandshake,
)

#: how long a message may take from its first byte to its last, with the bytes that follow it, seconds
MESSAGE_TIMEOUT_S = 60.0
KEY_BYTES = 8
#: longest message, bytes
MESSAGE_BYTES_MAX = 1 << 20
_LENGTH = struct.Struct("<I")
#: the only names that a client connects to: no answer can make it open another program's socket
_NAME = re.compile(r"canal-group-[0-9a-f]{32}")


def new_name() -> str:
    """Return a unique socket name; every user of the machine can read it."""
    return f"canal-group-{secrets.token_hex(16)}"


@dataclass(frozen=True, slots=True)
class SharedMemoryAddress:
    """Address of a shared-memory server, for clients on its machine.

    Raises:
        ValueError, TypeError: the fields cannot be those of an address.
    """

    #: in the abstract namespace, without the leading zero byte
    name: str
    #: names one of the server's secrets
    key: bytes
    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        lengths = len(self.key), len(self.secret)
        if not _NAME.fullmatch(self.name) or lengths != (KEY_BYTES, SECRET_BYTES):
            raise ValueError("not the address of a shared-memory server")

    @property
    def path(self) -> str:
        """Return the address that a socket binds or connects to."""
        return f"\0{self.name}"

    def to_dict(self) -> dict[str, str]:
        """Return the address as a JSON object; `from_dict` reverses it."""
        return {"name": self.name, "key": self.key.hex(), "secret": self.secret.hex()}

    @classmethod
    def from_dict(cls, value: Mapping[str, str]) -> Self:
        """Return the address that `to_dict` described.

        Raises:
            KeyError, TypeError, ValueError: it does not describe an address.
        """
        return cls(value["name"], bytes.fromhex(value["key"]), bytes.fromhex(value["secret"]))


def handshake_as_client(
    server: socket.socket, key: bytes, secret: bytes, timeout_s: float = GREETING_TIMEOUT_S
) -> None:
    """Check that a server knows the secret of a key, then prove to it that we do.

    Raises:
        OSError: the server does not know the secret, or does not answer within `timeout_s`.
    """
    until_s = deadline_s(timeout_s)
    handshake = ClientHandshake(secret)
    _send(server, key + handshake.hello, until_s)
    _send(server, handshake.response(_exactly(server, GREETING_BYTES, until_s)), until_s)


def handshake_as_server(
    client: socket.socket, find: Callable[[bytes], bytes | None], timeout_s: float = GREETING_TIMEOUT_S
) -> bytes:
    """Prove to a client that we know the secret of its key, then check that it does.

    Args:
        client: its connection.
        find: returns the secret of a key; None if the key is unknown.
        timeout_s: how long the handshake may take, seconds.

    Returns:
        The key.

    Raises:
        OSError: the client does not know the secret, or does not answer in time.
    """
    until_s = deadline_s(timeout_s)
    key = _exactly(client, KEY_BYTES, until_s)
    secret = find(key)
    if secret is None:
        raise PermissionError("the other end has an unknown key")
    handshake = ServerHandshake(secret, _exactly(client, NONCE_BYTES, until_s))
    _send(client, handshake.greeting, until_s)
    handshake.check(_exactly(client, RESPONSE_BYTES, until_s))
    return key


def deadline_s(timeout_s: float = MESSAGE_TIMEOUT_S) -> float:
    """Return the deadline `timeout_s` from now, by `time.monotonic()`."""
    return time.monotonic() + timeout_s


def send(to: socket.socket, message: dict[str, Any], until_s: float, file: int | None = None) -> None:
    """Send a message, with an open file if there is one.

    Raises:
        OSError: the other end disconnected, or has not received the message by `until_s`.
    """
    body = json.dumps(message).encode()
    frame = _LENGTH.pack(len(body)) + body
    sent = 0
    if file is not None:
        _limit(to, until_s)
        sent = socket.send_fds(to, [frame], [file])
    _send(to, frame[sent:], until_s)


def send_block(to: socket.socket, block: memoryview, until_s: float) -> None:
    """Send bytes that follow a message; raises as `send`."""
    _send(to, block, until_s)


def receive(at: socket.socket, timeout_s: float = MESSAGE_TIMEOUT_S) -> dict[str, Any]:
    """Return the next message; wait for its first byte without a limit, and `timeout_s` for the others.

    The kernel closes a file that comes with it.

    Raises:
        OSError: the other end disconnected, is too slow, or sent something that is not a message.
    """
    at.settimeout(None)
    head = _begun(at.recv(_LENGTH.size))
    until_s = deadline_s(timeout_s)
    return _message(at, head + _exactly(at, _LENGTH.size - len(head), until_s), until_s)


def receive_with_file(at: socket.socket, until_s: float) -> tuple[dict[str, Any], int | None]:
    """Return the next message, and the file sent with it, None if there is none; raises as `receive`."""
    _limit(at, until_s)
    head, files, _, _ = socket.recv_fds(at, _LENGTH.size, 1)
    file = files[0] if files else None
    try:
        return _message(at, _begun(head) + _exactly(at, _LENGTH.size - len(head), until_s), until_s), file
    except BaseException:
        if file is not None:
            os.close(file)
        raise


def receive_block(at: socket.socket, size: int, until_s: float) -> pa.Buffer:
    """Return the bytes that follow a message; raises as `receive`."""
    try:
        block = pa.allocate_buffer(size)
    except (MemoryError, OverflowError, pa.ArrowException) as error:
        raise OSError(f"{size} bytes of rows cannot be allocated") from error
    view = memoryview(block)
    while view:
        _limit(at, until_s)
        count = at.recv_into(view)
        if not count:
            raise ConnectionResetError("the other end closed the connection")
        view = view[count:]
    return block


def _begun(head: bytes) -> bytes:
    if not head:
        raise ConnectionResetError("the other end closed the connection")
    return head


def _message(at: socket.socket, head: bytes, until_s: float) -> dict[str, Any]:
    (length,) = _LENGTH.unpack(head)
    if length > MESSAGE_BYTES_MAX:
        raise OSError(f"a message of {length} bytes is longer than {MESSAGE_BYTES_MAX}")
    try:
        message = json.loads(_exactly(at, length, until_s))
    except (ValueError, RecursionError) as error:
        raise OSError("the other end sent a message that is not JSON") from error
    if not isinstance(message, dict):
        raise OSError("the other end sent a message that is not a JSON object")
    return message


def _send(to: socket.socket, data: bytes | memoryview, until_s: float) -> None:
    if data:
        _limit(to, until_s)
        # The timeout of sendall limits the whole call, unlike that of recv.
        to.sendall(data)


def _exactly(at: socket.socket, count: int, until_s: float) -> bytes:
    parts = []
    while count:
        _limit(at, until_s)
        part = at.recv(count)
        if not part:
            raise ConnectionResetError("the other end closed the connection")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def _limit(end: socket.socket, until_s: float) -> None:
    """Limit the next call on a socket to the time left until the deadline."""
    left_s = until_s - time.monotonic()
    if left_s <= 0:
        raise TimeoutError("the other end is too slow")
    end.settimeout(left_s)
