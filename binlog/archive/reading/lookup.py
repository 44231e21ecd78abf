"""Lookup: where a start is in the histories of a server, by offset, GTID set or time.

A position is found in the history that has its file with its creation time. Nothing is guessed: what is not
there raises, and says what is. At most a few MiB of a file are read, from a point of its index on.
"""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Callable, Sequence
from typing import Final

from canal_group.binlog.archive.file_scan import POINT_BYTES, FileScan
from canal_group.binlog.archive.history import History
from canal_group.binlog.archive.manifest import FileEntry, State
from canal_group.binlog.archive.points import Point, point_before, point_before_time, point_within
from canal_group.binlog.formats.events import MAGIC
from canal_group.merge.errors import PositionPurged, PositionRefused
from canal_group.merge.values.gtids.gtid import GtidSet, parse_gtid_set
from canal_group.merge.values.position import Position, file_order
from canal_group.merge.values.resets.reset import created_again

_SECOND_US: Final = 1_000_000


def at_position(histories: Sequence[History], position: Position) -> tuple[History, Position]:
    """Return the history that holds a position, and the position with the GTIDs before it.

    Args:
        histories: those of the position's server, see `Archive.histories`.
        position: where a reader goes on: file and offset are of this server.

    Raises:
        PositionPurged: no history has the file, with the creation time that the position names.
        PositionRefused: the file is shorter, or no event begins at the offset.
        CorruptEvent: the file is damaged before it.
    """
    for history in reversed(histories):
        entry = history.manifest.entry(position.file)
        if entry is None or created_again(entry.created_s, position.created_s):
            continue
        if position.offset == len(MAGIC):
            return history, _position(history, entry, position.offset, parse_gtid_set(entry.gtids_before))
        point = point_before(history.points(entry), position.offset)
        scan = _Walk(history, entry, point).to(position.offset)
        if scan.offset == position.offset:
            return history, _position(history, entry, position.offset, scan.gtids())
        raise PositionRefused(
            f"No event begins at {position} in the archive of {history.name}.",
            hint=f"The offset is inside the event at {scan.offset:,}, or after the end.",
            file=position.file,
            offset=position.offset,
        )
    raise _purged(histories, str(position))


def after_gtids(histories: Sequence[History], gtids: GtidSet) -> tuple[History, Position]:
    """Return where the first transaction begins that is not in a set; all of the set are before it.

    Raises:
        PositionPurged: no history begins within the set.
        PositionRefused: some of the set are after that one, or not in the archive.
        CorruptEvent: a file is damaged before it.
    """
    for history in reversed(histories):
        files = _readable(history)
        within = [each for each in files if gtids.contains(parse_gtid_set(each.gtids_before))]
        if not within or not any(each.gtids or each.state is State.OPEN for each in files):
            continue
        entry = within[-1]
        point = point_within(history.points(entry), gtids)
        found = _Walk(history, entry, point).until(lambda each: not gtids.contains(each.gtid_set()))
        position = _position(history, entry, found.offset, found.gtid_set())
        if not position.gtid_set.contains(gtids):
            raise PositionRefused(
                f"The GTID set {gtids} lacks the transaction at {position} in the archive of {history.name}, "
                "and has later ones, or such that are not in it.",
                hint="Begin at a file and offset.",
                file=position.file,
                offset=position.offset,
            )
        return history, position
    raise _purged(histories, f"what follows {gtids}")


def at_time(histories: Sequence[History], time_us: int) -> tuple[History, Position]:
    """Return where the first transaction begins that was committed at or after a time; else the end.

    The first one is that in the order of the histories and their files, the time that of this server's clock.

    Raises:
        PositionPurged: the archive begins after that time.
        CorruptEvent: a file is damaged.
    """
    found: tuple[History, Position] | None = None
    for history in histories:
        for entry in _readable(history):
            if found is None and entry.created_s > time_us // _SECOND_US and file_order(entry.name)[1] > 1:
                time = dt.datetime.fromtimestamp(time_us / _SECOND_US, dt.UTC)
                raise _purged(histories, f"what was committed at {time:%Y-%m-%dT%H:%M:%SZ}")
            if entry.state is State.OPEN or entry.latest_us >= time_us:
                point = point_before_time(history.points(entry), time_us)
                walk = _Walk(history, entry, point)
                first = walk.until(lambda each: each.latest_us >= time_us)
                found = history, _position(history, entry, first.offset, first.gtid_set())
                if walk.found:
                    return found
            else:
                found = history, _position(history, entry, entry.size, parse_gtid_set(entry.gtids))
    if found is None:
        raise _purged(histories, "a file")
    return found


class _Walk:
    """Reads a file from a point on, transaction by transaction.

    Args:
        history: whose file it is.
        entry: the file.
        point: of its index; None: from its first event on.
    """

    def __init__(self, history: History, entry: FileEntry, point: Point | None) -> None:
        self._scan, self._source = history.scan_from(entry, point)
        self._point = point or Point(self._scan.offset, 0, entry.gtids_before)
        #: whether `until` has come to what it looked for
        self.found = False

    def to(self, offset: int) -> FileScan:
        """Read up to an offset, or as far as there are whole events."""
        self._read(offset, lambda: False)
        return self._scan

    def until(self, passed: Callable[[Point], bool]) -> Point:
        """Return the point before the transaction after which a condition holds; the end if there is none.

        Args:
            passed: the condition, of a point: it stays true once it is.
        """
        last = self._point

        def look() -> bool:
            nonlocal last
            for each in self._scan.points:
                if passed(each):
                    return True
                last = each
            self._scan.points.clear()
            return False

        self.found = self._read(None, look)
        if not self.found:
            scan = self._scan
            end = Point(scan.whole_end, scan.times_us[1], str(scan.gtids()))
            self.found = passed(end)
            return last if self.found else end
        return last

    def _read(self, end: int | None, look: Callable[[], bool]) -> bool:
        """Read; return True as soon as `look` does, which is called after each part."""
        at, held = self._point.offset, bytearray()
        with contextlib.closing(self._source) as source:
            while end is None or at < end:
                data = source.read_at(at, POINT_BYTES if end is None else min(POINT_BYTES, end - at))
                if not data:
                    break
                at += len(data)
                # An event may have a GiB: what is held is not copied for each part.
                held += data
                del held[: self._scan.feed(held)]
                if look():
                    return True
        return False


def _readable(history: History) -> list[FileEntry]:
    return [each for each in history.manifest.files if each.state is not State.PRUNED]


def _position(history: History, entry: FileEntry, offset: int, gtids: GtidSet) -> Position:
    server = history.manifest.server
    return Position(entry.name, offset, gtids, server=server, created_s=entry.created_s)


def _purged(histories: Sequence[History], what: str) -> PositionPurged:
    oldest = [f"{each.manifest.files[0].name} of {each.name}" for each in histories if each.manifest.files]
    return PositionPurged(
        f"The archive does not hold {what}.",
        hint=f"It begins with {', '.join(oldest)}." if oldest else "It has no files of this server.",
    )
