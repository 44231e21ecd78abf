"""What the cursor store is told of subscriptions, and when a write that failed is made good."""

import pytest
from builders import Source, Tx, World

from merge import events as ev
from merge import instructions as do
from merge.errors import (
    ConfigError,
    CoordinatorUnavailable,
    CorruptEvent,
    FencedError,
    RetryableError,
    SubscriptionDropped,
)
from merge.member import Policy
from merge.position import GroupPosition, Position
from merge.span import Span

SECOND = 1_000_000


def described(world, client="c"):
    clients = world.group.describe(world.now_us)["clients"]
    return next((each for each in clients if each["client_id"] == client), None)


def subscribe_with(world, filter_, client="c", resume=None):
    """Ask for a subscription with a filter, and have the lease; return the call."""
    call = world.call()
    world.tell(ev.SubscribeRequested(call, client, "h", filter_, world.now_us, resume))
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


def test_of_two_subscriptions_that_are_not_written_the_stored_one_is_the_one_that_stays():
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
    world.tell(ev.ReleaseRequested(world.call(), "old", world.epochs["old"], world.now_us))
    world.tick(31 * SECOND)
    world.save()
    assert world.stored["old"].dropped
    call = world.request_subscribe("old", resume=ev.Resume.NOW)
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
    assert not world.group.describe(0)["settled"]
    world.save()
    assert world.closed == [1]
    assert world.answers[world.calls]["role"] == "left"


def test_how_long_a_shard_has_been_open_does_not_begin_anew_with_what_it_brings():
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
    world.subscribe("stored")
    if how == "subscribing":
        world.request_subscribe("other")
        world.lease()
    else:
        world.subscribe("other")
        world.tell(ev.UnsubscribeRequested(world.call(), "other", world.epochs["other"], world.now_us))
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
    world.tell(ev.RollbackRequested(rolling, "c", 1, None, world.now_us))
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
    world.tell(ev.RollbackRequested(rolling, "c", 1, None, world.now_us))
    world.save()
    assert world.result(rolling) == 1


def test_a_span_is_refused_while_a_cursor_is_being_written():
    world = World.of(Source(Tx(10), Tx(20)))
    begin = world.subscribe()
    world.report_all()
    first = world.span(Span(begin, rows_max=1))
    world.request_ack(first.batch_id)
    call = world.request_span(Span(first.end))
    with pytest.raises(RetryableError, match="is being written"):
        world.result(call)
    assert world.result(world.request_span(Span(begin, rows_max=1))) is first, "what it has it may ask for"


def test_who_unsubscribes_holds_nothing_any_more_and_is_released_once():
    world = World.of(Source(Tx(10)), lease_us=SECOND)
    world.forgets = False
    world.subscribe()
    world.tell(ev.UnsubscribeRequested(world.call(), "c", 1, world.now_us))
    assert described(world)["holder"] is None
    world.tick(2 * SECOND)
    assert world.asked(do.ReleaseConsumer) == [do.ReleaseConsumer("c")]


def test_a_shard_that_the_settings_lack_is_let_go_though_a_client_has_no_cursor_yet():
    world = World.of(Source(Tx(10)), start=False)
    place = Position("bin.000001", 4)
    cursor = GroupPosition({"s0": place, "gone": place}, 1)
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
    world.tell(ev.ReleaseRequested(world.call(), "old", world.epochs["old"], world.now_us))
    world.subscribe("app")
    world.tick(30 * SECOND)
    assert not described(world, "old")["dropped"]
    world.tick(1 * SECOND)
    world.save()
    with pytest.raises(SubscriptionDropped) as refusal:
        world.result(world.request_subscribe("old"))
    assert refusal.value.details["away_s"] == 31


def test_late_transactions_stay_counted_when_the_shards_are_opened_again():
    world = World.of(Source(Tx(10)), Source(Tx(90), server=1))
    world.subscribe()
    for generation in (1, 2, 3):
        world.report(0, 0, promise_us=50)
        world.report(0)
        assert world.group.describe(0)["late"] == generation
        world.lose(1)
        assert world.group.describe(0)["late"] == generation
        world.open_all()


