"""Status variables: the settings of a session that decide what its statements mean, in a QUERY event.

Each variable is a code byte and a value, whose size depends on the code. Reading ends at a code that is not
known, as the servers' own replicas do; servers write those that old replicas know first.

Layout: `Query_event` in MySQL's statement_events.h, `Query_log_event` in MariaDB's sql/log_event.h.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from actors.parse.formats.byte_cursor import ByteCursor

_FLAGS, _SQL_MODE, _CHARSETS, _UPDATED_SCHEMAS, _INVOKER = 0, 1, 4, 12, 11
_EXPLICIT_TIMESTAMPS, _UTF8MB4 = 16, 18
_GTID_FLAGS, _COLLATIONS = 130, 131
#: of MariaDB's GTID flags: the second phase of an ALTER, whose first one is named by a number
_SECOND_PHASE = 0x04 | 0x08
#: of MariaDB's flags: `explicit_defaults_for_timestamp`
_EXPLICIT_FLAG = 1 << 24
#: number of schemas that stands for more than can be listed
_MANY_SCHEMAS = 254

#: code -> bytes of its value
_SIZES = {
    3: 4,  # steps of auto_increment
    7: 2,  # names of months
    8: 2,  # collation_database
    9: 8,  # tables of an update
    10: 4,  # bytes
    13: 3,  # microseconds
    14: 8,  # commit time
    15: 8,  # commit time of the replica
    17: 8,  # xid
    19: 1,  # sql_require_primary_key
    20: 1,  # default_table_encryption
    128: 3,  # microseconds
    129: 8,  # xid
}


def _skip_catalog(cursor: ByteCursor) -> None:
    cursor.take(cursor.u8() + 1)


def _skip_text(cursor: ByteCursor) -> None:
    cursor.take(cursor.u8())


def _skip_invoker(cursor: ByteCursor) -> None:
    _skip_text(cursor)
    _skip_text(cursor)


def _skip_schemas(cursor: ByteCursor) -> None:
    count = cursor.u8()
    for _ in range(0 if count == _MANY_SCHEMAS else count):
        while cursor.u8():
            pass


def _skip_gtid_flags(cursor: ByteCursor) -> None:
    if cursor.u8() & _SECOND_PHASE:
        cursor.take(8)


_SKIPPED: dict[int, Callable[[ByteCursor], None]] = {
    2: _skip_catalog,
    5: _skip_text,
    6: _skip_text,
    _INVOKER: _skip_invoker,
    _UPDATED_SCHEMAS: _skip_schemas,
    _GTID_FLAGS: _skip_gtid_flags,
}


@dataclass(frozen=True, slots=True)
class QueryStatus:
    """The settings of a session; None where the event does not say them."""

    #: bits, those that both vendors have with MySQL's numbers
    sql_mode: int = 0
    #: collation number
    server_collation: int | None = None
    explicit_defaults_for_timestamp: bool | None = None
    #: MySQL: the default collation of utf8mb4
    utf8mb4_collation: int | None = None
    #: MariaDB: the default collations of `character_set_collations`, each as a collation number
    collations: tuple[int, ...] = ()


def parse_status(status: bytes, *, mariadb: bool) -> QueryStatus:
    """Return the settings in the status variables of a QUERY event.

    Args:
        status: the variables.
        mariadb: whether MariaDB wrote them.

    Raises:
        CorruptEvent: a value exceeds them.
    """
    cursor = ByteCursor(status, 0)
    found: dict[str, object] = {}
    while cursor and _read(cursor, found, mariadb=mariadb):
        pass
    return QueryStatus(**found)  # type: ignore[arg-type]  # `_read` gives each its type


def _read(cursor: ByteCursor, found: dict[str, object], *, mariadb: bool) -> bool:
    """Read one variable; return whether its code is known."""
    code = cursor.u8()
    match code:
        case _ if code == _FLAGS:
            flags = int.from_bytes(cursor.take(4), "little")
            if mariadb:
                found["explicit_defaults_for_timestamp"] = bool(flags & _EXPLICIT_FLAG)
        case _ if code == _SQL_MODE:
            found["sql_mode"] = int.from_bytes(cursor.take(8), "little")
        case _ if code == _CHARSETS:
            found["server_collation"] = int.from_bytes(cursor.take(6)[4:], "little")
        case _ if code == _EXPLICIT_TIMESTAMPS and not mariadb:
            found["explicit_defaults_for_timestamp"] = bool(cursor.u8())
        case _ if code == _UTF8MB4 and not mariadb:
            found["utf8mb4_collation"] = int.from_bytes(cursor.take(2), "little")
        case _ if code == _COLLATIONS and mariadb:
            pairs = [cursor.take(4) for _ in range(cursor.u8())]
            found["collations"] = tuple(int.from_bytes(pair[2:], "little") for pair in pairs)
        case _ if code in _SIZES:
            cursor.take(_SIZES[code])
        case _ if code in _SKIPPED:
            _SKIPPED[code](cursor)
        case _:
            return False
    return True
