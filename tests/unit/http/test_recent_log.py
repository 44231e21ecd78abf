"""The last lines of each instance: which are kept, in which pages, and that they are bounded."""

import logging
from itertools import pairwise

import pytest

from canal_group.actors.http.recent_log import RecentLog, RecentLogLimits


def log_with(**limits):
    kept = RecentLog(RecentLogLimits(**limits))
    kept.say = lambda message, **fields: kept.handle(record(message, **fields))
    return kept


@pytest.fixture
def log():
    return log_with()


def record(message, **fields):
    made = logging.LogRecord("canal_group.actors.a", logging.INFO, "", 0, message, None, None)
    vars(made).update(fields)
    return made


def messages(page):
    return [line["message"] for line in page["lines"]]


def test_lines_are_kept_of_the_instance_that_they_name(log):
    log.say("one", destination="shop", shard="s1")
    log.say("two", destination="stock")
    log.say("of the server")
    (line,) = log.page("shop", 10)["lines"]
    assert (line["number"], line["message"], line["shard"]) == (1, "one", "s1")
    assert messages(log.page("stock", 10)) == ["two"]
    assert log.page("other", 10) == {"lines": [], "before": None}


def test_pages_go_back_from_the_end_without_a_gap_while_lines_come(log):
    for number in range(7):
        log.say(str(number), destination="shop")
    pages, before = [], None
    while True:
        page = log.page("shop", 3, before)
        pages.append(messages(page))
        log.say("new", destination="shop")
        before = page["before"]
        if before is None:
            break
    assert pages == [["4", "5", "6"], ["1", "2", "3"], ["0"]]
    assert log.page("shop", 3, before=1) == {"lines": [], "before": None}


def test_a_page_that_holds_everything_says_that_nothing_is_older(log):
    for number in range(3):
        log.say(str(number), destination="shop")
    assert log.page("shop", 3)["before"] is None
    assert log.page("shop", 2)["before"] == 2


def test_lines_are_bounded():
    log = log_with(kept_lines_max=4)
    for number in range(9):
        log.say(str(number), destination="shop")
    assert messages(log.page("shop", 10)) == ["5", "6", "7", "8"]


def test_the_length_of_lines_is_bounded():
    log = log_with(kept_chars_max=700)
    for name in "abcd":
        log.say(name * 300, destination="shop")
    assert [one[0] for one in messages(log.page("shop", 10))] == ["d"]
    log.say("e" * 2000, destination="shop")
    assert [one[0] for one in messages(log.page("shop", 10))] == ["e"], "one line is always kept"
    log.say("f", destination="shop")
    assert messages(log.page("shop", 10)) == ["f"]


def test_a_page_is_bounded_and_has_a_line_at_least():
    log = log_with(page_chars_max=1000)
    for name in "abc":
        log.say(name * 300, destination="shop")
    log.say("d" * 3000, destination="shop")
    pages, before = [], None
    while not pages or before is not None:
        page = log.page("shop", 10, before)
        pages.append("".join(one[0] for one in messages(page)))
        before = page["before"]
    assert pages == ["d", "bc", "a"]


def test_a_page_has_a_limit_of_lines():
    log = log_with(page_lines_max=1)
    for name in "ab":
        log.say(name, destination="shop")
    assert messages(log.page("shop", 10)) == ["b"]


def test_the_instance_that_was_silent_longest_makes_room():
    log = log_with(instances_max=2)
    for name in ("a", "b", "a", "c"):
        log.say("x", destination=name)
    assert [len(log.page(name, 10)["lines"]) for name in "abc"] == [2, 0, 1]


def test_numbers_grow_over_all_instances(log):
    for name in "abab":
        log.say("x", destination=name)
    numbers = [line["number"] for name in "ab" for line in log.page(name, 10)["lines"]]
    assert all(one != other for one, other in pairwise(numbers))
    assert sorted(numbers) == [1, 2, 3, 4]
