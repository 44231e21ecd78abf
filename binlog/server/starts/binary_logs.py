"""Binary logs: the files that a source names: in its lists, and in the ROTATE events that it sends.

A name becomes a part of paths and statements. So each is checked here, where it is read.
"""

from __future__ import annotations

from typing import Any

import pymysql

from canal_group.binlog.formats.events import Rotate, parse_rotate
from canal_group.binlog.server.source import ServerFacts, SourceAddress, query
from canal_group.merge.errors import CorruptEvent, SourceUnfit, UsageError
from canal_group.merge.values.position import Position, file_order


def binlog_sizes(address: SourceAddress, connection: pymysql.Connection[Any]) -> dict[str, int]:
    """Return the bytes of a source's binlog files by name, the oldest first.

    Raises:
        SourceUnavailable: the connection broke.
        SourceUnfit: the account may not ask, or a name is not that of a binlog file.
    """
    rows = query(address, connection, "SHOW BINARY LOGS")
    return {listed_file(address, str(row["Log_name"])): row.number("File_size") for row in rows}


def binlog_files(address: SourceAddress, connection: pymysql.Connection[Any]) -> list[str]:
    """Return the names of a source's binlog files, the oldest first; raises as `binlog_sizes`."""
    return list(binlog_sizes(address, connection))


def log_end(address: SourceAddress, connection: pymysql.Connection[Any], facts: ServerFacts) -> Position:
    """Return the end of a source's binlog: everything before that is written, if not yet committed.

    Which GTIDs are before the end: see `canal_group.binlog.server.starts.latest`.

    Raises:
        SourceUnavailable: the connection broke.
        SourceUnfit: the source has no binlog, the account may not ask, or the name is not a binlog file's.
    """
    rows = query(address, connection, facts.binlog_status_statement)
    if not rows:
        raise no_binlog(address)
    return Position(
        listed_file(address, str(rows[0]["File"])), rows[0].number("Position"), server=facts.identity
    )


def rotate_sent(address: SourceAddress, body: bytes, file: str, offset: int) -> Rotate:
    """Return the ROTATE event that a source has sent.

    Args:
        address: the source.
        body: the event without header and checksum.
        file: the file that was read before, for the error; empty: none.
        offset: where in it.

    Raises:
        CorruptEvent: the event cannot be read, or names no binlog file.
    """
    try:
        return parse_rotate(body)
    except CorruptEvent as error:
        at = f"after {file}:{offset}" if file else "at the beginning of a dump"
        raise CorruptEvent(
            f"{error.message} ({address.title} at {address} sent the event {at})",
            hint=error.hint,
            shard=address.name,
            file=file,
            offset=offset,
        ) from error


def no_binlog(address: SourceAddress) -> SourceUnfit:
    """Return the error of a source that writes no binlog."""
    return SourceUnfit(
        f"{address.title} has no binlog.",
        hint="Add log_bin = mysql-bin to the server's configuration and restart it.",
        shard=address.name,
    )


def listed_file(address: SourceAddress, name: str) -> str:
    """Return the name of a file that a source lists.

    Raises:
        SourceUnfit: it is not that of a binlog file.
    """
    try:
        file_order(name)
    except UsageError as error:
        raise SourceUnfit(
            f"{address.title} at {address} lists a binlog that cannot be read: {error.message}",
            hint="Set log_bin to a name of at most 100 bytes without quotes, slashes and control characters.",
            shard=address.name,
        ) from error
    return name
