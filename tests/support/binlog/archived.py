"""Archives of the binlogs that the demo's servers have written, as their dumps send them."""

from __future__ import annotations

import contextlib
import struct
import zlib
from pathlib import Path

from support.binlog.binlog_bytes import MAGIC, events_of

from canal_group.binlog.archive.archive import Archive
from canal_group.binlog.archive.disk import Disk
from canal_group.binlog.archive.file_scan import FileScan
from canal_group.binlog.archive.forms.key import NO_KEYS, Key, Keys
from canal_group.binlog.archive.options import ArchiveOptions
from canal_group.binlog.archive.writer import ArchiveWriter
from canal_group.binlog.formats.event_types import EventType
from canal_group.binlog.server.dump.dump_connection import DumpConnection
from canal_group.binlog.server.dump.dump_request import dump_from

RECORDED = Path(__file__).parents[3] / "programs" / "demo" / "recorded"
SERVER = "101"
KEYS = Keys((Key(b"k" * 32),))
ARTIFICIAL = 0x20
HEARTBEAT = struct.pack("<IBIIIH", 0, EventType.HEARTBEAT, 1, 19 + 4, 0, 0) + b"abcd"


def recorded(shard="shop-0"):
    """Return the binlogs of a server of the demo: name -> bytes, in order."""
    return {file.name: file.read_bytes() for file in sorted((RECORDED / shard).glob("mysql-bin.*"))}


def rotate(file, offset=4, *, checksum=False):
    """Return the ROTATE that a server sends before a file, or when a dump begins."""
    body = struct.pack("<Q", offset) + file.encode()
    event = (
        struct.pack("<IBIIIH", 0, EventType.ROTATE, 1, 19 + len(body) + 4 * checksum, 0, ARTIFICIAL) + body
    )
    return event + struct.pack("<I", zlib.crc32(event)) if checksum else event


def described(data):
    """Return the format description of a file as a server sends it when a dump begins inside."""
    event = events_of(data)[0]
    sent = event[:13] + bytes(4) + event[17:-4]
    has_checksum = zlib.crc32(event[:-4]) == int.from_bytes(event[-4:], "little")
    return sent + (struct.pack("<I", zlib.crc32(sent)) if has_checksum else event[-4:])


def dump(files, position=None):
    """Return the events that a dump sends from a position on, one by one."""
    names = list(files)
    name, offset = (names[0], 4) if position is None else (position.file, position.offset)
    sent = [rotate(name, offset)]
    if offset > 4:
        sent.append(described(files[name]))
    for each in names[names.index(name) :]:
        if each != name:
            sent.append(rotate(each, checksum=True))
        sent += events_of(MAGIC + files[each][offset if each == name else 4 :])
    return sent


def written(folder, files, *, keys=NO_KEYS, pack=True, server=SERVER):
    """Return an archive of files, the last of which is open."""
    archive = Archive(Disk(), folder, keys)
    with archive.lock(server):
        writer = ArchiveWriter(archive, server, sync_s=1.0, say=refuse)
        for event in dump(files):
            writer.append(event, 0.0)
        while pack and writer.upkeep.pack(1):
            pass
        writer.close()
    return archive


def refuse(sentence):
    raise AssertionError(sentence)


def content(history, name):
    """Return a file's bytes."""
    source = history.open(name)
    data = b""
    while more := source.read_at(len(data), 1 << 20):
        data += more
    source.close()
    return data


def boundaries(data):
    """Return the offsets of a file at which no transaction is open, after the format description."""
    scan = FileScan("file", "test")
    found = set()
    for event in events_of(data):
        scan.feed(event)
        if scan.offset == scan.whole_end:
            found.add(scan.offset)
    return found


def position_of(server):
    """Return file and offset of the end of a server's binlog."""
    try:
        row = server.execute("SHOW BINARY LOG STATUS")[0]
    except Exception:  # noqa: BLE001 - older servers, and MariaDB
        row = server.execute("SHOW MASTER STATUS")[0]
    return row[0], int(row[1])


def archive_up_to_now(archive, server, address):
    """Dump a server from where its archive ends; return the writer's position."""
    end = position_of(server)
    with contextlib.closing(DumpConnection(address)) as connection:
        identity, mariadb = connection.facts.identity, connection.facts.mariadb
        with archive.lock(identity):
            writer = ArchiveWriter(archive, identity, sync_s=0.0, say=refuse)
            position = writer.position
            begin = (
                (position.file, position.offset)
                if position
                else (server.execute("SHOW BINARY LOGS")[0][0], 4)
            )
            connection.register()
            packets = connection.request(dump_from(*begin, address.server_id, annotations=mariadb))
            while writer.position is None or (writer.position.file, writer.position.offset) != end:
                packet = packets.take()
                if packet is None:
                    packets.fill()
                    continue
                assert packet[0] == 0, packet
                writer.append(packet[1:], 0.0)
            while writer.upkeep.pack(8):
                pass
            writer.close()
            return writer.durable


def options_of(folder, key_file=None):
    """Return how readers find an archive."""
    return ArchiveOptions(str(folder), 1.0, 1 << 40, None, 0.99, 0.98, key_file, None)
