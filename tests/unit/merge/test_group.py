"""The group's scenarios: recovery, skipped shards, consumers that come and go, as numbered stories."""

import pytest
from support.defaults import batch_limits
from support.group.builders import Source, Tx, World, batch_idents

from canal_group.merge import events as ev
from canal_group.merge import instructions as do
from canal_group.merge.calls.consumers import (
    Ack,
    Get,
    Plan,
    Release,
    Rollback,
    SubscribeAt,
    Touch,
    Unsubscribe,
)
from canal_group.merge.errors import (
    AckOutOfOrder,
    ConfigError,
    ConsumerActive,
    CoordinatorUnavailable,
    CorruptEvent,
    FencedError,
    NotSubscribed,
    RetryableError,
    RolledBack,
    UnknownBatch,
    UnsupportedEvent,
)
from canal_group.merge.order.dead_shard import DeadShard
from canal_group.merge.values.commit_time import END_OF_TIME_US
from canal_group.merge.values.header import Flag

SECOND = 1_000_000


def keys(batch):
    return batch.headers["key_us"].tolist()


def shards(batch):
    return batch.headers["shard"].tolist()


def shard_state(world, shard):
    return world.group.describe(world.now_us)["shards"][shard]


# ---- what other groups get wrong ---------------------------------------------------------------------------


def test_a_long_transactions_late_end_does_not_lose_other_shards_data():
    """A cursor that is one time for all shards loses data; a position for each shard does not.

    1. Shard 0 has a long transaction that commits at 50 and is read to its end.
    2. Shard 1 has transactions at 20 and 60; only the first one came out with the long one.
    3. The batch is acknowledged, then the server restarts.
    4. Shard 1's transaction at 60, and one that came late with 30, are delivered; nothing comes twice.
    """
    world = World.of(Source(Tx(50, (3, 3))), Source(Tx(20), Tx(60), Tx(30)))
    world.subscribe()
    world.report(0, low_watermark_us=55)
    world.report(1, 1, low_watermark_us=50)
    first = world.get()
    assert shards(first) == [1, 0, 0]
    world.ack(first.batch_id)
    world.epoch += 1
    world.restart()
    world.start()
    world.open_all()
    assert [asked.position.offset for asked in world.asked(do.OpenShard)[-2:]] == [104, 104]
    world.subscribe()
    world.report_all()
    second = world.get()
    assert batch_idents(second) == [(1, 1, 104, 0, 1), (1, 1, 204, 0, 1)]
    assert keys(second) == [60, 60]


def test_one_shard_never_counts_for_two():
    """1. Shard 1 says nothing. 2. Shard 0 reports, promises, and reports again. 3. Nothing goes out."""
    world = World.of(Source(Tx(10), Tx(20), Tx(30)), Source(Tx(5)))
    world.subscribe()
    world.report(0, 1, low_watermark_us=15)
    world.report(0, 0, low_watermark_us=16)
    world.report(0, 2, low_watermark_us=99)
    assert world.get() is None
    status = world.group.describe(world.now_us)
    assert (status["held_by"], status["headers_pending"], status["watermark_us"]) == ("s1", 3, 0)
    world.report(1)
    assert shards(world.get()) == [1]


def test_a_lagging_shards_silence_holds_the_others():
    """1. Shard 1 lags at 100.
    2. Shard 0 is at 900 and its clock goes on.
    3. Shard 1's 110 comes first all the same.
    """
    world = World.of(Source(Tx(900), Tx(910)), Source(Tx(100), Tx(110), Tx(905)), lease_us=99 * SECOND)
    world.subscribe()
    world.report(0, low_watermark_us=5_000)
    world.report(1, 1)
    world.tick(60 * SECOND)
    world.report(0, 0, low_watermark_us=60 * SECOND)
    assert keys(world.get()) == [100]
    world.report(1, low_watermark_us=5_000)
    assert keys(world.get()) == [110, 900, 905, 910]


# ---- beginning and recovery --------------------------------------------------------------------------------


def test_what_is_reported_before_all_shards_are_open_is_kept():
    world = World.of(Source(Tx(10), Tx(30)), Source(Tx(20)), start=False)
    world.start()
    world.open(0)
    world.report(0, low_watermark_us=99)
    call = world.request_subscribe()
    world.lease()
    assert call not in world.answers
    assert not world.saving
    world.open(1)
    world.save()
    assert world.result(call)[1].shards.keys() == {"s0", "s1"}
    world.report(1, low_watermark_us=99)
    assert keys(world.get()) == [10, 20, 30]


def test_a_stored_subscription_is_taken_over_while_shards_are_away():
    world = World.of(Source(Tx(10)))
    cursor = world.subscribe()
    world.restart()
    world.start()
    assert world.subscribe() == cursor


def test_a_shard_that_failed_to_open_can_open_later():
    world = World.of(Source(Tx(10)), start=False)
    world.start()
    world.tell(ev.ShardFailed(0, 1, CorruptEvent("bad", file="bin.000001", offset=4), 0))
    assert shard_state(world, 0)["state"] == "failed"
    world.open(0)
    assert shard_state(world, 0) | {"state": "open", "error": None} == shard_state(world, 0)
    world.subscribe()
    world.report_all()
    assert keys(world.get()) == [10]


def test_a_failed_shard_is_named_to_waiting_clients_and_recovers():
    world = World.of(Source(Tx(10)), Source(Tx(20)))
    world.subscribe()
    error = CorruptEvent("bad", file="bin.000001", offset=4, shard="s1")
    world.tell(ev.ShardFailed(1, 1, error, 7))
    world.tell(ev.ShardFailed(1, 1, error, 9))
    world.report(0)
    with pytest.raises(CorruptEvent) as caught:
        world.get()
    assert caught.value.details == {"file": "bin.000001", "offset": 4, "shard": "s1"}
    assert world.group.describe(1_000_007)["shards"][1]["state_since_s"] == 1.0
    world.report_all()
    assert shard_state(world, 1)["state"] == "open"
    assert keys(world.get()) == [10, 20]


