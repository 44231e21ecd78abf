"""Hundreds of worlds, each with a schedule of faults: safe during the faults, and live after them.

`make sim SEED=n` prints the story of a seed that fails here.
"""

import pytest
from support.soak import first_quick

from simulation.schedule import FAULTS, Fault, schedule_of
from simulation.world import simulate

#: first seeds, and how many from each
SEEDS = [(1, 10), (11, 90), (101, 100), (201, 100), (301, 100)]


@pytest.mark.parametrize(("first", "seeds"), first_quick(1, SEEDS))
def test_nothing_is_lost_twice_or_out_of_order_and_everything_arrives(first, seeds):
    totals = {}
    for seed in range(first, first + seeds):
        outcome = simulate(seed)
        assert outcome.violation is None, f"make sim SEED={seed}: {outcome.violation}"
        for what, count in outcome.counts.items():
            totals[what] = totals.get(what, 0) + count
    assert totals["elections"] > seeds, "servers followed each other"
    assert totals["again"], "something was delivered again"
    assert totals["acks"] > 10 * seeds


@pytest.mark.parametrize("seed", [1, 5, 11])
def test_a_seed_is_the_same_schedule_every_time_told_or_not(seed):
    untold, told, again = (simulate(seed, telling=telling) for telling in (False, True, True))
    assert told.story
    assert told.story == again.story
    assert (untold.counts, untold.recovery_us) == (told.counts, told.recovery_us)


def test_every_fault_is_among_the_seeds():
    faults = {happening.fault for seed in range(1, 100) for happening in schedule_of(seed).happenings}
    assert faults == set(FAULTS)


@pytest.mark.parametrize(
    "fault",
    [
        Fault.FUTURE_STAMP,
        Fault.UNSUBSCRIBE,
        Fault.PURGE,
        Fault.RANGES,
        Fault.FAILOVER,
        Fault.BAD_EVENT,
    ],
)
def test_a_rare_fault_does_what_it_says(fault):
    outcomes = [simulate(seed, (fault, fault, Fault.KILL_GROUP), telling=True) for seed in range(1, 6)]
    assert any(who == "fault" and str(fault) in what for each in outcomes for _, who, what in each.story)
    assert not any(outcome.violation for outcome in outcomes)
