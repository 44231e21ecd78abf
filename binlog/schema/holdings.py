"""Holdings: the tables, views and schemas of a catalog, and a record of a statement's changes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from canal_group.binlog.schema.ancestry import ORIGINS_MAX, Ancestry
from canal_group.binlog.schema.catalog_entry import CatalogEntry, NoTable, Resolved, Schema, ShownTable, View
from canal_group.binlog.schema.definition import SourceName, TableDefinition, UnknownTable

#: what the text of a table that was shown has if an expression computes a column; others may have it too
_EXPRESSION = re.compile(r"\bAS \(|\bDEFAULT [^'\n]*[(`]")


@dataclass(frozen=True, slots=True)
class Applied:
    """The changes that a statement made to a catalog."""

    #: tables whose definition has changed
    changed: tuple[SourceName, ...] = ()
    #: tables that did not exist before, or were replaced
    created: tuple[SourceName, ...] = ()
    dropped: tuple[SourceName, ...] = ()
    #: (old name, new name) of each RENAME, in order
    renamed: tuple[tuple[SourceName, SourceName], ...] = ()
    #: tables that have exchanged rows, and whose definitions have not changed
    exchanged: tuple[SourceName, ...] = ()
    #: names whose table's definition is unknown because of this statement
    unknown: tuple[SourceName, ...] = ()
    #: those of them under which the statement has created a table, or has done nothing; likewise schemas,
    #: as names without a table
    conditional: tuple[SourceName, ...] = ()
    #: schemas whose default collation was set, and schemas that are gone with all that was in them
    schemas: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    #: whether the statement may have changed any table: all are unknown now
    any_unknown: bool = False
    #: why tables are unknown, a sentence; else empty
    reason: str = ""
    #: words of it that were not understood, and have no meaning for rows
    passed_over: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Return whether the catalog was changed."""
        return self != Applied()

    @property
    def names(self) -> frozenset[SourceName]:
        """The names that it concerns."""
        pairs = (name for pair in self.renamed for name in pair)
        return frozenset((*self.changed, *self.created, *self.dropped, *self.unknown, *pairs))


@dataclass(slots=True)
class _Record:
    """The content of `Applied`, while a statement is applied."""

    changed: list[SourceName] = field(default_factory=list)
    created: list[SourceName] = field(default_factory=list)
    dropped: list[SourceName] = field(default_factory=list)
    renamed: list[tuple[SourceName, SourceName]] = field(default_factory=list)
    exchanged: list[SourceName] = field(default_factory=list)
    unknown: list[SourceName] = field(default_factory=list)
    conditional: list[SourceName] = field(default_factory=list)
    schemas: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    any_unknown: bool = False
    reason: str = ""
    passed_over: tuple[str, ...] = ()


