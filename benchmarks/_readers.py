"""Readers of a source with the settings' defaults, as a shard makes them."""

from __future__ import annotations

from canal_group.actors.shard.wiring import address_of, limits_of
from canal_group.binlog.grammar.decoding import Decoding
from canal_group.binlog.server.definitions.source_definitions import SourceDefinitions
from canal_group.binlog.server.hosts import SourceHosts
from canal_group.binlog.server.listener import Listener
from canal_group.binlog.server.reader import SourceReader
from canal_group.binlog.server.source import SourceAddress
from canal_group.binlog.server.starts.read_progress import StartChoice
from canal_group.conf.stream_settings import MergeSettings, ReaderSettings
from canal_group.merge.values.chunk import TableName
from playground.database.server_process import DatabaseServer

_SETTINGS = ReaderSettings()
#: when a chunk is full
LIMITS = limits_of(_SETTINGS)


def address_at(server: DatabaseServer, name: str, server_id: int) -> SourceAddress:
    """Return a server's address, for a shard of that name."""
    where = server.address()
    return address_of(_SETTINGS, name, where.host, where.port, where.user, where.password, server_id)


def definitions_of(name: str) -> SourceDefinitions:
    """Return the definitions of a shard's tables: none yet."""
    return SourceDefinitions(
        name,
        TableName,
        confirm_s=_SETTINGS.confirm_s,
        statement_chars_max=_SETTINGS.statement_chars_max,
    )


def reader_at(
    address: SourceAddress, listener: Listener, definitions: SourceDefinitions | None = None
) -> SourceReader:
    """Return a reader of all tables, from the end of the binlog."""
    return SourceReader(
        SourceHosts([address], _SETTINGS.detecting),
        Decoding(TableName, LIMITS),
        listener,
        choice=StartChoice("latest", "auto", _SETTINGS.fallback_us),
        margin_us=MergeSettings().margin_us,
        definitions=definitions or definitions_of(address.name),
    )
