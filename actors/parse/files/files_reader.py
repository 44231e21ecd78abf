"""Files reader: binlog files on a disk as a shard's source, to their end or for as long as new ones come.

The files are read in their server's order, and each transaction reaches the listener once. At their end
nothing comes any more, and the promise says so: it is the end of time, and other shards go on. A reader that
follows promises nothing: what the next file will hold is not known before it is there, and until then the
others wait. Following, it reads on when the last file has grown or the next one of the sequence is there;
numbers are not passed over.

Only numbered files are a source: their names are places that compare.
"""

from __future__ import annotations

import contextlib
import glob
import logging
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from actors.parse.columns.table_lookup import NoLookup, TableLookup
from actors.parse.files.binlog_files import BinlogFiles, files_in, gap_in, require_one_name
from actors.parse.files.file_tail import FileTail
from actors.parse.formats.events import MAGIC
from actors.parse.formats.gtid_sets import gtids_before
from actors.parse.grammar.chunk_builder import Limits
from actors.parse.grammar.tables import Select
from actors.parse.server.reader import Listener, behind
from actors.parse.server.server_lookup import ServerLookup
from actors.parse.server.source import SourceAddress, connect
from merge.errors import (
    CorruptEvent,
    PositionPurged,
    RetryableError,
    ShardUnavailable,
    SourceUnavailable,
    SourceUnfit,
    UsageError,
)
from merge.order.shard_keys import END_OF_TIME_US
from merge.values.position import Position, file_order

_log = logging.getLogger(__name__)

#: how often a reader that follows looks for more, seconds
_LOOK_EVERY_S: Final = 0.5
#: how long a reader waits for files, or a server to look tables up, that are not there, seconds
_RETRY_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class FilesSource:
    """Which files a shard is."""

    #: the shard's name within its group
    name: str
    #: a file, a folder, or a pattern of the shell
    files: str
    #: whether to wait for more at their end
    follow: bool = False
    #: the server that is asked for what the files do not say of tables; None: nobody is
    lookup: SourceAddress | None = None

    @property
    def place(self) -> str:
        """Where the files are, for people."""
        return self.files


