"""An intake into whose ring pages of a snapshot go: between transactions, with cursors, late for nobody."""

from __future__ import annotations

import queue
import threading

import numpy as np
import pyarrow as pa
from support.defaults import ring_of

from canal_group.actors.shard.intake import Intake
from canal_group.actors.snapshot.page_folder import PageFolder
from canal_group.actors.snapshot.shard_snapshot import SelectedPage, ShardSnapshot, TablePlan
from canal_group.actors.store.ring import RingStore
from canal_group.binlog.columns.read_counts import ReadCounts
from canal_group.merge.snapshot.cursor import KeyRange, SnapshotCursor
from canal_group.merge.snapshot.point import LogOffset, Point
from canal_group.merge.snapshot.steps import ReadPage
from canal_group.merge.snapshot.table_key import TableKey
from canal_group.merge.values.chunk import Chunk, Op, TableName, TableRows, rows_schema
from canal_group.merge.values.header import HEADER, WHOLE, Flag
from canal_group.merge.values.position import Position

NAME, FILE = TableName("app", "t"), "bin.000001"
FIELDS = [pa.field("id", pa.int64()), pa.field("v", pa.utf8())]
PLAN = TablePlan("id", TableKey(("id",), (pa.int64(),)), frozenset(), (KeyRange(),))


def table(op, *rows):
    """Return rows of the table, which a rule will leave without its key."""
    image = pa.struct(FIELDS)
    arrays = [
        pa.array(np.zeros(len(rows), np.int32)),
        pa.array(range(len(rows)), pa.int64()),
        pa.array([op] * len(rows), pa.uint8()),
        pa.nulls(len(rows), image),
        pa.array([{"id": key, "v": value} for key, value in rows], image),
    ]
    return TableRows(NAME, pa.RecordBatch.from_arrays(arrays, schema=rows_schema(FIELDS, b'["id"]')), NAME)


def chunk(begin, end, commit_us, *rows):
    headers = np.zeros(1, HEADER)
    headers["flags"], headers["rows"], headers["row_end"], headers["gtid_source"] = WHOLE, 1, 1, 1
    headers["begin_offset"], headers["end_offset"], headers["commit_us"] = begin, end, commit_us
    return Chunk(headers, (FILE, ""), (table(Op.INSERT, *rows),))


class Reader:
    """A reader that opens its stream, and reads nothing by itself."""

    server, position, shares_dump, counts, archive_state = "s", None, False, ReadCounts(), None

    def __init__(self, listener):
        self.listener, self.stopped, self.ready = listener, threading.Event(), threading.Event()

    def source_now_us(self):
        return None

    def run(self, _start):
        self.listener.opened(Position(FILE, 100, server="s"))
        # From here on the test calls the listener instead.
        self.ready.set()
        self.stopped.wait()

    def stop(self):
        self.stopped.set()


def without_key(read):
    """A rule that drops the key."""
    tables = []
    for each in read.tables:
        rows = each.rows
        image = pa.StructArray.from_arrays([rows.column("after").field("v")], fields=FIELDS[1:])
        columns = [*rows.columns[:3], pa.nulls(rows.num_rows, image.type), image]
        schema = rows_schema(FIELDS[1:], b"[]")
        tables.append(TableRows(NAME, pa.RecordBatch.from_arrays(columns, schema=schema), NAME))
    return Chunk(read.headers, read.names, tuple(tables))


def opened(**options):
    """Return a ring, its intake and a function that waits for its snapshot."""
    snapshots = queue.SimpleQueue()

    def make(put, server):
        snapshot = ShardSnapshot({NAME: None}, server, 1, put)
        snapshot.planned(snapshot.take(0), PLAN)
        snapshots.put(snapshot)
        return snapshot

    ring = RingStore(ring_of("items", 16, 1))
    intake = Intake("s0", ring, Reader, None, make_snapshot=make, **options)
    assert intake._reader.ready.wait(10)
    return ring, intake, lambda: snapshots.get(timeout=10)


def test_pages_enter_where_the_stream_is():
    ring, intake, made = opened(process=without_key)
    snapshot = made()
    work = snapshot.take(10)
    assert isinstance(work.step, ReadPage)
    at = LogOffset(FILE, 150)
    # The stream is not as far as the page yet. It brings row 2, which is newer than the page's.
    page = SelectedPage(Point("s", LogOffset(FILE, 100), at), table(Op.READ, (1, "a"), (2, "b")), None)
    snapshot.page_read(work, page)
    assert ring.cursors[2] == -1
    intake.chunk_read(chunk(100, 150, 7, (2, "new")))
    assert ring.cursors[2] == 0
    intake.caught_up(9)
    intake.reached(Position(FILE, 150, server="s"))
    run = ring.get_within(0)
    assert run.headers["flags"].tolist() == [WHOLE, WHOLE | Flag.PAGE]
    assert run.headers["commit_us"].tolist() == [7, 7]
    assert run.headers["end_offset"].tolist() == [150, 150]
    assert {
        sequence: SnapshotCursor.from_json(text).tables[str(NAME)].done
        for sequence, text in run.snapshots.items()
    } == {1: True}
    (stored,) = ring.fetch(1, 2)
    assert stored.chunk.tables[0].rows.column("after").to_pylist() == [{"v": "a"}]
    # The page came after the low watermark, which holds all the same.
    assert intake.low_watermark_us() == 9
    intake.close()
    assert snapshot.ended


def test_a_stream_that_only_moves_lets_a_page_enter():
    """A page's end may be the beginning of a new file, where no transaction is."""
    ring, intake, made = opened()
    snapshot = made()
    at = LogOffset("bin.000002", 4)
    snapshot.page_read(snapshot.take(10), SelectedPage(Point("s", at, at), table(Op.READ, (1, "a")), None))
    assert ring.cursors[2] == -1
    intake.reached(Position("bin.000002", 4, server="s"))
    run = ring.get_within(0)
    assert [(run.names[header["file"]], int(header["end_offset"])) for header in run.headers] == [
        ("bin.000002", 4)
    ]
    intake.close()


def test_pages_enter_again_where_they_did(tmp_path):
    """New ones come after them, and only then is anything read."""
    first, intake, made = opened(pages=PageFolder(tmp_path))
    snapshot = made()
    work, at = snapshot.take(10), LogOffset(FILE, 150)
    intake.chunk_read(chunk(100, 150, 7, (2, "new")))
    intake.reached(Position(FILE, 150, server="s"))
    page = table(Op.READ, (1, "a"), (3, "c"), (4, "d"))
    snapshot.page_read(work, SelectedPage(Point("s", at, at), page, ("4",)))
    entered = first.get_within(0).headers
    intake.close()
    ring, intake, made = opened(pages=PageFolder(tmp_path))
    intake.chunk_read(chunk(100, 150, 7, (2, "new")))
    intake.reached(Position(FILE, 150, server="s"))
    again = ring.get_within(0)
    assert again.headers.tolist() == entered.tolist()
    assert again.snapshots.keys() == {1}
    snapshot = made()
    snapshot.page_read(snapshot.take(10), SelectedPage(Point("s", at, at), table(Op.READ, (5, "e")), None))
    (header,) = ring.get_within(0).headers
    assert (header["end_offset"], header["row_begin"], header["row_end"]) == (150, 3, 4)
    intake.close()
