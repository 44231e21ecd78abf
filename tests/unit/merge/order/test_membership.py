"""Shards that join and leave a stream that goes on, as numbered stories."""

import pytest
from support.defaults import group_settings
from support.group.builders import Source, Tx, World, batch_idents

from canal_group.merge import events as ev
from canal_group.merge import instructions as do
from canal_group.merge.calls.consumers import Release
from canal_group.merge.calls.operators import RemoveShard
from canal_group.merge.calls.resume import Resume
from canal_group.merge.delivery.cursor_writes import OWN_CALL
from canal_group.merge.errors import ConfigError, CoordinatorUnavailable, RolledBack, UsageError
from canal_group.merge.order.membership import MEMBERS_MAX, Membership
from canal_group.merge.values.commit_time import END_OF_TIME_US
from canal_group.merge.values.header import Flag
from canal_group.merge.values.member import CAUGHT_UP_US, Policy
from canal_group.merge.values.position import GroupPosition

SECOND = 1_000_000


def keys(batch):
    return batch.headers["key_us"].tolist()


def shards(batch):
    return batch.headers["shard"].tolist()


def running(*sources, **settings):
    world = World.of(*sources, **settings)
    world.subscribe()
    return world


# ---- joining -----------------------------------------------------------------------------------------------


def test_a_new_shards_cursor_is_written_at_the_frontier_before_it_joins():
    """1. Rows are out up to 50. 2. A shard joins from its beginning: what it has is older.
    3. Its rows come late, under raised keys. 4. Every cursor holds it in a write of its own.
    """
    world = running(Source(Tx(10), Tx(50), Tx(70)), Source(Tx(20)))
    world.report(0, 2)
    world.report(1, low_watermark_us=60)
    world.ack(world.get().batch_id)
    late = Source(Tx(15), Tx(65), server=2)
    told = world.add(late)
    assert (told["index"], told["role"]) == (2, "joining")
    world.report(0, 0, low_watermark_us=60)
    world.open(2)
    assert world.status(2)["role"] == "member"
    assert not world.group.describe(0)["reconciled"]
    (asked,) = world.saving
    assert (asked.number, asked.cursor.shards["s2"]) == (OWN_CALL, late.start)
    world.save()
    assert world.group.describe(0)["reconciled"]
    world.report(2)
    batch = world.get()
    assert (shards(batch), keys(batch)) == ([2], [50])
    assert batch.headers["flags"][0] & Flag.LATE
    assert batch.shards == ("s0", "s1", "s2")
    assert world.ack(batch.batch_id).shards["s2"].offset == 104
    world.report(0, low_watermark_us=80)
    world.report(1, 0, low_watermark_us=80)
    assert keys(world.get()) == [65], "the newcomer is waited for by now"


def test_a_new_shard_is_not_awaited_until_it_has_caught_up():
    far = 100 * SECOND
    world = running(Source(*[Tx(far + n) for n in range(5)]))
    world.report(0, 2)
    assert keys(world.get()) == [far, far + 1]
    world.add(Source(Tx(10), Tx(far - CAUGHT_UP_US), Tx(far + 9), server=1))
    world.report(0, 1)
    assert keys(world.get()) == [far + 2], "it is not even open"
    world.open(1)
    world.save()
    world.report(1, 1)
    assert (world.status(1)["catching_up"], world.status(1)["skipped"]) == (True, True)
    world.report(0, 1)
    assert keys(world.get()) == [far + 2, far + 3]
    world.report(1, 0, low_watermark_us=far)
    assert (world.status(1)["catching_up"], world.status(1)["skipped"]) == (False, False)
    world.report(0)
    assert world.get() is None
    world.report(1)
    assert keys(world.get()) == [far + 3, far + 4]


def test_it_begins_where_an_operator_says():
    world = running(Source(Tx(10)))
    source = Source(Tx(20), Tx(30), server=1)
    world.add(source, start=source.ends[0])
    assert world.asked(do.OpenShard)[-1].position == source.ends[0]
    world.open(1)
    world.save()
    world.report(1)
    world.report(0, low_watermark_us=99)
    batch = world.get()
    assert [position[2] for position in batch_idents(batch)] == [4, 104]
    assert keys(batch) == [10, 30]


