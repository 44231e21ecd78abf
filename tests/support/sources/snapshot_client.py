"""A client of one shard whose tables it has from a snapshot: what it was handed out, and where that is."""

from __future__ import annotations

from collections import defaultdict
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

from canal_group.actors.shard.shard import Shard
from canal_group.merge.snapshot.cursor import SnapshotCursor
from canal_group.merge.values.chunk import ABSENT, MOVES_ROWS, Op
from canal_group.merge.values.header import Flag
from canal_group.merge.values.lane import before_first
from canal_group.merge.values.marks.snapshot_mark import OVER, SnapshotMark
from canal_group.merge.values.position import GroupPosition, Position
from canal_group.merge.values.progress import Progress

EPOCH = 1


@dataclass
class Copy:
    """The tables as a client has them at a position."""

    position: Position
    #: table -> id -> row
    rows: dict[str, dict[int, dict[str, Any]]] = field(default_factory=dict)
    #: file, offset, first ordinal and ids of each page
    pages: list[tuple[str, int, int, tuple[int, ...]]] = field(default_factory=list)
    mark: SnapshotMark | None = None
    #: the schema history, as the live lane of the shard would have stored it
    history: str | None = None


class SnapshotClient:
    """Reads a lane of a shard.

    Args:
        shard: the shard; this is its only lane.
        copy: what the client has, and where it begins.
        added: column -> value that old rows have in it when an ALTER has added it.
    """

    def __init__(self, shard: Shard, copy: Copy, added: dict[str, Any] | None = None) -> None:
        self.shard, self.copy = shard, copy
        self.added = added or {}
        #: the sequence that was handed out last
        self.sequence = -1
        self.generation = before_first(1) + 1
        shard.open(EPOCH, self.generation, copy.position, copy.history)

    def reopen(self, **changes: Any) -> None:
        """Go on at its position under a new generation, with another cursor of the snapshot."""
        self._reopen(replace(SnapshotCursor.from_json(self.copy.position.snapshot or ""), **changes))

    def begin_again(self, number: int) -> None:
        """Have all tables read once more, by a snapshot of another number."""
        self.copy.mark = None
        self._reopen(SnapshotCursor(f"app-1-{number}"))

    def _reopen(self, cursor: SnapshotCursor) -> None:
        self.copy.position = replace(self.copy.position, snapshot=cursor.to_json())
        self.generation, self.sequence = self.generation + 1, -1
        self.shard.open(EPOCH, self.generation, self.copy.position, self.copy.history)

    @property
    def lane(self) -> Any:
        """The lane that it reads."""
        return self.shard._lane(EPOCH, self.generation)

    def saved(self) -> Copy:
        """Return a copy of the client's rows."""
        return deepcopy(self.copy)

    def read(self, wait_s: float = 0.05, items_max: int = 100_000, free: bool = True) -> int:
        """Read what there is; return how many headers."""
        done = self.sequence if free else -1
        run = self.shard.poll(EPOCH, self.generation, items_max, wait_s, done).run
        news = self.lane.source.news()
        if news is not None:
            self.copy.history = news.text if news.whole else (self.copy.history or "") + news.text
        if run is None:
            return 0
        for stored in self.lane.held.intake.ring.fetch(
            int(run.headers["sequence"][0]), int(run.headers["sequence"][-1]) + 1
        ):
            self._apply(stored.chunk, range(stored.header_begin, stored.header_end))
        self.sequence = int(run.headers["sequence"][-1])
        at = Progress.at(GroupPosition({"s1": self.copy.position}))
        after = at.past(run.headers, run.names, ("s1",), (self.lane.held.intake.server,)).ack.shards["s1"]
        texts = [self.copy.position.snapshot, *(text for _, text in sorted(run.snapshots.items()))]
        over = texts[-1] is not None and texts[-1].startswith(OVER)
        self.copy.position = replace(after, snapshot=None if over else texts[-1])
        return len(run)

    def read_until(self, condition: Any, what: str, polls: int = 1_000, free: bool = True) -> None:
        """Read until a condition holds."""
        for _ in range(polls):
            self.read(free=free)
            if condition():
                return
        raise AssertionError(f"not within {polls} polls: {what}; {self.lane.describe()}")

    def _apply(self, chunk: Any, headers: range) -> None:
        said_in: dict[int, list[Any]] = defaultdict(list)
        for said in chunk.statements.to_pylist() if chunk.statements is not None else ():
            said_in[said["_header"]].append(said)
        rows_in: dict[int, list[tuple[str, Any]]] = defaultdict(list)
        for table in chunk.tables:
            self.copy.rows.setdefault(table.name.table, {})
            for row in table.rows.to_pylist():
                rows_in[row["_header"]].append((table.name.table, row))
        for index in headers:
            for said in said_in[index]:
                self._say(said)
            ids = [self._change(table, row) for table, row in rows_in[index]]
            header = chunk.headers[index]
            if header["flags"] & Flag.PAGE:
                where = chunk.names[header["file"]], int(header["end_offset"]), int(header["row_begin"])
                self.copy.pages.append((*where, tuple(ids)))

    def _change(self, table: str, row: Any) -> Any:
        rows, after, before = self.copy.rows[table], row["after"], row["before"]
        old = rows.pop(before["id"], None) if before is not None else None
        if row["_op"] == Op.INSERT:
            assert after["id"] not in rows, "no row is read that is inserted only later"
        if row["_op"] != Op.DELETE:
            rows[after["id"]] = laid(old, row)
        return (after or before)["id"]

    def _say(self, said: Any) -> None:
        self.copy.mark = SnapshotMark.of_sql(said["sql"]) or self.copy.mark
        moved = [each["table"] for each in said["tables"] if each["role"] == MOVES_ROWS]
        for table in [said["table"]] if said["op"] == "TRUNCATE" else moved:
            self.copy.rows[table] = {}
        if said["op"] == "ALTER":
            for row in self.copy.rows.get(said["table"], {}).values():
                for name, value in self.added.items():
                    row.setdefault(name, value)


def laid(old: dict[str, Any] | None, row: dict[str, Any]) -> dict[str, Any]:
    """Return an image after, laid over what it lacks; columns of these tests are never null."""
    after = row["after"]
    if old is None or ABSENT["after"] not in row:
        return after
    return {name: old.get(name) if value is None else value for name, value in after.items()}
