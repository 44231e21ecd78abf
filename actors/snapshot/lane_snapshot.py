"""The snapshot of a lane: what stands between its intake, its pages on the disk, and those who read new ones.

    connected     it is known which server is read: only its pages can enter again, at their places
    chunk_read    before all pages are there again, a chunk is stored in parts around them
    reached       after that the shard's snapshot decides, and new pages are read

What happens to tables before that is not looked at row by row: a table of which rows may have moved is named
in the cursor, and read from its beginning if no page that was read before says how far it was read then.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any, Final, Protocol

from canal_group.actors.ports import Host, Lock
from canal_group.actors.snapshot.page_folder import KeptPage, PageFolder
from canal_group.actors.snapshot.page_writer import PageWriter
from canal_group.actors.snapshot.pages_again import PagesAgain
from canal_group.actors.snapshot.shard_snapshot import ShardSnapshot
from canal_group.actors.snapshot.table_changes import change_of, changes_in
from canal_group.binlog.archive.forms.key import Keys
from canal_group.merge.errors import DataError, ShardUnavailable
from canal_group.merge.file_name import file_name
from canal_group.merge.snapshot.cursor import SNAPSHOT_TEXT_MAX, SnapshotCursor, name_of_text
from canal_group.merge.snapshot.steps import TableChange
from canal_group.merge.values.chunk import ABSENT, Chunk
from canal_group.merge.values.header import Flag
from canal_group.merge.values.marks.snapshot_mark import OVER, FailedTables
from canal_group.merge.values.position import Position

#: bytes of rows that a client has not acknowledged with which pages wait: changes come after them
HELD_MAX: Final = 4 << 20
#: most cursors that a page names as its predecessors, and their characters; a reader that continues from an
#: older cursor reads the pages after that cursor again
FOLLOWED_MAX: Final = 64
FOLLOWED_CHARACTERS_MAX: Final = 1 << 20

_log = logging.getLogger(__name__)


class Intake(Protocol):
    """The intake of the lane."""

    def processed(self, chunk: Chunk) -> Chunk:
        """Return a chunk as it is stored; raises DataError if the rules cannot be applied."""

    def store(self, chunk: Chunk, begin: int = 0, end: int | None = None) -> None:
        """Put headers of a chunk into the ring, and wait while there is no room."""

    def store_page(self, page: Chunk, *, written: bool) -> None:
        """Put a page into the ring, likewise; one that is not written waits there until `wrote` counts it."""

    @property
    def bytes_held(self) -> int:
        """Bytes of rows in the ring that are not acknowledged."""

    def wrote(self, count: int) -> None:
        """Let the next pages be handed out that wait to be written."""

    def end(self, error: ShardUnavailable) -> None:
        """End the lane: it is read from another position."""


class Workers(Protocol):
    """Those who read pages."""

    def stop(self) -> None:
        """End them soon, and do not wait for it."""

    def describe(self) -> dict[str, Any]:
        """Return their state as a JSON object."""


@dataclass(frozen=True, slots=True)
class SnapshotParts:
    """What the snapshot of a lane is made of."""

    shard: str
    #: as the position has it
    cursor: SnapshotCursor
    #: where the position is; it has no cursor of a snapshot
    start: Position
    #: has the pages, in a folder for each server
    folder: Path
    #: encrypt them
    keys: Keys
    #: names the rules by which the pages are made
    rules: str
    #: most pages of one table in flight
    pages_max: int
    #: begins to read pages
    start_workers: Callable[[ShardSnapshot, SnapshotCursor], Workers]
    host: Host


class LaneSnapshot:
    """The snapshot of a lane. The reader's thread calls it, but for `freed`, `close` and `describe`.

    Args:
        parts: see there.
        intake: of the lane.
    """

    def __init__(self, parts: SnapshotParts, intake: Intake) -> None:
        self._parts, self._intake = parts, intake
        self._cursor = parts.cursor
        #: the cursor after the last page, and the cursors that changes in the stream have made of the last
        #: page's cursor
        self._texts: tuple[str, ...] = (self.begins_with,)
        self._pages: PageFolder | None = None
        self._writer: PageWriter | None = None
        self._server = ""
        #: pages on the disk that have to enter the ring again; None: no such pages
        self._again: PagesAgain | None = None
        #: file and offset at which the last page entered again, and the ordinal after its rows
        self._page_end = ("", 0, 0)
        self._snapshot: ShardSnapshot | None = None
        self._workers: Workers | None = None
        #: guards what is closed against being made meanwhile
        self._lock: Lock = parts.host.lock()
        self._closed = False
        #: whether the mark at its end is in the ring, and whether it was freed, so that the pages are gone
        self._over = self._freed = False

    # ---- for the intake ------------------------------------------------------------------------------------

    @property
    def begins_with(self) -> str:
        """The cursor that it began with."""
        return self._parts.cursor.to_json()

    def connected(self, server: str, created: Mapping[str, int]) -> None:
        """Note which server is read, when it is known first, and later that it is connected again.

        Args:
            server: its identity.
            created: creation times of its files, seconds since 1970, by name.

        Raises:
            DataError: its folder, or a page in it, cannot be read.
        """
        if self._snapshot is not None:
            self._snapshot.reconnected()
        if self._pages is not None:
            return
        start, folder = self._parts.start, self._parts.folder / file_name(server)
        same = start.server == server
        start = replace(start, created_s=start.created_s or created.get(start.file, 0))
        try:
            pages = PageFolder(folder, self._parts.keys, self._parts.rules)
            # Nobody knows where in another server's binlog the position is, nor what pages are worth if the
            # cursor was changed since: what was not handed out is read anew.
            follows = pages.follows(start) if same else ()
            kept = same and (not follows or _lineage(self.begins_with) in map(_lineage, follows))
            pages.remove_before(start if kept else None)
        except OSError as error:
            raise DataError(
                f"The folder {folder} of a snapshot's pages cannot be used: {error.strerror or error}.",
                hint="It has to be writable for the server, like the archive that it is in.",
            ) from error
        self._server, self._pages = server, pages
        if same:
            self._again = PagesAgain(pages, start)
            self.reached(start)

    def chunk_read(self, chunk: Chunk, stored: Chunk) -> None:
        """Note what a chunk touched, and store it; see `ShardSnapshot.chunk_read`."""
        if self._snapshot is not None:
            self._snapshot.chunk_read(chunk, stored)
            return
        if self._again is None:
            self._intake.store(self._with_moved(chunk, stored))
            return
        for part in self._again.parts(stored):
            if part.begin < part.end:
                self._intake.store(self._with_moved(chunk, stored), part.begin, part.end)
            for page in part.pages:
                self._enter_again(page)

    def reached(self, position: Position) -> None:
        """Let pages enter where the stream is; new ones after all that entered before."""
        if self._pages is None or position.rows_into_transaction:
            return
        if self._again is not None:
            for page in self._again.up_to(position.file, position.offset):
                self._enter_again(page)
            if not self._again.done:
                return
            self._again = None
        if self._over:
            return
        file, offset, rows = self._page_end
        if (file, offset) == (position.file, position.offset):
            position = replace(position, page_rows=rows)
        if self._snapshot is None:
            self._begin()
        if self._snapshot is not None:
            self._snapshot.reached(position)

    def freed(self, position: Position | None) -> None:
        """Remove the pages that every cursor has passed, and all of them when the snapshot is over.

        Args:
            position: at which the ring begins.
        """
        if position is None or self._pages is None or self._freed:
            return
        try:
            if position.snapshot is not None and position.snapshot.startswith(OVER):
                self._freed = True
                if self._pages.is_own:
                    shutil.rmtree(self._parts.folder, ignore_errors=True)
            elif position.is_of(self._server):
                self._pages.remove_before(position)
        except OSError as error:
            _log.warning("a page is not removed: %s", error, extra={"shard": self._parts.shard})

    def close(self) -> None:
        """End every wait; the ring was closed before."""
        with self._lock:
            self._closed = True
            snapshot, workers, writer = self._snapshot, self._workers, self._writer
        if workers is not None:
            workers.stop()
        if snapshot is not None:
            snapshot.close()
        if writer is not None:
            writer.close()

    def describe(self) -> dict[str, Any]:
        """Return its state as a JSON object; waits for no other thread."""
        snapshot, workers, writer = self._snapshot, self._workers, self._writer
        tables, done, unread = len(self._cursor.tables), 0, FailedTables()
        if snapshot is not None:
            tables, done, unread = snapshot.tables.there, snapshot.tables.done, snapshot.tables.unread
        return {
            "id": self._cursor.id,
            "tables": tables,
            "done": done,
            "failed": dict(unread.reasons),
            "failed_tables": unread.count,
            "rows": 0 if snapshot is None else snapshot.rows,
            "paused": self._cursor.paused,
            "over": self._over or (snapshot is not None and snapshot.over),
            **(
                {"rows_estimated": None, "left_s": None, "waits_for": None}
                if workers is None
                else workers.describe()
            ),
            **({} if writer is None or writer.waits_for is None else {"waits_for": writer.waits_for}),
        }

    # ---- for the shard's snapshot --------------------------------------------------------------------------

    @property
    def has_room(self) -> bool:
        """Whether pages are to be read; see `Store`."""
        return self._intake.bytes_held < HELD_MAX

    def processed(self, page: Chunk) -> Chunk:
        """Return a page as it is stored; see `Store`."""
        return replace(self._intake.processed(page), snapshot=page.snapshot)

    def put(self, chunk: Chunk) -> None:
        """Put a page, or a chunk of the stream; see `Store`."""
        follows = self._texts
        if chunk.snapshot is not None:
            self._texts = (chunk.snapshot,) if _is_page(chunk) else _with_last(follows, chunk.snapshot)
        if _is_page(chunk):
            assert self._writer is not None, "the shard's snapshot was begun"
            self._intake.store_page(chunk, written=False)
            self._writer.add(KeptPage(chunk, follows))
        else:
            self._intake.store(chunk)

    # ---- inside --------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        parts, intake = self._parts, self._intake
        assert self._pages is not None, "the server is known"
        with self._lock:
            if self._closed:
                return
            self._cursor = self._cursor.settled()
            self._writer = PageWriter(parts.shard, self._pages, intake.wrote, intake.end, parts.host)
            snapshot = ShardSnapshot(
                self._cursor,
                parts.shard,
                self._server,
                f"{parts.host.now_us():x}",
                parts.pages_max,
                self,
                parts.host,
            )
            self._snapshot = snapshot
            if not self._cursor.paused:
                self._workers = parts.start_workers(snapshot, self._cursor)

    def _enter_again(self, page: Chunk) -> None:
        header, text = page.headers[0], page.snapshot
        self._page_end = page.names[header["file"]], int(header["end_offset"]), int(header["row_end"])
        if text is not None and text.startswith(OVER):
            self._over = True
        elif text is not None:
            # Who steers the snapshot does it by the position; how far it is, the page says.
            then = SnapshotCursor.from_json(text)
            self._cursor = replace(self._cursor, tables=then.tables, moved=(), selected_by=then.selected_by)
            text = self._cursor.to_json()
            self._texts = (text,)
            page = replace(page, snapshot=text)
        self._intake.store_page(page, written=True)

    def _with_moved(self, chunk: Chunk, stored: Chunk) -> Chunk:
        """Return the stored part of a chunk, with a cursor that names tables whose rows may have moved."""
        changes = changes_in(chunk)
        partial = {each.source for each in chunk.tables if ABSENT["after"] in each.rows.schema.names}
        moved = [
            text
            for text, cursor in self._cursor.tables.items()
            if text not in self._cursor.moved
            and (
                (change := change_of(name := name_of_text(text), changes)) is TableChange.ROWS_MOVED
                or (not cursor.done and (name in partial or change not in (None, TableChange.ALTERED)))
            )
        ]
        if not moved or self._over:
            return stored
        named = replace(self._cursor, moved=(*self._cursor.moved, *moved))
        self._cursor = named if len(named.to_json()) <= SNAPSHOT_TEXT_MAX else named.settled()
        text = self._cursor.to_json()
        self._texts = _with_last(self._texts, text)
        return replace(stored, snapshot=text)


def _is_page(chunk: Chunk) -> bool:
    return bool(len(chunk.headers)) and bool(chunk.headers["flags"][0] & Flag.PAGE)


def _with_last(texts: tuple[str, ...], text: str) -> tuple[str, ...]:
    """Return the cursors since a page with one more, without the oldest ones if they are too many."""
    kept = (*(each for each in texts if each != text), text)[-FOLLOWED_MAX:]
    sizes = accumulate(len(each) for each in reversed(kept))
    return kept[-max(1, sum(size <= FOLLOWED_CHARACTERS_MAX for size in sizes)) :]


def _lineage(text: str) -> str:
    """Return a cursor without pauses and moves, which do not decide whether stored pages can be used."""
    return replace(SnapshotCursor.from_json(text), paused=False, moved=()).to_json()
