"""Mutations: each breaks one rule of snapshots, and the simulation must notice it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from canal_group.actors.snapshot import shard_snapshot
from canal_group.actors.snapshot.lane_snapshot import LaneSnapshot
from canal_group.actors.snapshot.page_folder import PageFolder
from canal_group.actors.snapshot.shard_snapshot import ShardSnapshot
from canal_group.actors.snapshot.snapshot_tables import SnapshotTables
from canal_group.merge.delivery import read_position
from canal_group.merge.order.stream import Stream
from canal_group.merge.snapshot import table_rows
from canal_group.merge.snapshot.cursor import KeyRange, SnapshotCursor, TableCursor
from canal_group.merge.snapshot.point import Point
from canal_group.merge.snapshot.steps import TableChange
from canal_group.merge.snapshot.table_rows import PlacedRows
from canal_group.merge.snapshot.table_snapshot import TableSnapshot
from canal_group.merge.snapshot.touch_log import TouchLog
from canal_group.merge.snapshot.touched import Touched
from canal_group.merge.values.chunk import Chunk, Op, TableName
from canal_group.merge.values.position import GroupPosition, Position
from simulation.snapshots.pages import Pages
from simulation.snapshots.world import Fault

#: sets an attribute until the simulation has ended, as pytest's `monkeypatch.setattr`
Patch = Callable[[Any, str, Any], None]


def what_is_written_is_taken_for_visible(patch: Patch) -> None:
    """The low mark of a page is its high mark."""
    real = Pages.page

    def page(self: Pages, *work: Any) -> Any:
        found = real(self, *work)
        return replace(found, point=Point(found.point.server, found.point.high, found.point.high))

    patch(Pages, "page", page)


def what_is_executed_is_taken_for_all_that_is_visible(patch: Patch) -> None:
    """A page enters where its low mark is: at once."""
    real = Pages.page

    def page(self: Pages, *work: Any) -> Any:
        found = real(self, *work)
        return replace(found, point=replace(found.point, high=self._server.offset(0)))

    patch(Pages, "page", page)


def events_of_rows_that_will_be_read_are_dropped(patch: Patch) -> None:
    """The stream lacks updates of rows in ranges that are still to be read: the snapshot will bring them."""
    real = ShardSnapshot.chunk_read

    def chunk_read(self: ShardSnapshot, chunk: Chunk, stored: Chunk) -> None:
        tables = []
        for each in stored.tables:
            table = self.tables._all.get(each.name)
            cursor: TableCursor | None = None if table is None else table.cursor
            drops = [cursor is not None and _is_left(row, cursor) for row in each.rows.to_pylist()]
            kept = [index for index, dropped in enumerate(drops) if not dropped]
            tables.append(
                replace(each, rows=each.rows.take(pa.array(kept, pa.int64())))
                if len(kept) < len(drops)
                else each
            )
        real(self, chunk, replace(stored, tables=tuple(tables)))

    patch(ShardSnapshot, "chunk_read", chunk_read)


def _is_left(row: dict[str, Any], cursor: TableCursor) -> bool:
    key = row["after"]["id"] if row["_op"] == Op.UPDATE else None
    return key is not None and any(_has(each, key) for each in cursor.ranges)


def _has(part: KeyRange, key: int) -> bool:
    after, until = (None if each is None else int(each[0]) for each in (part.after, part.until))
    return (after is None or key > after) and (until is None or key <= until)


def the_log_of_touched_rows_is_always_long_enough(patch: Patch) -> None:
    patch(TouchLog, "reaches_back_to", lambda *_: True)


def touched_rows_are_kept(patch: Patch) -> None:
    """A page enters as it was read, whatever was touched since."""
    patch(shard_snapshot, "placed", lambda rows, *_: PlacedRows(rows, ()))


def images_are_not_laid_over_rows(patch: Patch) -> None:
    patch(table_rows, "_overlaid", lambda rows, indexes, _: rows.take(pa.array(indexes)))


def images_that_lack_computed_columns_are_laid_over_rows(patch: Patch) -> None:
    """Rows of which nobody knows what they are now are not read again."""
    real = shard_snapshot.touched_by
    patch(shard_snapshot, "touched_by", lambda batches, key, _: real(batches, key, frozenset()))


def moved_rows_are_not_read_again(patch: Patch) -> None:
    real = Touched.update

    def update(self: Touched[Any], before: Any, after: Any, image: Any) -> None:
        real(self, before, after, image)
        self.moved.discard(after)
        self.settled.add(after)

    patch(Touched, "update", update)


def pages_on_the_disk_follow_any_cursor(patch: Patch) -> None:
    """What was read between a cursor and the next page that is there does not come."""
    patch(PageFolder, "follows", lambda *_: ())


def moved_rows_beside_pages_that_are_gone_count_as_read(patch: Patch) -> None:
    patch(SnapshotCursor, "settled", lambda self: replace(self, moved=()))


def a_page_in_flight_counts_as_read(patch: Patch) -> None:
    real = TableSnapshot._cursor

    def cursor(self: TableSnapshot[Any], emitted: Any = None) -> TableCursor:
        pages, self._pages = self._pages, {}
        if emitted is not None:
            self._pages = {emitted.number: pages[emitted.number]}
        try:
            return real(self, emitted)
        finally:
            self._pages = pages

    patch(TableSnapshot, "_cursor", cursor)


def pages_that_were_read_before_a_statement_enter_after_it(patch: Patch) -> None:
    real = shard_snapshot.change_of

    def change_of(name: TableName, changes: Any) -> TableChange | None:
        change = real(name, changes)
        return None if change is TableChange.ALTERED else change

    patch(shard_snapshot, "change_of", change_of)


def pages_enter_inside_transactions(patch: Patch) -> None:
    real = LaneSnapshot.reached

    def reached(self: LaneSnapshot, position: Position) -> None:
        real(self, replace(position, rows_into_transaction=0))

    patch(LaneSnapshot, "reached", reached)


def pages_are_delivered_before_they_are_durable(patch: Patch) -> None:
    patch(PageFolder, "add", lambda *_: None)


def pages_are_read_anew_after_a_rollback(patch: Patch) -> None:
    """What was delivered does not come again as it was."""
    patch(PageFolder, "after", lambda *_: iter(()))


def a_shard_that_was_cut_off_writes_pages(patch: Patch) -> None:
    real = PageFolder.add

    def add(self: PageFolder, *page: Any) -> None:
        self._token = (self._folder / "owner").read_text()
        real(self, *page)

    patch(PageFolder, "add", add)


def the_mark_comes_before_the_last_table_was_read(patch: Patch) -> None:
    def ended(self: SnapshotTables) -> bool:
        left = sum(not table.ended for table in self._begun.values())
        return self._complete and not self._waiting and left < 2

    patch(SnapshotTables, "ended", property(ended))


def a_client_joins_the_live_log_before_its_snapshot_is_over(patch: Patch) -> None:
    real = Stream.holds

    def holds(self: Stream, sought: GroupPosition) -> bool:
        return real(self, sought.with_snapshots(dict.fromkeys(sought.snapshots)))

    patch(Stream, "holds", holds)


def a_range_may_have_other_pages_than_it_had(patch: Patch) -> None:
    patch(read_position, "check_pages", lambda *_: None)


#: each mutation, and the faults by which it is noticed soon; none: all
MUTATIONS: Final[dict[Callable[[Patch], None], tuple[Fault, ...]]] = {
    what_is_written_is_taken_for_visible: (),
    what_is_executed_is_taken_for_all_that_is_visible: (),
    events_of_rows_that_will_be_read_are_dropped: (),
    the_log_of_touched_rows_is_always_long_enough: (),
    touched_rows_are_kept: (),
    images_are_not_laid_over_rows: (),
    images_that_lack_computed_columns_are_laid_over_rows: (),
    moved_rows_are_not_read_again: (),
    pages_that_were_read_before_a_statement_enter_after_it: (Fault.DEFINE,),
    pages_enter_inside_transactions: (),
    pages_are_delivered_before_they_are_durable: (),
    pages_are_read_anew_after_a_rollback: (Fault.KILL_SHARD, Fault.KILL_CONSUMER),
    pages_on_the_disk_follow_any_cursor: (),
    a_shard_that_was_cut_off_writes_pages: (Fault.CUT_OFF, Fault.KILL_SHARD),
    moved_rows_beside_pages_that_are_gone_count_as_read: (),
    a_page_in_flight_counts_as_read: (),
    the_mark_comes_before_the_last_table_was_read: (),
    a_client_joins_the_live_log_before_its_snapshot_is_over: (),
    a_range_may_have_other_pages_than_it_had: (Fault.LOSE_PAGES,),
}
