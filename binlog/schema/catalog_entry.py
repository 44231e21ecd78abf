"""Catalog entry: a table that is known, or shown and not read yet, or unknown; a view, a free name, a schema.

A name under which nothing is held is that of no table and no view, unless its schema, or everything, is
unknown. An unknown table does not count as absent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from canal_group.binlog.schema.definition import SourceName, TableDefinition, UnknownTable
from canal_group.binlog.schema.statement import ServerVersion


@dataclass(frozen=True, slots=True)
class _Holding:
    """A holding under a name at the source."""

    schema: str
    table: str

    @property
    def name(self) -> SourceName:
        """The name."""
        return SourceName(self.schema, self.table)


@dataclass(frozen=True, slots=True)
class View(_Holding):
    """A name that is a view's."""

    def to_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {"schema": self.schema, "table": self.table, "view": True}


@dataclass(frozen=True, slots=True)
class NoTable(_Holding):
    """A name that is known to be free, where others are unknown."""

    def to_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {"schema": self.schema, "table": self.table, "free": True}


@dataclass(frozen=True, slots=True)
class Schema(_Holding):
    """A schema as its source shows it; `table` is empty."""

    #: number of its default collation
    collation: int

    def to_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {"schema": self.schema, "table": "", "collation": self.collation}


@dataclass(frozen=True, slots=True)
class ShownTable(_Holding):
    """A table as its source shows it. The text is read when it is needed: most tables' never is."""

    #: what SHOW CREATE TABLE returned
    text: str
    server: ServerVersion

    def to_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {"schema": self.schema, "table": self.table, "shown": self.text, "server": list(self.server)}


CatalogEntry: TypeAlias = TableDefinition | ShownTable | UnknownTable | View | NoTable | Schema
#: a holding, after a table that was shown is read
Resolved: TypeAlias = TableDefinition | UnknownTable | View


def entry_from_json(data: Mapping[str, Any]) -> CatalogEntry:
    """Return the holding of an object that `to_json` made.

    Raises:
        ValueError, KeyError, TypeError: it is not valid.
    """
    if "columns" in data:
        return TableDefinition.from_json(data)
    schema, table = str(data["schema"]), str(data["table"])
    if "shown" in data:
        return ShownTable(schema, table, str(data["shown"]), version_from_json(data["server"]))
    if "view" in data:
        return View(schema, table)
    if "free" in data:
        return NoTable(schema, table)
    if "collation" in data:
        return Schema(schema, table, int(data["collation"]))
    return UnknownTable(schema, table, str(data["reason"]))


def version_from_json(data: Any) -> ServerVersion:
    """Return the version of a JSON list.

    Raises:
        ValueError, TypeError: it is not valid.
    """
    mariadb, *numbers = data
    return ServerVersion(bool(mariadb), *map(int, numbers))
