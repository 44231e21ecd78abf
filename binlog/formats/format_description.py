"""Format descriptions: the event that opens every binlog file and defines the format of the other events.

Body: binlog version u16, the server's version in 50 bytes, created u32, size of an event header u8, and for
each event type, from type 1 on, the size of its fixed part. Servers that know checksums (MySQL from 5.6.1,
MariaDB from 5.3) append a byte for the algorithm and the event's own checksum of four bytes, which is valid
only if the algorithm is CRC32. Older servers append nothing.

Layout: `Format_description_event` in MySQL's control_events.h, `Format_description_log_event` in MariaDB's
log_event.h.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

from canal_group.binlog.formats.events import (
    CHECKSUM_CRC32,
    CHECKSUM_NONE,
    CHECKSUM_SIZE,
    HEADER_SIZE,
    IN_USE_FLAG,
    verify_checksum,
)
from canal_group.merge.errors import CorruptEvent, UnsupportedEvent

_BINLOG_VERSION = 4
_SIZES_AT = 2 + 50 + 4 + 1
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")
_CHECKSUMS_SINCE = {False: (5, 6, 1), True: (5, 3, 0)}
#: MySQL's first release with commit microseconds in its GTID events
_MICROSECONDS_SINCE = (8, 0, 1)
#: algorithm that a replica writes whose source is older than checksums
_CHECKSUM_UNDEFINED = 255
#: first of MariaDB's own types; a build of MariaDB under another name has them too
_MARIADB_TYPES = 160


@dataclass(frozen=True, slots=True)
class FormatDescription:
    """FORMAT_DESCRIPTION: the format of the events that follow."""

    server_version: str
    #: 0 none, 1 CRC32
    checksum: int
    #: per event type, from type 1
    post_header_sizes: bytes

    @property
    def mariadb(self) -> bool:
        """Whether a MariaDB server wrote the file: its version says so, or it knows types of MariaDB only."""
        return "mariadb" in self.server_version.lower() or len(self.post_header_sizes) >= _MARIADB_TYPES

    @property
    def whole_seconds(self) -> bool:
        """Whether the server stamps commits in whole seconds only."""
        return self.mariadb or version_number(self.server_version) < _MICROSECONDS_SINCE

    def post_header_size(self, event_type: int) -> int:
        """Return the size of an event type's fixed part.

        Raises:
            CorruptEvent: the server that wrote the file does not know the type.
        """
        if not 0 < event_type <= len(self.post_header_sizes):
            raise CorruptEvent(
                f"The format description of {self.server_version} does not know type {event_type}."
            )
        return self.post_header_sizes[event_type - 1]


def version_number(text: str) -> tuple[int, int, int]:
    """Return a server's version as three numbers; zeros if it has none."""
    match = _VERSION.match(text)
    return (int(match[1]), int(match[2]), int(match[3])) if match else (0, 0, 0)


def parse_format_description(event: bytes) -> FormatDescription:
    """Return a FORMAT_DESCRIPTION event's content and check its checksum.

    The checksum is computed with the header's in-use flag cleared.

    Raises:
        CorruptEvent: it is too short, or its checksum is wrong.
        UnsupportedEvent: a binlog version other than 4, event headers of another size than 19 bytes, or an
            unknown checksum algorithm.
    """
    body = event[HEADER_SIZE:]
    if len(body) < _SIZES_AT:
        raise CorruptEvent(f"A format description of {len(body)} bytes is too short.")
    (version,) = struct.unpack_from("<H", body)
    if version != _BINLOG_VERSION:
        raise UnsupportedEvent(f"Binlog version {version} is not supported.", hint="Expected version 4.")
    header_size = body[_SIZES_AT - 1]
    if header_size != HEADER_SIZE:
        raise UnsupportedEvent(
            f"Event headers of {header_size} bytes are not supported.",
            hint=f"Servers write {HEADER_SIZE} bytes: the file is damaged here, or of an unknown server.",
        )
    server_version = body[2:52].split(b"\0", 1)[0].decode("ascii", "replace")
    since = _CHECKSUMS_SINCE["mariadb" in server_version.lower()]
    if version_number(server_version) < since:
        return FormatDescription(server_version, CHECKSUM_NONE, body[_SIZES_AT:])
    if len(body) < _SIZES_AT + 1 + CHECKSUM_SIZE:
        raise CorruptEvent(f"A format description of {len(body)} bytes is too short.")
    return FormatDescription(server_version, _checksum(event), body[_SIZES_AT : -1 - CHECKSUM_SIZE])


def _checksum(event: bytes) -> int:
    checksum = event[-1 - CHECKSUM_SIZE]
    if checksum in (CHECKSUM_NONE, _CHECKSUM_UNDEFINED):
        return CHECKSUM_NONE
    if checksum != CHECKSUM_CRC32:
        raise UnsupportedEvent(
            f"Checksum algorithm {checksum} is not known.", hint="SET GLOBAL binlog_checksum = CRC32;"
        )
    at_rest = bytearray(event)
    at_rest[17] &= ~IN_USE_FLAG & 0xFF
    verify_checksum(bytes(at_rest))
    return checksum
