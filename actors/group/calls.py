"""The calls of one destination's group, by consumers and operators.

A call is heard and answered only while the server behind it (`actors.group.candidate`) is the active one, by
its active group; otherwise the caller is told that this server stands by.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from typing import Any

from actors.group.active_group import ActiveGroup
from actors.group.candidate import Candidate
from actors.group.registration import ShardRegistration
from actors.ports import Host
from merge import events as ev
from merge.delivery.ledger import Batch
from merge.values.member import Policy
from merge.values.offset_range import OffsetRange
from merge.values.position import GroupPosition, Position

_log = logging.getLogger(__name__)


class GroupCalls:
    """One destination's group, as it is called; its methods run on one loop.

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
        #: durable calls of a client follow each other
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
    ) -> tuple[int, GroupPosition]:
        """Make `holder` the active consumer of a client id; return its epoch and cursor.

        Args:
            client_id: whose cursor to use.
            holder: the consumer, as others see it.
            table_filter: canal's regular expressions.
            session: the ZooKeeper session by which it keeps the running node itself; empty: we keep it.
            resume: where to go on if it was dropped: "cursor" or "now"; None: not said.
            may_disturb: whether other clients may be rolled back for it.

        Raises:
            AccessDenied: they would be.
            ConsumerActive: another one is; nothing was changed.
            SubscriptionDropped: it was away for too long, and `resume` does not say where to go on.
        """
        where = None if resume is None else ev.Resume(resume)
        async with self._locks[client_id]:
            group = self._candidate.serving()
            group.check_active()
            if session:
                await _let_go_consumer_gone(group, client_id, session)
            group.leases.want(client_id, holder, session)
            try:
                answer: tuple[int, GroupPosition] = await group.ask(
                    lambda call: ev.SubscribeRequested(
                        call, client_id, holder, table_filter, self._host.now_us(), where, may_disturb
                    )
                )
            finally:
                group.leases.want_no_more(client_id, holder)
        return answer

    async def touch(self, client_id: str, epoch: int) -> None:
        """Keep the consumer's lease."""
        await self._candidate.serving().ask(
            lambda call: ev.ConsumerTouched(call, client_id, epoch, self._host.now_us())
        )

    async def get(
        self, client_id: str, epoch: int, rows_max: int, timeout_s: float, seen_id: int | None
    ) -> Batch | None:
        """Deliver the next batch, waiting so long for one; None: there was none.

        What was delivered behind `seen_id`, the newest batch that the consumer has, is delivered again.
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
        """Deliver an offset range, waiting so long until it is there; None: it is not.

        Raises:
            RolledBack: it begins before the cursor, and may not rewind.
            AccessDenied: other clients would be rolled back for it, and may not be.
            PositionPurged: a source does not have it any more.
            DataError: it is not any more what it was.
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
        """Return an outstanding batch once more."""
        batch: Batch = await self._candidate.serving().ask(
            lambda call: ev.PlanRequested(call, client_id, epoch, batch_id, self._host.now_us())
        )
        return batch

    async def confirm(self, client_id: str, epoch: int, batch_id: int) -> float:
        """Return for how many seconds the rows of an outstanding batch may leave; raises as `plan`."""
        await self.plan(client_id, epoch, batch_id)
        return self._candidate.serving().check_active()

    async def lease_state(self, client_id: str) -> dict[str, Any] | None:
        """Return a client's state as `status` shows it, with every acknowledgement before this call in it.

        None: there is no such subscription.
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
        """Take back a batch and every later one, or all; return how many."""
        async with self._locks[client_id]:
            count: int = await self._candidate.serving().ask(
                lambda call: ev.RollbackRequested(call, client_id, epoch, batch_id, self._host.now_us())
            )
        return count

    async def unsubscribe(self, client_id: str, epoch: int) -> None:
        """Give up a subscription with its cursor."""
        async with self._locks[client_id]:
            await self._candidate.serving().ask(
                lambda call: ev.UnsubscribeRequested(call, client_id, epoch, self._host.now_us())
            )

    async def release(self, client_id: str, epoch: int) -> None:
        """Let the consumer go; subscription and cursor stay."""
        async with self._locks[client_id]:
            await self._candidate.serving().ask(
                lambda call: ev.ReleaseRequested(call, client_id, epoch, self._host.now_us())
            )

    # ---- operators -------------------------------------------------------------------------------------

    async def give_policy(self, name: str, policy: str) -> dict[str, Any]:
        """Say whether a silent shard holds the group; return its state.

        Raises:
            UsageError: there is no such shard, or nobody would be left to go on.
        """
        given = Policy(policy)
        state: dict[str, Any] = await self._candidate.serving().ask(
            lambda call: ev.ShardPolicyGiven(call, name, given, self._host.now_us())
        )
        _log.info("destination=%s shard=%s policy=%s", self._destination, name, policy)
        return state

    async def add_shard(self, definition: dict[str, Any], start: Position | None) -> dict[str, Any]:
        """Let one more shard join, and return its state; it has joined when that says so.

        Args:
            definition: as in an instance file. Its secrets are read here, where the server runs.
            start: where it begins; None: where the definition says.

        Raises:
            ConfigError: the definition cannot hold beside the others.
            UsageError: the name belongs to a shard that is there, or that left.
            ServerUnavailable: the process that launched us made no actor for it in time.
        """
        group = self._candidate.serving()
        group.check_active()
        return await self._registration.want(definition, start, group)

    async def remove_shard(self, name: str, *, now: bool) -> dict[str, Any]:
        """Let a shard leave when what it has committed by now is acknowledged, or at once.

        Returns:
            Its state; with `now`, after every cursor has let go of it, what is dropped.

        Raises:
            UsageError: there is no such shard, it is the only one, or it cannot be drained.
        """
        state: dict[str, Any] = await self._candidate.serving().ask(
            lambda call: ev.ShardRemoved(call, name, now, self._host.now_us())
        )
        _log.info("destination=%s shard=%s removed now=%s: %s", self._destination, name, now, state)
        return state


async def _let_go_consumer_gone(group: ActiveGroup, client_id: str, session: str) -> None:
    """Release the last consumer at once if the node that it kept went to the one of `session`."""
    gone = await group.leases.gone(client_id, session)
    if gone is not None:
        group.release_gone(client_id, gone.epoch)
