"""Bounded reads: larger than the rings, ended at any position, by several tasks; on a real Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from integration.shared_servers import SharedShop
from integration.spark_sink import CLIENT, options, show_a_row
from support.soak import patient

from canal_group.client.client import Consumer
from canal_group.merge.values.position import GroupPosition

pytestmark = pytest.mark.timeout(patient(180))
#: transactions that the ring of a shard holds
RING = 16


@pytest.fixture(scope="module")
def shared_options() -> dict[str, Any]:
    """Rings that hold little."""
    return {"store": {"mode": "items", "size": RING}}


@pytest.fixture
def beside(served: SharedShop) -> Iterator[Consumer]:
    """A consumer that knows where the sources are; nobody else holds a ring."""
    show_a_row(served, served.instance)
    with served.connect(client_id=CLIENT) as first:
        first.unsubscribe()
    with served.connect(client_id="beside") as beside:
        yield beside


def read(spark: Any, chosen: dict[str, str]) -> list[dict[str, Any]]:
    """Return the rows, each with the task that read it."""
    from pyspark.sql.functions import spark_partition_id

    frame = spark.read.format("canal_group").options(**chosen).load()
    return [row.asDict() for row in frame.withColumn("task", spark_partition_id()).collect()]


def changes(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows by their positions, without what depends on which of equal commit times came first."""
    alike = [{name: row[name] for name in row.keys() - {"_seq", "_commit_version", "task"}} for row in rows]
    return sorted(alike, key=lambda row: (row["_shard"], row["_file"], row["_pos"], row["_row"]))


def left_behind(beside: Consumer, client: str) -> set[str]:
    clients = beside.status()["group"]["clients"]
    return {each["client_id"] for each in clients if each["client_id"].startswith(client)}


@pytest.mark.soak
@pytest.mark.parametrize("tasks", [2, 1])
def test_a_range_larger_than_the_rings_ends_at_any_position(
    spark: Any, served: SharedShop, beside: Consumer, tasks: int
) -> None:
    """1. More is written than rings hold, three times. 2. A position is of different moments in the shards.
    3. What is read up to it is each shard's part, and what is read from it on is the rest.
    """
    begin = beside.locate("latest")
    wrote = {name: len(ids) for name, ids in served.written.items()}
    served.write_everywhere(3 * RING)
    early = beside.locate("latest")
    served.write_everywhere(3 * RING, rows=2)
    late = beside.locate("latest")
    served.write_everywhere(3 * RING)
    beside.unsubscribe()
    position = GroupPosition({"s0": early.shards["s0"], "s1": late.shards["s1"]}).to_json()
    chosen = options(
        served, served.instance, client="range", partitions=tasks, maxRowsPerBatch=9, retrySeconds=20
    )
    before = read(spark, chosen | {"startingPosition": begin.to_json(), "endingPosition": position})
    after = read(spark, chosen | {"startingPosition": position, "columns": "id,_seq"})
    found = {name: [row["id"] for row in before if row["_shard"] == name] for name in served.written}
    assert {name: sorted(ids) for name, ids in found.items()} == {
        "s0": served.written["s0"][wrote["s0"] :][: 3 * RING],
        "s1": served.written["s1"][wrote["s1"] :][: 9 * RING],
    }
    written = sorted(number for name, ids in served.written.items() for number in ids[wrote[name] :])
    assert sorted(row["id"] for row in before + after) == written
    everything = chosen | {"startingPosition": begin.to_json(), "endingPosition": position}
    envelopes = read(spark, {**everything, "table": "", "format": "envelope"})
    assert sorted(row["after"]["id"] for row in envelopes) == sorted(str(row["id"]) for row in before)
    assert not left_behind(beside, "range")


@pytest.mark.soak
def test_several_tasks_have_the_rows_of_one(spark: Any, served: SharedShop, beside: Consumer) -> None:
    """More tasks than Spark runs at once: each has runs of the merged order, and together what one has."""
    begin = beside.locate("latest").to_json()
    beside.unsubscribe()
    for _ in range(4):
        served.write_everywhere(RING)
        # Stretches end between two keys, and sources stamp whole seconds.
        served.servers[0].execute("DO SLEEP(1.1)")
    chosen = options(served, served.instance, client="range", startingPosition=begin, retrySeconds=20)
    alone = read(spark, chosen | {"maxRowsPerBatch": "9"})
    shared = read(spark, chosen | {"maxRowsPerBatch": "9", "partitions": "3"})
    assert {row["task"] for row in shared} == {0, 1, 2}
    for task in range(3):
        order = [row["_seq"] for row in shared if row["task"] == task]
        assert order == sorted(order), "a task has its rows in merged order"
    assert changes(shared) == changes(alone)
    by_seq = sorted(shared, key=lambda row: row["_seq"])
    times = [row["_commit_timestamp"] for row in by_seq]
    assert times == sorted(times), "in merged order all together"
    assert len({row["_seq"] for row in shared}) == len(shared)
    assert not left_behind(beside, "range")


def test_a_position_that_is_not_there_is_refused(spark: Any, served: SharedShop, beside: Consumer) -> None:
    position = beside.locate("latest")
    beside.unsubscribe()
    chosen = options(served, served.instance, client="range")
    later = {name: at.to_dict() | {"offset": at.offset + 1} for name, at in position.shards.items()}
    from_nowhere = position.with_shard("s7", position.shards["s0"])
    ahead = GroupPosition.from_json(position.to_json())
    for name, value in later.items():
        ahead = ahead.with_shard(name, type(position.shards[name]).from_dict(value))
    for ending, sentence in (
        (ahead, "endingPosition is past the current end of the sources' binlogs"),
        (from_nowhere, "names shards that the group does not have: s7"),
    ):
        with pytest.raises(Exception, match=sentence):
            read(spark, chosen | {"endingPosition": ending.to_json()})
