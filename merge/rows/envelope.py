"""The envelope format: all tables and statements of a batch in one stream, values as text.

Rows of tables with any columns fit into one schema, `ENVELOPE`, because images are maps from column name to
the value's text (see `canal_group.merge.rows.text`). A NULL value is a null in the map; a missing image is a
null map; a column whose value is unknown (see `canal_group.merge.values.rows.absent`) is not in the map. A
column of `after` is updated, as canal calls it, if `before` has another value of it or does not have it.
`key` holds the primary key's columns of the row after the change, for a delete of the row before it: an
UPDATE that changes the key has the old one in `before`.

A statement is of the table that canal names: the first that it concerns, of a RENAME the new name. `tables`
has all of them, see `canal_group.merge.values.chunk.CONCERNED`.

On request there is a column with the table's definition: `definition`, a dictionary of JSON texts
`[[column, mysql_type, jdbc, wider, number_max], ...]`, the last three as in
`canal_group.merge.rows.canal.jdbc`; null for a statement.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from canal_group.merge.rows.assemble import BatchRows, RowNumbers, Runs, images
from canal_group.merge.rows.canal.jdbc import jdbc_type, plain_type
from canal_group.merge.rows.ranges import Ranges
from canal_group.merge.rows.text import text
from canal_group.merge.rows.typed import OPS, op_indexes
from canal_group.merge.values.chunk import PRIMARY_KEY, STATEMENTS, Op, TableName, mysql_type_of
from canal_group.merge.values.rows.absent import Absent, absent_in

MAP = pa.map_(pa.utf8(), pa.utf8())

ENVELOPE = pa.schema(
    [
        ("seq", pa.int64()),  # number in the merged stream: the order of the rows
        ("shard", pa.utf8()),
        ("schema", pa.utf8()),
        ("table", pa.utf8()),  # empty for a statement on a schema as a whole
        ("op", pa.utf8()),  # INSERT UPDATE DELETE READ, or the type of the statement
        ("commit_us", pa.int64()),
        ("key_us", pa.int64()),
        ("late", pa.bool_()),
        ("gtid", pa.utf8()),  # empty if the transaction has none
        ("file", pa.utf8()),
        ("pos", pa.int64()),  # where the transaction begins in the file
        (
            "row",
            pa.int64(),
        ),  # ordinal in the transaction; below 0: of a page of a snapshot, which precedes it
        ("key", MAP),  # empty: no primary key, or a statement
        ("before", MAP),  # null: no such image
        ("after", MAP),
        ("sql", pa.utf8()),  # null for rows
        ("ddl_schema", pa.utf8()),  # of a statement: its session's database, may be empty; null for rows
        ("tables", STATEMENTS.field("tables").type),  # of a statement: all that it concerns; null for rows
    ]
)
#: the columns that a part has itself; the others come from the headers
_BODY = pa.schema(
    [
        ENVELOPE.field(name)
        for name in ("schema", "table", "op", "key", "before", "after", "sql", "ddl_schema", "tables")
    ]
)
#: on request
DEFINITION = pa.field("definition", pa.dictionary(pa.int32(), pa.utf8()))
_DEFINED = _BODY.append(DEFINITION)


@dataclass(frozen=True, slots=True)
class _Part:
    """Rows of one table, or statements, of one shard."""

    #: of all parts' rows, put together in the order of the parts
    runs: Runs
    body: pa.Table


def envelope(batch: BatchRows, *, definitions: bool = False) -> Any:
    """Return all row changes and statements of a batch in merged order.

    Args:
        batch: a batch's headers, and its rows; shards leave out those that a filter excludes.
        definitions: whether to add `DEFINITION`.

    Returns:
        (n,) Table of `ENVELOPE`.
    """
    numbers = RowNumbers(batch)
    parts = list(_parts(numbers))
    runs = Runs.in_merged_order([part.runs for part in parts])
    schema = ENVELOPE.append(DEFINITION) if definitions else ENVELOPE
    names = [name for name in _DEFINED.names if name in schema.names]
    together = pa.concat_tables([_DEFINED.empty_table(), *(part.body for part in parts)]).select(names)
    body = Ranges(runs.first, runs.length).table(together)
    columns = numbers.columns(runs) | {name: body.column(name) for name in names}
    columns["shard"] = columns["shard"].cast(pa.utf8())
    return pa.table([columns[name] for name in schema.names], schema=schema)


def _parts(numbers: RowNumbers) -> Iterator[_Part]:
    base = 0
    for shard, part in enumerate(numbers.batch.shards):
        for table in part.tables:
            runs = numbers.runs(shard, table.rows, base)
            yield _Part(runs, _row_changes(table.name, table.rows))
            base += len(table.rows)
        statements = None if part.statements is None else numbers.delivered(shard, part.statements)
        if statements is not None and len(statements):
            yield _Part(numbers.runs(shard, statements, base), _statements(statements))
            base += len(statements)


def _row_changes(name: TableName, rows: pa.Table) -> pa.Table:
    ops = rows.column("_op").to_numpy()
    sides = {side: images(rows, side) for side in ("before", "after")}
    texts = {side: _texts(image) for side, image in sides.items()}
    valid = {side: image.is_valid().to_numpy() for side, image in sides.items()}
    columns = [column.name for column in rows.schema.field("after").type]
    keys = [columns.index(column) for column in _primary_key(rows.schema) if column in columns]
    deletes = pa.array(ops == Op.DELETE)
    key = [pc.if_else(deletes, texts["before"][index], texts["after"][index]) for index in keys]
    absent = {side: absent_in(rows, side) for side in sides}
    every = np.ones(len(rows), dtype=np.bool_)
    return pa.table(
        [
            _repeated(name.schema, len(rows)),
            _repeated(name.table, len(rows)),
            pa.array(OPS, pa.utf8()).take(pa.array(op_indexes(ops))),
            _maps([columns[index] for index in keys], key, every, _absent_keys(absent, keys, ops)),
            _maps(columns, texts["before"], valid["before"], absent["before"]),
            _maps(columns, texts["after"], valid["after"], absent["after"]),
            *(pa.nulls(len(rows), _BODY.field(name).type) for name in ("sql", "ddl_schema", "tables")),
            _definition(rows.schema.field("after").type, len(rows)),
        ],
        schema=_DEFINED,
    )


def _definition(columns: pa.StructType, count: int) -> Any:
    descriptions = []
    for column in columns:
        mysql_type = mysql_type_of(column)
        jdbc = jdbc_type(mysql_type, column.type)
        descriptions.append([column.name, plain_type(mysql_type), jdbc.number, jdbc.wider, jdbc.number_max])
    definition = json.dumps(descriptions, ensure_ascii=False)
    return pa.DictionaryArray.from_arrays(
        pa.array(np.zeros(count, np.int32)), pa.array([definition], pa.utf8())
    )


def _absent_keys(absent: dict[str, Absent], keys: Sequence[int], ops: NDArray[np.uint8]) -> Absent:
    none = np.zeros((len(ops), len(keys)), dtype=np.bool_)
    before, after = (none if each is None else each[:, keys] for each in absent.values())
    return np.where((ops == Op.DELETE)[:, np.newaxis], before, after)


def _statements(statements: pa.Table) -> pa.Table:
    count = len(statements)
    none = np.zeros(count, dtype=np.bool_)
    names = ("schema", "table", "op", "sql", "ddl_schema", "tables")
    columns = {name: statements.column(name) for name in names} | {
        "key": _maps([], [], ~none),
        "before": _maps([], [], none),
        "after": _maps([], [], none),
        DEFINITION.name: pa.nulls(count, DEFINITION.type),
    }
    return pa.table([columns[name] for name in _DEFINED.names], schema=_DEFINED)


def _texts(image: Any) -> list[Any]:
    """Return the text of each column of a struct column: k arrays, (n,) utf8."""
    columns = list(image.type)
    if image.null_count == len(image):
        return [pa.nulls(len(image), pa.utf8()) for _ in columns]
    return [
        text(pc.struct_field(image, [index]), mysql_type_of(column)) for index, column in enumerate(columns)
    ]


def _maps(
    names: Sequence[str], columns: Sequence[Any], valid: NDArray[np.bool_], absent: Absent = None
) -> Any:
    """Return a map from column name to value for each row: k columns of n values, transposed.

    Args:
        names: k column names.
        columns: k arrays, (n,) utf8.
        valid: (n,) whether the row has a map; else it is null.
        absent: (n, k) which columns are not in a row's map; None: all are.

    Returns:
        (n,) MapArray.
    """
    rows, width = np.flatnonzero(valid), len(names)
    cells, sizes = rows[:, np.newaxis] + len(valid) * np.arange(width), valid * width
    if absent is None:
        indexes, name_indexes = cells.ravel(), np.tile(np.arange(width), len(rows))
    else:
        present = ~absent[rows]
        indexes, name_indexes = cells[present], np.nonzero(present)[1]
        sizes = valid * (width - absent.sum(axis=1))
    values = Ranges(indexes, np.ones_like(indexes)).column(pa.chunked_array(columns, pa.utf8()))
    keys = pa.array(names, pa.utf8()).take(pa.array(name_indexes))
    offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int32)
    return pa.MapArray.from_arrays(pa.array(offsets), keys, values, mask=pa.array(~valid))


def _repeated(value: str, count: int) -> Any:
    return pa.repeat(pa.scalar(value, pa.utf8()), count)


def _primary_key(schema: pa.Schema) -> list[str]:
    names: list[str] = json.loads((schema.metadata or {}).get(PRIMARY_KEY, b"[]"))
    return names
