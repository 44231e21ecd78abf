"""Debezium's envelope as JSON, without schema; the message's key holds the primary key. No statements."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from canal_group.programs.output.formats.format import filtered, one_each
from canal_group.programs.output.messages import Messages
from canal_group.programs.output.routing.router import Routes
from canal_group.shapes.debezium import debezium_columns, is_change
from canal_group.shapes.json_text import compose, objects, plain, quoted, written


def debezium(rows: pa.Table, routes: Routes) -> Messages:
    """Return an envelope for each change of a row."""
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
