"""How long a reader waits before it connects again."""

from __future__ import annotations

from binlog.server.back_off import FIRST_S, LONGEST_S, BackOff


def test_pauses_double_up_to_a_limit_and_half_of_each_is_random():
    one, other = BackOff(), BackOff()
    pauses_s = [(one.failed(), other.failed()) for _ in range(12)]
    limits_s = [min(LONGEST_S, FIRST_S * 2**failures) for failures in range(12)]
    for pair, limit_s in zip(pauses_s, limits_s, strict=True):
        assert all(limit_s / 2 <= pause_s <= limit_s for pause_s in pair)
    assert all(pause_s != others_s for pause_s, others_s in pauses_s), "readers do not reconnect together"


def test_a_source_that_answers_is_asked_soon_again():
    back_off = BackOff()
    for _ in range(5):
        back_off.failed()
    back_off.reached()
    assert back_off.failed() <= FIRST_S
