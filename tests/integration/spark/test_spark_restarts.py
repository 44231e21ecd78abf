"""A query that is killed again and again: each micro-batch comes as it was, and all are the tables."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from integration.shop import Shop, kill
from integration.spark_sink import ROOT, Sink, change, changes, options, serving
from support.soak import patient

pytestmark = [pytest.mark.soak, pytest.mark.timeout(patient(180))]
#: how often a run is killed with -9, at a step that the seed chooses
KILLS = 4, int(os.environ.get("CANAL_GROUP_RESTARTS", "24"))
#: steps that a run lives, at most
STEPS_MAX = 14


@contextmanager
def light_spark() -> Iterator[Any]:
    """Return a callable that runs a query and returns how it ended; see `light_spark.py`."""
    runner = subprocess.Popen(
        [sys.executable, str(Path(__file__).parents[1] / "light_spark.py")],
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert runner.stdin is not None
    assert runner.stdout is not None

    def run(settings: dict[str, Any]) -> int:
        print(json.dumps(settings), file=runner.stdin, flush=True)
        return int(runner.stdout.readline())

    try:
        yield run
    finally:
        runner.stdin.close()
        runner.wait()
        runner.stdout.close()


@pytest.mark.parametrize("kills", KILLS)
def test_micro_batches_are_repeated_unchanged_after_killed_drivers(
    shop: Shop, tmp_path: Path, kills: int
) -> None:
    """1. A driver is killed at a step by chance, again and again; so are its gateway, a shard, the group.
    2. Each next one has other partitions and limits, and writers write. 3. A micro-batch that comes again is
    the same rows in the same order, and in the end all of them are the tables.
    """
    chance, sink = random.Random(7), Sink()
    ends: list[int] = []
    begun = tmp_path / "offsets" / "0"
    with serving(shop, consumer={"lease_s": 0.5}) as instance, light_spark() as run:
        with shop.connect(instance, client_id="beside") as beside:
            status = beside.status()
            beside.unsubscribe()
        known = status["gateway"], status["shards"][0], status["group"]
        victims = {kills * index // 4: each for index, each in enumerate(known, 1)}
        while sum(ends) > -9 * kills:
            chosen = options(
                shop,
                instance,
                partitions=chance.randint(1, 3),
                maxRowsPerBatch=chance.choice((7, 20, 60)),
                # What it begins with matters until its first micro-batch is planned, and never again.
                startingPosition=chance.choice(("latest", "earliest")) if begun.exists() else "cursor",
            )
            writer = threading.Thread(target=change, args=(shop,))
            writer.start()
            if len(ends) in victims:
                kill(victims[len(ends)]["pid"])
            # The first one dies when its first micro-batch is planned and nothing else is, the second one
            # when that micro-batch is read and not committed.
            steps = {0: 2, 1: None}.get(len(ends), chance.randint(0, STEPS_MAX))
            before = "commits" if len(ends) == 1 else None
            settings = {"options": chosen, "folder": str(tmp_path), "die_at": steps, "die_before": before}
            ends.append(run(settings))
            writer.join()
            assert ends[-1] in (0, -9), "it ends by our hand, or when all is read"
        assert run({"options": chosen, "folder": str(tmp_path), "die_at": None}) == 0
    batches = tmp_path / "batches"
    for path in batches.glob("[0-9]*"):
        sink.take(int(path.name), json.loads(path.read_text()))
    for path in batches.glob("again.*"):
        sink.take(int(path.name.split(".")[1]), json.loads(path.read_text()))
    assert sink.again >= kills / 8, "micro-batches were read and not committed"
    sink.check(shop)
    assert max(map(changes, sink.batches.values())) <= 60
