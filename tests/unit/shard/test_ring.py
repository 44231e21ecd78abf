"""The ring: waits that are ended, positions, and what is refused; the model test knows the rest."""

import threading
import time
from dataclasses import replace

import pytest
from support.group.builders import Tx, chunk_of

from canal_group.actors.store.ring import RingStore
from canal_group.conf.stream_settings import StoreSettings
from canal_group.merge.errors import ShardUnavailable, UsageError
from canal_group.merge.values.ddl_mark import DdlMark

JOIN_S = 30.0
#: longer than any test waits
FOREVER_S = 1000.0


def test_it_begins_after_the_page_that_was_acknowledged_last():
    ring = ring_of()
    ring.put(chunk_of(Tx(10), Tx(10, (3,), page=True), Tx(10, (2,), page=True)))
    ring.get_within(0)
    found = []
    for sequence in range(3):
        ring.ack(sequence)
        position = ring.first_position()
        found.append((position.offset, position.page_rows, position.rows_into_transaction))
    assert found == [(104, 0, 0), (104, 3, 0), (104, 5, 0)]


def ring_of(size=4, mode="items", memunit_bytes=1):
    return RingStore(StoreSettings(mode=mode, size=size, memunit_bytes=memunit_bytes))


def outcome(call):
    """Run a call on a thread; return a function that waits for what it returned or raised."""
    outcomes = []

    def run():
        try:
            outcomes.append(call())
        except ShardUnavailable as error:
            outcomes.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def wait():
        thread.join(JOIN_S)
        assert not thread.is_alive()
        return outcomes[0]

    return wait


def wait_until_gathering(ring):
    """Wait until a reader waits for more than the first header."""
    deadline = time.monotonic() + JOIN_S
    while not ring._not_empty._waiters:
        assert time.monotonic() < deadline


def wait_until_short(ring):
    """Wait until a put waits for room."""
    deadline = time.monotonic() + JOIN_S
    while not ring.short:
        assert time.monotonic() < deadline


def commits(run):
    return run.headers["commit_us"].tolist()


def test_an_empty_ring():
    ring = ring_of()
    assert len(ring.get_within(0.0)) == 0
    assert ring.first_position() is None
    assert (ring.cursors, ring.bytes_held) == ((-1, -1, -1), 0)
    assert ring.fetch(0, 0) == []
    ring.put(chunk_of())
    assert ring.cursors == (-1, -1, -1)


def test_a_chunk_larger_than_the_ring_enters_in_parts_after_acks():
    ring = ring_of(size=2)
    chunk = chunk_of(*(Tx(time) for time in range(5)))
    writer = outcome(lambda: ring.put(chunk))
    seen = []
    while len(seen) < 5:
        run = ring.get_within(JOIN_S)
        seen += commits(run)
        ring.ack(int(run.headers["sequence"][-1]))
    assert writer() is None
    assert seen == [0, 1, 2, 3, 4]


def test_one_header_of_any_size_is_admitted_below_the_bound():
    ring = ring_of(size=4, mode="memory")
    ring.put(chunk_of(Tx(1, bytes_each=3)))
    ring.put(chunk_of(Tx(2, bytes_each=999)))
    writer = outcome(lambda: ring.put(chunk_of(Tx(3, bytes_each=1))))
    wait_until_short(ring)
    assert ring.bytes_held == 1002
    ring.get_within(0.0)
    ring.ack(1)
    assert writer() is None
    assert ring.bytes_held == 1


def test_a_ring_is_short_while_a_put_waits_for_room():
    ring = ring_of(size=2)
    writer = outcome(lambda: ring.put(chunk_of(Tx(1), Tx(2), Tx(3))))
    wait_until_short(ring)
    ring.get_within(0.0)
    assert ring.short, "handed out is not acknowledged"
    waiting = ring.describe()
    assert (waiting["full"], waiting["waits"]) == (True, 1)
    ring.ack(1)
    assert writer() is None
    assert not ring.short
    after = ring.describe()
    assert (after["full"], after["waits"]) == (False, 1)
    assert after["waited_s"] >= waiting["waited_s"] >= 0


def test_close_ends_a_put_that_waits():
    ring = ring_of(size=1)
    ring.put(chunk_of(Tx(1)))
    writer = outcome(lambda: ring.put(chunk_of(Tx(2))))
    ring.close()
    assert isinstance(writer(), ShardUnavailable)


def test_close_ends_a_get_that_waits():
    ring = ring_of()
    reader = outcome(lambda: ring.get_within(JOIN_S))
    ring.close()
    assert isinstance(reader(), ShardUnavailable)


def test_a_closed_ring_takes_nothing_and_hands_out_what_it_has():
    ring = ring_of()
    ring.put(chunk_of(Tx(1)))
    ring.close()
    with pytest.raises(ShardUnavailable):
        ring.put(chunk_of(Tx(2)))
    assert commits(ring.get_within(JOIN_S)) == [1]
    with pytest.raises(ShardUnavailable):
        ring.get_within(JOIN_S)


def test_a_put_ends_a_get_that_waits():
    ring = ring_of()
    reader = outcome(lambda: ring.get_within(JOIN_S))
    ring.put(chunk_of(Tx(1)))
    assert commits(reader()) == [1]


def test_wake_ends_a_timed_get_with_nothing():
    ring = ring_of()
    reader = outcome(lambda: ring.get_within(JOIN_S))
    deadline = time.monotonic() + JOIN_S
    while not ring._not_empty._waiters:
        assert time.monotonic() < deadline
    ring.wake()
    assert len(reader()) == 0


