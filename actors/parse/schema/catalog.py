"""The catalog: the definitions of a source's tables, as the DDL statements applied so far leave them.

It begins with a snapshot: `show` reads the text of SHOW CREATE TABLE, `set` takes the result. That text is
better than `information_schema.COLUMNS`. One parser reads it and the binlog's statements. It has the table's
default collation, the keys with their prefixes, and says what MariaDB does not show as columns: whether rows
have a period, and which keys are hashed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from actors.parse.schema.applying import Applying
from actors.parse.schema.definition import SourceName, TableDefinition, UnknownTable
from actors.parse.schema.holdings import Applied, Holdings
from actors.parse.schema.statement import Statement

__all__ = ["Applied", "Catalog"]


class Catalog:
    """Knows the definitions of tables, and the default collations of schemas.

    A table is in one of three states: defined, unknown, or not there. It stays unknown until a statement
    creates it again, drops it, or `set` defines it.

    Args:
        collation: the server's default, for statements that do not say `server_collation`.
        lower_case_table_names: the server's variable. 0: names of schemas and tables are case-sensitive;
            1: they are stored in lower case; 2: stored as given, compared in lower case.
        keep: which tables are remembered. A table that is renamed to a name that is kept, from one that is
            not, is unknown.
        utf8_is_utf8mb3: what `utf8` means; MariaDB's `old_mode` may say otherwise.
    """

    def __init__(
        self,
        collation: int,
        lower_case_table_names: int = 0,
        keep: Callable[[str, str], bool] = lambda _schema, _table: True,
        *,
        utf8_is_utf8mb3: bool = True,
    ) -> None:
        self._collation = collation
        self._utf8_is_utf8mb3 = utf8_is_utf8mb3
        self._holdings = Holdings(str.lower if lower_case_table_names else str, keep)

    def apply(self, statement: Statement) -> Applied:
        """Apply a statement that the server has executed; never raises because of what it says."""
        self._holdings.begin()
        self._applying(statement).run()
        return self._holdings.applied

    def table(self, schema: str, table: str) -> TableDefinition | UnknownTable | None:
        """Return a table's definition, why it is unknown, or None: the catalog has no such table."""
        return self._holdings.get(SourceName(schema, table))

    def tables(self) -> list[TableDefinition | UnknownTable]:
        """Return all tables, in the order of their names."""
        return [table for _, table in sorted(self._holdings.tables.items())]

    def set(self, definition: TableDefinition) -> None:
        """Define a table, whatever it was before; one that is not kept is ignored."""
        self._holdings.create(definition.name, definition)

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
        """Return a schema's default collation; None if it is not known."""
        return self._holdings.schema_collation(schema)

    def set_schema(self, schema: str, collation: int) -> None:
        """Set a schema's default collation."""
        self._holdings.set_schema(schema, collation)

    def to_json(self) -> dict[str, Any]:
        """Return the catalog's content as a JSON object; equal contents have equal text."""
        tables = self.tables()
        data: dict[str, Any] = {
            "tables": [table.to_json() for table in tables if isinstance(table, TableDefinition)],
            "schemas": dict(sorted(self._holdings.schemas.items())),
            "unknown": [
                [table.schema, table.table, table.reason]
                for table in tables
                if isinstance(table, UnknownTable)
            ],
        }
        if self._holdings.all_unknown:
            data["all_unknown"] = self._holdings.all_unknown
        return data

    def load_json(self, data: Mapping[str, Any]) -> None:
        """Replace the content with that of an object that `to_json` made.

        Raises:
            ValueError: it is none; nothing was changed.
        """
        try:
            tables = [TableDefinition.from_json(table) for table in data["tables"]]
            unknown = [UnknownTable(*map(str, table)) for table in data["unknown"]]
            schemas = {str(name): int(collation) for name, collation in data["schemas"].items()}
            all_unknown = str(data.get("all_unknown", ""))
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"The content of a catalog is not what it should be: {error!r}.") from error
        key = self._holdings.key
        found: list[TableDefinition | UnknownTable] = [*tables, *unknown]
        self._holdings.tables = {key(SourceName(table.schema, table.table)): table for table in found}
        self._holdings.schemas = schemas
        self._holdings.all_unknown = all_unknown

    def _applying(self, statement: Statement) -> Applying:
        collation = statement.server_collation
        default = self._collation if collation is None else collation
        return Applying(statement, self._holdings, default, utf8_is_utf8mb3=self._utf8_is_utf8mb3)
