"""From settings to parts: which adapter serves a port, and what each actor is made of."""

from __future__ import annotations

from dataclasses import dataclass

from actors.coordination.local import LocalCoordinator
from actors.coordination.zookeeper import ZooKeeperCoordinator
from actors.meta.file import FileCursorStore
from actors.meta.memory import MemoryCursorStore
from actors.meta.periodic import PeriodicCursorStore
from actors.meta.zookeeper import ZooKeeperCursorStore
from actors.parse.chunk_builder import Limits
from actors.parse.source import SourceAddress
from actors.ports import Coordinator, CursorStore
from actors.shard import ShardWiring
from actors.store.ring import BatchMode, RingBounds
from conf.server_settings import EmbeddedSettings, FileCursorSettings, LocalSettings, MemoryCursorSettings
from conf.settings import InstanceSettings
from conf.shard_settings import ShardSettings
from merge.errors import ConfigError
from merge.group import GroupSettings
from merge.subscriber import BatchLimits

#: headers without rows that are gathered before a consumer has to move past them
EMPTY_HEADERS_MAX = 1_024


@dataclass(frozen=True, slots=True)
class ServerIdentity:
    """Who a server is to others."""

    #: "host:port" of its gateway, as other servers, consumers and canal's tools see it
    address: str
    #: a token that all restarts of this server's group actor share
    owner: str
    #: hosts of ZooKeeper, also of an embedded one; empty with local coordination
    zookeeper_hosts: str


def coordinator(settings: InstanceSettings, identity: ServerIdentity) -> Coordinator:
    """Return the adapter that elects, as the settings say."""
    chosen = settings.coordination
    if isinstance(chosen, LocalSettings):
        return LocalCoordinator(settings.destination, chosen.folder)
    return ZooKeeperCoordinator(
        identity.zookeeper_hosts,
        settings.destination,
        identity.address,
        identity.owner,
        prefix=chosen.prefix,
        session_timeout_s=chosen.session_timeout_s,
    )


def cursor_store(settings: InstanceSettings, elected_by: Coordinator) -> CursorStore:
    """Return the adapter that keeps cursors, as the settings say."""
    chosen = settings.cursor
    store = _cursor_store(settings, elected_by)
    if isinstance(chosen, MemoryCursorSettings) or chosen.flush_s is None:
        return store
    return PeriodicCursorStore(store, chosen.flush_s)


def _cursor_store(settings: InstanceSettings, elected_by: Coordinator) -> CursorStore:
    chosen = settings.cursor
    if isinstance(chosen, FileCursorSettings):
        return FileCursorStore(settings.destination, chosen.folder)
    if isinstance(chosen, MemoryCursorSettings):
        return MemoryCursorStore()
    if not isinstance(elected_by, ZooKeeperCoordinator):
        raise ConfigError("Cursors in ZooKeeper need a coordination by ZooKeeper.")
    return ZooKeeperCursorStore(elected_by.connection, elected_by.connection.tree)


def embedded(settings: InstanceSettings) -> EmbeddedSettings | None:
    """Return the settings of the ZooKeeper server to start on this machine; None: none is wanted."""
    chosen = settings.coordination
    return chosen if isinstance(chosen, EmbeddedSettings) else None


def group_settings(settings: InstanceSettings) -> GroupSettings:
    """Return what the group's state machine is made of."""
    batch, merge, consumer = settings.batch, settings.merge, settings.consumer
    return GroupSettings(
        destination=settings.destination,
        shards=tuple(shard.name for shard in settings.shards),
        limits=BatchLimits(
            rows_max=batch.rows_max,
            bytes_max=batch.bytes_max,
            outstanding_max=batch.outstanding_max,
            ddl_isolation=batch.ddl_isolation,
            empty_headers_max=min(EMPTY_HEADERS_MAX, settings.store.size),
        ),
        lease_us=int(consumer.lease_s * 1e6),
        drop_after_us=int(consumer.drop_after_s * 1e6) if consumer.drop_after_s is not None else None,
        skip_after_us=int(merge.skip_after_s * 1e6) if merge.skip_after_s is not None else None,
    )


def source_address(settings: InstanceSettings, shard: ShardSettings) -> SourceAddress:
    """Return where a shard's source is and how to log in."""
    ssl = shard.ssl
    return SourceAddress(
        name=shard.name,
        host=shard.host,
        port=shard.port,
        user=shard.user,
        password=shard.password.get_secret_value(),
        server_id=settings.server_id_of(shard),
        destination=settings.destination,
        connect_timeout_s=settings.reader.connect_timeout_s,
        read_timeout_s=settings.reader.read_timeout_s,
        heartbeat_ms=settings.reader.heartbeat_ms,
        ssl=None
        if ssl is None
        else {
            "ca": str(ssl.ca) if ssl.ca else None,
            "cert": str(ssl.cert) if ssl.cert else None,
            "key": str(ssl.key) if ssl.key else None,
            "verify_cert": ssl.verify,
            "verify_identity": ssl.verify,
        },
    )


def shard_wiring(settings: InstanceSettings, shard: ShardSettings) -> ShardWiring:
    """Return what a shard actor is made of."""
    reader, store = settings.reader, settings.store
    return ShardWiring(
        address=source_address(settings, shard),
        filter=settings.filter,
        ring=RingBounds(
            mode=BatchMode(store.mode),
            size=store.size,
            memunit_bytes=store.memunit_bytes,
        ),
        limits=Limits(bytes_max=reader.chunk_bytes_max, rows_max=reader.chunk_rows_max),
        margin_us=settings.merge.margin_ms * 1000,
        start=settings.start_of(shard),
    )
