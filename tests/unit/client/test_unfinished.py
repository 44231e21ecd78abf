from canal_group.client.unfinished import Unfinished
from canal_group.merge.values.position import GroupPosition, Position


def at(sequence, *offsets):
    shards = {f"s{index}": Position("bin.000001", offset) for index, offset in enumerate(offsets)}
    return GroupPosition(shards, sequence)


ONE, TWO, NEXT = (1 << 32) + 1, (1 << 32) + 2, (2 << 32) + 1


def in_doubt(end, before, start=None):
    unfinished = Unfinished()
    unfinished.deliver(ONE, end, start)
    unfinished.doubt(ONE, before)
    return unfinished


def test_a_cursor_at_or_after_a_batchs_end_has_passed_it():
    unfinished = in_doubt(at(5, 100, 50), before=at(0, 4, 4))
    assert unfinished.moved(ONE, at(5, 100, 50))
    assert unfinished.moved(ONE, at(6, 110, 50))
    assert not unfinished.moved(ONE, at(0, 4, 4))
    assert not unfinished.moved(ONE, at(5, 100, 4))
    assert not unfinished.moved(TWO, at(5, 100, 50))


def test_a_batch_inside_a_transaction_moves_nothing_so_nothing_tells():
    assert not in_doubt(at(5, 100), before=at(5, 100)).moved(ONE, at(5, 100))
    assert not in_doubt(at(5, 100), before=at(4, 90), start=at(7, 100)).moved(ONE, at(5, 100))


def test_a_cursor_past_forgotten_batches_was_moved_by_the_one_before():
    assert in_doubt(at(5, 100, 50), before=at(0, 4, 4)).moved(ONE, at(5, 100, 90))
    begun_later = in_doubt(at(5, 100, 50), before=at(0, 4, 4), start=at(5, 100, 60))
    assert not begun_later.moved(ONE, at(5, 100, 90))


def test_a_shard_that_was_added_since_does_not_count():
    assert in_doubt(at(5, 100), before=at(0, 4)).moved(ONE, at(5, 100, 4))


def test_the_cursor_before_an_ack_is_that_of_its_first_attempt():
    unfinished = in_doubt(at(5, 100), before=at(0, 4))
    unfinished.doubt(ONE, at(5, 100))
    assert unfinished.moved(ONE, at(5, 100))


def test_a_rollback_does_not_decide_an_acknowledgement_that_was_sent():
    unfinished = Unfinished()
    for batch_id in (ONE, TWO):
        unfinished.deliver(batch_id, at(5, 100))
    unfinished.doubt(TWO, at(0, 4))
    unfinished.forget()
    assert (unfinished.has(ONE), unfinished.has(TWO)) == (False, True)
    assert unfinished.moved(TWO, at(5, 100))
    assert unfinished.of_other_servers(NEXT) == []
    unfinished.refuse(TWO)
    assert not unfinished.has(TWO)


def test_an_acknowledged_batch_decides_the_older_ones():
    unfinished = Unfinished()
    for batch_id in (ONE, TWO):
        unfinished.deliver(batch_id, at(5, 100))
    unfinished.doubt(ONE, at(0, 4))
    assert unfinished.of_other_servers(NEXT) == [ONE, TWO]
    assert unfinished.of_other_servers(TWO) == []
    unfinished.finish(TWO)
    assert not unfinished.in_doubt(ONE)
    assert unfinished.of_other_servers(NEXT) == [ONE]
