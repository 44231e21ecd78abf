"""Two servers, one ZooKeeper: elections, fencing, and being cut off."""

# ruff: noqa: F401, F811 - fixtures are imported, and used by name

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from contextlib import closing

import pytest
from integration.zookeeper_fixtures import (
    DEADLINE_S,
    SESSION_S,
    Campaign,
    Cursors,
    coordinate,
    destination,
    eventually,
    proxy,
    zookeeper,
)
from kazoo.client import KazooClient

from canal_group.actors.coordination.embedded import EmbeddedZooKeeper
from canal_group.actors.coordination.zookeeper import ZooKeeperCoordinator
from canal_group.actors.ports import ConsumerLease, Subscription
from canal_group.actors.process.clock import clock_s
from canal_group.merge.errors import ConfigError, CoordinatorUnavailable, FencedError, UsageError
from canal_group.merge.values.position import GroupPosition, Position

OLD = Subscription("1001", "", GroupPosition({"s0": Position("mysql-bin.000001", 4)}, sequence=1))
NEW = Subscription("1001", "", GroupPosition({"s0": Position("mysql-bin.000001", 9)}, sequence=2))


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self):
        self.now_s = 1000.0

    def __call__(self):
        return self.now_s


def passes(coordinator):
    try:
        coordinator.check_active()
    except CoordinatorUnavailable:
        return False
    return True


def fenced(coordinator):
    try:
        coordinator.check_active()
    except FencedError:
        return True
    except CoordinatorUnavailable:
        return False
    return False


@pytest.fixture
def client(zookeeper):
    client = KazooClient(zookeeper.hosts)
    client.start()
    yield client
    client.stop()
    client.close()


def test_the_tree_is_canals(coordinate, client, destination):
    server = coordinate("a")
    epoch = server.campaign()
    server.check_active()
    lease = server.lease_consumer("1001", "reader:1")
    root = f"/otter/canal/destinations/{destination}"
    running, stat = client.get(f"{root}/running")
    assert running == b'{"active":true,"address":"a:11111"}'
    assert stat.ephemeralOwner == server.connection.session_id
    claim, stat = client.get(f"{root}/epoch")
    assert (stat.version, stat.ephemeralOwner) == (epoch, 0)
    assert json.loads(claim) == {
        "address": "a:11111",
        "owner": "a",
        "session": hex(server.connection.session_id),
    }
    for node in ("/otter/canal/cluster/a:11111", f"{root}/cluster/a:11111"):
        assert client.exists(node).ephemeralOwner == server.connection.session_id
    running, stat = client.get(f"{root}/1001/running")
    assert running == b'{"active":true,"address":"reader:1","clientId":1001}'
    assert stat.ephemeralOwner == server.connection.session_id
    holder, _ = client.get(f"{root}/1001/lease")
    assert json.loads(holder) == {"epoch": lease.epoch, "holder": "reader:1", "session": ""}
    assert client.exists(f"{root}/epoch/consumers").version == lease.epoch


def test_a_standby_takes_over_when_the_active_one_closes_and_fences_it(coordinate):
    """The election's whole story.

    1. the first wins and saves a cursor; 2. the second waits; 3. the first closes; 4. the second wins with a
    higher epoch; 5. the first's epoch can no longer write, whoever sends it, and nothing has changed.
    """
    first, second = coordinate("a"), coordinate("b")
    epoch = first.campaign()
    Cursors(first).save(OLD, epoch)
    campaign = Campaign(second)
    with pytest.raises(CoordinatorUnavailable):
        second.check_active()
    assert not campaign.over
    first.close()
    assert campaign.result() > epoch
    second.check_active()
    with pytest.raises(FencedError):
        first.check_active()
    store = Cursors(second)
    for refused in (
        lambda: store.save(NEW, epoch),
        lambda: store.save(Subscription("2002", "", None), epoch),
        lambda: store.forget("1001", epoch),
        lambda: store.store.claim(epoch),
        lambda: store.load(epoch),
    ):
        with pytest.raises(FencedError) as refusal:
            refused()
        assert refusal.value.details == {"our_epoch": epoch, "current_epoch": campaign.epoch}
        assert store.load(campaign.epoch) == [OLD]
    store.store.claim(campaign.epoch)
    store.save(NEW, campaign.epoch)
    assert store.load(campaign.epoch) == [NEW]


