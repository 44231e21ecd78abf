"""Source dump: one dump connection, whose packets become blocks of a window.

The usual events are copied as they came, without a step of Python for each. Heartbeats are left out: they
prove how far the source has been read, see `canal_group.binlog.dump_window.idle`.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from canal_group.binlog.dump_window.begin import begin_at
from canal_group.binlog.dump_window.block import Block
from canal_group.binlog.dump_window.idle import Idle
from canal_group.binlog.dump_window.window import Window
from canal_group.binlog.formats.event_types import EventType
from canal_group.binlog.formats.events import (
    ARTIFICIAL_FLAG,
    CHECKSUM_CRC32,
    CHECKSUM_SIZE,
    HEADER_SIZE,
    MAGIC,
    EventHeader,
    parse_header,
    parse_rotate,
)
from canal_group.binlog.formats.format_description import parse_format_description
from canal_group.binlog.server.dump.dump_connection import DumpConnection
from canal_group.binlog.server.dump.dump_request import OFFSET_MAX, dump_from
from canal_group.binlog.server.dump_server.wire import packets_of, socket_name
from canal_group.binlog.server.source import SourceAddress, query, server_error
from canal_group.binlog.steady_clock import steady_us
from canal_group.merge.errors import DataError, SourceUnavailable

_OK, _ERROR = 0x00, 0xFF
_WRAP = 1 << 32
_HEARTBEATS = (EventType.HEARTBEAT, EventType.HEARTBEAT_V2)
_MACHINE, _NETWORK = Path("/etc/machine-id"), Path("/proc/self/ns/net")


class SourceDump:
    """Dumps a source into a window.

    Args:
        address: the source; its server id is replaced by the dump server's own.
        server: identity of the server that must answer.
        file: position of the reader that starts the dump server.
        offset: likewise.

    Raises:
        SourceUnavailable: the source does not answer, or another server does.
        DataError: it denies access, or has no binlog.
    """

    def __init__(self, address: SourceAddress, server: str, file: str, offset: int) -> None:
        server_id = _server_id(socket_name(address, server))
        self.address = replace(
            address, name="", destination="dump-server", server_id=server_id, semi_sync="off"
        )
        self._connection = DumpConnection(self.address)
        try:
            self._require(server)
            self._file, self._offset = self._begin(file, offset)
            self._checksum = self._connection.register()
            self.packets = self._connection.request(
                dump_from(self._file, self._offset, self.address.server_id)
            )
        except BaseException:
            self._connection.close()
            raise
        self.window = Window(address.dump_window_bytes_max, self._file, self._offset)
        self._description = b""
        self._idle = Idle()

    def _require(self, server: str) -> None:
        found = self._connection.facts.identity
        if found != server:
            raise SourceUnavailable(f"Server {found} answers instead of {server}.")

    def _begin(self, file: str, offset: int) -> tuple[str, int]:
        rows = query(self.address, self._connection.connection, "SHOW BINARY LOGS")
        files = [(str(row["Log_name"]), row.number("File_size")) for row in rows]
        if not files:
            raise DataError("The source has no binlog.")
        file, offset = begin_at((file, offset), files, self.address.dump_window_bytes_max)
        # From the beginning of a file on, the window moves to what cannot be requested.
        return file, offset if offset <= OFFSET_MAX else len(MAGIC)

    def note_empty(self) -> None:
        """Note that nothing has arrived, if that is so; call it when `read` has returned."""
        moment_us = steady_us()
        if self.packets.empty and not self.packets.readable():
            self._idle.found_empty(moment_us)

    def read(self) -> Iterator[int | None]:
        """Append what has arrived to the window; yield the moment that each heartbeat proves, see `Idle`.

        Raises:
            SourceUnavailable: the source ended the dump.
            DataError: it cannot serve it.
            UsageError: the binary logs were reset.
        """
        self.packets.fill()
        while True:
            run, end = self.packets.buffer.take_run(self._offset)
            if run:
                self._append(run, end)
            payload = self.packets.take()
            if payload is None:
                return
            event = self._event(payload)
            header = parse_header(event)
            if header.event_type in _HEARTBEATS:
                yield self._idle.heartbeat()
            else:
                self._take(payload, event, header)

    def _event(self, payload: bytes) -> bytes:
        if payload[:1] == bytes([_OK]):
            return payload[1:]
        if payload[:1] == bytes([_ERROR]):
            code = int.from_bytes(payload[1:3], "little")
            text = payload[9:] if payload[3:4] == b"#" else payload[3:]
            raise server_error(self.address, code, text.decode("utf-8", "replace"))
        raise SourceUnavailable("The source ended the stream.")

    def _take(self, payload: bytes, event: bytes, header: EventHeader) -> None:
        """Append an event that says where the stream is, is not in the file, or takes several packets."""
        packets = packets_of(payload)
        in_file = header.log_pos and not header.flags & ARTIFICIAL_FLAG
        end = self._offset
        if in_file and (header.event_type != EventType.FORMAT_DESCRIPTION or end == len(MAGIC)):
            end += (header.log_pos - end) % _WRAP
        if header.event_type == EventType.FORMAT_DESCRIPTION:
            self._checksum = parse_format_description(event).checksum
            self._append(packets, end, (b"", packets), header.timestamp)
            self._description = packets
        elif header.event_type == EventType.ROTATE and not in_file:
            body = event[HEADER_SIZE:]
            rotate = parse_rotate(body[:-CHECKSUM_SIZE] if self._checksum == CHECKSUM_CRC32 else body)
            if rotate.file != self._file:
                self._file, self._offset, self._description = rotate.file, rotate.offset, b""
                self._append(packets, rotate.offset, (b"", b""))
        else:
            self._append(packets, end)

    def _append(
        self, packets: bytes, end: int, descriptions: tuple[bytes, bytes] | None = None, created_s: int = 0
    ) -> None:
        """Append packets up to an offset; `descriptions` are those of `Block` if they change."""
        needed = descriptions or (self._description, self._description)
        self.window.append(Block(self._file, self._offset, end, packets, *needed), created_s)
        self._offset = end

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()


def _server_id(name: str) -> int:
    """Return the id with which a dump server registers at its source, 2^31 or more.

    It is the same each time, so that the source drops a connection that an earlier dump server has left. It
    differs between machines, and between containers with networks of their own: each has its dump server.
    """
    machine = _MACHINE.read_text().strip() if _MACHINE.exists() else ""
    where = f"{machine}/{os.uname().nodename}/{_NETWORK.stat().st_ino}"
    return 2**31 + zlib.crc32(f"dump-server/{where}/{name}".encode()) % (2**31 - 2)
