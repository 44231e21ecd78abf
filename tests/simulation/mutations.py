"""Mutations: each breaks one rule, to show that the simulation would detect it.

Each names the rule that it breaks and the code that enforces it; `patch` is pytest's `monkeypatch.setattr`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np

import canal_group.actors.meta.memory
import canal_group.merge.order.stream
from canal_group.actors.coordination.connection import Connection
from canal_group.actors.gateway.canal.subscription import Subscription
from canal_group.actors.group.active_group import ActiveGroup
from canal_group.merge import events as ev
from canal_group.merge import instructions as do
from canal_group.merge.calls.batch import Batch
from canal_group.merge.calls.call import Call
from canal_group.merge.calls.consumers import Ack, Get, GetRange
from canal_group.merge.calls.operators import RemoveShard
from canal_group.merge.delivery.continuation import Continuation
from canal_group.merge.delivery.delivery import Delivery
from canal_group.merge.delivery.lease import Lease
from canal_group.merge.delivery.ledger import Ledger
from canal_group.merge.delivery.subscribers import Subscribers
from canal_group.merge.delivery.write_phase import WritePhase
from canal_group.merge.group import Group
from canal_group.merge.order.membership import Membership
from canal_group.merge.order.pending import Pending
from canal_group.merge.order.sort_order import SortOrder
from canal_group.merge.order.stream import Stream
from canal_group.merge.order.timeline import Timeline
from canal_group.merge.values.commit_time import END_OF_TIME_US
from canal_group.merge.values.epoch import Tenure
from canal_group.merge.values.member import Policy
from canal_group.merge.values.position import GroupPosition, Position
from simulation.schedule import FAULTS, Fault

Patch = Callable[..., None]


def a_store_takes_any_epoch(patch: Patch) -> None:
    patch(canal_group.actors.meta.memory, "refuse_older", lambda *_: None)


def zookeeper_takes_any_epoch(patch: Patch) -> None:
    """Cursor writes omit the condition that the epoch is the server's."""

    def commit_under(self: Connection, _: int, fill: Callable[[Any], None]) -> list[Any]:
        transaction = self.transaction()
        fill(transaction)
        return self.commit(transaction)

    patch(Connection, "commit_under", commit_under)


def a_tenure_never_runs_out(patch: Patch) -> None:
    patch(Tenure, "check", lambda *_: 1.0)


def a_server_answers_without_looking_whether_it_is_active(patch: Patch) -> None:
    real = ActiveGroup._reply

    def reply(self: ActiveGroup, call: int, value: Any) -> None:
        check, self.check_active = self.check_active, lambda: 1.0
        real(self, call, value)
        self.check_active = check

    async def ask(self: ActiveGroup, call: Call[Any]) -> Any:
        self.check_active()
        number, answer = self._request(lambda number: ev.Asked(number, call, self._host.now_us()))
        if isinstance(call, Get | GetRange):
            await asyncio.wait([answer], timeout=call.timeout_s)
            if not answer.done():
                self.tell(ev.GetTimedOut(number, call.client_id))
        return await answer

    patch(ActiveGroup, "_reply", reply)
    patch(ActiveGroup, "ask", ask)


def any_batch_can_be_acknowledged(patch: Patch) -> None:
    patch(Ledger, "check_ack", Ledger.find)


def acked_before_written(patch: Patch) -> None:
    real = Group.handle

    def handle(self: Group, event: ev.Event) -> list[do.Instruction]:
        instructions = real(self, event)
        if isinstance(event, ev.Asked) and isinstance(event.call, Ack):
            saves = [save for save in instructions if isinstance(save, do.SaveCursor)]
            return [*(do.Reply(event.number, save.cursor) for save in saves), *instructions]
        return instructions

    patch(Group, "handle", handle)


def a_write_without_an_answer_is_taken_for_a_refused_one(patch: Patch) -> None:
    real = Group.handle

    def handle(self: Group, event: ev.Event) -> list[do.Instruction]:
        instructions = real(self, event)
        if isinstance(event, ev.CursorNotSaved):
            subscriber = self._subscribers.find(event.client_id)
            if subscriber is not None and subscriber.writes.writing:
                subscriber.writes.phase, subscriber.writes.write = WritePhase.IDLE, None
                return [*instructions, *subscriber.save_subscription(self._stream)]
        return instructions

    patch(Group, "handle", handle)


def the_watermark_ignores_a_shard(patch: Patch) -> None:
    def watermark_us(self: Timeline) -> int:
        return int(self._frontiers_us[:1].min())

    patch(Timeline, "watermark_us", property(watermark_us))


