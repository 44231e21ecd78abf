"""Archived: what the archive of a source holds of its binlog, for whoever reads that source.

A file is known by its name and by when it was created: after a reset the names come again. So a position
without a creation time is looked for only in the history of which the source has a file now.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from canal_group.binlog.archive.history import History
from canal_group.binlog.archive.manifest import FileEntry, State
from canal_group.binlog.archive.reading.archive_packets import ArchivePackets
from canal_group.binlog.formats.events import MAGIC
from canal_group.binlog.server.source import SourceAddress
from canal_group.binlog.server.starts.logged import created_at_source
from canal_group.merge.errors import PositionPurged
from canal_group.merge.values.gtids.gtid import parse_gtid_set
from canal_group.merge.values.position import Position, file_order
from canal_group.merge.values.resets.reset import created_again

if TYPE_CHECKING:
    from canal_group.binlog.server.starts.stream_start import FromOffset

#: how long a dump server that archives may write nothing before it is not waited for, seconds
STALLED_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Archived:
    """The archive of one server.

    Args:
        address: the source, which says where the archive is.
        server: identity of the server.
    """

    address: SourceAddress
    server: str

    def histories(self) -> list[History]:
        """Return the histories of the server, by when they begin; none: there is no archive.

        Raises:
            ConfigError, DataError, RetryableError: they cannot be read.
        """
        options = self.address.archive
        return [] if options is None or not self.server else options.opened().histories(self.server)

    def current(self, sizes: Mapping[str, int]) -> History | None:
        """Return the history of the binlog that the source has now; None: the archive has none of it.

        Args:
            sizes: bytes of the source's binlog files by name, the oldest first.

        Raises:
            As `histories`; SourceUnavailable, SourceUnfit: the source does not answer.
        """
        histories = self.histories()
        newest = histories[-1] if histories else None
        common = [file for file in sizes if newest is not None and entry_of(newest, file) is not None]
        if newest is None or not common:
            return None
        entry = entry_of(newest, common[-1])
        assert entry is not None, "it is common"
        address = self.address.scanner("archive")
        created_s = created_at_source(address, self.server, entry.name, sizes[entry.name])
        return None if created_again(entry.created_s, created_s) else newest

    def packets(
        self,
        start: FromOffset,
        sizes: Callable[[], Mapping[str, int]],
        follow: Callable[[bool, float], bool] | None = None,
    ) -> ArchivePackets:
        """Return the events from a start on.

        Args:
            start: where a stream begins.
            sizes: returns the bytes of the source's binlog files by name, the oldest first.
            follow: see `ArchivePackets`; None: the stream ends with the archive.

        Raises:
            PositionPurged, PositionRefused: the archive does not hold the start.
            As `histories`; CorruptEvent, SourceUnfit: the archive cannot be read there.
        """
        if start.by_gtid or start.position.created_s:
            histories = self.histories()
        else:
            current = self.current(sizes())
            histories = [] if current is None else [current]
        history, begin = start.archived(histories)
        options = {} if follow is None else {"follow": follow}
        return ArchivePackets(history, begin, start=start.decoded, named=start.by_gtid, **options)

    def end(self) -> tuple[str, int] | None:
        """Return the end of what was written last; None: nothing was. Raises as `histories`."""
        histories = self.histories()
        last = histories[-1].manifest.last if histories else None
        return None if last is None else (last.name, size_of(histories[-1], last))


def entry_of(history: History, file: str) -> FileEntry | None:
    """Return a file of a history; None: it does not have it, or no longer."""
    entry = history.manifest.entry(file)
    return None if entry is None or entry.state is State.PRUNED else entry


def size_of(history: History, entry: FileEntry) -> int:
    """Return how many bytes of a file are there; of the open one, also what is not durable yet."""
    if entry.state is not State.OPEN:
        return entry.size
    source = history.open(entry.name)
    try:
        return max(len(MAGIC), source.size)
    finally:
        source.close()


def files_of(history: History) -> list[FileEntry]:
    """Return the files of a history that are there, the oldest first."""
    return [each for each in history.manifest.files if each.state is not State.PRUNED]


def first_of(history: History) -> Position:
    """Return the beginning of the oldest file.

    Raises:
        PositionPurged: there is none.
    """
    files = files_of(history)
    if not files:
        raise PositionPurged(f"The archive of {history.name} has no files.")
    first = files[0]
    gtids = parse_gtid_set(first.gtids_before)
    server = history.manifest.server
    return Position(first.name, len(MAGIC), gtids, server=server, created_s=first.created_s)


def is_before(here: tuple[str, int], there: tuple[str, int]) -> bool:
    """Return whether a file and offset of a binlog is before another one."""
    return (file_order(here[0]), here[1]) < (file_order(there[0]), there[1])


def with_older(history: History | None, files: Sequence[str]) -> list[str]:
    """Return the names of a source's files, after those of a history that are older, the oldest first."""
    if history is None or not files:
        return list(files)
    oldest = file_order(files[0])
    return [*(each.name for each in files_of(history) if file_order(each.name) < oldest), *files]
