"""The data source on a real Spark, over real shards: the same ranges again, whatever died in between."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from integration.shop import DEADLINE_S, Shop, kill
from integration.spark_sink import (
    ROOT,
    Died,
    Sink,
    change,
    changes,
    options,
    place,
    rows_of,
    run,
    serving,
)

pytestmark = pytest.mark.timeout(180)


def test_every_micro_batch_comes_again_as_it_was(spark: Any, shop: Shop, tmp_path: Path) -> None:
    """1. The driver dies in the middle of micro-batches, and is started again, with other partitions.
    2. Writers write meanwhile. 3. The order and the rows of each micro-batch stay, and all are the tables.
    """
    chance, sink = random.Random(5), Sink()

    def die_somewhere(number: int) -> None:
        if chance.random() < 0.6:
            raise Died(f"in micro-batch {number}")

    sink.at = die_somewhere
    with serving(shop) as instance:
        change(shop)
        died = 0
        for _ in range(4):
            chosen = options(shop, instance, partitions=chance.randint(1, 3), maxRowsPerBatch=30)
            writer = threading.Thread(target=change, args=(shop,))
            writer.start()
            try:
                run(spark, chosen, sink, tmp_path / "checkpoint")
            except Exception as error:  # noqa: BLE001  Spark's, with ours in its text
                assert "Died" in str(error)  # noqa: PT017
                died += 1
            writer.join()
        sink.at = lambda _: None
        run(spark, options(shop, instance, partitions=2, maxRowsPerBatch=30), sink, tmp_path / "checkpoint")
        assert died
        assert sink.again >= died
        sink.check(shop)
        assert max(map(changes, sink.batches.values())) <= 30


def test_what_a_killed_driver_had_planned_is_read_by_the_next_one(
    spark: Any, shop: Shop, tmp_path: Path
) -> None:
    """1. A driver, with its JVM, is killed between a micro-batch's plan and its commit, at the second one.
    2. Another one goes on from the checkpoint: it reads the same micro-batch, and no row twice or never.
    """
    sink, folder = Sink(), tmp_path / "killed"
    folder.mkdir()
    with serving(shop) as instance:
        change(shop)
        chosen = options(shop, instance, maxRowsPerBatch=25)
        settings = {
            "options": chosen,
            "checkpoint": str(tmp_path / "checkpoint"),
            "folder": str(folder),
            "kill_at": 1,
        }
        ended = subprocess.run(
            [sys.executable, str(Path(__file__).parent / "spark_driver.py"), json.dumps(settings)],
            env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"},
            start_new_session=True,
            capture_output=True,
            timeout=DEADLINE_S,
            check=False,
        )
        assert ended.returncode == -9, ended.stderr.decode()
        for number in (0, 1):
            sink.take(number, (folder / f"{number}.jsonl").read_text().splitlines())
        change(shop)
        run(spark, chosen, sink, tmp_path / "checkpoint")
        assert sink.again == 1
        sink.check(shop)


def test_a_query_goes_on_when_gateway_shard_and_group_are_killed(
    spark: Any, shop: Shop, tmp_path: Path
) -> None:
    """1. Between micro-batches gateway, shard and group are killed. 2. The query waits, and goes on.
    3. Another query begins where the first one did: it has the same rows, read again from the sources.
    """
    sink, other = Sink(), Sink()
    with serving(shop) as instance:
        change(shop)
        change(shop)

        with shop.connect(instance, client_id="beside") as beside:
            status = beside.status()
        victims = {1: status["gateway"], 2: status["shards"][0], 3: status["group"]}
        sink.at = lambda number: kill(victims[number]["pid"]) if number in victims else None
        chosen = options(shop, instance, maxRowsPerBatch=30, partitions=2)
        run(spark, chosen, sink, tmp_path / "checkpoint")
        assert len(sink.batches) > 4
        sink.check(shop)
        first = json.loads((tmp_path / "checkpoint/offsets/0").read_text().splitlines()[-1])
        chosen |= {"startingPosition": json.dumps(first)}
        run(spark, chosen, other, tmp_path / "again")
        # It cuts its own micro-batches, which says what stands in which order; equal keys are many here.
        rest = {number: lines for number, lines in sink.batches.items() if number}
        assert sorted(map(place, other.rows)) == sorted(place(row) for row in rows_of(rest))
        other.batches = {-1: sink.batches[0], **other.batches}
        other.check(shop)
