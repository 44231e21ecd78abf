"""Touches: the tables and schemas that a statement concerns, whatever a catalog holds of them.

They are its report on a catalog in which every table is unknown: there every name in it may be a table, and
its effect does not depend on the catalog.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from canal_group.binlog.schema.catalog import Catalog
from canal_group.binlog.schema.definition import SourceName
from canal_group.binlog.schema.statement import Statement


class Touches(NamedTuple):
    """The tables and schemas that a statement touches."""

    names: frozenset[SourceName] = frozenset()
    #: tables of `names` that the statement has created unless they existed (IF NOT EXISTS), and schemas of
    #: the same kind as names without a table
    conditional: frozenset[SourceName] = frozenset()
    #: schemas whose default collation the statement sets
    schemas: frozenset[str] = frozenset()
    #: schemas that the statement drops, with all their tables
    gone: frozenset[str] = frozenset()
    #: tables that have exchanged rows, and that nothing else touches
    exchanged: frozenset[SourceName] = frozenset()
    #: whether it may touch anything
    all: bool = False
    #: words of it that were not understood, and have no meaning for rows; they are not stored
    passed_over: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Return whether it touches anything."""
        return self != Touches()

    def to_json(self) -> dict[str, Any]:
        """Return it as a JSON object; `from_json` takes it."""
        data = {
            "names": sorted(map(list, self.names)),
            "conditional": sorted(map(list, self.conditional)),
            "schemas": sorted(self.schemas),
            "gone": sorted(self.gone),
            "exchanged": sorted(map(list, self.exchanged)),
            "all": self.all,
        }
        return {name: value for name, value in data.items() if value}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Touches:
        """Return the touches of an object that `to_json` made.

        Raises:
            ValueError, TypeError: it is not valid.
        """
        names, conditional, exchanged = (
            frozenset(SourceName(str(schema), str(table)) for schema, table in data.get(key, ()))
            for key in ("names", "conditional", "exchanged")
        )
        schemas, gone = (frozenset(map(str, data.get(key, ()))) for key in ("schemas", "gone"))
        return Touches(names, conditional, schemas, gone, exchanged, bool(data.get("all", False)))


def touches_of(make: Callable[[], Catalog], statement: Statement) -> Touches:
    """Return the tables and schemas that a statement touches.

    Args:
        make: returns an empty catalog.
        statement: the statement.
    """
    catalog = make()
    catalog.forget_all("Nothing is known.")
    applied = catalog.apply(statement)
    return Touches(
        applied.names,
        frozenset(applied.conditional),
        frozenset(applied.schemas),
        frozenset(applied.gone),
        frozenset(applied.exchanged),
        applied.any_unknown,
        applied.passed_over,
    )
