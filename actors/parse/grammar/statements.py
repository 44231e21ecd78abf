"""Statements: what a transaction's statements hand on as text, and which of them cannot be followed.

Definitions are handed on. What cannot be followed is refused, or handed on as text to a reader that wants it
`verbatim`: a statement that changes rows which are in no event; a rollback of rows that are in one (tables
without transactions keep theirs); an XA COMMIT whose rows were logged before the oldest binlog. What a
statement is, and which tables it is about, is read by `ddl`.
"""

from __future__ import annotations

from actors.parse.formats.event_types import REFUSED, EventType
from actors.parse.formats.events import Query
from actors.parse.grammar import ddl
from actors.parse.grammar.chunk_builder import ChunkBuilder
from actors.parse.grammar.tables import Select
from merge.errors import PositionPurged, UnsupportedEvent

#: a change that names no table
_OF_NO_TABLE = ddl.Change("QUERY", "", "")
_UNDONE_HINT = "Tables without transactions, changed beside tables with them, cause this."


class Statements:
    """Hands on the statements of the open transaction.

    `progress`, wherever it is asked for, tells whether rows came in between: it grows with them, from 0.

    Args:
        select: which statements are handed on, and under which name; one about no table is asked for with an
            empty table name.
        builder: gathers them.
        verbatim: see the module.
    """

    def __init__(self, select: Select, builder: ChunkBuilder, *, verbatim: bool) -> None:
        self._select = select
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
            alone: whether it is its transaction; CREATE TABLE ... SELECT stands in one with its rows.
        """
        for change in ddl.changes_of(query.sql, query.schema):
            if self._add(query.sql, change):
                if alone:
                    self._builder.mark_ddl()
                break

    def require_read(self, query: Query) -> None:
        """Return if a statement whose rows are not in the binlog can be handed on.

        Raises:
            UnsupportedEvent: it cannot.
        """
        if not self._verbatim:
            raise UnsupportedEvent(
                f"Rows are changed by a statement in the binlog: {query.sql[:100]!r}.",
                hint=REFUSED[EventType.EXECUTE_LOAD_QUERY],
            )

    def change_rows(self, query: Query) -> None:
        """Hand on a statement whose rows are not in the binlog."""
        self._add(query.sql, ddl.row_change_of(query.sql, query.schema))

    def commit_elsewhere(self, sql: str, error: PositionPurged) -> None:
        """Hand on an XA COMMIT whose rows were logged before the oldest binlog that is read.

        Raises:
            PositionPurged: `error`, where that is no place for text.
        """
        if not self._verbatim:
            raise error
        self._add(sql, _OF_NO_TABLE)

    def set_savepoint(self, sql: str, progress: int) -> None:
        """Keep what a SAVEPOINT stands behind."""
        self._savepoints[ddl.savepoint_name(sql)] = progress

    def roll_back_to(self, sql: str, progress: int) -> None:
        """Pass over a return to a savepoint, provided that the undone rows are not in the binlog.

        Raises:
            UnsupportedEvent: they are.
        """
        name = ddl.savepoint_name(sql)
        if progress > self._savepoints.get(name, 0):
            self._undo(
                f"ROLLBACK TO {name}",
                f"Rows behind savepoint {name!r} were rolled back, but stand in the binlog.",
            )

    def roll_back(self, progress: int) -> None:
        """Take note that the transaction was rolled back: logged only where a part could not be undone.

        Raises:
            UnsupportedEvent: rows of it are in the binlog.
        """
        if progress:
            self._undo(
                "ROLLBACK",
                "A transaction that was rolled back holds rows: which of them stayed is not known.",
            )

    def _undo(self, sql: str, complaint: str) -> None:
        if not self._verbatim:
            raise UnsupportedEvent(complaint, hint=_UNDONE_HINT)
        self._add(sql, _OF_NO_TABLE)

    def _add(self, sql: str, change: ddl.Change) -> bool:
        name = self._select(change.schema, change.table)
        if name is not None:
            self._builder.add_statement(name, change.op, sql)
        return name is not None
