"""A reader of a simulated source, like `Reader` of `canal_group.binlog.server.reader`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from canal_group.actors.shard.intake import Intake
from canal_group.binlog.server.listener import position_after
from canal_group.merge.errors import ShardUnavailable, SourceUnavailable
from canal_group.merge.values.position import Position
from simulation.loop import BEGIN_US, MS
from simulation.reader import Reader
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


class StreamReader(Reader):
    """One reading of a source.

    Args:
        process: runs the reading thread.
        source: what is read.
        listener: gets chunks and errors.
    """

    def __init__(self, process: Shard, source: Source, listener: Intake) -> None:
        super().__init__(process.host, listener, HEARTBEAT_US)
        self._process, self._source = process, source

    def source_now_us(self) -> int | None:
        """Return the time by the source's clock; None: not connected yet."""
        return BEGIN_US + self._process.loop.now_us if self.server else None

    def _follow(self) -> None:
        source, chance, loop = self._source, self._process.loop.chance, self._process.loop
        server = source.active
        self._check(server)
        if self.server and self.server != server.uuid:
            raise ShardUnavailable(f"Another server answers for {self._process.name}.", retry_after_s=0.1)
        if self.position is None:
            self.position = server.position(source.sent(server))
        at, known = self._where(server, self.position)
        source.kept = max(source.kept, at[0] + bool(at[1]))
        self.server = server.uuid
        self._open(self.position)
        self._listener.connected(0, "simulated")
        heard_us = loop.now_us - HEARTBEAT_US
        while not self._stopped.is_set():
            self._check(server)
            sent = source.sent(server)
            if at[0] < sent:
                chunk, at = server.chunk(at, chance.randrange(1, CHUNK_MAX + 1), sent)
                source.kept = max(source.kept, at[0] + bool(at[1]))
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
