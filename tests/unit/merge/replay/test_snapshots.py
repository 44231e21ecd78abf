"""Clients that get the rows that there are: each reads pages in a replay, and then joins the others."""

from dataclasses import replace

import pytest
from support.group.builders import Source, Tx, World, drain

from canal_group.merge import events as ev
from canal_group.merge.calls.consumers import Ack, GetRange, Unsubscribe
from canal_group.merge.calls.operators import (
    AddToSnapshot,
    PauseSnapshot,
    ReadAgain,
    RemoveShard,
    ResumeSnapshot,
    SetClientAside,
    StopSnapshot,
)
from canal_group.merge.errors import DataError, RetryableError, RolledBack, UsageError
from canal_group.merge.snapshot.cursor import SnapshotCursor
from canal_group.merge.values.lane import LIVE, lane_of
from canal_group.merge.values.marks.snapshot_mark import FailedTables, SnapshotEnd
from canal_group.merge.values.offset_range import OffsetRange

COUNT = 6
TIMES = [[100 * n + shard for n in range(1, COUNT + 1)] for shard in (0, 1)]


def shop(*, replays_max=2, **settings):
    """Return a world of two shards whose first four transactions have come in, and that one client reads."""
    world = World.of(*(Source(*map(Tx, times)) for times in TIMES), replays_max=replays_max, **settings)
    world.subscribe("app")
    for shard in (0, 1):
        world.report(shard, 4, 450)
    return world


def text(number=0, **more):
    return SnapshotCursor(f"copy-{number}", **more).to_json()


def with_pages(world, *, over=True, end=SnapshotEnd(), **more):  # noqa: B008  it is frozen
    """Have replays bring two pages after each shard's fifth transaction, with the mark of the end."""
    for shard, times in enumerate(TIMES):
        mark = [Tx(times[4], (0,), page=True, snapshot=end.to_text())] if over else []
        pages = [Tx(times[4], (3,), page=True, snapshot=text(n, **more)) for n in (1, 2)]
        world.paged[shard] = Source(*map(Tx, times[:5]), *pages, *mark, *map(Tx, times[5:]))


def described(world, client):
    return next(each for each in world.group.describe(world.now_us)["clients"] if each["client_id"] == client)


def steer(world, call):
    number = world.call()
    world.tell(ev.Asked(number, call, world.now_us))
    if world.saving:
        world.save()
    return world.result(number)


def test_a_client_with_a_snapshot_reads_alone_until_it_is_over():
    """1. One reads; 2. another begins with a snapshot: the shards are opened for it alone, at positions that
    say so; 3. it gets all that is after them and the pages, once; 4. it joins after the marks.
    """
    world = shop()
    drain(world, "app")
    world.subscribe("copy", snapshot=True)
    opened = list(world.replay_opening.values())
    assert {lane_of(asked.generation) for asked in opened} == {LIVE + 1}
    texts = [SnapshotCursor.from_json(asked.position.snapshot) for asked in opened]
    assert texts == [SnapshotCursor(texts[0].id)] * 2
    assert texts[0].id.startswith("copy-")
    with_pages(world)
    world.report_all()
    rest = drain(world, "app")
    world.replay()
    assert described(world, "copy")["replay"]["state"] == "running"
    found = drain(world, "copy", rows_max=2)
    assert len(found) == len(set(found)) == 2 * (2 + 2 + 1)
    assert set(rest) < set(found)
    assert described(world, "copy")["replay"] is None
    assert not world.replay_rings
    assert world.stored["copy"].cursor.snapshots == {}


def test_a_cursor_inside_a_snapshot_says_how_far_it_is():
    """1. A client has acknowledged a snapshot, and of the other a page; 2. it is replayed from there."""
    world = shop()
    drain(world, "app")
    world.subscribe("copy", snapshot=True)
    with_pages(world)
    world.replay()
    while world.stored["copy"].cursor.snapshots != {"s1": text(1)}:
        world.ack(world.get("copy", 1).batch_id, "copy")
    world.epoch += 1
    world.restart()
    world.start()
    world.open_all()
    world.subscribe("copy")
    asked = [(each.position.snapshot, each.position.page_rows) for each in world.replay_opening.values()]
    assert asked == [(None, 7), (text(1), 3)]
    world.replay()
    assert len(drain(world, "copy")) == (1) + (1 + 1 + 1)


