"""Available: what there is of a source's binlog, in its archive and on the server."""

from __future__ import annotations

import logging
from typing import Any

import pymysql

from canal_group.binlog.archive.history import History
from canal_group.binlog.server.dump.archived import Archived, first_of, with_older
from canal_group.binlog.server.source import ServerFacts, SourceAddress
from canal_group.binlog.server.starts.binary_logs import binlog_sizes
from canal_group.binlog.server.starts.start import earliest_position
from canal_group.merge.errors import DataError, RetryableError
from canal_group.merge.values.position import Position

_log = logging.getLogger(__name__)


def archived_history(
    address: SourceAddress, connection: pymysql.Connection[Any], facts: ServerFacts
) -> History | None:
    """Return the archive's history of the binlog that a server has; None: no history, or a damaged one.

    Raises:
        SourceUnavailable, SourceUnfit: the server does not answer.
    """
    if address.archive is None:
        return None
    sizes = binlog_sizes(address, connection)
    try:
        return Archived(address, facts.identity).current(sizes)
    except (DataError, RetryableError) as error:
        _log.warning("the archive is not searched: %s", error, extra={"shard": address.name})
        return None


def earliest_available(
    address: SourceAddress, connection: pymysql.Connection[Any], facts: ServerFacts
) -> Position:
    """Return the beginning of the oldest file, of the archive or of the server, with the GTIDs before it.

    Raises:
        SourceUnavailable, SourceUnfit: the server does not answer, or has no binlog.
    """
    oldest = earliest_position(address, connection, facts)
    history = archived_history(address, connection, facts)
    if history is None or with_older(history, [oldest.file])[0] == oldest.file:
        return oldest
    return first_of(history)