def test_batches_from_before_the_join_keep_the_newcomers_start():
    """1. A batch is out. 2. A shard joins, and is saved. 3. The old batch is acknowledged, or rolled back and
    delivered again: the cursor holds the newcomer at where it joined.
    """
    world = running(Source(Tx(10), Tx(20)))
    world.report(0, 1)
    before = world.get()
    source = Source(Tx(5), server=1)
    world.add(source)
    world.open(1)
    world.save()
    world.rollback()
    again = world.get()
    assert again.ack.shards["s1"] == source.start
    world.report(0)
    assert world.ack(again.batch_id).shards["s1"] == source.start
    assert world.stored["c"].cursor.shards["s1"] == source.start
    assert before.batch_id < again.batch_id


def test_an_ack_during_a_joins_write_is_answered_after_it():
    world = running(Source(Tx(10)))
    world.report(0)
    batch = world.get()
    world.add(Source(Tx(5), server=1))
    world.open(1)
    call = world.request_ack(batch.batch_id)
    assert call not in world.answers
    world.save()
    assert call not in world.answers
    world.save()
    assert world.result(call).shards.keys() == {"s0", "s1"}


def test_a_join_during_the_write_of_an_acknowledgement_is_written_after_it():
    world = running(Source(Tx(10)))
    world.report(0)
    call = world.request_ack(world.get().batch_id)
    source = Source(Tx(5), server=1)
    world.add(source)
    world.open(1)
    assert len(world.saving) == 1
    world.save()
    assert world.result(call).shards["s0"].offset == 104
    (asked,) = world.saving
    assert asked.cursor.shards["s1"] == source.start
    world.save()
    assert world.group.describe(0)["reconciled"]


def test_a_join_that_could_not_be_written_is_written_later():
    world = running(Source(Tx(10)))
    world.add(Source(Tx(5), server=1))
    world.open(1)
    world.save(CoordinatorUnavailable("away"))
    assert not world.saving
    assert not world.group.describe(0)["reconciled"]
    world.tick(1)
    world.save()
    assert world.group.describe(0)["reconciled"]
    assert "s1" in world.stored["c"].cursor.shards


def test_an_ack_after_a_failed_joins_write_includes_it():
    """1. A shard joins; the write of it is lost, or its answer. 2. An acknowledgement follows, whose answer
    is lost as well: the join is not written yet, as far as is known. 3. It is repeated, with the join in it.
    """
    world = running(Source(Tx(10)))
    world.report(0)
    batch = world.get()
    source = Source(Tx(5), server=1)
    world.add(source)
    world.open(1)
    world.save(CoordinatorUnavailable("away"))
    world.request_ack(batch.batch_id)
    assert [save.cursor.shards["s1"] for save in world.saving] == [source.start]
    assert not world.group.describe(0)["reconciled"], "it is on its way"
    world.save(CoordinatorUnavailable("away"))
    assert not world.group.describe(0)["reconciled"]
    world.tick(1)
    world.save()
    assert world.group.describe(0)["reconciled"]
    assert world.saving == []
    stored = world.stored["c"].cursor
    assert stored.shards == batch.ack.with_shard("s1", source.start).shards
    assert stored.joined == {"s1": source.start}


def test_a_shard_leaving_during_an_unconfirmed_ack_is_removed_with_it():
    """1. Nobody knows whether an acknowledgement is written. 2. A shard is removed: that is answered, and its
    actor ends, when the cursor without it is written: by the repeated write.
    """
    world = running(Source(Tx(10)), Source(Tx(20)))
    world.report(0, low_watermark_us=30)
    world.report(1, low_watermark_us=30)
    world.request_ack(world.get().batch_id)
    world.save(CoordinatorUnavailable("away"))
    assert world.remove("s1", now=True) is None
    assert (world.saving, world.closed) == ([], [])
    world.tick(1)
    (asked,) = world.saving
    assert (set(asked.cursor.shards), asked.cursor.retired) == ({"s0"}, ("s1",))
    assert world.closed == []
    world.save()
    assert world.closed == [1]
    assert world.stored["c"].cursor.shards["s0"].offset == 104


