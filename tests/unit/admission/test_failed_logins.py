"""How long logins wait after those that failed, by address."""

import pytest

from canal_group.actors.admission.failed_logins import ADDRESSES_MAX, FIRST_S, FORGET_S, MAX_S, FailedLogins


class Clock:
    now_s = 1_000.0

    def __call__(self):
        return self.now_s


def test_each_failure_doubles_the_wait_up_to_a_bound_until_it_is_forgotten():
    clock = Clock()
    logins, waits = FailedLogins(clock), []
    for _ in range(8):
        waits.append(logins.pause_s("10.0.0.1"))
        logins.failed("10.0.0.1")
    assert waits == pytest.approx(
        [0, FIRST_S, 2 * FIRST_S, 4 * FIRST_S, 8 * FIRST_S, 16 * FIRST_S, 3.2, MAX_S]
    )
    assert logins.pause_s("10.0.0.2") == 0.0
    clock.now_s += FORGET_S - 1
    assert logins.pause_s("10.0.0.1") == MAX_S
    clock.now_s += 2
    assert logins.pause_s("10.0.0.1") == 0.0


def test_a_login_that_succeeds_ends_the_waiting():
    logins = FailedLogins()
    logins.failed("10.0.0.1")
    logins.failed("10.0.0.2")
    logins.succeeded("10.0.0.1")
    logins.succeeded("10.0.0.3")
    assert (logins.pause_s("10.0.0.1"), logins.pause_s("10.0.0.2")) == (0.0, FIRST_S)


def test_the_addresses_of_one_owner_count_together():
    logins = FailedLogins()
    for one in ("2001:db8::1", "::ffff:10.0.0.1", "fe80::1%eth0"):
        logins.failed(one)
    for other in ("2001:db8:0:0:ffff::2", "10.0.0.1", "fe80::2%eth1"):
        assert logins.pause_s(other) == FIRST_S
    assert logins.pause_s("2001:db8:0:1::1") == 0.0


def test_the_addresses_that_are_remembered_are_bounded():
    logins = FailedLogins()
    logins.failed("192.0.2.1")
    for number in range(ADDRESSES_MAX - 1):
        logins.failed(f"10.0.{number >> 8}.{number & 255}")
    logins.failed("192.0.2.1")
    logins.failed("192.0.2.2")
    assert len(logins._failures) == ADDRESSES_MAX
    assert logins.pause_s("10.0.0.0") == 0.0, "the oldest failure is forgotten"
    assert logins.pause_s("192.0.2.1") > 0.0
