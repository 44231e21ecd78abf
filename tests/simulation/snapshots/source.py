"""A source: a server and its replica, which may take over, perhaps without what it lacks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from canal_group.merge.values.gtids.gtid import NO_GTIDS
from simulation.loop import BEGIN_US, MS, Future, Loop
from simulation.snapshots.server import Server
from simulation.snapshots.table import COLUMNS, Change, Row, Statement, Table, Transaction, applied, row_of

#: `bare`: MySQL without GTIDs
Vendor = Literal["mysql", "mariadb", "bare"]
#: `vague`: MINIMAL, and images lack what is computed; `differences`: FULL, but of a changed document there is
#: only the difference
Images = Literal["full", "differences", "noblob", "minimal", "vague"]

#: keys of a table on each shard; those of `u` are on one shard at a time, and rows move between shards
KEYS: Final = 10
#: how long a replica takes to get what the server has synced
LAG_MAX_US: Final = 60 * MS


@dataclass(frozen=True, slots=True)
class Shape:
    """What kind of source it is."""

    vendor: Vendor
    images: Images
    #: whether it commits in the order of its binlog
    ordered: bool
    #: whether what is written is sent before it is synced
    sends_unsynced: bool
    #: whether table `t` has a key
    keyed: bool


class Source:
    """One shard's servers.

    Args:
        loop: its time.
        index: of the shard.
        shape: what kind it is.
    """

    def __init__(self, loop: Loop, index: int, shape: Shape) -> None:
        self._loop, self.index, self.shape = loop, index, shape
        chance = loop.chance
        begin = {
            "t": Table(COLUMNS, _rows(chance.sample(range(1, KEYS + 1), 7)), "id" if shape.keyed else ""),
            "u": Table(COLUMNS, _rows(chance.sample(self.own_keys, 5)), "id"),
        }
        self.tables: dict[str, Table] = begin
        self._begin = begin
        self._base = NO_GTIDS if shape.vendor == "bare" else NO_GTIDS.add(self._gtid_source(0), range(1, 4))
        #: all that there were
        self.servers: list[Server] = []
        names = chance.choice([("bin", "bin"), ("bin", "log")])
        shapes = [(100, chance.choice([3, 5, 50])), (130, chance.choice([4, 7]))]
        self.active, self.replica = map(self._add_server, names, shapes)
        #: how often another server became the active one
        self.failovers = 0
        self.away_until_us = 0
        self.transactions: list[Transaction] = []
        #: how many of them are never lost: streams have read them, or somebody knows that they are durable
        self.kept = 0

    def _add_server(self, files: str, shape: tuple[int, int]) -> Server:
        """Return a new server, which has what the replica has."""
        number, ordered = len(self.servers), self.shape.ordered or self.shape.vendor == "mariadb"
        begin = self._begin, self._base
        server = Server(
            self._loop, f"{'abcdefgh'[number]}-{self.index}", files, begin, shape, ordered=ordered
        )
        if number > 1:
            server.restore(self.replica.log)
        self.servers.append(server)
        return server

    def _gtid_source(self, number: int) -> str:
        """Return the source of the GTIDs of a server."""
        if self.shape.vendor == "mysql":
            return f"3e11fa47-71ca-11e1-9e33-c80aa94295{number:x}{self.index}"
        return f"0-{number + 1}" if self.shape.vendor == "mariadb" else ""

    @property
    def own_keys(self) -> range:
        """Keys of new rows of `u` here."""
        return range(100 * (self.index + 1), 100 * (self.index + 1) + KEYS)

    @property
    def away(self) -> bool:
        """Whether nothing is heard of it."""
        return self.away_until_us > self._loop.now_us

    @property
    def settled(self) -> bool:
        """Whether all that was written can be seen, on both servers."""
        count = len(self.transactions)
        return all(len(each.committed) == count for each in (self.active, self.replica))

    @property
    def writable(self) -> bool:
        """Whether the server has written all that was taken over from the one before it."""
        return len(self.active.log) == len(self.transactions)

    @property
    def due(self) -> int:
        """How many transactions consumers get without others: not the last ones that have no rows."""
        return next((each.number + 1 for each in reversed(self.transactions) if each.has_rows), 0)

    def has(self, transaction: Transaction) -> bool:
        """Return whether a transaction was not lost."""
        number = transaction.number
        return number < len(self.transactions) and self.transactions[number] is transaction

    def tables_at(self, count: int) -> dict[str, Table]:
        """Return the tables after the first `count` transactions."""
        if count:
            return dict(self.transactions[count - 1].tables)
        return dict(self._begin)

    def low_watermark_us(self, server: Server) -> int:
        """Return the low watermark of a stream that has read what was sent."""
        sent = self.sent(server)
        if sent < len(self.transactions):
            return self.transactions[sent].commit_us - 1
        return BEGIN_US + self._loop.now_us - 1

    def sent(self, server: Server) -> int:
        """Return how many transactions a server sends."""
        return len(server.log) if self.shape.sends_unsynced else server.synced

    # ---- writing -----------------------------------------------------------------------------------------

    def commit(
        self,
        *fragments: tuple[Change, ...],
        statement: Statement | None = None,
        locks: frozenset[tuple[str, int]] = frozenset(),
    ) -> Transaction:
        """Write a transaction to the active server; the replica follows.

        Args:
            fragments: its changes.
            statement: what it is instead.
            locks: rows that it holds on to, without a change: an XA transaction is prepared.
        """
        assert self.writable, "nothing is in the way"
        number, tables = len(self.transactions), self.tables
        for each in (statement,) if statement is not None else (c for part in fragments for c in part):
            tables = applied(tables, each, number)
        self.tables = tables
        before_us = self.transactions[-1].commit_us if self.transactions else 0
        stamp_us = max(BEGIN_US + self._loop.now_us, before_us)
        transaction = Transaction(
            number, self._next_gtid(), stamp_us, fragments or ((),), statement, tables, locks
        )
        self.transactions.append(transaction)
        self.active.flush(transaction)
        self._loop.after(self._loop.chance.randrange(MS, LAG_MAX_US), self._relay)
        return transaction

    def _next_gtid(self) -> tuple[str, int]:
        if self.shape.vendor == "bare":
            return "", 0
        mine, first = self._gtid_source(self.servers.index(self.active)), self._gtid_source(0)
        counts_all = self.shape.vendor == "mariadb"
        known = [(first, 3), *(each.gtid for each in self.transactions)]
        return mine, max((number for name, number in known if counts_all or name == mine), default=0) + 1

    def _relay(self) -> None:
        """Let the replica write what it has got."""
        server, replica = self.active, self.replica
        for transaction in server.log[len(replica.log) : server.synced]:
            replica.flush(transaction)
        if len(replica.log) < len(self.transactions):
            self._loop.after(LAG_MAX_US, self._relay)

    def fail_over(self, *, crashed: bool = False) -> None:
        """Let the replica take over; what it has got it writes by and by, and nothing else before.

        Args:
            crashed: the server is gone for good, with what the replica and streams have not got.
        """
        if self.shape.vendor == "bare":
            # Nobody knows where in another server's binlog a position is.
            return
        self.failovers += 1
        server = self.active
        if crashed:
            server.lost = True
            count = max(len(self.replica.log), self.kept)
            del self.transactions[count:]
            self.tables = self.tables_at(count)
            server = self._add_server("bin", (100, self._loop.chance.choice([3, 5, 50])))
        self.active, self.replica = self.replica, server
        for each in self.servers:
            news, each.news = each.news, Future()
            news.set()
        self._catch_up(self.active)

    def _catch_up(self, server: Server) -> None:
        if server is not self.active or self.writable:
            self._relay()
            return
        server.flush(self.transactions[len(server.log)])
        self._loop.after(self._loop.chance.randrange(10 * MS), lambda: self._catch_up(server))


def _rows(keys: list[int]) -> dict[int, Row]:
    return {key: row_of(key, key, 0) for key in keys}
