"""A group that is ordered by ids: batches, recovery, offset ranges and status."""

import numpy as np
import pytest
from support.group.builders import Source, Tx, World

from canal_group.merge.errors import UsageError
from canal_group.merge.values.header import Flag
from canal_group.merge.values.offset_range import OffsetRange, arrange
from canal_group.merge.values.position import GroupPosition

WITHIN_US = 10


def tx(commit_us, order_id=0, rows=(1,)):
    return Tx(commit_us, rows, order_id=order_id)


def world_of(*sources):
    return World.of(*sources, ids_within_us=WITHIN_US)


def against_time():
    """Two shards whose ids contradict their commit times, by less than the contract allows."""
    return (
        Source(tx(100, 20), tx(102, 40), server=0),
        Source(tx(104, 10), tx(106, 30), server=1),
    )


def ids(batch):
    return batch.headers["order_id"].tolist()


def test_a_batch_is_ordered_by_id():
    world = world_of(*against_time())
    world.subscribe()
    world.report_all()
    batch = world.get()
    assert ids(batch) == [10, 20, 30, 40]
    assert batch.headers["key_us"].tolist() == [104, 100, 106, 102], "times are times"
    assert not (batch.headers["flags"] & Flag.LATE).any()


def test_the_status_says_by_what_it_is_ordered():
    world = world_of(*against_time())
    world.report(0)
    world.report(1)
    order = world.group.describe(0)["order"]
    assert order == {"kind": "id", "commit_within_s": 1e-5, "watermark_id": 30}
    assert World.of(Source()).group.describe(0)["order"] == {"kind": "time"}


def test_unacked_rows_come_in_order_and_not_late_after_a_restart():
    """The cursor has passed a greater time than those of the rest."""
    world = world_of(*against_time())
    world.subscribe()
    world.report_all()
    batch = world.get(rows_max=1)
    assert ids(batch) == [10]
    world.ack(batch.batch_id)
    world.restart()
    world.start()
    world.open_all()
    world.report_all()
    world.subscribe()
    batch = world.get()
    assert ids(batch) == [20, 30, 40]
    assert not (batch.headers["flags"] & Flag.LATE).any()
    assert world.group.describe(0)["late"] == 0


def test_a_client_ahead_of_another_gets_the_rest_in_order_and_not_late():
    """Its cursor has passed a time that is after those of the rest, and the log begins before it."""
    world = world_of(*against_time())
    world.subscribe("slow")
    world.subscribe("fast")
    world.report_all()
    batch = world.get("fast", rows_max=1)
    world.ack(batch.batch_id, "fast")
    world.restart()
    world.start()
    world.open_all()
    world.report_all()
    world.subscribe("fast")
    world.subscribe("slow")
    assert ids(world.get("slow")) == [10, 20, 30, 40]
    batch = world.get("fast")
    assert ids(batch) == [20, 30, 40]
    assert batch.headers["key_us"].tolist() == [100, 106, 102]
    assert not (batch.headers["flags"] & Flag.LATE).any()


def test_a_cursor_of_the_order_by_time_goes_on_by_ids_and_back():
    world = World.of(*against_time())
    world.subscribe()
    world.report_all()
    batch = world.get(rows_max=2)
    assert ids(batch) == [20, 40]
    world.ack(batch.batch_id)
    cursor = world.stored["c"].cursor
    by_id = world_of(*against_time())
    assert by_id.subscribe(start=cursor, move=True).shards == cursor.shards
    by_id.report_all()
    assert ids(by_id.get()) == [10, 30]


def test_an_offset_range_is_the_same_when_it_is_read_again_in_other_pieces():
    world = world_of(*against_time())
    start = world.subscribe()
    world.report_all()
    first = world.offset_range(OffsetRange(start))
    assert ids(first) == [10, 20, 30, 40]
    until = first.after.end
    again = world_of(*against_time())
    again.subscribe()
    again.report_all()
    assert ids(again.get(rows_max=1)) == [10]
    second = again.offset_range(OffsetRange(start, until))
    if again.opening:
        again.open_all()
        again.report_all()
        second = again.offset_range(OffsetRange(start, until))
    assert ids(second) == ids(first)
    assert second.after.end == until


@pytest.mark.parametrize("fragments", [[25], [0, 25], [5, 25, 0]])
def test_an_offset_range_takes_the_greatest_id_of_all_fragments(fragments):
    """How a transaction is cut depends on what the socket held, and must not decide."""
    one = Source(tx(1, 10), tx(2, 0, (1,) * len(fragments)), tx(3)).headers
    one["order_id"][1:-1] = fragments
    other = Source(tx(1, 20), tx(1, 30)).headers
    other["shard"] = 1
    headers = np.concatenate([one, other])
    headers["flags"] |= np.uint16(Flag.BY_ID)
    arranged = arrange(headers, GroupPosition())
    begins = arranged[(arranged["flags"] & Flag.BEGIN) != 0]
    offsets = list(zip(begins["shard"].tolist(), begins["begin_offset"].tolist(), strict=True))
    assert offsets == [(0, 4), (1, 4), (0, 104), (0, 204), (1, 104)]


def test_an_offset_range_cannot_end_at_a_time():
    world = world_of(*against_time())
    start = world.subscribe()
    with pytest.raises(UsageError, match="ordered by id, so an offset range of it cannot end at a time"):
        world.offset_range(OffsetRange(start, key_us_max=105))
