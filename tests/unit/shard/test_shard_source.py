"""What a shard of files answers about its source, and what it stores of what it reads."""

from __future__ import annotations

from typing import Any

import pytest
from support.defaults import files_source, ring_of, shard_wiring
from support.rows.versioned_chunk import IMPLICIT, NEVER, PAST, chunk

from canal_group.actors.shard.shard_source import ShardSource
from canal_group.conf.stream_settings import FilterSettings, MergeSettings
from canal_group.merge.errors import DataError, SourceUnfit, UsageError
from canal_group.programs.demo.recorded_shards import recorded_shards

BY_ID = MergeSettings(order_by={".*": "id"}, commit_within_s=1.0)


def source_of(**changes: Any) -> ShardSource:
    files = files_source("s0", str(recorded_shards()[0].folder))
    return ShardSource(shard_wiring(files, store=ring_of("items", 16, 1), **changes))


@pytest.fixture
def source() -> ShardSource:
    return source_of()


def test_a_start_is_found_in_files(source: ShardSource):
    assert source.locate("earliest").offset == 4
    with pytest.raises(SourceUnfit):
        source.locate("latest")


def test_files_have_no_schema_history_and_no_standbys(source: ShardSource):
    assert (source.schema(), source.news(), source.failover()) == ([], None, None)
    with pytest.raises(UsageError, match="reads files, and has no schema history"):
        source.rebuild_schema()


def test_ids_are_of_rows_that_consumers_see():
    """A row of the past has the id of an earlier transaction; here it has one that cannot order anything."""
    source_chunk = chunk([(None, PAST), (None, NEVER)], IMPLICIT)
    stored = source_of(merge=BY_ID).process(source_chunk)
    assert stored.headers["order_id"].tolist() == [0, 1]
    with pytest.raises(DataError, match=r"id of a row in shop\.orders is not an id"):
        source_of(merge=BY_ID, filter=FilterSettings(history="keep")).process(source_chunk)


def test_a_rule_reads_what_consumers_see():
    table = {"match": ".*", "where": "end > 0"}
    ruled = source_of(filter=FilterSettings(tables=[table]))
    with pytest.raises(DataError, match=r"names column end of shop_0\.orders, which the table does not have"):
        ruled.process(chunk([(None, NEVER)], IMPLICIT))
