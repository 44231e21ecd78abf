"""Order against commit time, as the writers know it: which transactions are late, and which may be.

**Stamps.** A transaction's stamp lies between the writer's two readings of the machine's clock, moved by the
offset of its server's clock, and floored to whole seconds on MariaDB. A shard's order is kept whatever its
clock shows, so each stamp of a shard is raised to the stamps before it.

**Late** is a transaction that is delivered after one of another shard whose earliest stamp is greater than
its own latest one, by more than the margin of the low watermark. A commit that stalls is not late because of
that: the longer it takes, the further apart its two readings are.

**The bound.** A schedule justifies lateness by windows, each of one shard. A transaction may be late if it
was on its way while a window of its shard was open: committed before the window's end, and acknowledged after
its beginning. A transaction that is late outside of every window is a fault. Windows are opened by

* an operator's skip: until the group waits for the shard again;
* a join: until the group waits for the newcomer, whose writer began earlier;
* a step of a source's clock: a low watermark from before the clock went back remains, and later transactions
  are raised to it. The window lasts until the clock is right again, and then for as long as the clock was
  ahead. Meanwhile a stamp further ahead than the last reading of the clock allows is not trusted, and its
  transaction comes early. So a transaction is not late either if it follows one that might be late by such a
  window itself.

Nothing else justifies lateness: not deaths, pauses and cuts, not failovers and purges, and not steps of the
clocks of actors, which stamp nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from chaos.clocks import S_US, Setting
from chaos.commits import Commit, Commits

#: the default margin of the low watermark, see `merge.margin_ms`
MARGIN_US: Final = 50_000
#: how long a window stays open after the fault that justifies it has ended
SETTLE_US: Final = 5 * S_US


@dataclass(frozen=True, slots=True)
class Dial:
    """The known settings of a server's clock."""

    #: resolution of its stamps, microseconds
    resolution_us: int
    settings: Sequence[Setting] = (Setting(0, 0),)

    def stamps(self, begun_us: int, done_us: int) -> tuple[int, int]:
        """Return the earliest and the latest stamp of an event between two moments."""
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
    #: whether the clock of the shard's source steps
    clock: bool = False

    def justifies(self, shard: str, commit: Commit, acked_us: int) -> bool:
        """Return whether a transaction was on its way while the window was open."""
        return self.shard == shard and commit.begun_us <= self.end_us and acked_us >= self.begin_us


@dataclass(frozen=True, slots=True)
class Arrival:
    """A transaction of the stream, at its first delivery."""

    shard: str
    gtid: str
    acked_us: int


@dataclass(frozen=True, slots=True)
class Lateness:
    """The late transactions."""

    #: number of late transactions
    late: int
    #: how many transactions might be late, by the windows
    bound: int
    #: descriptions of transactions that are late outside of all windows
    unjustified: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Stamped:
    commit: Commit
    earliest_us: int
    latest_us: int


class Oracle:
    """Checks the order of a stream.

    Args:
        records: what the writers committed.
        dials: the clocks of all servers, by `server_id`.
        windows: the lateness that the schedule justifies.
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
        """The greatest stamp of all: its transaction waits until all clocks have passed it."""
        return max((one.latest_us for one in self._known.values()), default=0)

    def begun_us(self, arrival: Arrival) -> int:
        """Return when a transaction was sent; 0: no writer sent it."""
        known = self._known.get((arrival.shard, arrival.gtid))
        return known.commit.begun_us if known is not None else 0

    def judge(self, arrivals: Sequence[Arrival]) -> Lateness:
        """Return the late ones among the transactions of a stream, each given once and in its order."""
        late, unjustified, newest = 0, [], {}
        allowed = 0
        for one in arrivals:
            stamped = self._known.get((one.shard, one.gtid))
            if stamped is None:
                continue  # no writer sent it: that is counted elsewhere
            whys = [each for each in self._windows if each.justifies(one.shard, stamped.commit, one.acked_us)]
            allowed += bool(whys)
            prefetch = max((by for shard, by in newest.items() if shard != one.shard), default=0)
            if prefetch > stamped.latest_us + MARGIN_US:
                late += 1
                if not whys:
                    behind_s = (prefetch - stamped.latest_us) / S_US
                    unjustified.append(
                        f"{one.shard} {one.gtid} came after a transaction that was"
                        f" committed {behind_s:.1f} s later."
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
