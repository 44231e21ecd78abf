"""Failover of a source to another server, which has the same transactions in another order."""

import pytest

from simulation.loop import MS, S
from simulation.schedule import Fault, Schedule, commits, happenings
from simulation.world import World

SEEDS = range(1, 11)


def committed(count, gap_s):
    """Return so many transactions of shard 1, and half as many of shard 0."""
    return commits(
        *((0.5 + gap_s * index, 1) for index in range(count)),
        *((0.55 + 2 * gap_s * index, 0) for index in range(count // 2)),
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_clients_at_distant_cursors_lose_nothing_on_a_server_switch(seed):
    """1. `two` lags. 2. Another server takes over. 3. Both continue, each at its GTID set."""
    away = happenings((1.2, Fault.CONSUMER_AWAY, 6), (3.5, Fault.FAILOVER, 0))
    schedule = Schedule(
        consumers=("one", "two"), ring_size=32, commits=committed(20, 0.25), happenings=away, depth=1
    )
    world = World(seed, schedule)
    source = world.sources[1]
    world.loop.run(3_400 * MS)
    one, two = (world.invariants.passed(client_id)[1] for client_id in ("one", "two"))
    assert two < one, "they are apart"
    outcome = world.run()
    assert outcome.violation is None
    assert outcome.counts["failovers"] == 1
    assert source.binlogs[1].order != source.binlogs[0].order, "the replica has an order of its own"
    for client_id in ("one", "two"):
        cursor = world.invariants._of(client_id).cursor.shards["s1"]
        assert cursor.server == source.binlogs[1].uuid
        assert source.reach(cursor).passed == set(range(20)), (
            "all is passed, whichever server committed it first"
        )
        assert all(binlog.uuid in str(cursor.gtid_set) for binlog in source.binlogs)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_server_that_comes_back_is_read_from_what_the_other_one_brought(seed):
    """The new server's files have the old positions too, followed by what the other server has committed."""
    back = happenings((2, Fault.FAILOVER, 0), (3.5, Fault.FAILOVER, 0), (4.2, Fault.KILL_SHARD, 1))
    world = World(seed, Schedule(ring_size=32, commits=committed(20, 0.25), happenings=back))
    outcome = world.run()
    assert outcome.violation is None
    cursor = world.invariants._of("one").cursor.shards["s1"]
    assert outcome.counts["failovers"] == 2
    assert cursor.server == world.sources[1].binlogs[0].uuid
    assert world.missing == 0


def test_a_source_without_gtids_is_not_replaced():
    world = World(
        1, Schedule(gtids=False, commits=committed(4, 0.2), happenings=happenings((1, Fault.FAILOVER, 0)))
    )
    outcome = world.run()
    assert outcome.violation is None
    assert outcome.counts["failovers"] == 0
    assert world.loop.now_us > 1 * S
