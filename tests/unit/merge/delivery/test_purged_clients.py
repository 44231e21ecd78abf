"""One client cannot hurt another: one whose position was purged is set aside, and what becomes of it."""

from dataclasses import replace

import pytest
from support.group.builders import Source, Tx, World
from support.group.purges import (
    OPENED_FIRST,
    TRANSACTIONS,
    committing,
    let_time_pass,
    numbers,
    open_what_is_left,
    phase,
    restarted,
    subscribe,
)

from canal_group.merge import events as ev
from canal_group.merge.calls.consumers import Unsubscribe
from canal_group.merge.calls.resume import Resume
from canal_group.merge.errors import PositionPurged, PositionRefused, SubscriptionDropped
from canal_group.merge.group import PURGED_WAIT_US
from canal_group.merge.values.offset_range import OffsetRange
from canal_group.merge.values.position import GroupPosition

pytestmark = pytest.mark.usefixtures("opened_first")


def test_a_client_at_a_purged_position_is_excluded_and_others_continue():
    """1. The shard cannot be opened for `other`. 2. After a while it is named, and nothing is kept for it.
    3. `app` goes on. 4. `other` is told why with its next get, and only it.
    """
    world = restarted()
    subscribe(world, "app")
    assert world.opening, "it had its time to come back"
    let_time_pass(world, "app")
    assert not world.opening
    state = next(each for each in world.group.describe(0)["clients"] if each["client_id"] == "other")
    assert (state["phase"], "It is gone." in state["error"]) == ("purged", True)
    world.report_all()
    batch = world.get("app")
    assert numbers(batch) == [5, 6, 7, 8]
    world.ack(batch.batch_id, "app")
    assert world.rings[0].freed == TRANSACTIONS, "no ring is held for it"
    subscribe(world, "other")
    with pytest.raises(PositionPurged, match="Client other cannot go on at its cursor"):
        world.get("other")
    with pytest.raises(PositionPurged):
        world.get("other")
    assert world.get("app") is None


