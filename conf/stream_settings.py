"""Stream settings: how shards are read, merged, stored and delivered."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, PrivateAttr, SecretStr, ValidationInfo, model_validator

from canal_group.conf.filters.table_settings import TableSettings
from canal_group.conf.secret import Owner, read_secret
from canal_group.conf.value import (
    AnchoredPath,
    Count,
    PowerOfTwo,
    Regex,
    RegexList,
    RegexMap,
    Seconds,
    Settings,
    Text,
    unfit,
)
from canal_group.merge.order.dead_shard import DeadShard, DeadShardKind
from canal_group.merge.values.commit_time import CommitTimeOf, CommitTimes


class RouteSettings(Settings):
    """A rule that renames tables downstream."""

    #: matches the whole `schema.table` of a source
    match: Regex
    #: `schema.table` in the merged stream
    to: Text


class FilterSettings(Settings):
    """Which tables are kept, by canal's regular expressions on `schema.table`, and their names downstream.

    `tables` says which of their rows and columns are kept, and how they are changed.
    """

    #: tables to keep; empty: every table
    white: RegexList = ""
    #: tables to drop although `white` keeps them; empty: none
    black: RegexList = ""
    #: the first that matches applies
    routes: Annotated[tuple[RouteSettings, ...], Field(strict=False)] = ()
    #: what becomes of the history of MariaDB's system-versioned tables
    history: Literal["drop", "keep"] = "drop"
    #: rows and columns of single tables; the first whose `match` applies
    tables: Annotated[tuple[TableSettings, ...], Field(strict=False)] = ()
    #: environment variable or file that holds the salt of the masks of kind `hash`
    salt_env: str | None = None
    salt_file: AnchoredPath | None = None

    _salt: SecretStr | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _read_salt(self, info: ValidationInfo) -> FilterSettings:
        self._salt = read_secret(Owner.SOURCE, "salt", self.salt_env, self.salt_file, info)
        hashed = any(mask.kind == "hash" for table in self.tables for mask in table.masks)
        if hashed and self._salt is None:
            raise unfit(
                "be given, or `salt_file`, for masks of kind 'hash'", key="salt_env", found="is missing"
            )
        return self

    @property
    def salt(self) -> SecretStr | None:
        """The salt of the masks of kind `hash`; None if there is none."""
        return self._salt


class DetectingSettings(Settings):
    """When a shard with several servers (`hosts`) leaves one of them for the next."""

    #: a statement that a server has to execute
    sql: Text = "SELECT 1"
    interval_s: Seconds = 3.0
    #: failures in a row: of the statement, of the connection, or of a connection attempt
    threshold: Count = 3


def _off(value: Any) -> Any:
    """Return YAML's `off` as it was written: without quotes it is read as false."""
    return "off" if value is False else value


