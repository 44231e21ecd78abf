"""Events: the header every event has, its checksum, and the bodies of the control events.

Control events say where the stream is and what was executed. Other events have modules of their own:
FORMAT_DESCRIPTION in `format_description`, GTIDs in `gtid_events`, TABLE_MAP in `table_map`, XA in `xa`, the
rows in `rows`.

Layouts: "Binlog Event" in MySQL's internals manual and `libs/mysql/binlog/event/` in its source;
"Replication Protocol" in MariaDB's knowledge base. All numbers are little-endian.
"""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple

from canal_group.binlog.charsets.statement_text import statement_text
from canal_group.binlog.formats.compression import unpack
from canal_group.binlog.formats.query_status import client_collation
from canal_group.merge.errors import CorruptEvent, UsageError
from canal_group.merge.values.position import file_order

HEADER_SIZE = 19
CHECKSUM_SIZE = 4
MAGIC = b"\xfebin"

#: flag bits of an event header
IN_USE_FLAG = 0x0001
#: of a QUERY: the statement concerns temporary tables of its session; servers also set it for any DROP TABLE
THREAD_SPECIFIC_FLAG = 0x0004
ARTIFICIAL_FLAG = 0x0020
RELAY_LOG_FLAG = 0x0040
#: a replica that does not know the event's type may skip it; the same bit on MySQL and MariaDB
IGNORABLE_FLAG = 0x0080

CHECKSUM_NONE = 0
CHECKSUM_CRC32 = 1

_HEADER = struct.Struct("<IBIIIH")
_U16 = struct.Struct("<H")
_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")


class Event(NamedTuple):
    """An event whose checksum was verified, with its file and offsets."""

    type: int
    #: seconds since 1970, see `EventHeader`
    timestamp: int
    server_id: int
    #: without header and checksum
    body: bytes
    file: str
    begin: int
    end: int
    #: of the header
    flags: int = 0


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


def header_of(data: bytes | memoryview) -> EventHeader:
    """Return the header in the first 19 bytes of an event, which may be incomplete."""
    return EventHeader._make(_HEADER.unpack_from(data))


def parse_header(event: bytes | memoryview) -> EventHeader:
    """Return an event's header.

    Raises:
        CorruptEvent: it has fewer than 19 bytes, or another size than its header says.
    """
    if len(event) < HEADER_SIZE:
        raise CorruptEvent(f"An event of {len(event)} bytes is shorter than its header.")
    header = header_of(event)
    if header.size != len(event):
        raise CorruptEvent(f"An event's header says {header.size} bytes, but the event has {len(event)}.")
    return header


def verify_checksum(event: bytes) -> None:
    """Check the CRC32 in an event's last four bytes.

    Raises:
        CorruptEvent: it is not that of the bytes before.
    """
    (expected,) = _U32.unpack_from(event, len(event) - CHECKSUM_SIZE)
    actual = zlib.crc32(memoryview(event)[:-CHECKSUM_SIZE])
    if actual != expected:
        raise CorruptEvent(f"Checksum {expected:#010x} does not fit the event's bytes ({actual:#010x}).")


class Rotate(NamedTuple):
    """ROTATE: the file and offset where the stream continues."""

    offset: int
    file: str


def parse_rotate(body: bytes) -> Rotate:
    """Return a ROTATE event's content.

    Args:
        body: the event without header and checksum.

    Raises:
        CorruptEvent: it is too short, or names no binlog file: a source could name any path.
    """
    try:
        rotate = Rotate(_U64.unpack_from(body)[0], body[8:].decode("utf-8"))
        file_order(rotate.file)
    except (struct.error, UnicodeDecodeError, UsageError) as error:
        why = error.message if isinstance(error, UsageError) else f"{error}."
        raise CorruptEvent(
            f"A ROTATE event cannot be read: {why}",
            hint="The bytes are damaged, or the server is not one to read from.",
        ) from error
    return rotate


class Query(NamedTuple):
    """QUERY: a statement's text, and what decides its meaning."""

    schema: str
    #: as its client's charset has it, see `canal_group.binlog.charsets.statement_text`
    sql: str
    #: the session's settings, see `canal_group.binlog.formats.query_status`
    status: bytes = b""
    #: number of the error with which the statement ended on the server; 0: no error
    error: int = 0
    #: flags of the event's header
    flags: int = 0
    #: number of the session
    session: int = 0
    #: whether it is about a temporary table, see `canal_group.binlog.statements.session_tables`
    temporary: bool = False


def parse_query(body: bytes, *, packed: bool = False, loads: bool = False, flags: int = 0) -> Query:
    """Return a QUERY event's schema and text, and its status variables as they are.

    Args:
        body: the event without header and checksum.
        packed: whether the text is packed: a QUERY_COMPRESSED event of MariaDB.
        loads: whether 13 bytes about a loaded file come before the status: an EXECUTE_LOAD_QUERY event.
        flags: those of the event's header.

    Raises:
        CorruptEvent: its lengths exceed the event, it cannot be unpacked, or its schema's name is not UTF-8.
        UnsupportedEvent: its client's charset is unknown.
    """
    schema_size = body[8]
    (error,), (status_size,) = _U16.unpack_from(body, 9), _U16.unpack_from(body, 11)
    status_at = 26 if loads else 13
    schema_at = status_at + status_size
    sql_at = schema_at + schema_size + 1
    if sql_at > len(body):
        raise CorruptEvent("A statement's lengths exceed its event.")
    sql = unpack(body[sql_at:]) if packed else body[sql_at:]
    status = body[status_at:schema_at]
    try:
        schema = body[schema_at : sql_at - 1].decode("utf-8")
    except UnicodeDecodeError as wrong:
        raise CorruptEvent("The name of a statement's schema is not UTF-8.") from wrong
    return Query(
        schema,
        statement_text(sql, client_collation(status)),
        status,
        error,
        flags,
        session=_U32.unpack_from(body)[0],
    )
