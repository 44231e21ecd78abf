"""What the cursor store is told of subscriptions, and when a write that failed is made good."""

from dataclasses import replace

import pytest
from support.defaults import batch_limits
from support.group.builders import Source, Tx, World

from canal_group.merge import events as ev
from canal_group.merge import instructions as do
from canal_group.merge.calls.consumers import Get, Release, Rollback, SubscribeAt, Unsubscribe
from canal_group.merge.calls.resume import Resume
from canal_group.merge.delivery.read_position import HEADERS_MAX
from canal_group.merge.errors import (
    ConfigError,
    CoordinatorUnavailable,
    CorruptEvent,
    FencedError,
    RetryableError,
    RolledBack,
    SubscriptionDropped,
    UsageError,
)
from canal_group.merge.order.dead_shard import DeadShard
from canal_group.merge.values.commit_time import END_OF_TIME_US
from canal_group.merge.values.member import Policy
from canal_group.merge.values.offset_range import OffsetRange
from canal_group.merge.values.position import GroupPosition, Position

SECOND = 1_000_000


def described(world, client="c"):
    clients = world.group.describe(world.now_us)["clients"]
    return next((each for each in clients if each["client_id"] == client), None)


def subscribe_with(world, filter_, client="c", resume=None):
    """Ask for a subscription with a filter, and have the lease; return the call."""
    call = world.call()
    world.tell(ev.Asked(call, SubscribeAt(client, "h", filter_, resume=resume), world.now_us))
    world.lease()
    return call


def test_a_subscription_that_is_refused_leaves_the_earlier_one_as_it_was():
    """1. A subscription with a filter is stored. 2. Another filter cannot be written. 3. The first stands,
    and nobody has to subscribe anew but the consumer that was refused.
    """
    world = World.of(Source(Tx(10)))
    subscribe_with(world, "shop.first")
    world.save()
    refused = subscribe_with(world, "shop.second")
    world.save(ConfigError("too large"))
    with pytest.raises(ConfigError):
        world.result(refused)
    assert (described(world)["filter"], described(world)["holder"]) == ("shop.first", None)
    world.tick(1)
    assert (world.forgetting, world.saving) == ([], [])
    assert world.stored["c"].filter == "shop.first"
    assert described(world) is not None
    world.subscribe()
    world.report_all()
    assert len(world.get().headers) == 1


def test_of_two_unwritten_subscriptions_the_stored_one_stays():
    """1. One filter is stored, and no cursor yet. 2. Two others follow; the write of the last is lost."""
    world = World.of(Source(Tx(10)), start=False)
    world.start(ev.ConsumerState("c", "shop.first", None, "", 0))
    first, second = subscribe_with(world, "shop.second"), subscribe_with(world, "shop.third")
    world.open_all()
    assert world.saving[0].filter == "shop.third"
    world.save(CoordinatorUnavailable("away"))
    with pytest.raises(FencedError):
        world.result(first)
    with pytest.raises(CoordinatorUnavailable):
        world.result(second)
    assert described(world)["filter"] == "shop.first"


def test_that_a_dropped_client_goes_on_is_written_until_the_store_has_it():
    """1. It was dropped, and the store says so. 2. It is back; the write of that fails, and it hears so.
    3. With the next tick the store has that it is kept.
    """
    world = World.of(Source(Tx(10), Tx(20)), lease_us=100 * SECOND, drop_after_us=30 * SECOND)
    world.subscribe("app")
    world.subscribe("old")
    world.tell(ev.Asked(world.call(), Release("old", world.epochs["old"]), world.now_us))
    world.tick(31 * SECOND)
    world.save()
    assert world.stored["old"].dropped
    call = world.request_subscribe("old", resume=Resume.NOW)
    world.lease()
    world.save(CoordinatorUnavailable("away"))
    with pytest.raises(CoordinatorUnavailable):
        world.result(call)
    assert world.stored["old"].dropped
    world.tick(1)
    while world.saving:
        world.save()
    assert not world.stored["old"].dropped
    world.tick(1)
    assert world.saving == [], "it is written once"