def test_what_an_event_makes_read_again_counts_with_its_acknowledgement():
    world = shop()
    drain(world, "app")
    world.subscribe("copy", snapshot=True)
    for shard, times in enumerate(TIMES):
        world.paged[shard] = Source(*map(Tx, times[:4]), Tx(times[4], (1, 1), snapshot=text(7)), Tx(times[5]))
    world.replay()
    first = world.get("copy", 1)
    world.ack(first.batch_id, "copy")
    assert world.stored["copy"].cursor.snapshots["s0"] != text(7)
    world.ack(world.get("copy", 1).batch_id, "copy")
    assert world.stored["copy"].cursor.snapshots["s0"] == text(7)


@pytest.mark.parametrize("merges", [False, True])
def test_an_acknowledgement_that_a_rewind_overtakes(merges):
    """1. A page is acknowledged; 2. its shard is lost before that is stored, and opened at the older cursor;
    3. it is stored, perhaps before the shards are open: pages that were read again may be others, so all
    is opened where the cursor is.
    """
    world = shop()
    drain(world, "app")
    world.subscribe("copy", snapshot=True)
    with_pages(world)
    world.replay()
    while SnapshotCursor.from_json(world.stored["copy"].cursor.snapshots["s0"]).id != "copy-1":
        batch = world.get("copy", 1)
        number = world.call()
        world.tell(ev.Asked(number, Ack("copy", world.epochs["copy"], batch.batch_id), world.now_us))
        if batch.ack.snapshots["s0"] == text(1):
            break
        world.save()
    (_, shard), ring = next(iter(world.replay_rings.items()))
    world.tell(ev.ShardLost(shard, ring.generation, "it is gone", world.now_us))
    assert world.stored["copy"].cursor.shards["s0"].snapshot != text(1)
    world.save()
    if merges:
        world.replay()
    world.tick(1)
    opened = {each.shard: each.position for each in world.replay_opening.values()}
    assert opened[0] == world.stored["copy"].cursor.shards["s0"]
    assert opened[0].snapshot == text(1)


def test_a_client_with_a_cursor_keeps_it():
    world = shop()
    drain(world, "app")
    world.subscribe("app", snapshot=True)
    assert not world.replay_opening
    assert world.stored["app"].cursor.snapshots == {}


@pytest.mark.parametrize(("how", "said"), [({"look": True}, "look"), ({}, "archive")])
def test_what_cannot_have_a_snapshot_is_refused(how, said):
    world = shop(replays_max=2 if how else 0)
    with pytest.raises(UsageError, match=said):
        world.subscribe("copy", snapshot=True, **how)


def test_a_snapshot_waits_until_the_shards_are_open():
    world = World.of(*(Source(*map(Tx, times)) for times in TIMES), replays_max=1, start=False)
    world.start()
    with pytest.raises(RetryableError, match="opened"):
        world.subscribe("copy", snapshot=True)


def test_a_snapshot_is_paused_resumed_and_stopped_at_its_cursor():
    world = shop()
    drain(world, "app")
    world.subscribe("copy", snapshot=True)
    with_pages(world, over=False)
    world.replay()
    batch = world.get("copy", 1)
    assert steer(world, PauseSnapshot("copy"))["shards"] == ["s0", "s1"]
    with pytest.raises(RolledBack):
        world.ack(batch.batch_id, "copy")
    assert all(
        SnapshotCursor.from_json(each.position.snapshot).paused for each in world.replay_opening.values()
    )
    steer(world, ResumeSnapshot("copy"))
    asked = [SnapshotCursor.from_json(each.position.snapshot) for each in world.replay_opening.values()]
    assert not any(each.paused for each in asked)
    assert steer(world, StopSnapshot("copy")) == {"client_id": "copy", "shards": []}
    with pytest.raises(UsageError, match="no snapshot"):
        steer(world, StopSnapshot("copy"))
    assert world.stored["copy"].cursor.snapshots == {}
    with pytest.raises(RolledBack):
        world.get("copy")
    world.report_all()
    assert len(drain(world, "copy")) == len(drain(world, "app")) > 0


UNREAD = {name: FailedTables.of({"shop.a": "denied"}) for name in ("s0", "s1")}


def unread_of(world):
    return {name: FailedTables.from_dict(each) for name, each in described(world, "copy")["unread"].items()}


def with_unread(world):
    """Let a client read a snapshot to its end that could not read a table."""
    drain(world, "app")
    world.subscribe("copy", snapshot=True)
    with_pages(world, end=SnapshotEnd(None, UNREAD["s0"]))
    world.replay()
    while world.saving:
        world.save()
    drain(world, "copy")