def test_with_a_rewind_every_shard_has_its_time_anew():
    world = World.of(Source(Tx(10)), Source(Tx(90), server=1))
    world.now_us = 5 * SECOND
    world.lose(0)
    assert [world.status(shard)["frontier_still_s"] for shard in (0, 1)] == [0, 0]


def test_a_newcomer_is_as_old_as_its_beginning_and_tells_nothing_after_it_left():
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


def test_a_shard_that_was_opened_in_time_is_not_silent_when_merging_begins_without_another():
    """1. After a restart one shard is dead, one is open and has nothing, one goes on. 2. The dead one is
    skipped. 3. The one that has nothing has its time from there.
    """
    world = World.of(*(Source(Tx(10), server=server) for server in range(3)), skip_after_us=SECOND)
    world.subscribe()
    world.restart()
    world.start()
    world.open(0)
    world.open(1)
    world.now_us = 2 * SECOND
    world.report(0, promise_us=50)
    world.tick(1)
    assert [world.status(shard)["skipped"] for shard in range(3)] == [False, False, True]
    world.open(2)
    assert world.saving == [], "it is back, and has not joined"


def test_a_silent_shard_that_an_operator_resumes_is_waited_for_when_it_is_back():
    world = World.of(Source(Tx(10)), Source(Tx(20), server=1), skip_after_us=SECOND)
    world.subscribe()
    world.policy("s1", Policy.SKIP)
    world.now_us = 5 * SECOND
    assert world.policy("s1", Policy.RESUME)["skipped"]
    world.report(0, promise_us=30)
    world.report(1, promise_us=30)
    assert not world.status(1)["skipped"]


def test_what_a_span_leaves_out_before_it_holds_no_ring():
    """A reader that knows more than its cursor asks before the rows are there."""
    world = World.of(Source(Tx(10), Tx(20), Tx(30), Tx(40)))
    world.subscribe()
    third = GroupPosition({"s0": world.sources[0].ends[1]}, 2)
    call = world.request_span(Span(third))
    world.report_all()
    assert world.result(call).headers["gtid_number"].tolist() == [3, 4]
    assert world.rings[0].freed == 2


def test_a_promise_that_is_said_again_is_no_movement():
    world = World.of(Source(Tx(10)))
    world.report(0, 0, promise_us=7)
    world.now_us = 5 * SECOND
    world.report(0, 0, promise_us=7)
    assert world.status(0)["frontier_still_s"] == 5
    world.report(0, 0, promise_us=8)
    assert world.status(0)["frontier_still_s"] == 0


def test_while_a_shard_is_drained_there_are_no_batches_of_nothing():
    """It is drained as soon as nothing may follow, and leaves when all have acknowledged it."""
    world = World.of(Source(Tx(10)), Source(Tx(20), server=1))
    world.subscribe("one")
    world.subscribe("two")
    world.report_all()
    world.remove("s0")
    world.report(0, 0, promise_us=2**61)
    assert len(world.get("one").headers) == 2
    assert world.get("one") is None
    assert world.closed == []


def test_an_unsubscribing_that_waited_for_a_write_is_done_after_it():
    world = World.of(Source(Tx(10)))
    world.subscribe()
    world.add(Source(Tx(5), server=1))
    world.open(1)
    call = world.call()
    world.tell(ev.UnsubscribeRequested(call, "c", 1, world.now_us))
    assert call not in world.answers
    world.save()
    assert world.result(call) is None
    assert world.stored == {}


def test_who_waits_for_its_subscription_is_alive_and_who_released_it_has_nothing_outstanding():
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
    world.tell(ev.ReleaseRequested(world.call(), "c", 1, world.now_us))
    assert described(world)["outstanding"] == []


def test_a_group_that_has_not_started_can_be_described():
    described_ = World.of(Source(Tx(10)), start=False).group.describe(0)
    assert (described_["merging"], described_["headers_kept"], described_["clients"]) == (False, 0, [])