def test_a_newcomer_is_a_member_after_a_rewind_and_after_a_restart():
    world = running(Source(Tx(10)), Source(Tx(20)))
    source = Source(Tx(5), Tx(30), server=2)
    world.add(source)
    world.open(2)
    world.save()
    world.lose(0)
    assert world.opening[2].position == source.start
    world.open_all()
    world.report_all()
    batch = world.get()
    assert sorted(shards(batch)) == [0, 1, 2, 2]
    world.ack(batch.batch_id)
    world.epoch += 1
    world.restart()
    world.start()
    assert world.opening[2].position.offset == 204


def test_a_shard_that_joins_while_the_others_are_opened_does_not_keep_them():
    world = running(Source(Tx(10)))
    world.lose(0)
    world.add(Source(Tx(5), server=1))
    world.open(0)
    assert world.group.describe(0)["merging"]
    world.open(1)
    world.save()
    assert world.status(1)["role"] == "member"


def test_a_new_shard_catching_up_is_not_awaited_after_a_rewind():
    """1. A shard joins far behind. 2. Another one is lost: all are opened again.
    3. The others go on, and it counts once it has caught up.
    """
    far = CAUGHT_UP_US + 100 * SECOND
    world = running(Source(Tx(far), Tx(far + 10), Tx(far + 30)))
    world.report(0, 1)
    world.ack(world.get().batch_id)
    world.add(Source(Tx(10), Tx(far + 5), Tx(far + 20), server=1))
    world.open(1)
    world.save()
    world.report(1, 1)
    assert keys(world.get()) == [far]
    world.lose(0)
    world.open_all()
    with pytest.raises(RolledBack):
        world.get()
    world.report(0, 1)
    assert keys(world.get()) == [far + 10], "nobody waits for it"
    world.report(1, 1)
    assert keys(world.get()) == [far + 10], "it is late"
    assert world.get() is None
    world.report(1, 1)
    assert keys(world.get()) == [far + 10]
    world.report(0)
    assert world.get() is None, "it is waited for by now"
    world.report(1)
    assert keys(world.get()) == [far + 20]


def test_before_the_first_client_a_new_shard_is_a_member():
    world = World.of(Source(Tx(10)), start=False)
    world.start()
    world.add(Source(Tx(5), server=1))
    world.open(0)
    assert not world.group.describe(0)["merging"]
    world.open(1)
    world.subscribe()
    world.report_all()
    assert keys(world.get()) == [5, 10]


def test_a_shard_missing_in_the_cursors_joins_unawaited_after_a_restart():
    """1. The instance file has one more shard. 2. The server restarts: the others go on at once.
    3. It joins when it answers, and the cursors hold it.
    """
    world = running(Source(Tx(10), Tx(20)))
    world.report(0, 1)
    world.ack(world.get().batch_id)
    world.sources.append(Source(Tx(5), server=1))
    world.settings = group_settings("shop", ("s0", "s1"))
    world.epoch += 1
    world.restart()
    world.start()
    world.open(0)
    assert world.status(1)["role"] == "joining"
    world.subscribe()
    world.report(0)
    assert keys(world.get()) == [20]
    world.save()
    assert "s1" in world.stored["c"].cursor.shards


def test_a_client_with_a_cursor_before_a_join_misses_nothing():
    """1. A shard joins, and two cursors are to follow. 2. One does, and goes on; the other's write is lost.
    3. The next server reads the newcomer from where it joined.
    """
    world = running(Source(Tx(10)))
    world.subscribe("other")
    world.report_all()
    for client in ("c", "other"):
        world.ack(world.get(client).batch_id, client)
    world.add(Source(Tx(21), Tx(22), Tx(23), server=1))
    world.report(0, 0, low_watermark_us=30)
    world.open(1)
    while world.saving:
        lost = world.saving[0].client_id == "other"
        world.save(CoordinatorUnavailable("away") if lost else None)
    world.report_all()
    world.ack(world.get().batch_id)
    assert "s1" not in world.stored["other"].cursor.shards
    world.settings = group_settings("shop", ("s0", "s1"))
    world.epoch += 1
    world.restart()
    world.start()
    world.open_all()
    for client in ("c", "other"):
        world.request_subscribe(client)
        world.lease()
    while world.saving:
        world.save()
    world.report_all()
    assert keys(world.get("other")) == [21, 22, 23]
    assert world.get() is None


