"""Session tables: the temporary tables of a source's sessions, as far as the sessions have logged them.

A session with `binlog_format = ROW` logs no statement about a temporary table, and a session with another
format logs CREATE TEMPORARY TABLE first. The flag of an event says less: the call of the session has used a
temporary table, whatever the statement is about.
"""

from __future__ import annotations

from typing import Final

from canal_group.binlog.formats.events import THREAD_SPECIFIC_FLAG, Query
from canal_group.binlog.schema.clauses.beginnings import Kind
from canal_group.binlog.schema.clauses.tokens import UnreadableError
from canal_group.binlog.schema.clauses.words import Words
from canal_group.binlog.schema.statement import Statement
from canal_group.binlog.statements.statement_reader import Change, read_statement

#: temporary tables that are remembered, of all sessions together
TABLES_MAX: Final = 10_000


class SessionTables:
    """Remembers the temporary tables of one binlog file; beyond `TABLES_MAX` the oldest is forgotten."""

    def __init__(self) -> None:
        #: (session, schema, table), the oldest first
        self._tables: dict[tuple[int, str, str], None] = {}

    def clear(self) -> None:
        """Forget all tables: numbers of sessions are given again after a restart of the server."""
        self._tables.clear()

    def may_concern(self, query: Query) -> bool:
        """Return whether a statement has to be taken: the flag is set, or temporary tables are known.

        MariaDB logs RENAME TABLE of a temporary table without the flag.
        """
        return bool(self._tables) or bool(query.flags & THREAD_SPECIFIC_FLAG)

    def take(self, session: int, statement: Statement) -> bool:
        """Take the next statement of a session; return whether it is about a temporary table of the session.

        Of CREATE TABLE ... LIKE, whether the model is one.
        """
        reading = read_statement(statement)
        if reading.kind is Kind.TEMPORARY:
            self._note(session, statement)
            return True
        held = [self._holds(session, change) for change in reading.changes]
        op = reading.changes[0].op if reading.changes else ""
        if op == "ERASE":
            self._drop(session, reading.changes)
            return False
        if op == "CREATE":
            return self._has_model(session, statement)
        if op == "RENAME" and held[0]:
            self._drop(session, reading.changes[::2])
            for change in reading.changes[1::2]:
                self._add(session, change)
        return bool(held) and held[0]

    def _holds(self, session: int, change: Change) -> bool:
        return (session, change.schema, change.table) in self._tables

    def _add(self, session: int, change: Change) -> None:
        self._tables[session, change.schema, change.table] = None
        if len(self._tables) > TABLES_MAX:
            del self._tables[next(iter(self._tables))]

    def _drop(self, session: int, changes: tuple[Change, ...]) -> None:
        for change in changes:
            self._tables.pop((session, change.schema, change.table), None)

    def _note(self, session: int, statement: Statement) -> None:
        words = Words(statement)
        try:
            drops = words.skip("DROP")
            if not words.skip_to("TABLE"):
                return
            words.take()
            words.skip_if_exists()
            while True:
                change = Change("", *words.table_name())
                if drops:
                    self._drop(session, (change,))
                else:
                    self._add(session, change)
                if not drops or not words.skip(","):
                    return
        except UnreadableError:
            return

    def _has_model(self, session: int, statement: Statement) -> bool:
        words = Words(statement)
        try:
            if not self._tables or not words.skip_to("LIKE"):
                return False
            words.take()
            return self._holds(session, Change("", *words.table_name()))
        except UnreadableError:
            return False
