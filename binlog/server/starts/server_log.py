"""Server log: the binlog of a server that answers, as `identity` looks at it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pymysql

from canal_group.binlog.formats.events import MAGIC
from canal_group.binlog.server.source import ServerFacts, SourceAddress, query
from canal_group.binlog.server.starts.logged import LoggedTransactions
from canal_group.binlog.server.starts.start import binlog_sizes, executed_gtids, gtids_at
from canal_group.merge.values.gtids.gtid import NO_GTIDS, GtidSet, parse_gtid_set

#: PREVIOUS_GTIDS is among the first events of a file
_HEAD_EVENTS = 4


@dataclass(frozen=True, slots=True)
class ServerLog:
    """The binlog of one server, see `SourceLog`.

    Args:
        address: the server.
        connection: an open connection to it, for queries.
        facts: what it reports about itself.
    """

    address: SourceAddress
    connection: pymysql.Connection[Any]
    facts: ServerFacts

    def sizes(self) -> Mapping[str, int]:
        """Return the bytes of its files by name, the oldest first."""
        return binlog_sizes(self.address, self.connection)

    def gtids_before(self, file: str) -> GtidSet:
        """Return the GTIDs before a file, as the file says."""
        if self.facts.mariadb:
            return gtids_at(self.address, self.connection, file, len(MAGIC))
        shown = query(self.address, self.connection, f"SHOW BINLOG EVENTS IN '{file}' LIMIT {_HEAD_EVENTS}")
        for event in shown:
            if event["Event_type"] == "Previous_gtids" and event["Info"]:
                return parse_gtid_set(str(event["Info"]).replace("\n", ""))
        return NO_GTIDS

    def executed(self) -> GtidSet:
        """Return the GTIDs of the transactions that it has."""
        return executed_gtids(self.address, self.connection, self.facts)

    def read(self, file: str, offset: int) -> LoggedTransactions:
        """Open a file at an offset, on a connection of its own."""
        return LoggedTransactions(self.address.scanner("identity"), self.facts.identity, file, offset)
