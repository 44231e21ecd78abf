"""The wire of a near door: rows lent in shared memory to a process of the same machine.

Messages are four bytes of length and a JSON object, on a Unix socket in the kernel's abstract namespace. An
answer may bring an open file, the memory that it speaks of, or be followed by its bytes.
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import pyarrow as pa

from canal_group import proof

#: how long either end may take to prove itself, seconds
GREETING_TIMEOUT_S = 5.0
KEY_BYTES = 8
#: a message is no longer, bytes
MESSAGE_BYTES_MAX = 1 << 20
_LENGTH = struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class NearAddress:
    """Where a near door is, for whoever is on its machine."""

    #: in the abstract namespace, without the zero byte that it begins with there
    name: str
    #: which of the door's secrets
    key: bytes
    secret: bytes = field(repr=False)

    @property
    def path(self) -> str:
        """What a socket binds or connects to."""
        return f"\0{self.name}"

    def to_dict(self) -> dict[str, str]:
        """Return the address as a JSON object; `from_dict` is the way back."""
        return {"name": self.name, "key": self.key.hex(), "secret": self.secret.hex()}

    @classmethod
    def from_dict(cls, value: Mapping[str, str]) -> Self:
        """Return the address that `to_dict` described.

        Raises:
            KeyError, TypeError, ValueError: it is none.
        """
        return cls(value["name"], bytes.fromhex(value["key"]), bytes.fromhex(value["secret"]))


def prove_as_caller(door: socket.socket, key: bytes, secret: bytes) -> None:
    """Prove to a door that we know the secret of a key, once it has proved the same to us.

    Raises:
        OSError: it does not know it, or does not answer.
    """
    mine = proof.new_nonce()
    door.sendall(key + mine)
    theirs = _exactly(door, proof.NONCE_BYTES)
    proof.check(_exactly(door, proof.PROOF_BYTES), proof.proof_of_door(secret, mine, theirs))
    door.sendall(proof.proof_of_caller(secret, mine, theirs))


def prove_as_door(caller: socket.socket, find: Callable[[bytes], bytes | None]) -> bytes:
    """Prove to a caller that we know the secret of its key, and wait until it has proved the same to us.

    Args:
        caller: who connected.
        find: returns the secret of a key.

    Returns:
        The key.

    Raises:
        OSError: it does not know it, or does not answer.
    """
    key = _exactly(caller, KEY_BYTES)
    secret = find(key)
    if secret is None:
        raise PermissionError("the other end has a key that is not known")
    theirs, mine = _exactly(caller, proof.NONCE_BYTES), proof.new_nonce()
    caller.sendall(mine + proof.proof_of_door(secret, theirs, mine))
    proof.check(_exactly(caller, proof.PROOF_BYTES), proof.proof_of_caller(secret, theirs, mine))
    return key


def send(to: socket.socket, message: dict[str, Any], file: int | None = None) -> None:
    """Send a message, and an open file with it.

    Raises:
        OSError: the other end is gone.
    """
    body = json.dumps(message).encode()
    frame = _LENGTH.pack(len(body)) + body
    if file is None:
        to.sendall(frame)
        return
    sent = socket.send_fds(to, [frame], [file])
    to.sendall(frame[sent:])


def receive(at: socket.socket) -> dict[str, Any]:
    """Return the next message; a file that comes with it is closed by the kernel.

    Raises:
        OSError: the other end is gone, or what it sent is no message.
    """
    return _message(at, _exactly(at, _LENGTH.size))


def receive_with_file(at: socket.socket) -> tuple[dict[str, Any], int | None]:
    """Return the next message, and the file that came with it; raises as `receive`."""
    head, files, _, _ = socket.recv_fds(at, _LENGTH.size, 1)
    if not head:
        raise ConnectionResetError("the other end is gone")
    return _message(at, head + _exactly(at, _LENGTH.size - len(head))), files[0] if files else None


def receive_block(at: socket.socket, size: int) -> pa.Buffer:
    """Return the bytes that follow a message; raises as `receive`."""
    block = pa.allocate_buffer(size)
    view = memoryview(block)
    while view:
        count = at.recv_into(view)
        if not count:
            raise ConnectionResetError("the other end is gone")
        view = view[count:]
    return block


def _message(at: socket.socket, head: bytes) -> dict[str, Any]:
    (length,) = _LENGTH.unpack(head)
    if length > MESSAGE_BYTES_MAX:
        raise OSError(f"a message of {length} bytes is longer than {MESSAGE_BYTES_MAX}")
    try:
        message = json.loads(_exactly(at, length))
    except ValueError as error:
        raise OSError("what came is no message") from error
    if not isinstance(message, dict):
        raise OSError("what came is no message")
    return message


def _exactly(at: socket.socket, count: int) -> bytes:
    parts = []
    while count:
        part = at.recv(count)
        if not part:
            raise ConnectionResetError("the other end is gone")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
