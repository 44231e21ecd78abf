"""Spark's protocol of a streaming query without its JVM, for many restarts in little time.

It asks the data source what `MicroBatchExecution` asks it, in that order, and keeps a checkpoint as Spark
does: `offsets/N` before a micro-batch is read, `commits/N` after it. What `read` yields is written to
`batches/N`.

`python light_spark.py` reads settings from standard input, a JSON object a line, and runs each in a process
of its own, forked when everything is imported. It answers with a line each: how that process ended, negative
by a signal.

options     of the stream
folder      where offsets, commits and batches are
die_at      at which of its steps a run kills itself, in the middle of whatever it does; null: it ends when
            nothing more is to be read
die_before  what it kills itself before it writes: `commits`, so that a micro-batch is read and not committed;
            null: nothing
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from pyspark.sql.pandas.types import from_arrow_schema  # noqa: F401  what a run would wait for

from canal_group.spark import CanalGroupDataSource


class LightSpark:
    """One run of a query."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._folder = Path(settings["folder"])
        self._steps_left = settings["die_at"]
        self._die_before = settings.get("die_before")
        source = CanalGroupDataSource(settings["options"])
        self._reader = source.streamReader(source.schema())

    def run(self) -> None:
        """Read until nothing more is there."""
        self._reader.prepareForTriggerAvailableNow()
        number, committed = self._last("offsets"), self._last("commits")
        start = self._offset(committed) if committed >= 0 else self._reader.initialOffset()
        if number > committed:
            start = self._do(number, start, self._offset(number))
        while True:
            self._step()
            end = self._reader.latestOffset(start, self._reader.getDefaultReadLimit())
            if end == start:
                break
            number += 1
            self._step()
            self._write("offsets", number, end)
            start = self._do(number, start, end)
        self._reader.stop()

    def _do(self, number: int, start: Any, end: Any) -> Any:
        """Read a micro-batch, commit it, and return where it ends."""
        self._step()
        lines: list[str] = []
        for part in self._reader.partitions(start, end):
            for rows in self._reader.read(part):
                lines += [json.dumps(row, default=str) for row in rows.to_pylist()]
                self._step()
        self._write("batches", number, lines)
        self._step()
        self._write("commits", number, {})
        self._step()
        self._reader.commit(end)
        return end

    def _step(self) -> None:
        if self._steps_left is None:
            return
        self._steps_left -= 1
        if self._steps_left < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def _last(self, kind: str) -> int:
        return max((int(path.name) for path in (self._folder / kind).glob("[0-9]*")), default=-1)

    def _offset(self, number: int) -> Any:
        return json.loads((self._folder / "offsets" / str(number)).read_text())

    def _write(self, kind: str, number: int, value: Any) -> None:
        """Write a file at once; a micro-batch that comes again is written beside what it was."""
        if kind == self._die_before:
            os.kill(os.getpid(), signal.SIGKILL)
        folder = self._folder / kind
        folder.mkdir(exist_ok=True)
        target = folder / str(number)
        if kind == "batches" and target.exists():
            target = folder / f"again.{number}.{os.getpid()}"
        unfinished = folder / f".{number}.{os.getpid()}"
        unfinished.write_text(json.dumps(value))
        unfinished.rename(target)


def main() -> None:
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            LightSpark(json.loads(line)).run()
            os._exit(0)
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