def read_anew(world, *tables, client="copy"):
    """Let an operator have tables read anew, one after the other, by snapshots that read them; the last one
    ends now.
    """
    steer(world, ReadAgain(client, tables[-1]))
    for shard, times in enumerate(TIMES):
        ends = [SnapshotEnd((name,)).to_text() for name in tables]
        marks = [Tx(times[-1], (0,), page=True, snapshot=end) for end in ends]
        world.paged[shard] = Source(*map(Tx, times), *marks)
    world.replay()
    while world.saving:
        world.save()
    drain(world, client)


def test_unread_tables_stay_until_a_snapshot_has_read_them():
    """1. The mark is acknowledged, and another server takes over; 2. a snapshot of another table ends; 3. one
    of the table does.
    """
    world = shop()
    with_unread(world)
    assert world.stored["copy"].cursor.snapshots == {}
    assert unread_of(world) == world.stored["copy"].unread == UNREAD
    world.epoch += 1
    world.restart()
    world.start()
    world.open_all()
    world.subscribe("copy")
    assert unread_of(world) == UNREAD
    read_anew(world, "shop.b")
    assert unread_of(world) == UNREAD
    read_anew(world, "shop.b", "shop.a")
    assert unread_of(world) == world.stored["copy"].unread == {}
    assert not world.stored["app"].unread


def test_a_snapshot_of_another_client_leaves_unread_tables():
    world = shop()
    with_unread(world)
    read_anew(world, "shop.a", client="app")
    assert world.stored["app"].cursor.snapshots == {}
    assert unread_of(world) == world.stored["copy"].unread == UNREAD


def test_unread_tables_are_stored_although_the_answer_is_lost():
    """They are written as soon as a shard reports them: a client may go on after the mark unacknowledged."""
    world = shop()
    drain(world, "app")
    world.subscribe("copy", snapshot=True)
    with_pages(world, end=SnapshotEnd(None, UNREAD["s0"]))
    world.replay()
    assert world.saving[0].unread
    assert world.saving[0].cursor.snapshots
    world.save(RetryableError("The answer is lost.", retry_after_s=0.1))
    world.tick(1)
    while world.saving:
        world.save()
    assert world.stored["copy"].unread == UNREAD
    assert world.stored["copy"].cursor.snapshots
    drain(world, "copy")
    assert world.stored["copy"].unread == UNREAD


@pytest.mark.parametrize("how", ["stopped", "moved", "moved with a snapshot", "removed"])
def test_unread_tables_are_given_up_with_what_they_were_of(how):
    world = shop()
    with_unread(world)
    start = world.stored["copy"].cursor
    if how == "stopped":
        assert steer(world, StopSnapshot("copy")) == {"client_id": "copy", "shards": []}
        assert world.stored["copy"].cursor == start
        with pytest.raises(UsageError, match="no snapshot"):
            steer(world, StopSnapshot("copy"))
    elif how == "removed":
        number = world.call()
        world.tell(ev.Asked(number, Unsubscribe("copy", world.epochs["copy"]), world.now_us))
        world.result(number)
        world.subscribe("copy")
    else:
        world.subscribe("copy", start=start, move=True, snapshot="snapshot" in how)
    assert unread_of(world) == world.stored["copy"].unread == {}


def test_unread_tables_of_a_shard_that_left_are_forgotten():
    world = shop()
    with_unread(world)
    number = world.call()
    world.tell(ev.Asked(number, RemoveShard("s1", now=True), world.now_us))
    while world.saving:
        world.save()
    assert unread_of(world).keys() == world.stored["copy"].unread.keys() == {"s0"}


def unanswered(world, call):
    """Make an operator's call whose change the store does not confirm: it is not answered before."""
    number = world.call()
    world.tell(ev.Asked(number, call, world.now_us))
    assert number not in world.answers
    world.save(RetryableError("The store does not answer.", retry_after_s=0.1))
    with pytest.raises(RetryableError, match="does not answer"):
        world.result(number)


def test_a_snapshot_is_steered_when_that_is_stored():
    """1. The write is lost; 2. the same call is refused until it was repeated."""
    world = shop()
    drain(world, "app")
    unanswered(world, AddToSnapshot("app", "shop.a"))
    with pytest.raises(RetryableError, match="not stored yet"):
        steer(world, AddToSnapshot("app", "shop.a"))
    assert world.stored["app"].cursor.snapshots == {}
    world.tick(1)
    world.save()
    assert len(world.stored["app"].cursor.snapshots) == 2
    with pytest.raises(UsageError, match="already"):
        steer(world, AddToSnapshot("app", "shop.a"))


