"""Steering: what an operator makes of the snapshot of a client id, shard by shard."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

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
from canal_group.merge.values.offset_range import same_position
from canal_group.merge.values.position import GroupPosition, Position


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
        {shard: _changed(SnapshotCursor.from_json(text), paused=paused) for shard, text in texts.items()}
    )


def as_steered(cursor: GroupPosition, start: GroupPosition) -> GroupPosition:
    """Return a start that a consumer noted, with the cursor's snapshots where they were steered since.

    At the cursor the cursor has the snapshot. After it, tables go on as the cursor has them: pages between
    are read again, and those that a lane has selected from the cursor on do not count.

    Args:
        cursor: of the client id.
        start: where its consumer goes on.

    Raises:
        UsageError: it is before the cursor, and what is read was changed since.
    """
    texts: dict[str, str | None] = {}
    for shard, at in start.shards.items():
        mine = cursor.shards.get(shard)
        if mine is None or mine.snapshot == at.snapshot:
            continue
        if same_position(mine, at):
            texts[shard] = mine.snapshot
        elif not _is_older(at.snapshot, mine.snapshot):
            continue
        elif mine.within(at):
            texts[shard] = _from_there(mine.snapshot, at)
        elif mine.snapshot is not None:
            raise UsageError(
                f"The offset range begins before the cursor in shard {shard}, and an operator has changed"
                " since what its snapshot reads.",
                hint="Start again from the cursor.",
            )
    return start.with_snapshots(texts)


def steerings(cursor: GroupPosition) -> dict[str, tuple[str, int]]:
    """Return which snapshot each shard of a cursor has, and how often it was steered."""
    found = {shard: SnapshotCursor.from_json(text) for shard, text in cursor.snapshots.items()}
    return {shard: (each.id, each.steered) for shard, each in found.items()}


def _is_older(noted: str | None, text: str | None) -> bool:
    """Return whether a snapshot was noted before an operator made of it what the cursor has.

    Args:
        noted: its text; None: it is over, or there was none.
        text: that of the cursor; None: it was stopped, if there was one after the cursor.
    """
    if text is None:
        return noted is not None
    now = SnapshotCursor.from_json(text)
    if noted is None:
        return now.steered > 0
    then = SnapshotCursor.from_json(noted)
    return then.id != now.id or then.steered < now.steered


def _from_there(text: str | None, at: Position) -> str | None:
    """Return a cursor's text for a later position.

    A page of a lane that began at the cursor lacks rows that events before that position changed: the lane
    brought those. Who begins there, with a table that is read anew, would have neither.
    """
    if text is None:
        return None
    return replace(SnapshotCursor.from_json(text), selected_by=f"from {at}").to_json()


def _changed(cursor: SnapshotCursor, **members: Any) -> str:
    return replace(cursor, **members, steered=cursor.steered + 1).to_json()


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
    after = _changed(
        before,
        tables={table: each for table, each in before.tables.items() if table != name},
        wanted=before.wanted if is_wanted else (*(before.wanted or ()), name),
        where={**where, name: call.where} if call.where else where,
    )
    if len(after) > SNAPSHOT_TEXT_MAX:
        raise UsageError(f"The snapshot of client {call.client_id} has as many tables as it may have.")
    return after


def _check_name(name: str) -> None:
    try:
        name_of_text(name)
    except ValueError as error:
        raise UsageError(f"{error}.", hint="Expected schema.table, as the source has it.") from error
