"""Where a reader is in its source, and where its next stream begins.

Streams that are requested by GTID stay so, because the order of transactions may differ between servers.
There is one exception: if the rows of an XA transaction lie before the position, they are looked for by file
on the server that has its COMMIT.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pymysql

from binlog.server.binlog_stream import BinlogStream
from binlog.server.hosts import SourceHosts
from binlog.server.listener import position_after
from binlog.server.source import ServerFacts, SourceAddress
from binlog.server.starts.by_time import continued_by_time
from binlog.server.starts.remaining import with_remaining
from binlog.server.starts.start import StartBy, binlog_files, goes_by_gtid, goes_by_time, past_purged
from merge.errors import PositionPurged, ShardUnavailable
from merge.values.chunk import Chunk
from merge.values.position import Position

_log = logging.getLogger(__name__)


class ReadPlace:
    """The place of one reader, which reads one server.

    Args:
        address: the source.
        hosts: the servers of the shard; they count how a stream continues on another one.
        start_by: see `start`.
        fallback_us: how long before the last commit time another server is read from, see `by_time`.
    """

    def __init__(
        self, address: SourceAddress, hosts: SourceHosts, start_by: StartBy, fallback_us: int
    ) -> None:
        self._address, self._hosts = address, hosts
        self._start_by, self._fallback_us = start_by, fallback_us
        #: everything before it was handed over: where to continue; None if it is not known yet
        self.position: Position | None = None
        #: identity of the server that is read; empty until one was reached
        self.server = ""
        #: creation times of the files that were read, seconds since 1970, by name
        self.created: dict[str, int] = {}
        #: whether streams are requested by GTID; None until that is decided
        self.by_gtid: bool | None = None
        #: file from whose beginning the next stream looks for XA rows that were prepared before the position
        self._lead_in: str | None = None

    @property
    def known(self) -> Position:
        """The position, where there has to be one."""
        assert self.position is not None, "it is known where the stream began"
        return self.position

    # ---- the next stream

    def require_same_source(self, facts: ServerFacts) -> None:
        """Refuse a server other than the one that is read; only a new reader may read that one.

        Raises:
            ShardUnavailable: another server answers.
        """
        if self.server and self.server != facts.identity:
            raise ShardUnavailable(
                f"Another server answers for shard {self._address.name} at {self._address}: "
                f"{facts.identity} instead of {self.server}. The reader is restarted.",
                shard=self._address.name,
                retry_after_s=0.1,
            )

    def next_begin(self, control: pymysql.Connection[Any], facts: ServerFacts) -> tuple[Position, bool]:
        """Return where the next stream begins on the server that answers, and whether by GTID.

        Raises:
            SourceUnfit: see `goes_by_gtid`.
            SourceUnavailable, PositionPurged: see `continued_by_time`.
        """
        position = self.known
        if self.by_gtid is not None:
            return position, self.by_gtid
        if not goes_by_time(facts, position, self._start_by):
            by_gtid = goes_by_gtid(self._address, facts, position, self._start_by)
            if by_gtid and not position.is_of(facts.identity):
                self._hosts.continued("gtid")
            return position, by_gtid
        found = continued_by_time(self._address, control, facts, position, self._fallback_us)
        self._hosts.continued("time", found.dropped, found.repeated)
        _log.warning(
            "continues on %s at %s by commit time: the last transaction that was delivered was %s, "
            "%d transactions are not repeated, %d may be",
            self._address.place,
            found.position,
            "found" if found.anchored else "not found",
            found.dropped,
            found.repeated,
            extra={"shard": self._address.name},
        )
        return found.position, False

    def take_lead_in(self) -> str | None:
        """Return the file in which the next stream looks for XA rows, and forget it."""
        lead_in, self._lead_in = self._lead_in, None
        return lead_in

    def reached(self, begin: Position, server: str, *, by_gtid: bool) -> None:
        """Note that a server sends a stream."""
        self.position, self.server, self.by_gtid = begin, server, by_gtid

    # ---- as the stream goes on

    def begun(self, stream: BinlogStream) -> Position:
        """Return the position where a reader's first stream begins, with what its file says of itself."""
        self.position = self._created(self.known, stream)
        return self.position

    def handed_over(self, item: Chunk) -> Position:
        """Return the position after a chunk that was handed over."""
        self.position = position_after(self.known, item, self.server, self.created)
        return self.position

    def move(self, stream: BinlogStream) -> Position | None:
        """Move to the source's own place, although nothing was handed over: files may be purged.

        Returns:
            The new position; None if it is the one of before.
        """
        position, place = self.known, stream.place
        if place is None or place == (position.file, position.offset):
            return None
        file, offset = place
        moved = replace(position, file=file, offset=offset, rows_into_transaction=0, server=self.server)
        self.position = self._created(moved, stream)
        return self.position

    @staticmethod
    def _created(position: Position, stream: BinlogStream) -> Position:
        return replace(position, created_s=stream.created.get(position.file, 0))

    # ---- a position that the source refuses

    def get_past(
        self,
        error: PositionPurged,
        lead_in: str | None,
        control: pymysql.Connection[Any],
        facts: ServerFacts,
        *,
        by_gtid: bool,
    ) -> None:
        """Find where to continue although the source refused a position as purged.

        Args:
            error: the refusal.
            lead_in: the file in which the stream looked for XA rows; None: in none.
            control: a connection to the source.
            facts: what is known of the source.
            by_gtid: whether the stream was requested by GTID.

        Raises:
            PositionPurged: nowhere, as transactions are missing; its details hold what the source still has.
            DataError: as `past_purged`.
        """
        if "xid" in error.details:
            self._settle(error)
            self._lead_in = self._earlier(error, lead_in, control)
        elif lead_in is not None:
            raise error
        elif by_gtid:
            raise with_remaining(self._address, control, facts, error) from error
        else:
            try:
                self.position = past_purged(self._address, control, facts, self.known, error)
            except PositionPurged as purged:
                raise with_remaining(self._address, control, facts, purged) from error

    def _settle(self, error: PositionPurged) -> None:
        """Continue by file and offset on this server, from the XA COMMIT that was found first on it by GTID.

        Files of another server mean nothing on this one; everything before the COMMIT was delivered, or comes
        with it.
        """
        position = self.known
        if position.is_of(self.server):
            return
        file, offset = error.details["file"], error.details["begin_offset"]
        assert isinstance(file, str), "an event has a file"
        assert isinstance(offset, int), "a transaction begins somewhere"
        self.position = replace(
            position, file=file, offset=offset, server=self.server, created_s=self.created.get(file, 0)
        )
        self.by_gtid = False

    def _earlier(self, error: PositionPurged, lead_in: str | None, control: pymysql.Connection[Any]) -> str:
        """Return the file from which to look for the rows of an XA transaction that a stream lacked.

        The first try is the file of the position; each further try goes one file further back.

        Raises:
            PositionPurged: `error`, if no older file is left.
        """
        if lead_in is None:
            return self.known.file
        files = binlog_files(self._address, control)
        place = files.index(lead_in) if lead_in in files else 0
        if not place:
            raise error
        return files[place - 1]