@pytest.mark.parametrize("first", ["a", "b"])
def test_a_shard_has_left_when_all_cursors_say_so(first):
    world = World.of(Source(Tx(10)), Source(Tx(20), server=1))
    for client in ("a", "b"):
        world.subscribe(client)
    assert world.remove("s1", now=True) is None
    world.saving.sort(key=lambda save: save.client_id != first)
    world.save()
    assert world.closed == []
    assert not world.group.describe(0)["reconciled"]
    world.save()
    assert world.closed == [1]
    assert world.answers[world.calls]["role"] == "left"


def test_a_shards_open_time_does_not_restart_with_its_rows():
    world = World.of(Source(Tx(10), Tx(20)))
    world.now_us = 5 * SECOND
    world.report(0)
    assert world.status(0)["state_since_s"] == 5


@pytest.mark.parametrize("how", ["subscribing", "unsubscribing"])
def test_a_shard_that_leaves_waits_for_no_subscription_that_is_not_stored(how):
    world = World.of(
        Source(Tx(10)),
        Source(Tx(20), server=1),
    )
    world.forgets = False
    world.subscribe("known")
    if how == "subscribing":
        world.request_subscribe("other")
        world.lease()
    else:
        world.subscribe("other")
        world.tell(ev.Asked(world.call(), Unsubscribe("other", world.epochs["other"]), world.now_us))
    world.remove("s1", now=True)
    world.saving.sort(key=lambda save: save.client_id == "other")
    world.save()
    assert world.closed == [1]
    assert described(world, "other") is not None


def test_calls_that_waited_for_a_write_are_answered_in_their_order():
    """1. A shard joins, and the cursor follows. 2. An acknowledgement and a rollback come meanwhile.
    3. The first is begun, and the other one refused: a write is under way.
    """
    world = World.of(Source(Tx(10), Tx(20)))
    world.subscribe()
    world.report_all()
    batch = world.get(rows_max=1)
    world.add(Source(Tx(5), server=1))
    world.open(1)
    acking, rolling = world.request_ack(batch.batch_id), world.call()
    world.tell(ev.Asked(rolling, Rollback("c", 1, None), world.now_us))
    assert not {acking, rolling} & world.answers.keys()
    world.save()
    with pytest.raises(RetryableError, match="is being written"):
        world.result(rolling)
    world.save()
    assert world.result(acking).shards["s0"] == batch.ack.shards["s0"]


def test_a_rollback_that_waited_for_a_write_is_answered_when_that_is_done():
    world = World.of(Source(Tx(10), Tx(20)))
    world.subscribe()
    world.report_all()
    world.get(rows_max=1)
    world.add(Source(Tx(5), server=1))
    world.open(1)
    rolling = world.call()
    world.tell(ev.Asked(rolling, Rollback("c", 1, None), world.now_us))
    world.save()
    assert world.result(rolling) == 1


def test_a_range_is_refused_while_a_cursor_is_being_written():
    world = World.of(Source(Tx(10), Tx(20)))
    begin = world.subscribe()
    world.report_all()
    first = world.offset_range(OffsetRange(begin, rows_max=1))
    world.request_ack(first.batch_id)
    call = world.request_range(OffsetRange(first.end))
    with pytest.raises(RetryableError, match="is being written"):
        world.result(call)
    assert world.result(world.request_range(OffsetRange(begin, rows_max=1))) is first, (
        "what it has it may ask for"
    )


def test_an_unsubscribed_client_holds_nothing_and_is_released_once():
    world = World.of(Source(Tx(10)), lease_us=SECOND)
    world.forgets = False
    world.subscribe()
    world.tell(ev.Asked(world.call(), Unsubscribe("c", 1), world.now_us))
    assert described(world)["holder"] is None
    world.tick(2 * SECOND)
    assert world.asked(do.ReleaseConsumer) == [do.ReleaseConsumer("c")]


def test_an_expired_client_may_unsubscribe_until_another_takes_over():
    """Else who asks again after a lost answer could not tell whether the first request was granted."""
    world = World.of(Source(Tx(10)), lease_us=SECOND)
    world.subscribe()
    world.tick(2 * SECOND)
    assert described(world)["holder"] is None
    world.subscribe("other")
    call = world.call()
    world.tell(ev.Asked(call, Unsubscribe("c", 1), world.now_us))
    assert world.result(call) is None
    assert described(world) is None
    world.tick(2 * SECOND)
    world.subscribe("other", "h2")
    late = world.call()
    world.tell(ev.Asked(late, Unsubscribe("other", 1), world.now_us))
    with pytest.raises(FencedError):
        world.result(late)
    assert described(world, "other")["holder"] == "h2"


