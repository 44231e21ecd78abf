"""An intake into whose ring pages of a snapshot go: between transactions, with cursors, late for nobody."""

from __future__ import annotations

import contextlib
import queue
import threading
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from support.deadline import await_true
from support.defaults import ring_of

from canal_group.actors.process.host import OS_HOST
from canal_group.actors.shard.intake import Intake
from canal_group.actors.snapshot import page_writer
from canal_group.actors.snapshot.lane_snapshot import SnapshotParts
from canal_group.actors.snapshot.page_folder import PageFolder
from canal_group.actors.snapshot.work import SelectedPage, TablePlan
from canal_group.actors.store.ring import RingStore
from canal_group.binlog.archive.forms.key import NO_KEYS
from canal_group.binlog.columns.read_counts import ReadCounts
from canal_group.merge.errors import DataError, ShardUnavailable
from canal_group.merge.snapshot.cursor import KeyRange, SnapshotCursor
from canal_group.merge.snapshot.point import LogOffset, Point
from canal_group.merge.snapshot.table_key import TableKey
from canal_group.merge.values.chunk import (
    ABSENT,
    Chunk,
    Op,
    TableName,
    TableRows,
    partial_schema,
    rows_schema,
)
from canal_group.merge.values.header import HEADER, WHOLE, Flag
from canal_group.merge.values.marks.snapshot_mark import OVER, SnapshotMark
from canal_group.merge.values.position import Position

NAME, FILE = TableName("app", "t"), "bin.000001"
FIELDS = [pa.field("id", pa.int64()), pa.field("v", pa.utf8())]
START, CURSOR = Position(FILE, 100, server="s"), SnapshotCursor("app-1-1", wanted=("app.t",))
PLAN = TablePlan("id", TableKey(("id",), (pa.int64(),)), frozenset(), (KeyRange(),))


def table(op, *rows, lacks=None, headers=None, was=None):
    """Return rows of the table, which a rule will leave without its key; images may lack columns, or have had
    another key.
    """
    image, count = pa.struct(FIELDS), len(rows)
    arrays = [
        pa.array(np.zeros(count, np.int32) if headers is None else np.array(headers, np.int32)),
        pa.array(range(count), pa.int64()),
        pa.array([op] * count, pa.uint8()),
        pa.array([None if was is None else {"id": was, "v": None}] * count, image),
        pa.array([{"id": key, "v": value} for key, value in rows], image),
    ]
    schema = rows_schema(FIELDS, b'["id"]')
    if lacks is not None:
        schema = partial_schema(schema)
        arrays += [pa.array([lacks] * count, schema.field(name).type) for name in ABSENT.values()]
    return TableRows(NAME, pa.RecordBatch.from_arrays(arrays, schema=schema), NAME)


def chunk(begin, end, commit_us, *rows, lacks=None, was=None):
    """Return a chunk with a transaction for each row, 50 bytes each from an offset on."""
    headers = np.zeros(len(rows), HEADER)
    headers["flags"], headers["rows"], headers["row_end"], headers["gtid_source"] = WHOLE, 1, 1, 1
    headers["begin_offset"] = begin + 50 * np.arange(len(rows))
    headers["end_offset"], headers["commit_us"] = headers["begin_offset"] + 50, commit_us
    op = Op.INSERT if was is None else Op.UPDATE
    found = table(op, *rows, lacks=lacks, headers=range(len(rows)), was=was)
    return Chunk(headers, (FILE, ""), (found,))


class Reader:
    """A reader that opens its stream, and reads nothing by itself."""

    server, position, shares_dump, counts, archive_state = "s", None, False, ReadCounts(), None
    reading, created = None, {FILE: 5}

    def __init__(self, listener):
        self.listener, self.stopped, self.ready = listener, threading.Event(), threading.Event()

    def source_now_us(self):
        return None

    def run(self, start):
        self.listener.opened(start)
        try:
            self.listener.connected(0, "10.11")
        except DataError:
            self.ready.set()
            raise
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
    return replace(read, tables=tuple(tables))


