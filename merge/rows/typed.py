"""The typed format: one table of a batch, its own columns with their Arrow types.

    the table's columns         from the row after the change; for a delete, from the row before it
    _op         dictionary      INSERT, UPDATE, DELETE or READ
    _shard      dictionary      name of the shard
    _seq        int64           number in the merged stream: the order of the rows
    _commit_us  int64           commit time as the source wrote it, microseconds since 1970 UTC
    _key_us     int64           key in the timeline, microseconds since 1970 UTC
    _late       bool            whether it was committed before its shard's low watermark
    _gtid       utf8            GTID of its transaction; empty if it has none
    _file _pos  utf8, int64     binlog file and the offset at which its transaction begins
    _row        int64           ordinal in the transaction
    _absent     list<utf8>      columns that are null because their value is unknown, see
                                `canal_group.merge.values.rows.absent`; null if every column is known, as with
                                binlog_row_image=FULL
    _before     struct          on request: the row before the change, null for an insert and a read
    _before_absent  list<utf8>  on request: as `_absent`, for `_before`

Different shards and schema versions become one table with the joined schema (see
`canal_group.merge.rows.joined`): null where a row's shard lacks the column.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from canal_group.merge.errors import SchemaMismatch
from canal_group.merge.rows.assemble import BatchRows, RowNumbers, Runs, images
from canal_group.merge.rows.joined import Definition, joined, type_text
from canal_group.merge.rows.ranges import Ranges, ascending
from canal_group.merge.rows.text import converted
from canal_group.merge.values.chunk import Op, TableName, mysql_type_of
from canal_group.merge.values.rows.absent import NAMES, absent_in, absent_names

#: a plain list: creating an array here would import pandas with this module
OPS = [op.name for op in Op]
_INDEXES = np.zeros(max(Op) + 1, np.int32)
_INDEXES[list(Op)] = range(len(Op))
#: of so few rows each is copied by itself: to find the ranges of each column costs more
SMALL_ROWS = 256
_NAMES = pa.dictionary(pa.int32(), pa.utf8())

#: the columns after the table's own
TYPED = pa.schema(
    [
        ("_op", _NAMES),
        ("_shard", _NAMES),
        ("_seq", pa.int64()),
        ("_commit_us", pa.int64()),
        ("_key_us", pa.int64()),
        ("_late", pa.bool_()),
        ("_gtid", pa.utf8()),
        ("_file", pa.utf8()),
        ("_pos", pa.int64()),
        ("_row", pa.int64()),
        ("_absent", NAMES),
    ]
)
BEFORE, BEFORE_ABSENT = "_before", "_before_absent"


@dataclass(frozen=True, slots=True)
class _Piece:
    shard: str
    rows: pa.Table
    #: the images whose values are delivered, one after the other; a delete has no `after` image
    sides: tuple[str, ...]
    #: rows of this piece among the images of all pieces, concatenated in the order of the pieces
    runs: Runs

    def continues(self, other: _Piece) -> bool:
        """Return whether the images of both can be handled as those of one piece."""
        alike = self.rows.schema.equals(other.rows.schema, check_metadata=True)
        return alike and self.sides == other.sides == ("after",)


def typed(
    batch: BatchRows,
    table: TableName,
    *,
    before: bool | Literal["updates"] = False,
    columns: Collection[str] | None = None,
    added: Collection[str] | None = None,
    known: Sequence[Definition] = (),
    chosen: Mapping[str, Any] | None = None,
    join: Callable[..., Any] = joined,
) -> Any:
    """Return the row changes of one table in merged order.

    Args:
        batch: a batch's headers and rows.
        table: the table, by the name that consumers know.
        before: whether to add `_before` and `_before_absent`; "updates": only if a row is an update.
        columns: the columns of the table to return; None: all.
        added: the columns of `TYPED` to return besides `_op` and `_seq`; None: all.
        known: other definitions of the table, see `canal_group.merge.rows.joined`.
        chosen: types that an operator chose, by the column's name in lower case.
        join: `joined`, or what keeps its results.

    Returns:
        (n,) Table: the table's columns, then those of `TYPED`; only the latter if the batch lacks the table.

    Raises:
        SchemaMismatch: a column's types in shards or versions cannot be joined, a value does not fit the
            column's type, or a column has the name of one that is added here.
    """
    numbers = RowNumbers(batch)
    pieces = list(_pieces(numbers, table))
    before = any(_has(piece.rows, Op.UPDATE) for piece in pieces) if before == "updates" else before
    schema = _schema(batch, table, pieces, partial(join, known=known, chosen=chosen))
    _check_names(table, schema, before)
    if columns is not None:
        schema = pa.schema([each for each in schema if each.name in columns], metadata=schema.metadata)
    header_fields = [each for each in TYPED if added is None or each.name in {"_op", "_seq", *added}]
    runs = Runs.in_merged_order([piece.runs for piece in pieces])
    together = [each for piece in _together(pieces) for each in _images(piece, schema, table, before)]
    rows = _gathered(together, runs, schema, before)
    header_columns = numbers.columns(runs, {each.name.removeprefix("_") for each in header_fields}) | {
        "op": pa.DictionaryArray.from_arrays(
            op_indexes(rows.column("_op").to_numpy()), pa.array(OPS, pa.utf8())
        ),
        "absent": rows.column("_absent"),
    }
    own = [rows.column(name) for name in schema.names]
    ours = [header_columns[each.name.removeprefix("_")] for each in header_fields]
    extra = [rows.schema.field(name) for name in (BEFORE, BEFORE_ABSENT)] if before else []
    return pa.table(
        [*own, *ours, *(rows.column(each.name) for each in extra)],
        schema=pa.schema([*schema, *header_fields, *extra], metadata=schema.metadata),
    )


def op_indexes(ops: NDArray[np.uint8]) -> NDArray[np.int32]:
    """Return the indexes into `OPS` of operations."""
    return _INDEXES[ops]


def _pieces(numbers: RowNumbers, table: TableName) -> Iterator[_Piece]:
    base = 0
    names = numbers.batch.shard_names
    for shard, part in enumerate(numbers.batch.shards):
        for rows in (each.rows for each in part.tables if each.name == table and len(each.rows)):
            deleted = _has(rows, Op.DELETE)
            runs = numbers.runs(shard, rows, base, base + len(rows) if deleted else None)
            yield _Piece(names[shard], rows, ("after", "before") if deleted else ("after",), runs)
            base += len(rows) * (1 + deleted)


def _together(pieces: Iterable[_Piece]) -> list[_Piece]:
    """Return the pieces with those put together that follow each other and are alike: each costs calls."""
    alike: list[list[_Piece]] = []
    for piece in pieces:
        if alike and piece.continues(alike[-1][0]):
            alike[-1].append(piece)
        else:
            alike.append([piece])
    return [replace(each[0], rows=pa.concat_tables([piece.rows for piece in each])) for each in alike]


def _has(rows: pa.Table, op: Op) -> bool:
    return any((chunk.to_numpy() == op).any() for chunk in rows.column("_op").chunks)


def of_table(batch: BatchRows, table: TableName) -> Iterator[tuple[str, pa.Table]]:
    """Yield the shard and the rows of each part of a batch that is of a table."""
    for name, part in zip(batch.shard_names, batch.shards, strict=True):
        yield from ((name, each.rows) for each in part.tables if each.name == table)


def definitions(parts: Iterable[tuple[str, pa.Table]]) -> list[Definition]:
    """Return the different columns of a table as rows of it have them (see `canal_group.merge.values.chunk`).

    Args:
        parts: rows, with their shard. Of those with the same columns the first stands for all.
    """
    different: list[tuple[str, pa.Field]] = []
    for shard, rows in parts:
        columns = rows.schema.field("after")
        if not any(columns.equals(other, check_metadata=True) for _, other in different):
            different.append((shard, columns))
    return [Definition(shard, pa.schema(list(columns.type))) for shard, columns in different]


def _schema(
    batch: BatchRows,
    table: TableName,
    pieces: Sequence[_Piece],
    join: Callable[[TableName, Sequence[Definition]], Any],
) -> Any:
    newest_first = sorted(pieces, key=lambda piece: -int(piece.runs.seq[-1]))
    rows = [(piece.shard, piece.rows) for piece in newest_first]
    schema = join(table, definitions(rows or of_table(batch, table)))
    return schema.with_metadata(newest_first[0].rows.schema.metadata if newest_first else None)


def _images(piece: _Piece, schema: pa.Schema, table: TableName, before: bool) -> list[pa.Table]:
    rows = piece.rows
    columns = {"_op": rows.column("_op")} | (_before(piece, schema, table) if before else {})
    return [
        pa.table(
            dict(zip(schema.names, _aligned(piece, side, schema, table), strict=True))
            | {"_absent": _absent(rows, side, schema)}
            | columns
        )
        for side in piece.sides
    ]


def _before(piece: _Piece, schema: pa.Schema, table: TableName) -> dict[str, Any]:
    arrays = [
        column.unify_dictionaries().combine_chunks() for column in _aligned(piece, "before", schema, table)
    ]
    missing = images(piece.rows, "before").is_null().combine_chunks()
    return {
        BEFORE: pa.StructArray.from_arrays(arrays, fields=list(schema), mask=missing),
        BEFORE_ABSENT: _absent(piece.rows, "before", schema),
    }


def _absent(rows: pa.Table, image: str, schema: pa.Schema) -> Any:
    names = {name.lower(): name for name in schema.names}
    columns = [column.name for column in rows.schema.field("after").type]
    joined_names = [names.get(name.lower(), name) for name in columns]
    return absent_names(absent_in(rows, image), joined_names, len(rows))


def _aligned(piece: _Piece, side: str, schema: pa.Schema, table: TableName) -> list[Any]:
    """Return the columns of `schema` out of images; nulls where they have no such column."""
    image, columns = images(piece.rows, side), []
    own = {
        column.name.lower(): (column, values)
        for column, values in zip(image.type, image.flatten(), strict=True)
    }
    for target in schema:
        column, values = own.get(target.name.lower(), (None, None))
        if column is None:
            columns.append(pa.chunked_array([pa.nulls(len(image), target.type)]))
            continue
        try:
            columns.append(converted(values, target.type, mysql_type_of(column)))
        except pa.ArrowException:
            raise SchemaMismatch(
                f"A value of column {target.name} of {table} does not fit {target.type}. "
                f"The column is {type_text(column)} in shard {piece.shard}.",
                hint="Choose a type that takes every value: canal-group schema resolve "
                f"{table} {shlex.quote(target.name)} --type text.",
                table=str(table),
                column=target.name,
                types=f"{column.type}, {target.type}",
            ) from None
    return columns


def _gathered(images: Sequence[pa.Table], runs: Runs, schema: pa.Schema, before: bool) -> Any:
    if images:
        rows = pa.concat_tables(images)
        if len(rows) > SMALL_ROWS:
            return Ranges(runs.first, runs.length).table(rows)
        rows = rows.unify_dictionaries().combine_chunks()
        return rows.take(pa.array(ascending(runs.first, runs.length)))
    extra = [pa.field(BEFORE, pa.struct(list(schema))), pa.field(BEFORE_ABSENT, NAMES)] if before else []
    ours = [pa.field("_op", pa.uint8()), TYPED.field("_absent")]
    return pa.schema([*schema, *ours, *extra]).empty_table()


def _check_names(table: TableName, schema: pa.Schema, before: bool) -> None:
    ours = {*TYPED.names, BEFORE, BEFORE_ABSENT} if before else {*TYPED.names}
    for name in schema.names:
        if name in ours:
            raise SchemaMismatch(
                f"{table} has a column {name}, but canal-group adds a column of that name.",
                hint="Read this table in the envelope format, or rename the column.",
                table=str(table),
                column=name,
            )
