"""The ring store of one shard: canal's memory store, columnar.

A numpy ring of headers, its size a power of two, slot = `sequence & (size - 1)`. Three cursors grow from -1:

    ack <= get <= put       last sequence acknowledged, handed out, stored

There is one more: get <= released <= put. What follows it waits for the disk: a page of a snapshot until it
was written; with the store `file` everything until the archive of the source has it.

For each cursor the ring counts the bytes up to it. Rows stay in the chunks that they came in; a chunk is
freed when its last header is acknowledged.

Rules:

1. `items` mode bounds slots. `memory` mode bounds bytes too, checked before adding: a ring below its bound
   always admits one header, however large it is.
2. A put waits, and admits a chunk in parts as there is room: a chunk may have more headers than the ring has
   slots.
3. A get waits for a time, which may be 0, and hands out at least one header where there is one, within its
   bound.
4. A get hands out nothing that waits for the disk, and nothing after that.
5. Every method may be called from any thread. `close` ends every wait.

canal's store has more forms, which nothing here would call: a put that admits all of a chunk or nothing, at
once or within a time; a get that waits without end, or until a batch is full; a get bounded by memory units;
and the position of the last header stored. Batches are cut by the group, see
`canal_group.merge.delivery.batch_limits`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from canal_group.actors.ports import Host
from canal_group.actors.process.host import OS_HOST
from canal_group.conf.stream_settings import StoreSettings
from canal_group.merge.errors import ShardUnavailable, UsageError
from canal_group.merge.values.chunk import Chunk
from canal_group.merge.values.ddl_mark import DdlMark
from canal_group.merge.values.header import HEADER, Flag, HeaderRun, Headers, page_rows
from canal_group.merge.values.names import Names
from canal_group.merge.values.position import Position

_T = TypeVar("_T")

#: a get that gathers waits for this part of a ring, as a divisor: with more the ring could fill up meanwhile
MANY_PARTS = 4
#: this part of a ring, as a divisor, handed out at once, shows that the source has more
MUCH_PARTS = 8


@dataclass(frozen=True, slots=True)
class Stored:
    """A chunk, or a part of one, in the ring."""

    #: sequence of the chunk's header `header_begin`
    first_sequence: int
    chunk: Chunk
    #: headers of the chunk: begin inclusive, end exclusive
    header_begin: int
    header_end: int


class RingStore:
    """A bounded queue of chunks that forgets only what is acknowledged, by the rules above.

    Args:
        settings: how much it holds.
        host: makes its locks; its threads use the ring.
        gated: whether nothing is handed out before `release` says that it is durable.
    """

    def __init__(self, settings: StoreSettings, host: Host = OS_HOST, *, gated: bool = False) -> None:
        self._settings = settings
        self._ring = np.zeros(settings.size, dtype=HEADER)
        self._mask = settings.size - 1
        self._names = Names()
        self._lock = host.lock()
        self._not_full = host.condition(self._lock)
        self._not_empty = host.condition(self._lock)
        self._closed = False
        self._clock_s = host.clock_s
        #: since when a put waits for room, seconds; None: none does
        self._short_since_s: float | None = None
        #: how often a put had to wait, and how long those took that have ended, seconds
        self._waits, self._waited_s = 0, 0.0
        self._wakes = 0
        #: grows with each rollback
        self._rollback_generation = 0
        #: called after headers were freed
        self._on_free: Callable[[], None] = _do_nothing
        self._payload: deque[Stored] = deque()
        #: marks of stored DDL statements by sequence, ascending
        self._ddls: dict[int, DdlMark] = {}
        #: cursors of the snapshot by the sequence from which they count, ascending
        self._snapshots: dict[int, str] = {}
        #: sequences, from -1; ack <= get <= released <= put
        self._put = self._released = self._get = self._ack = -1
        #: see `release`; None: nothing waits for the archive
        self._durable: Mapping[str, int] | None = {} if gated else None
        #: sequences of the pages that wait to be written
        self._unwritten: deque[int] = deque()
        #: position at which the last acknowledged header ends, and the last of these cursors up to there
        self._first_position: Position | None = None
        self._first_snapshot: str | None = None
        #: bytes of all headers up to each cursor
        self._put_bytes = self._get_bytes = self._ack_bytes = 0

    # ---- put -------------------------------------------------------------------------------------------

    def put(self, chunk: Chunk, begin: int = 0, end: int | None = None, *, written: bool = True) -> None:
        """Store a chunk, waiting for room as long as it takes.

        Args:
            chunk: what to store.
            begin: index of the first header to store; the chunk's cursor of a snapshot counts from it on.
            end: index after the last one; None: all of the rest.
            written: False: it has one header, which waits until `wrote` counts it.

        Raises:
            ShardUnavailable: the ring was closed; a part of the chunk may be in it.
        """
        with self._lock:
            done, stop = begin, len(chunk.headers) if end is None else end
            while done < stop:
                self._check_open()
                count = self._room(chunk.headers[done:stop])
                if not count:
                    if self._short_since_s is None:
                        self._short_since_s, self._waits = self._clock_s(), self._waits + 1
                    self._not_full.wait()
                    continue
                if self._short_since_s is not None:
                    self._waited_s += self._clock_s() - self._short_since_s
                    self._short_since_s = None
                if not written:
                    self._unwritten.append(self._put + 1)
                self._admit(chunk, done, done + count, chunk.snapshot if done == begin else None)
                done += count

    def _room(self, headers: Headers) -> int:
        """Return how many of the headers can be admitted now."""
        count = min(len(headers), self._settings.size - (self._put - self._ack))
        if self._settings.mode == "memory":
            used = self._put_bytes - self._ack_bytes
            before = used + np.cumsum(headers["bytes"][:count]) - headers["bytes"][:count]
            count = int(np.searchsorted(before, self._settings.bytes_max, side="left"))
        return count

    def _admit(self, chunk: Chunk, begin: int, end: int, snapshot: str | None) -> None:
        if begin == end:
            return
        headers = self._names.adopt(HeaderRun(chunk.headers[begin:end], chunk.names))
        first = self._put + 1
        headers["sequence"] = np.arange(first, first + len(headers))
        self._ring[headers["sequence"] & self._mask] = headers
        self._payload.append(Stored(first, chunk, begin, end))
        for index, mark in sorted(chunk.ddls.items()):
            if begin <= index < end:
                self._ddls[first + index - begin] = mark
        if snapshot is not None:
            self._snapshots[first] = snapshot
        # What waits for the disk already, waits on: nothing after it is looked at.
        waits = self._released < self._put
        self._put += len(headers)
        self._put_bytes += int(headers["bytes"].sum())
        if not waits:
            self._release()
        self._not_empty.notify_all()

    # ---- release ---------------------------------------------------------------------------------------

    @property
    def gated(self) -> bool:
        """Whether nothing is handed out before `release` says that it is durable."""
        return self._durable is not None

    def release(self, durable: Mapping[str, int]) -> None:
        """Let headers be handed out that end at or before the durable offset of their file, without a gap.

        What was released stays so.

        Args:
            durable: that offset, at the end of a transaction, by file; nothing of other files is durable.
        """
        with self._lock:
            if self._durable is not None:
                self._durable = durable
                self._release()
                self._not_empty.notify_all()

    def wrote(self, count: int) -> None:
        """Let the next pages be handed out that wait to be written.

        Args:
            count: of them.
        """
        with self._lock:
            for _ in range(count):
                self._unwritten.popleft()
            self._release()
            self._not_empty.notify_all()

    def _release(self) -> None:
        until = self._unwritten[0] - 1 if self._unwritten else self._put
        if self._durable is None or self._released == until:
            self._released = until
            return
        # A fragment ends inside of its transaction, so the whole of that is durable if the fragment's end is.
        held, names = self._between(self._released, until), self._names.as_tuple()
        files, of_header = np.unique(held["file"], return_inverse=True)
        ends = np.array([self._durable.get(names[file], 0) for file in files.tolist()], dtype=np.int64)
        waits = held["end_offset"] > ends[of_header]
        self._released += int(np.argmax(waits)) if waits.any() else len(held)

    # ---- get -------------------------------------------------------------------------------------------

    def get_within(
        self,
        timeout_s: float,
        items_max: int | None = None,
        rollback_generation: int | None = None,
        gather_s: float = 0.0,
    ) -> HeaderRun:
        """Hand out the next headers; wait for the first until a timeout or `wake`; none if none came.

        Args:
            timeout_s: how long to wait, seconds; 0: not at all.
            items_max: bound on headers.
            rollback_generation: `rollback_generation` as it was when the caller learned that it may read;
                None: do not check it.
            gather_s: how long to wait after the first header, seconds, until there are many, or no room for
                more.

        Raises:
            ShardUnavailable: the ring was closed, or was rolled back since `rollback_generation`; nothing was
                handed out.
        """
        with self._lock:
            wakes = self._wakes
            self._not_empty.wait_for(
                lambda: self._closed or self._get < self._released or self._wakes != wakes, timeout_s
            )
            if gather_s and self._get < self._released:
                self._not_empty.wait_for(
                    lambda: self._closed or self._gathered() or self._wakes != wakes, gather_s
                )
            if rollback_generation is not None and rollback_generation != self._rollback_generation:
                raise ShardUnavailable("The ring was rolled back while a get waited.", retry_after_s=0.1)
            if self._get == self._released:
                self._check_open()
            return self._take(items_max)

    def is_much(self, run: HeaderRun) -> bool:
        """Return whether a run is so large that the source certainly has more."""
        return self._is_part(MUCH_PARTS, len(run), int(run.headers["bytes"].sum()))

    def _is_part(self, parts: int, items: int, size: int) -> bool:
        """Return whether a number of items or of bytes is at least 1 / `parts` of a full ring."""
        if items * parts >= self._settings.size:
            return True
        return self._settings.mode == "memory" and size * parts >= self._settings.bytes_max

    def _gathered(self) -> bool:
        """Return whether there are many headers to hand out, or no room for more."""
        if self._is_part(MANY_PARTS, self._put - self._get, self._put_bytes - self._get_bytes):
            return True
        if self._put - self._ack >= self._settings.size:
            return True
        memory = self._settings.mode == "memory"
        return memory and self._put_bytes - self._ack_bytes >= self._settings.bytes_max

    def _take(self, items_max: int | None) -> HeaderRun:
        upto = self._released
        if items_max is not None:
            upto = min(upto, self._get + max(items_max, 1))
        taken = self._between(self._get, upto)
        self._get += len(taken)
        self._get_bytes += int(taken["bytes"].sum())
        sequences = taken["sequence"]
        if not len(taken):
            return HeaderRun(taken, self._names.as_tuple())
        first, last = int(sequences[0]), int(sequences[-1])
        ddls, snapshots = _within(self._ddls, first, last), _within(self._snapshots, first, last)
        return HeaderRun(taken, self._names.as_tuple(), ddls, snapshots)

    # ---- ack, rollback ---------------------------------------------------------------------------------

    def ack(self, sequence: int, rollback_generation: int | None = None) -> None:
        """Forget everything up to and including `sequence`, which was handed out.

        A sequence that is forgotten already, or of an earlier rollback generation, changes nothing.

        Args:
            sequence: of a header.
            rollback_generation: `rollback_generation` when the header was handed out; None: do not check it.

        Raises:
            UsageError: it was not handed out; nothing was changed.
        """
        with self._lock:
            if rollback_generation not in (None, self._rollback_generation):
                return
            if sequence > self._get:
                raise UsageError(
                    f"Sequence {sequence} cannot be acknowledged: the last one handed out is {self._get}."
                )
            if sequence <= self._ack:
                return
            self._ack_bytes += int(self._between(self._ack, sequence)["bytes"].sum())
            passed = [text for number, text in self._snapshots.items() if number <= sequence]
            self._first_snapshot = passed[-1] if passed else self._first_snapshot
            # Keep the position: the header's slot may be overwritten from now on.
            self._first_position = self._position(sequence)
            self._ack = sequence
            while self._payload and _last_sequence(self._payload[0]) <= sequence:
                self._payload.popleft()
            self._ddls = {number: mark for number, mark in self._ddls.items() if number > sequence}
            self._snapshots = {number: text for number, text in self._snapshots.items() if number > sequence}
            self._not_full.notify_all()
        self._on_free()

    def on_free(self, call: Callable[[], None]) -> None:
        """Let `call` be called after each ack that freed something, by the thread that acknowledged.

        It replaces the one before, and must neither wait nor raise.
        """
        self._on_free = call

    def rollback(self) -> None:
        """Hand out again everything that is not acknowledged."""
        with self._lock:
            self._rollback_generation += 1
            self._get, self._get_bytes = self._ack, self._ack_bytes
            self._not_empty.notify_all()

    def close(self) -> None:
        """End every wait, now and later, with ShardUnavailable."""
        with self._lock:
            self._closed = True
            self._not_empty.notify_all()
            self._not_full.notify_all()

    def wake(self) -> None:
        """End the waits of `get_within`: there is news other than headers."""
        with self._lock:
            self._wakes += 1
            self._not_empty.notify_all()

    # ---- look ------------------------------------------------------------------------------------------

    def fetch(self, begin: int, end: int) -> list[Stored]:
        """Return the stored parts of chunks that hold the sequences `begin <= sequence < end`, in order.

        Raises:
            UsageError: a part of the range is acknowledged already or not there yet.
        """
        with self._lock:
            if begin <= self._ack or end > self._put + 1:
                raise UsageError(
                    f"Sequences {begin} to {end} (exclusive) are not in the ring, "
                    f"which holds {self._ack + 1} to {self._put + 1} (exclusive)."
                )
            payload = list(self._payload)
        start = max(bisect_right(payload, begin, key=lambda stored: stored.first_sequence) - 1, 0)
        parts: list[Stored] = []
        for stored in payload[start:]:
            if stored.first_sequence >= end:
                break
            low = max(begin - stored.first_sequence, 0)
            high = min(end - stored.first_sequence, stored.header_end - stored.header_begin)
            if low < high:
                part = (stored.header_begin + low, stored.header_begin + high)
                parts.append(Stored(stored.first_sequence + low, stored.chunk, *part))
        return parts

    @property
    def rollback_generation(self) -> int:
        """Count of rollbacks; it tells whether a caller may still read."""
        with self._lock:
            return self._rollback_generation

    @property
    def cursors(self) -> tuple[int, int, int]:
        """The cursors (ack, get, put)."""
        with self._lock:
            return self._ack, self._get, self._put

    @property
    def has_news(self) -> bool:
        """Whether there are headers to hand out."""
        with self._lock:
            return self._get < self._released

    @property
    def first_held(self) -> tuple[int, str, int] | None:
        """How many headers wait for the archive, and file and end of the first; None: no header waits."""
        with self._lock:
            waits_for_page = bool(self._unwritten) and self._unwritten[0] == self._released + 1
            if self._durable is None or self._released == self._put or waits_for_page:
                return None
            header = self._ring[(self._released + 1) & self._mask]
            file = self._names.as_tuple()[header["file"]]
            return self._put - self._released, file, int(header["end_offset"])

    @property
    def short(self) -> bool:
        """Whether a put waits until something is acknowledged."""
        with self._lock:
            # What is not released cannot be acknowledged.
            return self._short_since_s is not None and self._ack < self._released

    @property
    def bytes_held(self) -> int:
        """Bytes of rows that are not acknowledged."""
        with self._lock:
            return self._put_bytes - self._ack_bytes

    def describe(self) -> dict[str, Any]:
        """Return the cursors, bytes and waits as a JSON object."""
        with self._lock:
            since_s = self._short_since_s
            waiting_s = 0.0 if since_s is None else self._clock_s() - since_s
            return {
                "ack": self._ack,
                "get": self._get,
                "put": self._put,
                "held": self._put - self._released,
                "bytes": self._put_bytes - self._ack_bytes,
                "bytes_max": self._settings.bytes_max if self._settings.mode == "memory" else None,
                "headers_max": self._settings.size,
                "put_bytes": self._put_bytes,
                "waits": self._waits,
                "waited_s": self._waited_s + waiting_s,
                "full": since_s is not None,
                "full_of": None if since_s is None else self._full_of(),
            }

    def _full_of(self) -> str:
        """Return the unit that there is no room for: `headers`, or `bytes`."""
        return "headers" if self._put - self._ack >= self._settings.size else "bytes"

    def first_position(self) -> Position | None:
        """Return the position at which the last acknowledged header ends; None before the first ack."""
        with self._lock:
            return self._first_position

    def _position(self, sequence: int) -> Position | None:
        if sequence < 0:
            return None
        header = self._ring[sequence & self._mask]
        whole = bool(header["flags"] & Flag.END)
        return Position(
            file=self._names.as_tuple()[header["file"]],
            offset=int(header["end_offset"] if whole else header["begin_offset"]),
            commit_us=int(header["commit_us"]),
            rows_into_transaction=0 if whole else int(header["row_end"]),
            page_rows=int(page_rows(header)),
            snapshot=self._first_snapshot,
        )

    def _between(self, after: int, upto: int) -> Headers:
        headers: Headers = self._ring[np.arange(after + 1, upto + 1) & self._mask]
        return headers

    def _check_open(self) -> None:
        if self._closed:
            raise ShardUnavailable("The ring store is closed.", retry_after_s=0.1)


def _within(values: Mapping[int, _T], first: int, last: int) -> dict[int, _T]:
    return {sequence: value for sequence, value in values.items() if first <= sequence <= last}


def _do_nothing() -> None:
    """Is called after headers were freed if nobody wants to know."""


def _last_sequence(stored: Stored) -> int:
    return stored.first_sequence + stored.header_end - stored.header_begin - 1
