"""Scan: find a position in a server's binlog by reading its transactions, without their rows.

A time is found by a binary search over the creation times of the files, and a scan forward from the one that
was being written then. An offset in a file is found by a scan of that file, which knows where transactions
begin, and which GTIDs are before one.

A time is where the first transaction begins, in the order of the binlog, that was committed at or after it.
If the source stamps whole seconds only, the time is rounded down to the second. If its clock was set back,
files are not in the order of their creation times, and any such transaction may be found.

A scan has a connection and a server id of its own: a server ends the dump of a replica whose id another one
uses.
"""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from canal_group.binlog.archive.history import History
from canal_group.binlog.archive.reading.lookup import at_position
from canal_group.binlog.formats.events import MAGIC
from canal_group.binlog.grammar.chunk_builder import SEARCH_LIMITS
from canal_group.binlog.grammar.decoding import Decoding
from canal_group.binlog.server.binlog_stream import BinlogStream, stream_of
from canal_group.binlog.server.clock import clock_of
from canal_group.binlog.server.dump.archived import entry_of, with_older
from canal_group.binlog.server.starts.available import archived_history
from canal_group.binlog.server.starts.binary_logs import binlog_files, log_end
from canal_group.binlog.server.starts.server_log import ServerLog
from canal_group.binlog.server.starts.start import gtids_at
from canal_group.binlog.server.starts.stream_start import FromOffset
from canal_group.binlog.server.starts.up_to import up_to
from canal_group.merge.errors import DataError, PositionPurged
from canal_group.merge.values.chunk import Chunk
from canal_group.merge.values.gtids.gtid import GtidSet, parse_gtid_set
from canal_group.merge.values.header import Flag
from canal_group.merge.values.position import Position, file_order
from canal_group.merge.values.progress import gtids_after

_SECOND_US = 1_000_000