def everything_goes_out_at_once(patch: Patch) -> None:
    patch(Timeline, "watermark_us", property(lambda _: END_OF_TIME_US))


def a_low_watermark_is_forgotten(patch: Patch) -> None:
    patch(Timeline, "low_watermark", lambda *_: False)


def fragments_are_interleaved(patch: Patch) -> None:
    patch(Timeline, "_open_tail", lambda _, merged: len(merged))


def keys_are_commit_times(patch: Patch) -> None:
    real = Timeline.append

    def append(self: Timeline, shard: int, run: Any) -> None:
        before = len(self._pending._ranks[0])
        real(self, shard, run)
        for added in self._pending._ranks[0][before:]:
            added["key_us"] = added["commit_us"]

    patch(Timeline, "append", append)


def the_key_of_a_position_is_believed(patch: Patch) -> None:
    """Merging begins at the greatest key of the positions at which the shards were opened."""
    real, note = SortOrder.timeline, Stream.opened
    keys_us: dict[int, int] = {}

    def opened(stream: Stream, event: ev.ShardOpened) -> bool:
        keys_us[event.shard] = event.position.key_us
        return note(stream, event)

    def timeline(order: SortOrder, shards: int) -> Timeline:
        made = real(order, shards)
        for shard in range(shards):
            made.low_watermark(shard, max(keys_us.values(), default=0))
        return made

    patch(Stream, "opened", opened)
    patch(SortOrder, "timeline", timeline)


def equal_keys_lose_their_shards_order(patch: Patch) -> None:
    real = Pending.take

    def take(self: Pending, watermark_us: int) -> Any:
        taken = real(self, watermark_us)
        return taken[np.lexsort((-taken["sequence"], taken["shard"], taken["key_us"]))]

    patch(Pending, "take", take)


def a_rewind_forgets_the_slower_subscriber(patch: Patch) -> None:
    """Shards are opened at the newest cursor instead of the oldest."""
    real = Stream.rewind

    def rewind(self: Stream, cursors: list[GroupPosition], at_us: int) -> Any:
        newest = [max(cursors, key=lambda cursor: cursor.sequence)] if cursors else []
        return real(self, newest, at_us)

    patch(Stream, "rewind", rewind)


def a_rewind_opens_where_the_shards_were_read_to(patch: Patch) -> None:
    """Shards are opened after the outstanding batches, instead of at the acknowledged position."""
    real = Subscribers.rewind

    def rewind(self: Subscribers) -> list[do.Instruction]:
        for subscriber in self._by_id.values():
            outstanding = subscriber.delivery.ledger.outstanding
            if outstanding:
                subscriber.continuation.cursor = outstanding[-1].ack
        return real(self)

    patch(Subscribers, "rewind", rewind)


def what_is_consumed_is_delivered(patch: Patch) -> None:
    """The leading one of two subscribers gets headers again that the other one still needs."""
    real = Subscribers.place

    def place(self: Subscribers) -> list[do.Instruction]:
        instructions = real(self)
        for subscriber in self._by_id.values():
            subscriber.delivery.read_position._consumed = {}
        return instructions

    patch(Subscribers, "place", place)


def rings_are_freed_when_a_batch_is_delivered(patch: Patch) -> None:
    patch(Delivery, "done", property(lambda self: self.read_position.read))


def rings_are_never_freed(patch: Patch) -> None:
    patch(Subscribers, "free", lambda _: [])


def outstanding_batches_have_no_bound(patch: Patch) -> None:
    patch(Ledger, "check_room", lambda _: None)


def an_old_consumer_is_heard(patch: Patch) -> None:
    real = Lease.check_holder
    patch(Lease, "check_holder", lambda self, _, at_us: real(self, self.epoch, at_us))


def an_answer_that_was_lost_is_not_repeated(patch: Patch) -> None:
    patch(Delivery, "_take_back_unseen", lambda *_: None)


def a_get_that_was_given_up_takes_a_batch(patch: Patch) -> None:
    patch(Delivery, "_give_up_gets", lambda _: [])


def canals_port_sees_what_it_has_not_sent(patch: Patch) -> None:
    real = Subscription.get

    async def get(subscription: Subscription, rows_max: int, wait_s: float) -> Batch | None:
        batch = await real(subscription, rows_max, wait_s)
        if batch is not None:
            subscription._seen_id = batch.batch_id
        return batch

    patch(Subscription, "get", get)


