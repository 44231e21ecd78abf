"""A consumer: reads one destination under one client id, batch by batch, in order.

At-least-once: what was not acknowledged comes again, after a rollback, a restart, or when another consumer
takes the client id over. Each row carries `shard, file, pos, row` to de-duplicate by.
"""

from __future__ import annotations

import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from typing import Any, Literal, Self

import pyarrow as pa

from canal_group.door import GatewayDoor
from merge.errors import (
    CanalGroupError,
    ConsumerActive,
    FencedError,
    NotSubscribed,
    RetryableError,
    RolledBack,
)
from merge.position import GroupPosition

#: how long one request of a waiting get lasts, seconds; the wait is made of as many as it takes
_GET_SLICE_S = 3.0
#: how often the lease is renewed while the consumer is busy elsewhere, seconds
_TOUCH_EVERY_S = 2.0


class Batch:
    """A contiguous run of the merged stream, delivered under one id; rows are read when asked for."""

    def __init__(self, consumer: Consumer, value: dict[str, Any]) -> None:
        self._consumer = consumer
        #: what `ack` and `rollback` take; grows for ever
        self.batch_id: int = value["batch_id"]
        #: row changes and statements in it, before the subscription's filter
        self.rows: int = value["rows"]
        #: where the stream stood before it
        self.start = GroupPosition.from_json(value["start"])
        #: what the cursor becomes when it is acknowledged
        self.ack_position = GroupPosition.from_json(value["ack"])
        #: where the stream stands behind it
        self.end = GroupPosition.from_json(value["end"])
        self._envelope: pa.Table | None = None

    def __repr__(self) -> str:
        return f"Batch(batch_id={self.batch_id}, rows={self.rows})"

    def envelope(self) -> pa.Table:
        """Return all tables' changes in merged order, images as maps of text; see `merge.envelope.ENVELOPE`.

        Raises:
            RolledBack: the batch was taken back meanwhile.
        """
        if self._envelope is None:
            self._envelope = self._consumer.read_rows(self.batch_id, format="envelope")
        return self._envelope

    def table(self, name: str, *, before: bool = False) -> pa.Table:
        """Return one table's changes in merged order, as its own typed columns and `_op _shard _seq ...`.

        Args:
            name: "schema.table", after routes.
            before: add the before image as a struct `_before`.

        Raises:
            RolledBack: the batch was taken back meanwhile.
            SchemaMismatch: the shards' versions of the table cannot become one.
        """
        return self._consumer.read_rows(self.batch_id, format="typed", table=name, before=before)


