"""A source: a database server whose binlog grows, with a clock of its own that may step back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from merge.header import HEADER, Flag, HeaderRun, Headers
from merge.position import Position
from merge.timeline import AHEAD_MAX_US
from simulation.loop import BEGIN_US, MS, Future, Loop

#: bytes of binlog of each transaction, and transactions of one file
STEP, TRANSACTIONS_A_FILE = 100, 5
#: how far the stamp of a commit may lie before its being readable
STAMP_MAX_US = 40 * MS
#: what every promise stays behind the source's clock
MARGIN_US = 50 * MS
SECOND_US = 1_000 * MS
END = int(Flag.END)

#: one header of a source, whatever delivers it how often: (shard, index)
Place = tuple[int, int]


@dataclass
class Source:
    """One shard's server; `commit` makes its binlog longer."""

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
    records: list[tuple[int, ...]] = field(default_factory=list)
    #: for each header the index of the first one behind its transaction
    transaction_ends: list[int] = field(default_factory=list)
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
    transactions: int = 0
    #: index of the first header that can still be read
    purged: int = 0

    def __post_init__(self) -> None:
        self.skew_min_us = self.skew_max_us = self.skew_us
        self.uuid = f"3e11fa47-71ca-11e1-9e33-c80aa942956{self.index}"
        self.names = (*(f"bin{self.index}.{number:06}" for number in range(1, 20)), self.uuid)
        #: identity of the server
        self.server = self.uuid
        #: is there when the next transaction is
        self.news = Future()
        self._first_file = 0
        self._places: dict[tuple[int, int], int] = {(0, 4): 0}

    @property
    def promise_us(self) -> int:
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

    @property
    def start(self) -> Position:
        """The earliest position that can be read from."""
        return Position(self.names[self._first_file], 4)

    def step(self, by_us: int) -> None:
        """Set its clock forward, or back."""
        self.skew_us += by_us
        self.skew_max_us = max(self.skew_max_us, self.skew_us)
        self.skew_min_us = min(self.skew_min_us, self.skew_us)
        self.stepped_back |= by_us < 0
        # What is stamped far ahead of a clock that was set right is not believed: it follows the one before.
        for index, record in enumerate(self.records):
            if record[7] > self.now_us + AHEAD_MAX_US:
                self.key_min_us[index] = self.key_min_us[index - 1] if index else 0

    def purge(self) -> None:
        """Forget all but the last file."""
        file = max(0, self.transactions - 1) // TRANSACTIONS_A_FILE
        self.purged, self._first_file = self._places[file, 4], file

    def commit(self, rows: tuple[int, ...], *, ddl: bool = False, ahead_us: int = 0) -> None:
        """Commit a transaction with so many row changes in each of its fragments.

        Args:
            rows: row changes of each fragment.
            ddl: whether it is a statement.
            ahead_us: by how much its stamp is ahead of the clock, as SET TIMESTAMP makes it.
        """
        file, place = divmod(self.transactions, TRANSACTIONS_A_FILE)
        self.transactions += 1
        commit_us = self._clock_us(self.loop.chance.randrange(STAMP_MAX_US)) + ahead_us
        begin, row, first = 4 + place * STEP, 0, len(self.records)
        for part, count in enumerate(rows):
            last = part == len(rows) - 1
            flags = (Flag.BEGIN if part == 0 else 0) | (Flag.END if last else 0) | (Flag.DDL if ddl else 0)
            end = begin + STEP if last else begin + 1 + part
            number = self.transactions if self.gtids else 0
            place_in_file = (file, begin, end)
            sizes = (count, row, row + count, 100 * count)
            gtid = (len(self.names) - 1, number)
            self.records.append((0, 0, int(flags), *sizes, commit_us, 0, *place_in_file, *gtid))
            row += count
        behind = len(self.records)
        self.transaction_ends += [behind] * (behind - first)
        now_us, parts = self.loop.now_us, behind - first
        self.committed_us += [now_us] * parts
        earliest_us = BEGIN_US + now_us + self.skew_us - self.stamp_error_us
        if ahead_us > AHEAD_MAX_US:
            # It is not believed, and goes with what is before it in its shard.
            earliest_us = self.key_min_us[-1] if self.key_min_us else 0
        self.key_min_us += [earliest_us] * parts
        self.key_max_us += [BEGIN_US + now_us + self.skew_max_us] * parts
        self._places[file, begin] = first
        # The place behind a file's last transaction is the next file's beginning too.
        self._places[file, begin + STEP] = behind
        if place == TRANSACTIONS_A_FILE - 1:
            self._places[file + 1, 4] = behind
        news, self.news = self.news, Future()
        news.set()

    def index_after(self, position: Position) -> int:
        """Return the index of the first header behind a position."""
        index = self._places[int(position.file[-6:]) - 1, position.offset]
        if position.rows_into_transaction:
            while (
                self.records[index][5] <= position.rows_into_transaction and not self.records[index][2] & END
            ):
                index += 1
        return index

    def places(self, headers: Headers, names: Sequence[str]) -> list[Place]:
        """Return which headers of this source these are."""
        columns = (headers[name].tolist() for name in ("file", "begin_offset", "row_begin", "row_end"))
        return [(self.index, self.index_of(names[file], *rest)) for file, *rest in zip(*columns, strict=True)]

    def index_of(self, file: str, begin_offset: int, row_begin: int, row_end: int) -> int:
        """Return the index of a header."""
        index = self._places[int(file[-6:]) - 1, begin_offset]
        while (self.records[index][4], self.records[index][5]) != (row_begin, row_end):
            index += 1
        return index

    def run(self, begin: int, end: int) -> HeaderRun:
        """Return headers `begin <= index < end`."""
        return HeaderRun(np.array(self.records[begin:end], dtype=HEADER), self.names)
