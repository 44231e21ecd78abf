"""Registration: a connection becomes one of a source's replicas."""

from __future__ import annotations

from typing import Any

import pymysql
from pymysql.constants import COMMAND

from canal_group.binlog.server.source import SourceAddress


def register(connection: pymysql.Connection[Any], address: SourceAddress) -> None:
    """Send COM_REGISTER_SLAVE: from now on the source lists this connection among its replicas.

    Layout: "COM_REGISTER_SLAVE" in MySQL's client/server protocol.
    """
    name = address.host_name.encode()
    payload = b"".join(
        (
            address.server_id.to_bytes(4, "little"),
            bytes([len(name)]),
            name,
            b"\0\0",  # user and password: only shown in the list of replicas, not needed
            b"\0\0",  # port
            b"\0\0\0\0",  # rank, unused
            b"\0\0\0\0",  # master id, filled in by the server
        )
    )
    driver: Any = connection
    driver._execute_command(COMMAND.COM_REGISTER_SLAVE, payload)  # noqa: SLF001 - the driver has no public way
    driver._read_packet()  # noqa: SLF001