def test_a_client_id_is_set_aside_when_that_is_stored():
    world = shop()
    drain(world, "app")
    unanswered(world, SetClientAside("app"))
    assert not world.stored["app"].dropped
    assert steer(world, SetClientAside("app"))["client_id"] == "app"
    assert world.stored["app"].dropped


def test_a_table_is_added_and_read_again():
    """1. A client without a snapshot gets one of a table; 2. the same table again, in part, is read anew."""
    world = shop()
    drain(world, "app")
    assert steer(world, AddToSnapshot("app", "shop.a"))["shards"] == ["s0", "s1"]
    asked = next(iter(world.replay_opening.values())).position.snapshot
    assert SnapshotCursor.from_json(asked).wanted == ("shop.a",)
    with pytest.raises(UsageError, match="already"):
        steer(world, AddToSnapshot("app", "shop.a"))
    steer(world, ReadAgain("app", "shop.b", "k > 3"))
    steer(world, ReadAgain("app", "shop.a"))
    asked = next(iter(world.replay_opening.values())).position.snapshot
    cursor = SnapshotCursor.from_json(asked)
    assert (cursor.wanted, cursor.where) == (("shop.a", "shop.b"), {"shop.b": "k > 3"})
    for table in ("shop.a", "shop.b"):
        with pytest.raises(UsageError, match="the rest would not come"):
            steer(world, ReadAgain("app", table, "k > 5"))
    with pytest.raises(UsageError, match="Expected"):
        steer(world, AddToSnapshot("app", "nothing"))


def test_a_consumer_brings_no_snapshot_that_it_does_not_have():
    """A kept position is refused that has conditions which the cursor does not have: they would be run. And
    so is one of another client's snapshot: its pages would be removed.
    """
    world = shop()
    world.ack(world.get("app", 1).batch_id, "app")
    begin = world.stored["app"].cursor
    drain(world, "app")
    own, others, asked = (
        SnapshotCursor(name, where=where).to_json()
        for name, where in (("app-1-1", {}), ("copy-1-1", {}), ("app-1-1", {"shop.a": "SLEEP(9)"}))
    )
    for chosen in (asked, others, own):
        start = begin.with_snapshots(dict.fromkeys(begin.shards, chosen))
        call = world.call()
        world.tell(
            ev.Asked(call, GetRange("app", world.epochs["app"], OffsetRange(start), 1.0), world.now_us)
        )
        if chosen != own:
            with pytest.raises(UsageError, match="does not have"):
                world.result(call)
    moved = world.subscribe("other", start=begin.with_snapshots(dict.fromkeys(begin.shards, asked)))
    assert moved.snapshots == {}


def test_a_range_from_before_a_snapshot_was_steered_is_of_the_cursors():
    world = shop()
    drain(world, "app")
    world.subscribe("copy", snapshot=True)
    with_pages(world, over=False)
    world.replay()
    noted = world.stored["copy"].cursor
    assert noted.snapshots
    steer(world, StopSnapshot("copy"))
    world.report_all()
    world.replay()
    batch = world.offset_range(OffsetRange(noted), "copy")
    assert batch.ack.snapshots == {}


def lose(world):
    """Lose the shards of the replays."""
    for (_, shard), ring in world.replay_rings.items():
        world.tell(ev.ShardLost(shard, ring.generation, "gone", world.now_us))
    world.replay_rings.clear()


@pytest.mark.parametrize("lane", ["first", "second"])
def test_a_range_has_the_pages_that_it_had(lane):
    """A lane without the pages of the one before selects others: as many rows, but not the same."""
    world = shop()
    drain(world, "app")
    world.subscribe("copy", snapshot=True)
    with_pages(world, over=False, selected_by="first")
    world.replay()
    noted = world.stored["copy"].cursor
    first = world.offset_range(OffsetRange(noted), "copy")
    assert {SnapshotCursor.from_json(each).selected_by for each in first.end.snapshots.values()} == {"first"}
    lose(world)
    with_pages(world, over=False, selected_by=lane)
    world.replay()
    if lane == "first":
        again = world.offset_range(OffsetRange(noted, first.end), "copy")
        assert again.end == first.end
    else:
        with pytest.raises(DataError, match="selected anew"):
            world.offset_range(OffsetRange(noted, first.end), "copy")