def test_a_full_shard_past_its_error_holds_no_consumer():
    """Its ring is full of what has to be acknowledged first: with an error nobody would get that."""
    world = World.of(Source(Tx(10), Tx(20), Tx(30)))
    world.subscribe()
    world.report(0, 2)
    world.tell(ev.ShardFailed(0, 1, CorruptEvent("bad"), 7))
    world.tell(ev.ShardReported(0, 1, None, None, 8, full=True, stopped=True))
    assert shard_state(world, 0)["state"] == "failed", "the ring is full, and it has stopped"
    world.full(0)
    assert shard_state(world, 0) | {"state": "open", "error": None} == shard_state(world, 0)
    assert keys(world.get()) == [10, 20]


def test_a_failed_shard_that_is_lost_is_opened_again():
    world = World.of(Source(Tx(10)))
    world.tell(ev.ShardFailed(0, 1, CorruptEvent("bad"), 0))
    world.lose(0, "process died")
    assert [asked.generation for asked in world.asked(do.OpenShard)] == [1, 2]
    assert shard_state(world, 0)["error"] == "process died"


def test_a_loss_is_a_rewind_and_the_consumer_is_told_once():
    """A lost ring.

    1. Two batches are delivered, the first is acknowledged.
    2. Shard 0 is lost: both shards are opened at the cursor, under a new generation.
    3. The consumer's next get says so, once; acknowledging the lost batch does too.
    4. The rest is delivered again, under a new id.
    """
    world = World.of(Source(Tx(10), Tx(30)), Source(Tx(20), Tx(40)))
    world.subscribe()
    world.report_all()
    first, second = world.get(rows_max=2), world.get(rows_max=2)
    world.ack(first.batch_id)
    world.lose(0)
    asked = world.asked(do.OpenShard)[-2:]
    assert [(one.generation, one.position.offset) for one in asked] == [(2, 104), (2, 104)]
    with pytest.raises(RolledBack):
        world.get()
    world.open_all()
    assert world.get() is None
    with pytest.raises(RolledBack) as caught:
        world.ack(second.batch_id)
    assert caught.value.details == {"batch_id": second.batch_id}
    world.report_all()
    again = world.get()
    assert batch_idents(again) == batch_idents(second)
    assert again.batch_id > second.batch_id
    assert again.generation == 2
    assert again.start == first.ack


def test_a_waiting_client_learns_of_a_rewind_at_once():
    world = World.of(Source(Tx(10)))
    world.subscribe()
    world.report_all()
    world.get()
    call = world.request_get()
    world.lose(0)
    with pytest.raises(RolledBack):
        world.result(call)
    assert world.get() is None, "it is told once"


def test_news_of_an_older_generation_is_ignored():
    world = World.of(Source(Tx(10), Tx(20)))
    world.subscribe()
    world.lose(0)
    before = world.group.describe(0)
    run = world.sources[0].run(0, 2)
    position = world.sources[0].start
    for event in (
        ev.ShardLost(0, 1, "late news", 0),
        ev.ShardReported(0, 1, run, 99, 0),
        ev.ShardFailed(0, 1, CorruptEvent("bad"), 0),
        ev.ShardOpened(0, 1, position, 0),
    ):
        assert world.tell(event) == []
    assert world.group.describe(0) == before
    world.open_all()
    world.report_all()
    assert keys(world.get()) == [10, 20]


def test_keys_stay_above_the_cursors_after_a_restart():
    """1. Shard 0 passes 100, shard 1 had promised it.
    2. Restart.
    3. Shard 1's 60 comes: raised to 100, and late.
    """
    world = World.of(Source(Tx(100)), Source(Tx(60)))
    world.subscribe()
    world.report(1, 0, low_watermark_us=100)
    world.report(0)
    world.ack(world.get().batch_id)
    world.restart()
    world.start()
    world.open_all()
    world.subscribe()
    world.report_all()
    batch = world.get()
    assert keys(batch) == [100]
    assert batch.headers["commit_us"].tolist() == [60]
    assert batch.headers["flags"][0] & Flag.LATE


def test_a_clock_that_stepped_back_is_not_late_after_a_restart():
    world = World.of(Source(Tx(100), Tx(90)), Source(Tx(10)))
    world.subscribe()
    world.report(1, low_watermark_us=100)
    world.report(0, 1)
    world.ack(world.get().batch_id)
    world.restart()
    world.start()
    world.open_all()
    world.subscribe()
    world.report_all()
    batch = world.get()
    assert (keys(batch), int(batch.headers["flags"][0] & Flag.LATE)) == ([100], 0)


def test_of_two_servers_positions_the_smaller_key_is_opened():
    """After a failover, one subscriber's cursor is on the old server and another's on the new one."""
    world = World.of(Source(Tx(10), name="old"), start=False)
    old, new = Source(Tx(10), name="old"), Source(Tx(10), name="new")
    cursor = ev.GroupPosition
    states = []
    for client, source, key in (("a", new, 50), ("b", old, 40)):
        position = ev.Position(source.names[0], 104, key_us=key)
        states.append(ev.ConsumerState(client, "", cursor({"s0": position}, 1), "", 0))
    world.start(*states)
    assert world.opening[0].position.file == "old.000001"


# ---- two subscribers ---------------------------------------------------------------------------------------


def test_each_of_two_subscribers_goes_on_from_its_own_cursor():
    """1. `one` is ahead of `two`.
    2. A shard is lost.
    3. Shards open at the older cursor; neither misses or repeats.
    """
    world = World.of(Source(Tx(10), Tx(30), Tx(50)), Source(Tx(20), Tx(40), Tx(60)))
    world.subscribe("one")
    world.subscribe("two")
    world.report_all()
    world.ack(world.get("one", rows_max=4).batch_id, "one")
    world.ack(world.get("two", rows_max=1).batch_id, "two")
    world.lose(1)
    world.open_all()
    world.report_all()
    assert keys(world.get("one")) == [50, 60]
    assert keys(world.get("two")) == [20, 30, 40, 50, 60]


