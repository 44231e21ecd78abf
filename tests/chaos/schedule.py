"""The schedule: which faults happen when, and to what; a pure function of the seed and the minutes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from random import Random

from playground.database.engine import Engine

#: silence after which ZooKeeper lets the next server, or the next consumer, become active
SESSION_S = 4.0
#: the same for a consumer's own session, as set by the client library in `canal_group.gateway.discovery`
CONSUMER_SESSION_S = 10.0
#: how long a pause, cut or freeze lasts, in session timeouts: less than one, or well above one
WITHIN, BEYOND = (0.1, 0.8), (1.2, 1.9)
#: how long a killed process stays down, where the harness and not Ray restarts it
AWAY_S = (0.2, 3.0)
#: from the start of one fault to that of the next, seconds
GAP_S = (3.0, 11.0)
#: undisturbed seconds before the first fault
CALM_S = 3.0
#: how long a process is slow, seconds
SLOW_S = (6.0, 12.0)
#: how long a clock is wrong, a shard skipped, a purged source idle, or a replaced server down, seconds
ASIDE_S = (2.0, 9.0)
#: how long all consumers of a client id are stopped, seconds: most fill a ring, which holds less than 10 s
STOPPED_S = (10.0, 20.0)
#: how far a clock steps, in either direction, seconds; small steps are as likely as large ones
STEP_S = (2.0, 150.0)
#: shards at the start, and how many join at most
SHARDS = 4
JOINS_MAX = 2
#: kinds of store of seeds that follow each other
STORES = ("memory", "mixed", "file", "mixed", "file")
#: probability that closed files of an archive move to an object store
_MOVES = 0.5
#: client ids that begin with a snapshot: one takes batches, the other reads offset ranges
COPY, RANGE_COPY = "1003", "1004"
#: those of seeds with an archive, each as likely as the others
_COPIES = ((COPY,), (COPY,), (RANGE_COPY,), (COPY, RANGE_COPY), ())
#: rows that each table of a shard has in seeds with a snapshot, and how many of a shard are read in a second
TABLE_ROWS = 1_500
_ROWS_PER_S = (50, 80, 150)
#: targets that are consumers; of the first kind one is active
_CONSUMERS = ("consumer", "offset ranges", "copy")
#: verbs of operations
OPERATIONS = frozenset(
    ("failover", "purge", "busy", "step", "skip", "join", "lose", "forget", "stop", "fill", "steer")
)


class Fault(StrEnum):
    """The kinds of faults; a verb, and the target."""

    KILL_SERVER = "kill server"
    KILL_SHARD = "kill shard"
    KILL_GROUP = "kill group"
    KILL_GATEWAY = "kill gateway"
    KILL_CONSUMER = "kill consumer"
    KILL_ZOOKEEPER = "kill zookeeper"
    KILL_MARIADB = "kill mariadb"
    PAUSE_SERVER = "pause server"
    PAUSE_SHARD = "pause shard"
    PAUSE_GROUP = "pause group"
    PAUSE_GATEWAY = "pause gateway"
    SLOW_GROUP = "slow group"
    SLOW_GATEWAY = "slow gateway"
    PAUSE_CONSUMER = "pause consumer"
    PAUSE_ZOOKEEPER = "pause zookeeper"
    PAUSE_MARIADB = "pause mariadb"
    CUT_SOURCE = "cut source"
    CUT_COORDINATION = "cut coordination"
    FREEZE_SOURCE = "freeze source"
    FREEZE_COORDINATION = "freeze coordination"
    END_SERVER = "end server"
    KILL_SPANS = "kill offset ranges"
    PAUSE_SPANS = "pause offset ranges"
    FAILOVER_SOURCE = "failover source"
    PURGE_SOURCE = "purge source"
    BUSY_SOURCE = "busy source"
    STEP_SOURCE = "step source"
    STEP_ACTORS = "step actors"
    SKIP_SOURCE = "skip source"
    JOIN_SHARD = "join shard"
    LOSE_SOURCE = "lose source"
    FORGET_SOURCE = "forget source"
    STOP_CONSUMERS = "stop consumers"
    FILL_ARCHIVE = "fill archive"
    KILL_DUMP = "kill dump server"
    PAUSE_DUMP = "pause dump server"
    KILL_COPY = "kill copy"
    PAUSE_COPY = "pause copy"
    STEER_COPY = "steer copy"

    @property
    def verb(self) -> str:
        """The verb: kill, pause, slow, cut, freeze, end, or the name of an operation."""
        return self.value.partition(" ")[0]

    @property
    def whom(self) -> str:
        """The kind of target."""
        return self.value.partition(" ")[2]

    @property
    def sudden(self) -> bool:
        """Whether recovery is counted from its start, because no target has to come back."""
        return self.verb in {"kill", "end", "failover"}

    @property
    def is_operation(self) -> bool:
        """Whether it is an operation that takes a while and runs concurrently with other faults."""
        return self.verb in OPERATIONS

    @property
    def of_archive(self) -> bool:
        """Whether it happens to an archive, or needs one."""
        return self.whom in {"archive", "dump server", "consumers"} or self is Fault.FORGET_SOURCE

    @property
    def of_copy(self) -> bool:
        """Whether it happens to a client id that began with a snapshot."""
        return self.whom == "copy"


#: a round of faults, and what it has more of with a snapshot
_KINDS = [fault for fault in Fault if not fault.of_copy]
_OF_COPIES = [Fault.KILL_COPY, Fault.PAUSE_COPY, Fault.STEER_COPY, Fault.STEER_COPY]


@dataclass(frozen=True, slots=True)
class Happening:
    """One fault of a schedule."""

    #: since the start of the faults, seconds
    at_s: float
    fault: Fault
    #: a number that selects the target
    whom: int
    #: whether it hits the process that is active then, if there is one
    active: bool
    #: until it is undone, or the killed process restarts, seconds
    lasting_s: float
    #: how far ahead a clock is set, seconds; 0: none is
    step_s: float = 0.0

    def __str__(self) -> str:
        target = "the active one" if self.active else f"number {self.whom}"
        step = f" by {self.step_s:+.1f} s" if self.step_s else ""
        return f"{self.at_s:7.1f} s  {self.fault:20} {target:15} for {self.lasting_s:4.1f} s{step}"


@dataclass(frozen=True, slots=True)
class Cast:
    """The servers and shards of a seed."""

    #: MariaDB alone, or MariaDB and MySQL alternately
    engine: Engine
    #: the shard, of a MariaDB, that has a replica
    paired: int
    #: what rows come from, see `store.kind`; without an archive it is `memory`
    store: str
    #: whether closed files of the archive move to an object store
    moves: bool
    #: client ids that begin with a snapshot
    copies: tuple[str, ...]
    #: rows that a snapshot reads of a shard in a second
    rows_per_s: int

    @property
    def archives(self) -> bool:
        """Whether its instance has an archive."""
        return self.store != "memory"


def cast_of(seed: int) -> Cast:
    """Return the servers and shards of a seed; half of the seeds have both vendors, most an archive.

    Of those with an archive, most have clients that begin with a snapshot.
    """
    chance = Random(f"canal-group chaos cast {seed}")
    engine = chance.choice((Engine.MARIADB, Engine.MIXED))
    paired = chance.randrange(0, SHARDS, 2 if engine is Engine.MIXED else 1)
    store = STORES[seed % len(STORES)]
    moves = store != "memory" and chance.random() < _MOVES
    copies = chance.choice(_COPIES) if store != "memory" else ()
    return Cast(engine, paired, store, moves, copies, chance.choice(_ROWS_PER_S))


def schedule_of(seed: int, minutes: float) -> tuple[Happening, ...]:
    """Return the faults of a seed in order; the same arguments give the same faults.

    Each kind of fault comes once before one comes again. Every other pause outlasts the session. With an
    archive, every other fault is about that, or about clients with a snapshot by turns, until each of these
    has come.
    """
    return tuple(_happenings(Random(f"canal-group chaos {seed}"), minutes * 60, cast_of(seed)))


def _round(chance: Random, cast: Cast) -> list[Fault]:
    """Return each kind of fault that a seed may have, the first one last."""
    kinds = chance.sample(_KINDS, len(_KINDS))
    others = [fault for fault in kinds if not fault.of_archive]
    if not cast.archives:
        return others
    ours = [fault for fault in kinds if fault.of_archive]
    if cast.copies:
        ours = _by_turns(ours, chance.sample(_OF_COPIES, len(_OF_COPIES)))
    if RANGE_COPY in cast.copies:
        # Another server reads pages again that were not acknowledged: a planned offset range is lost then.
        others.remove(Fault.FAILOVER_SOURCE)
    return _by_turns(ours, others)


def _by_turns(one: list[Fault], other: list[Fault]) -> list[Fault]:
    """Return two lists as one: at its end they take turns, and before is what is left of the longer."""
    pairs = [fault for pair in zip(one, other, strict=False) for fault in pair]
    count = len(pairs) // 2
    return [*one[count:], *other[count:], *pairs]


def _happenings(chance: Random, seconds: float, cast: Cast) -> Iterator[Happening]:
    at_s, long = CALM_S, chance.random() < 0.5
    kinds: list[Fault] = []
    joins = 0
    while True:
        if not kinds:
            kinds = _round(chance, cast)
        fault = kinds.pop()
        if fault is Fault.JOIN_SHARD:
            if joins == JOINS_MAX:
                continue
            joins += 1
        step_s = 0.0
        if fault.sudden:
            lasting_s = chance.uniform(*AWAY_S)
        elif fault.is_operation:
            lasting_s = chance.uniform(*(STOPPED_S if fault is Fault.STOP_CONSUMERS else ASIDE_S))
            if fault.verb == "step":
                step_s = STEP_S[0] * (STEP_S[1] / STEP_S[0]) ** chance.random() * chance.choice((-1, 1))
        elif fault.verb == "slow":
            lasting_s = chance.uniform(*SLOW_S)
        else:
            session_s = CONSUMER_SESSION_S if fault.whom in _CONSUMERS else SESSION_S
            lasting_s, long = session_s * chance.uniform(*(BEYOND if long else WITHIN)), not long
        # Faults of standbys show less: most faults hit the active process.
        active = chance.random() < 0.8 and fault.whom not in {*_CONSUMERS[1:], "mariadb", "source", "actors"}
        happening = Happening(
            round(at_s, 1), fault, chance.randrange(1_000), active, round(lasting_s, 1), round(step_s, 1)
        )
        at_s += chance.uniform(*GAP_S)
        if happening.at_s + happening.lasting_s > seconds:
            return
        yield happening
