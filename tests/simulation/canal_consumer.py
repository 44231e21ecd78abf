"""A consumer by canal's protocol: the gateway's real batch sender and subscription, and a client behind them.

Sender and client are one process: what is simulated is the way between the gateway and the group. The client
is told of a batch when it is sent. Batches without rows stand for those of which its filter leaves nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from canal_group.actors.admission.unsent_bytes import UnsentBytes
from canal_group.actors.gateway.canal.batch_sender import BatchSender
from canal_group.actors.gateway.canal.stream import PeerGone
from canal_group.actors.gateway.canal.subscription import Entries, Subscription
from canal_group.merge.calls.batch import Batch
from canal_group.merge.calls.call import Call
from canal_group.merge.errors import (
    AckOutOfOrder,
    CanalGroupError,
    NotSubscribed,
    RetryableError,
    RolledBack,
    ServerUnavailable,
    UnknownBatch,
)
from simulation.consumer import RETRY_US, Consumer
from simulation.loop import MS
from simulation.source import ReadPosition

#: how long a get waits, and how long a delivery lease lasts
GET_US = 500 * MS
LEASE_US = 1_000 * MS
UNSENT_BYTES = 1 << 20


class CanalConsumer(Consumer):
    """One connection after another; see `Consumer`."""

    async def _subscribe(self) -> None:
        await super()._subscribe()
        self._auto_ack = self.loop.chance.random() < 0.5
        self._subscription = _Watched(self, self.client_id, self._epoch)
        self._sender = BatchSender(_Service(), _Stream(self), prefetch_rows=1)  # type: ignore[arg-type]

    async def _turn(self) -> None:
        if self.unsubscribes:
            await self._sender.drop_ahead()
            await self._unsubscribe()
            raise NotSubscribed("It unsubscribed.")
        try:
            if self.loop.chance.random() < self.fickle:
                await self._roll_back()
            elif not await self._get() and self._held:
                await self._acknowledge()
        except (RolledBack, UnknownBatch, PeerGone) as error:
            await self._end(str(error))
        except AckOutOfOrder as error:
            # Client and gateway acknowledge the oldest batch only.
            self.loop.defect(error)
        except CanalGroupError:
            # As at the end of every connection.
            await self._sender.drop_ahead()
            raise

    async def _get(self) -> bool:  # type: ignore[override]
        """Ask for a batch unless enough are held; return whether one was sent."""
        if len(self._held) >= self._depth:
            return False
        chance = self.loop.chance
        try:
            return await self._sender.send(
                self._subscription,
                chance.randrange(1, 9),
                GET_US / 1e6,
                auto_ack=self._auto_ack,
            )
        except RetryableError:
            await self.sleep(RETRY_US)
            return False

    async def _acknowledge(self) -> None:
        batch_id, positions = self._held[0]
        self._invariants.finished(self.client_id, positions)
        try:
            await self._subscription.ack(batch_id)
        except RetryableError as error:
            await self._end(str(error))
        self._held.popleft()

    async def _roll_back(self) -> None:
        index = self.loop.chance.randrange(len(self._held) + 1)
        batch_id = self._held[index][0] if index < len(self._held) else None
        await self._sender.drop_ahead()
        try:
            await self._subscription.rollback(batch_id)
        except RetryableError as error:
            await self._end(str(error))
        while len(self._held) > (0 if batch_id is None else index):
            self._held.pop()
        if batch_id is None:
            self._upto = self._invariants.passed(self.client_id)

    async def _end(self, why: str) -> None:
        """End the connection."""
        self.note("is disconnected: {}", why)
        await self._sender.drop_ahead()
        with contextlib.suppress(CanalGroupError):
            await self._subscription.release()
        raise NotSubscribed("It is disconnected.")

    def arrived(self, batch: Batch, positions: list[ReadPosition], *, acknowledges: bool) -> None:
        """Take a batch that was sent; with `acknowledges` the gateway acknowledges it."""
        self._invariants.received(self.client_id, self._upto, batch, positions)
        if acknowledges:
            self._invariants.finished(self.client_id, positions)
        else:
            self._held.append((batch.batch_id, positions))

    async def ask_from(self, call: Call[Any]) -> Any:
        """Call the group, as the gateway does."""
        return await self._give(call)

    async def positions_of(self, *key: Any) -> list[ReadPosition]:
        """Return which rows of the sources an outstanding batch holds."""
        positions: list[ReadPosition] = await self._ask("rows", *key)
        return positions


class _Watched(Subscription):
    """A subscription whose rows are positions in the sources."""

    def __init__(self, consumer: CanalConsumer, client_id: str, epoch: int) -> None:
        nothing: Any = _Nothing()
        super().__init__(
            consumer,  # type: ignore[arg-type]
            nothing,
            nothing,
            client_id,
            epoch,
            "",
            nothing,
            transaction_ends=True,
        )
        self._consumer = consumer
        self._positions: dict[int, list[ReadPosition]] = {}

    async def entries(self, batch: Batch) -> Entries:
        positions = await self._consumer.positions_of(self.client_id, self.epoch, batch.batch_id)
        self._positions[batch.batch_id] = positions
        return Entries(memoryview(bytes(batch.rows)), batch.rows, _Lease(self._consumer))  # type: ignore[arg-type]

    async def sent(self, batch: Batch, *, acknowledges: bool) -> None:
        self._consumer.arrived(batch, self._positions.pop(batch.batch_id), acknowledges=acknowledges)
        await super().sent(batch, acknowledges=acknowledges)


class _Lease:
    """A delivery lease that lasts for `LEASE_US`, and half of the time longer."""

    def __init__(self, consumer: CanalConsumer) -> None:
        self._consumer, self._until_us = consumer, consumer.now_us + LEASE_US

    @property
    def holds(self) -> bool:
        return self._consumer.now_us < self._until_us

    def check(self) -> None:
        if self._consumer.loop.chance.random() < 0.5:
            raise ServerUnavailable("The delivery lease came late.", retry_after_s=0.1)
        self._until_us = self._consumer.now_us + LEASE_US


class _Stream:
    """What is sent arrives, or the connection breaks."""

    host = peer = "client"

    def __init__(self, consumer: CanalConsumer) -> None:
        self._consumer = consumer

    async def send(self, _data: bytes | memoryview) -> None:
        chance = self._consumer.loop.chance
        await asyncio.sleep(chance.randrange(5 * MS) / 1e6)
        if chance.random() < self._consumer.lost:
            raise PeerGone

    def abort(self) -> None:
        pass


class _Service:
    """What the connections of a server share."""

    def __init__(self) -> None:
        self.unsent = UnsentBytes(UNSENT_BYTES)


class _Nothing:
    """Has no rows to remember, and none to count."""

    def remember(self, *_: Any) -> None:
        pass

    sent = remember

    forget = remember
