"""Retention: which files an archive removes, decided from values alone.

Rules, the stronger one first:

1. The newest file of a server stays. Files of one history go from its oldest on, without a gap.
2. `bytes_max` holds, whoever still needs a file: a disk is finite. What is lost so is named before it is
removed. 3. A file stays that a kept position needs, and so do those after it. 4. A file goes when
everything in it is older than `hours`. Without a limit nothing goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from canal_group.binlog.archive.manifest import FileEntry, Manifest, State
from canal_group.merge.errors import UsageError
from canal_group.merge.values.position import file_order
from canal_group.merge.values.resets.reset import created_again
from canal_group.merge.values.retention.kept_position import KeptPosition

_HOUR_US = 3_600_000_000
_SECOND_US = 1_000_000


@dataclass(frozen=True, slots=True)
class Limits:
    """What an archive may hold."""

    #: bytes on the disk; None: any
    bytes_max: int | None
    #: how long a file stays after its last transaction; None: forever
    hours: float | None


@dataclass(frozen=True, slots=True)
class ArchivedHistory:
    """A history, as the decision sees it."""

    #: name of its folder
    name: str
    manifest: Manifest


@dataclass(frozen=True, slots=True)
class Removal:
    """A file to remove."""

    history: str
    entry: FileEntry
    #: which rule removes it
    why: str
    #: owners of kept positions that can no longer be read after the removal
    losers: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the file, why it goes, and who loses it, as a sentence."""
        lost = f"; lost to {', '.join(self.losers)}" if self.losers else ""
        return f"{self.history}/{self.entry.name} ({self.entry.stored:,} bytes): {self.why}{lost}"


def removals(
    histories: Sequence[ArchivedHistory], limits: Limits, kept: Sequence[KeptPosition], now_us: int
) -> list[Removal]:
    """Return the files to remove, in that order; see the module's rules.

    Args:
        histories: all of an archive; those of one server by when they begin.
        limits: what it may hold.
        kept: positions that are read from later.
        now_us: the time, microseconds since 1970.
    """
    waiting = [_Queue(each, histories) for each in histories]
    held = sum(each.bytes for each in waiting)
    found: list[Removal] = []
    while limits.bytes_max is not None and held > limits.bytes_max:
        heads = [each for each in waiting if each.head is not None]
        if not heads:
            break
        oldest = min(heads, key=lambda each: each.ended_us)
        entry = oldest.take()
        over = held - limits.bytes_max
        held -= _on_disk(entry)
        losers = tuple(one.owner for one in kept if oldest.needed_by(one, entry))
        found.append(Removal(oldest.name, entry, f"the archive is {over:,} bytes over its limit", losers))
    if limits.hours is not None:
        expired_us = now_us - int(limits.hours * _HOUR_US)
        for each in waiting:
            while (head := each.head) is not None and each.ended_us < expired_us:
                if any(each.needed_by(one, head) for one in kept):
                    break
                found.append(Removal(each.name, each.take(), f"it is older than {limits.hours:g} hours"))
    return found


class _Queue:
    """The files of a history that may be removed, the oldest first."""

    def __init__(self, history: ArchivedHistory, histories: Sequence[ArchivedHistory]) -> None:
        self.name, self._manifest = history.name, history.manifest
        files = [each for each in history.manifest.files if each.state is not State.PRUNED]
        later = [each for each in histories if each.manifest.server == history.manifest.server]
        #: a history that another one has followed may go as a whole, but the last file of the newest stays
        self._files = files if later and later[-1] is not history else files[:-1]
        self._after = files[len(self._files) :]
        self.bytes = sum(map(_on_disk, files))

    @property
    def head(self) -> FileEntry | None:
        """The oldest file."""
        return self._files[0] if self._files else None

    @property
    def ended_us(self) -> int:
        """When the oldest file was closed: the next one was created then."""
        later = [*self._files, *self._after][1:2]
        return later[0].created_s * _SECOND_US if later else self._files[0].latest_us

    def take(self) -> FileEntry:
        """Take the oldest file out."""
        entry, *self._files = self._files
        return entry

    def needed_by(self, kept: KeptPosition, entry: FileEntry) -> bool:
        """Return whether a reader at a position needs a file of this history."""
        position = kept.position
        if position.server not in ("", self._manifest.server):
            return False
        own = self._manifest.entry(position.file)
        if own is not None and created_again(own.created_s, position.created_s):
            return False
        try:
            (base, number), (its_base, its_number) = file_order(position.file), file_order(entry.name)
        except UsageError:
            return False
        return base == its_base and number <= its_number


def _on_disk(entry: FileEntry) -> int:
    """Return the bytes that a file has on the disk of the archive."""
    return entry.stored if entry.here else 0


class DiskMarks:
    """When an archive stops to write because its disk fills, and when it goes on.

    Args:
        high: the part of the disk that is used when it stops.
        low: the part at which it goes on; less than `high`.
    """

    def __init__(self, high: float, low: float) -> None:
        assert 0 < low < high <= 1, "it goes on below where it stops"
        self._high, self._low = high, low
        self._stopped = False

    def may_write(self, free: int, total: int) -> bool:
        """Return whether it writes.

        Args:
            free: free bytes of the disk.
            total: all bytes of it.
        """
        used = 1 - free / total
        self._stopped = used >= (self._low if self._stopped else self._high)
        return not self._stopped
