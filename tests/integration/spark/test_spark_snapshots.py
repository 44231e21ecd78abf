"""A query without a checkpoint begins with the rows that there are, and can be restarted in their middle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from integration.shop import DEADLINE_S, Shop
from integration.spark_sink import Died, Sink, change, options, rows_of, tables
from integration.zookeeper_fixtures import eventually

pytestmark = pytest.mark.soak
#: a page, which is never divided, has at least as many as that
ROWS_PER_BATCH = 500


def copied(sink: Sink) -> dict[int, tuple[str, str]]:
    """Return the rows of a copy that takes each row as it is said to be now."""
    state: dict[int, tuple[str, str]] = {}
    for row in rows_of(sink.batches):
        if row["_change_type"] in ("delete", "update_preimage"):
            state.pop(row["id"], None)
        else:
            state[row["id"]] = row["note"], row["price"]
    return state


def test_a_query_begins_with_a_snapshot_and_is_restarted_in_its_middle(
    spark: Any, readable: Shop, tmp_path: Path
) -> None:
    """1. A query without a checkpoint reads full tables, and fails in its third micro-batch; 2. rows change;
    3. it goes on: that micro-batch comes again as it was, and then the rest; 4. all of them are the tables.
    """
    readable.write_everywhere(20, rows=100)
    sink, archive = Sink(), {"folder": str(tmp_path / "archive")}

    def die(number: int) -> None:
        if number == 2 and not sink.again:
            raise Died

    with readable.serve(archive=archive, snapshot={"rows_per_s": 1_000}) as instance:
        chosen = options(readable, instance, snapshot="initial", maxRowsPerBatch=ROWS_PER_BATCH)
        frame = spark.readStream.format("canal_group").options(**chosen)
        sink.at = die
        for _ in range(2):
            writing = frame.load().writeStream.foreachBatch(sink)
            query = writing.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
            try:
                eventually(
                    lambda query=query: not query.isActive or copied(sink) == tables(readable),
                    "the failure, or a whole copy",
                    within_s=DEADLINE_S,
                )
            finally:
                query.stop()
            if not sink.again:
                assert max(sink.batches) == 2
                change(readable)
    assert copied(sink) == tables(readable)
    assert sink.again
    kinds = [row["_change_type"] for row in rows_of(sink.batches)]
    assert {"read", "insert", "delete", "update_postimage"} <= set(kinds)
