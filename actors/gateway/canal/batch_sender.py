"""The batches of a connection: each is sent, and the next one is prefetched while the client processes it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from canal_group.actors.admission.unsent_bytes import Answer
from canal_group.actors.gateway.canal import packets
from canal_group.actors.gateway.canal.service import CanalService
from canal_group.actors.gateway.canal.stream import PART_BYTES, PacketStream, PeerGone
from canal_group.actors.gateway.canal.subscription import Entries, Subscription
from canal_group.actors.process.stranger_log import stranger_log
from canal_group.merge.calls.batch import Batch
from canal_group.merge.errors import CanalGroupError, RolledBack

_log = stranger_log(__name__)

#: rows of a batch after which the next one is prefetched
PREFETCH_ROWS: Final = 256
#: pause before the group is asked again whose batch was rolled back
_AGAIN_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class _Ready:
    batch: Batch
    entries: Entries
    #: accounts for the bytes of the batch until the client has read them
    answer: Answer


class BatchSender:
    """Sends batches to one client.

    Args:
        service: the server that the connection belongs to.
        stream: the connection's packets.
        prefetch_rows: rows of a batch after which the next one is prefetched, if it was at least half of what
            was asked for.
    """

    def __init__(
        self, service: CanalService, stream: PacketStream, prefetch_rows: int = PREFETCH_ROWS
    ) -> None:
        self._service, self._stream, self._prefetch_rows = service, stream, prefetch_rows
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
        # A prefetched one that was ended is not sent: the next get has the same rows.
        if ready is None or ready.answer.is_ended:
            return False
        batch, entries = ready.batch, ready.entries
        try:
            if not entries.lease.holds:
                await subscription.confirm(entries)
            if entries.count:
                await self._write(subscription, ready)
                subscription.counters.sent(batch.rows, len(entries.body))
        except RolledBack:
            await asyncio.sleep(_AGAIN_S)
            return False  # The client has not seen it: it gets the next one.
        finally:
            self._service.unsent.give_back(ready.answer)
        if not entries.count:
            await subscription.skip(batch)
            return False
        await subscription.sent(batch, acknowledges=auto_ack)
        # While the client processes this one. Not before: a get takes back what was not sent.
        if batch.rows >= max(self._prefetch_rows, rows_max // 2) and self._service.unsent.has_room:
            self._ahead = asyncio.create_task(self._prefetched(subscription, rows_max))
        return True

    async def _prefetched(self, subscription: Subscription, rows_max: int) -> _Ready | None:
        ready = await self._ready(subscription, rows_max, 0.0)
        if ready is not None:
            self._service.unsent.unasked(ready.answer, self._forget_ahead)
        return ready

    def _forget_ahead(self) -> None:
        self._ahead = None

    async def _ready(self, subscription: Subscription, rows_max: int, wait_s: float) -> _Ready | None:
        """Return the next batch and its entries, holding their bytes; None after the timeout."""
        batch = await subscription.get(rows_max, wait_s)
        if batch is None:
            return None
        answer = await self._service.unsent.take(subscription.size_of(batch), self._stream.host)
        try:
            entries = await subscription.entries(batch)
        except RolledBack:
            self._service.unsent.give_back(answer)
            await asyncio.sleep(_AGAIN_S)
            return None
        except BaseException:
            self._service.unsent.give_back(answer)
            raise
        answer.size = len(entries.body)
        return _Ready(batch, entries, answer)

    async def drop_ahead(self) -> None:
        """Forget the prefetched batch; the caller rolls the batch back."""
        ahead, self._ahead = self._ahead, None
        if ahead is None:
            return
        ahead.cancel()
        await asyncio.wait([ahead])
        if not ahead.cancelled() and ahead.exception() is None and (ready := ahead.result()) is not None:
            self._service.unsent.give_back(ready.answer)

    async def _write(self, subscription: Subscription, ready: _Ready) -> None:
        batch, entries = ready.batch, ready.entries
        self._service.unsent.sending(ready.answer, self._give_way)
        await self._stream.send(packets.messages_head(batch.batch_id, len(entries.body)))
        for begin in range(0, len(entries.body), PART_BYTES):
            if not entries.lease.holds:
                try:
                    await subscription.confirm(entries)
                except CanalGroupError as error:
                    # Half of a packet is sent: nothing can follow it.
                    self._stream.abort()
                    raise PeerGone from error
            await self._stream.send(entries.body[begin : begin + PART_BYTES])
            ready.answer.read_bytes = begin + PART_BYTES

    def _give_way(self) -> None:
        _log.warning("connection=%s is closed: others wait, and it reads too slowly", self._stream.peer)
        self._stream.abort()