def test_headers_are_gathered_until_there_are_many():
    """A ring of 16 slots: a quarter of it is many, and an eighth is the mark of more to come."""
    ring = ring_of(size=16)
    ring.put(chunk_of(*(Tx(number) for number in range(3))))
    reader = outcome(lambda: ring.get_within(JOIN_S, gather_s=FOREVER_S))
    ring.put(chunk_of(Tx(3)))
    run = reader()
    assert commits(run) == [0, 1, 2, 3]
    assert ring.is_much(run)
    ring.put(chunk_of(Tx(4), Tx(5)))
    assert ring.is_much(ring.get_within(0.0))
    ring.put(chunk_of(Tx(6)))
    assert not ring.is_much(ring.get_within(0.0))


def test_gathering_ends_at_the_bound():
    ring = ring_of(size=16)
    ring.put(chunk_of(*(Tx(number) for number in range(15))))
    ring.get_within(0.0)
    ring.put(chunk_of(Tx(15)))
    assert commits(outcome(lambda: ring.get_within(JOIN_S, gather_s=FOREVER_S))()) == [15]
    full = ring_of(size=16, mode="memory", memunit_bytes=50)
    full.put(chunk_of(*(Tx(number) for number in range(7))))
    full.get_within(0.0)
    full.put(chunk_of(Tx(7)))
    assert commits(outcome(lambda: full.get_within(JOIN_S, gather_s=FOREVER_S))()) == [7]


def test_wake_and_close_end_the_gathering():
    for end in (RingStore.wake, RingStore.close):
        ring = ring_of(size=64)
        ring.put(chunk_of(Tx(1)))
        reader = outcome(lambda ring=ring: ring.get_within(JOIN_S, gather_s=FOREVER_S))
        wait_until_gathering(ring)
        end(ring)
        assert commits(reader()) == [1]


def test_a_rollback_ends_a_get_that_waits():
    ring = ring_of()
    ring.put(chunk_of(Tx(1)))
    ring.get_within(JOIN_S)
    reader = outcome(lambda: ring.get_within(JOIN_S))
    ring.rollback()
    assert commits(reader()) == [1]


def test_only_what_was_handed_out_is_acknowledged():
    ring = ring_of()
    ring.put(chunk_of(Tx(1), Tx(2)))
    with pytest.raises(UsageError):
        ring.ack(0)
    assert ring.cursors == (-1, -1, 1)
    ring.get_within(0.0, items_max=1)
    with pytest.raises(UsageError):
        ring.ack(1)
    ring.ack(0)
    ring.ack(-1)
    assert ring.cursors == (0, 0, 1)


def test_the_first_position_survives_its_slot():
    """The slot of the last acknowledged header is the next one to be written."""
    ring = ring_of(size=2)
    ring.put(chunk_of(Tx(1), Tx(2)))
    ring.get_within(0.0)
    ring.ack(0)
    first = ring.first_position()
    assert (first.file, first.offset, first.commit_us) == ("bin.000001", 104, 1)
    ring.put(chunk_of(Tx(9)))
    assert ring.cursors == (0, 1, 2)
    assert ring.first_position() == first
    ring.rollback()
    assert ring.first_position() == first


def test_positions_inside_a_huge_transaction_say_how_many_rows():
    ring = ring_of()
    ring.put(chunk_of(Tx(1, (2, 3, 4))))
    ring.get_within(0.0, items_max=2)
    ring.ack(1)
    assert str(ring.first_position()) == "bin.000001:4+5 rows"


def test_fetch_refuses_what_is_not_there():
    ring = ring_of()
    ring.put(chunk_of(Tx(1), Tx(2)))
    ring.get_within(0.0)
    ring.ack(0)
    for begin, end in ((0, 1), (0, 2), (1, 3), (2, 4)):
        with pytest.raises(UsageError):
            ring.fetch(begin, end)
    (stored,) = ring.fetch(1, 2)
    assert (stored.first_sequence, stored.header_begin, stored.header_end) == (1, 1, 2)


def test_rows_of_a_chunk_are_kept_until_its_last_header_is_acknowledged():
    ring = ring_of()
    ring.put(chunk_of(Tx(1), Tx(2)))
    ring.get_within(0.0)
    ring.ack(0)
    assert len(ring._payload) == 1
    ring.ack(1)
    assert len(ring._payload) == 0


def test_a_listener_is_called_after_each_ack_that_frees():
    ring, freed = ring_of(), []
    ring.on_free(lambda: freed.append(ring.cursors[0]))
    ring.put(chunk_of(Tx(1), Tx(2)))
    ring.get_within(0.0)
    ring.ack(0)
    ring.ack(0)
    ring.ack(1)
    assert freed == [0, 1]


def test_marks_come_with_their_headers_until_these_are_acknowledged():
    marks = [DdlMark(number, "ALTER", "s.t", "s.t") for number in (1, 2, 3)]
    ring = ring_of(8)
    chunk = chunk_of(*(Tx(number) for number in range(5)))
    ring.put(replace(chunk, ddls={4: marks[2], 0: marks[0], 3: marks[1]}))
    assert ring.get_within(0.0, 4).ddls == {0: marks[0], 3: marks[1]}
    assert ring.get_within(0.0).ddls == {4: marks[2]}
    ring.ack(0)
    assert list(ring._ddls) == [3, 4]
    ring.rollback()
    assert ring.get_within(0.0).ddls == {3: marks[1], 4: marks[2]}


def test_a_chunk_that_is_stored_in_parts_keeps_its_marks():
    mark = DdlMark(1, "ALTER", "s.t", "s.t")
    ring = ring_of(2)
    done = outcome(lambda: ring.put(replace(chunk_of(*(Tx(number) for number in range(3))), ddls={2: mark})))
    wait_until_short(ring)
    assert ring.get_within(0.0).ddls == {}
    ring.ack(0)
    done()
    assert ring.get_within(0.0).ddls == {2: mark}
