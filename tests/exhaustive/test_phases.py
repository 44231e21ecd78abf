"""Every pair in the tables of phases happens, and a pair that is missing in them does not.

A pair that nothing here brings about is not in its table.
"""

import pytest
from simulation.walk import walk
from support.group.builders import Source, Tx, World
from support.soak import first_quick

from canal_group.merge import events as ev
from canal_group.merge.calls.consumers import Unsubscribe
from canal_group.merge.delivery import phase, write_phase
from canal_group.merge.delivery.write_phase import WritePhase, WriteStep
from canal_group.merge.errors import CoordinatorUnavailable, PositionPurged, UsageError
from canal_group.merge.group import PURGED_WAIT_US
from canal_group.merge.values.offset_range import OffsetRange

#: walks that bring about everything but `RARE`, and how many `make test` takes
WALKS, QUICK = 1_500, 100
#: what the tests below bring about: for this a subscription must fail just after its consumer went back, or
#: a second write of an acknowledgement follows one whose outcome is unknown; who was purged leaves rarely
RARE = {
    (phase.Phase.SEEKING, phase.Step.PLACE),
    (phase.Phase.SEEKING, phase.Step.SEEK),
    (phase.Phase.SEEKING, phase.Step.DROP),
    (phase.Phase.SEEKING, phase.Step.PURGE),
    (phase.Phase.PURGED, phase.Step.LEAVE),
    (WritePhase.UNSURE, WriteStep.ACK),
    (WritePhase.REPEATING, WriteStep.LOST),
    (WritePhase.REPEATING, WriteStep.REFUSED),
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


def watched(monkeypatch, module):
    seen = Seen(module._NEXT)
    monkeypatch.setattr(module, "_NEXT", seen)
    return seen


@pytest.fixture
def table(monkeypatch):
    return watched(monkeypatch, phase)


@pytest.fixture
def writes(monkeypatch):
    return watched(monkeypatch, write_phase)


@pytest.mark.parametrize("walks", first_quick(1, [QUICK, WALKS]))
def test_each_pair_in_the_tables_happens_and_no_other(walks, table, writes):
    for seed in range(walks):
        walk(seed)
    never = sorted(map(str, (table.keys() | writes.keys()) - table.pairs - writes.pairs - RARE))
    assert walks < WALKS or not never
    assert len(table.pairs) > len(table) / 2
    assert len(writes.pairs) > len(writes) / 2


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
    seeking.tell(ev.Asked(seeking.call(), Unsubscribe("one", seeking.epochs["one"]), seeking.now_us))
    assert (phase.Phase.PURGED, phase.Step.LEAVE) in table.pairs


@pytest.fixture
def unsure():
    """It is unknown whether the store has the acknowledgement of the first of two transactions."""
    world = World.of(Source(Tx(10), Tx(20)))
    world.subscribe()
    world.report_all()
    batch = world.get(rows_max=1)
    lost = world.request_ack(batch.batch_id)
    world.save(CoordinatorUnavailable("away"))
    with pytest.raises(CoordinatorUnavailable):
        world.result(lost)
    return world, batch


def test_an_acknowledgement_of_unknown_outcome_may_be_asked_for_again(unsure, writes):
    world, batch = unsure
    cursor = world.ack(batch.batch_id)
    assert (WritePhase.UNSURE, WriteStep.ACK) in writes.pairs
    assert cursor == world.stored["c"].cursor == batch.ack


def test_a_repeated_acknowledgement_may_be_lost_and_is_repeated_once_more(unsure, writes):
    world, batch = unsure
    world.tick(1)
    world.save(CoordinatorUnavailable("away"))
    assert (WritePhase.REPEATING, WriteStep.LOST) in writes.pairs
    world.tick(1)
    world.save()
    assert world.stored["c"].cursor == batch.ack


def test_a_repeated_acknowledgement_may_be_refused_and_its_batch_stays(unsure, writes):
    world, batch = unsure
    world.tick(1)
    world.save(UsageError("too large"))
    assert (WritePhase.REPEATING, WriteStep.REFUSED) in writes.pairs
    world.tick(1)
    assert world.saving == []
    assert world.ack(batch.batch_id) == batch.ack