class Opened:
    """An intake with a snapshot, whose pages the test reads."""

    def __init__(self, folder, start=START, cursor=CURSOR, **options):
        self.snapshot, self.stops = None, 0
        self.ring = RingStore(ring_of("items", 16, 1))
        parts = SnapshotParts("s0", cursor, start, folder, NO_KEYS, "", 1, self.begin, OS_HOST)
        self.intake = Intake("s0", self.ring, Reader, start, snapshot=parts, **options)
        assert self.intake._reader.ready.wait(10)

    def begin(self, snapshot, _cursor):
        self.snapshot = snapshot
        snapshot.planned(snapshot.take(0), PLAN)
        return self

    def stop(self):
        self.stops += 1

    def describe(self):
        return {"rows_estimated": 7, "left_s": 1, "waits_for": "a page"}

    def read(self, *pages, at, last=None):
        """Read the page that is asked for."""
        point = LogOffset(*at) if isinstance(at, tuple) else LogOffset(FILE, at)
        page = table(Op.READ, *pages)
        self.snapshot.page_read(self.snapshot.take(10), SelectedPage(Point("s", point, point), page, last))

    def stream(self, begin, end, *rows, tell=True, lacks=None, was=None):
        self.intake.chunk_read(chunk(begin, end, 7, *rows, lacks=lacks, was=was))
        if tell:
            self.intake.reached(Position(FILE, end, server="s"))

    def got(self):
        """Return the headers that are in the ring, when all of them are on the disk."""
        await_true(lambda: not self.ring.describe()["held"], "pages are written")
        return self.ring.get_within(0)

    def entered(self):
        """Return offset, first ordinal and the tables of the cursor of each header."""
        run = self.got()
        return [
            (int(h["end_offset"]), int(h["row_begin"]), tables_of(run.snapshots.get(int(h["sequence"]))))
            for h in run.headers
        ]


def tables_of(text):
    if text is None or text.startswith(OVER):
        return text and OVER
    return sorted(SnapshotCursor.from_json(text).settled().tables)


def test_pages_enter_where_the_stream_is(tmp_path):
    lane = Opened(tmp_path, process=without_key)
    # The stream is not as far as the page yet. It brings row 2, which is newer than the page's.
    page = SelectedPage(
        Point("s", LogOffset(FILE, 100), LogOffset(FILE, 150)), table(Op.READ, (1, "a"), (2, "b")), None
    )
    lane.snapshot.page_read(lane.snapshot.take(10), page)
    assert lane.ring.cursors[2] == -1
    lane.stream(100, 150, (2, "new"), tell=False)
    assert lane.ring.cursors[2] == 0
    lane.intake.caught_up(9)
    lane.intake.reached(Position(FILE, 150, server="s"))
    run = lane.got()
    assert run.headers["flags"].tolist() == [WHOLE, WHOLE | Flag.PAGE, WHOLE | Flag.PAGE]
    assert run.headers["commit_us"].tolist() == [7, 7, 7]
    assert run.headers["end_offset"].tolist() == [150, 150, 150]
    assert {number: tables_of(text) for number, text in run.snapshots.items()} == {1: ["app.t"], 2: OVER}
    page, mark = (lane.ring.fetch(number, number + 1)[0].chunk for number in (1, 2))
    assert page.tables[0].rows.column("after").to_pylist() == [{"v": "a"}]
    assert SnapshotMark.of_sql(mark.statements.column("sql")[0].as_py()).client_id == "app"
    # The page came after the low watermark, which holds all the same.
    assert lane.intake.low_watermark_us() == 9
    assert lane.intake.describe()["snapshot"] == {
        "id": CURSOR.id,
        "tables": 1,
        "done": 1,
        "failed": {},
        "failed_tables": 0,
        "rows": 1,
        "rows_estimated": 7,
        "left_s": 1,
        "paused": False,
        "over": True,
        "waits_for": "a page",
    }
    lane.intake.close()
    assert lane.stops == 1


def test_a_stream_that_only_moves_lets_a_page_enter(tmp_path):
    """A page's end may be the beginning of a new file, where no transaction is."""
    lane = Opened(tmp_path)
    lane.read((1, "a"), at=("bin.000002", 4))
    assert lane.ring.cursors[2] == -1
    lane.intake.reached(Position("bin.000002", 4, server="s"))
    assert lane.entered() == [(4, 0, ["app.t"]), (4, 1, OVER)]
    lane.intake.close()


def test_a_page_before_the_first_transaction_has_the_time_of_its_file(tmp_path):
    lane = Opened(tmp_path)
    lane.read((1, "a"), at=100)
    assert lane.got().headers["commit_us"].tolist() == [5_000_000, 5_000_000]
    lane.intake.close()


def test_a_page_that_waits_is_read_again_after_another_connection(tmp_path):
    """The server may have been restored meanwhile, and its binlog with it."""
    lane = Opened(tmp_path)
    lane.read((1, "a"), at=150)
    lane.intake.connected(0, "10.11")
    lane.stream(100, 150, (2, "new"))
    assert lane.entered() == [(150, 0, None)]
    lane.read((1, "b"), at=150)
    assert lane.entered() == [(150, 0, ["app.t"]), (150, 1, OVER)]
    lane.intake.close()


