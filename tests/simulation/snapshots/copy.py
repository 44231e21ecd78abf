"""A consumer's copy of the sources, and what must hold whenever something is added to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Any

from canal_group.merge.snapshot.cursor import SnapshotCursor, name_text
from canal_group.merge.values.chunk import Op
from canal_group.merge.values.header import Flag
from canal_group.merge.values.marks.snapshot_mark import OVER, SnapshotMark
from canal_group.merge.values.position import Position
from simulation.consumption import ViolationError
from simulation.snapshots.server import Server
from simulation.snapshots.shard import Fetched
from simulation.snapshots.source import Source
from simulation.snapshots.table import COMPUTED, KEY, Statement, computed, name_of

Row = dict[str, int]


class Trust(Enum):
    """What is known of the copy of a table once its snapshot is over."""

    #: it has the rows of the table, and no others
    EXACT = auto()
    #: nothing: rows came or went without events when it had been read, or it cannot be read
    NOTHING = auto()


def require(holds: bool, what: str, *details: Any) -> None:
    """Raise if something does not hold."""
    if not holds:
        raise ViolationError(what.format(*details))


@dataclass(slots=True)
class ShardCopy:
    """The copy of one shard."""

    #: transactions, and rows of the next one, that it has
    count: int
    part: int = 0
    #: server, file and offset that the stream is at, and ordinals of pages that were there
    location: tuple[str, str, int] = ("", "", 0)
    page_rows: int = 0
    #: the cursor of the snapshot; None: no snapshot, or a snapshot that is over
    text: str | None = None
    #: whether the mark at the snapshot's end came
    over: bool = False
    tables: dict[str, dict[int, Row]] = field(default_factory=dict)
    trust: dict[str, Trust] = field(default_factory=dict)

    def clone(self) -> ShardCopy:
        """Return a copy of it."""
        tables = {name: dict(rows) for name, rows in self.tables.items()}
        return replace(self, tables=tables, trust=dict(self.trust))

    def passed(self, position: Position, source: Source) -> ShardCopy | None:
        """Return it at a position up to which nothing has rows; None: something may have."""
        server = next(each for each in source.servers if position.is_of(each.uuid))
        location = (server.uuid, position.file, position.offset)
        count, part = server.count_at(position.file, position.offset), position.rows_into_transaction
        if count > self.count:
            if self.part or part or any(each.has_rows for each in source.transactions[self.count : count]):
                return None
        elif (
            (count, part) != (self.count, self.part)
            or location[0] != self.location[0]
            or (location, position.page_rows) < (self.location, self.page_rows)
        ):
            return None
        copy = self.clone()
        copy.count, copy.location, copy.page_rows = count, location, position.page_rows
        if _id_of(position.snapshot) != _id_of(copy.text):
            # It has ended, or was stopped; or another one was begun.
            copy.steered(position.snapshot)
        copy.text = position.snapshot
        return copy

    # ---- what comes ----------------------------------------------------------------------------------------

    def take(self, source: Source, server: Server, header: Any, names: Sequence[str], came: Fetched) -> None:
        """Add what belongs to a header."""
        file, begin = names[header["file"]], int(header["begin_offset"])
        shard = f"s{source.index}"
        count = server.count_at(file, begin)
        require(
            count == self.count, "{}: transaction {} comes after {} transactions", shard, count, self.count
        )
        if came.text is not None:
            self.text = None if came.text.startswith(OVER) else came.text
        if header["flags"] & Flag.PAGE:
            self._page(source, header, (server.uuid, file, begin), came)
            return
        first = int(header["row_begin"])
        require(first == self.part, "{}: row {} of transaction {} after {}", shard, first, count, self.part)
        for change in came.rows:
            self._change(*change)
        for statement in came.statements:
            made = source.transactions[count].statement
            require(made is not None and made.op == statement[0], "{}: another statement", shard)
            assert made is not None
            self._define(made)
        self.part = int(header["row_end"])
        if header["flags"] & Flag.END:
            self.count, self.part = count + 1, 0
            self.location, self.page_rows = (server.uuid, file, int(header["end_offset"])), 0

    def _page(self, source: Source, header: Any, location: tuple[str, str, int], came: Fetched) -> None:
        shard, first = f"s{source.index}", int(header["row_begin"])
        require(not self.part, "{}: a page inside a transaction", shard)
        require(not self.over, "{}: a page after the mark", shard)
        before = self.page_rows if location == self.location else 0
        require(first == before, "{}: page row {} after {} at {}", shard, first, before, location)
        tables = source.tables_at(self.count)
        for name, op, _, row in came.rows:
            require(op == Op.READ and row is not None, "{}: a page has rows that were read", shard)
            assert row is not None
            table = tables.get(name)
            there = None if table is None else table.rows.get(row[KEY])
            require(row == there, "{}: {} was read after transaction {}: {}", shard, row, self.count, there)
            self.tables.setdefault(name, {})[row[KEY]] = row
        for _, _, sql in came.statements:
            mark = SnapshotMark.of_sql(sql)
            require(mark is not None and mark.shard == shard, "{}: {} is not a mark of it", shard, sql)
            assert mark is not None
            self.over = True
            for failed in mark.failed:
                self.trust[failed.partition(".")[2]] = Trust.NOTHING
        self.location, self.page_rows = location, int(header["row_end"])

    def _change(self, name: str, op: int, before: Row | None, after: Row | None) -> None:
        rows = self.tables.setdefault(name, {})
        old = {} if before is None else rows.pop(before[KEY], {})
        if after is not None and op != Op.DELETE:
            row = {**old, **after}
            if "v" in row:
                row[COMPUTED] = computed(row["v"])
            rows[row[KEY]] = row

    def _define(self, statement: Statement) -> None:
        name = statement.table
        rows = self.tables.setdefault(name, {})
        if statement.op == "ALTER":
            added = {statement.column: 0} if statement.column else {}
            self.tables[name] = {key: {**row, **added} for key, row in rows.items()}
            return
        rows.clear()
        if statement.op == "RENAME":
            # The rows of the table that has this name now come if the snapshot is not over with it.
            self.trust[name] = Trust.EXACT if self.reads(name) else Trust.NOTHING

    # ---- the snapshot --------------------------------------------------------------------------------------

    def reads(self, name: str) -> bool:
        """Return whether the snapshot is not done with a table."""
        if not self.text:
            return False
        cursor, full = SnapshotCursor.from_json(self.text), name_text(name_of(name))
        table = cursor.tables.get(full)
        wanted = cursor.wanted is None or full in cursor.wanted
        return wanted and (table is None or not table.done)

    def steered(self, text: str | None) -> None:
        """Note that an operator gave the snapshot another cursor."""
        if self.text and text and _id_of(self.text) != _id_of(text):
            # The one that it knows was stopped before this one began.
            self.steered(None)
        left = {name for name in ("t", "u") if self.reads(name)}
        begun = SnapshotCursor.from_json(self.text).tables if self.text else {}
        self.text = text
        for name in left:
            if not self.reads(name):
                self.trust[name] = Trust.NOTHING
        if text is None:
            return
        self.over = False
        cursor = SnapshotCursor.from_json(text)
        for name in ("t", "u"):
            full = name_text(name_of(name))
            anew = full not in cursor.tables and full not in cursor.where and self.reads(name)
            if anew and (full in begun or name not in left):
                # All of its rows come again.
                self.tables[name] = {}
                self.trust[name] = Trust.EXACT

    def check(self, source: Source) -> None:
        """Require that it has the rows of the source."""
        shard = f"s{source.index}"
        for name, table in source.tables.items():
            trust = self.trust.get(name, Trust.EXACT)
            mine, there = self.tables.get(name, {}), {key: dict(row) for key, row in table.rows.items()}
            if trust is not Trust.NOTHING:
                require(mine == there, "{}.{}: {}", shard, name, _difference(mine, there))


def _id_of(text: str | None) -> str | None:
    """Return which snapshot a text is of; None: of none."""
    return SnapshotCursor.from_json(text).id if text else None


def _difference(mine: dict[int, Row], there: dict[int, Row]) -> str:
    return "; ".join(
        f"row {key} is {mine.get(key)} and not {there.get(key)}"
        for key in sorted({*mine, *there})
        if mine.get(key) != there.get(key)
    )


@dataclass(slots=True)
class Copy:
    """The copies of all shards, by name; and the rows that move between shards as one table."""

    shards: dict[str, ShardCopy]
    #: rows of table `u`, wherever they are; not of who has them from the beginning: shards begin at positions
    #: between which a row may be on its way
    union: dict[int, Row] = field(default_factory=dict)
    follows_moves: bool = True

    def clone(self) -> Copy:
        """Return a copy of it."""
        return Copy(
            {name: each.clone() for name, each in self.shards.items()}, dict(self.union), self.follows_moves
        )

    @classmethod
    def at(cls, positions: dict[str, Position], sources: dict[str, Source], *, has_rows: bool) -> Copy:
        """Return the copy of who begins at a position, and perhaps has the rows that there are."""
        made = cls({})
        for name, position in positions.items():
            source = sources[name]
            server = next(each for each in source.servers if position.is_of(each.uuid))
            copy = ShardCopy(server.count_at(position.file, position.offset), text=position.snapshot)
            copy.location = (server.uuid, position.file, position.offset)
            if has_rows:
                for table, there in source.tables_at(copy.count).items():
                    copy.tables[table] = {key: dict(row) for key, row in there.rows.items()}
                made.follows_moves = False
            copy.over = not has_rows and position.snapshot is None
            if copy.over:
                # It was stopped before anything of it was seen.
                copy.trust = dict.fromkeys(("t", "u"), Trust.NOTHING)
            made.shards[name] = copy
        return made

    def take(self, came: Fetched) -> None:
        """Follow the rows that move between shards, in the order of the group."""
        for name, op, before, after in came.rows:
            if name != "u":
                continue
            old = {} if before is None else self.union.pop(before[KEY], {})
            if after is not None and op != Op.DELETE:
                row = {**old, **after}
                row[COMPUTED] = computed(row["v"]) if "v" in row else row.get(COMPUTED, 0)
                self.union[row[KEY]] = row

    def check(self, sources: dict[str, Source]) -> None:
        """Require that it has the rows of the sources."""
        for name, each in self.shards.items():
            each.check(sources[name])
        there = {key: row for source in sources.values() for key, row in source.tables["u"].rows.items()}
        exact = all(each.trust.get("u", Trust.EXACT) is Trust.EXACT for each in self.shards.values())
        if exact and self.follows_moves:
            keys, mine = sorted(there), sorted(self.union)
            require(mine == keys, "rows of all shards: {} and not {}", mine, keys)
            for key, row in there.items():
                require(
                    self.union[key].get("v") == row["v"], "row {} of all shards is {}", key, self.union[key]
                )
