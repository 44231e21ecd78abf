"""Reading: the demo's consumer. It gets and acknowledges batches, and sometimes rolls them back.

Its actions are drawn from the seed. Mostly it acknowledges a batch at once. Sometimes it first leaves a few
batches outstanding, and sometimes it rolls back all of them, or one and every later one.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import pyarrow as pa

from canal_group.client.batch import Batch
from canal_group.client.consumer import Consumer
from canal_group.merge.errors import NotSubscribed, RetryableError, RolledBack, UnknownBatch
from canal_group.programs.demo.delivered import Delivered

#: rows of a batch, at most
BATCH_ROWS = 4_000
#: batches it leaves outstanding, at most
_OUTSTANDING_MAX = 4
#: deliveries between two certain rollbacks; between them, it rolls back by chance
_ROLLBACK_EVERY = 40
_FIRST_ROLLBACK = 5
#: how long rows or an acknowledgement may be refused for the moment, seconds
_TIMEOUT_S = 30.0

_T = TypeVar("_T")


@dataclass(slots=True)
class Reading:
    """Reads a destination step by step, and remembers what came."""

    consumer: Consumer
    seed: int
    #: is shown each batch's rows
    show: Callable[[pa.Table], None]
    #: whether no snapshot is going on, where it has read to
    complete: bool = True
    delivered: Delivered = field(default_factory=Delivered)
    batches: int = 0
    #: times something was given back
    rollbacks: int = 0
    _outstanding: list[Batch] = field(default_factory=list)
    #: whether what the server holds outstanding may differ from `_outstanding`
    _astray: bool = False
    _random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        """Begin the consumer's own chances."""
        self._random = random.Random(f"canal-group demo {self.seed} consumer")  # noqa: S311  no secret

    def step(self, timeout_s: float) -> bool:
        """Get a batch, and do with it what chance says; return whether there was one.

        Raises:
            DataError: a shard stopped at data that nobody can read.
            FencedError: another consumer took over.
        """
        try:
            if self._astray:
                self._begin_anew()
            batch = self.consumer.get_without_ack(BATCH_ROWS, timeout_s)
            if batch is None:
                self._ack_outstanding()
                return False
            self._outstanding.append(batch)
            self._take(batch)
            self._decide()
        except (NotSubscribed, RolledBack):
            self._astray = True
        except RetryableError as error:
            # A batch may have been delivered in an answer that was lost.
            self._astray = True
            time.sleep(error.retry_after_s)
        return True

    def _begin_anew(self) -> None:
        """Give back whatever is outstanding, known or not: then the next batch follows the cursor."""
        try:
            self.consumer.rollback()
        except NotSubscribed:
            self.consumer.subscribe()
        self._astray = False
        self._outstanding.clear()
        self.delivered.lost()
        self.rollbacks += 1

    def _take(self, batch: Batch) -> None:
        rows = self._patiently(batch.envelope)
        self.delivered.add(batch.batch_id, rows, time.time_ns() // 1000)
        self.complete = not batch.ack_position.snapshots
        self.batches += 1
        self.show(rows)

    def _patiently(self, call: Callable[[], _T]) -> _T:
        """Call until it is not refused for the moment; the same call again is harmless."""
        deadline_s = time.monotonic() + _TIMEOUT_S
        while True:
            try:
                return call()
            except RetryableError as error:
                if time.monotonic() > deadline_s:
                    raise
                time.sleep(error.retry_after_s)

    def _decide(self) -> None:
        due = self.batches % _ROLLBACK_EVERY == _FIRST_ROLLBACK
        if due or self._random.random() < 1 / _ROLLBACK_EVERY:
            self._give_back(self._random.choice([None, *self._outstanding]))
        elif len(self._outstanding) >= _OUTSTANDING_MAX or self._random.randrange(3):
            self._ack_outstanding()

    def _give_back(self, batch: Batch | None) -> None:
        """Give back a batch and every later one; None: all."""
        batch_id = batch.batch_id if batch is not None else None
        self.consumer.rollback(batch_id)
        self.delivered.taken_back(batch_id)
        self.rollbacks += 1
        older = [each for each in self._outstanding if batch_id is not None and each.batch_id < batch_id]
        self._outstanding = older

    def _ack_outstanding(self) -> None:
        while self._outstanding:
            batch_id = self._outstanding[0].batch_id
            # Unknown, it was acknowledged by an attempt before, whose answer was lost.
            with contextlib.suppress(UnknownBatch):
                self._patiently(partial(self.consumer.ack, batch_id))
            self.delivered.acked(batch_id)
            del self._outstanding[0]
