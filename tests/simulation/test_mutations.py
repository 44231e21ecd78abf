"""Each rule, broken: the simulation has to notice."""

import pytest
from soak import first_quick

from simulation.mutations import MUTATIONS
from simulation.world import simulate

#: so many seeds may pass before one notices
SEEDS_MAX = 200


@pytest.mark.parametrize(
    ("mutate", "faults"), first_quick(8, MUTATIONS), ids=[mutate.__name__ for mutate, _ in MUTATIONS]
)
def test_a_broken_rule_is_noticed(mutate, faults, monkeypatch):
    mutate(monkeypatch.setattr)
    assert any(simulate(seed, faults).violation for seed in range(1, SEEDS_MAX + 1))
