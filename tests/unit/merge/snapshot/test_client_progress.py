"""How far the snapshot of a client id is, told from its cursor and from the lanes that read for it."""

from __future__ import annotations

from dataclasses import replace

from canal_group.merge.snapshot.client_progress import FAILED_MAX, client_progress, without_lanes
from canal_group.merge.snapshot.cursor import DONE, SnapshotCursor
from canal_group.merge.values.position import GroupPosition, Position

ID = "copy-3-1700"
HALF = SnapshotCursor(ID, {"shop_0.a": DONE}).to_json()


def client(**texts: str | None) -> dict[str, object]:
    shards = {name: replace(Position("bin.1", 4), snapshot=text) for name, text in texts.items()}
    return {"client_id": "copy", "cursor": GroupPosition(shards).to_json()}


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
    assert progress["words"] == (
        "snapshot: tables read: 5 of 8, rows: 2,300 of about 3,000, about 7 s left,"
        " tables that cannot be read: 1"
    )
    assert progress["failed"] == {"s0 shop_0.b": "denied"}
    assert [(part["shard"], part["rows"]) for part in progress["shards"]] == [("s0", 300), ("s1", 2_000)]


def test_a_client_for_which_nothing_is_read_has_what_its_cursor_says():
    wanted = replace(SnapshotCursor.from_json(HALF), wanted=("shop_0.a", "shop_0.b"), paused=True).to_json()
    for text, words in (
        (HALF, "snapshot: tables read: 1, rows: 0"),
        (wanted, "snapshot: tables read: 1 of 2, rows: 0, paused"),
    ):
        progress = client_progress(client(s0=text), [{"shard": "s0", "state": "unavailable"}])
        assert progress is not None
        assert progress["words"] == words


def test_of_many_failed_tables_some_are_named():
    failed = {f"shop.t{number:03}": "denied" for number in range(FAILED_MAX)}
    lanes = [shard(name, failed=failed, failed_tables=99) for name in ("s0", "s1")]
    progress = client_progress(client(s0=HALF, s1=HALF), lanes)
    assert progress is not None
    assert len(progress["failed"]) == FAILED_MAX
    assert progress["failed_tables"] == 2 * 99


def test_a_shards_own_state_does_not_name_clients():
    assert without_lanes(shard("s0")) == {"shard": "s0", "replays": [{"state": "streaming"}]}
