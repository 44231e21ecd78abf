"""All subscribers of one stream: how they change when the stream moves, and when time passes.

Rules:

1. Rows stay in the rings until every kept subscriber has acknowledged them.
2. When shards join or leave, each cursor is written with the new shards.
3. A consumer that waits for an answer counts as alive.
4. A look holds rows only of what others hold anyway, or while it reads: where it stands in the way of the
   others, it ends. Without another client id everything is kept for the first one, whatever a look has read.
5. What nothing is kept of is freed without an acknowledgement, and before the cursor that passes it is
   stored: a cursor from before has the sources read it again.
6. With replays, a client that the log does not hold disturbs nobody: it is served elsewhere. Bounds, stored
   cursors and inactivity concern it nevertheless.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from canal_group.merge.delivery.batch_limits import BatchLimits
from canal_group.merge.delivery.phase import Phase
from canal_group.merge.delivery.subscriber import Subscriber
from canal_group.merge.errors import AccessDenied, DataError, UsageError
from canal_group.merge.events import ConsumerState
from canal_group.merge.instructions import Instruction
from canal_group.merge.order.shard_state import ShardState, refuses_too
from canal_group.merge.order.stream import Stream
from canal_group.merge.values.loss import Purged, found_at_us
from canal_group.merge.values.marks.snapshot_mark import SnapshotEnd
from canal_group.merge.values.offset_range import reaches_back
from canal_group.merge.values.position import ANY_SERVER, GroupPosition, Position


class Subscribers:
    """The client ids of a destination; see the module's rules.

    Args:
        stream: the stream that they consume.
        epoch: fencing epoch of the server.
        limits: bounds of each subscriber's batches.
        lease_us: how long a consumer may be silent before its client id is free again.
        drop_after_us: how long a client id may have no consumer, while another client id has one, before
            nothing is kept for it; the same of one that has acknowledged nothing and did not ask to be kept.
            None: for ever.
        apart_max_us: a client may have the shards opened again at most so far before the other clients, in
            commit time; None: any distance.
        purged: where a client id goes on whose position a source has purged.
        count_max: client ids that there may be; stored ones are kept, however many they are.
        apart: whether a client whose position the log does not hold is served by a replay.
        single: whether they are the one subscriber of a replay.
    """

    def __init__(
        self,
        stream: Stream,
        epoch: int,
        limits: BatchLimits,
        lease_us: int,
        drop_after_us: tuple[int | None, int | None],
        apart_max_us: int | None,
        purged: Purged,
        count_max: int,
        *,
        apart: bool,
        single: bool = False,
    ) -> None:
        self._stream = stream
        self._epoch = epoch
        self._limits = limits
        self._lease_us = lease_us
        self._drop_after_us, self._unacknowledged_us = drop_after_us
        self._apart_max_us = apart_max_us
        self._purged = purged
        self._count_max = count_max
        self._apart = apart
        #: the subscribers that replays serve, by client id
        self.elsewhere: Mapping[str, Subscriber] = {}
        #: log index from which on everything is kept for one that comes from elsewhere; None: for nobody
        self.pin: int | None = None
        #: whether nothing new is delivered: what is outstanding comes to its end first
        self.closing = False
        #: whether the stream is a replay's, with exactly one subscriber, so that nobody waits for the
        #: subscriber
        self._single = single
        self._by_id: dict[str, Subscriber] = {}
        #: whether a client id has subscribed since the election, or before
        self.had_any = False
        #: greatest batch id that a forgotten subscriber was given
        self._given_id = 0

    # ---- client ids ------------------------------------------------------------------------------------

    def find(self, client_id: str) -> Subscriber | None:
        """Return the subscriber of a client id; None: the client id has no subscription here."""
        return self._by_id.get(client_id)

    @property
    def has_replays(self) -> bool:
        """Whether a client can be served by a replay."""
        return self._apart

    @property
    def all(self) -> list[Subscriber]:
        """Every subscriber."""
        return list(self._by_id.values())

    def check_count(self, coming: Collection[str]) -> None:
        """Return if there may be one more client id.

        Args:
            coming: those whose subscription has begun; some may be there already.

        Raises:
            UsageError: there are as many as there may be.
        """
        count = len({*self._by_id, *self.elsewhere, *coming})
        if count >= self._count_max:
            raise UsageError(
                f"The destination has {count} client ids, as many as it may have.",
                hint="Have one that is not used unsubscribe, remove it (`canal-group client list`, `client "
                "remove`), or raise consumer.client_ids_max.",
                client_ids_max=self._count_max,
            )

    def find_or_make(self, client_id: str, *, look: bool = False) -> Subscriber:
        """Return the subscriber of a client id; make one if it has none, which may be a look."""
        if client_id not in self._by_id:
            self.had_any |= not look
            made = Subscriber(client_id, self._epoch, self._limits, self._given_id, look=look)
            self._by_id[client_id] = made
        return self._by_id[client_id]

    def take_out(self, client_id: str) -> Subscriber:
        """Return a subscriber that is served elsewhere from now on."""
        return self._by_id.pop(client_id)

    def adopt(self, subscriber: Subscriber) -> None:
        """Take a subscriber that was served elsewhere."""
        self._by_id[subscriber.client_id] = subscriber

    def forget(self, client_id: str) -> None:
        """Forget a client id; its batch ids are still not given again."""
        forgotten = self._by_id.pop(client_id)
        self._given_id = max(self._given_id, forgotten.delivery.ledger.next_id - 1)

    def restore(self, states: Sequence[ConsumerState], at_us: int) -> None:
        """Take over stored subscriptions. Their consumers may be alive: each gets a lease that starts now."""
        for state in states:
            self.had_any = True
            restored = Subscriber.restored(state, self._epoch, self._limits, at_us)
            self._by_id[state.client_id] = restored

    @property
    def everybody(self) -> list[Subscriber]:
        """All subscribers, those that replays serve included."""
        return [*self._by_id.values(), *self.elsewhere.values()]

    @property
    def _kept(self) -> list[Subscriber]:
        return [subscriber for subscriber in self._by_id.values() if subscriber.kept]

    @property
    def holding(self) -> list[Subscriber]:
        """The subscribers for which the rings hold rows, without looks, unless a replay serves one."""
        return [subscriber for subscriber in self._kept if self._single or not subscriber.look]

    # ---- positions -------------------------------------------------------------------------------------

    @property
    def cursors(self) -> list[GroupPosition]:
        """The known cursors of the subscribers that are kept; if all are looks, also where the log begins."""
        known = [subscriber.cursor for subscriber in self._kept if subscriber.cursor is not None]
        base = self._stream.base.ack
        return [*known, base] if known and base.shards and not self.holding else known

    @property
    def all_placed(self) -> bool:
        """Whether every kept subscriber has a read position in the stream."""
        return all(subscriber.phase is Phase.READING for subscriber in self._kept)

    @property
    def seeking(self) -> bool:
        """Whether a subscriber was positioned before the start of the log."""
        return any(subscriber.phase is Phase.SEEKING for subscriber in self._by_id.values())

    @property
    def reconciled(self) -> bool:
        """Whether every stored cursor has the current shards."""
        stored = (each for each in self.everybody if each.phase is not Phase.LEAVING)
        return not any(each.writes.lacks_changes for each in stored if each.writes.durable)

    def others_consume(self, client_id: str) -> bool:
        """Return whether a rewind would roll back another client too."""
        if self._apart:
            return False
        return any(each.client_id != client_id and each.lease.holder for each in self.holding)

    def check_alone(self, client_id: str) -> None:
        """Return if reading the sources again for a client rolls back no other client.

        Raises:
            AccessDenied: another client consumes. The message does not name it: only operators may know.
        """
        if self.others_consume(client_id):
            raise AccessDenied(
                f"The sources would have to be read again for client {client_id}, and another client would "
                "be rolled back for it.",
                hint="Use a token whose entry in gateway.clients says `rewind: true`, or ask while no other "
                "client consumes.",
                client=client_id,
            )

    def check_apart(self, client_id: str, start: GroupPosition) -> None:
        """Return if a client may read from `start`, although the shards have to be opened again for that.

        The other clients get nothing new until the sources are read again up to their positions. The distance
        is measured in commit time; a position without a commit time is accepted.

        Raises:
            UsageError: `start` is too far before another client that has a consumer.
        """
        base = self._stream.base.ack.shards
        held = not self._stream.merging or reaches_back(base, start.shards)
        if self._apart or self._apart_max_us is None or held:
            return
        for other in self.holding:
            if other.client_id == client_id or not other.lease.holder or other.cursor is None:
                continue
            for shard, position in start.shards.items():
                further = other.cursor.shards.get(shard, position)
                apart_us = further.commit_us - position.commit_us if position.commit_us else 0
                if apart_us > self._apart_max_us:
                    raise UsageError(
                        f"Client {client_id} asks for what shard {shard} committed {apart_us / 1e6:.0f} s"
                        " before what another client has read; the limit is "
                        f"{self._apart_max_us / 1e6:.0f} s.",
                        hint="Read those rows through a separate instance for these shards, or raise "
                        "consumer.apart_max_s. Every other client waits while the sources are read again.",
                        shard=shard,
                        apart_s=apart_us / 1e6,
                    )

    def positions_of(self, shard: str) -> dict[str, str]:
        """Return the position of each cursor in a shard as text, by client id."""
        return {
            subscriber.client_id: str(subscriber.cursor.shards[shard])
            for subscriber in self.everybody
            if subscriber.cursor is not None and shard in subscriber.cursor.shards
        }

    def first_position(
        self, client_id: str, start: GroupPosition | None, ends: Mapping[str, Position]
    ) -> GroupPosition | None:
        """Return where a client id begins that did not choose; None: where the merged log begins.

        That is for the first one: without any client id everything is kept for it.

        Args:
            client_id: the client id.
            start: where the instance file has it begin; None: nowhere in particular.
            ends: where the sources' logs end; on any other shard it begins after what came in.
        """
        alone = {each.client_id for each in self.everybody if not each.look} <= {client_id}
        if alone and (start is None or not self.had_any):
            return None
        said = self._stream.membership.said
        if not self._stream.merging:
            return said(GroupPosition({**ends, **(start.shards if start is not None else {})}))
        base = self._stream.base.ack
        known = base if alone else self._stream.known_end()
        asked = (
            {} if alone else {name: ends[name] for name in ends if self._stream.holds_after(name, ends[name])}
        )
        chosen = {} if start is None else said(start).shards
        found = {**known.shards, **asked, **chosen}
        # Its rows are numbered from where the log begins, however many it does not get.
        return replace(base, shards={name: found[name] for name in base.shards})

    # ---- the stream moves ------------------------------------------------------------------------------

    def rewind(self) -> list[Instruction]:
        """Forget what is outstanding. A consumer is told before it gets anything again."""
        return [refusal for each in self._by_id.values() for refusal in each.continuation.rewind()]

    def place(self) -> list[Instruction]:
        """Position every kept subscriber at its cursor: merging has begun.

        For the client of a replay that sought another position since, the shards are opened again: there may
        be pages in them that it has passed.
        """
        instructions: list[Instruction] = []
        for subscriber in self._kept:
            if self._apart and subscriber.phase is Phase.SEEKING:
                continue
            cursor = subscriber.cursor or self._stream.base.ack
            subscriber.continuation.stand_at(cursor, self._stream)
            instructions += subscriber.save_subscription(self._stream)
        return instructions

    def note_departure(self, shard: str, end: Position) -> None:
        """Note that a shard leaves, after a position, without those for which no rows are held."""
        for subscriber in self._by_id.values():
            if subscriber.phase in (Phase.DROPPED, Phase.PURGED):
                subscriber.continuation.miss(shard, end)

    def reconcile(self) -> list[Instruction]:
        """Give every cursor the current shards and write it; repeat a write that failed before."""
        instructions: list[Instruction] = []
        for subscriber in self.everybody:
            subscriber.continuation.reconcile(self._stream)
            instructions += subscriber.save_subscription(self._stream)
        return instructions

    def serve(self) -> list[Instruction]:
        """Answer the waiting gets for which there are batches."""
        if not self._stream.merging or self.closing:
            return []
        served = [answer for subscriber in self._kept for answer in subscriber.serve(self._stream)]
        return served + self.free()

    def free(self) -> list[Instruction]:
        """Free what every kept subscriber has consumed; without any, keep everything for the first one."""
        if not self._stream.merging or not self.holding or not self.all_placed:
            return []
        for subscriber in self._kept:
            subscriber.delivery.read_position.skip_consumed(self._stream)
        done = min(subscriber.delivery.done for subscriber in self._kept)
        return [*self._stream.free(done if self.pin is None else min(done, self.pin))]

    def snapshots_ended(self, shard: str, ends: Iterable[SnapshotEnd]) -> list[Instruction]:
        """Note the ends of snapshots of a shard, and write the subscriptions that they change."""
        for subscriber, end in product(self._by_id.values(), ends):
            subscriber.continuation.snapshot_ended(shard, end)
        return [write for each in self._kept for write in each.save_subscription(self._stream)]

    def pass_quiet(self) -> list[Instruction]:
        """Move cursors past transactions of which nothing is kept, and write those that moved; see `free`."""
        moved = [each for each in self._kept if each.continuation.pass_quiet(self._stream)]
        return [write for each in moved for write in each.save_subscription(self._stream)]

    # ---- time passes -----------------------------------------------------------------------------------

    def release_silent(self, at_us: int, *, reachable: bool) -> list[Instruction]:
        """Release consumers whose lease has expired; none expires while consumers cannot reach the server.

        Outstanding batches grow older by the same clock.
        """
        instructions: list[Instruction] = []
        for subscriber in self._by_id.values():
            lease = subscriber.lease
            subscriber.delivery.ledger.saw(at_us)
            if subscriber.busy or (lease.holder and not reachable):
                lease.seen_us = at_us
            elif lease.holder and at_us - lease.seen_us > self._lease_us:
                instructions += subscriber.release()
        return [*instructions, *self.free()] if instructions else []

    def drop_away(self, at_us: int) -> list[Instruction]:
        """Drop client ids that had no consumer for too long, if another client id has one."""
        if not any(each.lease.holder and each.kept and not each.look for each in self.everybody):
            return []
        instructions: list[Instruction] = []
        for subscriber in self.everybody:
            if subscriber.phase in (Phase.DROPPED, Phase.LEAVING):
                continue
            away_us = at_us - subscriber.lease.seen_us
            at_rest = not subscriber.busy and not subscriber.writes.writing
            limits_us = [self._drop_after_us]
            if not subscriber.continuation.lasting:
                limits_us.append(self._unacknowledged_us)
            over = any(limit_us is not None and away_us > limit_us for limit_us in limits_us)
            if not subscriber.lease.holder and at_rest and over:
                subscriber.continuation.drop()
                instructions += subscriber.save_subscription(self._stream)
        return [*instructions, *self.free()] if instructions else []

    def end_looks(self, at_us: int) -> list[Instruction]:
        """End each look that keeps a ring full which the others have consumed, if it does not read."""
        looks = [each for each in self._kept if each.look and at_us - each.read_us > self._lease_us]
        others = [each.delivery.done for each in self.holding]
        if not looks or not others or not self._stream.crowded or not self.all_placed:
            return []
        in_the_way = [look for look in looks if look.delivery.done < min(others)]
        ended = [instruction for look in in_the_way for instruction in look.release()]
        return [*ended, *self.free()] if ended else []

    def save_again(self) -> list[Instruction]:
        """Repeat the writes and removals that the cursor store has not confirmed."""
        return [
            instruction
            for subscriber in self._by_id.values()
            for instruction in subscriber.save_again(self._stream)
        ]

    # ---- purged sources --------------------------------------------------------------------------------

    def purge(
        self, shard: str, position: Position, error: DataError, *, waited: bool
    ) -> list[Instruction] | None:
        """Note that a source does not have what is at `position`, which a shard was asked for.

        One client cannot stop the others, so the subscribers that need the position move or are set aside:

        - a subscriber that sought the position is refused at once;
        - any other keeps it until `waited`;
        - then it moves to where the policy says, if the source says where that is, and not too often;
        - else it keeps it for as long as every kept subscriber needs it, unless a replay serves it;
        - a subscriber that started with this log, which brought nothing, starts where the next log starts.
          If its consumer was told where it begins, what lies between is a loss.

        Args:
            shard: its name.
            position: where it was asked to open, or up to where a subscriber has read.
            error: why it cannot open there.
            waited: whether the address had time to lead to another server.

        Returns:
            What has to be done; None: nothing yet. Otherwise a rewind has to follow.
        """
        found = self._needing(shard, position, error)
        need = [subscriber for subscriber in found if not subscriber.continuation.new]
        seek = [subscriber for subscriber in need if subscriber.continuation.seeks]
        if not seek and need and self._moves(shard, need, error):
            return self._move_over(shard, found, need, error) if waited else None
        needing = [subscriber for subscriber in need if not subscriber.look]
        stops_all = len(needing) == len(self.holding) and not self._single
        if not seek and need and (not waited or stops_all):
            return None
        self._begin_anew(found, error)
        return [refusal for subscriber in seek or need for refusal in subscriber.continuation.purge(error)]

    def end_before_event(self, shard: str, state: ShardState) -> list[Instruction] | None:
        """Set aside the subscribers that have not passed the event that stopped a shard, if others have.

        If every subscriber still needs the event, the shard stays where it is: nothing is left out.

        Args:
            shard: its name.
            state: the state of the shard, which an event has stopped.

        Returns:
            Instructions that a rewind has to follow; None: the shard stays where it is.
        """
        passed: dict[bool | None, list[Subscriber]] = {True: [], False: [], None: []}
        for subscriber in self._kept:
            passed[subscriber.continuation.has_passed(shard, state, self._stream)].append(subscriber)
        if self._single or not any(subscriber in self.holding for subscriber in passed[True]):
            return None
        if not passed[False] and (passed[None] or not state.begins_before_event):
            return None
        error = state.error
        assert isinstance(error, DataError), "an event stopped the shard"
        return [refusal for each in passed[False] for refusal in each.continuation.purge(error)]

    @staticmethod
    def _begin_anew(found: Sequence[Subscriber], error: DataError) -> None:
        for newcomer in found:
            if newcomer.continuation.new:
                newcomer.continuation.begin_anew(found_at_us(error))

    def _moves(self, shard: str, need: Sequence[Subscriber], error: DataError) -> bool:
        known = self._purged.goes_on_at(error) is not None
        return known and any(subscriber.continuation.may_move_over(shard) for subscriber in need)

    def _move_over(
        self, shard: str, found: Sequence[Subscriber], need: Sequence[Subscriber], error: DataError
    ) -> list[Instruction] | None:
        """Move subscribers to where the policy says; None: not before their writes are answered."""
        until = self._purged.goes_on_at(error)
        assert until is not None, "it was asked for before"
        moving = [subscriber for subscriber in need if subscriber.continuation.may_move_over(shard)]
        if any(subscriber.writes.writing for subscriber in moving):
            return None
        for subscriber in moving:
            subscriber.continuation.move_over(shard, until, found_at_us(error), self._stream)
        self._begin_anew(found, error)
        return []

    def _needing(self, shard: str, position: Position, error: DataError) -> list[Subscriber]:
        """Return the subscribers for which a shard was asked to open at `position`.

        If the position is the one that several cursors share by GTID, return the one with the smallest key.
        If the error is one for other positions too, return every subscriber at such a position: all of them
        or none are set aside, see `refuses_too`.
        """
        need = [each for each in self._kept if each.continuation.needs(shard, position, self._stream)]
        alike = [
            each
            for each in self._kept
            if (at := each.continuation.position_in(shard, self._stream)) is not None
            and refuses_too(error, position, at)
        ]
        if alike:
            return alike
        if need or position.server != ANY_SERVER:
            return need
        keys = {
            subscriber.client_id: subscriber.cursor.shards[shard].key_us
            for subscriber in self._kept
            if subscriber.cursor is not None and shard in subscriber.cursor.shards
        }
        return [self._by_id[min(keys, key=lambda client_id: keys[client_id])]] if keys else []

    # ---- for operators, and for tests ------------------------------------------------------------------

    def validate(self) -> None:
        """Assert what holds between two events."""
        for subscriber in self._by_id.values():
            subscriber.validate(self._stream)

    def describe(self, at_us: int) -> list[dict[str, Any]]:
        """Return each subscriber's state as a JSON object; `at_us` as for `release_silent`."""
        return [subscriber.describe(at_us, self._stream) for subscriber in self._by_id.values()]
