"""Which server's commit times count, and how far a shard that is read from a replica may lag."""

from __future__ import annotations

import pytest
from support.group.builders import Source, Tx, World

from canal_group.merge.order.dead_shard import DeadShard
from canal_group.merge.values.commit_time import OF_THE_SERVER_READ, CommitTimes
from canal_group.merge.values.member import CAUGHT_UP_US

SECOND = 1_000_000
LAG_US = 60 * SECOND
ORIGIN = CommitTimes("origin", LAG_US)


@pytest.mark.parametrize(
    ("times", "replicates", "withheld_us"),
    [(CommitTimes("replica", LAG_US), True, 0), (ORIGIN, True, LAG_US), (ORIGIN, False, 0)],
)
def test_only_a_replica_that_is_ordered_by_origins_withholds_something(times, replicates, withheld_us):
    assert times.withheld_us(replicates=replicates) == withheld_us


def test_the_status_shows_the_lag_of_an_idle_replicas_low_watermark():
    for times, said in ((OF_THE_SERVER_READ, ""), (ORIGIN, " (that of an idle replica is 60 s behind)")):
        world = World.of(Source(Tx(10)), Source(), commit_times=times)
        world.report(0)
        status = world.group.describe(0)
        assert (status["held_by"], status["held_why"]) == (
            "s1",
            f"it has reported no newer low watermark{said}",
        )


def far_ahead(**settings):
    """Return a world whose only shard let a key far from the beginning out, and that key."""
    far_us = 10 * LAG_US
    world = World.of(Source(Tx(far_us)), commit_times=ORIGIN, **settings)
    world.subscribe()
    world.report(0)
    assert world.get() is not None
    return world, far_us


def test_a_new_idle_replica_has_caught_up_within_the_allowed_lag():
    world, far_us = far_ahead()
    world.add(Source(server=1))
    world.open(1)
    allowed_us = CAUGHT_UP_US + LAG_US
    for lag_us, catching_up in ((allowed_us + 1, True), (allowed_us, False)):
        world.report(1, 0, low_watermark_us=far_us - lag_us)
        assert world.status(1)["catching_up"] is catching_up


def test_a_silent_replica_is_awaited_again_within_the_allowed_lag():
    far_us = 10 * LAG_US
    world = World.of(
        Source(Tx(far_us)), Source(), commit_times=ORIGIN, dead_shard=DeadShard("skip_after", SECOND)
    )
    world.subscribe()
    world.tick(SECOND)
    world.report(0)
    world.tick(1)
    assert world.status(1)["skipped"]
    assert world.get() is not None
    for lag_us, skipped in ((SECOND + LAG_US + 1, True), (SECOND + LAG_US, False)):
        world.report(1, 0, low_watermark_us=far_us - lag_us)
        assert world.status(1)["skipped"] is skipped
