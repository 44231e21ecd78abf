"""A group with replays: which stream serves a client, and when it changes.

Rules:

1. The live stream never goes back for a client. One that it does not hold, because it was away, is slow, was
   rewound or asked for an old range, gets a replay: it is as if the server had failed over for it alone.
2. Clients wait in a full ring for the slowest ones, which are a whole ring behind: those are taken out after
   `SLOW_US`.
3. A client joins the live stream when that holds all that follows its cursor, and no batch is outstanding.
   For this the live stream keeps more than its clients need, up to half of a ring. It is opened again if it
   begins inside a transaction and no consumer reads it.
4. At most `replays_max` replays have rings. The others wait for them, in order, and for their consumers.
   After `replay_turn_us` the one that has read least gives its rings to one that has waited so long, and is
   the last to wait: so a client that acknowledges nothing, or never catches up, stops nobody.
5. A replay begins anew when shards join or leave. No shard leaves while there are replays.
6. A client for which nothing is kept has no replay.
7. A client whose snapshot is not over has a replay until it is: the live log has no pages.
8. The archives keep what the clients read that are kept, wherever these are served.
"""

from __future__ import annotations

from itertools import count
from typing import Any, Final

from canal_group.merge.delivery.phase import Phase
from canal_group.merge.delivery.subscriber import Subscriber
from canal_group.merge.errors import RetryableError
from canal_group.merge.event_skips import Stop
from canal_group.merge.events import Asked, Event, ShardReported, Ticked
from canal_group.merge.group import Group, GroupSettings
from canal_group.merge.instructions import Instruction, KeepArchived, OpenShard
from canal_group.merge.replay.replay import Replay, ReplayState
from canal_group.merge.state_words import client_words
from canal_group.merge.values.lane import LIVE, lane_of
from canal_group.merge.values.retention.kept_position import RINGS, KeptPosition, kept_files

#: how long clients wait for the slowest before it is taken out, microseconds
SLOW_US: Final = 1_000_000
#: how far a client may be behind the foremost when the shards are opened, microseconds of commit time; what
#: is further back is replayed
APART_US: Final = 30_000_000
#: how long a replay goes on without a consumer, microseconds
CONSUMER_GONE_US: Final = 10_000_000
#: the part of a ring, as a divisor, that is kept for a client that comes from a replay
KEPT_PARTS: Final = 2


