"""A replay: a group of its own for one client, over rings of its own.

    WAITING ── begin ──▶ RUNNING ── reached ──▶ JOINING ── at rest ──▶ (the live stream serves the client)
                            ▲                      │
                            └────── passed ────────┘

It merges the same shards as the live stream, by the same rules, from its client's cursor on. A seek of the
client opens it again, and nobody else. It is begun once; what ends it is decided by
`canal_group.merge.replay.replaying_group`.

A replay decides nothing: a statement that was decided is delivered or withheld again as it was. What follows
a statement about which nothing is decided yet waits until the live stream has passed it, or is there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Any, Final

import numpy as np

from canal_group.merge.calls.consumers import SubscribeAt
from canal_group.merge.delivery.subscriber import Subscriber
from canal_group.merge.errors import CanalGroupError
from canal_group.merge.events import Event, GetTimedOut
from canal_group.merge.group import Group, GroupSettings
from canal_group.merge.instructions import CloseLane, Instruction
from canal_group.merge.order.ddl.gate import DdlGate, Positions
from canal_group.merge.order.ddl.policy import Origin, withhold
from canal_group.merge.order.ddl.rounds import Shards
from canal_group.merge.order.ddl.rule import DdlRule
from canal_group.merge.order.stream import Stream
from canal_group.merge.values.header import Flag, HeaderRun, Headers, no_headers


class DecidedDdl(DdlGate):
    """Passes headers on as the live stream did; see the module.

    Args:
        live: the live stream.
    """

    def __init__(self, live: Stream) -> None:
        super().__init__()
        self._live = live
        #: what went out of the timeline, from a statement on about which nothing is decided
        self._held = no_headers()
        #: by shard_index and sequence: the statements on tables that came in and were not passed on
        self._statements: set[tuple[int, int]] = set()

    @property
    def waiting(self) -> list[Headers]:
        """Headers that wait for the live stream, in merged order."""
        return [self._held] if len(self._held) else []

    def rewind(self) -> None:
        """Forget what waits: the sources are read again."""
        self._held, self._statements = no_headers(), set()

    def came_in(self, shard: int, run: HeaderRun) -> None:
        """Note which of the headers that the timeline takes are statements on tables."""
        if len(run):
            last = int(run.headers["sequence"][-1])
            self._statements |= {(shard, number) for number in run.ddls if number <= last}

    def pass_on(
        self,
        headers: Headers,
        names: Callable[[], tuple[str, ...]],
        origins: Callable[[], Sequence[Origin]],
        shards: Callable[[], Shards],  # noqa: ARG002  of what is new
        positions: Positions,  # noqa: ARG002
    ) -> Headers:
        """Take headers that went out of the timeline; return those that may go into the log."""
        coming = np.concatenate([self._held, headers]) if len(self._held) else headers
        stop = len(coming)
        if self._statements:
            stop = self._decided(coming, names(), origins())
        self._held = coming[stop:]
        return coming[:stop]

    def _decided(self, headers: Headers, names: tuple[str, ...], origins: Sequence[Origin]) -> int:
        """Withhold statements as was decided; return the index of the first of which nothing is decided."""
        gate = self._live.ddl
        assert gate.policy is not None, "the live stream decides"
        for at in np.flatnonzero(headers["flags"] & Flag.DDL).tolist():
            key = int(headers["shard"][at]), int(headers["sequence"][at])
            if key not in self._statements:
                continue
            one, origin = headers[at : at + 1], origins[key[0]]
            passed = self._live.base.ack.shards.get(origin.shard)
            withheld = gate.policy.find(one, names, origin, passed) if gate.durable else None
            if withheld is None:
                return at
            self._statements.discard(key)
            withhold(one, np.array([withheld]))
        return len(headers)


#: how long a client that has reached the live stream gets nothing new while it has batches to acknowledge,
#: microseconds; then they are rolled back
JOIN_WITHIN_US: Final = 3_000_000


class ReplayState(StrEnum):
    """State of a replay."""

    #: nothing is read for it
    WAITING = "waiting"
    RUNNING = "running"
    #: its client has acknowledged up to where the live stream begins; outstanding batches come to their end
    JOINING = "joining"


class Replay(Group):
    """Serves one client; see the module.

    Args:
        settings: of the group.
        epoch: of the group.
        lane: its lane.
        leasing: of the group, see `canal_group.merge.delivery.consumers.Consumers`.
        live: the stream that its client will join.
        subscriber: the client, which nothing is outstanding of.
        at_us: now.
    """

    def __init__(
        self,
        settings: GroupSettings,
        epoch: int,
        lane: int,
        leasing: dict[int, SubscribeAt],
        live: Stream,
        subscriber: Subscriber,
        at_us: int,
    ) -> None:
        super().__init__(replace(settings, shards=live.shards), epoch, lane, leasing)
        self.subscriber = subscriber
        self.state = ReplayState.WAITING
        #: why it has not begun, for a consumer that waits for rows
        self.waits_for: CanalGroupError | None = None
        #: signature of the shards with which the replay began
        self.signature = live.membership.signature
        self.lane = lane
        self._live = live
        self._since_us = at_us
        #: time that its client had acknowledged when its state began, microseconds since 1970 UTC
        self._began_at_us: int | None = None
        #: how many row changes its client had passed when its turn began, and when that was
        self._turn_at = 0
        self._turn_since_us = at_us
        self._stream.begin_as(live)
        if settings.ddl is not DdlRule.EVERY:
            self._stream.ddl = DecidedDdl(live)
        self._subscribers.adopt(subscriber)

    def _go(self, state: ReplayState, at_us: int) -> None:
        self.state, self._since_us = state, at_us
        self._began_at_us = self.subscriber.acknowledged_us(self._stream)
        self._subscribers.closing = state is ReplayState.JOINING

    def begin(self, at_us: int) -> list[Instruction]:
        """Have the shards read from the client's cursor on."""
        assert self.state is ReplayState.WAITING, "a replay is begun once"
        self._go(ReplayState.RUNNING, at_us)
        self._turn_since_us, self._turn_at = at_us, self._passed
        return self._rewind(at_us)

    def end(self) -> list[Instruction]:
        """Forget what is outstanding; the client is served elsewhere from now on."""
        forgotten = self._subscribers.rewind()
        return forgotten if self.state is ReplayState.WAITING else [*forgotten, CloseLane(self.lane)]

    def _rewind(self, at_us: int) -> list[Instruction]:
        return self._subscribers.rewind() if self.state is ReplayState.WAITING else super()._rewind(at_us)

    def _on(self, event: Event) -> list[Instruction]:
        waiting = self.subscriber.delivery.waiting
        if isinstance(event, GetTimedOut) and self.waits_for is not None and event.number in waiting:
            return [self.subscriber.delivery.timed_out(event.number, self.waits_for)]
        return super()._on(event)

    def turn_us(self, at_us: int) -> int:
        """Return for how long it has had rings, or has waited for them."""
        return at_us - self._turn_since_us

    @property
    def _passed(self) -> int:
        return 0 if self.subscriber.cursor is None else self.subscriber.cursor.sequence

    def pace(self, at_us: int) -> float:
        """Return how many row changes its client has acknowledged in its turn, for each microsecond of it."""
        return (self._passed - self._turn_at) / self.turn_us(at_us)

    def approach(self, at_us: int) -> tuple[bool, list[Instruction]]:
        """Return whether the client joins the live stream now, and what has to be done if it does not."""
        cursor = self.subscriber.cursor
        reached = cursor is not None and self._live.holds(self._live.reconciled(cursor))
        if not reached:
            if self.state is not ReplayState.JOINING:
                return False, []
            self._go(ReplayState.RUNNING, at_us)
            return False, self._subscribers.serve()
        if self.subscriber.writes.acknowledging is not None:
            return False, []
        if self.state is ReplayState.WAITING or not self.subscriber.delivery.ledger.outstanding:
            return True, []
        if self.state is ReplayState.RUNNING:
            self._go(ReplayState.JOINING, at_us)
        return at_us - self._since_us > JOIN_WITHIN_US, []

    def progress(self, at_us: int) -> dict[str, Any]:
        """Return how far it is, as a JSON object; times are None while they are not known."""
        behind_s, left_s = None, None
        at, live = self.subscriber.acknowledged_us(self._stream), self._live.reached_us(self._live.log.base)
        if at is not None and live is not None:
            behind_s = max(0, live - at) / 1e6
            passed_s = (at_us - self._since_us) / 1e6
            read_s = (at - self._began_at_us) / 1e6 if self._began_at_us is not None else 0.0
            # The live stream goes on meanwhile, by a second in each.
            if self.state is ReplayState.RUNNING and read_s > passed_s > 0:
                left_s = behind_s / (read_s / passed_s - 1)
        return {
            "state": self.state.value,
            "since_s": (at_us - self._since_us) / 1e6,
            "behind_s": behind_s,
            "left_s": left_s,
            "headers_kept": self._stream.log.tip - self._stream.log.base,
        }

    def describe_client(self, at_us: int) -> dict[str, Any]:
        """Return its client's state as a JSON object."""
        return {**self.subscriber.describe(at_us, self._stream), "replay": self.progress(at_us)}

    def validate(self) -> None:
        """Assert what holds between two events."""
        super().validate()
        if self.state is ReplayState.WAITING:
            assert not self._stream.merging, "a replay that has not begun reads nothing"
            assert not self.subscriber.delivery.ledger.outstanding, "it has delivered nothing"
        assert self._subscribers.all == [self.subscriber], "a replay has one client"
