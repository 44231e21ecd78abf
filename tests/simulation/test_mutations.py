"""Each rule, broken: the simulation has to notice."""

import pytest

from simulation.mutations import MUTATIONS
from simulation.world import simulate

#: so many seeds may pass before one notices
SEEDS_MAX = 200
#: those that the first few seeds notice; the others are `make soak`'s
QUICK = {
    "a_tenure_never_runs_out",
    "any_batch_can_be_acknowledged",
    "acked_before_written",
    "everything_goes_out_at_once",
    "what_is_behind_the_cursor_is_delivered",
    "rings_are_freed_when_a_batch_is_delivered",
    "rings_are_never_freed",
    "outstanding_batches_have_no_bound",
}


def case(mutate, faults):
    name = mutate.__name__
    return pytest.param(mutate, faults, id=name, marks=[] if name in QUICK else [pytest.mark.soak])


@pytest.mark.parametrize(("mutate", "faults"), [case(*mutation) for mutation in MUTATIONS])
def test_a_broken_rule_is_noticed(mutate, faults, monkeypatch):
    mutate(monkeypatch.setattr)
    assert any(simulate(seed, faults).violation for seed in range(1, SEEDS_MAX + 1))
