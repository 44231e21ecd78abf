"""Objects with the settings' defaults, made as the wiring makes them: the code has no defaults of its own."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from canal_group.actors.group import wiring as group_wiring
from canal_group.actors.shard import wiring
from canal_group.actors.shard.shard_wiring import ShardWiring
from canal_group.binlog.files.files_reader import FilesSource
from canal_group.binlog.grammar.chunk_builder import Limits
from canal_group.binlog.grammar.decoding import Decoding
from canal_group.binlog.grammar.tables import Select
from canal_group.binlog.server.definitions.source_definitions import SourceDefinitions
from canal_group.binlog.server.hosts import SourceHosts
from canal_group.binlog.server.listener import Listener
from canal_group.binlog.server.reader import SourceReader
from canal_group.binlog.server.source import SourceAddress
from canal_group.binlog.server.starts.read_progress import StartChoice
from canal_group.conf.load import build_instance
from canal_group.conf.stream_settings import MergeSettings, ReaderSettings, StoreSettings
from canal_group.merge.delivery.batch_limits import BatchLimits
from canal_group.merge.group import GroupSettings
from canal_group.merge.order.timeline import Timeline

READER, MERGE = ReaderSettings(), MergeSettings()
INSTANCE = build_instance(
    {"preset": "memory", "destination": "shop", "shards": [{"name": "s0", "host": "db0", "user": "canal"}]}
)
AHEAD_MAX_US = MERGE.ahead_max_us
MARGIN_US = MERGE.margin_us


def ring_of(mode: Any, size: int, memunit_bytes: int = 1_024) -> StoreSettings:
    """Return the settings of a ring."""
    return StoreSettings(mode=mode, size=size, memunit_bytes=memunit_bytes)


def chunk_limits(**changes: int) -> Limits:
    """Return when a reader's chunks are full."""
    return replace(wiring.limits_of(READER), **changes)


def address_of(
    name: str,
    host: str,
    port: int = 3306,
    user: str = "canal",
    password: str = "",
    server_id: int = 9001,
    **changes: Any,
) -> SourceAddress:
    """Return the address of a server."""
    return replace(wiring.address_of(READER, name, host, port, user, password, server_id), **changes)


def files_source(name: str, files: str, **changes: Any) -> FilesSource:
    """Return the files that a shard is read from."""
    return FilesSource(name, files, **{"commit_times": READER.commit_times, **changes})


def shard_wiring(source: SourceAddress | FilesSource, **changes: Any) -> ShardWiring:
    """Return the parts of a shard that reads a source from its beginning."""
    made = wiring.shard_wiring(INSTANCE, INSTANCE.shards[0])
    return replace(made, **{"source": source, "start": "earliest", **changes})


def definitions_of(name: str, select: Select, **changes: Any) -> SourceDefinitions:
    """Return the definitions of a shard's tables: nothing yet."""
    known = {"confirm_s": READER.confirm_s, "statement_chars_max": READER.statement_chars_max}
    return SourceDefinitions(name, select, **{**known, **changes})


def source_reader(
    address: SourceAddress, select: Select, limits: Limits, listener: Listener, **changes: Any
) -> SourceReader:
    """Return a reader of a source; changes are those of its choice of a start, too."""
    choice = StartChoice(INSTANCE.start, INSTANCE.shards[0].start_by, READER.fallback_us)
    begins = {each.name: changes.pop(each.name) for each in fields(choice) if each.name in changes}
    options = {"margin_us": MARGIN_US, "definitions": definitions_of(address.name, select)}
    return SourceReader(
        changes.pop("hosts", None) or SourceHosts([address], READER.detecting),
        Decoding(select, limits),
        listener,
        choice=replace(choice, **begins),
        **{**options, **changes},
    )


def timeline_of(shards: int, ahead_max_us: int = AHEAD_MAX_US) -> Timeline:
    """Return a timeline by commit times."""
    return Timeline(shards, ahead_max_us)


def batch_limits(**changes: Any) -> BatchLimits:
    """Return the bounds of batches, with rings that hold any transaction."""
    made = group_wiring.group_settings(INSTANCE).limits
    return replace(made, **{"ring_headers_max": None, "ring_bytes_max": None, **changes})


def group_settings(destination: str, shards: tuple[str, ...], **changes: Any) -> GroupSettings:
    """Return the settings of a group, of which a consumer may rewind the others as far as it likes."""
    made = group_wiring.group_settings(INSTANCE)
    given = {"destination": destination, "shards": shards, "limits": batch_limits(), "apart_max_us": None}
    return replace(made, **{**given, **changes})
