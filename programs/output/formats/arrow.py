"""Arrow IPC streams of `canal_group.merge.rows.envelope.ENVELOPE`, one for each run of a partition."""

from __future__ import annotations

import pyarrow as pa

from canal_group.merge.rows.envelope import DEFINITION
from canal_group.programs.output.formats.format import grouped
from canal_group.programs.output.messages import Messages
from canal_group.programs.output.routing.router import Routes


def arrow(rows: pa.Table, routes: Routes) -> Messages:
    """Return streams of changes and statements."""
    return grouped(rows.drop_columns([DEFINITION.name]), routes, _stream)


def _stream(rows: pa.Table) -> bytes:
    target = pa.BufferOutputStream()
    with pa.ipc.new_stream(target, rows.schema) as writer:
        writer.write_table(rows)
    written: bytes = target.getvalue().to_pybytes()
    return written
