"""Events: inputs of a group, named in the past tense. Its outputs are in `instructions`.

A `call` is an opaque number that the shell gives to a request; the answer, `Reply` or `Refuse`, carries it.
Times are microseconds of the shell's monotonic clock, unless a name says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from merge.errors import CanalGroupError
from merge.values.header import HeaderRun
from merge.values.loss import Loss
from merge.values.member import Policy
from merge.values.offset_range import OffsetRange
from merge.values.position import GroupPosition, Position


@dataclass(frozen=True, slots=True)
class ConsumerState:
    """A subscription from the cursor store, and its last holder."""

    client_id: str
    filter: str
    cursor: GroupPosition | None
    holder: str
    epoch: int
    #: whether it was inactive for too long and its rows are no longer held
    dropped: bool = False
    #: what its sources had purged before it got it
    losses: tuple[Loss, ...] = ()
    #: where its cursor was before it passed only what nothing is kept of; None: it did not
    quiet_since: GroupPosition | None = None


class Resume(StrEnum):
    """Where a dropped or purged subscription continues."""

    #: at its cursor: the sources are read again from there
    CURSOR = "cursor"
    #: where the others are: the rows in between are not delivered to it
    NOW = "now"


@dataclass(frozen=True, slots=True)
class Started:
    """This server became the active one; these subscriptions exist."""

    at_us: int
    consumers: tuple[ConsumerState, ...]
    #: the decisions on DDL as they were stored; None: none were
    ddl: str | None = None


@dataclass(frozen=True, slots=True)
class ShardOpened:
    """A shard reads from `position`; its ring holds nothing older."""

    shard: int
    generation: int
    position: Position
    at_us: int


@dataclass(frozen=True, slots=True)
class ShardReported:
    """A shard has new headers, or a new low watermark made after all of its headers, or its ring is full."""

    shard: int
    generation: int
    run: HeaderRun | None
    #: low watermark, source time in microseconds since 1970 UTC; None: none; `END_OF_TIME_US`: at its end
    frontier_us: int | None
    at_us: int
    #: identity of the server that is read, the same for a whole generation; empty: not known
    server: str = ""
    #: whether its ring is full, so that it brings nothing until the ring is freed
    full: bool = False
    #: whether it has stopped at its data; `ShardFailed` says why
    stopped: bool = False
    #: the source's clock when the report was made, microseconds since 1970 UTC; None: not known
    source_us: int | None = None
    #: when the report was requested, before its clock was read; None: at `at_us`
    asked_us: int | None = None
    #: when the binlog files of `run` were created, seconds since 1970, by file name; only known files
    created: Mapping[str, int] = field(default_factory=dict)
    #: what consumers call its tables where it reads; None: as before, or not known
    tables: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class ShardLost:
    """A shard's ring is lost, with its contents."""

    shard: int
    generation: int
    reason: str
    at_us: int


@dataclass(frozen=True, slots=True)
class ShardFailed:
    """A shard stopped at data that it cannot process; an operator must act."""

    shard: int
    generation: int
    error: CanalGroupError
    at_us: int


@dataclass(frozen=True, slots=True)
class SubscribeRequested:
    """`holder` wants to consume as `client_id`; `resume` says where, if it was dropped or purged.

    A client id without a cursor begins at `start`; with `move` its cursor is moved there in any case. With
    `ends` it did not choose: it begins where the instance file says, which is `start`, and at the end of the
    source's log on a shard that `start` does not name. The first client id begins where the merged log does.
    """

    call: int
    client_id: str
    holder: str
    filter: str
    at_us: int
    resume: Resume | None = None
    #: whether other clients with a consumer may be rolled back for it
    may_disturb: bool = True
    start: GroupPosition | None = None
    move: bool = False
    #: where the sources' logs end, as far as they answered. None: `start` was chosen, or it begins where the
    #: merged log does
    ends: Mapping[str, Position] | None = None


@dataclass(frozen=True, slots=True)
class ConsumerLeased:
    """The coordinator gave the client id to `holder`, under a new epoch."""

    call: int
    client_id: str
    epoch: int
    at_us: int


@dataclass(frozen=True, slots=True)
class LeaseFailed:
    """The coordinator could not give the client id to the consumer."""

    call: int
    client_id: str
    error: CanalGroupError


@dataclass(frozen=True, slots=True)
class ConsumerTouched:
    """The consumer is alive."""

    call: int
    client_id: str
    epoch: int
    at_us: int


@dataclass(frozen=True, slots=True)
class GetRequested:
    """The consumer wants the next batch, and waits for it until `GetTimedOut`."""

    call: int
    client_id: str
    epoch: int
    rows_max: int
    at_us: int
    #: newest batch that the consumer has: batches that were delivered after it got lost in transit, and its
    #: gets that still wait are answered with None. None: unknown
    seen_id: int | None = None


