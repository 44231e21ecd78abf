"""Chunks: a run of one shard's stream, headers and rows side by side.

Rows are Arrow record batches, one per table and schema version. Columns of a table's record batch:

    _header  int32   index of the row's header in the chunk's `headers`, never decreasing
    _row     int64   ordinal of the row change in the source's transaction
    _op      uint8   1 insert, 2 update, 3 delete (canal's EventType), 64 read
    before   struct  the row before the change: null for an insert and a read
    after    struct  the row after the change: null for a delete

Both structs have the table's columns as typed fields. A field's metadata holds `mysql_type`, the column's
type as the source writes it. The metadata of the record batch's schema holds `primary_key`, a JSON list of
names.

Images may lack columns, as `binlog_row_image` says. A record batch with such a row has two columns more, and
no other has them:

    _before_absent  fixed_size_binary  columns that `before` does not say: a bit for each, the lowest first
    _after_absent   fixed_size_binary  likewise for `after`

A column that an image does not say is null in it. What an UPDATE's image after lacked and the one before had
is filled in and not absent; see `canal_group.merge.values.rows.absent` for what the others mean.

Statements (DDL) stand in one record batch of `STATEMENTS`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum, StrEnum
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from canal_group.merge.values.ddl_mark import DdlMark
from canal_group.merge.values.header import HeaderRun, Headers


class Op(IntEnum):
    """What happened to a row; canal's EventType numbers, and one that canal does not have."""

    INSERT = 1
    UPDATE = 2
    DELETE = 3
    #: nothing: a snapshot selected it
    READ = 64

    @property
    def kind(self) -> str:
        """What it is to a filter: a row that was read is kept where inserted rows are."""
        return "insert" if self is Op.READ else self.name.lower()


class StatementKind(StrEnum):
    """What a statement is to a filter, which may leave out one kind or another; the words of its `keep`."""

    #: changes definitions of tables
    DDL = "ddl"
    #: defines accounts and their rights; may hold a password or its hash
    DCL = "dcl"
    #: changes rows that are in no event; only a reader that wants them as text gets such statements
    ROWS = "rows"
    #: every other statement
    QUERY = "query"
    #: ours (`canal_group.merge.values.marks.mark`); no filter leaves it out
    MARK = "mark"


class TableName(NamedTuple):
    """A table as consumers see it, after routes."""

    schema: str
    table: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}"

    @classmethod
    def of(cls, text: str) -> TableName:
        """Return the name that `schema.table` says."""
        schema, _, table = text.partition(".")
        return cls(schema, table)


#: what a statement concerns that is about no table
NO_TABLE = TableName("", "")

#: keys of schema and field metadata
PRIMARY_KEY = b"primary_key"
MYSQL_TYPE = b"mysql_type"
#: image -> the column that tells the absent columns of the image
ABSENT = {"before": "_before_absent", "after": "_after_absent"}

#: role of a table whose rows a statement removes or brings without row events
MOVES_ROWS = "rows"

#: a table that a statement changes, or a schema that it creates or drops (then `table` is empty)
CONCERNED = pa.struct(
    [
        # as consumers see it; as the source has it, if the instance leaves it out
        ("schema", pa.utf8()),
        ("table", pa.utf8()),
        ("role", pa.utf8()),  # of a RENAME: `old` or `new`; `MOVES_ROWS`; otherwise empty
        ("kept", pa.bool_()),  # whether the instance's filter keeps it
    ]
)
STATEMENTS = pa.schema(
    [
        pa.field("_header", pa.int32(), nullable=False),
        pa.field("_row", pa.int64(), nullable=False),
        # canal's: the first of `tables`, or the first new name; without one the session's database, no table
        pa.field("schema", pa.utf8(), nullable=False),
        pa.field("table", pa.utf8(), nullable=False),
        pa.field(
            "op", pa.utf8(), nullable=False
        ),  # canal's EventType: CREATE ALTER ERASE RENAME TRUNCATE ...
        pa.field("sql", pa.utf8(), nullable=False),
        # the session's database, where names without a schema are; empty: it had none
        pa.field("ddl_schema", pa.utf8(), nullable=False),
        # in the order of the statement; empty: it is about no table
        pa.field("tables", pa.list_(pa.field("element", CONCERNED)), nullable=False),
    ]
)


def names_of(statement: Mapping[str, Any]) -> list[TableName]:
    """Return the names that a filter tests of a statement: it is wanted if any of these names is.

    Args:
        statement: `schema`, `table` and `tables` as in `STATEMENTS`.
    """
    kept = [TableName(each["schema"], each["table"]) for each in statement["tables"] if each["kept"]]
    return kept or [TableName(statement["schema"], statement["table"])]


def mysql_type_of(column: pa.Field) -> str:
    """Return a column's type as its source writes it, such as `datetime(3)`; empty if it is not known."""
    return (column.metadata or {}).get(MYSQL_TYPE, b"").decode()  # type: ignore[no-any-return]


