"""A connection by which pages are read of a simulated source, as `PageConnection` is of a real one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from canal_group.actors.snapshot.page_chunk import read_rows
from canal_group.actors.snapshot.page_connection import Hidden, TableRefused
from canal_group.actors.snapshot.work import SelectedPage, TablePlan
from canal_group.binlog.schema.ancestry import Ancestry
from canal_group.binlog.server.source import SourceAddress
from canal_group.binlog.snapshot.page_reader import TableAltered
from canal_group.merge.errors import SourceUnavailable
from canal_group.merge.snapshot.cursor import KeyRange
from canal_group.merge.snapshot.key import Key
from canal_group.merge.snapshot.point import Point
from canal_group.merge.snapshot.steps import ReadPage
from canal_group.merge.snapshot.table_key import TableKey
from canal_group.merge.values.chunk import TableName, TableRows
from simulation.loop import MS
from simulation.snapshots.server import Server
from simulation.snapshots.table import COMPUTED, KEY, SCHEMA, Table, name_of, schema_of
from simulation.threads import running

if TYPE_CHECKING:
    from simulation.snapshots.shard import Shard

#: longest pause between two statements
STATEMENT_MAX_US = 4 * MS
#: rows of a page
PAGE_ROWS = 3
#: what a server says when it does not answer, and when a table is not that of the snapshot any more
_LOST, _DEFINITION_CHANGED = 2013, 1412


@dataclass(frozen=True, slots=True)
class Readable:
    """A table as it is read."""

    name: TableName
    definition: Table
    #: rows with a greater key only
    above: int

    @property
    def signature(self) -> str:
        """What its keys mean."""
        return self.definition.signature

    @property
    def key(self) -> TableKey:
        """The columns by which its rows are told apart."""
        return TableKey((KEY,), (pa.int64(),)) if self.signature else TableKey((), ())

    def takes(self, rows: KeyRange | Sequence[Key]) -> bool:
        """Return whether rows are named by keys of this table."""
        keys = (rows.after, rows.until) if isinstance(rows, KeyRange) else rows
        return all(key is None or len(key) == len(self.key.columns) for key in keys)


class Pages:
    """One connection, see `PageConnection`; of the thread's process.

    Args:
        address: names the shard.
        settled: not used: its servers have GTIDs.
        rows_max: is far above what a page has here.
    """

    def __init__(self, address: SourceAddress, settled: None, rows_max: int) -> None:  # noqa: ARG002  one source
        process: Any = running()._process
        self._process: Shard = process
        self._source, self._loop = self._process.source, self._process.loop
        self.open, self._interrupted = True, False
        behind = self._loop.chance.random() < self._process.trouble.replica
        self._server: Server = self._source.replica if behind else self._source.active
        self._pause()

    def interrupt(self) -> None:
        """End what waits for the server."""
        self._interrupted = True

    def close(self) -> None:
        """Close it."""
        self.open = False

    def _lost(self, code: int = _LOST) -> SourceUnavailable:
        self.open = self.open and code != _LOST
        return SourceUnavailable("The server does not answer.", code=code)

    def _pause(self) -> None:
        """Wait for the server.

        Raises:
            SourceUnavailable: it does not answer.
        """
        chance, trouble = self._loop.chance, self._process.trouble
        us = chance.randrange(1, STATEMENT_MAX_US)
        if chance.random() < trouble.slow:
            us *= 60
        self._process.host.event().wait(us / 1e6)
        failed_over = self._server is not self._source.active
        if (
            self._interrupted
            or self._server.lost
            or self._source.away
            or chance.random() < trouble.failing
            or (failed_over and chance.random() < 0.3)
        ):
            raise self._lost()

    # ---- questions ---------------------------------------------------------------------------------------

    def listed(self) -> list[TableName]:
        """Return the names of all tables."""
        self._pause()
        return [name_of(name) for name in self._server.tables]

    def estimates(self) -> dict[TableName, int]:
        """Return about how many rows tables have."""
        return {}

    def excess(self, limits: Mapping[str, float]) -> str | None:  # noqa: ARG002  it has all of them
        """Return whether the server does more than it may."""
        busy = self._loop.chance.random() < self._process.trouble.busy
        return "it runs 500 threads" if busy else None

    def readable(
        self,
        name: TableName,
        consumers: TableName,  # noqa: ARG002  nothing is renamed
        ancestry: Ancestry | None,  # noqa: ARG002  no rule protects a column
        where: str,
        hidden: Hidden,  # noqa: ARG002  as above
    ) -> Readable:
        """Return how a table is read."""
        self._pause()
        if self._source.shape.vendor == "bare":
            raise TableRefused("the server has no GTIDs, so nothing proves what is visible")
        above = re.fullmatch(rf"{KEY} > (\d+)", where)
        return Readable(name, self._table(name), int(above[1]) if above else 0)

    def _table(self, name: TableName) -> Table:
        table = self._server.tables.get(name.table)
        if name.schema != SCHEMA or table is None:
            raise TableRefused(f"there is no table {name}")
        return table

    def plan(self, table: Readable) -> TablePlan:
        """Return how the snapshot of a table begins."""
        self._pause()
        ranges = [KeyRange()]
        rows = table.definition.rows
        if table.signature and rows:
            middle = sorted(self._loop.chance.sample(sorted(rows), min(len(rows), 2)))
            bounds = [None, *((str(key),) for key in middle), None]
            ranges = [KeyRange(*pair) for pair in pairwise(bounds)]
        return TablePlan(table.signature, table.key, frozenset({COMPUTED}), tuple(ranges))

    # ---- pages -------------------------------------------------------------------------------------------

    def page(self, table: Readable, step: ReadPage) -> SelectedPage:
        """Read a page: what is executed, a snapshot, the rows, what is written."""
        server, exact = self._server, self._source.shape.vendor == "mariadb"
        name = table.name
        self._pause()
        executed = server.executed
        self._pause()
        seen, exactly_at = server.tables, server.visible_end
        self._pause()
        while any(
            each.statement is not None and each.statement.table == name.table for each in server.pending
        ):
            # It has the metadata lock.
            self._pause()
        now = self._table(name)
        if seen.get(name.table) is None or now.since != seen[name.table].since:
            raise self._lost(_DEFINITION_CHANGED)
        if now.columns != table.definition.columns:
            self.open = False
            raise TableAltered("its columns are others")
        with self._used(name.table):
            self._pause()
            rows, last = _selected(seen[name.table], step, table.above)
            schema = schema_of(now.columns, now.signature)
            columns = [pa.array([row[column] for row in rows], pa.int64()) for column in now.columns]
            batch = pa.RecordBatch.from_arrays(columns, names=list(now.columns))
            self._pause()
            if exact:
                point = Point(server.uuid, exactly_at, exactly_at)
            else:
                point = Point(server.uuid, executed, server.end(len(server.log)))
        self._process.told.pages += 1
        self._process.trouble.in_flight(self._process, name.table)
        keys = [row[KEY] for row in rows]
        self._process.note("{} rows {} of {} at {} to {}", name.table, keys, step.rows, point.low, point.high)
        is_open = isinstance(step.rows, KeyRange) and step.rows.until is None
        end = (str(max(seen[name.table].rows)),) if is_open and last is not None else None
        return SelectedPage(point, TableRows(name, read_rows(schema, batch), name), last, end)

    @contextmanager
    def _used(self, table: str) -> Iterator[None]:
        """Hold a table's metadata lock."""
        reads = self._server.reads
        reads[table] += 1
        try:
            yield
        finally:
            reads[table] -= 1


def _selected(table: Table, step: ReadPage, above: int) -> tuple[list[Any], tuple[str, ...] | None]:
    """Return the rows of a page, and its last key; None: it ends its range."""
    keys = sorted(key for key in table.rows if key > above)
    if not isinstance(step.rows, KeyRange):
        wanted = {int(key[0]) for key in step.rows}
        return [table.rows[key] for key in keys if key in wanted], None
    after, until = (None if key is None else int(key[0]) for key in (step.rows.after, step.rows.until))
    within = [key for key in keys if (after is None or key > after) and (until is None or key <= until)]
    if not table.signature:
        return [table.rows[key] for key in within], None
    limit = max(1, PAGE_ROWS >> step.attempt)
    chosen = within[:limit]
    return [table.rows[key] for key in chosen], (str(chosen[-1]),) if len(chosen) == limit else None
