"""Table lookup: answers what a table map does not say; see `unnamed_tables`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class ColumnFacts(NamedTuple):
    """What a server says about a column."""

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
    """Describes tables as they are now, or were."""

    def columns(self, schema: str, table: str) -> Sequence[ColumnFacts] | None:
        """Return a table's columns in order; None if the table is not known."""

    def forget(self) -> None:
        """Forget the answers so far, because a definition was changed."""


class NoLookup:
    """Knows no table: columns are called @1, @2 and so on, as mysqlbinlog calls them."""

    def columns(self, _schema: str, _table: str) -> None:
        """Return None."""

    def forget(self) -> None:
        """Do nothing."""
