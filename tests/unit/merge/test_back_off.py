"""How long whoever failed waits before the next attempt."""

from __future__ import annotations

import pytest

from canal_group.merge.back_off import BackOff

FIRST_S, MAX_S = 0.1, 10.0


@pytest.mark.parametrize(("chance", "part"), [(0.0, 0.5), (0.5, 0.75), (1.0, 1.0)])
def test_pauses_double_up_to_a_limit_and_chance_decides_half_of_each(chance, part):
    back_off = BackOff(MAX_S)
    pauses_s = [back_off.failed(FIRST_S, chance) for _ in range(12)]
    limits_s = [min(MAX_S, FIRST_S * 2**failures) for failures in range(12)]
    assert pauses_s == pytest.approx([part * limit_s for limit_s in limits_s])


def test_what_succeeds_is_asked_soon_again():
    back_off = BackOff(MAX_S)
    for _ in range(5):
        back_off.failed(FIRST_S, 1.0)
    back_off.reset()
    assert back_off.failed(FIRST_S, 1.0) == FIRST_S
    assert back_off.failed(FIRST_S, 1.0) == 2 * FIRST_S


def test_a_failure_for_days_stays_at_the_limit():
    back_off = BackOff(MAX_S)
    assert {back_off.failed(FIRST_S, 1.0) for _ in range(3000)} >= {MAX_S}
    assert back_off.failed(FIRST_S, 1.0) == MAX_S
    assert back_off.failed(0.0, 1.0) == 0.0
