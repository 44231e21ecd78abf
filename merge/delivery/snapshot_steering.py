"""Steering: what an operator makes of the snapshot of a client id, shard by shard."""

from __future__ import annotations

from dataclasses import replace

from canal_group.merge.calls.operators import (
    PauseSnapshot,
    ReadAgain,
    ResumeSnapshot,
    Steering,
    StopSnapshot,
    TableSteering,
)
from canal_group.merge.errors import UsageError
from canal_group.merge.snapshot.cursor import SNAPSHOT_TEXT_MAX, SnapshotCursor, name_of_text
from canal_group.merge.values.position import GroupPosition


def steered(cursor: GroupPosition, call: Steering, new_id: str) -> GroupPosition:
    """Return a client's cursor as a call makes it.

    Args:
        cursor: its cursor.
        call: what is asked.
        new_id: of a snapshot that begins.

    Raises:
        UsageError: there is no snapshot, or no such table is possible in it.
    """
    texts = cursor.snapshots
    if isinstance(call, TableSteering):
        return cursor.with_snapshots(
            {shard: _added(texts.get(shard), call, new_id) for shard in cursor.shards}
        )
    if not texts:
        raise UsageError(
            f"Client {call.client_id} has no snapshot, or it is over.",
            hint="`canal-group snapshot again` reads a table anew.",
        )
    if isinstance(call, StopSnapshot):
        return cursor.with_snapshots(dict.fromkeys(texts))
    assert isinstance(call, PauseSnapshot | ResumeSnapshot), f"{call} steers no snapshot"
    paused = isinstance(call, PauseSnapshot)
    return cursor.with_snapshots(
        {
            shard: replace(SnapshotCursor.from_json(text), paused=paused).to_json()
            for shard, text in texts.items()
        }
    )


def _added(text: str | None, call: TableSteering, new_id: str) -> str:
    """Return the text of a shard's snapshot with a table that is to be read."""
    name, again = call.table, isinstance(call, ReadAgain)
    _check_name(name)
    before = SnapshotCursor(new_id, wanted=()) if text is None else SnapshotCursor.from_json(text)
    is_wanted = before.wanted is None or name in before.wanted
    if is_wanted and not again:
        raise UsageError(
            f"The snapshot of client {call.client_id} has {name} already.",
            hint=f"To read it anew: canal-group snapshot again {call.client_id} {name}.",
        )
    if is_wanted and call.where and not (name in before.tables and before.tables[name].done):
        raise UsageError(
            f"{name} is being read for client {call.client_id}: with a condition the rest would not come.",
            hint="Ask for all of it, or wait until it was read.",
        )
    where = {table: condition for table, condition in before.where.items() if table != name}
    after = replace(
        before,
        tables={table: each for table, each in before.tables.items() if table != name},
        wanted=before.wanted if is_wanted else (*(before.wanted or ()), name),
        where={**where, name: call.where} if call.where else where,
    ).to_json()
    if len(after) > SNAPSHOT_TEXT_MAX:
        raise UsageError(f"The snapshot of client {call.client_id} has as many tables as it may have.")
    return after


def _check_name(name: str) -> None:
    try:
        name_of_text(name)
    except ValueError as error:
        raise UsageError(f"{error}.", hint="Expected schema.table, as the source has it.") from error
