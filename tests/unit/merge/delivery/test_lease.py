"""A lease: who holds a client id, and until when."""

import pytest

from canal_group.merge.delivery.lease import Lease
from canal_group.merge.errors import ConsumerActive, FencedError, NotSubscribed


def test_a_new_lease_has_no_holder():
    lease = Lease("c")
    lease.check_free("anybody", 10, 0)
    with pytest.raises(NotSubscribed):
        lease.check_holder(0, 0)
    with pytest.raises(FencedError):
        lease.check_holder(1, 0)


def test_every_call_of_its_holder_prolongs_it():
    lease = Lease("c")
    lease.give("x", 4, at_us=100)
    lease.check_holder(4, 150)
    lease.check_free("x", 10, 155)
    for at_us, left_s in ((150, 1e-5), (159, 1e-6)):
        with pytest.raises(ConsumerActive) as caught:
            lease.check_free("y", 10, at_us)
        assert caught.value.details["retry_after_s"] == left_s
    lease.check_free("y", 10, 160)


def test_a_call_of_another_epoch_prolongs_nothing():
    lease = Lease("c")
    lease.give("x", 4, at_us=100)
    with pytest.raises(FencedError) as caught:
        lease.check_holder(3, 150)
    assert caught.value.details == {"our_epoch": 3, "current_epoch": 4}
    assert lease.seen_us == 100
