"""The stream: the shards of a group, merged into one log.

Rules:

1. There is one recovery: a *rewind*. Everything that came in is forgotten and every shard is opened again,
   under a new generation. Events of an older generation are ignored.
2. Merging begins when the position of every member is known. Reports that come earlier are kept until then.
   A shard that the cursors do not know joins a running stream, which does not wait for it until it has caught
   up. While the cursors have a shard that the settings lack, merging does not begin.
3. The other shards continue without a shard for which they need not wait, see `waiting`. At least one shard
   has to remain.
4. If part of a transaction is out when its shard is skipped, a rewind rolls it back. The other shards
   continue, and the whole transaction comes again later.
5. A shard leaves when everything that it committed before the request to remove it is freed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from canal_group.merge.errors import CanalGroupError, ConfigError, PositionPurged
from canal_group.merge.events import ShardFailed, ShardNotOpened, ShardOpened, ShardReported
from canal_group.merge.instructions import FreeRing, OpenShard
from canal_group.merge.order.ddl.gate import DdlGate
from canal_group.merge.order.ddl.policy import Origin
from canal_group.merge.order.ddl.rounds import Shards
from canal_group.merge.order.dead_shard import DeadShard
from canal_group.merge.order.leaving import Leaving
from canal_group.merge.order.membership import Membership
from canal_group.merge.order.merged_log import MergedLog
from canal_group.merge.order.shard_keys import Counters
from canal_group.merge.order.shard_state import ShardPhase, ShardState
from canal_group.merge.order.sort_order import SortOrder
from canal_group.merge.order.timeline import Timeline
from canal_group.merge.order.waiting import Waiting
from canal_group.merge.values.commit_time import END_OF_TIME_US
from canal_group.merge.values.header import Headers, no_headers
from canal_group.merge.values.lane import LIVE, before_first
from canal_group.merge.values.member import Policy, Role
from canal_group.merge.values.offset_range import reaches_back
from canal_group.merge.values.position import GroupPosition, Position, furthest, oldest
from canal_group.merge.values.progress import Progress


class Stream:
    """Merges the shards of a group, which its membership knows; see the module's rules.

    Args:
        shards: names by shard_index.
        dead_shard: whether to continue without a silent shard.
        order: by what transactions are ordered.
        lane: see `canal_group.merge.values.lane`.
    """

    def __init__(
        self, shards: tuple[str, ...], dead_shard: DeadShard, order: SortOrder, lane: int = LIVE
    ) -> None:
        #: which shards belong to the group
        self.membership = Membership(shards)
        self.order = order
        #: grows with each rewind
        self.generation = before_first(lane)
        self._live = lane == LIVE
        #: headers that went out of the timeline and that some subscriber has not acknowledged
        self.log = MergedLog(len(shards))
        #: where the log begins; it has the positions of the members
        self.base = Progress.at(GroupPosition())
        #: by shard_index
        self.states = [ShardState() for _ in shards]
        #: what was counted in earlier generations
        self._counters_before = Counters()
        withheld_us = order.commit_times.replica_lag_max_us
        # These share both lists, which are changed in place.
        self._waiting = Waiting(self.membership.members, self.states, dead_shard, withheld_us)
        #: shards that are leaving
        self.leaving = Leaving(self.membership.members, self.states)
        self._timeline: Timeline | None = None
        #: holds headers until decisions on DDL are durable
        self.ddl = DdlGate()

    @property
    def timeline(self) -> Timeline | None:
        """The timeline of this generation; None if merging has not begun."""
        return self._timeline

    @property
    def merging(self) -> bool:
        """Whether merging has begun in this generation."""
        return self._timeline is not None

    @property
    def counters(self) -> Counters:
        """What was counted of all shards, in every generation."""
        now = self._timeline.counters if self._timeline is not None else Counters()
        return self._counters_before + now

    @property
    def held_by_full(self) -> int | None:
        """The shard with a full ring for which pending headers wait, or None."""
        holding = self._timeline.held_by() if self._timeline is not None else None
        return holding if holding is not None and self.states[holding].full else None

    @property
    def crowded(self) -> bool:
        """Whether a ring is full of merged headers: its shard brings no more until some of them are freed."""
        # Looked at with each tick, while the log has a whole ring of each shard.
        return any(map(self.is_crowded, range(len(self.states))))

    def is_crowded(self, shard: int) -> bool:
        """Return whether the ring of a shard is full of merged headers, see `crowded`."""
        state = self.states[shard]
        return state.full and state.freed < self.log.last_of(shard) == state.taken

    def first_kept(self, shard: int) -> int | None:
        """Return the log index of a shard's oldest merged header; None if all of them are freed."""
        return self.log.first_of(shard) if self.states[shard].freed < self.log.last_of(shard) else None

    @property
    def shards(self) -> tuple[str, ...]:
        """Names of the shards that the log's headers come from, by shard_index."""
        return self.membership.shards

    @property
    def names(self) -> tuple[str, ...]:
        """The strings to which the indexes in the log's headers point."""
        return self._timeline.names.as_tuple() if self._timeline is not None else ()

    @property
    def servers(self) -> tuple[str, ...]:
        """Identities of the servers that the log's headers come from, by shard_index."""
        return tuple(state.server for state in self.states)

    @property
    def created(self) -> tuple[Mapping[str, int], ...]:
        """When the binlog files of the log's headers were created, by shard_index and file name."""
        return tuple(state.created for state in self.states)

    @property
    def snapshots(self) -> tuple[Mapping[int, str], ...]:
        """Texts of snapshots that count from headers of the log on, by shard_index and sequence."""
        return tuple(state.snapshots for state in self.states)

    def failure(self, cursor: GroupPosition | None) -> CanalGroupError | None:
        """Return the error that stops the stream until an operator acts; None if there is none.

        Args:
            cursor: cursor of the subscriber that asks. A purged position that it does not need is
                not a failure for it, nor is an event that it has passed.
        """
        if self.membership.orphans:
            return ConfigError(
                f"The cursors hold shard {self.membership.orphans[0]}, which the settings do not have.",
                hint="Put it back into the instance file, or give up the rows that it has not delivered: "
                f"canal-group shard remove --now {self.membership.orphans[0]}.",
                shard=self.membership.orphans[0],
            )
        for index, (member, state) in enumerate(zip(self.membership.members, self.states, strict=True)):
            skipped = self._timeline is not None and self._timeline.excluded(index)
            own = state.concerns(None if cursor is None else cursor.shards.get(member.name))
            if member.counted and state.phase is ShardPhase.FAILED and not skipped and own:
                return state.error
        return None

    # ---- recovery --------------------------------------------------------------------------------------

    def begin_as(self, other: Stream) -> None:
        """Take the shards of another stream, and where it begins; a rewind has to follow."""
        self.membership.take(other.membership)
        self.base = other.base

    def rewind(
        self, cursors: Sequence[GroupPosition], at_us: int, elsewhere: Sequence[GroupPosition] = ()
    ) -> list[OpenShard]:
        """Forget what came in, and open every shard at the oldest of the cursors under a new generation.

        Args:
            cursors: cursors of the client ids that read this stream.
            at_us: now.
            elsewhere: other cursors of the group; they say which shards there are.
        """
        skipped = self._skipped()
        self.generation += 1
        self._counters_before = self.counters
        self._timeline, self.log = None, MergedLog(len(self.states))
        self.leaving.drained.clear()
        self.ddl.rewind()
        sequence = min((cursor.sequence for cursor in cursors), default=self.base.ack.sequence)
        self.membership.take_roles([*cursors, *elsewhere], self.base.ack.shards)
        cursors = [self.membership.with_joined(cursor) for cursor in cursors]
        # Without a cursor a shard continues where the log began.
        self.base = Progress.at(self.membership.without_retired(replace(self.base.ack, sequence=sequence)))
        opening: list[OpenShard] = []
        for index, member in enumerate(self.membership.members):
            before = self.states[index]
            known = [cursor.shards[member.name] for cursor in cursors if member.name in cursor.shards]
            asked_at = oldest(known) if known else self.base.ack.shards.get(member.name)
            asked_at = asked_at or before.opened_at or before.asked_at or member.start
            moved_us = before.moved_us if index in skipped else at_us
            read_to = tuple(each for each in furthest(known) if each != asked_at)
            self.states[index] = ShardState(
                since_us=at_us, moved_us=moved_us, asked_at=asked_at, read_to=read_to
            )
            if member.role is not Role.LEFT:
                opening.append(OpenShard(index, self.generation, asked_at, read_to))
        return opening

    def _skipped(self) -> set[int]:
        """Return the shards that do not count in the timeline."""
        timeline = self._timeline
        if timeline is None:
            return set()
        return {index for index in range(len(self.membership.members)) if timeline.excluded(index)}

    def purged(self) -> list[int]:
        """Return the members that bring nothing: their sources refuse `refused_at`, as purged or unknown."""
        counted = (index for index, member in enumerate(self.membership.members) if member.counted)
        return [index for index in counted if self.states[index].purged_us is not None]

    def stopped_at_events(self) -> list[int]:
        """Return the members that an event has stopped."""
        counted = (index for index, member in enumerate(self.membership.members) if member.counted)
        return [index for index in counted if self.states[index].event is not None]

    @property
    def purged_after_all(self) -> bool:
        """Whether a source has purged what follows all that its shard brought, and all of that is freed.

        Only when it is opened again is it known which cursors need that.
        """
        return any(
            member.counted
            and state.phase is ShardPhase.FAILED
            and isinstance(state.error, PositionPurged)
            and 0 <= state.taken == state.freed
            for member, state in zip(self.membership.members, self.states, strict=True)
        )

    def give_up_position(self, shard: int) -> None:
        """Let a shard start where its settings say; no cursor needs more, and a rewind has to follow."""
        member = self.membership.members[shard]
        member.start = None
        self.states[shard] = ShardState()
        kept = {name: position for name, position in self.base.ack.shards.items() if name != member.name}
        self.base = Progress.at(replace(self.base.ack, shards=kept))

    def note_loss(self, shard: int, reason: str) -> None:
        """Note why a shard is being opened again; the status shows it."""
        self.states[shard].reason = reason

    def _begin_if_known(self, at_us: int, dead: set[int]) -> bool:
        """Start merging if the position of every member is known; `dead` members need not be open."""
        if self.membership.orphans or self._timeline is not None:
            return False
        for index, (member, state) in enumerate(zip(self.membership.members, self.states, strict=True)):
            may_lack = state.asked_at is not None and (index in dead or member.policy is Policy.SKIP)
            if member.counted and state.opened_at is None and not may_lack:
                return False
        self._begin(at_us)
        return True

    def _begin(self, at_us: int) -> None:
        positions: dict[str, Position] = {}
        for member, state in zip(self.membership.members, self.states, strict=True):
            position = state.opened_at or state.asked_at
            if member.counted:
                assert position is not None, "merging begins at known positions"
                positions[member.name] = replace(position, key_us=0)
            if state.opened_at is not None:
                state.moved_us = at_us
        self.base = Progress.at(replace(self.base.ack, shards=positions))
        timeline = self._timeline = self.order.timeline(len(self.shards))
        for index, (member, state) in enumerate(zip(self.membership.members, self.states, strict=True)):
            if not member.counted or member.policy is Policy.SKIP or member.catching_up:
                timeline.exclude(index)
            if member.role is Role.JOINING and state.opened_at is not None:
                self._join(timeline, index, state.opened_at)
        for state in self.states:
            early, state.early = state.early, []
            for report in early:
                self._take(timeline, report)
        self._advance()

    # ---- members ---------------------------------------------------------------------------------------

    def holds(self, sought: GroupPosition) -> bool:
        """Return whether the log has everything that follows a position, so that no rewind is needed.

        The live log has no pages of snapshots: only a replay has those of its client.
        """
        base = self.base
        if self._live and sought.snapshots:
            return False
        return self.merging and base.ack == base.end and reaches_back(base.ack.shards, sought.shards)

    def holds_after(self, shard: str, position: Position) -> bool:
        """Return whether the log has everything of a member that follows a position."""
        base = self.base.ack.shards
        return shard in base and reaches_back(base, {shard: position})

    def reconciled(self, cursor: GroupPosition) -> GroupPosition:
        """Return a cursor with the current shards: joined ones where they joined, and none that has left."""
        members = self.base.ack.shards
        lacking = (members.keys() - cursor.shards.keys()) | (
            self.membership.joined.keys() & members - cursor.joined.keys()
        )
        if not lacking and set(self.membership.retired) <= set(cursor.retired):
            return cursor
        # A cursor that lacks a shard has read nothing of it: its position is where the shard joined, or where
        # the log begins.
        joined = {name: position for name, position in self.membership.joined.items() if name in members}
        shards = {**members, **joined, **cursor.shards}
        reconciled = replace(cursor, shards=shards, joined={**joined, **cursor.joined})
        return self.membership.without_retired(reconciled)

    def past(self, progress: Progress, headers: Headers) -> Progress:
        """Return the progress after headers of the log, see `Progress.past`."""
        return progress.past(headers, self.names, self.shards, self.servers, self.created, self.snapshots)

    def known_end(self) -> GroupPosition:
        """Return the position after the whole transactions that came in, whether they went out or not."""
        assert self._timeline is not None, "a stream that merges knows what came in"
        came_in = [self.log.slice(self.log.base, self.log.tip), *self.ddl.waiting, *self._timeline.waiting()]
        by_shard = np.concatenate([no_headers(), *came_in])
        by_shard = by_shard[np.lexsort((by_shard["sequence"], by_shard["shard"]))]
        members = [index for index, name in enumerate(self.shards) if name in self.base.ack.shards]
        by_shard = by_shard[np.isin(by_shard["shard"], members)]
        return self.past(self.base, by_shard).ack

    def add(self, name: str, start: Position | None) -> int:
        """Add a shard, see `Membership.add`; a rewind, or `open_new`, has to follow."""
        index = self.membership.add(name, start)
        self.states.append(ShardState())
        self.log.add_shard()
        return index

    def open_new(self, shard: int, at_us: int) -> OpenShard:
        """Open a shard that was added while the others are being merged."""
        assert self._timeline is not None, "a new shard joins a stream that merges"
        start = self.membership.members[shard].start
        self.states[shard] = ShardState(since_us=at_us, moved_us=at_us, asked_at=start)
        self._timeline.join(shard)
        return OpenShard(shard, self.generation, start)

    def _join(self, timeline: Timeline, shard: int, position: Position) -> None:
        """Make a joining shard a member from where it was opened; its keys start at the greatest key out."""
        member, position = self.membership.members[shard], replace(position, key_us=0)
        member.role = Role.MEMBER
        self.membership.joined[member.name] = position
        self.base = replace(
            self.base,
            ack=self.reconciled(self.base.ack.with_shard(member.name, position)),
            end=self.reconciled(self.base.end.with_shard(member.name, position)),
        )
        timeline.join(shard)

    def drain(self, shard: int, at_us: int) -> None:
        """Take nothing that the shard commits from now on; it leaves when the rest is acknowledged."""
        self.leaving.ask(shard, self._timeline, at_us)

    def retire(self, name: str) -> None:
        """Remove a shard at once; if not everything that it brought is freed, a rewind has to follow."""
        index = self.membership.leave(name)
        if index is not None:
            self.states[index] = ShardState()
            self.log.forget(index)
            self.leaving.drained.discard(index)
            if self._timeline is not None:
                self._timeline.exclude(index)
        self.base = replace(
            self.base,
            ack=self.membership.without_retired(self.base.ack),
            end=self.membership.without_retired(self.base.end),
        )

    def reached_us(self, index: int) -> int | None:
        """Return the time before which nothing is at or after an index of the log, in its order.

        Microseconds since 1970 UTC. None while nothing is merged, if ids order the group, and after the end
        of every shard.
        """
        if self._timeline is None or self.order.by_id:
            return None
        for headers in (self.log.slice(index, index + 1), *self.ddl.waiting):
            if len(headers):
                return int(headers["key_us"][0])
        watermark_us = self._timeline.watermark_us
        return None if watermark_us == END_OF_TIME_US else watermark_us

    # ---- policy ----------------------------------------------------------------------------------------

    def give_policy(self, shard: int, policy: Policy, at_us: int) -> bool:
        """Set whether the group waits for a silent shard; return whether a rewind has to follow (rule 4).

        Raises:
            UsageError: every shard would be skipped; nothing was changed.
        """
        member = self.membership.members[shard]
        if policy is Policy.SKIP:
            self._waiting.check_skip(shard)
        if member.policy is policy:
            # A repeated command does not roll back a huge transaction that a skipped shard may be sending.
            return False
        member.policy, member.policy_since_us = policy, at_us
        timeline = self._timeline
        if timeline is None:
            self._begin_if_known(at_us, set())
            return False
        if policy is Policy.SKIP:
            timeline.exclude(shard)
        elif self._begins_again(timeline, shard, at_us):
            timeline.include(shard)
        self._advance()
        return policy is Policy.SKIP and timeline.open_shard == shard

    def _begins_again(self, timeline: Timeline, shard: int, at_us: int) -> bool:
        """Return whether a shard that does not count may count again."""
        return shard not in self.leaving.drained and self._waiting.begins_again(timeline, shard, at_us)

    def skip_silent(self, at_us: int) -> bool:
        """Continue without shards that were silent for too long, if that is the policy.

        Returns:
            Whether a rewind has to follow (rule 4).
        """
        silent = self._waiting.silent(self._timeline, at_us)
        if silent and not self._waiting.leaves_nobody(silent):
            if self._begin_if_known(at_us, silent):
                silent = self._waiting.silent(self._timeline, at_us)
            if self._timeline is not None:
                for index in silent:
                    self._timeline.exclude(index)
                self._advance()
        return self._timeline is not None and self._waiting.open_is_dead(self._timeline, at_us)

    # ---- events of shards ------------------------------------------------------------------------------

    def opened(self, event: ShardOpened) -> bool:
        """Note that a shard reads, and begin merging if it was the last one missing.

        Returns:
            Whether it joined.
        """
        state, member = self.states[event.shard], self.membership.members[event.shard]
        if event.generation != self.generation or state.opened_at is not None or member.role is Role.LEFT:
            return False
        state.opened(event.position, event.at_us)
        if self._timeline is None:
            self._begin_if_known(event.at_us, set())
        elif member.role is Role.JOINING:
            self._join(self._timeline, event.shard, event.position)
            return True
        return False

    def reported(self, event: ShardReported) -> None:
        """Take a shard's report, and let out the headers that may go out."""
        if event.generation != self.generation or self.membership.members[event.shard].role is Role.LEFT:
            return
        state = self.states[event.shard]
        state.ring_is(event.full, event.stopped, event.at_us)
        if event.tables is not None and self.ddl.policy is not None:
            self.ddl.policy.learn_tables(self.shards[event.shard], event.tables)
        if event.run is None and event.frontier_us is None:
            if self._timeline is not None:
                self._read_clock(self._timeline, event)
                self._advance()
            return
        if self._timeline is None:
            state.early.append(event)
            state.goes_on(event.at_us)
            return
        self._take(self._timeline, event)
        self._advance()

    def not_opened(self, event: ShardNotOpened) -> None:
        """Note why a shard is not open yet."""
        state = self.states[event.shard]
        if event.generation == self.generation and state.opened_at is None:
            state.not_opened(event.error)

    def failed(self, event: ShardFailed) -> None:
        """Note the stop of a shard at its data."""
        if event.generation == self.generation:
            self.states[event.shard].failed(event.error, event.at_us)

    def _take(self, timeline: Timeline, event: ShardReported) -> None:
        """Take a shard's headers, then its low watermark, which was made after them."""
        state = self.states[event.shard]
        if event.shard in self.leaving.drained:
            return
        self._read_clock(timeline, event)
        run = self.leaving.cut(event, timeline)
        moved = False
        state.server = event.server
        state.created |= event.created
        if run is not None and len(run):
            timeline.append(event.shard, run)
            self.ddl.came_in(event.shard, run)
            state.taken = int(run.headers["sequence"][-1])
            state.snapshots |= run.snapshots
            moved = True
        if event.shard in self.leaving.drained:
            timeline.exclude(event.shard)
        elif event.frontier_us is not None:
            # If its clock was set back between low watermark and reading, what committed then is later still.
            if event.source_us is None or event.frontier_us <= event.source_us:
                state.caught_up()
            moved |= timeline.low_watermark(event.shard, event.frontier_us)
        if not moved:
            return
        state.goes_on(event.at_us)
        if timeline.excluded(event.shard) and self._begins_again(timeline, event.shard, event.at_us):
            timeline.include(event.shard)

    def _read_clock(self, timeline: Timeline, event: ShardReported) -> None:
        """Take a reading of the source's clock; without one, the low watermark serves as a reading."""
        state = self.states[event.shard]
        # The answer may have taken long: all that is known is that the clock was read after the question.
        asked_us = event.at_us if event.asked_us is None else event.asked_us
        if event.source_us is not None:
            timeline.read_clock(event.shard, event.source_us)
            state.read_clock(event.source_us, asked_us)
        elif event.frontier_us is not None:
            state.read_clock(event.frontier_us, asked_us)
        self.leaving.know_until(event.shard)

    def _advance(self) -> None:
        assert self._timeline is not None
        headers = self._timeline.advance()
        self.log.append(
            self.ddl.pass_on(
                headers, lambda: self.names, self._origins, self._ddl_shards, self._ddl_positions
            )
        )

    # ---- DDL -------------------------------------------------------------------------------------------

    def ddl_saved(self, version: int) -> None:
        """Note that decisions on DDL are durable, and let out what waited for them."""
        self.log.append(self.ddl.saved(version))

    def describe_ddl(self) -> dict[str, Any] | None:
        """Return the state of the policy on DDL as a JSON object; None: every statement is delivered."""
        return self.ddl.describe(self._ddl_shards)

    def _origins(self) -> list[Origin]:
        return [
            Origin(name, state.server, state.created)
            for name, state in zip(self.shards, self.states, strict=True)
        ]

    def _ddl_shards(self) -> Shards:
        skipped = self._skipped()
        counted = [index for index, member in enumerate(self.membership.members) if member.counted]
        return Shards(
            members=[self.shards[index] for index in counted],
            skipped=[self.shards[index] for index in counted if index in skipped],
        )

    def _ddl_positions(self, headers: Headers) -> tuple[Callable[[str], Position], Callable[[str], Position]]:
        """Return functions of a shard's position before the log, and after headers that went out last."""

        @cache
        def after() -> Mapping[str, Position]:
            out = [self.log.slice(self.log.base, self.log.tip), *self.ddl.waiting, headers]
            end = self.past(self.base, np.concatenate(out))
            return end.ack.shards

        return lambda shard: self.base.ack.shards[shard], lambda shard: after()[shard]

    # ---- freeing the log -------------------------------------------------------------------------------

    def free(self, done: int) -> list[FreeRing]:
        """Forget the log before index `done`; return the instructions that free it in the rings too."""
        gone = self.log.truncate(done)
        if not len(gone):
            return []
        self.base = self.past(self.base, gone)
        freed: list[FreeRing] = []
        for shard in np.unique(gone["shard"]).tolist():
            sequence = self.states[shard].freed = int(gone["sequence"][gone["shard"] == shard][-1])
            self.states[shard].forget_snapshots(sequence)
            self.states[shard].full_since_us = None
            freed.append(FreeRing(shard, self.generation, sequence))
        return freed

    def validate(self) -> None:
        """Assert what holds between two events."""
        assert len(self.membership.members) == len(self.states) == len(self.shards)
        if self._timeline is None:
            assert self.log.tip == self.log.base, "nothing goes out before merging has begun"
            return
        assert not self.membership.orphans, "merging waits until an operator decides about orphans"
        for index, (member, state) in enumerate(zip(self.membership.members, self.states, strict=True)):
            assert not state.early, "what came early was taken when merging began"
            assert -1 <= state.freed <= state.taken, "only what was taken is freed"
            assert member.role is not Role.LEFT or self._timeline.excluded(index), "a shard that left counts"
            self._validate_kept(index)
            assert not member.counted or member.name in self.base.ack.shards, (
                "the log begins at known positions"
            )
        self._timeline.validate()

    def _validate_kept(self, shard: int) -> None:
        """Assert that the log has those headers of a shard that went out and are not freed."""
        kept = self.log.slice(self.log.base, self.log.tip)
        mine = np.flatnonzero(kept["shard"] == shard)
        first = self.log.base + int(mine[0]) if len(mine) else None
        assert self.first_kept(shard) == first, "the first header that is kept is found"
        last = int(kept["sequence"][mine[-1]]) if len(mine) else self.states[shard].freed
        assert last == self.log.last_of(shard), "the last one went out"
