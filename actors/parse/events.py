"""Events: the header every event has, its checksum, and the bodies of the control events.

Control events say where the stream is and where transactions begin and end. The two that describe rows are
elsewhere: TABLE_MAP in `table_map`, the rows themselves in `rows`.

Layouts: "Binlog Event" in MySQL's internals manual and `libs/mysql/binlog/event/` in its source;
"Replication Protocol" in MariaDB's knowledge base. All numbers are little-endian.
"""

from __future__ import annotations

import struct
import uuid
import zlib
from dataclasses import dataclass
from typing import NamedTuple

from merge.errors import CorruptEvent, UnsupportedEvent

HEADER_SIZE = 19
CHECKSUM_SIZE = 4
MAGIC = b"\xfebin"

#: flag bits of an event header
IN_USE_FLAG = 0x0001
ARTIFICIAL_FLAG = 0x0020

CHECKSUM_NONE = 0
CHECKSUM_CRC32 = 1

_HEADER = struct.Struct("<IBIIIH")
_U16 = struct.Struct("<H")
_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")


class EventHeader(NamedTuple):
    """The 19 bytes before every event's body."""

    #: when the statement began, seconds since 1970; 0 in events made for this reader only
    timestamp: int
    event_type: int
    server_id: int
    #: header, body and checksum
    size: int
    #: where the next event begins, modulo 2**32; 0 in events that are not in the file
    log_pos: int
    flags: int


def parse_header(event: bytes) -> EventHeader:
    """Return an event's header.

    Raises:
        CorruptEvent: fewer than 19 bytes, or another size than the header says.
    """
    if len(event) < HEADER_SIZE:
        raise CorruptEvent(f"An event of {len(event)} bytes is shorter than its header.")
    header = EventHeader._make(_HEADER.unpack_from(event))
    if header.size != len(event):
        raise CorruptEvent(f"An event says {header.size} bytes and has {len(event)}.")
    return header


def verify_checksum(event: bytes) -> None:
    """Check the CRC32 in an event's last four bytes.

    Raises:
        CorruptEvent: it is another one than that of the bytes before.
    """
    (expected,) = _U32.unpack_from(event, len(event) - CHECKSUM_SIZE)
    found = zlib.crc32(memoryview(event)[:-CHECKSUM_SIZE])
    if found != expected:
        raise CorruptEvent(f"Checksum {expected:#010x} does not fit the event's bytes ({found:#010x}).")


@dataclass(frozen=True, slots=True)
class FormatDescription:
    """FORMAT_DESCRIPTION: how the events that follow are written."""

    server_version: str
    #: 0 none, 1 CRC32
    checksum: int
    #: per event type, from type 1
    post_header_sizes: bytes

    @property
    def mariadb(self) -> bool:
        """Whether a MariaDB server wrote the file."""
        return "mariadb" in self.server_version.lower()


def parse_format_description(event: bytes) -> FormatDescription:
    """Return a FORMAT_DESCRIPTION event's content and check its checksum.

    The event always ends in one byte that names the checksum of the events that follow, and in four bytes of
    its own checksum; these count only if that byte says CRC32. They were computed while the file was not in
    use: the header's in-use flag is not part of it.

    Raises:
        CorruptEvent: it is too short, or its checksum does not fit.
        UnsupportedEvent: a binlog version other than 4, or an unknown checksum.
    """
    body = event[HEADER_SIZE:]
    if len(body) < 2 + 50 + 4 + 1 + 1 + CHECKSUM_SIZE:
        raise CorruptEvent(f"A format description of {len(body)} bytes is too short.")
    (version,) = _U16.unpack_from(body)
    if version != 4 or body[56] != HEADER_SIZE:  # noqa: PLR2004 - the version of every server since 5.0
        raise UnsupportedEvent(f"Binlog version {version} is not read.", hint="Expected version 4.")
    checksum = body[-1 - CHECKSUM_SIZE]
    if checksum not in (CHECKSUM_NONE, CHECKSUM_CRC32):
        raise UnsupportedEvent(
            f"Checksum algorithm {checksum} is not known.", hint="SET GLOBAL binlog_checksum = CRC32;"
        )
    if checksum == CHECKSUM_CRC32:
        at_rest = bytearray(event)
        at_rest[17] &= ~IN_USE_FLAG & 0xFF
        verify_checksum(bytes(at_rest))
    return FormatDescription(
        server_version=body[2:52].split(b"\0", 1)[0].decode("ascii", "replace"),
        checksum=checksum,
        post_header_sizes=body[57 : -1 - CHECKSUM_SIZE],
    )


