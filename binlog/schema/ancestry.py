"""Ancestry: where the values of a table have come from, by all statements that are known.

A definition tells only what its expressions read now. A column that was computed keeps its values after the
expression has gone, and a column that was renamed keeps them as well, so the ancestry of both lasts until the
column is dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from canal_group.binlog.schema.clauses.words import NAMES_MAX
from canal_group.binlog.schema.definition import SourceName, TableDefinition
from canal_group.binlog.schema.names import folded

#: former names of a table that are kept, and those of tables that it was made like
ORIGINS_MAX = 100
#: columns that the expressions of one column have read, and that are kept
READS_MAX = NAMES_MAX


@dataclass(frozen=True, slots=True)
class Ancestry:
    """The former names of a table, and the columns that its columns were computed of, or were once."""

    #: names that the table had, or that its rows were under; the latest last
    names: tuple[SourceName, ...] = ()
    #: column -> columns that its expressions and defaults have read at any time, and its former names; all as
    #: `folded` returns them
    reads: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def reading(self, reads: Mapping[str, Iterable[str]]) -> Ancestry:
        """Return the ancestry with columns that others read as well."""
        columns = dict.fromkeys(chain(self.reads, reads))
        merged = {name: (*self.reads.get(name, ()), *reads.get(name, ())) for name in columns}
        return replace(self, reads={name: _unique(read, name) for name, read in merged.items() if read})

    def defining(self, table: TableDefinition) -> Ancestry:
        """Return the ancestry with the columns that a definition's expressions read."""
        reads = {folded(column.name): column.reads for column in table.columns if column.reads}
        return self.reading(reads) if reads else self

    def altered(self, renamed: Mapping[str, str], dropped: AbstractSet[str]) -> Ancestry:
        """Return the ancestry after a statement has dropped some columns, and renamed some of the others.

        A name that was read stays beside its new one: the values were computed under it.

        Args:
            renamed: old name -> new name, both `folded`.
            dropped: names, `folded`.
        """
        after: dict[str, list[str]] = {}
        for column in (self.reads.keys() | renamed.keys()) - dropped:
            names = self._reached(column)
            names += [renamed[name] for name in names if name in renamed]
            names += [column] if column in renamed else []
            after[renamed.get(column, column)] = names
        return replace(self, reads={name: _unique(read, name) for name, read in after.items()})

    def _reached(self, column: str) -> list[str]:
        """Return the columns that a column was computed of, also by way of others."""
        reached = dict.fromkeys(self.reads.get(column, ()))
        left = list(reached)
        while left:
            more = [name for name in self.reads.get(left.pop(), ()) if name not in reached]
            reached |= dict.fromkeys(more)
            left += more
        return list(reached)

    def reads_to_json(self) -> dict[str, list[str]]:
        """Return the columns that others were computed of as a JSON object."""
        return {name: list(read) for name, read in self.reads.items()}


def reads_from_json(data: Any) -> dict[str, tuple[str, ...]]:
    """Return the columns of an object that `reads_to_json` made.

    Raises:
        AttributeError, TypeError: it is not valid.
    """
    return {str(name): tuple(map(str, read)) for name, read in data.items()}


def _unique(names: Iterable[str], column: str) -> tuple[str, ...]:
    """Return the first names, each once, without the column itself."""
    return tuple(dict.fromkeys(name for name in names if name != column))[:READS_MAX]
