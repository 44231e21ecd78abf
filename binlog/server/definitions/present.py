"""Present: what a server shows of its tables now, and the statements between a place and now."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pymysql
from pymysql.constants import ER

from binlog.charsets.charsets import BINARY_COLLATION
from binlog.charsets.collations import collation_number
from binlog.columns.table_lookup import NoLookup
from binlog.formats.events import Query
from binlog.grammar.chunk_builder import SEARCH_LIMITS
from binlog.grammar.decoding import Decoding
from binlog.grammar.skips import SkipsOf, no_skips
from binlog.history.facts import Change, Place
from binlog.schema.catalog import Catalog
from binlog.schema.definition import SourceName, TableDefinition
from binlog.schema.held import ShownTable, View
from binlog.schema.statement import ServerVersion
from binlog.server.binlog_stream import stream_of
from binlog.server.clock import clock_of
from binlog.server.definitions.lost import lost
from binlog.server.definitions.scope import Scope
from binlog.server.low_watermarks import CaughtUp
from binlog.server.source import (
    ServerFacts,
    SourceAddress,
    connect,
    query,
    query_one,
    translated,
)
from binlog.server.starts.start import latest_position
from binlog.server.starts.stream_start import AfterGtids, FromPlace
from merge.errors import SourceUnavailable, UnsupportedEvent
from merge.values.chunk import TableName
from merge.values.position import Position, file_order

#: statements between a place and now that are held, and characters of them
CHANGES_MAX = 100_000
CHANGES_CHARS_MAX = 64 << 20
#: how long an answer may wait for a statement that changes the table, seconds
ANSWER_S = 5.0
#: a table was dropped meanwhile, or the account does not see it; 1503: MariaDB made one that it cannot open
_NOT_SHOWN = {ER.NO_SUCH_TABLE, ER.TABLEACCESS_DENIED_ERROR, ER.BAD_DB_ERROR, 1142, 1356, 1503}
_NAMES = (
    "SELECT TABLE_SCHEMA AS sch, TABLE_NAME AS tab, TABLE_TYPE AS kind FROM information_schema.TABLES WHERE"
    " TABLE_SCHEMA NOT IN ('information_schema', 'mysql', 'performance_schema', 'sys')"
)
_VIEW = "VIEW"
_SCHEMAS = "SELECT SCHEMA_NAME AS sch, DEFAULT_COLLATION_NAME AS collation FROM information_schema.SCHEMATA"
_SERVER = "SELECT @@global.collation_server AS collation, @@global.lower_case_table_names AS folded"


class Listed(NamedTuple):
    """What a server lists, of all schemas but its own."""

    tables: list[SourceName]
    views: list[View]
    #: default collations; None: not known
    schemas: dict[str, int | None]


class Asked:
    """A connection on which a server is asked for definitions.

    Args:
        reader: the server.
        connection: an open connection to it, whose session is changed.
        answer_s: how long an answer may wait for a statement that changes the table.

    Raises:
        SourceUnavailable, SourceUnfit: the server does not answer or refuses.
    """

    def __init__(
        self, reader: PresentReader, connection: pymysql.Connection[Any], answer_s: float = ANSWER_S
    ) -> None:
        self._reader = reader
        self._connection = connection
        # Escapes and quotes in the text are those of the session that asks.
        query(
            reader.address,
            connection,
            "SET SESSION sql_mode = '', SESSION sql_quote_show_create = 1, SESSION lock_wait_timeout = "
            f"{max(1, math.ceil(answer_s))}",
        )

    def end(self) -> Place:
        """Return where the binlog ends; what is asked after that shows every statement before it."""
        facts = self._reader.facts
        end = latest_position(self._reader.address, self._connection, facts)
        return Place(facts.identity, end.file, end.offset)

    def listed(self) -> Listed:
        """Return the names of all tables and views that the account sees."""
        address, facts = self._reader.address, self._reader.facts
        found = Listed([], [], {})
        for row in query(address, self._connection, _SCHEMAS):
            name = row["collation"]
            found.schemas[str(row["sch"])] = (
                None if name is None else collation_number(str(name), mariadb=facts.mariadb)
            )
        for row in query(address, self._connection, _NAMES):
            name = SourceName(str(row["sch"]), str(row["tab"]))
            if _VIEW in str(row["kind"]):
                found.views.append(View(*name))
            else:
                found.tables.append(name)
        return found

    def show(self, name: SourceName) -> ShownTable | None:
        """Return a table as the server shows it; None if it shows no such table.

        Raises:
            SourceUnavailable, SourceUnfit: it does not answer, or not in time, or refuses.
        """
        quoted = ".".join("`" + part.replace("`", "``") + "`" for part in name)
        with translated(self._reader.address), self._connection.cursor() as cursor:
            try:
                cursor.execute(f"SHOW CREATE TABLE {quoted}")
            except pymysql.MySQLError as error:
                if error.args and error.args[0] in _NOT_SHOWN:
                    return None
                if error.args and error.args[0] == ER.LOCK_WAIT_TIMEOUT:
                    raise SourceUnavailable(
                        f"A statement on {name} at {self._reader.address} holds its definition.",
                        shard=self._reader.address.name,
                    ) from error
                raise
            row = cursor.fetchone()
        return None if row is None else ShownTable(*name, str(row[1]), self._reader.version)

    def definition(self, name: SourceName) -> TableDefinition | None:
        """Return a table's definition; None if the server does not show it, or it is not understood.

        Raises:
            SourceUnavailable, SourceUnfit: see `show`.
        """
        shown = self.show(name)
        # The text says each table's collation, so that the server's does not matter.
        found = None if shown is None else Catalog(BINARY_COLLATION).read(shown)
        return found if isinstance(found, TableDefinition) else None


@dataclass(frozen=True, slots=True)
class PresentReader:
    """Asks one server.

    Args:
        address: the server.
        facts: what it reports about itself.
        skips: what is left out of its binlog.
        scope: which of its statements are read.
    """

    address: SourceAddress
    facts: ServerFacts
    skips: SkipsOf = no_skips
    scope: Scope = field(default_factory=lambda: Scope(TableName, SEARCH_LIMITS.statement_chars_max))

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
        return lambda: Catalog(collation, folded)

    @contextlib.contextmanager
    def asking(self, answer_s: float = ANSWER_S) -> Iterator[Asked]:
        """Return a connection to ask for definitions on.

        Args:
            answer_s: how long an answer may wait for a statement that changes the table.

        Raises:
            SourceUnavailable, SourceUnfit: the server does not answer or refuses.
        """
        with contextlib.closing(connect(self.address)) as connection:
            yield Asked(self, connection, answer_s)

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
        recorder = _Recorder(self, after, until)
        stream = stream_of(
            self.address.scanner("definitions"),
            AfterGtids(begin) if by_gtid else FromPlace(begin),
            Decoding(
                lambda _schema, _table: None,
                SEARCH_LIMITS,
                lookup=recorder,
                verbatim=True,
                skips=self.skips(self.facts.identity),
            ),
            lambda: clock_of(self.address, connection),
            server=self.facts.identity,
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

    def _collation(self, name: object) -> int | None:
        return None if name is None else collation_number(str(name), mariadb=self.facts.mariadb)


class _Recorder(NoLookup):
    """Records the statements that a stream passes on its way."""

    def __init__(self, reader: PresentReader, after: Place | None, until: Place) -> None:
        self._server = reader.facts.identity
        self._version = reader.version
        self._scope = reader.scope
        self._after = after
        self._until = until
        self._chars = 0
        self.changes: list[Change] = []

    def redefine(self, found: Query, file: str, end: int) -> None:
        """Record a statement.

        Raises:
            UnsupportedEvent: there are too many.
        """
        self._record(self._scope.change(Place(self._server, file, end), found, self._version))

    def lose(self, found: Query | None, file: str, end: int) -> None:
        """Record that a statement is left out."""
        statement = lost(found, self._version)
        if statement is not None:
            self._record(Change(Place(self._server, file, end), statement))

    def _record(self, change: Change) -> None:
        if (self._after is not None and self._after.reaches(change.end)) or not self._until.reaches(
            change.end
        ):
            return
        self._chars += len(change.statement.sql)
        if len(self.changes) == CHANGES_MAX or self._chars > CHANGES_CHARS_MAX:
            raise UnsupportedEvent(
                f"More than {CHANGES_MAX:,} statements that define something, or {CHANGES_CHARS_MAX:,} "
                f"characters of them, come before {self._until.file}:{self._until.offset}.",
                hint="Start at a later position, or SET GLOBAL binlog_row_metadata = FULL; on the source.",
            )
        self.changes.append(change)
