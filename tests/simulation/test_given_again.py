"""Numbers given again are not taken for what was read; servers that give none again are not refused."""

from __future__ import annotations

import pytest
from support.soak import first_quick

from simulation.given_again import play

SEEDS = [(first, 2_000) for first in range(0, 20_000, 2_000)]


@pytest.mark.parametrize(("first", "seeds"), first_quick(1, SEEDS))
def test_nothing_that_a_server_has_is_left_out(first, seeds):
    read = refused = 0
    for seed in range(first, first + seeds):
        played = play(seed)
        assert not played.left_out, f"seed {seed}: {played.left_out}"
        read, refused = read + played.read, refused + played.refused
    assert read > seeds
    assert refused > seeds / 10


def test_servers_that_give_no_number_again_are_read():
    read = 0
    for seed in range(1_000):
        played = play(seed, harmless=True)
        assert not played.left_out
        assert not played.refused, seed
        read += played.read
    assert read > 1_000
