"""The faults of canal's group instance: the same schedules, with our result.

`tests/unit/merge/test_group.py` has smaller tests for some of them.
"""

import pytest
from support.soak import first_quick

from canal_group.merge.order.dead_shard import DeadShard
from simulation.loop import MS, S
from simulation.schedule import Fault, Schedule, commits, happenings
from simulation.world import World

SEEDS = first_quick(2, range(1, 11))


@pytest.mark.parametrize("seed", SEEDS)
def test_shards_are_merged_by_commit_time_and_not_in_order_of_arrival(seed):
    """canal: two parsers race into one ring. Here a slow shard's older transactions come out first."""
    written = commits(*((0.5 + index / 10, index % 2) for index in range(20)))
    slow = happenings((0.1, Fault.SHARD_SLOW, 5))
    world = World(seed, Schedule(commits=written, happenings=slow))
    outcome = world.run()
    assert outcome.violation is None
    assert outcome.counts["late"] == 0
    given = [
        index for delivery in world.invariants._of("one").delivered.values() for index in delivery.positions
    ]
    assert given == [(index % 2, index // 2) for index in range(20)]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_cursor_has_a_position_for_each_shard(seed):
    """canal: one position for n shards, so that parsers overwrite each other and a restart loses it all."""
    written = commits(*((0.5 + index / 4, index % 3) for index in range(20)))
    restarts = happenings((2, Fault.KILL_SERVER, 1), (7.5, Fault.KILL_SERVER, 1))
    world = World(
        seed,
        Schedule(
            shards=3, skews_us=(0,) * 3, coarse=(False,) * 3, commits=written, happenings=restarts, servers=1
        ),
    )
    outcome = world.run()
    assert outcome.violation is None
    assert outcome.counts["elections"] == 3
    cursor = world.invariants._of("one").cursor
    assert sorted(cursor.shards) == ["s0", "s1", "s2"]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_long_transactions_late_end_loses_nothing_of_the_others(seed):
    """canal (1479): resumes every shard by the time of the last END, 60 s back, and the others lose data."""
    written = commits((1, 0, (2,) * 20), (1.1, 1), (1.2, 1), (1.3, 0), (2, 1), (2.5, 0))
    restart = happenings((1.6, Fault.KILL_SERVER, 1))
    outcome = World(seed, Schedule(commits=written, happenings=restart)).run()
    assert outcome.violation is None


@pytest.mark.parametrize("seed", SEEDS)
def test_a_dead_shard_stops_the_stream_despite_others_low_watermarks(seed):
    """canal: counts the entries in its queue, so one shard's entries count for two, and for a lagging one."""
    written = commits((1, 0), (1.5, 0), (2, 1), (2.5, 1), (3, 1))
    world = World(seed, Schedule(commits=written))
    world.loop.run(500 * MS)
    world.sources[0].away_until_us = 100 * S
    world.loop.run(8 * S)
    assert world.invariants.consumed("one") == [0, 0]
    assert world.run().violation is None


@pytest.mark.parametrize("seed", SEEDS)
def test_without_one_shard_the_group_goes_on_if_it_may(seed):
    """canal: a failed shard holds the group up for ever. Here the policy bounds the time."""
    written = commits((1, 0), (2, 0), (3, 0), (4, 0), (6.5, 1))
    world = World(seed, Schedule(commits=written, dead_shard=DeadShard("skip_after", 2 * S)))
    world.loop.run(1 * S)
    world.sources[1].away_until_us = 100 * S
    world.loop.run(8 * S)
    assert world.invariants.consumed("one")[0] == 4, "the others were delivered"
    assert world.invariants.consumed("one")[1] == 0
    outcome = world.run()
    assert outcome.violation is None


@pytest.mark.parametrize("seed", SEEDS)
def test_equal_times_do_not_wait_for_another_report(seed):
    """canal: a waiter that may pass sleeps until another parser submits an entry."""
    written = commits((1.0, 0), (1.0, 1), (1.0, 2))
    world = World(
        seed, Schedule(shards=3, skews_us=(0,) * 3, coarse=(True,) * 3, gtids=False, commits=written)
    )
    world.loop.run(4 * S)
    assert world.missing == 0


@pytest.mark.parametrize("fault", [Fault.PAUSE_SERVER, Fault.CUT_COORDINATOR])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_server_without_a_session_serves_no_client(seed, fault):
    """canal (464, 2859): the instance of a lost session keeps running, and two servers are active."""
    written = commits(*((0.5 + index / 4, index % 2) for index in range(24)))
    outcome = World(seed, Schedule(commits=written, happenings=happenings((2, fault, 5.9)))).run()
    assert outcome.violation is None
    assert outcome.counts["elections"] == 2, "another server took over"
