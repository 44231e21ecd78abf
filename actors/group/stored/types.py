"""Stored types: the column types that operators chose."""

from __future__ import annotations

from canal_group.actors.group.stored.document import DOCUMENTS, StoredDocument
from canal_group.actors.ports import Key
from canal_group.merge.rows.chosen_types import TypeOverrides
from canal_group.merge.values.chunk import TableName


class StoredTypes(StoredDocument[TypeOverrides]):
    """Reads and writes chosen types; see `StoredDocument`."""

    KEY = Key(DOCUMENTS, "types")
    WHAT = "the chosen column types"
    REMOVED = "then choose the types again"
    parse = staticmethod(TypeOverrides.from_json)

    async def choose(self, table: TableName, column: str, type_text: str | None) -> TypeOverrides:
        """Choose a column's type; None: take the choice back. Return the stored types.

        Raises as `StoredDocument.change` and `TypeOverrides.changed`.
        """

        def chosen(types: TypeOverrides) -> tuple[TypeOverrides, TypeOverrides]:
            changed = types.changed(table, column, type_text)
            return changed, changed

        return await self.change(chosen)