class Scan(ServerLog):
    """Scans the binlog of one server."""

    __slots__ = ()

    def at_time(self, time_us: int) -> Position:
        """Return where the first transaction begins that was committed at or after a time.

        Args:
            time_us: microseconds since 1970 UTC.

        Returns:
            The position before it, with the commit time of the transaction before; the end of the binlog if
            nothing was committed since.

        Raises:
            PositionPurged: the oldest file was created after that time, and files before it were purged.
            SourceUnavailable, SourceUnfit: the source does not answer, or refuses.
        """
        end = log_end(self.address, self.connection, self.facts)
        history = self._archived()
        files = with_older(history, binlog_files(self.address, self.connection))
        file = self._file_at(files, history, time_us)
        before_us = 0
        with self._stream(file, history, end) as stream:
            for chunk in up_to(self.address, stream, end):
                least_us = time_us - time_us % _SECOND_US if stream.whole_seconds else time_us
                begins = (chunk.headers["flags"] & Flag.BEGIN) != 0
                found = np.flatnonzero(begins & (chunk.headers["commit_us"] >= least_us))
                if len(found):
                    first = chunk.headers[found[0]]
                    earlier = chunk.headers[: found[0]]["commit_us"]
                    before_us = int(earlier[-1]) if len(earlier) else before_us
                    file_offset = chunk.names[first["file"]], int(first["begin_offset"])
                    return replace(self.position_at(*file_offset), commit_us=before_us)
                before_us = int(chunk.headers["commit_us"][-1]) if len(chunk.headers) else before_us
        return replace(self.position_at(end.file, end.offset), commit_us=before_us)

    def position_at(self, file: str, offset: int, *, holding: bool = False) -> Position:
        """Return the position at an offset of a file, with the GTIDs before it.

        Args:
            file: name of the binlog file.
            offset: bytes from its start.
            holding: whether the offset may be inside a transaction; the position is then before it.

        Raises:
            PositionPurged: the file was purged.
            DataError: no transaction begins or ends there, or the file is shorter.
            SourceUnavailable, SourceUnfit: the source does not answer, or refuses.
        """
        history = self._archived()
        entry = None if history is None else entry_of(history, file)
        files = binlog_files(self.address, self.connection)
        purged = file not in files
        if purged and entry is None:
            raise self._purged(file, files)
        gtids = parse_gtid_set(entry.gtids_before) if entry is not None else self.gtids_before(file)
        before_us, last = 0, len(MAGIC)
        end = log_end(self.address, self.connection, self.facts)
        stop = end if end.file == file else None
        with self._stream(file, history, stop) as stream:
            created_s = stream.created.get(file, 0)
            for chunk in up_to(self.address, stream, stop, file):
                headers = chunk.headers[chunk.headers["file"] == _index(chunk, file)]
                ends = np.flatnonzero(headers["flags"] & Flag.END)
                within = ends[headers["end_offset"][ends] <= offset]
                gtids = gtids_after(gtids, headers, within, chunk.names)
                if len(within):
                    before_us, last = (int(headers[within[-1]][name]) for name in ("commit_us", "end_offset"))
                begins = headers["begin_offset"][(headers["flags"] & Flag.BEGIN) != 0]
                if (begins == offset).any() or last == offset:
                    break
                if (begins > offset).any() or (headers["end_offset"] > offset).any():
                    if not holding:
                        raise self._inside(file, offset, last)
                    offset = max(last, *begins[begins <= offset].tolist(), len(MAGIC))
                    break
            else:
                if offset > last and not (stop is not None and offset <= stop.offset):
                    raise self._inside(file, offset, last)
        if self.facts.mariadb:
            # What was read may not be all: MariaDB's GTIDs of other domains are in the file's list only.
            gtids = self._gtids_at(history if purged else None, file, offset)
        return Position(
            file, offset, gtid_set=gtids, commit_us=before_us, server=self.facts.identity, created_s=created_s
        )

    def _gtids_at(self, history: History | None, file: str, offset: int) -> GtidSet:
        if history is None:
            return gtids_at(self.address, self.connection, file, offset)
        return at_position([history], Position(file, offset))[1].gtid_set

    def _archived(self) -> History | None:
        return archived_history(self.address, self.connection, self.facts)

    def _file_at(self, files: list[str], history: History | None, time_us: int) -> str:
        """Return the last file that was created before a time, by binary search.

        Raises:
            PositionPurged: see `at_time`.
        """
        time_s = time_us // _SECOND_US
        begin, end = (
            0,
            len(files),
        )  # files before `begin` were created before the time, those from `end` on not
        while begin < end:
            middle = (begin + end) // 2
            if self._created_s(files[middle], history) < time_s:
                begin = middle + 1
            else:
                end = middle
        if begin:
            return files[begin - 1]
        created_s = self._created_s(files[0], history)
        if created_s > time_s and file_order(files[0])[1] > 1:
            oldest, wanted = _shown(created_s), _shown(time_s)
            raise PositionPurged(
                f"{self.address.title} has purged its binlog of {wanted}: its oldest file, {files[0]}, was "
                f"created at {oldest}.",
                hint="Start at a later time, or at earliest.",
                shard=self.address.name,
                oldest_file=files[0],
            )
        return files[0]

    def _created_s(self, file: str, history: History | None) -> int:
        entry = None if history is None else entry_of(history, file)
        if entry is not None:
            return entry.created_s
        with self._stream(file, None) as stream:
            return stream.created.get(file, 0)

    @contextlib.contextmanager
    def stream(
        self, start: Position, until: Position | None, *, original_times: bool = False
    ) -> Iterator[BinlogStream]:
        """Open a stream that keeps no table, and read the description of the file that it begins in.

        Args:
            start: where it begins.
            until: up to where it will be read, which the server has; None: not known.
            original_times: whether commit times are those of the servers that committed first.
        """
        stream = stream_of(
            self.address.scanner("position"),
            FromOffset(start),
            Decoding(
                lambda _schema, _table: None, SEARCH_LIMITS, verbatim=True, original_times=original_times
            ),
            lambda: clock_of(self.address, self.connection),
            server=self.facts.identity,
            until=None if until is None else (until.file, until.offset),
        )
        with contextlib.closing(stream):
            stream.begin()
            yield stream

    def _stream(
        self, file: str, history: History | None, until: Position | None = None
    ) -> contextlib.AbstractContextManager[BinlogStream]:
        """Open a stream from the beginning of a file, which the archive may have."""
        entry = None if history is None else entry_of(history, file)
        created_s = 0 if entry is None else entry.created_s
        return self.stream(Position(file, len(MAGIC), created_s=created_s), until)

    def _purged(self, file: str, files: Sequence[str]) -> PositionPurged:
        oldest = files[0] if files else None
        return PositionPurged(
            f"{self.address.title} has no binlog file {file}; its oldest is {oldest or 'unknown'}.",
            hint="SHOW BINARY LOGS; lists its files.",
            shard=self.address.name,
            file=file,
            oldest_file=oldest,
        )

    def _inside(self, file: str, offset: int, last: int) -> DataError:
        return DataError(
            f"No transaction of shard {self.address.name} begins at {file}:{offset}.",
            hint=f"The last one before it ends at {file}:{last}.",
            shard=self.address.name,
            file=file,
            offset=offset,
        )


def _index(chunk: Chunk, file: str) -> int:
    """Return the index of a name among a chunk's names; -1 if it is not among them."""
    return chunk.names.index(file) if file in chunk.names else -1


def _shown(time_s: int) -> str:
    return f"{dt.datetime.fromtimestamp(time_s, dt.UTC):%Y-%m-%dT%H:%M:%SZ}"
