"""Tests of the audit: a correct story passes, and every kind of fault is detected."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from support.rows.written_rows import CLIENT, FILE, SHARD, TREE, row

from canal_group.merge.rows.envelope import ENVELOPE
from canal_group.merge.values.position import GroupPosition, Position
from canal_group.programs.demo.delivered import CELL_END, cell
from canal_group.programs.demo.written import Change as Written
from chaos.audit import Findings, audit
from chaos.clocks import S_US
from chaos.commits import Commit, Commits
from chaos.cursors import CursorWrite, cursor_writes
from chaos.ends import End
from chaos.history import Change, Entry, IncompleteHistoryError, Kind
from chaos.journal import Step, deliveries_of
from chaos.lateness import Dial, Oracle
from chaos.recorder import Journal
from chaos.truth import Truth

SERVER = 101


class Story:
    """One shard; transaction n inserts row n, begins at offset n, and has key n."""

    def __init__(self, folder: Path, rows: int) -> None:
        self.folder = folder / "consumer-0"
        self.journal = Journal(self.folder)
        self.writes: list[CursorWrite] = []
        self.rows = rows
        self.at_us = S_US
        self.note("subscribed")

    def note(self, what: str, **said: object) -> None:
        self.at_us += 1_000
        self.journal.note(Step(what, consumer_epoch=1, at_us=self.at_us, **said))

    def delivered(self, begin: int, end: int, *, epoch: int = 1, first_key: int | None = None) -> int:
        """Deliver rows begin..end-1; return the batch's id."""
        batch_id = (epoch << 32) + len(self.writes) + self.at_us
        table = pa.Table.from_pylist([row(n, first_key) for n in range(begin, end)], schema=ENVELOPE)
        self.note("delivered", batch_id=batch_id, rows=self.journal.rows(table), cursor=cursor(end))
        return batch_id

    def acked(self, batch_id: int, end: int, *, answered: bool = True, durable: bool = True) -> None:
        """Acknowledge a batch that ends before row `end`."""
        self.note("acking", batch_id=batch_id)
        if durable:
            self.writes.append(CursorWrite(len(self.writes) + 1, cursor(end), batch_id >> 32, fenced=True))
        if answered:
            self.note("acked", batch_id=batch_id, cursor=cursor(end))

    def told(self) -> Findings:
        record = Commits(SHARD, "0-1-", 1)
        for number in range(1, self.rows + 1):
            record.commit((Written("orders", "INSERT", 1),), Commit(f"0-1-{number}", SERVER, number, number))
        servers = {
            (SHARD, "orders", cell("id", str(n))): CELL_END.join(
                [cell("id", str(n)), cell("written_us", "1")]
            )
            for n in range(1, self.rows + 1)
        }
        oracle = Oracle([record], {SERVER: Dial(1)})
        truth = Truth([record], servers, oracle, End.after(self.at_us, 0))
        return audit(CLIENT, list(deliveries_of(self.folder)), self.writes, truth, [])


def cursor(end: int) -> str:
    return GroupPosition({SHARD: Position(FILE, end * 100)}, end).to_json()


@pytest.fixture
def story(tmp_path: Path) -> Story:
    """Rows 1 to 6 were written; 1 and 2 are acknowledged."""
    story = Story(tmp_path, 6)
    story.acked(story.delivered(1, 3), 3)
    return story


def test_a_sound_story_has_nothing_wrong(story: Story):
    story.acked(story.delivered(3, 5), 5)
    story.acked(story.delivered(5, 7), 7)
    found = story.told()
    assert found.ok, found.words
    assert (found.rows, found.batches) == (6, 3)


def test_an_unanswered_ack_counts_if_its_cursor_was_written(story: Story):
    story.acked(story.delivered(3, 5), 5, answered=False)
    story.note("anew")
    story.acked(story.delivered(5, 7), 7)
    assert story.told().ok


