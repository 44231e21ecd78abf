"""A reader of a simulated source's binlog, like `Reader` of `canal_group.binlog.server.reader`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING

from support.defaults import address_of

from canal_group.actors.shard.intake import Intake
from canal_group.binlog.columns.read_counts import ReadCounts
from canal_group.binlog.server.listener import position_after
from canal_group.binlog.server.starts.start import goes_by_gtid
from canal_group.merge.errors import (
    CorruptEvent,
    PositionPurged,
    RetryableError,
    ShardUnavailable,
    SourceUnavailable,
)
from canal_group.merge.values.chunk import Chunk
from canal_group.merge.values.position import Position
from simulation.binlog import Binlog
from simulation.host import Host
from simulation.loop import MS
from simulation.source import Source

if TYPE_CHECKING:
    from simulation.shard import Shard

#: how often an idle source reports its clock
HEARTBEAT_US = 500 * MS
#: longest pause between two chunks
READ_MAX_US = 40 * MS
#: headers of a chunk
CHUNK_MAX = 4


class Reader(ABC):
    """What each reader of a simulated source does.

    Args:
        host: of its process.
        listener: gets chunks and errors.
        heartbeat_us: pause before it connects again.
    """

    def __init__(self, host: Host, listener: Intake, heartbeat_us: int) -> None:
        self._listener, self._pause_s = listener, heartbeat_us / 1e6
        self._stopped = host.event()
        #: set when there may be something new to read
        self._stirred = host.event()
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

    def run(self, start: Position | None) -> None:
        """Read from `start` on until `stop`."""
        self.position = start
        while not self._stopped.is_set():
            try:
                self._follow()
            except ShardUnavailable:
                raise
            except RetryableError as error:
                self._listener.disconnected(error, self._pause_s)
                self._stopped.wait(self._pause_s)

    def stop(self) -> None:
        """End the run soon."""
        self._stopped.set()
        self._stirred.set()

    def _open(self, position: Position) -> None:
        if not self._opened:
            self._opened = True
            self._listener.opened(position)

    @abstractmethod
    def _follow(self) -> None:
        """Connect, and deliver what there is until the source is unavailable or another server answers."""


class BinlogReader(Reader):
    """One reading of a source.

    Args:
        process: runs the reading thread.
        source: what is read.
        listener: gets chunks and errors.
    """

    def __init__(self, process: Shard, source: Source, listener: Intake) -> None:
        super().__init__(process.host, listener, HEARTBEAT_US)
        self._process, self._source = process, source
        #: whether streams are opened by GTID, once that is known
        self._by_gtid: bool | None = None
        self._address = address_of(process.name, "simulated")

    def source_now_us(self) -> int | None:
        """Return the time by the source's clock, microseconds since 1970 UTC; None: not connected yet."""
        return self._source.now_us if self.server else None

    def _follow(self) -> None:
        if self.position is not None:
            self._open(self.position)
        source, chance = self._source, self._process.loop.chance
        binlog = source.active
        self._check_there(binlog)
        if self.server and self.server != binlog.uuid:
            raise ShardUnavailable(f"Another server answers for {self._process.name}.", retry_after_s=0.1)
        if self.position is None:
            self.position = binlog.start
            self._open(self.position)
        if self._by_gtid is None:
            self._by_gtid = goes_by_gtid(self._address, binlog.facts, self.position, "auto")
        at, passed_over = binlog.read_from(self.position, by_gtid=self._by_gtid)
        if at < binlog.purged:
            raise PositionPurged(f"The source of {self._process.name} no longer has {self.position}.")
        self.server = binlog.uuid
        self._listener.connected(0, "simulated")
        heard_us = self._process.loop.now_us - HEARTBEAT_US
        while not self._stopped.is_set():
            self._check_there(binlog)
            slow = 10 if self._process.slow_until_us > self._process.loop.now_us else 1
            coming = [index for index in range(at, len(binlog.records)) if index not in passed_over]
            if coming:
                read = self._readable(binlog, coming[: chance.randrange(1, CHUNK_MAX + 1)])
                run = binlog.run(read)
                chunk = Chunk(run.headers, run.names, ())
                self._listener.chunk_read(chunk)
                self.position, at = position_after(self.position, chunk, self.server, {}), read[-1] + 1
                heard_us = self._process.loop.now_us
                self._stopped.wait(slow * chance.randrange(MS, READ_MAX_US) / 1e6)
            elif self._process.loop.now_us - heard_us >= HEARTBEAT_US:
                heard_us = self._process.loop.now_us
                self._listener.caught_up(source.low_watermark_us)
            else:
                self._stirred.clear()
                source.news.then(self._stirred.set)
                self._stirred.wait(slow * HEARTBEAT_US / 1e6)

    def _readable(self, binlog: Binlog, indexes: list[int]) -> list[int]:
        """Return the headers up to the first that cannot be read, unless that is left out.

        Raises:
            CorruptEvent: there are none.
        """
        for count, index in enumerate(indexes):
            if binlog.order[index] not in self._source.bad:
                continue
            file, offset = binlog.position(index)
            if self._process.skips(self.server).at(file, 0, offset):
                self._source.left_out.add((self.server, binlog.order[index]))
                continue
            if count:
                return indexes[:count]
            position = {"file": file, "offset": offset, "skippable": 1}
            raise CorruptEvent(f"{self._process.name} cannot read {file}:{offset}.", **position)
        return indexes

    def _check_there(self, binlog: Binlog) -> None:
        if self._source.away or self._source.active is not binlog:
            raise SourceUnavailable(f"The source of {self._process.name} is unavailable.")
