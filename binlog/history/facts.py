"""Facts: the statements and definitions of a schema history, each at its position in a server's binlog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, NamedTuple, TypeAlias

from canal_group.binlog.history.touches import Touches
from canal_group.binlog.schema.catalog import Applied, Catalog
from canal_group.binlog.schema.catalog_entry import CatalogEntry, View, entry_from_json, version_from_json
from canal_group.binlog.schema.definition import SourceName
from canal_group.binlog.schema.statement import Statement
from canal_group.merge.values.position import file_order

_STATEMENT_FIELDS = {field.name for field in fields(Statement)} - {"server"}
#: the sort key of facts of one server: the binlog file, the offset there, and 0 for a statement
Order: TypeAlias = tuple[tuple[str, int], int, int]


class LogPosition(NamedTuple):
    """A position in a server's binlog, between two events. Only positions of one server can be compared."""

    server: str
    file: str
    offset: int

    def reaches(self, other: LogPosition) -> bool:
        """Return whether it is at or after another position of the same server's binlog."""
        (base, number), (other_base, other_number) = file_order(self.file), file_order(other.file)
        same = (self.server, base) == (other.server, other_base)
        return same and (number, self.offset) >= (other_number, other.offset)

    def __str__(self) -> str:
        return f"{self.file}:{self.offset}"


class Change(NamedTuple):
    """A statement of the binlog that defines something."""

    #: where its event ends
    end: LogPosition
    statement: Statement
    #: None: unknown yet
    touches: Touches | None = None
    #: why only its touches are known; its text is its beginning then, and is not read. Empty: it is read
    unread: str = ""

    @property
    def order(self) -> Order:
        """The sort key of facts of one server."""
        return file_order(self.end.file), self.end.offset, 0

    def apply(self, catalog: Catalog) -> Applied:
        """Apply it to a catalog; an unread statement makes unknown what it touches. Never raises."""
        if not self.unread:
            return catalog.apply(self.statement)
        assert self.touches is not None, "its touches are known"
        touches = self.touches
        if touches.all:
            return catalog.forget_all(self.unread)
        return catalog.forget(touches.names, touches.schemas, touches.gone, self.unread)

    def to_json(self) -> dict[str, Any]:
        """Return it as a JSON object, without the fields that have their usual value."""
        statement = self.statement
        usual = Statement("", "", statement.server)
        values = {name: getattr(statement, name) for name in _STATEMENT_FIELDS}
        values = {name: value for name, value in values.items() if value != getattr(usual, name)}
        if statement.default_collations is not None:
            values["default_collations"] = dict(statement.default_collations)
        touches = {} if self.touches is None else {"touches": self.touches.to_json()}
        unread = {"unread": self.unread} if self.unread else {}
        at = [self.end.file, self.end.offset]
        return {"at": at, "server": list(statement.server), **values, **touches, **unread}


class Learned(NamedTuple):
    """A table's definition as the source showed it, and the position from which it holds."""

    #: the position from which it is known to hold
    end: LogPosition
    entry: CatalogEntry

    @property
    def order(self) -> Order:
        """The sort key of facts of one server: after the statement that ends at the same position."""
        return file_order(self.end.file), self.end.offset, 1

    def to_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {"at": [self.end.file, self.end.offset], "table": self.entry.to_json()}


Fact: TypeAlias = Change | Learned


class Present(NamedTuple):
    """The names that a server lists at one moment, and the statements from a position to that moment."""

    tables: Sequence[SourceName]
    views: Sequence[View]
    #: default collations; None: unknown
    schemas: Mapping[str, int | None]
    changes: Sequence[Change]


def through(position: LogPosition) -> Order:
    """Return the sort key of the last fact at a position."""
    return file_order(position.file), position.offset, 1


def fact_from_json(server: str, data: Mapping[str, Any]) -> Fact:
    """Return the fact of an object that `to_json` made.

    Raises:
        ValueError, KeyError, TypeError: it is not valid.
    """
    file, offset = data["at"]
    file_order(file)
    end = LogPosition(server, str(file), int(offset))
    if "table" in data:
        return Learned(end, entry_from_json(data["table"]))
    values = {name: data[name] for name in _STATEMENT_FIELDS & set(data)}
    statement = Statement(**{"sql": "", "schema": "", **values}, server=version_from_json(data["server"]))
    touches = Touches.from_json(data["touches"]) if "touches" in data else None
    return Change(end, statement, touches, str(data.get("unread", "")))
