"""Whose position it is that a source has purged, and where a shard begins that nobody needs from there."""

import pytest
from support.group.builders import Source, Tx, World
from support.group.purges import (
    OLDEST,
    TRANSACTIONS,
    committing,
    let_time_pass,
    open_what_is_left,
    phase,
    restarted,
    subscribe,
)

from canal_group.merge import events as ev
from canal_group.merge.calls.consumers import Unsubscribe
from canal_group.merge.errors import CorruptEvent, PositionPurged
from canal_group.merge.group import PURGED_WAIT_US
from canal_group.merge.values.gtids.gtid import parse_gtid_set
from canal_group.merge.values.position import GroupPosition, Position

pytestmark = pytest.mark.usefixtures("opened_first")


def test_a_position_only_gtids_can_find_is_the_oldest_clients():
    """1. Two servers committed in other orders: the shard is opened after what both clients have.
    2. That is purged. The one with the smaller key is set aside.
    """
    source = Source(Tx(10), Tx(20), Tx(30))
    uuid = source.names[-1]
    world = World.of(source, start=False)
    one = Position("bin.000001", 500, parse_gtid_set(f"{uuid}:1-2"), key_us=20, server="a")
    two = Position("bin.000002", 600, parse_gtid_set(f"{uuid}:1:3"), key_us=30, server="b")
    world.start(
        ev.ConsumerState("one", "", GroupPosition({"s0": one}, 2), "h", 1),
        ev.ConsumerState("two", "", GroupPosition({"s0": two}, 2), "h", 1),
    )
    asked = world.opening[0]
    assert (str(asked.position.gtid_set), asked.position.server) == (f"{uuid}:1", "*")
    gone = PositionPurged("It is gone.")
    world.tell(ev.ShardFailed(0, asked.generation, gone, world.now_us))
    world.tick(PURGED_WAIT_US)
    assert [phase(world, client) for client in ("one", "two")] == ["purged", "waiting"]
    assert world.opening[0].position == two


def test_a_purged_start_without_cursors_is_chosen_by_the_settings():
    """An operator adds a shard at a position that its source does not have any more."""
    world = World.of(Source(Tx(10)))
    world.subscribe("app")
    source = Source(*[Tx(10 * n) for n in range(1, TRANSACTIONS + 1)], server=1)
    world.add(source, source.ends[0])
    asked = world.opening.pop(1)
    assert asked.position == source.ends[0]
    world.tell(ev.ShardOpened(1, 1, asked.position, world.now_us))
    world.tell(ev.ShardFailed(1, 1, PositionPurged("It is gone."), world.now_us))
    world.tick(PURGED_WAIT_US)
    assert world.opening[1].position is None


def test_a_new_client_is_told_what_was_purged_since():
    """It goes on where the next log starts, and has a loss: its consumer was told an earlier position."""
    world = World.of(Source(*[Tx(10 * n) for n in range(1, TRANSACTIONS + 1)]))
    source, start = world.sources[0], world.sources[0].start
    world.lose(0)
    asked = world.opening.pop(0)
    assert asked.position == start
    world.tell(ev.ShardOpened(0, asked.generation, start, world.now_us))
    subscribe(world, "new")
    error = PositionPurged("It is gone.", found_us=7)
    world.tell(ev.ShardFailed(0, asked.generation, error, world.now_us))
    world.tick(PURGED_WAIT_US)
    anew = world.opening.pop(0)
    assert anew.position is None
    world.tell(ev.ShardOpened(0, anew.generation, source.ends[OLDEST - 1], world.now_us))
    world.save()
    (loss,) = world.stored["new"].losses
    assert (loss.shard, loss.after, loss.until, loss.found_us) == ("s0", start, source.ends[OLDEST - 1], 7)
    assert world.stored["new"].cursor.shards["s0"] == loss.until


@pytest.mark.parametrize("first", [0, 10])
def test_what_was_brought_once_was_not_purged(first):
    """A shard that stops later, with whatever error, has begun where it was asked to."""
    world = committing()
    world.epoch += 1
    world.restart()
    world.start()
    world.open(0)
    world.subscribe("app")
    run = world.sources[0].run(0, 1, first)
    world.tell(ev.ShardReported(0, 1, run, None, world.now_us))
    world.tell(ev.ShardFailed(0, 1, PositionPurged("It is gone."), world.now_us))
    world.tick(2 * PURGED_WAIT_US)
    assert (world.group.generation, world.opening) == (1, {})


def test_a_client_without_a_cursor_needs_no_position_of_others():
    source = Source(Tx(10), Tx(20), Tx(30))
    uuid = source.names[-1]
    world = World.of(source, start=False)
    world.start(
        ev.ConsumerState("new", "", None, "h", 1),
        *(
            ev.ConsumerState(
                name,
                "",
                GroupPosition({"s0": Position("bin.000009", 500, gtids, key_us=key, server=name)}),
                "h",
                1,
            )
            for name, gtids, key in (
                ("one", parse_gtid_set(f"{uuid}:1-2"), 20),
                ("two", parse_gtid_set(f"{uuid}:1:3"), 30),
            )
        ),
    )
    world.tell(ev.ShardFailed(0, 1, PositionPurged("It is gone."), world.now_us))
    world.tick(PURGED_WAIT_US)
    assert [phase(world, client) for client in ("new", "one", "two")] == ["waiting", "purged", "waiting"]


