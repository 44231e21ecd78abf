"""Remaining: what a source and its archive still have, told with the refusal of a position.

The group decides from it whether a client id goes on there (`merge.purged`).
"""

from __future__ import annotations

import contextlib
import json
import time
from typing import Any

import pymysql

from canal_group.binlog.server.source import ServerFacts, SourceAddress
from canal_group.binlog.server.starts.available import earliest_available
from canal_group.binlog.server.starts.latest import latest_position
from canal_group.merge.errors import DataError, Detail, PositionPurged, SourceUnavailable
from canal_group.merge.values.position import Position


def with_remaining(
    address: SourceAddress, connection: pymysql.Connection[Any], facts: ServerFacts, error: PositionPurged
) -> PositionPurged:
    """Return a refusal with the oldest and the newest position of a source and its archive, if known."""
    with contextlib.suppress(SourceUnavailable, DataError):
        oldest = earliest_available(address, connection, facts)
        return telling(error, oldest, latest_position(address, connection, facts))
    return error


def telling(error: PositionPurged, earliest: Position, latest: Position | None) -> PositionPurged:
    """Return a refusal with the positions where reading may go on.

    Its details hold them as JSON: `earliest` and `latest`; and the time, `found_us`, since 1970.
    """
    gtids = f", after the GTIDs {earliest.gtid_set}" if earliest.gtid_set else ""
    ends = {} if latest is None else {"latest": json.dumps(latest.to_dict())}
    told: dict[str, Detail] = {
        "earliest": json.dumps(earliest.to_dict()),
        **ends,
        "found_us": time.time_ns() // 1000,
    }
    message = f"{error.message} The oldest position available is {earliest}{gtids}."
    return PositionPurged(message, hint=error.hint, **{**error.details, **told})
