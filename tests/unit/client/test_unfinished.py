from canal_group.client.unfinished import Unfinished
from merge.values.position import GroupPosition, Position


def at(sequence, *offsets):
    shards = {f"s{index}": Position("bin.000001", offset) for index, offset in enumerate(offsets)}
    return GroupPosition(shards, sequence)


ONE, TWO, NEXT = (1 << 32) + 1, (1 << 32) + 2, (2 << 32) + 1


def test_a_cursor_that_stands_at_a_batchs_end_was_moved_by_it():
    unfinished = Unfinished()
    unfinished.deliver(ONE, at(5, 100, 50))
    assert unfinished.moved(ONE, before=at(0, 4, 4), now=at(5, 100, 50))
    assert not unfinished.moved(ONE, before=at(0, 4, 4), now=at(0, 4, 4))
    assert not unfinished.moved(ONE, before=at(0, 4, 4), now=at(5, 100, 4))
    assert not unfinished.moved(TWO, before=at(0, 4, 4), now=at(5, 100, 50))


def test_a_batch_inside_a_transaction_moves_nothing_so_nothing_tells():
    unfinished = Unfinished()
    unfinished.deliver(ONE, at(5, 100))
    assert not unfinished.moved(ONE, before=at(5, 100), now=at(5, 100))


def test_a_shard_that_was_added_since_does_not_count():
    unfinished = Unfinished()
    unfinished.deliver(ONE, at(5, 100))
    assert unfinished.moved(ONE, before=at(0, 4), now=at(5, 100, 4))


def test_what_is_taken_back_is_no_longer_in_doubt():
    unfinished = Unfinished()
    for batch_id in (ONE, TWO):
        unfinished.deliver(batch_id, at(5, 100))
        unfinished.doubt(batch_id)
    unfinished.forget(TWO)
    assert (unfinished.in_doubt(ONE), unfinished.in_doubt(TWO)) == (True, False)
    unfinished.refuse(ONE)
    assert not unfinished.in_doubt(ONE)
    assert unfinished.of_other_servers(NEXT) == [ONE]
    assert unfinished.of_other_servers(TWO) == []
    unfinished.finish(ONE)
    assert unfinished.of_other_servers(NEXT) == []
