"""canal's flat message: one JSON object for each change, as canal's MQ mode writes it.

    data       a list with the row after the change, for a delete the row before it; null for a statement
    old        for an update a list with what the changed columns had before; else null
    database table type isDdl sql gtid
    pkNames    a list; null for a statement, and for a table without a primary key
    sqlType mysqlType   of each column, by its name; null for a statement
    es ts      commit time, and when the message was made; milliseconds
    id         number of the change in the merged stream; canal: of its batch

Values are text or null. Members are in alphabetical order. canal puts several rows of one statement into one
message; here each row has a message, and `old` names its own changed columns only.

canal has no message of a statement that its parser drops, see `canal_group.merge.rows.canal.parsed`.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from canal_group.shapes.changed import changed
from canal_group.shapes.json_text import NULL, booleans, compose, name_lists, numbers, objects, quoted
from canal_group.shapes.maps import value_of

#: columns whose bits an integer of numpy holds
_BITS_MAX = 62


def flat_messages(rows: pa.Table, made_ms: int) -> Any:
    """Return the flat message of each change.

    Args:
        rows: (n,) Table of `canal_group.merge.rows.envelope.ENVELOPE` and `definition`, with tidy maps in one
            chunk.
        made_ms: what the messages have as `ts`.

    Returns:
        (n,) utf8 Array.
    """
    column = {name: rows.column(name).combine_chunks() for name in rows.schema.names}
    statement = pc.is_valid(column["sql"])
    deleted = pc.equal(column["op"], "DELETE")
    updated = pc.equal(column["op"], "UPDATE")
    before, after = column["before"], column["after"]
    images = _chosen(deleted, before, after)
    data = objects(images)
    old = objects(changed(before, after)) if pc.any(updated).as_py() else pa.nulls(len(rows), pa.utf8())
    return compose(
        {
            "data": _listed(data, pc.invert(statement)),
            "database": quoted(column["schema"]),
            "es": numbers(pc.divide(column["commit_us"], 1_000)),
            "gtid": quoted(column["gtid"]),
            "id": numbers(column["seq"]),
            "isDdl": booleans(statement),
            "mysqlType": _mysql_types(column["definition"]),
            "old": _listed(old, updated),
            "pkNames": _key_names(column["key"]),
            "sql": quoted(pc.fill_null(column["sql"], "")),
            "sqlType": _sql_types(column["definition"], images),
            "table": quoted(column["table"]),
            "ts": pa.repeat(str(made_ms), len(rows)),
            "type": quoted(column["op"]),
        }
    )


def _chosen(deleted: Any, before: Any, after: Any) -> Any:
    """Return the before image of a delete, else the after image."""
    is_deleted = deleted.to_numpy(zero_copy_only=False)
    if not is_deleted.any():
        return after
    indexes = np.arange(len(after))
    both = pa.concat_arrays([after, before])
    return both.take(pa.array(np.where(is_deleted, indexes + len(after), indexes)))


def _key_names(keys: Any) -> Any:
    """Return the lists `pkNames`; null where there is no primary key, as in canal."""
    names = name_lists(keys)
    return pc.if_else(pc.equal(names, "[]"), NULL, names)


def _listed(texts: Any, valid: Any) -> Any:
    return pc.if_else(valid, pc.binary_join_element_wise("[", texts, "]", ""), NULL)


def _mysql_types(definitions: Any) -> Any:
    """Return the members `mysqlType`; null for statements."""
    texts = [_object({name: kind for name, kind, *_ in _columns(text)}) for text in _definitions(definitions)]
    return pc.fill_null(pa.array(texts, pa.utf8()).take(definitions.indices), NULL)


def _sql_types(definitions: Any, rows: Any) -> Any:
    """Return the members `sqlType`, each by its row's values: see `canal_group.merge.rows.canal.jdbc`.

    Args:
        definitions: (n,) DictionaryArray.
        rows: (n,) maps, the rows after the change or before a delete.
    """
    texts: list[str] = []
    indexes = np.full(len(definitions), -1, np.int64)
    codes = pc.fill_null(definitions.indices, -1).to_numpy()
    for code, definition in enumerate(_definitions(definitions)):
        columns = _columns(definition)
        members = np.flatnonzero(codes == code)
        wide = _wide(columns, members, rows)
        distinct, inverse = np.unique(wide, return_inverse=True)
        indexes[members] = inverse + len(texts)
        texts += [_object(_jdbc_types(columns, bits)) for bits in distinct.tolist()]
    return pc.fill_null(pa.array(texts, pa.utf8()).take(pa.array(indexes, mask=indexes < 0)), NULL)


def _jdbc_types(columns: list[Any], wide: int) -> dict[str, int]:
    return {
        name: wider if wide >> index & 1 else number
        for index, (name, _, number, wider, _) in enumerate(columns)
    }


def _wide(columns: list[Any], members: Any, rows: Any) -> Any:
    """Return for each chosen row which columns have a value above `number_max`: a bit for each column."""
    bits = np.zeros(len(members), object if len(columns) > _BITS_MAX else np.int64)
    for index, (name, *_, number_max) in enumerate(columns):
        if number_max is None or not len(members):
            continue
        values = value_of(rows, name).take(pa.array(members)).cast(pa.decimal128(20, 0))
        above = pc.fill_null(pc.greater(values, pa.scalar(number_max, pa.decimal128(20, 0))), False)
        bits[above.to_numpy(zero_copy_only=False)] |= 1 << index
    return bits


def _definitions(definitions: Any) -> list[str]:
    texts: list[str] = definitions.dictionary.to_pylist()
    return texts


def _columns(text: str) -> list[Any]:
    columns: list[Any] = json.loads(text)
    return columns


def _object(members: dict[str, Any]) -> str:
    return json.dumps(members, ensure_ascii=False, separators=(",", ":"))
