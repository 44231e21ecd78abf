"""A driver of its own, to be killed: `python spark_driver.py SETTINGS`, where SETTINGS is JSON.

options     of the stream
checkpoint  folder
folder      where each micro-batch's rows are written, a file of JSON lines each, before what follows
master      where Spark runs; `local[2]` by default
kill_at     the number of the micro-batch in which the whole driver dies, Python and JVM
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from integration.spark_fixtures import session


def main(settings: dict[str, Any]) -> None:
    spark = session(Path(settings["folder"]), settings.get("master", "local[2]"))
    frame = spark.readStream.format("canal_group").options(**settings["options"]).load()

    def take(rows: Any, number: int) -> None:
        lines = [json.dumps(row.asDict(), default=str) for row in rows.collect()]
        (Path(settings["folder"]) / f"{number}.jsonl").write_text("\n".join(lines))
        if number == settings["kill_at"]:
            os.killpg(os.getpgid(0), signal.SIGKILL)

    frame.writeStream.foreachBatch(take).option("checkpointLocation", settings["checkpoint"]).trigger(
        availableNow=True
    ).start().awaitTermination()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
