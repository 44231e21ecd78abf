"""The batches of a connection: each is sent while the next one is prefetched."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Final

from actors.gateway.canal import packets
from actors.gateway.canal.service import CanalService
from actors.gateway.canal.stream import PART_BYTES, PacketStream, PeerGone
from actors.gateway.canal.subscription import Entries, Subscription
from merge.delivery.ledger import Batch
from merge.errors import CanalGroupError, RolledBack

#: rows of a batch after which the next one is prefetched, if it was at least half of what was asked for
PREFETCH_ROWS: Final = 256
#: pause before the group is asked again whose batch was rolled back
_AGAIN_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class _Ready:
    """A batch that can be sent."""

    batch: Batch
    entries: Entries
    #: bytes that are held for it
    size: int


class BatchSender:
    """Sends batches to one client.

    Args:
        service: the server that the connection belongs to.
        stream: the connection's packets.
    """

    def __init__(self, service: CanalService, stream: PacketStream) -> None:
        self._service, self._stream = service, stream
        #: the next batch, prefetched while the client reads the last one
        self._ahead: asyncio.Task[_Ready | None] | None = None

    async def send(self, subscription: Subscription, rows_max: int, wait_s: float, *, auto_ack: bool) -> bool:
        """Send the next batch; return whether there was one.

        Args:
            subscription: whose batch it is.
            rows_max: bound on row changes.
            wait_s: how long to wait for one.
            auto_ack: whether it is acknowledged once it is sent.

        Raises:
            PeerGone: the client left.
            CanalGroupError: the group refuses it.
        """
        ahead, self._ahead = self._ahead, None
        ready = await (ahead if ahead is not None else self._ready(subscription, rows_max, wait_s))
        if ready is None:
            return False
        batch, entries = ready.batch, ready.entries
        try:
            if not entries.lease.holds:
                await asyncio.get_running_loop().run_in_executor(self._service.threads, entries.lease.check)
            if not entries.count:
                await subscription.skip(batch)
                return False
            subscription.delivered(batch)
            # While the client reads this one.
            if batch.rows >= max(PREFETCH_ROWS, rows_max // 2) and self._service.unsent.has_room:
                self._ahead = asyncio.create_task(self._ready(subscription, rows_max, 0.0))
            await self._write(batch, entries)
        except RolledBack:
            await asyncio.sleep(_AGAIN_S)
            return False  # The client has not seen it: it gets the next one.
        finally:
            self._service.unsent.give_back(ready.size)
        if auto_ack:
            await subscription.ack(batch.batch_id)
        return True

    async def _ready(self, subscription: Subscription, rows_max: int, wait_s: float) -> _Ready | None:
        """Return the next batch with its entries, whose bytes are held; None if there is none in time."""
        batch = await subscription.get(rows_max, wait_s)
        if batch is None:
            return None
        size = subscription.size_of(batch)
        await self._service.unsent.take(size)
        try:
            return _Ready(batch, await subscription.entries(batch), size)
        except RolledBack:
            self._service.unsent.give_back(size)
            await asyncio.sleep(_AGAIN_S)
            return None
        except BaseException:
            self._service.unsent.give_back(size)
            raise

    async def drop_ahead(self) -> None:
        """Forget the batch that was prefetched; whoever calls this rolls it back."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            with contextlib.suppress(CanalGroupError):
                ready = await ahead
                if ready is not None:
                    self._service.unsent.give_back(ready.size)

    async def _write(self, batch: Batch, entries: Entries) -> None:
        await self._stream.send(packets.messages_head(batch.batch_id, len(entries.body)))
        for begin in range(0, len(entries.body), PART_BYTES):
            if not entries.lease.holds:
                try:
                    await asyncio.get_running_loop().run_in_executor(
                        self._service.threads, entries.lease.check
                    )
                except CanalGroupError as error:
                    # Half of a packet is sent: nothing can follow it.
                    self._stream.abort()
                    raise PeerGone from error
            await self._stream.send(entries.body[begin : begin + PART_BYTES])
        self._service.sent(batch.rows, len(entries.body))
