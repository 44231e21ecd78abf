r"""Keep a table of a MySQL or MariaDB server equal to a merged table of all shards, with Spark.

    spark-submit examples/mirror.py --destination shop --table shop.orders --keys id \
        --target mysql://user@127.0.0.1:3306/replica.orders --checkpoint /var/lib/mirror

The target table exists, with the keys as its primary key and columns of the same names. Each micro-batch is
brought down to the last change of each key, and applied as upserts and deletes. A micro-batch that comes
again after a crash is the same one, so applying it again changes nothing: the replica is exact.

The password is taken from MIRROR_PASSWORD.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pymysql

# Workers take this interpreter, and not the first python3 that they find.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  Spark's custom

from canal_group.spark import CanalGroupDataSource
from canal_group.spark.shapes import CHANGE

#: rows of one statement's parameters
ROWS = 1_000


def main() -> None:
    """Mirror until stopped, or what is there now (`--once`)."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gateway", default="grpc://127.0.0.1:11113")
    parser.add_argument("--destination", required=True)
    parser.add_argument("--client", default="mirror")
    parser.add_argument("--table", required=True, help="schema.table, after routes")
    parser.add_argument("--keys", required=True, help="primary key, columns parted by commas")
    parser.add_argument("--target", required=True, help="mysql://user@host:port/schema.table")
    parser.add_argument("--checkpoint", required=True, type=Path)
    parser.add_argument("--once", action="store_true", help="end at what was committed until now")
    options = parser.parse_args()
    keys, target = options.keys.split(","), Target(options.target, os.environ.get("MIRROR_PASSWORD", ""))
    spark = SparkSession.builder.appName("mirror").getOrCreate()
    spark.dataSource.register(CanalGroupDataSource)
    changes = (
        spark.readStream.format("canal_group")
        .option("gateway", options.gateway)
        .option("destination", options.destination)
        .option("client", options.client)
        .option("table", options.table)
        .option("partitions", spark.sparkContext.defaultParallelism)
        .load()
    )

    def apply(rows: DataFrame, number: int) -> None:
        columns = [name for name in rows.columns if name not in CHANGE.names]
        latest = (
            rows.groupBy(*keys).agg(F.max_by(F.struct(*rows.columns), "_seq").alias("last")).select("last.*")
        )
        latest.cache()
        count, newest = latest.agg(F.count("*"), F.max("_commit_timestamp")).first()
        if not count:
            return  # The shards wrote to other tables.
        latest.foreachPartition(lambda part: target.write(part, columns, keys))
        latest.unpersist()
        lag = (datetime.now(UTC) - newest.astimezone(UTC)).total_seconds()
        print(f"batch {number}: {count} keys, newest commit {lag:.1f} s ago", flush=True)

    trigger = {"availableNow": True} if options.once else {"processingTime": "1 second"}
    writing = changes.writeStream.foreachBatch(apply).option("checkpointLocation", str(options.checkpoint))
    writing.trigger(**trigger).start().awaitTermination()


class Target:
    """Where the replica is; travels to executors, and connects there."""

    def __init__(self, uri: str, password: str) -> None:
        parts = urlsplit(uri)
        where = {"host": parts.hostname, "port": parts.port or 3306, "user": parts.username}
        self._where = {**where, "password": password}
        self._table = ".".join(f"`{name}`" for name in parts.path.strip("/").split("."))

    def write(self, rows: Iterator[Any], columns: list[str], keys: list[str]) -> None:
        """Upsert and delete rows, each the last change of its key."""
        names = ", ".join(f"`{name}`" for name in columns)
        marks = ", ".join(["%s"] * len(columns))
        same_key = " AND ".join(f"`{name}` = %s" for name in keys)
        upsert = f"REPLACE INTO {self._table} ({names}) VALUES ({marks})"  # noqa: S608  names of the schema
        delete = f"DELETE FROM {self._table} WHERE {same_key}"  # noqa: S608
        upserts: list[tuple[Any, ...]] = []
        deletes: list[tuple[Any, ...]] = []
        connection = pymysql.connect(**self._where, charset="utf8mb4")
        with connection, connection.cursor() as cursor:

            def flush() -> None:
                cursor.executemany(delete, deletes)
                cursor.executemany(upsert, upserts)
                deletes.clear()
                upserts.clear()

            for row in rows:
                # What an update replaced is gone, unless the same key came back behind it.
                gone = row["_change_type"] in ("delete", "update_preimage")
                wanted, values = (keys, deletes) if gone else (columns, upserts)
                values.append(tuple(row[name] for name in wanted))
                if len(upserts) + len(deletes) >= ROWS:
                    flush()
            flush()
            connection.commit()


if __name__ == "__main__":
    main()
