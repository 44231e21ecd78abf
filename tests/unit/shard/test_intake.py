"""An intake whose reader fails as nobody foresaw: it says where, and nothing of what was read."""

from __future__ import annotations

import logging

import pytest
from support.defaults import ring_of

from canal_group.actors.shard.intake import Intake, IntakeState
from canal_group.actors.store.ring import RingStore
from canal_group.binlog.columns.read_counts import ReadCounts
from canal_group.merge.errors import DataError


class Failing:
    """A reader that fails with a value in its error."""

    server, position, shares_dump, counts = "s", None, False, ReadCounts()
    archive_state = None

    def run(self, _start):
        raise ValueError("invalid literal: " + "TERCES"[::-1])

    def stop(self):
        pass


def test_an_unforeseen_error_names_its_type_and_its_line_only(caplog):
    with caplog.at_level(logging.ERROR):
        intake = Intake("s0", RingStore(ring_of("items", 16, 1)), lambda _: Failing(), None)
        with pytest.raises(DataError, match=r"^Shard s0 stopped: ValueError\.") as caught:
            intake.opened_at(10)
        assert intake.state is IntakeState.STOPPED
        intake.close()
    assert "in run" in caplog.text
    assert "SECRET" not in caplog.text + str(caught.value.to_dict())
