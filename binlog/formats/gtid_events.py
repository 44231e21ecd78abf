"""GTID events: what each kind says about the transaction that follows it.

Layouts: `Gtid_event` in MySQL's control_events.h, `Gtid_log_event` in MariaDB's log_event.h.

GTID_TAGGED events are messages of numbered fields, which `Fields` reads. A message holds its version, its
size and the id of the last field that a reader must understand; then, in the order of ids, the id and value
of each field. Every number has a variable length: the trailing one bits of its first byte count the bytes
that follow, the other bits are the value, the lowest first. Signed numbers keep their sign in the lowest bit.
A text is its length and its bytes; an array of fixed length is its elements.

Layout: `libs/mysql/serialization/` in MySQL's source (readme and `variable_length_integers.h`).
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple, TypeVar

from canal_group.binlog.formats.event_types import EventType
from canal_group.merge.errors import CorruptEvent, UnsupportedEvent
from canal_group.merge.values.header import origin_source

_VERSION = 1
_LONGEST = 8
_T = TypeVar("_T", int, bytes)


class Fields:
    """Reads the fields of one message; the caller of `ids` reads each field's value before the next id.

    Raises:
        CorruptEvent: from any method, if the message ends inside a value.
        UnsupportedEvent: on construction, if the message has another version.
    """

    def __init__(self, message: bytes) -> None:
        self._data = message
        self._at = 0
        self._end = len(message)
        version = self.unsigned()
        if version != _VERSION:
            raise UnsupportedEvent(f"Version {version} of MySQL's serialization format is not supported.")
        size = self.unsigned()
        if size > self._end:
            raise CorruptEvent(f"A message says {size} bytes, but has {self._end}.")
        self._end = size
        self._must_be_known = self.unsigned()

    def ids(self, known_max: int) -> Iterator[int]:
        """Yield the ids of the fields up to `known_max`; skip the later ones if that is allowed.

        Raises:
            UnsupportedEvent: a later field must be understood.
            CorruptEvent: the ids do not grow.
        """
        last = -1
        while self._at < self._end:
            number = self.unsigned()
            if number <= last:
                raise CorruptEvent(f"Field {number} comes after field {last}.")
            if number > known_max:
                if number <= self._must_be_known:
                    raise UnsupportedEvent(f"Field {number} of a GTID is not known, but must be understood.")
                return
            last = number
            yield number

    def unsigned(self) -> int:
        """Return a number without sign."""
        first = self._take(1)[0]
        more = (~first & (first + 1)).bit_length() - 1
        value = int.from_bytes(self._take(more), "little")
        return value if more == _LONGEST else (value << 8 | first) >> (more + 1)

    def signed(self) -> int:
        """Return a number with sign."""
        folded = self.unsigned()
        return folded >> 1 ^ -(folded & 1)

    def byte(self) -> int:
        """Return a number that fits a byte."""
        value = self.unsigned()
        if value > 0xFF:  # noqa: PLR2004
            raise CorruptEvent(f"A number is {value}, but must fit a byte.")
        return value

    def text(self) -> str:
        """Return a text."""
        return self._take(self.unsigned()).decode("utf-8")

    @staticmethod
    def require(value: _T, name: str) -> _T:
        """Return a value, which must have been among the fields.

        Raises:
            CorruptEvent: it was not.
        """
        if not value:
            raise CorruptEvent(f"A GTID lacks its {name}.")
        return value

    def _take(self, size: int) -> bytes:
        begin, self._at = self._at, self._at + size
        if self._at > self._end:
            raise CorruptEvent("A message ends inside a field.")
        return self._data[begin : self._at]


class Alter(Enum):
    """A part of an ALTER that MariaDB logs in two phases (`binlog_alter_two_phase`)."""

    START = "start"
    COMMIT = "commit"
    ROLLBACK = "rollback"


class TransactionStart(NamedTuple):
    """What a GTID event of either server says about the transaction that follows it."""

    #: "uuid", "uuid:tag", "domain-server"; without GTID `origin_source` of the server that committed first,
    #: if `commit_us` is the time of that commit, else ""
    source: str
    number: int
    #: commit time in microseconds since 1970; 0 where the server wrote none
    commit_us: int
    #: BEGIN is implied (MariaDB); else no BEGIN and no COMMIT follow: a statement on its own
    implied_begin: bool = False
    #: the rows that follow are prepared under an xid, not committed (MariaDB)
    prepares_xa: bool = False
    #: which part of an ALTER in two phases follows; None if none does
    alter: Alter | None = None


def parse_start(event_type: int, body: bytes, server_id: int, *, original: bool = False) -> TransactionStart:
    """Return the content of a GTID event of any kind.

    Args:
        event_type: GTID, GTID_TAGGED, ANONYMOUS_GTID or MARIADB_GTID.
        body: the event without header and checksum.
        server_id: as the event's header says: the server that committed the transaction first.
        original: whether the original server's commit time is returned, as far as it is in the event; 0 if
            the original server wrote none.

    Raises:
        CorruptEvent, UnsupportedEvent: see the functions for each.
    """
    match event_type:
        case EventType.MARIADB_GTID:
            return parse_mariadb_gtid(body, server_id)
        case EventType.GTID_TAGGED:
            return parse_tagged_gtid(body, original=original)
        case _:
            return parse_mysql_gtid(
                body, server_id, anonymous=event_type == EventType.ANONYMOUS_GTID, original=original
            )


_LOGICAL_CLOCK_AT = 25
_COMMIT_AT = _LOGICAL_CLOCK_AT + 1 + 16
_LOGICAL_CLOCK = 2
_COMMIT_BYTES = 7
_HAS_ORIGINAL = 1 << 55
_NUMBER_END = 1 << 63


def parse_mysql_gtid(
    body: bytes, server_id: int = 0, *, anonymous: bool, original: bool = False
) -> TransactionStart:
    """Return the content of a GTID or ANONYMOUS_GTID event.

    Body: flags u8, uuid 16, number i64, then from 5.7 on the logical clock (type byte 2, two i64) and from
    8.0.1 on `immediate_commit_timestamp`: 7 bytes of microseconds whose highest bit says that the original
    server's commit time follows in another 7. The immediate one is this server's.

    Args:
        body: the event without header and checksum.
        server_id: of the server that committed the transaction first.
        anonymous: whether it has no GTID.
        original: whether the original server's commit time is returned, else this server's.

    Raises:
        CorruptEvent: it lacks the original server's commit time.
    """
    number = 0 if anonymous else struct.unpack_from("<q", body, 17)[0]
    source = "" if anonymous else str(uuid.UUID(bytes=body[1:17]))
    at = _COMMIT_AT + _COMMIT_BYTES
    if len(body) < at or body[_LOGICAL_CLOCK_AT] != _LOGICAL_CLOCK:
        return TransactionStart(source, number, 0)
    stamp = int.from_bytes(body[_COMMIT_AT:at], "little")
    commit_us = stamp & ~_HAS_ORIGINAL
    if stamp & _HAS_ORIGINAL and original:
        if len(body) < at + _COMMIT_BYTES:
            raise CorruptEvent("The original server's commit time is missing.")
        commit_us = int.from_bytes(body[at : at + _COMMIT_BYTES], "little")
    if anonymous and (original or not stamp & _HAS_ORIGINAL):
        source = origin_source(server_id)
    return TransactionStart(source, number, commit_us)


class _Tagged:
    """Field ids of a GTID_TAGGED event; a reader of rows does not need the ids after `ORIGINAL_COMMIT`."""

    FLAGS, UUID, NUMBER, TAG, LAST_COMMITTED, SEQUENCE_NUMBER, COMMIT, ORIGINAL_COMMIT = range(8)


def parse_tagged_gtid(body: bytes, *, original: bool = False) -> TransactionStart:
    """Return the content of a GTID_TAGGED event (MySQL from 8.3 on), in the format of `serialization`.

    The original server's commit time is a field only if it is not this server's.

    Args:
        body: the event without header and checksum.
        original: whether the original server's commit time is returned, else this server's.

    Raises:
        CorruptEvent: it ends inside a field, or lacks uuid or number.
        UnsupportedEvent: it holds an unknown field that must be understood.
    """
    fields = Fields(body)
    source, tag, number = b"", "", 0
    times_us: dict[int, int] = {}
    for field in fields.ids(known_max=_Tagged.ORIGINAL_COMMIT):
        match field:
            case _Tagged.FLAGS:
                fields.byte()
            case _Tagged.UUID:
                source = bytes(fields.byte() for _ in range(16))
            case _Tagged.NUMBER:
                number = fields.signed()
            case _Tagged.TAG:
                tag = fields.text()
            case _Tagged.COMMIT | _Tagged.ORIGINAL_COMMIT:
                times_us[field] = fields.unsigned()
            case _:
                fields.signed()
    largest_us = max(times_us.values(), default=0)
    if largest_us >= _HAS_ORIGINAL:
        raise CorruptEvent(f"Commit time {largest_us} exceeds the largest possible one.")
    commit_us = times_us.get(_Tagged.COMMIT, 0)
    if original:
        commit_us = times_us.get(_Tagged.ORIGINAL_COMMIT, commit_us)
    name = str(uuid.UUID(bytes=fields.require(source, "uuid")))
    return TransactionStart(f"{name}:{tag}" if tag else name, fields.require(number, "number"), commit_us)


_STANDALONE = 0x01
_GROUP_COMMIT_ID = 0x02
_PREPARED_XA = 0x40
_COMPLETED_XA = 0x80
_ALTERS = {0x02: Alter.START, 0x04: Alter.COMMIT, 0x08: Alter.ROLLBACK}


def parse_mariadb_gtid(body: bytes, server_id: int) -> TransactionStart:
    """Return the content of a MariaDB GTID event.

    Body: sequence u64, domain u32, flags u8, then as flags say a group commit's id u64 and an xid
    (format u32, sizes u8 and u8, bytes), then from 10.8 on further flags u8; padded with zeros to 19 bytes.
    It carries no commit time: use the seconds of the event's header.

    Raises:
        CorruptEvent: the sequence number is too large.
    """
    sequence, domain, flags = struct.unpack_from("<QIB", body)
    if sequence >= _NUMBER_END:
        raise CorruptEvent(f"GTID number {sequence} exceeds the largest possible one.")
    at = 13 + 8 if flags & _GROUP_COMMIT_ID else 13
    if flags & (_PREPARED_XA | _COMPLETED_XA):
        at += 6 + body[at + 4] + body[at + 5]
    extra = body[at] if len(body) > at else 0
    return TransactionStart(
        f"{domain}-{server_id}",
        sequence,
        commit_us=0,
        implied_begin=not flags & _STANDALONE,
        prepares_xa=bool(flags & _PREPARED_XA),
        alter=next((part for bit, part in _ALTERS.items() if extra & bit), None),
    )
