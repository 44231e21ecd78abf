"""Instructions: actions that a group requests after an event of `events`.

Their names are imperatives. A `number` is that of the call that is answered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from canal_group.merge.errors import CanalGroupError
from canal_group.merge.values.loss import Loss
from canal_group.merge.values.marks.snapshot_mark import FailedTables
from canal_group.merge.values.position import GroupPosition, Position
from canal_group.merge.values.retention.kept_position import KeptPosition


@dataclass(frozen=True, slots=True)
class OpenShard:
    """Make the shard read from `position` (None: where its settings say), under a new generation."""

    shard: int
    generation: int
    position: Position | None
    #: positions after it up to which client ids have read: what is before them is compared as well
    read_to: tuple[Position, ...] = ()


@dataclass(frozen=True, slots=True)
class FreeRing:
    """Let the shard's ring forget everything up to and with `sequence`."""

    shard: int
    generation: int
    sequence: int


@dataclass(frozen=True, slots=True)
class KeepArchived:
    """Let the archive of the shard keep what follows these positions: client ids read on there."""

    shard: int
    needed: tuple[KeptPosition, ...]


@dataclass(frozen=True, slots=True)
class CloseShard:
    """Stop the shard: it left the group, and no cursor needs it."""

    shard: int


@dataclass(frozen=True, slots=True)
class CloseLane:
    """Make every shard forget the ring of a replay: it has ended."""

    lane: int


@dataclass(frozen=True, slots=True)
class LeaseConsumer:
    """Make `holder` the active consumer, under a new epoch."""

    number: int
    client_id: str
    holder: str


@dataclass(frozen=True, slots=True)
class ReleaseConsumer:
    """Remove the consumer's running node from the coordinator."""

    client_id: str


@dataclass(frozen=True, slots=True)
class SaveCursor:
    """Write a subscription and its cursor durably, under the server's epoch."""

    number: int
    client_id: str
    filter: str
    cursor: GroupPosition | None
    dropped: bool = False
    losses: tuple[Loss, ...] = ()
    #: see `ConsumerState`
    quiet_since: GroupPosition | None = None
    lasting: bool = False
    unread: Mapping[str, FailedTables] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ForgetClient:
    """Remove a subscription and its cursor from the cursor store, under the server's epoch."""

    number: int
    client_id: str


@dataclass(frozen=True, slots=True)
class SaveDdl:
    """Write the decisions on DDL durably, under the server's epoch."""

    version: int
    text: str


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer a call."""

    number: int
    value: Any


@dataclass(frozen=True, slots=True)
class Refuse:
    """Answer a call with an error; nothing was changed."""

    number: int
    error: CanalGroupError


Instruction: TypeAlias = (
    OpenShard
    | FreeRing
    | KeepArchived
    | CloseShard
    | CloseLane
    | LeaseConsumer
    | ReleaseConsumer
    | SaveCursor
    | ForgetClient
    | SaveDdl
    | Reply
    | Refuse
)