def test_names_are_given_once():
    world = running(Source(Tx(10)), Source(Tx(20)))
    with pytest.raises(UsageError, match="belongs to a shard that is there"):
        world._operate(lambda call: ev.ShardAdded(call, "s1", None, 0))
    world.remove("s1", now=True)
    world.save()
    with pytest.raises(UsageError, match="belongs to a shard that left"):
        world._operate(lambda call: ev.ShardAdded(call, "s1", None, 0))


def test_equal_keys_stay_in_the_order_of_joining_through_departures():
    """Indexes are not given twice: who came later stands after them, also where somebody left between."""
    world = running(*(Source(Tx(50), Tx(90), server=n) for n in range(3)))
    world.remove("s1", now=True)
    world.save()
    world.open_all()
    world.add(Source(Tx(50), Tx(90), server=3))
    world.open(3)
    world.save()
    for shard in (3, 2, 0):
        world.report(shard, low_watermark_us=99)
    assert shards(world.get()) == [0, 2, 3, 0, 2, 3]


# ---- leaving -----------------------------------------------------------------------------------------------


def test_a_removed_shard_leaves_behind_what_it_had_committed():
    """1. A shard with rows at 20 and 40 is removed at 30. 2. The row at 20 is delivered, 40 is not.
    3. When it is acknowledged, every cursor lets go of the shard in one write, and its actor ends.
    """
    world = running(Source(Tx(10), Tx(50)), Source(Tx(20), Tx(40)))
    told = world.remove("s1", until_us=30)
    assert told["role"] == "leaving"
    world.report(1)
    world.report(0, low_watermark_us=60)
    batch = world.get()
    assert keys(batch) == [10, 20, 50]
    assert world.closed == []
    call = world.request_ack(batch.batch_id)
    world.save()
    assert call in world.answers
    assert world.closed == [], "its departure is not written yet"
    world.save()
    stored = world.stored["c"].cursor
    assert (set(stored.shards), stored.retired) == ({"s0"}, ("s1",))
    assert world.closed == [1]
    assert world.status(1)["role"] == "left"
    world.report(0, 0, low_watermark_us=99)
    assert world.get() is None


@pytest.mark.parametrize("behind", [True, False])
def test_a_dropped_client_keeps_on_record_what_a_shard_left_with(behind):
    """1. `old` has less of `s0` than `app`, or as much, and is dropped. 2. `s0` leaves without it.
    3. What it did not get is a loss in the write that lets `s0` go, and is there when it comes back.
    """
    world = World.of(Source(Tx(10), Tx(20), Tx(30)), Source(Tx(15), server=1), drop_after_us=1)
    for client in ("app", "old"):
        world.subscribe(client)
    world.report(0, 1)
    world.report(1, low_watermark_us=99)
    world.ack(world.get("app").batch_id, "app")
    world.report(0, low_watermark_us=50)
    world.ack(world.get("old", 1 if behind else 10).batch_id, "old")
    world.tell(ev.Asked(world.call(), Release("old", world.epochs["old"]), world.now_us))
    world.tick(2)
    world.save()
    world.remove("s0", until_us=50)
    while (batch := world.get("app")) is not None:
        world.ack(batch.batch_id, "app")
    world.report(0, 0, low_watermark_us=60)
    while world.saving:
        world.save()
    left = world.stored["old"]
    assert (left.cursor.retired, list(left.cursor.shards)) == (("s0",), ["s1"])
    ends = world.sources[0].ends
    losses = [(each.shard, each.after.offset, each.until.offset) for each in left.losses]
    assert losses == ([("s0", ends[0].offset, ends[2].offset)] if behind else [])
    world.subscribe("old", resume=Resume.CURSOR)
    assert world.stored["old"].losses == left.losses


def test_a_removed_shard_that_is_quiet_leaves_at_its_next_low_watermark():
    world = running(Source(Tx(10)), Source())
    world.remove("s1", until_us=30)
    world.report(1, 0, low_watermark_us=29)
    assert not world.saving
    world.report(1, 0, low_watermark_us=30)
    world.save()
    assert world.closed == [1]


