"""The ledger's refusals, with their fields; the model test knows the rest."""

import pytest
from support.group.builders import Source, Tx, World

from canal_group.merge.delivery.ledger import Ledger
from canal_group.merge.errors import AckOutOfOrder, RolledBack, UnknownBatch

EPOCH = 3


@pytest.fixture
def delivered():
    """A ledger with three batches."""
    world = World.of(Source(Tx(1, (2,)), Tx(2), Tx(3)), start=False)
    world.epoch = EPOCH
    world.restart()
    world.start()
    world.open_all()
    world.subscribe()
    world.report_all()
    batches = [world.get(rows_max=1) for _ in range(3)]
    return world.group._subscribers.find("c").delivery.ledger, batches


def test_ids_begin_above_those_of_the_epoch_before(delivered):
    _, batches = delivered
    assert [batch.batch_id for batch in batches] == [(EPOCH << 32) + number for number in (1, 2, 3)]
    assert Ledger(EPOCH + 1, 1).next_id > batches[-1].batch_id


def test_a_batch_says_what_it_is(delivered):
    _, (first, second, _) = delivered
    assert (first.rows, first.start.sequence, first.end.sequence) == (2, 0, 2)
    assert first.end == first.ack == second.start
    assert (first.log_start, first.log_stop, first.generation) == (0, 1, 1)


def test_a_batch_says_of_which_server_it_is(delivered):
    assert {batch.server_epoch for batch in delivered[1]} == {EPOCH}


def test_only_the_oldest_is_acknowledged(delivered):
    ledger, (first, second, third) = delivered
    for wrong in (second, third):
        with pytest.raises(AckOutOfOrder) as caught:
            ledger.ack(wrong.batch_id)
        assert caught.value.details == {"batch_id": wrong.batch_id, "oldest": first.batch_id}
        assert str(first.batch_id) in caught.value.hint
        assert ledger.outstanding == [first, second, third]
    assert [ledger.ack(batch.batch_id) for batch in (first, second, third)] == [first, second, third]
    assert ledger.outstanding == []


@pytest.mark.parametrize("away", [-(10**12), -EPOCH, 0])
def test_an_id_of_another_server_was_rolled_back(delivered, away):
    ledger, _ = delivered
    with pytest.raises(RolledBack) as caught:
        ledger.find((EPOCH << 32) + away)
    assert caught.value.details == {"batch_id": (EPOCH << 32) + away}


def test_an_id_that_was_never_delivered_is_unknown(delivered):
    ledger, (*_, third) = delivered
    with pytest.raises(UnknownBatch, match="never delivered"):
        ledger.find(third.batch_id + 1)


def test_acknowledging_twice_is_unknown_and_harmless(delivered):
    ledger, (first, second, third) = delivered
    ledger.ack(first.batch_id)
    with pytest.raises(UnknownBatch, match="acknowledged already"):
        ledger.ack(first.batch_id)
    assert ledger.outstanding == [second, third]


def test_a_rollback_takes_a_batch_and_every_later_one(delivered):
    ledger, (first, second, third) = delivered
    assert ledger.rollback(second.batch_id) == [second, third]
    assert ledger.outstanding == [first]
    for gone in (second, third):
        with pytest.raises(RolledBack):
            ledger.rollback(gone.batch_id)
    assert ledger.next_id == third.batch_id + 1
    assert ledger.rollback() == [first]
    assert ledger.rollback() == []
