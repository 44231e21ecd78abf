"""A Spark that writes down all it can: plans, an event log, a checkpoint, and its own log in detail.

`python spark_secrets.py FOLDER GATEWAY` reads with the secrets that it finds in the environment variable
SECRETS, a JSON object of options.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from pathlib import Path

os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"

from pyspark.sql import SparkSession

from canal_group.spark import CanalGroupDataSource, read_stream


def main(folder: Path, gateway: str, secrets: dict[str, str]) -> None:
    """Plan and run what can be, and print the plans."""
    (folder / "events").mkdir()
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.eventLog.enabled", "true")
        .config("spark.eventLog.dir", (folder / "events").as_uri())
        .config("spark.eventLog.compress", "false")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.log.level", "DEBUG")
        .getOrCreate()
    )
    spark.dataSource.register(CanalGroupDataSource)
    options = {
        "gateway": gateway,
        "destination": "shop",
        "client": "1",
        "retrySeconds": "0",
        "waitSeconds": "0",
    }
    rows = spark.read.format("canal_group").options(**options, **secrets).load()
    for mode in ("simple", "extended", "codegen", "cost", "formatted"):
        with suppress(Exception):
            rows.where("row > 1").explain(mode)
    with suppress(Exception):
        rows.count()
    with suppress(Exception):
        print(rows._jdf.queryExecution().toString())
    print(repr(rows), rows.schema.json())
    source = spark.readStream.format("canal_group").options(**options, **secrets).load()
    for number, stream in enumerate((source, read_stream(spark, {**options, **secrets}))):
        checkpoint = str(folder / f"checkpoint-{number}")
        writing = stream.writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = writing.trigger(availableNow=True).start()
        with suppress(Exception):
            query.awaitTermination()
        with suppress(Exception):
            query.explain(extended=True)
        print(query.exception(), query.status, query.lastProgress)
        with suppress(Exception):
            print(query._jsq.toString())
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], json.loads(os.environ["SECRETS"]))
