"""Files reader: binlog files on a disk as a shard's source, to their end or for as long as new ones appear.

The files are read in their server's order, and each transaction reaches the listener once.

Without `follow`, nothing comes after the last file. The reader then reports the end of time as its low
watermark, so that the other shards continue. With `follow` it reports no low watermark: what the next file
will hold is unknown until it exists, and until then the other shards wait. It continues when the last file
has grown, or when the next number of the sequence exists; it never skips a number.

Only numbered files are a source, because their names can be compared.
"""

from __future__ import annotations

import contextlib
import glob
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from canal_group.binlog.archive.reading.archived_file import archived_files
from canal_group.binlog.columns.read_counts import ReadCounts
from canal_group.binlog.columns.table_lookup import NoLookup, TableLookup
from canal_group.binlog.files.beginning import beginning
from canal_group.binlog.files.binlog_files import BinlogFiles, files_in, gap_in, require_one_name
from canal_group.binlog.files.file_lookup import FileLookup
from canal_group.binlog.files.file_tail import FileTail
from canal_group.binlog.formats.binlog_file import BinlogFile, size_of
from canal_group.binlog.grammar.chunk_builder import Limits
from canal_group.binlog.grammar.reading import Reading
from canal_group.binlog.grammar.skips import SkipsOf, no_skips
from canal_group.binlog.grammar.tables import Select
from canal_group.binlog.server.listener import Listener, position_after
from canal_group.binlog.server.server_lookup import ServerLookup
from canal_group.binlog.server.source import SourceAddress, connect
from canal_group.binlog.server.starts.remaining import telling
from canal_group.merge.errors import (
    CanalGroupError,
    CorruptEvent,
    PositionPurged,
    RetryableError,
    ShardUnavailable,
    SourceUnavailable,
    SourceUnfit,
    UsageError,
)
from canal_group.merge.values.commit_time import END_OF_TIME_US, CommitTimes
from canal_group.merge.values.position import Position, file_order
from canal_group.merge.values.resets.reset import Absence, absence
from canal_group.merge.values.start import At, ShardStart, parse_shard_start

_log = logging.getLogger(__name__)

#: interval at which a reader that follows looks for more, seconds
_LOOK_EVERY_S: Final = 0.5
#: wait before the next try if the files, or the server for lookups of tables, are not available, seconds
_RETRY_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class FilesSource:
    """The files that a shard is read from."""

    #: the shard's name within its group
    name: str
    #: a file, a folder, or a shell pattern
    files: str
    #: which server's commit times are read
    commit_times: CommitTimes
    #: whether to wait for more at their end
    follow: bool = False
    #: the server that describes tables where the files do not; None: no server
    lookup: SourceAddress | None = None
    #: file of the keys of an encrypted archive; None: the files are not encrypted
    key_file: Path | None = None

    @property
    def location(self) -> str:
        """The file, folder or pattern, for messages."""
        return self.files


