"""What an operator can say about a shard that holds the group, as numbered stories."""

import pytest
from support.group.builders import Source, Tx, World, batch_idents

from canal_group.merge import events as ev
from canal_group.merge.errors import CorruptEvent, UsageError
from canal_group.merge.order.dead_shard import SILENCE_MAX_US, WAIT, DeadShard
from canal_group.merge.values.commit_time import END_OF_TIME_US
from canal_group.merge.values.header import Flag
from canal_group.merge.values.member import CAUGHT_UP_US, Policy

SECOND = 1_000_000


def keys(batch):
    return batch.headers["key_us"].tolist()


def world_of(*sources, **settings):
    return World.of(*sources, lease_us=10_000 * SECOND, **settings)


def held(world):
    state = world.group.describe(world.now_us)
    return state["held_by"], state["held_since_s"], state["held_why"]


def test_a_skipped_shard_delays_no_client_and_is_late_until_resumed():
    """1. Shard 1 is silent, and the policy is to wait. 2. An operator skips it. 3. It brings old rows: late.
    4. It is resumed, and waited for.
    """
    world = world_of(Source(Tx(10), Tx(50)), Source(Tx(20, (3,)), Tx(60)))
    world.subscribe()
    world.report(0, low_watermark_us=55)
    world.now_us += 7 * SECOND
    assert world.get() is None
    assert held(world) == ("s1", 7.0, "it has reported no newer low watermark")
    told = world.policy("s1", Policy.SKIP)
    assert (told["policy"], told["skipped"], told["policy_since_s"]) == ("skip", True, 0)
    assert keys(world.get()) == [10, 50]
    world.report(1, 1)
    world.tick(100 * SECOND)
    late = world.get()
    assert (keys(late), late.headers["flags"][0] & Flag.LATE) == ([50], Flag.LATE)
    assert world.status(1)["skipped"], "whatever it brings"
    assert (world.status(1)["late"], world.status(1)["late_rows"]) == (1, 3)
    told = world.policy("s1", Policy.RESUME)
    assert (told["policy"], told["skipped"]) == (None, False)
    world.report(0, low_watermark_us=90)
    assert world.get() is None, "it is waited for again"
    world.report(1)
    assert keys(world.get()) == [60]


def test_a_held_shard_is_awaited_despite_the_settings():
    world = world_of(Source(Tx(10)), Source(Tx(20)), dead_shard=DeadShard("skip_after", SECOND))
    world.subscribe()
    world.policy("s1", Policy.HOLD)
    world.now_us += 100 * SECOND
    world.report(0)
    world.tick(1)
    assert world.get() is None
    assert held(world)[2] == "it has reported no newer low watermark, and an operator holds the group for it"
    world.policy("s1", Policy.RESUME)
    world.tick(1)
    assert keys(world.get()) == [10]


def test_holding_a_skipped_shard_waits_for_it_at_once():
    world = world_of(Source(Tx(10), Tx(30)), Source(Tx(20)), dead_shard=DeadShard("skip_after", SECOND))
    world.subscribe()
    world.now_us += 2 * SECOND
    world.report(0, 1)
    world.tick(1)
    assert world.status(1)["skipped"]
    assert not world.policy("s1", Policy.HOLD)["skipped"]
    world.get()
    world.report(0)
    world.tick(100 * SECOND)
    assert world.get() is None


def test_a_policy_outlives_a_rewind_and_a_skipped_shard_is_not_awaited():
    world = world_of(Source(Tx(10)), Source(Tx(20)))
    world.subscribe()
    world.policy("s1", Policy.SKIP)
    world.lose(0)
    world.open(0)
    assert world.group.describe(0)["merging"]
    world.report(0)
    assert keys(world.get()) == [10]
    world.open(1)
    world.report(1)
    world.report(0, 0, low_watermark_us=30)
    assert keys(world.get()) == [20]


