"""How far the snapshot of a client id is, and which tables its snapshots could not read.

A shard whose rows are being read tells how many tables and rows there are. Nothing is read for a client id
without a consumer: then its cursor says which tables it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from canal_group.merge.duration import duration
from canal_group.merge.snapshot.cursor import SnapshotCursor
from canal_group.merge.values.marks.snapshot_mark import FailedTables
from canal_group.merge.values.position import GroupPosition

#: unread tables of a client id that are shown with their reasons
SHOWN_MAX: Final = 20


def client_progress(client: Mapping[str, Any], shards: Iterable[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return how far the snapshot of a client id is, as a JSON object; None: it has none, or it is over.

    Args:
        client: its state, as the group tells it.
        shards: their states, as they tell them; each of `replays` may be a lane that reads for it.
    """
    parts = _parts(client, shards)
    return _summed(parts) if parts else None


def unread_tables(client: Mapping[str, Any], shards: Iterable[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return the tables that snapshots of a client id could not read, as a JSON object; None: no tables.

    They are those that are stored with its cursor, and those of the snapshot that is going on.

    Args:
        client: as in `client_progress`.
        shards: as there.
    """
    stored = {shard: FailedTables.from_dict(value) for shard, value in client["unread"].items()}
    counts, reasons = {shard: tables.count for shard, tables in stored.items()}, dict[str, str]()
    parts = _parts(client, shards)
    for shard in sorted({*stored, *parts}):
        part = parts.get(shard, {"failed": {}, "failed_tables": 0})
        named = {**stored.get(shard, FailedTables()).reasons, **part["failed"]}
        counts[shard] = max(len(named), counts.get(shard, 0), part["failed_tables"])
        reasons |= {f"{shard} {name}": why for name, why in sorted(named.items())}
    count = sum(counts.values())
    if not count:
        return None
    shown = dict(list(reasons.items())[:SHOWN_MAX])
    return {
        "words": f"tables that a snapshot could not read: {count:,};"
        f" `canal-group snapshot again {client['client_id']} TABLE` reads one",
        "reasons": shown,
        "more": f"... and {count - len(shown):,} more" if count > len(shown) else "",
        "shards": {shard: number for shard, number in counts.items() if number},
    }


def _parts(client: Mapping[str, Any], shards: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return the snapshot that is going on, by shard, as lanes tell it; empty: there is none."""
    cursor = client["cursor"]
    texts = {} if cursor is None else GroupPosition.from_json(cursor).snapshots
    cursors = {shard: SnapshotCursor.from_json(text) for shard, text in texts.items()}
    ids = {each.id for each in cursors.values()}
    parts: dict[str, Mapping[str, Any]] = {shard: _of_cursor(each) for shard, each in cursors.items()}
    for shard in shards:
        for lane in shard.get("replays", ()):
            told = lane.get("snapshot")
            if told is not None and told["id"] in ids:
                parts[shard["shard"]] = told
    return dict(sorted(parts.items()))


def without_lanes(shard: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state of a shard without its lanes' snapshots, which are told of with their clients."""
    lanes = [
        {name: value for name, value in lane.items() if name != "snapshot"}
        for lane in shard.get("replays", ())
    ]
    return {**shard, "replays": lanes} if lanes else dict(shard)


def _of_cursor(cursor: SnapshotCursor) -> dict[str, Any]:
    """Return the state of a cursor, as a lane would tell it."""
    return {
        "tables": None if cursor.wanted is None else len(cursor.wanted),
        "done": sum(table.done for table in cursor.tables.values()),
        "failed": {},
        "failed_tables": 0,
        "rows": 0,
        "paused": cursor.paused,
        "over": False,
        "rows_estimated": None,
        "left_s": None,
        "waits_for": None,
    }


def _summed(parts: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    left_s = _known([0 if part["over"] else part["left_s"] for part in parts.values()])
    progress = {
        "tables": _sum(part["tables"] for part in parts.values()),
        "done": sum(part["done"] for part in parts.values()),
        "rows": sum(part["rows"] for part in parts.values()),
        "rows_estimated": _sum(
            part["rows"] if part["over"] else part["rows_estimated"] for part in parts.values()
        ),
        "left_s": None if left_s is None else max(left_s),
        "paused": any(part["paused"] for part in parts.values()),
        "waits_for": next(
            (f"{shard}: {part['waits_for']}" for shard, part in parts.items() if part["waits_for"]), None
        ),
        "shards": [
            {
                "shard": shard,
                "tables": part["tables"],
                "done": part["done"],
                "rows": part["rows"],
                "left": None
                if part["tables"] is None
                else part["tables"] - part["done"] - part["failed_tables"],
            }
            for shard, part in parts.items()
        ],
    }
    return {**progress, "words": _words(progress)}


def _words(progress: Mapping[str, Any]) -> str:
    """Return the sentence that `status`, `top` and the page show."""
    tables = "" if progress["tables"] is None else f" of {progress['tables']:,}"
    estimate = "" if progress["rows_estimated"] is None else f" of about {progress['rows_estimated']:,}"
    words = [f"snapshot: tables read: {progress['done']:,}{tables}", f"rows: {progress['rows']:,}{estimate}"]
    if progress["left_s"] is not None:
        words.append(f"about {duration(progress['left_s'])} left")
    if progress["paused"]:
        words.append("paused")
    if progress["waits_for"] is not None:
        words.append(f"waits at {progress['waits_for']}")
    return ", ".join(words)


def _known(values: Iterable[int | None]) -> list[int] | None:
    """Return the values; None if one is not known."""
    known: list[int] = []
    for value in values:
        if value is None:
            return None
        known.append(value)
    return known


def _sum(values: Iterable[int | None]) -> int | None:
    known = _known(values)
    return None if known is None else sum(known)