def test_after_a_rewind_with_two_cursors_a_new_one_counts_from_the_older():
    world = World.of(Source(Tx(10, (2,)), Tx(20, (3,)), Tx(30, (4,))))
    world.subscribe("one")
    world.subscribe("two")
    world.report_all()
    world.ack(world.get("one", rows_max=5).batch_id, "one")
    world.ack(world.get("two", rows_max=2).batch_id, "two")
    world.lose(0)
    world.open_all()
    cursor = world.subscribe("three")
    assert (cursor.sequence, cursor.shards["s0"].offset) == (2, 104)
    world.report_all()
    assert {world.get(client).ack.sequence for client in ("one", "two", "three")} == {9}


def test_the_one_that_is_ahead_gets_no_key_below_its_cursor():
    """Ahead at a rewind, with a late transaction to come.

    1. Shard 1 promises 100; `one` acknowledges shard 0's 100, `two` nothing.
    2. A rewind forgets the promise: shards open at the start.
    3. Shard 1's 60 comes out of the log before 100. `two` gets it so; `one` gets it raised to 100, and late.
    """
    world = World.of(Source(Tx(100)), Source(Tx(60)))
    world.subscribe("one")
    world.subscribe("two")
    world.report(1, 0, low_watermark_us=100)
    world.report(0)
    world.ack(world.get("one").batch_id, "one")
    world.lose(0)
    world.open_all()
    world.report_all()
    one, two = world.get("one"), world.get("two")
    assert (keys(one), batch_idents(one)) == ([100], [(1, 1, 4, 0, 1)])
    assert one.headers["flags"][0] & Flag.LATE
    assert (keys(two), shards(two)) == ([60, 100], [1, 0])
    assert not two.headers["flags"][0] & Flag.LATE
    assert one.ack.shards["s1"].key_us == 100


def test_what_is_before_a_cursor_does_not_come_back_with_a_rollback():
    world = World.of(Source(Tx(10), Tx(20), Tx(30)))
    world.subscribe("one")
    world.subscribe("two")
    world.report_all()
    world.ack(world.get("one", rows_max=2).batch_id, "one")
    world.lose(0)
    world.open_all()
    world.report_all()
    for _ in range(2):
        assert keys(world.get("one")) == [30]
        assert world.rollback(None, "one") == 1


def test_rows_before_a_cursor_are_not_repeated_between_later_ones():
    """Ahead on one shard, behind on the other.

    1. Shard 0 promises too much; shard 1's 50 goes out and `one` acknowledges it.
    2. After a rewind the log holds shard 0's 10, shard 1's 50, shard 0's 60.
    3. `one` gets the first and the last, and after a rollback the same.
    """
    world = World.of(Source(Tx(10), Tx(60)), Source(Tx(50)))
    world.subscribe("one")
    world.subscribe("two")
    world.report(0, 0, low_watermark_us=100)
    world.report(1)
    world.ack(world.get("one").batch_id, "one")
    world.lose(0)
    world.open_all()
    world.report_all()
    for _ in range(2):
        batch = world.get("one")
        assert (shards(batch), keys(batch)) == ([0, 0], [50, 60])
        assert world.rollback(None, "one") == 1


def test_rings_are_freed_up_to_the_slowest_subscriber():
    world = World.of(Source(Tx(10), Tx(20), Tx(30)))
    world.subscribe("one")
    world.subscribe("two")
    world.report_all()
    world.ack(world.get("one").batch_id, "one")
    assert world.asked(do.FreeRing) == []
    world.ack(world.get("two", rows_max=2).batch_id, "two")
    assert world.asked(do.FreeRing) == [do.FreeRing(0, 1, world.rings[0].sequence(1))]
    epoch = world.epochs["two"]
    world.tell(ev.Asked(world.call(), Unsubscribe("two", epoch), 0))
    assert world.asked(do.FreeRing)[-1] == do.FreeRing(0, 1, world.rings[0].sequence(2))


def test_a_newcomer_inside_a_huge_transaction_gets_it_whole():
    """1. `one` has acknowledged half of a huge transaction: its rows are gone.
    2. `two` comes: a rewind brings them back.
    """
    world = World.of(Source(Tx(10, (2, 2, 2)), Tx(20)))
    world.subscribe("one")
    world.report_all()
    half = world.get("one", rows_max=4)
    world.ack(half.batch_id, "one")
    assert world.rings[0].freed == 2
    cursor = world.subscribe("two")
    assert cursor.shards["s0"] == world.sources[0].start
    assert world.group.generation == 2
    world.report_all()
    assert len(batch_idents(world.get("two"))) == 4
    assert len(batch_idents(world.get("one"))) == 4, "it comes again from its start, whole"


def test_a_newcomer_between_transactions_begins_where_the_log_does():
    world = World.of(Source(Tx(10), Tx(20), Tx(30)))
    world.subscribe("one")
    world.report_all()
    world.ack(world.get("one", rows_max=1).batch_id, "one")
    world.subscribe("two")
    assert world.group.generation == 1
    assert keys(world.get("two")) == [20, 30]


# ---- acknowledgements on their way -------------------------------------------------------------------------


@pytest.mark.parametrize("reopened", [False, True])
def test_a_rewind_during_a_cursor_write_delivers_nothing_before_its_end(reopened):
    """1. An acknowledgement is being written.
    2. A shard is lost.
    3. Nothing is delivered.
    4. Written: go on after it.
    """
    world = World.of(Source(Tx(10), Tx(30)), Source(Tx(20), Tx(40)))
    world.subscribe()
    world.report_all()
    first = world.get(rows_max=2)
    world.get(rows_max=2)
    acking = world.request_ack(first.batch_id)
    world.lose(1)
    with pytest.raises(RolledBack):
        world.get()
    if reopened:
        world.open_all()
        world.report_all()
        waiting = world.request_get()
        assert waiting not in world.answers
        world.save()
        batch = world.result(waiting)
    else:
        world.save()
        world.open_all()
        world.report_all()
        batch = world.get()
    assert world.result(acking) == first.ack
    assert keys(batch) == [30, 40]
    assert batch.before.ack == first.ack
    assert batch.ack.sequence == 4


