r"""Add up a column of a table by minutes of commit time, over all shards, with Spark.

    spark-submit examples/revenue.py --destination shop --table shop.orders --sum price \
        --checkpoint /var/lib/revenue

What was inserted counts, what was deleted is taken off again, and an update counts as both. A minute is
closed, and forgotten by Spark, when rows of ten minutes later have come (`--late`): the stream is in order of
commit time, so little is ever late. What is later still does not count, and is reported.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

# Workers take this interpreter, and not the first python3 that they find.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  Spark's custom

from canal_group.spark import CanalGroupDataSource

#: seconds between two looks at the query's progress
LOOK_S = 1


def main() -> None:
    """Print what changed in each minute until stopped, or of what is there now (`--once`)."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gateway", default="grpc://127.0.0.1:11113")
    parser.add_argument("--destination", required=True)
    parser.add_argument("--client", default="revenue")
    parser.add_argument("--table", required=True, help="schema.table, after routes")
    parser.add_argument("--sum", required=True, help="the column to add up")
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--late", default="10 minutes", help="how late a row may be and still count")
    parser.add_argument("--option", action="append", default=[], help="NAME=VALUE of the source, any number")
    parser.add_argument("--once", action="store_true", help="end at what was committed until now")
    options = parser.parse_args()
    spark = SparkSession.builder.appName("revenue").config("spark.sql.session.timeZone", "UTC").getOrCreate()
    spark.dataSource.register(CanalGroupDataSource)
    changes = (
        spark.readStream.format("canal_group")
        .option("gateway", options.gateway)
        .option("destination", options.destination)
        .option("client", options.client)
        .option("table", options.table)
        # What nobody adds up is not sent.
        .option("columns", f"{options.sum},_change_type,_commit_timestamp,_shard")
        .options(**dict(each.split("=", 1) for each in options.option))
        .load()
    )
    gone = F.col("_change_type").isin("delete", "update_preimage")
    minutes = (
        changes.withWatermark("_commit_timestamp", options.late)
        .groupBy(F.window("_commit_timestamp", "1 minute"))
        .agg(
            F.sum(F.when(gone, -F.col(options.sum)).otherwise(F.col(options.sum))).alias("total"),
            F.approx_count_distinct("_shard").alias("shards"),
        )
    )

    def show(rows: DataFrame, _number: int) -> None:
        minute = F.date_format("window.start", "yyyy-MM-dd HH:mm").alias("minute")
        for row in rows.orderBy("window").select(minute, "total", "shards").collect():
            print(f"{row.minute}  {row.total}  from {row.shards} shards", flush=True)

    trigger = {"availableNow": True} if options.once else {"processingTime": "1 second"}
    writing = minutes.writeStream.outputMode("update").foreachBatch(show)
    writing = writing.option("checkpointLocation", options.checkpoint)
    follow(writing.trigger(**trigger).start())


def follow(query: Any) -> None:
    """Wait for the query's end, and report what came too late to count; raise what it failed with."""
    last, ended = "", False
    while not ended:
        ended = query.awaitTermination(LOOK_S)
        for each in query.recentProgress:
            if each.timestamp > last:
                last = each.timestamp
                # Spark counts partial sums that it drops, and not the rows in them.
                if any(state.numRowsDroppedByWatermark for state in each.stateOperators):
                    print(f"batch {each.batchId}: rows came too late to count", flush=True)


if __name__ == "__main__":
    main()
