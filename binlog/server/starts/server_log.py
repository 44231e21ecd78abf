"""Server log: the binlog of a server that answers, as `identity` looks at it."""

from __future__ import annotations

from collections.abc import Mapping

from binlog.server.starts.logged import LoggedTransactions
from binlog.server.starts.scan import Scan, scanner
from binlog.server.starts.start import binlog_sizes, executed_gtids
from merge.values.gtids.gtid import GtidSet


class ServerLog(Scan):
    """The binlog of one server, see `SourceLog`."""

    __slots__ = ()

    def sizes(self) -> Mapping[str, int]:
        """Return the bytes of its files by name, the oldest first."""
        return binlog_sizes(self.address, self.connection)

    def executed(self) -> GtidSet:
        """Return the GTIDs of the transactions that it has."""
        return executed_gtids(self.address, self.connection, self.facts)

    def read(self, file: str, offset: int) -> LoggedTransactions:
        """Open a file at an offset, on a connection of its own."""
        return LoggedTransactions(scanner(self.address, "identity"), self.facts.identity, file, offset)
