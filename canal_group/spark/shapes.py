"""Shapes: the form of rows in Spark, and the conversion of the gateway's Arrow tables to it.

typed, one table: its own columns, then

    _change_type       string     insert, update_preimage, update_postimage, delete, read
    _commit_timestamp  timestamp  commit time as the source wrote it
    _commit_version    bigint     number of the transaction's first row change in the merged stream
    _shard             string
    _gtid _file        string     empty where the source has no GTIDs
    _pos _row          bigint     where the transaction begins in the file, and the change's ordinal in it
    _seq               bigint     unique, grows in merged order; an update's two rows have one each

envelope, all tables: see `canal_group.merge.rows.envelope`. debezium, all tables: `before after source op
ts_ms` as in Debezium's envelope, with images as maps of text and without statements. canal, all tables:
canal's flat message, one for each row, without the statements that canal's parser drops.

Types: unsigned integers become the next wider signed type, BIGINT UNSIGNED and BIT decimal(20,0) or the type
in the query's options, decimals of more than 38 digits strings, DATETIME timestamp_ntz, TIMESTAMP timestamp,
and TIME an interval.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from canal_group.merge.errors import ConfigError, SchemaGrown, SchemaMismatch
from canal_group.merge.rows.canal.event_types import names_of
from canal_group.merge.rows.canal.parsed import is_parsed
from canal_group.merge.rows.envelope import ENVELOPE, MAP
from canal_group.merge.rows.text import converted
from canal_group.merge.rows.typed import BEFORE, BEFORE_ABSENT, TYPED
from canal_group.merge.values.chunk import mysql_type_of
from canal_group.shapes.changed import changed
from canal_group.shapes.debezium import DEBEZIUM, debezium_columns, is_change
from canal_group.shapes.maps import tidy

UTC_US = pa.timestamp("us", tz="UTC")
_STRINGS = pa.list_(pa.field("element", pa.utf8()))


def _required(*columns: tuple[str, Any]) -> pa.Schema:
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in columns])


#: columns after a table's own columns
CHANGE = _required(
    ("_change_type", pa.utf8()),
    ("_commit_timestamp", UTC_US),
    ("_commit_version", pa.int64()),
    ("_shard", pa.utf8()),
    ("_gtid", pa.utf8()),
    ("_file", pa.utf8()),
    ("_pos", pa.int64()),
    ("_row", pa.int64()),
    ("_seq", pa.int64()),
)
CANAL = pa.schema(
    [
        ("id", pa.int64()),
        ("database", pa.utf8()),
        ("table", pa.utf8()),
        ("pkNames", _STRINGS),
        ("isDdl", pa.bool_()),
        ("type", pa.utf8()),
        ("es", pa.int64()),
        ("ts", pa.int64()),
        ("sql", pa.utf8()),
        ("data", pa.list_(pa.field("element", MAP))),
        ("old", pa.list_(pa.field("element", MAP))),
    ]
)
#: schema by format, for formats with one schema for all tables
FIXED = {"envelope": ENVELOPE, "debezium": DEBEZIUM, "canal": CANAL}

_WIDER = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
}
#: types for unsigned 64-bit integers. The JVM makes two Java objects of each decimal with this many digits
UNSIGNED_BIGINT = {"decimal": pa.decimal128(20, 0), "bigint": pa.int64(), "string": pa.utf8()}
_CHANGES = pa.array(["insert", "update_postimage", "delete", "read"])
_OPS = pa.array(["INSERT", "UPDATE", "DELETE", "READ"])


def spark_fields(columns: pa.Schema, unsigned_bigint: str = "decimal") -> pa.Schema:
    """Return a table's columns with Spark's types; see `UNSIGNED_BIGINT`."""
    wider = _WIDER | {pa.uint64(): UNSIGNED_BIGINT[unsigned_bigint]}
    return pa.schema([pa.field(column.name, _spark_type(column.type, wider)) for column in columns])


def _spark_type(kind: Any, wider: Mapping[Any, Any]) -> Any:
    if pa.types.is_decimal256(kind):
        return pa.utf8()
    return wider.get(kind, kind.value_type if pa.types.is_dictionary(kind) else kind)


def table_schema(columns: pa.Schema, table: str, names: Collection[str]) -> pa.Schema:
    """Return the schema of the typed format: a table's columns and those of `CHANGE`.

    Args:
        columns: the table's columns, with Spark's types.
        table: its name, for errors.
        names: the columns to keep; empty: all.

    Raises:
        SchemaMismatch: the table has a column with the name of an added one.
        ConfigError: a chosen column does not exist.
    """
    for name in columns.names:
        if name in CHANGE.names:
            raise SchemaMismatch(
                f"{table} has a column {name}, which is the name of one that canal-group adds.",
                hint="Read this table in the envelope format, or rename the column.",
                table=table,
                column=name,
            )
    fields = [*columns, *CHANGE]
    unknown = [name for name in names if name not in {each.name for each in fields}]
    if unknown:
        raise ConfigError(
            f"{table} has no column {', '.join(unknown)}.",
            hint=f"It has {', '.join(each.name for each in fields)}.",
        )
    return pa.schema([each for each in fields if not names or each.name in names])


def added_columns(names: Collection[str]) -> list[str]:
    """Return the columns of `canal_group.merge.rows.typed.TYPED` that those chosen (empty: all) need."""
    made_of = {"_commit_timestamp": "_commit_us", "_commit_version": "_row"}
    return sorted({made_of.get(name, name) for name in CHANGE.names if not names or name in names})


def typed_rows(rows: pa.Table, table: str, schema: pa.Schema, *, new_columns: str) -> pa.Table:
    """Return one table's changes in a query's schema.

    Args:
        rows: see `canal_group.merge.rows.typed`; with `_before` an update becomes two rows.
        table: its name, for errors.
        schema: the query's schema: some of the table's columns and some of `CHANGE`, in any order.
        new_columns: `fail`, `evolve` or `ignore`: how to treat a column that the query does not have.

    Raises:
        SchemaGrown: rows have a column that the query does not have, and it is not to be ignored.
        SchemaMismatch: rows have a different type.
    """
    own = _own_columns(rows.schema)
    if new_columns != "ignore":
        check_columns(rows.schema, table, schema.names)
    op = encoded(rows.column("_op"))
    seq = pc.add(pc.multiply(rows.column("_seq"), 2), 1)
    columns = {name: rows.column(name) for name in own} | {
        "_change_type": _CHANGES.take(pc.index_in(op.dictionary, _OPS)).take(op.indices),
        "_seq": seq,
    }
    if BEFORE in rows.schema.names:
        is_update = pc.equal(op.dictionary, "UPDATE").take(op.indices)
        updates = np.flatnonzero(is_update.to_numpy(zero_copy_only=False))
        if len(updates):
            columns, rows = _with_preimages(rows, own, columns, updates)
    came = rows.schema.names
    columns |= {
        name: rows.column(name) for name in ("_shard", "_gtid", "_file", "_pos", "_row") if name in came
    }
    if "_commit_us" in came:
        columns["_commit_timestamp"] = rows.column("_commit_us").cast(UTC_US)
    if "_row" in came:
        columns["_commit_version"] = pc.subtract(rows.column("_seq"), rows.column("_row"))
    return shaped(columns, schema, table, len(rows), {each.name: mysql_type_of(each) for each in rows.schema})


def check_columns(rows: pa.Schema, table: str, names: Collection[str]) -> None:
    """Check that a query has every column of one table's changes.

    Args:
        rows: their schema, see `canal_group.merge.rows.typed`.
        table: its name, for errors.
        names: the names of the query's columns.

    Raises:
        SchemaGrown: it lacks one.
    """
    unknown = [name for name in _own_columns(rows) if name not in names]
    if unknown:
        raise SchemaGrown(
            f"{table} has a column {unknown[0]} that the query's schema does not have.",
            hint="It was added since the query began. Restart the query, let run_evolving restart it, or set"
            " newColumns to ignore.",
            table=table,
            column=unknown[0],
        )


def _own_columns(rows: pa.Schema) -> list[str]:
    ours = {*TYPED.names, BEFORE, BEFORE_ABSENT}
    return [name for name in rows.names if name not in ours]


def _with_preimages(
    rows: pa.Table, own: list[str], current: dict[str, Any], updates: Any
) -> tuple[dict[str, Any], pa.Table]:
    """Return `current` with each update's before image in front of it, and the rows that they belong to."""
    images = rows.column(BEFORE).take(pa.array(updates))
    columns = {name: pc.struct_field(images, [images.type.get_field_index(name)]) for name in own}
    columns["_change_type"] = pa.repeat("update_preimage", len(updates))
    columns["_seq"] = pc.multiply(rows.column("_seq").take(pa.array(updates)), 2)
    after = pa.table(current)
    both = pa.concat_tables([after, pa.table(columns, schema=after.schema)]).unify_dictionaries()
    sorting = np.argsort(both.column("_seq").to_numpy(), kind="stable")
    indexes = np.concatenate((np.arange(len(rows)), updates))[sorting]
    both = both.take(pa.array(sorting))
    return {name: both.column(name) for name in both.schema.names}, rows.take(pa.array(indexes))


