"""Sources that were restored from a copy, or reset: it is not a purge, and the error names both GTID sets."""

from __future__ import annotations

import shutil

import pytest
from support.deadline import await_true
from support.sources.purged_logs import read_from, reset, rotate_and_purge
from support.sources.recorder import await_rows, reading
from support.sources.replication import MAKES, gtids, insert, servers

from canal_group.merge.errors import DataError, PositionPurged


def refusal(address, position):
    """What a reader stops with at a position."""
    with pytest.raises(DataError) as caught:
        read_from(address, position)
    return caught.value


def check(error, server, position):
    """It is not a purge, it says nothing of where to go on, and it names what both have."""
    assert not isinstance(error, PositionPurged)
    assert "earliest" not in error.details
    assert error.details["gtid_set"] == str(position.gtid_set)
    assert error.details["executed"] == str(gtids(server))
    assert str(gtids(server)) in str(error)
    assert str(position.gtid_set) in str(error)


@MAKES
@pytest.mark.parametrize("rotations", [0, pytest.param(3, marks=pytest.mark.soak)])
def test_a_source_restored_from_an_older_copy_is_not_called_purged(make, rotations, source_address):
    """1. Its data folder is copied. 2. It goes on, in newer files or in one of the same name, and rows are
    read. 3. The copy takes its place, and has other transactions.
    """
    with servers(make, []) as (server,):
        address = source_address(server)
        insert(server, 1)
        server.stop()
        data, copy = server.folder / "data", server.folder / "copy"
        shutil.copytree(data, copy)
        server.restart()
        server.execute(*["FLUSH BINARY LOGS"] * rotations)
        with reading(address) as recorder:
            recorder.of("opened")
            insert(server, 2, 3, 4, 5, 6)
            await_rows(recorder, "g", 5)
            await_true(lambda: recorder.of("caught_up"), "a promise")
        with reading(address) as recorder:
            await_true(lambda: recorder.of("opened"), "a position")
            (position,) = recorder.of("opened")
        server.stop()
        shutil.rmtree(data)
        copy.rename(data)
        server.restart()
        insert(server, 101)
        check(refusal(address, position), server, position)


@pytest.mark.soak
@MAKES
def test_a_source_that_was_reset_and_purged_is_not_called_purged(make, source_address):
    """Its oldest file has a higher number than the position's: only the GTIDs tell."""
    with servers(make, []) as (server,):
        address = source_address(server)
        insert(server, 1, 2, 3)
        with reading(address) as recorder:
            await_true(lambda: recorder.of("opened"), "a position")
            (position,) = recorder.of("opened")
        reset(server)
        insert(server, 101)
        rotate_and_purge(server)
        check(refusal(address, position), server, position)
