"""The catalog: the definitions of a source's tables, as the DDL statements applied so far leave them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from actors.parse.schema.definition import SourceName, TableDefinition, UnknownTable
from actors.parse.schema.statement import Statement


@dataclass(frozen=True, slots=True)
class Applied:
    """What a statement did to a catalog. Only tables that the catalog keeps are named."""

    #: tables whose definition is another now
    changed: tuple[SourceName, ...] = ()
    #: tables that did not exist before, or were replaced
    created: tuple[SourceName, ...] = ()
    dropped: tuple[SourceName, ...] = ()
    #: (old name, new name); for a swap each table once
    renamed: tuple[tuple[SourceName, SourceName], ...] = ()
    #: tables that exist, and whose definition is not known because of this statement
    unknown: tuple[SourceName, ...] = ()
    #: whether the statement may have changed any table: all are unknown now
    any_unknown: bool = False
    #: why tables are unknown, a sentence with the statement's beginning; else empty
    reason: str = ""

    def __bool__(self) -> bool:
        """Return whether the catalog was changed."""
        raise NotImplementedError


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
        raise NotImplementedError

    def apply(self, statement: Statement) -> Applied:
        """Apply a statement that the server has executed; never raises because of what it says."""
        raise NotImplementedError

    def table(self, schema: str, table: str) -> TableDefinition | UnknownTable | None:
        """Return a table's definition, why it is unknown, or None: the catalog has no such table."""
        raise NotImplementedError

    def tables(self) -> list[TableDefinition | UnknownTable]:
        """Return all tables, in the order of their names."""
        raise NotImplementedError

    def set(self, definition: TableDefinition) -> None:
        """Define a table, whatever it was before."""
        raise NotImplementedError

    def show(self, statement: Statement) -> TableDefinition:
        """Return the table that SHOW CREATE TABLE's text defines, without adding it to the catalog.

        Args:
            statement: the text, with the sql_mode of the session that asked, and the table's schema.

        Raises:
            ValueError: it cannot be read; the message says at which word.
        """
        raise NotImplementedError

    def schema_collation(self, schema: str) -> int | None:
        """Return a schema's default collation; None if it is not known."""
        raise NotImplementedError

    def set_schema(self, schema: str, collation: int) -> None:
        """Set a schema's default collation."""
        raise NotImplementedError

    def to_json(self) -> dict[str, Any]:
        """Return the catalog's content as a JSON object with stable text; settings are not in it."""
        raise NotImplementedError

    def load_json(self, data: dict[str, Any]) -> None:
        """Replace the content with that of an object that `to_json` made.

        Raises:
            ValueError: it is none; nothing was changed.
        """
        raise NotImplementedError
