"""Dictionary: what a server shows of its schemas, tables and columns now.

All that need to know that ask here: a stream that needs definitions, a lookup for files, a description of
tables before any row, the checks before a stream.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import pymysql
from pymysql.constants import ER

from canal_group.binlog.charsets.charsets import BINARY_COLLATION
from canal_group.binlog.charsets.collations import collation_number
from canal_group.binlog.history.facts import LogPosition
from canal_group.binlog.schema.catalog import Catalog
from canal_group.binlog.schema.catalog_entry import ShownTable, View
from canal_group.binlog.schema.definition import SourceName, TableDefinition
from canal_group.binlog.schema.sql import quoted_table
from canal_group.binlog.schema.statement import ServerVersion
from canal_group.binlog.server.answers import LISTING, Row
from canal_group.binlog.server.source import (
    ServerFacts,
    SourceAddress,
    query,
    query_one,
    set_session,
)
from canal_group.binlog.server.starts.binary_logs import log_end
from canal_group.merge.errors import SourceUnavailable, SourceUnfit

#: how long an answer may wait for a statement that changes the table, seconds
ANSWER_S = 5.0
#: a table was dropped meanwhile, or the account does not see it; 1503: MariaDB made one that it cannot open
_NOT_SHOWN = {ER.NO_SUCH_TABLE, ER.TABLEACCESS_DENIED_ERROR, ER.BAD_DB_ERROR, 1142, 1356, 1503}
_NAMES = (
    "SELECT TABLE_SCHEMA AS sch, TABLE_NAME AS tab, TABLE_TYPE AS kind FROM information_schema.TABLES WHERE"
    " TABLE_SCHEMA NOT IN ('information_schema', 'mysql', 'performance_schema', 'sys')"
)
_ESTIMATES = (
    "SELECT TABLE_SCHEMA AS sch, TABLE_NAME AS tab, TABLE_ROWS AS estimate FROM information_schema.TABLES"
    " WHERE TABLE_ROWS IS NOT NULL"
)
_SOME_COLUMN = (
    "SELECT 1 FROM information_schema.COLUMNS WHERE"
    " TABLE_SCHEMA NOT IN ('information_schema', 'mysql', 'performance_schema', 'sys') LIMIT 1"
)
_VIEW = "VIEW"
#: since when MySQL adds primary keys to tables without one
_INVISIBLE_KEYS_SINCE = (8, 0, 30)
_SCHEMAS = "SELECT SCHEMA_NAME AS sch, DEFAULT_COLLATION_NAME AS collation FROM information_schema.SCHEMATA"
_SERVER = "SELECT @@global.collation_server AS collation, @@global.lower_case_table_names AS folded"


class Listed(NamedTuple):
    """What a server lists, of all schemas but its own."""

    tables: list[SourceName]
    views: list[View]
    #: default collations; None: not known
    schemas: dict[str, int | None]


class Dictionary:
    """Asks one server for its tables.

    Args:
        address: the server.
        connection: an open connection to it, whose session is changed.
        facts: what it reports about itself.
        answer_s: how long an answer may wait for a statement that changes the table.

    Raises:
        SourceUnavailable, SourceUnfit: the server does not answer or refuses.
    """

    def __init__(
        self,
        address: SourceAddress,
        connection: pymysql.Connection[Any],
        facts: ServerFacts,
        answer_s: float = ANSWER_S,
    ) -> None:
        self._address, self._connection, self._facts = address, connection, facts
        # Escapes and quotes in the text are those of the session that asks.
        variables = {
            "sql_mode": "''",
            "sql_quote_show_create": "1",
            "lock_wait_timeout": str(max(1, math.ceil(answer_s))),
        }
        if not facts.mariadb and facts.number >= _INVISIBLE_KEYS_SINCE:
            # Rows have the primary key that MySQL adds unseen.
            variables["show_gipk_in_create_table_and_information_schema"] = "1"
        query(address, connection, set_session(variables))

    def end(self) -> LogPosition:
        """Return where the binlog ends; what is asked after that shows every statement before it."""
        end = log_end(self._address, self._connection, self._facts)
        return LogPosition(self._facts.identity, end.file, end.offset)

    def catalogs(self) -> Callable[[], Catalog]:
        """Return a function that makes empty catalogs for the server's statements."""
        row = query_one(self._address, self._connection, _SERVER)
        collation, folded = self._collation(row["collation"]) or BINARY_COLLATION, row.number("folded")
        return lambda: Catalog(collation, folded)

    def shows_some(self) -> bool:
        """Return whether the account sees a column of any table."""
        return bool(query(self._address, self._connection, _SOME_COLUMN))

    def listed(self) -> Listed:
        """Return the names of all tables and views that the account sees."""
        found = Listed([], [], {})
        for row in query(self._address, self._connection, _SCHEMAS, LISTING):
            found.schemas[str(row["sch"])] = self._collation(row["collation"])
        for row in query(self._address, self._connection, _NAMES, LISTING):
            name = SourceName(str(row["sch"]), str(row["tab"]))
            if _VIEW in str(row["kind"]):
                found.views.append(View(*name))
            else:
                found.tables.append(name)
        return found

    def estimates(self) -> dict[SourceName, int]:
        """Return about how many rows tables have, by the server's statistics."""
        rows = query(self._address, self._connection, _ESTIMATES, LISTING)
        return {SourceName(str(row["sch"]), str(row["tab"])): row.number("estimate") for row in rows}

    def show(self, name: SourceName) -> ShownTable | None:
        """Return a table as the server shows it; None if it shows no such table.

        Raises:
            SourceUnavailable, SourceUnfit: it does not answer, or not in time, or refuses.
        """
        try:
            row = self.check_shown(name)
        except (SourceUnavailable, SourceUnfit) as error:
            if error.details.get("code") in _NOT_SHOWN:
                return None
            if error.details.get("code") == ER.LOCK_WAIT_TIMEOUT:
                raise SourceUnavailable(
                    f"A statement on {name} at {self._address} holds its definition.",
                    shard=self._address.name,
                ) from error
            raise
        text = next((value for column, value in row.items() if column.startswith("Create ")), "")
        return ShownTable(*name, str(text), ServerVersion.parse(self._facts.version))

    def check_shown(self, name: SourceName) -> Row:
        """Return the row that shows a table. Only this says without SELECT that there is no such table.

        Raises:
            SourceUnavailable, SourceUnfit: the server does not answer, or refuses.
        """
        return query_one(self._address, self._connection, f"SHOW CREATE TABLE {quoted_table(name)}")

    def definition(self, name: SourceName) -> TableDefinition | None:
        """Return a table's definition; None if the server does not show it, or it is not understood.

        Raises:
            SourceUnavailable, SourceUnfit: see `show`.
        """
        shown = self.show(name)
        # The text says each table's collation, so that the server's does not matter.
        found = None if shown is None else Catalog(BINARY_COLLATION).read(shown)
        return found if isinstance(found, TableDefinition) else None

    def _collation(self, name: object) -> int | None:
        return None if name is None else collation_number(str(name), mariadb=self._facts.mariadb)
