"""Every pair in the table of phases happens, and a pair that is missing in it does not.

A pair that nothing here brings about has no place in the table.
"""

import pytest
from simulation.walk import walk
from support.group.builders import Source, Tx, World
from support.soak import first_quick

from merge import events as ev
from merge.delivery import phase
from merge.errors import PositionPurged, UsageError
from merge.group import PURGED_WAIT_US
from merge.values.offset_range import OffsetRange

#: walks that bring about everything but `RARE`, and how many `make test` takes
WALKS, QUICK = 1_500, 100
#: what the tests below bring about: for this a subscription must fail just after its consumer went back
RARE = {
    (phase.Phase.SEEKING, phase.Step.PLACE),
    (phase.Phase.SEEKING, phase.Step.SEEK),
    (phase.Phase.SEEKING, phase.Step.DROP),
    (phase.Phase.SEEKING, phase.Step.PURGE),
}
DROP_US = 600_000


class Seen(dict):
    """A table that knows what was looked up."""

    def __init__(self, table):
        super().__init__(table)
        self.pairs = set()

    def __getitem__(self, pair):
        self.pairs.add(pair)
        return super().__getitem__(pair)


@pytest.fixture
def table(monkeypatch):
    seen = Seen(phase._NEXT)
    monkeypatch.setattr(phase, "_NEXT", seen)
    return seen


@pytest.mark.parametrize("walks", first_quick(1, [QUICK, WALKS]))
def test_each_pair_in_the_table_happens_and_no_other(walks, table):
    for seed in range(walks):
        walk(seed)
    never = sorted(map(str, table.keys() - table.pairs - RARE))
    assert walks < WALKS or not never
    assert len(table.pairs) > len(table) / 2


@pytest.fixture
def seeking():
    """`one` was at its third transaction of each shard and went back in the second shard, when the cursor
    store refused the subscription that it repeated. Now it is to go on where it was; no shard is open.
    """
    shards = [Source(*[Tx(10 * n + shard) for n in range(1, 9)], server=shard) for shard in range(2)]
    world = World.of(*shards, lease_us=100 * DROP_US, drop_after_us=DROP_US)
    for client in ("one", "two"):
        world.subscribe(client)
    for _ in range(2):
        world.report(0, 3, 35)
        world.report(1, 3, 35)
        world.ack(world.get("two").batch_id, "two")
    world.ack(world.get("one", 6).batch_id, "one")
    at = world.stored["one"].cursor
    world.request_range(OffsetRange(at.with_shard("s1", shards[1].start)), "one")
    world.request_subscribe("one")
    world.lease()
    world.save(UsageError("no"))
    assert phase_of(world, "one") == "seeking"
    return world


def phase_of(world, client):
    return next(each["phase"] for each in world.group.describe(0)["clients"] if each["client_id"] == client)


def test_merging_may_begin_before_it_is_opened_where_it_was(seeking, table):
    seeking.open_all()
    assert (phase.Phase.SEEKING, phase.Step.PLACE) in table.pairs
    assert phase_of(seeking, "one") == "reading"


def test_it_may_go_back_once_more(seeking, table):
    seeking.request_subscribe("one")
    seeking.lease()
    seeking.save()
    start = {f"s{shard}": source.start for shard, source in enumerate(seeking.sources)}
    seeking.request_range(OffsetRange(type(seeking.stored["one"].cursor)(start)), "one")
    assert (phase.Phase.SEEKING, phase.Step.SEEK) in table.pairs
    seeking.open_all()
    assert phase_of(seeking, "one") == "reading"


def test_it_may_be_away_for_too_long(seeking, table):
    seeking.tick(DROP_US + 1)
    assert (phase.Phase.SEEKING, phase.Step.DROP) in table.pairs
    assert (phase_of(seeking, "one"), phase_of(seeking, "two")) == ("dropped", "waiting")


def test_what_follows_its_cursor_may_be_purged(seeking, table):
    error = PositionPurged("It is gone.")
    asked = seeking.opening[0]
    seeking.now_us += 1
    seeking.tell(ev.ShardFailed(0, asked.generation, error, seeking.now_us))
    seeking.now_us += PURGED_WAIT_US
    seeking.tell(ev.ShardFailed(0, asked.generation, error, seeking.now_us))
    assert (phase.Phase.SEEKING, phase.Step.PURGE) in table.pairs
    assert (phase_of(seeking, "one"), phase_of(seeking, "two")) == ("purged", "waiting")
