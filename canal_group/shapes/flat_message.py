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
from itertools import compress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from canal_group.merge.rows.canal.event_types import names_of
from canal_group.shapes.changed import changed
from canal_group.shapes.json_text import compose, name_lists, objects, plain, quoted
from canal_group.shapes.json_writer import Member, above


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
    data = objects(images, "listed")
    old = _old(updated, before, after) if pc.any(updated).as_py() else pa.nulls(len(rows), before.type)
    return compose(
        {
            "data": data,
            "database": quoted(column["schema"]),
            "es": plain(pc.divide(column["commit_us"], 1_000)),
            "gtid": quoted(column["gtid"]),
            "id": plain(column["seq"]),
            "isDdl": plain(statement),
            "mysqlType": plain(_mysql_types(column["definition"])),
            "old": objects(old, "listed"),
            "pkNames": name_lists(column["key"]),
            "sql": quoted(pc.fill_null(column["sql"], "")),
            "sqlType": plain(_sql_types(column["definition"], data)),
            "table": quoted(column["table"]),
            "ts": plain(pa.repeat(made_ms, len(rows))),
            "type": quoted(names_of(column["op"])),
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


def _old(updated: Any, before: Any, after: Any) -> Any:
    """Return the changed columns of updates with their values before; null for other changes."""
    old = changed(before, after)
    is_other = pc.invert(updated)
    return pa.MapArray.from_arrays(old.offsets, old.keys, old.items, mask=is_other)


def _mysql_types(definitions: Any) -> Any:
    """Return the members `mysqlType`; null for statements: (n,) DictionaryArray."""
    texts = [_object({name: kind for name, kind, *_ in _columns(text)}) for text in _definitions(definitions)]
    return pa.DictionaryArray.from_arrays(definitions.indices, pa.array(texts, pa.utf8()))


def _sql_types(definitions: Any, rows: Member) -> Any:
    """Return the members `sqlType`, each by its row's values: see `canal_group.merge.rows.canal.jdbc`.

    Args:
        definitions: (n,) DictionaryArray; null for statements.
        rows: (n,) maps, the rows after the change or before a delete.

    Returns:
        (n,) DictionaryArray.
    """
    texts: list[str] = []
    indexes = np.full(len(definitions), -1, np.int32)
    codes = pc.fill_null(definitions.indices, -1).to_numpy()
    for code, definition in enumerate(_definitions(definitions)):
        columns = _columns(definition)
        members = np.flatnonzero(codes == code)
        sets, set_of_row = _wide(columns, members, rows)
        indexes[members] = set_of_row + len(texts)
        texts += [_object(_jdbc_types(columns, wide)) for wide in sets]
    return pa.DictionaryArray.from_arrays(pa.array(indexes, mask=indexes < 0), pa.array(texts, pa.utf8()))


def _wide(columns: list[Any], members: Any, rows: Member) -> tuple[list[frozenset[str]], Any]:
    """Return sets of columns with a value above `number_max`, and the index of each chosen row's set.

    A table has few such sets: no more than its rows, and one if no value is above.
    """
    limits = {name: str(number_max).encode() for name, *_, number_max in columns if number_max is not None}
    found = above(rows, members, [name.encode() for name in limits], list(limits.values()))
    if not found.any():
        return [frozenset()], np.zeros(len(members), np.int32)
    bits = np.packbits(found, axis=1)
    keys = pa.Array.from_buffers(pa.binary(bits.shape[1]), len(bits), [None, pa.py_buffer(bits)])
    distinct = pc.dictionary_encode(keys)
    sets = [
        frozenset(compress(limits, np.unpackbits(np.frombuffer(key, np.uint8))))
        for key in distinct.dictionary.to_pylist()
    ]
    return sets, distinct.indices.to_numpy()


def _jdbc_types(columns: list[Any], wide: frozenset[str]) -> dict[str, int]:
    return {name: wider if name in wide else number for name, _, number, wider, _ in columns}


def _definitions(definitions: Any) -> list[str]:
    texts: list[str] = definitions.dictionary.to_pylist()
    return texts


def _columns(text: str) -> list[Any]:
    columns: list[Any] = json.loads(text)
    return columns


def _object(members: dict[str, Any]) -> str:
    return json.dumps(members, ensure_ascii=False, separators=(",", ":"))
