"""One kind of values in memory, written to another store periodically: a write waits for no disk or quorum.

Rules:
- a write waits if its caller lets it, and the value was written before under the same epoch. Others are done
  at once; so is everything once the store has not answered for `OVERDUE_FLUSHES` flush intervals;
- a waiting value is written under the epoch that it was put in, or not at all;
- a write without an answer may have been done: no older value is written after it, and the next write of that
  key waits for the store.
"""

from __future__ import annotations

import logging

from canal_group.actors.ports import EpochStore, Host, Key, Kind
from canal_group.actors.process.host import OS_HOST
from canal_group.merge.errors import CanalGroupError, FencedError
from canal_group.merge.values.epoch import refuse_older

_log = logging.getLogger(__name__)

#: flush intervals after which writes of a value that could not be written wait for the store
OVERDUE_FLUSHES = 5


class PeriodicStore:
    """Keeps a kind's values in memory and flushes them to a store, periodically and at an orderly hand-over.

    Guarantees: the store holds a value that was put here, and never an older one than before; values of an
    older epoch do not reach it. Does not guarantee that a value that may wait survives the end of the
    process. What was put since the last flush is then lost: that of `flush_s` seconds, or of at most
    `OVERDUE_FLUSHES` times that while the store does not answer. Other kinds go to the store at once.

    Implements `canal_group.actors.ports.EpochStore`. Safe to use from several threads.

    Args:
        store: the store to write to.
        kind: whose writes may wait.
        flush_s: seconds between two flushes.
        host: starts the thread that writes.
    """

    def __init__(self, store: EpochStore, kind: Kind, flush_s: float, host: Host = OS_HOST) -> None:
        self._clock_s = host.clock_s
        self._store = store
        self._kind = kind
        self._flush_s = flush_s
        self._lock = host.lock()
        #: held while the store is written, so that an older value is never written after a newer one
        self._writing = host.lock()
        self._epoch = 0
        #: what was put last
        self._texts: dict[Key, str] = {}
        #: keys whose last value is not in the store, and since when, seconds of the host's clock
        self._waiting: dict[Key, float] = {}
        #: keys whose last immediate write may or may not have been done
        self._unsure: set[Key] = set()
        #: the error with which the store refused this epoch
        self._fenced: FencedError | None = None
        self._closing = host.event()
        self._thread = host.start(self._run, "store-flush")

    def claim(self, epoch: int) -> None:
        """Claim the epoch at the store, and forget what waits under an older one."""
        with self._writing:
            self._store.claim(epoch)
            with self._lock:
                self._enter(epoch)

    def names(self, kind: Kind, epoch: int) -> list[str]:
        """Return the names of a kind's keys, in order."""
        self._admit(epoch, kind.name)
        if kind == self._kind:
            self._write_waiting()
        return self._store.names(kind, epoch)

    def get(self, key: Key, epoch: int) -> str | None:
        """Return a value as it was put last."""
        self._admit(epoch, str(key))
        if key in self._waiting:
            self._flush_one(key)
        return self._store.get(key, epoch)

    def put(self, key: Key, text: str, epoch: int, *, may_wait: bool = False) -> None:
        """Keep a value, and write it to the store, at once or with the next flush.

        Raises:
            FencedError: a newer epoch has been seen, here or by the last flush; nothing was kept.
            CoordinatorUnavailable: the store has not answered for long. The value is kept, and written when
                the store answers again; putting it again is harmless.
        """
        self._admit(epoch, str(key))
        if key.kind != self._kind:
            self._store.put(key, text, epoch)
            return
        with self._lock:
            self._check(epoch, str(key))
            if may_wait and key in self._texts and key not in self._unsure:
                since = self._waiting.setdefault(key, self._clock_s())
                self._texts[key] = text
                if self._clock_s() - since < OVERDUE_FLUSHES * self._flush_s:
                    return
        with self._writing:
            with self._lock:
                # Another epoch may have been claimed meanwhile, under which nothing of this one is kept.
                self._check(epoch, str(key))
                self._texts[key] = text
                self._unsure.add(key)
                self._waiting.setdefault(key, self._clock_s())
            self._write(key, text, epoch)
            with self._lock:
                self._written(key)

    def append(self, key: Key, text: str, epoch: int) -> None:
        """Continue a value in the store, at once."""
        self._admit(epoch, str(key))
        if key in self._waiting:
            self._flush_one(key)
        self._store.append(key, text, epoch)

    def delete(self, key: Key, epoch: int) -> None:
        """Remove a value here and in the store, at once."""
        self._admit(epoch, str(key))
        if key.kind != self._kind:
            self._store.delete(key, epoch)
            return
        with self._writing:
            self._store.delete(key, epoch)
            with self._lock:
                self._texts.pop(key, None)
                self._written(key)

    def where(self, key: Key) -> str:
        """Return the address of a value in the store."""
        return self._store.where(key)

    def flush(self, epoch: int) -> None:
        """Write the waiting values.

        Raises:
            FencedError: a newer epoch has been seen, here or by the store; nothing that waits is written.
            CanalGroupError: the store refused. Values that were not written keep waiting.
        """
        self._admit(epoch, "what waits")
        self._write_waiting()

    def close(self) -> None:
        """Write the waiting values and stop.

        If one cannot be written, what follows the value before it is repeated later; the log says so.
        """
        self._closing.set()
        self._thread.join()
        try:
            self._write_waiting()
        except CanalGroupError as error:
            _log.warning(
                "%s were not written, what followed those in the store will be repeated: %s",
                sorted(map(str, self._waiting)),
                error,
            )
        self._store.close()

    # ---- inside

    def _admit(self, epoch: int, what: str) -> None:
        with self._lock:
            self._check(epoch, what)

    def _check(self, epoch: int, what: str) -> None:
        refuse_older(epoch, self._epoch, what)
        self._enter(epoch)
        if self._fenced is not None:
            raise self._fenced

    def _enter(self, epoch: int) -> None:
        if epoch != self._epoch:
            self._epoch, self._texts, self._waiting, self._fenced = epoch, {}, {}, None
            self._unsure.clear()

    def _written(self, key: Key) -> None:
        self._waiting.pop(key, None)
        self._unsure.discard(key)

    def _write_waiting(self) -> None:
        with self._lock:
            waiting = list(self._waiting)
        for key in waiting:
            self._flush_one(key)

    def _flush_one(self, key: Key) -> None:
        with self._writing:
            with self._lock:
                if key not in self._waiting:
                    return
                text, epoch = self._texts[key], self._epoch
            self._write(key, text, epoch)
            with self._lock:
                if self._texts[key] is text:
                    self._written(key)
                else:
                    self._waiting[key] = self._clock_s()

    def _write(self, key: Key, text: str, epoch: int) -> None:
        try:
            self._store.put(key, text, epoch)
        except FencedError as error:
            with self._lock:
                self._fenced, self._waiting = error, {}
            raise

    def _run(self) -> None:
        while not self._closing.wait(self._flush_s):
            try:
                self._write_waiting()
            except CanalGroupError as error:
                _log.warning("values were not written, next try in %.1f s: %s", self._flush_s, error)