def test_a_shard_missing_in_the_settings_leaves_without_a_clients_cursor():
    world = World.of(Source(Tx(10)), start=False)
    position = Position("bin.000001", 4)
    cursor = GroupPosition({"s0": position, "gone": position}, 1)
    world.start(ev.ConsumerState("new", "", None, "", 0), ev.ConsumerState("c", "", cursor, "", 0))
    assert world.remove("gone", now=True) is None
    world.save()
    told = world.answers[world.calls]
    assert (told["rows_dropped"], told["left_at"]) == (0, {"c": "bin.000001:4"})


def test_being_away_begins_when_a_consumer_was_last_heard_of():
    """However long the server runs by then."""
    world = World.of(Source(Tx(10)), lease_us=100 * SECOND, drop_after_us=30 * SECOND)
    world.now_us = 1_000 * SECOND
    world.subscribe("old")
    world.tell(ev.Asked(world.call(), Release("old", world.epochs["old"]), world.now_us))
    world.subscribe("app")
    world.tick(30 * SECOND)
    assert not described(world, "old")["dropped"]
    world.tick(1 * SECOND)
    world.save()
    with pytest.raises(SubscriptionDropped) as refusal:
        world.result(world.request_subscribe("old"))
    assert refusal.value.details["away_s"] == 31


def test_late_transactions_stay_counted_when_the_shards_are_opened_again():
    world = World.of(Source(Tx(10, (3,))), Source(Tx(90), server=1))
    world.subscribe()
    for generation in (1, 2, 3):
        world.report(0, 0, low_watermark_us=50)
        world.report(0)
        counted = {"late": generation, "late_rows": 3 * generation, "future": 0}
        assert counted.items() <= world.group.describe(0).items()
        assert (world.status(0)["late"], world.status(0)["late_rows"]) == (1, 3)
        world.lose(1)
        assert counted.items() <= world.group.describe(0).items()
        assert (world.status(0)["late"], world.status(0)["late_rows"]) == (0, 0)
        world.open_all()


def test_with_a_rewind_every_shard_has_its_time_anew():
    world = World.of(Source(Tx(10)), Source(Tx(90), server=1))
    world.now_us = 5 * SECOND
    world.lose(0)
    assert [world.status(shard)["frontier_still_s"] for shard in (0, 1)] == [0, 0]


def test_a_new_shards_state_begins_with_it_and_ends_when_it_leaves():
    world = World.of(Source(Tx(10)))
    world.subscribe()
    world.now_us = 5 * SECOND
    told = world.add(Source(Tx(10), server=1))
    assert (told["state_since_s"], told["frontier_still_s"]) == (0, 0)
    world.tell(ev.ShardFailed(1, 1, CorruptEvent("bad"), world.now_us))
    assert world.status(1)["error"] == "bad"
    assert world.remove("s1") is None
    world.save()
    assert world.answers[world.calls] == {"shard": "s1", "role": "left"}
    assert (world.status(1)["role"], world.status(1)["error"]) == ("left", None)


def test_a_shard_opened_in_time_is_not_silent_when_merging_begins():
    """1. After a restart one shard is dead, one is open and has nothing, one goes on. 2. The dead one is
    skipped. 3. The one that has nothing has its time from there.
    """
    world = World.of(
        *(Source(Tx(10), server=server) for server in range(3)), dead_shard=DeadShard("skip_after", SECOND)
    )
    world.subscribe()
    world.restart()
    world.start()
    world.open(0)
    world.open(1)
    world.now_us = 2 * SECOND
    world.report(0, low_watermark_us=50)
    world.tick(1)
    assert [world.status(shard)["skipped"] for shard in range(3)] == [False, False, True]
    world.open(2)
    assert world.saving == [], "it is back, and has not joined"


