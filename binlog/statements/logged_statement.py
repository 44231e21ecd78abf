"""Logged statement: a QUERY event's statement with the settings that decide its meaning."""

from __future__ import annotations

from canal_group.binlog.formats.events import THREAD_SPECIFIC_FLAG, Query
from canal_group.binlog.formats.query_status import parse_status
from canal_group.binlog.schema.statement import ServerVersion, Statement


def statement_of(query: Query, version: ServerVersion) -> Statement:
    """Return a QUERY event's statement.

    Raises:
        CorruptEvent: the session's settings exceed the event.
    """
    status = parse_status(query.status, mariadb=version.mariadb)
    defaults = {} if status.utf8mb4_collation is None else {"utf8mb4": status.utf8mb4_collation}
    return Statement(
        query.sql,
        query.schema,
        version,
        status.sql_mode,
        status.server_collation,
        status.explicit_defaults_for_timestamp,
        defaults or None,
        failed=bool(query.error),
        client_collation=status.client_collation,
        connection_collation=status.connection_collation,
        took_effect=status.took_effect,
        thread_specific=bool(query.flags & THREAD_SPECIFIC_FLAG),
        temporary=query.temporary,
    )
