"""The entry point: `connect` returns a consumer of one destination, subscribed under its client id."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from canal_group.client.consumer import Consumer
from canal_group.gateway.gateway_client import GatewayClient
from canal_group.gateway.tls import Tls
from canal_group.merge.errors import ConfigError, UsageError
from canal_group.merge.values.position import GroupPosition
from canal_group.merge.well_known import CLIENT_ID, PREFIX
from canal_group.zookeeper.login import ZooKeeperLogin


def connect(
    uri: str | None = None,
    *,
    destination: str,
    client_id: str = CLIENT_ID,
    filter: str = "",  # noqa: A002  canal's name for it
    token: str | None = None,
    tls_ca: str | Path | None = None,
    tls_cert: str | Path | None = None,
    tls_key: str | Path | None = None,
    wait_s: float | None = None,
    resume: Literal["cursor", "now"] | None = None,
    start: str | GroupPosition | None = None,
    keep: bool = False,
    look: bool = False,
    snapshot: Literal["never", "initial", "only"] | None = None,
    retry_s: float | None = None,
    zookeeper: str | None = None,
    zookeeper_auth: str | None = None,
    zookeeper_ca: str | Path | None = None,
    zookeeper_cert: str | Path | None = None,
    zookeeper_key: str | Path | None = None,
    prefix: str = PREFIX,
    shared_memory: bool = True,
) -> Consumer:
    """Connect to the active gateway and become the active consumer of a client id.

    Args:
        uri: the gateway, "grpc://host:port", or "grpc+tls://host:port" with TLS; several, separated by
            commas, are tried in turn. None: the gateway that ZooKeeper names as active.
        destination: the logical instance to read.
        client_id: the client id whose cursor to use; 1001 is canal's default.
        filter: canal's comma-separated regular expressions on `schema.table`; empty: everything.
        token: authenticates us to the gateway, which derives from it what we may read.
        tls_ca: PEM file of the authorities that sign the gateways' certificates. If set, every gateway is
            reached by TLS, whatever its address says. None: those of the system, for "grpc+tls://" only.
        tls_cert: PEM file of our own certificate, if the gateways require one; together with `tls_key`.
        tls_key: file of that certificate's key.
        wait_s: seconds to wait for the server, and for another consumer to release the client id; None:
            without limit.
        resume: where to continue if the client id was dropped, or a source has purged its position; see
            `Consumer.subscribe`.
        start: where a client id without a cursor begins. "earliest": at the oldest change that each source
            still has; "latest": with what is committed from now on; None: where the instance file says, by
            default the same; a time with its zone ("2026-01-31T12:00:00Z") or before now ("-2h",
            in s, m, h or d): with the first transaction of each shard that was committed at or after it; a
            group position. If a client id has a cursor, it continues there: `canal-group rewind` moves it.
        keep: whether rows are held for the client id before it has acknowledged any, however long it has no
            consumer. Otherwise it is dropped after `consumer.unacknowledged_s`.
        look: whether a client id that is new is only a look: nothing of it is stored, it needs no
            acknowledgements, and it ends with this consumer, or when another server is elected.
        snapshot: whether a client id without a cursor gets the rows that there are, too. "initial": yes, in
            one order with every change; "only": yes, and iterating ends when it has all of them; "never": no;
            None: as the instance file says. It needs an archive at the server.
        retry_s: seconds for which a later call is retried while the server is unavailable or fails over, with
            warnings in the log; None: without limit.
        zookeeper: "host:port,host:port". With it the consumer keeps its running node itself: when its
            session ends, the next consumer takes over, whatever the gateway knows. Needs kazoo.
        zookeeper_auth: "user:password" of the servers' `coordination.user`, if they have one.
        zookeeper_ca: file of the authorities that sign ZooKeeper's certificates; if set, TLS is used.
        zookeeper_cert: PEM file of our own certificate, if ZooKeeper requires one; with `zookeeper_key`.
        zookeeper_key: file of that certificate's key.
        prefix: path of canal's tree in ZooKeeper.
        shared_memory: whether rows of a gateway on this machine may be read by shared memory. False: all
            rows come by Arrow Flight, for a consumer that does not trust the gateway's process.

    Returns:
        A subscribed consumer, a context manager.

    Raises:
        ConsumerActive: another consumer holds the client id; the message names it.
        SubscriptionDropped: the client id was inactive for too long, and `resume` is None.
        ServerUnavailable: the gateway does not answer.
        PositionPurged: a source no longer has changes from `start`.
        AccessDenied: the token is missing, wrong, or for something else.
        ConfigError: an address, a certificate or `start` is wrong, or neither `uri` nor `zookeeper` is given.
        UsageError: `keep` and `look` are both true; or a snapshot is for a look, or there is no archive.
    """
    if keep and look:
        raise UsageError("A look is not kept.", hint="Pass `keep` or `look`, not both.")
    if snapshot not in (None, "never", "initial", "only"):
        raise UsageError(f"snapshot is {snapshot!r}.", hint="Pass 'initial', 'only' or 'never'.")
    directory = None
    if zookeeper is not None:
        # kazoo is needed only with `zookeeper`.
        from canal_group.gateway.discovery import Directory  # noqa: PLC0415

        files = (zookeeper_ca, zookeeper_cert, zookeeper_key)
        login = ZooKeeperLogin.parse(zookeeper_auth, *(None if file is None else str(file) for file in files))
        directory = Directory(zookeeper, destination, prefix, login=login)
    elif uri is None:
        raise ConfigError("No gateway is named.", hint="Pass its address, or `zookeeper`.")
    where = uri if uri is not None or directory is None else directory.gateways
    assert where is not None
    tls = Tls(*(None if file is None else Path(file) for file in (tls_ca, tls_cert, tls_key)))
    gateway_client = GatewayClient(where, destination, token, tls, shared_memory=shared_memory)
    consumer = Consumer(
        gateway_client,
        client_id,
        filter,
        wait_s,
        retry_s=retry_s,
        node=directory,
        keep=keep,
        look=look,
        snapshot=snapshot,
    )
    try:
        consumer.subscribe(resume=resume, start=start)
    except BaseException:
        consumer.close()
        raise
    return consumer
