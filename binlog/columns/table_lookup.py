"""Table lookup: describes tables where a table map is incomplete; see `unnamed_tables`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol

from canal_group.binlog.columns.table_map import TableMap
from canal_group.binlog.columns.types.column import Role
from canal_group.binlog.formats.events import Query
from canal_group.merge.values.chunk import Lineage, TableName


class ColumnFacts(NamedTuple):
    """A column as a server describes it."""

    name: str
    unsigned: bool
    #: collation number; 63 is binary
    collation: int
    #: ENUM's or SET's values in the order of their definition
    values: tuple[str, ...]
    #: ordinal in the primary key, from 1; 0: not in it
    key_ordinal: int
    #: uuid, inet4, inet6, vector, time ...: the type's name, without size
    type: str = ""
    #: digits of a fraction of a second
    decimals: int = 0
    #: bytes of a list; 0 of other types
    size: int = 0
    role: Role = Role.PLAIN


class TableLookup(Protocol):
    """Describes tables as they are now, or were when their rows were written."""

    def columns(self, table: TableMap) -> Sequence[ColumnFacts] | None:
        """Return a table's columns in order; None if the table is unknown.

        Raises:
            DataError: these cannot be the columns that the table map has.
        """

    def origins(self, schema: str, table: str) -> tuple[TableName, ...]:
        """Return names that a table had, and those of tables that it was made like; see `Lineage`."""

    def lineage(self, schema: str, table: str) -> Lineage:
        """Return where the values of a table come from, or the known part of it.

        Raises:
            UnsupportedEvent: it is unknown, and the table's rows must not go out without it.
        """

    def redefine(self, query: Query, file: str, end: int) -> None:
        """Apply a statement that defines something.

        Args:
            query: the statement.
            file: the binlog file that it is in.
            end: where its event ends there.
        """

    def lose(self, query: Query | None, file: str, end: int) -> None:
        """Apply that a statement is left out: its definitions are unknown from now on. Never raises for it.

        Args:
            query: the statement; None: it cannot be read, and may define anything.
            file: the binlog file that it is in.
            end: where its event ends there.
        """

    def tables(self) -> Collection[tuple[str, str]] | None:
        """Return the schema and name of each selected table at the read position; None: unknown."""


class NoLookup:
    """Knows no table: columns are called @1, @2 and so on, as mysqlbinlog calls them."""

    def columns(self, _table: TableMap) -> None:
        """Return None."""

    def origins(self, _schema: str, _table: str) -> tuple[TableName, ...]:
        """Return none."""
        return ()

    def lineage(self, _schema: str, _table: str) -> Lineage:
        """Return an empty lineage."""
        return Lineage()

    def redefine(self, _query: Query, _file: str, _end: int) -> None:
        """Do nothing."""

    def lose(self, _query: Query | None, _file: str, _end: int) -> None:
        """Do nothing."""

    def tables(self) -> None:
        """Return None."""
