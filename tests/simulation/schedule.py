"""The schedule of a seed: the parts of its world, the transactions, and which faults happen when."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from random import Random

from canal_group.merge.order.dead_shard import WAIT, DeadShard
from simulation.loop import MS, S

#: how long transactions are committed, and how long faults occur
WRITING_US = 6_000 * MS
FAULTS_US = 9_000 * MS
#: longest duration of a fault
LASTING_MAX_US = 6_000 * MS


class Fault(StrEnum):
    """What can go wrong."""

    KILL_SHARD = "kill shard"
    KILL_GROUP = "kill group"
    KILL_SERVER = "kill server"
    KILL_CONSUMER = "kill consumer"
    PAUSE_SHARD = "pause shard"
    PAUSE_SERVER = "pause server"
    PAUSE_CONSUMER = "pause consumer"
    HAND_OVER = "hand over"
    CUT_COORDINATOR = "cut server from coordinator"
    CUT_SHARD = "cut server from shard"
    CUT_CONSUMER = "cut consumer from server"
    COORDINATOR_AWAY = "coordinator unavailable"
    COORDINATOR_LOSES = "coordinator loses messages"
    COORDINATOR_DELAYS = "coordinator's messages are held up"
    CURSORS_DELAY = "cursor store's messages are held up"
    CURSORS_FAIL = "cursor store fails"
    NETWORK_LOSES = "network loses messages"
    NETWORK_REPEATS = "network repeats messages"
    NETWORK_DELAYS = "network holds messages up"
    ANSWERS_LATE = "answers come later than consumers wait"
    GROUP_SLOW = "group is slower than consumers wait"
    GATEWAY_SLOW = "gateway loses or delays what the group has answered"
    SOURCE_AWAY = "source unavailable"
    SHARD_SLOW = "shard slow"
    CLOCK_BACK = "clock steps back"
    FICKLE = "consumers change their minds"
    CONSUMER_AWAY = "consumers of a client id are inactive"
    SHARD_POLICY = "operator skips or holds a shard"
    SHARD_LEAVES = "operator removes a shard"
    CURSORS_TWICE = "requests to the cursor store come twice"
    CLOCK_FORWARD = "clock steps forward"
    CLOCK_FAR = "clock steps by up to two minutes, either way"
    FUTURE_STAMP = "a transaction is stamped hours ahead"
    UNSUBSCRIBE = "consumers unsubscribe, and subscribe anew"
    PURGE = "source purges what a client has not read"
    RANGES = "a reader of offset ranges restarts at its checkpoint"
    BUSY_TABLE = "a table that nobody keeps is busy, and its binlog is purged"
    FAILOVER = "source fails over to a replica with another order"
    BAD_EVENT = "an event cannot be read, and an operator leaves it out"


FAULTS = tuple(Fault)


@dataclass(frozen=True, slots=True)
class Happening:
    """One fault of a schedule."""

    at_us: int
    fault: Fault
    #: a number that selects the target
    whom: int
    lasting_us: int


@dataclass(frozen=True, slots=True)
class Commit:
    """One transaction of a schedule."""

    at_us: int
    shard: int
    rows: tuple[int, ...]
    ddl: bool


@dataclass(frozen=True, slots=True)
class Schedule:
    """Everything that a seed decides before the world begins."""

    shards: int = 2
    servers: int = 2
    #: client ids of the consumers
    consumers: tuple[str, ...] = ("one",)
    #: batches that each consumer holds before it acknowledges the oldest
    depth: int = 2
    ring_size: int = 8
    dead_shard: DeadShard = WAIT
    ddl_isolation: bool = False
    #: whether the servers share one cluster with the same shard actors
    shared_shards: bool = True
    #: whether cursors are ZooKeeper nodes; otherwise they are in a store that fences by itself
    cursors_in_zookeeper: bool = True
    #: interval of cursor writes, seconds; None: each is written before its acknowledgement is answered
    flush_s: float | None = None
    #: clients that may be replayed at once; 0: there is no archive
    replays_max: int = 0
    #: whether another client reads offset ranges
    offset_ranges: bool = False
    #: whether a reader invents the numbers of its positions
    hostile: bool = False
    #: whether the consumers of client id "one" read by canal's protocol
    canal: bool = False
    #: by shard: clock minus the world's, whole seconds only, GTIDs
    skews_us: tuple[int, ...] = (0, 0)
    coarse: tuple[bool, ...] = (False, False)
    gtids: bool = True
    #: when the last shard joins the others; None: it is there from the beginning
    joins_at_us: int | None = None
    #: how long rows are kept for a client id without a consumer; None: for ever
    drop_after_us: int | None = None
    #: the same of one that has acknowledged nothing
    unacknowledged_us: int | None = None
    #: whether somebody looks, who acknowledges nothing
    looks: bool = False
    #: whether a shard's source stays unavailable, and an operator skips it, after all other faults have ended
    ends_without_one: bool = False
    commits: tuple[Commit, ...] = ()
    happenings: tuple[Happening, ...] = field(default=())


#: row changes in the fragments of a transaction
ROWS = ((1,), (1,), (1,), (2,), (0,), (5,), (2, 2), (1, 1, 1, 1, 1, 1), (3, 0), (1,) * 11)


def schedule_of(seed: int, faults: tuple[Fault, ...] = FAULTS) -> Schedule:
    """Return the schedule of a seed with faults of these kinds; the same arguments give the same schedule."""
    chance = Random(seed)
    shards = chance.choice((1, 2, 2, 3, 3))
    commits = [
        Commit(
            chance.randrange(WRITING_US),
            chance.randrange(shards),
            chance.choice(ROWS),
            ddl=False,
        )
        for _ in range(chance.randrange(4, 26))
    ]
    statements = [
        Commit(chance.randrange(WRITING_US), chance.randrange(shards), (1,), ddl=True)
        for _ in range(chance.randrange(2))
    ]
    happenings = [
        Happening(
            chance.randrange(FAULTS_US),
            chance.choice(faults),
            chance.randrange(1_000),
            chance.randrange(LASTING_MAX_US),
        )
        for _ in range(chance.randrange(1, 10))
    ]
    ring_size = chance.choice((4, 8, 32))
    return Schedule(
        shards=shards,
        servers=chance.choice((1, 2, 2, 3)),
        consumers=chance.choice((("one",), ("one", "one"), ("one", "two"), ("one", "two"))),
        depth=chance.choice((1, 2, 3, 5)),
        ring_size=ring_size,
        dead_shard=chance.choice((WAIT, WAIT, DeadShard("skip_after", 2_000 * MS))),
        ddl_isolation=chance.random() < 0.3,
        shared_shards=chance.random() < 0.6,
        cursors_in_zookeeper=chance.random() < 0.6,
        skews_us=tuple(chance.randrange(-300, 300) * MS for _ in range(shards)),
        coarse=tuple(chance.random() < 0.3 for _ in range(shards)),
        gtids=chance.random() < 0.5,
        commits=tuple(sorted(commits + statements, key=lambda commit: commit.at_us)),
        happenings=tuple(sorted(happenings, key=lambda happening: happening.at_us)),
        joins_at_us=chance.randrange(FAULTS_US) if shards > 1 and chance.random() < 0.4 else None,
        drop_after_us=chance.choice((None, 500 * MS, 500 * MS)),
        ends_without_one=shards > 1 and chance.random() < 0.2,
        flush_s=chance.choice((None, None, None, 0.5)),
        # An offset range holds whole transactions, which do not fit into a small ring.
        offset_ranges=Fault.RANGES in faults and ring_size > max(map(len, ROWS)),
        canal=chance.random() < 0.4,
        unacknowledged_us=chance.choice((None, 300 * MS)),
        looks=chance.random() < 0.4,
        replays_max=chance.choice((0, 0, 1, 2)),
        hostile=Fault.RANGES in faults and ring_size > max(map(len, ROWS)),
    )


def commits(*those: tuple[float, int] | tuple[float, int, tuple[int, ...]]) -> tuple[Commit, ...]:
    """Return commits of (seconds, shard), or (seconds, shard, row changes of each fragment)."""
    return tuple(
        Commit(round(at_s * S), shard, rows[0] if rows else (1,), ddl=False) for at_s, shard, *rows in those
    )


def happenings(*those: tuple[float, Fault, float]) -> tuple[Happening, ...]:
    """Return faults of (seconds, fault, seconds that it lasts)."""
    return tuple(
        Happening(round(at_s * S), fault, 1, round(lasting_s * S)) for at_s, fault, lasting_s in those
    )
