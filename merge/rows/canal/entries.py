"""Entries: the rows of a batch as canal hands them out.

An entry is one of canal's protobuf messages: the begin of a transaction, row changes of one table, a DDL
statement, or the end of a transaction. `canal_group.canal_protocol` has the messages.

- Adjacent row changes of one table with one operation, in one transaction, are one entry: the binlog's own
  rows events are unknown here. An entry has at most `ENTRY_BYTES_MAX`, or one row. A row that was read is an
  INSERT.
- Begins and ends may be left out: `transaction_ends`.
- A transaction of which no row is selected has no entry, unless it is huge: its begin and its end may lie in
  other batches than its rows. A DDL statement stands alone, without begin and end. Statements that canal's
  parser drops are left out (`canal_group.merge.rows.canal.parsed`).
- File and offset of an entry's header are those at which the transaction begins, for its end those at which
  the next event begins; the length is that of the whole transaction. The prop `shard` names the shard, `row`
  the ordinal of the first row change in its transaction: with file and offset they tell row changes apart.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from canal_group.merge.rows.assemble import BatchRows, RowNumbers, Runs, gtids, images
from canal_group.merge.rows.canal.event_types import numbers_of
from canal_group.merge.rows.canal.jdbc import jdbc_type, plain_type
from canal_group.merge.rows.canal.parsed import is_parsed
from canal_group.merge.rows.canal.wire import number, text
from canal_group.merge.rows.native.canal import Rows, encode
from canal_group.merge.rows.text import values_of
from canal_group.merge.values.chunk import PRIMARY_KEY, TableName, mysql_type_of
from canal_group.merge.values.header import Flag, Headers, origin_of
from canal_group.merge.values.rows.absent import absent_in

if TYPE_CHECKING:
    from canal_group.merge.rows.native.canal import Column

_Bytes: TypeAlias = NDArray[np.uint8]

#: columns whose constant bytes are cached from batch to batch
COLUMNS_MAX: Final = 4_096
#: a mask of rows in which no column is absent
_NONE: _Bytes = np.empty(0, np.uint8)


def encoded_rows(rows: pa.Table) -> Rows:
    """Return the row changes of one table in one schema version as rows of canal's RowChange.

    Args:
        rows: (n,) see `canal_group.merge.rows.assemble.ShardTable`.
    """
    return Rows(_columns(rows, "before"), _columns(rows, "after"), numbers_of(rows))


def _columns(rows: pa.Table, side: str) -> Iterator[Column]:
    image = images(rows, side)
    if image.null_count == len(image):
        return
    key = json.loads((rows.schema.metadata or {}).get(PRIMARY_KEY, b"[]"))
    absent = absent_in(rows, side)
    for index, column in enumerate(image.type):
        mysql_type = mysql_type_of(column)
        values = values_of(pc.struct_field(image, [index]), mysql_type)
        constant = _constant(index, column.name, column.name in key, mysql_type, column.type)
        missing = _NONE if absent is None else np.ascontiguousarray(absent[:, index]).view(np.uint8)
        yield constant.head, constant.wide_head, constant.tail, values, constant.number_max, missing


class _Constant(NamedTuple):
    """The bytes of a column that all rows share; see `canal_group.merge.rows.native.canal.Column`."""

    head: bytes
    wide_head: bytes
    tail: bytes
    number_max: int | None


@lru_cache(COLUMNS_MAX)
def _constant(index: int, name: str, is_key: bool, mysql_type: str, kind: Any) -> _Constant:
    jdbc = jdbc_type(mysql_type, kind)
    name_key = text(3, name) + number(4, is_key)
    head, wide_head = (number(1, index) + number(2, each) + name_key for each in (jdbc.number, jdbc.wider))
    return _Constant(head, wide_head, text(10, plain_type(mysql_type)), jdbc.number_max)


Int64s: TypeAlias = NDArray[np.int64]

#: bytes of an entry's rows; one row may have more
ENTRY_BYTES_MAX: Final = 1 << 20

#: canal's EntryType
BEGIN, ROWS, END = 1, 2, 3
#: canal's EventType of a statement
_STATEMENTS: Final = {
    "CREATE": 4,
    "ALTER": 5,
    "ERASE": 6,
    "QUERY": 7,
    "TRUNCATE": 8,
    "RENAME": 9,
    "CINDEX": 10,
    "DINDEX": 11,
}
#: EventType -> its name
EVENTS: Final = ("", "INSERT", "UPDATE", "DELETE", *_STATEMENTS)

ENTRY = np.dtype(
    [
        ("rank", "<i8"),  # index of its transaction's header in the batch
        ("kind", "<i8"),  # EntryType
        ("piece", "<i8"),  # index of the piece that has its rows
        ("first", "<i8"),  # index of its first row there
        ("count", "<i8"),  # rows; 0: it is a statement
        ("event", "<i8"),  # EventType
        ("row", "<i8"),  # ordinal of its first row change in the transaction
    ]
)
TRANSACTION = np.dtype(
    [
        ("file", "<i8"),  # index of the binlog file's name
        ("begin_offset", "<i8"),
        ("end_offset", "<i8"),
        ("millis", "<i8"),  # commit time, milliseconds since 1970 UTC
        ("server_id", "<i8"),  # 0: unknown
        ("shard", "<i8"),  # index of the shard's name
    ]
)

#: a batch's entries as a table
ENTRIES = pa.schema(
    [
        pa.field("seq", pa.int64(), nullable=False),  # number of its first row change in the merged stream
        pa.field("rows", pa.int32(), nullable=False),  # row changes; 0: a statement, a begin, or an end
        pa.field("shard", pa.dictionary(pa.int32(), pa.utf8()), nullable=False),
        pa.field("entry_type", pa.uint8(), nullable=False),  # canal's EntryType
        pa.field("event_type", pa.uint8(), nullable=False),  # canal's EventType; 0: a begin, or an end
        pa.field("schema", pa.dictionary(pa.int32(), pa.utf8()), nullable=False),  # empty: a begin, or an end
        pa.field("table", pa.dictionary(pa.int32(), pa.utf8()), nullable=False),
        pa.field("entry", pa.large_binary(), nullable=False),  # the message
    ]
)


@dataclass(frozen=True, slots=True)
class _Piece:
    """Rows of one table in one schema version, or a single statement."""

    name: TableName
    encoded: Rows
    #: (e,) ENTRY, and the number of each one's first row change in the merged stream
    entries: NDArray[np.void]
    seq: Int64s


@dataclass(frozen=True, slots=True)
class _Entries:
    """The entries of a batch in merged order, before they are written."""

    batch: BatchRows
    pieces: Sequence[_Piece]
    #: (e,) ENTRY
    entries: NDArray[np.void]
    seq: Int64s

    def encoded(self, server_ids: Mapping[str, int], field: int) -> tuple[_Bytes, Int64s]:
        """Return the block that holds the messages, each as a field, or bare (0), and where each begins."""
        order, names = self.batch.order, self.batch.names
        transactions = np.zeros(len(order), TRANSACTION)
        transactions["file"], transactions["shard"] = order["file"], order["shard"]
        transactions["begin_offset"], transactions["end_offset"] = order["begin_offset"], order["end_offset"]
        transactions["millis"] = order["commit_us"] // 1_000
        transactions["server_id"] = _server_ids(self.batch, server_ids)
        texts = gtids(order, names)
        _, ends, data = texts.buffers()
        return encode(
            self.entries,
            transactions,
            [name.encode() for name in names],
            [shard.encode() for shard in self.batch.shard_names],
            np.frombuffer(ends, np.int32)[: len(order) + 1] if len(order) else np.zeros(1, np.int32),
            np.frombuffer(data, np.uint8) if data is not None and data.size else np.empty(0, np.uint8),
            [piece.encoded for piece in self.pieces],
            [text(8, piece.name.schema) + text(9, piece.name.table) for piece in self.pieces],
            field,
        )


def entries(batch: BatchRows, server_ids: Mapping[str, int] | None = None, *, rows_max: int = 0) -> Any:
    """Return a batch's entries in merged order.

    Args:
        batch: a batch's headers, and its selected rows.
        server_ids: server ids of the shards' sources, by the shards' names, for transactions whose GTID does
            not have the server that committed them.
        rows_max: rows of an entry; 0: any number.

    Returns:
        (e,) Table of `ENTRIES`.
    """
    merged = _merged(batch, rows_max, transaction_ends=True)
    block, begins = merged.encoded(server_ids or {}, 0)
    messages = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(merged.entries), [None, pa.py_buffer(begins), pa.py_buffer(block)]
    )
    fields = merged.entries
    of_piece = np.where(fields["kind"] == ROWS, fields["piece"] + 1, 0)
    names = [TableName("", ""), *(piece.name for piece in merged.pieces)]
    return pa.table(
        [
            pa.array(merged.seq),
            pa.array(fields["count"].astype(np.int32)),
            _dictionary(batch.order["shard"][fields["rank"]], batch.shard_names),
            pa.array(fields["kind"].astype(np.uint8)),
            pa.array(fields["event"].astype(np.uint8)),
            _dictionary(of_piece, [name.schema for name in names]),
            _dictionary(of_piece, [name.table for name in names]),
            messages,
        ],
        schema=ENTRIES,
    )


def messages(
    batch: BatchRows, server_ids: Mapping[str, int], field: int, *, transaction_ends: bool = True
) -> tuple[memoryview, int]:
    """Return a batch's entries as one field of a message, repeated, and how many there are.

    Args:
        batch: as for `entries`.
        server_ids: as for `entries`.
        field: number of the field.
        transaction_ends: whether the begins and the ends of transactions are among them.
    """
    merged = _merged(batch, 0, transaction_ends=transaction_ends)
    block, begins = merged.encoded(server_ids, field)
    return block.data[int(begins[0]) :], len(merged.entries)


def _merged(batch: BatchRows, rows_max: int, *, transaction_ends: bool) -> _Entries:
    numbers = RowNumbers(batch)
    pieces = list(_pieces(numbers, rows_max))
    parts = [piece.entries.copy() for piece in pieces]
    for index, part in enumerate(parts):
        part["piece"] = index
    rows = np.concatenate([np.empty(0, ENTRY), *parts])
    seq = np.concatenate([np.empty(0, np.int64), *(piece.seq for piece in pieces)])
    ends = _ends(batch.order, rows["rank"]) if transaction_ends else np.empty(0, ENTRY)
    both = np.concatenate([rows, ends])
    seqs = np.concatenate([seq, numbers.bounds[ends["rank"] + (ends["kind"] == END)]])
    order = np.lexsort((seqs, both["kind"], both["rank"]))
    return _Entries(batch, pieces, both[order], seqs[order])


def _ends(order: Headers, with_rows: Int64s) -> NDArray[np.void]:
    """Return the entries of the begins and the ends of transactions."""
    flags = order["flags"]
    has_ends = (flags & Flag.DDL) == 0
    whole = (flags & (Flag.BEGIN | Flag.END)) == Flag.BEGIN | Flag.END
    has_rows = np.zeros(len(order), np.bool_)
    has_rows[with_rows] = True
    has_ends &= has_rows | ~whole
    parts = []
    for kind, flag in ((BEGIN, Flag.BEGIN), (END, Flag.END)):
        ranks = np.flatnonzero(has_ends & ((flags & flag) != 0))
        part = np.zeros(len(ranks), ENTRY)
        part["rank"], part["kind"] = ranks, kind
        parts.append(part)
    return np.concatenate(parts)


def _pieces(numbers: RowNumbers, rows_max: int) -> Iterable[_Piece]:
    for shard, part in enumerate(numbers.batch.shards):
        for table in part.tables:
            if len(table.rows):
                encoded = encoded_rows(table.rows)
                runs = numbers.runs(shard, table.rows, 0)
                yield _piece(numbers, table.name, encoded, runs, numbers_of(table.rows), rows_max)
        statements = None if part.statements is None else numbers.delivered(shard, part.statements)
        if statements is not None and len(statements):
            yield from _statements(numbers, shard, statements.filter(is_parsed(statements)))


def _piece(
    numbers: RowNumbers, name: TableName, encoded: Rows, runs: Runs, ops: _Bytes, rows_max: int
) -> _Piece:
    """Cut runs into entries: an entry has rows of one operation, and not too many."""
    run = np.repeat(np.arange(len(runs.first)), runs.length)
    index = np.arange(len(run)) - runs.first[run]
    cut = index == 0
    cut[1:] |= ops[1:] != ops[:-1]
    size = (encoded.begins[:-1] - encoded.begins[runs.first[run]]) // ENTRY_BYTES_MAX
    cut[1:] |= size[1:] != size[:-1]
    if rows_max:
        cut |= index % rows_max == 0
    first = np.flatnonzero(cut)
    entries = np.zeros(len(first), ENTRY)
    entries["rank"], entries["kind"], entries["first"] = runs.rank[run[first]], ROWS, first
    entries["count"] = np.diff(np.append(first, len(run)))
    entries["event"] = ops[first]
    seq = runs.seq[run[first]] + index[first]
    entries["row"] = numbers.ordinals(seq, entries["rank"])
    return _Piece(name, encoded, entries, seq)


def _statements(numbers: RowNumbers, shard: int, statements: pa.Table) -> Iterable[_Piece]:
    """Return each statement as a piece of its own; they are few."""
    runs = numbers.runs(shard, statements, 0)
    rows = statements.select(["schema", "table", "op", "sql", "ddl_schema"]).to_pylist()
    run = np.repeat(np.arange(len(runs.first)), runs.length)
    seq = runs.seq[run] + np.arange(len(run)) - runs.first[run]
    for index, each in enumerate(rows):
        event = _STATEMENTS[each["op"]]
        change = number(2, event) + number(10, 1) + text(11, each["sql"]) + text(14, each["ddl_schema"])
        entries = np.zeros(1, ENTRY)
        entries["rank"], entries["kind"], entries["event"] = runs.rank[run[index]], ROWS, event
        entries["row"] = numbers.ordinals(seq[index : index + 1], entries["rank"])
        name = TableName(each["schema"], each["table"])
        yield _Piece(name, Rows.of([change]), entries, seq[index : index + 1])


def _server_ids(batch: BatchRows, of_sources: Mapping[str, int]) -> Int64s:
    """Return the server id of each transaction: the one in its GTID, else that of its source."""
    order = batch.order
    sources = np.array([of_sources.get(shard, 0) for shard in batch.shard_names] or [0], np.int64)
    ids = np.array([_server_id(name) for name in batch.names] or [0], np.int64)
    origins = np.array([origin_of(name, 0) for name in batch.names] or [0], np.int64)
    own = np.where(order["gtid_number"] != 0, ids[order["gtid_source"]], origins[order["gtid_source"]])
    server_ids: Int64s = np.where(own != 0, own, sources[order["shard"]])
    return server_ids


def _server_id(source: str) -> int:
    """Return the server id in the source of a MariaDB GTID, "domain-server"; 0 for another one."""
    domain, _, server = source.partition("-")
    return int(server) if domain.isdecimal() and server.isdecimal() else 0


def _dictionary(indexes: Int64s, names: Sequence[str]) -> Any:
    return pa.DictionaryArray.from_arrays(
        pa.array(indexes.astype(np.int32)), pa.array(names, pa.utf8()), safe=False
    )
