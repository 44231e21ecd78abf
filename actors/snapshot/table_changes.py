"""Table changes: what the statements of a chunk did to tables, as far as their snapshots must know."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from canal_group.merge.snapshot.steps import TableChange
from canal_group.merge.values.chunk import Chunk, StatementKind, TableName

#: rows come without events, or another table gets the name
_REPLACES: Final = re.compile(r"\b(IMPORT\s+(TABLESPACE|PARTITION)|OR\s+REPLACE)\b", re.IGNORECASE)
#: canal's EventType of the statements that make another table of a name, or none
_CHANGES: Final = {"RENAME": TableChange.REPLACED, "ERASE": TableChange.DROPPED}
_ORDER: Final = (TableChange.ALTERED, TableChange.REPLACED, TableChange.DROPPED)


def changes_in(chunk: Chunk) -> dict[TableName, TableChange]:
    """Return the changes that statements made to the tables that they name, by the source's names.

    One without a table is of a schema: it concerns all of its tables. Of several the gravest counts; a table
    that is created after it was dropped is another one.
    """
    if chunk.statements is None:
        return {}
    found: dict[TableName, TableChange] = {}
    texts = chunk.statements.select(["op", "sql", "tables"]).to_pylist()
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
    """Return the change of a chunk that concerns a table; None: there is none."""
    return changes.get(name) or changes.get(TableName(name.schema, ""))


def _change(statement: Mapping[str, Any]) -> TableChange:
    op, tables = statement["op"], statement["tables"]
    # An ALTER of several tables exchanges or converts a partition.
    moves = any(each["role"] for each in tables) or (op == "ALTER" and len(tables) > 1)
    if moves or _REPLACES.search(statement["sql"]):
        return TableChange.REPLACED
    return _CHANGES.get(op, TableChange.ALTERED)
