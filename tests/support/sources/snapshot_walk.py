"""Pages of a real server's table, read by a SELECT of the tests' own, and a copy of them and a stream."""

from __future__ import annotations

import itertools

import pyarrow as pa

from canal_group.binlog.schema.definition import SourceName
from canal_group.binlog.schema.sql import quoted
from canal_group.binlog.server.definitions.dictionary import Dictionary
from canal_group.binlog.server.source import connect, query, server_facts
from canal_group.binlog.snapshot.page_size import PageSize
from canal_group.binlog.snapshot.point_reader import PointReader
from canal_group.binlog.snapshot.ranges import ranges_of
from canal_group.binlog.snapshot.row_order import RowOrder
from canal_group.binlog.snapshot.table_index import TableIndex, selected, shown_literal
from canal_group.binlog.snapshot.table_pages import Selected, TablePages
from canal_group.merge.snapshot.cursor import KeyRange, TableCursor
from canal_group.merge.snapshot.point import span_of
from canal_group.merge.snapshot.steps import EmitPage, PageEmitted, PageRead, ReadPage, StreamRead
from canal_group.merge.snapshot.table_key import TableKey
from canal_group.merge.snapshot.table_rows import placed, touched_by
from canal_group.merge.snapshot.table_snapshot import TableSnapshot
from canal_group.merge.values.chunk import Op
from canal_group.merge.values.header import Flag, HeaderRun
from canal_group.merge.values.position import Position

READS = ("key", "next", "prev", "first", "last")
ID = TableKey(("id",), (pa.int64(),))
COLUMNS = pa.schema([("id", pa.int64()), ("v", pa.utf8())])


class Walk:
    """One table, read as a snapshot reads it.

    Args:
        address: of its server, as an account that may SELECT.
        table: its name in schema `app`.
        page_rows: of each page; pages seem to take as long as they should.
        settled: as for a `PointReader`.
    """

    def __init__(self, address, table="t", page_rows=7, settled=None):
        self.address, self.name = address, SourceName("app", table)
        self.connection = connect(address)
        self.query("SET SESSION time_zone = '+00:00', sql_mode = '', character_set_results = NULL")
        self.query("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        self.facts = server_facts(address, self.connection)
        self.definition = Dictionary(address, self.connection, self.facts).definition(self.name)
        self.order = next(iter(RowOrder.all_of(self.definition)), None)
        self.points = PointReader(address, self.connection, self.facts, settled)
        clock_s = map((0.03).__mul__, itertools.count())
        size = PageSize(page_rows, page_rows)
        self.pages = TablePages(self.select, self.points, self.order, size, lambda: next(clock_s))
        self.page_count = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()

    def position(self, file, offset):
        """Return a position of the server's binlog."""
        return Position(file, offset, server=self.facts.identity)

    def query(self, sql):
        return query(self.address, self.connection, sql)

    def ranges(self, **options):
        index = TableIndex(self.address, self.connection, self.facts, self.name, self.order)
        return ranges_of(index, self.order, **options)

    def select(self, *, where, order, limit):
        """Select rows, and return their keys as literals."""
        texts = ", ".join(f"{selected(column)} AS k{n}" for n, column in enumerate(order.columns))
        names = ", ".join(map(quoted, order.names))
        sql = f"SELECT {texts}, v FROM app.{self.name.table} {order.hint}"
        sql += (
            (f" WHERE {where}" if where else "") + f" ORDER BY {names}" + (f" LIMIT {limit}" if limit else "")
        )
        keys = [
            tuple(shown_literal(column, row[f"k{n}"]) for n, column in enumerate(order.columns))
            for row in self.query(sql)
        ]
        return Selected(keys, keys[-1] if keys else None, len(keys))

    def keys(self, ranges):
        """Return all keys of ranges, by pages, in the order in which they were read."""
        found = []
        for rows in ranges:
            after = rows.after
            while True:
                page = self.pages.read(KeyRange(after, rows.until))
                self.page_count += 1
                found += page.selected.rows
                if page.last is None:
                    break
                after = page.last
        return found

    def reads(self):
        """Return how many rows of indexes the session has read."""
        shown = {
            row["Variable_name"]: int(row["Value"]) for row in self.query("SHOW STATUS LIKE 'Handler_read%'")
        }
        return sum(shown[f"Handler_read_{name}"] for name in READS)


class Copy:
    """A copy of table `app.t (id BIGINT PRIMARY KEY, v)`, made of pages and of a stream's chunks.

    Args:
        walk: reads the table.
        start: where the stream begins.
        point_of: returns the point that a page is said to have; None: its own.
    """

    def __init__(self, walk, start, point_of=None):
        self.walk, self.point_of = walk, point_of or (lambda point: point)
        self.rows, self.pages, self.asked = {}, {}, []
        cursor = TableCursor(walk.order.signature, (KeyRange(),))
        self.snapshot = TableSnapshot(cursor, start, walk.facts.identity, 1, ID.for_server)
        self.position = start
        self.run(self.snapshot.begin())

    def run(self, steps):
        for step in steps:
            if isinstance(step, ReadPage):
                self.asked.append(step)
            elif isinstance(step, EmitPage):
                rows, again = placed(self.pages[step.number], ID, step.touched)
                self.rows |= {row["id"]: row["v"] for row in rows.to_pylist()}
                self.run(self.snapshot.handle(PageEmitted(step.number, again)))

    def read(self):
        """Read the page that was asked for last, and return its rows."""
        step = self.asked.pop()
        with self.walk.points.page() as page:
            rows = self.walk.query("SELECT id, v FROM app.t ORDER BY id")
        columns = {row["id"]: row["v"].decode() if isinstance(row["v"], bytes) else row["v"] for row in rows}
        arrays = [pa.array(list(columns), pa.int64()), pa.array(list(columns.values()), pa.utf8())]
        self.pages[step.number] = pa.RecordBatch.from_arrays(arrays, schema=COLUMNS)
        self.run(self.snapshot.handle(PageRead(step.number, self.point_of(page.point), None)))
        return columns

    def chunk(self, chunk):
        """Apply a chunk of the stream."""
        batches = [each.rows for each in chunk.tables if each.name.table == "t"]
        for batch in batches:
            for row in batch.to_pylist():
                if row["_op"] != Op.INSERT:
                    self.rows.pop(row["before"]["id"], None)
                if row["_op"] != Op.DELETE:
                    self.rows[row["after"]["id"]] = row["after"]["v"]
        boundary = None
        if chunk.headers["flags"][-1] & Flag.END:
            header = chunk.headers[-1]
            self.position = self.walk.position(chunk.names[header["file"]], int(header["end_offset"]))
            boundary = self.position
        span = span_of(HeaderRun(chunk.headers, chunk.names))
        self.run(self.snapshot.handle(StreamRead(span, touched_by(batches, ID, frozenset()), boundary)))
