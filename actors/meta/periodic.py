"""Cursors in memory, written to another store periodically: an ack does not wait for a disk or a quorum.

Rules:
- a save waits only if nothing but the cursor's positions changed. A new subscription, another filter, other
  shards and a removal are written at once; so is everything once the store has not answered for
  `OVERDUE_FLUSHES` flush intervals;
- a waiting cursor is written under the epoch that it was saved in, or not at all;
- a write without an answer may have been done: no older cursor is written after it, and the next write of
  that client id waits for the store.
"""

from __future__ import annotations

import logging

from actors.ports import CursorStore, Host, Subscription
from actors.process.host import OS_HOST
from merge.errors import CanalGroupError, FencedError
from merge.values.epoch import refuse_older

_log = logging.getLogger(__name__)

#: flush intervals after which saves of a cursor that could not be written wait for the store
OVERDUE_FLUSHES = 5


class PeriodicCursorStore:
    """Keeps cursors in memory and flushes them to a store, periodically and at an orderly hand-over.

    Guarantees: the store holds a cursor that was saved here, and never an older one than before; cursors of
    an older epoch do not reach it. Does not guarantee that a saved cursor survives the end of the process.
    What was acknowledged since the last flush is then delivered twice: that of `flush_s` seconds, or of at
    most `OVERDUE_FLUSHES` times that while the store does not answer. Nothing is lost.

    Implements `actors.ports.CursorStore`. Safe to use from several threads.

    Args:
        store: the store to write to.
        flush_s: seconds between two flushes.
        host: starts the thread that writes.
    """

    def __init__(self, store: CursorStore, flush_s: float, host: Host = OS_HOST) -> None:
        self._clock_s = host.clock_s
        self._store = store
        self._flush_s = flush_s
        self._lock = host.lock()
        #: held while the store is written, so that an older cursor is never written after a newer one
        self._writing = host.lock()
        self._epoch = 0
        #: what was saved last, by client id
        self._known: dict[str, Subscription] = {}
        #: client ids whose last save is not in the store, and since when, seconds of the host's clock
        self._waiting: dict[str, float] = {}
        #: client ids whose last immediate write may or may not have been done
        self._unsure: set[str] = set()
        #: the error with which the store refused this epoch
        self._fenced: FencedError | None = None
        self._closing = host.event()
        self._thread = host.start(self._run, "cursor-flush")

    def claim(self, epoch: int) -> None:
        """Claim the epoch at the store, and forget what waits under an older one; errors as the store's."""
        with self._writing:
            self._store.claim(epoch)
            with self._lock:
                self._enter(epoch)

    def load(self) -> list[Subscription]:
        """Return every subscription as it was saved last, in the order of client ids."""
        self._write_waiting()
        return self._store.load()

    def save(self, subscription: Subscription, epoch: int) -> None:
        """Keep a subscription, and write it to the store, at once or with the next flush.

        Raises:
            FencedError: a newer epoch has been seen, here or by the last flush; nothing was kept.
            CoordinatorUnavailable: the store has not answered for long. The cursor is kept, and written when
                the store answers again; saving again is harmless.
        """
        client_id = subscription.client_id
        with self._lock:
            self._check(epoch, f"the cursor of {client_id}")
            known = self._known.get(client_id)
            may_wait = known is not None and _only_moved(known, subscription)
            if may_wait and client_id not in self._unsure:
                since = self._waiting.setdefault(client_id, self._clock_s())
                self._known[client_id] = subscription
                if self._clock_s() - since < OVERDUE_FLUSHES * self._flush_s:
                    return
        with self._writing:
            with self._lock:
                # Another epoch may have been claimed meanwhile, under which nothing of this one is kept.
                self._check(epoch, f"the cursor of {client_id}")
                self._known[client_id] = subscription
                self._unsure.add(client_id)
                self._waiting.setdefault(client_id, self._clock_s())
            self._write(subscription, epoch)
            with self._lock:
                self._written(client_id)

    def forget(self, client_id: str, epoch: int) -> None:
        """Remove a subscription and its cursor here and in the store, at once; errors as in `save`."""
        with self._lock:
            self._check(epoch, f"the subscription of {client_id}")
        with self._writing:
            self._store.forget(client_id, epoch)
            with self._lock:
                self._known.pop(client_id, None)
                self._written(client_id)

    def flush(self, epoch: int) -> None:
        """Write the waiting cursors.

        Raises:
            FencedError: a newer epoch has been seen, here or by the store; nothing that waits is written.
            CanalGroupError: the store refused. Cursors that were not written keep waiting.
        """
        with self._lock:
            self._check(epoch, "what waits")
        self._write_waiting()

    def close(self) -> None:
        """Write the waiting cursors and stop.

        If a cursor cannot be written, its rows are delivered again later; the log says so.
        """
        self._closing.set()
        self._thread.join()
        try:
            self._write_waiting()
        except CanalGroupError as error:
            _log.warning(
                "cursors of %s were not written, their rows will be delivered again: %s",
                sorted(self._waiting),
                error,
            )
        self._store.close()

    # ---- inside

    def _check(self, epoch: int, what: str) -> None:
        refuse_older(epoch, self._epoch, what)
        self._enter(epoch)
        if self._fenced is not None:
            raise self._fenced

    def _enter(self, epoch: int) -> None:
        if epoch != self._epoch:
            self._epoch, self._known, self._waiting, self._fenced = epoch, {}, {}, None
            self._unsure.clear()

    def _written(self, client_id: str) -> None:
        self._waiting.pop(client_id, None)
        self._unsure.discard(client_id)

    def _write_waiting(self) -> None:
        with self._lock:
            waiting = list(self._waiting)
        for client_id in waiting:
            self._flush_one(client_id)

    def _flush_one(self, client_id: str) -> None:
        with self._writing:
            with self._lock:
                if client_id not in self._waiting:
                    return
                subscription, epoch = self._known[client_id], self._epoch
            self._write(subscription, epoch)
            with self._lock:
                if self._known[client_id] is subscription:
                    self._written(client_id)
                else:
                    self._waiting[client_id] = self._clock_s()

    def _write(self, subscription: Subscription, epoch: int) -> None:
        try:
            self._store.save(subscription, epoch)
        except FencedError as error:
            with self._lock:
                self._fenced, self._waiting = error, {}
            raise

    def _run(self) -> None:
        while not self._closing.wait(self._flush_s):
            try:
                self._write_waiting()
            except CanalGroupError as error:
                _log.warning("cursors were not written, next try in %.1f s: %s", self._flush_s, error)


def _only_moved(before: Subscription, after: Subscription) -> bool:
    """Return whether only the positions in the cursor changed."""
    if before.cursor is None or after.cursor is None:
        return False
    if (before.filter, before.dropped, before.losses) != (after.filter, after.dropped, after.losses):
        return False
    return before.cursor.shards.keys() == after.cursor.shards.keys() and (
        before.cursor.retired == after.cursor.retired
    )
