"""The typed format: one table of a batch, its own columns with their Arrow types.

    the table's columns         from the row after the change; for a delete, from the row before it
    _op         dictionary      INSERT, UPDATE or DELETE
    _shard      dictionary      name of the shard
    _seq        int64           number in the merged stream: the order of the rows
    _commit_us  int64           commit time as the source wrote it, microseconds since 1970 UTC
    _key_us     int64           key in the timeline, microseconds since 1970 UTC
    _late       bool            whether it was committed before its shard's low watermark
    _gtid       utf8            GTID of its transaction; empty if it has none
    _file _pos  utf8, int64     binlog file and the offset at which its transaction begins
    _row        int64           ordinal in the transaction
    _absent     list<utf8>      columns that are null because their value is not known, see
                                `merge.rows.absent`; null if every column is known, as with
                                binlog_row_image=FULL
    _before     struct          on request: the row before the change, null for an insert
    _before_absent  list<utf8>  on request: as `_absent`, for `_before`

Different shards and schema versions become one table: columns are matched by name, null where a row has none,
and types are widened as in pyarrow's permissive promotion. The columns are in the order of the newest schema,
followed by those that only older rows have.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from merge.errors import SchemaMismatch
from merge.rows.absent import NAMES, absent_in, absent_names
from merge.rows.assemble import BatchRows, Places, Runs, images
from merge.rows.ranges import Ranges
from merge.values.chunk import Op, TableName

#: a plain list: creating an array here would import pandas with this module
OPS = [op.name for op in Op]
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
    """Rows of one shard and schema version."""

    rows: pa.Table
    #: the images whose values are wanted, one after the other; a delete has no `after` image
    sides: tuple[str, ...]
    #: rows of this piece among the images of all pieces, concatenated in the order of the pieces
    runs: Runs


def typed(
    batch: BatchRows,
    table: TableName,
    *,
    before: bool | Literal["updates"] = False,
    columns: Collection[str] | None = None,
    added: Collection[str] | None = None,
) -> Any:
    """Return the row changes of one table in merged order.

    Args:
        batch: a batch's headers and rows.
        table: the table, by the name that consumers know.
        before: whether to add `_before` and `_before_absent`; "updates": only if a row is an update.
        columns: the columns of the table that are wanted; None: all.
        added: the columns of `TYPED` that are wanted besides `_op` and `_seq`; None: all.

    Returns:
        (n,) Table: the table's columns, then those of `TYPED`; only the latter if the batch lacks the table.

    Raises:
        SchemaMismatch: a column's types in shards or versions cannot be combined, or a column has the name of
            one that is added here.
    """
    places = Places(batch)
    pieces = list(_pieces(places, table))
    before = any(_has(piece.rows, Op.UPDATE) for piece in pieces) if before == "updates" else before
    schema = _schema(batch, table, pieces)
    _check_names(table, schema, before)
    if columns is not None:
        schema = pa.schema([each for each in schema if each.name in columns], metadata=schema.metadata)
    wanted = [each for each in TYPED if added is None or each.name in {"_op", "_seq", *added}]
    runs = Runs.in_merged_order([piece.runs for piece in pieces])
    together = [each for piece in pieces for each in _images(piece, schema, table, before)]
    taken = _taken(together, runs, schema, before)
    header_columns = places.columns(runs, {each.name.removeprefix("_") for each in wanted}) | {
        "op": pa.DictionaryArray.from_arrays(
            (taken.column("_op").to_numpy() - np.uint8(Op.INSERT)).astype(np.int32),
            pa.array(OPS, pa.utf8()),
        ),
        "absent": taken.column("_absent"),
    }
    own = [taken.column(name) for name in schema.names]
    ours = [header_columns[each.name.removeprefix("_")] for each in wanted]
    extra = [taken.schema.field(name) for name in (BEFORE, BEFORE_ABSENT)] if before else []
    return pa.table(
        [*own, *ours, *(taken.column(each.name) for each in extra)],
        schema=pa.schema([*schema, *wanted, *extra], metadata=schema.metadata),
    )


def _pieces(places: Places, table: TableName) -> Iterator[_Piece]:
    base = 0
    for shard, part in enumerate(places.batch.shards):
        for rows in (found.rows for found in part.tables if found.name == table and len(found.rows)):
            deleted = _has(rows, Op.DELETE)
            runs = places.runs(shard, rows, base, base + len(rows) if deleted else None)
            yield _Piece(rows, ("after", "before") if deleted else ("after",), runs)
            base += len(rows) * (1 + deleted)


def _has(rows: pa.Table, op: Op) -> bool:
    return any((chunk.to_numpy() == op).any() for chunk in rows.column("_op").chunks)


def _schema(batch: BatchRows, table: TableName, pieces: Sequence[_Piece]) -> Any:
    """Return the columns of the table over all shards and versions, in the order of the newest version."""
    newest_first = [piece.rows for piece in sorted(pieces, key=lambda piece: -int(piece.runs.seq[-1]))]
    versions = newest_first or [
        found.rows for part in batch.shards for found in part.tables if found.name == table
    ]
    fields: dict[str, list[pa.Field]] = {}
    for rows in versions:
        for column in rows.schema.field("after").type:
            fields.setdefault(column.name, []).append(column)
    columns = [_widest(table, found) for found in fields.values()]
    return pa.schema(columns, metadata=versions[0].schema.metadata if versions else None)


def _widest(table: TableName, fields: Sequence[pa.Field]) -> Any:
    newest, kind = fields[0], fields[0].type
    for other in fields[1:]:
        kind = _wider(table, newest.name, kind, other.type)
    return newest.with_type(kind).with_nullable(True)


def _wider(table: TableName, column: str, one: Any, two: Any) -> Any:
    if one.equals(two):
        return one
    if pa.types.is_dictionary(one) != pa.types.is_dictionary(two):  # an ENUM here, a text there
        one, two = (kind.value_type if pa.types.is_dictionary(kind) else kind for kind in (one, two))
    try:
        merged = pa.unify_schemas(
            [pa.schema([(column, one)]), pa.schema([(column, two)])], promote_options="permissive"
        )
    except pa.ArrowException as error:
        raise _mismatch(table, column, one, two) from error
    return merged.field(0).type


def _images(piece: _Piece, schema: pa.Schema, table: TableName, before: bool) -> list[pa.Table]:
    rows = piece.rows
    columns = {"_op": rows.column("_op")} | (_before(rows, schema, table) if before else {})
    return [
        pa.table(
            dict(zip(schema.names, _aligned(images(rows, side), schema, table), strict=True))
            | {"_absent": _absent(rows, side)}
            | columns
        )
        for side in piece.sides
    ]


def _before(rows: pa.Table, schema: pa.Schema, table: TableName) -> dict[str, Any]:
    old = images(rows, "before")
    arrays = [column.unify_dictionaries().combine_chunks() for column in _aligned(old, schema, table)]
    missing = old.is_null().combine_chunks()
    return {
        BEFORE: pa.StructArray.from_arrays(arrays, fields=list(schema), mask=missing),
        BEFORE_ABSENT: _absent(rows, "before"),
    }


def _absent(rows: pa.Table, image: str) -> Any:
    columns = [column.name for column in rows.schema.field("after").type]
    return absent_names(absent_in(rows, image), columns, len(rows))


def _aligned(image: Any, schema: pa.Schema, table: TableName) -> list[Any]:
    """Return the columns of `schema` out of a struct column; nulls where the struct has no such field."""
    columns = []
    for wanted in schema:
        place = image.type.get_field_index(wanted.name)
        if place < 0:
            columns.append(pa.chunked_array([pa.nulls(len(image), wanted.type)]))
            continue
        values = pc.struct_field(image, [place])
        try:
            columns.append(values if values.type.equals(wanted.type) else values.cast(wanted.type))
        except pa.ArrowException as error:
            raise _mismatch(table, wanted.name, values.type, wanted.type) from error
    return columns


def _taken(images: Sequence[pa.Table], runs: Runs, schema: pa.Schema, before: bool) -> Any:
    if images:
        return Ranges(runs.first, runs.length).table(pa.concat_tables(images))
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


def _mismatch(table: TableName, column: str, one: Any, two: Any) -> SchemaMismatch:
    return SchemaMismatch(
        f"Column {column} of {table} is {one} in one shard or version and {two} in another.",
        hint="Give the column one definition in all shards, or read this table in the envelope format.",
        table=str(table),
        column=column,
        types=f"{one}, {two}",
    )
