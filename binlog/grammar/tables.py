"""Tables: the table maps of one binlog file, by table id, and the rows events that refer to them.

The server assigns table ids and reuses them after a restart, so they are valid within one file.

DDL identity: a number that equal statements on tables with one routed name share.

What does not count: comments, blanks, the case of words, quotes of names, a semicolon at the end, and the
names of the source. The table's own name, with or without its schema, becomes the routed one. So does another
table's name after a schema, and after REFERENCES, LIKE, TO, AS and RENAME; one that no route changes stays as
it is, without its schema if that is the statement's. Everything else counts: the order of columns, texts,
numbers, and `INT` or `INTEGER`.

A statement that cannot be cut into tokens is identified by its text.
"""

from __future__ import annotations

import hashlib
import itertools
import struct
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from canal_group.binlog.columns.columns import TableSchema
from canal_group.binlog.columns.rows_head import parse_rows_head
from canal_group.binlog.columns.table_lookup import NoLookup, TableLookup
from canal_group.binlog.columns.table_map import parse_table_map, table_id, table_name
from canal_group.binlog.columns.unnamed_tables import completed
from canal_group.binlog.formats.compression import unpack
from canal_group.binlog.formats.event_types import ROWS_V1, UNPACKED_ROWS, UPDATES, EventType
from canal_group.binlog.formats.events import Query
from canal_group.binlog.formats.format_description import FormatDescription, version_number
from canal_group.binlog.grammar.xa import RowsEvent
from canal_group.binlog.schema.clauses.tokens import Kind
from canal_group.binlog.schema.clauses.words import Words
from canal_group.binlog.schema.statement import ServerVersion, Statement
from canal_group.binlog.statements.logged_statement import statement_of
from canal_group.binlog.statements.session_tables import SessionTables
from canal_group.merge.errors import CorruptEvent, DataError
from canal_group.merge.values.chunk import TableName
from canal_group.merge.values.ddl_mark import DdlMark

#: words after which a table's name may come
_BEFORE_NAMES = frozenset({"REFERENCES", "LIKE", "TO", "AS", "RENAME"})
_NAMES = (Kind.WORD, Kind.NAME)
#: between what is hashed; in no token but a text, which is hashed with its length
_BETWEEN = "\x1f"

Route = Callable[[str, str], TableName | None]


def statement_id(op: str, name: TableName, source: TableName, statement: Statement, route: Route) -> int:
    """Return a statement's number, from 1, below 2**63.

    Args:
        op: canal's EventType.
        name: its table, as consumers see it.
        source: the same in the source.
        statement: the statement.
        route: returns the consumers' name of a table of the source, or None if it is left out.
    """
    try:
        return _number((op, *name), _words(Words(statement), source, statement.schema, route))
    except Exception:  # noqa: BLE001 - any error of its reader means that the text is not understood
        return _number((op, *name), [statement.sql.strip()])


def _number(head: Iterable[str], words: Iterable[str]) -> int:
    digest = hashlib.blake2b(digest_size=8)
    between = ""
    for each in itertools.chain(head, words):
        digest.update((between + each).encode(errors="surrogatepass"))
        between = _BETWEEN
    return (int.from_bytes(digest.digest(), "big") >> 1) or 1


def _words(words: Words, source: TableName, schema: str, route: Route) -> Iterator[str]:
    last, own = "", False
    while not words.ended:
        token = words.take()
        if token.kind not in _NAMES:
            text = token.text
            yield f"{len(text)}:{text}" if token.kind is Kind.TEXT else text
            last = ""
            continue
        qualified = words.sees(".") and words.peek(1).kind in _NAMES
        if qualified:
            words.take()
        name = TableName(token.text, words.take().text) if qualified else TableName(schema, token.text)
        if _same(name, source) and (qualified or not own):
            own = True
            last = ""
            yield ""
        elif qualified and _folded(name.schema) == _folded(source.table):
            # A column with its table.
            yield name.table.upper()
        elif qualified or last in _BEFORE_NAMES:
            yield _routed(name, source.schema if qualified else name.schema, route)
            last = ""
        else:
            last = name.table.upper()
            yield last


