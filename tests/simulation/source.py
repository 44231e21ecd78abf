"""A source: a database server whose binlog grows, with a clock of its own that may step back, and a replica.

The replica has every transaction, and commits neighbours in an order of its own. It may take over from the
server, and the server from it. So a header has one index in its source, in the order in which transactions
were committed first, and a position in the binlog of each server.

The servers behave like MySQL: each numbers the transactions that it is the first to commit. MariaDB servers
would commit the transactions of a domain in one order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from support.defaults import AHEAD_MAX_US

from canal_group.merge.values.header import Flag, Headers
from canal_group.merge.values.position import ANY_SERVER, Position
from simulation.binlog import Binlog, Written
from simulation.loop import BEGIN_US, MS, Future, Loop

#: how long after its stamp a commit may become readable
STAMP_MAX_US = 40 * MS
#: the margin by which every low watermark is below the source's clock
MARGIN_US = 50 * MS
SECOND_US = 1_000 * MS
#: how many transactions, at most, a replica commits in an order of its own
WINDOW = 3

#: what identifies a header of a source
IDENTITY = ("gtid_source", "gtid_number", "file", "begin_offset", "row_begin", "row_end")

#: identity of a header of a source, which stays the same in every delivery: (shard, index)
ReadPosition = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Reach:
    """The headers of a source before a position, as indexes."""

    #: server of the position; empty: there is no position, or it is before every header
    server: str = field(default="", compare=False)
    #: before file and offset, in the order of that server
    placed: frozenset[int] = frozenset()
    #: those, and the headers of the GTID set
    passed: frozenset[int] = frozenset()


@dataclass
class Source:
    """One shard's server and its replica; `commit` appends to their binlogs."""

    loop: Loop
    index: int
    #: its clock minus the world's
    skew_us: int = 0
    #: whether it stamps whole seconds, as MariaDB does
    coarse: bool = False
    #: whether it numbers its transactions
    gtids: bool = True
    #: until when it cannot be read
    away_until_us: int = 0
    #: headers without their positions
    records: list[Written] = field(default_factory=list)
    #: for each header the world's time at which it was committed, microseconds
    committed_us: list[int] = field(default_factory=list)
    #: for each header the bounds of a correct key, microseconds since 1970 UTC: what the source's clock may
    #: have shown when it was committed, and the latest time that it had shown by then
    key_min_us: list[int] = field(default_factory=list)
    key_max_us: list[int] = field(default_factory=list)
    #: the smallest and the greatest offset of its clock from the world's
    skew_min_us: int = 0
    skew_max_us: int = 0
    #: whether its clock ever stepped back
    stepped_back: bool = False
    #: number of failovers
    failovers: int = 0
    #: whether the next transaction of one row cannot be read
    spoils: bool = False
    #: headers that cannot be read, and those of them that a shard has left out, with the server
    bad: set[int] = field(default_factory=set)
    left_out: set[tuple[str, int]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.skew_min_us = self.skew_max_us = self.skew_us
        uuids = tuple(f"3e11fa47-71ca-11e1-9e33-c80aa94295{number}{self.index}" for number in (6, 7))
        # Every second replica has files of the same names: only identities distinguish them.
        bases = (f"bin{self.index}", f"bin{self.index}" if self.index % 2 == 0 else f"log{self.index}")
        self.binlogs = tuple(
            Binlog(uuid, base, uuids, gtids=self.gtids) for uuid, base in zip(uuids, bases, strict=True)
        )
        #: the server that answers
        self.active = self.binlogs[0]
        #: done when there is a next transaction, or another server answers
        self.news = Future()
        #: transactions that each server was the first to commit; one is purged when the world begins
        self._numbers = [1, 0]
        #: headers of each transaction that the replica has not committed
        self._waiting: list[range] = []
        #: for each header the bounds of the transactions among which the servers' order may differ
        self._blocks: dict[int, range] = {}
        #: headers whose stamp is not trusted
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
        """Its low watermark when everything readable was read, microseconds since 1970 UTC."""
        return self._clock_us(MARGIN_US)

    @property
    def now_us(self) -> int:
        """The time of its clock, microseconds since 1970 UTC."""
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
        """Whether it cannot be read."""
        return self.away_until_us > self.loop.now_us

    def step(self, by_us: int) -> None:
        """Set its clock forward, or back."""
        self.skew_us += by_us
        self.skew_max_us = max(self.skew_max_us, self.skew_us)
        self.skew_min_us = min(self.skew_min_us, self.skew_us)
        self.stepped_back |= by_us < 0
        # A stamp far ahead of a corrected clock is not trusted: it gets the previous key.
        for index, record in enumerate(self.records):
            if record[7] > self.now_us + AHEAD_MAX_US:
                self._future.add(index)
                self._disbelieve(index)

    def _disbelieve(self, index: int) -> None:
        """Give a header the key of the header before it, on either server."""
        first = self.block(index).start if self.swapped(index) else index
        self.key_min_us[index] = self.key_min_us[first - 1] if first else 0

    def purge(self) -> None:
        """Make the answering server purge all files but its last."""
        self.active.purge()

    def commit(self, rows: tuple[int, ...], *, ddl: bool = False, ahead_us: int = 0) -> None:
        """Commit a transaction.

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
            # It is not trusted, and gets the key of the header before it in its shard.
            earliest_us = self.key_min_us[-1] if self.key_min_us else 0
            self._future.update(range(first, first + parts))
        self.key_min_us += [earliest_us] * parts
        self.key_max_us += [BEGIN_US + now_us + self.skew_max_us] * parts
        if self.spoils and rows == (1,) and not ddl:
            # Its mark is one change too: whoever left it out reads the same header.
            self.spoils = False
            self.bad.add(first)
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
        """Make the replica commit what it lacks, in an order of its own."""
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
        """Fail over to the replica, which has everything; the server becomes its replica."""
        self._replicate()
        self.active = self.replica
        self.failovers += 1
        for index in sorted(self._future):
            self._disbelieve(index)
        self._tell()

    def _tell(self) -> None:
        news, self.news = self.news, Future()
        news.set()

    def block(self, index: int) -> range:
        """Return the headers among which this one's order may differ between the servers."""
        return self._blocks.get(index, range(index, index + 1))

    def swapped(self, index: int) -> bool:
        """Return whether a header may come in another order than that of the first commits."""
        block = self.block(index)
        return self.failovers > 0 and self.records[block[0]][-2:] != self.records[block[-1]][-2:]

    def key_most_us(self, index: int) -> int:
        """Return the greatest key of a header: it may follow transactions that were committed later."""
        return self.key_max_us[self.block(index)[-1] if self.swapped(index) else index]

    def has_rows(self, index: int) -> bool:
        """Return whether anything of a header is kept."""
        return self.records[index][3] > 0

    # ---- where is what ---------------------------------------------------------------------------------

    def binlog_of(self, server: str) -> Binlog:
        """Return the binlog of a server."""
        return next(binlog for binlog in self.binlogs if binlog.uuid == server)

    def _reach(self, position: Position) -> Reach:
        """Return the headers before a position."""
        held = self._named(str(position.gtid_set))
        if position.server == ANY_SERVER:
            return Reach(ANY_SERVER, held, held)
        binlog = self.binlog_of(position.server)
        placed = binlog.before(binlog.index_after(position))
        return Reach(position.server, placed, placed | held)

    def _named(self, gtids: str) -> frozenset[int]:
        """Return the headers of the transactions in a GTID set; uses its text only."""
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

    def positions(self, headers: Headers, names: Sequence[str]) -> list[ReadPosition]:
        """Return which headers of this source these are."""
        rows = zip(*(headers[name].tolist() for name in IDENTITY), strict=True)
        return [
            (self.index, self.index_of(names[origin], number, names[file], *rest))
            for origin, number, file, *rest in rows
        ]

    def index_of(self, uuid: str, number: int, file: str, begin: int, row_begin: int, row_end: int) -> int:
        """Return the index of a header: by its GTID, or by file and offset if it has none."""
        if not number:
            return self.binlogs[0].index_of(file, begin, row_begin, row_end)
        index = self._by_gtid[uuid, number]
        while self.records[index][4:6] != (row_begin, row_end):
            index += 1
        return index
