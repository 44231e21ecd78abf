"""Tests of the audit of a snapshot: a sound story passes, and each kind of fault is found.

Tables have orders 1 to 4 when a client begins. Then 2 is updated, 3 is deleted, and 5 is inserted, in a
transaction each; 1 and 2 are read before, 4 after the first two.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.rows.written_rows import CLIENT, FILE, SHARD, row

from canal_group.merge.rows.assemble import PAGE_ROWS
from canal_group.merge.rows.envelope import ENVELOPE
from canal_group.merge.snapshot.cursor import SnapshotCursor
from canal_group.merge.values.gtids.gtid import parse_gtid_set
from canal_group.merge.values.marks.snapshot_mark import SnapshotMark
from canal_group.merge.values.position import GroupPosition, Position
from canal_group.programs.demo.delivered import CELL_END, cell
from canal_group.programs.demo.written import Change as Written
from chaos.audit import Findings, audit
from chaos.clocks import S_US
from chaos.commits import Commit, Commits
from chaos.cursors import CursorWrite
from chaos.ends import End
from chaos.journal import Step, begun_at, deliveries_of
from chaos.lateness import Dial, Oracle
from chaos.recorder import Journal
from chaos.truth import Truth

#: `server_id` of the shard's first server, and of the server that takes over
OLD, NEW = 1, 2
TEXT = SnapshotCursor(f"{CLIENT}-1-1").to_json()
Rows = list[dict[str, Any]]


def image(number: int, state: str = "new") -> list[tuple[str, str]]:
    return [("id", str(number)), ("state", state), ("written_us", "1")]


def changed(number: int, op: str, order: int, before: str | None, after: str | None) -> dict[str, Any]:
    """Return the one row of transaction `number`."""
    images = {
        side: None if state is None else image(order, state)
        for side, state in (("before", before), ("after", after))
    }
    return {
        **row(number, None),
        "op": op,
        "key": [("id", str(order))],
        **images,
    }


def paged(number: int, ordinal: int, op: str, **more: Any) -> dict[str, Any]:
    """Return a row of a page before transaction `number`."""
    at = {"gtid": "", "row": ordinal - PAGE_ROWS, "key_us": number - 1, "commit_us": number - 1}
    return {**row(number, None), **at, "op": op, "key": [], "before": None, "after": None, **more}


def read(number: int, ordinal: int, order: int, state: str = "new") -> dict[str, Any]:
    return paged(number, ordinal, "READ", key=[("id", str(order))], after=image(order, state))


def mark(number: int, ordinal: int, **failed: str) -> dict[str, Any]:
    said = SnapshotMark(SHARD, CLIENT, "", Position(FILE, number * 100), failed, len(failed))
    return paged(number, ordinal, "QUERY", schema="", table="", sql=said.to_sql())


UPDATED, DELETED, INSERTED = (
    changed(1, "UPDATE", 2, "new", "paid"),
    changed(2, "DELETE", 3, "new", None),
    changed(3, "INSERT", 5, None, "new"),
)


def sound() -> list[Rows]:
    """Return batches of rows: what a sound stream is."""
    return [
        [read(1, 0, 1), read(1, 1, 2)],
        [UPDATED, DELETED],
        [read(3, 0, 4)],
        [INSERTED, mark(4, 0)],
    ]


class Story:
    """One shard; transaction n begins at offset n hundred, and has key n."""

    def __init__(self, folder: Path, *, moved_at: int = 0) -> None:
        self.folder = folder / "consumer-0"
        self.journal = Journal(self.folder)
        self.moved_at = moved_at
        self.writes: list[CursorWrite] = []
        self.at_us, self.seq, self.batch_id = S_US, 0, 1 << 32
        self.note("subscribed", cursor=self.cursor(1, TEXT))

    def note(self, what: str, **said: Any) -> None:
        self.at_us += 1_000
        self.journal.note(Step(what, consumer_epoch=1, at_us=self.at_us, **said))

    def cursor(self, end: int, text: str | None, seq: int = 0) -> str:
        gtids = parse_gtid_set(f"0-{self.server(end - 1)}-{end - 1}" if end > 1 else "")
        at = Position(FILE, end * 100, gtid_set=gtids, server=str(self.server(end - 1)), snapshot=text)
        return GroupPosition({SHARD: at}, seq).to_json()

    def server(self, number: int) -> int:
        return NEW if self.moved_at and number >= self.moved_at else OLD

    def delivered(self, rows: Rows, end: int, text: str | None = TEXT) -> str:
        """Deliver a batch that ends before transaction `end`; return its cursor."""
        self.batch_id += 1
        here = [self.here(each) | {"seq": self.seq + n} for n, each in enumerate(rows)]
        cursor = self.cursor(end, text, self.seq + len(rows))
        table = pa.Table.from_pylist(here, schema=ENVELOPE)
        self.note("delivered", batch_id=self.batch_id, rows=self.journal.rows(table), cursor=cursor)
        return cursor

    def here(self, each: dict[str, Any]) -> dict[str, Any]:
        """Return a row as its server has it."""
        server, number = self.server(each["pos"] // 100), each["pos"] // 100
        where = {"file": "mysql-bin.000007", "pos": number} if server == NEW else {}
        return {**each, "gtid": each["gtid"] and f"0-{server}-{number}", **where}

    def taken(self, rows: Rows, end: int, text: str | None = TEXT) -> None:
        """Deliver a batch, and acknowledge it."""
        cursor = self.delivered(rows, end, text)
        self.note("acking", batch_id=self.batch_id)
        self.writes.append(CursorWrite(len(self.writes) + 1, cursor, 1, fenced=True))
        self.note("acked", batch_id=self.batch_id, cursor=cursor)
        self.seq += len(rows)

    def all(self, batches: list[Rows]) -> Findings:
        """Take batches that end where those of a sound stream do; return the findings."""
        ends = [(1, TEXT), (3, TEXT), (3, TEXT), (4, None)]
        for rows, (end, text) in zip(batches, ends, strict=True):
            self.taken(rows, end, text)
        return self.told()

    def told(self, *, stopped: bool = False, steered: tuple[tuple[int, int], ...] = ()) -> Findings:
        record = Commits(SHARD, "0-1-", 1)
        for number, op in enumerate(("UPDATE", "DELETE", "INSERT"), 1):
            commit = Commit(f"0-{self.server(number)}-{number}", self.server(number), number, number)
            record.commit((Written("orders", op, 1),), commit)
        servers = {
            (SHARD, "orders", cell("id", str(number))): CELL_END.join(
                cell(name, value) for name, value in image(number, state)
            )
            for number, state in ((1, "new"), (2, "paid"), (4, "new"), (5, "new"))
        }
        oracle = Oracle([record], {OLD: Dial(1), NEW: Dial(1)})
        truth = Truth([record], servers, oracle, End.after(self.at_us, 0))
        copy = truth.of_copy(begun_at([self.folder]), stopped=stopped)
        return audit(CLIENT, list(deliveries_of(self.folder)), self.writes, copy, [], steered)


@pytest.fixture
def story(tmp_path: Path) -> Story:
    return Story(tmp_path)


def test_a_sound_snapshot_has_nothing_wrong(story: Story):
    found = story.all(sound())
    assert found.ok, found.words
    assert (found.rows, found.snapshot_rows, found.batches) == (3, 3, 4)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda batches: batches[0].pop(0), "id=1: the server has the row"),
        (lambda batches: batches[2].clear(), "id=4: the server has the row"),
        (lambda batches: batches[1].insert(1, read(2, 0, 2)), "another row is read"),
        (lambda batches: batches[2].append(read(3, 1, 3)), "a row is read that was deleted before"),
        (lambda batches: batches[2].append(read(3, 1, 5)), "a row is inserted that exists"),
        (lambda batches: batches[2].append(read(3, 0, 4)), "came before"),
    ],
    ids=["lost", "page lost", "older than its update", "deleted", "newer than the stream", "twice"],
)
def test_a_row_that_is_lost_or_out_of_order_is_found(
    story: Story, wrong: Callable[[list[Rows]], None], words: str
):
    batches = sound()
    wrong(batches)
    found = story.all(batches)
    assert found.lost or found.snapshot_faults
    assert any(words in each for each in found.words), found.words


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda batches: batches[3].pop(), "has 0 marks"),
        (lambda batches: batches[3].append(mark(4, 1)), "has 2 marks"),
        (lambda batches: batches[2].append(mark(3, 1)), "has 1 marks"),
        (
            lambda batches: batches[3].__setitem__(1, mark(4, 0, **{"shop_0.orders_0": "gone"})),
            "was not read: ",
        ),
    ],
    ids=["missing", "twice", "too early", "of a table that was not read"],
)
def test_a_mark_that_is_wrong_is_found(story: Story, wrong: Callable[[list[Rows]], None], words: str):
    batches = sound()
    wrong(batches)
    found = story.all(batches)
    assert found.snapshot_faults
    assert any(words in each for each in found.words), found.words


def test_a_row_that_is_read_after_the_snapshot_is_found(story: Story):
    story.all(sound())
    story.taken([read(4, 1, 1)], 4, None)
    (words,) = story.told().words
    assert "reads rows of shop-0, which has no snapshot" in words


def test_a_table_may_be_read_again(story: Story):
    """1. The snapshot is over; 2. an operator has the table read again, and its mark comes."""
    story.all(sound())
    story.writes.append(CursorWrite(len(story.writes) + 1, story.cursor(4, TEXT, story.seq), 1, fenced=True))
    story.taken([read(4, 1, 1), read(4, 2, 2, "paid"), mark(4, 3)], 4, None)
    found = story.told()
    assert found.ok, found.words
    story.taken([], 4, None)
    story.writes.append(CursorWrite(len(story.writes) + 1, story.cursor(4, TEXT, story.seq), 1, fenced=True))
    story.taken([read(4, 4, 4, "older"), mark(4, 5)], 4, None)
    assert story.told().lost


def test_rows_that_come_again_are_the_same(story: Story):
    story.delivered([read(1, 0, 1), read(1, 1, 2)], 1)
    story.note("anew", cursor=story.cursor(1, TEXT))
    found = story.all(sound())
    assert found.ok, found.words
    assert found.snapshot_again == 2


def test_rows_that_come_again_as_others_are_found(story: Story):
    """Unless an operator has changed what is read."""
    story.delivered([read(1, 0, 1), read(1, 1, 2, "older")], 1)
    begin_us = story.at_us + 1
    story.note("anew", cursor=story.cursor(1, TEXT))
    found = story.all(sound())
    assert found.snapshot_faults == 1
    assert any("came again as" in words for words in found.words), found.words
    assert story.told(steered=((begin_us, begin_us),)).ok


def test_a_snapshot_that_was_stopped_has_no_mark_and_may_lack_rows(story: Story):
    """1. It is stopped after the first page; 2. the table is added, and all of it is read."""
    first, second, *_ = sound()
    story.taken(first, 1)
    story.writes.append(CursorWrite(len(story.writes) + 1, story.cursor(1, None, story.seq), 1, fenced=True))
    story.taken(second, 3, None)
    assert story.told(stopped=True).lost, "rows are missing"
    story.writes.append(CursorWrite(len(story.writes) + 1, story.cursor(3, TEXT, story.seq), 1, fenced=True))
    story.taken([read(3, 0, 1), read(3, 1, 2, "paid"), read(3, 2, 4)], 3)
    story.taken([INSERTED, mark(4, 0)], 4, None)
    found = story.told(stopped=True)
    assert found.ok, found.words


def test_what_was_committed_before_is_not_expected(story: Story):
    story.note("anew", cursor=story.cursor(2, TEXT))
    story.taken([read(2, 0, 1), read(2, 1, 2, "paid")], 2)
    story.taken([DELETED, INSERTED], 4)
    story.taken([read(4, 0, 4), mark(4, 1)], 4, None)
    found = story.told()
    assert found.ok, found.words


@pytest.mark.parametrize("moved_at", [2, 3])
def test_pages_of_two_servers_are_in_the_order_of_the_stream(tmp_path: Path, moved_at: int):
    """What was read of one server and not acknowledged, the other may have otherwise."""
    story = Story(tmp_path, moved_at=moved_at)
    story.delivered([read(3, 0, 4, "older")], 3)
    story.note("anew", cursor=story.cursor(1, TEXT))
    found = story.all(sound())
    assert found.ok, found.words
    lost = sound()
    lost[2].clear()
    assert Story(tmp_path / "lost", moved_at=moved_at).all(lost).lost
