"""Stored types: the column types that operators chose."""

from __future__ import annotations

from actors.group.stored.document import StoredDocument
from actors.ports import Host, SchemaHistoryStore
from merge.rows.chosen_types import ChosenTypes
from merge.values.chunk import TableName

#: under what they are stored; no shard can have this name
STORED_AS = "-types"


class StoredTypes(StoredDocument[ChosenTypes]):
    """Reads and writes chosen types; see `StoredDocument`."""

    def __init__(self, store: SchemaHistoryStore, epoch: int, host: Host) -> None:
        super().__init__(
            store,
            epoch,
            host,
            name=STORED_AS,
            parse=ChosenTypes.from_json,
            what="the chosen column types",
            hint=f"Remove {STORED_AS} beside the schema histories, and choose the types again.",
        )

    async def choose(self, table: TableName, column: str, said: str | None) -> ChosenTypes:
        """Choose a column's type; None: take the choice back. Return what is stored now.

        Raises as `StoredDocument.change` and `ChosenTypes.changed`.
        """

        def chosen(types: ChosenTypes) -> tuple[ChosenTypes, ChosenTypes]:
            changed = types.changed(table, column, said)
            return changed, changed

        return await self.change(chosen)
