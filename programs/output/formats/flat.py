"""canal's flat message, see `canal_group.shapes.flat_message`."""

from __future__ import annotations

import time

import pyarrow as pa

from canal_group.merge.rows.canal.parsed import is_parsed
from canal_group.programs.output.formats.format import filtered, one_each
from canal_group.programs.output.messages import Messages
from canal_group.programs.output.routing.router import Routes
from canal_group.shapes.flat_message import flat_messages


def flat(rows: pa.Table, routes: Routes) -> Messages:
    """Return a flat message for each change and statement."""
    rows, routes = filtered(rows, routes, is_parsed(rows))
    return one_each(rows, routes, flat_messages(rows, time.time_ns() // 1_000_000))
