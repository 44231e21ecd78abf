"""Where a query begins and ends, and what of a table it reads; on a real Spark, over one instance."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from integration.shop import Shop
from integration.spark_sink import Sink, options, serving
from support.soak import patient

from canal_group.actors.coordination.embedded import EmbeddedZooKeeper
from canal_group.actors.driver.instance import Instance
from canal_group.merge.values.position import GroupPosition
from canal_group.spark import frames
from playground.database.mariadb import MariaDbServer

pytestmark = pytest.mark.timeout(patient(180))


@pytest.fixture(scope="module")
def served(
    one_ray: None,
    one_zookeeper: EmbeddedZooKeeper,
    two_servers: list[MariaDbServer],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Shop, Instance]]:
    for server in two_servers:
        # `earliest` is where this module begins, not where the tests before it did.
        server.execute("RESET MASTER")
    shop = Shop(two_servers, one_zookeeper.hosts, tmp_path_factory.mktemp("ranges"))
    with serving(shop) as instance:
        yield shop, instance


def read(spark: Any, chosen: dict[str, str]) -> list[Any]:
    """Return the rows of a bounded read; both ways to read have the same, in some order of equal times."""
    source = spark.read.format("canal_group").options(**chosen).load()
    frame = frames.read(spark, chosen)
    assert frame.schema == source.schema
    rows: list[Any] = source.collect()
    assert changes(frame.collect()) == changes(rows)
    return rows


def changes(rows: list[Any]) -> list[str]:
    """Return rows in any fixed order, without what depends on which of equal commit times came first."""
    numbers = ("_seq", "_commit_version")
    return sorted(str([each for each in row.asDict().items() if each[0] not in numbers]) for row in rows)


def test_ranges_that_meet_at_a_time_hold_every_change_once(spark: Any, served: tuple[Shop, Instance]) -> None:
    """1. Writers write before and after a time. 2. What is read up to it and from it on is all there is."""
    shop, instance = served
    with shop.connect(instance, client_id="now") as now:
        begin = now.locate("latest").to_json()
        now.unsubscribe()
    shop.write_everywhere(5)
    before = shop.rows
    # Sources stamp whole seconds.
    shop.servers[0].execute("DO SLEEP(1.1)")
    moment = datetime.now(UTC).replace(microsecond=0).isoformat()
    shop.write_everywhere(4, rows=3)
    chosen = options(shop, instance, client="range", maxRowsPerBatch=7)
    early = read(spark, chosen | {"startingPosition": begin, "endingPosition": moment})
    late = read(spark, chosen | {"startingPosition": moment})
    written = sorted(number for ids in shop.written.values() for number in ids)
    assert sorted(row.id for row in early + late) == written[-len(early + late) :]
    assert (len(early), len(late)) == (10, shop.rows - before)
    assert [row._seq for row in early] == sorted(row._seq for row in early)
    with shop.connect(instance, client_id="now") as now:
        clients = {client["client_id"] for client in now.status()["group"]["clients"]}
        now.unsubscribe()
    assert "range" not in clients, "a bounded read leaves nothing behind"


def test_a_query_from_the_latest_sees_what_comes_later_only(
    spark: Any, served: tuple[Shop, Instance], tmp_path: Path
) -> None:
    shop, instance = served
    sink, chosen = Sink(), options(shop, instance, client="late", startingPosition="latest")
    sink.at = lambda _: None
    reader = spark.readStream.format("canal_group").options(**chosen)
    writing = reader.load().writeStream.foreachBatch(sink)
    query = writing.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        while not query.recentProgress:
            query.awaitTermination(0.2)
        shop.write(0, 2, rows=2)
        while len(sink.rows) < 4:
            query.awaitTermination(0.2)
    finally:
        query.stop()
    assert [row["id"] for row in sink.rows] == shop.written["s0"][-4:]


@pytest.mark.soak
def test_a_micro_batch_waits_for_rows_but_not_for_ever(
    spark: Any, served: tuple[Shop, Instance], tmp_path: Path
) -> None:
    """1. Fewer rows than wanted are there: the query looks, and has no micro-batch. 2. More come, and it has
    all of them in one. 3. Fewer come again, and the time that it may wait is over.
    """
    shop, instance = served
    with shop.connect(instance, client_id="now") as now:
        begin = now.locate("latest").to_json()
        now.unsubscribe()
    # A trigger that finds nothing tells so at once.
    spark.conf.set("spark.sql.streaming.noDataProgressEventInterval", "0")
    sink, chosen = Sink(), options(shop, instance, client="patient", startingPosition=begin)

    def start(**bounds: Any) -> Any:
        given = chosen | {name: str(value) for name, value in bounds.items()}
        writing = spark.readStream.format("canal_group").options(**given).load().writeStream
        return writing.foreachBatch(sink).option("checkpointLocation", str(tmp_path / "checkpoint")).start()

    shop.write(0, 3)
    query = start(minRowsPerBatch=5, maxDelaySeconds=3600)
    try:
        while len(query.recentProgress) < 3:
            query.awaitTermination(0.2)
        assert not sink.rows
        shop.write(1, 2)
        while not sink.rows:
            query.awaitTermination(0.2)
    finally:
        query.stop()
    assert len(sink.rows) == 5, "in one micro-batch"
    shop.write(0, 1)
    query = start(minRowsPerBatch=5, maxDelaySeconds=1)
    try:
        while len(sink.rows) < 6:
            query.awaitTermination(0.2)
    finally:
        query.stop()
        spark.conf.unset("spark.sql.streaming.noDataProgressEventInterval")
    assert sorted(row["id"] for row in sink.rows) == sorted(shop.written["s0"][-4:] + shop.written["s1"][-2:])


def test_columns_that_are_not_chosen_are_neither_sent_nor_there(
    spark: Any, served: tuple[Shop, Instance]
) -> None:
    shop, instance = served
    shop.servers[1].execute("UPDATE shop_1.orders SET note = 'dear' WHERE price > 0 LIMIT 1")
    chosen = options(shop, instance, client="narrow", columns="_seq,note", startingPosition="earliest")
    rows = read(spark, chosen)
    assert set(rows[-1].asDict()) == {"_seq", "note"}
    assert rows[-1].note == "dear"
    assert rows[-2]._seq + 1 == rows[-1]._seq, "the row before an update is there as well"
    with pytest.raises(Exception, match="has no column speed"):
        read(spark, chosen | {"columns": "id,speed"})
    with pytest.raises(Exception, match="A bounded read cannot begin at a cursor"):
        read(spark, chosen | {"startingPosition": "cursor"})


def test_a_decimal_that_spark_lacks_is_a_string_as_select_prints_it(
    spark: Any, served: tuple[Shop, Instance]
) -> None:
    shop, instance = served
    shop.servers[0].execute(
        "CREATE TABLE shop_0.exact (id INT PRIMARY KEY, n DECIMAL(65,30))",
        "INSERT INTO shop_0.exact VALUES (1, 0), (2, 1e-30), (3, -1e34), (4, NULL)",
    )
    chosen = options(shop, instance, table="shop.exact", client="exact", startingPosition="earliest")
    expected = shop.servers[0].execute("SELECT id, CAST(n AS CHAR) FROM shop_0.exact")
    rows = read(spark, chosen)
    assert [(row.id, row.n) for row in rows] == list(expected)
    assert rows[0].n == "0." + 30 * "0"


def test_progress_says_where_the_sources_are(
    spark: Any, served: tuple[Shop, Instance], tmp_path: Path
) -> None:
    shop, instance = served
    shop.write(0, 1)
    chosen = options(shop, instance, client="progress", startingPosition="earliest")
    frame = spark.readStream.format("canal_group").options(**chosen).load()
    writing = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writing.trigger(availableNow=True).start()
    query.awaitTermination()
    (source,) = query.lastProgress.sources
    end, latest = (GroupPosition.from_json(text) for text in (source.endOffset, source.latestOffset))
    assert all(position <= latest.shards[name] for name, position in end.shards.items())
