"""Session formats: which sessions may write statements instead of rows, although `binlog_format` is ROW.

A session takes the global format when it begins, and keeps it: a pool of connections that was opened before
SET GLOBAL goes on as before. MySQL shows the format of each session to an account that may see it. Both
vendors show whether a statement has set the format since the server was started.
"""

from __future__ import annotations

from typing import Any

import pymysql

from canal_group.binlog.server.answers import Row
from canal_group.binlog.server.source import ServerFacts, SourceAddress, query, query_one
from canal_group.merge.errors import SourceUnfit

_SHOWN = 3
_FORMATS = (
    "SELECT t.PROCESSLIST_ID AS id, t.PROCESSLIST_USER AS user, t.PROCESSLIST_HOST AS host,"
    " v.VARIABLE_VALUE AS form FROM performance_schema.variables_by_thread v"
    " JOIN performance_schema.threads t USING (THREAD_ID)"
    " WHERE v.VARIABLE_NAME = 'binlog_format' AND v.VARIABLE_VALUE <> 'ROW' AND t.PROCESSLIST_ID IS NOT NULL"
    " ORDER BY id"
)
_MYSQL_ORIGIN = (
    "SELECT VARIABLE_SOURCE AS origin FROM performance_schema.variables_info"
    " WHERE VARIABLE_NAME = 'binlog_format'"
)
_MARIADB_ORIGIN = (
    "SELECT GLOBAL_VALUE_ORIGIN AS origin FROM information_schema.SYSTEM_VARIABLES"
    " WHERE VARIABLE_NAME = 'BINLOG_FORMAT'"
)
#: what the origin is if a statement has set it
_BY_STATEMENT = ("SQL", "DYNAMIC")
#: since when MySQL shows where a setting comes from
_ORIGIN_SINCE = (8, 0, 0)
_RECONNECT = (
    "Set binlog_format = ROW in the server's configuration as well, and close the connections of pools that "
    "were opened before."
)


def formats_found(
    address: SourceAddress, connection: pymysql.Connection[Any], facts: ServerFacts
) -> tuple[str, str] | None:
    """Return which sessions may write statements, and what to do; None if the server shows none.

    Args:
        address: the server.
        connection: an open connection to it.
        facts: what it reports about itself.

    Raises:
        SourceUnavailable: the connection broke.
    """
    if facts.variables.get("binlog_format", "").upper() != "ROW":
        return None
    sessions = None if facts.mariadb else _sessions(address, connection)
    if sessions is None:
        return _by_origin(address, connection, facts)
    if not sessions:
        return None
    shown = [f"{row['form']} in session {row['id']} of {row['user']}@{row['host']}" for row in sessions]
    more = f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
    return ", ".join(shown[:_SHOWN]) + more, " ".join(f"KILL {row['id']};" for row in sessions[:_SHOWN])


def _sessions(address: SourceAddress, connection: pymysql.Connection[Any]) -> list[Row] | None:
    """Return the sessions of a MySQL server that may write statements; None: it does not show them."""
    try:
        kept = query_one(address, connection, "SELECT @@performance_schema AS kept").number("kept")
        return query(address, connection, _FORMATS) if kept else None
    except SourceUnfit:
        return None


def _by_origin(
    address: SourceAddress, connection: pymysql.Connection[Any], facts: ServerFacts
) -> tuple[str, str] | None:
    if not facts.mariadb and facts.number < _ORIGIN_SINCE:
        return None
    try:
        rows = query(address, connection, _MARIADB_ORIGIN if facts.mariadb else _MYSQL_ORIGIN)
    except SourceUnfit:
        return None
    if not any(row["origin"] in _BY_STATEMENT for row in rows):
        return None
    return "set by a statement since the server was started: older sessions may have another one", _RECONNECT
