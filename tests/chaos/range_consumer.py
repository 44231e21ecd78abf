"""A consumer process that keeps its position itself: it reads offset ranges, and may be killed at any point.

    python -m chaos.range_consumer --zookeeper HOSTS --destination NAME --client ID --folder F
        --snapshot never --progress FILE

It behaves like a streaming engine. It records a planned offset range before it reads it, and its completion
after its rows were kept. The record of its position is a file that outlives it. The next process reads a
range again that was planned and not completed; at random, the process itself reads a range again. The audit
compares the rows of all readings.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random

import pyarrow as pa

import canal_group
from canal_group.client.batch import Batch
from canal_group.client.range_rows import RangeRows
from canal_group.merge.values.position import GroupPosition
from chaos.journal import Step
from chaos.recorder import BATCH_ROWS, TAKEN_OVER, Journal, connected, options_of

#: probability that an offset range is read again
_AGAIN = 0.2
#: probability that it may have no row
_EMPTY = 0.5
#: maximum number of parts that an offset range is read in
_PARTS_MAX = 3
_SPAN_S = 1.0


@dataclass(slots=True)
class Progress:
    """The reader's position, as JSON texts; written atomically."""

    file: Path
    #: everything before it is completed; empty: the reader has not begun
    done: str = ""
    #: end of the planned offset range; empty: none is planned
    planned: str = ""

    @classmethod
    def read(cls, file: Path) -> Progress:
        """Return the content of the file."""
        with suppress(FileNotFoundError):
            return cls(file, **json.loads(file.read_text()))
        return cls(file)

    def write(self) -> None:
        """Write it durably."""
        said = {name: value for name, value in asdict(self).items() if name != "file"}
        new = self.file.with_suffix(".new")
        with new.open("w") as opened:
            opened.write(json.dumps(said))
            opened.flush()
            os.fsync(opened.fileno())
        new.replace(self.file)


@dataclass(slots=True)
class Spanner:
    """One consumer of offset ranges, its position and its journal."""

    consumer: canal_group.Consumer
    journal: Journal
    progress: Progress
    chance: Random
    #: completed, and not acknowledged yet
    _finished: list[int] = field(default_factory=list)

    def step(self) -> None:
        """Plan an offset range, or take the one that was planned before; read and complete it."""
        try:
            if not self.progress.done:
                self.progress.done = self.consumer.cursor.to_json()
                self.progress.write()
            offset_range = self._planned()
            if offset_range is None:
                return
            self._read(offset_range)
            if self.chance.random() < _AGAIN:
                return  # it stays planned, and comes again
            self._finish(offset_range)
        except (canal_group.RolledBack, canal_group.NotSubscribed, canal_group.RetryableError) as error:
            self.journal.note(Step("error", error=f"{type(error).__name__}: {error}"))
            self._finished.clear()
            if isinstance(error, canal_group.NotSubscribed):
                self.consumer.subscribe()
            if isinstance(error, canal_group.RetryableError):
                time.sleep(error.retry_after_s)

    def _planned(self) -> Batch | None:
        """Return the planned offset range; None: there is nothing to read."""
        self._acknowledge()
        start = GroupPosition.from_json(self.progress.done)
        if self.progress.planned:
            until = GroupPosition.from_json(self.progress.planned)
            return self.consumer.offset_range(start, until, timeout=_SPAN_S)
        offset_range = self.consumer.offset_range(
            start, rows_max=BATCH_ROWS, timeout=_SPAN_S, may_be_empty=self.chance.random() < _EMPTY
        )
        if offset_range is not None:
            self.progress.planned = offset_range.end.to_json()
            self.progress.write()
        return offset_range

    def _read(self, offset_range: Batch) -> None:
        """Keep the rows, read in parts as distributed workers would."""
        count = self.chance.randint(1, _PARTS_MAX)
        source = RangeRows.of(self.consumer, offset_range, {"format": "envelope"})
        rows = pa.concat_tables([source.read(index, count) for index in range(count)])
        where = {"start": self.progress.done, "cursor": self.progress.planned}
        self.journal.note(
            Step("read", batch_id=source.batch_id, rows=self.journal.rows(rows), **where)  # type: ignore[arg-type]
        )

    def _finish(self, offset_range: Batch) -> None:
        self.progress.done, self.progress.planned = self.progress.planned, ""
        self.progress.write()
        self.journal.note(Step("done", batch_id=offset_range.batch_id, cursor=self.progress.done))
        self._finished.append(offset_range.batch_id)

    def _acknowledge(self) -> None:
        """Acknowledge what is completed, so that rings and binlogs may drop it."""
        while self._finished:
            try:
                cursor = self.consumer.ack(self._finished[0])
            except (canal_group.RolledBack, canal_group.UnknownBatch, canal_group.AckOutOfOrder):
                # The position file says where to continue; the next acknowledgement moves the cursor.
                self._finished.clear()
                self.consumer.rollback()
                return
            self.journal.note(Step("acked", batch_id=self._finished.pop(0), cursor=cursor.to_json()))


def main() -> int:
    """Read offset ranges until SIGTERM."""
    parser = options_of(__doc__)
    parser.add_argument("--progress", required=True)
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    journal = Journal(Path(asked.folder))
    with connected(asked) as consumer:
        cursor = consumer.cursor.to_json()
        journal.note(Step("subscribed", consumer_epoch=consumer.epoch, cursor=cursor))
        range_consumer = Spanner(consumer, journal, Progress.read(Path(asked.progress)), Random(asked.folder))
        try:
            while True:
                range_consumer.step()
        except canal_group.FencedError as error:
            journal.note(Step("fenced", error=str(error)))
            return TAKEN_OVER


if __name__ == "__main__":
    sys.exit(main())
