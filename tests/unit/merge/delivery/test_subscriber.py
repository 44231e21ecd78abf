"""What becomes one batch: bounds, statements alone, transactions without rows, other servers' positions."""

import numpy as np
import pytest
from support.defaults import batch_limits
from support.group.builders import Source, Tx, World, batch_idents

from canal_group.merge import events as ev
from canal_group.merge.delivery.read_position import HEADERS_MAX
from canal_group.merge.errors import RetryableError
from canal_group.merge.values.gtids.gtid import parse_gtid_set
from canal_group.merge.values.header import Flag
from canal_group.merge.values.offset_range import OffsetRange
from canal_group.merge.values.position import GroupPosition, Position


def running(*transactions, **limits):
    world = World.of(Source(*transactions), limits=batch_limits(**limits))
    world.subscribe()
    world.report_all()
    return world


def all_rows(world, rows_max=10_000):
    """The rows of each header of each batch, until there is none."""
    found = []
    while (batch := world.get(rows_max=rows_max)) is not None:
        found.append(batch.headers["rows"].tolist())
    return found


def test_a_cursor_has_its_files_creation_time_and_opens_shards_with_it():
    """From the report of a shard to the store, and from there to the next server's opening."""
    source = Source(Tx(10), Tx(20))
    world = World.of(source)
    world.subscribe("c")
    ring = world.rings[0]
    run = source.run(0, 2, ring.sequence(0))
    world.tell(ev.ShardReported(0, 1, run, 99, 0, "here", created={"bin.000001": 7}))
    ring.at = 2
    world.ack(world.get("c").batch_id, "c")
    assert world.stored["c"].cursor.shards["s0"].created_s == 7
    world.epoch += 1
    world.restart()
    world.start()
    assert world.opening[0].position.created_s == 7


def test_a_batch_is_bounded_by_rows_asked_for_rows_allowed_and_bytes():
    rows = [Tx(1, (2,)) for _ in range(6)]
    assert all_rows(running(*rows), rows_max=4) == [[2, 2]] * 3
    assert all_rows(running(*rows, rows_max=5)) == [[2, 2]] * 3
    assert all_rows(running(*rows, bytes_max=300)) == [[2, 2, 2]] * 2


def test_a_single_header_leaves_at_any_size():
    assert all_rows(running(Tx(1, (50,)), Tx(2, (1,)), rows_max=5)) == [[50], [1]]
    assert all_rows(running(Tx(1, bytes_each=999), Tx(2), bytes_max=100)) == [[1], [1]]


def test_a_statement_leaves_alone_if_isolated():
    story = [Tx(1), Tx(2), Tx(3, ddl=True), Tx(4, ddl=True), Tx(5)]
    assert all_rows(running(*story)) == [[1] * 5]
    assert all_rows(running(*story, ddl_isolation=True)) == [[1, 1], [1], [1], [1]]


EMPTY = Tx(1, (0,))


def test_transactions_without_rows_leave_with_what_follows_them():
    world = World.of(Source(EMPTY, EMPTY, Tx(1)))
    world.subscribe()
    call = world.request_get()
    world.report(0, 2)
    assert call not in world.answers
    world.report(0)
    assert world.result(call).headers["rows"].tolist() == [0, 0, 1]


@pytest.mark.parametrize(
    ("what", "limits"),
    [
        (Tx(1, (20,)), {"rows_max": 5}),
        (Tx(1, bytes_each=10**6), {"bytes_max": 1000}),
        (Tx(1, ddl=True), {"ddl_isolation": True}),
    ],
)
def test_transactions_without_rows_hold_up_nothing_that_has_to_leave_alone(what, limits):
    world = running(EMPTY, EMPTY, what, EMPTY, what, **limits)
    assert [len(rows) for rows in all_rows(world)] == [3, 2]


def test_many_transactions_without_rows_leave_as_an_empty_batch():
    world = running(*[EMPTY] * 5, empty_headers_max=3)
    batch = world.get()
    assert (batch.rows, len(batch.headers)) == (0, 5)
    assert str(world.ack(batch.batch_id).shards["s0"]) == "bin.000002:204"
    assert running(*[EMPTY] * 2, empty_headers_max=3).get() is None


def test_the_cursor_passes_a_huge_transaction_with_an_empty_last_part():
    world = World.of(Source(Tx(1, (3, 0))))
    world.subscribe()
    world.report(0, 1)
    first = world.get()
    assert str(world.ack(first.batch_id).shards["s0"]) == "bin.000001:4"
    world.report_all()
    last = world.get()
    assert (last.rows, len(last.headers)) == (0, 1)
    assert str(world.ack(last.batch_id).shards["s0"]) == "bin.000001:104"


def test_a_full_ring_of_transactions_without_rows_goes_on():
    world = World.of(Source(*[EMPTY] * 20, Tx(1)), limits=batch_limits(empty_headers_max=4))
    world.ring_size = 4
    world.subscribe()
    seen = 0
    while world.report(0):
        batch = world.get()
        seen += len(batch.headers)
        world.ack(batch.batch_id)
    assert seen == 21