def _routed(name: TableName, schema: str, route: Route) -> str:
    """Return a name as consumers see it; without its schema if no route changes it and it is of `schema`."""
    routed = route(*name) or name
    unchanged = routed == name and _folded(name.schema) == _folded(schema)
    return name.table.upper() if unchanged else str(routed).upper()


def _same(one: TableName, other: TableName) -> bool:
    return _folded(one.schema) == _folded(other.schema) and _folded(one.table) == _folded(other.table)


def _folded(name: str) -> str:
    return name.lower()


#: which tables are decoded, and under which name; None leaves a table out
Select = Callable[[str, str], TableName | None]

_DUMMY_TABLE_ID = 0xFFFFFF
#: of both vendors: a cache of its own for them
_APART_SINCE = (5, 5)
#: a table id of 4 bytes and two of flags; later ids have 6
_OLD_HEAD, _HEAD = 6, 8


class _Table(NamedTuple):
    #: bytes that are equal only for equal table maps
    version: bytes
    #: None if the table is not selected
    schema: TableSchema | None
    #: the event, if it was not parsed yet
    unread: bytes = b""


class Tables:
    """Knows the tables of the current file.

    Args:
        select: which tables are decoded and under which name.
        lookup: describes tables where a table map is incomplete; None: no lookup.
        names_needed: whether a table map without column names is refused if the lookup does not know them.
    """

    def __init__(
        self, select: Select, lookup: TableLookup | None = None, *, names_needed: bool = True
    ) -> None:
        self._select = select
        self._lookup = lookup or NoLookup()
        self._names_needed = names_needed
        self._format: FormatDescription | None = None
        self._tables: dict[int, _Table] = {}
        self._session_tables = SessionTables()

    @property
    def mariadb(self) -> bool:
        """Whether a MariaDB server wrote the file."""
        return self._format is not None and self._format.mariadb

    @property
    def _version(self) -> tuple[int, int, int]:
        return version_number(self._format.server_version if self._format is not None else "")

    @property
    def logs_kept_rows_apart(self) -> bool:
        """Whether rows that no rollback undoes are in transactions of their own."""
        return self._version >= _APART_SINCE

    def begin_file(self, description: FormatDescription | None = None) -> None:
        """Forget all tables: another file begins, or the server was restarted."""
        self._format = description or self._format
        self._tables.clear()
        self._session_tables.clear()

    def redefine(self, query: Query, file: str, end: int) -> None:
        """Apply a statement that defines something: the lookup may answer differently from now on."""
        self._lookup.redefine(query, file, end)
        self._tables.clear()

    def lose(self, query: Query | None, file: str, end: int) -> None:
        """Apply that a statement is left out, see `TableLookup.lose`."""
        self._lookup.lose(query, file, end)
        self._tables.clear()

    def leave_out(self, body: bytes) -> None:
        """Leave out the rows that refer to a TABLE_MAP event, until another one has its table id."""
        self._tables[table_id(body, self.post_header_size(EventType.TABLE_MAP))] = _Table(b"", None)

    def name(self, event_type: int, body: bytes) -> TableName | None:
        """Return the consumers' name of the table of a TABLE_MAP or rows event; None if it is unknown."""
        try:
            head = self.post_header_size(event_type)
            if event_type == EventType.TABLE_MAP:
                return self._select(*table_name(body, head))
            table = self._tables.get(table_id(body, head))
        except (DataError, IndexError, UnicodeDecodeError, struct.error):
            return None
        return None if table is None or table.schema is None else table.schema.name

    def selected(self, schema: str, table: str) -> TableName | None:
        """Return the consumers' name of a table; None if it is left out."""
        return self._select(schema, table)

    def origins(self, schema: str, table: str) -> tuple[TableName, ...]:
        """Return names that a table had, and those of tables that it was made like; see `Lineage`."""
        return self._lookup.origins(schema, table) if table else ()

    def resolved(self, query: Query) -> Query:
        """Return the next statement of the file, with the fact whether it is about a temporary table."""
        if not self._session_tables.may_concern(query):
            return query
        temporary = self._session_tables.take(query.session, self.statement(query))
        return query._replace(temporary=temporary)

    def statement(self, query: Query) -> Statement:
        """Return a statement with the settings that decide its meaning, as far as its event holds them."""
        version = ServerVersion(self.mariadb, *self._version)
        try:
            return statement_of(query, version)
        except CorruptEvent:  # its text was read, and is handed on
            return Statement(query.sql, query.schema, version)

    def mark(self, statement: Statement, op: str, name: TableName, source: TableName) -> DdlMark:
        """Return the mark of a definition for the control plane, after `redefine`.

        Args:
            statement: the statement.
            op: canal's EventType.
            name: its table, as consumers see it.
            source: the same in the source.
        """
        number = statement_id(op, name, source, statement, self._select)
        source_tables = self._lookup.tables()
        tables = 0
        if source_tables is not None:
            tables = len({source, *(each for each in source_tables if self._select(*each) == name)})
        return DdlMark(number, op, str(name), str(source), tables)

    def post_header_size(self, event_type: int) -> int:
        """Return the size of an event type's fixed part.

        Raises:
            CorruptEvent: no format description was read yet, or the server did not know the type.
        """
        if self._format is None:
            raise CorruptEvent("An event comes before the format description.")
        return self._format.post_header_size(event_type)

    def learn(self, body: bytes, *, read: bool = True) -> None:
        """Take a TABLE_MAP event.

        Args:
            body: the event without header and checksum.
            read: whether to parse it now; else it is parsed, and its errors are raised, with its first rows.

        Raises:
            UnsupportedEvent, CorruptEvent: see `parse_table_map`.
        """
        head = self.post_header_size(EventType.TABLE_MAP)
        number, version = table_id(body, head), body[head:]
        table = self._tables.get(number)
        if table is None or table.version != version or (read and table.unread):
            self._tables[number] = self._read(version, body) if read else _Table(version, None, body)

    def _read(self, version: bytes, body: bytes) -> _Table:
        head = self.post_header_size(EventType.TABLE_MAP)
        name = self._select(*table_name(body, head))
        if name is None:
            return _Table(version, None)
        try:
            table = parse_table_map(body, mariadb=self.mariadb, post_header_size=head)
            table = completed(table, self._lookup, mariadb=self.mariadb, names_needed=self._names_needed)
            lineage = self._lookup.lineage(table.schema, table.table)
            return _Table(version, TableSchema.of(name, table, lineage))
        except (KeyError, ValueError) as error:
            raise CorruptEvent(f"A table map describes impossible columns ({error}).") from error

    def rows(self, event_type: int, body: bytes) -> RowsEvent | None:
        """Return a rows event with its table, unpacked; None if the table is not selected or is the dummy.

        Raises:
            CorruptEvent: its table map is missing, or it cannot be unpacked.
        """
        head = self.post_header_size(event_type)
        number = table_id(body, head)
        table = self._tables.get(number)
        if table is None:
            if number == _DUMMY_TABLE_ID:  # closes a statement, has no rows
                return None
            raise CorruptEvent(
                f"Rows of table number {number} come without its table map.",
                hint="Start at a position where a transaction begins.",
            )
        if table.unread:
            table = self._tables[number] = self._read(table.version, table.unread)
        if table.schema is None:
            return None
        if head == _OLD_HEAD:  # widen the id to 6 bytes, as servers write it since MySQL 5.1.5
            head, body = _HEAD, body[:4] + b"\0\0" + body[4:]
        plain = UNPACKED_ROWS.get(event_type)
        if plain is not None:
            event_type, body = plain, _unpacked(plain, body, head)
        return RowsEvent(table.schema, table.version, event_type, body, head)


def _unpacked(event_type: int, body: bytes, post_header_size: int) -> bytes:
    """Return a rows event's body with its images unpacked; what comes before them is not packed."""
    at = parse_rows_head(
        body,
        version=1 if event_type in ROWS_V1 else 2,
        update=event_type in UPDATES,
        post_header_size=post_header_size,
    ).images_at
    return body[:at] + unpack(body[at:])
