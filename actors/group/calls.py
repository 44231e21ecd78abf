"""The calls of consumers and operators to one destination's group.

A call is processed and answered by the active group, and only while the server (`actors.group.candidate`) is
the active one. Otherwise the caller is told that this server stands by.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from actors.group.active_group import ActiveGroup
from actors.group.candidate import Candidate
from actors.group.registration import ShardRegistration
from actors.ports import Host
from merge import events as ev
from merge.delivery.ledger import Batch
from merge.errors import UsageError
from merge.values.chunk import TableName
from merge.values.member import Policy
from merge.values.offset_range import OffsetRange
from merge.values.position import GroupPosition, Position

_log = logging.getLogger(__name__)

#: how long a command waits for the report that a shard has stopped, seconds: as long as two polls
STOP_KNOWN_WITHIN_S = 2.5
#: how often it looks for that, seconds
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

    # ---- consumers -------------------------------------------------------------------------------------

    async def subscribe(
        self,
        client_id: str,
        holder: str,
        table_filter: str,
        session: str = "",
        resume: str | None = None,
        *,
        may_disturb: bool = True,
        start: GroupPosition | None = None,
        ends: Mapping[str, Position] | None = None,
        move: bool = False,
        finds_session: bool = False,
    ) -> tuple[int, GroupPosition]:
        """Make `holder` the active consumer of a client id; return its epoch and cursor.

        Args:
            client_id: the client id whose cursor to use.
            holder: the consumer's name for others.
            table_filter: canal's regular expressions.
            session: the ZooKeeper session with which it keeps the running node itself; empty: we keep it.
            resume: where to continue if it was dropped: "cursor" or "now"; None: not given.
            may_disturb: whether other clients may be rolled back for it.
            start: where a client id without a cursor begins; None: as `ends` say.
            ends: the ends of the sources' binlogs, see `SubscribeRequested`.
            move: whether a cursor is moved to `start` too.
            finds_session: whether it may keep the running node itself by a session that it does not tell.

        Raises:
            AccessDenied: other clients would be rolled back, and may not be.
            ConsumerActive: another consumer is active; nothing was changed.
            SubscriptionDropped: the client id was inactive for too long, and `resume` is None.
        """
        where = None if resume is None else ev.Resume(resume)
        async with self._locks[client_id]:
            group = self._candidate.serving()
            group.check_active()
            if finds_session:
                session = await group.leases.session_keeping(client_id)
            if session:
                await _let_go_consumer_gone(group, client_id, session)
            group.leases.want(client_id, holder, session, told=not finds_session)
            try:
                answer: tuple[int, GroupPosition] = await group.ask(
                    lambda call: ev.SubscribeRequested(
                        call,
                        client_id,
                        holder,
                        table_filter,
                        self._host.now_us(),
                        where,
                        may_disturb,
                        start,
                        move,
                        ends,
                    )
                )
            finally:
                group.leases.want_no_more(client_id, holder)
        return answer

    async def touch(self, client_id: str, epoch: int) -> None:
        """Renew the consumer's lease."""
        await self._candidate.serving().ask(
            lambda call: ev.ConsumerTouched(call, client_id, epoch, self._host.now_us())
        )

    async def get(
        self, client_id: str, epoch: int, rows_max: int, timeout_s: float, seen_id: int | None
    ) -> Batch | None:
        """Deliver the next batch; None if there was none within the timeout.

        Batches after `seen_id`, the newest batch that the consumer has, are delivered again.
        """
        batch: Batch | None = await self._candidate.serving().ask_within(
            timeout_s,
            client_id,
            lambda call: ev.GetRequested(call, client_id, epoch, rows_max, self._host.now_us(), seen_id),
        )
        return batch

    async def offset_range(
        self,
        client_id: str,
        epoch: int,
        offset_range: OffsetRange,
        *,
        may_rewind: bool,
        timeout_s: float,
        may_disturb: bool = True,
    ) -> Batch | None:
        """Deliver an offset range; None if it is not available within the timeout.

        Raises:
            RolledBack: it begins before the cursor, and `may_rewind` is False.
            AccessDenied: other clients would be rolled back for it, and may not be.
            PositionPurged: a source no longer has it.
            DataError: its content has changed.
        """
        batch: Batch | None = await self._candidate.serving().ask_within(
            timeout_s,
            client_id,
            lambda call: ev.RangeRequested(
                call, client_id, epoch, offset_range, may_rewind, self._host.now_us(), may_disturb
            ),
        )
        return batch

    async def plan(self, client_id: str, epoch: int, batch_id: int) -> Batch:
        """Return an outstanding batch again."""
        batch: Batch = await self._candidate.serving().ask(
            lambda call: ev.PlanRequested(call, client_id, epoch, batch_id, self._host.now_us())
        )
        return batch

    async def confirm(self, client_id: str, epoch: int, batch_id: int) -> float:
        """Return for how many seconds the rows of an outstanding batch may be sent; raises as `plan`."""
        await self.plan(client_id, epoch, batch_id)
        return self._candidate.serving().check_active()

    async def lease_state(self, client_id: str) -> dict[str, Any] | None:
        """Return a client's state as `status` shows it; it includes every acknowledgement before this call.

        None if there is no such subscription.
        """
        self._candidate.serving().check_active()
        async with self._locks[client_id]:
            return self._candidate.serving().state_of_client(client_id)

    async def ack(self, client_id: str, epoch: int, batch_id: int) -> GroupPosition:
        """Acknowledge the oldest outstanding batch; return the cursor once it is durable."""
        async with self._locks[client_id]:
            cursor: GroupPosition = await self._candidate.serving().ask(
                lambda call: ev.AckRequested(call, client_id, epoch, batch_id, self._host.now_us())
            )
        return cursor

    async def rollback(self, client_id: str, epoch: int, batch_id: int | None) -> int:
        """Roll back a batch and every later one, or all; return how many."""
        async with self._locks[client_id]:
            count: int = await self._candidate.serving().ask(
                lambda call: ev.RollbackRequested(call, client_id, epoch, batch_id, self._host.now_us())
            )
        return count

    async def unsubscribe(self, client_id: str, epoch: int) -> None:
        """Remove a subscription and its cursor."""
        async with self._locks[client_id]:
            await self._candidate.serving().ask(
                lambda call: ev.UnsubscribeRequested(call, client_id, epoch, self._host.now_us())
            )

    async def release(self, client_id: str, epoch: int) -> None:
        """Release the consumer; subscription and cursor stay."""
        async with self._locks[client_id]:
            await self._candidate.serving().ask(
                lambda call: ev.ReleaseRequested(call, client_id, epoch, self._host.now_us())
            )

    async def trace(
        self, gtid: str, read: dict[str, str], shard: str | None, table: tuple[str, str] | None
    ) -> dict[str, Any]:
        """Return where a transaction is, see `merge.trace.trace`, which says when it raises UsageError."""
        group = self._candidate.serving()
        group.check_active()
        return group.machine.trace(gtid, read, shard, None if table is None else TableName(*table))

    async def column_types(self) -> str:
        """Return the types that operators chose for columns, as `ChosenTypes.from_json` reads them."""
        group = self._candidate.serving()
        group.check_active()
        return (await group.types.get()).to_json()

    # ---- operators -------------------------------------------------------------------------------------

    async def choose_type(self, table: str, column: str, said: str | None) -> None:
        """Choose the type of a table's column for typed rows; None: take the choice back.

        Args:
            table: `schema.table`, as consumers know it.
            column: its name, in any case.
            said: see `merge.rows.chosen_types`.

        Raises:
            UsageError: that is no type, or there is nothing to take back.
        """
        group = self._candidate.serving()
        group.check_active()
        await group.types.choose(TableName.of(table), column, said)
        _log.info("table=%s column=%s type=%s", table, column, said, extra={"destination": self._destination})

    async def give_policy(self, name: str, policy: str) -> dict[str, Any]:
        """Set whether a silent shard holds the group; return its state.

        Raises:
            UsageError: there is no such shard, or no other shard would be left.
        """
        given = Policy(policy)
        state: dict[str, Any] = await self._candidate.serving().ask(
            lambda call: ev.ShardPolicyGiven(call, name, given, self._host.now_us())
        )
        _log.info("policy=%s", policy, extra={"destination": self._destination, "shard": name})
        return state

    async def skip_event(
        self, name: str, file: str, offset: int, *, whole_transaction: bool, by: str, at_us: int
    ) -> dict[str, Any]:
        """Leave out the event at which a shard has stopped; return it, and whether that was done `already`.

        Args:
            name: the shard.
            file: binlog file of the event.
            offset: where it begins there, as the shard's error says.
            whole_transaction: whether to leave out all of its transaction.
            by: who asks.
            at_us: when, microseconds since 1970 UTC.

        Raises:
            UsageError: there is no such shard, or it has not stopped there; nothing was changed.
            CoordinatorUnavailable: it is unknown whether it is stored; asking again is harmless.
        """
        until_s = self._host.clock_s() + STOP_KNOWN_WITHIN_S
        while True:
            group = self._candidate.serving()
            group.check_active()
            stop = group.machine.stop_of(name)
            try:
                event, already = await group.skips.ask(
                    stop, file, offset, whole_transaction=whole_transaction, by=by, at_us=at_us
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
            extra={"destination": self._destination, "shard": name},
        )
        return {**event.to_dict(), "already": already}

    async def add_shard(self, definition: dict[str, Any], start: Position | None) -> dict[str, Any]:
        """Add a shard and return its state, which tells whether it has joined.

        Args:
            definition: as in an instance file. Its secrets are read here, where the server runs.
            start: its start position; None: as the definition says.

        Raises:
            ConfigError: the definition is invalid, or conflicts with other shards.
            UsageError: the name belongs to an existing shard, or to one that left.
            ServerUnavailable: the process that launched us made no actor for it in time.
        """
        group = self._candidate.serving()
        group.check_active()
        return await self._registration.want(definition, start, group)

    async def remove_shard(self, name: str, *, now: bool) -> dict[str, Any]:
        """Remove a shard when everything that it has committed by now is acknowledged, or at once.

        Returns:
            Its state; with `now`, what is dropped, after the shard was removed from every cursor.

        Raises:
            UsageError: there is no such shard, it is the only one, or it cannot be drained.
        """
        state: dict[str, Any] = await self._candidate.serving().ask(
            lambda call: ev.ShardRemoved(call, name, now, self._host.now_us())
        )
        _log.info(
            "the shard is removed, now=%s: %s",
            now,
            state,
            extra={"destination": self._destination, "shard": name},
        )
        return state


async def _let_go_consumer_gone(group: ActiveGroup, client_id: str, session: str) -> None:
    """Release the last consumer at once if `session` has taken the node that it kept."""
    gone = await group.leases.gone(client_id, session)
    if gone is not None:
        group.release_gone(client_id, gone.epoch)
