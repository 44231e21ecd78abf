"""A consumer: reads one destination under one client id, batch by batch, in order.

At-least-once: what was not acknowledged comes again, after a rollback, a restart, or when another consumer
takes the client id over. Each row carries `shard, file, pos, row` to de-duplicate by.

A call goes on through a failover: it is repeated, at the next gateway, until a server answers. An
acknowledgement is not repeated blindly: where its answer was lost, the server is asked first whether the
cursor has moved.
"""

from __future__ import annotations

import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, Protocol, Self, TypeVar

import pyarrow as pa

from canal_group.ahead import Ahead
from canal_group.door import GatewayDoor
from canal_group.patience import keep_trying
from canal_group.tls import Tls
from canal_group.unfinished import Unfinished
from merge.errors import (
    CanalGroupError,
    ConfigError,
    ConsumerActive,
    CoordinatorUnavailable,
    FencedError,
    NotSubscribed,
    RetryableError,
    RolledBack,
    ServerUnavailable,
    ShardUnavailable,
    UnknownBatch,
)
from merge.position import GroupPosition
from merge.zookeeper_login import ZooKeeperLogin

#: how long one request of a waiting get lasts, seconds; the wait is made of as many as it takes
_GET_SLICE_S = 3.0
#: how often the lease is renewed while the consumer is busy elsewhere, seconds
_TOUCH_EVERY_S = 2.0
#: what a failover looks like from outside
_AWAY = (ServerUnavailable, CoordinatorUnavailable, ShardUnavailable)

T = TypeVar("T")


