"""A shard's process: the real shard actor, whose reader reads a simulated source."""

from __future__ import annotations

from typing import Any

from support.defaults import files_source, ring_of, shard_wiring

from canal_group.actors.shard.intake import Intake
from canal_group.actors.shard.shard import Shard as RealShard
from canal_group.binlog.grammar.skips import Skips
from canal_group.conf.stream_settings import FilterSettings
from canal_group.merge.errors import CanalGroupError
from canal_group.merge.values.position import Position
from simulation.loop import Future, Loop
from simulation.process import Process
from simulation.reader import BinlogReader
from simulation.source import ReadPosition, Source
from simulation.threads import Thread

#: how long a group may be silent before a shard disconnects from its source, seconds; longer than a session
SILENCE_MAX_S = 10.0
_NO_FILTER = FilterSettings()


class ShardProcess(Process):
    """A process of the real shard actor, which runs each call on a thread."""

    shard: RealShard

    def run_call(self, call: Future, method: str, arguments: tuple[Any, ...]) -> None:
        """Run a method on a thread, as actors with threads do."""
        run = getattr(self, method)

        def work() -> None:
            try:
                value = run(*arguments)
            except CanalGroupError as error:
                self.answered(call, error=error)
            else:
                self.answered(call, value)

        Thread(self, work)

    def poll(self, *arguments: Any) -> Any:
        """Return new headers or a new low watermark."""
        return self.shard.poll(*arguments)

    def free(self, *arguments: Any) -> None:
        """Free acknowledged headers."""
        self.shard.free(*arguments)

    def close_lane(self, epoch: int, lane: int) -> None:
        """Forget the ring of a replay."""
        self.note("is to end replay {} of epoch {}", lane, epoch)
        self.shard.close_lane(epoch, lane)


class Shard(ShardProcess):
    """One shard's actor.

    Args:
        loop: its time.
        name: its name.
        source: what it reads.
        ring_size: headers that it holds; a power of two.
        offset_us: its monotonic clock minus the world's.
    """

    def __init__(self, loop: Loop, name: str, source: Source, ring_size: int, offset_us: int) -> None:
        super().__init__(loop, name, offset_us)
        self.source = source
        self.ring_size = ring_size
        #: until when it reads slowly
        self.slow_until_us = 0
        self._wiring = shard_wiring(
            files_source(name, "/"),
            filter=_NO_FILTER,
            store=ring_of("items", ring_size),
            silence_max_s=SILENCE_MAX_S,
        )

    def begin(self) -> None:
        """Forget everything: the state died with the previous incarnation."""
        self.shard = RealShard(self._wiring, self.host, self._reader)

    def _reader(self, intake: Intake) -> BinlogReader:
        return BinlogReader(self, self.source, intake)

    def skips(self, server: str) -> Skips:
        """Return the skipped events of a server's binlog."""
        return self.shard._source._skips(server)

    @property
    def held(self) -> int:
        """Number of headers in its ring."""
        held = self.shard._live.held
        if held is None:
            return 0
        ack, _, put = held.intake.ring.cursors
        return put - ack

    # ---- calls, each on a thread -----------------------------------------------------------------------

    def open(
        self,
        epoch: int,
        generation: int,
        position: Position | None,
        history: str | None,
        *more: Any,
    ) -> Position:
        """Open the stream after `position`."""
        self.note("is to read from {} for {}", position, (epoch, generation))
        return self.shard.open(epoch, generation, position, history, *more)

    def close(self, epoch: int) -> None:
        """Disconnect from the source."""
        self.note("is to leave its source for epoch {}", epoch)
        self.shard.close(epoch)

    def fetch(self, epoch: int, generation: int, begin: int, end: int) -> list[ReadPosition]:
        """Return which headers of the source the sequences `begin <= sequence < end` are."""
        intake = self.shard._lane(epoch, generation).current(epoch, generation).intake
        positions: list[ReadPosition] = []
        for stored in intake.ring.fetch(begin, end):
            part = stored.chunk.headers[stored.header_begin : stored.header_end]
            positions += self.source.positions(part, stored.chunk.names)
        return positions