@pytest.fixture
def begun(tmp_path):
    """A page at 150 that entered, and the text of the cursor after it."""
    lane = Opened(tmp_path)
    lane.stream(100, 150, (2, "new"), tell=False)
    lane.intake.reached(Position(FILE, 150, server="s"))
    lane.read((1, "a"), (3, "c"), (4, "d"), at=150, last=("4",))
    run = lane.got()
    assert run.headers["row_end"].tolist() == [1, 3]
    lane.intake.close()
    return run


@pytest.fixture
def one_by_one(monkeypatch):
    """Each page is a file of its own."""
    monkeypatch.setattr(page_writer, "PAGES_MAX", 1)


def test_pages_enter_again_where_they_did(tmp_path, begun):
    """New ones come after them, and only then is anything read."""
    lane = Opened(tmp_path)
    assert lane.snapshot is None
    lane.stream(100, 150, (2, "new"))
    again = lane.got()
    assert again.headers.tolist() == begun.headers.tolist()
    assert again.snapshots == begun.snapshots
    lane.read((5, "e"), at=150)
    assert lane.entered() == [(150, 3, ["app.t"]), (150, 4, OVER)]
    lane.intake.close()


def test_a_cursor_names_the_lane_that_selected_the_last_page(tmp_path, begun):
    lane = Opened(tmp_path)
    lane.stream(100, 150, (2, "new"))
    lane.read((5, "e"), at=150, last=("5",))
    texts = [*begun.snapshots.values(), *lane.got().snapshots.values()]
    first, again, new = (SnapshotCursor.from_json(text).selected_by for text in texts)
    assert first == again
    assert len({"", first, new}) == 3
    lane.intake.close()


def test_no_page_enters_again_that_a_position_has(tmp_path, begun, one_by_one):
    lane = Opened(tmp_path, Position(FILE, 150, page_rows=3, server="s"))
    lane.read((5, "e"), at=150)
    assert lane.entered() == [(150, 3, ["app.t"]), (150, 4, OVER)]
    assert [each.name[-10:] for each in sorted(tmp_path.rglob("*.page"))] == ["00003.page", "00004.page"]
    lane.intake.close()


@pytest.mark.parametrize("several", [False, True])
def test_a_row_that_may_have_moved_beside_pages_that_enter_again(tmp_path, begun, several):
    """Nobody looks at rows then: the table begins anew, also where a page enters amid a chunk."""
    lane, moves = Opened(tmp_path), b"\2"
    if several:
        lane.stream(100, 150, (2, "new"), (9, None), lacks=moves)
        expected = [(150, 0, None), (150, 0, ["app.t"]), (200, 0, [])]
    else:
        lane.stream(100, 150, (2, "new"), tell=False)
        lane.stream(150, 200, (9, None), lacks=moves)
        expected = [(150, 0, None), (150, 0, ["app.t"]), (200, 0, [])]
    assert lane.entered() == expected
    assert lane.snapshot.take(10).step.rows == KeyRange()
    lane.intake.close()


@pytest.mark.parametrize("there", [True, False])
def test_pages_after_a_row_that_may_have_moved_enter_a_third_time(tmp_path, begun, one_by_one, there):
    """1. A row moves where rows are looked at, and a page follows. 2. It moves again beside pages that enter
    again. 3. Who goes on after it has the page; but if that is gone, all of the table is read.
    """

    def moved():
        lane = Opened(tmp_path)
        lane.stream(100, 150, (2, "new"), tell=False)
        lane.stream(150, 200, (9, None), lacks=b"\2")
        return lane

    lane = moved()
    lane.read((5, "e"), (8, "h"), at=200, last=("8",))
    first = lane.entered()
    assert first[-1] == (200, 0, ["app.t"])
    lane.intake.close()
    lane = moved()
    assert lane.got().headers["end_offset"].tolist() == [150, 150, 200, 200]
    text = lane.ring.fetch(2, 3)[0].chunk.snapshot
    assert tables_of(text) == []
    lane.intake.close()
    if not there:
        for each in tmp_path.rglob("*.page"):
            each.unlink()
    lane = Opened(tmp_path, Position(FILE, 200, server="s"), SnapshotCursor.from_json(text))
    if there:
        assert lane.entered() == first[-1:]
        works = [lane.snapshot.take(0), lane.snapshot.take(0)]
        assert KeyRange(("8",), None) in [work.step.rows for work in works if work is not None]
    else:
        assert lane.snapshot.take(10).step.rows == KeyRange()
    lane.intake.close()