def test_a_removed_shard_owes_what_a_clock_that_was_set_forward_stamped():
    """1. Its clock is read. 2. It is set forward, and a transaction commits. 3. The shard is removed: how far
    it has to come is told by a reading from after that.
    """
    world = running(Source(Tx(10)), Source(Tx(150)))
    world.report(1, 0, source_us=100)
    world.now_us += 1
    world.remove("s1")
    world.report(1, source_us=210)
    world.report(1, 0, low_watermark_us=209)
    assert world.status(1)["role"] == "leaving"
    world.report(1, 0, low_watermark_us=211)
    world.report(0, low_watermark_us=300)
    batch = world.get()
    assert keys(batch) == [10, 150]
    world.ack(batch.batch_id)
    while world.saving:
        world.save()
    assert world.closed == [1]


def test_a_removed_shard_delivers_commits_before_its_clock_was_set_back():
    """1. Its clock is read, and a transaction commits. 2. It is set back. 3. The shard is removed before the
    transaction was reported: it stands at a later time than the clock does.
    """
    world = running(Source(Tx(10)), Source(Tx(150)))
    world.report(1, 0, source_us=100 + world.now_us)
    world.now_us += 60
    world.remove("s1")
    world.report(1, source_us=80)
    world.report(1, 0, low_watermark_us=300)
    world.report(0, low_watermark_us=300)
    batch = world.get()
    assert keys(batch) == [10, 150]


def test_a_clock_that_was_set_back_long_ago_does_not_hold_a_removed_shard():
    """Since then all that its source had committed was known."""
    world = running(Source(Tx(10)), Source())
    world.report(1, 0, source_us=10_000 + world.now_us)
    world.report(1, 0, source_us=100 + world.now_us, low_watermark_us=100)
    world.remove("s1")
    world.report(1, 0, source_us=100 + world.now_us)
    world.report(1, 0, low_watermark_us=200 + world.now_us)
    world.save()
    assert world.status(1)["role"] == "left"


def test_a_low_watermark_before_a_clock_change_does_not_end_a_removal():
    """1. Its clock is read. 2. It makes a low watermark, commits a transaction, and is set back. 3. A report
    brings that low watermark with a reading of now. 4. The shard is removed before the transaction came.
    """
    world = running(Source(Tx(10)), Source(Tx(250)))
    world.report(1, 0, source_us=300 + world.now_us)
    world.report(1, 0, source_us=80 + world.now_us, low_watermark_us=200 + world.now_us)
    world.now_us += 60
    world.remove("s1")
    world.report(1, source_us=80 + world.now_us)
    world.report(1, 0, low_watermark_us=400 + world.now_us)
    world.report(0, low_watermark_us=400 + world.now_us)
    assert keys(world.get()) == [10, 250]


def test_a_removed_shard_at_its_end_leaves_without_another_report():
    world = running(Source(Tx(10)), Source(Tx(20)))
    world.report(0, low_watermark_us=30)
    world.report(1, low_watermark_us=END_OF_TIME_US)
    world.ack(world.get().batch_id)
    world.remove("s1", until_us=99)
    world.save()
    assert world.closed == [1]


def test_a_removed_shards_last_transactions_without_rows_do_not_keep_it():
    world = running(Source(Tx(10)), Source(Tx(20, (0,))))
    world.remove("s1", until_us=30)
    world.report(0, low_watermark_us=60)
    world.report(1, low_watermark_us=60)
    batch = world.get()
    world.ack(batch.batch_id)
    while world.saving:
        world.save()
    assert world.closed == [1]


def test_a_rewind_while_a_shard_leaves_drains_it_again():
    world = running(Source(Tx(10)), Source(Tx(20), Tx(40)))
    world.remove("s1", until_us=30)
    world.report(1)
    world.lose(0)
    world.open_all()
    assert world.status(1)["role"] == "leaving"
    world.report_all()
    batch = world.get()
    assert keys(batch) == [10, 20]
    world.ack(batch.batch_id)
    world.save()
    assert world.closed == [1]


