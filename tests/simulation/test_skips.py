"""An event that cannot be read stops its shard until an operator leaves it out, whatever fails meanwhile."""

import pytest
from support.soak import first_quick

from canal_group.actors.group.stored.skips import StoredSkips
from canal_group.merge.event_skips import EventSkips
from simulation.loop import MS, S
from simulation.schedule import FAULTS, Fault, Schedule, commits, happenings
from simulation.world import World, simulate

COMMITS = commits(*((0.5 + 0.2 * index, index % 2) for index in range(16)))


def stored(world):
    """Return the stored skipped events."""
    medium, zookeeper = world.servers[0].around.medium, world.zookeeper
    text = medium._values.get(StoredSkips.KEY) if medium else zookeeper.store.get(StoredSkips.KEY, 0)
    return EventSkips.from_json(text).events


def bad_world(seed, *others, servers=2, **more):
    """Return a world in which a transaction of shard 1, committed after a second, cannot be read."""
    bad = happenings((1.05, Fault.BAD_EVENT, 0), *others)
    return World(seed, Schedule(servers=servers, commits=COMMITS, happenings=bad, **more), telling=True)


@pytest.mark.parametrize("seed", range(1, 4))
def test_it_is_delivered_as_a_mark_before_all_that_follows(seed):
    world = bad_world(seed)
    outcome = world.run()
    assert outcome.violation is None
    assert world.missing == 0
    source = world.sources[1]
    (event,) = stored(world)
    assert (event.shard, event.server) == ("s1", source.active.uuid)
    assert {index for _, index in source.left_out} == source.bad, "and nothing else is"


def test_nothing_after_it_is_delivered_before_the_skip():
    world = bad_world(1)
    world.watched.add(1)
    world.loop.run(20 * S)
    source = world.sources[1]
    assert stored(world) == ()
    assert source.left_out == set()
    assert max(world.invariants.passed("one")[1], default=0) < min(source.bad)


@pytest.mark.parametrize("kill", [Fault.KILL_GROUP, Fault.KILL_SERVER, Fault.HAND_OVER])
@pytest.mark.parametrize("seed", range(1, 4))
def test_a_command_survives_the_server_that_took_it(seed, kill):
    """1. The command is stored. 2. Before the shard is told, its server ends, and the shard's process too.
    3. The next one, which no operator asks, leaves the event out, once.
    """
    world = bad_world(seed)
    while not stored(world):
        world.loop.run(world.loop.now_us + 5 * MS)
        assert world.loop.now_us < 9 * S, "it is never stored"
    assert not world.sources[1].left_out
    world.operator.kill()
    for happening in happenings((0, kill, 0), (0, Fault.KILL_SHARD, 1)):
        world._happen(happening)
    for shard in world.shards:
        shard.restart(500 * MS)
    outcome = world.run()
    assert outcome.violation is None
    assert world.missing == 0
    assert len(stored(world)) == 1
    assert {index for _, index in world.sources[1].left_out} == world.sources[1].bad


@pytest.mark.parametrize("seed", range(1, 4))
def test_the_same_offset_on_another_server_is_another_event(seed):
    """Shard 0's servers have files of one name. What the replica has at the offset that is skipped is another
    transaction, or the same one: it stops the shard once more unless the cursors are past it.
    """
    world = bad_world(seed, (4.0, Fault.FAILOVER, 0), consumers=("one", "two"))
    outcome = world.run()
    assert outcome.violation is None
    source = world.sources[1]
    assert {index for _, index in source.left_out} == source.bad
    positions = {(event.server, event.file, event.offset) for event in stored(world)}
    assert len(positions) == len(stored(world))
    for server, index in source.left_out:
        binlog = source.binlog_of(server)
        assert (server, *binlog.position(binlog.at[index])) in positions


@pytest.mark.parametrize(("first", "seeds"), first_quick(1, [(1, 5), (6, 200)]))
def test_among_all_faults(first, seeds):
    faults = (*FAULTS, *[Fault.BAD_EVENT] * len(FAULTS))
    for seed in range(first, first + seeds):
        outcome = simulate(seed, faults)
        assert outcome.violation is None, f"seed {seed}: {outcome.violation}"
