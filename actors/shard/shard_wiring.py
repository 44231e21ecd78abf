"""The settings of a shard actor; `actors.shard.wiring` makes them from an instance's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from actors.store.ring import RingBounds
from binlog.files.files_reader import FilesSource
from binlog.grammar.chunk_builder import Limits
from binlog.server.definitions.source_definitions import CONFIRM_S
from binlog.server.hosts import Detecting
from binlog.server.source import SourceAddress
from binlog.server.starts.by_time import FALLBACK_US
from binlog.server.starts.start import StartBy
from conf.stream_settings import FilterSettings


@dataclass(frozen=True, slots=True)
class ShardWiring:
    """The settings of a shard."""

    source: SourceAddress | FilesSource
    #: which tables are kept, and their names for consumers
    filter: FilterSettings
    ring: RingBounds
    #: when a chunk is full
    limits: Limits
    #: how long a commit may take from its timestamp to the binlog, microseconds
    margin_us: int
    #: start position if the group gives none
    start: str
    #: how a position is found again on a server
    start_by: StartBy
    #: how long the group may be silent before the shard closes its source, seconds
    silence_max_s: float
    #: servers that replicate the source, in the order in which they are tried
    standbys: tuple[SourceAddress, ...] = ()
    #: when the server that is read counts as failed
    detecting: Detecting = field(default_factory=Detecting)
    #: which columns hold the ids that order the group, see `OrderIds`; empty: commit times order it
    order_by: Mapping[str, str] = field(default_factory=dict)
    #: whether the group has to know which tables the source has
    follows_tables: bool = False
    #: how long before the last commit time another server is read from without GTIDs, microseconds
    fallback_us: int = FALLBACK_US
    #: how long the first rows after a statement wait for the source's own definition, seconds
    confirm_s: float = CONFIRM_S
    #: the instance, for the commands that its errors name
    destination: str = ""