def test_a_range_with_pages_is_not_read_from_another_server():
    """1. A range with pages is handed out; 2. another server takes over, in whose stream they are elsewhere:
    the range would lack them, while its end says that they were read. 3. Its client goes on at its cursor.
    """
    world = shop()
    drain(world, "app")
    world.subscribe("copy", snapshot=True)
    with_pages(world, over=False)
    world.replay("one")
    noted = world.stored["copy"].cursor
    first = world.offset_range(OffsetRange(noted), "copy")
    assert first.rows == 2 * (2 + 6), "of each shard two transactions and two pages of three rows"
    for shard in (0, 1):
        world.paged[shard] = Source(*map(Tx, TIMES[shard]))
    lose(world)
    world.replay("other")
    with pytest.raises(DataError, match="another server"):
        world.offset_range(OffsetRange(noted, first.end), "copy")
    assert world.stored["copy"].cursor == noted


def begun(world):
    """Let a client begin a snapshot and read a range of two transactions; return its cursor and the range."""
    drain(world, "app")
    world.subscribe("copy", snapshot=True)
    with_pages(world, over=False)
    world.replay()
    noted = world.stored["copy"].cursor
    return noted, world.offset_range(OffsetRange(noted, rows_max=2), "copy")


def asked_for(world):
    """Return the snapshots with which the shards are opened for replays."""
    return [each.position.snapshot for each in world.replay_opening.values()]


STEERED = [PauseSnapshot("copy"), ReadAgain("copy", "shop.a"), StopSnapshot("copy")]


@pytest.mark.parametrize("call", STEERED)
def test_a_range_that_begins_after_the_cursor_does_not_undo_a_steering(call):
    """1. A range is noted; 2. its snapshot is steered before it is acknowledged; 3. its consumer goes on.

    Where it is further than the cursor, pages that follow the cursor are not for it: rows that were changed
    before it begins are left out of them.
    """
    world = shop()
    noted, first = begun(world)
    steer(world, call)
    steered = world.stored["copy"].cursor.snapshots
    world.request_range(OffsetRange(first.end), "copy")
    asked = dict(zip(first.end.shards, map(SnapshotCursor.from_json, asked_for(world)), strict=False))
    assert [replace(each, selected_by="").to_json() for each in asked.values()] == [*steered.values()]
    assert {each.steered for each in asked.values()} <= {1}
    further = {name for name in asked if first.end.shards[name].offset != noted.shards[name].offset}
    assert {name for name, each in asked.items() if each.selected_by} == further
    assert further or not steered


def test_shards_are_opened_with_what_a_range_says_of_its_tables():
    """They are open where the range begins, and bring the pages that follow the cursor's tables."""
    world = shop()
    noted, first = begun(world)
    (shard,) = (name for name, at in first.end.shards.items() if at.offset != noted.shards[name].offset)
    said = replace(SnapshotCursor.from_json(first.end.snapshots[shard]), selected_by="elsewhere").to_json()
    world.request_range(OffsetRange(first.end.with_snapshots({shard: said})), "copy")
    assert said in asked_for(world)


@pytest.mark.parametrize("call", STEERED)
def test_a_range_that_is_read_again_ends_with_what_is_read_now(call):
    world = shop()
    noted, first = begun(world)
    steer(world, call)
    steered = world.stored["copy"].cursor.snapshots
    for shard, times in enumerate(TIMES):
        world.paged[shard] = Source(*map(Tx, times))
    world.replay()
    world.report_all()
    again = world.offset_range(OffsetRange(noted, first.end), "copy")
    world.ack(again.batch_id, "copy")
    assert world.stored["copy"].cursor.snapshots == steered


@pytest.mark.parametrize("call", STEERED)
def test_a_range_that_waits_is_refused_when_its_snapshot_is_steered(call):
    world = shop()
    _, first = begun(world)
    waiting = world.request_range(OffsetRange(first.end, rows_min=1_000), "copy")
    steer(world, call)
    with pytest.raises(RolledBack, match="has moved"):
        world.result(waiting)


def test_a_range_from_before_the_cursor_is_refused_when_more_is_read_since():
    world = shop()
    noted, first = begun(world)
    world.ack(first.batch_id, "copy")
    steer(world, ReadAgain("copy", "shop.a"))
    with pytest.raises(UsageError, match="an operator has changed"):
        world.offset_range(OffsetRange(noted, first.end), "copy")