class Rotate(NamedTuple):
    """ROTATE: where the stream goes on."""

    offset: int
    file: str


def parse_rotate(body: bytes) -> Rotate:
    """Return a ROTATE event's content."""
    return Rotate(_U64.unpack_from(body)[0], body[8:].decode("utf-8"))


class Query(NamedTuple):
    """QUERY: a statement's text."""

    schema: str
    sql: str


def parse_query(body: bytes) -> Query:
    """Return a QUERY event's schema and text; status variables are passed over.

    Raises:
        CorruptEvent: its lengths do not fit.
    """
    schema_size = body[8]
    (status_size,) = _U16.unpack_from(body, 11)
    schema_at = 13 + status_size
    sql_at = schema_at + schema_size + 1
    if sql_at > len(body):
        raise CorruptEvent("A statement's lengths exceed its event.")
    return Query(
        body[schema_at : sql_at - 1].decode("utf-8", "replace"), body[sql_at:].decode("utf-8", "replace")
    )


class TransactionStart(NamedTuple):
    """What a GTID event of either server says of the transaction behind it."""

    #: "uuid", "domain-server", or "" for a transaction without GTID
    source: str
    number: int
    #: commit time in microseconds since 1970; 0 where the server wrote none
    commit_us: int
    #: no BEGIN and no COMMIT follow: a statement on its own (MariaDB)
    standalone: bool
    #: BEGIN is implied (MariaDB)
    implied_begin: bool
    #: an XA transaction's prepare or completion (MariaDB)
    xa: bool = False
    #: a part of an ALTER logged in two phases (MariaDB)
    split_alter: bool = False


_GTID_LOGICAL_CLOCK_AT = 25
_GTID_COMMIT_AT = _GTID_LOGICAL_CLOCK_AT + 1 + 16
_LOGICAL_CLOCK = 2
_COMMIT_BYTES = 7
_HAS_ORIGINAL = 1 << 55


def parse_mysql_gtid(body: bytes, *, anonymous: bool) -> TransactionStart:
    """Return the content of a GTID or ANONYMOUS_GTID event.

    Body: flags u8, uuid 16, number i64, then from 5.7 on the logical clock (type byte 2, two i64) and from
    8.0.1 on `immediate_commit_timestamp`: 7 bytes of microseconds whose highest bit says that the original
    server's commit time follows in another 7. The immediate one is this server's and is the one that counts.
    """
    number = 0 if anonymous else struct.unpack_from("<q", body, 17)[0]
    source = "" if anonymous else str(uuid.UUID(bytes=body[1:17]))
    commit_us = 0
    if len(body) >= _GTID_COMMIT_AT + _COMMIT_BYTES and body[_GTID_LOGICAL_CLOCK_AT] == _LOGICAL_CLOCK:
        stamp = int.from_bytes(body[_GTID_COMMIT_AT : _GTID_COMMIT_AT + _COMMIT_BYTES], "little")
        commit_us = stamp & ~_HAS_ORIGINAL
    return TransactionStart(source, number, commit_us, standalone=False, implied_begin=False)


_STANDALONE = 0x01
_GROUP_COMMIT_ID = 0x02
_PREPARED_XA = 0x40
_COMPLETED_XA = 0x80
_EXTRA_SPLIT_ALTER = 0x02 | 0x04 | 0x08


def parse_mariadb_gtid(body: bytes, server_id: int) -> TransactionStart:
    """Return the content of a MariaDB GTID event.

    Body: sequence u64, domain u32, flags u8, then as flags say a group commit's id u64 and an XA's name, then
    from 10.8 on further flags u8; padded with zeros to 19 bytes. It carries no commit time: the header's
    seconds count.
    """
    sequence, domain, flags = struct.unpack_from("<QIB", body)
    xa = bool(flags & (_PREPARED_XA | _COMPLETED_XA))
    extra_at = 13 + 8 if flags & _GROUP_COMMIT_ID else 13
    extra = body[extra_at] if not xa and len(body) > extra_at else 0
    return TransactionStart(
        f"{domain}-{server_id}",
        sequence,
        commit_us=0,
        standalone=bool(flags & _STANDALONE),
        implied_begin=not flags & _STANDALONE,
        xa=xa,
        split_alter=bool(extra & _EXTRA_SPLIT_ALTER),
    )
