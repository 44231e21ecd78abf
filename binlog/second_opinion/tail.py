"""Tails: the last part of a server's or folder's binlog, as files in which every event has its own offset.

A tail begins with a transaction. In the first file, events without effect replace the events before it, so
that offsets and names stay those of the source. Everything after the first file is whole.

A server is asked for what its archive does not have, as `mysqlbinlog` asks it: with server id 0, so that no
reader of the same source is disconnected, and without waiting for more at the end. It sends its first file
from the beginning; only the tail is stored.
"""

from __future__ import annotations

import contextlib
import logging
import struct
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Final, Self

import pymysql
from pymysql.constants import COMMAND

from canal_group.binlog.archive.history import History
from canal_group.binlog.archive.points import point_before
from canal_group.binlog.archive.reading.archive_packets import ArchivePackets
from canal_group.binlog.formats.binlog_file import BinlogFile, buffered, size_of
from canal_group.binlog.formats.event_types import EventType
from canal_group.binlog.formats.events import (
    ARTIFICIAL_FLAG,
    CHECKSUM_CRC32,
    CHECKSUM_SIZE,
    HEADER_SIZE,
    MAGIC,
    header_of,
    parse_rotate,
)
from canal_group.binlog.formats.format_description import parse_format_description
from canal_group.binlog.server.dump.archived import entry_of
from canal_group.binlog.server.dump.dump_request import OFFSET_MAX, session
from canal_group.binlog.server.packets import PacketReader
from canal_group.binlog.server.source import (
    ServerFacts,
    SourceAddress,
    connect,
    query,
    server_error,
    server_facts,
    translated,
)
from canal_group.binlog.server.starts.available import archived_history
from canal_group.binlog.server.starts.binary_logs import binlog_sizes
from canal_group.merge.errors import CorruptEvent, DataError, SourceUnavailable, UsageError
from canal_group.merge.file_name import file_name
from canal_group.merge.values.position import Position

_log = logging.getLogger(__name__)

#: types that begin a transaction
_BEGINS: Final = frozenset(
    {EventType.GTID, EventType.ANONYMOUS_GTID, EventType.GTID_TAGGED, EventType.MARIADB_GTID}
)
#: size of the events that fill the space before a tail
_FILLER_BYTES: Final = 1 << 20
_FILLER_BYTES_MIN: Final = HEADER_SIZE + CHECKSUM_SIZE
#: flags of a dump: end at the end of the binlog; on MariaDB also send annotations
_NON_BLOCK, _ANNOTATE = 1, 2
_EOF, _ERROR = 0xFE, 0xFF
_OFFSETS: Final = 1 << 32


def tail_of_files(files: Sequence[BinlogFile], folder: Path, bytes_max: int) -> list[BinlogFile]:
    """Return files with the last part of binlog files.

    Args:
        files: in the order in which they were written.
        folder: where to store the copy of the first file, if the tail begins inside it.
        bytes_max: size of the tail.

    Raises:
        UsageError: no transaction begins in the last `bytes_max` bytes, or a file cannot be read.
        CorruptEvent: the first file has an event of an impossible size.
    """
    try:
        first, offset = _begin([size_of(file) for file in files], bytes_max)
        if offset <= len(MAGIC):
            return list(files[first:])
        with _Copy(folder, files[first].name, offset) as copy:
            for event in _events_in(files[first]):
                copy.add(event, copy.read)
    except OSError as error:
        raise UsageError(f"{error.filename} cannot be read: {error.strerror}.") from error
    begin: list[BinlogFile] = [copy.path] if copy.begun else []
    return _not_empty([*begin, *files[first + 1 :]], bytes_max)


def tail_of_server(address: SourceAddress, folder: Path, bytes_max: int) -> list[BinlogFile]:
    """Return files with the last part of a server's binlog, stored in `folder`.

    Raises:
        SourceUnavailable, SourceUnfit: the server does not answer, or denies access.
        UsageError: no transaction begins in the last `bytes_max` bytes.
    """
    with contextlib.closing(connect(address)) as connection:
        facts = server_facts(address, connection)
        logs = list(binlog_sizes(address, connection).items())
        first, offset = _begin([size for _, size in logs], bytes_max)
        history = archived_history(address, connection, facts)
        events = _archived_first(address, connection, facts, history, (logs[first][0], offset), logs[-1])
        stored = _store(events, folder, offset, logs[-1])
        return _not_empty(stored, bytes_max)


def _begin(sizes: Sequence[int], bytes_max: int) -> tuple[int, int]:
    """Return the index of the file and the offset at which the last `bytes_max` bytes begin."""
    left = bytes_max
    for index in reversed(range(len(sizes))):
        if sizes[index] >= left:
            return index, sizes[index] - left
        left -= sizes[index]
    return 0, 0


def _not_empty(files: list[BinlogFile], bytes_max: int) -> list[BinlogFile]:
    if not files:
        raise UsageError(
            f"No transaction begins in the last {bytes_max} bytes of the binlog.",
            hint="Read more of it: a transaction may be larger.",
        )
    return files


def _events_in(path: BinlogFile) -> Iterator[bytes]:
    with buffered(path) as file:
        file.seek(len(MAGIC))
        while len(head := file.read(HEADER_SIZE)) == HEADER_SIZE:
            size = header_of(head).size
            if size < HEADER_SIZE:
                raise CorruptEvent(f"The file is damaged: there cannot be an event of {size} bytes.")
            event = head + file.read(size - HEADER_SIZE)
            if len(event) < size:
                return
            yield event


