"""Present: what a server shows of its tables now, and the statements between a place and now.

The definitions are read between two looks at the end of the binlog. If a statement that defines something was
logged in between, they are read again, because it is not known which of them show it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pymysql
from pymysql.constants import ER

from actors.parse.charsets.charsets import BINARY_COLLATION
from actors.parse.charsets.collations import collation_number
from actors.parse.columns.table_lookup import NoLookup
from actors.parse.formats.events import THREAD_SPECIFIC_FLAG, Query
from actors.parse.formats.query_status import parse_status
from actors.parse.grammar.chunk_builder import Limits
from actors.parse.grammar.tables import Select
from actors.parse.history.facts import Change, Place, Present
from actors.parse.schema.catalog import Catalog
from actors.parse.schema.statement import ServerVersion, Statement
from actors.parse.server.binlog_stream import BinlogStream
from actors.parse.server.clock import SourceClock
from actors.parse.server.low_watermarks import CaughtUp
from actors.parse.server.source import (
    ServerFacts,
    SourceAddress,
    connect,
    query,
    query_one,
    translated,
)
from actors.parse.server.starts.scan import scanner
from actors.parse.server.starts.start import latest_position
from merge.errors import SourceUnavailable, UnsupportedEvent
from merge.values.position import Position, file_order

#: how often definitions are read again because one was changed meanwhile
_TRIES = 5
#: statements between a place and now that are held, and characters of them
CHANGES_MAX = 100_000
CHANGES_CHARS_MAX = 64 << 20
#: a table was dropped meanwhile, or the account does not see it; 1503: MariaDB made one that it cannot open
_NOT_SHOWN = {ER.NO_SUCH_TABLE, ER.TABLEACCESS_DENIED_ERROR, ER.BAD_DB_ERROR, 1142, 1356, 1503}
_TABLES = (
    "SELECT TABLE_SCHEMA AS sch, TABLE_NAME AS tab FROM information_schema.TABLES WHERE TABLE_SCHEMA NOT IN"
    " ('information_schema', 'mysql', 'performance_schema', 'sys') AND TABLE_TYPE IN ('BASE TABLE',"
    " 'SYSTEM VERSIONED')"
)
_SCHEMAS = "SELECT SCHEMA_NAME AS sch, DEFAULT_COLLATION_NAME AS collation FROM information_schema.SCHEMATA"
_SERVER = "SELECT @@global.collation_server AS collation, @@global.lower_case_table_names AS folded"


def statement_of(found: Query, version: ServerVersion) -> Statement:
    """Return a QUERY event's statement with what decides its meaning."""
    status = parse_status(found.status, mariadb=version.mariadb)
    defaults = {} if status.utf8mb4_collation is None else {"utf8mb4": status.utf8mb4_collation}
    return Statement(
        found.sql,
        found.schema,
        version,
        status.sql_mode,
        status.server_collation,
        status.explicit_defaults_for_timestamp,
        defaults or None,
        failed=bool(found.error),
        client_collation=status.client_collation,
        connection_collation=status.connection_collation,
        took_effect=status.took_effect,
        thread_specific=bool(found.flags & THREAD_SPECIFIC_FLAG),
    )


