"""Make parts from settings: the adapter of each port, and the parts of group and gateway."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import assert_never

from canal_group.actors.admission.access import READER, Grant, Grants, token_digest
from canal_group.actors.admission.gateway_tls import GatewayTls
from canal_group.actors.coordination.embedded import HOST as LOOPBACK
from canal_group.actors.coordination.embedded import running_in
from canal_group.actors.coordination.local import LocalCoordinator
from canal_group.actors.coordination.switch import LocalSwitch, Switch, ZooKeeperSwitch
from canal_group.actors.coordination.zookeeper import ZooKeeperCoordinator
from canal_group.actors.group.stored.cursors import CURSORS
from canal_group.actors.meta.file import FileStore
from canal_group.actors.meta.memory import MemoryStore
from canal_group.actors.meta.periodic import PeriodicStore
from canal_group.actors.meta.zookeeper import ZooKeeperStore
from canal_group.actors.ports import Coordinator, EpochStore, Host
from canal_group.conf.listeners.gateway_settings import GatewaySslSettings
from canal_group.conf.server_settings import (
    EmbeddedSettings,
    FileCursorSettings,
    LocalSettings,
    MemoryCursorSettings,
    PlugInCursorSettings,
    ZookeeperCursorSettings,
    ZookeeperSettings,
)
from canal_group.conf.settings import InstanceSettings
from canal_group.merge.delivery.batch_limits import BatchLimits
from canal_group.merge.errors import ConfigError
from canal_group.merge.group import GroupSettings
from canal_group.merge.order.ddl.rule import DdlRule
from canal_group.merge.values.loss import Purged
from canal_group.zookeeper.login import ZooKeeperLogin

#: how long a replay may have rings while another one waits for them, microseconds; a batch that takes longer
#: to be acknowledged is rolled back then
REPLAY_TURN_US = 300_000_000
#: headers without rows that may accumulate before a consumer has to move past them
EMPTY_HEADERS_MAX = 1_024


@dataclass(frozen=True, slots=True)
class ServerIdentity:
    """The identity of a server."""

    #: "host:port" of its gateway, for other servers, consumers and canal's tools
    address: str
    #: a token that all restarts of this server's group actor share
    owner: str
    #: hosts of ZooKeeper, also of an embedded one; empty with local coordination
    zookeeper_hosts: str
    #: "host:port" where canal's clients connect; empty: nowhere
    canal_address: str = ""


def coordinator(settings: InstanceSettings, identity: ServerIdentity, host: Host) -> Coordinator:
    """Return the coordinator of the settings."""
    coordination = settings.coordination
    if isinstance(coordination, LocalSettings):
        return LocalCoordinator(settings.destination, coordination.folder)
    return ZooKeeperCoordinator(
        identity.zookeeper_hosts,
        settings.destination,
        identity.address,
        identity.owner,
        canal_address=identity.canal_address,
        prefix=coordination.prefix,
        session_timeout_s=coordination.session_timeout_s,
        login=zookeeper_login(coordination),
        host=host,
    )


def store(settings: InstanceSettings, elected_by: Coordinator, host: Host) -> EpochStore:
    """Return the store of cursors, schema histories and decisions that the settings of cursors name."""
    inner: EpochStore
    match settings.cursor:
        case MemoryCursorSettings():
            return MemoryStore()
        case FileCursorSettings(folder=folder, flush_s=flush_s):
            inner = FileStore(settings.destination, folder)
        case ZookeeperCursorSettings(flush_s=flush_s):
            if not isinstance(elected_by, ZooKeeperCoordinator):
                raise ConfigError(
                    "Cursors in ZooKeeper need coordination by ZooKeeper.",
                    hint="Set coordination, or cursor.kind.",
                )
            inner = ZooKeeperStore(elected_by.connection, elected_by.connection.tree)
        case PlugInCursorSettings(plug_in=plug_in, flush_s=flush_s):
            inner = plug_in.make(settings.destination)
        case unknown:
            assert_never(unknown)
    return inner if flush_s is None else PeriodicStore(inner, CURSORS, flush_s, host)


def switch(settings: InstanceSettings) -> Switch:
    """Return the switch that stops and starts the destination from outside its servers.

    Raises:
        ConfigError: the settings do not tell where its servers look for a stop mark.
    """
    coordination, destination = settings.coordination, settings.destination
    if isinstance(coordination, LocalSettings):
        if coordination.folder is None:
            raise ConfigError(
                f"{destination} is coordinated in memory, where a stop mark cannot be stored.",
                hint="Stop its server, or set coordination.folder.",
            )
        return LocalSwitch(coordination.folder, destination)
    if isinstance(coordination, EmbeddedSettings):
        hosts = _embedded_hosts(coordination, destination)
    else:
        hosts = coordination.hosts
    return ZooKeeperSwitch(hosts, destination, coordination.prefix, zookeeper_login(coordination))


def _embedded_hosts(coordination: EmbeddedSettings, destination: str) -> str:
    if coordination.port:
        return f"{LOOPBACK}:{coordination.port}"
    running = None if coordination.folder is None else running_in(coordination.folder)
    if running is None:
        raise ConfigError(
            f"{destination}'s embedded ZooKeeper takes a free port, and does not run now.",
            hint="Start `serve` with this file first, set coordination.port, or pass --zookeeper host:port.",
        )
    return running


def grants(settings: InstanceSettings, operator_token: str | None = None) -> Grants:
    """Return the grants of the gateway's clients.

    Args:
        settings: of the instance.
        operator_token: token that may operate it, if the settings name no clients; None: no token is needed.
    """
    gateway = settings.gateway
    if not gateway.names_who:
        operator = [] if operator_token is None else [(operator_token, Grant("the operator", operate=True))]
        return replace(Grants.of(operator), anybody=READER)
    tokens: list[tuple[bytes, str, Grant]] = []
    certificates: list[tuple[str, Grant]] = []
    if gateway.token is not None:
        digest = token_digest(gateway.token.get_secret_value())
        tokens.append((digest, "", Grant("the gateway", operate=True)))
    for client in gateway.admitted:
        grant = Grant(
            client.name,
            destinations=frozenset(client.destinations or (settings.destination,)),
            client_ids=frozenset(client.client_ids),
            operate=client.operate,
            rewind=client.rewind,
            shows="certificate" if client.token is None else "token",
        )
        if client.token is not None:
            digest = token_digest(client.token.get_secret_value())
            tokens.append((digest, client.certificate or "", grant))
        elif client.certificate is not None:
            certificates.append((client.certificate, grant))
    return Grants(tuple(tokens), tuple(certificates))


def gateway_tls(settings: InstanceSettings) -> GatewayTls | None:
    """Return the gateway's TLS files; None if it has none.

    Raises:
        ConfigError: its files cannot be used.
    """
    return _tls(settings.gateway.ssl, "gateway.ssl")


def canal_tls(settings: InstanceSettings) -> GatewayTls | None:
    """Return the TLS files of canal's protocol; None if it has none, or is not served.

    Raises:
        ConfigError: its files cannot be used.
    """
    return None if settings.canal is None else _tls(settings.canal.ssl, "canal.ssl")


def _tls(ssl: GatewaySslSettings | None, key: str) -> GatewayTls | None:
    if ssl is None:
        return None
    tls = GatewayTls(ssl.cert, ssl.key, ssl.client_ca, key)
    tls.check()
    return tls


def zookeeper_login(coordination: ZookeeperSettings | EmbeddedSettings) -> ZooKeeperLogin:
    """Return how to log in at the ZooKeeper of the settings."""
    ssl = coordination.ssl if isinstance(coordination, ZookeeperSettings) else None
    login = ZooKeeperLogin(coordination.user or "", coordination.password.get_secret_value())
    if ssl is None:
        return login
    ca, cert, key = (None if file is None else str(file) for file in (ssl.ca, ssl.cert, ssl.key))
    return replace(login, tls=True, verify=ssl.verify, ca=ca, cert=cert, key=key)


def embedded(settings: InstanceSettings) -> EmbeddedSettings | None:
    """Return the settings of the ZooKeeper server to start on this machine; None if there is none."""
    coordination = settings.coordination
    return coordination if isinstance(coordination, EmbeddedSettings) else None


def group_settings(settings: InstanceSettings) -> GroupSettings:
    """Return the settings of the group's state machine."""
    batch, merge, consumer = settings.batch, settings.merge, settings.consumer
    return GroupSettings(
        destination=settings.destination,
        shards=tuple(shard.name for shard in settings.shards),
        limits=BatchLimits(
            **batch.model_dump(),
            empty_headers_max=min(EMPTY_HEADERS_MAX, settings.store.size),
            ring_headers_max=settings.store.size,
            ring_bytes_max=settings.store.bytes_max if settings.store.mode == "memory" else None,
        ),
        lease_us=int(consumer.lease_s * 1e6),
        drop_after_us=int(consumer.drop_after_s * 1e6) if consumer.drop_after_s is not None else None,
        unacknowledged_us=int(consumer.unacknowledged_s * 1e6) or None,
        apart_max_us=int(consumer.apart_max_s * 1e6),
        quiet_us=int(consumer.quiet_s * 1e6),
        purged=Purged(merge.purged),
        client_ids_max=consumer.client_ids_max,
        ddl=DdlRule(merge.ddl),
        replay_turn_us=REPLAY_TURN_US,
        replays_max=0 if settings.store_kind == "memory" else consumer.replays_max,
        ahead_max_us=merge.ahead_max_us,
        ids_within_us=merge.ids_within_us,
        commit_times=settings.reader.commit_times,
        dead_shard=merge.dead_shard_policy,
    )
