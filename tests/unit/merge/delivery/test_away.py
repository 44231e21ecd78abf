"""Client ids without a consumer: held for, or dropped after a while, as numbered stories."""

import pytest
from support.group.builders import Source, Tx, World, batch_idents

from canal_group.merge import events as ev
from canal_group.merge.calls.consumers import Release, Touch
from canal_group.merge.calls.resume import Resume
from canal_group.merge.errors import NotSubscribed, RolledBack, SubscriptionDropped

SECOND = 1_000_000
LEASE = 100 * SECOND


def release(world, client):
    call = world.call()
    world.tell(ev.Asked(call, Release(client, world.epochs[client]), world.now_us))
    world.result(call)


def away(**settings):
    """A world in which `old` went away after its first row, and `new` read all three."""
    world = World.of(Source(Tx(10), Tx(20), Tx(30)), lease_us=LEASE, **settings)
    world.subscribe("old")
    world.subscribe("new")
    world.report(0)
    world.ack(world.get("old", 1).batch_id, "old")
    release(world, "old")
    world.ack(world.get("new").batch_id, "new")
    return world


def dropped(**settings):
    world = away(drop_after_us=30 * SECOND, **settings)
    world.tick(30 * SECOND + 1)
    world.save()
    return world


def test_it_holds_the_rings_for_ever_by_default():
    world = away()
    world.now_us += 10_000 * SECOND
    world.subscribe("new")
    world.tick(1)
    assert world.rings[0].freed == 1


def test_it_is_dropped_after_a_while_and_the_rings_are_freed():
    world = away(drop_after_us=30 * SECOND)
    world.tick(30 * SECOND)
    assert world.rings[0].freed == 1
    world.tick(1)
    assert world.rings[0].freed == 3
    (asked,) = world.saving
    assert (asked.client_id, asked.dropped) == ("old", True)
    assert asked.cursor.shards["s0"].offset == 104, "its cursor stays"


def test_an_only_client_stays_while_inactive_and_delays_no_other():
    world = away(drop_after_us=30 * SECOND)
    release(world, "new")
    world.tick(1_000 * SECOND)
    assert world.rings[0].freed == 1
    assert not world.saving


def test_a_consumer_that_is_slow_is_not_away():
    world = World.of(Source(Tx(10)), lease_us=LEASE, drop_after_us=SECOND)
    world.subscribe("old")
    world.subscribe("new")
    world.tick(50 * SECOND)
    assert not world.saving


def test_its_next_call_says_what_happened_and_changes_nothing():
    world = dropped()
    before = world.group.describe(0)
    call = world.request_subscribe("old")
    with pytest.raises(SubscriptionDropped, match="no longer held") as refusal:
        world.result(call)
    assert '"offset":104' in refusal.value.details["cursor"]
    assert refusal.value.details["away_s"] == pytest.approx(30, abs=0.01)
    assert world.group.describe(0) == before


def test_it_continues_at_its_cursor_and_all_are_rolled_back():
    """The sources are read again from there; the other one gets nothing twice that it acknowledged."""
    world = dropped()
    world.request_subscribe("old", resume=Resume.CURSOR)
    world.lease()
    assert world.opening[0].position.offset == 104
    world.open_all()
    while world.saving:
        world.save()
    assert not world.stored["old"].dropped
    world.report(0)
    assert [position[2] for position in batch_idents(world.get("old"))] == [104, 204]
    assert world.get("new") is None


def test_it_continues_with_the_others_and_none_is_rolled_back():
    world = dropped()
    generation = world.group.generation
    world.request_subscribe("old", resume=Resume.NOW)
    world.lease()
    while world.saving:
        world.save()
    assert world.group.generation == generation
    assert world.stored["old"].cursor.shards["s0"].offset == 304
    assert not world.stored["old"].dropped
    assert world.get("old") is None


