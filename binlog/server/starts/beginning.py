"""Beginning: the position that a start means on a server now; see `canal_group.merge.values.start`."""

from __future__ import annotations

from typing import Any, assert_never

import pymysql

from canal_group.binlog.server.source import ServerFacts, SourceAddress
from canal_group.binlog.server.starts.available import earliest_available
from canal_group.binlog.server.starts.latest import latest_position
from canal_group.binlog.server.starts.scan import Scan
from canal_group.binlog.server.starts.start import earliest_position
from canal_group.merge.errors import SourceUnfit
from canal_group.merge.values.gtids.gtid import MariaDbGtidSet
from canal_group.merge.values.position import ANY_SERVER, Position
from canal_group.merge.values.start import After, At, Holding, InFile, ShardStart


def beginning(
    start: ShardStart, address: SourceAddress, connection: pymysql.Connection[Any], facts: ServerFacts
) -> Position:
    """Return the position of a start.

    Args:
        start: what to look for.
        address: the server.
        connection: an open connection to it.
        facts: what it reports about itself.

    Raises:
        PositionPurged: the server no longer has it.
        DataError: a file and offset where no transaction begins.
        SourceUnfit: the server has no binlog, or no GTIDs of that kind.
        SourceUnavailable: it does not answer.
    """
    match start:
        case "earliest":
            return earliest_available(address, connection, facts)
        case "latest":
            return latest_position(address, connection, facts)
        case At(time_us):
            return Scan(address, connection, facts).at_time(time_us)
        case InFile(file, offset):
            return Scan(address, connection, facts).position_at(file, offset)
        case Holding(file, offset):
            return Scan(address, connection, facts).position_at(file, offset, holding=True)
        case After(gtids):
            if not facts.gtids or isinstance(gtids, MariaDbGtidSet) != facts.mariadb:
                raise SourceUnfit(
                    f"{address.title} at {address} has no GTIDs of the kind of {gtids}.",
                    hint="MySQL has them as uuid:1-5, with gtid_mode = ON; MariaDB has them as 0-1-42.",
                    shard=address.name,
                )
            oldest = earliest_position(address, connection, facts)
            return Position(oldest.file, 0, gtid_set=gtids, server=ANY_SERVER)
        case _:
            assert_never(start)