def test_a_client_is_excluded_if_the_source_has_another_history():
    """It is the further one: what it has read is compared when the shard is opened for another one."""
    world = committing()
    read_to = world.stored["app"].cursor.shards["s0"]
    world.epoch += 1
    world.restart()
    world.start()
    asked = world.opening[0]
    assert asked.position == world.stored["other"].cursor.shards["s0"]
    assert asked.read_to == (read_to,)
    for _ in range(3):
        if asked.read_to and OPENED_FIRST[0]:
            world.tell(ev.ShardOpened(0, asked.generation, asked.position, world.now_us))
        if asked.read_to:
            error = PositionRefused("It has something else.", refused=read_to.to_json())
            world.tell(ev.ShardFailed(0, asked.generation, error, world.now_us))
        world.tick(PURGED_WAIT_US // 2 + 1)
        asked = world.opening.get(0, asked)
    assert (phase(world, "app"), asked.read_to) == ("purged", ())
    world.open(0)
    subscribe(world, "other")
    world.report_all()
    assert numbers(world.get("other")) == list(range(1, TRANSACTIONS + 1))
    subscribe(world, "app")
    with pytest.raises(PositionRefused, match="Client app cannot go on at its cursor"):
        world.get("app")


def test_of_two_histories_at_one_position_the_refused_client_is_excluded():
    """Only the creation of the file tells their positions apart."""
    world = committing()
    saved = world.stored["app"]
    own = saved.cursor.shards["s0"]
    other = replace(own, created_s=own.created_s + 1)
    world.stored["third"] = replace(saved, client_id="third", cursor=saved.cursor.with_shard("s0", other))
    world.epoch += 1
    world.restart()
    world.start()
    asked = world.opening[0]
    assert set(asked.read_to) == {own, other}
    error = PositionRefused("It has something else.", refused=other.to_json())
    for _ in range(3):
        if other in asked.read_to:
            world.tell(ev.ShardFailed(0, asked.generation, error, world.now_us))
        world.tick(PURGED_WAIT_US // 2 + 1)
        asked = world.opening.get(0, asked)
    assert [phase(world, client) for client in ("app", "third")] == ["waiting", "purged"]
    assert asked.read_to == (own,)


def test_a_client_that_was_set_aside_may_go_on_where_the_others_are():
    world = restarted()
    subscribe(world, "app")
    let_time_pass(world, "app")
    call = subscribe(world, "other", Resume.NOW)
    open_what_is_left(world)
    while world.saving:
        world.save()
    assert call in world.answers
    world.report_all()
    assert numbers(world.get("other")) == [5, 6, 7, 8]


def test_a_client_that_was_set_aside_may_try_again_at_its_cursor():
    """An operator has put the binlog files back."""
    world = restarted()
    subscribe(world, "app")
    let_time_pass(world, "app")
    call = subscribe(world, "other", Resume.CURSOR)
    world.open_all()
    while world.saving:
        world.save()
    assert call in world.answers
    world.report_all()
    assert numbers(world.get("other")) == list(range(1, TRANSACTIONS + 1))
    assert numbers(world.get("app")) == [5, 6, 7, 8]


def test_a_purged_client_keeps_its_cursor_while_it_affects_no_other():
    world = World.of(Source(*[Tx(10 * n) for n in range(1, TRANSACTIONS + 1)]))
    world.subscribe("only")
    world.epoch += 1
    world.restart()
    world.start()
    subscribe(world, "only")
    let_time_pass(world, "only")
    assert phase(world, "only") in ("waiting", "reading")
    assert list(world.opening) == [0]
    call = world.request_get("only")
    world.tell(ev.GetTimedOut(call, "only"))
    with pytest.raises(PositionPurged):
        world.result(call)


def test_a_new_client_begins_at_the_configured_start_if_all_are_purged():
    world = restarted()
    asked = world.opening[0].position
    for client in ("app", "other"):
        world.stored[client] = world.stored["other"]
    world.epoch += 1
    world.restart()
    world.start()
    assert world.opening[0].position == asked
    open_what_is_left(world)
    subscribe(world, "new")
    let_time_pass(world, "new")
    assert not world.opening
    assert [phase(world, client) for client in ("app", "other", "new")] == ["purged", "purged", "reading"]


def test_an_unsubscribe_instead_lets_the_others_continue():
    world = restarted()
    subscribe(world, "app")
    subscribe(world, "other")
    call = world.call()
    world.tell(ev.Asked(call, Unsubscribe("other", world.epochs["other"]), world.now_us))
    assert world.answers[call] is None
    world.tick(1)
    open_what_is_left(world)
    world.report_all()
    assert numbers(world.get("app")) == [5, 6, 7, 8]


def test_an_excluded_client_that_stays_inactive_is_dropped_for_good():
    world = committing(lease_us=1_000_000, drop_after_us=3_000_000)
    world.epoch += 1
    world.restart()
    world.start()
    open_what_is_left(world)
    subscribe(world, "app")
    let_time_pass(world, "app")
    assert phase(world, "other") == "purged"
    for _ in range(4):
        let_time_pass(world, "app")
    assert (phase(world, "other"), world.stored["other"].dropped) == ("dropped", True)
    with pytest.raises(SubscriptionDropped):
        world.result(world.request_subscribe("other"))


def test_a_range_that_was_purged_is_its_readers_error_alone():
    """1. A query is restarted with an old checkpoint. 2. It hears that this is purged; `app` goes on."""
    world = committing()
    world.ack(world.get("other").batch_id, "other")
    begin = GroupPosition({"s0": world.sources[0].start})
    call = world.request_range(OffsetRange(begin), "other")
    open_what_is_left(world)
    with pytest.raises(PositionPurged):
        world.result(call)
    open_what_is_left(world)
    assert not world.opening
    world.report_all()
    assert numbers(world.get("app")) == [5, 6, 7, 8]
    assert phase(world, "other") == "reading"


def test_a_purged_client_that_seeks_what_is_purged_as_well_is_purged_again():
    world = restarted()
    subscribe(world, "app")
    let_time_pass(world, "app")
    subscribe(world, "other")
    first = GroupPosition({"s0": world.sources[0].ends[0]}, 1)
    call = world.request_range(OffsetRange(first), "other")
    open_what_is_left(world)
    with pytest.raises(PositionPurged):
        world.result(call)
    open_what_is_left(world)
    assert (phase(world, "other"), phase(world, "app"), world.opening) == ("purged", "reading", {})


def test_a_source_that_regains_the_position_in_time_affects_no_client():
    """An address led to another server for a moment."""
    world = restarted()
    subscribe(world, "app")
    world.tick(PURGED_WAIT_US // 2)
    if OPENED_FIRST[0]:
        world.opening.clear()
        world.rings[0].generation = world.group.generation
        world.report(0, 0, low_watermark_us=1)
    else:
        world.open_all()
    world.tick(PURGED_WAIT_US)
    world.report_all()
    subscribe(world, "other")
    assert (phase(world, "app"), phase(world, "other")) == ("reading", "reading")
    assert world.status(0)["state"] == "open"


def test_a_client_without_acks_that_seeks_purged_rows_gets_the_error():
    """It began where the log did; what it asks for then is its own wish, and no beginning anywhere else."""
    world = committing()
    world.ack(world.get("other").batch_id, "other")
    world.subscribe("new")
    begin = GroupPosition({"s0": world.sources[0].start})
    call = world.request_range(OffsetRange(begin), "new")
    open_what_is_left(world)
    with pytest.raises(PositionPurged):
        world.result(call)
    open_what_is_left(world)
    world.report_all()
    assert [numbers(world.get(client)) for client in ("app", "new")] == [[5, 6, 7, 8]] * 2


def test_a_purged_client_may_go_on_from_a_position_that_the_log_holds():
    world = restarted()
    subscribe(world, "app")
    let_time_pass(world, "app")
    subscribe(world, "other")
    world.report_all()
    ahead = GroupPosition({"s0": world.sources[0].ends[4]}, 5)
    call = world.request_range(OffsetRange(ahead), "other")
    open_what_is_left(world)
    world.report_all()
    assert numbers(world.result(call)) == [6, 7, 8]
    assert phase(world, "other") == "reading"


def test_a_purged_client_may_unsubscribe():
    world = restarted()
    world.forgets = False
    subscribe(world, "app")
    let_time_pass(world, "app")
    subscribe(world, "other")
    world.tell(ev.Asked(world.call(), Unsubscribe("other", world.epochs["other"]), world.now_us))
    state = next(each for each in world.group.describe(0)["clients"] if each["client_id"] == "other")
    assert (state["phase"], state["error"]) == ("leaving", None)