def test_a_silent_shard_that_is_resumed_is_awaited_when_it_returns():
    world = World.of(Source(Tx(10)), Source(Tx(20), server=1), dead_shard=DeadShard("skip_after", SECOND))
    world.subscribe()
    world.policy("s1", Policy.SKIP)
    world.now_us = 5 * SECOND
    assert world.policy("s1", Policy.RESUME)["skipped"]
    world.report(0, low_watermark_us=30)
    world.report(1, low_watermark_us=30)
    assert not world.status(1)["skipped"]


def test_what_a_range_leaves_out_before_it_holds_no_ring():
    """A reader that knows more than its cursor asks before the rows are there."""
    world = World.of(Source(Tx(10), Tx(20), Tx(30), Tx(40)))
    world.subscribe()
    third = GroupPosition({"s0": world.sources[0].ends[1]}, 2)
    call = world.request_range(OffsetRange(third))
    world.report_all()
    assert world.result(call).headers["gtid_number"].tolist() == [3, 4]
    assert world.rings[0].freed == 2


def test_a_repeated_low_watermark_is_not_progress():
    world = World.of(Source(Tx(10)))
    world.report(0, 0, low_watermark_us=7)
    world.now_us = 5 * SECOND
    world.report(0, 0, low_watermark_us=7)
    assert world.status(0)["frontier_still_s"] == 5
    world.report(0, 0, low_watermark_us=8)
    assert world.status(0)["frontier_still_s"] == 0


def test_a_draining_shard_causes_no_empty_batches():
    """It is drained as soon as nothing may follow, and leaves when all have acknowledged it."""
    world = World.of(Source(Tx(10)), Source(Tx(20), server=1))
    world.subscribe("one")
    world.subscribe("two")
    world.report_all()
    world.remove("s0")
    world.report(0, 0, low_watermark_us=2**61)
    assert len(world.get("one").headers) == 2
    assert world.get("one") is None
    assert world.closed == []


def test_an_unsubscribing_that_waited_for_a_write_is_done_after_it():
    world = World.of(Source(Tx(10)))
    world.subscribe()
    world.add(Source(Tx(5), server=1))
    world.open(1)
    call = world.call()
    world.tell(ev.Asked(call, Unsubscribe("c", 1), world.now_us))
    assert call not in world.answers
    world.save()
    assert world.result(call) is None
    assert world.stored == {}


def test_a_pending_client_is_alive_and_a_released_one_holds_nothing():
    world = World.of(Source(Tx(10)), start=False, lease_us=SECOND)
    world.start()
    call = world.request_subscribe()
    world.lease()
    world.tick(5 * SECOND)
    assert world.asked(do.ReleaseConsumer) == []
    world.open_all()
    world.save()
    assert world.result(call)[0] == 1
    world.report_all()
    world.get()
    assert len(described(world)["outstanding"]) == 1
    world.tell(ev.Asked(world.call(), Release("c", 1), world.now_us))
    assert described(world)["outstanding"] == []


def test_a_group_that_has_not_started_can_be_described():
    described_ = World.of(Source(Tx(10)), start=False).group.describe(0)
    assert (described_["merging"], described_["headers_kept"], described_["clients"]) == (False, 0, [])


def test_a_store_that_does_not_forget_is_asked_once_at_a_time():
    """1. It does not answer the consumer. 2. Nor the next tick: nobody is told again. 3. Then it does."""
    world = World.of(Source(Tx(10)))
    world.forgets = False
    world.subscribe()
    call = world.call()
    world.tell(ev.Asked(call, Unsubscribe("c", 1), world.now_us))
    world.forget(CoordinatorUnavailable("away"))
    for _ in range(3):
        world.tick(1)
        assert len(world.forgetting) == 1
    answers = dict(world.answers)
    world.forget(CoordinatorUnavailable("away"))
    assert world.answers == answers
    world.tick(1)
    world.forget()
    assert (world.answers, described(world)) == (answers, None)


def test_an_unsubscribe_is_refused_during_a_takeover():
    world = World.of(Source(Tx(10)))
    world.subscribe()
    taking = world.request_subscribe()
    call = world.call()
    world.tell(ev.Asked(call, Unsubscribe("c", 1), world.now_us))
    with pytest.raises(RetryableError, match="is being taken by h"):
        world.result(call)
    world.lease()
    world.save()
    assert world.result(taking)[0] == 2


