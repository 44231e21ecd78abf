"""The catalog: the definitions of a source's tables, as the DDL statements applied so far leave them.

It begins with what the source shows: the text of SHOW CREATE TABLE. That is better than
`information_schema.COLUMNS`. One parser reads it and the binlog's statements. It has the table's default
collation, the keys with their prefixes, and the facts that MariaDB does not show as columns: whether rows
have a period, and which keys are hashed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from canal_group.binlog.schema.ancestry import Ancestry, reads_from_json
from canal_group.binlog.schema.applying import Applying
from canal_group.binlog.schema.catalog_entry import CatalogEntry, Resolved, ShownTable
from canal_group.binlog.schema.definition import SourceName, TableDefinition, UnknownTable
from canal_group.binlog.schema.holdings import Applied, Holdings
from canal_group.binlog.schema.names import folded
from canal_group.binlog.schema.statement import Statement

__all__ = ["Applied", "Catalog"]

#: texts that were shown, and whose reading is remembered
READ_MAX = 1024


class Catalog:
    """Knows the definitions of tables, the names of views, and the default collations of schemas.

    A name is that of a table whose definition is known, or unknown, or of a view, or free. It stays unknown
    until a statement creates a table or view of the name, or drops it, or `set` is called for it.

    Args:
        collation: the server's default, for statements that do not say `server_collation`.
        lower_case_table_names: the server's variable. 0: names of schemas and tables are case-sensitive;
            1: they are stored in lower case; 2: stored as given, compared in lower case.
        utf8_is_utf8mb3: what `utf8` means; MariaDB's `old_mode` may say otherwise.
    """

    def __init__(
        self, collation: int, lower_case_table_names: int = 0, *, utf8_is_utf8mb3: bool = True
    ) -> None:
        self._collation = collation
        self._lower_case_table_names = lower_case_table_names
        self._utf8_is_utf8mb3 = utf8_is_utf8mb3
        read = lru_cache(READ_MAX)(self._read)
        self._holdings = Holdings(folded if lower_case_table_names else str, read)

    def apply(self, statement: Statement) -> Applied:
        """Apply a statement that the server has executed; never raises because of its text."""
        self._holdings.begin()
        self._applying(statement).run()
        return self._holdings.applied

    def table(self, schema: str, table: str) -> TableDefinition | UnknownTable | None:
        """Return the definition of a table, or why the definition is unknown; None: no such table exists."""
        resolved = self._holdings.get(SourceName(schema, table))
        return resolved if isinstance(resolved, TableDefinition | UnknownTable) else None

    def tables(self) -> list[TableDefinition | UnknownTable]:
        """Return all tables, in the order of their names; this reads all that were shown."""
        resolved = (self._holdings.get(each.name) for _, each in sorted(self._holdings.tables.items()))
        return [each for each in resolved if isinstance(each, TableDefinition | UnknownTable)]

    def names(self) -> list[SourceName]:
        """Return the names of all tables, unknown tables included, in order."""
        tables = TableDefinition | ShownTable | UnknownTable
        return [each.name for _, each in sorted(self._holdings.tables.items()) if isinstance(each, tables)]

    def count(self) -> int:
        """Return the number of tables, unknown tables included."""
        tables = TableDefinition | ShownTable | UnknownTable
        return sum(isinstance(each, tables) for each in self._holdings.tables.values())

    def held(self) -> Iterable[CatalogEntry]:
        """Return all holdings, in the order of names."""
        return [each for _, each in sorted(self._holdings.tables.items())]

    def resolved(self, name: SourceName) -> Resolved | None:
        """Return the table or view of a name; None if the name is free."""
        return self._holdings.get(name)

    def read(self, entry: CatalogEntry) -> Resolved | None:
        """Return the table or view that a holding means, without holding it."""
        return self._holdings.read(entry)

    def key(self, name: SourceName) -> SourceName:
        """Return the name by which a name is compared."""
        return self._holdings.key(name)

    def set(self, entry: CatalogEntry) -> None:
        """Hold a table, a view, a free name or a schema, instead of an earlier one of its name."""
        self._holdings.put(entry)

    def copy(self) -> Catalog:
        """Return a catalog with the same content, which changes apart from this one."""
        other = Catalog(self._collation, self._lower_case_table_names, utf8_is_utf8mb3=self._utf8_is_utf8mb3)
        other._holdings.copy_from(self._holdings)
        return other

    def show(self, statement: Statement) -> TableDefinition:
        """Return the table that SHOW CREATE TABLE's text defines, without adding it to the catalog.

        Args:
            statement: the text, and the table's schema. The session that asks must not have
                NO_BACKSLASH_ESCAPES set: the servers escape ENUM's values all the same. If it has ANSI_QUOTES
                set, so must the statement.

        Raises:
            ValueError: it cannot be read; the message says at which word.
        """
        return self._applying(statement).show()

    def schema_collation(self, schema: str) -> int | None:
        """Return a schema's default collation; None if it is unknown."""
        return self._holdings.schema_collation(schema)

    def collations(self) -> dict[str, int]:
        """Return the default collations of schemas that are known, by the names that `fold` returns."""
        return {name: number for name, number in self._holdings.schemas.items() if number is not None}

    def fold(self, schema: str) -> str:
        """Return the name by which a schema is compared."""
        return self.key(SourceName(schema, "")).schema

    def set_schema(self, schema: str, collation: int | None) -> None:
        """Hold a schema, with its default collation; None: unknown."""
        self._holdings.set_schema(schema, collation)

    def forget(
        self, names: Iterable[SourceName], collations: Iterable[str], schemas: Iterable[str], reason: str
    ) -> Applied:
        """Hold names and schemas as unknown because of a statement that is not read.

        Args:
            names: of tables.
            collations: schemas whose default collation it may have set.
            schemas: schemas of which any name may be concerned.
            reason: why, a sentence.
        """
        self._holdings.begin()
        for schema in schemas:
            self._holdings.forget_schema(schema, reason)
        for schema in collations:
            self._holdings.set_schema(schema, None)
        for name in names:
            self._holdings.forget(name, reason)
        return self._holdings.applied

    def forget_schema(self, schema: str, reason: str) -> None:
        """Hold every name of a schema, and its default collation, as unknown."""
        self._holdings.forget_schema(schema, reason)

    def forget_all(self, reason: str) -> Applied:
        """Hold every name, and every schema's default collation, as unknown."""
        self._holdings.begin()
        self._holdings.forget_all(reason)
        return self._holdings.applied

    def ancestry(self, name: SourceName) -> Ancestry:
        """Return where the values of a table have come from, also by its definition now."""
        ancestry, table = self._holdings.ancestry(name), self._holdings.get(name)
        return ancestry.defining(table) if isinstance(table, TableDefinition) else ancestry

    def schemas_to_json(self) -> dict[str, Any]:
        """Return schemas, unknown names and ancestries as a JSON object; `load_schemas` takes it."""
        held = self._holdings
        ancestries = sorted(held.ancestries.items())
        data = {
            "collations": held.schemas,
            "unsure": held.unsure,
            "all_unknown": held.all_unknown,
            "origins": [[*key, *map(list, each.names)] for key, each in ancestries if each.names],
            "reads": [[*key, each.reads_to_json()] for key, each in ancestries if each.reads],
        }
        return {name: value for name, value in data.items() if value}

    def load_schemas(self, data: Mapping[str, Any]) -> None:
        """Take schemas, unknown names and ancestries from an object that `schemas_to_json` made.

        Raises:
            ValueError, TypeError, AttributeError: it is not valid.
        """
        collations, unsure = dict(data.get("collations", {})), dict(data.get("unsure", {}))
        self._holdings.schemas = {
            str(name): None if number is None else int(number) for name, number in collations.items()
        }
        self._holdings.unsure = {str(name): str(reason) for name, reason in unsure.items()}
        self._holdings.all_unknown = str(data.get("all_unknown", ""))
        names = {
            SourceName(str(schema), str(table)): tuple(SourceName(str(one), str(two)) for one, two in names)
            for schema, table, *names in data.get("origins", ())
        }
        reads = {
            SourceName(str(schema), str(table)): reads_from_json(columns)
            for schema, table, columns in data.get("reads", ())
        }
        self._holdings.ancestries = {
            key: Ancestry(names.get(key, ()), reads.get(key, {})) for key in names.keys() | reads.keys()
        }

    def _read(self, shown: ShownTable) -> TableDefinition | UnknownTable:
        """Read a table that was shown."""
        try:
            definition = self.show(Statement(shown.text, shown.schema, shown.server))
        except Exception as error:  # noqa: BLE001 - any error of its reader means that the text is not understood
            reason = f"What the source shows of it is not understood: {error}."
            return UnknownTable(shown.schema, shown.table, reason)
        # The text may have a name that the table had before.
        return replace(definition, schema=shown.schema, table=shown.table)

    def _applying(self, statement: Statement) -> Applying:
        collation = statement.server_collation
        default = self._collation if collation is None else collation
        return Applying(statement, self._holdings, default, utf8_is_utf8mb3=self._utf8_is_utf8mb3)
