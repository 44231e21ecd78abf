"""Stored types: the column types that operators chose."""

from __future__ import annotations

from canal_group.actors.group.stored.document import DOCUMENTS, StoredDocument
from canal_group.actors.ports import Key
from canal_group.merge.rows.chosen_types import ChosenTypes
from canal_group.merge.values.chunk import TableName


class StoredTypes(StoredDocument[ChosenTypes]):
    """Reads and writes chosen types; see `StoredDocument`."""

    KEY = Key(DOCUMENTS, "types")
    WHAT = "the chosen column types"
    REMOVED = "then choose the types again"
    parse = staticmethod(ChosenTypes.from_json)

    async def choose(self, table: TableName, column: str, type_text: str | None) -> ChosenTypes:
        """Choose a column's type; None: take the choice back. Return what is stored now.

        Raises as `StoredDocument.change` and `ChosenTypes.changed`.
        """

        def chosen(types: ChosenTypes) -> tuple[ChosenTypes, ChosenTypes]:
            changed = types.changed(table, column, type_text)
            return changed, changed

        return await self.change(chosen)