@dataclass(frozen=True, slots=True)
class RangeRequested:
    """The consumer wants an offset range, and waits for it until `GetTimedOut`.

    Everything before the start counts as consumed: a subscriber at another position moves there.
    """

    call: int
    client_id: str
    epoch: int
    offset_range: OffsetRange
    #: whether it may begin before the cursor, so that the shards are opened again
    may_rewind: bool
    at_us: int
    #: whether other clients with a consumer may be rolled back for it
    may_disturb: bool = True


@dataclass(frozen=True, slots=True)
class GetTimedOut:
    """The consumer no longer waits."""

    call: int
    client_id: str


@dataclass(frozen=True, slots=True)
class PlanRequested:
    """The gateway wants the headers of an outstanding batch again."""

    call: int
    client_id: str
    epoch: int
    batch_id: int
    at_us: int


@dataclass(frozen=True, slots=True)
class AckRequested:
    """The consumer has finished a batch."""

    call: int
    client_id: str
    epoch: int
    batch_id: int
    at_us: int


@dataclass(frozen=True, slots=True)
class CursorSaved:
    """The cursor store holds what `SaveCursor` of this call asked for."""

    call: int
    client_id: str


@dataclass(frozen=True, slots=True)
class CursorNotSaved:
    """The cursor store refused to write, or may have."""

    call: int
    client_id: str
    error: CanalGroupError


@dataclass(frozen=True, slots=True)
class ClientForgotten:
    """The cursor store has forgotten the client that `ForgetClient` of this call named."""

    call: int
    client_id: str


@dataclass(frozen=True, slots=True)
class ClientNotForgotten:
    """The cursor store refused to forget a client, or may have forgotten it."""

    call: int
    client_id: str
    error: CanalGroupError


@dataclass(frozen=True, slots=True)
class RollbackRequested:
    """The consumer gives back a batch and every later one, or all (`batch_id` None)."""

    call: int
    client_id: str
    epoch: int
    batch_id: int | None
    at_us: int


@dataclass(frozen=True, slots=True)
class UnsubscribeRequested:
    """The consumer gives up its subscription and cursor."""

    call: int
    client_id: str
    epoch: int
    at_us: int


@dataclass(frozen=True, slots=True)
class ReleaseRequested:
    """The consumer stops cleanly; its subscription and cursor stay."""

    call: int
    client_id: str
    epoch: int
    at_us: int


@dataclass(frozen=True, slots=True)
class ShardPolicyGiven:
    """An operator set whether the group waits for a shard that brings nothing."""

    call: int
    name: str
    policy: Policy
    at_us: int


@dataclass(frozen=True, slots=True)
class ShardAdded:
    """An operator adds a shard, under the next shard_index."""

    call: int
    name: str
    #: where it begins; None: where its settings say, unless a cursor knows it
    start: Position | None
    at_us: int


@dataclass(frozen=True, slots=True)
class ShardRemoved:
    """An operator removes a shard: when it is drained, or now, giving up what is not acknowledged."""

    call: int
    name: str
    #: False: it leaves when it is drained; what it commits after `at_us`, by its source's clock, is not taken
    now: bool
    at_us: int


@dataclass(frozen=True, slots=True)
class DdlSaved:
    """The store has what `SaveDdl` of this version asked for."""

    version: int
    at_us: int


@dataclass(frozen=True, slots=True)
class DdlNotSaved:
    """The store refused to write the decisions on DDL, or may have."""

    at_us: int


@dataclass(frozen=True, slots=True)
class Ticked:
    """Time has passed."""

    at_us: int
    #: whether consumers can reach this server; a consumer that cannot sends no sign of life
    reachable: bool = True


#: events of one client id: its consumer's calls, and the answers of the coordinator and the cursor store
ClientEvent: TypeAlias = (
    SubscribeRequested
    | ConsumerLeased
    | LeaseFailed
    | ConsumerTouched
    | GetRequested
    | RangeRequested
    | GetTimedOut
    | PlanRequested
    | AckRequested
    | CursorSaved
    | CursorNotSaved
    | ClientForgotten
    | ClientNotForgotten
    | RollbackRequested
    | UnsubscribeRequested
    | ReleaseRequested
)
Event: TypeAlias = (
    Started
    | ShardOpened
    | ShardReported
    | ShardLost
    | ShardFailed
    | ShardPolicyGiven
    | ShardAdded
    | ShardRemoved
    | DdlSaved
    | DdlNotSaved
    | Ticked
    | ClientEvent
)
