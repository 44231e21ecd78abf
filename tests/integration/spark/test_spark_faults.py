"""The data source on a real Spark, over real shards: the same ranges again, whatever died in between."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from integration.shared_servers import SharedShop
from integration.shop import DEADLINE_S, Shop, kill
from integration.spark_sink import (
    ROOT,
    Died,
    Sink,
    change,
    changes,
    options,
    run,
    run_frame,
    serving,
    show_a_row,
)
from support.soak import patient

from canal_group.spark import read_stream
from playground.database.mariadb import MariaDbServer

pytestmark = pytest.mark.timeout(patient(180))


def test_a_micro_batch_is_repeated_unchanged_after_its_sink_failed(
    spark: Any, served: SharedShop, tmp_path: Path
) -> None:
    """1. The sink fails in a micro-batch, and writers write. 2. The query begins again, with other parts that
    are read in another way.
    """
    sink = Sink()

    def fail(number: int) -> None:
        if number == 1:
            raise Died(f"in micro-batch {number}")

    sink.at = fail
    show_a_row(served, served.instance)
    change(served)
    chosen = options(served, served.instance, partitions=3, maxRowsPerBatch=70)
    with pytest.raises(Exception, match="in micro-batch 1"):
        run(spark, chosen, sink, tmp_path / "checkpoint")
    change(served)
    sink.at = lambda _: None
    run_frame(read_stream(spark, chosen | {"partitions": "2"}), sink, tmp_path / "checkpoint")
    assert sink.again == 1
    sink.check(served)
    assert max(map(changes, sink.batches.values())) <= 70


@pytest.mark.soak
def test_what_a_killed_driver_had_planned_is_read_by_the_next_one(
    spark: Any, served: SharedShop, tmp_path: Path
) -> None:
    """1. A driver, with its JVM and its executor, which is a process of its own, is killed between a
    micro-batch's plan and its commit, at the second one. 2. Another one goes on from the checkpoint: it reads
    the same micro-batch, and no row twice or never.
    """
    sink, folder = Sink(), tmp_path / "killed"
    folder.mkdir()
    show_a_row(served, served.instance)
    change(served)
    chosen = options(served, served.instance, maxRowsPerBatch=60, partitions=2)
    settings = {
        "options": chosen,
        "checkpoint": str(tmp_path / "checkpoint"),
        "folder": str(folder),
        "kill_at": 1,
        "master": "local-cluster[1,2,1024]",
    }
    ended = subprocess.run(
        [sys.executable, str(Path(__file__).parents[1] / "spark_driver.py"), json.dumps(settings)],
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"},
        start_new_session=True,
        capture_output=True,
        timeout=2 * DEADLINE_S,
        check=False,
    )
    assert ended.returncode == -9, ended.stderr.decode()
    for number in (0, 1):
        sink.take(number, (folder / f"{number}.jsonl").read_text().splitlines())
    change(served)
    run(spark, chosen, sink, tmp_path / "checkpoint")
    assert sink.again == 1
    sink.check(served)


@pytest.mark.soak
def test_a_query_goes_on_when_gateway_shard_and_group_are_killed(
    spark: Any, shop: Shop, tmp_path: Path
) -> None:
    """1. Between micro-batches gateway, shard and group are killed. 2. The query waits, and goes on."""
    sink = Sink()
    with serving(shop) as instance:
        change(shop)
        with shop.connect(instance, client_id="beside") as beside:
            status = beside.status()
        victims = {0: status["gateway"], 1: status["shards"][0], 2: status["group"]}
        sink.at = lambda number: kill(victims[number]["pid"]) if number in victims else None
        chosen = options(shop, instance, maxRowsPerBatch=25, partitions=2)
        run(spark, chosen, sink, tmp_path / "checkpoint")
        assert len(sink.batches) > 3
        sink.check(shop)


@pytest.mark.soak
def test_an_expired_reader_gets_a_sentence(spark: Any, shop: Shop, tmp_path: Path) -> None:
    """1. The gateway ends in the middle of a query. 2. The next query finds none at its start."""
    sink = Sink()
    with ExitStack() as serves:
        instance = serves.enter_context(serving(shop))
        change(shop)
        sink.at = lambda _: serves.close()
        chosen = options(shop, instance, maxRowsPerBatch=30, retrySeconds=1)
        with pytest.raises(Exception, match=r"ServerUnavailable: .*gateway does not answer"):
            run(spark, chosen, sink, tmp_path / "checkpoint")
    with pytest.raises(Exception, match=r"ServerUnavailable: .*gateway does not answer"):
        run(spark, chosen, sink, tmp_path / "checkpoint")


def purge(server: MariaDbServer) -> None:
    """Purge all binlogs but the newest; a server keeps those that somebody is connected for."""
    while len(logs := server.execute("SHOW BINARY LOGS")) > 1:
        for (number,) in server.execute(
            "SELECT id FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'"
        ):
            server.execute(f"KILL {number}")
        server.execute(f"PURGE BINARY LOGS TO '{logs[-1][0]}'")


@pytest.mark.soak
def test_what_a_source_has_purged_is_told_in_a_sentence(spark: Any, shop: Shop, tmp_path: Path) -> None:
    """1. A position is noted. 2. What follows it is purged at a source. 3. A query begins there."""
    with serving(shop) as instance, shop.connect(instance) as reader:
        begin = reader.locate("latest").to_json()
    shop.write_everywhere(1)
    server = shop.servers[0]
    server.execute("FLUSH BINARY LOGS")
    purge(server)
    # One that has no cursor from before.
    shop.destination += "-anew"
    with serving(shop) as instance:
        chosen = options(shop, instance, retrySeconds=5, startingPosition=begin)
        with pytest.raises(Exception, match=r"PositionPurged: .*s0"):
            run(spark, chosen, Sink(), tmp_path / "checkpoint")