class FilesReader:
    """Reads files; see the module's rules.

    Args:
        source: the files.
        select: which tables are decoded and under which name.
        limits: when a chunk is full.
        listener: who is told.
    """

    #: files do not say whose they are
    server = ""

    def __init__(self, source: FilesSource, select: Select, limits: Limits, listener: Listener) -> None:
        self._source = source
        self._select = select
        self._limits = limits
        self._listener = listener
        self._stopped = threading.Event()
        #: what files that are in use ended in when they were last read
        self._tails: Sequence[FileTail] = ()
        #: where to go on: behind the last chunk that was handed over; None: not known yet
        self.position: Position | None = None
        #: when the files that were read were created; an entry a file
        self.created: dict[str, int] = {}

    def run(self, start: Position | None) -> None:
        """Read from `start` on (None: from the first file's beginning), then wait for `stop`.

        Raises:
            DataError: something only an operator can mend. Everything before it was handed over.
            ShardUnavailable: the listener takes nothing any more.
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

    def source_now_us(self) -> int | None:
        """Return the time of day of this machine: nobody knows more of the clock that stamped the files."""
        return time.time_ns() // 1000

    def _read_all(self) -> None:
        files = self._files()
        if self.position is None:
            self.position = Position(files[0].name, len(MAGIC), gtid_set=gtids_before(files[0]))
        self._listener.opened(self.position)
        with self._lookup() as lookup:
            self._listener.connected(0, "files")
            while not self._stopped.is_set():
                files = self._files()
                sizes = _sizes(files)
                self._read(files, lookup)
                if self._stopped.is_set():
                    return
                if not self._source.follow:
                    self._finish()
                    return
                while not self._stopped.wait(_LOOK_EVERY_S) and _sizes(self._files()) == sizes:
                    pass

    def _finish(self) -> None:
        """Promise that nothing comes any more, log what was left out, and wait for the end."""
        position, name = self.position, self._source.name
        if position is not None and position.rows_into_transaction:
            raise CorruptEvent(
                f"The files of shard {name} end inside the transaction at {position}.",
                hint="Add the file that ends it; a server that crashed there rolled it back.",
                shard=name,
                file=position.file,
                offset=position.offset,
            )
        for tail in self._tails:
            _log.warning("shard=%s %s", name, tail)
        self._listener.caught_up(END_OF_TIME_US)
        self._stopped.wait()

    def _read(self, files: Sequence[Path], lookup: TableLookup) -> None:
        """Hand over what the files hold behind the position.

        XA rows that were prepared before it are looked for in all files, if it turns out that they are
        needed.
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

    def _hand_over(self, files: Sequence[Path], lookup: TableLookup) -> None:
        assert self.position is not None, "the files are open"
        read = BinlogFiles(files, self._select, self._limits, lookup=lookup, start=self.position)
        for chunk in read:
            self.created |= read.created
            self._listener.chunk_read(chunk)
            self.position = behind(self.position, chunk, self.server, self.created)
            if self._stopped.is_set():
                return
        self._tails = read.tails

    @contextlib.contextmanager
    def _lookup(self) -> Iterator[TableLookup]:
        address = self._source.lookup
        if address is None:
            yield NoLookup()
            return
        with contextlib.closing(connect(address)) as connection:
            yield ServerLookup(address, connection)

    def _files(self) -> list[Path]:
        """Return the files that are there, up to the first number that is not.

        Raises:
            SourceUnavailable: there are none yet.
            SourceUnfit: there are none, they are no sequence, or a number is missing.
            PositionPurged: the position's file is not among them.
        """
        source = self._source
        try:
            files = listed(source.files)
        except UsageError as error:
            if source.follow and not error.details.get("found", 1):
                raise SourceUnavailable(f"Shard {source.name} waits: {error}", shard=source.name) from error
            raise SourceUnfit(
                f"The files of shard {source.name} are no source: {error.message}",
                hint=error.hint,
                shard=source.name,
            ) from error
        position = self.position
        if position is not None and position.file not in {path.name for path in files}:
            raise PositionPurged(
                f"{source.files} does not hold {position.file}: shard {source.name} stands at {position}.",
                hint=f"Put the file back; the oldest one there is {files[0].name}.",
                shard=source.name,
                file=position.file,
                offset=position.offset,
                oldest_file=files[0].name,
            )
        return self._sequence(files, position)

    def _sequence(self, files: list[Path], position: Position | None) -> list[Path]:
        """Return the files up to the first missing number behind the position."""
        begin = [path.name for path in files].index(position.file) if position is not None else 0
        gap = gap_in(files, begin)
        if gap is None:
            return files
        if self._source.follow:
            return files[:gap]
        name = self._source.name
        raise SourceUnfit(
            f"The files of shard {name} lack what lies between {files[gap - 1].name} and {files[gap].name}.",
            hint="Put the missing files back: the changes in them would be lost.",
            shard=name,
        )


def listed(files: str) -> list[Path]:
    """Return the numbered binlog files that a file, folder or pattern stands for, in order.

    Raises:
        UsageError: there are none (`found` is 0 then), they have several names, or one has no number.
    """
    path = Path(files)
    if path.is_file():
        file_order(path.name)
        return [path]
    if path.is_dir():
        return files_in(path)
    found = [Path(each) for each in glob.glob(files)]  # noqa: PTH207 - the pattern may be absolute
    numbered = [each for each in found if each.suffix[1:].isdecimal() and each.is_file()]
    bases = sorted({each.stem for each in numbered})
    require_one_name(files, bases)
    folders = sorted({str(each.parent) for each in numbered})
    if len(folders) != 1:
        raise UsageError(
            f"{files} holds binlogs of {len(folders)} folders: {', '.join(folders)}.",
            hint="Expected the files of one server, in one folder.",
            found=len(folders),
        )
    return sorted(numbered, key=lambda each: file_order(each.name))


def _sizes(files: Sequence[Path]) -> list[tuple[str, int]]:
    return [(path.name, path.stat().st_size) for path in files]
