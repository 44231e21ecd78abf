"""The calls of consumers and operators to one destination's group.

A call is processed and answered by the active group, and only while the server
(`canal_group.actors.group.candidate`) is the active one. Otherwise the caller is told that this server stands
by.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from dataclasses import replace
from typing import Any

from canal_group.actors.group.active_group import ActiveGroup
from canal_group.actors.group.candidate import Candidate
from canal_group.actors.group.registration import ShardRegistration
from canal_group.actors.ports import Host
from canal_group.merge.calls.call import Call
from canal_group.merge.calls.consumers import (
    Ack,
    AckAndGet,
    ColumnTypes,
    Confirm,
    Get,
    LeaseState,
    Plan,
    Release,
    Rollback,
    SubscribeAt,
    Unsubscribe,
)
from canal_group.merge.calls.operators import (
    AddShard,
    ChooseType,
    GivePolicy,
    RemoveShard,
    SetClientAside,
    SkipEvent,
    Steering,
    TraceRead,
)
from canal_group.merge.errors import UsageError
from canal_group.merge.values.chunk import TableName
from canal_group.merge.values.position import GroupPosition
from canal_group.merge.values.skips.skipped_event import parse_event_offset

_log = logging.getLogger(__name__)

#: how long a command waits for the report that a shard has stopped, seconds: as long as two polls
STOP_KNOWN_WITHIN_S = 2.5
#: interval at which the command looks for the report, seconds
LOOK_EVERY_S = 0.1


class GroupCalls:
    """The calls of one destination's group; its methods run on one loop.

    Args:
        registration: the shards of the destination.
        candidate: the server.
        host: that it runs on.
    """

    def __init__(self, registration: ShardRegistration, candidate: Candidate, host: Host) -> None:
        self._destination = registration.settings.destination
        self._registration = registration
        self._candidate = candidate
        self._host = host
        #: serialize the durable calls of a client
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def answer(self, call: Call[Any]) -> Any:
        """Answer a call.

        Raises:
            CanalGroupError: what its class says.
            ServerUnavailable: this server stands by.
        """
        answer: Any
        match call:
            case SubscribeAt():
                answer = await self._subscribe(call)
            case Ack() | Rollback() | Unsubscribe() | Release() | SetClientAside() | Steering():
                async with self._locks[call.client_id]:
                    answer = await self._candidate.serving().ask(call)
            case LeaseState():
                self._candidate.serving().check_active()
                async with self._locks[call.client_id]:
                    answer = self._candidate.serving().state_of_client(call.client_id)
            case Get() | AckAndGet() | Confirm():
                answer = await self._lease(call)
            case TraceRead():
                answer = self._active().machine.trace(call.gtid, call.read, call.shard, call.table)
            case ColumnTypes():
                answer = (await self._active().types.get()).to_json()
            case ChooseType(table, column, kind):
                answer = await self._active().types.choose(TableName.of(table), column, kind)
            case AddShard():
                answer = await self._registration.want(call.shard, call.start, self._active())
            case SkipEvent():
                answer = await self._skip_event(call)
            case _:
                answer = await self._candidate.serving().ask(call)
        self._log_change(call, answer)
        return answer

    def _log_change(self, call: Call[Any], answer: Any) -> None:
        """Log what operators have changed, field by field: a shard's definition may hold secrets."""
        extra = {"destination": self._destination}
        match call:
            case ChooseType(table, column, kind):
                _log.info("table=%s column=%s type=%s", table, column, kind, extra=extra)
            case GivePolicy(shard=shard, policy=policy):
                _log.info("policy=%s", policy, extra={**extra, "shard": shard})
            case RemoveShard(shard=shard, now=now):
                _log.info("the shard is removed, now=%s: %s", now, answer, extra={**extra, "shard": shard})

    def _active(self) -> ActiveGroup:
        group = self._candidate.serving()
        group.check_active()
        return group

    async def _lease(self, call: Get | AckAndGet | Confirm) -> Any:
        """Answer a call with how long rows may be sent: a get with its batch, or None if it has none."""
        if isinstance(call, AckAndGet):
            return await self.answer(call.ack), await self._lease(call.get)
        group = self._candidate.serving()
        if isinstance(call, Get):
            batch = await group.ask(call)
            return None if batch is None else replace(batch, lease_s=group.check_active())
        await group.ask(Plan(call.client_id, call.epoch, call.batch_id))
        return group.check_active()

    async def _subscribe(self, call: SubscribeAt) -> tuple[int, GroupPosition]:
        client_id, holder, session = call.client_id, call.holder, call.session
        async with self._locks[client_id]:
            group = self._active()
            if call.finds_session:
                session = await group.leases.session_keeping(client_id)
            if session:
                await _let_go_consumer_gone(group, client_id, session)
            group.leases.want(client_id, holder, session, announced=not call.finds_session)
            try:
                return await group.ask(call)
            finally:
                group.leases.want_no_more(client_id, holder)

    async def _skip_event(self, call: SkipEvent) -> dict[str, Any]:
        file, offset = parse_event_offset(call.at)
        until_s = self._host.clock_s() + STOP_KNOWN_WITHIN_S
        while True:
            group = self._active()
            stop = group.machine.stop_of(call.shard, call.at)
            try:
                event, already = await group.skips.ask(
                    stop,
                    file,
                    offset,
                    whole_transaction=call.whole_transaction,
                    by=call.by,
                    at_us=call.at_us,
                )
                break
            except UsageError:
                if stop.error is not None or self._host.clock_s() >= until_s:
                    raise
            await asyncio.sleep(LOOK_EVERY_S)  # the shard's own status may say it earlier than its report
        group.check_active()
        _log.warning(
            "event=%s:%d unit=%s by=%s already=%s: is left out",
            file,
            offset,
            event.unit,
            event.by,
            already,
            extra={"destination": self._destination, "shard": call.shard},
        )
        return {**event.to_dict(), "already": already}


async def _let_go_consumer_gone(group: ActiveGroup, client_id: str, session: str) -> None:
    """Release the last consumer at once if `session` has taken the node that it kept."""
    gone = await group.leases.gone(client_id, session)
    if gone is not None:
        group.release_gone(client_id, gone.epoch)
