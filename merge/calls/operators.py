"""What operators ask. HTTP's document and the command line show the docstrings of calls, and their `Args`."""

from __future__ import annotations

from dataclasses import field
from typing import Any, Final

from canal_group.merge.calls.answers import (
    BatchesRolledBack,
    ClientRemoved,
    ClientsListed,
    EventSkipped,
    JoinedSchema,
    Moved,
    RowTrace,
    ShardAdded,
    ShardNamed,
    ShardRemoved,
    ShardState,
    SnapshotSteered,
    TransactionTrace,
)
from canal_group.merge.calls.call import Call, OperatorCall, R_co, inside, operate
from canal_group.merge.calls.values import (
    AdmittedUs,
    By,
    ClientId,
    Condition,
    Entry,
    Flag,
    Gtid,
    Named,
    Policing,
    RowNamed,
    SearchBytes,
    ShardName,
    ShardStart,
    Text,
)
from canal_group.merge.values.chunk import TableName

#: how long the actor of a new shard may take, seconds
ADD_WAIT_S: Final = 10.0
#: how much of the end of each binlog is searched for a row, bytes
SEARCH_BYTES: Final = 64 << 20


@inside
class Operation(OperatorCall[R_co]):
    """What changes something."""

    #: who asks: the name of what admitted the caller
    by: By = field(default="", kw_only=True)


@operate("trace", "GET /transactions/{gtid}", audited=None, searches=True)
class Trace(OperatorCall[TransactionTrace]):
    """Return where a transaction is: which shards have read it, in the group, and at each client id.

    Args:
        gtid: The transaction's GTID: `uuid:42`, or `0-1-42`.
        shard: Whose transaction it is; otherwise of the only one that has it. Servers of MariaDB with the
            same domain and server_id number their transactions alike.

    Raises:
        UsageError: that is not the GTID of one transaction, or several shards have it; or there is no such
            shard.
    """

    gtid: Gtid
    shard: ShardName | None = None


@inside
class TraceRead(Call[dict[str, Any]]):
    """Return where a transaction is in the group, see `canal_group.merge.trace.trace`."""

    gtid: str
    #: what each shard has read, a GTID set
    read: dict[str, str]
    shard: str | None
    table: TableName | None


@operate("trace_key", "GET /changes", audited=None, searches=True)
class TraceKey(OperatorCall[RowTrace]):
    """Return where the last changes of a row are, each with what `trace` says of its transaction.

    One that the instance's rules leave out has none: nobody gets it.

    Args:
        key: The row, `schema.table:primary key`, as consumers see it: `shop.orders:42`. The values of a key
            of several columns are separated by commas.
        within_bytes: How much of the end of each shard's binlog is searched, at most 1 GiB.
        shard: The only shard that is searched; otherwise every shard.

    Raises:
        UsageError: the text names no row, or does not fit the table's primary key; or there is no such shard.
    """

    key: RowNamed
    within_bytes: SearchBytes = SEARCH_BYTES
    shard: ShardName | None = None


@operate(
    "rewind",
    "POST /clients/{client_id}/rewind",
    audited=("client_id", "to", "new", "snapshot"),
    searches=True,
)
class Rewind(Operation[Moved]):
    """Move the cursor of a client id that has no consumer, or make one; return the cursor `from` and `to`.

    Backwards, what it had acknowledged since is delivered again, and the sources are read again for it: other
    consumers get RolledBack. Forwards, what lies in between is not delivered to it.

    The operator takes the client id for that: so a consumer that is still active refuses it, and one that was
    cut off is fenced.

    Args:
        client_id: The client id.
        to: A start: earliest, latest, a time with its zone, a time before now such as -2h, or a position.
        new: Whether it may be unknown: then it is made, and its first consumer begins there.
        snapshot: Whether it gets the rows that there are, too, in the order of what changes meanwhile.

    Raises:
        ConsumerActive: it has a consumer; nothing was changed.
        UsageError: there is no such client id, and it may not be new.
        ConfigError: `to` is not a start.
        PositionPurged: a source no longer has changes from there.
    """

    client_id: ClientId
    to: Text
    new: Flag = False
    snapshot: Flag = False


