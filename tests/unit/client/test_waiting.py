"""Waiting for a server: gets and acknowledgements alike, with warnings, for as long as they are told to."""

from __future__ import annotations

import logging

import pytest

from canal_group.gateway import retry
from canal_group.gateway.retry import keep_trying
from canal_group.merge.errors import ServerUnavailable


class Clock:
    """A clock that pauses advance."""

    now_s = 1_000.0

    def monotonic(self) -> float:
        return self.now_s

    def wait(self, seconds: float) -> bool:
        self.now_s += seconds
        return False


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(retry, "time", made)
    return made


def away(until_s: float, clock: Clock) -> str:
    if clock.now_s < until_s:
        raise ServerUnavailable("nobody is active", retry_after_s=0.5)
    return "back"


def test_without_a_limit_a_call_waits_and_warns_ever_more_seldom(
    clock: Clock, caplog: pytest.LogCaptureFixture
):
    until_s = clock.now_s + 600
    assert keep_trying(lambda: away(until_s, clock), (ServerUnavailable,), None, clock.wait) == "back"
    said = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert 5 <= len(said) <= 7
    assert all("nobody is active" in each for each in said)


def test_with_a_limit_it_raises_the_last_error(clock: Clock):
    begun_s = clock.now_s
    with pytest.raises(ServerUnavailable):
        keep_trying(lambda: away(begun_s + 600, clock), (ServerUnavailable,), begun_s + 30, clock.wait)
    assert 25 < clock.now_s - begun_s <= 30