def test_a_ring_full_of_acked_rows_is_freed_without_another_ack():
    """1. Eight transactions are being acknowledged.
    2. The ring, of four, is lost.
    3. The cursor is written.
    """
    world = World.of(Source(*(Tx(1) for _ in range(9))))
    world.subscribe()
    world.report(0, 8)
    batch = world.get()
    world.request_ack(batch.batch_id)
    world.ring_size = 4
    world.lose(0)
    world.save()
    world.open_all()
    for _ in range(3):
        world.report(0)
    assert world.rings[0].at == 9
    world.request_get()
    world.request_get()
    assert batch_idents(world.result(world.calls))[0] == (0, 3, 204, 0, 1)


def test_more_headers_than_are_looked_at_at_once():
    empty, count = Source(EMPTY), HEADERS_MAX + 10
    world = World.of(empty)
    world.subscribe()
    run = empty.run(0, 1)
    headers = run.headers.repeat(count)
    headers["sequence"] = range(count)
    headers["begin_offset"] += headers["sequence"]
    headers["end_offset"] += headers["sequence"]
    headers["rows"][-1] = 1
    world.tell(ev.ShardReported(0, 1, type(run)(headers, run.names), 99, 0))
    sizes = [len(world.get().headers) for _ in range(2)]
    assert sizes == [HEADERS_MAX, 10]


def test_the_bound_on_outstanding_batches():
    world = running(*(Tx(1) for _ in range(4)), outstanding_max=2)
    first = world.get(rows_max=1)
    world.get(rows_max=1)
    with pytest.raises(RetryableError) as caught:
        world.get()
    assert caught.value.details == {"outstanding_max": 2}
    world.ack(first.batch_id)
    assert world.get(rows_max=1).rows == 1


def test_several_gets_wait_and_are_answered_in_order():
    world = World.of(Source(Tx(1), Tx(2), Tx(3)), limits=batch_limits(outstanding_max=2))
    world.subscribe()
    calls = [world.request_get(rows_max=1) for _ in range(3)]
    world.report_all()
    first, second = (world.result(call) for call in calls[:2])
    assert first.end == second.start
    with pytest.raises(RetryableError):
        world.result(calls[2])


def test_a_rollback_to_the_middle_gives_the_same_headers_under_new_ids():
    world = running(*(Tx(1) for _ in range(6)))
    batches = [world.get(rows_max=2) for _ in range(3)]
    assert world.rollback(batches[1].batch_id) == 2
    again = [world.get(rows_max=2) for _ in range(2)]
    assert [batch_idents(batch) for batch in again] == [batch_idents(batch) for batch in batches[1:]]
    assert [batch.batch_id for batch in again] == [batches[2].batch_id + 1, batches[2].batch_id + 2]
    assert [(batch.start, batch.end) for batch in again] == [
        (batch.start, batch.end) for batch in batches[1:]
    ]
    assert (world.ack(batches[0].batch_id), world.ack(again[0].batch_id)) == (again[0].start, again[0].ack)


def test_a_huge_transaction_flows_and_the_cursor_stays_before_it():
    world = running(Tx(1), Tx(2, (2, 2, 2)), Tx(3))
    first, second = world.get(rows_max=3), world.get(rows_max=2)
    assert (str(first.ack.shards["s0"]), str(first.end.shards["s0"])) == (
        "bin.000001:104",
        "bin.000001:104+2 rows",
    )
    world.ack(first.batch_id)
    cursor = world.ack(second.batch_id)
    assert str(cursor.shards["s0"]) == "bin.000001:104"
    assert world.rings[0].freed == 3, "the ring is freed all the same"
    third = world.get()
    assert str(world.ack(third.batch_id).shards["s0"]) == "bin.000001:304"
    assert (first.rows, second.rows, third.rows) == (3, 2, 3)


def test_headers_of_another_server_are_not_taken_for_old_ones():
    """A source failed over to a server with smaller file numbers, while one subscriber is ahead."""
    world = World.of(Source(Tx(10), Tx(20), name="new"), start=False)
    old = Position("old.000900", 500, key_us=5)
    ahead = Position("old.000900", 900, key_us=7)
    world.start(
        ev.ConsumerState("one", "", GroupPosition({"s0": ahead}, 2), "", 0),
        ev.ConsumerState("two", "", GroupPosition({"s0": old}, 1), "", 0),
    )
    world.tell(ev.ShardOpened(0, 1, old, 0))
    del world.opening[0]
    world.rings[0].generation = 1
    world.subscribe("one")
    world.subscribe("two")
    world.report_all()
    assert [len(world.get(client).headers) for client in ("one", "two")] == [2, 2]


