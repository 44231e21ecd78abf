"""Transactions: the binlog's grammar. It reads events, and gives transactions to a chunk builder.

What a transaction consists of:

    MySQL      GTID | GTID_TAGGED | ANONYMOUS_GTID (absent before 5.7)
                   then  QUERY BEGIN ... XID | QUERY COMMIT
                   or    TRANSACTION_PAYLOAD, which holds the same events
                   or    QUERY XA START ... QUERY XA END, XA_PREPARE
                   or    QUERY XA COMMIT | QUERY XA ROLLBACK
                   or    QUERY (a definition)
    MariaDB    GTID                 then  ... XID | QUERY COMMIT
               GTID (prepared XA)   then  ... QUERY XA END, XA_PREPARE
               GTID (completed XA)  then  QUERY XA COMMIT | QUERY XA ROLLBACK
               GTID standalone      then  QUERY (a definition; an ALTER may come in two phases)

Rows that were prepared under an xid belong to the transaction that commits the xid: they get its position,
commit time and GTID. The transaction that prepared them, a rollback, and the first phase of an ALTER are
transactions without rows.

An event that an operator has left out takes part in this as far as its bytes tell: rows and statements are
dropped, what begins or ends a transaction still does so. A mark comes in its place. If the bytes do not tell
whether they begin a transaction, its rows are dropped too: their transaction is unknown.

An event may hold more rows than fit a chunk. `take` reads its beginning, and `go_on` reads the rest step by
step; the owner closes full chunks in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import IntEnum
from itertools import count

from canal_group.binlog.formats.event_types import (
    KNOWN,
    REFUSED,
    ROWS,
    SKIPPED,
    STATEMENT_INPUTS,
    UNKNOWN_HINT,
    UNPACKED_ROWS,
    EventType,
    type_name,
)
from canal_group.binlog.formats.events import IGNORABLE_FLAG, Event, Query, parse_query
from canal_group.binlog.formats.gtid_events import Alter, TransactionStart, parse_start
from canal_group.binlog.formats.payload import inner_events
from canal_group.binlog.grammar.chunk_builder import ChunkBuilder
from canal_group.binlog.grammar.lead_in import BEGINS
from canal_group.binlog.grammar.skipped_facts import (
    DAMAGED,
    STATEMENTS,
    SkippedStatement,
    mark_of,
    skipped_statement,
    skipped_xa,
)
from canal_group.binlog.grammar.skips import Parts
from canal_group.binlog.grammar.statements import Statements
from canal_group.binlog.grammar.tables import Select, Tables
from canal_group.binlog.grammar.xa import (
    RowsEvent,
    XaStatement,
    XaTransactions,
    parse_xa_prepare,
    parse_xa_statement,
)
from canal_group.binlog.schema.clauses.beginnings import Kind
from canal_group.binlog.schema.statement import Statement
from canal_group.binlog.statements.statement_reader import Reading, read_control, read_statement
from canal_group.merge.errors import CorruptEvent, DataError, PositionPurged, UnsupportedEvent
from canal_group.merge.values.skips.skipped_event import SkippedEvent, Unit

SECOND_US = 1_000_000

_UNBEGUN_HINT = "A stream must begin where a transaction begins."


class _State(IntEnum):
    """`Accumulator.phase`, which the fast path changes as well."""

    #: between transactions
    IDLE = 0
    #: a GTID was read: BEGIN or a statement on its own follows
    ANNOUNCED = 1
    INSIDE = 2


_NAMES = {_State.IDLE: "between transactions", _State.ANNOUNCED: "announced"}


class Transactions:
    """Follows one shard's transactions.

    Args:
        tables: the table maps of the current file.
        xa: the rows of XA transactions that are not decided.
        select: which definition statements are handed on, and under which name.
        builder: gathers what was read.
        skip: rows of the first transaction that were handed over before.
        verbatim: whether statements that cannot be followed are handed on as text, or refused; see
            `statements`.
    """

    def __init__(
        self,
        tables: Tables,
        xa: XaTransactions,
        select: Select,
        builder: ChunkBuilder,
        *,
        skip: int,
        verbatim: bool = False,
    ) -> None:
        self._tables = tables
        self._xa = xa
        self._statements = Statements(select, tables, builder, verbatim=verbatim)
        self._builder = builder
        self._skip = skip
        self._accumulator = builder.accumulator
        self._fast_path = builder.fast_path
        #: how many transactions had begun when the state of the last one was forgotten
        self._of = 0
        self._alter: Alter | None = None
        #: which event of a compressed transaction is being read, from 1; 0: an event of its own
        self.part = 0
        #: whether the rest of the open transaction is left out; whether an event was that may have ended it
        self._leaving = self._may_have_ended = False
        #: the events to leave out of the compressed transaction that is being read
        self._parts: Parts = {}
        #: the unread parts of the last event; the innermost one last
        self._rests: list[Iterator[None]] = []
        self._handlers: dict[int, Callable[[Event], None]] = {
            EventType.GTID: self._on_gtid,
            EventType.GTID_TAGGED: self._on_gtid,
            EventType.ANONYMOUS_GTID: self._on_gtid,
            EventType.MARIADB_GTID: self._on_gtid,
            EventType.QUERY: self._on_query,
            EventType.MARIADB_QUERY_COMPRESSED: self._on_query,
            EventType.XID: self._on_xid,
            EventType.XA_PREPARE: self._on_xa_prepare,
            EventType.TABLE_MAP: self._on_table_map,
            EventType.TRANSACTION_PAYLOAD: self._on_payload,
            **dict.fromkeys(ROWS | UNPACKED_ROWS.keys(), self._on_rows),
        }
        if verbatim:
            self._handlers[EventType.EXECUTE_LOAD_QUERY] = self._on_query
            self._handlers |= dict.fromkeys(STATEMENT_INPUTS, lambda _event: None)

    @property
    def open(self) -> bool:
        """Whether a transaction has begun and not ended."""
        return self._state != _State.IDLE

    @property
    def plain(self) -> bool:
        """Whether the last event was read whole, no XA transaction is being read, and nothing is left out."""
        skipped = self._leaving or self._may_have_ended
        return not self._rests and not self._xa.reading and not skipped

    @property
    def _state(self) -> int:
        return self._accumulator.phase

    @_state.setter
    def _state(self, state: _State) -> None:
        self._accumulator.phase = state

    def take(self, event: Event, parts: Parts | None = None) -> None:
        """Read one event; `go_on` reads the rest of it.

        Args:
            event: the event.
            parts: the events to leave out of it, if it is a compressed transaction.

        Raises:
            CorruptEvent: its bytes contradict themselves, or it is not allowed here.
            UnsupportedEvent: it may change rows in a way that this version does not read.
            PositionPurged: it commits an XA transaction whose rows were logged before the stream began; the
                details hold its `xid`, and as `begin_offset` where the commit's transaction begins.
        """
        if parts is not None:
            self._parts = parts
        if self._of != self._accumulator.begun:  # transactions went through the fast path
            self._forget_last()
        if self._leaving and event.type not in BEGINS:
            self._pass_by(event)
            return
        handler = self._handlers.get(event.type)
        if handler is not None:
            handler(event)
        elif event.flags & IGNORABLE_FLAG and event.type not in KNOWN:
            self._builder.losses.ignored_events[type_name(event.type)] += 1
        elif event.type not in SKIPPED:
            raise UnsupportedEvent(
                f"{type_name(event.type)} events are not supported.",
                hint=REFUSED.get(event.type, UNKNOWN_HINT),
            )

    def go_on(self) -> bool:
        """Read the next part of the last event; return whether there was one."""
        while self._rests:
            if next(self._rests[-1], self) is not self:
                return True
            self._rests.pop()
        return False

    def end_when_idle(self, offset: int) -> None:
        """End a transaction that may have ended: a source that is idle has sent whole transactions only."""
        if self._leaving or self._may_have_ended:
            self._end_at(offset)

    def abandon(self, end: int) -> None:
        """Drop an open transaction whose file ends before it: the server crashed and rolled it back.

        Args:
            end: where the file ends.

        Raises:
            CorruptEvent: some of its rows were handed over already.
        """
        self._xa.drop()
        if not self.open:
            return
        if self._leaving or self._may_have_ended:
            self._end_at(end)
            return
        if not self._builder.discard():
            raise CorruptEvent(
                "The file ends inside a transaction, and its first rows were handed over already.",
                hint="The source crashed while it wrote the transaction and rolled it back: undo its rows by "
                "hand.",
            )
        self._state = _State.IDLE

    def _on_gtid(self, event: Event) -> None:
        original = self._fast_path.original
        start = parse_start(event.type, event.body, event.server_id, original=original)
        self._begin(start, event)
        self._state = _State.INSIDE if start.implied_begin else _State.ANNOUNCED
        self._alter = start.alter
        if start.prepares_xa:
            self._xa.begin()

    def _begin(self, start: TransactionStart | None, event: Event) -> None:
        if self._leaving or self._may_have_ended:
            self._end_at(event.begin)
        if self.open:
            raise CorruptEvent("A transaction begins inside another.")
        commit_us = start.commit_us if start else 0
        self._builder.begin(
            file=event.file,
            begin_offset=event.begin,
            commit_us=commit_us or event.timestamp * SECOND_US,
            gtid_source=start.source if start else "",
            gtid_number=start.number if start else 0,
            skip=self._skip,
        )
        self._skip = 0
        self._forget_last()
        if start is not None or event.type not in BEGINS:
            self._fast_path.learn_source(event.type, event.body, event.server_id)

    def _forget_last(self) -> None:
        """Forget what belongs to the transaction before."""
        self._of = self._accumulator.begun
        self._alter = None
        self._statements.begin()

    def _end(self, event: Event) -> None:
        self._end_at(event.end)

    def _end_at(self, offset: int) -> None:
        self._xa.drop()
        self._builder.end(offset)
        self._state = _State.IDLE
        self._leaving = self._may_have_ended = False

    def _require_inside(self, what: str) -> None:
        if self._state != _State.INSIDE:
            raise CorruptEvent(f"{what} {_NAMES[_State(self._state)]}.", hint=_UNBEGUN_HINT)

    def _on_xid(self, event: Event) -> None:
        self._require_inside("COMMIT")
        if self._xa.reading:  # one phase, on a server that logs it like any other commit
            self._hand_over(self._xa.take(), event)
        else:
            self._end(event)

    # ---- statements ----------------------------------------------------------------------------------------

    def _on_query(self, event: Event) -> None:
        query = parse_query(
            event.body,
            packed=event.type == EventType.MARIADB_QUERY_COMPRESSED,
            loads=event.type == EventType.EXECUTE_LOAD_QUERY,
            flags=event.flags,
        )
        control = read_control(query.sql)
        if control is not None:
            self._on_control(control, query.sql, event)
            return
        query = self._tables.resolved(query)
        statement = self._tables.statement(query)
        if len(query.sql) > self._builder.limits.statement_chars_max:
            self._builder.losses.long_statements += 1
        reading = read_statement(statement)
        match reading.kind:
            case Kind.ROWS | Kind.UNKNOWN:
                self._statements.require_read(statement, reading)
                self._on_text(query, statement, reading, event)
            case Kind.DEFINITION | Kind.TEMPORARY | Kind.ACCOUNT | Kind.OTHER:
                self._on_text(query, statement, reading, event)
            case _:
                self._on_control(reading, query.sql, event)

    def _on_control(self, reading: Reading, sql: str, event: Event) -> None:
        """Handle what controls a transaction; RELEASE SAVEPOINT and fillers change nothing."""
        match reading.kind:
            case Kind.BEGIN:
                if self._state == _State.IDLE:
                    self._begin(None, event)
                self._state = _State.INSIDE
            case Kind.XA:
                self._on_xa(sql, event)
            case Kind.COMMIT:
                self._on_xid(event)
            case Kind.ROLLBACK:
                self._require_inside("ROLLBACK")
                self._statements.roll_back(self._progress, self._undo)
                self._end(event)
            case Kind.SAVEPOINT:
                self._statements.set_savepoint(reading.savepoint, self._progress)
            case Kind.ROLLBACK_TO:
                self._statements.roll_back_to(reading.savepoint, self._progress, self._undo)
            case kind:
                assert kind in (Kind.RELEASE, Kind.EMPTY), kind

    def _undo(self, since: int) -> bool:
        """Remove the rows of the open transaction after a progress; return whether that was possible."""
        if not self._xa.reading:
            return self._builder.undo(since)
        self._xa.undo(since)
        return True

    @property
    def _progress(self) -> int:
        """A count that grows when rows are added to the open transaction."""
        return self._xa.events if self._xa.reading else self._builder.row

    def _on_text(self, query: Query, statement: Statement, reading: Reading, event: Event) -> None:
        """Hand a statement on.

        Of an ALTER in two phases only the commit is handed on: its start and its rollback change nothing.
        """
        takes_effect = self._alter in (None, Alter.COMMIT)
        if takes_effect and reading.defines:
            self._tables.redefine(query, event.file, event.end)
            self._fast_path.begin_file()
        alone = self._state != _State.INSIDE
        if self._state == _State.IDLE:
            self._begin(None, event)
        if reading.kind is Kind.ROWS:
            self._statements.change_rows(statement, reading)
        elif takes_effect:
            self._statements.define(statement, reading, alone=alone)
        if alone:
            self._end(event)

    # ---- XA ------------------------------------------------------------------------------------------------

    def _on_xa(self, sql: str, event: Event) -> None:
        statement = parse_xa_statement(sql)
        if self._state == _State.IDLE:
            self._begin(None, event)
        self._state = _State.INSIDE
        match statement.verb:
            case "START":
                self._xa.begin()
            case "END":
                if not self._xa.reading:
                    raise CorruptEvent("XA END comes without XA START.", hint=_UNBEGUN_HINT)
            case "COMMIT":
                self._hand_over(self._committed(statement, sql), event)
            case "ROLLBACK":
                self._xa.decide(statement.xid)
                self._end(event)
            case _:
                raise UnsupportedEvent(f"XA {statement.verb} is not expected in a binlog.")

    def _committed(self, statement: XaStatement, sql: str) -> list[RowsEvent]:
        try:
            return self._xa.commit(statement)
        except PositionPurged as error:
            error.details["begin_offset"] = self._accumulator.begin_offset
            self._statements.commit_elsewhere(sql, error)
            return []

    def _on_xa_prepare(self, event: Event) -> None:
        one_phase, xid = parse_xa_prepare(event.body)
        self._require_inside("XA PREPARE")
        if not self._xa.reading:
            raise CorruptEvent("XA PREPARE comes without XA START.", hint=_UNBEGUN_HINT)
        if one_phase:
            self._hand_over(self._xa.take(), event)
        else:
            self._xa.prepare(xid)
            self._end(event)

    def _hand_over(self, rows: list[RowsEvent], event: Event) -> None:
        """Give the rows of an XA transaction to the open transaction, which commits it."""

        def rest() -> Iterator[None]:
            for each in rows:
                self._add(each)
                yield
            self._end(event)

        self._rests.append(rest())

    # ---- rows ----------------------------------------------------------------------------------------------

    def _on_table_map(self, event: Event) -> None:
        self._tables.learn(event.body)
        self._fast_path.learn_table(event.body)

    def _on_rows(self, event: Event) -> None:
        self._require_inside("Rows")
        rows = self._tables.rows(event.type, event.body)
        if rows is None:
            self._fast_path.leave_out(event.body)
        elif self._xa.reading:
            self._xa.hold(rows)
        else:
            self._add(rows)

    def _add(self, rows: RowsEvent) -> None:
        """Add a rows event; what does not fit the chunk is a rest of the event."""
        rest_at = self._builder.add_rows(*rows)

        def rest() -> Iterator[None]:
            at = rest_at
            while at:
                at = self._builder.add_rows(*rows, at)
                yield

        if rest_at:
            self._rests.append(rest())

    def _on_payload(self, event: Event) -> None:
        if self._state == _State.INSIDE:
            raise CorruptEvent("A compressed transaction is inside another.")
        self._rests.append(self._unpack(event))

    def _unpack(self, event: Event) -> Iterator[None]:
        """Read a payload's events; each has the offsets of the payload."""
        begun, parts, events = self.open, self._parts, inner_events(event)
        for self.part in count(1):
            skip = parts.get(self.part)
            try:
                inner = next(events, None)
                if inner is None and self.open:
                    raise CorruptEvent("A compressed transaction has no end.")
            except DataError:
                if skip is None:
                    raise
                self.leave_out(event, skip)  # the rest cannot be unpacked
                return
            if inner is None:
                return
            if skip is not None:
                self.leave_out(inner, skip)
            elif begun and not self.open:
                raise CorruptEvent("A compressed transaction has events after its end.")
            else:
                self.take(inner)
            begun |= self.open
            yield

    # ---- what is left out ----------------------------------------------------------------------------------

    def leave_out(self, event: Event, skip: SkippedEvent, *, intact: bool = True) -> None:
        """Leave an event out, or all that its transaction has, and hand on a mark in its place.

        Args:
            event: the event; its bytes may be anything.
            skip: the operator's request.
            intact: whether its checksum is right. Of a damaged event no GTID is believed: with a wrong one in
                a position, a transaction that has it would be lost.
        """
        if self._of != self._accumulator.begun:
            self._forget_last()
        statement = SkippedStatement()
        if event.type in STATEMENTS:
            statement = skipped_statement(event, self._tables, intact=intact)
        alone = event.type not in BEGINS and self._state == _State.IDLE
        self._begin_for(event, intact=intact)
        whole = skip.unit is Unit.TRANSACTION or self._hides_begin(event, statement)
        decides = statement.control is not None and statement.control.kind is Kind.XA
        if whole:
            self._builder.restart()
            if self._xa.reading:
                self._xa.undo(0)
        self._leaving = whole
        unit = Unit.TRANSACTION if whole or decides else Unit.EVENT
        if event.type == EventType.TRANSACTION_PAYLOAD:
            self._builder.pass_handed_over()
        self._builder.add_mark(mark_of(event, skip, statement, unit, self._tables, self._builder.gtid))
        self._builder.losses.skipped_events[type_name(event.type)] += 1
        self._pass_by(event, statement)
        if alone and self._state == _State.ANNOUNCED:
            self._end(event)

    def _begin_for(self, event: Event, *, intact: bool) -> None:
        if event.type in BEGINS:
            if self.open:
                self._end_at(event.begin)
            try:
                if intact:
                    self._on_gtid(event)
            except DAMAGED:
                pass
            if not self.open:
                self._begin(None, event)
                self._state = _State.ANNOUNCED
        elif self._state == _State.IDLE:
            self._begin(None, event)
            self._state = _State.ANNOUNCED

    def _hides_begin(self, event: Event, statement: SkippedStatement) -> bool:
        """Return whether an event begins a transaction, or may do so."""
        if event.type in BEGINS:
            return True
        if event.type not in STATEMENTS or self._state != _State.ANNOUNCED:
            return False
        return statement.query is None or (
            statement.control is not None and statement.control.kind is Kind.BEGIN
        )

    def _pass_by(self, event: Event, statement: SkippedStatement | None = None) -> None:
        """Apply to its transaction an event that is left out; its content is dropped."""
        match event.type:
            case EventType.XID | EventType.TRANSACTION_PAYLOAD | EventType.ROTATE:
                self._end(event)
            case EventType.XA_PREPARE:
                self._pass_by_prepare(event)
            case EventType.TABLE_MAP:
                self._tables.leave_out(event.body)
                self._fast_path.begin_file()
            case kind if kind in STATEMENTS:
                self._pass_by_statement(event, statement or skipped_statement(event, self._tables))
            case _:
                pass

    def _pass_by_prepare(self, event: Event) -> None:
        try:
            one_phase, xid = parse_xa_prepare(event.body)
            if one_phase:
                self._hand_over(self._xa.take(), event)
                return
            if self._xa.reading:
                self._xa.prepare(xid)
        except DAMAGED:
            pass  # its xid is unknown: a commit of it finds no rows
        self._end(event)

    def _pass_by_statement(self, event: Event, statement: SkippedStatement) -> None:
        if statement.defines:
            self._tables.lose(statement.query, event.file, event.end)
            self._fast_path.begin_file()
        match statement.control and statement.control.kind:
            case Kind.BEGIN:
                self._state = _State.INSIDE
            case Kind.COMMIT if self._xa.reading:
                self._hand_over(self._xa.take(), event)
            case Kind.COMMIT | Kind.ROLLBACK:
                self._end(event)
            case Kind.XA:
                self._pass_by_xa(event, skipped_xa(statement.query))
            case None if statement.query is None:
                self._may_have_ended = True
            case None if self._state == _State.ANNOUNCED:
                self._end(event)  # it is its whole transaction
            case _:
                pass

    def _pass_by_xa(self, event: Event, statement: XaStatement | None) -> None:
        self._state = _State.INSIDE
        if statement is None:
            return
        if statement.verb == "START":
            self._xa.begin()
        elif statement.verb in ("COMMIT", "ROLLBACK"):
            self._xa.decide(statement.xid)
            self._end(event)
