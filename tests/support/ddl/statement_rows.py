"""Statements as a chunk has them."""

from __future__ import annotations

from typing import Any


def statement_row(
    header: int,
    row: int,
    schema: str,
    table: str,
    op: str,
    sql: str,
    *,
    ddl_schema: str | None = None,
    tables: tuple[tuple[str, str, str, bool], ...] | None = None,
    at: str = "_header",
) -> dict[str, Any]:
    """Return a row of `canal_group.merge.values.chunk.STATEMENTS`.

    Args:
        header: index of its header, or its header's sequence in the ring.
        row: its ordinal.
        schema, table, op, sql: the columns of these names.
        ddl_schema: the session's database; None: `schema`.
        tables: schema, table, role and whether it is kept; None: `schema` and `table`, if there is a table.
        at: the column of `header`.
    """
    if tables is None:
        tables = ((schema, table, "", True),) if table else ()
    names = ("schema", "table", "role", "kept")
    return {
        at: header,
        "_row": row,
        "schema": schema,
        "table": table,
        "op": op,
        "sql": sql,
        "ddl_schema": schema if ddl_schema is None else ddl_schema,
        "tables": [dict(zip(names, each, strict=True)) for each in tables],
    }
