"""Answers to operators: what each says at least, as a JSON object. A state may say more."""

from __future__ import annotations

from typing import Any, TypedDict

from canal_group.merge.values.member import Role
from canal_group.merge.values.skips.skipped_event import Unit

Moved = TypedDict("Moved", {"from": str | None, "to": str})
Moved.__doc__ = "The cursor of a client id before and after it was moved, as the JSON of a group position."


class BatchesRolledBack(TypedDict):
    """How many batches of a client id were rolled back."""

    client_id: str
    batches: int


class ClientListed(TypedDict):
    """A client id."""

    client_id: str
    #: words for the client id's state, as on the page
    state: list[str]
    #: null: it has no consumer
    holder: str | None
    #: time without a consumer, seconds; null: a consumer is connected
    away_s: float | None
    #: the shards whose full rings keep rows for it
    holds: list[str]


class ClientsListed(TypedDict):
    """The client ids of a destination."""

    clients: list[ClientListed]


class ClientRemoved(TypedDict):
    """A client id that was removed or set aside, and its cursor, as the JSON of a group position."""

    client_id: str
    cursor: str | None


class SnapshotSteered(TypedDict):
    """A client id whose snapshot was changed."""

    client_id: str
    #: shards where the snapshot is not over
    shards: list[str]


class ShardNamed(TypedDict):
    """A shard."""

    shard: str


class ShardState(ShardNamed):
    """A shard in its group."""

    role: Role
    #: null: as the settings say
    policy: str | None
    #: whether the group goes on without it
    skipped: bool


class ShardAdded(ShardNamed, total=False):
    """A shard that was added; with its role, if a group runs that the shard can join now."""

    role: Role


class _ShardWithRole(ShardNamed):
    role: Role


class ShardRemoved(_ShardWithRole, total=False):
    """A shard that leaves, or has left; then what was dropped with it."""

    #: rows that had been read and were not acknowledged
    rows_dropped: int
    #: the position of each cursor, by client id
    left_at: dict[str, str]


class EventSkipped(TypedDict):
    """An event that is left out, see `canal_group.merge.values.skips.skipped_event`."""

    shard: str
    server: str
    file: str
    created_s: int
    offset: int
    part: int
    unit: Unit
    by: str
    at_us: int
    #: whether it was left out before
    already: bool


class JoinedColumn(TypedDict):
    """A column of a table."""

    name: str
    #: null: no type takes the values of all shards
    type: str | None
    #: the type that an operator chose; null: none did
    chosen: str | None
    #: shard -> type of the column there, for each shard that has the column
    shards: dict[str, str]


class JoinedSchema(TypedDict):
    """The columns that a table has for consumers."""

    table: str
    columns: list[JoinedColumn]


class _TraceOfEach(TypedDict):
    gtid: str
    #: the shards that have read it
    read_by: list[str]
    #: `waiting` to be merged, `merged`, or null: the group does not hold it
    found: str | None
    #: what became of it at each client id: `client_id`, `state`, perhaps `batch_id`
    clients: list[dict[str, Any]]


class TransactionTrace(_TraceOfEach, total=False):
    """Where a transaction is; where the group holds it, also its shard, position, rows and times."""

    shard: str
    position: str
    rows: int
    #: whether all of it has come
    whole: bool
    commit_us: int
    key_us: int


class RowChange(TypedDict):
    """A change of a row in the binlog of a shard's source."""

    shard: str
    gtid: str
    file: str
    offset: int
    commit_us: int
    op: str
    #: whether the instance's rules keep it
    kept: bool
    #: null: nobody gets it, or its transaction has no GTID
    trace: TransactionTrace | None


class SearchedPart(TypedDict):
    """What was searched of a shard's binlog."""

    files: list[str]
    #: changes that could not be compared, because the table's primary key is not known there
    unknown: int


class RowTrace(TypedDict):
    """The last changes of a row, the oldest first, and what was searched on each shard."""

    key: str
    changes: list[RowChange]
    searched: dict[str, SearchedPart]
