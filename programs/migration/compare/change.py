"""Changes: what both streams consist of, in values that can be compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from canal_group.merge.values.position import file_order

#: number of a binlog file, and offset in it
FileOffset: TypeAlias = tuple[int, int]

_DML: Final = frozenset({"INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD"})


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a row image."""

    name: str
    #: None: NULL
    value: str | None
    mysql_type: str
    #: number of java.sql.Types
    jdbc_type: int
    key: bool
    updated: bool


@dataclass(frozen=True, slots=True)
class Change:
    """A row change, or a statement.

    canal's offset is that of the event, ours that of the transaction.
    """

    file: str
    offset: int
    schema: str
    table: str
    #: INSERT, UPDATE, DELETE, or the kind of a statement
    event: str
    before: tuple[Column, ...] = ()
    after: tuple[Column, ...] = ()
    #: None: a row change
    sql: str | None = None
    #: of one of our statements: bytes of its transaction
    length: int = 0

    @property
    def file_offset(self) -> FileOffset:
        """Where it is in the binlog."""
        return file_order(self.file)[1], self.offset

    @property
    def is_text_of_rows(self) -> bool:
        """Whether it is the text of row changes, which canal delivers beside them."""
        first = (self.sql or "").lstrip().partition(" ")[0].upper()
        return self.event == "QUERY" and not self.length and first in _DML

    @property
    def name(self) -> str:
        """`schema.table`."""
        return f"{self.schema}.{self.table}"


@dataclass(frozen=True, slots=True)
class Mark:
    """The begin or the end of a transaction: ours is where the next event begins, canal's its last event."""

    file: str
    offset: int
    begins: bool
    #: whether its rows were prepared in two phases: canal delivers them before their outcome is known
    xa: bool = False

    @property
    def file_offset(self) -> FileOffset:
        """Where it is in the binlog."""
        return file_order(self.file)[1], self.offset


Item: TypeAlias = Change | Mark
