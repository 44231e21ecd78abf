"""The ledger against a list of ids."""

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from support.group.builders import run_of
from support.soak import cases

from canal_group.merge.calls.batch import Batch
from canal_group.merge.delivery.ledger import Ledger
from canal_group.merge.errors import AckOutOfOrder, RetryableError, RolledBack, UnknownBatch
from canal_group.merge.values.position import GroupPosition
from canal_group.merge.values.progress import Progress

NOWHERE = Progress.at(GroupPosition())


def batch_of(batch_id):
    run = run_of()
    return Batch(batch_id, NOWHERE, NOWHERE, run.headers, run.names, 0, 0, 1)


class LedgerMachine(RuleBasedStateMachine):
    @initialize(epoch=st.integers(1, 2**31 - 1), outstanding_max=st.integers(1, 5))
    def begin(self, epoch, outstanding_max):
        self.ledger = Ledger(epoch, outstanding_max)
        self.outstanding_max = outstanding_max
        self.first = self.ledger.next_id
        #: delivered and not acknowledged; all ids so far; those taken back
        self.outstanding, self.delivered, self.taken_back = [], [], set()

    @rule()
    def deliver(self):
        if len(self.outstanding) == self.outstanding_max:
            with pytest.raises(RetryableError) as caught:
                self.ledger.check_room()
            assert caught.value.details["outstanding_max"] == self.outstanding_max
            return
        self.ledger.check_room()
        batch_id = self.ledger.next_id
        assert not self.delivered or batch_id > self.delivered[-1]
        self.ledger.deliver(batch_of(batch_id))
        self.outstanding.append(batch_id)
        self.delivered.append(batch_id)

    def _id(self, away):
        """An id near what was delivered, by its distance from the first."""
        return self.first + away

    @rule(away=st.integers(-2, 30))
    def ack(self, away):
        batch_id = self._id(away)
        if self.outstanding and batch_id == self.outstanding[0]:
            assert self.ledger.ack(batch_id).batch_id == batch_id
            self.outstanding.pop(0)
        elif batch_id in self.outstanding:
            with pytest.raises(AckOutOfOrder) as caught:
                self.ledger.ack(batch_id)
            assert caught.value.details == {"batch_id": batch_id, "oldest": self.outstanding[0]}
        else:
            with pytest.raises(self._refusal(batch_id)) as caught:
                self.ledger.ack(batch_id)
            assert caught.value.details == {"batch_id": batch_id}

    @rule()
    def ack_oldest(self):
        if self.outstanding:
            self.ack(self.outstanding[0] - self.first)

    @rule(away=st.none() | st.integers(-2, 30))
    def rollback(self, away):
        if away is None:
            taken = self.ledger.rollback()
            assert [batch.batch_id for batch in taken] == self.outstanding
            self.taken_back.update(self.outstanding)
            self.outstanding = []
            return
        batch_id = self._id(away)
        if batch_id not in self.outstanding:
            with pytest.raises(self._refusal(batch_id)):
                self.ledger.rollback(batch_id)
            return
        taken = self.ledger.rollback(batch_id)
        kept = self.outstanding.index(batch_id)
        assert [batch.batch_id for batch in taken] == self.outstanding[kept:]
        self.taken_back.update(self.outstanding[kept:])
        self.outstanding = self.outstanding[:kept]

    def _refusal(self, batch_id):
        """RolledBack: of an older server, or taken back. UnknownBatch: acknowledged, or never delivered."""
        return RolledBack if batch_id < self.first or batch_id in self.taken_back else UnknownBatch

    @invariant()
    def outstanding_is_as_told(self):
        if hasattr(self, "ledger"):
            assert [batch.batch_id for batch in self.ledger.outstanding] == self.outstanding
            assert [self.ledger.find(batch_id).batch_id for batch_id in self.outstanding] == self.outstanding


TestLedger = LedgerMachine.TestCase
TestLedger.settings = settings(max_examples=cases(100), stateful_step_count=40, deadline=None)


@pytest.mark.parametrize(("older", "newer"), [(1, 2), (7, 8), (2**31 - 2, 2**31 - 1)])
def test_ids_of_a_newer_epoch_are_greater(older, newer):
    before, after = Ledger(older, 1), Ledger(newer, 1)
    assert before.next_id < before.next_id + 2**31 < after.next_id < 2**63