def test_skipping_while_the_stream_waits_for_a_shard_to_open_lets_it_begin():
    world = world_of(Source(Tx(10)), Source(Tx(20)))
    world.subscribe()
    world.lose(1)
    world.open(0)
    assert held(world)[::2] == ("s1", "it has not reported its position yet")
    world.policy("s1", Policy.SKIP)
    world.report(0)
    assert keys(world.get()) == [10]


def test_the_last_shard_cannot_be_skipped():
    world = world_of(Source(Tx(10)), Source(Tx(20)))
    world.policy("s0", Policy.SKIP)
    with pytest.raises(UsageError, match="s1 is the last shard"):
        world.policy("s1", Policy.SKIP)
    assert (world.status(1)["policy"], world.status(1)["skipped"]) == (None, False)
    with pytest.raises(UsageError, match="There is no shard s7"):
        world.policy("s7", Policy.HOLD)


def test_a_stopped_shard_says_why_it_holds():
    world = world_of(Source(Tx(10)), Source(Tx(20)))
    world.subscribe()
    world.report(0)
    world.tell(ev.ShardFailed(1, 1, CorruptEvent("bad bytes"), 0))
    assert held(world)[2] == "it stopped: bad bytes"


@pytest.mark.parametrize("how", ["operator", "settings"])
def test_a_shard_that_dies_in_its_transaction_rolls_it_back_and_repeats(how):
    """1. Two of three fragments are out, and acknowledged. 2. The shard dies; it holds the group.
    3. It is skipped: what is out of its transaction is rolled back, and the others go on.
    4. It is back, with the whole transaction, which is late.
    """
    world = world_of(
        Source(Tx(10), Tx(90)),
        Source(Tx(20, (2, 2, 2)), Tx(95)),
        dead_shard=DeadShard("skip_after", SECOND) if how == "settings" else WAIT,
    )
    world.subscribe()
    world.report(0)
    world.report(1, 2)
    first = world.get()
    assert keys(first) == [10, 20, 20]
    cursor = world.ack(first.batch_id)
    assert cursor.shards["s1"].rows_into_transaction == 0
    world.now_us += 2 * SECOND
    world.report(0, 0, low_watermark_us=200)
    assert world.get() is None
    assert held(world) == ("s1", 2.0, "only a part of its transaction has arrived")
    if how == "operator":
        world.policy("s1", Policy.SKIP)
    else:
        world.tick(0)
    assert sorted(world.opening) == [0, 1], "a rewind"
    world.open(0)
    world.report(0, low_watermark_us=200)
    world.tick(0)
    second = world.get()
    assert (keys(second), batch_idents(second)[0][0]) == ([90], 0)
    world.ack(second.batch_id)
    world.open(1)
    world.report(1)
    third = world.get()
    assert keys(third) == [90, 90, 90, 95]
    assert third.headers["rows"].tolist() == [2, 2, 2, 1]


def test_a_skipped_shard_may_be_slow_inside_its_transaction_but_not_silent():
    """It is alive: its fragments come, one by one. Then it dies, and its transaction is taken back."""
    world = world_of(Source(Tx(10), Tx(90)), Source(Tx(20, (1,) * 6)))
    world.subscribe()
    world.policy("s1", Policy.SKIP)
    generation = world.group.generation
    for _ in range(3):
        world.tick(SILENCE_MAX_US)
        world.report(1, 1)
    world.report(0)
    world.tick(SILENCE_MAX_US)
    assert world.group.generation == generation
    world.tick(1)
    assert world.group.generation == generation + 1
    world.open(0)
    world.report(0)
    assert keys(world.get()) == [10, 90]


@pytest.mark.parametrize("skip_after_us", [SECOND, 10 * SILENCE_MAX_US])
def test_an_operators_skip_has_its_own_limit_of_silence(skip_after_us):
    """1. A skipped shard is inside its transaction. 2. It is taken back when the operator's time is over."""
    world = world_of(
        Source(Tx(10), Tx(90)), Source(Tx(20, (1,) * 3)), dead_shard=DeadShard("skip_after", skip_after_us)
    )
    world.subscribe()
    world.policy("s1", Policy.SKIP)
    world.report(1, 1)
    generation = world.group.generation
    world.now_us += SILENCE_MAX_US
    world.report(0)
    world.tick(0)
    assert world.group.generation == generation
    world.tick(1)
    assert world.group.generation == generation + 1