def test_one_that_was_not_written_leaves_its_rows_to_come_again(story: Story):
    story.acked(story.delivered(3, 5), 5, answered=False, durable=False)
    story.note("anew")
    story.acked(story.delivered(3, 5, epoch=2), 5)
    story.acked(story.delivered(5, 7, epoch=2), 7)
    assert story.told().ok


def test_rows_that_did_not_come_again_are_lost(story: Story):
    story.acked(story.delivered(3, 5), 5, answered=False, durable=False)
    story.note("anew")
    story.acked(story.delivered(5, 7), 7)
    found = story.told()
    assert found.lost == 2
    assert found.stalled == 1, "and what does not come does not come in time"


def test_what_was_answered_and_not_written_is_lost(story: Story):
    story.acked(story.delivered(3, 7), 7, durable=False)
    assert story.told().lost == 1


def test_the_cursor_has_a_shard_that_joins_between_delivery_and_ack(story: Story):
    joined = GroupPosition({SHARD: Position(FILE, 700), "shop-1": Position(FILE, 4)}, 7).to_json()
    batch_id = story.delivered(3, 7)
    story.note("acking", batch_id=batch_id)
    story.writes.append(CursorWrite(len(story.writes) + 1, joined, 1, fenced=True))
    story.note("acked", batch_id=batch_id, cursor=joined)
    found = story.told()
    assert found.ok, found.words


def test_rows_that_are_acknowledged_twice_are_noticed(story: Story):
    story.acked(story.delivered(3, 5), 5)
    story.note("anew")
    story.acked(story.delivered(4, 7), 7)
    assert story.told().duplicated == 1


def test_a_cursor_that_goes_back_is_noticed(story: Story):
    story.acked(story.delivered(3, 7), 7)
    story.writes.append(CursorWrite(9, cursor(5), 1, fenced=True))
    assert story.told().cursor_regressions == 2, "the sequence, and the shard's position"


def test_a_key_that_goes_back_is_noticed(story: Story):
    story.acked(story.delivered(3, 7, first_key=1), 7)
    assert story.told().reordered


def test_a_row_without_a_write_is_reported(story: Story):
    story.acked(story.delivered(3, 8), 8)
    assert story.told().duplicated == 1


def test_an_acknowledgement_under_an_epoch_that_is_over_is_noticed(story: Story):
    story.acked(story.delivered(3, 5, epoch=2), 5)
    story.acked(story.delivered(5, 7, epoch=1), 7)
    assert story.told().double_active == 1, "epoch 1 after epoch 2"
    story.writes[-1] = replace(story.writes[-1], epoch=2)
    assert story.told().double_active == 2, "and while 2 was current"


def test_a_write_that_is_not_fenced_is_noticed():
    """1. session 7 wins epoch 1 and writes; 2. session 8 wins epoch 2; 3. 7 writes again, unchecked."""
    node = f"{TREE.client(CLIENT)}/cursor"

    def won(zxid: int, session: int, epoch: int) -> Entry:
        claim = f'{{"session":"{session:#x}"}}'.encode()
        return Entry(zxid, session, (Change(Kind.SET, TREE.epoch, claim, epoch),))

    def wrote(zxid: int, session: int, version: int, *checks: Change) -> Entry:
        kind = Kind.SET if version else Kind.CREATE
        return Entry(zxid, session, (*checks, Change(kind, node, cursor(zxid).encode(), version)))

    told = [won(1, 7, 1), wrote(2, 7, 0), won(3, 8, 2), wrote(4, 7, 1)]
    assert [write.fenced for write in cursor_writes(told, TREE, CLIENT)] == [True, False]
    told[-1] = wrote(4, 7, 1, Change(Kind.CHECK, TREE.epoch, version=2))
    assert [write.fenced for write in cursor_writes(told, TREE, CLIENT)] == [True, True]
    with pytest.raises(IncompleteHistoryError):
        list(cursor_writes([*told, wrote(5, 8, 3)], TREE, CLIENT))
