"""Table lookup: who says what a table map does not; see `unnamed_tables`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class ColumnFacts(NamedTuple):
    """What a server says of a column."""

    name: str
    unsigned: bool
    #: collation number; 63 is binary
    collation: int
    #: ENUM's or SET's values in the order of their definition
    values: tuple[str, ...]
    primary_key: bool
    #: uuid, inet4, inet6, vector, time ...: the type's name, without size
    type: str = ""
    #: digits of a fraction of a second
    decimals: int = 0
    #: bytes of a VECTOR; 0 of other types
    size: int = 0


class TableLookup(Protocol):
    """Knows tables as they are now, or were."""

    def columns(self, schema: str, table: str) -> Sequence[ColumnFacts] | None:
        """Return a table's columns in order; None if the table is not known."""

    def forget(self) -> None:
        """Forget what was said so far: a definition was changed."""


class NoLookup:
    """Knows no table: columns are called @1, @2 and so on, as mysqlbinlog calls them."""

    def columns(self, _schema: str, _table: str) -> None:
        """Return None."""

    def forget(self) -> None:
        """Do nothing."""