def test_pages_enter_again_after_each_of_the_cursors_before_them(tmp_path, begun):
    """Between two pages each chunk of which rows moved has a cursor of its own."""
    lane = Opened(tmp_path, Position(FILE, 150, page_rows=3, server="s"))
    for begin, key in ((150, 1), (200, 2), (250, 3)):
        lane.stream(begin, begin + 50, (key, None), lacks=b"\2", was=key + 20)
    lane.read((5, "e"), at=300, last=("5",))
    run = lane.got()
    lane.intake.close()
    texts = list(run.snapshots.values())
    assert len({*texts}) == 4
    for number, text in enumerate(texts[:3]):
        lane = Opened(tmp_path, Position(FILE, 200 + 50 * number, server="s"), SnapshotCursor.from_json(text))
        lane.intake.reached(Position(FILE, 300, server="s"))
        assert lane.got().snapshots[0] == texts[3]
        lane.intake.close()


def test_pages_of_another_server_are_read_anew(tmp_path, begun):
    lane = Opened(tmp_path, Position("other.000001", 150, server="x"))
    assert lane.snapshot is None
    lane.stream(100, 150, (2, "new"))
    assert lane.entered() == [(150, 0, None)]
    assert not list(tmp_path.rglob("*.page"))
    assert lane.snapshot.take(10).step.rows == KeyRange()
    lane.intake.close()


@pytest.mark.parametrize("steered", ["a table was added", "the table is read again"])
def test_pages_from_before_another_cursor_are_read_anew(tmp_path, steered):
    """They say of tables what an operator has changed since."""
    lane = Opened(tmp_path)
    lane.read((1, "a"), at=100, last=("1",))
    lane.read((2, "b"), at=100)
    assert lane.entered() == [(100, 0, ["app.t"]), (100, 1, ["app.t"]), (100, 2, OVER)]
    text = lane.ring.fetch(0, 1)[0].chunk.snapshot
    lane.intake.close()
    at, cursor = replace(START, page_rows=1), SnapshotCursor.from_json(text)
    changed = {"a table was added": {"wanted": ("app.t", "app.u")}, "the table is read again": {"tables": {}}}
    lane = Opened(tmp_path, at, replace(cursor, **changed[steered]))
    assert lane.entered() == []
    expected = KeyRange(("1",), None) if "added" in steered else KeyRange()
    works = [lane.snapshot.take(0), lane.snapshot.take(0)]
    assert expected in [getattr(work.step, "rows", None) for work in works if work is not None]
    lane.intake.close()
    # As it was it would have had them all.
    assert not list(tmp_path.rglob("*.page"))


def test_pages_are_removed_when_the_ring_is_freed_of_them(tmp_path, begun, one_by_one):
    lane = Opened(tmp_path)
    lane.stream(100, 150, (2, "new"))
    lane.read((5, "e"), at=150)
    headers = lane.got().headers
    for sequence, left in ((0, 3), (1, 2), (2, 1)):
        lane.intake.free(sequence, lane.ring.rollback_generation)
        assert len(list(tmp_path.rglob("*.page"))) == left
    assert len(headers) == 4
    lane.intake.free(3, lane.ring.rollback_generation)
    assert not tmp_path.exists()
    lane.intake.close()


def test_pages_that_a_later_lane_brings_again_are_not_removed(tmp_path, begun, one_by_one):
    """1. A snapshot is over; 2. its client goes back; 3. what it had acknowledged before is freed."""
    old = Opened(tmp_path)
    old.stream(100, 150, (2, "new"))
    old.read((5, "e"), at=150)
    assert len(old.got().headers) == 4
    new = Opened(tmp_path)
    old.intake.free(3, old.ring.rollback_generation)
    assert len(list(tmp_path.rglob("*.page"))) == 3
    old.intake.close()
    new.intake.close()


def test_a_snapshot_that_is_paused_lets_the_stream_go_on(tmp_path, begun):
    """Also when its pages enter again: they were written before the pause."""
    lane = Opened(tmp_path, cursor=replace(CURSOR, paused=True))
    lane.stream(100, 150, (2, "new"))
    run = lane.got()
    assert [SnapshotCursor.from_json(text).paused for text in run.snapshots.values()] == [True]
    lane.stream(150, 200, (5, "new"))
    assert lane.entered() == [(200, 0, None)]
    assert lane.snapshot is None
    assert lane.intake.describe()["snapshot"]["paused"]
    lane.intake.close()


