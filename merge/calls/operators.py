"""What operators ask."""

from __future__ import annotations

from dataclasses import field
from typing import Any, Final

from merge.calls.call import Call, R_co, inside, operate
from merge.calls.values import AdmittedUs, By, ClientId, Entry, Flag, Place, Policing, Text, Whole
from merge.values.chunk import TableName

#: how long the actor of a new shard may take, seconds
ADD_WAIT_S: Final = 10.0


@inside
class Operation(Call[R_co]):
    """What changes something."""

    #: who asks: the name of what admitted the caller
    by: By = field(default="", kw_only=True)


@operate("trace", audited=None, searches=True)
class Trace(Call[dict[str, Any]]):
    """Return where a transaction is: which shards have read it, in the group, and at each client id.

    Raises:
        UsageError: that is not the GTID of one transaction, or several shards have it; or there is no such
            shard.
    """

    gtid: Text
    #: whose transaction it is; None: of the only one that has it
    shard: Text | None = None


@inside
class TraceRead(Call[dict[str, Any]]):
    """Return where a transaction is in the group, see `merge.trace.trace`."""

    gtid: str
    #: what each shard has read, a GTID set
    read: dict[str, str]
    shard: str | None
    table: TableName | None


@operate("trace_key", audited=None, searches=True)
class TraceKey(Call[dict[str, Any]]):
    """Return where the last changes of a row are, each with what `Trace` says of its transaction.

    One that the instance's rules leave out has none: nobody gets it.
    """

    key: Text
    #: how much of the end of each shard's binlog is searched
    bytes_max: Whole
    shard: Text | None = None


@operate("rewind", audited=("client_id", "to"), searches=True)
class Rewind(Operation[dict[str, Any]]):
    """Move the cursor of a client id that has no consumer; return the cursor `from` and `to`.

    The operator takes the client id for that: so a consumer that is still active refuses it, and one that was
    cut off is fenced.
    """

    client_id: ClientId
    to: Text


@operate("client_rollback", audited=("client_id",))
class RollBackClient(Operation[int]):
    """Roll back the outstanding batches of a client id; its consumer's next ack is refused."""

    client_id: ClientId


@operate("client_unsubscribe", audited=("client_id",))
class RemoveClient(Operation[dict[str, Any]]):
    """Remove a client id that has no consumer, with its cursor; return what the cursor was."""

    client_id: ClientId


@operate("shard_policy", audited=("shard", "policy"))
class GivePolicy(Operation[dict[str, Any]]):
    """Set whether a silent shard holds the group; return its state.

    Raises:
        UsageError: there is no such shard, or no other shard would be left.
    """

    shard: Text
    policy: Policing


@operate("shard_add", audited=("shard",))
class AddShard(Operation[dict[str, Any]]):
    """Add a shard and return its state, which tells whether it has joined.

    Raises:
        ConfigError: the definition is invalid, or conflicts with other shards.
        UsageError: the name belongs to an existing shard, or to one that left.
        ServerUnavailable: the process that launched us made no actor for it in time.
    """

    #: as in an instance file, perhaps with secrets. Those that it names are read where the server runs
    shard: Entry = field(repr=False)
    #: where it begins; None: as the definition says
    start: Place | None = None

    @property
    def wait_s(self) -> float:
        """How long its actor may take, seconds."""
        return ADD_WAIT_S


@operate("shard_remove", audited=("shard", "now"))
class RemoveShard(Operation[dict[str, Any]]):
    """Remove a shard when everything that it has committed by now is acknowledged, or at once.

    The answer is its state; with `now`, what is dropped, after the shard was removed from every cursor.

    Raises:
        UsageError: there is no such shard, it is the only one, or it cannot be drained.
    """

    shard: Text
    #: False: it leaves when it is drained; what it commits later, by its source's clock, is not taken
    now: Flag = False


@operate("shard_skip_event", audited=("shard", "at", "whole_transaction"))
class SkipEvent(Operation[dict[str, Any]]):
    """Leave out the event at which a shard has stopped; return it, and whether that was done `already`.

    Raises:
        UsageError: there is no such shard, or it has not stopped there; nothing was changed.
        CoordinatorUnavailable: it is unknown whether it is stored; asking again is harmless.
    """

    shard: Text
    #: the event, `FILE:POS`, as the shard's error says
    at: Text
    #: whether to leave out all of its transaction
    whole_transaction: Flag = False
    #: when it was admitted, microseconds since 1970 UTC
    at_us: AdmittedUs = 0


@operate("schema_show", audited=None)
class ShowSchema(Call[dict[str, Any]]):
    """Return what each shard knows of its source's tables, or one of them."""

    shard: Text | None = None


@operate("schema_joined", audited=None)
class ShowJoined(Call[dict[str, Any]]):
    """Return the joined schema of a table, and what each shard has of it."""

    table: Text


@operate("schema_resolve", audited=("table", "column", "type"))
class Resolve(Operation[dict[str, Any]]):
    """Choose the type that a column has for every consumer; return the table's joined schema then.

    Raises:
        UsageError: that is no type, or there is nothing to take back.
    """

    #: `schema.table`, as consumers know it
    table: Text
    #: its name, in any case
    column: Text
    #: see `merge.rows.chosen_types`; None: take the choice back
    type: Text | None = None


@inside
class ChooseType(Call[None]):
    """Store the type of a table's column, see `Resolve`."""

    table: str
    column: str
    type: str | None


@operate("schema_rebuild", audited=("shard",))
class RebuildSchema(Operation[dict[str, Any]]):
    """Let a shard forget its schema history: a new one begins with what its source shows."""

    shard: Text
