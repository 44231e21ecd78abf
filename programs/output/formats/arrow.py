"""Changes as Arrow IPC streams of `merge.rows.envelope.ENVELOPE`, one for each run of a partition."""

from __future__ import annotations

import pyarrow as pa

from merge.rows.envelope import DEFINITION
from programs.output.formats.format import grouped
from programs.output.messages import Messages
from programs.output.routing.router import Routes


def arrow(rows: pa.Table, routes: Routes) -> Messages:
    """Return streams of changes and statements."""
    return grouped(rows.drop_columns([DEFINITION.name]), routes, _stream)


def _stream(rows: pa.Table) -> bytes:
    target = pa.BufferOutputStream()
    with pa.ipc.new_stream(target, rows.schema) as writer:
        writer.write_table(rows)
    written: bytes = target.getvalue().to_pybytes()
    return written