class FilesReader:
    """Reads files, and hands their transactions to a listener.

    Args:
        source: the files.
        select: which tables are decoded and under which name.
        limits: when a chunk is full.
        listener: receives what is read.
        begin: where a run without a position begins: `earliest`, a time, or a file and offset.
        skips: what is left out; called whenever the files are read.
    """

    #: empty: files do not name their server
    server = ""
    shares_dump = False
    archive_state = None

    def __init__(
        self,
        source: FilesSource,
        select: Select,
        limits: Limits,
        listener: Listener,
        *,
        begin: str,
        skips: SkipsOf = no_skips,
    ) -> None:
        self._skips = skips
        self._source = source
        self._begin = begin
        self._select = select
        self._limits = limits
        self._listener = listener
        self._stopped = threading.Event()
        #: the incomplete ends of files that were in use when they were last read
        self._tails: Sequence[FileTail] = ()
        #: where to continue: after the last chunk that was handed over; None if it is unknown yet
        self.position: Position | None = None
        #: creation times of the files that were read, seconds since 1970, by name
        self.created: dict[str, int] = {}
        #: bytes and losses of what was read, see `Reader`
        self.counts = ReadCounts()
        #: the files that are read now; None: no files are open
        self._files: BinlogFiles | None = None

    def run(self, start: Position | None) -> None:
        """Read from `start` on (None: as `begin` says), then wait for `stop`.

        Raises:
            DataError: only an operator can fix it. Everything before it was handed over.
            ShardUnavailable: the listener no longer takes chunks.
        """
        self.position = start
        while not self._stopped.is_set():
            try:
                self._read_all()
            except ShardUnavailable:
                raise
            except RetryableError as error:
                self._listener.disconnected(error, _RETRY_S)
                self._stopped.wait(_RETRY_S)

    def stop(self) -> None:
        """End the run soon: at the next chunk."""
        self._stopped.set()

    @property
    def reading(self) -> Reading | None:
        """Which event is being read, see `Reader`."""
        files = self._files
        return None if files is None else files.reading

    def source_now_us(self) -> int | None:
        """Return this machine's time of day: the clock that stamped the files is unknown."""
        return time.time_ns() // 1000

    def _read_all(self) -> None:
        files = files_of(self._source, self.position)
        if self.position is None:
            start = parse_shard_start(self._begin, time.time_ns() // 1000)
            self.position = _beginning(start, self._source, files, self._stopped.is_set)
            if self.position is None:
                return
        self._listener.opened(self.position)
        with self._lookup() as lookup:
            self._listener.connected(0, "files")
            while not self._stopped.is_set():
                files = files_of(self._source, self.position)
                seen = _seen(files)
                self._read(files, lookup)
                if self._stopped.is_set():
                    return
                if not self._source.follow:
                    self._finish()
                    return
                while (
                    not self._stopped.wait(_LOOK_EVERY_S)
                    and _seen(files_of(self._source, self.position)) == seen
                ):
                    pass

    def _finish(self) -> None:
        """Report the end of time as low watermark, log what was left out, and wait for `stop`."""
        position, name = self.position, self._source.name
        if position is not None and position.rows_into_transaction:
            raise CorruptEvent(
                f"The files of shard {name} end inside the transaction at {position}.",
                hint="Add the file that holds the end of the transaction. If the server crashed there, it "
                "rolled the transaction back.",
                shard=name,
                file=position.file,
                offset=position.offset,
            )
        for tail in self._tails:
            _log.warning("%s", tail, extra={"shard": name})
        self._listener.caught_up(END_OF_TIME_US)
        self._stopped.wait()

    def _read(self, files: Sequence[BinlogFile], lookup: TableLookup) -> None:
        """Hand over what the files hold after the position.

        If rows of an XA transaction are needed that were prepared before it, read all files from the first.
        """
        assert self.position is not None, "the files are open"
        number = file_order(self.position.file)[1]
        rest = [path for path in files if file_order(path.name)[1] >= number]
        try:
            self._hand_over(rest, lookup)
        except PositionPurged as error:
            if "xid" not in error.details or len(rest) == len(files):
                raise
            self._hand_over(files, lookup)

    def _hand_over(self, files: Sequence[BinlogFile], lookup: TableLookup) -> None:
        assert self.position is not None, "the files are open"
        self._files = read = BinlogFiles(
            files,
            self._select,
            self._limits,
            lookup=lookup,
            start=self.position,
            original_times=self._source.commit_times.original,
            skips=self._skips(self.server),
            shard=self._source.name,
        )
        before = self.counts
        for chunk in read:
            self.created |= read.created
            self._listener.chunk_read(chunk)
            self.position = position_after(self.position, chunk, self.server, self.created)
            self.counts = before + ReadCounts.of(read.read_bytes, read.losses)
            if self._stopped.is_set():
                return
        self.counts = before + ReadCounts.of(read.read_bytes, read.losses)
        self._tails = read.tails

    @contextlib.contextmanager
    def _lookup(self) -> Iterator[TableLookup]:
        address = self._source.lookup
        if address is None:
            yield FileLookup(NoLookup())
            return
        with contextlib.closing(connect(address)) as connection:
            yield FileLookup(ServerLookup(address, connection))


def locate(source: FilesSource, start: ShardStart) -> Position:
    """Return where a start is in files now.

    Raises:
        As `files_of`, and `canal_group.binlog.files.beginning`.
    """
    position = _beginning(start, source, files_of(source, None), lambda: False)
    assert position is not None, "the scan is not stopped"
    return position


def _beginning(
    start: ShardStart, source: FilesSource, files: Sequence[BinlogFile], stopped: Callable[[], bool]
) -> Position | None:
    original_times = source.commit_times.original
    return beginning(start, source.name, source.files, files, stopped, original_times=original_times)


def files_of(source: FilesSource, position: Position | None) -> list[BinlogFile]:
    """Return the files that exist, up to the first missing number.

    Args:
        source: the files.
        position: where reading continues; None: at the first file.

    Raises:
        SourceUnavailable: there are none yet, and the reader follows.
        SourceUnfit: there are none, their names differ, or a number is missing.
        PositionPurged: the position's file is not among them.
    """
    try:
        files = listed(source.files, source.key_file)
    except UsageError as error:
        if source.follow and not error.details.get("found", 1):
            raise SourceUnavailable(f"Shard {source.name} waits: {error}", shard=source.name) from error
        raise SourceUnfit(
            f"The files of shard {source.name} cannot be used: {error.message}",
            hint=error.hint,
            shard=source.name,
        ) from error
    if position is not None and position.file not in {path.name for path in files}:
        refused = PositionPurged(
            f"{source.files} does not hold {position.file}: shard {source.name} is positioned at {position}.",
            hint=f"Put the file back. The oldest file there is {files[0].name}.",
            shard=source.name,
            file=position.file,
            offset=position.offset,
            oldest_file=files[0].name,
        )
        raise _with_remaining(source, files, position, refused)
    return _sequence(source, files, position)


def _with_remaining(
    source: FilesSource, files: list[BinlogFile], position: Position, refused: PositionPurged
) -> PositionPurged:
    """Return a refusal with the positions where reading may go on, if the position was before the files."""
    if absence(position.file, files[0].name) is not Absence.PURGED:
        return refused
    latest = None
    with contextlib.suppress(CanalGroupError):
        latest = beginning(At(END_OF_TIME_US), source.name, source.files, files, lambda: False)
    with contextlib.suppress(CanalGroupError):
        earliest = beginning("earliest", source.name, source.files, files, lambda: False)
        assert earliest is not None, "nothing is scanned"
        return telling(refused, earliest, latest)
    return refused


def _sequence(source: FilesSource, files: list[BinlogFile], position: Position | None) -> list[BinlogFile]:
    """Return the files up to the first missing number after the position."""
    begin = [path.name for path in files].index(position.file) if position is not None else 0
    gap = gap_in(files, begin)
    if gap is None:
        return files
    if source.follow:
        return files[:gap]
    name = source.name
    raise SourceUnfit(
        f"The files of shard {name} have a gap between {files[gap - 1].name} and {files[gap].name}.",
        hint="Put the missing files back; without them their changes would be lost.",
        shard=name,
    )


def listed(files: str, key_file: Path | None = None) -> list[BinlogFile]:
    """Return the numbered binlog files of a file, folder, pattern or archive, in order.

    Args:
        files: their path.
        key_file: the keys of an archive that is encrypted; None: it is not.

    Raises:
        UsageError: there are none (then `found` is 0), they have several names or folders, or a single file
            has no number.
    """
    path = Path(files)
    if path.is_file():
        file_order(path.name)
        return [path]
    if path.is_dir():
        archived = archived_files(path, key_file)
        return list(files_in(path) if archived is None else archived)
    paths = [Path(each) for each in glob.glob(files)]  # noqa: PTH207 - the pattern may be absolute
    numbered = [each for each in paths if each.suffix[1:].isdecimal() and each.is_file()]
    bases = sorted({each.stem for each in numbered})
    require_one_name(files, bases)
    folders = sorted({str(each.parent) for each in numbered})
    if len(folders) != 1:
        raise UsageError(
            f"{files} holds binlogs of {len(folders)} folders: {', '.join(folders)}.",
            hint="Give the files of one server, in one folder.",
            found=len(folders),
        )
    return [*sorted(numbered, key=lambda each: file_order(each.name))]


def _seen(files: Sequence[BinlogFile]) -> tuple[list[str], int]:
    """Return the names, and the length of the last file: they change when there is more to read."""
    return [file.name for file in files], size_of(files[-1])