def test_a_shard_silent_at_its_end_is_never_skipped():
    world = world_of(Source(Tx(10)), Source(Tx(20)), dead_shard=DeadShard("skip_after", SECOND))
    world.report(1, low_watermark_us=END_OF_TIME_US)
    world.now_us += 2 * SECOND
    world.report(0, low_watermark_us=30)
    world.tick(0)
    assert not world.status(1)["skipped"]


def test_skipping_again_does_not_take_back_what_a_skipped_shard_sends():
    """A command that is repeated, as by whoever got no answer, would hold it back for ever."""
    world = world_of(Source(Tx(10), Tx(90)), Source(Tx(20, (1,) * 6)))
    world.subscribe()
    world.policy("s1", Policy.SKIP)
    since = world.status(1)["policy_since_s"]
    world.report(1, 1)
    world.report(0)
    generation = world.group.generation
    world.tick(SECOND)
    world.policy("s1", Policy.SKIP)
    assert world.group.generation == generation
    assert world.status(1)["policy_since_s"] == since + 1


def test_a_shard_with_a_full_ring_is_not_silent():
    """1. Two of three fragments are out, and fill the ring. 2. The consumer takes its time: nothing is
    skipped or taken back. 3. It acknowledges; the shard brings nothing though it could: its transaction is
    taken back.
    """
    world = world_of(
        Source(Tx(10), Tx(90)), Source(Tx(20, (2, 2, 2))), dead_shard=DeadShard("skip_after", SECOND)
    )
    world.subscribe()
    generation = world.group.generation
    world.report(0)
    world.report(1, 2)
    slow = world.get()
    for _ in range(5):
        world.full(1)
        world.tick(SECOND)
        world.report(0, 0, low_watermark_us=100 + world.now_us)
    assert (world.group.generation, world.status(1)["skipped"]) == (generation, False)
    world.full(1)
    world.ack(slow.batch_id)
    world.tick(SECOND)
    world.report(0, 0, low_watermark_us=100 + world.now_us)
    assert world.group.generation == generation
    world.tick(1)
    assert world.group.generation == generation + 1


def test_all_but_one_can_be_skipped():
    world = world_of(Source(), Source(), Source())
    world.policy("s0", Policy.SKIP)
    world.policy("s2", Policy.SKIP)
    with pytest.raises(UsageError, match="s1 is the last shard"):
        world.policy("s1", Policy.SKIP)


@pytest.mark.parametrize("how", [Policy.HOLD, Policy.RESUME])
def test_a_resumed_shard_is_awaited_at_once_with_any_lag(how):
    """It is not a newcomer, which has to catch up first."""
    far = 10 * CAUGHT_UP_US
    world = world_of(Source(Tx(far), Tx(far + 1)), Source(Tx(5)))
    world.subscribe()
    world.policy("s1", Policy.SKIP)
    world.report(0, 1)
    assert keys(world.get()) == [far]
    world.policy("s1", how)
    world.report(0)
    assert world.get() is None


def test_with_endless_waiting_no_shard_is_silent():
    world = world_of(Source(Tx(10)), Source(Tx(20)))
    world.policy("s1", Policy.HOLD)
    world.tick(1000 * SECOND)
    assert [world.status(shard)["skipped"] for shard in (0, 1)] == [False, False]
    assert [world.status(shard)["policy_since_s"] for shard in (0, 1)] == [None, 1000.0]


def test_a_new_shard_has_caught_up_within_the_limit():
    far = 10 * CAUGHT_UP_US
    world = world_of(Source(Tx(far)))
    world.subscribe()
    world.report(0)
    assert keys(world.get()) == [far]
    world.add(Source(server=1))
    world.open(1)
    for behind_us, catching_up in ((CAUGHT_UP_US + 1, True), (CAUGHT_UP_US, False)):
        world.report(1, 0, low_watermark_us=far - behind_us)
        assert world.status(1)["catching_up"] is catching_up
