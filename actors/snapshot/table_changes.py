"""Table changes: what the statements of a chunk did to tables, as far as their snapshots must know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from canal_group.merge.snapshot.steps import TableChange
from canal_group.merge.values.chunk import MOVES_ROWS, Chunk, StatementKind, TableName

#: canal's EventType of the statements that make another table of a name, or none
_CHANGES: Final = {"RENAME": TableChange.REPLACED, "ERASE": TableChange.DROPPED}
_ORDER: Final = (TableChange.ALTERED, TableChange.REPLACED, TableChange.ROWS_MOVED, TableChange.DROPPED)


def changes_in(chunk: Chunk) -> dict[TableName, TableChange]:
    """Return the changes that statements made to the tables that they name, by the source's names.

    One without a table is of a schema: it concerns all of its tables. Of several the gravest counts; a table
    that is created after it was dropped is another one.
    """
    if chunk.statements is None:
        return {}
    found: dict[TableName, TableChange] = {}
    texts = chunk.statements.select(["op", "tables"]).to_pylist()
    for text, source in zip(texts, chunk.statement_sources, strict=True):
        if source.kind is not StatementKind.DDL:
            continue
        for name in source.names:
            change, before = _change(text), found.get(name)
            if before is TableChange.DROPPED and change is not TableChange.DROPPED:
                found[name] = TableChange.REPLACED
            else:
                found[name] = max((change, before or change), key=_ORDER.index)
    return found


def change_of(name: TableName, changes: Mapping[TableName, TableChange]) -> TableChange | None:
    """Return the change of a table or of its whole schema; None: no statement concerns the table."""
    return changes.get(name) or changes.get(TableName(name.schema, ""))


def _change(statement: Mapping[str, Any]) -> TableChange:
    # A rename has roles of its own.
    if any(each["role"] == MOVES_ROWS for each in statement["tables"]):
        return TableChange.ROWS_MOVED
    return _CHANGES.get(statement["op"], TableChange.ALTERED)