def test_it_goes_on_at_its_own_cursor_where_the_others_are_behind_it():
    """1. it has read all, the other one nothing; 2. it goes away, and is dropped; 3. it goes on where the
    others are: nothing that it acknowledged comes again; what is new does, and the other one gets it all.
    """
    world = World.of(Source(Tx(10), Tx(20), Tx(30)), lease_us=LEASE, drop_after_us=30 * SECOND)
    world.subscribe("fast")
    world.subscribe("slow")
    world.report(0, 2)
    world.ack(world.get("fast").batch_id, "fast")
    release(world, "fast")
    world.tick(30 * SECOND + 1)
    world.save()
    world.request_subscribe("fast", resume=Resume.NOW)
    world.lease()
    while world.saving:
        world.save()
    assert world.stored["fast"].cursor.shards["s0"].offset == 204
    assert world.stored["fast"].cursor.sequence == 2
    assert world.get("fast") is None
    world.report(0)
    assert [position[2] for position in batch_idents(world.get("fast"))] == [204]
    assert [position[2] for position in batch_idents(world.get("slow"))] == [4, 104, 204]


def test_a_rewind_and_a_restart_do_not_read_back_to_it():
    """A purged binlog after the cursor of a client id that nobody uses any more stops nobody."""
    world = dropped()
    end = world.stored["new"].cursor.shards["s0"]
    world.lose(0)
    assert world.opening[0].position == end
    world.open_all()
    world.epoch += 1
    world.restart()
    world.start()
    assert world.opening[0].position == end
    world.open_all()
    with pytest.raises(SubscriptionDropped):
        world.result(world.request_subscribe("old"))
    world.subscribe("new")
    with pytest.raises(RolledBack):
        world.ack(1, "new")


def test_a_client_dropped_during_its_lease_write_continues_at_its_cursor():
    world = World.of(Source(Tx(10), Tx(20)), lease_us=1_000_000, drop_after_us=1_000_000)
    world.subscribe("app")
    world.subscribe("old")
    world.tell(ev.Asked(world.call(), Release("old", 1), world.now_us))
    call = world.request_subscribe("old", "back")
    for _ in range(2):
        world.tell(ev.Asked(world.call(), Touch("app", 1), world.now_us))
        world.tick(900_000)
    assert world.saving[0].dropped
    world.lease()
    world.open_all()
    while world.saving:
        world.save()
    assert world.result(call)
    world.report_all()
    assert len(world.get("old").headers) == 2


def test_a_dropped_client_does_not_prevent_dropping_another():
    world = World.of(Source(Tx(10)), lease_us=LEASE, drop_after_us=30 * SECOND)
    for client in ("first", "second", "app"):
        world.subscribe(client)
    for client in ("first", "second"):
        release(world, client)
        world.tick(20 * SECOND)
    for _ in range(2):
        world.tick(11 * SECOND)
        while world.saving:
            world.save()
    assert [client["dropped"] for client in world.group.describe(0)["clients"]] == [True, True, False]


def test_a_client_stored_as_dropped_has_to_subscribe_to_the_next_server():
    """1. A dropped client subscribes again and has its lease. 2. Its server dies before that is written."""
    world = World.of(Source(Tx(1)))
    cursor = world.subscribe()
    world.restart()
    world.start(ev.ConsumerState("c", "", cursor, "h", world.epochs["c"], dropped=True))
    world.open_all()
    call = world.request_get()
    with pytest.raises(NotSubscribed):
        world.result(call)


def unacknowledged(**how):
    """A world in which `old` went away before its first acknowledgement, and `new` read all three."""
    world = World.of(Source(Tx(10), Tx(20), Tx(30)), lease_us=LEASE, unacknowledged_us=30 * SECOND)
    world.subscribe("old", **how)
    world.subscribe("new")
    world.report(0)
    release(world, "old")
    world.ack(world.get("new").batch_id, "new")
    return world


def test_one_that_never_acknowledged_is_dropped_by_default():
    world = unacknowledged()
    world.tick(30 * SECOND)
    assert world.rings[0].freed == 0
    world.tick(1)
    assert world.rings[0].freed == 3
    world.save()
    with pytest.raises(SubscriptionDropped):
        world.result(world.request_subscribe("old"))


def test_one_that_asked_to_be_kept_is_held_for_ever():
    world = unacknowledged(keep=True)
    world.tick(1_000 * SECOND)
    assert world.rings[0].freed == 0
    assert world.stored["old"].lasting


def test_an_acknowledgement_of_before_an_election_counts():
    world = away(unacknowledged_us=30 * SECOND)
    assert world.stored["old"].lasting
    world.epoch += 1
    world.restart()
    world.start()
    world.open_all()
    world.subscribe("new", "n")
    world.tick(1_000 * SECOND)
    assert not world.saving
