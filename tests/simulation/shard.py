"""A shard actor: one source's binlog in a ring, handed out under the term of the newest group.

Does what `actors/shard.py` and `actors/intake.py` do, with the real ring. A reader goes on where it was when
its source comes back: how it finds its place again is tested where binlogs are parsed.
"""

from __future__ import annotations

from actors.shard_report import ShardReport
from actors.store.ring import BatchMode, RingBounds, RingStore
from merge.chunk import Chunk
from merge.errors import FencedError, ShardUnavailable
from merge.position import Position
from simulation.loop import MS, Future, Loop
from simulation.process import Process
from simulation.source import Place, Source

#: how often a source that is silent says what its clock says
HEARTBEAT_US = 500 * MS
#: longest pause between two chunks
READ_MAX_US = 40 * MS
#: how long `open` waits for a source
OPEN_TIMEOUT_US = 2_000 * MS


class Intake:
    """One reading of a source from a position on into a ring."""

    def __init__(self, source: Source, ring: RingStore, start: Position | None) -> None:
        self.source = source
        self.ring = ring
        self.opened: Position | None = None
        self.closed = False
        self._asked = start
        #: index of the source's header that the ring's sequence 0 is, and of the next one to read
        self.begin = self.at = 0
        #: a promise, and the ring's put cursor when it was made
        self._promise: tuple[int, int] | None = None
        #: what ends when something is new
        self.news = Future()

    def connect(self) -> None:
        """Find the place to begin at."""
        self.opened = self._asked or self.source.start
        self.begin = self.at = self.source.index_after(self.opened)

    def read(self, count: int) -> bool:
        """Read so many headers, as far as there are some and the ring has room; return whether it did."""
        ack, _, put = self.ring.cursors
        count = min(count, len(self.source.records) - self.at, ring_size(self.ring) - (put - ack))
        if count <= 0:
            return False
        run = self.source.run(self.at, self.at + count)
        assert self.ring.try_put(Chunk(run.headers, run.names, ()))
        self.at += count
        self.wake()
        return True

    def heard(self) -> None:
        """Take the source's promise, if all of it was read."""
        if self.at == len(self.source.records):
            self._promise = self.source.promise_us, self.ring.cursors[2]
            self.wake()

    @property
    def promise_us(self) -> int | None:
        """The promise, if every header before it was handed out."""
        if self._promise is None:
            return None
        promise_us, put = self._promise
        _, handed_out, stored = self.ring.cursors
        return promise_us if handed_out == stored == put else None

    @property
    def full(self) -> bool:
        """Whether it reads no further because the ring is full."""
        ack, _, put = self.ring.cursors
        return self.at < len(self.source.records) and put - ack == ring_size(self.ring)

    def stands_at(self, position: Position) -> bool:
        """Return whether the ring, rolled back, would begin exactly there."""
        first = self.ring.first_position() or self.opened
        return first is not None and (first.file, first.offset, first.rows_into_transaction) == (
            position.file,
            position.offset,
            position.rows_into_transaction,
        )

    def wake(self) -> None:
        """Say that something is new."""
        news, self.news = self.news, Future()
        news.set()

    def close(self) -> None:
        """Read no more."""
        self.closed = True
        self.ring.close()
        self.wake()