def _archived_first(
    address: SourceAddress,
    connection: pymysql.Connection[Any],
    facts: ServerFacts,
    history: History | None,
    begin: tuple[str, int],
    end: tuple[str, int],
) -> Iterator[bytes]:
    """Yield the events from an offset, or from before it, to an end: the archive's, then the server's."""
    file, offset = begin[0], len(MAGIC)
    entry = None if history is None else entry_of(history, file)
    if history is not None and entry is not None and end[1] <= OFFSET_MAX:
        try:
            point = point_before(history.points(entry), begin[1])
            packets = ArchivePackets(history, Position(file, offset if point is None else point.offset))
        except DataError as error:
            _log.warning("the server is read instead of the archive: %s", error)
        else:
            yield from _events_in_archive(packets)
            file, offset = packets.read_to
    if (file, offset) != end:
        yield from _events_sent(address, connection, facts, file, offset)


def _events_in_archive(packets: ArchivePackets) -> Iterator[bytes]:
    """Yield the events that an archive has, up to its end or to what is damaged."""
    with contextlib.closing(packets):
        while True:
            try:
                event = packets.take()
                if event is None:
                    packets.fill()
                    continue
            except SourceUnavailable:
                return
            except DataError as error:
                _log.warning("the server is read instead of the archive: %s", error)
                return
            yield event


def _events_sent(
    address: SourceAddress, connection: pymysql.Connection[Any], facts: ServerFacts, file: str, offset: int
) -> Iterator[bytes]:
    for assignment in session(address.heartbeat_ms):
        query(address, connection, f"SET {assignment}")
    flags = _NON_BLOCK | (_ANNOTATE if facts.mariadb else 0)
    request = struct.pack("<IHI", offset, flags, 0) + file.encode()
    driver: Any = connection
    with translated(address):
        driver._execute_command(COMMAND.COM_BINLOG_DUMP, request)  # noqa: SLF001 - no public way
    packets = PacketReader(driver._sock, address.read_timeout_s)  # noqa: SLF001
    try:
        while True:
            packet = packets.take()
            if packet is None:
                packets.fill()
            elif packet[0] == _ERROR:
                code = int.from_bytes(packet[1:3], "little")
                raise server_error(address, code, packet[9:].decode("utf-8", "replace"))
            elif packet[0] == _EOF:
                return
            else:
                yield packet[1:]
    finally:
        packets.interrupt()


def _store(events: Iterator[bytes], folder: Path, offset: int, end: tuple[str, int]) -> list[BinlogFile]:
    """Store a dump up to `end`, a file and an offset; return the files."""
    files: list[BinlogFile] = []
    copy: _Copy | None = None
    try:
        for event in events:
            header = header_of(event)
            if header.event_type == EventType.ROTATE and (not header.timestamp or not header.log_pos):
                # An artificial event may have a checksum, which the next event of a name is not part of.
                name = _file_name(event, end[0])
                if copy is not None and copy.path.name == name:
                    continue  # the server goes on where the archive ends
                if copy is not None:
                    copy.close()
                    offset = 0
                copy = _Copy(folder, name, offset)
                continue
            assert copy is not None, "a dump begins with the name of its file"
            opens = header.event_type == EventType.FORMAT_DESCRIPTION
            made = not header.log_pos or header.flags & ARTIFICIAL_FLAG
            if (made and not opens) or (opens and copy.read > len(MAGIC)):
                continue
            begin = len(MAGIC) if opens else header.log_pos - header.size
            while begin < copy.read:
                begin += _OFFSETS
            copy.add(event, begin)
            if copy.begun and copy.path not in files:
                files.append(copy.path)
            if copy.path.name == end[0] and copy.read >= end[1]:
                break
    finally:
        if copy is not None:
            copy.close()
    return files


def _file_name(rotate: bytes, like: str) -> str:
    """Return the file that an artificial ROTATE names, with or without a checksum after the name."""
    base = like.rpartition(".")[0]
    body = rotate[HEADER_SIZE:]
    name = body[8:-CHECKSUM_SIZE]
    has_checksum = name.startswith(f"{base}.".encode()) and len(name) == len(like.encode())
    return parse_rotate(body[:-CHECKSUM_SIZE] if has_checksum else body).file


class _Copy:
    """The copy of a file, filled up to the first transaction that begins at `offset` or later."""

    def __init__(self, folder: Path, name: str, offset: int) -> None:
        self.path = folder / file_name(name)
        #: the offset up to which the source was read
        self.read = len(MAGIC)
        #: whether the copy holds the source's own events
        self.begun = offset <= len(MAGIC)
        self._offset = offset
        self._written = len(MAGIC)
        self._checksums = False
        self._file: BinaryIO = self.path.open("wb")
        self._file.write(MAGIC)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def add(self, event: bytes, begin: int) -> None:
        """Take the next event, which begins at `begin`."""
        self.read = begin + len(event)
        kind = event[4]
        if kind == EventType.FORMAT_DESCRIPTION:
            self._checksums = parse_format_description(event).checksum == CHECKSUM_CRC32
        elif not self.begun:
            self.begun = kind in _BEGINS and begin >= self._offset
            if not self.begun:
                return
        self._fill(begin, header_of(event).server_id)
        self._file.write(event)
        self._written = self.read

    def _fill(self, until: int, server_id: int) -> None:
        while self._written < until:
            missing = until - self._written
            size = missing if missing <= _FILLER_BYTES else min(_FILLER_BYTES, missing - _FILLER_BYTES_MIN)
            self._written += size
            head = struct.pack(
                "<IBIIIH", 0, EventType.IGNORABLE, server_id, size, self._written % _OFFSETS, 0
            )
            body = head + bytes(size - len(head) - CHECKSUM_SIZE * self._checksums)
            self._file.write(body)
            if self._checksums:
                self._file.write(zlib.crc32(body).to_bytes(CHECKSUM_SIZE, "little"))

    def close(self) -> None:
        """Close the file."""
        self._file.close()
