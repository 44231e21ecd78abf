"""Headers: what each message says of the change that it holds, beside its value.

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

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from canal_group.programs.output.routing.router import Routes


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