def test_a_shard_removed_at_once_reports_what_it_drops():
    """1. A row of it is acknowledged, another outstanding. 2. It is removed now: the answer, after the write,
    says where each cursor left it. 3. What was outstanding is rolled back, and comes without its rows.
    """
    world = running(Source(Tx(10), Tx(30)), Source(Tx(20), Tx(40, (7,)), Tx(60)))
    world.report(0, low_watermark_us=55)
    world.report(1, 1)
    first = world.get()
    world.ack(first.batch_id)
    world.report(1, 1)
    world.report(0, 0, low_watermark_us=99)
    world.report(1, 0, low_watermark_us=45)
    outstanding = world.get()
    assert keys(outstanding) == [30, 40]
    call = world.call()
    world.tell(ev.Asked(call, RemoveShard("s1", True), world.now_us))
    assert call not in world.answers
    world.save()
    assert world.result(call) == {
        "shard": "s1",
        "role": "left",
        "rows_dropped": 7,
        "left_at": {"c": "bin.000001:104"},
    }
    assert world.closed == [1]
    world.open_all()
    world.report_all()
    world.rollback()
    batch = world.get()
    assert (keys(batch), shards(batch)) == ([30], [0])
    assert batch.ack.retired == ("s1",)


def test_news_of_a_shard_that_left_is_ignored():
    world = running(Source(Tx(10)), Source(Tx(20)))
    world.remove("s1", now=True)
    generation = world.group.generation
    world.open(0)
    run = world.sources[1].run(0, 1)
    for event in (
        ev.ShardOpened(1, generation, world.sources[1].start, 0),
        ev.ShardReported(1, generation, run, 99, 0),
        ev.ShardLost(1, generation, "gone", 0),
    ):
        assert world.tell(event) == []
    world.report(0)
    assert keys(world.get()) == [10]


def test_a_shard_that_has_not_joined_yet_leaves_at_once():
    world = running(Source(Tx(10)))
    world.add(Source(Tx(5), server=1))
    answer = world.remove("s1")
    while world.saving:
        world.save()
    assert world.closed == [1]
    assert answer is None or answer["role"] == "left"


def test_keys_do_not_fall_behind_a_shard_that_left():
    """1. the greatest key that is acknowledged is s1's; 2. s1 is removed at once, so that no position says it
    any more; 3. what s0 has before that comes with it, flagged late: also after a restart.
    """
    world = running(Source(Tx(10), Tx(30), Tx(70)), Source(Tx(60), server=1))
    world.policy("s0", Policy.SKIP)
    world.report(1, low_watermark_us=99)
    batch = world.get()
    assert keys(batch) == [60]
    world.ack(batch.batch_id)
    world.policy("s0", Policy.RESUME)
    world.tell(ev.Asked(world.call(), RemoveShard("s1", True), world.now_us))
    while world.saving:
        world.save()
    world.epoch += 1
    world.restart()
    world.start()
    world.open_all()
    world.report_all()
    world.subscribe()
    assert keys(world.get()) == [60, 60, 70]


def test_the_only_shard_stays():
    world = running(Source(Tx(10)))
    with pytest.raises(UsageError, match="only shard"):
        world.remove("s0", now=True)
    with pytest.raises(UsageError, match="There is no shard s9"):
        world.remove("s9")
    world.add(Source(Tx(5), server=1))
    with pytest.raises(UsageError, match="only shard"):
        # s1 has not told yet where it begins: the cursors would hold nothing.
        world.remove("s0", now=True)


# ---- cursors and settings that do not agree ----------------------------------------------------------------


def restarted(world, *names, sources):
    world.sources = list(sources)
    world.settings = group_settings("shop", names)
    world.epoch += 1
    world.restart()
    world.start()
    for shard in list(world.opening):
        world.open(shard)


def test_a_shard_only_in_the_cursors_stops_the_stream_until_removed():
    world = running(Source(Tx(10)), Source(Tx(20)))
    s0 = world.sources[0]
    restarted(world, "s0", sources=[s0])
    world.request_subscribe()
    world.lease()
    world.save()
    with pytest.raises(ConfigError, match="hold shard s1, which the settings do not have"):
        world.get()
    state = world.group.describe(0)
    assert (state["held_by"], state["held_why"]) == ("s1", "the cursors hold it, the settings do not")
    with pytest.raises(UsageError, match="cannot be drained"):
        world.remove("s1")
    call = world.call()
    world.tell(ev.Asked(call, RemoveShard("s1", True), world.now_us))
    world.save()
    assert world.result(call)["left_at"] == {"c": "bin.000001:4"}
    world.open_all()
    world.report_all()
    assert keys(world.get()) == [10]


