import pytest

from canal_group.actors.gateway import delivery_lease
from canal_group.actors.gateway.delivery_lease import DELIVERY_LEASE_S, DeliveryLease
from canal_group.merge.errors import RolledBack, ServerUnavailable


class Group:
    """Answers for how many seconds rows may leave; asking and hearing take no time unless told."""

    def __init__(self, monkeypatch):
        self.now_s, self.serves_s, self.asked, self.slow_s = 100.0, 60.0, 0, 0.0
        self.error = None
        monkeypatch.setattr(delivery_lease, "clock_s", lambda: self.now_s)

    def ask(self):
        self.asked += 1
        return self.serves_s

    def wait(self, answer):
        if self.error is not None:
            raise self.error
        self.now_s += self.slow_s
        return answer


@pytest.fixture
def group(monkeypatch):
    return Group(monkeypatch)


def test_the_groups_word_holds_for_a_while(group):
    leave = DeliveryLease(group.ask, group.wait)
    leave.check()
    group.now_s += DELIVERY_LEASE_S * 0.9
    leave.check()
    assert group.asked == 1
    group.now_s += DELIVERY_LEASE_S * 0.2
    leave.check()
    assert group.asked == 2


def test_a_gateway_that_was_paused_in_a_stream_asks_again_and_is_refused(group):
    leave = DeliveryLease(group.ask, group.wait)
    stream = leave.guarded(["one", "two", "three"])
    assert next(stream) == "one"
    group.now_s += 3600
    group.error = RolledBack("another server was elected")
    with pytest.raises(RolledBack):
        next(stream)


def test_nothing_leaves_after_the_servers_tenure(group):
    group.serves_s = 0.1
    leave = DeliveryLease(group.ask, group.wait)
    leave.check()
    group.now_s += 0.2
    group.slow_s = 0.2
    with pytest.raises(ServerUnavailable):
        leave.check()


def test_a_refusal_is_heard_before_the_first_row(group):
    group.error = RolledBack("gone")
    with pytest.raises(RolledBack):
        next(DeliveryLease(group.ask, group.wait).guarded(["one"]))
