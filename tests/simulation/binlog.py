"""The binlog of one server: its source's transactions, in the order in which that server committed them."""

from __future__ import annotations

import numpy as np

from canal_group.binlog.server.source import ServerFacts
from canal_group.merge.values.gtids.gtid import NO_GTIDS, GtidSet
from canal_group.merge.values.header import HEADER, Flag, HeaderRun
from canal_group.merge.values.position import Position

#: bytes of binlog per transaction, and transactions per file
STEP, TRANSACTIONS_A_FILE = 100, 5
FILES_MAX = 60
END = int(Flag.END)

#: a header of a source without its position: as `canal_group.merge.values.header.HEADER` up to `key_us`, then
#: origin and number
Written = tuple[int, ...]


class Binlog:
    """One server's binlog; `write` appends to it.

    Args:
        uuid: identity of the server.
        base: base name of its files.
        uuids: identities of all servers that number transactions.
        gtids: whether it numbers its transactions.
    """

    def __init__(self, uuid: str, base: str, uuids: tuple[str, ...], *, gtids: bool) -> None:
        self.uuid = uuid
        self._files = tuple(f"{base}.{number:06}" for number in range(1, FILES_MAX))
        self._first_uuid = uuids[0]
        self.names = (*self._files, *uuids)
        #: what the product knows about the server
        self.facts = ServerFacts("8.4.0-simulated", 1, uuid, {"gtid_mode": "ON" if gtids else "OFF"})
        self.records: list[tuple[int, ...]] = []
        #: for each header, its index in its source
        self.order: list[int] = []
        #: index in this binlog, by index in the source
        self.at: dict[int, int] = {}
        #: index of the first header that can still be read
        self.purged = 0
        self._transactions = 0
        self._first_file = 0
        self._indexes: dict[tuple[int, int], int] = {(0, 4): 0}
        #: the headers before each header, and before the next one to be written
        self._prefixes: list[frozenset[int]] = [frozenset()]

    @property
    def start(self) -> Position:
        """The earliest position that can be read from."""
        return Position(self._files[self._first_file], 4, gtid_set=self._purged_gtids(), server=self.uuid)

    @property
    def forgotten(self) -> frozenset[int]:
        """Indexes in the source of the purged headers."""
        return self._prefixes[self.purged]

    def _purged_gtids(self) -> GtidSet:
        gtids: GtidSet = NO_GTIDS
        if self.facts.gtids:
            # An empty set would not tell a source that numbers its transactions from one that does not.
            gtids = gtids.add(self._first_uuid, [1])
        for record in self.records[: self.purged]:
            gtids = gtids.add(self.names[record[12]], [record[13]] if record[13] else [])
        return gtids

    def write(self, transaction: list[tuple[int, Written]]) -> None:
        """Write a transaction: its headers, each with its index in the source."""
        file, position = divmod(self._transactions, TRANSACTIONS_A_FILE)
        self._transactions += 1
        begin, first = 4 + position * STEP, len(self.records)
        for part, (index, written) in enumerate(transaction):
            last = part == len(transaction) - 1
            end = begin + STEP if last else begin + 1 + part
            *head, origin, number = written
            gtid = (len(self._files) + origin, number)
            self.at[index] = len(self.records)
            self.order.append(index)
            self.records.append((*head, file, begin, end, *gtid, 0, 0))
            self._prefixes.append(self._prefixes[-1] | {index})
        after = len(self.records)
        self._indexes[file, begin] = first
        # The position after a file's last transaction is also the next file's beginning.
        self._indexes[file, begin + STEP] = after
        if position == TRANSACTIONS_A_FILE - 1:
            self._indexes[file + 1, 4] = after

    def purge(self) -> None:
        """Purge all files but the last."""
        file = max(0, self._transactions - 1) // TRANSACTIONS_A_FILE
        self.purged, self._first_file = self._indexes[file, 4], file

    def index_after(self, position: Position) -> int:
        """Return the index of the first header after a position of this server."""
        index = self._transaction_at(position.file, position.offset)
        if position.rows_into_transaction:
            while (
                self.records[index][5] <= position.rows_into_transaction and not self.records[index][2] & END
            ):
                index += 1
        return index

    def _transaction_at(self, file: str, offset: int) -> int:
        return self._indexes[self._files.index(file), offset]

    def before(self, index: int) -> frozenset[int]:
        """Return the indexes in the source of the headers before a header of this server."""
        return self._prefixes[index]

    def index_of(self, file: str, begin_offset: int, row_begin: int, row_end: int) -> int:
        """Return the index of a header."""
        index = self._transaction_at(file, begin_offset)
        while (self.records[index][4], self.records[index][5]) != (row_begin, row_end):
            index += 1
        return index

    def read_from(self, position: Position, *, by_gtid: bool) -> tuple[int, frozenset[int]]:
        """Return where a dump begins, and which indexes it skips.

        By GTID it begins at the oldest file and skips the transactions of the position's set.
        """
        held = self._held(position.gtid_set)
        if not by_gtid:
            at = self.index_after(position)
            # Continues as `canal_group.binlog.server.starts.start.past_purged` does.
            gone = position.gtid_set and not position.rows_into_transaction
            if at < self.purged and gone and held.issuperset(range(self.purged)):
                at = self.purged
            return at, frozenset()
        if position.rows_into_transaction and position.server == self.uuid:
            first = self._transaction_at(position.file, position.offset)
            held |= frozenset(range(first, self.index_after(position)))
        at = 0
        while at < self.purged and at in held:
            at += 1
        return at, held

    def _held(self, gtids: GtidSet) -> frozenset[int]:
        return frozenset(
            index
            for index, record in enumerate(self.records)
            if record[13] and gtids.holds(self.names[record[12]], np.array([record[13]]))[0]
        )

    def position(self, index: int) -> tuple[str, int]:
        """Return file and offset at which the transaction of a header begins."""
        return self.names[self.records[index][9]], self.records[index][10]

    def run(self, indexes: list[int]) -> HeaderRun:
        """Return headers."""
        return HeaderRun(np.array([self.records[index] for index in indexes], dtype=HEADER), self.names)