def shaped(
    columns: dict[str, Any],
    schema: pa.Schema,
    table: str,
    count: int,
    mysql_types: Mapping[str, str] | None = None,
) -> pa.Table:
    """Return columns in the order and the types of a schema; a missing column is null.

    Args:
        columns: the columns, by name.
        schema: the query's schema.
        table: the table's name, for errors.
        count: rows.
        mysql_types: what the source calls the types of columns, for their text.

    Raises:
        SchemaMismatch: values do not fit the schema's type.
    """
    arrays = []
    for field in schema:
        values = columns.get(field.name)
        if values is None:
            arrays.append(pa.nulls(count, field.type))
            continue
        try:
            arrays.append(converted(values, field.type, (mysql_types or {}).get(field.name, "")))
        except pa.ArrowException as error:
            raise SchemaMismatch(
                f"Column {field.name} of {table} is {values.type} and does not fit the query's"
                f" {field.type}: {error}.",
                hint="The column was changed since the query began. Restart the query.",
                table=table,
                column=field.name,
            ) from error
    return pa.table(arrays, schema=schema)


def envelope_rows(rows: pa.Table, name: str, schema: pa.Schema) -> pa.Table:
    """Return the changes of all tables in a query's schema.

    Args:
        rows: see `canal_group.merge.rows.envelope`.
        name: the format's name.
        schema: the query's schema.
    """
    make = {"envelope": _envelope, "debezium": _debezium, "canal": _canal}[name]
    columns, count = make(rows)
    return shaped(columns, schema, f"the {name} format", count)


