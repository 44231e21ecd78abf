"""The driver's end of a query, on a real instance and without Spark."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from integration.shared_servers import SharedShop
from integration.spark_sink import options
from pyspark.sql.streaming.datasource import ReadAllAvailable

from canal_group.client.range_rows import RangeRows
from canal_group.merge.errors import RolledBack, SchemaGrown
from canal_group.merge.values.offset_range import reaches_back, same_positions
from canal_group.merge.values.position import GroupPosition
from canal_group.spark import CanalGroupDataSource
from canal_group.spark.options import Options
from canal_group.spark.session import Session
from canal_group.spark.source import StreamReader

ROWS_MAX, BYTES_MAX = 7, 1 << 20


def test_what_an_executor_planned_again_does_not_stand_in_the_way(served: SharedShop) -> None:
    """1. A range is planned and taken back. 2. An executor plans it again for itself, and reads it. 3. The
    query goes on after it, as long as it likes, with nothing twice and nothing left out.
    """
    chosen = options(served, served.instance, client="session", startingPosition="latest")
    session = Session(Options.from_spark(chosen))
    try:
        position = session.begin()
        wrote = {name: len(ids) for name, ids in served.written.items()}
        served.write_everywhere(20)
        read: list[tuple[str, int]] = []
        while len(read) < sum(len(ids) - wrote[name] for name, ids in served.written.items()):
            offset_range = session.next_batch(position, ROWS_MAX, BYTES_MAX)
            if offset_range is None:
                continue
            consumer = session._connected()
            if not read:
                consumer.rollback()
            wanted = {"format": "typed", "table": "shop.orders", "before": False}
            rows = RangeRows.of(consumer, offset_range, wanted).read(0, 1)
            read += zip(rows["_shard"].to_pylist(), rows["id"].to_pylist(), strict=True)
            assert same_positions(offset_range.start, position)
            position = offset_range.end
        assert read == sorted(set(read), key=read.index), "nothing comes twice"
        for name, ids in served.written.items():
            assert [row for shard, row in read if shard == name] == ids[wrote[name] :]
        session.finish(position)
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
        position = session.begin()
        served.write_everywhere(20)
        while (offset_range := session.next_batch(position, ROWS_MAX, BYTES_MAX)) is None:
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


def test_a_micro_batch_with_an_unknown_column_is_not_planned_or_read(
    served: SharedShop,
) -> None:
    """1. A row comes after a column is added. 2. With `evolve` its micro-batch is not planned; nor read, if
    the checkpoint has planned it already. 3. With the column it is.
    """
    chosen = options(served, served.instance, client="planned", startingPosition="latest")

    def reader(new_columns: str) -> StreamReader:
        return StreamReader(Options.from_spark(chosen | {"newColumns": new_columns}), schema)

    def planned(by: StreamReader) -> dict[str, Any]:
        while (end := by.latestOffset(start, ReadAllAvailable())) == start:
            pass
        return end

    def read(by: StreamReader, end: dict[str, Any]) -> list[dict[str, Any]]:
        parts = by.partitions(start, end)
        return [row for part in parts for batch in by.read(part) for row in batch.to_pylist()]

    served.write(0, 1)
    schema = CanalGroupDataSource(chosen).schema()
    ignoring = reader("ignore")
    start = ignoring.initialOffset()
    served.servers[0].execute(
        "ALTER TABLE shop_0.orders ADD COLUMN colour VARCHAR(10)",
        "INSERT INTO shop_0.orders VALUES (902, 'n', 1, 'red')",
    )
    while not read(ignoring, end := planned(ignoring)):  # the statement may have a micro-batch of its own
        start = end
    ignoring.stop()
    for attempt in (lambda by: by.partitions(start, end), planned):
        evolving = reader("evolve")
        with pytest.raises(SchemaGrown, match="has a column colour that the query's schema does not have"):
            attempt(evolving)
        evolving.stop()
    schema = CanalGroupDataSource(chosen).schema()
    evolving = reader("evolve")
    rows = read(evolving, planned(evolving))
    assert [(row["id"], row["colour"]) for row in rows] == [(902, "red")]
    evolving._session.give_up()
    evolving.stop()


def test_the_offset_of_a_query_passes_what_nothing_is_kept_of(served: SharedShop) -> None:
    """Without a row of its own, so that no source purges where its checkpoint says."""
    chosen = options(served, served.instance, client="quiet", quietSeconds=0)
    session = Session(Options.from_spark(chosen))
    try:
        start = session.begin()
        served.servers[0].execute(
            "CREATE DATABASE IF NOT EXISTS left_out",
            "CREATE OR REPLACE TABLE left_out.busy (id INT)",
            "INSERT INTO left_out.busy VALUES (1)",
        )
        (file, offset, *_), *_ = served.servers[0].execute("SHOW MASTER STATUS")
        end, reached = start, (start.shards["s0"].file, start.shards["s0"].offset)
        while reached != (file, offset):
            end = session.next(end, 100, 1 << 20)
            reached = end.shards["s0"].file, end.shards["s0"].offset
        assert end.sequence == start.sequence, "there was no row"
        session.finish(end)
    finally:
        session.give_up()
        session.close()
