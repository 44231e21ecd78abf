"""A copy that is built from pages and the stream equals the table, whatever overlaps with a page.

The source here knows what servers do, and nothing of the rules: an event is written (flush), sent (sync),
visible (commit) and then in the set of executed transactions; SELECT sees what is committed, the binlog has
what was written, and no transaction touches a row that another one holds.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from support.soak import first_quick

from canal_group.merge.snapshot.cursor import KeyRange, TableCursor
from canal_group.merge.snapshot.point import LogOffset, Point, Span
from canal_group.merge.snapshot.steps import EmitPage, EndTable, PageEmitted, PageRead, ReadPage, StreamRead
from canal_group.merge.snapshot.table_snapshot import TableSnapshot
from canal_group.merge.snapshot.touched import Fate, Touched
from canal_group.merge.values.gtids.gtid import NO_GTIDS
from canal_group.merge.values.position import Position

KEYS = (1, 2, 3)
BEGINNING = {1: {"a": 0, "j": ()}, 2: {"a": 0, "j": ()}}
IMAGES = ("full", "minimal", "noblob", "partial json")
FILE, SOURCE, SERVER = "log.000001", "0b0b0b0b-0000-0000-0000-000000000001", "s"
#: keys up to 2, and from 3
RANGES = KeyRange(None, ("2",)), KeyRange(("2",), None)
#: which of them is read by a page that overlaps; the other one is late
OVERLAPPING = ((0,), (1,), (0, 1))


# ---- the source --------------------------------------------------------------------------------------------


def histories(count, rows=None):
    """Yield all sequences of events, each with the tables before and after each."""
    rows = BEGINNING if rows is None else rows
    if not count:
        yield (), (rows,)
        return
    number = max((row["a"] for row in rows.values()), default=0) + 1
    for event in _events(rows, number):
        for events, tables in histories(count - 1, applied(rows, event)):
            yield (event, *events), (rows, *tables)


def _events(rows, number):
    for key in KEYS:
        if key not in rows:
            yield "insert", key, key, {"a": number, "j": ()}
            continue
        yield "delete", key, key, {}
        yield "set", key, key, {"a": number}
        yield "json", key, key, {"j": number}
        yield from (("move", key, to, {}) for to in KEYS if to not in rows)


def applied(rows, event):
    kind, before, after, change = event
    rows = dict(rows)
    row = rows.pop(before, {})
    if kind == "json":
        row = {**row, "j": (*row["j"], change["j"])}
    elif kind != "delete":
        row = {**row, **change}
    return rows if kind == "delete" else {**rows, after: row}


@cache
def overlaps(count, waits):
    """Return (base, low, seen, high) of all interleavings: how many transactions are before each.

    Args:
        count: how many transactions there are.
        waits: for each, how many have to be committed before it can be written.
    """
    found, states = set(), {(0, 0, 0, 0, ())}
    done = set()
    while states:
        state = states.pop()
        done.add(state)
        written, sent, visible, executed, page = state
        steps = [
            (written + 1, sent, visible, executed, page)
            if written < count and visible >= waits[written]
            else None,
            (written, sent + 1, visible, executed, page) if sent < written else None,
            (written, sent, visible + 1, executed, page) if visible < sent else None,
            (written, sent, visible, executed + 1, page) if executed < visible else None,
        ]
        # The base is what is written; then the page: low, SELECT, high.
        now = (written, executed, visible, written)
        if len(page) < len(now):
            steps.append((written, sent, visible, executed, (*page, now[len(page)])))
        else:
            found.add(page)
        states |= {step for step in steps if step is not None} - done
    return frozenset(found)


def waits_of(events):
    """Return how many transactions must be committed before each: those that hold its rows."""
    keys = [set(event[1:3]) for event in events]
    return tuple(
        max((earlier + 1 for earlier in range(index) if keys[earlier] & keys[index]), default=0)
        for index in range(len(keys))
    )


def image_of(kind, event, row):
    """Return the columns that the image after an UPDATE says, and whether they can be laid over a row."""
    name, _, _, change = event
    if kind == "full" or (kind == "noblob" and name == "json"):
        return row, True
    if name == "json":
        return ({"j": row["j"]}, True) if kind == "minimal" else ({}, False)
    return ({"a": row.get("a")} if kind == "noblob" else change), True


# ---- the consumer ------------------------------------------------------------------------------------------


def consume(copy, event, row, image, sure):
    name, before, after, change = event
    if name == "delete":
        copy.pop(before, None)
        return
    mine = copy.pop(before, {})
    if name == "insert":
        mine = dict(row)
    elif not sure:
        mine = {**mine, "j": (*mine.get("j", ()), change["j"])}
    else:
        mine = {**mine, **image}
    copy[after] = mine


# ---- the shard ---------------------------------------------------------------------------------------------


def touches(event, row, image, sure):
    name, before, after, _ = event
    touched = Touched()
    if name in ("insert", "delete"):
        touched.settle([(before,)])
    elif image == row:
        touched.settle([(before,), (after,)])
    else:
        touched.update((before,), (after,), image if sure else None)
    return touched


def offset(count):
    return 100 * (count + 1)


@cache
def gtids(count):
    return NO_GTIDS.add(SOURCE, list(range(1, count + 1))) if count else NO_GTIDS


@cache
def position(count):
    return Position(FILE, offset(count), gtids(count), server=SERVER)


@cache
def point(low, high):
    return Point(SERVER, gtids(low), LogOffset(FILE, offset(high)))


class Shard:
    """One table, its stream, its pages and the copy that a consumer makes of both.

    Args:
        tables: the rows before each transaction, and at the end.
        base: how many transactions are before the stream.
        overlapping: indexes of the ranges that a page reads at once; the others come late.
    """

    def __init__(self, tables, base, overlapping):
        self.tables, self.overlapping = tables, overlapping
        self.copy, self.now, self.late = {}, [], []
        self.rows = {}
        cursor = TableCursor("k", RANGES)
        self.snapshot = TableSnapshot(cursor, position(base), SERVER, 2, lambda key: (str(key[0]),))
        self.run(self.snapshot.begin())

    def run(self, steps):
        for step in steps:
            match step:
                case ReadPage():
                    first = step.number <= len(RANGES) and step.number - 1 in self.overlapping
                    (self.now if first else self.late).append(step)
                case EmitPage():
                    self.run(self.snapshot.handle(PageEmitted(step.number, self.emit(step))))
                case EndTable():
                    assert not step.failure

    def read(self, step, seen, where):
        """Read a page of the rows after `seen` transactions."""
        table = self.tables[seen]
        if isinstance(step.rows, KeyRange):
            chosen = [key for key in table if (key <= 2) == (step.rows.after is None)]
        else:
            chosen = [int(key) for (key,) in step.rows if int(key) in table]
        self.rows[step.number] = {key: table[key] for key in chosen}
        self.run(self.snapshot.handle(PageRead(step.number, where, None)))

    def emit(self, step):
        again = []
        for key, row in self.rows[step.number].items():
            fate = step.touched.fate((key,))
            if fate in (Fate.KEPT, Fate.OVERLAID):
                self.copy[key] = dict(row)
            if fate is Fate.OVERLAID:
                for image in step.touched.images[(key,)]:
                    self.copy[key].update(image)
            if fate is Fate.AGAIN:
                again.append((str(key),))
        return tuple(again)


def copy_of(events, tables, kind, overlap, read_at, overlapping, low_of=None):
    """Return the copy of a consumer who gets a page that overlaps and pages that come late."""
    base, low, seen, high = overlap
    count = len(events)
    shard = Shard(tables, base, overlapping)
    where = point(low if low_of is None else low_of(overlap), high)
    for index in range(base, count + 1):
        if index == read_at:
            for step in shard.now:
                shard.read(step, seen, where)
        if index < count:
            event, row = events[index], tables[index + 1].get(events[index][2], {})
            image, sure = image_of(kind, event, row)
            consume(shard.copy, event, row, image, sure)
            span = Span(LogOffset(FILE, offset(index + 1)), ((SOURCE, _numbers(index + 1)),))
            touched = touches(event, row, image, sure)
            shard.run(shard.snapshot.handle(StreamRead(span, touched, position(index + 1))))
    while shard.late:
        shard.read(shard.late.pop(), count, point(count, count))
    assert shard.snapshot.ended
    assert shard.snapshot.cursor.done
    return shard.copy


@cache
def _numbers(number):
    return np.array([number], dtype=np.int64)


def cases(count, stride=1):
    for events, tables in list(histories(count))[::stride]:
        for overlap in overlaps(count, waits_of(events)):
            for read_at in range(overlap[0], count + 1):
                for overlapping in OVERLAPPING:
                    yield events, tables, overlap, read_at, overlapping


def check(count, kind, stride=1, low_of=None):
    """Build the copy in all cases, and return how many there were."""
    number = 0
    for events, tables, *rest in cases(count, stride):
        assert copy_of(events, tables, kind, *rest, low_of) == tables[-1], (events, kind, *rest)
        number += 1
    return number


@pytest.mark.parametrize("kind", IMAGES)
@pytest.mark.parametrize(("count", "stride"), first_quick(1, [(2, 3), (2, 1), (3, 1), (4, 37)]))
def test_a_copy_of_pages_and_events_is_the_table(count, stride, kind):
    assert check(count, kind, stride) > 1_000


@pytest.mark.parametrize("kind", IMAGES)
def test_a_copy_of_pages_and_some_of_four_events_is_the_table(kind):
    assert check(4, kind, stride=2_999) > 1_000


@pytest.mark.parametrize("kind", IMAGES)
def test_a_low_mark_of_written_events_loses_rows(kind):
    with pytest.raises(AssertionError):
        check(2, kind, low_of=lambda overlap: overlap[0])
