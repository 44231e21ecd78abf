"""The snapshot of one table: what it asks for when pages cannot be placed, and what its cursor says then."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from canal_group.merge.snapshot.cursor import KeyRange, TableCursor
from canal_group.merge.snapshot.point import LogOffset, Point, Span
from canal_group.merge.snapshot.steps import (
    EmitPage,
    EndTable,
    KeyChanged,
    PageEmitted,
    PageLost,
    PageRead,
    PlanTable,
    ReadPage,
    Reconnected,
    StreamRead,
    TableChange,
)
from canal_group.merge.snapshot.table_snapshot import AGAIN_MAX, WHOLE_ATTEMPTS_MAX, TableSnapshot
from canal_group.merge.snapshot.touched import Touched
from canal_group.merge.values.position import Position

FILE, SERVER, KEY = "log.000001", "7", "id bigint"
WHOLE = KeyRange()


def position(offset):
    return Position(FILE, offset, server=SERVER)


def read(number, low, high=None, last=None, server=SERVER):
    high = low if high is None else high
    return PageRead(number, Point(server, LogOffset(FILE, low), LogOffset(FILE, high)), last)


def streamed(offset, *keys, boundary=True, change=None):
    touched = Touched()
    touched.settle((key,) for key in keys)
    span = Span(LogOffset(FILE, offset), (("0-1", np.array([offset])),)) if boundary else None
    return StreamRead(span, touched, position(offset) if boundary else None, change)


def snapshot(*ranges, key=KEY, start=100, **options):
    cursor = TableCursor(key, ranges or (WHOLE,))
    made = TableSnapshot(cursor, position(start), SERVER, 2, lambda row: (str(row[0]),), **options)
    return made, made.begin()


def test_a_table_begins_with_its_ranges():
    _, asked = snapshot(KeyRange(None, ("5",)), KeyRange(("5",), ("9",)), KeyRange(("9",)))
    assert [step.rows for step in asked] == [KeyRange(None, ("5",)), KeyRange(("5",), ("9",))]


def test_a_page_waits_for_the_stream_and_its_range_goes_on():
    table, _ = snapshot()
    assert table.handle(read(1, 150, 200, last=("7",))) == []
    assert table.handle(streamed(180, 3)) == []
    (emitted,) = table.handle(streamed(200, 4))
    assert isinstance(emitted, EmitPage)
    assert emitted.touched.settled == {(3,), (4,)}
    assert table.handle(PageEmitted(1, ())) == [ReadPage(2, KeyRange(("7",), None))]
    assert table.cursor.ranges == (KeyRange(("7",), None),)


def test_what_a_page_has_seen_touches_nothing_of_it():
    table, _ = snapshot()
    table.handle(streamed(180, 3))
    (emitted,) = table.handle(read(1, 180))
    assert not emitted.touched


def test_a_page_before_the_start_of_the_stream_is_read_again():
    table, _ = snapshot(start=100)
    assert table.handle(read(1, 90, 120)) == [ReadPage(2, WHOLE, attempt=1)]
    assert table.handle(read(2, 90, 120)) == [ReadPage(3, WHOLE, attempt=2)]
    assert isinstance(table.handle(read(3, 100))[0], EmitPage)


def test_a_page_of_another_server_is_read_again():
    table, _ = snapshot()
    assert table.handle(read(1, 200, server="8")) == [ReadPage(2, WHOLE, attempt=1)]


def test_a_page_that_cannot_be_read_now_is_read_again():
    table, _ = snapshot()
    assert table.handle(PageLost(1)) == [ReadPage(2, WHOLE, attempt=1)]
    assert table.handle(PageLost(1)) == []


def test_a_page_is_read_again_if_the_stream_has_another_connection():
    """It may be of what the server had meanwhile, and so may the point of the last page."""
    table, _ = snapshot(KeyRange(None, ("5",)), KeyRange(("5",), None))
    table.handle(read(1, 150))
    asked = table.handle(Reconnected())
    assert [(step.number, step.rows, step.attempt) for step in asked] == [
        (3, KeyRange(None, ("5",)), 1),
        (4, KeyRange(("5",), None), 1),
    ]
    assert table.handle(read(2, 150)) == table.handle(streamed(150)) == []
    (emitted,) = table.handle(read(3, 150))
    assert isinstance(emitted, EmitPage)


def test_a_page_is_read_again_if_too_much_was_touched():
    table, _ = snapshot(touched_max=3)
    table.handle(streamed(150, 1, 2))
    table.handle(streamed(160, 3, 4))
    assert table.handle(read(1, 140, 160)) == [ReadPage(2, WHOLE, attempt=1)]


def test_a_transaction_that_touches_too_much_is_not_kept_while_it_is_read():
    table, _ = snapshot(touched_max=3)
    part, image = streamed(150, boundary=False), Position(FILE, 1)
    for _ in range(4):
        part.touched.update((1,), (1,), image)
    table.handle(part)
    part.touched.images.clear()
    assert sys.getrefcount(image) == 2, "it is kept by nobody else"
    table.handle(streamed(160, 9))
    assert table.handle(read(1, 140, 160)) == [ReadPage(2, WHOLE, attempt=1)]
    (emitted,) = table.handle(read(2, 160))
    assert not emitted.touched


def test_no_page_enters_inside_a_transaction():
    table, _ = snapshot()
    table.handle(streamed(150, 1, boundary=False))
    assert table.handle(read(1, 120)) == []
    (emitted,) = table.handle(streamed(160, 2))
    assert emitted.touched.settled == {(1,), (2,)}


def test_a_page_has_to_have_seen_a_statement_on_the_table():
    table, _ = snapshot()
    table.handle(streamed(150, change=TableChange.ALTERED))
    assert table.handle(read(1, 140)) == [ReadPage(2, WHOLE, attempt=1)]
    assert isinstance(table.handle(read(2, 150))[0], EmitPage)


def test_a_statement_inside_what_was_read_counts_from_the_next_boundary():
    table, _ = snapshot()
    table.handle(streamed(150, boundary=False, change=TableChange.ALTERED))
    table.handle(streamed(160))
    assert table.handle(read(1, 150)) == [ReadPage(2, WHOLE, attempt=1)]


def test_a_replaced_table_is_read_from_its_beginning():
    table, _ = snapshot(KeyRange(("7",), None))
    assert table.handle(streamed(150, change=TableChange.REPLACED)) == [PlanTable()]
    assert table.handle(read(1, 200)) == []
    assert table.handle(streamed(200)) == []


def test_a_table_of_another_key_is_read_from_its_beginning():
    table, _ = snapshot(KeyRange(("7",), None))
    assert table.handle(KeyChanged(1)) == [PlanTable()]


def test_a_dropped_table_ends():
    table, _ = snapshot()
    ended = EndTable("the table was dropped", absent=True)
    assert table.handle(streamed(150, change=TableChange.DROPPED)) == [ended]
    assert table.ended


def test_rows_that_moved_are_read_again_at_the_end():
    table, _ = snapshot()
    moved = streamed(150)
    moved.touched.update((1,), (2,), None)
    table.handle(moved)
    table.handle(read(1, 150))
    assert table.handle(PageEmitted(1, (("9",),))) == [ReadPage(2, (("2",), ("9",)))]
    assert table.cursor.again == (("2",), ("9",))
    table.handle(read(2, 160))
    table.handle(streamed(160))
    assert table.handle(PageEmitted(2, ())) == [EndTable("")]
    assert table.cursor.done


def test_a_table_of_which_too_many_rows_moved_is_read_from_its_beginning():
    table, _ = snapshot()
    moved = streamed(150)
    moved.touched.moved.update((key,) for key in range(AGAIN_MAX + 1))
    assert table.handle(moved) == [PlanTable()]


def test_a_row_that_moved_unseen_is_read_once_more():
    """The commit is delivered before its row can be read: the page by its key comes too early for it."""
    table, _ = snapshot()
    moved = streamed(150)
    moved.touched.update((1,), (2,), None)
    table.handle(moved)
    table.handle(read(1, 120))
    assert table.handle(PageEmitted(1, ())) == [ReadPage(2, (("2",),))]
    assert isinstance(table.handle(read(2, 120))[0], EmitPage)
    assert table.handle(PageEmitted(2, ())) == [ReadPage(3, (("2",),), attempt=1)]
    table.handle(read(3, 150))
    assert table.handle(PageEmitted(3, ())) == [EndTable("")]


def test_a_table_without_a_key_enters_only_untouched():
    table, _ = snapshot(key="")
    table.handle(streamed(150, "any"))
    assert table.handle(read(1, 140, 150)) == [ReadPage(2, WHOLE, attempt=1)]
    (emitted,) = table.handle(read(2, 150))
    assert not emitted.touched


def test_a_table_without_a_key_that_always_changes_fails_by_name():
    table, asked = snapshot(key="")
    for offset in range(150, 150 + WHOLE_ATTEMPTS_MAX):
        table.handle(streamed(offset, "any"))
        asked = table.handle(read(asked[0].number, offset - 1, offset))
    (ended,) = asked
    assert "no primary key" in ended.failure


@pytest.mark.parametrize("after", [(), ("3",)])
def test_a_cursor_has_what_is_in_flight(after):
    table, _ = snapshot(KeyRange(after or None, None))
    assert table.cursor.ranges == (KeyRange(after or None, None),)
