"""Each failure and its required outcome, at several moments of a batch's life."""

import pytest
from support.soak import first_quick

from simulation.loop import MS, S
from simulation.schedule import Fault, Schedule, commits, happenings
from simulation.world import LEASE_US, OUTSTANDING_MAX, World

WRITTEN = commits(*((0.5 + index / 5, index % 2) for index in range(30)))
#: seeds; each puts the fault at another moment
MOMENTS = [(seed, 1.5 + seed * 0.037) for seed in range(1, 13)]
at_any_moment = pytest.mark.parametrize(("seed", "at_s"), first_quick(3, MOMENTS))


def played(seed, fault, at_s, lasting_s=1.0, **world):
    """Return the outcome of a world with one fault, and the world; nothing was violated."""
    made = World(seed, Schedule(commits=WRITTEN, happenings=happenings((at_s, fault, lasting_s)), **world))
    outcome = made.run()
    assert outcome.violation is None
    return outcome, made


@at_any_moment
def test_a_dead_shard_actor_is_reopened_and_outstanding_rows_rolled_back(seed, at_s):
    outcome, world = played(seed, Fault.KILL_SHARD, at_s)
    assert outcome.counts["elections"] == 1
    assert max(shard.incarnation for shard in world.shards) == 2


@at_any_moment
def test_a_dead_group_actor_takes_over_without_waiting_for_its_session(seed, at_s):
    outcome, world = played(seed, Fault.KILL_GROUP, at_s, lasting_s=0.0, servers=1)
    assert outcome.counts["elections"] == 2
    assert world.zookeeper.epoch == 2


@at_any_moment
@pytest.mark.parametrize("fault", [Fault.KILL_SERVER, Fault.HAND_OVER, Fault.PAUSE_SERVER])
def test_a_standby_takes_over_and_the_old_servers_writes_are_refused(seed, at_s, fault):
    outcome, _ = played(seed, fault, at_s, lasting_s=7.0)
    assert outcome.counts["elections"] == 2


@pytest.mark.parametrize("seed", range(1, 7))
@pytest.mark.parametrize("fault", [Fault.KILL_SERVER, Fault.HAND_OVER])
def test_a_successor_waits_for_a_shard_that_has_joined(seed, fault):
    outcome, _ = played(seed, fault, 3.0, lasting_s=20.0, joins_at_us=1 * S, ring_size=32)
    assert outcome.counts["elections"] == 2


@at_any_moment
def test_while_the_coordinator_is_away_serving_stops_and_then_goes_on(seed, at_s):
    world = World(
        seed,
        Schedule(commits=WRITTEN, happenings=happenings((at_s, Fault.COORDINATOR_AWAY, 6.5))),
    )
    world.loop.run(round((at_s + 5) * S))
    assert all(server.machine is None for server in world.servers), "longer than any session"
    assert world.run().violation is None


@at_any_moment
def test_a_dead_consumers_batches_are_the_next_ones(seed, at_s):
    outcome, _ = played(seed, Fault.KILL_CONSUMER, at_s, lasting_s=40.0, consumers=("one", "one"))
    assert outcome.recovery_us < 2 * LEASE_US


@at_any_moment
def test_a_second_consumer_waits_and_breaks_nothing(seed, at_s):
    _, world = played(seed, Fault.SHARD_SLOW, at_s, consumers=("one", "one"))
    holders = [lease.epoch for lease in world.zookeeper.leases()]
    assert holders == [1], "nobody took over"


@at_any_moment
def test_an_unreachable_source_stops_the_group_without_loss(seed, at_s):
    played(seed, Fault.SOURCE_AWAY, at_s, lasting_s=3.0)


@at_any_moment
def test_a_huge_transaction_passes_a_small_ring_and_is_repeated_whole(seed, at_s):
    huge = commits((1, 0), (1.4, 0, (1,) * 40), (1.5, 1), (1.6, 0), (1.7, 1))
    world = World(
        seed,
        Schedule(commits=huge, ring_size=4, happenings=happenings((at_s, Fault.KILL_GROUP, 0.0))),
    )
    outcome = world.run()
    assert outcome.violation is None
    assert outcome.counts["elections"] == 2


@at_any_moment
def test_a_slow_consumer_fills_the_rings_and_nothing_more(seed, at_s):
    world = World(seed, Schedule(commits=WRITTEN, ring_size=4))
    world.loop.run(round(at_s * S))
    for consumer in world.consumers:
        consumer.pause()
    world.loop.run(round(at_s * S) + LEASE_US - 500 * MS)
    for shard in world.shards:
        assert shard.held <= 4
    machine = next(server.machine for server in world.servers if server.machine is not None)
    (client,) = machine.describe(0)["clients"]
    assert len(client["outstanding"]) <= OUTSTANDING_MAX
    assert world.run().violation is None
