"""Events: inputs of a group, named in the past tense. Its outputs are in `instructions`.

A `number` is what the shell gives to a call; the answer, `Reply` or `Refuse`, carries it.
Times are microseconds of the shell's monotonic clock, unless a name says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

from canal_group.merge.calls.call import Call
from canal_group.merge.errors import CanalGroupError
from canal_group.merge.values.header import HeaderRun
from canal_group.merge.values.loss import Loss
from canal_group.merge.values.marks.snapshot_mark import FailedTables
from canal_group.merge.values.position import GroupPosition, Position

C_co = TypeVar("C_co", bound=Call[Any], covariant=True)


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
    #: losses: changes purged by the sources before their delivery
    losses: tuple[Loss, ...] = ()
    #: the cursor before it passed only transactions without kept rows; None: the cursor passed no such
    #: transactions
    quiet_since: GroupPosition | None = None
    #: whether it acknowledged once, or was asked to hold rows without
    lasting: bool = False
    #: tables that its snapshots could not read, by shard
    unread: Mapping[str, FailedTables] = field(default_factory=dict)
    #: why what is stored cannot be read: nothing else of the subscription is known
    unreadable: CanalGroupError | None = None


@dataclass(frozen=True, slots=True)
class Started:
    """The server became active, with the given subscriptions."""

    at_us: int
    consumers: tuple[ConsumerState, ...]
    #: the stored decisions on DDL; None: nothing was stored
    ddl: str | None = None


@dataclass(frozen=True, slots=True)
class ShardOpened:
    """A shard reads from `position`; its ring holds nothing older."""

    shard: int
    generation: int
    position: Position
    at_us: int


@dataclass(frozen=True, slots=True)
class ShardNotOpened:
    """An attempt to open a shard failed; it is made again."""

    shard: int
    generation: int
    error: CanalGroupError


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
    #: whether the shard's ring is full: no header comes until the ring is freed
    full: bool = False
    #: whether it has stopped at its data; `ShardFailed` says why
    stopped: bool = False
    #: the source's clock when the report was made, microseconds since 1970 UTC; None: not known
    source_us: int | None = None
    #: when the report was requested, before its clock was read; None: at `at_us`
    asked_us: int | None = None
    #: when the binlog files of `run` were created, seconds since 1970, by file name; only known files
    created: Mapping[str, int] = field(default_factory=dict)
    #: destination names of the shard's tables at its read position; None: as before, or not known
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
class Asked(Generic[C_co]):
    """A consumer or an operator made a call, see `canal_group.merge.calls`."""

    number: int
    call: C_co
    at_us: int


@dataclass(frozen=True, slots=True)
class ConsumerLeased:
    """The coordinator gave the client id to `holder`, under a new epoch."""

    number: int
    client_id: str
    epoch: int
    at_us: int


@dataclass(frozen=True, slots=True)
class LeaseFailed:
    """The coordinator could not give the client id to the consumer."""

    number: int
    client_id: str
    error: CanalGroupError


@dataclass(frozen=True, slots=True)
class GetTimedOut:
    """The consumer no longer waits."""

    number: int
    client_id: str


@dataclass(frozen=True, slots=True)
class CursorSaved:
    """The cursor store holds what `SaveCursor` of this call asked for."""

    number: int
    client_id: str


@dataclass(frozen=True, slots=True)
class CursorNotSaved:
    """The cursor store refused to write, or may have."""

    number: int
    client_id: str
    error: CanalGroupError


@dataclass(frozen=True, slots=True)
class ClientForgotten:
    """The cursor store has forgotten the client that `ForgetClient` of this call named."""

    number: int
    client_id: str


@dataclass(frozen=True, slots=True)
class ClientNotForgotten:
    """The cursor store refused to forget a client, or may have forgotten it."""

    number: int
    client_id: str
    error: CanalGroupError


@dataclass(frozen=True, slots=True)
class ShardAdded:
    """An operator adds a shard, under the next shard_index."""

    number: int
    name: str
    #: where the shard begins; None: a cursor knows the position, or else the shard's settings say it
    start: Position | None
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


#: answers of the coordinator and the cursor store for one client id, and the end of a get's time
ClientEvent: TypeAlias = (
    ConsumerLeased
    | LeaseFailed
    | GetTimedOut
    | CursorSaved
    | CursorNotSaved
    | ClientForgotten
    | ClientNotForgotten
)
Event: TypeAlias = (
    Started
    | Asked[Any]
    | ShardOpened
    | ShardNotOpened
    | ShardReported
    | ShardLost
    | ShardFailed
    | ShardAdded
    | DdlSaved
    | DdlNotSaved
    | Ticked
    | ClientEvent
)
