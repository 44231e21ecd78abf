"""A loss is logged once: when it is stored, and not by the next server."""

from canal_group.actors.group.loss_warnings import LossWarnings
from canal_group.actors.ports import Subscription
from canal_group.merge.values.loss import with_loss
from canal_group.merge.values.position import Position

ONE = with_loss((), "s0", Position("bin.000001", 4), Position("bin.000002", 4), 1)
TWO = with_loss(ONE, "s0", Position("bin.000003", 9), Position("bin.000005", 4), 2)


def test_each_loss_is_logged_once(caplog):
    warnings = LossWarnings("shop", [Subscription("old", "", None, losses=ONE)])
    assert warnings.stored(Subscription("old", "", None, losses=ONE)) == []
    assert warnings.stored(Subscription("old", "", None, losses=TWO)) == [TWO[1]]
    assert warnings.stored(Subscription("old", "", None, losses=TWO)) == []
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "what its shard left with: shard s0 from bin.000003:9" in record.getMessage()
    assert (record.destination, record.client) == ("shop", "old")