class ReplayingGroup(Group):
    """A group whose slow readers are on their own; see the module's rules.

    Args:
        settings: shards, limits and intervals; `replays_max` is greater than 0.
        epoch: fencing epoch of the server that runs it.
    """

    def __init__(self, settings: GroupSettings, epoch: int) -> None:
        super().__init__(settings, epoch)
        #: by client id, in the order in which they were made
        self._replays: dict[str, Replay] = {}
        self._elsewhere: dict[str, Subscriber] = {}
        self._subscribers.elsewhere = self._elsewhere
        self._lanes = count(LIVE + 1)
        self._by_lane: dict[int, Replay] = {}
        #: where the live log began when replays were arranged last
        self._arranged_at = self._stream.base
        self._now_us = 0
        self._ticked_us = 0
        #: by shard_index: what its archive was told to keep
        self._archived: dict[int, tuple[KeptPosition, ...]] = {}
        #: for how long others have waited for the slowest client, less what they did not
        self._slow_us = 0

    def handle(self, event: Event) -> list[Instruction]:
        """Handle an event and return the instructions, in order."""
        self._now_us = getattr(event, "at_us", self._now_us)
        lane = lane_of(getattr(event, "generation", LIVE))
        if lane == LIVE:
            asked = event.call if isinstance(event, Asked) else event
            replay = self._replays.get(getattr(asked, "client_id", ""))
        else:
            replay = self._by_lane.get(lane)
            if replay is None:
                return []
        instructions = super().handle(event) if replay is None else replay.handle(event)
        if isinstance(event, Ticked):
            for each in self._replays.values():
                instructions += each.handle(event)
            instructions += [*self._relieve(event.at_us), *self._begin_between(event.at_us)]
            instructions += self._take_turns(event.at_us)
        # Most events are reports. One that leaves the live log's base as it is begins and ends no replay.
        if not isinstance(event, ShardReported) or self._stream.base is not self._arranged_at:
            instructions += self._arrange()
        instructions += self._keep(look=isinstance(event, Ticked))
        # Before shards are opened: their archives remove what nobody is known to need.
        opens = any(isinstance(each, OpenShard) for each in instructions)
        return [*self._keep_archived(), *instructions] if opens or isinstance(event, Ticked) else instructions

    def _keep_archived(self) -> list[Instruction]:
        """Tell the archives from where on clients read, if that is new."""
        clients = [(each.client_id, each.cursor) for each in self._subscribers.everybody if each.kept]
        if self._stream.merging:
            clients.append((RINGS, self._stream.base.ack))
        told = list[Instruction]()
        for shard, name in enumerate(self._stream.shards):
            positions = [
                (owner, cursor.shards[name]) for owner, cursor in clients if cursor and name in cursor.shards
            ]
            needed = kept_files(positions)
            if needed != self._archived.get(shard, ()):
                self._archived[shard] = needed
                told.append(KeepArchived(shard, needed))
        return told

    # ---- from the live stream to a replay ----------------------------------------------------------------

    def _move(self, subscriber: Subscriber) -> list[Instruction]:
        """Have a client served by a replay."""
        refusals = subscriber.continuation.rewind()
        self._subscribers.take_out(subscriber.client_id)
        self._make(subscriber)
        return refusals

    def _make(self, subscriber: Subscriber) -> None:
        lane = next(self._lanes)
        made = Replay(self.settings, self.epoch, lane, self._leasing, self._stream, subscriber, self._now_us)
        self._replays[subscriber.client_id] = self._by_lane[lane] = made
        self._elsewhere[subscriber.client_id] = subscriber

    def _open_for_clients(self, at_us: int) -> list[Instruction]:
        if not self._stream.merging:
            return self._rewind(at_us)
        behind = [each for each in self._subscribers.all if each.kept and each.phase is not Phase.READING]
        moved = [instruction for each in behind for instruction in self._move(each)]
        return [*moved, *self._subscribers.serve()]

    def _rewind(self, at_us: int) -> list[Instruction]:
        moved = [*self._move_snapshots(), *self._set_apart()]
        self._subscribers.pin = None
        return [*moved, *super()._rewind(at_us)]

    def _set_apart(self) -> list[Instruction]:
        """Take out the clients that are far behind the foremost: the shards are opened for the others."""
        kept = [
            (each, each.cursor.shards)
            for each in self._subscribers.all
            if each.kept and each.cursor is not None
        ]
        clients = [found for found in kept if not found[0].look] or kept
        consumed = [found for found in clients if found[0].lease.holder] or clients
        if not consumed:
            return []
        _, foremost = max(consumed, key=lambda found: sum(at.commit_us for at in found[1].values()))
        behind = [
            each
            for each, shards in kept
            if any(
                at.commit_us and name in foremost and foremost[name].commit_us - at.commit_us > APART_US
                for name, at in shards.items()
            )
        ]
        return [instruction for each in behind for instruction in self._move(each)]

    def _move_snapshots(self) -> list[Instruction]:
        kept = [each for each in self._subscribers.all if each.kept]
        reading = [each for each in kept if each.cursor is not None and each.cursor.snapshots]
        return [instruction for each in reading for instruction in self._move(each)]

    def _went_on(self, was_merging: bool) -> list[Instruction]:
        begins = self._stream.merging and not was_merging
        return [*(self._move_snapshots() if begins else ()), *super()._went_on(was_merging)]

    def _relieve(self, at_us: int) -> list[Instruction]:
        """Take out the clients for which the others wait, if they have done so for long enough."""
        # A late tick does not show for how long they have waited.
        passed_us, self._ticked_us = min(at_us - self._ticked_us, SLOW_US // 2), at_us
        slow = self._slowest()
        self._slow_us = max(0, self._slow_us + (passed_us if slow else -passed_us))
        if not slow or self._slow_us < SLOW_US:
            return []
        self._slow_us = 0
        moved = [instruction for each in slow for instruction in self._move(each)]
        return [*moved, *self._subscribers.serve()]

    def _begin_between(self, at_us: int) -> list[Instruction]:
        """Have the live log begin between transactions, where clients can join, if no consumer reads it."""
        inside = self._stream.merging and self._stream.base.inside
        read = any(each.kept and each.lease.holder for each in self._subscribers.all)
        return self._rewind(at_us) if self._replays and inside and not read else []

    def _slowest(self) -> list[Subscriber]:
        """Return the clients that a full ring is kept for while another one has read all of it."""
        holding, stream = self._subscribers.holding, self._stream
        if not holding or not stream.merging or not stream.crowded or not self._subscribers.all_placed:
            return []
        least = min(each.delivery.done for each in holding)
        waits = any(
            each.lease.holder and each.delivery.read_position.read >= stream.log.tip
            for each in holding
            if each.delivery.done > least
        )
        return [each for each in holding if each.delivery.done == least] if waits else []

    # ---- from a replay to the live stream ----------------------------------------------------------------

    def _arrange(self) -> list[Instruction]:
        """Begin, join and end replays, as far as that is possible now."""
        instructions: list[Instruction] = []
        self._arranged_at = self._stream.base
        if not self._replays:
            return instructions
        signature = self._stream.membership.signature
        for replay in list(self._replays.values()):
            if replay.signature != signature or self._consumer_gone(replay):
                instructions += self._end(replay)
                self._make(replay.subscriber)
        for replay in list(self._replays.values()):
            subscriber = replay.subscriber
            if not subscriber.kept:
                instructions += self._end(replay)
                self._subscribers.adopt(subscriber)
                continue
            joins, answers = replay.approach(self._now_us)
            instructions += answers
            if joins:
                instructions += [*self._end(replay), *self._join(subscriber)]
        return [*instructions, *self._begin()]

    def _end(self, replay: Replay) -> list[Instruction]:
        client_id = replay.subscriber.client_id
        del self._replays[client_id], self._elsewhere[client_id], self._by_lane[replay.lane]
        return replay.end()

    def _join(self, subscriber: Subscriber) -> list[Instruction]:
        assert subscriber.cursor is not None, "it has reached the live stream"
        self._subscribers.adopt(subscriber)
        subscriber.continuation.stand_at(subscriber.cursor, self._stream)
        return [*subscriber.save_subscription(self._stream), *self._subscribers.serve()]

    def _consumer_gone(self, replay: Replay) -> bool:
        """Return whether a replay holds rings that no consumer reads."""
        lease = replay.subscriber.lease
        gone = not lease.holder and self._now_us - lease.seen_us > CONSUMER_GONE_US
        return gone and replay.state is not ReplayState.WAITING

    def _begin(self) -> list[Instruction]:
        instructions: list[Instruction] = []
        waiting = [each for each in self._replays.values() if each.state is ReplayState.WAITING]
        room = self.settings.replays_max - (len(self._replays) - len(waiting))
        for replay in waiting:
            if not replay.subscriber.lease.holder or not self._stream.membership.settled:
                continue
            if room <= 0:
                replay.waits_for = replay.waits_for or self._queued(replay)
                continue
            room -= 1
            replay.waits_for = None
            instructions += replay.begin(self._now_us)
        return instructions

    def _take_turns(self, at_us: int) -> list[Instruction]:
        """Take the rings of the replay that has read least, if another one has waited for its turn."""
        turn_us = self.settings.replay_turn_us
        over = [each for each in self._replays.values() if each.turn_us(at_us) >= turn_us]
        waiting = [each for each in over if each.waits_for is not None and each.subscriber.lease.holder]
        running = [each for each in over if each.state is ReplayState.RUNNING]
        if not waiting or not running:
            return []
        slowest = min(running, key=lambda each: each.pace(at_us))
        ended = self._end(slowest)
        self._make(slowest.subscriber)
        return ended

    def _queued(self, replay: Replay) -> RetryableError:
        running = self.settings.replays_max
        return RetryableError(
            f"Client {replay.subscriber.client_id} waits for a replay: its position is further back than the "
            f"rings, and {running} other clients are being replayed.",
            hint="It goes on when one of them has caught up, or has had its turn; consumer.replays_max says "
            "how many may be.",
            retry_after_s=1.0,
        )

    def _keep(self, *, look: bool) -> list[Instruction]:
        """Keep more in the rings than the live clients need, for those that come from replays.

        Args:
            look: whether to look at how much that is.
        """
        subscribers, stream = self._subscribers, self._stream
        begun = any(each.state is not ReplayState.WAITING for each in self._replays.values())
        before, freed = subscribers.pin, list[Instruction]()
        much = before is not None and (stream.crowded or (look and self._keeps_much(before)))
        if before is not None and (much or not begun):
            subscribers.pin = None
            freed = subscribers.free()
        # No client joins inside a transaction.
        if begun and subscribers.pin is None and stream.merging and not stream.base.inside:
            subscribers.pin = stream.log.base
        return freed

    def _keeps_much(self, pin: int) -> bool:
        limits, kept = self.settings.limits, self._stream.log.most_since(pin)
        return any(
            most is not None and held * KEPT_PARTS > most
            for held, most in zip(kept, (limits.ring_headers_max, limits.ring_bytes_max), strict=True)
        )

    def _drained(self) -> list[int]:
        # A cursor elsewhere would lose what it has not passed of the shard.
        return [] if self._replays else super()._drained()

    # ---- for people, and for tests -----------------------------------------------------------------------

    def stops_of(self, name: str) -> list[Stop]:
        """Return where a shard stands in the live stream and in replays."""
        return [*super().stops_of(name), *(each.stop_of(name) for each in self._replays.values())]

    def describe(self, at_us: int) -> dict[str, Any]:
        """Return the group's state as a JSON object, see `Group.describe`; clients of replays say so."""
        state = super().describe(at_us)
        clients = [each.describe_client(at_us) for each in self._replays.values()]
        served = [{**client, "words": client_words(client, ())} for client in clients]
        return {
            **state,
            "clients": [*state["clients"], *served],
            "replays": {
                "max": self.settings.replays_max,
                **{
                    each.value: sum(replay.state is each for replay in self._replays.values())
                    for each in ReplayState
                },
            },
        }

    def validate(self) -> None:
        """Assert what holds between two events."""
        super().validate()
        for client_id, replay in self._replays.items():
            replay.validate()
            assert self._subscribers.find(client_id) is None, "one stream serves a client"
        begun = sum(replay.state is not ReplayState.WAITING for replay in self._replays.values())
        assert begun <= self.settings.replays_max, "no more replays than there may be"
        assert self._elsewhere.keys() == self._replays.keys()
