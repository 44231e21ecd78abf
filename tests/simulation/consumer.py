"""A consumer: gets, reads, acknowledges, rolls back, and stands by while another consumer is active.

It follows the rules of `canal_group/client/consumer.py`, with several batches outstanding, through a network
that loses its requests and their answers.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from canal_group.merge.calls.batch import Batch
from canal_group.merge.calls.call import Call
from canal_group.merge.calls.consumers import (
    Ack,
    AckAndGet,
    Get,
    Release,
    Rollback,
    SubscribeAt,
    Touch,
    Unsubscribe,
)
from canal_group.merge.calls.resume import Resume
from canal_group.merge.errors import (
    AckOutOfOrder,
    CanalGroupError,
    CorruptEvent,
    FencedError,
    NotSubscribed,
    PositionPurged,
    RetryableError,
    RolledBack,
    ServerUnavailable,
    SubscriptionDropped,
    UnknownBatch,
)
from simulation.invariants import Invariants
from simulation.loop import MS, Loop
from simulation.network import Network
from simulation.process import Process
from simulation.server import Server
from simulation.source import ReadPosition

GET_US = 1_500 * MS
ANSWER_US = 2_500 * MS
TOUCH_US = 1_000 * MS
RETRY_US = 300 * MS
#: probability that a batch is acknowledged with the request for the next one
ACK_AND_GET = 0.25


class Consumer(Process):
    """One consumer process of a client id; it runs for ever.

    Args:
        loop: its time.
        network: between it and the servers.
        invariants: are told what it has finished.
        name: its name.
        client_id: the client id whose cursor it uses.
        servers: asked one after the other until one is active.
        depth: batches that it holds before it acknowledges the oldest.
    """

    def __init__(
        self,
        loop: Loop,
        network: Network,
        invariants: Invariants,
        name: str,
        client_id: str,
        servers: list[Server],
        depth: int,
    ) -> None:
        super().__init__(loop, name)
        self.client_id = client_id
        self._network = network
        self._invariants = invariants
        self._servers = servers
        self._depth = depth
        #: probability that it rolls back instead of acknowledging
        self.fickle = 0.0
        #: whether it is about to give up its subscription
        self.unsubscribes = False

    @property
    def lost(self) -> float:
        """Probability that what is sent to it is lost."""
        return self._network.lost

    def begin(self) -> None:
        """Forget everything and take a new name."""
        self._door = self.loop.chance.randrange(len(self._servers))
        self._epoch = self._seen_id = 0
        self._held: deque[tuple[int, list[ReadPosition]]] = deque()
        #: for each shard what it has received
        self._upto: list[set[int]] = []
        self.spawn(self._live())
        self.spawn(self._keep_lease())

    # ---- life ------------------------------------------------------------------------------------------

    async def _live(self) -> None:
        while True:
            try:
                await self._subscribe()
                while True:
                    await self._turn()
            except NotSubscribed:
                continue
            except FencedError as error:
                self.note("is fenced: {}", error.message)
                await self.sleep(5 * RETRY_US)
            except RetryableError:
                await self.sleep(RETRY_US)
            except PositionPurged as error:
                self._invariants.stranded(self.client_id, error.message)
                await self.sleep(5 * RETRY_US)
            except CorruptEvent as error:
                self.note("waits for an operator: {}", error.message)
                await self.sleep(5 * RETRY_US)

    async def _unsubscribe(self) -> None:
        """Unsubscribe, and repeat the call until it is certain that the subscription is gone."""
        self.note("unsubscribes")
        self._invariants.unsubscribes(self.client_id)
        while True:
            try:
                await self._give(Unsubscribe(self.client_id, self._epoch))
                break
            except RetryableError:
                await self.sleep(RETRY_US)
            except NotSubscribed:
                break
        self.note("is not subscribed any more")
        self._invariants.unsubscribed(self.client_id)
        self.unsubscribes = False
        await self.sleep(5 * RETRY_US)

    async def _subscribe(self) -> None:
        self._epoch, self._held = 0, deque()
        holder = f"{self.name}/{self.incarnation}"
        try:
            self._epoch, _ = await self._give(SubscribeAt(self.client_id, holder, ""))
        except SubscriptionDropped:
            resume = self.loop.chance.choice(list(Resume))
            self.note("was dropped as inactive and continues at {}", resume)
            self._invariants.resumes(self.client_id, resume)
            self._epoch, _ = await self._give(SubscribeAt(self.client_id, holder, "", resume=resume))
        self._seen_id = 0
        self._upto = self._invariants.passed(self.client_id)
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
        """Get a batch; acknowledge the oldest when enough are held, or when there is nothing to get."""
        batch = None
        if self.unsubscribes:
            await self._unsubscribe()
            raise NotSubscribed("It unsubscribed.")
        if self._held and self.loop.chance.random() < ACK_AND_GET:
            batch = await self._ack_and_get()
            if batch is not None:
                return
        elif len(self._held) < self._depth:
            batch = await self._get()
        if self.loop.chance.random() < self.fickle:
            await self._change_mind()
        elif self._held and (batch is None or len(self._held) >= self._depth):
            await self._ack()

    async def _get(self) -> Batch | None:
        rows_max = self.loop.chance.randrange(1, 9)
        try:
            batch: Batch | None = await self._give(
                Get(self.client_id, self._epoch, rows_max, GET_US / 1e6, self._seen_id)
            )
            return None if batch is None else await self._read(batch)
        except RolledBack:
            await self._give_back()
            return None
        except RetryableError as error:
            if "outstanding_max" in error.details:
                return None
            # An answer that is never read may be on its way: its rows come again.
            await self.sleep(RETRY_US)
            await self._give_back()
            return None

    async def _ack_and_get(self) -> Batch | None:
        """Acknowledge the oldest batch and get the next one by one call; None: none came."""
        batch_id, positions = self._held[0]
        self._invariants.finished(self.client_id, positions)
        rows_max = self.loop.chance.randrange(1, 9)
        call = AckAndGet(self.client_id, self._epoch, batch_id, rows_max, GET_US / 1e6, self._seen_id)
        try:
            _, batch = await self._give(call)
        except (RetryableError, RolledBack, UnknownBatch, AckOutOfOrder):
            # The one may be done, and the other not: an acknowledgement tells, when it is made again.
            await self.sleep(RETRY_US)
            await self._ack()
            return None
        self._held.popleft()
        return None if batch is None else await self._read(batch)

    async def _read(self, batch: Batch) -> Batch | None:
        """Read the rows of a batch and hold it; None if it was lost."""
        self._seen_id = batch.batch_id
        try:
            positions = await self._ask("rows", self.client_id, self._epoch, batch.batch_id)
        except RolledBack:
            await self._give_back()
            return None
        except RetryableError:
            await self.sleep(RETRY_US)
            await self._give_back()
            return None
        self._invariants.received(self.client_id, self._upto, batch, positions)
        self._held.append((batch.batch_id, positions))
        return batch

    async def _ack(self) -> None:
        batch_id, positions = self._held[0]
        self._invariants.finished(self.client_id, positions)
        try:
            await self._give(Ack(self.client_id, self._epoch, batch_id))
        except UnknownBatch:
            self._held.popleft()  # an earlier attempt was accepted
        except (RolledBack, AckOutOfOrder):
            await self._give_back()
        except RetryableError:
            await self.sleep(RETRY_US)
        else:
            self._held.popleft()

    async def _give_back(self) -> None:
        """Forget the batches that are held, and have them delivered again."""
        self._held.clear()
        await self._give(Rollback(self.client_id, self._epoch, None))
        self._upto = self._invariants.passed(self.client_id)

    async def _change_mind(self) -> None:
        chance = self.loop.chance
        if len(self._held) > 1 and chance.random() < 0.5:
            await self._ack_too_early()
        elif self._held and chance.random() < 0.5:
            index = chance.randrange(len(self._held))
            batch_id = self._held[index][0]
            while len(self._held) > index:
                self._held.pop()
            try:
                await self._give(Rollback(self.client_id, self._epoch, batch_id))
            except (RolledBack, UnknownBatch):
                await self._give_back()
        elif chance.random() < 0.5:
            await self._give_back()
        else:
            self.note("leaves")
            await self._give(Release(self.client_id, self._epoch))
            raise NotSubscribed("It left by itself.")

    async def _ack_too_early(self) -> None:
        """Acknowledge the newest batch although an older one is held: the server must refuse."""
        batch_id, positions = self._held[-1]
        self._invariants.finished(self.client_id, positions)
        try:
            await self._give(Ack(self.client_id, self._epoch, batch_id))
        except (AckOutOfOrder, RolledBack, UnknownBatch):
            await self._give_back()

    # ---- asking ----------------------------------------------------------------------------------------

    async def _give(self, call: Call[Any]) -> Any:
        """Make a call of the current server; see `_ask`."""
        return await self._ask("give", call, wait_us=round(call.wait_s * 1e6))

    async def _ask(self, method: str, *arguments: Any, wait_us: int = 0) -> Any:
        """Ask the current server; ask another one next time, if this one cannot answer."""
        server = self._servers[self._door]
        away = ServerUnavailable(f"{server.name} did not answer.", retry_after_s=0.3)
        answer = self._network.ask(self, server, method, *arguments)
        try:
            return await self.within(answer, wait_us + ANSWER_US, away)
        except ServerUnavailable:
            self._door = (self._door + 1) % len(self._servers)
            raise