def rows_schema(columns: list[pa.Field], primary_key: bytes) -> pa.Schema:
    """Return the schema of a table's record batch in a chunk.

    Args:
        columns: the table's columns in order, nullable, each with `mysql_type` in its metadata.
        primary_key: JSON list of the primary key's column names.
    """
    image = pa.struct(columns)
    return pa.schema(
        [
            pa.field("_header", pa.int32(), nullable=False),
            pa.field("_row", pa.int64(), nullable=False),
            pa.field("_op", pa.uint8(), nullable=False),
            pa.field("before", image),
            pa.field("after", image),
        ],
        metadata={PRIMARY_KEY: primary_key},
    )


def absent_type(columns: int) -> Any:
    """Return the type of the columns that say which of a table's columns are not known."""
    return pa.binary((columns + 7) // 8)


def partial_schema(schema: pa.Schema) -> Any:
    """Return the schema of a record batch in which images lack columns, given that of the others."""
    kind = absent_type(len(schema.field("after").type))
    for name in ABSENT.values():
        schema = schema.append(pa.field(name, kind, nullable=False))
    return schema


@dataclass(frozen=True, slots=True)
class SpecialColumns:
    """The columns of a table that MariaDB adds or fills itself, to know what became of its rows; by name."""

    #: hashes of UNIQUE keys that are too long for an index; no query shows them
    hashes: tuple[str, ...] = ()
    #: the period of the rows, if no statement defines the period; queries show these columns only by name
    implicit_period: tuple[str, ...] = ()
    #: which column says when a row ended; empty: the table is not system-versioned
    row_end: str = ""


@dataclass(frozen=True, slots=True)
class Lineage:
    """Where the values of a table come from, as far as statements say it."""

    #: former names of the table, and names of tables that LIKE copied for the table or that held its rows
    origins: tuple[TableName, ...] = ()
    #: column -> the columns that its expression or default reads, all in lower case; a column that reads no
    #: column is left out. None: not known
    reads: Mapping[str, tuple[str, ...]] | None = None

    def reading(self, columns: Collection[str]) -> frozenset[str]:
        """Return the columns whose values come from some others, also from them by way of further ones."""
        found, reads = set[str](), self.reads or {}
        while more := {
            name
            for name, read in reads.items()
            if name not in found and not {*columns, *found}.isdisjoint(read)
        }:
            found |= more
        return frozenset(found)

    def with_more(self, reads: Mapping[str, tuple[str, ...]], origins: tuple[TableName, ...]) -> Lineage:
        """Return the lineage with further columns that others read, and further origins."""
        joined = dict(self.reads or {})
        for column, names in reads.items():
            joined[column] = (*joined.get(column, ()), *names)
        known = joined if joined or self.reads is not None else None
        return Lineage(tuple(dict.fromkeys((*self.origins, *origins))), known)


@dataclass(frozen=True, slots=True)
class TableRows:
    """Row changes of one table in one schema version, in the source's order."""

    name: TableName
    rows: pa.RecordBatch
    #: the table's name in the source, before routes; None: not known
    source: TableName | None = None
    #: columns that MariaDB itself fills; None: no special columns, or special columns were left out
    special: SpecialColumns | None = None
    lineage: Lineage = field(default_factory=Lineage)


class StatementSource(NamedTuple):
    """What a statement is in the source."""

    #: what it concerns and the instance keeps, before routes; an empty table name: no table
    names: tuple[TableName, ...]
    kind: StatementKind
    #: of each of them, see `Lineage`; empty: none is known
    origins: tuple[tuple[TableName, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Chunk:
    """A run of one shard's stream.

    Headers' `sequence` and `shard` are not set yet: the ring gives the one, the group the other.
    A table may appear more than once (a new schema version, or so many rows that the parser cut it).
    """

    headers: Headers
    names: tuple[str, ...]
    tables: tuple[TableRows, ...]
    statements: pa.RecordBatch | None = None
    #: for each statement what it is in the source
    statement_sources: tuple[StatementSource, ...] = ()
    #: by index in `headers`: the mark of a DDL statement on a table
    ddls: Mapping[int, DdlMark] = field(default_factory=dict)
    #: the cursor of the shard's snapshot from its first header on, as text; None: as before
    snapshot: str | None = None

    def only(self, index: int) -> Chunk:
        """Return a chunk with one header, chosen by index, and the header's rows and statements."""

        def mine(rows: pa.RecordBatch) -> pa.RecordBatch:
            found = rows.filter(pc.equal(rows.column("_header"), index))
            return found.set_column(0, rows.schema.field(0), pa.array([0] * len(found), pa.int32()))

        tables = [replace(table, rows=mine(table.rows)) for table in self.tables]
        said, sources = self.statements, self.statement_sources
        if said is not None:
            of = said.column("_header").to_pylist()
            sources = tuple(source for source, each in zip(sources, of, strict=True) if each == index)
        return Chunk(
            headers=self.headers[index : index + 1].copy(),
            names=self.names,
            tables=tuple(table for table in tables if table.rows.num_rows),
            statements=mine(said) if said is not None and sources else None,
            statement_sources=sources,
            ddls={0: self.ddls[index]} if index in self.ddls else {},
        )

    @property
    def run(self) -> HeaderRun:
        """The chunk's headers without its rows."""
        return HeaderRun(self.headers, self.names)
