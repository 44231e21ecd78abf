"""Which of a shard's servers is read."""

from __future__ import annotations

from support.defaults import address_of

from canal_group.binlog.server.hosts import SourceHosts
from canal_group.conf.stream_settings import DetectingSettings


def addresses(count):
    return [address_of("s", f"db{index}") for index in range(count)]


def test_failures_in_a_row_lead_to_the_next_server_and_back_to_the_first():
    one, two, three = servers = addresses(3)
    hosts = SourceHosts(servers, DetectingSettings(threshold=2))
    for current, after in ((one, two), (two, three), (three, one)):
        assert hosts.current == current
        assert not hosts.failed(current, "gone")
        assert hosts.failed(current, "gone")
        assert hosts.current == after
    assert hosts.describe()["switches"] == 3


def test_a_server_that_answers_between_two_failures_stays():
    one, _ = servers = addresses(2)
    hosts = SourceHosts(servers, DetectingSettings(threshold=2))
    for _ in range(5):
        assert not hosts.failed(one, "gone")
        hosts.reached(one)
    assert hosts.current == one
    assert hosts.describe()["last"] is None


def test_a_failure_of_a_server_already_left_changes_nothing():
    one, two = servers = addresses(2)
    hosts = SourceHosts(servers, DetectingSettings(threshold=1))
    assert hosts.failed(one, "gone")
    assert hosts.failed(one, "gone again")
    hosts.reached(one)
    assert hosts.current == two
    described = hosts.describe()
    assert (described["switches"], described["last"]["gap_s"]) == (1, None)


def test_a_gap_lasts_from_the_first_failure_to_the_first_reached_server():
    one, two, three = servers = addresses(3)
    hosts = SourceHosts(servers, DetectingSettings(threshold=1))
    hosts.failed(one, "gone")
    hosts.failed(two, "gone too")
    began = hosts._last.failed_at_s
    hosts.reached(three)
    assert hosts._last.failed_at_s == began
    last = hosts.describe()["last"]
    assert (last["from"], last["to"], last["reason"]) == ("db1:3306", "db2:3306", "gone too")
    assert last["gap_s"] >= 0


def test_one_server_is_never_left():
    (one,) = servers = addresses(1)
    hosts = SourceHosts(servers, DetectingSettings(threshold=1))
    assert not any(hosts.failed(one, "gone") for _ in range(5))
    assert hosts.current == one
