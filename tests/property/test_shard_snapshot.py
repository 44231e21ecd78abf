"""Pages of a shard's tables beside its stream: in any interleaving a consumer ends with the tables' rows."""

from __future__ import annotations

import os
import random
import weakref

import numpy as np
import pyarrow as pa
import pytest

from canal_group.actors.snapshot.shard_snapshot import ShardSnapshot
from canal_group.actors.snapshot.work import SelectedPage, TablePlan
from canal_group.merge.snapshot.cursor import KeyRange, SnapshotCursor
from canal_group.merge.snapshot.point import LogOffset, Point
from canal_group.merge.snapshot.steps import PlanTable
from canal_group.merge.snapshot.table_key import TableKey
from canal_group.merge.values.chunk import (
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
from canal_group.merge.values.marks.snapshot_mark import OVER
from canal_group.merge.values.position import Position

SEEDS = int(os.environ.get("CANAL_GROUP_SEEDS", "60"))
FILE, SERVER, STEP, NAME = "bin.000001", "s", 100, TableName("app", "t")
FIELDS = [pa.field("id", pa.int64()), pa.field("v", pa.int64()), pa.field("w", pa.int64())]
SCHEMA = rows_schema(FIELDS, b'["id"]')
IMAGE = pa.struct(FIELDS)
PLAN = TablePlan(
    "id", TableKey(("id",), (pa.int64(),)), frozenset(), (KeyRange(None, ("5",)), KeyRange(("5",), None))
)
KEYS = range(1, 11)
PAGES_MAX = 2


def rows_of(changes):
    """Return the batch of (op, before, after, whether the image after lacks `w`)."""
    arrays = [
        pa.array(np.zeros(len(changes), np.int32)),
        pa.array(range(len(changes)), pa.int64()),
        pa.array([each[0] for each in changes], pa.uint8()),
        *(pa.array([each[side] for each in changes], IMAGE) for side in (1, 2)),
    ]
    if not any(each[3] for each in changes):
        return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
    arrays += [
        pa.array([b"\x04" if each else b"\0" for each in lacks], pa.binary(1))
        for lacks in ([False] * len(changes), [each[3] for each in changes])
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=partial_schema(SCHEMA))


class Server:
    """A table and its log: the table's rows after each transaction."""

    def __init__(self, chance):
        self.chance, self.states, self.log = chance, [{}], []
        #: transactions whose rows can be read; the log, and the stream, may be ahead
        self.visible = 0
        self.states[0] = dict.fromkeys(chance.sample(KEYS, 6), (0, 0))

    def write(self):
        """Commit a transaction of one change: a row's, or a statement that swaps the table."""
        now, kind = dict(self.states[-1]), self.chance.random()
        if kind < 0.04:
            self.log.append("swap")
            self.states.append({key: (self.chance.randrange(99), 0) for key in self.chance.sample(KEYS, 5)})
            return
        if kind < 0.08:
            self.log.append("alter")
        else:
            self.log.append(self._change(now))
        self.states.append(now)

    def _change(self, now):
        key, to = self.chance.choice(KEYS), self.chance.choice(KEYS)
        value = self.chance.randrange(99), self.chance.randrange(99)
        if key not in now:
            now[key] = value
            return (Op.INSERT, None, _row(key, value), False)
        old = now.pop(key)
        if self.chance.random() < 0.3:
            return (Op.DELETE, _row(key, old), None, False)
        new = to if to not in now and self.chance.random() < 0.4 else key
        if self.chance.random() < 0.5:
            now[new] = (value[0], old[1])
            return (Op.UPDATE, _row(key, old), {"id": new, "v": value[0], "w": None}, True)
        now[new] = value
        return (Op.UPDATE, _row(key, old), _row(new, value), False)

    def chunk(self, index):
        headers = np.zeros(1, HEADER)
        headers["flags"], headers["rows"], headers["row_end"], headers["gtid_source"] = WHOLE, 1, 1, 1
        headers["commit_us"] = index + 1
        headers["begin_offset"], headers["end_offset"] = index * STEP, (index + 1) * STEP
        change = self.log[index]
        if isinstance(change, str):
            return _statement(headers, change)
        table = TableRows(NAME, rows_of([change]), NAME)
        return Chunk(headers, (FILE, ""), (table,))

    def page(self, step):
        """Return a page of the rows that can be read now."""
        self.visible = self.chance.randint(self.visible, len(self.log))
        now = self.states[self.visible]
        if isinstance(step.rows, KeyRange):
            after, until = (
                None if each is None else int(each[0]) for each in (step.rows.after, step.rows.until)
            )
            keys = sorted(k for k in now if (after is None or k > after) and (until is None or k <= until))[
                :2
            ]
            last = (str(keys[-1]),) if len(keys) == 2 else None
        else:
            keys, last = sorted(int(each[0]) for each in step.rows if int(each[0]) in now), None
        at = LogOffset(FILE, self.visible * STEP)
        rows = rows_of([(Op.READ, None, _row(key, now[key]), False) for key in keys])
        return SelectedPage(Point(SERVER, at, at), TableRows(NAME, rows, NAME), last)


def _row(key, value):
    return {"id": key, "v": value[0], "w": value[1]}


def _statement(headers, change):
    role = "new" if change == "swap" else ""
    told = {"schema": "app", "table": "t", "role": role, "kept": True}
    op = "RENAME" if role else "ALTER"
    text = {
        "_header": 0,
        "_row": 0,
        "schema": "app",
        "table": "t",
        "op": op,
        "sql": op,
        "ddl_schema": "",
        "tables": [told],
    }
    batch = pa.RecordBatch.from_pylist([text], schema=STATEMENTS)
    return Chunk(headers, (FILE, ""), (), batch, (StatementSource((NAME,), StatementKind.DDL),))


class Run:
    """A consumer that has all that was stored up to some point, and goes on from there."""

    def __init__(self, server, chance, *, rows=None, begin=0, cursor=None, swapped=False):
        self.server, self.chance, self.at = server, chance, begin
        self.rows = rows if rows is not None else {}
        self.pages, self.swapped, self.page_rows = [], swapped, 0
        #: rows of the pages that were handed over, as long as anybody has them
        self.handed_over = []
        #: after each chunk: transactions that were read, rows, cursor, and `swapped`
        self.stored = []
        self.cursor = cursor or SnapshotCursor("a-1-1", wanted=(str(NAME),))
        self.snapshot = ShardSnapshot(self.cursor, "s0", SERVER, "lane", PAGES_MAX, self)
        self.snapshot.reached(self.position)

    @property
    def position(self):
        return Position(FILE, self.at * STEP, server=SERVER)

    def processed(self, page):
        return page

    def put(self, chunk):
        if chunk.snapshot is not None and not chunk.snapshot.startswith(OVER):
            self.cursor = SnapshotCursor.from_json(chunk.snapshot)
        is_page = bool(chunk.headers["flags"][0] & Flag.PAGE)
        for table in chunk.tables:
            for row in table.rows.to_pylist():
                self._apply(row)
        header = chunk.headers[0]
        assert header["end_offset"] == (self.at if is_page else self.at + 1) * STEP
        assert header["row_begin"] == (self.page_rows if is_page else 0)
        self.page_rows = int(header["row_end"]) if is_page else 0
        self.stored.append((self.at if is_page else self.at + 1, dict(self.rows), self.cursor, self.swapped))

    def _apply(self, row):
        op, before, after = row["_op"], row["before"], row["after"]
        if op == Op.READ:
            # It is as it is at the boundary, so no change of it was delivered that is newer.
            assert self.server.states[self.at].get(after["id"]) == (after["v"], after["w"])
        old = self.rows.pop(before["id"], None) if before is not None else None
        if after is not None:
            w = after["w"] if "_after_absent" not in row or after["w"] is not None else old and old[1]
            self.rows[after["id"]] = (after["v"], w)

    def read(self):
        if self.at < len(self.server.log):
            chunk = self.server.chunk(self.at)
            # A stream brings no rows of a table that takes the place of another one.
            self.swapped |= self.server.log[self.at] == "swap" and self.snapshot.tables.ended
            self.snapshot.chunk_read(chunk, chunk)
            self.at += 1
            if self.chance.random() < 0.8:
                self.snapshot.reached(self.position)

    def work(self):
        work = self.snapshot.take(0)
        if work is None:
            return
        if isinstance(work.step, PlanTable):
            self.snapshot.planned(work, PLAN)
        elif self.chance.random() < 0.1:
            self.snapshot.page_missed(work)
        else:
            self.pages.append((work, self.server.page(work.step)))

    def enter(self):
        if self.pages:
            work, page = self.pages.pop(self.chance.randrange(len(self.pages)))
            self.handed_over.append(weakref.ref(page.table.rows))
            self.snapshot.page_read(work, page)
            del page
            assert sum(each() is not None for each in self.handed_over) <= PAGES_MAX

    def step(self):
        self.chance.choice(
            [self.server.write, self.read, self.read, self.work, self.work, self.enter, self.enter]
        )()

    def finish(self):
        for _ in range(10_000):
            self.read()
            self.snapshot.reached(self.position)
            self.work()
            self.enter()
            if self.snapshot.tables.ended and self.at == len(self.server.log):
                return
        raise AssertionError("it ends")

    def check(self):
        assert not self.snapshot.tables.failures
        now = self.server.states[-1]
        if self.swapped:
            return
        assert {key: self.rows.get(key) for key in now} == now
        if "swap" not in self.server.log:
            assert self.rows.keys() == now.keys()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_consumer_has_the_tables_rows_in_the_end(seed):
    """Also one that lost all after some acknowledged point, and goes on by the cursor that it had there."""
    chance = random.Random(seed)
    server = Server(chance)
    for _ in range(chance.randrange(5)):
        server.write()
    first = Run(server, chance, begin=len(server.log) - chance.randrange(len(server.log) + 1))
    for _ in range(chance.randrange(120)):
        first.step()
    if first.stored:
        at, rows, cursor, swapped = chance.choice(first.stored)
        again = Run(server, chance, rows=rows, begin=at, cursor=cursor, swapped=swapped)
        again.finish()
        again.check()
    first.finish()
    first.check()
