"""Handing over in a real ZooKeeper: an operator's mark, resigning, and whose running node a consumer's is."""

# ruff: noqa: F401, F811 - fixtures are imported, and used by name

from __future__ import annotations

import pytest
from integration.zookeeper_fixtures import Campaign, coordinate, destination, eventually, zookeeper
from kazoo.client import KazooClient

from canal_group.actors.coordination.switch import ZooKeeperSwitch
from canal_group.gateway.discovery import Directory
from canal_group.merge.errors import ConsumerActive, CoordinatorUnavailable, FencedError
from canal_group.zookeeper.stop_mark import StopMark

MARK = StopMark("ops@host", "2026-01-01T00:00:00+00:00", "moving house")


@pytest.fixture
def switch(zookeeper, destination):
    return ZooKeeperSwitch(zookeeper.hosts, destination)


@pytest.fixture
def directory(zookeeper, destination):
    directory = Directory(zookeeper.hosts, destination)
    yield directory
    directory.close()


def test_a_stop_is_seen_obeyed_and_outlives_the_servers(coordinate, switch):
    """1. one serves; 2. the mark: it sees it, and resigns; 3. nobody wins, nor a server that comes later;
    4. the mark goes: the next epoch.
    """
    first = coordinate("a")
    epoch = first.campaign()
    with pytest.raises(CoordinatorUnavailable, match="still serves it"):
        switch.stop(MARK, 0)
    eventually(lambda: first.stop_mark() == MARK, "the mark to be seen")
    first.check_active()
    first.resign()
    with pytest.raises(FencedError):
        first.check_active()
    assert switch.stop(StopMark("other", "later"), 5) == MARK
    campaigns = [Campaign(first), Campaign(coordinate("b"))]
    assert not any(campaign._done.wait(0.5) for campaign in campaigns)
    assert switch.start() == MARK
    eventually(lambda: any(campaign.over for campaign in campaigns), "somebody to win")
    (winner,) = (campaign for campaign in campaigns if campaign.over)
    assert winner.result() > epoch


def test_a_stop_mark_put_during_an_election_prevents_it(coordinate, switch, monkeypatch):
    """The candidate has looked, and found no mark; then the mark is put; then its transaction arrives."""
    server = coordinate("a")
    look = server._look_at_stop_mark

    def look_then_stop():
        look()
        monkeypatch.setattr(server, "_look_at_stop_mark", look)
        switch.stop(MARK, 5)

    monkeypatch.setattr(server, "_look_at_stop_mark", look_then_stop)
    campaign = Campaign(server)
    eventually(lambda: server.stop_mark() == MARK, "the mark to be seen")
    assert not campaign._done.wait(0.5)
    switch.start()
    assert campaign.result() == 1


def test_resigning_elects_the_next_server_and_removes_consumers_nodes(coordinate, zookeeper):
    first, second = coordinate("a"), coordinate("b")
    first.campaign()
    first.lease_consumer("1001", "reader")
    running = first.connection.tree.client_running("1001")
    campaign = Campaign(second)
    first.resign()
    campaign.result()
    assert second.connection.stat(running) is None
    second.keep_consumer("1001", "reader")
    assert second.connection.stat(running).ephemeralOwner == second.connection.session_id
    assert second.active_address() == "b:11111"


def test_a_server_resigns_if_its_running_node_says_so(coordinate, zookeeper, destination):
    """canal's operators write `"active": false` into `running`.

    1. other text in it changes nothing; 2. that one does: the server is asked to release, and still serves;
    3. it resigns and campaigns at once: the standby wins all the same; 4. it wins again when that one is
    gone, and was asked nothing.
    """
    first, second = coordinate("a", released_s=1.0), coordinate("b", released_s=1.0)
    first.campaign()
    running = first.connection.tree.running
    client = KazooClient(zookeeper.hosts)
    client.start()
    try:
        client.set(running, b'{"active":true,"address":"a:11111","since":1}')
        client.set(running, b"nonsense")
        first._beat()
        assert not first.release_asked()
        client.set(running, b'{"active":false,"address":"a:11111"}')
    finally:
        client.stop()
        client.close()
    eventually(first.release_asked, "the wish to be seen")
    assert first.check_active() > 0
    first.resign()
    again, other = Campaign(first), Campaign(second)
    assert other.result() == 2
    assert not again.over
    second.close()
    assert again.result() == 3
    assert not first.release_asked()


def test_a_standby_knows_the_active_server(coordinate):
    first, second = coordinate("a"), coordinate("b")
    first.campaign()
    waiting = Campaign(second)
    eventually(lambda: second.active_address() == "a:11111", "the standby to look")
    first.close()
    waiting.result()


def test_a_node_that_its_consumer_keeps_is_never_taken_by_mistake(
    coordinate, directory, zookeeper, destination
):
    """1. a consumer takes its node and is leased; 2. another session cannot be leased, nor is the first gone;
    3. a release without its session leaves the node; 4. once the node is the other's, the first is gone.
    """
    server = coordinate("a")
    server.campaign()
    session = directory.take("1001", "one")
    assert directory.take("1001", "one") == session
    lease = server.lease_consumer("1001", "one", session)
    assert server.consumers() == [lease]
    other = Directory(zookeeper.hosts, destination)
    try:
        with pytest.raises(ConsumerActive, match="one"):
            other.take("1001", "two")
        with pytest.raises(ConsumerActive):
            server.gone_consumer("1001", "0x1")
        with pytest.raises(ConsumerActive):
            server.lease_consumer("1001", "two", "0x1")
        assert server.gone_consumer("1001", session) is None
        server.release_consumer("1001")
        other.let_go("1001")
        assert directory.take("1001", "one") == session
        directory.let_go("1001")
        theirs = other.take("1001", "two")
        gone = server.gone_consumer("1001", theirs)
        assert gone is not None
        assert (gone.holder, gone.epoch) == ("one", lease.epoch)
        assert server.lease_consumer("1001", "two", theirs).epoch == lease.epoch + 1
        server.release_consumer("1001", theirs)
        assert server.connection.stat(server.connection.tree.client_running("1001")) is None
    finally:
        other.close()


def test_a_consumer_finds_the_active_gateway_or_all_that_stand_by(coordinate, directory, destination):
    assert directory.gateways() == []
    first, second = coordinate("a"), coordinate("b")
    first.campaign()
    waiting = Campaign(second)
    assert directory.gateways() == ["grpc://a:11111"]
    first.connection.commit_under(1, lambda transaction: transaction.delete(first.connection.tree.running))
    waiting.result()
    assert directory.gateways() == ["grpc://b:11111"]
