"""The schedule: which faults happen when, and to whom; a pure function of the seed and the minutes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from random import Random

#: silence after which ZooKeeper gives a server's activity, or a consumer's place, to the next one
SESSION_S = 4.0
#: the same of a consumer's own session; the client library's, see `canal_group.discovery`
CONSUMER_SESSION_S = 10.0
#: how long whoever is paused, cut off or frozen is so, in sessions: within one, or well beyond it
WITHIN, BEYOND = (0.1, 0.8), (1.2, 1.9)
#: how long whoever was killed stays away, where the harness and not Ray starts it again
AWAY_S = (0.2, 3.0)
#: from the begin of one fault to that of the next, seconds
GAP_S = (3.0, 11.0)
#: undisturbed seconds before the first fault
CALM_S = 3.0


class Fault(StrEnum):
    """What can go wrong; a verb, and to whom it happens."""

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
    PAUSE_CONSUMER = "pause consumer"
    PAUSE_ZOOKEEPER = "pause zookeeper"
    PAUSE_MARIADB = "pause mariadb"
    CUT_SOURCE = "cut source"
    CUT_COORDINATION = "cut coordination"
    FREEZE_SOURCE = "freeze source"
    FREEZE_COORDINATION = "freeze coordination"
    END_SERVER = "end server"

    @property
    def verb(self) -> str:
        """What happens: kill, pause, cut, freeze, end."""
        return self.value.partition(" ")[0]

    @property
    def whom(self) -> str:
        """To whom."""
        return self.value.partition(" ")[2]

    @property
    def sudden(self) -> bool:
        """Whether recovery is counted from its begin: nothing comes back that was away."""
        return self.verb in {"kill", "end"}


@dataclass(frozen=True, slots=True)
class Happening:
    """One fault of a schedule."""

    #: from the begin of the faults, seconds
    at_s: float
    fault: Fault
    #: a number that chooses whom it hits
    whom: int
    #: whether it hits whoever is active then, where somebody is
    active: bool
    #: until it is mended, or who was killed is started again, seconds
    lasting_s: float

    def __str__(self) -> str:
        target = "the active one" if self.active else f"number {self.whom}"
        return f"{self.at_s:7.1f} s  {self.fault:20} {target:15} for {self.lasting_s:4.1f} s"


def schedule_of(seed: int, minutes: float) -> tuple[Happening, ...]:
    """Return the faults of so many minutes, in order; always the same ones.

    Each kind of fault comes once before one comes again. Every other pause outlasts the session.
    """
    return tuple(_happenings(Random(f"canal-group chaos {seed}"), minutes * 60))


def _happenings(chance: Random, seconds: float) -> Iterator[Happening]:
    at_s, long = CALM_S, chance.random() < 0.5
    kinds: list[Fault] = []
    while True:
        if not kinds:
            kinds = chance.sample(list(Fault), len(Fault))
        fault = kinds.pop()
        if fault.sudden:
            lasting_s = chance.uniform(*AWAY_S)
        else:
            session_s = CONSUMER_SESSION_S if fault.whom == "consumer" else SESSION_S
            lasting_s, long = session_s * chance.uniform(*(BEYOND if long else WITHIN)), not long
        # Whoever is not active shows less: most faults hit who is.
        active = chance.random() < 0.8 and fault.whom not in {"mariadb", "source"}
        happening = Happening(round(at_s, 1), fault, chance.randrange(1_000), active, round(lasting_s, 1))
        at_s += chance.uniform(*GAP_S)
        if happening.at_s + happening.lasting_s > seconds:
            return
        yield happening