@operate("client_rollback", "POST /clients/{client_id}/rollback", audited=("client_id",))
class RollBackClient(Operation[BatchesRolledBack]):
    """Roll back the outstanding batches of a client id; its consumer's next ack is refused.

    They are delivered again.

    Args:
        client_id: The client id.

    Raises:
        UsageError: there is no such client id.
    """

    client_id: ClientId


@operate("client_list", "GET /clients", audited=None)
class ListClients(OperatorCall[ClientsListed]):
    """Return the client ids: their consumers, how long they have had none, and whose full rings they hold."""


@operate("client_set_aside", "POST /clients/{client_id}/set-aside", audited=("client_id",))
class SetClientAside(Operation[ClientRemoved]):
    """Hold no rows for a client id any more, even if it has a consumer; return its cursor, which stays.

    Its consumer gets SubscriptionDropped when it subscribes again, and has to say where to continue.

    Args:
        client_id: The client id.

    Raises:
        UsageError: there is no such client id.
    """

    client_id: ClientId


@operate("client_remove", "DELETE /clients/{client_id}", audited=("client_id",))
class RemoveClient(Operation[ClientRemoved]):
    """Remove a client id that has no consumer, with its cursor; return that cursor.

    Args:
        client_id: The client id.

    Raises:
        ConsumerActive: it has a consumer; nothing was changed.
        UsageError: there is no such client id.
    """

    client_id: ClientId


@inside
class Steering(Operation[SnapshotSteered]):
    """What changes the snapshot of a client id: its outstanding batches are rolled back."""

    client_id: ClientId


@inside
class TableSteering(Steering):
    """What has the rows of a table read, or those for which a condition holds."""

    table: Named
    where: Condition | None = None


@operate(
    "snapshot_add",
    "POST /clients/{client_id}/snapshot/{table}",
    audited=("client_id", "table", "where"),
)
class AddToSnapshot(TableSteering):
    """Read the rows that a table has, on every shard, for a client id, beside what changes meanwhile.

    That is for a table that begins to be kept. A client id that has no snapshot gets one of this table.

    Args:
        client_id: The client id.
        table: The table, as the sources have it: `schema.table`.
        where: Only the rows for which this condition holds, in the sources' SQL; otherwise all.

    Raises:
        UsageError: there is no such client id, or the table is in its snapshot already.
    """


@operate(
    "snapshot_again",
    "POST /clients/{client_id}/snapshot/{table}/again",
    audited=("client_id", "table", "where"),
)
class ReadAgain(TableSteering):
    """Read the rows of a table anew for a client id, or a part of them; what it has of them comes again.

    Args:
        client_id: The client id.
        table: The table, as the sources have it: `schema.table`.
        where: Only the rows for which this condition holds, in the sources' SQL; otherwise all.

    Raises:
        UsageError: there is no such client id.
    """


@operate("snapshot_pause", "POST /clients/{client_id}/snapshot-pause", audited=("client_id",))
class PauseSnapshot(Steering):
    """Read no more rows of tables for a client id until it is resumed; changes go on.

    Args:
        client_id: The client id.

    Raises:
        UsageError: there is no such client id, or it has no snapshot.
    """


@operate("snapshot_resume", "POST /clients/{client_id}/snapshot-resume", audited=("client_id",))
class ResumeSnapshot(Steering):
    """Go on with the snapshot of a client id that was paused.

    Args:
        client_id: The client id.

    Raises:
        UsageError: there is no such client id, or it has no snapshot.
    """


@operate("snapshot_stop", "DELETE /clients/{client_id}/snapshot", audited=("client_id",))
class StopSnapshot(Steering):
    """End the snapshot of a client id: rows that were not read yet do not come, and no mark says so.

    Tables that an earlier snapshot could not read are given up too: `status` names them no more.

    Args:
        client_id: The client id.

    Raises:
        UsageError: there is no such client id, or it has no snapshot and no such tables.
    """


@operate("shard_policy", "POST /shards/{shard}/{policy}", audited=("shard", "policy"))
class GivePolicy(Operation[ShardState]):
    """Set whether a silent shard holds the group; return its state.

    It holds until another call changes it or another server is elected. A shard that is skipped may have rows
    flagged late. If one of its transactions was delivered in part, it is rolled back: consumers get
    RolledBack, and the transaction is delivered again as a whole.

    Args:
        shard: The shard's name.
        policy: Whether the group waits for it, goes on without it, or does as the settings say.

    Raises:
        UsageError: there is no such shard, or no other shard would be left.
    """

    shard: ShardName
    policy: Policing


