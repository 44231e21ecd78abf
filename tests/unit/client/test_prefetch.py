"""Reading ahead: what is delivered, in which order, whatever happens in between."""

from dataclasses import dataclass, field

import pytest

from canal_group.client.prefetch import Prefetch
from canal_group.merge.errors import NotSubscribed, RetryableError, RolledBack, ServerUnavailable


@dataclass
class Batch:
    batch_id: int
    #: what it holds: a rollback delivers the same under a new id
    number: int


@dataclass
class FakeConsumer:
    """Delivers batches 0, 1, 2 ... `end`, as a server does; `errors` are raised by the next gets."""

    end: int = 5
    outstanding_max: int = 64
    errors: list = field(default_factory=list)
    rollback_generation: int = 0
    closed: bool = False
    ids: int = 0
    at: int = 0
    outstanding: dict = field(default_factory=dict)
    acked: list = field(default_factory=list)
    subscribed: int = 1

    def get_without_ack(self, batch_size, timeout):
        assert (batch_size, timeout) in {(100, 0.0), (100, 1.0)}
        if self.errors:
            raise self.errors.pop(0)
        if len(self.outstanding) >= self.outstanding_max:
            raise RetryableError("so many are outstanding")
        if self.at == self.end:
            return None
        self.ids += 1
        batch = self.outstanding[self.ids] = Batch(self.ids, self.at)
        self.at += 1
        return batch

    def rollback(self, batch_id=None):
        if batch_id is not None and batch_id not in self.outstanding:
            raise RolledBack("it is gone")
        self.rollback_generation += 1
        return self.lose(batch_id or 0)

    def lose(self, batch_id=0):
        """Take back without being asked for it."""
        taken = [number for number in self.outstanding if number >= batch_id]
        for number in reversed(taken):
            self.at = self.outstanding.pop(number).number
        return len(taken)

    def ack(self, batch_id):
        if batch_id not in self.outstanding:
            self.rollback_generation += 1
            raise RolledBack("it is gone")
        assert batch_id == min(self.outstanding), "batches are acknowledged in order"
        self.acked.append(self.outstanding.pop(batch_id).number)

    def read(self, batch):
        if batch.batch_id not in self.outstanding:
            raise RolledBack("it is gone")
        return batch.number

    def resubscribe(self):
        self.subscribed += 1
        self.rollback_generation += 1
        self.lose()
        return True

    def pause(self, seconds):
        assert seconds >= 0
        return not self.closed


def prefetch(consumer, depth=2, read=None):
    return Prefetch(consumer, read or consumer.read, 100, depth, 1.0)


def consume(consumer, depth=2, read=None):
    """Take everything and acknowledge it; return the rows."""
    seen = []
    for batch, number in prefetch(consumer, depth, read):
        seen.append(number)
        consumer.ack(batch.batch_id)
    return seen


@pytest.mark.parametrize("depth", [1, 2, 3, 9])
def test_batches_come_in_order_and_are_acknowledged_in_order(depth):
    consumer = FakeConsumer()
    assert consume(consumer, depth) == consumer.acked == [0, 1, 2, 3, 4]
    assert not consumer.outstanding


def test_the_depth_bounds_the_batches_in_flight():
    consumer = FakeConsumer()
    taken = iter(prefetch(consumer, depth=3))
    next(taken)
    assert len(consumer.outstanding) == 3
    next(taken)
    assert len(consumer.outstanding) == 4, "the one taken first is not acknowledged"


def test_what_was_read_ahead_and_not_taken_is_given_back():
    consumer = FakeConsumer()
    for batch, _ in prefetch(consumer, depth=3):
        consumer.ack(batch.batch_id)
        break
    assert not consumer.outstanding
    assert consume(consumer) == [1, 2, 3, 4]


@pytest.mark.parametrize("everything", [True, False])
def test_a_rollback_brings_the_same_again_and_nothing_stale(everything):
    """1. two are read ahead; 2. the consumer rolls back what it holds; 3. that comes next, then the rest."""
    consumer, seen = FakeConsumer(), []
    for batch, number in prefetch(consumer, depth=3):
        seen.append(number)
        if seen == [0, 1]:
            consumer.rollback(None if everything else batch.batch_id)
            continue
        consumer.ack(batch.batch_id)
    assert seen == [0, 1, 1, 2, 3, 4]
    assert consumer.acked == [0, 1, 2, 3, 4]


def test_a_loss_that_the_acknowledgement_tells_of_brings_everything_again():
    consumer, seen = FakeConsumer(), []
    for batch, number in prefetch(consumer, depth=3):
        seen.append(number)
        if seen == [0, 1]:
            consumer.lose()
        try:
            consumer.ack(batch.batch_id)
        except RolledBack:
            assert seen == [0, 1]
    assert seen == [0, 1, 1, 2, 3, 4]
    assert consumer.acked == [0, 1, 2, 3, 4]


def test_a_loss_that_the_reading_tells_of_brings_everything_again():
    consumer = FakeConsumer()

    def read(batch):
        if batch.batch_id == 3:
            consumer.lose(3)
        return consumer.read(batch)

    assert consume(consumer, depth=3, read=read) == consumer.acked == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("error", [ServerUnavailable("away", retry_after_s=0.0), RolledBack("all of them")])
def test_what_a_get_says_is_lived_through(error):
    consumer = FakeConsumer(errors=[error])
    assert consume(consumer) == [0, 1, 2, 3, 4]


def test_a_lease_that_ran_out_is_taken_again():
    consumer = FakeConsumer(errors=[NotSubscribed("the lease is over")])
    assert consume(consumer) == [0, 1, 2, 3, 4]
    assert consumer.subscribed == 2


def test_rows_that_could_not_be_read_are_read_again():
    consumer, failed = FakeConsumer(), []

    def read(batch):
        if batch.number == 2 and len(failed) < 3:
            failed.append(batch.batch_id)
            raise ServerUnavailable("away", retry_after_s=0.0)
        return consumer.read(batch)

    assert consume(consumer, read=read) == [0, 1, 2, 3, 4]
    assert len(set(failed)) == 1, "under one id: it stayed outstanding"


def test_the_bound_on_outstanding_batches_does_not_fail_a_prefetch():
    consumer = FakeConsumer(outstanding_max=2)
    assert consume(consumer, depth=5) == [0, 1, 2, 3, 4]


def test_a_lasting_error_is_raised_and_nothing_stays_outstanding():
    consumer = FakeConsumer()

    def read(batch):
        if batch.number == 1:
            raise ValueError("not a table")
        return consumer.read(batch)

    with pytest.raises(ValueError, match="not a table"):
        consume(consumer, depth=3, read=read)
    assert consumer.acked == [0]
    assert not consumer.outstanding


def test_a_closed_consumer_ends_the_iteration():
    consumer, seen = FakeConsumer(), []
    for batch, number in prefetch(consumer):
        seen.append(number)
        consumer.ack(batch.batch_id)
        consumer.closed = number == 2
    assert seen == [0, 1, 2]


def test_a_give_back_without_an_answer_is_asked_for_once():
    """The consumer's next get takes back what it asked for."""

    class Away(FakeConsumer):
        asked: tuple = ()

        def rollback(self, batch_id=None):
            self.asked += (batch_id,)
            raise ServerUnavailable("no answer")

    consumer = Away()
    for batch, _ in prefetch(consumer, depth=3):
        consumer.ack(batch.batch_id)
        break
    assert consumer.asked == (2,)
