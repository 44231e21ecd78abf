"""A source: a server and its replica, which may take over, and those who write to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from canal_group.merge.values.chunk import Op
from canal_group.merge.values.gtids.gtid import NO_GTIDS
from simulation.loop import BEGIN_US, MS, Future, Loop
from simulation.snapshots.server import Server
from simulation.snapshots.table import (
    COLUMNS,
    COMPUTED,
    KEY,
    Change,
    Row,
    Statement,
    Table,
    Transaction,
    applied,
    row_of,
)

Vendor = Literal["mysql", "mariadb"]
Images = Literal["full", "noblob", "minimal", "vague"]

#: keys of a table on each shard; those of `u` are on one shard at a time, and rows move between shards
KEYS: Final = 10
#: how long a replica takes to get what the server has synced
LAG_MAX_US: Final = 60 * MS
#: columns that ALTER adds to a table, at most
ADDED_MAX: Final = 2


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
        own = self.own_keys
        begin = {
            "t": Table(COLUMNS, _rows(chance.sample(range(1, KEYS + 1), 7)), "id" if shape.keyed else ""),
            "u": Table(COLUMNS, _rows(chance.sample(own, 5)), "id"),
        }
        self.tables: dict[str, Table] = begin
        self._begin = begin
        if shape.vendor == "mysql":
            sources = [f"3e11fa47-71ca-11e1-9e33-c80aa94295{number}{index}" for number in (6, 7)]
        else:
            sources = [f"0-{number}" for number in (1, 2)]
        self._sources = sources
        self._base = NO_GTIDS.add(sources[0], range(1, 4))
        names = chance.choice([("bin", "bin"), ("bin", "log")])
        shapes = [(100, chance.choice([3, 5, 50])), (130, chance.choice([4, 7]))]
        self.servers = [
            Server(
                loop,
                f"{number}-{index}",
                name,
                (begin, self._base),
                size,
                ordered=shape.ordered or shape.vendor == "mariadb",
            )
            for number, name, size in zip("ab", names, shapes, strict=True)
        ]
        self.active = self.servers[0]
        self.failovers = 0
        self.away_until_us = 0
        self.transactions: list[Transaction] = []
        self._numbers = [3, 0]
        self._wrote = 0

    @property
    def own_keys(self) -> range:
        """Keys of new rows of `u` here."""
        return range(100 * (self.index + 1), 100 * (self.index + 1) + KEYS)

    @property
    def replica(self) -> Server:
        """The server that is not written to."""
        return self.servers[self.active is self.servers[0]]

    @property
    def away(self) -> bool:
        """Whether nothing is heard of it."""
        return self.away_until_us > self._loop.now_us

    @property
    def settled(self) -> bool:
        """Whether all that was written can be seen, on both servers."""
        count = len(self.transactions)
        return all(len(each.committed) == count for each in self.servers)

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

    def commit(self, *fragments: tuple[Change, ...], statement: Statement | None = None) -> Transaction:
        """Write a transaction to the active server; the replica follows."""
        number, origin = len(self.transactions), self.servers.index(self.active)
        self._numbers[origin] = (
            self._numbers[origin] + 1 if self.shape.vendor == "mysql" else max(self._numbers) + 1
        )
        tables = self.tables
        for each in (statement,) if statement is not None else (c for part in fragments for c in part):
            tables = applied(tables, each, number)
        self.tables = tables
        before_us = self.transactions[-1].commit_us if self.transactions else 0
        stamp_us = max(BEGIN_US + self._loop.now_us, before_us)
        gtid = (self._sources[origin], self._numbers[origin])
        transaction = Transaction(number, gtid, stamp_us, fragments or ((),), statement, tables)
        self.transactions.append(transaction)
        self.active.flush(transaction)
        self._loop.after(self._loop.chance.randrange(MS, LAG_MAX_US), self._relay)
        return transaction

    def _relay(self) -> None:
        """Let the replica write what it has got."""
        server, replica = self.active, self.replica
        for transaction in server.log[len(replica.log) : server.synced]:
            replica.flush(transaction)
        if len(replica.log) < len(self.transactions):
            self._loop.after(LAG_MAX_US, self._relay)

    def fail_over(self) -> None:
        """Let the replica take over; it writes all that the server had written."""
        server, replica = self.active, self.replica
        for transaction in server.log[len(replica.log) :]:
            replica.flush(transaction)
        self.active, self.failovers = replica, self.failovers + 1
        news, server.news = server.news, Future()
        news.set()

    # ---- what is written ---------------------------------------------------------------------------------

    def _locked(self) -> set[tuple[str, int]]:
        found: set[tuple[str, int]] = set()
        for each in self.active.pending:
            if each.statement is not None:
                # Nothing of the table can be written.
                found |= {(each.statement.table, key) for key in range(1_000)}
            found |= each.touched
        return found

    def write(self) -> None:
        """Write some random transaction."""
        chance = self._loop.chance
        locked, changes = self._locked(), list[Change]()
        for _ in range(chance.choice([1, 1, 1, 2, 3])):
            change = self._change(locked)
            if change is not None:
                changes.append(change)
                # A transaction may touch its own rows again; to make the model easy it does not.
                locked |= {(change.table, key) for key in change.keys}
        if not changes:
            return
        if len(changes) > 1 and chance.random() < 0.5:
            at = chance.randrange(1, len(changes))
            self.commit(tuple(changes[:at]), tuple(changes[at:]))
        else:
            self.commit(tuple(changes))

    def _change(self, locked: set[tuple[str, int]]) -> Change | None:
        chance = self._loop.chance
        name = chance.choice([each for each in ("t", "t", "u") if each in self.tables] or [""])
        if not name:
            return None
        table = self.tables[name]
        keys = list(range(1, KEYS + 1)) if name == "t" else list(self.own_keys)
        free = [key for key in keys if key not in table.rows and (name, key) not in locked]
        if name == "u":
            free = [key for key in free if key not in self.moved]
        taken = [key for key in table.rows if (name, key) not in locked]
        self._wrote += 1
        v, w, kind = 1_000 * self._wrote + self.index, self._wrote, chance.random()
        more = table.columns[len(COLUMNS) :]
        if free and (not taken or kind < 0.25):
            return Change(name, Op.INSERT, None, row_of(chance.choice(free), v, w, more))
        if not taken:
            return None
        old = table.rows[chance.choice(taken)]
        if kind < 0.4:
            return Change(name, Op.DELETE, old, None, self._lacking(table, old, old))
        new = {**old, "v": v, COMPUTED: 10 * v + 1} if chance.random() < 0.7 else {**old, "w": w}
        if free and kind < 0.6:
            new[KEY] = chance.choice(free)
        lacks = self._lacking(table, old, old), self._lacking(table, old, new, after=True)
        return Change(name, Op.UPDATE, old, new, *lacks)

    #: keys of `u` that have left for another shard, or come from one
    moved: frozenset[int] = frozenset()

    def _lacking(self, table: Table, old: Row, new: Row, *, after: bool = False) -> frozenset[str]:
        """Return the columns that an image lacks."""
        # Without a key an image before has all columns, and one after is filled in from it.
        images = self.shape.images if table.signature else "full"
        same = {name for name in old if old[name] == new[name] and name != KEY}
        if images == "full":
            return frozenset()
        if images == "noblob":
            return frozenset(same & {"w"})
        if not after:
            return frozenset(same)
        # What an image lacks and the one before has is filled in by the reader: only keys are in both.
        return frozenset(same | {COMPUTED} if images == "vague" else same)

    def leave(self) -> Row | None:
        """Delete a row that another shard will get; None: there is none."""
        table, locked = self.tables.get("u"), self._locked()
        keys = [] if table is None else [key for key in table.rows if ("u", key) not in locked]
        if not keys:
            return None
        table = self.tables["u"]
        row = table.rows[self._loop.chance.choice(keys)]
        self.moved |= {row[KEY]}
        self.commit((Change("u", Op.DELETE, row, None, self._lacking(table, row, row)),))
        return row

    def arrive(self, row: Row) -> None:
        """Insert a row of another shard; it tries again while the table is locked."""
        table = self.tables["u"]
        if ("u", row[KEY]) in self._locked():
            self._loop.after(MS, lambda: self.arrive(row))
            return
        self._wrote += 1
        new = row_of(row[KEY], row["v"], self._wrote, table.columns[len(COLUMNS) :])
        self.moved |= {row[KEY]}
        self.commit((Change("u", Op.INSERT, None, new),))

    def define(self) -> None:
        """Run a statement on a table, unless somebody uses it."""
        chance = self._loop.chance
        name = chance.choice(["t", "t", "u"])
        used = self.active.reads[name] or any(table == name for table, _ in self._locked())
        if name not in self.tables or used:
            return
        table = self.tables[name]
        kind = chance.choice(["ALTER", "ALTER", "TRUNCATE", "RENAME", "ERASE"]) if name == "t" else "ALTER"
        if kind == "ERASE" and chance.random() < 0.7:
            return
        if kind == "ALTER":
            added = len(table.columns) - len(COLUMNS)
            column = f"x{added}" if added < ADDED_MAX and chance.random() < 0.7 else ""
            other = table.signature and chance.random() < 0.3
            signature = f"{table.signature}'" if other else table.signature
            statement = Statement(kind, name, column, signature)
        elif kind == "RENAME":
            self._wrote += 1
            rows = {
                key: row_of(key, 1_000 * self._wrote + key, key) for key in chance.sample(range(1, KEYS), 5)
            }
            statement = Statement(kind, name, becomes=Table(COLUMNS, rows, table.signature))
        else:
            statement = Statement(kind, name)
        self.commit(statement=statement)


def _rows(keys: list[int]) -> dict[int, Row]:
    return {key: row_of(key, key, 0) for key in keys}
