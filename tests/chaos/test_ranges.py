"""Exactly once for ranges: repeated readings are equal, and the completed ranges are a chain."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from support.rows.written_rows import row

from canal_group.merge.rows.envelope import ENVELOPE
from canal_group.merge.values.gtids.gtid import parse_gtid_set
from canal_group.merge.values.position import GroupPosition, Position
from canal_group.programs.demo.delivered import CELL_END, cell
from canal_group.programs.demo.written import Change as Written
from chaos.audit import Findings, audit_ranges
from chaos.commits import Commit, Commits
from chaos.cursors import CursorWrite
from chaos.ends import End
from chaos.journal import Step
from chaos.lateness import Dial, Oracle
from chaos.ranges import ranges_of
from chaos.recorder import Journal
from chaos.truth import Truth

SHARD, FILE, CLIENT = "shop-0", "mysql-bin.000001", "1002"
#: `server_id` of the shard's first server, and of the server that takes over
OLD, NEW = 1, 2


class Story:
    """One shard; transaction n inserts row n, and is row n of the merged stream."""

    def __init__(self, folder: Path, rows: int, *, moved_at: int = 0) -> None:
        self.folder = folder
        self.rows = rows
        #: first transaction that was committed on the new server; 0: none was
        self.moved_at = moved_at
        self.folders: list[Path] = []
        self.at_us = 1_000_000
        self.writes: list[CursorWrite] = []
        self.begin()

    def begin(self) -> None:
        """Start a process."""
        self.folders.append(self.folder / f"consumer-{len(self.folders)}")
        self.journal = Journal(self.folders[-1])

    def note(self, what: str, **said: object) -> None:
        self.at_us += 1_000
        self.journal.note(Step(what, at_us=self.at_us, **said))

    def read(self, begin: int, end: int, rows: list[dict[str, object]] | None = None) -> None:
        """Read rows begin..end-1."""
        told = [self.row(number) for number in range(begin, end)] if rows is None else rows
        table = pa.Table.from_pylist(told, schema=ENVELOPE)
        positions = {"start": self.cursor(begin), "cursor": self.cursor(end)}
        self.note("read", rows=self.journal.rows(table), **positions)

    def done(self, end: int) -> None:
        self.note("done", cursor=self.cursor(end))
        self.writes.append(CursorWrite(len(self.writes) + 1, self.cursor(end), 1, fenced=True))

    def gtid(self, number: int) -> str:
        server = NEW if self.moved_at and number >= self.moved_at else OLD
        return f"0-{server}-{number}"

    def row(self, number: int, **other: object) -> dict[str, object]:
        return {**row(number, None), "gtid": self.gtid(number), **other}

    def cursor(self, end: int, server: int = OLD) -> str:
        server = NEW if self.moved_at and end > self.moved_at else server
        gtids = parse_gtid_set(self.gtid(end - 1) if end > 1 else "")
        at = Position(FILE, end * 100, gtid_set=gtids, server=str(server))
        return GroupPosition({SHARD: at}, end).to_json()

    def told(self) -> Findings:
        record = Commits(SHARD, "0-1-", 1)
        servers = {}
        for number in range(1, self.rows + 1):
            server = NEW if self.moved_at and number >= self.moved_at else OLD
            commit = Commit(self.gtid(number), server, number, number)
            record.commit((Written("orders", "INSERT", 1),), commit)
            image = CELL_END.join([cell("id", str(number)), cell("written_us", "1")])
            servers[SHARD, "orders", cell("id", str(number))] = image
        oracle = Oracle([record], {OLD: Dial(1), NEW: Dial(1)})
        truth = Truth([record], servers, oracle, End.after(self.at_us, 0))
        return audit_ranges(CLIENT, ranges_of(self.folders), self.writes, truth)


@pytest.fixture
def story(tmp_path: Path) -> Story:
    """Rows 1 to 6 were written; 1 and 2 were read and completed."""
    story = Story(tmp_path, 6)
    story.read(1, 3)
    story.done(3)
    return story


def test_a_sound_story_has_nothing_wrong(story: Story):
    story.read(3, 7)
    story.done(7)
    found = story.told()
    assert found.ok, found.words
    assert (found.rows, found.batches, found.range_rereads) == (6, 2, 0)


def test_a_range_that_was_read_again_with_the_same_rows_is_one(story: Story):
    """A process that was killed read it, and the next process read it again; only `late` may differ."""
    story.read(3, 7)
    story.begin()
    story.read(3, 7, [story.row(number, late=True) for number in range(3, 7)])
    story.done(7)
    found = story.told()
    assert found.ok, found.words
    assert found.range_rereads == 1


def test_a_range_is_done_if_its_process_dies_before_its_journal_entry(story: Story):
    story.read(3, 5)
    story.begin()
    story.read(5, 7)
    story.done(7)
    assert story.told().ok


@pytest.mark.parametrize(
    "numbers", [[3, 4, 6, 5], [3, 4, 5], [3, 4, 5, 6, 6]], ids=["another order", "fewer rows", "more rows"]
)
def test_a_range_that_was_read_again_with_other_rows_is_a_fault(story: Story, numbers: list[int]):
    story.read(3, 7, [story.row(number) for number in numbers])
    story.begin()
    story.read(3, 7)
    story.done(7)
    found = story.told()
    assert found.range_faults == 1
    assert any("reading 2 differs from the first" in words for words in found.words), found.words


def test_a_row_with_another_number_in_a_repeated_range_is_a_fault(story: Story):
    story.read(3, 7)
    story.read(3, 7, [story.row(number, key_us=9) for number in range(3, 7)])
    story.done(7)
    assert story.told().range_faults == 1


def test_ranges_that_do_not_follow_each_other_lose_rows(story: Story):
    story.read(4, 7)
    story.done(7)
    found = story.told()
    assert (found.range_faults, found.lost) == (1, 1)


def test_a_range_that_was_never_done_with_is_lost_and_stalls(story: Story):
    story.read(3, 7)
    found = story.told()
    assert (found.lost, found.stalled) == (4, 1)


def test_a_range_that_has_other_rows_than_its_positions_say_is_a_fault(story: Story):
    story.read(3, 7, [story.row(number) for number in (3, 4, 5)])
    story.done(7)
    found = story.told()
    assert (found.range_faults, found.lost) == (1, 1)


# ---- a failover -----------------------------------------------------------------------------------------


def test_offsets_of_another_server_are_the_same_transactions(tmp_path: Path):
    """Row 3 was read on the old server, and again on the new one, where its position differs."""
    story = Story(tmp_path, 6, moved_at=5)
    story.read(1, 5)
    story.begin()
    story.read(1, 5, [story.row(number, file="mysql-bin.000007", pos=number) for number in range(1, 5)])
    story.done(5)
    story.read(5, 7, [story.row(number, file="mysql-bin.000007", pos=number) for number in range(5, 7)])
    story.done(7)
    found = story.told()
    assert found.ok, found.words


def test_a_transaction_that_is_lost_with_a_failover_is_noticed(tmp_path: Path):
    story = Story(tmp_path, 6, moved_at=5)
    story.read(1, 5)
    story.done(5)
    story.read(5, 7, [story.row(6, seq=5, file="mysql-bin.000007", pos=6)])
    story.done(7)
    found = story.told()
    assert (found.lost, found.range_faults) == (1, 1), found.words


def test_a_transaction_that_comes_twice_with_a_failover_is_noticed(tmp_path: Path):
    story = Story(tmp_path, 6, moved_at=5)
    story.read(1, 5)
    story.done(5)
    told = [story.row(number, file="mysql-bin.000007", pos=number) for number in (4, 5, 6)]
    story.read(5, 7, told)
    story.done(7)
    found = story.told()
    assert found.duplicated >= 1, found.words


def test_a_cursor_goes_back_by_gtid_where_another_server_took_over(tmp_path: Path):
    story = Story(tmp_path, 6, moved_at=5)
    story.read(1, 7)
    story.done(7)
    assert story.told().cursor_regressions == 0
    story.writes.append(CursorWrite(9, story.cursor(3), 1, fenced=True))
    assert story.told().cursor_regressions == 2, "the sequence, and the shard's position"
