"""Event types: every number a binlog may hold, and what this reader does with it.

A type is handled (see `binlog_decoder`), skipped on purpose with its reason, or refused with a hint. A type
that is not listed here is refused, unless the server marked the event as one that a reader may ignore
(`IGNORABLE_FLAG`); such events are counted.

Numbers: `mysql::binlog::event::Log_event_type` in MySQL's binlog_event.h (0-42), `enum Log_event_type` in
MariaDB's log_event.h (160-172). Aurora's padding is in no public header; it was seen in Aurora's binlogs.
"""

from __future__ import annotations

from enum import IntEnum
from functools import cache


class EventType(IntEnum):
    """Type byte of an event header."""

    UNKNOWN = 0
    START_V3 = 1
    QUERY = 2
    STOP = 3
    ROTATE = 4
    INTVAR = 5
    LOAD = 6
    SLAVE = 7
    CREATE_FILE = 8
    APPEND_BLOCK = 9
    EXEC_LOAD = 10
    DELETE_FILE = 11
    NEW_LOAD = 12
    RAND = 13
    USER_VAR = 14
    FORMAT_DESCRIPTION = 15
    XID = 16
    BEGIN_LOAD_QUERY = 17
    EXECUTE_LOAD_QUERY = 18
    TABLE_MAP = 19
    PRE_GA_WRITE_ROWS = 20
    PRE_GA_UPDATE_ROWS = 21
    PRE_GA_DELETE_ROWS = 22
    WRITE_ROWS_V1 = 23
    UPDATE_ROWS_V1 = 24
    DELETE_ROWS_V1 = 25
    INCIDENT = 26
    HEARTBEAT = 27
    IGNORABLE = 28
    ROWS_QUERY = 29
    WRITE_ROWS = 30
    UPDATE_ROWS = 31
    DELETE_ROWS = 32
    GTID = 33
    ANONYMOUS_GTID = 34
    PREVIOUS_GTIDS = 35
    TRANSACTION_CONTEXT = 36
    VIEW_CHANGE = 37
    XA_PREPARE = 38
    PARTIAL_UPDATE_ROWS = 39
    TRANSACTION_PAYLOAD = 40
    HEARTBEAT_V2 = 41
    GTID_TAGGED = 42
    AURORA_PADDING = 100
    MARIADB_ANNOTATE_ROWS = 160
    MARIADB_BINLOG_CHECKPOINT = 161
    MARIADB_GTID = 162
    MARIADB_GTID_LIST = 163
    MARIADB_START_ENCRYPTION = 164
    MARIADB_QUERY_COMPRESSED = 165
    MARIADB_WRITE_ROWS_COMPRESSED_V1 = 166
    MARIADB_UPDATE_ROWS_COMPRESSED_V1 = 167
    MARIADB_DELETE_ROWS_COMPRESSED_V1 = 168
    MARIADB_WRITE_ROWS_COMPRESSED = 169
    MARIADB_UPDATE_ROWS_COMPRESSED = 170
    MARIADB_DELETE_ROWS_COMPRESSED = 171
    MARIADB_PARTIAL_ROW_DATA = 172


#: all numbers that have a name here
KNOWN = frozenset(map(int, EventType))
#: version-1 rows events: the same body without the extra data that version 2 may carry
ROWS_V1 = frozenset({EventType.WRITE_ROWS_V1, EventType.UPDATE_ROWS_V1, EventType.DELETE_ROWS_V1})
ROWS_V2 = frozenset({EventType.WRITE_ROWS, EventType.UPDATE_ROWS, EventType.DELETE_ROWS})
ROWS = ROWS_V1 | ROWS_V2 | {EventType.PARTIAL_UPDATE_ROWS}
WRITES = frozenset({EventType.WRITE_ROWS, EventType.WRITE_ROWS_V1})
UPDATES = frozenset({EventType.UPDATE_ROWS, EventType.UPDATE_ROWS_V1, EventType.PARTIAL_UPDATE_ROWS})

