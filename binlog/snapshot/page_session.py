"""Page sessions: session settings that make a SELECT independent of the server's own settings."""

from __future__ import annotations

import math
from typing import Any

import pymysql

from canal_group.binlog.server.definitions.dictionary import ANSWER_S
from canal_group.binlog.server.source import SourceAddress, query, set_session

_UNLIMITED = str((1 << 64) - 1)
_ALWAYS = {
    "autocommit": "1",
    "big_tables": "0",
    # Text comes as it is stored.
    "character_set_results": "NULL",
    "completion_type": "'NO_CHAIN'",
    "lock_wait_timeout": str(math.ceil(ANSWER_S)),
    "max_join_size": _UNLIMITED,
    "net_write_timeout": "60",
    "sql_auto_is_null": "0",
    "sql_big_selects": "1",
    "sql_buffer_result": "0",
    "sql_mode": "''",
    "sql_safe_updates": "0",
    "sql_select_limit": _UNLIMITED,
    "time_zone": "'+00:00'",
}
#: of one of the two, or of some of its versions
_IF_KNOWN = {
    "max_execution_time": "0",
    "max_statement_time": "0",
    "query_cache_type": "'OFF'",
    # No rows of the past.
    "system_versioning_asof": "DEFAULT",
}


def prepare_session(address: SourceAddress, connection: pymysql.Connection[Any]) -> None:
    """Set the variables of a session on which pages are read.

    Args:
        address: the server, for errors.
        connection: an open connection to it.

    Raises:
        SourceUnavailable, SourceUnfit: the server does not answer, or refuses.
    """
    query(address, connection, set_session(_ALWAYS))
    names = ", ".join(f"'{name}'" for name in _IF_KNOWN)
    rows = query(address, connection, f"SHOW SESSION VARIABLES WHERE Variable_name IN ({names})")
    known = {str(row["Variable_name"]).lower() for row in rows}
    query(
        address, connection, set_session({name: value for name, value in _IF_KNOWN.items() if name in known})
    )
    query(address, connection, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
