"""Dump connection: a connection that registers as a replica of a source and requests its binlog."""

from __future__ import annotations

import contextlib
import socket
from typing import Any

import pymysql

from canal_group.binlog.formats.events import CHECKSUM_CRC32, CHECKSUM_NONE
from canal_group.binlog.server.dump.dump_request import DumpRequest, session
from canal_group.binlog.server.dump.registration import register
from canal_group.binlog.server.packets import PacketReader
from canal_group.binlog.server.semi_sync.source_side import SESSION
from canal_group.binlog.server.semi_sync.wake import Wake
from canal_group.binlog.server.source import (
    ServerFacts,
    SourceAddress,
    connect,
    query,
    server_facts,
    translated,
)

#: receive buffer of a connection whose dump is only looked into, bytes
_LOOK_BYTES = 16_384


class DumpConnection:
    """One connection to a source, which sends nothing but the binlog once that was requested.

    Args:
        address: the source.
        replies: whether it is a semi-synchronous replica's; None: as the address says of readers.

    Raises:
        SourceUnavailable: the source does not answer.
        SourceUnfit: it denies access.
    """

    def __init__(self, address: SourceAddress, *, replies: bool | None = None) -> None:
        self._address = address
        self._replies = address.replies if replies is None else replies
        self._driver: Any = connect(address)
        try:
            #: the server that answers
            self.facts: ServerFacts = server_facts(address, self._driver)
        except BaseException:
            self.close()
            raise

    @property
    def connection(self) -> pymysql.Connection[Any]:
        """The connection, for queries before the dump is requested."""
        connection: pymysql.Connection[Any] = self._driver
        return connection

    def narrow(self) -> None:
        """Let little arrive that is not read: of a dump that is only looked into, a source fills buffers."""
        self._driver._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _LOOK_BYTES)  # noqa: SLF001

    def register(self, *, checksums: bool = False) -> int:
        """Register as a replica.

        Args:
            checksums: see `session`.

        Returns:
            The checksum of the events before the first format description.
        """
        address = self._address
        semi_sync = SESSION if self._replies else ()
        for assignments in (*session(address.heartbeat_ms, checksums=checksums), *semi_sync):
            query(address, self._driver, f"SET {assignments}")
        with translated(address):
            register(self._driver, address)
        none = self.facts.variables.get("binlog_checksum", "NONE").upper() == "NONE"
        return CHECKSUM_NONE if none else CHECKSUM_CRC32

    def request(self, request: DumpRequest, wake: Wake | None = None) -> PacketReader:
        """Request the dump, and return its packets.

        Args:
            request: what to dump.
            wake: see `PacketReader`.
        """
        address = self._address
        for assignment in request.session:
            query(address, self._driver, f"SET {assignment}")
        with translated(address):
            self._driver._execute_command(request.command, request.payload)  # noqa: SLF001 - no public way
        return PacketReader(
            self._driver._sock,  # noqa: SLF001
            address.read_timeout_s,
            semi_sync=self._replies,
            wake=wake,
        )

    def close(self) -> None:
        """Close the connection."""
        with contextlib.suppress(pymysql.Error, OSError):
            self._driver._force_close()  # noqa: SLF001 - a dump connection takes no COM_QUIT
