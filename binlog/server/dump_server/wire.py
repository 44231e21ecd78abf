"""Wire format between a dump server and its readers, on a Unix socket in the kernel's abstract namespace.

Both sides send packets of the client/server protocol whose number is 0. A reader sends one, a request: a JSON
object. The dump server sends an answer, then the packets of the dump. Their first byte says what they are:

    0x00  an event, as the source sent it
    0x01  a notice: 8 bytes, a moment of the machine's steady clock, microseconds; what the source had
          committed by then, less a margin, came before; or -1, which only says that the dump server lives
    0x02  an answer: a JSON object
    0x03  to a keeper, the archive's durable end: a JSON object
    0xFF  an error, after which the dump server closes the connection: its text

A socket's name is in the abstract namespace, where every user of the machine sees it and may take it. So both
sides check that the process at the other end is of their own user.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import struct
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from canal_group.binlog.archive.options import ArchiveOptions
from canal_group.binlog.server.password import RenewedPassword
from canal_group.binlog.server.source import SourceAddress
from canal_group.merge.values.commit_time import OF_THE_SERVER_READ
from canal_group.merge.values.retention.kept_position import KeptPosition

NOTICE, ANSWER, DURABLE, ERROR = 0x01, 0x02, 0x03, 0xFF
#: the longest request, bytes: what a keeper says of as many clients as it may
REQUEST_BYTES_MAX = 65_536
_FULL = 0xFFFFFF
_NOTICE = struct.Struct("<Bq")
#: struct ucred: process id, user id and group id
_CREDENTIALS = struct.Struct("3i")
_NO_MOMENT = -1


@dataclass(frozen=True, slots=True)
class ArchiveEnd:
    """Up to where the archive of a source outlasts a crash of the machine: after a whole transaction."""

    #: name of the history
    history: str
    file: str
    offset: int
    #: when the file was created, seconds since 1970
    created_s: int


def socket_name(address: SourceAddress, server: str) -> str:
    """Return the name of the socket of a source's dump server, for this user of this machine.

    Readers share one if they reach the same server at the same address as the same account, with the same TLS
    and heartbeats, and want the same of its archive: what only one of them wants would be left out silently.

    Args:
        address: the source.
        server: its identity. A server that replaces another one at an address has a dump server of its own.
    """
    tls = None if address.ssl is None else sorted(address.ssl.items())
    archive = None if address.archive is None else asdict(address.archive)
    shared = [
        os.geteuid(),
        address.host,
        address.port,
        address.user,
        tls,
        address.heartbeat_ms,
        server,
        archive,
        address.semi_sync,
    ]
    return f"\0canal-group-dump-server-{hashlib.sha256(json.dumps(shared).encode()).hexdigest()[:32]}"


def address_fields(address: SourceAddress) -> dict[str, Any]:
    """Return the facts of a source for its dump server, as a JSON object; `address_from` reads it."""
    return {key: value for key, value in asdict(address).items() if key != "commit_times"}


def address_from(fields: Mapping[str, Any]) -> SourceAddress:
    """Return the address that `address_fields` described; its commit times are those of the server."""
    password = fields["password"]
    if not isinstance(password, str):
        password = RenewedPassword.of_fields(**password)
    archive = fields["archive"] and ArchiveOptions(**fields["archive"])
    changed = {"password": password, "archive": archive}
    return SourceAddress(**{**fields, **changed}, commit_times=OF_THE_SERVER_READ)


def packets_of(payload: bytes) -> bytes:
    """Return a payload as packets of number 0; it is copied once, as it may have a GiB."""
    with memoryview(payload) as view:
        parts = [view[at : at + _FULL] for at in range(0, len(view) + 1, _FULL)]
        return b"".join(piece for part in parts for piece in (len(part).to_bytes(3, "little") + b"\0", part))


def notice(moment_us: int | None) -> bytes:
    """Return the packet that tells a reader a moment; None: only that the dump server lives."""
    return packets_of(_NOTICE.pack(NOTICE, _NO_MOMENT if moment_us is None else moment_us))


def is_notice(payload: bytes) -> bool:
    """Return whether a payload is a notice."""
    return len(payload) == _NOTICE.size and payload[0] == NOTICE


def idle_moment_us(payload: bytes) -> int | None:
    """Return the moment of a notice, microseconds of the steady clock; None if it has none."""
    _, moment_us = _NOTICE.unpack(payload)
    return None if moment_us == _NO_MOMENT else int(moment_us)


def answer(**fields: Any) -> bytes:
    """Return the packet that answers a request."""
    return packets_of(bytes([ANSWER]) + json.dumps(fields).encode())


def keeps(name: str, kept: Sequence[KeptPosition]) -> bytes:
    """Return the request by which a keeper says what it needs, see `Kept` of the dump server."""
    positions = [(each.owner, each.position.to_dict()) for each in kept]
    return json.dumps({"keeps": name, "positions": positions}).encode()


def durable(end: ArchiveEnd) -> bytes:
    """Return the packet that tells a keeper up to where the archive is durable; `end_from` reads it."""
    return packets_of(bytes([DURABLE]) + json.dumps(asdict(end)).encode())


def end_from(payload: bytes) -> ArchiveEnd:
    """Return the end that a payload of `durable` holds."""
    return ArchiveEnd(**json.loads(payload[1:]))


def own_user(connection: socket.socket) -> bool:
    """Return whether the process at the other end of a Unix socket is of this process's user."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return bool(_CREDENTIALS.unpack(credentials)[1] == os.geteuid())