def test_a_new_incarnation_takes_over_at_once_while_the_old_session_lives(coordinate):
    """A server's actor restarts without its coordinator having closed.

    1. the old incarnation wins, in a session that would take a minute to expire; 2. the new one takes over at
    once; 3. the old one, still connected, learns of it and can write nothing; 4. nor does it take the
    activity back.
    """
    with EmbeddedZooKeeper(tick_ms=3000) as slow:
        old = coordinate("a", hosts=slow.hosts, session_timeout_s=60.0)
        new = coordinate("a", hosts=slow.hosts, session_timeout_s=60.0)
        epoch = old.campaign()
        Cursors(old).save(OLD, epoch)
        campaign = Campaign(new)
        assert campaign.result() == epoch + 1
        with pytest.raises(FencedError) as refusal:
            Cursors(old).save(NEW, epoch)
        assert refusal.value.details == {"our_epoch": epoch, "current_epoch": epoch + 1}
        assert Cursors(new).load(epoch + 1) == [OLD]
        # By its watch: the next regular question is 10 s away.
        eventually(lambda: fenced(old), "the old incarnation to see that it is fenced", within_s=5)
        with pytest.raises(FencedError) as refusal:
            old.check_active()
        assert refusal.value.details == {"our_epoch": epoch, "current_epoch": epoch + 1}
        with pytest.raises(FencedError):
            old.lease_consumer("1001", "late")
        with pytest.raises(FencedError):
            old.campaign()
        new.check_active()
        old.close()
        new.check_active()
        assert new.connection.stat(new.connection.tree.running) is not None
        new.close()


def test_another_owner_with_the_same_address_waits(coordinate):
    coordinate("a", owner="one").campaign()
    waiting = Campaign(coordinate("a", owner="two"))
    assert not waiting._done.wait(1.0)


def test_canals_own_server_is_nobodys_predecessor(coordinate, client, destination):
    """A canal server holds `running` and knows no epoch; the last claim is ours. We wait until it goes."""
    root = f"/otter/canal/destinations/{destination}"
    ours = coordinate("a")
    epoch = ours.campaign()
    ours.close()
    client.create(f"{root}/running", b'{"active":true,"address":"canal:11111"}', ephemeral=True)
    campaign = Campaign(coordinate("a"))
    assert not campaign._done.wait(1.0)
    client.delete(f"{root}/running")
    assert campaign.result() == epoch + 1


def test_campaigning_again_gives_a_higher_epoch(coordinate):
    server = coordinate("a")
    epoch = server.campaign()
    assert server.campaign() == epoch + 1
    server.check_active()


def test_many_servers_campaign_at_once_and_each_wins_once(coordinate):
    servers = [coordinate(name) for name in "abcd"]
    waiting = {server: Campaign(server) for server in servers}
    epochs = []
    while waiting:
        eventually(lambda: any(campaign.over for campaign in waiting.values()), "somebody to win")
        winners = [server for server, campaign in waiting.items() if campaign.over]
        assert len(winners) == 1
        epochs.append(waiting.pop(winners[0]).result())
        winners[0].close()
    assert epochs == [1, 2, 3, 4]


def test_running_taken_away_by_hand_ends_the_tenure(coordinate, client, destination):
    server = coordinate("a")
    server.campaign()
    client.delete(f"/otter/canal/destinations/{destination}/running")
    eventually(lambda: fenced(server), "the server to see that running is gone")
    assert server.campaign() == 2


def test_a_short_disconnection_is_survived_and_a_long_one_stops_serving(coordinate, proxy):
    """The session is long, the clock is the test's.

    1. cut off: serving goes on; 2. the clock passes the deadline: it stops, though nothing has said that the
    session is lost; 3. mended in time for the session: it goes on by itself under the same epoch.
    """
    clock = Clock()
    server = coordinate("a", hosts=proxy.hosts, session_timeout_s=4.0, margin_s=1.0, clock=clock)
    epoch = server.campaign()
    proxy.cut()
    eventually(lambda: not server.connection.connected, "kazoo to notice the cut")
    clock.now_s += 2.999
    server.check_active()
    clock.now_s += 0.001
    with pytest.raises(CoordinatorUnavailable):
        server.check_active()
    with pytest.raises(CoordinatorUnavailable):
        Cursors(server).save(OLD, epoch)
    with pytest.raises(CoordinatorUnavailable):
        server.lease_consumer("1001", "me")
    proxy.mend()
    eventually(lambda: passes(server), "the server to serve again")
    Cursors(server).save(OLD, epoch)
    assert server.lease_consumer("1001", "me").epoch == 1


