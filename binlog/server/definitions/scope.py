"""Scope: which statements of a source are read to the end, and which only as far as they name tables.

A statement that concerns no kept table, nor another one of a schema that has kept tables, is not read by the
grammar, nor is one that is too long. What such a statement names is not known then, and is asked for when it
is needed. So who may only define tables that are left out costs a shard no more than the lexer, and stores no
more than names. A statement on a table with masked or dropped columns is read wherever the table is: its rows
may get a kept name. If that statement is too long, the shard stops.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from canal_group.binlog.formats.events import Query
from canal_group.binlog.grammar.tables import Select
from canal_group.binlog.history.facts import Change, LogPosition
from canal_group.binlog.history.touches import Touches
from canal_group.binlog.schema.definition import SourceName
from canal_group.binlog.schema.named import NAMES_MAX, Named, named_in, unprotected
from canal_group.binlog.schema.names import folded
from canal_group.binlog.schema.statement import BEGINNING_CHARS, ServerVersion, Statement
from canal_group.binlog.statements.logged_statement import statement_of
from canal_group.merge.errors import UnsupportedEvent


class Scope:
    """Knows which schemas have kept tables.

    Args:
        select: which tables are kept.
        chars_max: characters of the longest statement that is read.
    """

    def __init__(self, select: Select, chars_max: int) -> None:
        self._select = select
        self._chars_max = chars_max
        #: schemas in which a kept table was seen
        self._schemas: set[str] = set()

    def see(self, *names: SourceName) -> None:
        """Note tables that exist; if one is kept, statements on others of its schema are read."""
        for name in names:
            if folded(name.schema) not in self._schemas and self._select(*name) is not None:
                self._schemas.add(folded(name.schema))

    def change(
        self,
        end: LogPosition,
        query: Query,
        version: ServerVersion,
        protects: Callable[[SourceName], bool] = unprotected,
    ) -> Change:
        """Return a statement that ends at a position, as far as it is to be read.

        Args:
            end: the position.
            query: the statement.
            version: of the server.
            protects: returns whether columns of a table must not be read through others.

        Raises:
            CorruptEvent: the session's settings exceed the event.
            UnsupportedEvent: it names such a table, and is too long, or names too many.
        """
        statement = statement_of(query, version)
        named = named_in(statement, protects)
        self.see(*named.tables)
        why = self._why_unread(statement, named, passes=named.protected is not None)
        if why and named.protected is not None:
            raise UnsupportedEvent(
                f"{why} The filter masks or drops columns of {named.protected}, which the statement names:"
                " nothing tells under which names their values are after it.",
                hint="Raise reader.statement_chars_max if the statement is too long, or leave the table out"
                " by filter.black.",
                table=str(named.protected),
            )
        if not why and not named.nothing:
            return Change(end, statement)
        touches = Touches(
            frozenset(named.tables),
            schemas=frozenset(named.schemas),
            gone=frozenset(named.dropped | named.whole),
            all=named.any,
        )
        return Change(end, replace(statement, sql=statement.sql[:BEGINNING_CHARS]), touches, why)

    def _why_unread(self, statement: Statement, named: Named, *, passes: bool) -> str:
        """Return why a statement is not read, a sentence; empty: it is.

        Args:
            statement: the statement.
            named: its names.
            passes: whether the statement counts wherever its tables are.
        """
        if len(statement.sql) > self._chars_max:
            return (
                f"{statement.title} has {len(statement.sql):,} characters, more than are read "
                f"({self._chars_max:,}, reader.statement_chars_max)."
            )
        if named.whole:
            return f"{statement.title} names more than {NAMES_MAX:,} tables."
        if (
            named.tables
            and not passes
            and not any(folded(name.schema) in self._schemas for name in named.tables)
        ):
            return f"{statement.title} concerned no kept table, and was not read."
        return ""
