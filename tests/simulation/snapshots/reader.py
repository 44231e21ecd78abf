"""A reader of a simulated source, like `Reader` of `canal_group.binlog.server.reader`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from canal_group.actors.shard.intake import Intake
from canal_group.binlog.columns.read_counts import ReadCounts
from canal_group.binlog.server.listener import position_after
from canal_group.merge.errors import RetryableError, ShardUnavailable, SourceUnavailable
from canal_group.merge.values.position import Position
from simulation.loop import BEGIN_US, MS
from simulation.snapshots.server import Server
from simulation.snapshots.source import Source

if TYPE_CHECKING:
    from simulation.snapshots.shard import Shard

#: how often an idle source reports its clock
HEARTBEAT_US = 80 * MS
#: longest pause between two chunks
READ_MAX_US = 20 * MS
#: headers of a chunk, at most
CHUNK_MAX = 4


class StreamReader:
    """One reading of a source.

    Args:
        process: runs the reading thread.
        source: what is read.
        listener: gets chunks and errors.
    """

    def __init__(self, process: Shard, source: Source, listener: Intake) -> None:
        self._process, self._source, self._listener = process, source, listener
        self._stopped, self._stirred = process.host.event(), process.host.event()
        self._opened = False
        self.server = ""
        self.shares_dump = False
        self.archive_state = None
        self.reading = None
        self.position: Position | None = None

    @property
    def created(self) -> Mapping[str, int]:
        """When the files that were read were created: not simulated."""
        return {}

    @property
    def counts(self) -> ReadCounts:
        """What was read: not simulated."""
        return ReadCounts()

    def source_now_us(self) -> int | None:
        """Return the time by the source's clock; None: not connected yet."""
        return BEGIN_US + self._process.loop.now_us if self.server else None

    def run(self, start: Position | None) -> None:
        """Read from `start` on until `stop`."""
        self.position = start
        while not self._stopped.is_set():
            try:
                self._follow()
            except ShardUnavailable:
                raise
            except RetryableError as error:
                self._listener.disconnected(error, HEARTBEAT_US / 1e6)
                self._stopped.wait(HEARTBEAT_US / 1e6)

    def stop(self) -> None:
        """End the run soon."""
        self._stopped.set()
        self._stirred.set()

    def _follow(self) -> None:
        """Connect, and deliver what there is until the source is unavailable or another server answers."""
        source, chance, loop = self._source, self._process.loop.chance, self._process.loop
        server = source.active
        self._check(server)
        if self.server and self.server != server.uuid:
            raise ShardUnavailable(f"Another server answers for {self._process.name}.", retry_after_s=0.1)
        if self.position is None:
            self.position = server.position(source.sent(server))
        at, known = self._where(server, self.position)
        self.server = server.uuid
        if not self._opened:
            self._opened = True
            self._listener.opened(self.position)
        self._listener.connected(0, "simulated")
        heard_us = loop.now_us - HEARTBEAT_US
        while not self._stopped.is_set():
            self._check(server)
            sent = source.sent(server)
            if at[0] < sent:
                chunk, at = server.chunk(at, chance.randrange(1, CHUNK_MAX + 1), sent)
                self._listener.chunk_read(chunk)
                self.position = position_after(self.position, chunk, self.server, {})
                known = True
                self._listener.reached(self.position)
                heard_us = loop.now_us
                self._stopped.wait(chance.randrange(MS, READ_MAX_US) / 1e6)
            elif loop.now_us - heard_us >= HEARTBEAT_US:
                heard_us = loop.now_us
                moved = self._moved(server, at, known=known)
                frontier_us = source.low_watermark_us(server)
                if moved is not None:
                    self.position, known = moved, True
                    self._listener.reached(moved)
                if source.sent(server) == at[0]:
                    self._listener.caught_up(frontier_us)
            else:
                self._stirred.clear()
                server.news.then(self._stirred.set)
                self._stirred.wait(HEARTBEAT_US / 1e6)

    def _moved(self, server: Server, at: tuple[int, int], *, known: bool) -> Position | None:
        """Return where an idle stream is, if that was not said: in a new file, or on another server."""
        assert self.position is not None, "it is known where the stream is"
        number, part = at
        if part:
            return None
        file, offset = server.end(number)
        if known and (file, offset) == (self.position.file, self.position.offset):
            return None
        rotated = known and file != self.position.file
        return replace(
            self.position,
            file=file,
            offset=offset,
            server=server.uuid,
            page_rows=0 if rotated or not known else self.position.page_rows,
        )

    def _where(self, server: Server, position: Position) -> tuple[tuple[int, int], bool]:
        """Return transaction and fragment after a position, and whether it says file and offset here.

        Raises:
            SourceUnavailable: the server does not have all that is before it.
        """
        if position.is_of(server.uuid):
            number, part = server.count_at(position.file, position.offset), 0
            if number > len(server.log):
                raise SourceUnavailable("it lacks what was read")
            rows = position.rows_into_transaction
            while rows:
                rows -= len(server.log[number].fragments[part])
                part += 1
            return (number, part), True
        count = server.count_of(position.gtid_set)
        if count is None:
            raise SourceUnavailable("it lacks transactions that were read")
        return (count, 0), False

    def _check(self, server: Server) -> None:
        if self._source.away or self._source.active is not server:
            raise SourceUnavailable(f"The source of {self._process.name} is unavailable.")