def test_before_merging_a_shard_reopens_where_it_was_opened_or_asked():
    world = World.of(Source(Tx(10)), Source(Tx(10), server=1), start=False)
    world.start()
    world.open(0)
    for _ in range(2):
        generation = world.group.generation
        world.tell(ev.ShardLost(1, generation, "gone", world.now_us))
        assert world.opening[0].position == world.sources[0].start
        assert world.opening[1].position is None


def test_a_cursor_gets_the_shards_that_joined_when_merging_begins():
    """Not when another shard is let go before: then nobody knows yet where the log begins."""
    world = World.of(Source(Tx(10)), Source(Tx(10), server=1), start=False)
    position = world.sources[0].start
    one = GroupPosition({"s0": position, "s1": position, "gone": position}, 1, joined={"s1": position})
    two = GroupPosition({"s0": position, "gone": position}, 1)
    world.start(ev.ConsumerState("one", "", one, "", 0), ev.ConsumerState("two", "", two, "", 0))
    world.remove("gone", now=True)
    cursors = {save.client_id: save.cursor for save in world.saving}
    assert {client: set(cursor.shards) for client, cursor in cursors.items()} == {
        "one": {"s0", "s1"},
        "two": {"s0"},
    }
    world.save()
    world.save()
    world.open_all()
    world.save()
    assert world.stored["two"].cursor.shards["s1"] == position


def test_a_get_is_answered_past_more_headers_than_one_look_covers():
    empty, count = Source(Tx(1)), 2 * HEADERS_MAX + 10
    world = World.of(empty)
    world.subscribe()
    done = Position("bin.000001", 4 + count - 1)
    offset_range = world.request_range(OffsetRange(GroupPosition({"s0": done}, count - 1)))
    world.tell(ev.GetTimedOut(offset_range, "c"))
    call = world.request_get()
    run = empty.run(0, 1)
    headers = run.headers.repeat(count)
    headers["sequence"] = range(count)
    headers["begin_offset"] = 4 + headers["sequence"]
    headers["end_offset"] = 5 + headers["sequence"]
    world.free = lambda *_: None
    world.tell(ev.ShardReported(0, 1, type(run)(headers, run.names), 99, 0))
    assert world.result(call).headers["sequence"].tolist() == [count - 1]


def test_an_impossible_ack_is_refused_at_once_even_during_a_write():
    world = World.of(Source(Tx(10)))
    world.subscribe()
    world.add(Source(Tx(5), server=1))
    world.open(1)
    with pytest.raises(RolledBack):
        world.result(world.request_ack(1))


def test_what_came_before_merging_began_is_delivered_when_it_begins():
    world = World.of(Source(Tx(10)), Source(server=1), start=False)
    start = world.sources[0].start
    cursor = GroupPosition({"s0": start, "s1": replace(start, key_us=50)}, 1)
    world.start(ev.ConsumerState("c", "", cursor, "", 0))
    world.open(0)
    world.report(0)
    subscribing = world.request_subscribe()
    world.lease()
    world.save()
    assert world.result(subscribing)
    call = world.request_get()
    world.open(1)
    world.report(1, low_watermark_us=20)
    assert world.result(call).headers["key_us"].tolist() == [50]


def test_a_shard_that_was_to_join_may_leave_before_merging_begins():
    world = World.of(Source(Tx(10)), Source(Tx(10), server=1), start=False)
    cursor = GroupPosition({"s0": world.sources[0].start}, 1)
    world.start(ev.ConsumerState("c", "", cursor, "", 0))
    assert world.status(1)["role"] == "joining"
    assert world.remove("s1") is None
    world.save()
    assert world.closed == [1]


def test_a_get_that_tells_what_was_seen_gives_up_only_those_that_did():
    world = World.of(Source(Tx(10)))
    begin = world.subscribe()
    seeing, plain, spanning, again = (
        world.call(),
        world.request_get(),
        world.request_range(OffsetRange(begin)),
        world.call(),
    )
    for call in (seeing, again):
        world.tell(ev.Asked(call, Get("c", 1, 10, 0.0, 0), world.now_us))
    assert world.result(seeing) is None
    assert not {plain, spanning, again} & world.answers.keys()