class NodeKeeper(Protocol):
    """Keeps a client id's running node in ZooKeeper; `canal_group.discovery.Directory` does."""

    def take(self, client_id: str, holder: str) -> str:
        """Take the node, or keep it; return our session. Raises ConsumerActive: somebody else has it."""

    def let_go(self, client_id: str) -> None:
        """Give the node up."""

    def close(self) -> None:
        """End the session."""


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

    def __init__(
        self,
        door: GatewayDoor,
        client_id: str,
        table_filter: str,
        wait_s: float | None,
        *,
        retry_s: float = 60.0,
        node: NodeKeeper | None = None,
    ) -> None:
        self._door = door
        self._retry_s = retry_s
        self._node = node
        self._client_id = client_id
        self._filter = table_filter
        self._wait_s = wait_s
        #: how others see us when they ask who holds the client id
        self.holder = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
        self._epoch = 0
        #: one get at a time, so that the newest batch we have is known
        self._getting = threading.Lock()
        self._seen_id = 0
        self._unfinished = Unfinished()
        self._closed = threading.Event()
        #: grows whenever outstanding batches are known to be taken back
        self.turn = 0
        #: durable place at subscription
        self.cursor = GroupPosition()
        self._toucher: threading.Thread | None = None

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
        answer = keep_trying(
            lambda: self._subscribe(resume),
            (RetryableError,),
            self._deadline_s(self._wait_s),
            self._closed.wait,
        )
        self._epoch, self._seen_id = int(answer["epoch"]), 0
        self.turn += 1
        self._unfinished.forget()
        self.cursor = GroupPosition.from_json(answer["cursor"])
        if (self._toucher is None or not self._toucher.is_alive()) and not self._closed.is_set():
            self._toucher = threading.Thread(
                target=self._keep_lease, name=f"lease-{self._client_id}", daemon=True
            )
            self._toucher.start()
        return self.cursor

    def _subscribe(self, resume: str | None) -> dict[str, Any]:
        body: dict[str, Any] = {"holder": self.holder, "filter": self._filter, "resume": resume}
        if self._node is not None:
            body["session"] = self._node.take(self._client_id, self.holder)
        answer: dict[str, Any] = self._door.ask("subscribe", client_id=self._client_id, **body)
        return answer

    @property
    def client_id(self) -> str:
        """Whose cursor it is."""
        return self._client_id

    @property
    def door(self) -> GatewayDoor:
        """The way to the gateways; a copy of it serves tasks in other processes."""
        return self._door

    @property
    def retry_s(self) -> float:
        """How long a call goes on while the server is away, seconds."""
        return self._retry_s

    @property
    def epoch(self) -> int:
        """The fencing epoch that our calls carry."""
        return self._epoch

    def unsubscribe(self) -> None:
        """Give up the subscription with its cursor."""
        asked = False

        def attempt() -> None:
            nonlocal asked
            try:
                self._ask("unsubscribe")
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
            value = self._ask(
                "get", wait_s=wait_s, rows_max=batch_size, timeout_s=wait_s, seen_id=self._seen_id
            )
            if value is None:
                return None
            batch = Batch(self, value)
            self._check_same_server(batch.batch_id)
            self._seen_id = batch.batch_id
            self._unfinished.deliver(batch.batch_id, batch.ack_position)
        return batch

    def _check_same_server(self, batch_id: int) -> None:
        """Return if what is unfinished came from the server of the new batch, which is not taken otherwise.

        Raises:
            RolledBack: another server was elected since; the next get brings the batch again.
        """
        lost = self._unfinished.of_other_servers(batch_id)
        if lost:
            self._unfinished.forget()
            raise RolledBack(
                f"Another server was elected: {len(lost)} batches of the one before, from {lost[0]} on, are"
                " unknown to it.",
                hint="Forget what you did not finish and get again.",
                batch_id=lost[0],
            )

    def span(
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
            start: where a span ended, or the cursor at subscription.
            until: where a span ended that began at `start`; None: what is there, within the bounds.
            rows_max: bound on row changes of a span without `until`; one transaction always belongs to it.
            bytes_max: bound on their bytes.
            rows_min: how many rows it waits for, as far as the bounds let it have them; what holds more
                rows than the rings never comes.
            key_us_max: greatest key of a span without `until`, microseconds since 1970 UTC.
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
        value = self._patiently(lambda: self._ask("span", wait_s=timeout, timeout_s=timeout, **named))
        if value is None:
            return None
        batch = Batch(self, value)
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
            lambda: self._ack_once(batch_id), (RetryableError,), deadline, self._closed.wait
        )
        self._unfinished.finish(batch_id)
        return self.cursor

    def _ack_once(self, batch_id: int) -> GroupPosition:
        """Acknowledge, after asking what became of an acknowledgement that was not answered."""
        standing = self._standing() if self._unfinished.in_doubt(batch_id) else None
        if standing is not None and self._unfinished.moved(batch_id, self.cursor, standing):
            return standing
        self._unfinished.doubt(batch_id)
        try:
            return GroupPosition.from_json(self._ask("ack", batch_id=batch_id)["cursor"])
        except RetryableError:
            raise
        except RolledBack:
            self.turn += 1
            self._unfinished.forget(batch_id)
            raise
        except CanalGroupError as error:
            self._unfinished.refuse(batch_id)
            if standing is not None and isinstance(error, UnknownBatch):
                # The server that delivered it says that it is acknowledged: our first attempt came through.
                return standing
            raise

    def _standing(self) -> GroupPosition:
        """Return the cursor, with all acknowledgements in it that any server has accepted."""
        standing = self._door.ask("standing", client_id=self._client_id)
        if standing is None or standing["cursor"] is None:
            raise NotSubscribed(f"Client {self._client_id} is not subscribed.", hint="Subscribe again.")
        if standing["epoch"] != self._epoch:
            raise FencedError(
                f"Epoch {self._epoch} of client {self._client_id} is over.",
                hint="Another consumer took over. Stop this one.",
                our_epoch=self._epoch,
                current_epoch=standing["epoch"],
            )
        return GroupPosition.from_json(standing["cursor"])

    def locate(self, where: Literal["earliest", "latest"]) -> GroupPosition:
        """Return where the sources' binlogs begin or end now, for `span`; its sequence is 0.

        Raises:
            UsageError: a shard is files, which cannot say.
        """
        return GroupPosition.from_json(self._patiently(lambda: self._ask("locate", where=where)))

    def rollback(self, batch_id: int | None = None) -> int:
        """Give back a batch and every later one, or all outstanding ones; return how many."""
        count = int(self._patiently(lambda: self._ask("rollback", batch_id=batch_id)))
        self.turn += 1
        self._unfinished.forget(batch_id)
        return count

    def outstanding(self) -> list[int]:
        """Return the ids of the delivered and not acknowledged batches, oldest first."""
        standing = self._patiently(lambda: self._door.ask("standing", client_id=self._client_id))
        return [entry["batch_id"] for entry in standing["outstanding"]] if standing is not None else []

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

    def ahead(
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
        yield from Ahead(self, read, batch_size, depth, timeout)

    def resubscribe(self) -> bool:
        """Become the active consumer again; False, and nothing was done, if this one is closed."""
        if self._closed.is_set():
            return False
        self.subscribe()
        return True

    def pause(self, seconds: float) -> bool:
        """Wait so long, or until this consumer is closed; return whether it is open."""
        return not self._closed.wait(seconds)

    def read_rows(self, batch_id: int, **how: Any) -> pa.Table:
        """Return an outstanding batch's rows; `Batch` is the friendlier way."""
        try:
            return self._patiently(
                lambda: self._door.rows(
                    client_id=self._client_id, epoch=self._epoch, batch_id=batch_id, **how
                )
            )
        except RolledBack:
            self._unfinished.forget(batch_id)
            raise

    # ---- life ------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Let go of the client id; the cursor stays, outstanding batches are the next consumer's."""
        if self._closed.is_set():
            return
        self._closed.set()
        if self._toucher is not None:
            self._toucher.join()
        try:
            if self._epoch:
                self._ask("release")
        except CanalGroupError:
            pass  # Whoever holds the client id by now, or nobody: our lease ends by itself.
        finally:
            if self._node is not None:
                self._node.let_go(self._client_id)
                self._node.close()
            self._door.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, request: str, *, wait_s: float = 0.0, **body: Any) -> Any:
        return self._door.ask(request, wait_s=wait_s, client_id=self._client_id, epoch=self._epoch, **body)

    def _patiently(self, attempt: Callable[[], T], deadline: float | None = None) -> T:
        """Repeat a call through a failover for `retry_s`, or until an earlier deadline."""
        until = self._deadline_s(self._retry_s)
        if deadline is not None:
            until = deadline if until is None else min(until, deadline)
        return keep_trying(attempt, _AWAY, until, self._closed.wait)

    def _deadline_s(self, patience_s: float | None) -> float | None:
        return None if patience_s is None else time.monotonic() + patience_s

    def _keep_lease(self) -> None:
        while not self._closed.wait(_TOUCH_EVERY_S):
            try:
                self._ask("touch")
                if self._node is not None:
                    # Made anew where our session had ended, unless the next consumer was faster.
                    self._node.take(self._client_id, self.holder)
            except (FencedError, NotSubscribed):
                return  # The next call of the consumer says so.
            except CanalGroupError:
                continue


