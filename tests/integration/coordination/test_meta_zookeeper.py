"""What is stored in a real ZooKeeper. How elections fence them is told in test_coordination_zookeeper.py."""

# ruff: noqa: F401, F811 - fixtures are imported, and used by name

import threading

import pytest
from integration.zookeeper_fixtures import Cursors, coordinate, destination, zookeeper

from canal_group.actors.meta.zookeeper import BYTES_MAX, ZooKeeperStore
from canal_group.actors.ports import Subscription
from canal_group.merge.errors import ConfigError, FencedError
from canal_group.merge.values.gtids.gtid import parse_gtid_set
from canal_group.merge.values.position import GroupPosition, Position
from canal_group.programs.conformance.store import TEXT, StoreConformance, text_of


def at(offset):
    return GroupPosition({"s0": Position("mysql-bin.000001", offset)}, sequence=offset)


@pytest.fixture
def server(coordinate):
    return coordinate("a")


@pytest.fixture
def epoch(server):
    return server.campaign()


@pytest.fixture
def store(server):
    return Cursors(server)


class TestRealZooKeeper(StoreConformance):
    """Each election is won by another incarnation of the server, which takes over at once."""

    @pytest.fixture
    def store(self, server):
        server.campaign()
        return ZooKeeperStore(server.connection, server.connection.tree)

    @pytest.fixture
    def elect(self, coordinate):
        return lambda: coordinate("a").campaign()


def test_subscriptions_come_and_go(store, epoch, server):
    assert store.load(epoch) == []
    fresh, reader = Subscription("0007", "shop\\..*", None), Subscription("1001", "", at(4))
    store.save(reader, epoch)
    store.save(fresh, epoch)
    assert store.load(epoch) == [fresh, reader]
    lease = server.lease_consumer("1001", "me")
    store.forget("1001", epoch)
    store.forget("never-there", epoch)
    assert store.load(epoch) == [fresh]
    assert server.lease_consumer("1001", "me").epoch > lease.epoch
    changed = Subscription("0007", "", at(9))
    store.save(changed, epoch)
    assert store.load(epoch) == [changed]


@pytest.mark.parametrize("wrong", [-1, 0, 2, 99])
def test_no_epoch_but_the_current_one_writes(store, epoch, wrong):
    assert epoch == 1
    for call in (
        lambda: store.save(Subscription("1001", "", at(4)), wrong),
        lambda: store.store.put(TEXT, "late\n", wrong),
        lambda: store.store.claim(wrong),
        lambda: store.load(wrong),
    ):
        with pytest.raises(FencedError) as refusal:
            call()
        assert refusal.value.details == {"our_epoch": wrong, "current_epoch": 1}
    assert store.load(epoch) == []
    assert store.store.get(TEXT, epoch) is None


def test_the_largest_value_that_is_sent_is_one_that_zookeeper_takes(store, epoch):
    """Compressed, a hexadecimal digit takes a little more than half a byte."""

    def filtered(digits):
        return Subscription("1001", text_of(digits, 1), at(4))

    digits = 2 * BYTES_MAX
    while True:
        try:
            store.save(filtered(digits), epoch)
            break
        except ConfigError as refusal:
            excess = refusal.details["bytes"] - BYTES_MAX
            digits -= 2 + int(1.6 * excess)
    assert store.load(epoch) == [filtered(digits)]
    store.save(filtered(digits), epoch)
    with pytest.raises(ConfigError) as refused:
        store.save(filtered(digits + 2_000), epoch)
    assert refused.value.details["bytes"] > BYTES_MAX
    assert store.load(epoch) == [filtered(digits)]


def test_a_cursor_of_thousands_of_shards_with_long_gtid_sets_fits(store, epoch):
    """2 MB of JSON: twice what a node may hold."""

    def gtid_set(shard):
        sources = (f"3e11fa47-71ca-11e1-9e33-{shard * 3 + index:012x}" for index in range(3))
        ranges = f"1-9:11-{shard + 20}:{shard + 30}-99999"
        return parse_gtid_set(",".join(f"{source}:{ranges}" for source in sources))

    many = GroupPosition(
        {
            f"shard-{n}": Position(f"mysql-bin.{n:06}", n * 977, gtid_set(n), commit_us=n * 1_234_567_891)
            for n in range(7_000)
        },
        sequence=1 << 40,
    )
    assert len(many.to_json()) > 2 * BYTES_MAX
    store.save(Subscription("1001", "", at(4)), epoch)
    store.save(Subscription("1001", "", many), epoch)
    assert store.load(epoch) == [Subscription("1001", "", many)]
    store.save(Subscription("1001", "", at(9)), epoch)
    assert store.load(epoch) == [Subscription("1001", "", at(9))]


def test_first_saves_of_one_client_id_from_several_threads_do_not_fail(store, epoch):
    """All find no node and want to create it; those that come late find it, and set it."""
    errors = []
    together = threading.Barrier(4)

    def save(offset):
        together.wait()
        try:
            store.save(Subscription("1001", "", at(offset)), epoch)
        except Exception as error:  # noqa: BLE001 - the test looks at it
            errors.append(error)

    threads = [threading.Thread(target=save, args=(offset,)) for offset in range(4, 8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    (saved,) = store.load(epoch)
    assert saved.cursor in [at(offset) for offset in range(4, 8)]