def test_two_clients_may_subscribe_at_once():
    world = World.of(Source(Tx(10)))
    calls = [world.request_subscribe(client) for client in ("a", "b")]
    assert [asked.number for asked in world.leasing] == calls


def test_a_takeover_is_written_after_an_earlier_ack_is_refused():
    world = World.of(Source(Tx(10)))
    world.subscribe()
    world.report_all()
    world.request_ack(world.get().batch_id)
    taking = world.request_subscribe()
    world.lease()
    world.save(ConfigError("too large"))
    world.save()
    assert world.result(taking)[0] == 2
    assert len(world.get().headers) == 1


def test_a_newcomers_position_has_no_say_in_the_keys():
    world = World.of(Source(Tx(50)))
    world.subscribe()
    source = Source(Tx(60), server=1)
    world.add(source, replace(source.start, key_us=2**62))
    world.open(1)
    world.save()
    world.report(1)
    world.report(0, low_watermark_us=90)
    world.report(1, 0, low_watermark_us=90)
    assert world.get().headers["key_us"].tolist() == [50, 60]


def test_a_leaving_shard_at_its_end_is_not_awaited():
    world = World.of(Source(Tx(10)), Source(Tx(20), server=1))
    world.subscribe()
    world.report(0, low_watermark_us=END_OF_TIME_US)
    world.report(1)
    world.remove("s0")
    assert (world.status(0)["role"], world.status(0)["skipped"]) == ("leaving", True)


def test_a_shard_that_left_is_not_opened_again_and_stands_nowhere():
    world = World.of(Source(Tx(10)), Source(Tx(20), server=1))
    world.subscribe()
    world.report_all()
    world.ack(world.get().batch_id)
    assert world.status(1)["acked_position"] == "bin.000001:104"
    world.remove("s1")
    world.report(1, 0, low_watermark_us=2**61)
    world.save()
    assert (world.closed, world.status(1)["acked_position"]) == ([1], None)
    world.lose(0)
    assert list(world.opening) == [0]


def test_a_range_without_space_moves_no_client():
    world = World.of(Source(Tx(10), Tx(20), Tx(30)), limits=batch_limits(outstanding_max=1))
    begin = world.subscribe()
    world.report_all()
    first = world.offset_range(OffsetRange(begin, rows_max=1))
    before = world.group.describe(0)
    third = GroupPosition({"s0": world.sources[0].ends[1]}, 2)
    with pytest.raises(RetryableError, match="outstanding"):
        world.result(world.request_range(OffsetRange(third)))
    assert world.group.describe(0) == before
    assert world.ack(first.batch_id) == first.ack


@pytest.mark.parametrize("answered", [False, True])
def test_a_client_is_not_dropped_while_its_cursor_is_written(answered):
    """Nor while nobody knows whether it was."""
    world = World.of(Source(Tx(10)), lease_us=100 * SECOND, drop_after_us=SECOND)
    world.subscribe("app")
    world.subscribe("old")
    world.report_all()
    world.request_ack(world.get("old").batch_id, "old")
    if answered:
        world.save(CoordinatorUnavailable("away"))
    world.tell(ev.Asked(world.call(), Release("old", world.epochs["old"]), world.now_us))
    world.tick(5 * SECOND)
    assert not described(world, "old")["dropped"]
    world.save()
    world.tick(5 * SECOND)
    assert described(world, "old")["dropped"]


def test_a_shard_that_opens_before_merging_begins_is_a_member():
    world = World.of(Source(Tx(10)), Source(Tx(10), server=1), start=False)
    world.start(ev.ConsumerState("c", "", GroupPosition({"s0": world.sources[0].start}, 1), "", 0))
    world.open(1)
    assert world.status(1)["role"] == "joining"
    world.open(0)
    assert world.status(1)["role"] == "member"
    world.save()
    assert world.stored["c"].cursor.joined == {"s1": world.sources[1].start}