def connect(
    uri: str | None = None,
    *,
    destination: str,
    client_id: str = "1001",
    filter: str = "",  # noqa: A002  canal's name for it
    token: str | None = None,
    tls_ca: str | Path | None = None,
    tls_cert: str | Path | None = None,
    tls_key: str | Path | None = None,
    wait_s: float | None = None,
    resume: Literal["cursor", "now"] | None = None,
    retry_s: float = 60.0,
    zookeeper: str | None = None,
    zookeeper_auth: str | None = None,
    zookeeper_ca: str | Path | None = None,
    zookeeper_cert: str | Path | None = None,
    zookeeper_key: str | Path | None = None,
    prefix: str = "/otter/canal",
) -> Consumer:
    """Connect to the active gateway and become the active consumer of a client id.

    Args:
        uri: the gateway, "grpc://host:port", or "grpc+tls://host:port" with TLS; several parted by commas are
            tried in turn. None: whoever ZooKeeper says is active.
        destination: the logical instance to read.
        client_id: whose cursor to use; 1001 is canal's default.
        filter: canal's comma-separated regular expressions on `schema.table`; empty: everything.
        token: by which the gateway knows us, and what we may read.
        tls_ca: file of the authorities that sign the gateways' certificates, PEM; given, every gateway is
            reached by TLS, whatever its address says. None: those of the system, for "grpc+tls://" only.
        tls_cert: file of our own certificate, PEM, where the gateways ask for one; together with `tls_key`.
        tls_key: file of that certificate's key.
        wait_s: how long to wait for the server, and for another consumer to let go; None: as long as it
            takes.
        resume: where to go on if the client id was dropped for being away too long; see `Consumer.subscribe`.
        retry_s: how long a later call goes on while the server is away or fails over, before it raises.
        zookeeper: "host:port,host:port"; with it the consumer keeps its running node itself, so that the
            next one takes over when its session ends, whatever the gateway knows. Needs kazoo.
        zookeeper_auth: "user:password" of the servers' `coordination.user`, where they have one.
        zookeeper_ca: file of the authorities that sign ZooKeeper's certificates; given, it is reached by TLS.
        zookeeper_cert: file of our own certificate, PEM, where ZooKeeper asks for one; with `zookeeper_key`.
        zookeeper_key: file of that certificate's key.
        prefix: where canal's tree hangs in ZooKeeper.

    Returns:
        A subscribed consumer, a context manager.

    Raises:
        ConsumerActive: another consumer holds the client id; the sentence names it.
        SubscriptionDropped: it was away for too long, and `resume` is None.
        ServerUnavailable: the gateway does not answer.
        AccessDenied: the token is missing, wrong, or for something else.
        ConfigError: an address or a certificate is wrong, or neither `uri` nor `zookeeper` is given.
    """
    directory = None
    if zookeeper is not None:
        # kazoo is needed by those only who pass `zookeeper`.
        from canal_group.discovery import Directory  # noqa: PLC0415

        files = (zookeeper_ca, zookeeper_cert, zookeeper_key)
        login = ZooKeeperLogin.parse(zookeeper_auth, *(None if file is None else str(file) for file in files))
        directory = Directory(zookeeper, destination, prefix, login=login)
    elif uri is None:
        raise ConfigError("Say where the gateway is: pass its address, or `zookeeper`.")
    where = uri if uri is not None or directory is None else directory.gateways
    assert where is not None
    tls = Tls(*(None if file is None else Path(file) for file in (tls_ca, tls_cert, tls_key)))
    door = GatewayDoor(where, destination, token, tls)
    consumer = Consumer(door, client_id, filter, wait_s, retry_s=retry_s, node=directory)
    try:
        consumer.subscribe(resume=resume)
    except BaseException:
        consumer.close()
        raise
    return consumer


__all__ = ["Batch", "Consumer", "ConsumerActive", "connect"]