def ids_begin_anew(patch: Patch) -> None:
    real = Ledger.__init__
    patch(Ledger, "__init__", lambda self, _, outstanding_max: real(self, 1, outstanding_max))


def positions_move_with_rows_only(patch: Patch) -> None:
    patch(Subscribers, "pass_quiet", lambda _: [])


def batches_are_passed_before_they_are_acknowledged(patch: Patch) -> None:
    """The timer does not look whether a batch is outstanding."""
    real = Continuation.pass_quiet

    def pass_quiet(self: Continuation, stream: Stream) -> bool:
        with mock.patch.object(Ledger, "outstanding", property(lambda _: [])):
            return real(self, stream)

    patch(Continuation, "pass_quiet", pass_quiet)


def a_removed_shard_goes_on(patch: Patch) -> None:
    patch(Stream, "_know_until", staticmethod(lambda *_: None))


def a_removed_shard_leaves_at_once(patch: Patch) -> None:
    """A shard leaves before every client has acknowledged what it had committed."""
    real = Group.handle

    def handle(self: Group, event: ev.Event) -> list[do.Instruction]:
        if isinstance(event, ev.Asked) and isinstance(event.call, RemoveShard):
            event = replace(event, call=replace(event.call, now=True))
        return real(self, event)

    patch(Group, "handle", handle)


def who_left_is_forgotten(patch: Patch) -> None:
    """The next server ignores which shards left, and uses its settings alone."""
    real = Membership.take_roles

    def take_roles(self: Membership, cursors: list[GroupPosition], known: Iterable[str]) -> None:
        real(self, [replace(cursor, retired=()) for cursor in cursors], known)

    patch(Membership, "take_roles", take_roles)


def a_held_shard_is_passed(patch: Patch) -> None:
    real = Stream.give_policy

    def give_policy(self: Stream, shard: int, policy: Policy, at_us: int) -> bool:
        return real(self, shard, Policy.SKIP if policy is Policy.HOLD else policy, at_us)

    patch(Stream, "give_policy", give_policy)


def a_skipped_shard_is_waited_for(patch: Patch) -> None:
    real = Stream.give_policy

    def give_policy(self: Stream, shard: int, policy: Policy, at_us: int) -> bool:
        return policy is not Policy.SKIP and real(self, shard, policy, at_us)

    patch(Stream, "give_policy", give_policy)


def who_was_away_misses_what_others_still_need(patch: Patch) -> None:
    """A client continues at the end of the log, instead of where the others are."""
    real = Continuation.stand_at

    def stand_at(self: Continuation, cursor: GroupPosition, stream: Stream) -> None:
        if self._gave_up_at is not None:
            kept = stream.log.slice(stream.log.base, stream.log.tip)
            cursor = stream.base.past(kept, stream.names, stream.shards, stream.servers, stream.created).ack
        real(self, cursor, stream)

    patch(Continuation, "stand_at", stand_at)


def who_was_away_goes_back_before_its_cursor(patch: Patch) -> None:
    """A client is moved back to where the others are, although its cursor is further."""
    patch(GroupPosition, "further", lambda cursor, _: cursor)


def a_follower_does_not_tell_of_a_loss(patch: Patch) -> None:
    real = ActiveGroup.tell
    patch(ActiveGroup, "tell", lambda self, event: isinstance(event, ev.ShardLost) or real(self, event))


def cursors_of_two_servers_are_compared_by_key(patch: Patch) -> None:
    """Shards are opened at the cursor with the smaller key, though the other lacks some of its GTIDs."""

    def oldest(positions: Sequence[Position]) -> Position:
        return min(positions, key=lambda position: position.key_us)

    patch(canal_group.merge.order.stream, "oldest", oldest)


def an_offset_is_taken_on_any_server(patch: Patch) -> None:
    patch(Position, "is_of", lambda *_: True)


def a_client_joins_a_log_that_has_gone_on(patch: Patch) -> None:
    patch(Stream, "holds", lambda stream, _: stream.merging and stream.base.ack == stream.base.end)