def test_a_rewind_while_a_cursor_is_not_written_delivers_the_batch_again():
    world, acking, waiting = _rewound_while_written()
    world.save(ConfigError("too large"))
    with pytest.raises(ConfigError):
        world.result(acking)
    assert keys(world.result(waiting)) == [10, 20]


def test_a_rewind_with_an_unknown_write_delivers_nothing_until_known():
    world, acking, waiting = _rewound_while_written()
    world.save(CoordinatorUnavailable("away"))
    with pytest.raises(CoordinatorUnavailable):
        world.result(acking)
    assert waiting not in world.answers
    with pytest.raises(RetryableError):
        world.ack(world.group._subscribers.find("c").writes.acknowledging.batch_id)
    world.tick(1)
    world.save()
    assert keys(world.result(waiting)) == [20]


def _rewound_while_written():
    """A shard is lost and open again while the first of two batches is being acknowledged."""
    world = World.of(Source(Tx(10), Tx(20)))
    world.subscribe()
    world.report_all()
    first = world.get(rows_max=1)
    acking = world.request_ack(first.batch_id)
    world.lose(0)
    with pytest.raises(RolledBack):
        world.get()
    world.open_all()
    world.report_all()
    return world, acking, world.request_get()


def test_a_takeover_during_a_cursor_write_continues_after_it():
    world = World.of(Source(Tx(10, (2, 2, 2)), Tx(20)), lease_us=SECOND)
    world.subscribe(holder="x")
    world.report_all()
    first = world.get(rows_max=2)
    world.get(rows_max=2)
    acking = world.request_ack(first.batch_id)
    world.now_us += 2 * SECOND
    subscribing = world.request_subscribe(holder="y")
    world.lease()
    assert len(world.saving) == 1, "one write at a time"
    world.save()
    assert world.result(acking) == first.ack
    world.save()
    assert world.result(subscribing) == (2, first.ack)
    batch = world.get()
    assert batch.headers["row_begin"].tolist() == [2, 4, 0]
    assert batch.start == first.end


def test_an_unwritten_acknowledgement_can_be_repeated():
    world = World.of(Source(Tx(10)))
    world.subscribe()
    world.report_all()
    batch = world.get()
    acking = world.request_ack(batch.batch_id)
    world.save(CoordinatorUnavailable("away"))
    with pytest.raises(CoordinatorUnavailable):
        world.result(acking)
    assert world.asked(do.FreeRing) == []
    assert world.ack(batch.batch_id) == batch.ack
    assert len(world.asked(do.FreeRing)) == 1


def test_an_unknown_cursor_write_never_moves_the_cursor_backwards():
    """1. The cursor after two transactions may be written: the store did not answer.
    2. The consumer may not take its batch back, nor may another one write the cursor before it.
    3. With the next tick the write is repeated; nobody is answered twice.
    4. The consumer hears that its batch is acknowledged.
    """
    world = World.of(Source(Tx(10), Tx(20), Tx(30)))
    world.subscribe()
    world.report_all()
    batch = world.get(rows_max=2)
    acking = world.request_ack(batch.batch_id)
    world.save(CoordinatorUnavailable("away"))
    with pytest.raises(CoordinatorUnavailable):
        world.result(acking)
    with pytest.raises(RetryableError):
        world.rollback()
    subscribing = world.request_subscribe()
    world.lease()
    assert not world.saving
    world.tick(1)
    assert [save.cursor for save in world.saving] == [batch.ack]
    world.save(CoordinatorUnavailable("still away"))
    world.tick(1)
    world.save()
    world.save()
    assert world.result(subscribing) == (2, batch.ack)
    assert keys(world.get()) == [30]


def test_a_client_with_an_unknown_ack_learns_the_result_on_repetition():
    world = World.of(Source(Tx(10)))
    world.subscribe()
    world.report_all()
    batch = world.get()
    world.request_ack(batch.batch_id)
    world.save(CoordinatorUnavailable("away"))
    world.tick(1)
    again = world.request_ack(batch.batch_id)
    with pytest.raises(RetryableError):
        world.result(again)
    world.save()
    with pytest.raises(UnknownBatch):
        world.ack(batch.batch_id)


def test_a_lost_consumer_loses_its_lease_with_an_unknown_ack():
    world = World.of(Source(Tx(10)), lease_us=SECOND)
    world.subscribe()
    world.report_all()
    world.request_ack(world.get().batch_id)
    for _ in range(3):
        world.save(CoordinatorUnavailable("away"))
        world.tick(SECOND)
    assert world.asked(do.ReleaseConsumer) == [do.ReleaseConsumer("c")]


def test_a_new_subscription_that_is_not_written_is_forgotten():
    world = World.of(Source(Tx(10)))
    call = world.request_subscribe()
    world.lease()
    world.save(CoordinatorUnavailable("away"))
    with pytest.raises(CoordinatorUnavailable):
        world.result(call)
    assert world.asked(do.ReleaseConsumer) == [do.ReleaseConsumer("c")]
    world.tick(1)
    assert world.group.describe(0)["clients"] == []
    world.subscribe()


def test_a_subscription_taken_over_before_it_was_answered_is_refused():
    world = World.of(Source(Tx(10)), start=False)
    world.start()
    first = world.request_subscribe()
    world.lease()
    second = world.request_subscribe()
    world.lease()
    with pytest.raises(FencedError):
        world.result(first)
    world.open_all()
    world.save()
    assert world.result(second)[0] == 2