def test_it_can_be_put_back_while_the_server_runs():
    world = running(Source(Tx(10)), Source(Tx(20)))
    s0, s1 = world.sources
    restarted(world, "s0", sources=[s0])
    world.add(s1, name="s1")
    world.open_all()
    world.subscribe()
    world.report(0, 1, low_watermark_us=30)
    assert world.get() is None, "it is waited for, as it was before"
    world.report(1)
    batch = world.get()
    assert keys(batch) == [10, 20]
    assert not batch.headers["flags"][1] & Flag.LATE


def test_a_shard_that_left_stays_away_though_the_settings_still_have_it():
    """The server before removed it; this one's instance file is older."""
    world = running(Source(Tx(10)), Source(Tx(20)))
    world.remove("s1", now=True)
    world.save()
    restarted(world, "s0", "s1", sources=[Source(Tx(10)), Source(Tx(20))])
    assert (world.status(1)["role"], world.status(1)["state"]) == ("left", "left")
    assert 1 not in world.opening
    world.subscribe()
    world.report(0)
    assert shards(world.get()) == [0]


def test_one_cursor_that_says_so_is_enough_for_all():
    """The server ended between two writes: who had not written it yet does so now."""
    world = running(Source(Tx(10)), Source(Tx(20)))
    world.subscribe("d")
    world.remove("s1", now=True)
    world.save()
    assert {client: save.cursor.retired for client, save in world.stored.items()} == {"c": ("s1",), "d": ()}
    world.epoch += 1
    world.restart()
    world.start()
    world.open_all()
    world.save()
    assert {client: save.cursor.retired for client, save in world.stored.items()} == {
        "c": ("s1",),
        "d": ("s1",),
    }


def test_a_text_has_removed_shards_only_if_there_are_some():
    assert GroupPosition().to_json() == '{"sequence":0,"shards":{}}'
    left = GroupPosition(retired=("a", "b"))
    assert left.to_json() == '{"retired":["a","b"],"sequence":0,"shards":{}}'
    assert GroupPosition.from_json(left.to_json()) == left


# ---- what is known of the members --------------------------------------------------------------------------


def test_there_is_a_last_index():
    members = Membership(tuple(f"s{index}" for index in range(MEMBERS_MAX - 1)))
    assert members.add("last", None) == MEMBERS_MAX - 1
    with pytest.raises(UsageError, match=f"No more than {MEMBERS_MAX} shards"):
        members.add("more", None)
    assert len(members.shards) == len(members.members) == MEMBERS_MAX


def test_each_shard_that_the_settings_lack_is_let_go_by_its_name():
    members = Membership(("a", "b"))
    start = Source().start
    members.take_roles([GroupPosition(dict.fromkeys("abxyz", start))], ())
    assert members.orphans == ("x", "y", "z")
    assert members.leave("y") is None
    assert members.orphans == ("x", "z")
    assert members.leave("b") == 1
    assert members.retired == ["b", "y"]
    members.take_roles([GroupPosition({"a": start}, 0, ("v", "u", "t", "w"))], ())
    assert members.retired == ["b", "t", "u", "v", "w", "y"]
    with pytest.raises(UsageError) as caught:
        members.index_of("b")
    assert caught.value.hint == "The shards are a."


def test_a_clients_list_of_members_is_ignored():
    """1. nobody joined or left by its word; 2. who left did so in its position too."""
    members = Membership(("a", "b", "c"))
    members.leave("b")
    position = Source().start
    said = GroupPosition({"a": position}, 7, ("b", "c"), joined={"a": position, "b": position})
    assert members.said(said) == GroupPosition({"a": position}, 7, ("b",))


def test_the_join_of_a_removed_shard_is_forgotten():
    """1. It leaves. 2. A cursor of before still says where it joined."""
    members = Membership(("a", "b"))
    position = Source().start
    before = GroupPosition({"a": position, "b": position}, joined={"b": position})
    members.take_roles([before], ())
    assert members.joined == {"b": position}
    members.leave("b")
    assert members.joined == {}
    members.take_roles([before], ())
    assert members.joined == {}
