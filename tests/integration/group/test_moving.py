"""What a destination keeps, copied to other folders; and a start where a dump of existing rows ends."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path
from typing import Any

import pytest
from integration.shop import Reading, Shop


def kept_in(kind: str, folder: Path) -> dict[str, Any]:
    """Return the settings of a preset, with its folder."""
    if kind == "file":
        where = {"folder": str(folder)}
        return {
            "preset": "file",
            "coordination": {"kind": "local", **where},
            "cursor": {"kind": "file", **where},
        }
    coordination = {"kind": "embedded", "folder": str(folder), "session_timeout_s": 4}
    cursor = {"kind": "zookeeper", "flush_s": None}
    return {"preset": "group", "coordination": coordination, "cursor": cursor, "archive": "off"}


@pytest.mark.parametrize("kind", ["file", pytest.param("embedded", marks=pytest.mark.soak)])
def test_a_copied_folder_continues_elsewhere(
    shop: Shop, tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
):
    """1. half is read and acknowledged; 2. stopped, the folder is copied, and tables are altered meanwhile;
    3. started with the copy alone: the rest comes, nothing is lost or comes twice.
    """
    old, new = tmp_path / "old", tmp_path / "new"
    with shop.serve(**kept_in(kind, old)) as instance, shop.connect(instance) as consumer:
        reading = Reading(consumer)
        shop.write_everywhere(10)
        reading.until(10, batch_size=5)
    shutil.copytree(old, new)
    shutil.rmtree(old)
    shop.servers[0].execute("ALTER TABLE shop_0.orders CHANGE note memo VARCHAR(300)")
    shop.write_everywhere(10)
    caplog.set_level(logging.INFO)
    with shop.serve(**kept_in(kind, new)) as instance, shop.connect(instance) as consumer:
        said = [each.getMessage() for each in caplog.records]
        assert ("waits for the embedded ZooKeeper to start" in said) == (kind == "embedded")
        reading.consumer = consumer
        reading.until(shop.rows)
    reading.check(shop)
    delivered = [op for run in reading.runs for rows in run for op in rows["op"].to_pylist()]
    assert delivered.count("INSERT") == shop.rows, "nothing came twice"
    assert not old.exists()


def test_a_stream_that_starts_at_a_dump_has_what_the_dump_lacks(shop: Shop):
    """A dump with --master-data or --source-data names what SHOW MASTER STATUS says under its lock."""
    shop.write_everywhere(3)
    in_the_dump = {name: list(ids) for name, ids in shop.written.items()}
    each_shard = []
    for server in shop.servers:
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("FLUSH TABLES WITH READ LOCK")
            cursor.execute("SHOW MASTER STATUS")
            file, offset = cursor.fetchone()[:2]
            each_shard.append(f"{file}:{offset}")
    shop.write_everywhere(3)
    settings = shop.settings()
    shards = [
        {**shard.model_dump(exclude_unset=True), "start": start}
        for shard, start in zip(settings.shards, each_shard, strict=True)
    ]
    with shop.serve(shards=shards) as instance, shop.connect(instance) as consumer:
        reading = Reading(consumer)
        reading.until(6)
    for name, ids in shop.written.items():
        came = sorted(number for (shard, *_), number in reading.ids.items() if shard == name)
        assert in_the_dump[name] + came == ids
