"""The periodic store: what waits, what does not, and what of it survives."""

import itertools
import threading

import pytest

from canal_group.actors.group.stored.cursors import CURSORS
from canal_group.actors.meta.memory import MemoryStore
from canal_group.actors.meta.periodic import OVERDUE_FLUSHES, PeriodicStore
from canal_group.actors.ports import Key
from canal_group.merge.errors import CoordinatorUnavailable, FencedError
from canal_group.programs.conformance.store import MEMBERS, TEXT, StoreConformance

NEVER_S = 3_600


class Disk(MemoryStore):
    """A store that can be away, and counts."""

    def __init__(self):
        super().__init__()
        self.away = False
        self.puts = 0
        self.written = threading.Event()
        self.closed = False

    def put(self, key, text, epoch, *, may_wait=False):
        assert not may_wait
        self.puts += 1
        if self.away:
            raise CoordinatorUnavailable("away")
        super().put(key, text, epoch)
        self.written.set()

    def close(self):
        self.closed = True

    @property
    def held(self):
        return self._values.get(MEMBERS)


@pytest.fixture
def disk():
    return Disk()


@pytest.fixture
def store(disk):
    store = PeriodicStore(disk, CURSORS, NEVER_S)
    store.claim(1)
    store.put(MEMBERS, "4\n", 1, may_wait=True)
    yield store
    store.close()


class TestPeriodic(StoreConformance):
    @pytest.fixture
    def store(self):
        store = PeriodicStore(MemoryStore(), CURSORS, NEVER_S)
        yield store
        store.close()

    @pytest.fixture
    def elect(self):
        return itertools.count(1).__next__


def move(store, text, epoch=1):
    store.put(MEMBERS, text, epoch, may_wait=True)


def test_a_first_value_is_written_at_once_and_the_next_one_waits(store, disk):
    assert disk.held == "4\n"
    move(store, "5\n")
    move(store, "6\n")
    assert disk.held == "4\n"
    store.flush(1)
    assert (disk.held, disk.puts) == ("6\n", 2)
    store.flush(1)
    assert disk.puts == 2, "nothing new, nothing written"


def test_what_may_not_wait_is_written_at_once(store, disk):
    move(store, "5\n")
    store.put(MEMBERS, "6\n", 1)
    assert disk.held == "6\n"
    store.flush(1)
    assert disk.held == "6\n", "the older value does not follow it"


def test_what_waits_is_read_and_listed(store, disk):
    move(store, "5\n")
    assert store.get(MEMBERS, 1) == "5\n"
    assert disk.held == "5\n"
    move(store, "6\n")
    assert store.names(CURSORS, 1) == ["1001"]
    assert disk.held == "6\n"


def test_another_kind_does_not_wait(store, disk):
    for text in ("one\n", "two\n"):
        store.put(TEXT, text, 1, may_wait=True)
        assert disk._values[TEXT] == text
    move(store, "5\n")
    store.append(TEXT, "three\n", 1)
    assert store.get(TEXT, 1) == "two\nthree\n"
    store.delete(TEXT, 1)
    assert TEXT not in disk._values
    assert disk.held == "4\n", "and nothing of its own waits for it"


class Losing(Disk):
    """A store that takes what it is given, and whose answers get lost."""

    losing = False

    def put(self, key, text, epoch, *, may_wait=False):
        super().put(key, text, epoch, may_wait=may_wait)
        if self.losing:
            raise CoordinatorUnavailable("no answer")


