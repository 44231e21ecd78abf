"""Tests of order against commit times, and of a stream's end: late, allowed and stalled transactions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chaos.audit import Findings
from chaos.clocks import S_US, Setting
from chaos.commits import Commit, Commits
from chaos.ends import END_US, End, stalls
from chaos.lateness import MARGIN_US, Arrival, Dial, Oracle, Window

MYSQL, MARIADB = 1, 2
DIALS = {MYSQL: Dial(1), MARIADB: Dial(S_US)}
BEGIN_US = 1_000 * S_US


def record(shard: str, *at_s: float, server: int = MYSQL, took_s: float = 0.0) -> Commits:
    """Return a shard's record: one transaction at each of these times, seconds."""
    commits = Commits(shard, f"0-{server}-", 1)
    for number, each_s in enumerate(at_s, 1):
        begun_us = BEGIN_US + round(each_s * S_US)
        commits.commit((), Commit(f"0-{server}-{number}", server, begun_us, begun_us + round(took_s * S_US)))
    return commits


def came(*names: tuple[str, int, int], acked_s: float = 20.0) -> list[Arrival]:
    """Return arrivals of (shard, server, number), in this order, acknowledged at one time."""
    return [
        Arrival(shard, f"0-{server}-{number}", BEGIN_US + round(acked_s * S_US))
        for shard, server, number in names
    ]


def test_two_transactions_in_the_order_of_their_commits_are_not_late():
    oracle = Oracle([record("a", 1.0), record("b", 2.0)], DIALS)
    told = oracle.judge(came(("a", MYSQL, 1), ("b", MYSQL, 1)))
    assert (told.late, told.bound, told.unjustified) == (0, 0, ())


def test_a_pair_out_of_order_is_late_and_nothing_allows_it():
    oracle = Oracle([record("a", 1.0), record("b", 2.0)], DIALS)
    told = oracle.judge(came(("b", MYSQL, 1), ("a", MYSQL, 1)))
    assert (told.late, told.bound) == (1, 0)
    assert told.unjustified == ("a 0-1-1 came after a transaction that was committed 1.0 s later.",)


@pytest.mark.parametrize(("apart_us", "late"), [(MARGIN_US, 0), (MARGIN_US + 1, 1)])
def test_the_margin_of_low_watermarks_is_not_late(apart_us: int, late: int):
    oracle = Oracle([record("a", 1.0), record("b", 1.0 + apart_us / S_US)], DIALS)
    assert oracle.judge(came(("b", MYSQL, 1), ("a", MYSQL, 1))).late == late


@pytest.mark.parametrize(("a_s", "b_s", "late"), [(1.0, 1.999, 0), (1.999, 2.001, 1), (1.0, 2.5, 1)])
def test_a_mariadb_stamps_whole_seconds(a_s: float, b_s: float, late: int):
    oracle = Oracle([record("a", a_s, server=MARIADB), record("b", b_s, server=MARIADB)], DIALS)
    assert oracle.judge(came(("b", MARIADB, 1), ("a", MARIADB, 1))).late == late


def test_a_stalled_commit_has_no_order_with_later_ones():
    oracle = Oracle([record("a", 1.0, took_s=5.0), record("b", 3.0)], DIALS)
    assert oracle.judge(came(("b", MYSQL, 1), ("a", MYSQL, 1))).late == 0


def test_a_shards_own_order_is_never_late():
    """1. A clock goes back by ten seconds between two transactions; 2. a third one is of another shard."""
    back = Dial(1, (Setting(0, 0), Setting(BEGIN_US + 2 * S_US, -10 * S_US)))
    dials = {MYSQL: back, MARIADB: Dial(1)}
    oracle = Oracle([record("a", 1.0, 3.0), record("b", 0.5, server=MARIADB)], dials)
    assert oracle.judge(came(("b", MARIADB, 1), ("a", MYSQL, 1), ("a", MYSQL, 2))).late == 0
    assert oracle.judge(came(("a", MYSQL, 1), ("a", MYSQL, 2), ("b", MARIADB, 1))).late == 1


def test_a_shard_is_not_late_to_itself():
    """Two transactions of a shard in the wrong order are counted elsewhere, as reordered."""
    commits = record("a", 1.0, 3.0)
    oracle = Oracle([commits], DIALS)
    assert oracle.judge(came(("a", MYSQL, 2), ("a", MYSQL, 1))).late == 0


def test_stamps_follow_the_clock_that_was_set():
    """A clock is ten seconds ahead: its stamps follow what another clock stamps later."""
    prefetch = Dial(1, (Setting(0, 0), Setting(BEGIN_US, 10 * S_US)))
    oracle = Oracle([record("a", 1.0), record("b", 5.0, server=MARIADB)], {MYSQL: prefetch, MARIADB: Dial(1)})
    assert oracle.judge(came(("b", MARIADB, 1), ("a", MYSQL, 1))).late == 0
    assert oracle.judge(came(("a", MYSQL, 1), ("b", MARIADB, 1))).late == 1
    assert oracle.furthest_us == BEGIN_US + 11 * S_US


