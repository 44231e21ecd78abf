"""Beginning: the position that a start means in binlog files; see `canal_group.merge.values.start`.

A time means the same as on a server: where the first transaction begins, in the order of the files, that was
committed at or after it. The creation times of the files say from which one to scan. They are compared in
order, from the first file, and an unknown one is skipped. So nothing after the time is omitted,
even if the clock that stamped the files was set back.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence

import numpy as np

from canal_group.binlog.files.binlog_files import BinlogFiles
from canal_group.binlog.formats.binlog_file import BinlogFile, buffered
from canal_group.binlog.formats.events import HEADER_SIZE, MAGIC, header_of
from canal_group.binlog.formats.gtid_sets import gtids_before
from canal_group.binlog.grammar.chunk_builder import SEARCH_LIMITS
from canal_group.merge.errors import PositionPurged, SourceUnfit
from canal_group.merge.values.gtids.gtid import NO_GTIDS
from canal_group.merge.values.header import Flag
from canal_group.merge.values.position import Position, file_order
from canal_group.merge.values.progress import gtids_after
from canal_group.merge.values.start import SHARD_STARTS_IN_FILES, At, InFile, ShardStart

_SECOND_US = 1_000_000


def beginning(
    start: ShardStart,
    shard: str,
    where: str,
    files: Sequence[BinlogFile],
    stopped: Callable[[], bool],
    *,
    original_times: bool = False,
) -> Position | None:
    """Return the position of a start; None if `stopped` ended the scan for a time.

    Args:
        start: what to look for.
        shard: the shard's name, for messages.
        where: the file, folder or pattern that the settings name, for messages.
        files: the files there, in order; at least one.
        stopped: called for each chunk of a scan; the scan ends if it returns True.
        original_times: whether a time is that of the servers that committed first, see `BinlogFiles`.

    Raises:
        PositionPurged: the files no longer hold it.
        CorruptEvent, UnsupportedEvent, UsageError: a file that is scanned cannot be read.
        SourceUnfit: only a server can find it.
    """
    match start:
        case "earliest":
            return Position(files[0].name, len(MAGIC), gtid_set=gtids_before(files[0]))
        case At(time_us):
            return _at_time(time_us, shard, files, stopped, original_times=original_times)
        case InFile():
            return _at_offset(start, shard, where, files)
        case _:
            raise SourceUnfit(
                f"Shard {shard} reads files, where {start} cannot be found.",
                hint=f"Expected {SHARD_STARTS_IN_FILES}.",
                shard=shard,
            )


def _at_offset(start: InFile, shard: str, where: str, files: Sequence[BinlogFile]) -> Position:
    """Return the position at an offset; the GTIDs before it are known at a file's start only."""
    file = next((path for path in files if path.name == start.file), None)
    if file is None:
        raise PositionPurged(
            f"{where} does not hold {start.file}, where shard {shard} starts.",
            hint=f"The oldest file there is {files[0].name}.",
            shard=shard,
            file=start.file,
            oldest_file=files[0].name,
        )
    gtids = gtids_before(file) if start.offset == len(MAGIC) else NO_GTIDS
    return Position(start.file, start.offset, gtid_set=gtids)


def _at_time(
    time_us: int,
    shard: str,
    files: Sequence[BinlogFile],
    stopped: Callable[[], bool],
    *,
    original_times: bool,
) -> Position | None:
    """Return where the first transaction begins that was committed at or after a time.

    Returns:
        The position, with the GTIDs and the commit time of what is before it in the scanned files; the end of
        the last transaction if nothing was committed since.
    """
    begin = _file_at(time_us, shard, files)
    gtids, commit_us = gtids_before(files[begin]), 0
    file, offset = files[begin].name, len(MAGIC)
    scan = BinlogFiles(
        files[begin:],
        lambda _schema, _table: None,
        SEARCH_LIMITS,
        verbatim=True,
        original_times=original_times,
    )
    for chunk in scan:
        if stopped():
            return None
        headers = chunk.headers
        least_us = time_us - time_us % _SECOND_US if scan.whole_seconds else time_us
        begins = (headers["flags"] & Flag.BEGIN) != 0
        matches = np.flatnonzero(begins & (headers["commit_us"] >= least_us))
        before = headers[: matches[0]] if len(matches) else headers
        ends = np.flatnonzero(before["flags"] & Flag.END)
        gtids = gtids_after(gtids, before, ends, chunk.names)
        if len(ends):
            last = before[ends[-1]]
            file, offset = chunk.names[last["file"]], int(last["end_offset"])
            commit_us = int(last["commit_us"])
        if len(matches):
            first = headers[matches[0]]
            file, offset = chunk.names[first["file"]], int(first["begin_offset"])
            break
    created_s = scan.created.get(file, 0)
    return Position(file, offset, gtid_set=gtids, commit_us=commit_us, created_s=created_s)


def _file_at(time_us: int, shard: str, files: Sequence[BinlogFile]) -> int:
    """Return the index of the file that was being written at a time.

    Raises:
        PositionPurged: the first file was created after that time, and is not the first of its server.
    """
    time_s, begin = time_us // _SECOND_US, 0
    for index, path in enumerate(files):
        created_s = _created_s(path)
        if index == 0 and created_s > time_s and file_order(path.name)[1] > 1:
            raise PositionPurged(
                f"The files of shard {shard} do not reach back to {_shown(time_s)}: the oldest, {path.name}, "
                f"was created at {_shown(created_s)}.",
                hint="Put the older files there, or start at a later time, or at earliest.",
                shard=shard,
                oldest_file=path.name,
            )
        if created_s >= time_s:
            break
        if created_s:
            begin = index
    return begin


def _created_s(path: BinlogFile) -> int:
    """Return when a file was created, seconds since 1970; 0 if it does not say, or cannot be read.

    Errors are ignored here: the scan, or the reader of the file's transactions, raises them.
    """
    try:
        with buffered(path) as file:
            head = file.read(len(MAGIC) + HEADER_SIZE)
    except OSError:
        return 0
    whole = head.startswith(MAGIC) and len(head) == len(MAGIC) + HEADER_SIZE
    return header_of(head[len(MAGIC) :]).timestamp if whole else 0


def _shown(time_s: int) -> str:
    return f"{dt.datetime.fromtimestamp(time_s, dt.UTC):%Y-%m-%dT%H:%M:%SZ}"
