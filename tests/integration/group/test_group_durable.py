"""The store `file` in a whole instance: whatever dies or is purged, rows come once and are archived."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from chaos.archive_disk import processes_with
from chaos.archived import not_archived
from integration.shop import Reading, Shop, kill
from integration.zookeeper_fixtures import eventually
from support.sources.purged_logs import purge_all_but_the_last

from canal_group.binlog.archive.archive import Archive
from canal_group.binlog.archive.disk import Disk


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    """An archive, whose dump servers end with the test."""
    found = Archive(Disk(), tmp_path / "archive")
    yield found
    for lock in found.folder.glob("*.lock"):
        for pid in processes_with(lock):
            kill(pid)


def test_rows_come_once_and_are_archived_over_kills_and_a_purge(shop: Shop, archive: Archive) -> None:
    """1. Half of the rows are read. 2. The dump server and the shard are killed, and rows are written.

    3. Their source ends that file, and purges all but the last before the shard is back, once the file is
    archived. 4. The source is killed and restarted. 5. All comes; what came is archived.
    """
    options = {
        "store": {"kind": "file"},
        "archive": {"folder": str(archive.folder), "sync_s": "always"},
    }
    source = shop.servers[0]
    lock = archive.folder / f"{source.server_id}.lock"
    with shop.serve(**options) as instance, shop.connect(instance) as consumer:
        reading = Reading(consumer)
        consumer.subscribe()
        shop.write_everywhere(10, 3)
        reading.until(shop.rows // 2)
        source.execute("FLUSH BINARY LOGS")
        (newest,) = source.execute("SHOW BINARY LOGS")[-1:]
        history = archive.newest(str(source.server_id))
        assert history is not None
        eventually(lambda: history.refresh().entry(str(newest[0])), "the dump server has the next file")
        (dump_server,) = processes_with(lock)
        kill(consumer.status()["shards"][0]["pid"])
        kill(dump_server)
        purge_all_but_the_last(source)
        shop.write_everywhere(10, 3)
        reading.until(shop.rows)
        assert processes_with(lock) != [dump_server]
        source.kill()
        source.start()
        shop.write_everywhere(5)
        reading.until(shop.rows)
        reading.check(shop)
        tables = list(itertools.chain.from_iterable(reading.runs))
    for index, server in enumerate(shop.servers):
        rows = server.execute(f"SELECT id FROM shop_{index}.orders ORDER BY id")
        assert [number for (number,) in rows] == sorted(shop.written[f"s{index}"])
    assert sum(map(len, tables)) == shop.rows or reading.rollbacks
    assert not list(not_archived(archive, tables))
