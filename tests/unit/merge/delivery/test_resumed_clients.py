"""Where a client goes on that nothing was kept for, whatever the group is just doing."""

import pytest
from support.group.builders import Source, Tx, World

from canal_group.merge import events as ev
from canal_group.merge.calls.consumers import Release
from canal_group.merge.calls.resume import Resume
from canal_group.merge.values.offset_range import OffsetRange
from canal_group.merge.values.position import GroupPosition


@pytest.mark.parametrize("merging", [True, False])
def test_a_client_that_resumes_while_shards_open_misses_nothing(merging):
    """1. `old` is dropped, and the rings forget what it has not acknowledged. 2. A shard is lost, and is to
    be opened where `app` stands. 3. `old` comes back before it is open: it is opened where `old` stands.
    """
    world = World.of(Source(Tx(10), Tx(20), Tx(30)), drop_after_us=1)
    for client in ("app", "old"):
        world.subscribe(client)
    world.report(0, 1)
    for client in ("app", "old"):
        world.ack(world.get(client).batch_id, client)
    world.tell(ev.Asked(world.call(), Release("old", world.epochs["old"]), world.now_us))
    world.tick(2)
    world.save()
    world.report_all()
    world.ack(world.get("app").batch_id, "app")
    world.lose(0)
    if merging:
        world.open_all()
    call = world.request_subscribe("old", resume=Resume.CURSOR)
    world.lease()
    assert world.opening[0].position.offset == world.sources[0].ends[0].offset
    world.open_all()
    world.save()
    assert world.result(call)
    world.report_all()
    assert world.get("old").headers["commit_us"].tolist() == [20, 30]
    assert world.get("app") is None


@pytest.mark.parametrize("offset_ranges", [False, True])
def test_a_transaction_without_rows_does_not_keep_a_ring_full(offset_ranges):
    """1. `one` has passed a transaction of `s0` that is larger than the ring. 2. Before its fragments, which
    are nothing to `one`, stands an empty transaction of `s1`, which is not worth a batch. 3. The ring is full
    of fragments: `one` is given what there is, for nothing more can come.
    """
    large, empty = Source(Tx(20, (1, 1, 1, 1, 1, 1))), Source(Tx(10, (0,)), server=1)
    world = World.of(large, empty, start=False)
    world.ring_size = 4
    begin = {"s0": large.start, "s1": empty.start}
    passed = GroupPosition({**begin, "s0": large.ends[-1]}, 6)
    world.start(
        ev.ConsumerState("one", "", passed, "", 0), ev.ConsumerState("two", "", GroupPosition(begin), "", 0)
    )
    world.open_all()
    world.subscribe("one")
    world.subscribe("two")
    world.report(1, low_watermark_us=99)
    world.report(0)
    world.full(0)
    batch = world.get("two")
    assert len(batch.headers) == 5
    world.ack(batch.batch_id, "two")
    assert world.rings[0].freed == 0
    batch = world.offset_range(OffsetRange(passed), "one") if offset_ranges else world.get("one")
    assert batch.headers["rows"].tolist() == [0]
    world.ack(batch.batch_id, "one")
    assert world.rings[0].freed == 4
    world.report(0)
    assert len(world.get("two").headers) == 2
