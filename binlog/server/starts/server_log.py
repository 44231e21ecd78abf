"""Server log: the binlog of a server that answers, as `identity` looks at it."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pymysql

from canal_group.binlog.archive.history import History
from canal_group.binlog.archive.manifest import State
from canal_group.binlog.formats.events import MAGIC
from canal_group.binlog.schema.sql import plain_text
from canal_group.binlog.server.dump.archived import Archived, entry_of, files_of, size_of
from canal_group.binlog.server.source import ServerFacts, SourceAddress, query
from canal_group.binlog.server.starts.binary_logs import binlog_sizes
from canal_group.binlog.server.starts.logged import LoggedTransactions, logged_at_source, logged_in_archive
from canal_group.binlog.server.starts.start import executed_gtids, gtids_at
from canal_group.merge.errors import CanalGroupError
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
        asked = f"SHOW BINLOG EVENTS IN {plain_text(file)} LIMIT {_HEAD_EVENTS}"
        shown = query(self.address, self.connection, asked)
        for event in shown:
            if event["Event_type"] == "Previous_gtids" and event["Info"]:
                return parse_gtid_set(str(event["Info"]).replace("\n", ""))
        return NO_GTIDS

    def executed(self) -> GtidSet:
        """Return the GTIDs of the transactions that it has."""
        return executed_gtids(self.address, self.connection, self.facts)

    def read(self, file: str, offset: int) -> LoggedTransactions:
        """Open a file at an offset, on a connection of its own; all of a file comes from the archive.

        A transaction at an offset is asked of the server: it may have lost what the archive has.
        """
        if offset == len(MAGIC):
            with contextlib.suppress(CanalGroupError, KeyError):  # else the server is asked
                history = Archived(self.address, self.facts.identity).current({file: self.sizes()[file]})
                entry = None if history is None else entry_of(history, file)
                if history is not None and entry is not None and entry.state is not State.OPEN:
                    return logged_in_archive(history, file, offset)
        address, looks = self.address.scanner("identity"), offset != len(MAGIC)
        return logged_at_source(address, self.facts.identity, file, offset, looks=looks)


@dataclass(frozen=True, slots=True)
class ArchivedLog:
    """The binlog of a server as its archive has it, see `SourceLog`: for a stream that comes from there.

    Args:
        history: the archive's history of it.
        log: the server.
    """

    history: History
    log: ServerLog

    def sizes(self) -> Mapping[str, int]:
        """Return the bytes of its files by name, the oldest first."""
        return {each.name: size_of(self.history, each) for each in files_of(self.history)}

    def gtids_before(self, file: str) -> GtidSet:
        """Return the GTIDs before a file."""
        entry = entry_of(self.history, file)
        return NO_GTIDS if entry is None else parse_gtid_set(entry.gtids_before)

    def executed(self) -> GtidSet:
        """Return the GTIDs of the transactions that the server has."""
        return self.log.executed()

    def read(self, file: str, offset: int) -> LoggedTransactions:
        """Open a file at an offset."""
        return logged_in_archive(self.history, file, offset)
