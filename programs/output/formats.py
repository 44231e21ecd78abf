"""Formats: changes as the messages that consumers of queues expect, one for each change or run.

Headers: what each message says of the change that it holds, beside its value.

    seq         number of the change in the merged stream
    shard       name of the shard
    position    file:pos:row: the binlog file, where the transaction begins in it, the ordinal in that
    key_us      key in the merged order, microseconds since 1970 UTC
    moved_from  partition of the row's earlier changes, if an update chose another one
    ddl_schema  of a statement: its session's database, where names without a schema are; may be empty
    rows        of a message that holds several changes: how many; the others are the first change's

`shard` and `position` identify a change, whatever is delivered again: a consumer that has seen a change of a
shard has seen all that come before it in file, pos and row.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from canal_group.canal_protocol.packet_pb2 import Messages as Body
from canal_group.canal_protocol.packet_pb2 import Packet, PacketType
from canal_group.client.batch import Batch
from canal_group.merge.rows.canal.entries import ROWS
from canal_group.merge.rows.canal.parsed import is_parsed
from canal_group.merge.rows.envelope import DEFINITION
from canal_group.programs.output.messages import Messages
from canal_group.programs.output.routing.router import Routes
from canal_group.shapes.debezium import debezium_columns, is_change
from canal_group.shapes.flat_message import flat_messages
from canal_group.shapes.json_text import compose, objects, plain, quoted, written


def headers_of(rows: pa.Table, routes: Routes) -> dict[str, Any]:
    """Return the headers of n changes, each (n,) utf8.

    Args:
        rows: (n,) Table of `canal_group.merge.rows.envelope.ENVELOPE`.
        routes: where they go.
    """
    column = {
        name: rows.column(name).combine_chunks() for name in ("seq", "shard", "file", "pos", "row", "key_us")
    }
    text = {name: values.cast(pa.utf8()) for name, values in column.items()}
    headers = {
        "seq": text["seq"],
        "shard": text["shard"],
        "position": pc.binary_join_element_wise(text["file"], text["pos"], text["row"], ":"),
        "key_us": text["key_us"],
    }
    sessions = rows.column("ddl_schema").combine_chunks()
    if sessions.null_count < len(sessions):
        headers["ddl_schema"] = sessions
    moved = routes.moved_from >= 0
    if moved.any():
        headers["moved_from"] = pa.array(routes.moved_from, mask=~moved).cast(pa.utf8())
    return headers


#: column of canal's entries in what `read_entries` returns
_ENTRY = "entry"
#: most changes in one message of a format with several changes a message
GROUP_ROWS_MAX = 1_000


class Make(Protocol):
    """Makes messages of changes."""

    def __call__(self, rows: pa.Table, routes: Routes) -> Messages:
        """Return the messages of n changes, in their order.

        Args:
            rows: (n,) what the format's `read` returned, with tidy maps in one chunk.
            routes: where they go.
        """


def read_envelope(batch: Batch) -> pa.Table:
    """Return a batch's changes: (n,) Table of `canal_group.merge.rows.envelope.ENVELOPE` and `definition`."""
    return batch.envelope(definitions=True)


@dataclass(frozen=True, slots=True)
class Format:
    """A format."""

    make: Make
    #: reads a batch: the columns of `read_envelope` at least
    read: Callable[[Batch], pa.Table] = read_envelope


def one_each(rows: pa.Table, routes: Routes, values: Any, keys: Any = None) -> Messages:
    """Return a message for each change.

    Args:
        rows: the changes.
        routes: where they go.
        values: (n,) utf8 or binary.
        keys: (n,) utf8; None: no keys.
    """
    headers = headers_of(rows, routes)
    return Messages(routes.topics, routes.topic, routes.partition, values, headers, keys)


def filtered(rows: pa.Table, routes: Routes, keep: Any) -> tuple[pa.Table, Routes]:
    """Return the changes that a format has messages of.

    Args:
        rows: (n,) the changes.
        routes: where they go.
        keep: (n,) bool.
    """
    indexes = np.flatnonzero(keep.to_numpy(zero_copy_only=False))
    if len(indexes) == len(rows):
        return rows, routes
    return rows.take(pa.array(indexes)).combine_chunks(), routes.take(indexes)


