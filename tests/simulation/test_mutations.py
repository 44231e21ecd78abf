"""Break each rule: the simulation must detect it."""

import pytest

from simulation.mutations import MUTATIONS
from simulation.world import simulate

#: the number of seeds within which one must detect it; most need less than ten
SEEDS_MAX = 1_000
#: seconds that so many may take
LONG = [pytest.mark.soak, pytest.mark.timeout(900)]
#: the mutations that the first few seeds detect; `make soak` runs the others
QUICK = {
    "any_batch_can_be_acknowledged",
    "acked_before_written",
    "everything_goes_out_at_once",
    "what_is_consumed_is_delivered",
    "rings_are_freed_when_a_batch_is_delivered",
    "rings_are_never_freed",
    "positions_move_with_rows_only",
    "the_key_of_a_position_is_believed",
    "outstanding_batches_have_no_bound",
}


def case(mutate, faults):
    name = mutate.__name__
    return pytest.param(mutate, faults, id=name, marks=[] if name in QUICK else LONG)


@pytest.mark.parametrize(("mutate", "faults"), [case(*mutation) for mutation in MUTATIONS])
def test_a_broken_rule_is_noticed(mutate, faults, monkeypatch):
    mutate(monkeypatch.setattr)
    assert any(simulate(seed, faults).violation for seed in range(1, SEEDS_MAX + 1))
