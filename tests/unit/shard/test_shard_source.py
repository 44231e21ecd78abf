"""What a shard of files answers about its source."""

from __future__ import annotations

import pytest

from actors.parse.files.files_reader import FilesSource
from actors.parse.grammar.chunk_builder import Limits
from actors.shard.shard_source import ShardSource
from actors.shard.shard_wiring import ShardWiring
from actors.store.ring import BatchMode, RingBounds
from canal_group.demo.recorded_shards import recorded_shards
from conf.stream_settings import FilterSettings
from merge.errors import SourceUnfit, UsageError


@pytest.fixture
def source() -> ShardSource:
    files = FilesSource("s0", str(recorded_shards()[0].folder))
    ring = RingBounds(BatchMode.ITEMS, 16, 1)
    return ShardSource(ShardWiring(files, FilterSettings(), ring, Limits(), 0, "earliest", "auto", 10.0))


def test_a_start_is_found_in_files(source: ShardSource):
    assert source.locate("earliest").offset == 4
    with pytest.raises(SourceUnfit):
        source.locate("latest")


def test_files_have_no_schema_history_and_no_standbys(source: ShardSource):
    assert (source.schema(), source.news(), source.failover()) == ([], None, None)
    with pytest.raises(UsageError, match="reads files, and has no schema history"):
        source.rebuild_schema()
