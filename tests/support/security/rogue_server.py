"""A server that speaks MySQL's client/server protocol, and tries to learn the password of its clients.

Layouts: "Connection Phase" and "LOCAL INFILE Request" in MySQL's client/server protocol.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from support.security.certificates import Pair

#: CLIENT_PROTOCOL_41, _TRANSACTIONS, _SECURE_CONNECTION, _PLUGIN_AUTH, _CONNECT_ATTRS, _PLUGIN_AUTH_LENENC...
_CAPABILITIES = 0x200 | 0x2000 | 0x8000 | 0x80000 | 0x100000 | 0x200000
_SSL = 0x800
SALT = b"12345678abcdefghijkl"
OK = b"\x00\x00\x00\x02\x00\x00\x00"
_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
PUBLIC_KEY = _KEY.public_key().public_bytes(
    serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
)
_OAEP = padding.OAEP(mgf=padding.MGF1(hashes.SHA1()), algorithm=hashes.SHA1(), label=None)


class Gone(Exception):  # noqa: N818  an end, and no error
    """The client has closed the connection."""


@dataclass
class Wire:
    """One connection, packet by packet."""

    socket: socket.socket
    sequence: int = 0
    #: everything that the client has sent, after decryption
    heard: list[bytes] = field(default_factory=list)

    def send(self, payload: bytes) -> None:
        self.socket.sendall(struct.pack("<I", len(payload))[:3] + bytes([self.sequence]) + payload)
        self.sequence = (self.sequence + 1) % 256

    def receive(self) -> bytes:
        head = self._exactly(4)
        self.sequence = (head[3] + 1) % 256
        payload = self._exactly(int.from_bytes(head[:3], "little"))
        self.heard.append(payload)
        return payload

    def _exactly(self, size: int) -> bytes:
        block = b""
        while len(block) < size:
            try:
                more = self.socket.recv(size - len(block))
            except OSError as error:
                raise Gone from error
            if not more:
                raise Gone
            block += more
        return block

    def switch(self, plugin: str, data: bytes = SALT + b"\0") -> bytes:
        """Request another plugin, and return the answer."""
        self.send(b"\xfe" + plugin.encode() + b"\0" + data)
        return self.receive()

    def more(self, data: bytes) -> bytes:
        """Send a plugin's own data, and return the answer."""
        self.send(b"\x01" + data)
        return self.receive()

    def decrypted(self, block: bytes) -> bytes:
        """Return the password: what was encrypted with our key, without the salt."""
        text = _KEY.decrypt(block, _OAEP)
        password = bytes(byte ^ SALT[index % len(SALT)] for index, byte in enumerate(text))
        self.heard.append(password)
        return password


#: what the server does after the client's answer to the greeting
Trick = Callable[[Wire], None]


class RogueServer:
    """A server on 127.0.0.1 that plays one trick on every client.

    Args:
        trick: played after the client's answer to the greeting.
        plugin: that the greeting names.
        pair: certificate and key; None: the greeting offers no TLS.
        greet: played instead of the greeting; None: an honest greeting.
    """

    def __init__(
        self,
        trick: Trick,
        *,
        plugin: str = "mysql_native_password",
        pair: Pair | None = None,
        greet: Trick | None = None,
    ) -> None:
        self._trick, self._plugin = trick, plugin
        self._greet = self._greet_honestly if greet is None else greet
        self._tls: ssl.SSLContext | None = None
        if pair is not None:
            self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._tls.load_cert_chain(pair.cert, pair.key)
        #: everything that clients have sent
        self.heard: list[bytes] = []
        #: whether a client's answer to the greeting came encrypted
        self.encrypted = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def knows(self, secret: str) -> bool:
        """Return whether clients have sent a text."""
        return any(secret.encode() in payload for payload in self.heard)

    def close(self) -> None:
        # Closing the socket does not wake a thread in accept.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(10)
        self._listener.close()

    def _run(self) -> None:
        while True:
            try:
                accepted, _ = self._listener.accept()
            except OSError:
                return
            accepted.settimeout(10)
            wire = Wire(accepted, heard=self.heard)
            with contextlib.suppress(Gone, OSError):
                self._greet(wire)
                self._trick(wire)
            wire.socket.close()

    def _greet_honestly(self, wire: Wire) -> None:
        able = _CAPABILITIES | (_SSL if self._tls is not None else 0)
        wire.send(
            b"\x0a8.0.36-rogue\0"
            + struct.pack("<I", 7)
            + SALT[:8]
            + b"\0"
            + struct.pack("<HBHHB", able & 0xFFFF, 45, 2, able >> 16, len(SALT) + 1)
            + bytes(10)
            + SALT[8:]
            + b"\0"
            + self._plugin.encode()
            + b"\0"
        )
        asked = struct.unpack("<I", wire.receive()[:4])[0]
        if asked & _SSL and self._tls is not None:
            wire.socket = self._tls.wrap_socket(wire.socket, server_side=True)
            self.encrypted = True
            wire.receive()


def login(wire: Wire) -> None:
    """Let the client in, and answer every command with OK."""
    wire.send(OK)
    while True:
        wire.receive()
        wire.send(OK)


@contextmanager
def rogue(trick: Trick = login, **options: Any) -> Iterator[RogueServer]:
    """Run a server for a while."""
    server = RogueServer(trick, **options)
    try:
        yield server
    finally:
        server.close()
