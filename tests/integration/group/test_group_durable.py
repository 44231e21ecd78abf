"""The store `file` in a whole instance: whatever dies or is purged, rows come once and are archived."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from chaos.archive_disk import processes_with
from chaos.archived import not_archived
from integration.shop import Reading, Shop, in_background, kill
from integration.zookeeper_fixtures import eventually
from support.sources.purged_logs import purge_all_but_the_last

from canal_group.binlog.archive.archive import Archive
from canal_group.binlog.archive.disk import Disk
from canal_group.gateway.gateway_client import GatewayClient
from canal_group.merge.calls.consumers import Status
from canal_group.merge.errors import UsageError


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    """An archive, whose dump servers end with the test."""
    found = Archive(Disk(), tmp_path / "archive")
    yield found
    for lock in found.folder.glob("*.lock"):
        for pid in processes_with(lock):
            kill(pid)


def test_rows_come_once_and_are_archived_over_kills_and_a_purge(shop: Shop, archive: Archive) -> None:
    """1. The dump server and the shard are killed, and another process has the archive.

    2. What is written then does not leave, and it is said why; without the process all comes. 3. Both are
    killed again, and the source purges all but its last file before they are back. 4. The source is killed.
    5. All comes once; what came is archived.
    """
    options = {
        "store": {"kind": "file"},
        "archive": {"folder": str(archive.folder), "sync_s": "always"},
    }
    source, server = shop.servers[0], str(shop.servers[0].server_id)
    lock = archive.folder / f"{server}.lock"
    with contextlib.ExitStack() as open_, shop.serve(**options) as instance:
        gateway = open_.enter_context(contextlib.closing(GatewayClient(instance.uri, shop.destination)))

        def kill_both() -> None:
            kill(gateway.ask(Status())["shards"][0]["pid"])
            for pid in processes_with(lock):
                kill(pid)

        def held_back() -> str:
            return str(gateway.ask(Status())["shards"][0].get("held_back"))

        reading = Reading(open_.enter_context(shop.connect(instance)))
        reading.consumer.subscribe()
        shop.write_everywhere(10, 3)
        reading.until(shop.rows)
        kill_both()
        with _taken(archive, server):
            before = shop.rows
            shop.write(0, 10, 3)
            reader = in_background(lambda: reading.until(shop.rows))
            eventually(lambda: "writes to the archive already" in held_back(), "it is said why")
            assert len(reading.ids) == before
        reader.join()
        source.execute("FLUSH BINARY LOGS")
        newest = str(source.execute("SHOW BINARY LOGS")[-1][0])
        eventually(lambda: _has(archive, server, newest), "the archive has what is before the next file")
        kill_both()
        purge_all_but_the_last(source)
        shop.write_everywhere(10, 3)
        reading.until(shop.rows)
        source.kill()
        source.start()
        shop.write_everywhere(5)
        reading.until(shop.rows)
        reading.check(shop)
        tables = list(itertools.chain.from_iterable(reading.runs))
    for index, each in enumerate(shop.servers):
        rows = each.execute(f"SELECT id FROM shop_{index}.orders ORDER BY id")
        assert [number for (number,) in rows] == sorted(shop.written[f"s{index}"])
    assert not list(not_archived(archive, tables))


def _taken(archive: Archive, server: str) -> contextlib.ExitStack:
    """Kill dump servers until this process holds the lock of the archive, and return the held lock."""
    held = contextlib.ExitStack()
    while True:
        try:
            held.enter_context(archive.lock(server))
        except UsageError:
            for pid in processes_with(archive.folder / f"{server}.lock"):
                kill(pid)
        else:
            return held


def _has(archive: Archive, server: str, file: str) -> bool:
    history = archive.newest(server)
    return history is not None and history.manifest.entry(file) is not None