def test_a_removed_shard_leaves_after_every_cursor_says_so():
    world = World.of(Source(Tx(10)), Source(Tx(20), server=1))
    world.subscribe()
    assert world.group.gone == []
    world.remove("s1", now=True)
    assert world.group.gone == [], "it is being written"
    world.save()
    assert world.group.gone == [], "merging has not begun again"
    world.open_all()
    assert world.group.gone == ["s1"]
    world.group.check_name("s2")
    for name in ("s0", "s1"):
        with pytest.raises(UsageError, match="belongs to a shard"):
            world.group.check_name(name)


def test_an_error_that_answers_no_call_is_raised():
    """It is a defect, or a stored cursor that is none: nobody else would hear of it."""
    world = World.of(Source(Tx(10)), start=False)
    cursor = GroupPosition({"s0": Position("nothing", 4)})
    with pytest.raises(UsageError, match="not a binlog file name"):
        world.start(ev.ConsumerState("c", "", cursor, "", 0))


def test_a_cursor_gets_a_shard_of_another_cursor_at_the_logs_start():
    world = World.of(Source(Tx(10)), Source(Tx(20), server=1), start=False)
    position, further = world.sources[0].start, world.sources[1].ends[0]
    world.start(
        ev.ConsumerState("one", "", GroupPosition({"s0": position, "s1": further}, 1), "", 0),
        ev.ConsumerState("two", "", GroupPosition({"s0": position}, 1), "", 0),
    )
    world.open_all()
    world.save()
    assert world.stored["two"].cursor.shards == {"s0": position, "s1": further}


def test_after_a_restart_a_newcomer_counts_from_where_the_log_begins():
    world = World.of(Source(Tx(10, (4,)), Tx(20)))
    world.subscribe()
    world.report_all()
    world.ack(world.get(rows_max=4).batch_id)
    world.epoch += 1
    world.restart()
    world.start()
    world.open_all()
    assert world.subscribe("new").sequence == 4


@pytest.mark.parametrize("error", [CoordinatorUnavailable("away"), UsageError("no")])
def test_a_refusing_store_is_not_retried_at_once_after_more_changes(error):
    """1. A shard joins, and the cursor is written. 2. Another one joins meanwhile. 3. The write is refused:
    the next one follows with the next tick, and has both.
    """
    world = World.of(Source(Tx(10)))
    world.subscribe()
    for shard in (1, 2):
        world.add(Source(Tx(5), server=shard))
        world.open(shard)
    for _ in range(3):
        assert len(world.saving) == 1
        world.save(error)
        assert world.saving == [], "the store may be away for a while"
        world.tick(1)
    world.save()
    assert world.saving == []
    assert sorted(world.stored["c"].cursor.shards) == ["s0", "s1", "s2"]


def test_a_subscription_during_a_refused_write_is_written_at_once():
    world = World.of(Source(Tx(10)))
    world.subscribe()
    world.add(Source(Tx(5), server=1))
    world.open(1)
    call = subscribe_with(world, "shop.other")
    world.save(CoordinatorUnavailable("away"))
    world.save()
    assert world.result(call)[1] == world.stored["c"].cursor
    assert sorted(world.stored["c"].cursor.shards) == ["s0", "s1"]
    assert world.stored["c"].filter == "shop.other"
    assert world.saving == []
    world.tick(1)
    assert world.saving == [], "nothing is left to be written"


@pytest.mark.parametrize("error", [CoordinatorUnavailable("away"), UsageError("no")])
def test_a_second_subscription_during_a_refused_write_repeats_it(error):
    """1. A new subscription is being written. 2. Its consumer asks again, and the coordinator is asked for a
    lease. 3. The write is refused, so that the store is asked to forget it. 4. The lease comes.
    """
    world = World.of(Source(Tx(10)))
    world.forgets = False
    first = world.request_subscribe()
    world.lease()
    again = world.request_subscribe()
    world.save(error)
    world.lease()
    for call in (first, again):
        with pytest.raises((type(error), RetryableError)):
            world.result(call)
    assert isinstance(world.answers[again], RetryableError)
    assert [each.client_id for each in world.asked(do.ReleaseConsumer)][-1] == "c"
    world.tick(1)
    world.forget()
    assert world.subscribe() == world.stored["c"].cursor
