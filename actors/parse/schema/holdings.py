"""Holdings: the tables and schemas that a catalog has, and a record of what a statement does to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from actors.parse.schema.definition import SourceName, TableDefinition, UnknownTable


@dataclass(frozen=True, slots=True)
class Applied:
    """What a statement did to a catalog. Only tables that the catalog keeps are named."""

    #: tables whose definition is another now
    changed: tuple[SourceName, ...] = ()
    #: tables that did not exist before, or were replaced
    created: tuple[SourceName, ...] = ()
    dropped: tuple[SourceName, ...] = ()
    #: (old name, new name) of each RENAME, in order; one of the names may be of a table that is not kept
    renamed: tuple[tuple[SourceName, SourceName], ...] = ()
    #: tables that exist, and whose definition is not known because of this statement
    unknown: tuple[SourceName, ...] = ()
    #: whether the statement may have changed any table: all are unknown now
    any_unknown: bool = False
    #: why tables are unknown, a sentence with the statement's beginning; else empty
    reason: str = ""

    def __bool__(self) -> bool:
        """Return whether the catalog was changed."""
        return self != Applied()


class Holdings:
    """Holds tables by name.

    Args:
        fold: returns what a name is compared by.
        keep: which tables are held.
    """

    def __init__(self, fold: Callable[[str], str], keep: Callable[[str, str], bool]) -> None:
        self._fold = fold
        self._keep = keep
        self.tables: dict[SourceName, TableDefinition | UnknownTable] = {}
        self.schemas: dict[str, int] = {}
        #: why a table that is not held may exist all the same; empty: it does not
        self.all_unknown = ""
        self._applied = Applied()

    def begin(self) -> None:
        """Begin a record."""
        self._applied = Applied()

    @property
    def applied(self) -> Applied:
        """The record since `begin`."""
        return self._applied

    def key(self, name: SourceName) -> SourceName:
        """Return what a table is held under."""
        return SourceName(self._fold(name.schema), self._fold(name.table))

    def keeps(self, name: SourceName) -> bool:
        """Return whether a table is one of those that are held."""
        return self._keep(name.schema, name.table)

    def get(self, name: SourceName) -> TableDefinition | UnknownTable | None:
        """Return what is held of a table."""
        found = self.tables.get(self.key(name))
        if found is None and self.all_unknown and self.keeps(name):
            return UnknownTable(name.schema, name.table, self.all_unknown)
        return found

    def create(self, name: SourceName, table: TableDefinition) -> None:
        """Hold a new table, or another one of the name."""
        if self.keeps(name):
            self.tables[self.key(name)] = table
            self._applied = replace(self._applied, created=(*self._applied.created, name))

    def change(self, name: SourceName, table: TableDefinition) -> None:
        """Hold another definition of a table."""
        if self.keeps(name) and self.tables.get(self.key(name)) != table:
            self.tables[self.key(name)] = table
            self._applied = replace(self._applied, changed=(*self._applied.changed, name))

    def drop(self, name: SourceName) -> None:
        """Hold a table no more."""
        if self.tables.pop(self.key(name), None) is not None:
            self._applied = replace(self._applied, dropped=(*self._applied.dropped, name))

    def rename(self, pairs: list[tuple[SourceName, SourceName]], statement: str) -> None:
        """Give tables new names, one after another; a table that was not held is unknown under a held name.

        Args:
            pairs: old and new names.
            statement: what renames them, for messages.
        """
        for old, new in pairs:
            held = self.get(old)
            self.tables.pop(self.key(old), None)
            if self.keeps(new):
                reason = f"{statement} renames {old}, whose definition is not known."
                unknown = UnknownTable(new.schema, new.table, reason)
                self.tables[self.key(new)] = (
                    unknown if held is None else replace(held, schema=new.schema, table=new.table)
                )
                if not isinstance(held, TableDefinition):
                    self._unknown(new, reason if held is None else held.reason)
            if self.keeps(old) or self.keeps(new):
                self._applied = replace(self._applied, renamed=(*self._applied.renamed, (old, new)))

    def forget(self, name: SourceName, reason: str) -> None:
        """Hold a table as unknown."""
        if self.keeps(name):
            self.tables[self.key(name)] = UnknownTable(name.schema, name.table, reason)
            self._unknown(name, reason)

    def forget_all(self, reason: str) -> None:
        """Hold every table as unknown."""
        self.all_unknown = reason
        self.tables = {
            key: UnknownTable(table.schema, table.table, reason) for key, table in self.tables.items()
        }
        self.schemas.clear()
        self._applied = replace(self._applied, any_unknown=True, reason=reason)

    def _unknown(self, name: SourceName, reason: str) -> None:
        self._applied = replace(self._applied, unknown=(*self._applied.unknown, name), reason=reason)

    def schema_collation(self, name: str) -> int | None:
        """Return a schema's default collation; None if it is not known."""
        return self.schemas.get(self._fold(name))

    def set_schema(self, name: str, collation: int | None) -> None:
        """Set a schema's default collation; None: it is not known."""
        if collation is None:
            self.schemas.pop(self._fold(name), None)
        else:
            self.schemas[self._fold(name)] = collation

    def drop_schema(self, name: str) -> None:
        """Hold nothing of a schema any more."""
        self.schemas.pop(self._fold(name), None)
        for key, table in list(self.tables.items()):
            if key.schema == self._fold(name):
                self.drop(SourceName(table.schema, table.table))