#: faults that leave a write on its way when another server is elected
ELECTIONS = (
    Fault.COORDINATOR_DELAYS,
    Fault.CURSORS_DELAY,
    Fault.KILL_GROUP,
    Fault.HAND_OVER,
    Fault.PAUSE_SERVER,
    Fault.CUT_COORDINATOR,
)
#: faults that make a write arrive after the next election, while its session lives
LATE_WRITES = (Fault.COORDINATOR_DELAYS, Fault.COORDINATOR_DELAYS, Fault.KILL_GROUP, Fault.KILL_GROUP)
#: faults after which a server that waits for a shard resumes too late
AWAKENINGS = (Fault.PAUSE_SERVER, Fault.CUT_COORDINATOR, Fault.SOURCE_AWAY, Fault.CUT_SHARD)
#: faults after which an older consumer's request arrives
TAKEOVERS = (Fault.PAUSE_CONSUMER, Fault.NETWORK_DELAYS, Fault.KILL_CONSUMER)
#: faults that make shards leave, and their servers forget it
DEPARTURES = (Fault.SHARD_LEAVES, Fault.SHARD_LEAVES, Fault.KILL_SERVER, Fault.SHARD_SLOW, Fault.HAND_OVER)
#: faults of a shard that an operator skips or holds
DEAD_SHARDS = (Fault.SHARD_POLICY, Fault.SHARD_POLICY, Fault.SOURCE_AWAY)
#: faults that drop a client id while others have not read everything
ABSENCES = (Fault.CONSUMER_AWAY, Fault.CONSUMER_AWAY, Fault.PAUSE_CONSUMER, Fault.CURSORS_FAIL)
#: faults that give cursors of two servers
FAILOVERS = (Fault.FAILOVER, Fault.FAILOVER, Fault.FAILOVER, Fault.KILL_CONSUMER, Fault.CONSUMER_AWAY)
#: faults after which the answer to a call comes later than its caller waits
LATE_ANSWERS = (Fault.ANSWERS_LATE, Fault.GROUP_SLOW, Fault.GATEWAY_SLOW, Fault.PAUSE_SERVER)
EVERYTHING = FAULTS

#: each mutation, and the faults with which it must be detected
MUTATIONS: tuple[tuple[Callable[[Patch], None], tuple[Fault, ...]], ...] = (
    (a_store_takes_any_epoch, ELECTIONS),
    (zookeeper_takes_any_epoch, LATE_WRITES),
    (a_tenure_never_runs_out, AWAKENINGS),
    (a_server_answers_without_looking_whether_it_is_active, AWAKENINGS),
    (any_batch_can_be_acknowledged, (Fault.FICKLE,)),
    (acked_before_written, EVERYTHING),
    (a_write_without_an_answer_is_taken_for_a_refused_one, EVERYTHING),
    (the_watermark_ignores_a_shard, EVERYTHING),
    (everything_goes_out_at_once, EVERYTHING),
    (a_low_watermark_is_forgotten, EVERYTHING),
    (fragments_are_interleaved, EVERYTHING),
    (keys_are_commit_times, EVERYTHING),
    (the_key_of_a_position_is_believed, (Fault.RANGES,)),
    (equal_keys_lose_their_shards_order, EVERYTHING),
    (a_rewind_forgets_the_slower_subscriber, EVERYTHING),
    (a_rewind_opens_where_the_shards_were_read_to, EVERYTHING),
    (what_is_consumed_is_delivered, EVERYTHING),
    (rings_are_freed_when_a_batch_is_delivered, EVERYTHING),
    (rings_are_never_freed, EVERYTHING),
    (outstanding_batches_have_no_bound, EVERYTHING),
    (an_old_consumer_is_heard, TAKEOVERS),
    (an_answer_that_was_lost_is_not_repeated, EVERYTHING),
    (a_get_that_was_given_up_takes_a_batch, EVERYTHING),
    (canals_port_sees_what_it_has_not_sent, LATE_ANSWERS),
    (ids_begin_anew, EVERYTHING),
    (positions_move_with_rows_only, EVERYTHING),
    (batches_are_passed_before_they_are_acknowledged, EVERYTHING),
    (a_removed_shard_goes_on, DEPARTURES),
    (a_removed_shard_leaves_at_once, DEPARTURES),
    (who_left_is_forgotten, DEPARTURES),
    (a_held_shard_is_passed, DEAD_SHARDS),
    (a_skipped_shard_is_waited_for, EVERYTHING),
    (who_was_away_misses_what_others_still_need, ABSENCES),
    (who_was_away_goes_back_before_its_cursor, ABSENCES),
    (a_follower_does_not_tell_of_a_loss, EVERYTHING),
    (cursors_of_two_servers_are_compared_by_key, FAILOVERS),
    (an_offset_is_taken_on_any_server, FAILOVERS),
    (a_client_joins_a_log_that_has_gone_on, EVERYTHING),
)
