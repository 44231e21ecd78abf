"""What a demo of servers can be told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from canal_group.actors.process.log import LogLevel
from playground.database.engine import Engine

#: rows of each shard that a demo of snapshots begins with
SNAPSHOT_ROWS: Final = 20_000


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """Size and seed of a demo. The defaults make one that two processors finish in about a minute.

    Raises:
        ValueError: a size that cannot be.
    """

    #: database servers
    shards: int = 4
    #: of which make they are
    engine: Engine = Engine.MARIADB
    #: small transactions, over all shards
    transactions: int = 44_000
    #: bound on the writing; transactions it leaves no time for are not written
    seconds: float = 40.0
    #: the same seed writes the same rows
    seed: int = 1
    #: whether an embedded ZooKeeper elects the server and keeps the cursors
    zookeeper: bool = False
    #: rows of each shard before the consumer begins, with a snapshot of them; 0: tables are empty
    snapshot_rows: int = 0
    #: whether the result is one JSON line on stdout, and nothing else is
    json: bool = False
    #: whether it stops at a signal only
    stay: bool = False
    #: the least severe level that its actors log
    log_level: LogLevel = LogLevel.WARNING
    #: rows of the one large transaction
    big_transaction_rows: int = 20_000
    #: how long the writers begin gently, so that latency can be measured
    gentle_s: float = 6.0
    #: transactions a second and shard while they do
    gentle_rate: float = 20.0

    def __post_init__(self) -> None:
        """Check the sizes."""
        for name in ("shards", "transactions", "seconds", "big_transaction_rows", "gentle_rate"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be positive, not {getattr(self, name)}.")
