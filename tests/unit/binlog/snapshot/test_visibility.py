"""Visibility: what proves what a page sees, and up to where a binlog can be read without GTIDs."""

from __future__ import annotations

import pytest

from canal_group.binlog.server.source import ServerFacts
from canal_group.binlog.snapshot.visibility import SettledLog, proof_found
from canal_group.merge.snapshot.point import LogOffset

FILE, AFTER_S = "bin.000009", 8.0


def at(offset, file=FILE):
    return LogOffset(file, offset)


class Clock:
    now_s = 100.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def log(clock):
    return SettledLog(AFTER_S, clock)


def test_an_end_counts_when_it_is_old_enough(log, clock):
    assert log.settled("s") is None
    log.written("s", at(100))
    clock.now_s += AFTER_S - 0.1
    log.written("s", at(200))
    assert log.settled("s") is None
    clock.now_s += 0.1
    assert log.settled("s") == at(100)
    clock.now_s += AFTER_S
    assert log.settled("s") == at(200)


def test_an_idle_log_settles_once(log, clock):
    for _ in range(20):
        log.written("s", at(100))
        clock.now_s += AFTER_S / 10
    assert log.settled("s") == at(100)


def test_ends_are_few_and_reach_back(log, clock):
    for number in range(10_000):
        log.written("s", at(number))
        clock.now_s += 0.01
    settled = log.settled("s")
    assert 9_999 - (AFTER_S + AFTER_S / 8) * 100 < settled.offset <= 9_999 - AFTER_S * 100 + 1
    assert len(log._ends) < 20


def test_an_end_that_another_thread_has_passed_does_not_count(log, clock):
    log.written("s", at(4, "bin.000010"))
    log.written("s", at(900))
    clock.now_s += AFTER_S
    log.written("s", at(901))
    assert log.settled("s") == at(4, "bin.000010")


def test_ends_of_another_server_say_nothing(log, clock):
    log.written("s", at(100))
    clock.now_s += AFTER_S
    assert log.settled("other") is None
    log.written("other", at(7))
    assert log.settled("s") is None


@pytest.mark.parametrize(
    ("variables", "after_s", "ok", "says"),
    [
        ({"gtid_mode": "ON"}, None, True, "by GTIDs"),
        ({"gtid_mode": "ON_PERMISSIVE"}, None, False, "has no GTIDs"),
        ({"gtid_mode": "OFF"}, 5.0, True, "after 5 s"),
        ({"rpl_semi_sync_source_enabled": "OFF", "rpl_semi_sync_source_timeout": "9000"}, 5.0, True, "5 s"),
        (
            {"rpl_semi_sync_source_enabled": "ON", "rpl_semi_sync_source_timeout": "5000"},
            5.0,
            False,
            "waits up to 5 s",
        ),
        (
            {"rpl_semi_sync_master_enabled": "ON", "rpl_semi_sync_master_timeout": "4000"},
            5.0,
            True,
            "after 5 s",
        ),
    ],
)
def test_what_proves_what_a_page_of_mysql_sees(variables, after_s, ok, says):
    found = proof_found(ServerFacts("8.0.36", 1, "s", variables), after_s, exact=False)
    assert found[0] is ok
    assert says in found[1]
    assert bool(found[2]) is not ("by GTIDs" in found[1])


def test_a_snapshot_that_says_where_it_is_needs_no_more():
    assert proof_found(ServerFacts("10.11.6-MariaDB", 1, "1", {}), None, exact=True)[0]
