"""Reset: whether a source has begun its binlog anew since something of it was read, by what its files are.

After RESET, on a server that was restored from a copy, or on another one under an old id, files have names
again that were used. What is not known of a file proves nothing. The server is asked whether it lacks GTIDs
that were read, see `canal_group.binlog.server.starts.start.require_not_reset`.
"""

from __future__ import annotations

import datetime as dt
from enum import Enum, auto

from canal_group.merge.errors import CanalGroupError, DataError
from canal_group.merge.values.position import file_order


class Absence(Enum):
    """Why a source does not have a file, by the oldest one that it has."""

    #: the source's oldest file has a higher number: the missing file was purged
    PURGED = auto()
    #: the missing file has a higher number than the source's oldest file: the source has begun its binlog
    #: anew
    RESET = auto()
    #: it is of another name, and cannot be compared
    UNKNOWN = auto()


def absence(file: str, oldest: str) -> Absence:
    """Return why a source does not have a file."""
    (base, number), (oldest_base, oldest_number) = file_order(file), file_order(oldest)
    if base != oldest_base:
        return Absence.UNKNOWN
    return Absence.RESET if number > oldest_number else Absence.PURGED


def created_again(before_s: int, now_s: int) -> bool:
    """Return whether a name is that of two files, by when they were created in seconds; 0: not known."""
    return 0 not in (before_s, now_s) and before_s != now_s


def begun_anew(before: tuple[str, int], now: tuple[str, int]) -> bool:
    """Return whether two files are of two binlogs, of which the second one replaced the first.

    Args:
        before: name of a file that was read, and when it was created, seconds since 1970; 0: not known.
        now: name and creation time of a file that is read.
    """
    (file, before_s), (now_file, now_s) = before, now
    if file == now_file:
        return created_again(before_s, now_s)
    (base, number), (now_base, now_number) = file_order(file), file_order(now_file)
    return base == now_base and now_number < number and 0 < before_s < now_s


def refused_again(file: str, before_s: int, now_s: int) -> DataError:
    """Return the refusal of a file that was created again; `tells_reset` knows it."""
    return DataError(
        f"{file} was created at {_time_of(now_s)}, but the file that was read before under this name at "
        f"{_time_of(before_s)}: the binary logs were reset, or another server answers.",
        hint="What was written before the reset and not read is lost. Load the tables again, and begin at a "
        "position of the new binary logs.",
        created_s=now_s,
        expected_created_s=before_s,
    )


def tells_reset(error: CanalGroupError) -> bool:
    """Return whether an error says that a file was created again."""
    return "expected_created_s" in error.details


def _time_of(seconds: int) -> str:
    return f"{dt.datetime.fromtimestamp(seconds, dt.UTC):%Y-%m-%d %H:%M:%S} UTC"
