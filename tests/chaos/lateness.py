"""Order against commit time, as the writers know it; what may be late, and what must not.

**Stamps.** A transaction's stamp lies between the writer's two looks at the machine's clock, moved by what
its server's clock was told to stand beside it, floored to whole seconds on MariaDB. A shard's order is
kept whatever its clock says, so the stamps of a shard are raised to those before them.

**Late** is a transaction that is delivered behind one of another shard whose earliest stamp is greater
than its own latest one, by more than the promise's margin. A commit that stalls is not late by that: the
longer it took, the further apart its two looks are.

**The bound.** A schedule justifies lateness by windows, each of one shard. A transaction may be late if it
was on its way while a window of its shard was open: committed before its end, acknowledged after its
begin. All others may not: one that is late outside of every window is a fault. Windows are opened by

* an operator's skip: until the shard is waited for again;
* a join: until the newcomer is waited for, which its writer began before;
* a step of a source's clock: a promise that was made before it went back stands, and what follows is
  raised to it. Until the clock is right again, and for as long as what it was ahead. What is stamped
  further ahead than the last reading of the clock allows is not believed meanwhile, and comes early: nor
  is anything late behind a transaction that might be late by such a window itself.

Nothing else justifies lateness: neither deaths, pauses and cuts, nor failovers and purges, nor any step of
the clocks of actors, which do not stamp anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from chaos.clocks import S_US, Setting
from chaos.commits import Commit, Commits

#: the promise's margin as the settings leave it, see `merge.margin_ms`
MARGIN_US: Final = 50_000
#: how long after a fault that justifies lateness is mended its window stays open
SETTLE_US: Final = 5 * S_US


@dataclass(frozen=True, slots=True)
class Dial:
    """What is known of a server's clock."""

    #: whole seconds, or microseconds: the multiples that it stamps
    resolution_us: int
    settings: Sequence[Setting] = (Setting(0, 0),)

    def stamps(self, begun_us: int, done_us: int) -> tuple[int, int]:
        """Return the earliest and the latest stamp of what happened between two moments."""
        before = [one for one in self.settings if one.at_us <= begun_us][-1:]
        during = [one for one in self.settings if begun_us < one.at_us <= done_us]
        offsets = [one.offset_us for one in (*before, *during)]
        return self._floored(begun_us + min(offsets)), self._floored(done_us + max(offsets))

    def _floored(self, at_us: int) -> int:
        return at_us - at_us % self.resolution_us


@dataclass(frozen=True, slots=True)
class Window:
    """A time in which a shard's transactions may become late."""

    shard: str
    begin_us: int
    end_us: int
    why: str
    #: whether it is the clock of the shard's source that moves
    clock: bool = False

    def justifies(self, shard: str, commit: Commit, acked_us: int) -> bool:
        """Return whether a transaction was on its way while it was open."""
        return self.shard == shard and commit.begun_us <= self.end_us and acked_us >= self.begin_us


@dataclass(frozen=True, slots=True)
class Arrival:
    """A transaction of the stream, when it first came."""

    shard: str
    gtid: str
    acked_us: int


@dataclass(frozen=True, slots=True)
class Lateness:
    """What came late."""

    #: transactions
    late: int
    #: how many might have, by the windows
    bound: int
    #: those that are late outside of all windows, in words
    unjustified: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Stamped:
    commit: Commit
    earliest_us: int
    latest_us: int


class Oracle:
    """Judges the order of a stream.

    Args:
        records: what the writers committed.
        dials: the clocks of all servers, by `server_id`.
        windows: what the schedule justifies.
    """

    def __init__(
        self, records: Iterable[Commits], dials: Mapping[int, Dial], windows: Sequence[Window] = ()
    ) -> None:
        self._windows = windows
        self._known = {
            (record.shard, one.commit.gtid): one
            for record in records
            for one in _stamped(record, dials, windows)
        }

    @property
    def furthest_us(self) -> int:
        """The greatest stamp of all: what has it waits until all clocks are beyond it."""
        return max((one.latest_us for one in self._known.values()), default=0)

    def begun_us(self, arrival: Arrival) -> int:
        """Return when a transaction was sent; 0: nobody wrote it."""
        known = self._known.get((arrival.shard, arrival.gtid))
        return known.commit.begun_us if known is not None else 0

    def judge(self, arrivals: Sequence[Arrival]) -> Lateness:
        """Return what is late among the transactions of a stream, each given once and in its order."""
        late, unjustified, newest = 0, [], {}
        allowed = 0
        for one in arrivals:
            stamped = self._known.get((one.shard, one.gtid))
            if stamped is None:
                continue  # nobody wrote it: that is counted elsewhere
            whys = [each for each in self._windows if each.justifies(one.shard, stamped.commit, one.acked_us)]
            allowed += bool(whys)
            prefetch = max((by for shard, by in newest.items() if shard != one.shard), default=0)
            if prefetch > stamped.latest_us + MARGIN_US:
                late += 1
                if not whys:
                    behind_s = (prefetch - stamped.latest_us) / S_US
                    unjustified.append(
                        f"{one.shard} {one.gtid} came behind what was committed {behind_s:.1f} s later."
                    )
            if not any(window.clock for window in whys):
                newest[one.shard] = max(newest.get(one.shard, 0), stamped.earliest_us)
        return Lateness(late, allowed, tuple(unjustified))


def _stamped(record: Commits, dials: Mapping[int, Dial], windows: Sequence[Window]) -> Iterator[_Stamped]:
    earliest_us = latest_us = 0
    for commit in record.commits:
        earliest, latest = dials[commit.server].stamps(commit.begun_us, commit.done_us)
        latest_us = max(latest_us, latest)
        moving = any(one.clock and one.justifies(record.shard, commit, commit.done_us) for one in windows)
        if not moving:
            earliest_us = max(earliest_us, earliest)
        yield _Stamped(commit, max(earliest_us, earliest), latest_us)
