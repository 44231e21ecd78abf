"""Make a shard's parts from settings; separate from group and gateway, which must not import the parser."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from canal_group.actors.shard.shard_wiring import ShardWiring
from canal_group.binlog.archive.options import ArchiveOptions
from canal_group.binlog.files.files_reader import FilesSource
from canal_group.binlog.grammar.chunk_builder import Limits
from canal_group.binlog.server.password import RenewedPassword
from canal_group.binlog.server.source import SourceAddress
from canal_group.conf.archive.archive_settings import ArchiveSettings
from canal_group.conf.login_settings import LoginSettings
from canal_group.conf.server_settings import LocalSettings
from canal_group.conf.settings import InstanceSettings
from canal_group.conf.shard_settings import LookupSettings, ShardSettings
from canal_group.conf.stream_settings import ReaderSettings

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
        key_file=None if shard.key_file is None else Path(shard.key_file),
    )


def replicas(settings: InstanceSettings, shard: ShardSettings) -> tuple[SourceAddress, ...]:
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
    reader, reads = settings.reader, server is shard
    shares = reader.share_dump or settings.archive is not None
    address = address_of(
        reader,
        shard.name,
        server.host,
        server.port,
        server.user,
        _password(server),
        settings.server_id_of(shard),
    )
    return replace(
        address,
        destination=settings.destination,
        semi_sync=reader.semi_sync if reads else "off",
        clear_password=server.clear_password,
        dump_window_bytes_max=reader.dump_window_bytes_max if reads and shares else 0,
        archive=archive_options(settings.archive) if reads else None,
        ssl=None
        if ssl is None
        else {
            "ca": str(ssl.ca) if ssl.ca else None,
            "cert": str(ssl.cert) if ssl.cert else None,
            "key": str(ssl.key) if ssl.key else None,
            "verify": ssl.verify,
        },
    )


def archive_options(archive: ArchiveSettings | None) -> ArchiveOptions | None:
    """Return the archive's options for the dump process; None without an archive."""
    if archive is None:
        return None
    return ArchiveOptions(
        folder=str(archive.folder),
        sync_s=archive.sync_s,
        bytes_max=archive.bytes_max,
        hours=archive.hours,
        disk_high=archive.disk_high,
        disk_low=archive.disk_low,
        key_file=None if archive.key_file is None else str(archive.key_file),
        store=archive.store,
    )


def _password(server: LoginSettings) -> str | RenewedPassword:
    """Return a password, or where it comes from when a connection is opened."""
    if not server.renews_password:
        return server.password.get_secret_value()
    return RenewedPassword(
        server.password_command,
        None if server.password_file is None else str(server.password_file),
        timeout_s=server.password_timeout_s,
        lifetime_s=server.password_lifetime_s or 0.0,
    )


def address_of(
    reader: ReaderSettings,
    name: str,
    host: str,
    port: int,
    user: str,
    password: str | RenewedPassword,
    server_id: int,
) -> SourceAddress:
    """Return a server's address with a reader's intervals; without TLS, and without what a shard asks for."""
    return SourceAddress(
        name,
        host,
        port,
        user,
        password,
        server_id,
        connect_timeout_s=reader.connect_timeout_s,
        read_timeout_s=reader.read_timeout_s,
        heartbeat_ms=reader.heartbeat_ms,
        semi_sync="off",
        commit_times=reader.commit_times,
    )


def limits_of(reader: ReaderSettings) -> Limits:
    """Return when a reader's chunks are full."""
    return Limits(
        bytes_max=reader.chunk_bytes_max,
        rows_max=reader.chunk_rows_max,
        statement_chars_max=reader.statement_chars_max,
    )


def shard_wiring(settings: InstanceSettings, shard: ShardSettings) -> ShardWiring:
    """Return the wiring of a shard actor."""
    coordination = settings.coordination
    session_s = 0.0 if isinstance(coordination, LocalSettings) else coordination.session_timeout_s
    return ShardWiring(
        destination=settings.destination,
        source=shard_source(settings, shard),
        replicas=replicas(settings, shard),
        start=settings.start_of(shard),
        start_by=shard.start_by,
        silence_max_s=max(SILENCE_MIN_S, session_s),
        filter=settings.filter,
        reader=settings.reader,
        merge=settings.merge,
        store=settings.store,
        snapshot=settings.snapshot,
        holds_back=settings.store_kind == "file" and shard.files is None,
    )
