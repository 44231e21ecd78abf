r"""Keep a replica of a merged table equal to what the shards hold, with Spark: in Parquet, MySQL or MariaDB.

    spark-submit examples/mirror.py --destination shop --table shop.orders --keys id \
        --target replica/orders --checkpoint checkpoints/orders

Each micro-batch is reduced to the last change of each key, by `_seq`, and applied as upserts and deletes. A
repeated micro-batch has the same rows, whichever process failed, so applying it again changes nothing: the
replica is exact after every micro-batch. A query mirrors one table; another table needs another client id.

The target is a folder that driver and executors can access, or mysql://user@host:port/schema.table. That
table must exist, with the keys as its primary key and columns of the same names. The environment variable
MIRROR_PASSWORD holds the password. With --target-ca the server must use TLS and prove that it is that host.
Without it an impostor of the server can ask for the password, so use a server and a network that you trust.

The target receives what the stream has read since its start. Begin with an empty target and the start of the
sources' binlogs, or with a copy of the table that was taken after the start of the stream.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pymysql
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  Spark's custom
from pyspark.sql.types import TimestampType

from canal_group.spark import CanalGroupDataSource
from canal_group.spark.shapes import CHANGE

#: rows of one statement's parameters
ROWS = 1_000
#: parts of a table in Parquet; a micro-batch rewrites those that contain its keys
BUCKETS = 16
#: seconds between two checks of the query's progress
LOOK_S = 1


def main() -> None:
    """Mirror until stopped, or only what is committed now (`--once`)."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gateway", default="grpc://127.0.0.1:11113")
    parser.add_argument("--destination", required=True)
    parser.add_argument("--client", default="mirror")
    parser.add_argument("--table", required=True, help="schema.table, after routes")
    parser.add_argument("--keys", required=True, help="primary key: column names separated by commas")
    parser.add_argument("--target", required=True, help="a folder, or mysql://user@host:port/schema.table")
    parser.add_argument("--target-ca", help="PEM file of the target's authorities, on executors too")
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument(
        "--option", action="append", default=[], help="option of the source, NAME=VALUE; may be repeated"
    )
    parser.add_argument("--progress", type=Path, help="append the query's progress to this file, for plot.py")
    parser.add_argument("--once", action="store_true", help="stop after what is committed now")
    options = parser.parse_args()
    keys = options.keys.split(",")
    target: MySqlTable | ParquetTable
    if "://" in options.target:
        target = MySqlTable(options.target, os.environ.get("MIRROR_PASSWORD", ""), keys, options.target_ca)
    else:
        target = ParquetTable(Path(options.target), keys)
    # Times are exchanged in UTC, independent of the machines' zones.
    spark = SparkSession.builder.appName("mirror").config("spark.sql.session.timeZone", "UTC").getOrCreate()
    spark.dataSource.register(CanalGroupDataSource)
    changes = (
        spark.readStream.format("canal_group")
        .option("gateway", options.gateway)
        .option("destination", options.destination)
        .option("client", options.client)
        .option("table", options.table)
        .option("partitions", spark.sparkContext.defaultParallelism)
        .options(**dict(each.split("=", 1) for each in options.option))
        .load()
    )

    def apply(rows: DataFrame, number: int) -> None:
        latest = last_of_each_key(rows, keys).cache()
        count, newest = latest.agg(F.count("*"), F.max("_commit_timestamp")).first()
        if count:  # otherwise the shards wrote to other tables only
            target.apply(latest, number)
            lag_s = (datetime.now(UTC) - newest.astimezone(UTC)).total_seconds()
            print(f"batch {number}: {count} keys, newest commit {lag_s:.1f} s ago", flush=True)
        latest.unpersist()

    trigger = {"availableNow": True} if options.once else {"processingTime": "1 second"}
    writing = changes.writeStream.foreachBatch(apply).option("checkpointLocation", options.checkpoint)
    follow(writing.trigger(**trigger).start(), options.progress)


def last_of_each_key(rows: DataFrame, keys: list[str]) -> DataFrame:
    """Return the last change of each key, with `_gone`: whether it removed that key's row."""
    last = rows.groupBy(*keys).agg(F.max_by(F.struct(*rows.columns), "_seq").alias("last")).select("last.*")
    # The row that an update replaced is gone, unless a later change has the same key.
    return last.withColumn("_gone", F.col("_change_type").isin("delete", "update_preimage"))


def follow(query: Any, file: Path | None) -> None:
    """Wait for the query to end, and append its progress to a file of JSON lines; raise the query's error."""
    last, ended = "", False
    while not ended:
        ended = query.awaitTermination(LOOK_S)
        new = [each for each in query.recentProgress if each.timestamp > last]
        if file is not None and new:
            last = new[-1].timestamp
            with file.open("a") as lines:
                lines.writelines(f"{json.dumps(json.loads(each.json))}\n" for each in new)