@dataclass(frozen=True, slots=True)
class PresentReader:
    """Asks one server.

    Args:
        address: the server.
        facts: what it reports about itself.
        select: which tables are wanted; None leaves one out.
    """

    address: SourceAddress
    facts: ServerFacts
    select: Select

    @property
    def version(self) -> ServerVersion:
        """The server's version."""
        return ServerVersion.parse(self.facts.version)

    @property
    def needed(self) -> bool:
        """Whether the server's table maps lack something: names, or what MariaDB's never say."""
        full = self.facts.variables.get("binlog_row_metadata", "").upper() == "FULL"
        return self.facts.mariadb or not full

    def maker(self) -> Callable[[], Catalog]:
        """Return a function that makes empty catalogs for this server's statements."""
        with contextlib.closing(connect(self.address)) as connection:
            row = query_one(self.address, connection, _SERVER)
        collation = self._collation(row["collation"]) or BINARY_COLLATION
        folded = row.number("folded")
        select = self.select
        return lambda: Catalog(collation, folded, lambda schema, table: select(schema, table) is not None)

    def read(self, make: Callable[[], Catalog], begin: Position, place: Place) -> Present:
        """Return what the server shows, and the statements from a place on.

        Args:
            make: makes empty catalogs.
            begin: where a transaction begins, at the place or before it.
            place: statements that end there or before do not count.

        Raises:
            SourceUnavailable, SourceUnfit: the server does not answer or refuses, or its definitions change
                all the time.
            PositionPurged: it has purged the place meanwhile.
        """
        with contextlib.closing(connect(self.address)) as connection:
            for _ in range(_TRIES):
                before = self._end(connection)
                catalog = self._shown(connection, make)
                after = self._end(connection)
                changes = [] if place.reaches(after) else self._changes(connection, begin, after, place)[0]
                if not any(change.end.reaches(before) and change.end != before for change in changes):
                    return Present(catalog, changes, after)
        raise SourceUnavailable(
            f"Tables at {self.address} are changed faster than their definitions are read.",
            shard=self.address.name,
        )

    def _end(self, connection: pymysql.Connection[Any]) -> Place:
        end = latest_position(self.address, connection, self.facts)
        return Place(self.facts.identity, end.file, end.offset)

    def _shown(self, connection: pymysql.Connection[Any], make: Callable[[], Catalog]) -> Catalog:
        """Return what SHOW CREATE TABLE says of every table that is wanted."""
        # Escapes and quotes in the text are those of the session that asks.
        query(self.address, connection, "SET SESSION sql_mode = '', SESSION sql_quote_show_create = 1")
        catalog = make()
        for row in query(self.address, connection, _SCHEMAS):
            collation = self._collation(row["collation"])
            if collation is not None:
                catalog.set_schema(str(row["sch"]), collation)
        for row in query(self.address, connection, _TABLES):
            schema, table = str(row["sch"]), str(row["tab"])
            if self.select(schema, table) is None:
                continue
            text = self._text(connection, schema, table)
            if text is not None:
                # A table that cannot be read stays unknown, and is refused with its first row.
                with contextlib.suppress(ValueError):
                    catalog.set(catalog.show(Statement(text, schema, self.version)))
        return catalog

    def _text(self, connection: pymysql.Connection[Any], schema: str, table: str) -> str | None:
        quoted = ".".join("`" + name.replace("`", "``") + "`" for name in (schema, table))
        with translated(self.address), connection.cursor() as cursor:
            try:
                cursor.execute(f"SHOW CREATE TABLE {quoted}")
            except pymysql.MySQLError as error:
                if error.args and error.args[0] in _NOT_SHOWN:
                    return None
                raise
            row = cursor.fetchone()
        return None if row is None else str(row[1])

    def changes(
        self, begin: Position, until: Place, *, after: Place | None = None, by_gtid: bool = False
    ) -> list[Change] | None:
        """Return the statements from one place to another; None if the binlog ends before the second.

        Args:
            begin: where a transaction begins; by GTID, of any server.
            until: where it ends.
            after: statements that end there or before do not count; None: all count.
            by_gtid: whether what the GTID set of `begin` lacks is read, wherever this server has it.

        Raises:
            SourceUnavailable, SourceUnfit: the server does not answer or refuses.
            PositionPurged: it has purged the beginning.
        """
        with contextlib.closing(connect(self.address)) as connection:
            found, reached = self._changes(connection, begin, until, after, by_gtid=by_gtid)
        return found if reached else None

    def _changes(
        self,
        connection: pymysql.Connection[Any],
        begin: Position,
        until: Place,
        after: Place | None,
        *,
        by_gtid: bool = False,
    ) -> tuple[list[Change], bool]:
        """Return the statements up to a place, and whether the binlog reaches it."""
        recorder = _Recorder(self.facts.identity, self.version, after, until)
        stream = BinlogStream(
            scanner(self.address, "definitions"),
            begin,
            lambda _schema, _table: None,
            Limits(),
            lambda: self._clock(connection),
            server=self.facts.identity,
            lookup=recorder,
            verbatim=True,
            by_gtid=by_gtid,
        )
        with contextlib.closing(stream):
            for item in stream:
                if isinstance(item, CaughtUp):
                    file, offset, _ = stream.reading_at
                else:
                    last = item.headers[-1]
                    file, offset = item.names[last["file"]], int(last["end_offset"])
                reached = (file_order(file), offset) >= (file_order(until.file), until.offset)
                if reached or isinstance(item, CaughtUp):
                    return recorder.changes, reached
        return recorder.changes, False

    def _clock(self, connection: pymysql.Connection[Any]) -> SourceClock:
        with translated(self.address):
            return SourceClock.measure(connection)

    def _collation(self, name: object) -> int | None:
        return None if name is None else collation_number(str(name), mariadb=self.facts.mariadb)


class _Recorder(NoLookup):
    """Records the statements that a stream passes on its way."""

    def __init__(self, server: str, version: ServerVersion, after: Place | None, until: Place) -> None:
        self._server = server
        self._version = version
        self._after = after
        self._until = until
        self._chars = 0
        self.changes: list[Change] = []

    def redefine(self, found: Query, file: str, end: int) -> None:
        """Record a statement.

        Raises:
            UnsupportedEvent: there are too many.
        """
        place = Place(self._server, file, end)
        if (self._after is not None and self._after.reaches(place)) or not self._until.reaches(place):
            return
        self._chars += len(found.sql)
        if len(self.changes) == CHANGES_MAX or self._chars > CHANGES_CHARS_MAX:
            raise UnsupportedEvent(
                f"More than {CHANGES_MAX:,} statements that define something, or {CHANGES_CHARS_MAX:,} "
                f"characters of them, come before {self._until.file}:{self._until.offset}.",
                hint="Start at a later position, or SET GLOBAL binlog_row_metadata = FULL; on the source.",
            )
        self.changes.append(Change(place, statement_of(found, self._version)))
