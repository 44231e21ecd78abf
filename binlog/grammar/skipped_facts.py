"""Skipped facts: the facts about an event that an operator has left out, whose bytes may be damaged.

Nothing here raises because of those bytes.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from canal_group.binlog.formats.event_types import ROWS, UNPACKED_ROWS, UPDATES, WRITES, EventType, type_name
from canal_group.binlog.formats.events import Event, Query, parse_query
from canal_group.binlog.grammar.tables import Tables
from canal_group.binlog.grammar.xa import XaStatement, parse_xa_statement
from canal_group.binlog.schema.clauses.beginnings import BEGINNINGS, Kind
from canal_group.binlog.statements.statement_reader import Reading, read_control, read_statement
from canal_group.merge.errors import DataError
from canal_group.merge.values.marks.skip_mark import SkipMark
from canal_group.merge.values.skips.skipped_event import SkippedEvent, Unit

#: types whose event is a statement
STATEMENTS: Final = frozenset(
    {EventType.QUERY, EventType.MARIADB_QUERY_COMPRESSED, EventType.EXECUTE_LOAD_QUERY}
)
#: characters of a statement that is read once more, for its table; a longer one may concern any table
READ_CHARS_MAX: Final = 16_384
#: errors that damaged bytes raise
DAMAGED: Final = (DataError, ArithmeticError, LookupError, ValueError, struct.error)
_FIRST_WORDS: Final = frozenset(words[0] for words in BEGINNINGS)
_VERB_CHARS: Final = 20


class SkippedStatement(NamedTuple):
    """The facts about a statement."""

    #: None: its event cannot be read
    query: Query | None = None
    #: BEGIN, COMMIT, XA or the like, parsed; None: the statement controls no transaction, or cannot be read
    control: Reading | None = None
    #: whether it may define something
    defines: bool = True
    #: first word of the statement, if statements can begin with this word
    verb: str = ""
    #: the statement's first table, by the name that consumers see
    table: str = ""


def skipped_statement(event: Event, tables: Tables, *, intact: bool = True) -> SkippedStatement:
    """Return the facts about an event that is a statement.

    Args:
        event: the event.
        tables: the tables of its file.
        intact: whether its checksum is right; a damaged one is believed if it begins as a statement does.
    """
    try:
        query = parse_query(
            event.body,
            packed=event.type == EventType.MARIADB_QUERY_COMPRESSED,
            loads=event.type == EventType.EXECUTE_LOAD_QUERY,
            flags=event.flags,
        )
    except DAMAGED:
        return SkippedStatement()
    control = read_control(query.sql)
    if control is not None:
        return SkippedStatement(query, control, defines=False)
    word = query.sql[:_VERB_CHARS].lstrip().partition(" ")[0].upper()
    verb = word if word in _FIRST_WORDS else ""
    if not intact and not verb:
        return SkippedStatement()
    return _read(query, verb, tables)


def _read(query: Query, verb: str, tables: Tables) -> SkippedStatement:
    """Return the facts that a statement's text holds."""
    if len(query.sql) > READ_CHARS_MAX:
        return SkippedStatement(query, verb=verb)
    try:
        reading = read_statement(tables.statement(query))
    except Exception:  # noqa: BLE001 - a statement may be left out because its reader fails
        return SkippedStatement(query, verb=verb)
    if reading.kind in (Kind.BEGIN, Kind.COMMIT, Kind.ROLLBACK):
        return SkippedStatement(query, reading, defines=False)
    changes = (tables.selected(change.schema, change.table) for change in reading.changes if change.table)
    table = next((str(name) for name in changes if name is not None), "")
    return SkippedStatement(query, None, reading.defines, verb, table)


def skipped_xa(query: Query | None) -> XaStatement | None:
    """Return a statement about an XA transaction; None if it is another one, or cannot be read."""
    try:
        return None if query is None else parse_xa_statement(query.sql)
    except DataError:
        return None


def mark_of(
    event: Event, skip: SkippedEvent, statement: SkippedStatement, unit: Unit, tables: Tables, gtid: str
) -> str:
    """Return the mark in place of an event, as a statement.

    Args:
        event: what is left out.
        skip: the operator's request.
        statement: the facts about it, if it is a statement.
        unit: whether the event or its whole transaction is left out.
        tables: the table maps of its file.
        gtid: of its transaction; empty: none.
    """
    verb, table = (statement.verb, statement.table) if statement.query else _skipped_rows(event, tables)
    return SkipMark(
        shard=skip.shard,
        server=skip.server,
        file=event.file,
        from_offset=event.begin,
        to_offset=event.end,
        unit=unit,
        event=type_name(event.type),
        verb=verb,
        table=table,
        gtid=gtid,
        by=skip.by,
        at_us=skip.at_us,
    ).to_sql()


def _skipped_rows(event: Event, tables: Tables) -> tuple[str, str]:
    """Return the verb and the table of a rows event; empty for another event, or where they are unknown."""
    kind = UNPACKED_ROWS.get(event.type, event.type)
    verb = ""
    if kind in ROWS:
        verb = "INSERT" if kind in WRITES else "UPDATE" if kind in UPDATES else "DELETE"
    elif kind != EventType.TABLE_MAP:
        return "", ""
    return verb, str(tables.name(event.type, event.body) or "")
