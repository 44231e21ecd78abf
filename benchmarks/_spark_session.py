"""A local Spark under measurement, and the processor time and memory of its processes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from benchmarks._load import cpu_s, peak_rss_mib
from canal_group.spark import CanalGroupDataSource

#: tasks at once, as many as there are processors in docs/figures.md
CORES = 2


@contextmanager
def session() -> Iterator[Any]:
    """Run Spark; its JVM outlives the session and is used by the next one, warmed up."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    root = str(Path(__file__).parents[1])
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    spark = (
        SparkSession.builder.master(f"local[{CORES}]")
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.streaming.numRecentProgressUpdates", "10000")
        # as a number; the default is a type of 96 bits, which takes longer to read
        .config("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        .getOrCreate()
    )
    spark.dataSource.register(CanalGroupDataSource)
    try:
        yield spark
    finally:
        spark.stop()


@dataclass(frozen=True, slots=True)
class Reading:
    """How rows were read."""

    rows: int
    took_s: float
    #: processor time of each kind of process, seconds
    cpu_s: Mapping[str, float]

    @property
    def rows_per_s(self) -> float:
        return self.rows / self.took_s

    def figures(self) -> dict[str, Any]:
        """Return the rows per second and the processor time per row, microseconds."""
        per_row = {kind: round(spent * 1e6 / self.rows, 3) for kind, spent in self.cpu_s.items()}
        return {"rows_per_s": round(self.rows_per_s), "cpu_us_per_row": per_row}


class Clock:
    """The processor time of each kind of process since the clock was made.

    Args:
        others: processes besides this one and Spark's, with their kinds.
    """

    def __init__(self, others: Mapping[int, str]) -> None:
        self._others = others
        self._begun = {pid: cpu_s(pid) for pid in {**others, **_sparks()}}

    def spent_s(self) -> dict[str, float]:
        """Return the seconds of each kind of process."""
        seconds: dict[str, float] = {}
        for pid, kind in {**self._others, **_sparks()}.items():
            seconds[kind] = seconds.get(kind, 0.0) + cpu_s(pid) - self._begun.get(pid, 0.0)
        return seconds


def memory_mib() -> dict[str, float]:
    """Return the peak memory of the JVM, of its driver's Python and of the largest worker."""
    peaks: dict[str, float] = {}
    for pid, kind in _sparks().items():
        peaks[kind] = max(peaks.get(kind, 0.0), peak_rss_mib(pid))
    return {f"{kind}_mib": peak for kind, peak in peaks.items() if kind != "client"}


def _sparks() -> dict[int, str]:
    """Return this process, which is the client, and its descendants of Spark, by their role."""
    parents, kinds = {}, {os.getpid(): "client"}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:  # it has ended
            continue
    for pid in parents:
        line = [pid]
        while line[-1] in parents and line[-1] != os.getpid():
            line.append(parents[line[-1]])
        kind = _kind(pid) if line[-1] == os.getpid() else ""
        if kind:
            kinds[pid] = kind
    return kinds


def _kind(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    except OSError:
        return ""
    if "org.apache.spark.deploy.SparkSubmit" in words:
        return "jvm"
    if "pyspark.sql.streaming.python_streaming_source_runner" in words:
        return "driver_python"
    return "python_worker" if words[-2:-1] == ["pyspark.worker"] else ""
