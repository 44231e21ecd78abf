"""The snapshot of a shard: what becomes of work and pages when the stream brings something between."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from canal_group.actors.snapshot.shard_snapshot import BEGINS_MAX, ShardSnapshot
from canal_group.actors.snapshot.work import SelectedPage, TablePlan, Work
from canal_group.merge.snapshot.cursor import (
    DONE,
    SNAPSHOT_TEXT_MAX,
    KeyRange,
    SnapshotCursor,
    TableCursor,
)
from canal_group.merge.snapshot.point import LogOffset, Point
from canal_group.merge.snapshot.steps import PlanTable
from canal_group.merge.snapshot.table_key import TableKey
from canal_group.merge.values.chunk import (
    ABSENT,
    MOVES_ROWS,
    STATEMENTS,
    Chunk,
    Op,
    StatementKind,
    StatementSource,
    TableName,
    TableRows,
    partial_schema,
    rows_schema,
)
from canal_group.merge.values.header import HEADER, WHOLE, Flag
from canal_group.merge.values.marks.snapshot_mark import OVER, FailedTables, SnapshotEnd, SnapshotMark
from canal_group.merge.values.position import Position

FILE, SERVER, NAME = "bin.000001", "s", TableName("app", "t")
FIELDS = [pa.field("id", pa.int64()), pa.field("v", pa.int64())]
KEY, REST = TableKey(("id",), (pa.int64(),)), KeyRange(("5",), None)
PLAN = TablePlan("id", KEY, frozenset(), (KeyRange(),))


def rows_of(*changes, fields=FIELDS, lacks=None):
    """Return rows of (op, before, after); every image after lacks the columns of a bit mask."""
    schema = rows_schema(fields, b'["id"]')
    rows = [
        {"_header": 0, "_row": row, "_op": op, "before": before, "after": after}
        for row, (op, before, after) in enumerate(changes)
    ]
    if lacks is not None:
        schema = partial_schema(schema)
        rows = [{**row, ABSENT["before"]: b"\0", ABSENT["after"]: lacks} for row in rows]
    return TableRows(NAME, pa.RecordBatch.from_pylist(rows, schema=schema), NAME)


def chunk(offset, *tables, op="", schema_only=False, flags=WHOLE):
    headers = np.zeros(1, HEADER)
    headers["flags"], headers["rows"], headers["row_end"], headers["gtid_source"] = flags, 1, 1, 1
    headers["commit_us"] = headers["end_offset"] = offset
    if not op:
        return Chunk(headers, (FILE, ""), tables)
    name = TableName("app", "" if schema_only else "t")
    role = {"RENAME": "new", "DROP PARTITION": MOVES_ROWS}.get(op, "")
    told = {"schema": "app", "table": name.table, "role": role, "kept": True}
    text = {"_header": 0, "_row": 0, "schema": "app", "table": name.table, "op": op, "sql": op}
    batch = pa.RecordBatch.from_pylist([{**text, "ddl_schema": "", "tables": [told]}], schema=STATEMENTS)
    return Chunk(headers, (FILE, ""), (), batch, (StatementSource((name,), StatementKind.DDL),))


def page(offset, *ids, last=None):
    at = LogOffset(FILE, offset)
    table = rows_of(*((Op.READ, None, {"id": each, "v": 0}) for each in ids))
    return SelectedPage(Point(SERVER, at, at), table, last)


class Stream:
    """A stream with a snapshot, and what it stored."""

    def __init__(self, cursor=None, begin=100, names=(NAME,), at=None, **changes):
        self.chunks, self.texts = [], []
        tables = {} if cursor is None else {str(NAME): cursor}
        wanted = SnapshotCursor("app-1-1", tables, tuple(map(str, names)))
        self.snapshot = ShardSnapshot(replace(wanted, **changes), "s0", SERVER, "lane", 2, self)
        self.snapshot.reached(at or Position(FILE, begin, commit_us=7, server=SERVER))

    def processed(self, page):
        return page

    def put(self, stored):
        self.chunks.append(stored)
        self.texts.append(stored.snapshot)

    @property
    def cursors(self):
        """The cursors of what was stored; None of one that has none, and of the mark at the end."""
        texts = [None if text is None or text.startswith(OVER) else text for text in self.texts]
        return [None if text is None else SnapshotCursor.from_json(text) for text in texts]

    def read(self, offset, *tables, **options):
        found = chunk(offset, *tables, **options)
        self.snapshot.chunk_read(found, found)
        self.snapshot.reached(Position(FILE, offset, server=SERVER))
        return self

    def plan(self, plan=PLAN):
        """Answer the plan that is asked for next; return the work after it."""
        work = self.take()
        assert isinstance(work.step, PlanTable)
        self.snapshot.planned(work, plan)
        return self.take()

    def take(self):
        return self.snapshot.take(0)

    @property
    def pages(self):
        """The ids of the rows of each page."""
        return [
            [row["after"]["id"] for table in each.tables for row in table.rows.to_pylist()]
            for each in self.chunks
            if each.headers["flags"][0] & Flag.PAGE and each.statements is None
        ]


def test_pages_have_the_time_of_the_transaction_before_them():
    stream = Stream()
    plan = TablePlan("id", KEY, frozenset(), (KeyRange(None, ("5",)), REST))
    first, second = stream.plan(plan), stream.take()
    stream.snapshot.page_read(first, page(100))
    stream.snapshot.page_read(second, page(100, 7, 8, last=("8",)))
    stream.read(200)
    stream.snapshot.page_read(stream.take(), page(200, 9))
    headers = [each.headers[0] for each in stream.chunks if each.headers["flags"][0] & Flag.PAGE]
    # The last one is the mark at the end.
    positions = [(h["end_offset"], h["row_begin"], h["row_end"], h["commit_us"]) for h in headers]
    assert positions == [(100, 0, 1, 7), (100, 1, 3, 7), (200, 0, 1, 200), (200, 1, 2, 200)]
    assert stream.snapshot.tables.ended
    assert stream.cursors[-2].tables == {str(NAME): DONE}


def test_pages_before_the_first_transaction_have_the_time_of_their_file():
    stream = Stream(at=Position(FILE, 100, server=SERVER, created_s=5))
    stream.snapshot.page_read(stream.plan(), page(100, 1))
    assert [each.headers["commit_us"][0] for each in stream.chunks] == [5_000_000, 5_000_000]


def test_no_page_enters_inside_a_transaction():
    stream = Stream()
    work = stream.plan()
    found = chunk(200, flags=Flag.BEGIN)
    stream.snapshot.chunk_read(found, found)
    stream.snapshot.reached(Position(FILE, 100, rows_into_transaction=1, server=SERVER))
    stream.snapshot.page_read(work, page(100, 1))
    assert stream.pages == []
    stream.read(200, flags=Flag.END)
    assert stream.pages == [[1]]


@pytest.mark.parametrize("schema_only", [False, True])
def test_a_page_of_a_table_that_was_altered_meanwhile_is_read_again(schema_only):
    """Whether it waits for its boundary, or is on its way."""
    for arrives in (False, True):
        stream = Stream()
        work = stream.plan()
        if arrives:
            stream.snapshot.page_read(work, page(300, 1))
        stream.read(200, op="ALTER", schema_only=schema_only)
        if not arrives:
            stream.snapshot.page_read(work, page(300, 1))
        again = stream.take()
        assert (again.step.attempt, again.version) == (1, work.version + 1)
        stream.read(300)
        assert stream.pages == []
        stream.snapshot.page_read(again, page(300, 1))
        assert stream.pages == [[1]]


@pytest.mark.parametrize("arrives", [True, False])
def test_a_page_of_another_connection_is_read_again(arrives):
    """The stream was broken off: the server that is read may have had other rows meanwhile."""
    stream = Stream()
    work = stream.plan()
    if arrives:
        stream.snapshot.page_read(work, page(300, 1))
    stream.snapshot.reconnected()
    if not arrives:
        stream.snapshot.page_read(work, page(300, 1))
    stream.read(300)
    assert stream.pages == []
    again = stream.take()
    assert (stream.snapshot.wants(work), stream.snapshot.wants(again)) == (False, True)
    stream.snapshot.page_read(again, page(300, 2))
    assert stream.pages == [[2]]


def test_a_page_that_waits_for_a_worker_is_asked_for_once():
    stream = Stream()
    stream.plan(TablePlan("id", KEY, frozenset(), (KeyRange(None, ("5",)), REST)))
    stream.snapshot.reconnected()
    asked = [stream.take().step for _ in range(2)]
    assert [step.rows for step in asked] == [KeyRange(None, ("5",)), REST]
    assert stream.take() is None


def test_a_row_that_moved_is_in_the_cursor_beside_its_event():
    stream = Stream(TableCursor("id", (REST,)))
    stream.plan()
    stream.read(200, rows_of((Op.UPDATE, {"id": 9, "v": 0}, {"id": 2, "v": None}), lacks=b"\2"))
    assert stream.cursors[-1].tables[str(NAME)].again == (("2",),)
    stream.read(300, rows_of((Op.INSERT, None, {"id": 4, "v": 0})))
    assert stream.cursors[-1] is None


def test_a_row_that_may_have_moved_before_the_plan_counts():
    """It may be where the cursor says that all was read."""
    moved = rows_of((Op.UPDATE, {"id": 9, "v": 0}, {"id": 2, "v": None}), lacks=b"\2")
    stream = Stream(TableCursor("id", (REST,))).read(200, moved)
    assert stream.cursors == [stream.cursors[0]]
    assert stream.cursors[0].tables == {}
    assert stream.plan().step.rows == KeyRange()
    assert stream.take() is None


def test_a_cursor_of_another_key_is_not_used():
    assert Stream(TableCursor("id", (REST,))).plan().step.rows == REST
    assert Stream(TableCursor("other", (REST,))).plan().step.rows == KeyRange()


@pytest.mark.parametrize("how", ["renamed", "rows moved", "another key", "the key is gone"])
def test_a_table_that_is_another_one_is_planned_again(how):
    """1. What was asked for it before is taken back. 2. What is answered to that changes nothing."""
    stream = Stream(TableCursor("id", (KeyRange(None, ("5",)), REST)))
    work = stream.plan()
    if how == "renamed":
        stream.read(200, op="RENAME")
    elif how == "rows moved":
        stream.read(200, op="DROP PARTITION")
    elif how == "another key":
        stream.snapshot.page_missed(work, other_key=True)
    else:
        stream.read(200, rows_of((Op.INSERT, None, {"v": 1}), fields=FIELDS[1:]))
    stream.snapshot.page_read(work, page(100, 1))
    assert stream.pages == []
    again = stream.plan()
    assert again.step.rows == KeyRange()
    assert again.attempt == 2
    assert stream.take() is None
    stream.snapshot.page_read(work, page(200, 1))
    stream.snapshot.failed(work, "late")
    assert stream.pages == []
    assert not stream.snapshot.tables.failures


@pytest.mark.parametrize("is_planned", [True, False])
def test_a_table_that_is_dropped_is_read(is_planned):
    """No row of it is left."""
    stream = Stream()
    if is_planned:
        stream.plan()
    stream.read(200, op="ERASE")
    assert not stream.snapshot.tables.failures
    assert stream.snapshot.tables.ended
    assert stream.snapshot.tables.done == 1


def test_a_table_that_was_altered_is_planned_again():
    stream = Stream()
    work = stream.take()
    for attempt in range(1, BEGINS_MAX):
        assert work.attempt == attempt
        stream.snapshot.plan_missed(work)
        work = stream.take()
    stream.snapshot.plan_missed(work)
    assert "was begun 20 times" in next(iter(stream.snapshot.tables.failures.values()))


@pytest.mark.parametrize("fails", [False, True])
def test_a_table_that_has_ended_is_read_again_when_its_rows_move(fails):
    """Before the mark, which another table holds back; a number of times."""
    stream = Stream(names=(NAME, TableName("app", "u")))
    plan, of_the_other = stream.take(), stream.take()
    for begins in range(1, BEGINS_MAX + 1):
        assert (plan.name, plan.attempt) == (NAME, begins)
        stream.snapshot.planned(plan, PLAN)
        if fails:
            stream.snapshot.failed(stream.take(), "why")
        else:
            stream.snapshot.page_read(stream.take(), page(begins * 100, 1))
            assert stream.cursors[-1].tables == {str(NAME): DONE}
        stream.read(begins * 100 + 100, op="DROP PARTITION")
        assert stream.cursors[-1].tables == {}
        plan = stream.take()
    assert plan is None
    (why,) = stream.snapshot.tables.failures.values()
    assert f"begun {BEGINS_MAX} times" in why
    stream.snapshot.failed(of_the_other, "why")
    assert stream.snapshot.over


def test_a_table_that_its_cursor_says_was_read_is_read_again_too():
    stream = Stream(DONE, names=(NAME, TableName("app", "u")))
    assert stream.take().name.table == "u"
    stream.read(200, op="DROP PARTITION")
    assert stream.cursors[-1].tables == {}
    assert (stream.take().name, stream.take()) == (NAME, None)


def test_a_table_is_not_read_again_after_the_mark():
    stream = Stream()
    stream.snapshot.page_read(stream.plan(), page(100, 1))
    assert stream.snapshot.over
    stream.read(200, op="DROP PARTITION")
    assert stream.texts[-1] is None
    assert stream.take() is None


@pytest.mark.parametrize("how", ["an image without the key", "failed"])
def test_a_table_that_cannot_be_read_says_why(how):
    stream = Stream()
    work = stream.plan()
    if how == "failed":
        stream.snapshot.failed(work, "why")
    else:
        stream.read(200, rows_of((Op.UPDATE, {"id": 1, "v": 0}, {"id": None, "v": 1}), lacks=b"\1"))
    (why,) = stream.snapshot.tables.failures.values()
    assert why == "why" or "lacks a column of the key" in why
    assert stream.snapshot.tables.ended
    stream.snapshot.page_read(work, page(200, 1))
    assert stream.pages == []


@pytest.mark.parametrize("why", ["", "why"])
def test_a_mark_says_that_all_tables_have_ended(why):
    """At a boundary, after the last page; with the tables that failed. It is the end of the cursor."""
    stream = Stream()
    work = stream.plan()
    stream.read(200, flags=Flag.BEGIN)
    stream.snapshot.reached(Position(FILE, 100, rows_into_transaction=1, server=SERVER))
    found = chunk(300, flags=Flag.BEGIN)
    stream.snapshot.chunk_read(found, found)
    if why:
        stream.snapshot.failed(work, why)
    else:
        stream.snapshot.page_read(work, page(100, 1))
    assert not stream.snapshot.over
    stream.read(400, flags=Flag.END)
    assert stream.snapshot.over
    end = SnapshotEnd.of_text(stream.texts[-1])
    assert end == SnapshotEnd(("app.t",), FailedTables.of({"app.t": why} if why else {}))
    (sql,) = stream.chunks[-1].statements.column("sql").to_pylist()
    mark = SnapshotMark.of_sql(sql)
    assert (mark.shard, mark.client_id, mark.failed_count) == ("s0", "app", bool(why))
    assert mark.failed == ({"app.t": why} if why else {})
    assert (mark.position.offset, mark.position.page_rows) == (400, 0 if why else 1)
    stream.read(500)
    assert stream.texts[-1] is None


def test_some_tables_are_read_at_a_time_and_one_without_room_fails():
    long = SNAPSHOT_TEXT_MAX // 6
    names = [f"app.t{number}" for number in range(5)] + ["x" * long + f".t{number}" for number in range(3)]
    stream = Stream(names=names)
    begun = [stream.take().name for _ in range(3)]
    assert begun == [TableName("app", f"t{number}") for number in range(3)]
    assert stream.take() is None
    failures = []
    for number in range(5):
        stream.snapshot.failed(Work(TableName("app", f"t{number}"), 1, 0, PlanTable()), "why")
        failures = [str(name)[:1] for name, why in stream.snapshot.tables.failures.items() if why != "why"]
    assert failures == ["x", "x", "x"]


def test_a_table_with_long_keys_is_read_in_one_range():
    ranges = tuple(KeyRange((f"'{number:0999}'",), None) for number in range(16))
    work = Stream().plan(TablePlan("id", KEY, frozenset(), ranges))
    assert work.step.rows == KeyRange()


def test_telling_of_a_snapshot_waits_for_no_room():
    """A put that waits for room holds back whoever asks for more, and not whoever asks how far it is."""
    stream, entered, room = Stream(), threading.Event(), threading.Event()
    work = stream.plan()

    def put(_chunk):
        entered.set()
        assert room.wait(20)

    stream.put = put
    thread = threading.Thread(target=stream.snapshot.page_read, args=(work, page(100, 1)))
    thread.start()
    assert entered.wait(20)
    assert (stream.snapshot.tables.done, stream.snapshot.rows, stream.snapshot.tables.failures) == (1, 1, {})
    room.set()
    thread.join()


def test_nothing_is_taken_from_a_closed_snapshot_and_no_page_enters():
    stream = Stream()
    work = stream.plan()
    stream.snapshot.close()
    assert stream.snapshot.take(60) is None
    stream.snapshot.page_read(work, page(100, 1))
    assert stream.chunks == []