def test_the_deadline_counts_while_the_connection_seems_whole(coordinate):
    """A process that wakes from a pause must not serve before it has asked."""
    clock = Clock()
    server = coordinate("a", session_timeout_s=4.0, clock=clock)
    server.campaign()
    asked, answers = queue.Queue(), queue.Queue()
    sync = server.connection.sync

    def slow_sync(path):
        asked.put(path)
        answers.get(timeout=DEADLINE_S)
        sync(path)

    server.connection.sync = slow_sync
    asked.get(timeout=DEADLINE_S)
    clock.now_s += 4.0
    assert server.connection.connected
    with pytest.raises(CoordinatorUnavailable):
        server.check_active()
    # This answer belongs to a question that was asked before the clock moved; only the next one counts.
    answers.put("first")
    asked.get(timeout=DEADLINE_S)
    with pytest.raises(CoordinatorUnavailable):
        server.check_active()
    server.connection.sync = sync
    answers.put("second")
    eventually(lambda: passes(server), "the next answer")


def test_the_session_timeout_that_the_server_decided_counts(coordinate):
    clock = Clock()
    server = coordinate("a", session_timeout_s=60.0, clock=clock)  # 20 ticks of 200 ms are 4 s
    server.campaign()
    assert server.connection.session_timeout_s == 4.0
    server.connection.sync = lambda _: threading.Event().wait(DEADLINE_S)
    clock.now_s += 4.0
    with pytest.raises(CoordinatorUnavailable):
        server.check_active()
    server.connection.sync = lambda _: None


def test_cut_off_for_good_it_stops_serving_before_another_one_can_win(coordinate, proxy):
    """The session really expires.

    1. the first is cut off; 2. it stops serving; 3. only later the second wins; 4. mended, the first is
    fenced for good, and its registrations come back in a new session.
    """
    first, second = coordinate("a", hosts=proxy.hosts), coordinate("b")
    epoch = first.campaign()
    won_at_s = []

    def run():
        second.campaign()
        won_at_s.append(clock_s())

    threading.Thread(target=run, daemon=True).start()
    proxy.cut()
    eventually(lambda: not passes(first), "the first to stop serving")
    stopped_at_s = clock_s()
    eventually(lambda: won_at_s, "the second to win")
    assert stopped_at_s < won_at_s[0]
    assert not passes(first)
    proxy.mend()
    eventually(lambda: fenced(first), "the first to learn that it is fenced")
    eventually(lambda: first.connection.connected, "the new session")
    with pytest.raises(FencedError) as refusal:
        Cursors(first).save(NEW, epoch)
    assert refusal.value.details == {"our_epoch": epoch, "current_epoch": epoch + 1}
    second.check_active()
    tree = first.connection.tree
    for node in tree.servers("a:11111"):
        eventually(lambda node=node: first.connection.stat(node), "the registration in the new session")
    again = Campaign(first)
    second.close()
    assert again.result() == epoch + 2
    first.check_active()


HOLDER = """
import sys
from canal_group.actors.coordination.zookeeper import ZooKeeperCoordinator
from canal_group.merge.errors import CanalGroupError
hosts, destination = sys.argv[1:]
server = ZooKeeperCoordinator(hosts, destination, "paused:11111", "paused", session_timeout_s=2.0)
print(server.campaign(), flush=True)
for line in sys.stdin:
    try:
        server.check_active()
        print("active", flush=True)
    except CanalGroupError as error:
        print(type(error).__name__, flush=True)
"""


def test_a_paused_server_is_replaced_and_does_not_serve_when_it_wakes(
    coordinate,
    zookeeper,
    destination,
):
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, zookeeper.hosts, destination],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    ) as holder:

        def ask():
            holder.stdin.write("?\n")
            return holder.stdout.readline().strip()

        try:
            assert holder.stdout.readline() == "1\n"
            assert ask() == "active"
            holder.send_signal(signal.SIGSTOP)
            second = coordinate("b")
            assert Campaign(second).result() == 2
            holder.send_signal(signal.SIGCONT)
            assert ask() in {"CoordinatorUnavailable", "FencedError"}
            eventually(lambda: ask() == "FencedError", "the paused server to learn that it is fenced")
            second.check_active()
        finally:
            holder.kill()


def test_consumers_epochs_grow_and_survive_a_restart(coordinate, client, destination):
    first = coordinate("a")
    first.campaign()
    assert first.consumers() == []
    assert first.lease_consumer("1001", "one") == ConsumerLease("1001", "one", 1)
    assert first.lease_consumer("1001", "two") == ConsumerLease("1001", "two", 2)
    assert first.lease_consumer("spark-a", "three") == ConsumerLease("spark-a", "three", 3)
    first.release_consumer("spark-a")
    first.release_consumer("spark-a")
    root = f"/otter/canal/destinations/{destination}"
    assert client.exists(f"{root}/spark-a/running") is None
    assert client.exists(f"{root}/1001/running") is not None
    first.close()
    assert client.exists(f"{root}/1001/running") is None
    second = coordinate("b")
    second.campaign()
    remembered = [ConsumerLease("1001", "two", 2), ConsumerLease("spark-a", "three", 3)]
    assert second.consumers() == remembered
    assert second.lease_consumer("1001", "four") == ConsumerLease("1001", "four", 4)