class ReaderSettings(Settings):
    """How a shard reads its source."""

    #: a chunk ends when its rows hold these bytes, at these rows, or when the socket has no more data
    chunk_bytes_max: Count = 4 << 20
    chunk_rows_max: Count = 32_768
    #: interval in which an idle source sends heartbeats
    heartbeat_ms: Count = 100
    #: silence after which a connection counts as dead
    read_timeout_s: Seconds = 5.0
    connect_timeout_s: Seconds = 10.0
    detecting: DetectingSettings = DetectingSettings()
    #: with `start_by: time`: how long before the last commit time another server is read from, at most a day
    fallback_s: Annotated[float, Field(gt=0, le=86_400)] = 60.0
    #: how long the first rows of a table after a statement on it wait for the source to confirm what was
    #: understood of the statement, at most a minute; 0: they do not wait, it is compared later
    confirm_s: Annotated[float, Field(ge=0, le=60)] = 5.0
    #: characters of the longest statement that is parsed; of a longer statement only the named tables are
    #: known
    statement_chars_max: Annotated[int, Field(ge=1024)] = 1 << 20
    #: when a source with semi-synchronous replication is told that a transaction is safe here: never; when
    #: it is in the ring; when every client id's cursor is past it; when the archive has it on its disk
    semi_sync: Annotated[Literal["off", "ring", "cursor", "archive"], BeforeValidator(_off)] = "off"
    #: whether all readers of a source on this machine share one dump connection, see
    #: `canal_group.binlog.dump_server`
    share_dump: bool = False
    #: what the dump server retains for readers that are behind the others; the reader that starts it decides
    dump_window_bytes_max: Annotated[int, Field(ge=1 << 20)] = 64 << 20

    @model_validator(mode="after")
    def _replies_by_itself(self) -> ReaderSettings:
        if self.share_dump and self.semi_sync in ("ring", "cursor"):
            raise unfit(
                "be false with semi_sync: a source waits for replies on the reader's own connection",
                key="share_dump",
                found="is true",
            )
        return self

    #: which commit time of a replicated transaction counts: the time on the server that is read, or the time
    #: on the server that committed the transaction first
    commit_time: CommitTimeOf = "replica"
    #: only with `origin`: the longest time from a commit at its origin to the binlog of the replica
    replica_lag_max_s: Seconds | None = None

    @property
    def fallback_us(self) -> int:
        """How far before a time reading begins, microseconds."""
        return int(self.fallback_s * 1e6)

    @property
    def commit_times(self) -> CommitTimes:
        """What `commit_time` and `replica_lag_max_s` make."""
        return CommitTimes(self.commit_time, int((self.replica_lag_max_s or 0) * 1e6))

    @model_validator(mode="after")
    def _lag_of_replicas(self) -> ReaderSettings:
        if self.commit_time == "origin" and self.replica_lag_max_s is None:
            raise unfit("be given with `commit_time: origin`", key="replica_lag_max_s", found="is missing")
        if self.commit_time == "replica" and self.replica_lag_max_s is not None:
            raise unfit(
                "be given only with `commit_time: origin`",
                key="replica_lag_max_s",
                found="commit_time is 'replica'",
            )
        return self

    @model_validator(mode="after")
    def _hears_heartbeats(self) -> ReaderSettings:
        if self.read_timeout_s * 1000 <= self.heartbeat_ms:
            raise unfit(
                f"be longer than heartbeat_ms ({self.heartbeat_ms} ms)",
                key="read_timeout_s",
                found=f"is {self.read_timeout_s:g} s",
            )
        return self


#: `latency` -> see `MergeSettings.pace_s`. A chunk and a report cost as much as hundreds of rows
PACES_S: Final = {"low": 0.01, "throughput": 0.05}


class MergeSettings(Settings):
    """How the shards become one order."""

    #: whether a commit is handed on soon, or with those that follow it
    latency: Literal["low", "throughput"] = "low"
    #: how long a transaction that has its commit timestamp may still be unreadable
    margin_ms: Annotated[int, Field(ge=0)] = 50
    #: a commit time that is further ahead of its source's clock is not believed
    ahead_max_s: Seconds = 5.0
    #: whether the group waits for a shard that is cut off
    dead_shard: DeadShardKind = "wait"
    #: only with `skip_after`: silence after which the group continues without the shard
    skip_after_s: Seconds | None = None
    #: where a client id goes on whose position a source has purged
    purged: Literal["fail", "earliest", "latest"] = "fail"
    #: which of the statements that say the same of tables with one name are delivered
    ddl: Literal["every", "first", "last"] = "every"
    #: tables, by regular expressions on `schema.table` downstream, and the columns whose global ids order the
    #: transactions; the first match counts. None: commit times order the transactions
    order_by: RegexMap | None = None
    #: only with `order_by`: greatest time by which an id is committed after a greater one
    commit_within_s: Seconds | None = None

    @model_validator(mode="after")
    def _one_order(self) -> MergeSettings:
        if self.order_by is not None and self.commit_within_s is None:
            raise unfit("be given with `order_by`", key="commit_within_s", found="is missing")
        if self.order_by is None and self.commit_within_s is not None:
            raise unfit("be given only with `order_by`", key="commit_within_s", found="order_by is missing")
        return self

    @property
    def pace_s(self) -> float:
        """Shortest time between two chunks, and two reports, of a shard that is written to steadily."""
        return PACES_S[self.latency]

    @property
    def margin_us(self) -> int:
        """How long a commit may take from its timestamp to the binlog, microseconds."""
        return self.margin_ms * 1000

    @property
    def ahead_max_us(self) -> int:
        """How far ahead of its source's clock a commit time may be, microseconds."""
        return int(self.ahead_max_s * 1e6)

    @property
    def ids_within_us(self) -> int | None:
        """How long after a greater id one may be committed, microseconds; None: commit times order."""
        return None if self.commit_within_s is None else max(1, int(self.commit_within_s * 1e6))

    @model_validator(mode="after")
    def _one_policy(self) -> MergeSettings:
        if self.dead_shard == "skip_after" and self.skip_after_s is None:
            raise unfit("be given with `dead_shard: skip_after`", key="skip_after_s", found="is missing")
        if self.dead_shard == "wait" and self.skip_after_s is not None:
            raise unfit(
                "be given only with `dead_shard: skip_after`",
                key="skip_after_s",
                found="dead_shard is 'wait'",
            )
        return self

    @property
    def dead_shard_policy(self) -> DeadShard:
        """The policy that `dead_shard` and the keys that belong to it make."""
        return DeadShard(self.dead_shard, int((self.skip_after_s or 0) * 1e6))


