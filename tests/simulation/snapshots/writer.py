"""Those who write to a source: random transactions, XA transactions, statements, and rows that leave it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from canal_group.merge.values.chunk import Op
from simulation.loop import MS, Loop
from simulation.snapshots.source import KEYS, Source
from simulation.snapshots.table import (
    COLUMNS,
    COMPUTED,
    KEY,
    Change,
    Row,
    Statement,
    Table,
    Transaction,
    computed,
    row_of,
)

#: columns that ALTER adds to a table, at most
ADDED_MAX: Final = 2
#: how long an XA transaction is prepared
PREPARED_MAX_US: Final = 400 * MS
#: how long a statement waits for a table
DEFINE_WITHIN_US: Final = 100 * MS
#: until something is tried again that is in somebody's way
AGAIN_US: Final = 5 * MS


@dataclass(slots=True)
class _Prepared:
    """An XA transaction; what it does is in the binlog's stream when it is committed, under another GTID."""

    prepare: Transaction
    changes: tuple[Change, ...]
    rolls_back: bool
    decision: Transaction | None = None


class Writer:
    """Writes to one source.

    Args:
        loop: its time.
        source: where to.
        prepares: probability that a transaction is one of XA.
    """

    def __init__(self, loop: Loop, source: Source, prepares: float) -> None:
        self._loop, self._source, self._prepares = loop, source, prepares
        self._wrote = 0
        self._prepared: list[_Prepared] = []
        #: keys of `u` that have left for another shard, or come from one
        self._moved: frozenset[int] = frozenset()

    def _locked(self) -> set[tuple[str, int]]:
        found: set[tuple[str, int]] = set()
        for each in self._source.active.pending:
            if each.statement is not None:
                # Nothing of the table can be written.
                found |= {(each.statement.table, key) for key in range(1_000)}
            found |= each.touched
        for xa in self._prepared:
            if self._source.has(xa.prepare) and (xa.decision is None or not self._source.has(xa.decision)):
                found |= xa.prepare.locks
        return found

    # ---- transactions --------------------------------------------------------------------------------------

    def write(self) -> None:
        """Write some random transaction, when the server takes it."""
        chance = self._loop.chance
        if not self._source.writable:
            self._loop.after(AGAIN_US, self.write)
            return
        locked, changes = self._locked(), list[Change]()
        for _ in range(chance.choice([1, 1, 1, 2, 3])):
            change = self._change(locked)
            if change is not None:
                changes.append(change)
                # A transaction may touch its own rows again; to make the model easy it does not.
                locked |= change.rows
        if not changes:
            return
        if chance.random() < self._prepares:
            self._prepare(tuple(changes))
        elif len(changes) > 1 and chance.random() < 0.5:
            at = chance.randrange(1, len(changes))
            self._source.commit(tuple(changes[:at]), tuple(changes[at:]))
        else:
            self._source.commit(tuple(changes))

    def _prepare(self, changes: tuple[Change, ...]) -> None:
        chance, rows = self._loop.chance, frozenset[tuple[str, int]]().union(*(each.rows for each in changes))
        xa = _Prepared(self._source.commit(locks=rows), changes, rolls_back=chance.random() < 0.3)
        self._prepared.append(xa)
        self._loop.after(chance.randrange(MS, PREPARED_MAX_US), lambda: self._decide(xa))

    def _decide(self, xa: _Prepared) -> None:
        """Commit it or roll it back: again, if that is lost with a server."""
        source = self._source
        if not source.has(xa.prepare):
            return
        if xa.decision is not None and source.has(xa.decision):
            if xa.decision.number < len(source.replica.log):
                return
        elif source.writable and xa.prepare.number in source.active.committed:
            xa.decision = (
                source.commit(locks=xa.prepare.locks) if xa.rolls_back else source.commit(xa.changes)
            )
        self._loop.after(AGAIN_US, lambda: self._decide(xa))

    def _change(self, locked: set[tuple[str, int]]) -> Change | None:
        chance, tables = self._loop.chance, self._source.tables
        name = chance.choice([each for each in ("t", "t", "u") if each in tables] or [""])
        if not name:
            return None
        table = tables[name]
        keys = list(range(1, KEYS + 1)) if name == "t" else list(self._source.own_keys)
        free = [key for key in keys if key not in table.rows and (name, key) not in locked]
        if name == "u":
            free = [key for key in free if key not in self._moved]
        taken = [key for key in table.rows if (name, key) not in locked]
        self._wrote += 1
        v, w, kind = 1_000 * self._wrote + self._source.index, self._wrote, chance.random()
        if free and (not taken or kind < 0.25):
            return Change(name, Op.INSERT, None, row_of(chance.choice(free), v, w, _added(table)))
        if not taken:
            return None
        old = table.rows[chance.choice(taken)]
        if kind < 0.4:
            return Change(name, Op.DELETE, old, None, self._lacking(table, old, old))
        of_v = chance.random() < 0.7
        new = {**old, "v": v, COMPUTED: computed(v)} if of_v else {**old, "w": w}
        if free and kind < 0.6:
            new[KEY] = chance.choice(free)
        lacks = self._lacking(table, old, old), self._lacking(table, old, new, after=True)
        if not of_v and self._source.shape.images == "differences":
            return Change(name, Op.UPDATE, old, {**new, "w": old["w"]}, *lacks, adds=w)
        return Change(name, Op.UPDATE, old, new, *lacks)

    def _lacking(self, table: Table, old: Row, new: Row, *, after: bool = False) -> frozenset[str]:
        """Return the columns that an image lacks."""
        # Without a key an image before has all columns, and one after is filled in from it.
        images = self._source.shape.images if table.signature else "full"
        same = {name for name in old if old[name] == new[name] and name != KEY}
        if images in ("full", "differences"):
            return frozenset()
        if images == "noblob":
            return frozenset(same & {"w"})
        if not after:
            return frozenset(same)
        # What an image lacks and the one before has is filled in by the reader: only keys are in both.
        return frozenset(same | {COMPUTED} if images == "vague" else same)

    # ---- rows that move between shards ---------------------------------------------------------------------

    def move_to(self, other: Writer) -> None:
        """Let a row leave for another shard, where it arrives when it is known to be gone."""
        source, table = self._source, self._source.tables.get("u")
        locked = self._locked()
        keys = [] if table is None else [key for key in table.rows if ("u", key) not in locked]
        if table is None or not keys or not source.writable:
            return
        row = table.rows[self._loop.chance.choice(keys)]
        self._moved |= {row[KEY]}
        gone = source.commit((Change("u", Op.DELETE, row, None, self._lacking(table, row, row)),))

        def look() -> None:
            if not source.has(gone):
                return
            if gone.number in source.active.committed:
                source.kept = max(source.kept, gone.number + 1)
                other._arrive(row)
            else:
                self._loop.after(AGAIN_US, look)

        look()

    def _arrive(self, row: Row) -> None:
        """Insert a row of another shard; try again while the table is locked."""
        source = self._source
        if not source.writable or ("u", row[KEY]) in self._locked():
            self._loop.after(MS, lambda: self._arrive(row))
            return
        table = source.tables["u"]
        self._wrote += 1
        new = row_of(row[KEY], row["v"], self._wrote, _added(table))
        self._moved |= {row[KEY]}
        arrived = source.commit((Change("u", Op.INSERT, None, new),))
        source.kept = arrived.number + 1

    # ---- statements ----------------------------------------------------------------------------------------

    def define(self, name: str) -> None:
        """Run a statement on a table, as soon as nobody uses it; or on some table, without its name."""
        self._define(name or self._loop.chance.choice("ttu"), self._loop.now_us + DEFINE_WITHIN_US)

    def _define(self, name: str, until_us: int) -> None:
        source, chance = self._source, self._loop.chance
        if source.active.reads[name] or not source.writable or any(name == of for of, _ in self._locked()):
            if self._loop.now_us < until_us:
                self._loop.after(MS, lambda: self._define(name, until_us))
            return
        if name not in source.tables:
            return
        table = source.tables[name]
        kind = chance.choice(["ALTER", "ALTER", "TRUNCATE", "RENAME", "ERASE"]) if name == "t" else "ALTER"
        if kind == "ERASE" and chance.random() < 0.7:
            return
        if kind == "ALTER":
            added = len(_added(table))
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
        source.commit(statement=statement)


def _added(table: Table) -> tuple[str, ...]:
    """Return the columns that were added to a table."""
    return table.columns[len(COLUMNS) :]
