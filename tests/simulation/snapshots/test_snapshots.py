"""Worlds in which clients begin with snapshots: whatever goes wrong, their copies are what the sources have.

`python -m simulation.snapshots --seed N` prints the story of a seed that fails here.
"""

import pytest
from support.soak import first_quick

from simulation.snapshots.mutations import MUTATIONS
from simulation.snapshots.world import simulate

#: first seeds, and how many from each
SEEDS = [(1, 10), (101, 900), (1_001, 1_000), (2_001, 1_000), (41_192, 1), (103_169, 1), (205_371, 1)]
#: the number of seeds within which a mutation must be noticed
SEEDS_MAX = 300
#: seconds that so many may take
LONG = [pytest.mark.soak, pytest.mark.timeout(900)]
#: the mutations that the first few seeds notice; `make soak` runs the others
QUICK = {"what_is_written_is_taken_for_visible", "touched_rows_are_kept"}


def case(mutate):
    name = mutate.__name__
    return pytest.param(mutate, id=name, marks=[] if name in QUICK else LONG)


@pytest.mark.parametrize(("first", "seeds"), first_quick(1, SEEDS))
def test_a_copy_is_what_the_sources_have(first, seeds):
    totals = {}
    for seed in range(first, first + seeds):
        outcome = simulate(seed)
        assert outcome.violation is None, f"python -m simulation.snapshots --seed {seed}: {outcome.violation}"
        for what, count in outcome.counts.items():
            totals[what] = totals.get(what, 0) + count
    assert totals["marks"] >= seeds
    assert totals["reads"] > 5 * seeds
    assert totals["faults"] > seeds
    assert totals["again"] >= seeds // 50


def test_a_seed_is_the_same_schedule_every_time():
    one, other = (simulate(3, telling=True) for _ in range(2))
    assert one.story == other.story
    assert one.counts == other.counts


@pytest.mark.parametrize("mutate", [case(each) for each in MUTATIONS])
def test_a_broken_rule_is_noticed(mutate, monkeypatch):
    mutate(monkeypatch.setattr)
    assert any(simulate(seed, MUTATIONS[mutate]).violation for seed in range(1, SEEDS_MAX + 1))
