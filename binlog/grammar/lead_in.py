"""Lead-in: the events before a stream's start, of which only prepared XA rows matter.

A stream that begins after an XA PREPARE and reads its XA COMMIT lacks the rows. It is opened again with a
lead-in: the events from the beginning of an earlier file up to the start. Everything there was handed over
before, or is not wanted, so it is skipped unread, except the rows of XA transactions that are prepared.
"""

from __future__ import annotations

from canal_group.binlog.formats.event_types import ROWS, UNPACKED_ROWS, EventType
from canal_group.binlog.formats.events import Event, parse_query
from canal_group.binlog.formats.gtid_events import parse_mariadb_gtid
from canal_group.binlog.formats.payload import inner_events
from canal_group.binlog.grammar.tables import Tables
from canal_group.binlog.grammar.xa import XaTransactions, parse_xa_prepare, parse_xa_statement
from canal_group.binlog.schema.clauses.beginnings import Kind
from canal_group.binlog.statements.statement_reader import read_control
from canal_group.merge.values.skips.skipped_event import SkippedEvent, Unit

#: types of events that begin a transaction
BEGINS = frozenset({EventType.GTID, EventType.GTID_TAGGED, EventType.ANONYMOUS_GTID, EventType.MARIADB_GTID})
_ROWS = ROWS | UNPACKED_ROWS.keys()


class LeadIn:
    """Learns which XA transactions are prepared where the stream begins, and their rows."""

    def __init__(self, tables: Tables, xa: XaTransactions) -> None:
        self._tables = tables
        self._xa = xa
        #: whether the rest of the XA transaction that is being read is left out
        self._leaving = False

    def leave_out(self, event: Event, skip: SkippedEvent) -> None:
        """Skip an event that is left out, or its whole XA transaction; its mark was handed over before."""
        if event.type == EventType.TABLE_MAP:
            self._tables.leave_out(event.body)
        if self._xa.reading and skip.unit is Unit.TRANSACTION:
            self._xa.undo(0)
            self._leaving = True

    def take(self, event: Event) -> None:
        """Skip one event, or keep the part of it that concerns XA transactions.

        Raises:
            CorruptEvent, UnsupportedEvent: rows of an XA transaction cannot be read, or are too many.
        """
        match event.type:
            case kind if kind in BEGINS:
                self._leaving = False
                self._xa.drop()
                if kind == EventType.MARIADB_GTID and parse_mariadb_gtid(event.body, 0).prepares_xa:
                    self._xa.begin()
            case EventType.QUERY | EventType.MARIADB_QUERY_COMPRESSED:
                self._on_query(event)
            case EventType.XA_PREPARE:
                self._on_prepare(event)
            case EventType.TABLE_MAP:
                self._tables.learn(event.body, read=False)
            case EventType.TRANSACTION_PAYLOAD:
                for inner in inner_events(event):
                    self.take(inner)
            case kind if kind in _ROWS and self._xa.reading and not self._leaving:
                self._on_rows(event)

    def _on_prepare(self, event: Event) -> None:
        one_phase, xid = parse_xa_prepare(event.body)
        if one_phase:
            self._xa.drop()
        elif self._xa.reading:
            self._xa.prepare(xid)

    def _on_rows(self, event: Event) -> None:
        rows = self._tables.rows(event.type, event.body)
        if rows is not None:
            self._xa.hold(rows)

    def _on_query(self, event: Event) -> None:
        sql = parse_query(event.body, packed=event.type == EventType.MARIADB_QUERY_COMPRESSED).sql
        control = read_control(sql)
        if control is None or control.kind is not Kind.XA:
            return
        statement = parse_xa_statement(sql)
        match statement.verb:
            case "START":
                self._xa.begin()
            case "COMMIT" | "ROLLBACK":
                self._xa.decide(statement.xid)
            case _:
                pass