def test_of_another_server_with_equal_file_names_the_gtids_say_what_is_old():
    """A failover by GTID while one subscriber is ahead: its place is past all there is, its GTIDs are not.

    The other server wrote in another order: what is old for the one ahead lies between what is new.
    """
    source = Source(Tx(10), Tx(20), Tx(30), Tx(40), Tx(50))
    world = World.of(source, start=False)
    uuid = source.names[-1]
    gtids = [parse_gtid_set(f"{uuid}:1"), parse_gtid_set(f"{uuid}:1:3-4")]
    behind, ahead = (
        Position("bin.000900", 500 + last, gtids[last], key_us=5, server="gone") for last in (0, 1)
    )
    world.start(
        ev.ConsumerState("ahead", "", GroupPosition({"s0": ahead}, 3), "", 0),
        ev.ConsumerState("behind", "", GroupPosition({"s0": behind}, 1), "", 0),
    )
    assert world.opening[0].position == behind
    world.tell(ev.ShardOpened(0, 1, behind, 0))
    del world.opening[0]
    world.subscribe("ahead")
    world.subscribe("behind")
    world.tell(ev.ShardReported(0, 1, source.run(1, 5), 99, 0, "new"))
    found = {client: [world.get(client), world.get(client)] for client in ("ahead", "behind")}
    numbers = {
        client: [batch.headers["gtid_number"].tolist() for batch in batches if batch is not None]
        for client, batches in found.items()
    }
    assert numbers == {"ahead": [[2], [5]], "behind": [[2, 3, 4, 5]]}
    for last in (found["ahead"][1], found["behind"][0]):
        position = last.ack.shards["s0"]
        assert (position.server, str(position.gtid_set)) == ("new", f"{uuid}:1-5")


def test_where_cursor_and_log_begin_at_one_position_nothing_is_compared():
    """The same failover with equal file names, and one subscriber: files that count from 1 again are new."""
    world = World.of(Source(Tx(10), Tx(20)), start=False)
    old = Position("bin.000900", 500, key_us=5)
    world.start(ev.ConsumerState("c", "", GroupPosition({"s0": old}, 1), "", 0))
    world.tell(ev.ShardOpened(0, 1, old, 0))
    del world.opening[0]
    world.rings[0].generation = 1
    world.subscribe()
    world.report_all()
    assert len(world.get().headers) == 2


def test_flags_and_keys_of_the_log_are_not_changed_for_one_subscriber():
    world = running(Tx(5), Tx(6))
    batch = world.get(rows_max=1)
    batch.headers["flags"] |= np.uint16(Flag.LATE)
    batch.headers["key_us"] = 0
    world.rollback()
    assert world.get(rows_max=1).headers["key_us"].tolist() == [5]


@pytest.mark.parametrize("read_by", ["gets", "offset_ranges"])
def test_acked_rows_are_not_repeated_after_an_ack_between_them(read_by):
    """A failover to a server that wrote in another order, and two clients.

    1. The one ahead is delivered what the other server wrote first, and acknowledges it.
    2. What it had from the old server comes: none of it is delivered again.
    """
    source = Source(Tx(10), Tx(20), Tx(30), Tx(40), Tx(50))
    world = World.of(source, start=False)
    uuid = source.names[-1]
    behind, ahead = (
        Position("bin.000900", 500 + position, parse_gtid_set(f"{uuid}:{gtids}"), key_us=5, server="gone")
        for position, gtids in enumerate(("1", "1:3-4"))
    )
    world.start(
        ev.ConsumerState("ahead", "", GroupPosition({"s0": ahead}, 3), "", 0),
        ev.ConsumerState("behind", "", GroupPosition({"s0": behind}, 1), "", 0),
    )
    world.tell(ev.ShardOpened(0, 1, behind, 0))
    del world.opening[0]
    world.free = lambda *_: None
    world.subscribe("ahead")
    world.subscribe("behind")

    def read(cursor):
        return world.get("ahead") if read_by == "gets" else world.offset_range(OffsetRange(cursor), "ahead")

    world.tell(ev.ShardReported(0, 1, source.run(1, 2), 25, 0, "new"))
    first = read(GroupPosition({"s0": ahead}, 3))
    assert first.headers["gtid_number"].tolist() == [2]
    cursor = world.ack(first.batch_id, "ahead")
    world.tell(ev.ShardReported(0, 1, source.run(2, 5, 1), 99, 0, "new"))
    assert read(cursor).headers["gtid_number"].tolist() == [5]


def test_a_batch_ends_before_the_first_of_several_that_are_old():
    """A failover to a server that wrote every second transaction in another order."""
    source = Source(*[Tx(10 * n) for n in range(1, 7)])
    world = World.of(source, start=False)
    uuid = source.names[-1]
    behind, ahead = (
        Position("bin.000900", 500 + position, parse_gtid_set(f"{uuid}:{gtids}"), key_us=5, server="gone")
        for position, gtids in enumerate(("1", "1:3:5"))
    )
    world.start(
        ev.ConsumerState("ahead", "", GroupPosition({"s0": ahead}, 3), "", 0),
        ev.ConsumerState("behind", "", GroupPosition({"s0": behind}, 1), "", 0),
    )
    world.tell(ev.ShardOpened(0, 1, behind, 0))
    del world.opening[0]
    world.subscribe("ahead")
    world.tell(ev.ShardReported(0, 1, source.run(1, 6), 99, 0, "new"))
    found = [world.get("ahead").headers["gtid_number"].tolist() for _ in range(3)]
    assert found == [[2], [4], [6]]
    assert world.get("ahead") is None