@pytest.mark.parametrize(("clock", "late"), [(True, 0), (False, 1)])
def test_what_a_clock_stamped_that_was_set_says_nothing_of_the_order(clock: bool, late: int):
    """1. a's clock is a minute ahead for two seconds. 2. Its stamps are not trusted: they come before b's.
    3. Then a's stamps are its clock's again: one that comes before an older one of b's is out of order.
    """
    settings = (Setting(0, 0), Setting(BEGIN_US, 60 * S_US), Setting(BEGIN_US + 2 * S_US, 0))
    dials = {MYSQL: Dial(1, settings), MARIADB: Dial(1)}
    records = [record("a", 1.0, 80.0, 90.0), record("b", 1.5, 85.0, server=MARIADB)]
    window = Window("a", BEGIN_US, BEGIN_US + 67 * S_US, "its clock stepped", clock)
    oracle = Oracle(records, dials, [window])
    a, b = [("a", MYSQL, number) for number in (1, 2, 3)], [("b", MARIADB, number) for number in (1, 2)]
    arrivals = came(a[0], b[0], a[1], a[2], b[1], acked_s=95.0)
    arrivals[0] = came(a[0], acked_s=2.0)[0]
    assert oracle.judge(arrivals[:3]).late == late
    assert oracle.judge(arrivals).late == late + 1


def test_while_a_clock_is_set_a_stamp_may_be_of_either_setting():
    dial = Dial(1, (Setting(0, 0), Setting(15, 100), Setting(30, -5)))
    assert dial.stamps(10, 12) == (10, 12)
    assert dial.stamps(10, 20) == (10, 120)
    assert dial.stamps(16, 40) == (11, 140)


@pytest.mark.parametrize(
    ("window", "allowed"),
    [
        (Window("a", BEGIN_US, BEGIN_US + 5 * S_US, "it was skipped"), 1),
        (Window("a", BEGIN_US + 19 * S_US, BEGIN_US + 30 * S_US, "on its way when it was skipped"), 1),
        (Window("b", BEGIN_US, BEGIN_US + 1 * S_US, "of the other shard"), 0),
        (Window("a", 0, BEGIN_US, "over before it was committed"), 0),
        (Window("a", BEGIN_US + 21 * S_US, BEGIN_US + 30 * S_US, "begun when it had come"), 0),
    ],
)
def test_what_is_late_outside_of_every_window_is_above_the_bound(window: Window, allowed: int):
    oracle = Oracle([record("a", 1.0), record("b", 3.0)], DIALS, [window])
    told = oracle.judge(came(("b", MYSQL, 1), ("a", MYSQL, 1)))
    assert (told.late, told.bound, len(told.unjustified)) == (1, allowed, 1 - allowed)


# ---- the end -------------------------------------------------------------------------------------------


def test_what_was_acknowledged_within_the_bound_does_not_stall():
    end = End.after(BEGIN_US, 0)
    arrivals = came(("a", MYSQL, 1), acked_s=END_US / S_US)
    assert not list(stalls("1001", arrivals, [record("a", 1.0)], end))


def test_what_came_too_late_or_never_stalls_and_is_named():
    end = End.after(BEGIN_US, 0)
    arrivals = came(("a", MYSQL, 1), acked_s=2.0) + came(("a", MYSQL, 2), acked_s=END_US / S_US + 0.1)
    (words,) = stalls("1001", arrivals, [record("a", 1.0, 1.5, 1.6)], end)
    assert words.startswith("Client 1001 stalls: 2 transactions of a from 0-1-2 on"), words
    assert words.endswith("its last acknowledgement, from there: +2.0 s."), words
    (words,) = stalls("1002", [], [record("a", 1.0)], end)
    assert words.endswith("never."), words


def test_each_of_what_the_line_counts_makes_a_seed_fail():
    assert Findings().ok
    wrong = ("lost", "duplicated", "reordered", "cursor_regressions", "double_active")
    for name in (*wrong, "late_beyond", "stalled", "range_faults", "archive_faults"):
        assert not Findings(**{name: 1}).ok, name
    allowed = Findings(late=3, late_bound=5, range_rereads=2)
    assert allowed.ok
    assert (allowed + allowed).late == 6


def test_the_end_waits_for_the_furthest_stamp():
    assert End.after(10, 0).until_us == 10 + END_US
    assert End.after(10, 0, 20.0).until_us == 10 + END_US, "the start was quick"
    assert End.after(10, 0, 60.0).until_us == 10 + 150 * S_US, "the machine is slow"
    assert End.after(10, 50).until_us == 50 + END_US


def test_a_filtered_commit_is_not_awaited():
    end = End.after(10 * S_US, 0)
    commits = record("a", 1.0, 2.0)
    commits.commits[-1] = replace(commits.commits[-1], kept=False)
    assert not list(stalls("1001", [Arrival("a", commits.commits[0].gtid, 11 * S_US)], [commits], end))
