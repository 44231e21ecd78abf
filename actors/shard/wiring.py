"""Make a shard's parts from settings; separate from group and gateway, which must not import the parser."""

from __future__ import annotations

from dataclasses import replace

from actors.shard.shard_wiring import ShardWiring
from actors.store.ring import BatchMode, RingBounds
from binlog.files.files_reader import FilesSource
from binlog.grammar.chunk_builder import Limits
from binlog.server.hosts import Detecting
from binlog.server.source import SourceAddress
from conf.server_settings import LocalSettings
from conf.settings import InstanceSettings
from conf.shard_settings import LookupSettings, ShardSettings

#: lower limit of the allowed silence, seconds: a group may be restarting, and its shards keep their rings
SILENCE_MIN_S = 10.0


def shard_source(settings: InstanceSettings, shard: ShardSettings) -> SourceAddress | FilesSource:
    """Return the source of a shard: a server, or files."""
    if shard.files is None:
        return source_address(settings, shard, shard)
    lookup = source_address(settings, shard, shard.lookup) if shard.lookup is not None else None
    return FilesSource(
        shard.name,
        str(shard.files),
        follow=shard.follow,
        lookup=lookup,
        commit_times=settings.reader.commit_times,
    )


def standbys(settings: InstanceSettings, shard: ShardSettings) -> tuple[SourceAddress, ...]:
    """Return the servers that replicate a shard's primary, in the order in which they are tried."""
    if shard.files is not None:
        return ()
    primary = source_address(settings, shard, shard)
    return tuple(replace(primary, host=host, port=port) for host, port in shard.servers[1:])


def source_address(
    settings: InstanceSettings, shard: ShardSettings, server: ShardSettings | LookupSettings
) -> SourceAddress:
    """Return the address and login of a shard's server, or of the server for its table metadata."""
    ssl = server.ssl
    assert server.host is not None, "a shard without files has a host"
    assert server.user is not None, "a shard with a host has a user"
    return SourceAddress(
        name=shard.name,
        host=server.host,
        port=server.port,
        user=server.user,
        password=server.password.get_secret_value(),
        server_id=settings.server_id_of(shard),
        destination=settings.destination,
        connect_timeout_s=settings.reader.connect_timeout_s,
        read_timeout_s=settings.reader.read_timeout_s,
        heartbeat_ms=settings.reader.heartbeat_ms,
        semi_sync=settings.reader.semi_sync if server is shard else "off",
        commit_times=settings.reader.commit_times,
        dump_window_bytes_max=settings.reader.dump_window_bytes_max
        if settings.reader.share_dump and server is shard
        else 0,
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
    """Return the wiring of a shard actor."""
    reader, store, chosen = settings.reader, settings.store, settings.coordination
    session_s = 0.0 if isinstance(chosen, LocalSettings) else chosen.session_timeout_s
    return ShardWiring(
        source=shard_source(settings, shard),
        standbys=standbys(settings, shard),
        detecting=Detecting(**reader.detecting.model_dump()),
        filter=settings.filter,
        ring=RingBounds(
            mode=BatchMode(store.mode),
            size=store.size,
            memunit_bytes=store.memunit_bytes,
        ),
        limits=Limits(
            bytes_max=reader.chunk_bytes_max,
            rows_max=reader.chunk_rows_max,
            statement_chars_max=reader.statement_chars_max,
        ),
        margin_us=settings.merge.margin_ms * 1000,
        order_by=settings.merge.order_by or {},
        follows_tables=settings.merge.ddl == "last",
        start=settings.start_of(shard),
        start_by=shard.start_by,
        fallback_us=int(reader.fallback_s * 1e6),
        confirm_s=reader.confirm_s,
        silence_max_s=max(SILENCE_MIN_S, session_s),
        destination=settings.destination,
    )