#: rows events of MariaDB whose images are packed -> the type they are unpacked to
UNPACKED_ROWS: dict[int, EventType] = {
    EventType.MARIADB_WRITE_ROWS_COMPRESSED_V1: EventType.WRITE_ROWS_V1,
    EventType.MARIADB_UPDATE_ROWS_COMPRESSED_V1: EventType.UPDATE_ROWS_V1,
    EventType.MARIADB_DELETE_ROWS_COMPRESSED_V1: EventType.DELETE_ROWS_V1,
    EventType.MARIADB_WRITE_ROWS_COMPRESSED: EventType.WRITE_ROWS,
    EventType.MARIADB_UPDATE_ROWS_COMPRESSED: EventType.UPDATE_ROWS,
    EventType.MARIADB_DELETE_ROWS_COMPRESSED: EventType.DELETE_ROWS,
}

#: types that change nothing for a reader of rows, each with the reason why
SKIPPED: dict[int, str] = {
    EventType.STOP: "the server shut down here; the next file follows",
    EventType.INTVAR: "an input of a statement, and statements that change rows are refused",
    EventType.RAND: "an input of a statement, and statements that change rows are refused",
    EventType.USER_VAR: "an input of a statement, and statements that change rows are refused",
    EventType.IGNORABLE: "declared without effect by the server that wrote it",
    EventType.ROWS_QUERY: "the text of the statement whose rows follow",
    EventType.PREVIOUS_GTIDS: "what the files before this one hold; positions carry their own set",
    EventType.TRANSACTION_CONTEXT: "group replication's certification data",
    EventType.VIEW_CHANGE: "group replication's membership",
    EventType.AURORA_PADDING: "fills space in Aurora's storage and holds nothing",
    EventType.MARIADB_ANNOTATE_ROWS: "the text of the statement whose rows follow",
    EventType.MARIADB_BINLOG_CHECKPOINT: "which files the server needs for its own crash recovery",
    EventType.MARIADB_GTID_LIST: "what the files before this one hold; positions carry their own set",
    EventType.MARIADB_START_ENCRYPTION: "concerns files, which are refused; sent events are decrypted",
}

#: types that hold the data of a statement, whose own text comes in EXECUTE_LOAD_QUERY
STATEMENT_INPUTS = frozenset({EventType.BEGIN_LOAD_QUERY, EventType.APPEND_BLOCK, EventType.DELETE_FILE})

_STATEMENTS_HINT = (
    "Set binlog_format=ROW globally and in every session, and start after the statements already logged. "
    "MariaDB always logs statements if a table is system-versioned by transaction ids (BIGINT): "
    "give it a period of TIMESTAMP(6)."
)
_PRE_GA_HINT = (
    "Only MySQL 5.1 before its release wrote such rows: load the tables again from a released server."
)

#: event types that this version refuses -> a remedy for the operator
REFUSED: dict[int, str] = {
    EventType.INCIDENT: "The source reports that it lost events here: load its tables again.",
    EventType.LOAD: _STATEMENTS_HINT,
    EventType.CREATE_FILE: _STATEMENTS_HINT,
    EventType.APPEND_BLOCK: _STATEMENTS_HINT,
    EventType.EXEC_LOAD: _STATEMENTS_HINT,
    EventType.DELETE_FILE: _STATEMENTS_HINT,
    EventType.NEW_LOAD: _STATEMENTS_HINT,
    EventType.BEGIN_LOAD_QUERY: _STATEMENTS_HINT,
    EventType.EXECUTE_LOAD_QUERY: _STATEMENTS_HINT,
    EventType.PRE_GA_WRITE_ROWS: _PRE_GA_HINT,
    EventType.PRE_GA_UPDATE_ROWS: _PRE_GA_HINT,
    EventType.PRE_GA_DELETE_ROWS: _PRE_GA_HINT,
}

UNKNOWN_HINT = "A newer server may write events that this version does not know; none is skipped unread."


@cache  # a type has eight bits
def type_name(number: int) -> str:
    """Return an event type's name, with its number."""
    try:
        return f"{EventType(number).name} ({number})"
    except ValueError:
        return f"unknown type {number}"