class Shard(Process):
    """One shard's actor; see the module's rules.

    Args:
        loop: its time.
        name: its name.
        source: what it reads.
        ring_size: headers that it holds; a power of two.
    """

    def __init__(self, loop: Loop, name: str, source: Source, ring_size: int) -> None:
        super().__init__(loop, name)
        self.source = source
        self.ring_size = ring_size
        #: until when it reads slowly
        self.slow_until_us = 0
        self._bounds = RingBounds(BatchMode.ITEMS, ring_size)
        self.begin()

    def begin(self) -> None:
        """Forget everything: what it knew died with the process before."""
        self._intake: Intake | None = None
        self._term = (0, 0)
        self._reported_us: int | None = None

    # ---- calls -----------------------------------------------------------------------------------------

    async def open(self, epoch: int, generation: int, position: Position | None) -> Position:
        """Hand out what follows `position` under a new generation."""
        if (epoch, generation) < self._term:
            raise FencedError(
                f"{self.name} obeys {self._term}.", our_epoch=epoch, current_epoch=self._term[0]
            )
        again = (epoch, generation) == self._term and self._intake is not None
        self._term, self._reported_us = (epoch, generation), None
        if self._intake is not None and not again:
            if position is not None and self._intake.stands_at(position):
                self._intake.ring.rollback()
                self._intake.wake()
                self.note("rolls its ring back to {} for {}", position, self._term)
                return position
            self._intake.close()
            self._intake = None
        if self._intake is None:
            self.note("reads from {} for {}", position, self._term)
            self._intake = Intake(self.source, RingStore(self._bounds), position)
            self.spawn(self._read(self._intake))
        intake = self._intake
        if intake.opened is None:
            await self.within(intake.news, OPEN_TIMEOUT_US)
        if intake.opened is None:
            raise ShardUnavailable(f"{self.name} has not reached its source yet.", retry_after_s=0.5)
        return position or intake.opened

    async def close(self, epoch: int) -> None:
        """Leave the source, unless a group with a newer epoch was here."""
        if epoch >= self._term[0] and self._intake is not None:
            self.note("leaves its source for epoch {}", epoch)
            self._intake.close()
            self._intake = None

    async def poll(self, epoch: int, generation: int, items_max: int, wait_us: int) -> ShardReport:
        """Return new headers or a new promise, waiting so long for either."""
        intake = self._current(epoch, generation)
        turn = intake.ring.turn
        promise_us = intake.promise_us
        _, handed_out, stored = intake.ring.cursors
        if handed_out == stored and (promise_us is None or promise_us == self._reported_us):
            await self.within(intake.news, wait_us)
        run = intake.ring.get_within(0.0, items_max=items_max, turn=turn)
        promise_us = intake.promise_us
        if promise_us == self._reported_us:
            promise_us = None
        else:
            self._reported_us = promise_us
        return ShardReport(run if len(run) else None, promise_us, None, full=intake.full)

    async def fetch(self, epoch: int, generation: int, begin: int, end: int) -> list[Place]:
        """Return which rows of the source the sequences `begin <= sequence < end` are."""
        intake = self._current(epoch, generation)
        intake.ring.fetch(begin, end)
        return [(self.source.index, intake.begin + sequence) for sequence in range(begin, end)]

    async def free(self, epoch: int, generation: int, sequence: int) -> None:
        """Forget everything up to and with `sequence`; a late call of an older generation does nothing."""
        if (epoch, generation) == self._term and self._intake is not None:
            self._intake.ring.ack(sequence)
            self._intake.wake()

    def _current(self, epoch: int, generation: int) -> Intake:
        if (epoch, generation) != self._term or self._intake is None:
            raise ShardUnavailable(f"{self.name} is not open under {epoch}, {generation}.", retry_after_s=0.1)
        return self._intake

    # ---- reading ---------------------------------------------------------------------------------------

    async def _read(self, intake: Intake) -> None:
        chance = self.loop.chance
        heard_us = 0
        while not intake.closed:
            if self.source.away:
                await self.sleep(HEARTBEAT_US)
                continue
            if intake.opened is None:
                intake.connect()
                intake.wake()
            slow = 10 if self.slow_until_us > self.loop.now_us else 1
            if intake.read(chance.randrange(1, 5)):
                heard_us = self.loop.now_us
                await self.sleep(slow * chance.randrange(MS, READ_MAX_US))
            elif self.loop.now_us - heard_us >= HEARTBEAT_US:
                heard_us = self.loop.now_us
                intake.heard()
            elif intake.at < len(self.source.records):
                await self.sleep(slow * 2 * READ_MAX_US)  # the ring is full
            else:
                await self.within(self.source.news, slow * HEARTBEAT_US)


def ring_size(ring: RingStore) -> int:
    """Return how many headers a ring holds."""
    return ring._bounds.size