class ParquetTable:
    """A table in a folder, described by its newest manifest.

        batch=N/bucket=B/*.parquet   rows whose keys fall into bucket B, as of micro-batch N
        manifest-N.json              the folders that make the table after micro-batch N, by bucket

    A manifest is written after its files, and is whole or absent. Files are kept while one of the two newest
    manifests names them: the newest one is read, and a repeated micro-batch needs the one before.
    """

    def __init__(self, folder: Path, keys: list[str]) -> None:
        self._folder, self._keys = folder.absolute(), keys

    def read(self, spark: SparkSession) -> DataFrame | None:
        """Return the table, or None if it has no rows yet."""
        numbers = self._numbers()
        folders = self._manifest(numbers[-1]).values() if numbers else ()
        if not folders:
            return None
        files = (str(self._folder / each) for each in folders)
        return spark.read.option("mergeSchema", True).parquet(*files)

    def apply(self, latest: DataFrame, number: int) -> None:
        """Write the table's state after a micro-batch.

        Raises:
            ValueError: the folder has a later micro-batch than the query.
        """
        numbers = self._numbers()
        if numbers and numbers[-1] > number:
            raise ValueError(
                f"{self._folder} already has micro-batch {numbers[-1]}, and the query starts at {number}."
                f" Use the checkpoint that belongs to the folder, or an empty folder."
            )
        earlier = [each for each in numbers if each < number]
        before = self._manifest(earlier[-1]) if earlier else {}
        rows = latest.withColumn("_bucket", F.pmod(F.xxhash64(*self._keys), F.lit(BUCKETS)))
        touched = sorted(row[0] for row in rows.select("_bucket").distinct().collect())
        columns = [name for name in latest.columns if name not in (*CHANGE.names, "_gone")]
        after = rows.where(~F.col("_gone")).select(*columns, "_bucket")
        old = [str(self._folder / before[each]) for each in touched if each in before]
        if old:
            # In files from before a column was added, that column is null.
            had = latest.sparkSession.read.schema(latest.select(columns).schema).parquet(*old)
            others = had.join(latest.select(self._keys), self._keys, "left_anti")
            bucket = F.pmod(F.xxhash64(*self._keys), F.lit(BUCKETS))
            after = after.unionByName(others.withColumn("_bucket", bucket))
        batch = self._folder / f"batch={number}"
        writing = after.repartition("_bucket").withColumnRenamed("_bucket", "bucket").write
        writing.partitionBy("bucket").mode("overwrite").parquet(str(batch))
        now = {each: folder for each, folder in before.items() if each not in touched}
        written = {int(each.name.partition("=")[2]) for each in batch.glob("bucket=*")}
        now |= {each: f"batch={number}/bucket={each}" for each in written}
        part = self._folder / f".manifest-{number}"
        part.write_text(json.dumps(now, sort_keys=True))
        part.replace(self._folder / f"manifest-{number}.json")
        self._forget(earlier[:-1], {*before.values(), *now.values()})

    def _forget(self, manifests: list[int], used: set[str]) -> None:
        for number in manifests:
            (self._folder / f"manifest-{number}.json").unlink(missing_ok=True)
        for folder in self._folder.glob("batch=*/bucket=*"):
            if str(folder.relative_to(self._folder)) not in used:
                shutil.rmtree(folder)
        for batch in self._folder.glob("batch=*"):
            if not any(batch.glob("bucket=*")):
                shutil.rmtree(batch)

    def _numbers(self) -> list[int]:
        return sorted(int(file.stem.partition("-")[2]) for file in self._folder.glob("manifest-*.json"))

    def _manifest(self, number: int) -> dict[int, str]:
        value = json.loads((self._folder / f"manifest-{number}.json").read_text())
        return {int(bucket): folder for bucket, folder in value.items()}


class MySqlTable:
    """A table of a server; it is sent to executors, and connects there."""

    def __init__(self, uri: str, password: str, keys: list[str], ca: str | None = None) -> None:
        parts = urlsplit(uri)
        where = {"host": parts.hostname, "port": parts.port or 3306, "user": parts.username}
        tls = {"ssl_ca": ca, "ssl_verify_cert": True, "ssl_verify_identity": True} if ca else {}
        self._where = {**where, "password": password, **tls}
        self._table = ".".join(map(quoted, unquote(parts.path.strip("/")).split(".")))
        self._keys = keys

    def apply(self, latest: DataFrame, _number: int) -> None:
        """Upsert and delete rows, each the last change of its key."""
        columns = [name for name in latest.columns if name not in (*CHANGE.names, "_gone")]
        # As text in the session's zone, which the connection uses too; a row's datetime has the machine's.
        times = [each.name for each in latest.schema if isinstance(each.dataType, TimestampType)]
        text = {name: F.date_format(name, "yyyy-MM-dd HH:mm:ss.SSSSSS") for name in times}
        latest.withColumns(text).select(*columns, "_gone").foreachPartition(self._write)

    def _write(self, rows: Iterator[Any]) -> None:
        connection = pymysql.connect(**self._where, charset="utf8mb4")
        with connection, connection.cursor() as cursor:
            cursor.execute("SET time_zone = '+00:00'")
            # Otherwise parallel writers would wait for each other's gap locks at deleted keys.
            cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
            while some := list(islice(rows, ROWS)):
                self._delete(cursor, [row for row in some if row["_gone"]])
                self._upsert(cursor, [row for row in some if not row["_gone"]])
            connection.commit()

    def _delete(self, cursor: Any, rows: list[Any]) -> None:
        if rows:
            names = ", ".join(map(quoted, self._keys))
            statement = f"DELETE FROM {self._table} WHERE ({names}) IN %s"  # noqa: S608  names of the schema
            cursor.execute(statement, [[tuple(row[name] for name in self._keys) for row in rows]])

    def _upsert(self, cursor: Any, rows: list[Any]) -> None:
        if rows:
            columns = [name for name in rows[0].__fields__ if name != "_gone"]
            names, marks = ", ".join(map(quoted, columns)), ", ".join(["%s"] * len(columns))
            statement = f"REPLACE INTO {self._table} ({names}) VALUES ({marks})"  # noqa: S608  names of the schema
            cursor.executemany(statement, [tuple(row[name] for name in columns) for row in rows])


def quoted(name: str) -> str:
    """Return a name, with any characters, quoted for a statement with parameters."""
    return f"`{name.replace('`', '``').replace('%', '%%')}`"


if __name__ == "__main__":
    main()
