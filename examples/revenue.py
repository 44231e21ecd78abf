r"""Sum a column of a table by minutes of commit time, over all shards, with Spark.

    spark-submit examples/revenue.py --destination shop --table shop.orders --sum price \
        --checkpoint /var/lib/revenue

Inserted rows are added, deleted rows are subtracted, and an update does both. Spark closes and drops a minute
when rows of ten minutes later have come (`--late`). The stream is in order of commit time, so few rows are
late. Rows that come after their minute was closed are not counted, and are reported.
"""

from __future__ import annotations

import argparse
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  Spark's custom

from canal_group.spark import CanalGroupDataSource

#: seconds between two checks of the query's progress
LOOK_S = 1


def main() -> None:
    """Print changed sums by minute until stopped, or only of what is committed now (`--once`)."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gateway", default="grpc://127.0.0.1:11113")
    parser.add_argument("--destination", required=True)
    parser.add_argument("--client", default="revenue")
    parser.add_argument("--table", required=True, help="schema.table, after routes")
    parser.add_argument("--sum", required=True, help="the column to sum")
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--late", default="10 minutes", help="how late a row may be and still count")
    parser.add_argument(
        "--option", action="append", default=[], help="option of the source, NAME=VALUE; may be repeated"
    )
    parser.add_argument("--once", action="store_true", help="stop after what is committed now")
    options = parser.parse_args()
    spark = SparkSession.builder.appName("revenue").config("spark.sql.session.timeZone", "UTC").getOrCreate()
    spark.dataSource.register(CanalGroupDataSource)
    changes = (
        spark.readStream.format("canal_group")
        .option("gateway", options.gateway)
        .option("destination", options.destination)
        .option("client", options.client)
        .option("table", options.table)
        # Columns that are not used are not sent.
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
    """Wait for the query to end, and report rows that came too late; raise the query's error."""
    last, ended = "", False
    while not ended:
        ended = query.awaitTermination(LOOK_S)
        for each in query.recentProgress:
            if each.timestamp > last:
                last = each.timestamp
                # Spark counts the partial sums that it drops, not their rows.
                if any(state.numRowsDroppedByWatermark for state in each.stateOperators):
                    print(f"batch {each.batchId}: rows came too late to count", flush=True)


if __name__ == "__main__":
    main()