class Consumer:
    """The one active consumer of a client id, as long as it lives; see `connect`.

    Its lease is renewed on a thread of its own. Calls may be made from several threads; batches are
    acknowledged in the order of their ids whoever calls.
    """

    def __init__(self, door: GatewayDoor, client_id: str, table_filter: str, wait_s: float | None) -> None:
        self._door = door
        self._client_id = client_id
        self._filter = table_filter
        self._wait_s = wait_s
        #: how others see us when they ask who holds the client id
        self.holder = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
        self._epoch = 0
        #: one get at a time, so that the newest batch we have is known
        self._getting = threading.Lock()
        self._seen_id = 0
        self._closed = threading.Event()
        #: durable place at subscription
        self.cursor = GroupPosition()
        self._toucher = threading.Thread(target=self._keep_lease, name=f"lease-{client_id}", daemon=True)

    # ---- subscription ----------------------------------------------------------------------------------

    def subscribe(
        self, table_filter: str | None = None, *, resume: Literal["cursor", "now"] | None = None
    ) -> GroupPosition:
        """Become the active consumer, and return the cursor.

        Args:
            table_filter: canal's comma-separated regular expressions on `schema.table`; None: as before.
            resume: where to go on after the client id was dropped for being away too long: at its cursor, to
                which the sources are read back, or where the others are now.

        Raises:
            SubscriptionDropped: it was, and `resume` is None.
            ConsumerActive: another consumer holds the client id, and still did after `wait_s`.
        """
        if table_filter is not None:
            self._filter = table_filter
        deadline = None if self._wait_s is None else time.monotonic() + self._wait_s
        while True:
            try:
                answer = self._door.ask(
                    "subscribe",
                    client_id=self._client_id,
                    holder=self.holder,
                    filter=self._filter,
                    resume=resume,
                )
                break
            except RetryableError as error:
                if deadline is not None and time.monotonic() + error.retry_after_s > deadline:
                    raise
                self._closed.wait(error.retry_after_s)
        self._epoch, self._seen_id = int(answer["epoch"]), 0
        self.cursor = GroupPosition.from_json(answer["cursor"])
        if not self._toucher.is_alive() and not self._closed.is_set():
            self._toucher.start()
        return self.cursor

    @property
    def epoch(self) -> int:
        """The fencing epoch that our calls carry."""
        return self._epoch

    def unsubscribe(self) -> None:
        """Give up the subscription with its cursor."""
        self._ask("unsubscribe")

    # ---- batches ---------------------------------------------------------------------------------------

    def get_without_ack(self, batch_size: int = 1_000, timeout: float | None = None) -> Batch | None:
        """Return the next batch as soon as there is one.

        Args:
            batch_size: bound on its rows; the server has one too.
            timeout: seconds to wait for one; None: as long as it takes.

        Returns:
            The batch, outstanding until it is acknowledged or rolled back; None: none came in time.

        Raises:
            RolledBack: outstanding batches were lost; forget them and get again.
            FencedError: another consumer took over.
            RetryableError: nothing is lost; get again.
            DataError: a shard stopped at data that an operator must look at.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            left_s = _GET_SLICE_S if deadline is None else min(_GET_SLICE_S, deadline - time.monotonic())
            batch = self._get_slice(batch_size, max(left_s, 0.0))
            if batch is not None or (deadline is not None and time.monotonic() >= deadline):
                return batch

    def _get_slice(self, batch_size: int, wait_s: float) -> Batch | None:
        # An answer that gets lost leaves its batch outstanding. The next request says what came last, and the
        # group delivers the rest again.
        with self._getting:
            value = self._ask(
                "get", wait_s=wait_s, rows_max=batch_size, timeout_s=wait_s, seen_id=self._seen_id
            )
            if value is None:
                return None
            self._seen_id = int(value["batch_id"])
        return Batch(self, value)

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
            RetryableError: it is unknown whether the cursor moved. Acknowledge again: UnknownBatch says that
                it had, RolledBack that its rows come again.
        """
        self.cursor = GroupPosition.from_json(self._ask("ack", batch_id=batch_id)["cursor"])
        return self.cursor

    def rollback(self, batch_id: int | None = None) -> int:
        """Give back a batch and every later one, or all outstanding ones; return how many."""
        return int(self._ask("rollback", batch_id=batch_id))

    def outstanding(self) -> list[int]:
        """Return the ids of the delivered and not acknowledged batches, oldest first."""
        return [entry["batch_id"] for entry in self._door.ask("outstanding", client_id=self._client_id)]

    def status(self) -> dict[str, Any]:
        """Return the state of the instance: group, shards, subscribers."""
        status: dict[str, Any] = self._door.ask("status")
        return status

    def __iter__(self) -> Iterator[Batch]:
        """Yield batches for ever, each outstanding until it is acknowledged.

        Goes on by itself after a rollback, and when the server is away for a while.
        """
        while not self._closed.is_set():
            try:
                batch = self.get_without_ack()
            except RolledBack:
                continue
            except RetryableError as error:
                self._closed.wait(error.retry_after_s)
                continue
            except NotSubscribed:
                self.subscribe()
                continue
            if batch is not None:
                yield batch

    def read_rows(self, batch_id: int, **how: Any) -> pa.Table:
        """Return an outstanding batch's rows; `Batch` is the friendlier way."""
        return self._door.rows(client_id=self._client_id, epoch=self._epoch, batch_id=batch_id, **how)

    # ---- life ------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Let go of the client id; the cursor stays, outstanding batches are the next consumer's."""
        if self._closed.is_set():
            return
        self._closed.set()
        if self._toucher.is_alive():
            self._toucher.join()
        try:
            if self._epoch:
                self._ask("release")
        except CanalGroupError:
            pass  # Whoever holds the client id by now, or nobody: our lease ends by itself.
        finally:
            self._door.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, request: str, *, wait_s: float = 0.0, **body: Any) -> Any:
        return self._door.ask(request, wait_s=wait_s, client_id=self._client_id, epoch=self._epoch, **body)

    def _keep_lease(self) -> None:
        while not self._closed.wait(_TOUCH_EVERY_S):
            try:
                self._ask("touch")
            except (FencedError, NotSubscribed):
                return  # The next call of the consumer says so.
            except CanalGroupError:
                continue


def connect(
    uri: str,
    *,
    destination: str,
    client_id: str = "1001",
    filter: str = "",  # noqa: A002  canal's name for it
    token: str | None = None,
    wait_s: float | None = None,
    resume: Literal["cursor", "now"] | None = None,
) -> Consumer:
    """Connect to a gateway and become the active consumer of a client id.

    Args:
        uri: the gateway, "grpc://host:port".
        destination: the logical instance to read.
        client_id: whose cursor to use; 1001 is canal's default.
        filter: canal's comma-separated regular expressions on `schema.table`; empty: everything.
        token: shared with the gateway.
        wait_s: how long to wait for the server, and for another consumer to let go; None: as long as it
            takes.
        resume: where to go on if the client id was dropped for being away too long; see `Consumer.subscribe`.

    Returns:
        A subscribed consumer, a context manager.

    Raises:
        ConsumerActive: another consumer holds the client id; the sentence names it.
        SubscriptionDropped: it was away for too long, and `resume` is None.
        ServerUnavailable: the gateway does not answer.
        ConfigError: the address or the token is wrong.
    """
    consumer = Consumer(GatewayDoor(uri, destination, token), client_id, filter, wait_s)
    try:
        consumer.subscribe(resume=resume)
    except BaseException:
        consumer.close()
        raise
    return consumer


__all__ = ["Batch", "Consumer", "ConsumerActive", "connect"]
