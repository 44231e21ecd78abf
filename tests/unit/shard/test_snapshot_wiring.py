"""Where the pages of a lane's snapshot are, which of them are removed, and which shards have none."""

from __future__ import annotations

import os
import time
from dataclasses import replace

import pytest
from support.binlog.archived import options_of
from support.defaults import address_of, files_source, shard_wiring

from canal_group.actors.process.host import OS_HOST
from canal_group.actors.shard.shard import Shard
from canal_group.actors.shard.shard_source import ShardSource
from canal_group.actors.snapshot.snapshot_wiring import UNUSED_S
from canal_group.merge.errors import SourceUnfit, UsageError
from canal_group.merge.snapshot.cursor import SnapshotCursor
from canal_group.merge.values.lane import before_first
from canal_group.merge.values.position import Position
from canal_group.programs.demo.recorded_shards import recorded_shards

AT = Position("mysql-bin.000001", 4, snapshot=SnapshotCursor("app-1-2").to_json())


@pytest.fixture
def source(tmp_path):
    address = address_of("s0", "db0", destination="shop", archive=options_of(tmp_path))
    return ShardSource(shard_wiring(address))


def test_pages_are_beside_the_archive_for_their_owner(source, tmp_path):
    parts = source.snapshot(AT, OS_HOST)
    assert parts.folder == tmp_path / "snapshots" / "shop" / "s0" / "app-1-2"
    assert parts.folder.stat().st_mode & 0o777 == 0o700
    assert parts.start == replace(AT, snapshot=None)
    assert (parts.cursor, parts.shard) == (SnapshotCursor("app-1-2"), "s0")


def test_pages_are_removed_that_were_not_read_for_days(source, tmp_path, caplog):
    """Neither those that were opened lately, nor those to which something was added."""
    caplog.set_level("INFO")
    old_s = time.time() - UNUSED_S - 60
    names = ("old", "opened", "added")
    for name in names:
        folder = source.snapshot(replace(AT, snapshot=SnapshotCursor(name).to_json()), OS_HOST).folder
        (folder / "server").mkdir()
        (folder / "server" / "a.page").write_text("rows")
        os.utime(folder, (old_s, old_s))
        if name != "added":
            os.utime(folder / "server", (old_s, old_s))
    source.snapshot(replace(AT, snapshot=SnapshotCursor("opened").to_json()), OS_HOST)
    source.remove_unused_pages()
    assert sorted(each.name for each in (tmp_path / "snapshots/shop/s0").iterdir()) == ["added", "opened"]
    assert "pages of snapshot old are removed: nobody has read them for 7 days" in caplog.text


def test_a_shard_without_an_archive_has_no_snapshot():
    source = ShardSource(shard_wiring(address_of("s0", "db0")))
    with pytest.raises(SourceUnfit, match="no archive, in which the pages of a snapshot are kept"):
        source.snapshot(AT, OS_HOST)
    source.remove_unused_pages()


def test_a_malformed_cursor_makes_no_folder(source, tmp_path):
    with pytest.raises(UsageError, match="not a cursor of a snapshot"):
        source.snapshot(replace(AT, snapshot='{"id": "../../up"}'), OS_HOST)
    assert not list(tmp_path.iterdir())


def test_files_have_no_snapshot_and_a_live_stream_takes_none():
    folder = recorded_shards()[0].folder
    shard = Shard(shard_wiring(files_source("s0", str(folder))))
    try:
        begin = shard.open(1, 1, None)
        at = replace(begin, snapshot=AT.snapshot)
        with pytest.raises(SourceUnfit, match="reads files, which have no tables"):
            shard.open(1, before_first(1) + 1, at)
        assert shard.open(1, 2, at) == at
        assert shard.status()["snapshot"] is None
    finally:
        shard.close(1 << 40)
