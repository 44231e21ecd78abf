"""The driver's end of a query, on a real instance and without Spark."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from integration.shared_servers import SharedShop
from integration.spark_sink import options

from canal_group.client.range_rows import RangeRows
from canal_group.spark.options import Options
from canal_group.spark.session import Session
from merge.errors import RolledBack
from merge.values.offset_range import reaches_back, same_places
from merge.values.position import GroupPosition

ROWS_MAX, BYTES_MAX = 7, 1 << 20


def test_what_an_executor_planned_again_does_not_stand_in_the_way(served: SharedShop) -> None:
    """1. A range is planned and taken back. 2. An executor plans it again for itself, and reads it. 3. The
    query goes on behind it, as long as it likes, with nothing twice and nothing left out.
    """
    chosen = options(served, served.instance, client="session", startingPosition="latest")
    session = Session(Options.from_spark(chosen))
    try:
        place = session.begin()
        wrote = {name: len(ids) for name, ids in served.written.items()}
        served.write_everywhere(20)
        read: list[tuple[str, int]] = []
        while len(read) < sum(len(ids) - wrote[name] for name, ids in served.written.items()):
            offset_range = session.next_batch(place, ROWS_MAX, BYTES_MAX)
            if offset_range is None:
                continue
            consumer = session._connected()
            if not read:
                consumer.rollback()
            wanted = {"format": "typed", "table": "shop.orders", "before": False}
            rows = RangeRows.of(consumer, offset_range, wanted).read(0, 1)
            read += zip(rows["_shard"].to_pylist(), rows["id"].to_pylist(), strict=True)
            assert same_places(offset_range.start, place)
            place = offset_range.end
        assert read == sorted(set(read), key=read.index), "nothing comes twice"
        for name, ids in served.written.items():
            assert [row for shard, row in read if shard == name] == ids[wrote[name] :]
        session.finish(place)
        state = next(each for each in consumer.status()["group"]["clients"] if each["client_id"] == "session")
        assert state["outstanding"] == []
    finally:
        session.give_up()
        session.close()


def test_parts_of_a_range_are_of_one_order(served: SharedShop) -> None:
    """1. Parts of a range are planned. 2. It comes in another order when planned again: none is read."""
    chosen = options(served, served.instance, client="orders", startingPosition="latest")
    session = Session(Options.from_spark(chosen))
    try:
        place = session.begin()
        served.write_everywhere(20)
        while (offset_range := session.next_batch(place, ROWS_MAX, BYTES_MAX)) is None:
            pass
        rows = RangeRows.of(session._connected(), offset_range, {"format": "envelope"})
        session._connected().rollback()
        with pytest.raises(RolledBack, match="has changed: another server of a source"):
            replace(rows, order="of another server").read(0, 1)
        assert rows.read(0, 1).num_rows == offset_range.rows
    finally:
        session.give_up()
        session.close()


def test_a_word_is_the_same_start_for_a_query_and_for_a_consumer(served: SharedShop) -> None:
    """What a query asks for with `startingPosition` is what `connect(start=...)` and `consume --from` do."""
    served.write_everywhere(3)
    moment = datetime.now(UTC)
    # Sources stamp whole seconds.
    served.servers[0].execute("DO SLEEP(1.1)")
    served.write_everywhere(3)
    with served.connect(client_id="first") as first:
        position = first.locate(moment.isoformat())
    begins: dict[str, GroupPosition] = {}
    consumers: dict[str, GroupPosition] = {}
    words = ("earliest", moment.isoformat(), "-7d", position.to_json(), "latest")
    for word in words:
        session = Session(
            Options.from_spark(options(served, served.instance, client="query", startingPosition=word))
        )
        try:
            begins[word] = session.begin()
        finally:
            session.give_up()
            session.close()
        with served.connect(client_id="second", start=word) as second:
            consumers[word] = second.cursor
            second.unsubscribe()
    for word in words[:-1]:
        assert begins[word].shards == consumers[word].shards, word
    assert begins[moment.isoformat()].shards == position.shards
    assert reaches_back(position.shards, begins["latest"].shards)
    assert not reaches_back(begins["latest"].shards, position.shards)
    # A consumer disturbs nobody: it also gets what the instance still holds.
    assert reaches_back(consumers["latest"].shards, begins["latest"].shards)
