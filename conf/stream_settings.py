"""Stream settings: how shards are read, merged, kept and handed out."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from conf.value import Count, PowerOfTwo, Regex, RegexList, Seconds, Settings, Text, unfit


class RouteSettings(Settings):
    """What tables are called downstream."""

    #: the whole `schema.table` of a source
    match: Regex
    #: `schema.table` in the merged stream
    to: Text


class FilterSettings(Settings):
    """What is kept, by canal's regular expressions on `schema.table`, and what it is called."""

    #: what is kept; empty: everything
    white: RegexList = ""
    #: what of it is dropped again; empty: nothing
    black: RegexList = ""
    #: the first that matches holds
    routes: Annotated[tuple[RouteSettings, ...], Field(strict=False)] = ()


class ReaderSettings(Settings):
    """How a shard reads its source."""

    #: a chunk closes at these bytes of events, or rows, or when the socket runs dry
    chunk_bytes_max: Count = 4 << 20
    chunk_rows_max: Count = 32_768
    #: how often an idle source is asked to say so
    heartbeat_ms: Count = 100
    #: silence after which a connection counts as dead
    read_timeout_s: Seconds = 5.0
    connect_timeout_s: Seconds = 10.0

    @model_validator(mode="after")
    def _hears_heartbeats(self) -> ReaderSettings:
        if self.read_timeout_s * 1000 <= self.heartbeat_ms:
            raise unfit(
                f"be longer than heartbeat_ms ({self.heartbeat_ms} ms)",
                key="read_timeout_s",
                found=f"is {self.read_timeout_s:g} s",
            )
        return self


class MergeSettings(Settings):
    """How the shards become one order."""

    #: time in which a commit that is already stamped may still be unreadable
    margin_ms: Annotated[int, Field(ge=0)] = 50
    #: how far ahead of its source's clock a commit time may lie and be believed
    ahead_max_s: Seconds = 5.0
    #: whether a shard that is cut off holds the group
    dead_shard: Literal["wait", "skip_after"] = "wait"
    #: only with `skip_after`: silence after which the group goes on without the shard
    skip_after_s: Seconds | None = None

    @model_validator(mode="after")
    def _one_policy(self) -> MergeSettings:
        if self.dead_shard == "skip_after" and self.skip_after_s is None:
            raise unfit("be given with `dead_shard: skip_after`", key="skip_after_s", found="is missing")
        if self.dead_shard == "wait" and self.skip_after_s is not None:
            raise unfit(
                "stand with `dead_shard: skip_after` only", key="skip_after_s", found="dead_shard is 'wait'"
            )
        return self


class StoreSettings(Settings):
    """The ring of each shard."""

    #: what is bounded: `memory` the bytes (canal: MEMSIZE), `items` the slots (ITEMSIZE)
    mode: Literal["memory", "items"] = "memory"
    #: slots
    size: PowerOfTwo = 16384
    memunit_bytes: Count = 1024

    @property
    def bytes_max(self) -> int:
        """Bytes a ring may hold in `memory` mode."""
        return self.size * self.memunit_bytes


class BatchSettings(Settings):
    """What is delivered under one batch id."""

    rows_max: Count = 131_072
    bytes_max: Count = 16 << 20
    #: whether a DDL leaves alone
    ddl_isolation: bool = False
    #: batches a client id may have outstanding
    outstanding_max: Count = 64


class ConsumerSettings(Settings):
    """How long a consumer that is not heard of keeps its client id, and a client id its rows."""

    lease_s: Seconds = 10.0
    #: whether the rings are kept for a client id that has no consumer, though others fill up with it
    inactive: Literal["hold", "drop"] = "hold"
    #: only with `drop`: how long
    drop_after_s: Seconds | None = None
    #: how far before the others, in commit time, a consumer may have the sources read again for itself
    apart_max_s: Seconds = 3600.0

    @model_validator(mode="after")
    def _one_policy(self) -> ConsumerSettings:
        if self.inactive == "drop" and self.drop_after_s is None:
            raise unfit("be given with `inactive: drop`", key="drop_after_s", found="is missing")
        if self.inactive == "hold" and self.drop_after_s is not None:
            raise unfit("stand with `inactive: drop` only", key="drop_after_s", found="inactive is 'hold'")
        return self
