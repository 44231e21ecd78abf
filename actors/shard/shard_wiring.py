"""What a shard actor is made of; `canal_group.actors.shard.wiring` makes it from an instance's settings."""

from __future__ import annotations

from dataclasses import dataclass, replace

from canal_group.binlog.files.files_reader import FilesSource
from canal_group.binlog.server.source import SourceAddress
from canal_group.conf.shard_settings import StartBy
from canal_group.conf.stream_settings import (
    FilterSettings,
    MergeSettings,
    ReaderSettings,
    SnapshotSettings,
    StoreSettings,
)


@dataclass(frozen=True, slots=True)
class ShardWiring:
    """One source, and the settings that concern it: neither other sources' passwords nor clients' tokens."""

    #: the instance, for the commands that its errors name
    destination: str
    source: SourceAddress | FilesSource
    #: servers that replicate the source, in the order in which they are tried
    replicas: tuple[SourceAddress, ...]
    #: start position if the group gives none
    start: str
    #: how a position is found again on a server
    start_by: StartBy
    #: how long the group may be silent before the shard closes its source, seconds
    silence_max_s: float
    filter: FilterSettings
    reader: ReaderSettings
    merge: MergeSettings
    store: StoreSettings
    snapshot: SnapshotSettings
    #: whether rows leave it only when the archive has them on the disk
    holds_back: bool

    def replaying(self, lane: int) -> ShardWiring:
        """Return the wiring of a replay: a source ends the dump of another reader with the same server id."""
        if isinstance(self.source, FilesSource):
            return self
        purpose = f"replay {lane}"
        replicas = tuple(replica.scanner(purpose) for replica in self.replicas)
        return replace(self, source=self.source.scanner(purpose), replicas=replicas)