def _envelope(rows: pa.Table) -> tuple[dict[str, Any], int]:
    return {name: rows.column(name) for name in rows.schema.names}, len(rows)


def _debezium(rows: pa.Table) -> tuple[dict[str, Any], int]:
    changes = rows.filter(is_change(rows))
    return debezium_columns(changes), len(changes)


def _canal(rows: pa.Table) -> tuple[dict[str, Any], int]:
    rows = rows.filter(is_parsed(rows)).combine_chunks()
    column = {name: _array(rows.column(name)) for name in rows.schema.names}
    millis = pc.divide(column["commit_us"], 1000)
    statement = pc.is_valid(column["sql"])
    deleted = pc.equal(column["op"], "DELETE").to_numpy(zero_copy_only=False)
    both = pa.concat_arrays([column["after"], column["before"]])
    count = np.arange(len(rows))
    data = both.take(pa.array(np.where(deleted, count + len(rows), count)))
    columns = {
        "id": column["seq"],
        "database": column["schema"],
        "table": column["table"],
        "pkNames": _keys(column["key"]),
        "isDdl": statement,
        "type": names_of(column["op"]),
        "es": millis,
        "ts": millis,
        "sql": pc.coalesce(column["sql"], pa.scalar("")),
        "data": _listed(data, pc.is_valid(data)),
        "old": _listed(
            changed(tidy(column["before"]), tidy(column["after"])), pc.equal(column["op"], "UPDATE")
        ),
    }
    return columns, len(rows)


def _keys(keys: Any) -> Any:
    """Return the names of each primary key's columns; null where there are none, as in canal."""
    none = np.diff(keys.offsets.to_numpy()) == 0
    names = pa.ListArray.from_arrays(keys.offsets, keys.keys, mask=pa.array(none))
    return names.cast(_STRINGS)


def _listed(values: Any, valid: Any) -> Any:
    """Return each valid value in a list of its own; null otherwise."""
    keep = valid.to_numpy(zero_copy_only=False)
    offsets = np.concatenate(([0], np.cumsum(keep))).astype(np.int32)
    return pa.ListArray.from_arrays(
        pa.array(offsets),
        values.take(pa.array(np.flatnonzero(keep))),
        type=pa.list_(pa.field("element", MAP)),
        mask=pa.array(~keep),
    )


def encoded(values: pa.ChunkedArray) -> Any:
    """Return values as one dictionary array."""
    if not pa.types.is_dictionary(values.type):
        values = pc.dictionary_encode(values)
    return values.unify_dictionaries().combine_chunks()


def _array(values: Any) -> Any:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
