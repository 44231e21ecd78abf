"""Cursors in memory, written to another store each while: an ack does not wait for a disk or a quorum.

Rules:
- only a cursor that went on waits. A new subscription, another filter, other shards and a removal are written
  at once, and so is everything once the store has not answered for `OVERDUE_FLUSHES` whiles;
- what waits belongs to its epoch: it is written under it, or never;
- a write that was not answered may have been done: nothing older follows it, and the next one waits for the
  store.
"""

from __future__ import annotations

import logging

from actors.ports import CursorStore, Host, Subscription
from actors.process.host import OS_HOST
from merge.errors import CanalGroupError, FencedError
from merge.values.epoch import refuse_older

_log = logging.getLogger(__name__)

#: whiles after which a cursor that could not be written makes every further one wait for the store
OVERDUE_FLUSHES = 5


class PeriodicCursorStore:
    """Keeps cursors in memory and flushes them to a store, periodically and in a hand-over in good order.

    Guarantees: what the store holds is a cursor that was saved here, and never an older one than before; an
    older epoch's cursors do not reach it. Does not guarantee: that a saved cursor survives the end of the
    process. What was acknowledged since the last flush comes twice then: that of `flush_s` seconds, and of
    `OVERDUE_FLUSHES` times that at most while the store does not answer. Nothing is lost by it.

    Implements `actors.ports.CursorStore`. Safe to use from several threads.

    Args:
        store: where to write.
        flush_s: seconds between two flushes.
        host: on a thread of which it writes.
    """

    def __init__(self, store: CursorStore, flush_s: float, host: Host = OS_HOST) -> None:
        self._clock_s = host.clock_s
        self._store = store
        self._flush_s = flush_s
        self._lock = host.lock()
        #: held while the store is written, so that an older cursor never follows a newer one
        self._writing = host.lock()
        self._epoch = 0
        #: what was saved last, by client id
        self._known: dict[str, Subscription] = {}
        #: client ids whose last save is not in the store, and since when, seconds of the host's clock
        self._waiting: dict[str, float] = {}
        #: client ids of which it is not known whether a write at once was done
        self._unsure: set[str] = set()
        #: why the store takes no more of this epoch
        self._fenced: FencedError | None = None
        self._closing = host.event()
        self._thread = host.start(self._run, "cursor-flush")

    def claim(self, epoch: int) -> None:
        """Claim the epoch at the store; what waits under an older one is forgotten. Raises as the store's."""
        with self._writing:
            self._store.claim(epoch)
            with self._lock:
                self._enter(epoch)

    def load(self) -> list[Subscription]:
        """Return every subscription as it was saved last, in the order of client ids."""
        self._write_waiting()
        return self._store.load()

    def save(self, subscription: Subscription, epoch: int) -> None:
        """Keep a subscription, and see to it that the store gets it.

        Raises:
            FencedError: a newer epoch has been seen, here or by the last flush; nothing was kept.
            CoordinatorUnavailable: the store has not answered for long. The cursor is kept, and written if
                it answers again; saving again is harmless.
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
        """Write what waits.

        Raises:
            FencedError: a newer epoch has been seen, here or by the store; what waits is not written.
            CanalGroupError: the store's refusal. What is not written goes on waiting.
        """
        with self._lock:
            self._check(epoch, "what waits")
        self._write_waiting()

    def close(self) -> None:
        """Write what waits, and end; what cannot be written now comes twice, and the log says so."""
        self._closing.set()
        self._thread.join()
        try:
            self._write_waiting()
        except CanalGroupError as error:
            _log.warning("cursors of %s not written, their rows come again: %s", sorted(self._waiting), error)
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
                _log.warning("cursors not written, tried again in %.1f s: %s", self._flush_s, error)


def _only_moved(before: Subscription, after: Subscription) -> bool:
    """Return whether nothing but the places in the cursor changed."""
    if before.cursor is None or after.cursor is None:
        return False
    if (before.filter, before.dropped) != (after.filter, after.dropped):
        return False
    return before.cursor.shards.keys() == after.cursor.shards.keys() and (
        before.cursor.retired == after.cursor.retired
    )
