"""Marks: statements of ours in the stream.

A mark is a statement that concerns no table, with canal's EventType QUERY. It passes every filter, and takes
one ordinal in its transaction. Its text is a statement that does nothing, for consumers that run what they
get, with a comment: words that say what it is, and one JSON object.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from canal_group.merge.values.chunk import NO_TABLE, StatementKind, StatementSource

#: how the text of a mark begins, and of no other statement
BEGIN: Final = "DO 0 /* canal-group "
_END: Final = " */"
#: what a mark is in the source
MARK_SOURCE: Final = StatementSource((NO_TABLE,), StatementKind.MARK)


def mark_sql(words: str, facts: Mapping[str, Any]) -> str:
    """Return the text of a mark."""
    # Nothing in it can end the comment, or be a byte that a consumer cannot store.
    said = json.dumps(facts).replace("*/", "*\\/")
    return f"{BEGIN}{words} {said}{_END}"


def read_mark(words: str, sql: str | None) -> dict[str, Any] | None:
    """Return the JSON object of a mark with such words; None if it is another statement, or a row (None)."""
    begin = f"{BEGIN}{words} "
    if sql is None or not (sql.startswith(begin) and sql.endswith(_END)):
        return None
    facts: dict[str, Any] = json.loads(sql[len(begin) : -len(_END)])
    return facts


def is_mark(sql: str) -> bool:
    """Return whether a statement is a mark."""
    return sql.startswith(BEGIN) and sql.endswith(_END)


def mark_statement(sql: str) -> dict[str, Any]:
    """Return the columns of a mark from `schema` on, see `canal_group.merge.values.chunk.STATEMENTS`."""
    return {"schema": "", "table": "", "op": "QUERY", "sql": sql, "ddl_schema": "", "tables": []}