class StoreSettings(Settings):
    """The ring of each shard, and what is behind it."""

    #: `memory`: the ring; `mixed`: what it does not hold comes from the archive; `file`: likewise, and rows
    #: leave a shard only when the archive has them on its disk; None: `mixed` with an archive, else `memory`
    kind: Literal["memory", "mixed", "file"] | None = None
    #: what is bounded: `memory` bounds the bytes (canal: MEMSIZE), `items` the slots (ITEMSIZE)
    mode: Literal["memory", "items"] = "memory"
    #: slots
    size: PowerOfTwo = 16384
    memunit_bytes: Count = 1024

    @property
    def bytes_max(self) -> int:
        """Bytes a ring may hold in `memory` mode."""
        return self.size * self.memunit_bytes


#: most connections by which a shard's pages are read
SNAPSHOT_WORKERS_MAX: Final = 16


class SnapshotSettings(Settings):
    """How existing rows are read for clients that begin with a snapshot."""

    #: connections to each source that read pages, for each client with a snapshot
    workers: Annotated[int, Field(ge=1, le=SNAPSHOT_WORKERS_MAX)] = 2
    #: most rows a second that are read of a shard; None: as fast as it can be
    rows_per_s: Count | None = None
    #: nothing is read while more threads of a source are running; None: that does not matter
    threads_running_max: Count | None = 64
    #: nothing is read of a replica while it is further behind; None: that does not matter
    replica_lag_max_s: Seconds | None = None
    #: nothing is read while InnoDB's history list is longer; None: that does not matter
    history_list_max: Count | None = None
    #: how long after it was written a commit can be read at the latest, of a MySQL without GTIDs; None: such
    #: a source has no snapshots
    visible_after_s: Seconds | None = None

    @property
    def load_limits(self) -> dict[str, float]:
        """The limits of what a source does beside, by name, see `canal_group.binlog.snapshot.server_load`."""
        limits = {
            "threads_running_max": self.threads_running_max,
            "replica_lag_max_s": self.replica_lag_max_s,
            "history_list_max": self.history_list_max,
        }
        return {name: limit for name, limit in limits.items() if limit is not None}


class BatchSettings(Settings):
    """The bounds of one batch."""

    rows_max: Count = 131_072
    bytes_max: Count = 16 << 20
    #: whether each DDL is delivered in a batch of its own
    ddl_isolation: bool = False
    #: batches a client id may have outstanding
    outstanding_max: Count = 64


#: most replays at once
REPLAYS_MAX: Final = 8


class ConsumerSettings(Settings):
    """How long a silent consumer keeps its client id, and how long a client id keeps its rows."""

    lease_s: Seconds = 10.0
    #: whether rows are kept for a client id that has no consumer, although the rings fill up for all clients
    inactive: Literal["hold", "drop"] = "hold"
    #: only with `drop`: time without a consumer after which nothing is kept
    drop_after_s: Seconds | None = None
    #: time without a consumer after which nothing is kept for a client id that has acknowledged nothing and
    #: did not ask to be kept, while another one has a consumer; 0: it is kept
    unacknowledged_s: Annotated[float, Field(ge=0)] = 600.0
    #: greatest commit time by which a consumer may have the sources read again before the others
    apart_max_s: Seconds = 3600.0
    #: how often a cursor passes transactions of which nothing is kept, without its consumer
    quiet_s: Seconds = 5.0
    #: clients at once that are replayed from an archive; each has a ring in every shard, as large as `store`
    replays_max: Annotated[int, Field(ge=1, le=REPLAYS_MAX)] = 2
    #: whether a client id that begins without saying where gets the rows that there are, beside all changes
    snapshot: Literal["never", "initial"] = "never"
    #: client ids that a destination may have
    client_ids_max: Count = 256

    @model_validator(mode="after")
    def _one_policy(self) -> ConsumerSettings:
        if self.inactive == "drop" and self.drop_after_s is None:
            raise unfit("be given with `inactive: drop`", key="drop_after_s", found="is missing")
        if self.inactive == "hold" and self.drop_after_s is not None:
            raise unfit("be given only with `inactive: drop`", key="drop_after_s", found="inactive is 'hold'")
        return self
