"""Touches: which tables and schemas a statement says something of, whatever is held of them.

They are what it reports of a catalog in which nothing is known: there everything that it names may be a
table, and nothing that it does depends on what is there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from binlog.schema.catalog import Catalog
from binlog.schema.definition import SourceName
from binlog.schema.statement import Statement


class Touches(NamedTuple):
    """What a statement touches."""

    names: frozenset[SourceName] = frozenset()
    #: those of them that it has created, or has left as they were
    conditional: frozenset[SourceName] = frozenset()
    #: schemas that it sets the default collation of
    schemas: frozenset[str] = frozenset()
    #: schemas that it drops with all that is in them
    gone: frozenset[str] = frozenset()
    #: tables that have exchanged rows: nothing else is said of them
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
        """Return what `to_json` made.

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
    """Return what a statement touches.

    Args:
        make: returns an empty catalog.
        statement: it.
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