def test_a_ring_goes_on_only_with_the_cursor_that_it_has(tmp_path, begun):
    """A pause is another cursor at the same place: the lane is opened anew."""
    text, lane = begun.snapshots[1], Opened(tmp_path)
    assert lane.intake.stands_at(replace(START, snapshot=CURSOR.to_json()))
    assert not lane.intake.stands_at(START)
    lane.stream(100, 150, (2, "new"))
    lane.got()
    lane.intake.free(1, lane.ring.rollback_generation)
    at = Position(FILE, 150, page_rows=3, server="s")
    assert lane.intake.stands_at(replace(at, snapshot=text))
    paused = replace(SnapshotCursor.from_json(text), paused=True).to_json()
    assert not lane.intake.stands_at(replace(at, snapshot=paused))
    lane.intake.close()


@pytest.fixture
def disk(monkeypatch):
    """A disk that writes no page before it may."""
    return Disk(monkeypatch)


class Disk:
    def __init__(self, monkeypatch):
        #: for each write that may be made the error that it has; None: none
        self.outcomes = queue.SimpleQueue()
        #: how many pages each had
        self.writes = []
        real = PageFolder.add

        def add(folder, pages):
            error = self.outcomes.get(timeout=20)
            if error is not None:
                raise error
            real(folder, pages)
            self.writes.append(len(pages))

        monkeypatch.setattr(PageFolder, "add", add)
        monkeypatch.setattr(page_writer, "_FIRST_PAUSE_S", 0.001)


def test_nothing_is_handed_out_before_its_page_is_on_the_disk(tmp_path, disk):
    """1. Pages are in the ring, and changes after them: neither the stream nor who reads pages waits for the
    disk. 2. It is full for a while, which is said; no page is read again. 3. What waited is written at once.
    """
    lane = Opened(tmp_path)
    lane.stream(100, 150, (2, "new"))
    lane.read((1, "a"), at=150, last=("1",))
    lane.read((3, "c"), at=150, last=("3",))
    lane.stream(150, 200, (7, "new"))
    assert lane.ring.cursors[2] == 3
    assert lane.ring.get_within(0).headers["end_offset"].tolist() == [150]
    assert lane.ring.describe()["held"] == 3
    assert lane.intake.held_back is None
    disk.outcomes.put(OSError(28, "No space left on device"))
    await_true(lambda: "No space left" in lane.intake.describe()["snapshot"]["waits_for"], "it is said")
    assert not lane.ring.has_news
    disk.outcomes.put(None)
    assert lane.entered() == [(150, 0, ["app.t"]), (150, 1, ["app.t"]), (200, 0, None)]
    # The one that was waited for first may have been alone.
    assert sum(disk.writes) == 2
    assert lane.intake.describe()["snapshot"]["waits_for"] == "a page"
    lane.read((9, "i"), at=200)
    disk.outcomes.put(None)
    disk.outcomes.put(None)
    assert lane.entered() == [(200, 0, ["app.t"]), (200, 1, OVER)]
    lane.intake.close()


def test_a_page_that_was_not_written_is_not_there_after_a_crash(tmp_path, disk):
    lane = Opened(tmp_path)
    lane.read((1, "a"), at=100, last=("1",))
    assert not lane.ring.has_news
    disk.outcomes.put(OSError(5, "Input/output error"))
    lane.intake.close()
    lane = Opened(tmp_path)
    assert lane.snapshot.take(10).step.rows == KeyRange()
    lane.intake.close()


def test_a_lane_ends_when_its_folder_is_opened_by_another_lane(tmp_path):
    old = Opened(tmp_path)
    new = Opened(tmp_path)
    # The ring may be closed before all of it is there.
    with contextlib.suppress(ShardUnavailable):
        old.read((1, "a"), at=100)
    await_true(lambda: old.intake.ended is not None, "it ends")
    assert "another lane's by now" in old.intake.ended.message
    with pytest.raises(ShardUnavailable):
        old.ring.get_within(60)
    new.read((1, "b"), at=100)
    assert new.entered() == [(100, 0, ["app.t"]), (100, 1, OVER)]
    for each in (old, new):
        each.intake.close()


def test_a_folder_that_cannot_be_used_is_named(tmp_path):
    (tmp_path / "s").write_text("a file")
    lane = Opened(tmp_path)
    await_true(lambda: lane.intake.error is not None, "the intake stops")
    assert "of a snapshot's pages cannot be used" in lane.intake.error.message
    lane.intake.close()