def test_nothing_older_follows_a_write_without_an_answer():
    """1. A value waits. 2. Another is to be written at once; the store has it, and its answer is lost.
    3. A flush does not bring the older value back. 4. Until a write is answered, each waits for the store.
    """
    disk = Losing()
    store = PeriodicStore(disk, CURSORS, NEVER_S)
    move(store, "4\n")
    move(store, "5\n")
    disk.losing = True
    with pytest.raises(CoordinatorUnavailable):
        store.put(MEMBERS, "6\n", 1)
    disk.losing = False
    store.flush(1)
    assert disk.held == "6\n"
    disk.losing = True
    with pytest.raises(CoordinatorUnavailable):
        store.put(MEMBERS, "7\n", 1)
    with pytest.raises(CoordinatorUnavailable):
        move(store, "8\n")
    disk.losing = False
    move(store, "9\n")
    assert disk.held == "9\n"
    move(store, "10\n")
    assert disk.held == "9\n", "it waits again"
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


def test_a_value_awaiting_another_epochs_claim_is_not_written_under_it(disk):
    store = PeriodicStore(disk, CURSORS, NEVER_S)
    move(store, "4\n")
    store._writing = Watched()
    errors = []

    def put():
        try:
            store.put(MEMBERS, "5\n", 1)
        except FencedError as error:
            errors.append(error)

    putting = threading.Thread(target=put)

    def claim(epoch):
        putting.start()
        assert store._writing.wanted.wait(10)
        MemoryStore.claim(disk, epoch)

    disk.claim = claim
    store.claim(2)
    putting.join()
    assert errors
    store.flush(2)
    assert disk.held == "4\n"
    store.close()


def test_a_removed_value_does_not_come_back(store, disk):
    move(store, "5\n")
    store.delete(MEMBERS, 1)
    store.flush(1)
    assert disk.held is None
    move(store, "6\n")
    assert disk.held == "6\n", "a first value again"


def test_a_handover_writes_everything_and_a_crash_repeats_what_waited(disk):
    crashed = PeriodicStore(disk, CURSORS, NEVER_S)
    move(crashed, "4\n")
    move(crashed, "5\n")
    assert disk.held == "4\n", "what was acknowledged after it comes twice"
    crashed.close()
    assert disk.held == "5\n"
    assert disk.closed


def test_it_flushes_by_itself(disk):
    store = PeriodicStore(disk, CURSORS, 0.01)
    move(store, "4\n")
    disk.written.clear()
    move(store, "5\n")
    assert disk.written.wait(60)
    store.close()
    assert disk.held == "5\n"


def test_what_waits_under_an_older_epoch_is_never_written(store, disk):
    """1. A value waits. 2. Another server is elected and writes. 3. This one's flush is fenced, for good."""
    move(store, "5\n")
    disk.claim(2)
    disk.put(MEMBERS, "9\n", 2)
    with pytest.raises(FencedError):
        store.flush(1)
    for _ in range(2):
        with pytest.raises(FencedError):
            move(store, "6\n")
        with pytest.raises(FencedError):
            store.flush(1)
    assert disk.held == "9\n"
    store.claim(3)
    assert store.get(MEMBERS, 3) == "9\n"
    move(store, "10\n", 3)
    assert disk.held == "10\n"


def test_a_store_that_does_not_answer_for_long_makes_writes_wait(disk):
    """What can be lost stays bounded: past the bound every put is a write, and refused if it fails."""
    store = PeriodicStore(disk, CURSORS, NEVER_S)
    move(store, "4\n")
    disk.away = True
    move(store, "5\n")
    with pytest.raises(CoordinatorUnavailable):
        store.flush(1)
    store._waiting[MEMBERS] -= OVERDUE_FLUSHES * NEVER_S
    with pytest.raises(CoordinatorUnavailable):
        move(store, "6\n")
    disk.away = False
    move(store, "7\n")
    assert disk.held == "7\n"
    move(store, "8\n")
    assert disk.held == "7\n", "it waits again"
    store.close()


def test_what_cannot_be_written_at_the_end_is_named_in_the_log(disk, caplog):
    store = PeriodicStore(disk, CURSORS, NEVER_S)
    move(store, "4\n")
    move(store, "5\n")
    disk.away = True
    store.close()
    assert str(Key(CURSORS, "1001")) in caplog.text
    assert disk.held == "4\n"
