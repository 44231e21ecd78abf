"""Starts: where a client id, or a shard, without a cursor begins, in the words that every interface takes.

- `earliest`: the oldest change that each source still has.
- `latest`: what is committed from now on.
- `2026-01-31T12:00:00+01:00`: the first transaction of each shard that was committed at or after this time.
- `-2h`: the same, so long before now, in s, m, h or d.
- `{"shards": ...}`: a group position, as cursors and offsets are written; of a client id only.
- `binlog.000003:4`: a file and an offset; of a shard only.
- `binlog.000003:~4711`: the transaction that holds an offset; of a shard only.
- `0-1-42`, or `3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5`: what follows a GTID set; of a shard only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal, TypeAlias

from canal_group.merge.errors import CanalGroupError, ConfigError, UsageError
from canal_group.merge.values.gtids.gtid import GtidSet, parse_gtid_set
from canal_group.merge.values.position import GroupPosition, file_order

_RELATIVE = re.compile(r"-(\d{1,9})([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_IN_FILE = re.compile(r"([^:]+\.\d+):(~?)(\d{1,19})")
_OF_BOTH = (
    "earliest, latest, a time with its zone such as 2026-01-31T12:00:00Z, a time before now such as -2h"
)
#: for errors: the valid texts of a start
CLIENT_STARTS = f"{_OF_BOTH}, or a group position"
SHARD_STARTS = f"{_OF_BOTH}, a file and offset such as binlog.000003:4 or :~4711, or a GTID set"
SHARD_STARTS_IN_FILES = "earliest, a time or a file and offset"
#: bytes before the first event of a file
_FIRST_OFFSET = 4


@dataclass(frozen=True, slots=True)
class At:
    """The first transaction of each shard that was committed at or after a time."""

    #: microseconds since 1970 UTC
    time_us: int


@dataclass(frozen=True, slots=True)
class InFile:
    """An offset in a binlog file of the server that a shard reads."""

    file: str
    offset: int


@dataclass(frozen=True, slots=True)
class Holding:
    """The transaction that holds an offset in a binlog file, or that begins there or after it."""

    file: str
    offset: int


@dataclass(frozen=True, slots=True)
class After:
    """What is not in a GTID set."""

    gtids: GtidSet


_Word: TypeAlias = Literal["earliest", "latest"]
Start: TypeAlias = _Word | At | GroupPosition
ShardStart: TypeAlias = _Word | At | InFile | Holding | After


def time_of(text: str, now_us: int) -> int | None:
    """Return the time that a text says, microseconds since 1970 UTC; None if it says none.

    Args:
        text: an ISO 8601 time with its zone, or a time before now such as `-2h`.
        now_us: what it is relative to, microseconds since 1970 UTC.
    """
    relative = _RELATIVE.fullmatch(text)
    if relative is not None:
        return now_us - int(relative[1]) * _SECONDS[relative[2]] * 1_000_000
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        return None
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def parse_start(text: str, now_us: int) -> Start:
    """Return the start of a client id that a text says; see the module.

    Raises:
        ConfigError: it says none, or a time in the future.
        UsageError: it looks like a group position and is none.
    """
    if text.startswith("{"):
        return GroupPosition.from_json(text)
    found = _of_both(text, now_us)
    if found is None:
        raise _refused(text, now_us, CLIENT_STARTS)
    return found


def parse_shard_start(text: str, now_us: int) -> ShardStart:
    """Return the start of a shard that a text says; see the module.

    Raises:
        ConfigError: it says none, or a time in the future.
    """
    found = _of_both(text, now_us)
    if found is not None:
        return found
    in_file = _IN_FILE.fullmatch(text)
    if in_file is not None:
        try:
            file_order(in_file[1])  # the name becomes a part of statements
        except UsageError as error:
            raise ConfigError(error.message, hint=error.hint) from error
        offset = int(in_file[3])
        if offset < _FIRST_OFFSET:
            raise ConfigError(
                f"{text} is inside the first {_FIRST_OFFSET} bytes of a binlog file.",
                hint=f"The first event of a file is at offset {_FIRST_OFFSET}.",
            )
        return Holding(in_file[1], offset) if in_file[2] else InFile(in_file[1], offset)
    try:
        gtids = parse_gtid_set(text)
    except CanalGroupError as error:
        raise _refused(text, now_us, SHARD_STARTS) from error
    if not gtids:
        raise _refused(text, now_us, SHARD_STARTS)
    return After(gtids)


def is_in_files(start: ShardStart) -> bool:
    """Return whether a start of a shard can be found in files: they do not answer queries."""
    return start == "earliest" or isinstance(start, At | InFile)


def _of_both(text: str, now_us: int) -> _Word | At | None:
    if text in ("earliest", "latest"):
        return "earliest" if text == "earliest" else "latest"
    time_us = time_of(text, now_us)
    if time_us is None:
        return None
    if time_us > now_us:
        raise ConfigError(f"The start {text} is in the future.", hint="Say latest to begin now.")
    return At(max(0, time_us))


def _refused(text: str, now_us: int, expected: str) -> ConfigError:
    if time_of(f"{text}Z", now_us) is not None:
        return ConfigError(f"The start {text} is a time without a zone.", hint=f"Expected {expected}.")
    return ConfigError(f"{text!r} is not a start.", hint=f"Expected {expected}.")
