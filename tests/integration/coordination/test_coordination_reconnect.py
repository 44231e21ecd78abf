"""An active server loses its connection to ZooKeeper, and regains its session in time."""

# ruff: noqa: F401, F811 - fixtures are imported, and used by name

import errno
import socket
from contextlib import ExitStack
from functools import partial

import pytest
from integration.zookeeper_fixtures import Cursors, coordinate, destination, eventually, proxy
from kazoo.client import KazooClient

from canal_group.actors.coordination.embedded import EmbeddedZooKeeper
from canal_group.actors.ports import Subscription
from canal_group.merge.errors import CoordinatorUnavailable
from canal_group.merge.values.position import GroupPosition, Position

OLD = Subscription("1001", "", GroupPosition({"s0": Position("mysql-bin.000001", 4)}, sequence=1))
NEW = Subscription("1001", "", GroupPosition({"s0": Position("mysql-bin.000001", 9)}, sequence=2))
#: seconds; a part of it is lost, and a machine may be slow
SESSION_S = 12.0


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory):
    """A server whose ticks allow long sessions."""
    with EmbeddedZooKeeper(folder=tmp_path_factory.mktemp("zookeeper"), tick_ms=1000) as server:
        yield server


def test_zookeeper_restarts_and_the_active_server_goes_on(coordinate, zookeeper, proxy):
    """1. won; 2. ZooKeeper ends: writes fail; 3. it comes back in time: the same epoch goes on.

    The first connection that it accepts is never answered, as happens while a server starts.
    """
    server = coordinate("a", hosts=proxy.hosts, session_timeout_s=SESSION_S)
    epoch = server.campaign()
    Cursors(server).save(OLD, epoch)
    proxy.cut()
    zookeeper.stop()
    eventually(lambda: not server.connection.connected, "kazoo to notice")
    with pytest.raises(CoordinatorUnavailable):
        Cursors(server).save(NEW, epoch)
    server.check_active()
    zookeeper.start()
    proxy.swallow_next()
    proxy.mend()
    eventually(lambda: server.connection.connected, "kazoo to reconnect")
    assert proxy.has_swallowed
    assert Cursors(server).load(epoch) == [OLD]
    Cursors(server).save(NEW, epoch)
    server.check_active()


def test_a_host_that_answers_nothing_does_not_cost_the_session(coordinate, proxy):
    """One of two hosts has lost its power: no packet comes back. The other one is there in time."""
    with socket.socket() as dead, ExitStack() as queue_of_dead:
        dead.bind(("127.0.0.1", 0))
        address = dead.getsockname()
        server = coordinate(
            "a",
            hosts=f"{address[0]}:{address[1]},{proxy.hosts}",
            session_timeout_s=SESSION_S,
            make_client=partial(KazooClient, randomize_hosts=False),
        )
        epoch = server.campaign()
        dead.listen(0)
        # Linux answers no more first packets once the queue of a listener is full.
        for _ in range(2):
            waiting = queue_of_dead.enter_context(socket.socket())
            waiting.setblocking(False)
            assert waiting.connect_ex(address) == errno.EINPROGRESS
        proxy.drop()
        eventually(lambda: not server.connection.connected, "kazoo to notice")
        eventually(lambda: server.connection.connected, "kazoo to connect to the other host")
        Cursors(server).save(OLD, epoch)
        server.check_active()
