"""Status variables: the settings of a session that decide what its statements mean, in a QUERY event.

Each variable is a code byte and a value, whose size depends on the code. `VARIABLES` has all that the servers
write, and what each is used for, or why it cannot matter. Reading ends at an unknown code, as the
servers' own replicas do; servers write those that old replicas know first.

Layout: `Query_event` in MySQL's statement_events.h, `Query_log_event` in MariaDB's sql/log_event.h.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from canal_group.binlog.formats.byte_cursor import ByteCursor


@dataclass(frozen=True, slots=True)
class QueryStatus:
    """The settings of a session; None where the event does not say them."""

    #: bits, those that both vendors have with MySQL's numbers
    sql_mode: int = 0
    #: collation numbers of `character_set_client`, `collation_connection` and `collation_server`
    client_collation: int | None = None
    connection_collation: int | None = None
    server_collation: int | None = None
    explicit_defaults_for_timestamp: bool | None = None
    #: MySQL: the default collation of utf8mb4
    utf8mb4_collation: int | None = None
    #: MariaDB: the default collations of `character_set_collations`, each as a collation number
    collations: tuple[int, ...] = ()
    #: whether the statement has the number of a transaction in which definitions were changed
    took_effect: bool = False


_Take = Callable[[ByteCursor, QueryStatus], QueryStatus]


class Variable(NamedTuple):
    """One status variable."""

    name: str
    #: the variable's use here, or the reason why no statement's meaning depends on the variable
    meaning: str
    #: reads the value, and returns the settings with this value
    take: _Take


#: of the flags: MariaDB's `explicit_defaults_for_timestamp`
_EXPLICIT_FLAG = 1 << 24
#: the bits of the flags, and what each is used for, or why nothing here depends on it
FLAGS = {
    14: "sql_auto_is_null: of comparisons",
    19: "autocommit off: of commits, which are events of their own",
    24: "MariaDB: explicit_defaults_for_timestamp: whether a TIMESTAMP may be null",
    26: "foreign_key_checks off: a statement that succeeded has the same effect either way",
    27: "unique_checks off: of rows",
    28: "MariaDB: IF EXISTS is added on a replica: says nothing of what happened at the source",
    35: "MariaDB: system_versioning_insert_history: of rows",
}
#: of MariaDB's GTID flags: the second phase of an ALTER, whose first one has a number
_SECOND_PHASE = 0x04 | 0x08
#: number of schemas that stands for more than can be listed
_MANY_SCHEMAS = 254


def _number(cursor: ByteCursor, size: int) -> int:
    return int.from_bytes(cursor.take(size), "little")


def _flags(cursor: ByteCursor, status: QueryStatus) -> QueryStatus:
    return replace(status, explicit_defaults_for_timestamp=bool(_number(cursor, 4) & _EXPLICIT_FLAG))


def _sql_mode(cursor: ByteCursor, status: QueryStatus) -> QueryStatus:
    return replace(status, sql_mode=_number(cursor, 8))


def _charsets(cursor: ByteCursor, status: QueryStatus) -> QueryStatus:
    client, connection, server = (_number(cursor, 2) for _ in range(3))
    return replace(status, client_collation=client, connection_collation=connection, server_collation=server)


def _explicit(cursor: ByteCursor, status: QueryStatus) -> QueryStatus:
    return replace(status, explicit_defaults_for_timestamp=bool(cursor.u8()))


def _utf8mb4(cursor: ByteCursor, status: QueryStatus) -> QueryStatus:
    return replace(status, utf8mb4_collation=_number(cursor, 2))


def _collations(cursor: ByteCursor, status: QueryStatus) -> QueryStatus:
    pairs = [(_number(cursor, 2), _number(cursor, 2)) for _ in range(cursor.u8())]
    return replace(status, collations=tuple(collation for _, collation in pairs))


def _xid(cursor: ByteCursor, status: QueryStatus) -> QueryStatus:
    return replace(status, took_effect=bool(_number(cursor, 8)))


def _bytes(size: int) -> _Take:
    def take(cursor: ByteCursor, status: QueryStatus) -> QueryStatus:
        cursor.take(size)
        return status

    return take


def _catalog(cursor: ByteCursor, status: QueryStatus) -> QueryStatus:
    cursor.take(cursor.u8() + 1)
    return status


def _text(cursor: ByteCursor, status: QueryStatus) -> QueryStatus:
    cursor.take(cursor.u8())
    return status


def _texts(cursor: ByteCursor, status: QueryStatus) -> QueryStatus:
    return _text(cursor, _text(cursor, status))


def _schemas(cursor: ByteCursor, status: QueryStatus) -> QueryStatus:
    count = cursor.u8()
    for _ in range(0 if count == _MANY_SCHEMAS else count):
        while cursor.u8():
            pass
    return status


def _gtid_flags(cursor: ByteCursor, status: QueryStatus) -> QueryStatus:
    if cursor.u8() & _SECOND_PHASE:
        cursor.take(8)
    return status


_BOTH = {
    1: Variable("sql_mode", "quotes, escapes, names of types, what too long a column becomes", _sql_mode),
    2: Variable("catalog", "always `std`", _catalog),
    3: Variable("auto_increment", "of values", _bytes(4)),
    4: Variable("charset", "the statement's text, its literals, new schemas' default", _charsets),
    5: Variable("time_zone", "of values: no definition depends on it", _text),
    6: Variable("catalog", "always `std`", _text),
    7: Variable("lc_time_names", "names of months, of values", _bytes(2)),
    8: Variable("collation_database", "of LOAD DATA; the schema's own default is followed", _bytes(2)),
    9: Variable("tables of an update", "of triggers", _bytes(8)),
    10: Variable("master_data_written", "a number of bytes", _bytes(4)),
    11: Variable("invoker", "who defines views and routines", _texts),
    12: Variable("updated schemas", "of a replica's workers", _schemas),
    13: Variable("microseconds", "of the time", _bytes(3)),
}
_OF_MYSQL = {
    0: Variable("flags", "none of MySQL's matters, see FLAGS", _bytes(4)),
    14: Variable("commit time", "the GTID event has it", _bytes(8)),
    15: Variable("commit time of the replica", "the GTID event has it", _bytes(8)),
    16: Variable("explicit_defaults_for_timestamp", "whether a TIMESTAMP may be null", _explicit),
    17: Variable("xid of a definition", "whether the statement did something", _xid),
    18: Variable("default_collation_for_utf8mb4", "what utf8mb4 means without COLLATE", _utf8mb4),
    19: Variable("sql_require_primary_key", "refuses statements, which are then not logged", _bytes(1)),
    20: Variable("default_table_encryption", "of new schemas: nothing of rows", _bytes(1)),
}
_OF_MARIADB = {
    0: Variable("flags", "see FLAGS", _flags),
    128: Variable("microseconds", "of the time", _bytes(3)),
    129: Variable("xid of a definition", "whether the statement did something", _xid),
    130: Variable("GTID flags", "the two phases of an ALTER, which the GTID event has as well", _gtid_flags),
    131: Variable("character_set_collations", "what a charset means without COLLATE", _collations),
}
#: of each vendor (whether it is MariaDB), by code
VARIABLES = {False: {**_BOTH, **_OF_MYSQL}, True: {**_BOTH, **_OF_MARIADB}}


def parse_status(status: bytes, *, mariadb: bool) -> QueryStatus:
    """Return the settings in the status variables of a QUERY event.

    Args:
        status: the variables.
        mariadb: whether MariaDB wrote them.

    Raises:
        CorruptEvent: a value exceeds them.
    """
    cursor = ByteCursor(status, 0)
    variables = VARIABLES[mariadb]
    status_values = QueryStatus()
    while cursor:
        variable = variables.get(cursor.u8())
        if variable is None:
            break
        status_values = variable.take(cursor, status_values)
    return status_values


def client_collation(status: bytes) -> int | None:
    """Return `character_set_client` of a QUERY event, which servers write before what differs by vendor.

    Raises:
        CorruptEvent: a value exceeds the status variables.
    """
    return parse_status(status, mariadb=False).client_collation
