"""Source dump: one dump connection, whose packets become blocks of a window.

The usual events are copied as they came, without a step of Python for each. Heartbeats are left out: they
prove how far the source has been read, see `canal_group.binlog.dump_window.idle`.
"""

from __future__ import annotations

import logging
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from canal_group.binlog.dump_server.archive_intake import ArchiveIntake
from canal_group.binlog.dump_server.reset_watch import ResetWatch
from canal_group.binlog.dump_window.begin import begin_archived, begin_at
from canal_group.binlog.dump_window.block import Block, split_at
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
)
from canal_group.binlog.formats.format_description import parse_format_description
from canal_group.binlog.native.packets import events_of
from canal_group.binlog.server.dump.dump_connection import DumpConnection
from canal_group.binlog.server.dump.dump_request import OFFSET_MAX, dump_from
from canal_group.binlog.server.dump_server.wire import ArchiveEnd, packets_of, socket_name
from canal_group.binlog.server.semi_sync.replies import reply_of
from canal_group.binlog.server.source import SourceAddress, server_error
from canal_group.binlog.server.starts.binary_logs import binlog_sizes, rotate_sent
from canal_group.binlog.steady_clock import steady_us
from canal_group.merge.errors import CorruptEvent, DataError, SourceUnavailable

_log = logging.getLogger(__name__)

_OK, _ERROR = 0x00, 0xFF
_WRAP = 1 << 32
HEARTBEATS = (EventType.HEARTBEAT, EventType.HEARTBEAT_V2)
_MACHINE, _NETWORK = Path("/etc/machine-id"), Path("/proc/self/ns/net")


#: returns the intake of an archive, which was not started; `anew`: with a new history
IntakeOf = Callable[[bool], ArchiveIntake]


