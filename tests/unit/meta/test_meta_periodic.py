"""The periodic store: what waits, what does not, and what of it survives."""

import threading

import pytest

from actors.meta.memory import MemoryCursorStore
from actors.meta.periodic import OVERDUE_FLUSHES, PeriodicCursorStore
from actors.ports import Subscription
from merge.errors import CoordinatorUnavailable, FencedError
from merge.values.position import GroupPosition, Position

NEVER_S = 3_600


def reader(offset, *, shards=("s0",), pattern=""):
    position = Position("mysql-bin.000001", offset)
    return Subscription("1001", pattern, GroupPosition(dict.fromkeys(shards, position), offset))


class Disk(MemoryCursorStore):
    """A store that can be away, and counts."""

    def __init__(self):
        super().__init__()
        self.away = False
        self.saves = 0
        self.saved = threading.Event()
        self.closed = False

    def save(self, subscription, epoch):
        self.saves += 1
        if self.away:
            raise CoordinatorUnavailable("away")
        super().save(subscription, epoch)
        self.saved.set()

    def close(self):
        self.closed = True


@pytest.fixture
def disk():
    return Disk()


@pytest.fixture
def store(disk):
    store = PeriodicCursorStore(disk, NEVER_S)
    store.claim(1)
    store.save(reader(4), 1)
    yield store
    store.close()


def test_a_new_subscription_is_written_at_once_and_where_it_goes_on_waits(store, disk):
    assert disk.load() == [reader(4)]
    store.save(reader(5), 1)
    store.save(reader(6), 1)
    assert disk.load() == [reader(4)]
    store.flush(1)
    assert (disk.load(), disk.saves) == ([reader(6)], 2)
    store.flush(1)
    assert disk.saves == 2, "nothing new, nothing written"


@pytest.mark.parametrize(
    "changed",
    [reader(5, pattern="shop\\..*"), reader(5, shards=("s0", "s1")), Subscription("1001", "", None)],
)
def test_what_is_more_than_a_step_is_written_at_once(store, disk, changed):
    store.save(reader(5), 1)
    store.save(changed, 1)
    assert disk.load() == [changed]
    store.flush(1)
    assert disk.load() == [changed], "the older cursor does not follow it"


class Losing(Disk):
    """A store that takes what it is given, and whose answers get lost."""

    losing = False

    def save(self, subscription, epoch):
        super().save(subscription, epoch)
        if self.losing:
            raise CoordinatorUnavailable("no answer")


def test_nothing_older_follows_a_write_whose_answer_was_lost():
    """1. A cursor waits. 2. Another shard is to be written at once; the store has it, and its answer is lost.
    3. A flush does not bring the older cursor back. 4. Until a write is answered, each waits for the store.
    """
    disk = Losing()
    store = PeriodicCursorStore(disk, NEVER_S)
    store.save(reader(4), 1)
    store.save(reader(5), 1)
    joined = reader(6, shards=("s0", "s1"))
    disk.losing = True
    with pytest.raises(CoordinatorUnavailable):
        store.save(joined, 1)
    disk.losing = False
    store.flush(1)
    assert disk.load() == [joined]
    disk.losing = True
    for further in (reader(7, shards=("s0",)), reader(8, shards=("s0",))):
        with pytest.raises(CoordinatorUnavailable):
            store.save(further, 1)
    disk.losing = False
    store.save(reader(9, shards=("s0",)), 1)
    assert disk.load() == [reader(9, shards=("s0",))]
    store.save(reader(10, shards=("s0",)), 1)
    assert disk.load() == [reader(9, shards=("s0",))], "it waits again"
    store.close()


class Watched:
    """A lock that says when somebody waits for it."""

    def __init__(self):
        self._lock = threading.Lock()
        self.wanted = threading.Event()

    def __enter__(self):
        if not self._lock.acquire(blocking=False):
            self.wanted.set()
            self._lock.acquire()

    def __exit__(self, *_):
        self._lock.release()


def test_what_waited_for_the_claim_of_another_epoch_is_not_written_under_it(disk):
    store = PeriodicCursorStore(disk, NEVER_S)
    store.save(reader(4), 1)
    store._writing = Watched()
    errors = []

    def save():
        try:
            store.save(reader(5, shards=("s0", "s1")), 1)
        except FencedError as error:
            errors.append(error)

    saving = threading.Thread(target=save)

    def claim(epoch):
        saving.start()
        assert store._writing.wanted.wait(10)
        MemoryCursorStore.claim(disk, epoch)

    disk.claim = claim
    store.claim(2)
    saving.join()
    assert errors
    store.flush(2)
    assert disk.load() == [reader(4)]
    store.close()


def test_a_forgotten_client_id_does_not_come_back(store, disk):
    store.save(reader(5), 1)
    store.forget("1001", 1)
    store.flush(1)
    assert disk.load() == []


def test_a_hand_over_in_good_order_writes_everything_and_a_crash_repeats_what_waited(disk):
    crashed = PeriodicCursorStore(disk, NEVER_S)
    crashed.save(reader(4), 1)
    crashed.save(reader(5), 1)
    assert disk.load() == [reader(4)], "what was acknowledged after it comes twice"
    crashed.close()
    assert disk.load() == [reader(5)]
    assert disk.closed


def test_it_flushes_by_itself(disk):
    store = PeriodicCursorStore(disk, 0.01)
    store.save(reader(4), 1)
    disk.saved.clear()
    store.save(reader(5), 1)
    assert disk.saved.wait(60)
    store.close()
    assert disk.load() == [reader(5)]


def test_what_waits_under_an_older_epoch_is_never_written(store, disk):
    """1. A cursor waits. 2. Another server is elected and writes. 3. This one's flush is fenced, for good."""
    store.save(reader(5), 1)
    disk.claim(2)
    disk.save(reader(9), 2)
    with pytest.raises(FencedError):
        store.flush(1)
    for _ in range(2):
        with pytest.raises(FencedError):
            store.save(reader(6), 1)
        with pytest.raises(FencedError):
            store.flush(1)
    assert disk.load() == [reader(9)]
    store.claim(3)
    assert store.load() == [reader(9)]
    store.save(reader(10), 3)
    assert disk.load() == [reader(10)]


def test_a_store_that_does_not_answer_for_long_makes_acknowledgements_wait(disk):
    """What can come twice stays bounded: past the bound every save is a write, and refused if it fails."""
    store = PeriodicCursorStore(disk, NEVER_S)
    store.save(reader(4), 1)
    disk.away = True
    store.save(reader(5), 1)
    with pytest.raises(CoordinatorUnavailable):
        store.flush(1)
    store._waiting["1001"] -= OVERDUE_FLUSHES * NEVER_S
    with pytest.raises(CoordinatorUnavailable):
        store.save(reader(6), 1)
    disk.away = False
    store.save(reader(7), 1)
    assert disk.load() == [reader(7)]
    store.save(reader(8), 1)
    assert disk.load() == [reader(7)], "it waits again"
    store.close()


def test_what_cannot_be_written_at_the_end_is_named_in_the_log(disk, caplog):
    store = PeriodicCursorStore(disk, NEVER_S)
    store.save(reader(4), 1)
    store.save(reader(5), 1)
    disk.away = True
    store.close()
    assert "'1001'" in caplog.text
    assert disk.load() == [reader(4)]
