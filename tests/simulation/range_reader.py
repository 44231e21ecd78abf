"""A reader of offset ranges: keeps its position in a checkpoint that outlives it, as a Spark query does.

What it reads is checked: consecutive offset ranges omit no row and repeat no row, and an offset range that is
read again has the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from canal_group.merge.calls.call import Call
from canal_group.merge.calls.consumers import Ack, GetRange, SubscribeAt, Touch
from canal_group.merge.calls.resume import Resume
from canal_group.merge.errors import (
    CanalGroupError,
    CorruptEvent,
    DataError,
    FencedError,
    NotSubscribed,
    PositionPurged,
    RetryableError,
    RolledBack,
    ServerUnavailable,
    SubscriptionDropped,
    UsageError,
)
from canal_group.merge.values.offset_range import OffsetRange
from canal_group.merge.values.position import GroupPosition
from simulation.consumer import ANSWER_US, GET_US, RETRY_US, TOUCH_US
from simulation.invariants import Invariants
from simulation.loop import Loop
from simulation.network import Network
from simulation.process import Process
from simulation.server import Server
from simulation.source import ReadPosition

#: how many offset ranges of the checkpoint are read again when the reader restarts, at most
AGAIN_MAX = 3


@dataclass
class Checkpoint:
    """The data on the reader's disk."""

    #: where the first offset range begins; None: it has not begun
    begin: GroupPosition | None = None
    #: begin, end, and rows of each offset range
    offset_ranges: list[tuple[GroupPosition, GroupPosition, list[ReadPosition]]] = field(default_factory=list)

    @property
    def end(self) -> GroupPosition | None:
        """Where the next offset range begins."""
        return self.offset_ranges[-1][1] if self.offset_ranges else self.begin


class RangeReader(Process):
    """One reader; it runs for ever.

    Args:
        loop: its time.
        network: between it and the servers.
        invariants: are told what it reads.
        servers: asked one after the other until one is active.
    """

    CLIENT_ID = "offset_ranges"
    #: probability that it reads something else than what follows, until every fault has ended
    FICKLE = 0.0

    def __init__(self, loop: Loop, network: Network, invariants: Invariants, servers: list[Server]) -> None:
        super().__init__(loop, self.CLIENT_ID)
        self.client_id = self.CLIENT_ID
        self.fickle = self.FICKLE
        self.unsubscribes = False
        self._network = network
        self._invariants = invariants
        self._servers = servers
        self._checkpoint = Checkpoint()

    def begin(self) -> None:
        """Continue from the checkpoint."""
        self._door = self.loop.chance.randrange(len(self._servers))
        self._epoch = 0
        offset_ranges = self._checkpoint.offset_ranges
        #: indexes in the checkpoint of the ranges that are read again
        self._again = list(
            range(max(0, len(offset_ranges) - self.loop.chance.randrange(AGAIN_MAX + 1)), len(offset_ranges))
        )
        self.spawn(self._live())
        self.spawn(self._keep_lease())

    def reads_again(self, shard: int) -> bool:
        """Return whether it waits for a range that it read before and that has headers of a shard."""
        offset_ranges = self._checkpoint.offset_ranges
        return any(position[0] == shard for index in self._again for position in offset_ranges[index][2])

    async def _live(self) -> None:
        while True:
            try:
                await self._subscribe()
                while True:
                    await self._turn()
            except (NotSubscribed, FencedError, RolledBack, RetryableError, CorruptEvent) as error:
                self.note("begins again: {}", error.message)
                await self.sleep(2 * RETRY_US)
            except PositionPurged as error:
                start = (
                    self._checkpoint.offset_ranges[self._again[0]][0] if self._again else self._checkpoint.end
                )
                self._invariants.stranded(self.client_id, error.message, start)
                self._again = []
                await self.sleep(5 * RETRY_US)
            except UsageError as error:
                again = [
                    position for index in self._again for position in self._checkpoint.offset_ranges[index][2]
                ]
                self._invariants.left(error.message, again)
                self._again = []
            except DataError as error:
                again = [
                    position for index in self._again for position in self._checkpoint.offset_ranges[index][2]
                ]
                if "shard" in error.details:
                    self._invariants.crowded(error.message, int(error.details["shard"][1:]), again)
                else:
                    self._invariants.torn(error.message, again)
                self._again = []
            except CanalGroupError as error:
                self.loop.defect(error)

    async def _subscribe(self) -> None:
        holder = f"{self.name}/{self.incarnation}"
        try:
            self._epoch, cursor = await self._give(SubscribeAt(self.client_id, holder, ""))
        except SubscriptionDropped:
            self._invariants.resumes(self.client_id, Resume.CURSOR)
            self._epoch, cursor = await self._give(
                SubscribeAt(self.client_id, holder, "", resume=Resume.CURSOR)
            )
        if self._checkpoint.begin is None:
            self._checkpoint.begin = cursor
        self.note("is subscribed under epoch {}", self._epoch)

    async def _keep_lease(self) -> None:
        while True:
            await self.sleep(TOUCH_US)
            if self._epoch:
                try:
                    await self._give(Touch(self.client_id, self._epoch))
                except CanalGroupError:
                    continue

    async def _turn(self) -> None:
        """Read an offset range again, or read the next one and acknowledge it."""
        checkpoint = self._checkpoint
        start = checkpoint.end
        assert start is not None, "it is subscribed"
        if self._again:
            start, until, expected = checkpoint.offset_ranges[self._again[0]]
            found = await self._read(OffsetRange(start, until))
            if found is not None:
                self._again.pop(0)
                self._invariants.same_range(expected, found[1])
                await self._ack(found[0].batch_id)
            return
        empty = self.loop.chance.random() < 0.5
        found = await self._read(
            OffsetRange(start, rows_max=self.loop.chance.randrange(1, 9), may_be_empty=empty)
        )
        if found is None:
            return
        batch, positions = found
        self._invariants.read_range(self.client_id, start, batch, positions)
        checkpoint.offset_ranges.append((start, batch.end, positions))
        await self._ack(batch.batch_id)

    async def _ack(self, batch_id: int) -> None:
        """Acknowledge what the checkpoint holds; if that is lost, the next acknowledgement covers it."""
        try:
            await self._give(Ack(self.client_id, self._epoch, batch_id))
        except CanalGroupError as error:
            self.note("has no answer to an ack: {}", error.message)

    async def _read(self, offset_range: OffsetRange) -> tuple[Any, list[ReadPosition]] | None:
        batch = await self._give(
            GetRange(self.client_id, self._epoch, offset_range, GET_US / 1e6, may_rewind=True)
        )
        if batch is None:
            return None
        return batch, await self._ask("rows", self.client_id, self._epoch, batch.batch_id)

    async def _give(self, call: Call[Any]) -> Any:
        """Make a call of the current server; see `_ask`."""
        return await self._ask("give", call, wait_us=round(call.wait_s * 1e6))

    async def _ask(self, method: str, *arguments: Any, wait_us: int = 0) -> Any:
        server = self._servers[self._door]
        away = ServerUnavailable(f"{server.name} did not answer.", retry_after_s=0.3)
        answer = self._network.ask(self, server, method, *arguments)
        try:
            return await self.within(answer, wait_us + ANSWER_US, away)
        except ServerUnavailable:
            self._door = (self._door + 1) % len(self._servers)
            raise
