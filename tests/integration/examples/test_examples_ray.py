"""Ray Data reads the merged stream by the same ranges: datasets, an example, and a submitted job."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as pads
import pytest
from integration.processes import family
from integration.shop import DEADLINE_S, Shop, kill
from integration.spark_examples import example, line_of, tables
from integration.spark_sink import CLIENT, ROOT, change, serving
from support.soak import patient

import canal_group
from canal_group import ray_data
from playground.database.child_process import free_port

pytestmark = pytest.mark.timeout(patient(180))
RAY = str(Path(sys.executable).with_name("ray"))
#: jobs call `python`
PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
#: of `serving` and `change` together: a row and 12 times 3 for each shard, 6 updates, 4 deletes
CHANGES = 2 * (1 + 12 * 3 + 6 + 4)


@pytest.fixture(autouse=True)
def in_order() -> Iterator[None]:
    """Let datasets keep their order, without a word about what they do."""
    from ray.data import DataContext

    context = DataContext.get_current()
    before = context.execution_options.preserve_order, context.enable_progress_bars
    context.execution_options.preserve_order, context.enable_progress_bars = True, False
    yield
    context.execution_options.preserve_order, context.enable_progress_bars = before


def offset_ranges(consumer: canal_group.Consumer, changes: int) -> Iterator[canal_group.Batch]:
    """Yield offset ranges until they have so many changes."""
    position = consumer.cursor
    while changes > 0:
        offset_range = consumer.offset_range(position, timeout=DEADLINE_S)
        assert offset_range is not None
        yield offset_range
        position, changes = offset_range.end, changes - offset_range.rows


def state(changes: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Return the rows that are left when changes are applied in order."""
    rows: dict[int, tuple[Any, ...]] = {}
    for each in changes:
        before = each["_before"]
        if before is not None:
            del rows[before["id"]]
        elif each["_op"] == "DELETE":
            del rows[each["id"]]
        if each["_op"] != "DELETE":
            rows[each["id"]] = each["id"], each["note"], each["price"]
    return sorted(rows.values())


@pytest.mark.soak
def test_a_dataset_has_the_consumers_rows_and_makes_the_tables(shop: Shop) -> None:
    """1. Ranges in three parts: the rows, types and order of the Arrow client, as a table and as an envelope.
    2. The gateway, then a shard is killed: the dataset is read again, and is the same.
    """
    with serving(shop) as instance:
        change(shop)
        with shop.connect(instance, client_id=CLIENT) as consumer:
            applied: list[dict[str, Any]] = []
            for offset_range in offset_ranges(consumer, CHANGES):
                rows = ray_data.dataset(consumer, offset_range, "shop.orders", before=True, parts=3)
                found = rows.take_all()
                assert found == offset_range.table("shop.orders", before=True).to_pylist()
                assert rows.schema().base_schema.field("price").type == pa.decimal128(10, 2)
                everything = ray_data.dataset(consumer, offset_range, parts=2).take_all()
                assert [each["seq"] for each in everything] == offset_range.envelope()["seq"].to_pylist()
                applied += found
            assert state(applied) == tables(shop)
            status = consumer.status()
            for victim in (status["gateway"], status["shards"][0]):
                kill(victim["pid"])
                again = ray_data.dataset(consumer, offset_range, "shop.orders", before=True, parts=2)
                assert again.take_all() == found
            with pytest.raises(canal_group.UsageError, match="in 1 part or more, not in 0"):
                ray_data.dataset(consumer, offset_range, "shop.orders", parts=0)


def written(folder: Path) -> list[dict[str, Any]]:
    """Return the changes that the example wrote, in order."""
    rows = pads.dataset(folder, format="parquet").to_table()
    return rows.sort_by("_seq").to_pylist()


@pytest.mark.soak
def test_the_example_begins_again_where_it_was_not_acknowledged(shop: Shop, tmp_path: Path) -> None:
    """1. It writes what is there, in several ranges. 2. A folder after the cursor is of a run that died, and
    is written anew. 3. Every change is there once.
    """
    with serving(shop) as instance:
        change(shop)
        arguments = ["ray_parquet.py", "--gateway", instance.uri, "--destination", shop.destination]
        arguments += ["--client", CLIENT, "--table", "shop.orders", "--folder", tmp_path / "orders"]
        arguments += ["--rows", 30, "--idle", 2]
        example(*arguments)
        folders = sorted(each.name for each in (tmp_path / "orders").iterdir())
        assert len(folders) > 2
        (tmp_path / "orders" / f"{CHANGES:020d}").mkdir()
        (tmp_path / "orders" / f"{CHANGES:020d}" / "half.parquet").write_text("a file that nobody finished")
        change(shop)
        example(*arguments)
    rows = written(tmp_path / "orders")
    assert len(rows) == len({each["_seq"] for each in rows}) == 2 * CHANGES - 2
    assert sorted(each["id"] for each in rows if each["_op"] == "INSERT") == list(range(shop.rows))


@pytest.fixture
def jobs() -> Iterator[str]:
    """A Ray of its own on loopback; yields the address of its server for jobs."""
    environment = {
        **os.environ,
        # Ray replaces 127.0.0.1 by an address that others reach, unless it knows no clusters.
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        "PATH": PATH,
    }
    dashboard, *ports = (free_port() for _ in range(4))
    # Sockets stand in it, whose paths are short.
    folder = tempfile.mkdtemp(prefix="ray-")
    command = [RAY, "start", "--head", "--block", "--node-ip-address=127.0.0.1", "--num-cpus=2"]
    command += ["--include-dashboard=true", "--dashboard-host=127.0.0.1", f"--dashboard-port={dashboard}"]
    command += [f"--port={ports[0]}", f"--ray-client-server-port={ports[1]}", "--disable-usage-stats"]
    command += [f"--dashboard-agent-listen-port={ports[2]}", f"--temp-dir={folder}"]
    head = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert head.stdout is not None
        assert any("Ray runtime started" in line for line in head.stdout), "Ray starts"
        yield f"http://127.0.0.1:{dashboard}"
    finally:
        started = family(head.pid)
        for pid in started:
            with suppress(ProcessLookupError):
                kill(pid)
        head.wait()
        head.stdout.close()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.soak
def test_the_documented_job_writes_every_change(shop: Shop, jobs: str, tmp_path: Path) -> None:
    """`ray job submit` on a Ray that is not the one that merges."""
    with serving(shop) as instance:
        change(shop)
        command = line_of(
            "ray job submit",
            {
                "ray": RAY,
                "http://127.0.0.1:8265": jobs,
                "examples": str(ROOT / "examples"),
                "grpc://127.0.0.1:11113": instance.uri,
                "shop": shop.destination,
                "lake": CLIENT,
                "/data/orders": str(tmp_path / "orders"),
            },
        )
        ended = subprocess.run(
            [*command, "--idle", "2"],
            env={**os.environ, "PATH": PATH},
            capture_output=True,
            text=True,
            timeout=2 * DEADLINE_S,
            check=False,
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
    rows = written(tmp_path / "orders")
    assert len(rows) == CHANGES
    assert sorted(each["id"] for each in rows if each["_op"] == "INSERT") == list(range(shop.rows))
