"""What consumers ask."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from canal_group.merge.calls.batch import Batch
from canal_group.merge.calls.call import Call, R_co, inside, read
from canal_group.merge.calls.resume import Resume
from canal_group.merge.calls.values import (
    Between,
    ClientId,
    Entry,
    Flag,
    GroupStart,
    Holder,
    Resuming,
    Session,
    Text,
    Undisturbing,
    WaitS,
    Whole,
)
from canal_group.merge.values.position import GroupPosition, Position


@inside
class OfConsumer(Call[R_co]):
    """What the consumer of a client id asks under its epoch."""

    client_id: ClientId
    epoch: Whole


@read("subscribe")
class Subscribe(Call[dict[str, Any]]):
    """Make `holder` the active consumer of a client id; the answer has its epoch, cursor and lease."""

    client_id: ClientId
    holder: Holder
    #: canal's regular expressions
    filter: Text = ""
    #: ZooKeeper session of the consumer's own running node; empty: the server keeps the node
    session: Session = ""
    #: position to continue at after being dropped; None: not given
    resume: Resuming | None = None
    #: where a client id without a cursor begins, see `canal_group.connect`; None: as the instance file says
    start: Text | None = None
    #: whether rows are held for it before it has acknowledged any, however long it is away
    keep: Flag = False
    #: whether a client id that is new is a look: nothing of it is stored, and it ends with its consumer
    look: Flag = False
    #: whether a client id without a cursor gets the rows that there are, too; None: as the instance file says
    snapshot: Flag | None = None

    @property
    def searches(self) -> bool:
        """Whether the sources search their binlogs for its start."""
        return self.start not in {None, "latest"}


@inside
class SubscribeAt(Call[tuple[int, GroupPosition]]):
    """Make `holder` the active consumer of a client id; the answer is its epoch and cursor.

    A client id without a cursor begins at `start`; with `move` its cursor is moved there in any case. With
    `ends` it did not choose: it begins where the instance file says, which is `start`, and at the end of the
    source's log on a shard that `start` does not name. The first client id begins where the merged log does.

    Raises:
        AccessDenied: other clients would be rolled back, and may not be.
        ConsumerActive: another consumer is active; nothing was changed.
        SubscriptionDropped: the client id was inactive for too long, and `resume` is None.
    """

    client_id: ClientId
    holder: Holder
    filter: Text
    session: Session = ""
    resume: Resume | None = None
    #: whether other clients with a consumer may be rolled back for it
    may_disturb: Undisturbing = True
    start: GroupStart | None = None
    move: Flag = False
    #: where the sources' logs end, as far as they answered. None: `start` was chosen, or it begins where the
    #: merged log does
    ends: Mapping[str, Position] | None = None
    #: whether the caller may keep the running node by a session that the call does not name
    finds_session: Flag = False
    #: as in `Subscribe`
    keep: Flag = False
    look: Flag = False
    #: whether a client id that begins somewhere gets the present rows too, and not only later changes
    snapshot: Flag = False


@read("touch")
class Touch(OfConsumer[None]):
    """The consumer is alive."""


@read("get")
class Get(OfConsumer[Batch | None]):
    """Deliver the next batch; None after the timeout."""

    rows_max: Whole
    timeout_s: WaitS
    #: newest batch that the consumer has: batches that were delivered after this batch got lost in transit,
    #: and gets of the consumer that still wait are answered with None. None: unknown
    seen_id: Whole | None = None
    #: rows to return with the answer if the batch is small, as a ticket names rows; None: no rows
    rows: Entry | None = None

    @property
    def wait_s(self) -> float:
        """How long it waits for rows, seconds."""
        return self.timeout_s


@read("offset_range")
class GetRange(OfConsumer[Batch | None]):
    """Deliver an offset range; None if it is not available within the timeout.

    Everything before its start counts as consumed: a subscriber at another position moves there.

    Raises:
        RolledBack: it begins before the cursor, and `may_rewind` is False.
        AccessDenied: other clients would be rolled back for it, and may not be.
        PositionPurged: a source no longer has it.
        DataError: its content has changed.
    """

    offset_range: Between
    timeout_s: WaitS
    #: whether it may begin before the cursor, so that the shards are opened again
    may_rewind: Flag = False
    #: whether other clients with a consumer may be rolled back for it
    may_disturb: Undisturbing = field(default=True, kw_only=True)

    @property
    def wait_s(self) -> float:
        """How long it waits for rows, seconds."""
        return self.timeout_s


@inside
class Plan(OfConsumer[Batch]):
    """Return an outstanding batch again."""

    batch_id: Whole


@inside
class Confirm(OfConsumer[float]):
    """Return for how many seconds the rows of an outstanding batch may be sent; raises as `Plan`."""

    batch_id: Whole


@read("ack")
class Ack(OfConsumer[GroupPosition]):
    """Acknowledge the oldest outstanding batch; the cursor is returned once it is durable."""

    batch_id: Whole


@read("ack_and_get")
class AckAndGet(OfConsumer[tuple[GroupPosition, Batch | None]]):
    """Acknowledge the oldest outstanding batch, and then deliver the next one: `Ack` and `Get` in one call.

    The answer is what both answer. If it is refused, the acknowledgement was refused, or it was accepted and
    the get was refused: `LeaseState` tells.
    """

    batch_id: Whole
    rows_max: Whole
    timeout_s: WaitS
    #: as in `Get`
    seen_id: Whole | None = None
    rows: Entry | None = None

    @property
    def ack(self) -> Ack:
        """The acknowledgement."""
        return Ack(self.client_id, self.epoch, self.batch_id)

    @property
    def get(self) -> Get:
        """The get that follows."""
        return Get(self.client_id, self.epoch, self.rows_max, self.timeout_s, self.seen_id, self.rows)

    @property
    def wait_s(self) -> float:
        """How long it waits for rows, seconds."""
        return self.timeout_s


@read("rollback")
class Rollback(OfConsumer[int]):
    """Roll back a batch and every later one, or all (None); return how many."""

    batch_id: Whole | None = None


@read("release")
class Release(OfConsumer[None]):
    """Release the consumer; subscription and cursor stay."""


@read("unsubscribe")
class Unsubscribe(OfConsumer[None]):
    """Remove a subscription and its cursor."""


@read("lease_state")
class LeaseState(Call[dict[str, Any] | None]):
    """Return a client's state as `status` shows it; it includes every acknowledgement before this call.

    None if there is no such subscription.
    """

    client_id: ClientId


@read("outstanding")
class Outstanding(Call[list[dict[str, Any]]]):
    """Return a client's outstanding batches, the oldest first."""

    client_id: ClientId


@read("describe")
class Describe(Call[str]):
    """Return a table's columns over all shards, as the base64 text of an Arrow schema."""

    table: Text
    client_id: ClientId | None = None


@read("locate", searches=True)
class Locate(Call[str]):
    """Return where the sources' binlogs begin or end now, or were at a time: a group position's JSON."""

    where: Text
    client_id: ClientId | None = None


@read("status")
class Status(Call[dict[str, Any]]):
    """Return the state of the whole instance as a JSON object: gateway, group and shards."""


@read("shared_memory")
class OpenSharedMemory(Call[dict[str, Any]]):
    """Return where a process of this machine is lent rows."""


@inside
class ColumnTypes(Call[str]):
    """Return the types that operators chose for columns, as `TypeOverrides.from_json` reads them."""
