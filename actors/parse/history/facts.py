"""Facts: what a schema history is made of, each at its place in a server's binlog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, NamedTuple, TypeAlias

from actors.parse.schema.catalog import Catalog
from actors.parse.schema.definition import TableDefinition
from actors.parse.schema.statement import ServerVersion, Statement
from merge.values.position import file_order

_STATEMENT_FIELDS = {field.name for field in fields(Statement)} - {"server"}


class Place(NamedTuple):
    """A place in a server's binlog, between two events. Only places of one server can be compared."""

    server: str
    file: str
    offset: int

    def reaches(self, other: Place) -> bool:
        """Return whether it is at or after another place of the same server's binlog."""
        (base, number), (other_base, other_number) = file_order(self.file), file_order(other.file)
        same = (self.server, base) == (other.server, other_base)
        return same and (number, self.offset) >= (other_number, other.offset)


class Change(NamedTuple):
    """A statement of the binlog that defines something."""

    #: where its event ends
    end: Place
    statement: Statement

    @property
    def order(self) -> tuple[tuple[str, int], int, int]:
        """What facts of one server are sorted by."""
        return file_order(self.end.file), self.end.offset, 0

    def to_json(self) -> dict[str, Any]:
        """Return it as a JSON object; what is as usual is left out."""
        said = self.statement
        usual = Statement("", "", said.server)
        known = {name: getattr(said, name) for name in _STATEMENT_FIELDS}
        known = {name: value for name, value in known.items() if value != getattr(usual, name)}
        if said.default_collations is not None:
            known["default_collations"] = dict(said.default_collations)
        return {"at": [self.end.file, self.end.offset], "server": list(said.server), **known}


class Learned(NamedTuple):
    """What a table is from a place on, unless the statements before say it."""

    #: where that is known to hold
    end: Place
    definition: TableDefinition

    @property
    def order(self) -> tuple[tuple[str, int], int, int]:
        """What facts of one server are sorted by: after the statement that ends at the same place."""
        return file_order(self.end.file), self.end.offset, 1

    def to_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {"at": [self.end.file, self.end.offset], "table": self.definition.to_json()}


Fact: TypeAlias = Change | Learned


class Present(NamedTuple):
    """What a server shows at one moment, and the statements that lead from a place to that moment."""

    catalog: Catalog
    changes: Sequence[Change]
    #: where the binlog ended at that moment; None: not known
    end: Place | None = None


def fact_from_json(server: str, data: Mapping[str, Any]) -> Fact:
    """Return the fact of an object that `to_json` made.

    Raises:
        ValueError, KeyError, TypeError: it is none.
    """
    file, offset = data["at"]
    file_order(file)
    end = Place(server, str(file), int(offset))
    if "table" in data:
        return Learned(end, TableDefinition.from_json(data["table"]))
    said = {name: data[name] for name in _STATEMENT_FIELDS & set(data)}
    mariadb, *numbers = data["server"]
    version = ServerVersion(bool(mariadb), *map(int, numbers))
    return Change(end, Statement(**{"sql": "", "schema": "", **said}, server=version))
