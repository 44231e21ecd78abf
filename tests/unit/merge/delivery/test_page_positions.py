"""Pages of snapshots in a stream: they enter where a transaction ends, and none is read twice."""

from __future__ import annotations

import pytest
from support.group.builders import Source, Tx, World, batch_idents, idents, run_of

from canal_group.merge.values.header import Flag
from canal_group.merge.values.offset_range import (
    OffsetRange,
    arrange,
    covered,
    order_of,
    same_positions,
    up_to,
)
from canal_group.merge.values.position import GroupPosition, Position
from canal_group.merge.values.progress import Progress

#: a transaction, three pages where it ends, the second without a row, and a transaction
STREAM = (
    Tx(10, (2,)),
    Tx(10, (3,), page=True),
    Tx(10, (0,), page=True),
    Tx(10, (4,), page=True),
    Tx(30, (5,)),
)
#: by header, where the position after it is in the pages of its offset
PAGE_ROWS = [0, 3, 4, 8, 0]


def source():
    return Source(*STREAM)


def test_a_position_says_how_much_of_the_pages_at_its_offset_was_read():
    run = run_of(*STREAM)
    progress, found = Progress.at(GroupPosition({"a": Position("bin.000001", 4)})), []
    for index in range(len(run)):
        progress = progress.past(run.headers[index : index + 1], run.names, ("a",), ("s",))
        found.append(progress.ack.shards["a"])
    assert [(each.offset, each.page_rows) for each in found] == list(
        zip([104, 104, 104, 104, 204], PAGE_ROWS, strict=True)
    )
    # The last transaction is looked for on the server: it is no page.
    assert {each.last for each in found[:4]} == {found[0].last}
    assert {str(each.gtid_set) for each in found[:4]} == {str(found[0].gtid_set)}
    assert {each.commit_us for each in found[:4]} == {10}
    at_once = Progress.at(GroupPosition({"a": Position("bin.000001", 4)}))
    assert at_once.past(run.headers[:4], run.names, ("a",), ("s",)).ack.shards["a"] == found[3]
    assert Position.from_dict(found[3].to_dict()) == found[3]
    for index, position in enumerate(found):
        old = up_to(run.headers, run.names, position, same_server=True)
        assert old.tolist() == [at <= index for at in range(len(run))]


def test_a_transaction_begins_after_the_pages_at_its_offset():
    run = run_of(Tx(10), Tx(10, (3,), page=True), Tx(20, (1, 1)))
    progress = Progress.at(GroupPosition({"a": Position("bin.000001", 4)}))
    inside = progress.past(run.headers[:3], run.names, ("a",))
    at, end = inside.ack.shards["a"], inside.end.shards["a"]
    assert (at.page_rows, at.rows_into_transaction) == (3, 0)
    assert (end.offset, end.page_rows, end.rows_into_transaction) == (104, 3, 1)
    assert at < end


@pytest.mark.parametrize("count", range(1, 6))
def test_after_an_ack_the_next_page_follows_and_no_page_again(count):
    """Whether the group begins where the client is, or before that, for another one."""
    for others in ((), ("slow",)):
        world = World.of(source())
        for client in ("c", *others):
            world.subscribe(client)
        world.report(0, count, low_watermark_us=100)
        cursor = world.ack(world.get().batch_id)
        assert cursor.shards["s0"].page_rows == PAGE_ROWS[count - 1]
        world.epoch += 1
        world.restart()
        world.start()
        assert world.opening[0].position.page_rows == (0 if others else PAGE_ROWS[count - 1])
        world.open_all()
        world.subscribe()
        world.report_all()
        rest = world.get()
        expected = idents(source().headers, source().names)[count:]
        assert (batch_idents(rest) if rest is not None else []) == expected


def test_a_page_is_never_late():
    """Although its commit time is that of the transaction before it, and the source has promised more."""
    world = World.of(source(), Source(Tx(20), server=1))
    world.subscribe()
    world.report(0, 1, low_watermark_us=25)
    world.report(1, low_watermark_us=100)
    assert [h["key_us"] for h in world.get().headers] == [10, 20]
    world.report(0, 3, low_watermark_us=25)
    pages = world.get().headers
    assert pages["key_us"].tolist() == [25, 25, 25]
    assert not (pages["flags"] & Flag.LATE).any()


def test_a_page_is_not_late_after_later_keys_of_another_shard():
    world = World.of(source(), Source(Tx(20), server=1))
    for client in ("c", "slow"):
        world.subscribe(client)
    world.report(0, 1, low_watermark_us=25)
    world.report(1, low_watermark_us=100)
    world.ack(world.get().batch_id)
    world.epoch += 1
    world.restart()
    world.start()
    world.open_all()
    world.subscribe()
    world.report_all()
    rest = world.get().headers
    assert rest["key_us"].tolist() == [20, 20, 20, 30]
    assert not (rest["flags"] & Flag.LATE).any()


def test_an_offset_range_ends_between_two_pages():
    world = World.of(source())
    begin = world.subscribe()
    world.report_all()
    found, at = [], begin
    while at.sequence < 15:
        found.append(world.offset_range(OffsetRange(at, rows_max=1)))
        at = found[-1].end
    # The page without a row is delivered with the next one.
    assert [each.end.shards["s0"].page_rows for each in found] == [0, 3, 8, 0]
    world.lose(0)
    world.open_all()
    world.report_all()
    at = begin
    for each in found:
        again = world.offset_range(OffsetRange(at, each.end))
        assert (batch_idents(again), again.end.to_json()) == (batch_idents(each), each.end.to_json())
        at = again.end


def test_a_range_up_to_a_page_waits_for_it():
    run = run_of(*STREAM)
    start = GroupPosition({"a": Position("bin.000001", 4)})
    until = GroupPosition({"a": Position("bin.000001", 104, page_rows=4)})
    assert covered(until, start, run.headers[:2], run.names, ("a",), ("",)) is None
    within = covered(until, start, run.headers, run.names, ("a",), ("",))
    assert within.tolist() == [True, True, True, False, False]
    assert not same_positions(until, GroupPosition({"a": Position("bin.000001", 104)}))
    late = arrange(run.headers, GroupPosition({"a": Position("bin.000001", 4, key_us=20)}))
    assert (late["flags"] & Flag.LATE != 0).tolist() == [True, False, False, False, False]
    assert order_of(run.headers, run.names, ("a",)) != order_of(run.headers[:4], run.names, ("a",))