def test_a_shard_that_cannot_join_at_its_start_rolls_no_client_back():
    world = World.of(Source(Tx(10)))
    world.subscribe("app")
    source = Source(Tx(10), Tx(20), server=1)
    world.add(source, source.ends[0])
    world.tell(ev.ShardFailed(1, 1, PositionPurged("It is gone."), world.now_us))
    world.tick(2 * PURGED_WAIT_US)
    assert (world.group.generation, world.status(1)["error"]) == (1, "It is gone.")


def test_a_shard_known_only_to_a_purged_client_uses_the_settings():
    world = World.of(Source(Tx(10)), Source(Tx(10), server=1), start=False)
    first, purged = world.sources[0].start, Position("bin.000001", 104, server="x")
    world.start(
        ev.ConsumerState("one", "", GroupPosition({"s0": first, "s1": purged}, 1), "h", 1),
        ev.ConsumerState("two", "", GroupPosition({"s0": first}, 1), "h", 1),
    )
    assert world.opening[1].position == purged
    world.tell(ev.ShardFailed(1, 1, PositionPurged("It is gone."), world.now_us))
    world.tick(PURGED_WAIT_US)
    assert [phase(world, client) for client in ("one", "two")] == ["purged", "waiting"]
    assert (world.opening[0].position, world.opening[1].position) == (first, None)


def test_a_purged_position_is_reported_only_to_its_clients():
    world = restarted()
    for client in ("app", "other"):
        subscribe(world, client)
    assert world.get("app") is None
    with pytest.raises(PositionPurged):
        world.get("other")


def test_a_position_refused_for_another_reason_is_not_purged():
    world = restarted()
    subscribe(world, "app")
    error = CorruptEvent("bad")
    world.tell(ev.ShardFailed(0, world.group.generation, error, world.now_us))
    world.tick(2 * PURGED_WAIT_US)
    assert "purged" not in {phase(world, client) for client in ("app", "other")}
    assert world.status(0)["error"] == "bad"


def test_how_long_a_position_is_purged_counts_from_when_that_was_heard():
    world = committing()
    world.now_us = 100 * PURGED_WAIT_US
    world.epoch += 1
    world.restart()
    world.start()
    open_what_is_left(world)
    world.tick(PURGED_WAIT_US - 1)
    assert phase(world, "other") != "purged"
    world.tick(1)
    assert phase(world, "other") == "purged"


def test_a_client_with_an_ack_is_never_started_elsewhere():
    """It would miss what lies between, and nobody would hear of it."""
    world = committing()
    world.ack(world.get("other", 1).batch_id, "other")
    world.lose(0)
    open_what_is_left(world)
    world.tick(PURGED_WAIT_US)
    assert (phase(world, "other"), phase(world, "app")) == ("purged", "waiting")


def test_a_position_that_all_need_hides_none_that_only_one_needs():
    sources = [Source(*[Tx(10 * n) for n in range(1, 4)], server=server) for server in range(2)]
    world = World.of(*sources, start=False)
    shared, old, new = sources[0].ends[0], sources[1].ends[0], sources[1].ends[1]
    world.start(
        ev.ConsumerState("app", "", GroupPosition({"s0": shared, "s1": new}, 3), "h", 1),
        ev.ConsumerState("other", "", GroupPosition({"s0": shared, "s1": old}, 2), "h", 1),
    )
    for shard in (0, 1):
        world.tell(ev.ShardFailed(shard, 1, PositionPurged("It is gone."), world.now_us))
    world.tick(PURGED_WAIT_US)
    assert [phase(world, client) for client in ("app", "other")] == ["waiting", "purged"]
    assert [world.opening[shard].position for shard in (0, 1)] == [shared, new]


def test_an_old_client_without_acks_is_told_what_it_misses():
    """1. A client reads a batch and acknowledges nothing. 2. The ring is lost, and what it is owed is purged.
    3. It does not go on after that in silence.
    """
    world = committing()
    assert world.get("other") is not None
    world.lose(0)
    open_what_is_left(world)
    let_time_pass(world, "app", "other")
    assert (phase(world, "other"), phase(world, "app")) == ("purged", "reading")
    with pytest.raises(PositionPurged):
        world.get("other")


def test_an_unneeded_position_only_gtids_can_find_is_given_up():
    """1. The shard is opened after what two clients have that read from two servers; both unsubscribe.
    2. It is purged there: whoever comes begins where the settings say.
    """
    source = Source(Tx(10), Tx(20), Tx(30))
    uuid = source.names[-1]
    world = World.of(source, start=False)
    world.start(
        *(
            ev.ConsumerState(client, "", GroupPosition({"s0": Position(*position, server=client)}, 2), "h", 1)
            for client, position in (
                ("a", ("bin.000001", 500, parse_gtid_set(f"{uuid}:1-2"))),
                ("b", ("bin.000002", 600, parse_gtid_set(f"{uuid}:1:3"))),
            )
        )
    )
    for client in ("a", "b"):
        world.tell(ev.Asked(world.call(), Unsubscribe(client, 1), world.now_us))
    world.request_subscribe("new")
    world.lease()
    asked = world.opening[0]
    assert asked.position.server == "*"
    world.tell(ev.ShardFailed(0, asked.generation, PositionPurged("It is gone."), world.now_us))
    world.tick(PURGED_WAIT_US)
    assert world.opening[0].position is None
