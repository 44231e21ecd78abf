"""Limits of what a server does beside: a page waits while one is exceeded."""

from __future__ import annotations

import pytest

from canal_group.actors.snapshot.load_limit import LoadLimit
from canal_group.binlog.snapshot.server_load import LIMITS, ServerLoad
from canal_group.conf.stream_settings import SnapshotSettings
from canal_group.merge.errors import SourceUnavailable, SourceUnfit


class Host:
    """A clock that goes on while somebody waits; and what is waited for, as it is said."""

    def __init__(self):
        self.now_s, self.said, self.stopped = 0.0, [], False

    def clock_s(self):
        return self.now_s

    def lock(self):
        return None

    def wait(self, timeout_s):
        self.now_s += timeout_s

    def is_set(self):
        return self.stopped


class Load(ServerLoad):
    """A server that does so much."""

    def __init__(self, threads=0, lag=None, history=0):
        self.found = threads, lag, history

    def threads_running(self):
        return self.found[0]

    def replica_lag_s(self):
        return self.found[1]

    def history_list(self):
        return self.found[2]


@pytest.fixture
def limits():
    return SnapshotSettings(threads_running_max=4, replica_lag_max_s=2.5, history_list_max=1_000).load_limits


def waited(host, limits, *answers):
    """Return how often a limit asks until a page may be read."""
    left = list(answers)

    def excess(asked):
        assert asked == limits
        found = left.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    LoadLimit(None, limits, host).wait(excess, host, host.said.append)
    return len(answers) - len(left)


def test_settings_are_limits_of_a_server():
    """Each by its name, and those that are not set are not asked for."""
    assert SnapshotSettings().load_limits == {"threads_running_max": 64}
    assert SnapshotSettings(threads_running_max=None).load_limits == {}
    everything = SnapshotSettings(replica_lag_max_s=10, history_list_max=9).load_limits
    assert everything.keys() == LIMITS.keys()


@pytest.mark.parametrize(
    ("load", "says"),
    [
        (Load(4, 2, 1_000), None),
        (Load(0, None, 0), None),
        (Load(5), "5 threads of the server are running, more than snapshot.threads_running_max (4)"),
        (
            Load(0, 3),
            "the server is 3 s behind its own source, more than snapshot.replica_lag_max_s (2.5)",
        ),
        (
            Load(0, None, 1_001),
            "InnoDB's history list has 1001 entries, more than snapshot.history_list_max (1000)",
        ),
    ],
)
def test_what_is_exceeded_is_said(limits, load, says):
    assert load.excess(limits) == says


def test_a_page_waits_while_a_limit_is_exceeded(limits):
    host = Host()
    assert waited(host, limits, "too much", "too much", None) == 3
    assert host.said == ["too much", "too much", None]
    assert host.now_s > 0


@pytest.mark.parametrize("error", [SourceUnavailable("gone"), SourceUnfit("denied")])
def test_a_server_that_does_not_say_is_not_read(limits, error):
    with pytest.raises(type(error)):
        waited(Host(), limits, error)


def test_an_answer_counts_for_a_while(limits):
    host, asked = Host(), []
    limit = LoadLimit(None, limits, host)
    for _ in range(3):
        limit.wait(asked.append, host, host.said.append)
    assert len(asked) == 1
    host.now_s += 1
    limit.wait(asked.append, host, host.said.append)
    assert len(asked) == 2
