"""A connection of canal's protocol: login, subscription, batches, until one of both ends leaves.

The protocol has no answer to an acknowledgement or a rollback. If one is refused, the client is told by an
Ack with an error, which it reads instead of the answer to its next get, and the connection ends. It ends the
same way when another consumer has taken over the client id, when no group is active here, and after anything
that is not a packet.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Final

from canal_group.actors.gateway.canal import packets
from canal_group.actors.gateway.canal.batch_sender import BatchSender
from canal_group.actors.gateway.canal.destination import CanalDestination
from canal_group.actors.gateway.canal.login import ShownLogin, new_seed
from canal_group.actors.gateway.canal.service import CanalService
from canal_group.actors.gateway.canal.stream import PacketStream, PeerGone
from canal_group.actors.gateway.canal.subscription import Subscription
from canal_group.actors.process.stranger_log import stranger_log
from canal_group.actors.transport.flight_errors import refusal
from canal_group.canal_protocol.packet_pb2 import (
    ClientAck,
    ClientRollback,
    Get,
    Sub,
    Unsub,
)
from canal_group.merge.errors import (
    AccessDenied,
    CanalGroupError,
    FencedError,
    NotSubscribed,
    RetryableError,
    RolledBack,
    ServerUnavailable,
    UsageError,
)

_log = stranger_log(__name__)

#: bytes of a login's packet
LOGIN_BYTES_MAX: Final = 4 << 10
#: packets that were received and are not answered yet
PACKETS_MAX: Final = 4
#: rows of a batch for which no number is said
FETCH_ROWS: Final = 1_000
#: how long the group is asked to wait for rows at once; in between acknowledgements are taken
_SLICE_S: Final = 0.5
#: how long a get without a limit waits at most, before it is answered without a batch
_GET_S_MAX: Final = 30.0
#: how long a get goes on while the group or a shard is unavailable
AWAY_S: Final = 3.0


class CanalConnection:
    """One connection; `run` returns when it has ended.

    Args:
        service: the server that it belongs to.
        stream: its packets.
    """

    def __init__(self, service: CanalService, stream: PacketStream) -> None:
        self._service, self._stream = service, stream
        #: packets that came, and an error that ends the connection
        self._inbox: asyncio.Queue[bytes | Exception] = asyncio.Queue(PACKETS_MAX)
        #: a packet that was looked at and is next
        self._next: packets.Request | None = None
        #: how the client logged in, None: it has not; and whether that is a destination's login
        self._shown: ShownLogin | None = None
        self._is_known = False
        #: the destination that the client reads; None before the client has named a destination
        self._destination: CanalDestination | None = None
        self._has_destination = asyncio.Event()
        self._subscription: Subscription | None = None
        self._batches = BatchSender(service, stream)

    async def run(self, logged_in: Callable[[], None]) -> None:
        """Serve the client until the connection ends.

        Args:
            logged_in: called when the client has shown who it is.
        """
        try:
            await self._login()
            logged_in()
            await self._answer_all()
        except PeerGone:
            self._stream.abort()
        except Exception as error:  # noqa: BLE001  whatever it is, the client sees a sentence
            await self._refuse(refusal(error, "The packet"))
        finally:
            await self._release()

    async def _answer_all(self) -> None:
        tasks = [asyncio.create_task(self._receive()), asyncio.create_task(self._keep_lease())]
        try:
            while True:
                await self._answer(await self._request())
        finally:
            for task in tasks:
                task.cancel()
            # A stream has one reader: nothing else can be received before the last one has ended.
            await asyncio.wait(tasks)

    async def _refuse(self, error: CanalGroupError) -> None:
        of = None if self._destination is None else self._destination.name
        _log.info("connection=%s ends: %s", self._stream.peer, error, extra={"destination": of})
        await self._stream.end(packets.ack(packets.FAILED, str(error)))

    # ---- login

    async def _login(self) -> None:
        seed = new_seed()
        await self._stream.send(packets.handshake(seed))
        try:
            async with asyncio.timeout(self._service.bounds.login_s):
                shown = packets.read_login(await self._stream.receive(LOGIN_BYTES_MAX))
        except TimeoutError as error:
            raise PeerGone from error
        await self._check_login(ShownLogin.of(shown, seed))
        await self._stream.send(packets.ack())

    async def _check_login(self, shown: ShownLogin) -> None:
        """Check a login; it waits if others from the same address failed. Raises as `CanalTable.check_login`.

        Where one destination admits every client, what is shown may still be a guess at another one's
        password: it counts when that destination refuses it.
        """
        failed_logins, host = self._service.failed_logins, self._stream.host
        await self._stream.pause(failed_logins.pause_s(host))
        try:
            self._is_known = self._service.table.check_login(shown)
        except AccessDenied:
            failed_logins.failed(host)
            raise
        if self._is_known:
            failed_logins.succeeded(host)
        self._shown = shown

    def _find(self, name: str) -> CanalDestination:
        """Return the destination that a packet is for; raises as `CanalTable.find`."""
        current = self._destination
        if current is not None and current.name == name and self._service.serves(current):
            return current
        assert self._shown is not None, "packets follow the login"
        try:
            return self._service.table.find(name, self._shown)
        except AccessDenied:
            if not self._is_known:
                self._service.failed_logins.failed(self._stream.host)
            raise

    def end_if_withdrawn(self) -> None:
        """End the connection if its destination is not served any more; called on the server's loop."""
        if self._destination is not None and not self._service.serves(self._destination):
            self._stream.abort()

    # ---- packets

    async def _receive(self) -> None:
        try:
            while True:
                await self._inbox.put(await self._stream.receive(self._service.bounds.frame_bytes_max))
        except (PeerGone, UsageError) as error:
            await self._inbox.put(error)

    async def _request(self) -> packets.Request:
        """Return the next packet.

        Raises:
            PeerGone: none came for too long, or the connection ended.
            UsageError: it is not a packet.
        """
        if self._next is not None:
            item, self._next = self._next, None
            return item
        try:
            async with asyncio.timeout(self._service.bounds.idle_s):
                return _read(await self._inbox.get())
        except TimeoutError as error:
            raise UsageError(
                f"The connection was idle for {self._service.bounds.idle_s:g} s.", hint="Connect again."
            ) from error

    async def _answer(self, request: packets.Request) -> None:
        name, began_s, failed = type(request).__name__.lower(), time.monotonic(), ""
        try:
            missing = [word for word in ("destination", "client_id") if not getattr(request, word)]
            if missing:
                await self._stream.send(packets.ack(packets.INCOMPLETE, f"{missing[0]} is missing."))
                failed = "UsageError"
            elif isinstance(request, ClientAck) and request.batch_id == 0:
                await self._stream.send(packets.ack(packets.NO_BATCH, "The id of the batch is missing."))
                failed = "UsageError"
            else:
                await self._served(request)
        except CanalGroupError as error:
            failed = type(error).__name__
            raise
        finally:
            counters = self._service.table.counters_of(request.destination)
            counters.called(f"canal_{name}", time.monotonic() - began_s, failed)

    async def _served(self, request: packets.Request) -> None:
        match request:
            case Sub():
                await self._subscribe(request)
            case Unsub():
                await self._unsubscribe(request)
            case Get():
                await self._get(request)
            case ClientAck():
                await self._ack(request)
            case ClientRollback():
                await self._rollback(request)

    # ---- subscription

    async def _subscribe(self, request: Sub) -> None:
        try:
            await self._open(request, request.filter)
        except CanalGroupError as error:
            # As canal's: the client may try again, or ask for something else.
            await self._stream.send(packets.ack(packets.FAILED, str(error)))
        else:
            await self._stream.send(packets.ack())

    async def _unsubscribe(self, request: Unsub) -> None:
        try:
            subscription = await self._subscribed(request)
            await self._batches.drop_ahead()
            await subscription.unsubscribe()
            self._subscription = None
        except NotSubscribed:
            pass
        except CanalGroupError as error:
            await self._stream.send(packets.ack(packets.FAILED, str(error)))
            return
        await self._stream.send(packets.ack())

    async def _open(self, request: packets.Request, table_filter: str) -> Subscription:
        """Become the consumer of a client id, with a filter.

        Raises:
            CanalGroupError: the group refuses it.
        """
        destination, current = self._find(request.destination), self._subscription
        if current is not None and (self._destination, current.client_id) != (destination, request.client_id):
            assert self._destination is not None, "it has a subscription"
            raise UsageError(
                f"This connection reads {self._destination.name} as client {current.client_id}.",
                hint="Open another connection for another destination or client id.",
            )
        await self._batches.drop_ahead()
        self._destination = destination
        self._has_destination.set()
        self._subscription = await self._service.subscribe(
            destination, request.client_id, self._stream.peer, table_filter
        )
        return self._subscription

    async def _subscribed(self, request: packets.Request) -> Subscription:
        """Return the subscription that a packet is for: a client that was subscribed before need not say so.

        Raises:
            NotSubscribed: the client id has no subscription.
            CanalGroupError: the group refuses it.
        """
        destination, current = self._find(request.destination), self._subscription
        if current is not None and (self._destination, current.client_id) == (destination, request.client_id):
            return current
        return await self._open(request, await self._service.filter_of(destination, request.client_id))

    async def _keep_lease(self) -> None:
        await self._has_destination.wait()
        heard_s = time.monotonic()
        while True:
            assert self._destination is not None, "it was said"
            await asyncio.sleep(self._destination.touch_every_s)
            subscription, lease_s = self._subscription, self._destination.lease_s
            if subscription is None:
                heard_s = time.monotonic()
                continue
            try:
                await subscription.touch()
                heard_s = time.monotonic()
            except RetryableError as error:
                if time.monotonic() - heard_s < lease_s:
                    continue
                await self._inbox.put(error)
            except CanalGroupError as error:
                if subscription is self._subscription:
                    await self._inbox.put(error)

    async def _release(self) -> None:
        subscription, self._subscription = self._subscription, None
        await self._batches.drop_ahead()
        if subscription is not None:
            with contextlib.suppress(CanalGroupError):
                await subscription.release()
        self._service.released(self._stream.peer)

    # ---- batches

    async def _get(self, request: Get) -> None:
        try:
            subscription = await self._subscribed(request)
        except NotSubscribed as error:
            await self._stream.send(packets.ack(packets.FAILED, str(error)))
            return
        waits_s = packets.timeout_s(request)
        until_s = time.monotonic() + (_GET_S_MAX if waits_s is None else min(waits_s, _GET_S_MAX))
        rows_max = request.fetch_size if request.fetch_size > 0 else FETCH_ROWS
        away_until_s = 0.0
        while True:
            left_s = max(0.0, until_s - time.monotonic())
            try:
                if await self._batches.send(
                    subscription, rows_max, min(left_s, _SLICE_S), auto_ack=request.auto_ack
                ):
                    return
                away_until_s = 0.0
            except (FencedError, RolledBack):
                raise
            except RetryableError as error:
                if isinstance(error, ServerUnavailable):
                    away_until_s = away_until_s or time.monotonic() + AWAY_S
                    if time.monotonic() > away_until_s:
                        raise
                await asyncio.sleep(min(error.retry_after_s, _SLICE_S))
            if time.monotonic() >= until_s and not away_until_s:
                await self._stream.send(packets.no_messages())
                return
            await self._take_acks()

    async def _take_acks(self) -> None:
        """Take acknowledgements that came while a get waits; raise if the connection ended."""
        while self._next is None and not self._inbox.empty():
            request = _read(self._inbox.get_nowait())
            if isinstance(request, ClientAck):
                await self._answer(request)
            else:
                self._next = request

    async def _ack(self, request: ClientAck) -> None:
        if request.batch_id < 0:
            return
        await (await self._subscribed(request)).ack(request.batch_id)

    async def _rollback(self, request: ClientRollback) -> None:
        if request.batch_id < 0:
            return
        if self._subscription is None:
            # canal's clients do this before they subscribe, and then get all that is not acknowledged.
            self._find(request.destination)
            return
        subscription = await self._subscribed(request)
        await self._batches.drop_ahead()
        await subscription.rollback(request.batch_id or None)


def _read(item: bytes | Exception) -> packets.Request:
    if isinstance(item, Exception):
        raise item
    return packets.read_request(item)
