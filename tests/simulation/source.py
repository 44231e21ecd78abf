"""A source: a database server whose binlog grows, with a clock of its own that may step back, and a replica.

The replica has every transaction, and commits neighbours in an order of its own; it may take the server's
place, and be replaced by it again. So a header has one index in its source, in the order in which
transactions were committed first, and a place in the binlog of each server.

Servers are MySQL's: each numbers the transactions that it is the first to commit. MariaDB's commit those of a
domain in one order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from merge.order.timeline import AHEAD_MAX_US
from merge.values.header import Flag, Headers
from merge.values.position import ANY_SERVER, Position
from simulation.binlog import Binlog, Written
from simulation.loop import BEGIN_US, MS, Future, Loop

#: how far the stamp of a commit may lie before its being readable
STAMP_MAX_US = 40 * MS
#: what every promise stays behind the source's clock
MARGIN_US = 50 * MS
SECOND_US = 1_000 * MS
#: so many transactions, at most, does a replica commit in an order of its own
WINDOW = 3

#: what tells a header of a source from the others
IDENTITY = ("gtid_source", "gtid_number", "file", "begin_offset", "row_begin", "row_end")

#: one header of a source, whatever delivers it how often: (shard, index)
ReadPosition = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Reach:
    """What of a source stands before a position, as indexes."""

    #: of which server the place is; empty: there is no position. One before everything is like that
    server: str = field(default="", compare=False)
    #: before the place, in the order of its server
    placed: frozenset[int] = frozenset()
    #: that, and what the GTID set holds
    passed: frozenset[int] = frozenset()


@dataclass
class Source:
    """One shard's server and its replica; `commit` makes their binlogs longer."""

    loop: Loop
    index: int
    #: its clock minus the world's
    skew_us: int = 0
    #: whether it stamps whole seconds, as MariaDB does
    coarse: bool = False
    #: whether it numbers its transactions
    gtids: bool = True
    #: until when nobody can read from it
    away_until_us: int = 0
    #: headers without their places
    records: list[Written] = field(default_factory=list)
    #: for each header the world's time at which it was committed, microseconds
    committed_us: list[int] = field(default_factory=list)
    #: for each header the bounds of a key that is right, microseconds since 1970 UTC: what the source's clock
    #: may have said when it was committed, and the most that it had said by then
    key_min_us: list[int] = field(default_factory=list)
    key_max_us: list[int] = field(default_factory=list)
    #: what its clock was set to, minus the world's: the least, and the most
    skew_min_us: int = 0
    skew_max_us: int = 0
    #: whether its clock ever stepped back
    stepped_back: bool = False
    #: how often the replica took the server's place
    failovers: int = 0

    def __post_init__(self) -> None:
        self.skew_min_us = self.skew_max_us = self.skew_us
        uuids = tuple(f"3e11fa47-71ca-11e1-9e33-c80aa94295{number}{self.index}" for number in (6, 7))
        # Every other replica has files of the same names: only identities tell them apart.
        bases = (f"bin{self.index}", f"bin{self.index}" if self.index % 2 == 0 else f"log{self.index}")
        self.binlogs = tuple(
            Binlog(uuid, base, uuids, gtids=self.gtids) for uuid, base in zip(uuids, bases, strict=True)
        )
        #: the server that answers
        self.active = self.binlogs[0]
        #: is there when the next transaction is, or another server answers
        self.news = Future()
        #: transactions that each server was the first to commit; one is purged when the world begins
        self._numbers = [1, 0]
        #: transactions that the replica has not committed: headers of each
        self._waiting: list[range] = []
        #: for each header the bounds of the transactions among which the servers' order may differ
        self._blocks: dict[int, range] = {}
        #: headers whose stamp is not believed
        self._future: set[int] = set()
        #: where transactions begin, by GTID
        self._by_gtid: dict[tuple[str, int], int] = {}
        self.reach = lru_cache(maxsize=None)(self._reach)

    @property
    def replica(self) -> Binlog:
        """The binlog of the server that does not answer."""
        return self.binlogs[self.active is self.binlogs[0]]

    @property
    def low_watermark_us(self) -> int:
        """What it can promise when everything readable was read, microseconds since 1970 UTC."""
        return self._clock_us(MARGIN_US)

    @property
    def now_us(self) -> int:
        """What its clock says, microseconds since 1970 UTC."""
        return BEGIN_US + self.loop.now_us + self.skew_us

    def _clock_us(self, ago_us: int) -> int:
        now_us = self.now_us - ago_us
        return now_us // SECOND_US * SECOND_US if self.coarse else now_us

    @property
    def stamp_error_us(self) -> int:
        """By how much a commit may be stamped too early."""
        return STAMP_MAX_US + (SECOND_US if self.coarse else 0)

    @property
    def away(self) -> bool:
        """Whether nobody can read from it."""
        return self.away_until_us > self.loop.now_us

    def step(self, by_us: int) -> None:
        """Set its clock forward, or back."""
        self.skew_us += by_us
        self.skew_max_us = max(self.skew_max_us, self.skew_us)
        self.skew_min_us = min(self.skew_min_us, self.skew_us)
        self.stepped_back |= by_us < 0
        # What is stamped far ahead of a clock that was set right is not believed: it follows the one before.
        for index, record in enumerate(self.records):
            if record[7] > self.now_us + AHEAD_MAX_US:
                self._future.add(index)
                self._disbelieve(index)

    def _disbelieve(self, index: int) -> None:
        """Let a header have the key of what is before it, on either server."""
        first = self.block(index).start if self.swapped(index) else index
        self.key_min_us[index] = self.key_min_us[first - 1] if first else 0

    def purge(self) -> None:
        """Let the server that answers forget all but its last file."""
        self.active.purge()

    def commit(self, rows: tuple[int, ...], *, ddl: bool = False, ahead_us: int = 0) -> None:
        """Commit a transaction with so many row changes in each of its fragments.

        Args:
            rows: row changes of each fragment.
            ddl: whether it is a statement.
            ahead_us: by how much its stamp is ahead of the clock, as SET TIMESTAMP makes it.
        """
        commit_us = self._clock_us(self.loop.chance.randrange(STAMP_MAX_US)) + ahead_us
        row, first = 0, len(self.records)
        origin = self.binlogs.index(self.active)
        self._numbers[origin] += 1
        number = self._numbers[origin] if self.gtids else 0
        if number:
            self._by_gtid[self.active.uuid, number] = first
        for part, count in enumerate(rows):
            last = part == len(rows) - 1
            flags = (Flag.BEGIN if part == 0 else 0) | (Flag.END if last else 0) | (Flag.DDL if ddl else 0)
            sizes = (count, row, row + count, 100 * count)
            self.records.append((0, 0, int(flags), *sizes, commit_us, 0, origin, number))
            row += count
        now_us, parts = self.loop.now_us, len(rows)
        self.committed_us += [now_us] * parts
        earliest_us = BEGIN_US + now_us + self.skew_us - self.stamp_error_us
        if ahead_us > AHEAD_MAX_US:
            # It is not believed, and goes with what is before it in its shard.
            earliest_us = self.key_min_us[-1] if self.key_min_us else 0
            self._future.update(range(first, first + parts))
        self.key_min_us += [earliest_us] * parts
        self.key_max_us += [BEGIN_US + now_us + self.skew_max_us] * parts
        transaction = range(first, first + parts)
        self._write(self.active, transaction)
        if self.gtids:
            self._waiting.append(transaction)
            if len(self._waiting) >= self.loop.chance.randrange(1, WINDOW + 1):
                self._replicate()
        self._tell()

    def _write(self, binlog: Binlog, transaction: range) -> None:
        binlog.write([(index, self.records[index]) for index in transaction])

    def _replicate(self) -> None:
        """Let the replica commit what it has not, in an order of its own."""
        if not self._waiting:
            return
        block = range(self._waiting[0].start, self._waiting[-1].stop)
        self._blocks.update((index, block) for index in block)
        self.loop.chance.shuffle(self._waiting)
        for transaction in self._waiting:
            self._write(self.replica, transaction)
        self._waiting = []
        for index in sorted(self._future.intersection(block)):
            self._disbelieve(index)

    def fail_over(self) -> None:
        """Let the replica, which has everything, answer from now on; the server becomes its replica."""
        self._replicate()
        self.active = self.replica
        self.failovers += 1
        self._tell()

    def _tell(self) -> None:
        news, self.news = self.news, Future()
        news.set()

    def block(self, index: int) -> range:
        """Return the headers among which the servers' order of this one may differ."""
        return self._blocks.get(index, range(index, index + 1))

    def swapped(self, index: int) -> bool:
        """Return whether a header may have come in another order than it was committed first."""
        block = self.block(index)
        return self.failovers > 0 and self.records[block[0]][-2:] != self.records[block[-1]][-2:]

    def key_most_us(self, index: int) -> int:
        """Return the most that a header's key may be: it may follow what was committed later."""
        return self.key_max_us[self.block(index)[-1] if self.swapped(index) else index]

    # ---- where is what ---------------------------------------------------------------------------------

    def binlog_of(self, server: str) -> Binlog:
        """Return the binlog of a server."""
        return next(binlog for binlog in self.binlogs if binlog.uuid == server)

    def _reach(self, position: Position) -> Reach:
        """Return what stands before a position."""
        held = self._named(str(position.gtid_set))
        if position.server == ANY_SERVER:
            return Reach(ANY_SERVER, held, held)
        binlog = self.binlog_of(position.server)
        placed = binlog.before(binlog.index_after(position))
        return Reach(position.server, placed, placed | held)

    def _named(self, gtids: str) -> frozenset[int]:
        """Return the headers of transactions that a GTID set names; looks at its text only."""
        numbers: set[tuple[str, int]] = set()
        for part in filter(None, gtids.split(",")):
            uuid, *intervals = part.split(":")
            for interval in intervals:
                first, _, last = interval.partition("-")
                numbers |= {(uuid, number) for number in range(int(first), int(last or first) + 1)}
        uuids = [binlog.uuid for binlog in self.binlogs]
        return frozenset(
            index for index, record in enumerate(self.records) if (uuids[record[-2]], record[-1]) in numbers
        )

    def places(self, headers: Headers, names: Sequence[str]) -> list[ReadPosition]:
        """Return which headers of this source these are."""
        rows = zip(*(headers[name].tolist() for name in IDENTITY), strict=True)
        return [
            (self.index, self.index_of(names[origin], number, names[file], *rest))
            for origin, number, file, *rest in rows
        ]

    def index_of(self, uuid: str, number: int, file: str, begin: int, row_begin: int, row_end: int) -> int:
        """Return the index of a header: by its GTID, and where there is none by its place."""
        if not number:
            return self.binlogs[0].index_of(file, begin, row_begin, row_end)
        index = self._by_gtid[uuid, number]
        while self.records[index][4:6] != (row_begin, row_end):
            index += 1
        return index