# ---- leases ------------------------------------------------------------------------------------------------


def test_a_silent_consumers_batches_are_the_next_ones():
    """1. `x` has two batches and falls silent.
    2. Its lease runs out.
    3. `y` takes over and gets them.
    4. `x` is fenced.
    """
    world = World.of(Source(Tx(10), Tx(20)), lease_us=SECOND)
    world.subscribe(holder="x")
    world.report_all()
    first, second = world.get(rows_max=1), world.get(rows_max=1)
    zombie = world.epochs["c"]
    with pytest.raises(ConsumerActive) as caught:
        world.result(world.request_subscribe(holder="y"))
    assert caught.value.details == {"holder": "x", "retry_after_s": 1.0}
    world.tick(SECOND)
    assert world.asked(do.ReleaseConsumer) == []
    world.tick(1)
    assert world.asked(do.ReleaseConsumer) == [do.ReleaseConsumer("c")]
    with pytest.raises(NotSubscribed):
        world.get()
    world.subscribe(holder="y")
    batch = world.get()
    assert batch_idents(batch) == batch_idents(first) + batch_idents(second)
    before = world.group.describe(0)
    call = world.call()
    world.tell(ev.Asked(call, Ack("c", zombie, first.batch_id), world.now_us))
    with pytest.raises(FencedError) as fenced:
        world.result(call)
    assert fenced.value.details == {"our_epoch": zombie, "current_epoch": zombie + 1}
    assert world.group.describe(0) == before


