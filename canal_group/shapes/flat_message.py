"""canal's flat message: one JSON object for each change, as canal's MQ mode writes it.

    data       a list with the row after the change, for a delete the row before it; null for a statement
    old        for an update a list with what the changed columns had before; else null
    database table type isDdl sql pkNames gtid
    sqlType mysqlType   of each column, by its name; null for a statement
    es ts      commit time, and when the message was made; milliseconds
    id         number of the change in the merged stream; canal: of its batch

Values are text or null. Members are in alphabetical order. canal puts several rows of one statement into one
message; here each row has a message, and `old` names its own changed columns only.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from canal_group.shapes.changed import changed
from canal_group.shapes.jdbc_type import jdbc_type
from canal_group.shapes.json_text import NULL, booleans, compose, name_lists, numbers, objects, quoted


def flat_messages(rows: pa.Table, made_ms: int) -> Any:
    """Return the flat message of each change.

    Args:
        rows: (n,) Table of `merge.rows.envelope.ENVELOPE` and `definition`, with tidy maps in one chunk.
        made_ms: what the messages have as `ts`.

    Returns:
        (n,) utf8 Array.
    """
    column = {name: rows.column(name).combine_chunks() for name in rows.schema.names}
    statement = pc.is_valid(column["sql"])
    deleted = pc.equal(column["op"], "DELETE")
    updated = pc.equal(column["op"], "UPDATE")
    before, after = column["before"], column["after"]
    data = pc.if_else(deleted, objects(before), objects(after))
    old = objects(changed(before, after)) if pc.any(updated).as_py() else pa.nulls(len(rows), pa.utf8())
    return compose(
        {
            "data": _listed(data, pc.invert(statement)),
            "database": quoted(column["schema"]),
            "es": numbers(pc.divide(column["commit_us"], 1_000)),
            "gtid": quoted(column["gtid"]),
            "id": numbers(column["seq"]),
            "isDdl": booleans(statement),
            "mysqlType": _of_definition(column["definition"], _mysql_types),
            "old": _listed(old, updated),
            "pkNames": pc.if_else(statement, NULL, name_lists(column["key"])),
            "sql": quoted(pc.fill_null(column["sql"], "")),
            "sqlType": _of_definition(column["definition"], _sql_types),
            "table": quoted(column["table"]),
            "ts": pa.repeat(str(made_ms), len(rows)),
            "type": quoted(column["op"]),
        }
    )


def _listed(texts: Any, valid: Any) -> Any:
    return pc.if_else(valid, pc.binary_join_element_wise("[", texts, "]", ""), NULL)


def _of_definition(definitions: Any, told: Any) -> Any:
    """Return what `told` makes of each definition; null where there is none."""
    texts = [told(json.loads(text)) for text in definitions.dictionary.to_pylist()]
    return pc.fill_null(pa.array(texts, pa.utf8()).take(definitions.indices), NULL)


def _mysql_types(columns: list[tuple[str, str]]) -> str:
    return json.dumps(dict(columns), ensure_ascii=False, separators=(",", ":"))


def _sql_types(columns: list[tuple[str, str]]) -> str:
    numbered = {name: jdbc_type(kind) for name, kind in columns}
    return json.dumps(numbered, ensure_ascii=False, separators=(",", ":"))
