"""A consumer: reads one destination under one client id, batch by batch, in order.

Delivery is at least once. Rows that were not acknowledged are delivered again after a rollback, after a
restart, and when another consumer takes over the client id. Each row carries `shard, file, pos, row` for
de-duplication.

Calls survive a failover: a call is repeated at the next gateway until a server answers. An acknowledgement
whose answer was lost is not simply repeated: the consumer first asks the server whether the cursor has moved.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Literal, Self, TypeVar

import pyarrow as pa

from canal_group.client.batch import Batch, position_of
from canal_group.client.lease import Lease, NodeKeeper
from canal_group.client.prefetch import Prefetch
from canal_group.client.unfinished import Unfinished
from canal_group.gateway.gateway_client import GatewayClient, fields
from canal_group.gateway.retry import keep_trying
from canal_group.merge.calls.consumers import (
    Ack,
    AckAndGet,
    Get,
    GetRange,
    LeaseState,
    Locate,
    Rollback,
    Status,
    Unsubscribe,
)
from canal_group.merge.errors import (
    CanalGroupError,
    CoordinatorUnavailable,
    NotSubscribed,
    RetryableError,
    RolledBack,
    ServerUnavailable,
    ShardUnavailable,
    UnknownBatch,
)
from canal_group.merge.values.offset_range import OffsetRange
from canal_group.merge.values.position import GroupPosition
from canal_group.merge.whole import whole

_log = logging.getLogger(__name__)

#: duration of one request of a waiting get, seconds; the wait consists of as many requests as needed
_GET_SLICE_S = 3.0
#: errors that a failover causes
_AWAY = (ServerUnavailable, CoordinatorUnavailable, ShardUnavailable)

T = TypeVar("T")


class Consumer:
    """The one active consumer of a client id, as long as it lives; see `canal_group.connect`.

    Its lease is renewed on a thread of its own. Safe to use from several threads; batches must be
    acknowledged in the order of their ids, from whichever thread.
    """

    def __init__(
        self,
        gateway_client: GatewayClient,
        client_id: str,
        table_filter: str,
        wait_s: float | None,
        *,
        retry_s: float | None = None,
        node: NodeKeeper | None = None,
        keep: bool = False,
        look: bool = False,
        snapshot: str | None = None,
    ) -> None:
        self._gateway_client = gateway_client
        wanted = None if snapshot is None else snapshot != "never"
        self._lease = Lease(gateway_client, client_id, node, keep=keep, look=look, snapshot=wanted)
        #: whether iterating ends with the snapshot
        self._snapshot_only = snapshot == "only"
        self._retry_s = retry_s
        self._filter = table_filter
        self._wait_s = wait_s
        #: allows one get at a time, so that the newest received batch is known
        self._getting = threading.Lock()
        #: the last batch that we have: the next get takes back what was delivered after it
        self._seen_id = 0
        #: allows one `get` at a time, so that batches are acknowledged in order
        self._taking = threading.Lock()
        #: the batch of a `get` that failed: the next one has it again
        self._unreturned: Batch | None = None
        self._unfinished = Unfinished()
        #: the last batch that the loop over `batches` has processed; the next request acknowledges it
        self._processed: int | None = None
        #: how rows were read last: those of the next small batch come with it, read the same way
        self._last_read: dict[str, Any] | None = None
        #: grows whenever outstanding batches are known to be rolled back
        self.rollback_generation = 0
        #: the durable cursor as of the subscription or the last acknowledgement
        self.cursor = GroupPosition()

    # ---- subscription ----------------------------------------------------------------------------------

    def subscribe(
        self,
        table_filter: str | None = None,
        *,
        resume: Literal["cursor", "now"] | None = None,
        start: str | GroupPosition | None = None,
    ) -> GroupPosition:
        """Become the active consumer, and return the cursor.

        Args:
            table_filter: canal's comma-separated regular expressions on `schema.table`; None: unchanged.
            resume: where to continue after the client id was dropped, or its position was purged. "cursor":
                at its cursor, and the sources are read again from there; "now": where the other clients are
                now.
            start: where a client id without a cursor begins, see `canal_group.connect`; a cursor is never
                moved by it.

        Raises:
            SubscriptionDropped: the client id was dropped, and `resume` is None.
            ConfigError: `start` is not a start.
            PositionPurged: a source no longer has changes from `start`.
            ConsumerActive: another consumer holds the client id, and still did after `wait_s`.
        """
        if table_filter is not None:
            self._filter = table_filter
        start_text = start.to_json() if isinstance(start, GroupPosition) else start
        waits = ""

        def attempt() -> GroupPosition:
            nonlocal waits
            try:
                return self._lease.take(self._filter, resume, start_text)
            except RetryableError as error:
                if waits != str(error):
                    waits = str(error)
                    _log.info("waits: %s", waits, extra={"client": self.client_id})
                raise

        cursor = keep_trying(
            attempt,
            (RetryableError,),
            self._deadline_s(self._wait_s),
            self._lease.closed.wait,
        )
        self._seen_id = 0
        self.rollback_generation += 1
        self._unfinished.forget()
        self.cursor = cursor
        self._lease.keep()
        return self.cursor

    @property
    def client_id(self) -> str:
        """Client id of the cursor of this consumer."""
        return self._lease.client_id

    @property
    def holder(self) -> str:
        """The name that others see when they ask who holds the client id."""
        return self._lease.holder

    @property
    def gateway_client(self) -> GatewayClient:
        """The client of the gateways; it can be copied to tasks in other processes."""
        return self._gateway_client

    @property
    def retry_s(self) -> float | None:
        """Seconds for which a call is retried while the server is unavailable; None: without limit."""
        return self._retry_s

    @property
    def epoch(self) -> int:
        """The fencing epoch that calls of this consumer carry."""
        return self._lease.epoch

    def unsubscribe(self) -> None:
        """End the subscription and remove its cursor."""
        was_sent = False

        def attempt() -> None:
            nonlocal was_sent
            try:
                self._gateway_client.ask(Unsubscribe(*self._lease.key))
            except NotSubscribed:
                if not was_sent:
                    raise
            except CanalGroupError:
                was_sent = True
                raise

        self._patiently(attempt)
        self._unfinished.forget()

    # ---- batches ---------------------------------------------------------------------------------------

    def get_without_ack(self, batch_size: int = 1_000, timeout: float | None = None) -> Batch | None:
        """Return the next batch; wait for one if there is none yet.

        Args:
            batch_size: limit on its rows; the server has a limit too.
            timeout: seconds to wait; None: without limit.

        Returns:
            The batch, which is outstanding until it is acknowledged or rolled back; None after the timeout.

        Raises:
            RolledBack: outstanding batches were lost together with a shard or the server; discard them and
                get again.
            FencedError: another consumer took over.
            RetryableError: the server was unavailable for longer than `retry_s` or `timeout`; get again.
            DataError: a shard stopped at data that needs an operator.
        """
        return self._next(batch_size, timeout, None)

    def _next(self, batch_size: int, timeout: float | None, done: int | None) -> Batch | None:
        """Return the next batch as `get_without_ack` does; acknowledge an unfinished batch `done` before.

        Raises:
            CanalGroupError: as `get_without_ack` and `ack`. It is unfinished as long as it is not known to be
                acknowledged, or rolled back.
        """
        deadline = None if timeout is None else time.monotonic() + timeout

        def attempt() -> Batch | None:
            left_s = _GET_SLICE_S if deadline is None else min(_GET_SLICE_S, deadline - time.monotonic())
            ack = done if done is not None and self._unfinished.has(done) else None
            if ack is not None and (self._unreturned is not None or self._unfinished.in_doubt(ack)):
                self._ack_once(ack)
                ack = None
            return self._get_slice(batch_size, max(left_s, 0.0), ack)

        while True:
            batch = self._patiently(attempt, deadline)
            if batch is not None or (deadline is not None and time.monotonic() >= deadline):
                return batch

    def _get_slice(self, batch_size: int, wait_s: float, done: int | None = None) -> Batch | None:
        # If an answer is lost, its batch stays outstanding. The next request names the last batch that
        # arrived, and the group delivers all later ones again.
        with self._getting:
            unreturned, self._unreturned = self._unreturned, None
            if unreturned is not None and self._unfinished.has(unreturned.batch_id):
                return unreturned
            how = self._last_read
            asked: Get | AckAndGet = Get(*self._lease.key, batch_size, wait_s, self._seen_id, how)
            if done is not None:
                self._unfinished.doubt(done, self.cursor)
                asked = AckAndGet(*self._lease.key, done, batch_size, wait_s, self._seen_id, how)
            cursor, batch = self._gateway_client.get(asked, partial(self._got, asked))
            if done is not None and cursor is not None:
                self.cursor = cursor
                self._unfinished.finish(done)
            if batch is None:
                return None
            self._check_same_server(batch.batch_id)
            self._seen_id = batch.batch_id
            self._unfinished.deliver(batch.batch_id, batch.ack_position, batch.start)
        return batch

    def _got(
        self, asked: Get | AckAndGet, value: Any, rows: pa.Table | None
    ) -> tuple[GroupPosition | None, Batch | None]:
        """Return the cursor, if a batch was acknowledged, and the next batch, if there is one."""
        if isinstance(asked, Get):
            return None, self._batch(asked.rows, value, rows)
        return position_of(value, "cursor"), self._batch(asked.rows, value["batch"], rows)

    def _batch(
        self, how: Mapping[str, Any] | None, value: dict[str, Any] | None, rows: pa.Table | None
    ) -> Batch | None:
        """Return the batch that an answer describes; None if it has none.

        Args:
            how: how its rows were read, if some came with it.
            value: the answer.
            rows: these; None: none came.
        """
        if value is None:
            return None
        return Batch(value, self.read_rows if rows is None else partial(self._rows_that_came, how, rows))

    def _range(self, value: dict[str, Any] | None) -> Batch | None:
        """Return the offset range that an answer describes; its reader keeps the positions for long."""
        batch = self._batch(None, value, None)
        for position in () if batch is None else (batch.start, batch.ack_position, batch.end):
            position.check()
        return batch

    def _rows_that_came(
        self, how: Mapping[str, Any] | None, rows: pa.Table, batch_id: int, **wanted: Any
    ) -> pa.Table:
        """Return a batch's rows: the rows sent along with the batch if they fit the request."""
        came = wanted == how and self._unfinished.has(batch_id)
        return rows if came else self.read_rows(batch_id, **wanted)

    def _check_same_server(self, batch_id: int) -> None:
        """Check that all unfinished batches are from the server that delivered the new batch.

        Raises:
            RolledBack: another server was elected since. The new batch is not taken; the next get returns it.
        """
        lost = self._unfinished.of_other_servers(batch_id)
        if lost:
            self._unfinished.forget()
            raise RolledBack(
                f"Another server was elected. It does not know {len(lost)} batches of the previous server,"
                f" from batch {lost[0]} on.",
                hint="Discard what you have not finished, and get again.",
                batch_id=lost[0],
            )

    def offset_range(
        self,
        start: GroupPosition,
        until: GroupPosition | None = None,
        *,
        rows_max: int = 65_536,
        bytes_max: int = 8 << 20,
        rows_min: int = 0,
        key_us_max: int | None = None,
        may_be_empty: bool = False,
        timeout: float = _GET_SLICE_S,
    ) -> Batch | None:
        """Return the rows between two positions, in an order that depends only on the positions.

        For consumers that store their position themselves, together with their results. Everything before
        `start` counts as processed, whatever the cursor says. Rows that the rings no longer hold are read
        again from the sources. The same two positions give the same rows with the same `_seq`, whatever
        failed in between. Do not mix with `get`. Whoever reads ahead stores the first `start` before: the
        cursor may pass what was delivered and is not stored yet.

        Args:
            start: the end of an earlier offset range, or the cursor at subscription.
            until: the end of an offset range that began at `start`; None: what is available, within the
                limits.
            rows_max: limit on the row changes of an offset range without `until`; it has at least one
                transaction.
            bytes_max: limit on their bytes.
            rows_min: number of rows to wait for, within the limits. An offset range with more rows than the
                rings can hold never becomes available.
            key_us_max: greatest key of an offset range without `until`, microseconds since 1970 UTC.
            may_be_empty: whether an offset range without `until` may have no row, only transactions of which
                nothing is kept: so a position moves before the sources purge it.
            timeout: seconds to wait for it.

        Returns:
            An outstanding batch; None after the timeout.

        Raises:
            PositionPurged: a source no longer has `start`.
            DataError: the rows between the positions have changed.
            FencedError, RetryableError: as `get_without_ack`.
        """
        requested = OffsetRange(start, until, rows_max, bytes_max, rows_min, key_us_max, may_be_empty)
        batch = self._patiently(
            lambda: self._gateway_client.ask_for(
                GetRange(*self._lease.key, requested, timeout, may_rewind=True),
                self._range,
            )
        )
        if batch is None:
            return None
        self._unfinished.deliver(batch.batch_id, batch.ack_position)
        return batch

    def get(self, batch_size: int = 1_000, timeout: float | None = None) -> Batch | None:
        """Return the next batch, its rows read and acknowledged at once.

        A call that raises RetryableError has lost nothing: the next one goes on with the same batch.

        Raises:
            CanalGroupError: as `get_without_ack`, `Batch.envelope` and `ack`.
        """
        if not self._taking.acquire(timeout=-1 if timeout is None else max(timeout, 0.0)):
            return None
        try:
            return self._take(batch_size, timeout)
        finally:
            self._taking.release()

    def _take(self, batch_size: int, timeout: float | None) -> Batch | None:
        batch = self.get_without_ack(batch_size, timeout)
        if batch is None:
            return None
        try:
            batch.envelope()
            self.ack(batch.batch_id)
        except (RolledBack, UnknownBatch):
            raise  # It is over: its rows are delivered again.
        except BaseException:
            self._unreturned = batch
            raise
        return batch

    def ack(self, batch_id: int) -> GroupPosition:
        """Acknowledge the oldest outstanding batch and move the cursor past it.

        Batches are acknowledged in the order of delivery; an acknowledgement is final.

        Returns:
            The new cursor: for each shard the end of its last complete transaction.

        Raises:
            AckOutOfOrder: an older batch is outstanding; nothing was changed.
            RolledBack: the batch was rolled back; nothing was changed. If several were outstanding, call
                `rollback` to return those that were delivered since.
            FencedError: another consumer took over; nothing was changed.
            RetryableError: no server answered within `retry_s`, and it is unknown whether the cursor moved.
                Acknowledge again to find out: RolledBack means that the rows are delivered again.
        """
        deadline = self._deadline_s(self._retry_s)
        return keep_trying(
            lambda: self._ack_once(batch_id), (RetryableError,), deadline, self._lease.closed.wait
        )

    def _ack_once(self, batch_id: int) -> GroupPosition:
        self.cursor = self._cursor_after(batch_id)
        self._unfinished.finish(batch_id)
        return self.cursor

    def _cursor_after(self, batch_id: int) -> GroupPosition:
        """Acknowledge a batch; if an earlier attempt was not answered, first ask whether it succeeded."""
        cursor = self._lease.cursor() if self._unfinished.in_doubt(batch_id) else None
        if cursor is not None and self._unfinished.moved(batch_id, cursor):
            return cursor
        self._unfinished.doubt(batch_id, self.cursor)
        try:
            return self._gateway_client.ask_for(Ack(*self._lease.key, batch_id), _cursor)
        except RetryableError:
            raise
        except RolledBack:
            self.rollback_generation += 1
            self._unfinished.refuse(batch_id)
            self._unfinished.forget(batch_id)
            raise
        except CanalGroupError as error:
            self._unfinished.refuse(batch_id)
            if cursor is not None and isinstance(error, UnknownBatch):
                # The delivering server reports the batch as acknowledged: the first attempt succeeded.
                return cursor
            raise

    def locate(self, where: str) -> GroupPosition:
        """Return where a start is in the sources' binlogs now, for `offset_range`; the sequence is 0.

        Args:
            where: a start, see `canal_group.connect`.

        Raises:
            ConfigError: it is not a start.
            PositionPurged: a source no longer has changes from that time.
            UsageError: a shard reads files, which have no such position.
        """
        call = Locate(where, self.client_id)
        return self._patiently(lambda: self._gateway_client.ask_for(call, GroupPosition.from_json))

    def rollback(self, batch_id: int | None = None) -> int:
        """Roll back a batch and every later one, or all outstanding ones; return how many."""
        # If no answer comes, the next get takes them back.
        self._seen_id = min(self._seen_id, 0 if batch_id is None else batch_id - 1)
        count = self._patiently(
            lambda: self._gateway_client.ask_for(Rollback(*self._lease.key, batch_id), int)
        )
        self.rollback_generation += 1
        self._unfinished.forget(batch_id)
        return count

    def outstanding(self) -> list[int]:
        """Return the ids of the batches that are delivered and not acknowledged, oldest first."""
        call = LeaseState(self.client_id)
        return self._patiently(lambda: self._gateway_client.ask_for(call, _outstanding))

    def check_active(self) -> None:
        """Ask the group whether this is still the active consumer, before something is done in its name.

        Raises:
            NotSubscribed, FencedError: the lease has ended.
        """
        self._patiently(self._lease.cursor)

    def status(self) -> dict[str, Any]:
        """Return the state of the instance: group, shards, subscribers."""
        return self._gateway_client.ask_for(Status(), fields)

    def __iter__(self) -> Iterator[Batch]:
        """Yield batches without end, each outstanding until it is acknowledged.

        Continues by itself after a rollback, and after the server was unavailable. With `snapshot="only"` it
        ends after the batch that completes the snapshot.

        Raises:
            RetryableError: the server was unavailable for longer than `retry_s`; iterate again.
        """
        for batch in self._iterate(self.get_without_ack):
            if batch is not None:
                yield batch

    def batches(self, batch_size: int = 1_000, timeout: float | None = None) -> Iterator[Batch]:
        """Yield batches; each is acknowledged together with the request for the next one.

        That is one call a batch less than with `ack`; do not call that inside the loop. A batch that the loop
        leaves by `break` or an exception is not acknowledged, and comes again. Continues by itself as
        iterating a consumer does; one loop at a time.

        Args:
            batch_size: limit on the rows of a batch; the server has a limit too.
            timeout: seconds to wait for a batch before the iteration ends; None: without limit.

        Raises:
            RetryableError: the server was unavailable for longer than `retry_s`; iterate again.
        """
        for batch in self._iterate(lambda: self._next(batch_size, timeout, self._processed)):
            if batch is None:
                return
            is_processed = False
            try:
                yield batch
                is_processed = True
            finally:
                if is_processed and self._ends(batch):
                    self.ack(batch.batch_id)
                elif is_processed:
                    self._processed = batch.batch_id
                else:
                    self._take_back(batch.batch_id)

    def _take_back(self, batch_id: int) -> None:
        """Let the next get have a batch and every later one again."""
        self._seen_id = min(self._seen_id, batch_id - 1)
        self.rollback_generation += 1
        self._unfinished.forget(batch_id)

    def ask_cursor(self) -> GroupPosition:
        """Return the cursor that the server has.

        After a rollback it may be another one than this consumer's acknowledgements made: a snapshot that an
        operator has stopped is over, and perhaps nothing comes after it.

        Raises:
            RetryableError: the server does not answer.
        """
        self.cursor = self._lease.cursor()
        return self.cursor

    def _iterate(self, get: Callable[[], Batch | None]) -> Iterator[Batch | None]:
        """Yield what `get` returns, also after a rollback and after the server was unavailable."""
        looks = False
        while not self._lease.closed.is_set():
            try:
                if looks:
                    self.ask_cursor()
                    looks = False
                if self._snapshot_only and not self.cursor.snapshots:
                    return
                batch = get()
            except RolledBack:
                looks = self._snapshot_only
                continue
            except RetryableError as error:
                if isinstance(error, _AWAY) and not self._lease.closed.is_set():
                    raise
                self._lease.closed.wait(error.retry_after_s)
                continue
            except NotSubscribed:
                self.subscribe()
                continue
            yield batch
            if batch is not None and self._ends(batch):
                return

    def _ends(self, batch: Batch) -> bool:
        """Return whether iterating ends with a batch: the snapshot is over, and nothing else is wanted."""
        return self._snapshot_only and not batch.ack_position.snapshots

    def prefetch(
        self,
        read: Callable[[Batch], pa.Table],
        *,
        batch_size: int = 131_072,
        depth: int = 2,
        timeout: float | None = None,
    ) -> Iterator[tuple[Batch, pa.Table]]:
        """Yield batches with their rows, while the next batches are fetched in the background.

        Each batch is outstanding until it is acknowledged. Continues by itself as iterating a consumer does.
        When the iterator is closed, batches that were prefetched and not taken are rolled back.

        Args:
            read: what to read of a batch, such as `lambda batch: batch.table("shop.orders")`; called on
                threads of its own.
            batch_size: limit on the rows of a batch; the server has a limit too.
            depth: number of batches that are fetched at once. Their rows are held in memory.
            timeout: seconds to wait for a batch before the iteration ends; None: without limit.
        """
        yield from Prefetch(self, read, batch_size, depth, timeout)

    def resubscribe(self) -> bool:
        """Become the active consumer again; return False and do nothing if this consumer is closed."""
        if self._lease.closed.is_set():
            return False
        self.subscribe()
        return True

    def pause(self, seconds: float) -> bool:
        """Wait this many seconds, or until this consumer is closed; return whether it is open."""
        return not self._lease.closed.wait(seconds)

    def read_rows(self, batch_id: int, **how: Any) -> pa.Table:
        """Return the rows of an outstanding batch; prefer the methods of `Batch`."""
        self._last_read = how
        try:
            return self._patiently(
                lambda: self._gateway_client.rows(
                    client_id=self.client_id, epoch=self.epoch, batch_id=batch_id, **how
                )
            )
        except RolledBack:
            self._unfinished.forget(batch_id)
            raise

    # ---- life ------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Release the client id. The cursor stays; outstanding batches go to the next consumer."""
        try:
            self._lease.close()
        finally:
            self._gateway_client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _patiently(self, attempt: Callable[[], T], deadline: float | None = None) -> T:
        """Repeat a call through a failover for `retry_s`, or until an earlier deadline."""
        until = self._deadline_s(self._retry_s)
        if deadline is not None:
            until = deadline if until is None else min(until, deadline)
        return keep_trying(attempt, _AWAY, until, self._lease.closed.wait)

    def _deadline_s(self, timeout_s: float | None) -> float | None:
        return None if timeout_s is None else time.monotonic() + timeout_s


def _cursor(value: Mapping[str, Any]) -> GroupPosition:
    return position_of(value, "cursor")


def _outstanding(value: Mapping[str, Any] | None) -> list[int]:
    return [] if value is None else [whole(each["batch_id"]) for each in value["outstanding"]]
