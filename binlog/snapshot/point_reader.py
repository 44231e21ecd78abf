"""Point readers: transactions that read one page, and where in the binlog what they see is.

    MariaDB, Percona Server   the snapshot itself says where it is: an exact point
    MySQL with GTIDs          what was executed before the snapshot is proven visible, and what is written
                              after the last row proven to be all that can be: a window
    MySQL without GTIDs       the same, but what is visible is what had been written a while ago, by a setting

No lock is taken, nothing is flushed, and nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pymysql

from canal_group.binlog.server.source import ServerFacts, SourceAddress, query, query_one
from canal_group.binlog.server.starts.binary_logs import listed_file
from canal_group.binlog.snapshot.visibility import SettledLog
from canal_group.merge.errors import SourceUnavailable, SourceUnfit
from canal_group.merge.snapshot.point import LogOffset, Point
from canal_group.merge.values.gtids.gtid import GtidSet, parse_gtid_set

_BEGIN = "START TRANSACTION WITH CONSISTENT SNAPSHOT"
_SNAPSHOT = "SHOW STATUS WHERE Variable_name IN ('Binlog_snapshot_file', 'Binlog_snapshot_position')"


@dataclass(slots=True)
class PageTransaction:
    """A transaction that reads one page; `point` is known after the transaction's end."""

    point: Point | None = None


class PointReader:
    """Opens transactions on one connection, and says where they are in the binlog.

    Args:
        address: the server, for errors.
        connection: an open connection to it, whose isolation is REPEATABLE READ.
        facts: what the server reports about itself.
        settled: tells what is visible of a server without GTIDs; None: such a server has no points.

    Raises:
        SourceUnavailable, SourceUnfit: the server does not answer, or refuses.
    """

    def __init__(
        self,
        address: SourceAddress,
        connection: pymysql.Connection[Any],
        facts: ServerFacts,
        settled: SettledLog | None,
    ) -> None:
        self._address, self._connection, self._facts = address, connection, facts
        self._settled = settled
        #: whether a snapshot says where it is
        self.exact = bool(query(address, connection, _SNAPSHOT))

    @contextmanager
    def page(self) -> Iterator[PageTransaction]:
        """Open a transaction, and end it.

        Raises:
            SourceUnavailable, SourceUnfit: see the class; the first also if what is visible is not known.
        """
        page = PageTransaction()
        low = None if self.exact else self._low()
        query(self._address, self._connection, _BEGIN)
        try:
            if low is None:
                at = self._snapshot()
                page.point = Point(self._facts.identity, at, at)
            yield page
            if low is not None:
                page.point = self._window(low)
        finally:
            if self._connection.open:
                query(self._address, self._connection, "ROLLBACK")

    def _snapshot(self) -> LogOffset:
        shown = {str(row["Variable_name"]).lower(): str(row["Value"]) for row in self._query(_SNAPSHOT)}
        file, offset = shown.get("binlog_snapshot_file", ""), shown.get("binlog_snapshot_position", "")
        if not file or not offset.isdigit():
            raise self._no_binlog()
        return LogOffset(listed_file(self._address, file), int(offset))

    def _low(self) -> LogOffset | GtidSet:
        if self._facts.gtids:
            row = query_one(self._address, self._connection, "SELECT @@global.gtid_executed AS gtids")
            return parse_gtid_set(str(row["gtids"]))
        assert self._settled is not None, "a server without GTIDs is read with a setting only"
        low = self._settled.settled(self._facts.identity)
        if low is None:
            # From now on time counts.
            self._written()
            raise SourceUnavailable(
                f"{self._address.title} has no GTIDs: what is written now can be read in"
                f" {self._settled.after_s:g} s (snapshot.visible_after_s).",
                shard=self._address.name,
            )
        return low

    def _window(self, low: LogOffset | GtidSet) -> Point:
        high = self._written()
        if isinstance(low, LogOffset) and low.is_after(high):
            raise SourceUnavailable(f"The binlog of {self._address} was reset.", shard=self._address.name)
        return Point(self._facts.identity, low, high)

    def _written(self) -> LogOffset:
        rows = self._query(self._facts.binlog_status_statement)
        if not rows:
            raise self._no_binlog()
        end = LogOffset(listed_file(self._address, str(rows[0]["File"])), rows[0].number("Position"))
        if self._settled is not None:
            self._settled.written(self._facts.identity, end)
        return end

    def _query(self, sql: str) -> Any:
        return query(self._address, self._connection, sql)

    def _no_binlog(self) -> SourceUnfit:
        return SourceUnfit(
            f"{self._address.title} at {self._address} has no binlog.",
            hint="A snapshot hands over to the binlog of the server that it reads: set log_bin.",
            shard=self._address.name,
        )