class SourceDump:
    """Dumps a source into a window, and into an archive if there is one.

    Args:
        address: the source; its server id is replaced by the dump server's own.
        server: identity of the server that must answer.
        file: file at which the reader that starts the dump server is positioned.
        offset: offset of this reader in `file`.
        intake_of: opens the archive, once the server has answered; None: no archive.
        anew: whether the archive begins a new history in any case.

    Raises:
        SourceUnavailable: the source does not answer, or another server does.
        DataError: it denies access, or has no binlog.
        CanalGroupError: the archive cannot be written.
    """

    def __init__(
        self,
        address: SourceAddress,
        server: str,
        file: str,
        offset: int,
        intake_of: IntakeOf | None = None,
        *,
        anew: bool = False,
    ) -> None:
        server_id = _server_id(socket_name(address, server))
        self.address = replace(address, name="", destination="dump-server", server_id=server_id)
        #: whether COMMITs of the source wait for what becomes durable, and what it was told last
        self.replies = address.semi_sync == "archive" and intake_of is not None
        self._told: ArchiveEnd | None = None
        #: writes what arrives; None: nothing does
        self.intake: ArchiveIntake | None = None
        #: events up to this offset of the first file are in the archive
        self._skip_to = 0
        self._connection = DumpConnection(self.address, replies=self.replies)
        try:
            self._require(server)
            files = self._files()
            if intake_of is None:
                self._file, self._offset = begin_at((file, offset), files, address.dump_window_bytes_max)
                # From the beginning of a file on, the window moves to what cannot be requested.
                if self._offset > OFFSET_MAX:
                    self._offset = len(MAGIC)
            else:
                self.intake = intake_of(anew)
                begin = self._begin_archived(self.intake, file, files, anew=anew)
                if begin is None:
                    # Not to be closed again if the next one cannot be opened.
                    ended, self.intake = self.intake, None
                    ended.close()
                    self.intake = intake_of(True)
                    begin = files[0][0], len(MAGIC)
                self._file, self._offset = begin
            archives = intake_of is not None
            self._checksum = self._connection.register(checksums=archives)
            annotations = archives and self._connection.facts.mariadb
            self.packets = self._connection.request(
                dump_from(self._file, self._offset, self.address.server_id, annotations=annotations)
            )
        except BaseException:
            self._connection.close()
            if self.intake is not None:
                self.intake.close()
            raise
        self.window = Window(address.dump_window_bytes_max, self._file, self._offset)
        self._description = b""
        self._idle = Idle()
        #: notices a RESET that the dump does not show; None: nothing is archived
        self._resets: ResetWatch | None = None
        if self.intake is not None:
            self.intake.start()
            self._resets = ResetWatch(self.address, server, self._reached)
        #: the last moment that a heartbeat has proved, see `Idle`
        self.idle_us: int | None = None

    def _require(self, server: str) -> None:
        found = self._connection.facts.identity
        if found != server:
            raise SourceUnavailable(f"Server {found} answers instead of {server}.")

    def _files(self) -> list[tuple[str, int]]:
        files = list(binlog_sizes(self.address, self._connection.connection).items())
        if not files:
            raise DataError("The source has no binlog.")
        return files

    def _begin_archived(
        self, intake: ArchiveIntake, file: str, files: Sequence[tuple[str, int]], *, anew: bool
    ) -> tuple[str, int] | None:
        """Return where the dump begins for an archive; None: a new history has to begin."""
        position, oldest = intake.position, files[0][0]
        archived = None if position is None else (position.file, position.offset)
        next_file = oldest if intake.may_follow(oldest) else None
        begin = begin_archived(archived, next_file, oldest if anew else file, files)
        if archived is None and begin is not None:
            _log.warning("The archive has nothing of %s: it begins at %s:%d.", self.address.location, *begin)
        if begin is None:
            _log.warning(
                "The source %s does not have what follows %s in the archive: it was purged, reset or lost "
                "there. A new history begins at %s.",
                self.address.location,
                position,
                oldest,
            )
            return None
        if begin[1] > OFFSET_MAX:
            # It cannot be requested: the file is sent from its beginning, without what is archived.
            self._skip_to = begin[1]
            return begin[0], len(MAGIC)
        return begin

    def reply(self, end: ArchiveEnd) -> None:
        """Tell a source that waits for it up to where its archive is durable.

        Raises:
            SourceUnavailable: the reply cannot be sent.
        """
        if self.replies and self._told != end and self.packets.buffer.reply_awaited:
            self._told = end
            self.packets.reply(reply_of(end.file, end.offset))

    def note_empty(self) -> bool:
        """Return whether nothing has arrived, and note it; call it when `read` has returned."""
        moment_us = steady_us()
        if self.packets.readable():
            return False
        if self.packets.empty:
            self._idle.found_empty(moment_us)
        return True

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
                run = self._unskipped(run, end)
                if run and self.intake is not None:
                    self.intake.put(events_of(run))
                self._append(run, end)
            payload = self.packets.take()
            if payload is None:
                return
            event = self._event(payload)
            header = parse_header(event)
            if header.event_type in HEARTBEATS:
                self.idle_us = self._idle.heartbeat()
                yield self.idle_us
            else:
                if self.intake is not None and (
                    self._offset >= self._skip_to or header.event_type == EventType.FORMAT_DESCRIPTION
                ):
                    self.intake.put(event)
                self._take(payload, event, header)

    def _unskipped(self, run: bytes, end: int) -> bytes:
        """Return the part of a run that is not in the archive yet."""
        if self._offset >= self._skip_to:
            return run
        begin = split_at(Block(self._file, self._offset, end, run), self._skip_to)
        if begin is None:
            raise CorruptEvent(
                f"No event of {self._file} ends at {self._skip_to:,}, where the archive ends.",
                hint="The source's file is not the one that was archived.",
                file=self._file,
            )
        if end >= self._skip_to:
            self._offset, self._skip_to = self._skip_to, 0
        return run[begin:]

    def _event(self, payload: bytes) -> memoryview:
        """Return the event of a payload, which may have a GiB: it is not copied."""
        if payload[:1] == bytes([_OK]):
            return memoryview(payload)[1:]
        if payload[:1] == bytes([_ERROR]):
            code = int.from_bytes(payload[1:3], "little")
            text = payload[9:] if payload[3:4] == b"#" else payload[3:]
            raise server_error(self.address, code, text.decode("utf-8", "replace"))
        raise SourceUnavailable("The source ended the stream.")

    def _take(self, payload: bytes, event: memoryview, header: EventHeader) -> None:
        """Append an event that says where the stream is, is not in the file, or takes several packets."""
        packets = packets_of(payload)
        in_file = header.log_pos and not header.flags & ARTIFICIAL_FLAG
        end = self._offset
        if in_file and (header.event_type != EventType.FORMAT_DESCRIPTION or end == len(MAGIC)):
            end += (header.log_pos - end) % _WRAP
        if header.event_type == EventType.FORMAT_DESCRIPTION:
            self._checksum = parse_format_description(bytes(event)).checksum
            self._append(packets, end, (b"", packets), header.timestamp)
            self._description = packets
        elif header.event_type == EventType.ROTATE and not in_file:
            body = bytes(event[HEADER_SIZE:])
            body = body[:-CHECKSUM_SIZE] if self._checksum == CHECKSUM_CRC32 else body
            rotate = rotate_sent(self.address, body, self._file, self._offset)
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

    def require(self) -> None:
        """Return if the dump may go on.

        Raises:
            CanalGroupError: the archive cannot take more, or the source has begun its binlog anew.
        """
        if self.intake is not None:
            self.intake.require()
        if self._resets is not None and self._resets.error is not None:
            raise self._resets.error

    def _reached(self) -> tuple[str, int, int]:
        file, offset = self.window.tip
        return file, offset, self.window.created_s(file)

    def close(self) -> None:
        """End the dump; what has arrived becomes durable in the archive."""
        self._connection.close()
        if self._resets is not None:
            self._resets.close()
        if self.intake is not None:
            self.intake.close()


def _server_id(name: str) -> int:
    """Return the id with which a dump server registers at its source, 2^31 or more.

    It is the same each time, so that the source drops a connection that an earlier dump server has left. It
    differs between machines, and between containers with networks of their own: each has its dump server.
    """
    machine = _MACHINE.read_text().strip() if _MACHINE.exists() else ""
    where = f"{machine}/{os.uname().nodename}/{_NETWORK.stat().st_ino}"
    return 2**31 + zlib.crc32(f"dump-server/{where}/{name}".encode()) % (2**31 - 2)