def grouped(rows: pa.Table, routes: Routes, encode: Callable[[pa.Table], bytes]) -> Messages:
    """Return a message for each run of at most `GROUP_ROWS_MAX` changes of a topic's partition.

    Messages are in the order of their first changes.

    Args:
        rows: the changes.
        routes: where they go.
        encode: makes a value of changes of one partition.
    """
    groups = sorted(_groups(routes), key=lambda indexes: int(indexes[0]))
    first = np.array([indexes[0] for indexes in groups], np.int64)
    headers = {name: texts.take(pa.array(first)) for name, texts in headers_of(rows, routes).items()}
    headers["rows"] = pa.array([str(len(indexes)) for indexes in groups], pa.utf8())
    values = pa.array([encode(rows.take(pa.array(indexes))) for indexes in groups], pa.binary())
    return Messages(routes.topics, routes.topic[first], routes.partition[first], values, headers)


def _groups(routes: Routes) -> list[Any]:
    targets = routes.topic.astype(np.int64) << 32 | routes.partition
    order = np.argsort(targets, kind="stable")
    bounds = np.flatnonzero(np.diff(targets[order])) + 1
    return [
        run[begin : begin + GROUP_ROWS_MAX]
        for run in np.split(order, bounds)
        for begin in range(0, len(run), GROUP_ROWS_MAX)
    ]


def arrow(rows: pa.Table, routes: Routes) -> Messages:
    """Return Arrow IPC streams of changes and statements, one for each run of a partition."""
    return grouped(rows.drop_columns([DEFINITION.name]), routes, _arrow_stream)


def _arrow_stream(rows: pa.Table) -> bytes:
    target = pa.BufferOutputStream()
    with pa.ipc.new_stream(target, rows.schema) as writer:
        writer.write_table(rows)
    written: bytes = target.getvalue().to_pybytes()
    return written


def debezium(rows: pa.Table, routes: Routes) -> Messages:
    """Return Debezium's envelope of each changed row as JSON without schema; its key is the primary key."""
    rows, routes = filtered(rows, routes, is_change(rows))
    columns = debezium_columns(rows)
    source = columns["source"]
    members = {
        field.name: (quoted if pa.types.is_string(field.type) else plain)(source.field(field.name))
        for field in source.type
    }
    values = compose(
        {
            "before": objects(columns["before"]),
            "after": objects(columns["after"]),
            "source": members,
            "op": quoted(columns["op"]),
            "ts_ms": plain(columns["ts_ms"]),
        }
    )
    maps = rows.column("key").combine_chunks()
    # A table without a primary key has no key to compact by.
    is_there = pa.array(np.diff(maps.offsets.to_numpy()) > 0)
    keys = pc.if_else(is_there, written(objects(maps)), pa.scalar(None, pa.utf8()))
    return one_each(rows, routes, values, keys)


def flat(rows: pa.Table, routes: Routes) -> Messages:
    """Return canal's flat message for each change and statement."""
    rows, routes = filtered(rows, routes, is_parsed(rows))
    return one_each(rows, routes, flat_messages(rows, time.time_ns() // 1_000_000))


def read_entries(batch: Batch) -> pa.Table:
    """Return a batch's changes that canal delivers, with a column more: `entry`, each one's message."""
    rows = read_envelope(batch)
    rows = rows.filter(is_parsed(rows))
    entries = batch.canal_entries(rows_max=1)
    of_rows = np.flatnonzero(entries.column("entry_type").to_numpy() == ROWS)
    entries = entries.take(pa.array(of_rows))
    same = np.array_equal(entries.column("seq").to_numpy(), rows.column("seq").to_numpy())
    assert same, "a change has an entry of its own"
    return rows.append_column(_ENTRY, entries.column(_ENTRY))


def protobuf(rows: pa.Table, routes: Routes) -> Messages:
    """Return canal's packets of Messages, whose entries are the changes and statements of a run."""
    return grouped(rows, routes, _packet)


def _packet(rows: pa.Table) -> bytes:
    body = Body(batch_id=rows.column("seq")[0].as_py(), messages=rows.column(_ENTRY).to_pylist())
    return Packet(type=PacketType.MESSAGES, body=body.SerializeToString()).SerializeToString()


#: by the name in the settings
_FORMATS = {
    "arrow": Format(arrow),
    "debezium": Format(debezium),
    "flat": Format(flat),
    "protobuf": Format(protobuf, read_entries),
}


def format_of(name: str) -> Format:
    """Return a format by its name in the settings."""
    return _FORMATS[name]
