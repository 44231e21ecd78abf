"""A consumer process that durably records what it got and acknowledged, and may be killed at any point.

    python -m chaos.recorder --zookeeper HOSTS --destination NAME --client ID --folder F --snapshot initial

Its journal has one line of JSON for each step, written before the next step begins. The rows are in the file
`rows`, as consecutive Arrow streams. A step that began and has no end in the journal may have happened or
not: only the servers know.

It continues after every error that the client calls retryable. With a snapshot it also rolls back by itself,
so that rows come again. It ends by itself when another consumer has
taken over.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pyarrow as pa

import canal_group
from canal_group.client.batch import Batch
from chaos.journal import JOURNAL, ROWS, Step

#: rows of a batch; few, so that there are many batches
BATCH_ROWS = 400
#: batches that it leaves outstanding before it acknowledges the oldest
OUTSTANDING_MAX = 3
#: probability of a step that rolls back, with a snapshot
FICKLE = 0.03
#: exit status if another consumer has taken over
TAKEN_OVER = 3
#: between two attempts to go on at a cursor that was refused, seconds
_REFUSED_S = 1.0
_GET_S = 1.0
#: how long one call is retried before it fails because no server answers, seconds
RETRY_S = 20.0


class Journal:
    """A journal writer; a step survives any death of the process once `note` has returned.

    Args:
        folder: of this process; created here.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._journal = os.open(folder / JOURNAL, flags)
        self._rows = os.open(folder / ROWS, flags)
        self._rows_end = 0

    def rows(self, table: pa.Table) -> tuple[int, int]:
        """Keep rows; return the offsets at which they begin and end."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        content = sink.getvalue()
        begin = self._rows_end
        self._rows_end += os.write(self._rows, content)
        os.fdatasync(self._rows)
        return begin, self._rows_end

    def note(self, step: Step) -> None:
        """Record a step with one write: a killed process has written the whole line, or nothing."""
        os.write(self._journal, step.line())
        os.fdatasync(self._journal)


@dataclass(slots=True)
class Recorder:
    """One consumer and its journal."""

    consumer: canal_group.Consumer
    journal: Journal
    chance: Random
    #: probability that it rolls back by itself
    fickle: float
    _outstanding: list[Batch] = field(default_factory=list)
    #: whether the group may have outstanding batches that we do not know of
    _astray: bool = False

    def step(self) -> None:
        """Get a batch, or acknowledge what is outstanding when there is none."""
        try:
            if self._astray or self.chance.random() < self.fickle:
                self._begin_anew()
            batch = self.consumer.get_without_ack(BATCH_ROWS, timeout=_GET_S)
            if batch is not None:
                self._take(batch)
            while self._outstanding and (
                batch is None or len(self._outstanding) >= self.chance.randint(1, OUTSTANDING_MAX)
            ):
                self._ack(self._outstanding[0])
        except canal_group.PositionRefused as error:
            # A source has lost the end of its binlog; who looks after it gives the end back.
            self.journal.note(Step("error", error=f"{type(error).__name__}: {error}"))
            time.sleep(_REFUSED_S)
            self.consumer.subscribe(resume="cursor")
            self._astray = True
        except (canal_group.RolledBack, canal_group.NotSubscribed, canal_group.RetryableError) as error:
            self.journal.note(Step("error", error=f"{type(error).__name__}: {error}"))
            self._astray = True
            if isinstance(error, canal_group.RetryableError):
                time.sleep(error.retry_after_s)

    def _begin_anew(self) -> None:
        """Roll back everything that is outstanding, known or not: the next batch follows the cursor."""
        try:
            self.consumer.rollback()
        except canal_group.NotSubscribed:
            self.consumer.subscribe()
        self._outstanding.clear()
        self._astray = False
        cursor = self.consumer.cursor.to_json()
        self.journal.note(Step("anew", consumer_epoch=self.consumer.epoch, cursor=cursor))

    def _take(self, batch: Batch) -> None:
        begin, end = self.journal.rows(batch.envelope())
        self.journal.note(
            Step(
                "delivered",
                batch_id=batch.batch_id,
                consumer_epoch=self.consumer.epoch,
                rows=(begin, end),
                cursor=batch.ack_position.to_json(),
            )
        )
        self._outstanding.append(batch)

    def _ack(self, batch: Batch) -> None:
        self.journal.note(Step("acking", batch_id=batch.batch_id, consumer_epoch=self.consumer.epoch))
        try:
            cursor = self.consumer.ack(batch.batch_id)
        except (canal_group.RolledBack, canal_group.UnknownBatch, canal_group.AckOutOfOrder) as error:
            self.journal.note(Step("refused", batch_id=batch.batch_id, error=type(error).__name__))
            raise canal_group.RolledBack(str(error), batch_id=batch.batch_id) from error
        self.journal.note(
            Step(
                "acked",
                batch_id=batch.batch_id,
                consumer_epoch=self.consumer.epoch,
                cursor=cursor.to_json(),
            )
        )
        self._outstanding.pop(0)


def options_of(description: str | None) -> argparse.ArgumentParser:
    """Return the options of a consumer process."""
    parser = argparse.ArgumentParser(description=description)
    for option in ("--zookeeper", "--destination", "--client", "--folder", "--snapshot"):
        parser.add_argument(option, required=True)
    return parser


def connected(asked: argparse.Namespace) -> canal_group.Consumer:
    """Return the consumer that options ask for."""
    return canal_group.connect(
        zookeeper=asked.zookeeper,
        destination=asked.destination,
        client_id=asked.client,
        snapshot=asked.snapshot,
        retry_s=RETRY_S,
    )


def main() -> int:
    """Record until SIGTERM, or until another consumer takes over."""
    asked = options_of(__doc__).parse_args()
    # Raises SystemExit wherever the process is, so that a standby also ends in good order.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    journal = Journal(Path(asked.folder))
    fickle = FICKLE if asked.snapshot == "initial" else 0.0
    # Stands by while another consumer is active, or no server serves.
    with connected(asked) as consumer:
        cursor = consumer.cursor.to_json()
        journal.note(Step("subscribed", consumer_epoch=consumer.epoch, cursor=cursor))
        recorder = Recorder(consumer, journal, Random(asked.folder), fickle)
        try:
            while True:
                recorder.step()
        except canal_group.FencedError as error:
            journal.note(Step("fenced", error=str(error)))
            return TAKEN_OVER


if __name__ == "__main__":
    sys.exit(main())