class Holdings:
    """Holds tables and views by name.

    Args:
        fold: returns the name by which a name is compared.
        read: reads a table that was shown.
    """

    def __init__(
        self, fold: Callable[[str], str], read: Callable[[ShownTable], TableDefinition | UnknownTable]
    ) -> None:
        self._fold = fold
        self._read = read
        self.tables: dict[SourceName, CatalogEntry] = {}
        #: default collations, None: unknown; a schema that is missing does not exist
        self.schemas: dict[str, int | None] = {}
        #: why a name of a schema may be one of a table though nothing is held under it
        self.unsure: dict[str, str] = {}
        #: why any name may be; empty: none is
        self.all_unknown = ""
        #: of tables, and of names whose table is unknown
        self.ancestries: dict[SourceName, Ancestry] = {}
        self._record = _Record()

    def begin(self) -> None:
        """Begin a record."""
        self._record = _Record()

    def pass_over(self, words: list[str]) -> None:
        """Record words that were not understood, and have no meaning for rows."""
        self._record.passed_over = tuple(words)

    @property
    def applied(self) -> Applied:
        """The record since `begin`."""
        record = self._record
        return Applied(
            tuple(record.changed),
            tuple(record.created),
            tuple(record.dropped),
            tuple(record.renamed),
            tuple(record.exchanged),
            tuple(record.unknown),
            tuple(record.conditional),
            tuple(record.schemas),
            tuple(record.gone),
            record.any_unknown,
            record.reason,
            record.passed_over,
        )

    def copy_from(self, other: Holdings) -> None:
        """Take the content of another one."""
        self.tables, self.schemas, self.unsure = dict(other.tables), dict(other.schemas), dict(other.unsure)
        self.all_unknown, self.ancestries = other.all_unknown, dict(other.ancestries)

    def derive(self, name: SourceName, other: SourceName) -> None:
        """Record that a table was made like another one, or has rows of it."""
        self._remember(self.key(other))
        own, others = self.ancestry(name), self.ancestry(other)
        names = [each for each in (*own.names, *others.names, other) if self.key(each) != self.key(name)]
        # The last of each name counts; a rotation that makes a new name each day forgets the oldest.
        latest = tuple(dict.fromkeys(reversed(names)))[:ORIGINS_MAX]
        self.ancestries[self.key(name)] = replace(own.reading(others.reads), names=latest[::-1])

    def ancestry(self, name: SourceName) -> Ancestry:
        """Return where the values of a table have come from."""
        return self.ancestries.get(self.key(name), Ancestry())

    def alter_columns(
        self,
        name: SourceName,
        renamed: Mapping[str, str],
        dropped: AbstractSet[str],
        reads: Mapping[str, Iterable[str]],
    ) -> None:
        """Record what a statement does to columns whose values are computed; call it before `change`.

        Args:
            name: the table.
            renamed: see `Ancestry.altered`.
            dropped: see `Ancestry.altered`.
            reads: words of new expressions that may be names, by column: they count for an unknown table.
        """
        key = self.key(name)
        self._remember(key)
        ancestry = self.ancestry(name).altered(renamed, dropped)
        if not isinstance(self.get(name), TableDefinition):
            ancestry = ancestry.reading(reads)
        self._keep(key, ancestry)

    def _remember(self, key: SourceName) -> None:
        """Record the columns that expressions of a table read, before its definition is replaced."""
        held = self.tables.get(key)
        if isinstance(held, ShownTable):
            held = self.read(held) if _EXPRESSION.search(held.text) else None
        if isinstance(held, TableDefinition):
            self._keep(key, self.ancestries.get(key, Ancestry()).defining(held))

    def _keep(self, key: SourceName, ancestry: Ancestry) -> None:
        self.ancestries.pop(key, None)
        if ancestry != Ancestry():
            self.ancestries[key] = ancestry

    def mix(self, one: SourceName, two: SourceName) -> None:
        """Record that two tables have exchanged rows."""
        self.derive(one, two)
        self.derive(two, one)
        self._record.exchanged += (one, two)

    def key(self, name: SourceName) -> SourceName:
        """Return the name under which a table is held."""
        return SourceName(self._fold(name.schema), self._fold(name.table))

    def get(self, name: SourceName) -> Resolved | None:
        """Return the table or view of a name; None if there is none."""
        key = self.key(name)
        held = self.tables.get(key)
        if held is None and (reason := self._unsure(key)):
            return UnknownTable(name.schema, name.table, reason)
        return self.read(held)

    def read(self, entry: CatalogEntry | None) -> Resolved | None:
        """Return the table or view of a holding; None if there is none, or its name is free."""
        if isinstance(entry, ShownTable):
            return self._read(entry)
        return None if isinstance(entry, NoTable | Schema) else entry

    def _unsure(self, key: SourceName) -> str:
        """Return why a name that is not held may be a table's all the same; empty: it is not."""
        return self.unsure.get(key.schema, self.all_unknown)

    def put(self, entry: CatalogEntry) -> None:
        """Hold an entry instead of an earlier one of its name; the record leaves it out."""
        if isinstance(entry, Schema):
            self.schemas[self._fold(entry.schema)] = entry.collation
            return
        self._remember(self.key(entry.name))
        self.tables[self.key(entry.name)] = entry

    def create(self, name: SourceName, table: TableDefinition) -> None:
        """Hold a new table, or another one of the name."""
        self.tables[self.key(name)] = table
        self._record.created.append(name)

    def create_view(self, name: SourceName) -> None:
        """Hold a view."""
        key, view = self.key(name), View(*name)
        if self.tables.get(key) != view:
            self.tables[key] = view
            self._record.created.append(name)

    def change(self, name: SourceName, table: TableDefinition | UnknownTable) -> None:
        """Hold another definition of a table; an unknown one always counts as another one."""
        if isinstance(table, UnknownTable) or self.get(name) != table:
            self.tables[self.key(name)] = table
            self._record.changed.append(name)

    def drop(self, name: SourceName) -> None:
        """Remove a table or view."""
        key = self.key(name)
        self.ancestries.pop(key, None)
        if self.get(name) is None:
            return
        self._free(key, name)
        self._record.dropped.append(name)

    def _free(self, key: SourceName, name: SourceName) -> None:
        if self._unsure(key):
            self.tables[key] = NoTable(*name)
        else:
            self.tables.pop(key, None)

    def rename(self, pairs: list[tuple[SourceName, SourceName]], statement: str, *, if_exists: bool) -> None:
        """Give tables and views new names, one after another.

        Args:
            pairs: old and new names.
            statement: the title of the statement, for messages.
            if_exists: whether a table that does not exist is skipped; else it exists, and is unknown.
        """
        for old, new in pairs:
            held = self.get(old)
            if held is None and if_exists:
                continue
            reason = f"{statement} renames {old}, whose definition is not known."
            maybe = isinstance(held, UnknownTable) and if_exists
            if not maybe:
                self.ancestries.pop(self.key(new), None)
            self.derive(new, old)
            if not maybe:
                self.ancestries.pop(self.key(old), None)
            if maybe:
                # With IF EXISTS, an unknown old table may be missing; then the new name keeps the table that
                # it had.
                self.forget(new, reason)
            elif held is None or isinstance(held, UnknownTable):
                self.drop(old)
                self.forget(new, reason if held is None or not held.reason else held.reason)
            else:
                self._free(self.key(old), old)
                self.tables[self.key(new)] = replace(held, schema=new.schema, table=new.table)
            self._record.renamed.append((old, new))

    def forget(self, name: SourceName, reason: str, *, conditional: bool = False) -> None:
        """Hold a name as that of an unknown table.

        Args:
            name: the name.
            reason: why, a sentence.
            conditional: whether a table was created just now, or was there already.
        """
        self._remember(self.key(name))
        self.tables[self.key(name)] = UnknownTable(name.schema, name.table, reason)
        self._record.unknown.append(name)
        if conditional:
            self._record.conditional.append(name)
        self._record.reason = reason

    def forget_schema(self, name: str, reason: str) -> None:
        """Hold every name of a schema as unknown."""
        folded = self._fold(name)
        gone = {key: held for key, held in self.tables.items() if key.schema == folded}
        for key, held in gone.items():
            self._remember(key)
            del self.tables[key]
            self._record.unknown.append(held.name)
        self.unsure[folded] = reason
        self.schemas[folded] = None

    def forget_all(self, reason: str) -> None:
        """Hold every name, and every schema, as unknown."""
        for key in self.tables:
            self._remember(key)
        self.all_unknown = reason
        self.tables.clear()
        self.unsure.clear()
        self.schemas = dict.fromkeys(self.schemas)
        self._record.any_unknown, self._record.reason = True, reason

    def has_schema(self, name: str) -> bool:
        """Return whether a schema exists, or may exist."""
        return self._fold(name) in self.schemas or bool(self.all_unknown)

    def schema_collation(self, name: str) -> int | None:
        """Return a schema's default collation; None if it is unknown."""
        return self.schemas.get(self._fold(name))

    def set_schema(self, name: str, collation: int | None) -> None:
        """Set a schema's default collation; None: unknown."""
        folded = self._fold(name)
        if folded not in self.schemas or self.schemas[folded] != collation:
            self.schemas[folded] = collation
            self._record.schemas.append(name)

    def keep_schema(self, name: str) -> None:
        """Record that a statement has left a schema as it was, or has created one that is not held."""
        if self._fold(name) not in self.schemas:
            self._record.conditional.append(SourceName(name, ""))

    def drop_schema(self, name: str) -> None:
        """Remove a schema with all its tables and views."""
        folded = self._fold(name)
        existed = self.schemas.pop(folded, self) is not self
        existed |= bool(self.unsure.pop(folded, self.all_unknown))
        self.ancestries = {key: each for key, each in self.ancestries.items() if key.schema != folded}
        gone = {key: held for key, held in self.tables.items() if key.schema == folded}
        for key, held in gone.items():
            del self.tables[key]
            self._record.dropped.append(held.name)
        if self.all_unknown:
            self.unsure[folded] = ""
        if gone or existed:
            self._record.gone.append(name)
