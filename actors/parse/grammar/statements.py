"""Statements: which statements of a transaction are handed on as text, and which are refused.

Definitions are handed on. Three kinds of statements cannot be followed. They are refused, or handed on as
text if the reader wants them `verbatim`:

- a statement that changes rows which are in no event;
- a rollback of rows that are in an event (tables without transactions keep them);
- an XA COMMIT whose rows were logged before the oldest binlog.

`ddl` finds out what a statement is and which tables it concerns.
"""

from __future__ import annotations

from actors.parse.charsets.statement_text import printable
from actors.parse.formats.event_types import REFUSED, EventType
from actors.parse.formats.events import Query
from actors.parse.grammar import ddl
from actors.parse.grammar.chunk_builder import ChunkBuilder
from actors.parse.grammar.tables import Select, Tables
from merge.errors import PositionPurged, UnsupportedEvent
from merge.values.chunk import TableName
from merge.values.ddl_mark import DdlMark

#: a change that names no table
_OF_NO_TABLE = ddl.Change("QUERY", "", "")
_UNDONE_HINT = "The cause is a transaction that changes tables both with and without transactions."


class Statements:
    """Hands on the statements of the open transaction.

    The argument `progress` of its methods is a count that starts at 0 and grows with each row, so two values
    show whether rows came in between.

    Args:
        select: which statements are handed on, and under which name; called with an empty table name for a
            statement that concerns no table.
        tables: what is known of the tables.
        builder: gathers them.
        verbatim: see the module.
    """

    def __init__(self, select: Select, tables: Tables, builder: ChunkBuilder, *, verbatim: bool) -> None:
        self._select = select
        self._tables = tables
        self._builder = builder
        self._verbatim = verbatim
        self._savepoints: dict[str, int] = {}

    def begin(self) -> None:
        """Forget the savepoints of the transaction before."""
        self._savepoints.clear()

    def define(self, query: Query, *, alone: bool) -> None:
        """Hand a definition on under the first of its tables that is selected.

        Args:
            query: the statement.
            alone: whether it is its whole transaction; CREATE TABLE ... SELECT shares one with its rows.
        """
        for change in ddl.changes_of(printable(query.sql), query.schema):
            name = self._add(query.sql, change)
            if name is not None:
                if alone:
                    self._builder.mark_ddl(self._marked(query, change, name))
                break

    def require_read(self, query: Query) -> None:
        """Return if a statement whose rows are not in the binlog may be handed on.

        Raises:
            UnsupportedEvent: it may not.
        """
        if not self._verbatim:
            raise UnsupportedEvent(
                f"A statement in the binlog changes rows: {query.sql[:100]!r}.",
                hint=REFUSED[EventType.EXECUTE_LOAD_QUERY],
            )

    def change_rows(self, query: Query) -> None:
        """Hand on a statement whose rows are not in the binlog."""
        self._add(query.sql, ddl.row_change_of(printable(query.sql), query.schema))

    def commit_elsewhere(self, sql: str, error: PositionPurged) -> None:
        """Hand on an XA COMMIT whose rows were logged before the oldest binlog that is read.

        Raises:
            PositionPurged: `error`, unless statements are handed on verbatim.
        """
        if not self._verbatim:
            raise error
        self._add(sql, _OF_NO_TABLE)

    def set_savepoint(self, sql: str, progress: int) -> None:
        """Remember how many rows came before a SAVEPOINT."""
        self._savepoints[ddl.savepoint_name(sql)] = progress

    def roll_back_to(self, sql: str, progress: int) -> None:
        """Skip a ROLLBACK TO SAVEPOINT, provided that the undone rows are not in the binlog.

        Raises:
            UnsupportedEvent: they are in the binlog.
        """
        name = ddl.savepoint_name(sql)
        if progress > self._savepoints.get(name, 0):
            self._undo(
                f"ROLLBACK TO {name}",
                f"Rows after savepoint {name!r} were rolled back, but are in the binlog.",
            )

    def roll_back(self, progress: int) -> None:
        """Handle the transaction's ROLLBACK, which is logged only if a part of it could not be undone.

        Raises:
            UnsupportedEvent: rows of it are in the binlog.
        """
        if progress:
            self._undo(
                "ROLLBACK",
                "A transaction that was rolled back has rows in the binlog: which of them remain is unknown.",
            )

    def _undo(self, sql: str, complaint: str) -> None:
        if not self._verbatim:
            raise UnsupportedEvent(complaint, hint=_UNDONE_HINT)
        self._add(sql, _OF_NO_TABLE)

    def _marked(self, query: Query, change: ddl.Change, name: TableName) -> DdlMark | None:
        source = TableName(change.schema, change.table)
        return self._tables.mark(query, change.op, name, source) if change.table else None

    def _add(self, sql: str, change: ddl.Change) -> TableName | None:
        """Hand a statement on; return what consumers call its table, None if that is left out."""
        name = self._select(change.schema, change.table)
        if name is not None:
            self._builder.add_statement(
                name, change.op, printable(sql), TableName(change.schema, change.table)
            )
        return name
