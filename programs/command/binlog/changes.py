"""Binlog changes: the changes of each transaction of a chunk, in order, as text to be printed.

Values are canal's text (`canal_group.merge.rows.text`). Strings of unknown charset are printed as UTF-8 if
they are valid, otherwise as ISO-8859-1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from canal_group.merge.rows.text import text
from canal_group.merge.values.chunk import Chunk, Op, StatementKind, TableName, mysql_type_of
from canal_group.merge.values.rows.absent import absent_in

#: the operation of a statement that is not DDL and whose rows are in no event
STATEMENT = "STATEMENT"

#: column name -> value as text
Image = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Change:
    """A row change or a statement, as printed."""

    #: INSERT, UPDATE or DELETE of a row; canal's name for a kind of DDL; STATEMENT
    op: str
    name: TableName
    before: Image | None = None
    after: Image | None = None
    sql: str | None = None
    #: of a statement: its session's database
    ddl_schema: str = ""


def transactions(chunk: Chunk) -> Iterator[tuple[Any, list[Change]]]:
    """Yield each header with its changes, in order."""
    found: dict[int, list[tuple[int, Change]]] = {}
    for table in chunk.tables:
        for header, row, change in _row_changes(table.name, table.rows):
            found.setdefault(header, []).append((row, change))
    statements = chunk.statements.to_pylist() if chunk.statements is not None else ()
    for each, source in zip(statements, chunk.statement_sources, strict=True):
        op = STATEMENT if source.kind is StatementKind.ROWS else each["op"]
        change = Change(
            op, TableName(each["schema"], each["table"]), sql=each["sql"], ddl_schema=each["ddl_schema"]
        )
        found.setdefault(each["_header"], []).append((each["_row"], change))
    for index, header in enumerate(chunk.headers):
        yield header, [change for _, change in sorted(found.get(index, ()), key=lambda each: each[0])]


def _row_changes(name: TableName, rows: Any) -> Iterator[tuple[int, int, Change]]:
    before, after = (_images(rows, image) for image in ("before", "after"))
    keys = zip(*(rows.column(column).to_pylist() for column in ("_header", "_row", "_op")), strict=True)
    for (header, row, op), old, new in zip(keys, before, after, strict=True):
        yield header, row, Change(Op(op).name, name, old, new)


def _images(changes: Any, image: str) -> list[Image | None]:
    images, absent = changes.column(image), absent_in(changes, image)
    columns = [_texts(pc.struct_field(images, [index]), column) for index, column in enumerate(images.type)]
    names = [column.name for column in images.type]
    rows = zip(*columns, strict=True) if columns else iter([()] * len(images))
    valid = images.is_valid().to_numpy(zero_copy_only=False)
    shown: list[Image | None] = [
        dict(zip(names, row, strict=True)) if is_there else None
        for row, is_there in zip(rows, np.asarray(valid), strict=True)
    ]
    if absent is None:
        return shown
    return [
        whole and {name: value for (name, value), no in zip(whole.items(), gone, strict=True) if not no}
        for whole, gone in zip(shown, absent, strict=True)
    ]


def _texts(values: Any, column: pa.Field) -> list[str | None]:
    if column.name.startswith("@") and pa.types.is_binary(values.type):
        return [None if value is None else _guessed(value) for value in values.to_pylist()]
    texts: list[str | None] = text(values, mysql_type_of(column)).to_pylist()
    return texts


def _guessed(value: bytes) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value.decode("latin-1")