def test_a_consumer_that_waits_for_a_batch_is_alive():
    world = World.of(Source(Tx(10)), lease_us=SECOND)
    world.subscribe()
    call = world.request_get()
    for _ in range(20):
        world.tick(SECOND // 2)
    world.tell(ev.GetTimedOut(call, "c"))
    world.tick(SECOND // 2)
    assert world.get() is None


def test_no_lease_runs_out_while_no_consumer_could_be_heard_of():
    """1. `x` holds a batch, and the way to the group is gone for long; 2. it is back: the whole lease is
    left, and no more; 3. who nobody held is away all the same.
    """
    world = World.of(Source(Tx(10)), lease_us=SECOND, drop_after_us=30 * SECOND)
    world.subscribe("d")
    world.tell(ev.Asked(world.call(), Release("d", world.epochs["d"]), world.now_us))
    world.subscribe(holder="x")
    world.report_all()
    batch = world.get()
    released = len(world.asked(do.ReleaseConsumer))
    for _ in range(10):
        world.tick(2 * SECOND, reachable=False)
    world.tick(SECOND - 1)
    assert len(world.asked(do.ReleaseConsumer)) == released
    with pytest.raises(ConsumerActive):
        world.result(world.request_subscribe(holder="y"))
    world.ack(batch.batch_id)
    world.tick(SECOND + 1)
    assert len(world.asked(do.ReleaseConsumer)) == released + 1
    world.subscribe(holder="x")
    world.tick(10 * SECOND, reachable=False)
    clients = world.group.describe(world.now_us)["clients"]
    assert {client["client_id"]: client["dropped"] for client in clients} == {"c": False, "d": True}


def test_a_takeover_refuses_the_gets_of_the_one_before():
    world = World.of(Source(Tx(10)))
    world.subscribe()
    waiting = world.request_get()
    world.subscribe()
    with pytest.raises(FencedError):
        world.result(waiting)


def test_only_one_takeover_at_a_time():
    world = World.of(Source(Tx(10)))
    first, second = world.request_subscribe(holder="x"), world.request_subscribe(holder="y")
    with pytest.raises(RetryableError):
        world.result(second)
    world.leasing.clear()
    world.tell(ev.LeaseFailed(first, "c", CoordinatorUnavailable("away")))
    with pytest.raises(CoordinatorUnavailable):
        world.result(first)
    world.subscribe(holder="y")


def test_a_released_client_id_is_free_at_once():
    world = World.of(Source(Tx(10)))
    world.subscribe(holder="x")
    world.report_all()
    batch = world.get()
    world.tell(ev.Asked(world.call(), Release("c", 1), 0))
    world.subscribe(holder="y")
    assert batch_idents(world.get()) == batch_idents(batch)


def test_a_batch_of_the_server_before_is_rolled_back():
    world = World.of(Source(Tx(10)))
    world.subscribe()
    world.report_all()
    old = world.get()
    world.epoch += 1
    world.restart()
    world.tell(ev.Started(0, (ev.ConsumerState("c", "", world.stored["c"].cursor, "h", 1),)))
    world.open_all()
    with pytest.raises(RolledBack):
        world.ack(old.batch_id)
    world.report_all()
    assert world.get().batch_id > old.batch_id, "the consumer kept its epoch"


# ---- shards that are skipped -------------------------------------------------------------------------------


def test_the_group_goes_on_without_a_silent_shard_and_waits_for_it_again():
    """A shard that is away.

    1. Shard 1 falls silent; shard 0 goes on reporting.
    2. After the time that the policy gives, shard 0's transactions go out.
    3. Shard 1 is back with transactions from long ago: they are late, and nobody waits for it.
    4. Once it has caught up as far as the policy allows, it counts again.
    """
    far = 100 * SECOND
    old, new = Tx(7), Tx(far + 5)
    sources = Source(Tx(5), Tx(far), Tx(far + 10)), Source(old, new)
    world = World.of(*sources, dead_shard=DeadShard("skip_after", 30 * SECOND), lease_us=far)
    world.subscribe()
    world.report(0, 2)
    world.tick(30 * SECOND)
    assert world.get() is None
    world.report(0, 0, low_watermark_us=far + 1)
    world.tick(1)
    assert keys(world.get()) == [5, far]
    assert shard_state(world, 1)["skipped"]
    world.report(1, 1)
    assert shard_state(world, 1)["skipped"], "it is still far behind"
    late = world.get()
    assert (keys(late), late.headers["commit_us"].tolist()) == ([far], [7])
    assert late.headers["flags"][0] & Flag.LATE
    world.report(1, 0, low_watermark_us=far - SECOND)
    assert not shard_state(world, 1)["skipped"]
    world.report(0, low_watermark_us=far + 20)
    assert world.get() is None, "it is waited for again"
    world.report(1, low_watermark_us=far + 20)
    assert keys(world.get()) == [far + 5, far + 10]
    assert world.group.describe(0)["late"] == 1


def test_a_shard_dead_at_the_start_is_skipped_if_its_position_is_known():
    """1. Restart with shard 1 down.
    2. The others begin without it.
    3. It comes back; its transactions are late.
    """
    world = World.of(
        Source(Tx(10), Tx(30)), Source(Tx(20), Tx(40)), dead_shard=DeadShard("skip_after", SECOND)
    )
    world.subscribe()
    world.report(0, 1)
    world.report(1, 0, low_watermark_us=10)
    world.ack(world.get().batch_id)
    world.restart()
    world.start()
    world.open(0)
    world.request_subscribe()
    world.lease()
    world.save()
    world.report(0)
    assert world.get() is None
    world.now_us += SECOND
    world.report(0, 0, low_watermark_us=35)
    world.tick(1)
    assert not shard_state(world, 0)["skipped"], "it is alive"
    assert keys(world.get()) == [30]
    world.open(1)
    world.report(1)
    batch = world.get()
    assert (keys(batch), batch.headers["commit_us"].tolist()) == ([30], [20])
    assert batch.headers["flags"].tolist() == [Flag.BEGIN | Flag.END | Flag.LATE]
    world.report(0, 0, low_watermark_us=99)
    assert keys(world.get()) == [40]


def test_a_shard_with_an_unknown_position_is_awaited():
    world = World.of(Source(Tx(10)), Source(Tx(20)), start=False, dead_shard=DeadShard("skip_after", SECOND))
    world.start()
    world.open(0)
    world.now_us = 10 * SECOND
    world.report(0)
    world.tick(1)
    assert not world.group.describe(0)["merging"]


def test_a_skipped_failed_shard_delays_no_client():
    world = World.of(Source(Tx(10)), Source(Tx(20)), dead_shard=DeadShard("skip_after", SECOND))
    world.subscribe()
    world.tell(ev.ShardFailed(1, 1, CorruptEvent("bad"), 0))
    world.now_us += 2 * SECOND
    world.report(0)
    with pytest.raises(CorruptEvent):
        world.get()
    world.tick(0)
    assert keys(world.get()) == [10]
    assert world.get() is None


def test_no_shard_is_skipped_while_all_are_silent():
    world = World.of(Source(Tx(10)), Source(Tx(20)), dead_shard=DeadShard("skip_after", SECOND))
    world.tick(100 * SECOND)
    assert [shard["skipped"] for shard in world.group.describe(0)["shards"]] == [False, False]


def test_a_shard_at_its_end_is_not_silent_and_delays_no_client():
    """One shard promises the end of time and says no more; the other goes on."""
    world = World.of(Source(Tx(10)), Source(Tx(20), Tx(30)), dead_shard=DeadShard("skip_after", SECOND))
    world.subscribe()
    world.report(0)
    world.report(0, 0, END_OF_TIME_US)
    world.report(1, 1)
    assert len(world.get().headers) == 2
    world.tick(5 * SECOND)
    world.report(1)
    assert len(world.get().headers) == 1
    first = shard_state(world, 0)
    assert (first["skipped"], first["frontier_us"]) == (False, None)


def test_a_shard_that_brings_old_transactions_is_not_silent():
    """Its key does not move while its clock is behind, yet it is alive."""
    world = World.of(
        Source(Tx(50), *[Tx(10)] * 5), Source(Tx(20)), dead_shard=DeadShard("skip_after", SECOND)
    )
    for _ in range(6):
        world.now_us += SECOND
        world.report(0, 1)
        world.report(1)
        world.tick(1)
    assert not shard_state(world, 0)["skipped"]
    assert shard_state(world, 1)["skipped"]


def test_a_shard_with_transactions_and_an_old_low_watermark_is_not_silent():
    """The shard sends its transactions, while its low watermark stands; the other shard's rises."""
    world = World.of(Source(Tx(60), Tx(70), Tx(80)), Source(), dead_shard=DeadShard("skip_after", SECOND))
    for second in range(3):
        world.now_us += SECOND
        world.report(0, 1, low_watermark_us=50)
        world.report(1, 0, low_watermark_us=51 + second)
        world.tick(1)
    assert not any(shard_state(world, shard)["skipped"] for shard in (0, 1))


def test_a_shard_is_silent_after_the_limit_and_back_within_it():
    """1. Shard 1 is silent for as long as is allowed, and waited for. 2. A microsecond later it is not.
    3. It is back, a microsecond further behind than is allowed. 4. It is waited for when it is not.
    """
    far = 100 * SECOND
    world = World.of(
        Source(Tx(far), Tx(far + 5)), Source(), dead_shard=DeadShard("skip_after", SECOND), lease_us=far
    )
    world.subscribe()
    world.now_us = SECOND
    world.report(0, 1)
    world.tick(0)
    assert not shard_state(world, 1)["skipped"]
    world.tick(1)
    assert shard_state(world, 1)["skipped"]
    assert keys(world.get()) == [far]
    world.report(1, 0, low_watermark_us=far - SECOND - 1)
    assert shard_state(world, 1)["skipped"]
    world.report(1, 0, low_watermark_us=far - SECOND)
    assert not shard_state(world, 1)["skipped"]


def test_a_removed_shard_does_not_let_others_be_skipped():
    """1. Two shards are silent, and a third one has left. 2. Neither is skipped: who would go on?"""
    world = World.of(Source(Tx(10)), Source(Tx(20)), Source(), dead_shard=DeadShard("skip_after", SECOND))
    world.subscribe()
    world.remove("s2", now=True)
    world.save()
    world.open_all()
    world.tick(2 * SECOND)
    assert [shard_state(world, shard)["skipped"] for shard in (0, 1)] == [False, False]


# ---- refused calls -----------------------------------------------------------------------------------------


def refused_calls(world, first, second):
    """(what, how) of calls that must be refused, with the error's class and fields."""
    epoch, at_us = world.epochs["c"], world.now_us
    unknown = second.batch_id + 9
    return {
        "ack out of order": (
            ev.Asked(901, Ack("c", epoch, second.batch_id), at_us),
            AckOutOfOrder,
            {"batch_id": second.batch_id, "oldest": first.batch_id},
        ),
        "ack unknown": (
            ev.Asked(902, Ack("c", epoch, unknown), at_us),
            UnknownBatch,
            {"batch_id": unknown},
        ),
        "ack fenced": (
            ev.Asked(903, Ack("c", epoch - 1, first.batch_id), at_us),
            FencedError,
            {"our_epoch": epoch - 1, "current_epoch": epoch},
        ),
        "get fenced": (
            ev.Asked(904, Get("c", epoch - 1, 1, 0.0), at_us),
            FencedError,
            {"our_epoch": epoch - 1, "current_epoch": epoch},
        ),
        "get over the bound": (
            ev.Asked(905, Get("c", epoch, 1, 0.0), at_us),
            RetryableError,
            {"outstanding_max": 2},
        ),
        "get unsubscribed": (ev.Asked(906, Get("nobody", 1, 1, 0.0), at_us), NotSubscribed, {}),
        "rollback unknown": (
            ev.Asked(907, Rollback("c", epoch, unknown), at_us),
            UnknownBatch,
            {"batch_id": unknown},
        ),
        "rollback fenced": (
            ev.Asked(908, Rollback("c", epoch - 1, None), at_us),
            FencedError,
            {"our_epoch": epoch - 1, "current_epoch": epoch},
        ),
        "plan unknown": (
            ev.Asked(909, Plan("c", epoch, unknown), at_us),
            UnknownBatch,
            {"batch_id": unknown},
        ),
        "touch unsubscribed": (ev.Asked(910, Touch("nobody", 1), at_us), NotSubscribed, {}),
        "unsubscribe fenced": (
            ev.Asked(911, Unsubscribe("c", epoch - 1), at_us),
            FencedError,
            {"our_epoch": epoch - 1, "current_epoch": epoch},
        ),
        "release unsubscribed": (ev.Asked(912, Release("nobody", 1), at_us), NotSubscribed, {}),
        "subscribe while held": (
            ev.Asked(913, SubscribeAt("c", "somebody", ""), at_us),
            ConsumerActive,
            {"holder": "h", "retry_after_s": 1.0},
        ),
    }


REFUSED = (
    "ack out of order", "ack unknown", "ack fenced", "get fenced", "get over the bound", "get unsubscribed",
    "rollback unknown", "rollback fenced", "plan unknown", "touch unsubscribed", "unsubscribe fenced",
    "release unsubscribed", "subscribe while held",
)  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_a_refused_call_changes_nothing(what):
    world = World.of(Source(Tx(10), Tx(20), Tx(30)), limits=batch_limits(outstanding_max=2))
    world.subscribe()
    world.report_all()
    first, second = world.get(rows_max=1), world.get(rows_max=1)
    event, error, fields = refused_calls(world, first, second)[what]
    before = world.group.describe(0)
    assert world.tell(event) == [do.Refuse(event.number, world.answers[event.number])]
    refusal = world.answers[event.number]
    assert type(refusal) is error
    assert refusal.details == fields
    assert world.group.describe(0) == before
    world.ack(first.batch_id)
    world.ack(second.batch_id)
    assert keys(world.get()) == [30]


@pytest.mark.parametrize("request_", ["ack", "rollback", "unsubscribe"])
def test_while_the_cursor_is_written_what_depends_on_it_has_to_wait(request_):
    world = World.of(Source(Tx(10), Tx(20)))
    world.subscribe()
    world.report_all()
    first, second = world.get(rows_max=1), world.get(rows_max=1)
    acking = world.request_ack(first.batch_id)
    before = world.group.describe(0)
    event = {
        "ack": ev.Asked(900, Ack("c", 1, second.batch_id), 0),
        "rollback": ev.Asked(900, Rollback("c", 1, None), 0),
        "unsubscribe": ev.Asked(900, Unsubscribe("c", 1), 0),
    }[request_]
    world.tell(event)
    with pytest.raises(RetryableError) as caught:
        world.result(900)
    assert caught.value.retry_after_s == 0.05
    assert world.group.describe(0) == before
    world.save()
    assert world.result(acking) == first.ack


def test_a_plan_is_the_batch_once_more():
    world = World.of(Source(Tx(10)))
    world.subscribe()
    world.report_all()
    batch = world.get()
    call = world.call()
    world.tell(ev.Asked(call, Plan("c", 1, batch.batch_id), 0))
    assert world.result(call) is batch


def test_an_unknown_event_is_a_defect():
    world = World.of(Source(Tx(10)), start=False)
    with pytest.raises(AssertionError, match="unreachable"):
        world.group.handle(object())


# ---- lost answers ------------------------------------------------------------------------------------------


def test_a_batch_without_an_answer_gets_a_new_id():
    """1. The second of two answers is lost. 2. The next get tells so, and brings its rows again."""
    world = World.of(Source(Tx(10), Tx(20), Tx(30)))
    world.subscribe()
    world.report_all()
    seen, lost = world.get(rows_max=1), world.get(rows_max=1)
    call = world.call()
    world.tell(ev.Asked(call, Get("c", world.epochs["c"], 1, 0.0, seen.batch_id), world.now_us))
    again = world.result(call)
    assert again.batch_id > lost.batch_id
    assert batch_idents(again) == batch_idents(lost)
    world.ack(seen.batch_id)
    world.ack(again.batch_id)
    assert keys(world.get()) == [30]


def test_a_get_that_saw_everything_takes_nothing_back():
    world = World.of(Source(Tx(10), Tx(20)))
    world.subscribe()
    world.report_all()
    seen = world.get(rows_max=1)
    call = world.call()
    world.tell(ev.Asked(call, Get("c", world.epochs["c"], 1, 0.0, seen.batch_id), world.now_us))
    assert keys(world.result(call)) == [20]
    assert world.group.describe(world.now_us)["clients"][0]["outstanding"][0]["batch_id"] == seen.batch_id


def test_a_get_that_was_given_up_takes_no_batch():
    """1. A get waits; its consumer gives it up, for its connection broke, and asks again.
    2. The first one is answered with nothing, the second one with the batch.
    """
    world = World.of(Source(Tx(10), Tx(20)))
    world.subscribe()
    first, second = (_request_get(world, seen_id=0) for _ in range(2))
    world.report_all()
    assert world.result(first) is None
    assert keys(world.result(second)) == [10, 20]


def _request_get(world, seen_id):
    call = world.call()
    world.tell(ev.Asked(call, Get("c", world.epochs["c"], 9, 0.0, seen_id), world.now_us))
    return call


# ---- what the cursor store may have done -------------------------------------------------------------------


def unsubscribing(world):
    """Ask for the end of the subscription; return the call."""
    world.forgets = False
    call = world.call()
    world.tell(ev.Asked(call, Unsubscribe("c", world.epochs["c"]), world.now_us))
    return call


@pytest.mark.parametrize("arrives", [True, False])
def test_an_unanswered_unsubscribe_is_repeated_until_confirmed(arrives):
    """1. The store does not answer; the consumer hears that. 2. It may not go on, nor subscribe, nor is it
    told that the subscription is gone. 3. The store is asked again. 4. No server finds the subscription.
    """
    world = World.of(Source(Tx(10), Tx(20)))
    world.subscribe()
    call = unsubscribing(world)
    world.forget(CoordinatorUnavailable("away"), arrives=arrives)
    with pytest.raises(CoordinatorUnavailable):
        world.result(call)
    for refused in (unsubscribing(world), world.request_get(), world.request_subscribe()):
        with pytest.raises(RetryableError, match="being removed"):
            world.result(refused)
    assert world.status(0)["state"] == "open"
    world.tick(1)
    world.forget(CoordinatorUnavailable("away"))
    world.tick(1)
    world.forget()
    with pytest.raises(NotSubscribed):
        world.result(unsubscribing(world))
    world.epoch += 1
    world.restart()
    world.start()
    assert world.group.describe(0)["clients"] == []


def test_while_it_is_forgotten_a_client_holds_no_ring():
    world = World.of(Source(Tx(10), Tx(20)))
    world.subscribe()
    world.subscribe("other")
    world.report_all()
    world.ack(world.get("other").batch_id, "other")
    assert world.rings[0].freed == 0
    unsubscribing(world)
    assert world.rings[0].freed == 2


def test_a_refused_subscription_that_arrived_is_forgotten_by_the_store():
    world = World.of(Source(Tx(10), Tx(20)))
    call = world.request_subscribe()
    world.lease()
    world.save(CoordinatorUnavailable("no answer"), arrives=True)
    with pytest.raises(CoordinatorUnavailable):
        world.result(call)
    assert "c" in world.stored
    world.tick(1)
    assert world.stored == {}
    assert world.group.describe(0)["clients"] == []


def test_a_refused_change_of_the_filter_leaves_the_one_that_is_stored():
    world = World.of(Source(Tx(10)))
    world.subscribe()
    call = world.call()
    world.tell(ev.Asked(call, SubscribeAt("c", "h", "shop\\..*"), world.now_us))
    world.lease()
    world.save(CoordinatorUnavailable("away"))
    with pytest.raises(CoordinatorUnavailable):
        world.result(call)
    assert world.group.describe(0)["clients"][0]["filter"] == ""


def test_batch_ids_of_a_client_that_came_back_go_on():
    world = World.of(Source(Tx(10)))
    world.subscribe()
    world.report_all()
    first = world.get()
    unsubscribing(world)
    world.forget()
    world.subscribe()
    world.lose(0)
    world.open_all()
    world.report_all()
    again = None
    with pytest.raises(RolledBack):
        world.ack(first.batch_id)
    again = world.get()
    assert again is None or again.batch_id > first.batch_id


def test_a_repeated_last_low_watermark_is_not_past_the_shards_data():
    world = World.of(Source(Tx(10)))
    world.subscribe()
    world.report(0, low_watermark_us=20)
    world.ack(world.get().batch_id)
    broken = UnsupportedEvent("It cannot be read.")
    for _ in range(2):
        world.tell(ev.ShardFailed(0, 1, broken, world.now_us))
        world.report(0, 0, low_watermark_us=20)
    call = world.request_get()
    world.tell(ev.GetTimedOut(call, "c"))
    with pytest.raises(UnsupportedEvent):
        world.result(call)
    world.report(0, 0, low_watermark_us=21)
    assert world.get() is None
    assert world.status(0)["state"] == "open"


def test_a_filter_that_was_written_on_the_way_is_the_one_that_stays():
    """1. Two consumers take over while the first one's write is under way, which arrives. 2. The second one's
    is refused: what is stored is what is gone by.
    """
    world = World.of(Source(Tx(10)))

    def take_over(table_filter):
        world.tell(ev.Asked(world.call(), SubscribeAt("c", "h", table_filter), world.now_us))
        world.lease()

    take_over("first")
    world.save()
    take_over("second")
    take_over("third")
    world.save()
    world.save(ConfigError("refused"))
    assert world.stored["c"].filter == world.group.describe(0)["clients"][0]["filter"]
