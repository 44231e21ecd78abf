"""A subscription: what one connection of canal's protocol reads under one client id.

It calls the group as a consumer of Flight does, under an epoch of its own. Two things differ:

- Some batches are acknowledged here, as soon as they are the oldest outstanding ones: those of which the
  filter leaves nothing, because canal has no empty batches, and those that were sent to a get that
  acknowledges by itself. An acknowledgement that fails is repeated before any later one.
- A rollback of what was rolled back already is done.

The group is told that a batch was seen only after it was sent. One that was got and could not be sent is
taken back by the next get, and delivered again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Protocol, TypeVar

from canal_group.actors.gateway.batch_reader import BatchReader
from canal_group.actors.gateway.delivery_lease import DeliveryLease
from canal_group.actors.gateway.gateway_counters import GatewayCounters
from canal_group.merge.calls.batch import Batch, epoch_of
from canal_group.merge.calls.call import Call
from canal_group.merge.calls.consumers import Ack, Get, Release, Rollback, Touch, Unsubscribe
from canal_group.merge.errors import RetryableError, RolledBack, UnknownBatch

R = TypeVar("R")

#: bytes of a batch's entries for each byte of its rows: an estimate, before they are made
_ENTRY_BYTES = 4
#: bytes that a batch's entries have at least, in that estimate
_BATCH_BYTES = 64 << 10


class GroupCalls(Protocol):
    """Calls the group."""

    async def ask_from(self, call: Call[R]) -> R:
        """Return the group's answer to a call.

        Raises:
            CanalGroupError: the group's error, or ServerUnavailable.
        """

    def delivery_lease(self, client_id: str, epoch: int, batch_id: int) -> DeliveryLease:
        """Return a delivery lease for the rows of an outstanding batch."""


@dataclass(frozen=True, slots=True)
class Entries:
    """The entries of a batch, as its packet has them."""

    body: memoryview
    count: int
    #: allows to send them
    lease: DeliveryLease


@dataclass(slots=True)
class _Delivered:
    batch_id: int
    #: whether it is acknowledged here, and not by the client
    is_ours: bool


class Subscription:
    """One client id on one connection; its methods run on one loop.

    Args:
        group: whom to ask.
        rows: reads the rows of batches.
        threads: where entries are made.
        client_id: under which it reads.
        epoch: of the consumer that this connection is.
        table_filter: the tables that are wanted.
        counters: where sent rows are counted.
        transaction_ends: whether the begins and the ends of transactions are sent.
    """

    def __init__(
        self,
        group: GroupCalls,
        rows: BatchReader,
        threads: Executor,
        client_id: str,
        epoch: int,
        table_filter: str,
        counters: GatewayCounters,
        *,
        transaction_ends: bool,
    ) -> None:
        self._group, self._rows, self._threads = group, rows, threads
        self.client_id, self.epoch = client_id, epoch
        self._filter, self._transaction_ends = table_filter, transaction_ends
        self.counters = counters
        #: outstanding and done with here, the oldest first
        self._delivered: deque[_Delivered] = deque()
        #: the newest of those so far: the next get takes back what the group delivered after it
        self._seen_id = 0

    async def get(self, rows_max: int, wait_s: float) -> Batch | None:
        """Return the next batch, which is outstanding from now on; None if there is none in time.

        It has to be followed by `sent` or `skip`; if it is not, the next get returns the same rows.

        Raises:
            RolledBack: batches that the client has were lost, and come again.
            CanalGroupError: the group refuses.
        """
        with contextlib.suppress(RetryableError):  # With the next one.
            await self._acknowledge_ours()
        try:
            batch: Batch | None = await self._group.ask_from(Get(*self._key, rows_max, wait_s, self._seen_id))
        except RolledBack:
            if any(not each.is_ours for each in self._delivered):
                raise
            # The client does not acknowledge any of them.
            self._delivered.clear()
            return None
        if batch is None:
            return None
        self._check_same_server(batch)
        self._rows.remember(self.client_id, self.epoch, batch)
        return batch

    def _check_same_server(self, batch: Batch) -> None:
        others = [each for each in self._delivered if epoch_of(each.batch_id) != batch.server_epoch]
        if any(not each.is_ours for each in others):
            raise RolledBack(
                "Another server was elected: the batches that are not acknowledged are delivered again, from"
                f" batch {others[0].batch_id} on.",
                hint="Discard them, and connect again.",
                batch_id=others[0].batch_id,
            )
        for each in others:
            self._delivered.remove(each)

    def size_of(self, batch: Batch) -> int:
        """Return how many bytes the entries of a batch may have, before they are made."""
        return _BATCH_BYTES + _ENTRY_BYTES * int(batch.headers["bytes"].sum())

    async def entries(self, batch: Batch) -> Entries:
        """Return the entries of an outstanding batch.

        Raises:
            CanalGroupError: the batch was rolled back, or its rows cannot be read.
        """
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._entries, batch.batch_id)

    async def confirm(self, entries: Entries) -> None:
        """Return if entries may still be sent.

        Raises:
            CanalGroupError: the batch was rolled back, or another server may be the active one.
        """
        await asyncio.get_running_loop().run_in_executor(self._threads, entries.lease.check)

    def _entries(self, batch_id: int) -> Entries:
        key = self.client_id, self.epoch, batch_id
        lease = self._group.delivery_lease(*key)
        body, count = self._rows.messages(*key, self._filter, transaction_ends=self._transaction_ends)
        lease.check()
        return Entries(body, count, lease)

    async def sent(self, batch: Batch, *, acknowledges: bool) -> None:
        """Record that a batch was sent; with `acknowledges` it needs no acknowledgement of the client.

        Raises:
            CanalGroupError: the group refuses to acknowledge it; if it only cannot, it is asked again.
        """
        self._seen_id = batch.batch_id
        self._delivered.append(_Delivered(batch.batch_id, is_ours=acknowledges))
        with contextlib.suppress(RetryableError):  # With the next one.
            await self._acknowledge_ours()

    async def skip(self, batch: Batch) -> None:
        """Record that a batch is not sent to the client, because it has no entry for it. Raises as `sent`."""
        await self.sent(batch, acknowledges=True)

    async def ack(self, batch_id: int) -> None:
        """Acknowledge the oldest batch that the client has.

        Raises:
            CanalGroupError: the group refuses.
        """
        await self._acknowledge_ours()
        await self._ack(batch_id)
        while self._delivered and self._delivered[0].batch_id <= batch_id:
            self._delivered.popleft()
        with contextlib.suppress(RetryableError):  # With the next one.
            await self._acknowledge_ours()

    async def rollback(self, batch_id: int | None) -> None:
        """Take back a batch and every later one; None: all.

        Raises:
            CanalGroupError: the group refuses.
        """
        try:
            await self._group.ask_from(Rollback(*self._key, batch_id))
        except RolledBack:
            if batch_id is None:
                raise
        earlier = [each for each in self._delivered if batch_id is not None and each.batch_id < batch_id]
        self._delivered = deque(earlier)
        self._rows.forget(self.client_id, self.epoch)

    async def touch(self) -> None:
        """Renew the lease: the connection stands."""
        await self._group.ask_from(Touch(*self._key))

    async def unsubscribe(self) -> None:
        """End the subscription and remove its cursor."""
        await self._group.ask_from(Unsubscribe(*self._key))

    async def release(self) -> None:
        """Let another consumer have the client id; the cursor stays."""
        self._rows.forget(self.client_id, self.epoch)
        await self._group.ask_from(Release(*self._key))

    async def _acknowledge_ours(self) -> None:
        while self._delivered and (oldest := self._delivered[0]).is_ours:
            # It may have been rolled back, and comes again; or an answer was lost, and it is acknowledged.
            with contextlib.suppress(RolledBack, UnknownBatch):
                await self._ack(oldest.batch_id)
            # Unless a prefetch has done the same in the meantime.
            if self._delivered and self._delivered[0] is oldest:
                self._delivered.popleft()

    async def _ack(self, batch_id: int) -> None:
        await self._group.ask_from(Ack(*self._key, batch_id))
        self._rows.forget(self.client_id, self.epoch, batch_id)

    @property
    def _key(self) -> tuple[str, int]:
        return self.client_id, self.epoch
