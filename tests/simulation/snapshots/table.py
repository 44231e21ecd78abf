"""Tables of a simulated source: their rows, what transactions do to them, and both as a stream has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final, NamedTuple

import pyarrow as pa

from canal_group.merge.values.chunk import (
    STATEMENTS,
    Op,
    StatementKind,
    StatementSource,
    TableName,
    TableRows,
    partial_schema,
    rows_schema,
)

SCHEMA: Final = "app"
KEY, COMPUTED = "id", "g"
#: the columns of a new table: a key, two values, and one that is computed of the first of them
COLUMNS: Final = (KEY, "v", "w", COMPUTED)

Row = Mapping[str, int]


def row_of(key: int, v: int, w: int, more: Sequence[str] = ()) -> Row:
    """Return a row; columns that were added later are 0 in it."""
    return {KEY: key, "v": v, "w": w, COMPUTED: computed(v), **dict.fromkeys(more, 0)}


def computed(v: int) -> int:
    """Return the value of the computed column."""
    return 10 * v + 1


def name_of(table: str) -> TableName:
    """Return the full name of a table."""
    return TableName(SCHEMA, table)


@dataclass(frozen=True, slots=True)
class Table:
    """A table after some transaction."""

    columns: tuple[str, ...]
    rows: Mapping[int, Row]
    #: what its key is called; empty: it has none
    signature: str
    #: the transaction after which it has been the same table, with the same columns; -1: from the beginning
    since: int = -1


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one row."""

    table: str
    op: Op
    before: Row | None
    after: Row | None
    #: columns that the images before and after do not say
    before_lacks: frozenset[str] = frozenset()
    after_lacks: frozenset[str] = frozenset()
    #: a difference: what was added to `w`, of which the image after says nothing else
    adds: int = 0

    @property
    def rows(self) -> set[tuple[str, int]]:
        """The rows that it touches, by table and key."""
        return {(self.table, each[KEY]) for each in (self.before, self.after) if each is not None}

    def made(self, old: Row | None) -> Row | None:
        """Return the row that it makes of one."""
        if not self.adds or self.after is None:
            return self.after
        assert old is not None, "a difference has a row before it"
        return {**self.after, "w": old["w"] + self.adds}


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement on one table."""

    #: canal's EventType: ALTER, TRUNCATE, RENAME, ERASE
    op: str
    table: str
    #: the column that an ALTER adds; empty: none
    column: str = ""
    #: what the key is called after an ALTER
    signature: str = ""
    #: what takes the place of the table in a RENAME
    becomes: Table | None = None


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction of a source: changes in fragments, or one statement."""

    number: int
    gtid: tuple[str, int]
    commit_us: int
    fragments: tuple[tuple[Change, ...], ...]
    statement: Statement | None
    #: the tables after it and all before it, by name
    tables: Mapping[str, Table] = field(repr=False)
    #: rows that an XA transaction holds on to, whose changes are in another one
    locks: frozenset[tuple[str, int]] = frozenset()

    @property
    def has_rows(self) -> bool:
        """Whether there is something of it for a consumer."""
        return self.statement is not None or any(self.fragments)

    @property
    def touched(self) -> set[tuple[str, int]]:
        """The rows that it touches, by table and key."""
        return {row for part in self.fragments for each in part for row in each.rows}.union(self.locks)


def applied(tables: Mapping[str, Table], what: Change | Statement, number: int) -> dict[str, Table]:
    """Return tables after a change, or a statement of a transaction."""
    tables = dict(tables)
    if isinstance(what, Statement):
        table = tables.pop(what.table)
        if what.op == "ALTER":
            added = {what.column: 0} if what.column else {}
            rows = {key: {**row, **added} for key, row in table.rows.items()}
            tables[what.table] = Table((*table.columns, *added), rows, what.signature, number)
        elif what.op == "TRUNCATE":
            tables[what.table] = replace(table, rows={}, since=number)
        elif what.becomes is not None:
            tables[what.table] = replace(what.becomes, since=number)
        return tables
    table = tables[what.table]
    rows = dict(table.rows)
    row = what.made(None if what.before is None else rows.pop(what.before[KEY], None))
    if row is not None:
        rows[row[KEY]] = row
    tables[what.table] = replace(table, rows=rows)
    return tables


# ---- as a stream has them ----------------------------------------------------------------------------------


class Placed(NamedTuple):
    """A change and where it is in a chunk."""

    header: int
    row: int
    change: Change


@lru_cache
def schema_of(columns: tuple[str, ...], signature: str) -> pa.Schema:
    """Return the schema of a table's batches."""
    fields = [pa.field(name, pa.int64()) for name in columns]
    return rows_schema(fields, b'["id"]' if signature else b"[]")


@lru_cache
def _partial_schema(columns: tuple[str, ...], signature: str) -> pa.Schema:
    return partial_schema(schema_of(columns, signature))


def table_rows(table: str, definition: Table, placed: Sequence[Placed]) -> TableRows:
    """Return changes of a table between two of its statements."""
    columns, name = definition.columns, name_of(table)
    partial = any(each.change.before_lacks or each.change.after_lacks for each in placed)
    kinds = (columns, definition.signature)
    schema = _partial_schema(*kinds) if partial else schema_of(*kinds)
    arrays = [
        pa.array([each.header for each in placed], pa.int32()),
        pa.array([each.row for each in placed], pa.int64()),
        pa.array([each.change.op for each in placed], pa.uint8()),
    ]
    changes = [each.change for each in placed]
    # Of a difference and the document before it a reader makes the document.
    befores = [_image(each.before, each.before_lacks) for each in changes]
    afters = [_image(each.made(each.before), each.after_lacks) for each in changes]
    arrays += [pa.array(befores, schema.field("before").type), pa.array(afters, schema.field("after").type)]
    if partial:
        arrays += [
            pa.array([_bits(getattr(each.change, lacks), columns) for each in placed], pa.binary(1))
            for lacks in ("before_lacks", "after_lacks")
        ]
    return TableRows(name, pa.RecordBatch.from_arrays(arrays, schema=schema), name)


def _image(row: Row | None, lacks: frozenset[str]) -> Row | None:
    if row is None or not lacks:
        return row
    return {name: value for name, value in row.items() if name not in lacks}


def _bits(lacks: frozenset[str], columns: tuple[str, ...]) -> bytes:
    return bytes([sum(1 << at for at, name in enumerate(columns) if name in lacks)])


def statement_row(header: int, statement: Statement) -> dict[str, Any]:
    """Return a statement as a row of `STATEMENTS`."""
    role = "new" if statement.op == "RENAME" else ""
    told = {"schema": SCHEMA, "table": statement.table, "role": role, "kept": True}
    said = {"schema": SCHEMA, "table": statement.table, "op": statement.op, "sql": statement.op}
    return {"_header": header, "_row": 0, **said, "ddl_schema": SCHEMA, "tables": [told]}


def statements_of(found: Sequence[tuple[int, Statement]]) -> tuple[Any, tuple[StatementSource, ...]]:
    """Return the batch of statements, each with the index of its header, and what they are in the source."""
    if not found:
        return None, ()
    batch = pa.RecordBatch.from_pylist([statement_row(*each) for each in found], STATEMENTS)
    sources = [StatementSource((name_of(each.table),), StatementKind.DDL) for _, each in found]
    return batch, tuple(sources)
