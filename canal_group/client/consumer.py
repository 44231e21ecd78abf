"""A consumer: reads one destination under one client id, batch by batch, in order.

At-least-once: what was not acknowledged comes again, after a rollback, a restart, or when another consumer
takes the client id over. Each row carries `shard, file, pos, row` to de-duplicate by.

A call goes on through a failover: it is repeated, at the next gateway, until a server answers. An
acknowledgement is not repeated blindly: where its answer was lost, the server is asked first whether the
cursor has moved.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, Self, TypeVar

import pyarrow as pa

from canal_group.client.batch import Batch
from canal_group.client.lease import Lease, NodeKeeper
from canal_group.client.prefetch import Prefetch
from canal_group.client.unfinished import Unfinished
from canal_group.gateway.gateway_client import GatewayClient, fields
from canal_group.gateway.retry import keep_trying
from merge.errors import (
    CanalGroupError,
    CoordinatorUnavailable,
    NotSubscribed,
    RetryableError,
    RolledBack,
    ServerUnavailable,
    ShardUnavailable,
    UnknownBatch,
)
from merge.values.position import GroupPosition

#: how long one request of a waiting get lasts, seconds; the wait is made of as many as it takes
_GET_SLICE_S = 3.0
#: what a failover looks like from outside
_AWAY = (ServerUnavailable, CoordinatorUnavailable, ShardUnavailable)

T = TypeVar("T")


class Consumer:
    """The one active consumer of a client id, as long as it lives; see `canal_group.connect`.

    Its lease is renewed on a thread of its own. Calls may be made from several threads; batches are
    acknowledged in the order of their ids whoever calls.
    """

    def __init__(
        self,
        gateway_client: GatewayClient,
        client_id: str,
        table_filter: str,
        wait_s: float | None,
        *,
        retry_s: float = 60.0,
        node: NodeKeeper | None = None,
    ) -> None:
        self._gateway_client = gateway_client
        self._lease = Lease(gateway_client, client_id, node)
        self._retry_s = retry_s
        self._filter = table_filter
        self._wait_s = wait_s
        #: one get at a time, so that the newest batch we have is known
        self._getting = threading.Lock()
        self._seen_id = 0
        self._unfinished = Unfinished()
        #: grows whenever outstanding batches are known to be taken back
        self.rollback_generation = 0
        #: durable place at subscription
        self.cursor = GroupPosition()

    # ---- subscription ----------------------------------------------------------------------------------

    def subscribe(
        self, table_filter: str | None = None, *, resume: Literal["cursor", "now"] | None = None
    ) -> GroupPosition:
        """Become the active consumer, and return the cursor.

        Args:
            table_filter: canal's comma-separated regular expressions on `schema.table`; None: as before.
            resume: where to go on after the client id was dropped, or its position purged: at its cursor, to
                which the sources are read back, or where the others are now.

        Raises:
            SubscriptionDropped: it was, and `resume` is None.
            ConsumerActive: another consumer holds the client id, and still did after `wait_s`.
        """
        if table_filter is not None:
            self._filter = table_filter
        cursor = keep_trying(
            lambda: self._lease.take(self._filter, resume),
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
        """Whose cursor it is."""
        return self._lease.client_id

    @property
    def holder(self) -> str:
        """How others see us when they ask who holds the client id."""
        return self._lease.holder

    @property
    def gateway_client(self) -> GatewayClient:
        """The way to the gateways; a copy of it serves tasks in other processes."""
        return self._gateway_client

    @property
    def retry_s(self) -> float:
        """How long a call goes on while the server is away, seconds."""
        return self._retry_s

    @property
    def epoch(self) -> int:
        """The fencing epoch that our calls carry."""
        return self._lease.epoch

    def unsubscribe(self) -> None:
        """Give up the subscription with its cursor."""
        asked = False

        def attempt() -> None:
            nonlocal asked
            try:
                self._lease.ask("unsubscribe")
            except NotSubscribed:
                if not asked:
                    raise
            except CanalGroupError:
                asked = True
                raise

        self._patiently(attempt)
        self._unfinished.forget()

    # ---- batches ---------------------------------------------------------------------------------------

    def get_without_ack(self, batch_size: int = 1_000, timeout: float | None = None) -> Batch | None:
        """Return the next batch as soon as there is one.

        Args:
            batch_size: bound on its rows; the server has one too.
            timeout: seconds to wait for one; None: as long as it takes.

        Returns:
            The batch, outstanding until it is acknowledged or rolled back; None: none came in time.

        Raises:
            RolledBack: outstanding batches were lost, with a shard or with the server; forget them and get
                again.
            FencedError: another consumer took over.
            RetryableError: the server was away for longer than `retry_s`, or than `timeout`; get again.
            DataError: a shard stopped at data that an operator must look at.
        """
        deadline = None if timeout is None else time.monotonic() + timeout

        def attempt() -> Batch | None:
            left_s = _GET_SLICE_S if deadline is None else min(_GET_SLICE_S, deadline - time.monotonic())
            return self._get_slice(batch_size, max(left_s, 0.0))

        while True:
            batch = self._patiently(attempt, deadline)
            if batch is not None or (deadline is not None and time.monotonic() >= deadline):
                return batch

    def _get_slice(self, batch_size: int, wait_s: float) -> Batch | None:
        # An answer that gets lost leaves its batch outstanding. The next request says what came last, and the
        # group delivers the rest again.
        with self._getting:
            wanted = {"rows_max": batch_size, "timeout_s": wait_s, "seen_id": self._seen_id}
            batch = self._lease.ask_for("get", self._batch, wait_s=wait_s, **wanted)
            if batch is None:
                return None
            self._check_same_server(batch.batch_id)
            self._seen_id = batch.batch_id
            self._unfinished.deliver(batch.batch_id, batch.ack_position)
        return batch

    def _batch(self, value: dict[str, Any] | None) -> Batch | None:
        """Return the batch that an answer describes."""
        return None if value is None else Batch(value, self.read_rows)

    def _check_same_server(self, batch_id: int) -> None:
        """Return if what is unfinished came from the server of the new batch, which is not taken otherwise.

        Raises:
            RolledBack: another server was elected since; the next get brings the batch again.
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
        timeout: float = _GET_SLICE_S,
    ) -> Batch | None:
        """Return what stands between two positions, in an order that depends on nothing else.

        For consumers that keep their place themselves, together with what they make of the rows: everything
        before `start` is done with, whatever the cursor says, and is read again from the sources where the
        rings have forgotten it. The same two positions are the same rows with the same `_seq`, whatever died
        in between. Do not mix with `get`.

        Args:
            start: where an offset range ended, or the cursor at subscription.
            until: where an offset range ended that began at `start`; None: what is there, within the bounds.
            rows_max: bound on row changes of an offset range without `until`; one transaction always belongs
                to it.
            bytes_max: bound on their bytes.
            rows_min: how many rows it waits for, as far as the bounds let it have them; what holds more
                rows than the rings never comes.
            key_us_max: greatest key of an offset range without `until`, microseconds since 1970 UTC.
            timeout: seconds to wait for it.

        Returns:
            An outstanding batch; None: it was not there in time.

        Raises:
            PositionPurged: a source does not have `start` any more.
            DataError: what stands between the positions is not any more what it was.
            FencedError, RetryableError: as `get_without_ack`.
        """
        named = {
            "start": start.to_json(),
            "until": until.to_json() if until is not None else None,
            "rows_max": rows_max,
            "bytes_max": bytes_max,
            "rows_min": rows_min,
            "key_us_max": key_us_max,
            "may_rewind": True,
        }
        batch = self._patiently(
            lambda: self._lease.ask_for(
                "offset_range", self._batch, wait_s=timeout, timeout_s=timeout, **named
            )
        )
        if batch is None:
            return None
        self._unfinished.deliver(batch.batch_id, batch.ack_position)
        return batch

    def get(self, batch_size: int = 1_000, timeout: float | None = None) -> Batch | None:
        """Return the next batch with its rows read, acknowledged at once; raises as `get_without_ack`."""
        batch = self.get_without_ack(batch_size, timeout)
        if batch is not None:
            batch.envelope()
            self.ack(batch.batch_id)
        return batch

    def ack(self, batch_id: int) -> GroupPosition:
        """Acknowledge the oldest outstanding batch and move the cursor past it.

        Batches are acknowledged in the order they were delivered; acknowledging is final.

        Returns:
            The new cursor: for each shard the end of its last whole transaction.

        Raises:
            AckOutOfOrder: an older batch is outstanding; nothing was changed.
            RolledBack: the batch was taken back; nothing was changed. Where several were outstanding,
                `rollback` gives back those that were delivered since.
            FencedError: another consumer took over; nothing was changed.
            RetryableError: no server answered for `retry_s`, and it is unknown whether the cursor moved.
                Acknowledge again to learn it: RolledBack says that the rows come again.
        """
        deadline = self._deadline_s(self._retry_s)
        self.cursor = keep_trying(
            lambda: self._ack_once(batch_id), (RetryableError,), deadline, self._lease.closed.wait
        )
        self._unfinished.finish(batch_id)
        return self.cursor

    def _ack_once(self, batch_id: int) -> GroupPosition:
        """Acknowledge, after asking what became of an acknowledgement that was not answered."""
        lease_state = self._lease.cursor() if self._unfinished.in_doubt(batch_id) else None
        if lease_state is not None and self._unfinished.moved(batch_id, self.cursor, lease_state):
            return lease_state
        self._unfinished.doubt(batch_id)
        try:
            return self._lease.ask_for("ack", _cursor, batch_id=batch_id)
        except RetryableError:
            raise
        except RolledBack:
            self.rollback_generation += 1
            self._unfinished.forget(batch_id)
            raise
        except CanalGroupError as error:
            self._unfinished.refuse(batch_id)
            if lease_state is not None and isinstance(error, UnknownBatch):
                # The server that delivered it says that it is acknowledged: our first attempt came through.
                return lease_state
            raise

    def locate(self, where: Literal["earliest", "latest"]) -> GroupPosition:
        """Return where the sources' binlogs begin or end now, for `offset_range`; its sequence is 0.

        Raises:
            UsageError: a shard is files, which cannot say.
        """
        return self._patiently(lambda: self._lease.ask_for("locate", GroupPosition.from_json, where=where))

    def rollback(self, batch_id: int | None = None) -> int:
        """Give back a batch and every later one, or all outstanding ones; return how many."""
        count = self._patiently(lambda: self._lease.ask_for("rollback", int, batch_id=batch_id))
        self.rollback_generation += 1
        self._unfinished.forget(batch_id)
        return count

    def outstanding(self) -> list[int]:
        """Return the ids of the delivered and not acknowledged batches, oldest first."""
        return self._patiently(
            lambda: self._gateway_client.ask_for("lease_state", _outstanding, client_id=self.client_id)
        )

    def status(self) -> dict[str, Any]:
        """Return the state of the instance: group, shards, subscribers."""
        return self._gateway_client.ask_for("status", fields)

    def __iter__(self) -> Iterator[Batch]:
        """Yield batches for ever, each outstanding until it is acknowledged.

        Goes on by itself after a rollback, and when the server is away for a while.
        """
        while not self._lease.closed.is_set():
            try:
                batch = self.get_without_ack()
            except RolledBack:
                continue
            except RetryableError as error:
                self._lease.closed.wait(error.retry_after_s)
                continue
            except NotSubscribed:
                self.subscribe()
                continue
            if batch is not None:
                yield batch

    def prefetch(
        self,
        read: Callable[[Batch], pa.Table],
        *,
        batch_size: int = 131_072,
        depth: int = 2,
        timeout: float | None = None,
    ) -> Iterator[tuple[Batch, pa.Table]]:
        """Yield batches with their rows, while the next ones are on their way already.

        Each batch is outstanding until it is acknowledged. Goes on by itself as iterating a consumer does;
        what was read ahead and not taken is given back when the iterator is closed.

        Args:
            read: what to read of a batch, such as `lambda batch: batch.table("shop.orders")`; called on
                threads of its own.
            batch_size: bound on the rows of a batch; the server has one too.
            depth: batches that are on their way at once. Their rows are held in memory.
            timeout: seconds to wait for a batch before the iteration ends; None: for ever.
        """
        yield from Prefetch(self, read, batch_size, depth, timeout)

    def resubscribe(self) -> bool:
        """Become the active consumer again; False, and nothing was done, if this one is closed."""
        if self._lease.closed.is_set():
            return False
        self.subscribe()
        return True

    def pause(self, seconds: float) -> bool:
        """Wait so long, or until this consumer is closed; return whether it is open."""
        return not self._lease.closed.wait(seconds)

    def read_rows(self, batch_id: int, **how: Any) -> pa.Table:
        """Return an outstanding batch's rows; `Batch` is the friendlier way."""
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
        """Let go of the client id; the cursor stays, outstanding batches are the next consumer's."""
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
    return GroupPosition.from_json(value["cursor"])


def _outstanding(value: Mapping[str, Any] | None) -> list[int]:
    return [] if value is None else [int(each["batch_id"]) for each in value["outstanding"]]