def test_a_released_client_id_leaves_nothing_and_epochs_still_grow(coordinate, client, destination):
    server = coordinate("a")
    epoch = server.campaign()
    store, root = Cursors(server), f"/otter/canal/destinations/{destination}"
    before = client.get_children(root)
    for number in range(1, 6):
        store.save(Subscription(f"client-{number}", "", None), epoch)
        assert server.lease_consumer(f"client-{number}", "me").epoch == number
    store.save(Subscription("client-0", "", None), epoch)
    for number in range(6):
        server.release_consumer(f"client-{number}")
        store.forget(f"client-{number}", epoch)
        server.forget_consumer(f"client-{number}")
    server.forget_consumer("never-there")
    assert client.get_children(root) == before
    assert server.consumers() == []
    assert server.lease_consumer("client-1", "me").epoch == 6
    server.forget_consumer("client-1")
    assert client.get_children(f"{root}/client-1") == ["running"], "a node of a consumer's is left to it"


def test_a_new_incarnation_replaces_the_running_node_of_a_dead_session(coordinate, client, destination):
    old, new = coordinate("a"), coordinate("a")
    old.campaign()
    old.lease_consumer("1001", "one")
    new.campaign()
    node = f"/otter/canal/destinations/{destination}/1001/running"
    assert client.exists(node).ephemeralOwner == old.connection.session_id
    assert new.lease_consumer("1001", "two").epoch == 2
    assert client.exists(node).ephemeralOwner == new.connection.session_id


def test_a_fenced_server_leases_nothing_even_before_it_knows(coordinate, client, destination):
    """The transaction itself refuses, not only the flag."""
    old, new = coordinate("a"), coordinate("a")
    epoch = old.campaign()
    old.connection._watched = lambda _: None
    tenure = old._tenure.last
    new.campaign()
    old._tenure.last = tenure
    with pytest.raises(FencedError) as refusal:
        old.lease_consumer("1001", "late")
    assert refusal.value.details == {"our_epoch": epoch, "current_epoch": epoch + 1}
    assert client.exists(f"/otter/canal/destinations/{destination}/1001") is None


def test_a_removed_epoch_node_fences_instead_of_beginning_anew(coordinate, client, destination):
    server = coordinate("a")
    epoch = server.campaign()
    client.delete(f"/otter/canal/destinations/{destination}/epoch")
    with pytest.raises(FencedError):
        Cursors(server).save(OLD, epoch)
    eventually(lambda: fenced(server), "the server to see it")


def test_closing_ends_a_waiting_campaign(coordinate):
    coordinate("a").campaign()
    second = coordinate("b")
    campaign = Campaign(second)
    eventually(lambda: second.connection.connected, "the second to connect")
    second.close()
    with pytest.raises(UsageError):
        campaign.result()


def test_an_unreachable_ensemble_is_unavailable_and_can_be_retried(coordinate, proxy):
    proxy.cut()
    server = coordinate("a", hosts=proxy.hosts, connect_timeout_s=0.3)
    with pytest.raises(CoordinatorUnavailable):
        server.campaign()
    proxy.mend()
    eventually(lambda: _wins(server), "the second attempt")


def _wins(server):
    try:
        return server.campaign() > 0
    except CoordinatorUnavailable:
        return False


def test_malformed_hosts_are_refused(coordinate):
    with pytest.raises(ConfigError):
        coordinate("a", hosts="127.0.0.1:not-a-port")


def test_no_thread_and_no_descriptor_is_left_behind(coordinate):
    def held():
        return len(os.listdir("/proc/self/fd")), threading.active_count()  # noqa: PTH208

    coordinate("warm-up").campaign()
    descriptors, threads = held()
    for _ in range(5):
        server = coordinate("warm-up")
        server.campaign()
        server.close()
    # One left by each server would be five. The first one's own come and go while it waits.
    eventually(lambda: held()[0] < descriptors + 5, "descriptors to go")
    eventually(lambda: held()[1] <= threads, "threads to go")


def test_the_tests_session_is_what_the_server_gives(coordinate):
    server = coordinate("a")
    server.campaign()
    assert server.connection.session_timeout_s == SESSION_S
