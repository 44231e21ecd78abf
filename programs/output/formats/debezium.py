"""Debezium's envelope as JSON, without schema; the message's key holds the primary key. No statements."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from canal_group.programs.output.formats.format import filtered, one_each
from canal_group.programs.output.messages import Messages
from canal_group.programs.output.routing.router import Routes
from canal_group.shapes.debezium import debezium_columns, is_change
from canal_group.shapes.json_text import NULL, compose, numbers, objects, quoted


def debezium(rows: pa.Table, routes: Routes) -> Messages:
    """Return an envelope for each change of a row."""
    rows, routes = filtered(rows, routes, is_change(rows))
    columns = debezium_columns(rows)
    source = columns["source"]
    members = {
        field.name: (quoted if pa.types.is_string(field.type) else numbers)(source.field(field.name))
        for field in source.type
    }
    values = compose(
        {
            "before": objects(columns["before"]),
            "after": objects(columns["after"]),
            "source": compose(members),
            "op": quoted(columns["op"]),
            "ts_ms": numbers(columns["ts_ms"]),
        }
    )
    keys = objects(rows.column("key").combine_chunks())
    # A table without a primary key has no key to compact by.
    keys = pc.if_else(pc.is_in(keys, pa.array(["{}", NULL])), pa.scalar(None, pa.utf8()), keys)
    return one_each(rows, routes, values, keys)
