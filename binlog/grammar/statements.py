"""Statements: which statements of a transaction are handed on as text or refused, and which rows are undone.

Definitions are handed on. Some statements cannot be followed. They are refused, or handed on as text if the
reader wants them `verbatim`:

- a statement that changes rows which are in no event, or may do so;
- a rollback of rows that were handed over, or that tables without transactions may have kept;
- an XA COMMIT whose rows were logged before the oldest binlog.

Servers log a rollback if a part of the transaction cannot be undone: rows of tables without transactions, or
a temporary table. Since version 5.5 of both vendors such rows are logged ahead, in transactions of their own.
So the rows of a transaction are of tables with transactions, and a rollback undoes them all, as on a replica.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from canal_group.binlog.charsets.statement_text import printable
from canal_group.binlog.formats.event_types import REFUSED, EventType
from canal_group.binlog.grammar.chunk_builder import ChunkBuilder
from canal_group.binlog.grammar.tables import Select, Tables
from canal_group.binlog.schema.clauses.beginnings import Kind
from canal_group.binlog.schema.statement import Statement
from canal_group.binlog.statements.statement_reader import Change, Reading
from canal_group.merge.errors import PositionPurged, UnsupportedEvent
from canal_group.merge.values.chunk import MOVES_ROWS, StatementKind, StatementSource, TableName

#: removes the rows from a count on from the open transaction; False, and nothing is removed: it cannot
Undo = Callable[[int], bool]

_KINDS = {
    Kind.ROWS: StatementKind.ROWS,
    Kind.DEFINITION: StatementKind.DDL,
    Kind.ACCOUNT: StatementKind.DCL,
}
_UNKNOWN_HINT = (
    "A newer server may write statements that this version does not know. "
    "If it changes no rows, start after it."
)
_KEPT_HINT = "The cause is a transaction that changes tables both with and without transactions."
_HANDED_OVER_HINT = (
    "The transaction fills more than a chunk, and these rows were handed over before they were rolled back. "
    "Load its tables again, and start after it."
)
_LOAD_HINT = "Load the transaction's tables again, and start after it."
#: the progress at a savepoint that was not set
_NOT_SET = -1
_RENAME = "RENAME"
#: of the tables of a RENAME, in turns
_ROLES = ("old", "new")


class Statements:
    """Hands on the statements of the open transaction.

    The argument `progress` of its methods is a count that starts at 0 and grows with each row, so two values
    show whether rows came in between.

    Args:
        select: which statements are handed on, and under which name; called with an empty table name for a
            statement that concerns no table.
        tables: the tables of the current file.
        builder: gathers the statements.
        verbatim: whether to hand on the statements that cannot be followed, else they are refused.
    """

    def __init__(self, select: Select, tables: Tables, builder: ChunkBuilder, *, verbatim: bool) -> None:
        self._select = select
        self._tables = tables
        self._builder = builder
        self._verbatim = verbatim
        #: savepoint -> how many rows came before it; gone savepoints stay, and no statement names them
        self._savepoints: dict[str, int] = {}

    def begin(self) -> None:
        """Forget the savepoints of the transaction before."""
        self._savepoints.clear()

    def define(self, statement: Statement, reading: Reading, *, alone: bool) -> None:
        """Hand a definition on if any of its tables is selected; it counts for the first that is.

        Args:
            statement: the statement.
            reading: its kind and its changes.
            alone: whether it is its whole transaction; CREATE TABLE ... SELECT shares one with its rows.
        """
        kind = _KINDS.get(reading.kind, StatementKind.QUERY)
        selection = self._add(statement.sql, statement.schema, reading.changes, kind)
        if alone and selection:
            change, name = selection[0]
            source = TableName(change.schema, change.table)
            mark = self._tables.mark(statement, change.op, name, source) if change.table else None
            self._builder.mark_ddl(mark)

    def require_read(self, statement: Statement, reading: Reading) -> None:
        """Return if a statement may be handed on that changes rows which are not in the binlog, or may do so.

        Raises:
            UnsupportedEvent: it may not. Its text holds values, which the error does not show.
        """
        if self._verbatim:
            return
        names = [f"{change.schema}.{change.table}" for change in reading.changes]
        title = f"{statement.title} on {names[0]}" if names else statement.title
        if reading.kind is Kind.UNKNOWN:
            what, hint = f"is unknown, and may change rows: {title}", _UNKNOWN_HINT
        else:
            what, hint = f"changes rows: {title}", REFUSED[EventType.EXECUTE_LOAD_QUERY]
        raise UnsupportedEvent(
            f"A statement in the binlog {what}.", hint=hint, table=names[0] if names else None
        )

    def change_rows(self, statement: Statement, reading: Reading) -> None:
        """Hand on a statement whose rows are not in the binlog."""
        self._add(statement.sql, statement.schema, reading.changes, StatementKind.ROWS)

    def commit_elsewhere(self, sql: str, error: PositionPurged) -> None:
        """Hand on an XA COMMIT whose rows were logged before the oldest binlog that is read.

        Raises:
            PositionPurged: `error`, unless statements are handed on verbatim.
        """
        if not self._verbatim:
            raise error
        self._add_of_rows(sql)

    def set_savepoint(self, name: str, progress: int) -> None:
        """Remember how many rows came before a SAVEPOINT; one of the same name is replaced."""
        self._savepoints[name] = progress

    def roll_back_to(self, name: str, progress: int, undo: Undo) -> None:
        """Undo the rows after a savepoint, which stays.

        Raises:
            UnsupportedEvent: they cannot be undone.
        """
        since = self._savepoints.get(name, _NOT_SET)
        if progress > max(since, 0):
            self._undo(
                f"ROLLBACK TO {name}",
                "Rows after a savepoint were rolled back, but are in the binlog.",
                since,
                undo,
            )

    def roll_back(self, progress: int, undo: Undo) -> None:
        """Undo all rows of the transaction, which was rolled back.

        Raises:
            UnsupportedEvent: they cannot be undone.
        """
        if progress:
            self._undo("ROLLBACK", "A transaction that was rolled back has rows in the binlog.", 0, undo)

    def _undo(self, sql: str, complaint: str, since: int, undo: Undo) -> None:
        if self._verbatim:
            self._add_of_rows(sql)
        elif since == _NOT_SET:
            raise UnsupportedEvent(f"{complaint} The savepoint is not.", hint=_LOAD_HINT)
        elif not self._tables.logs_kept_rows_apart:
            raise UnsupportedEvent(f"{complaint} Which of them remain is unknown.", hint=_KEPT_HINT)
        elif not undo(since):
            raise UnsupportedEvent(complaint, hint=_HANDED_OVER_HINT)

    def _add_of_rows(self, sql: str) -> None:
        """Hand on a statement that decides about rows, and names no table."""
        self._add(sql, "", (), StatementKind.ROWS)

    def _add(
        self, sql: str, schema: str, changes: Sequence[Change], kind: StatementKind
    ) -> list[tuple[Change, TableName]]:
        """Hand a statement on if any of its tables is selected; return these, with their names for consumers.

        Args:
            sql: its text.
            schema: the session's database; a statement about no table is selected by it.
            changes: its changes.
            kind: the kind by which filters select it.
        """
        about_none = not changes
        changes = changes or (Change("QUERY", schema, ""),)
        names = [self._select(each.schema, each.table) for each in changes]
        selection = [(each, name) for each, name in zip(changes, names, strict=True) if name is not None]
        if not selection:
            return []
        labels = [name or TableName(*each[1:3]) for each, name in zip(changes, names, strict=True)]
        renames = changes[0].op == _RENAME
        first = labels[1 if renames else 0]
        tables = [
            {
                "schema": each.schema,
                "table": each.table,
                "role": _ROLES[index % len(_ROLES)] if renames else MOVES_ROWS if change.moves_rows else "",
                "kept": name is not None,
            }
            for index, (change, each, name) in enumerate(zip(changes, labels, names, strict=True))
        ]
        columns = {
            "schema": first.schema,
            "table": first.table,
            "op": changes[0].op,
            "sql": printable(sql),
            "ddl_schema": self._session(schema, selection),
            "tables": [] if about_none else tables,
        }
        sources = tuple(TableName(*each[1:3]) for each, _ in selection)
        source = StatementSource(sources, kind, tuple(self._tables.origins(*each) for each in sources))
        self._builder.add_statement(columns, source)
        return selection

    def _session(self, schema: str, selection: Sequence[tuple[Change, TableName]]) -> str:
        """Return the session's database as consumers see it: routed as the first selected table of it."""
        routed = next((name.schema for each, name in selection if each.schema == schema), None)
        if routed is None and schema:
            routed = (self._select(schema, "") or TableName(schema, "")).schema
        return printable(routed or "")