@operate("shard_add", "POST /shards", audited=("shard",))
class AddShard(Operation[ShardAdded]):
    """Add a shard to the running stream and return its state, which tells whether it has joined.

    Keys of its first rows are raised to those that were delivered already.

    Args:
        shard: The shard, as an entry of `shards` in an instance file. Secrets that it names are read where
            the server runs.
        start: Its start position; otherwise as the entry says.

    Raises:
        ConfigError: the definition is invalid, or conflicts with other shards.
        UsageError: the name belongs to an existing shard, or to one that left.
        ServerUnavailable: the process that launched us made no actor for it in time.
    """

    shard: Entry = field(repr=False)
    start: ShardStart | None = None

    @property
    def wait_s(self) -> float:
        """How long its actor may take, seconds."""
        return ADD_WAIT_S


@operate("shard_remove", "DELETE /shards/{shard}", audited=("shard", "now"))
class RemoveShard(Operation[ShardRemoved]):
    """Remove a shard when everything that it has committed by now is acknowledged, or at once.

    The answer is its state; with `now`, what is dropped, after the shard was removed from every cursor. Its
    name cannot be used again.

    Args:
        shard: The shard's name.
        now: Drop what is not acknowledged; consumers get RolledBack. Otherwise the shard leaves when it is
            drained; what it commits later, by its source's clock, is not taken.

    Raises:
        UsageError: there is no such shard, it is the only one, or it cannot be drained.
    """

    shard: ShardName
    now: Flag = False


@operate("shard_skip_event", "POST /shards/{shard}/events/skip", audited=("shard", "at", "whole_transaction"))
class SkipEvent(Operation[EventSkipped]):
    """Leave out the event at which a shard has stopped; return it, and whether that was done `already`.

    The shard goes on after it within a second or two. Each consumer gets a mark in its place, see
    `canal_group.SkipMark`.

    Args:
        shard: The shard's name.
        at: The event: FILE:POS, as the shard's error says.
        whole_transaction: Leave out the other rows of its transaction, too.

    Raises:
        UsageError: there is no such shard, or it has not stopped there; nothing was changed.
        CoordinatorUnavailable: it is unknown whether it is stored; asking again is harmless.
    """

    shard: ShardName
    at: Named
    whole_transaction: Flag = False
    #: when it was admitted, microseconds since 1970 UTC
    at_us: AdmittedUs = 0


@operate("schema_show", "GET /shards/{shard}/schema", audited=None)
class ShowSchema(OperatorCall[dict[str, list[dict[str, Any]]]]):
    """Return each shard's definitions of its source's tables, where reading is: JSON objects, by shard.

    Args:
        shard: Only this shard; otherwise every shard.

    Raises:
        UsageError: there is no such shard.
    """

    shard: ShardName | None = None


@operate("schema_joined", "GET /tables/{table}", audited=None)
class ShowJoined(OperatorCall[JoinedSchema]):
    """Return the joined schema of a table, and what each shard has of it.

    Args:
        table: The table, as consumers see it: `schema.table`.

    Raises:
        UsageError: no shard has such a table.
    """

    table: Named


@operate("schema_resolve", "PUT /tables/{table}/columns/{column}/type", audited=("table", "column", "type"))
class Resolve(Operation[JoinedSchema]):
    """Choose the type that a column has for every consumer; return the table's joined schema then.

    The choice is stored beside the cursors.

    Args:
        table: The table, as consumers see it: `schema.table`.
        column: The column, in any case.
        type: `text`, `bigint`, `decimal(20,4)` and so on; null takes the choice back.

    Raises:
        UsageError: there is no such table, column or type, or no choice to take back.
    """

    table: Named
    column: Named
    #: see `canal_group.merge.rows.chosen_types`
    type: Named | None


@inside
class ChooseType(Call[None]):
    """Store the type of a table's column, see `Resolve`."""

    table: str
    column: str
    type: str | None


@operate("schema_rebuild", "POST /shards/{shard}/schema/rebuild", audited=("shard",))
class RebuildSchema(Operation[dict[str, ShardNamed]]):
    """Let a shard forget its schema history: a new one begins with what its source shows.

    Args:
        shard: The shard's name.

    Raises:
        UsageError: there is no such shard, or it reads files.
    """

    shard: ShardName
