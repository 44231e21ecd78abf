"""How far the snapshot of a client id is, told from its cursor and from the lanes that read for it."""

from __future__ import annotations

from dataclasses import replace

from canal_group.merge.snapshot.client_progress import (
    SHOWN_MAX,
    client_progress,
    unread_tables,
    without_lanes,
)
from canal_group.merge.snapshot.cursor import DONE, SnapshotCursor
from canal_group.merge.values.marks.snapshot_mark import FailedTables
from canal_group.merge.values.position import GroupPosition, Position

ID = "copy-3-1700"
HALF = SnapshotCursor(ID, {"shop_0.a": DONE}).to_json()


def client(**texts: str | None) -> dict[str, object]:
    shards = {name: replace(Position("bin.1", 4), snapshot=text) for name, text in texts.items()}
    return {"client_id": "copy", "cursor": GroupPosition(shards).to_json(), "unread": {}}


def shard(name: str, snapshot_id: str = ID, **told: object) -> dict[str, object]:
    snapshot = {
        "id": snapshot_id, "tables": 4, "done": 1, "failed": {}, "failed_tables": 0, "rows": 300,
        "paused": False, "over": False, "rows_estimated": 1_000, "left_s": 7, "waits_for": None,
    }  # fmt: skip
    return {"shard": name, "replays": [{"state": "streaming", "snapshot": {**snapshot, **told}}]}


def test_a_client_without_a_snapshot_has_no_progress():
    assert client_progress({"client_id": "a", "cursor": None}, [shard("s0")]) is None
    assert client_progress(client(s0=None), [shard("s0")]) is None


def test_shards_are_summed_up():
    lanes = [
        shard("s0", failed={"shop_0.b": "denied"}, failed_tables=1),
        # What its cursor has no more of, because it is acknowledged, counts too.
        shard("s1", done=4, rows=2_000, rows_estimated=1_900, over=True, left_s=None),
        shard("s2", "other-1-2", rows=9_999),
    ]
    progress = client_progress(client(s0=HALF, s1=None), lanes)
    assert progress is not None
    assert progress["words"] == ("snapshot: tables read: 5 of 8, rows: 2,300 of about 3,000, about 7 s left")
    assert [(part["shard"], part["rows"], part["left"]) for part in progress["shards"]] == [
        ("s0", 300, 2),
        ("s1", 2_000, 0),
    ]


def test_a_client_for_which_nothing_is_read_has_what_its_cursor_says():
    wanted = replace(SnapshotCursor.from_json(HALF), wanted=("shop_0.a", "shop_0.b"), paused=True).to_json()
    for text, words in (
        (HALF, "snapshot: tables read: 1, rows: 0"),
        (wanted, "snapshot: tables read: 1 of 2, rows: 0, paused"),
    ):
        progress = client_progress(client(s0=text), [{"shard": "s0", "state": "unavailable"}])
        assert progress is not None
        assert progress["words"] == words


def test_unread_tables_are_those_that_are_stored_and_those_of_the_lanes():
    """Without a lane, as after a restart, the stored ones are named; a table of both is one."""
    stored = {"s0": {"shop_0.b": "denied"}, "s1": {"shop_1.b": "denied", "shop_1.c": "no key"}}
    unread = {name: FailedTables.of(reasons).to_dict() for name, reasons in stored.items()}
    found = unread_tables({**client(s0=None, s1=None), "unread": unread}, [])
    assert found is not None
    assert found["words"] == (
        "tables that a snapshot could not read: 3; `canal-group snapshot again copy TABLE` reads one"
    )
    assert found["shards"] == {"s0": 1, "s1": 2}
    assert list(found["reasons"]) == ["s0 shop_0.b", "s1 shop_1.b", "s1 shop_1.c"]
    lanes = [shard("s0", failed={"shop_0.b": "denied still", "shop_0.d": "denied"}, failed_tables=2)]
    found = unread_tables({**client(s0=HALF, s1=None), "unread": unread}, lanes)
    assert found is not None
    assert found["shards"] == {"s0": 2, "s1": 2}
    assert found["reasons"]["s0 shop_0.b"] == "denied still"
    assert unread_tables(client(s0=HALF), [shard("s0")]) is None


def test_of_many_unread_tables_some_are_named():
    failed = {f"shop.t{number:03}": "denied" for number in range(SHOWN_MAX)}
    lanes = [shard(name, failed=failed, failed_tables=99) for name in ("s0", "s1")]
    found = unread_tables(client(s0=HALF, s1=HALF), lanes)
    assert found is not None
    assert len(found["reasons"]) == SHOWN_MAX
    assert found["shards"] == {"s0": 99, "s1": 99}
    assert found["more"] == f"... and {2 * 99 - SHOWN_MAX} more"


def test_a_shards_own_state_does_not_name_clients():
    assert without_lanes(shard("s0")) == {"shard": "s0", "replays": [{"state": "streaming"}]}
