"""Statement reader: the kind of a statement in the binlog, and the tables that it changes, in canal's terms.

It reads the statement's tokens, as the server that logged it cut them. Names: canal's `CanalEntry.EventType`.
"""

from __future__ import annotations

import unicodedata
from typing import NamedTuple

from canal_group.binlog.charsets.statement_text import printable
from canal_group.binlog.schema.clauses.beginnings import Kind, kind_of
from canal_group.binlog.schema.clauses.tokens import Kind as TokenKind
from canal_group.binlog.schema.clauses.tokens import UnreadableError
from canal_group.binlog.schema.clauses.words import FirstWords, Words
from canal_group.binlog.schema.statement import Statement
from canal_group.binlog.statements.native_functions import calls_stored

_INDEX_WORDS = ("UNIQUE", "FULLTEXT", "SPATIAL", "VECTOR", "ONLINE", "OFFLINE")
_ROW_OPTIONS = ("LOW_PRIORITY", "DELAYED", "HIGH_PRIORITY", "QUICK", "IGNORE")
_QUERIES = ("SELECT", "WITH", "VALUES", "TABLE")
_SCHEMAS = ("DATABASE", "SCHEMA")
#: words of an ALTER TABLE that a second table follows: of EXCHANGE PARTITION, and of MariaDB's CONVERT
_OTHER_TABLE = (("WITH", "TABLE"), ("TO", "TABLE"), ("CONVERT", "TABLE"))
#: words of an ALTER TABLE that removes rows, or brings rows, without row events
_MOVES_ROWS = (
    *((word, "PARTITION") for word in ("DISCARD", "DROP", "IMPORT", "REPAIR", "TRUNCATE")),
    *((word, "TABLESPACE") for word in ("DISCARD", "IMPORT")),
)
_BEFORE_OTHER = {first for first, _ in (*_OTHER_TABLE, *_MOVES_ROWS)}
#: tables that a statement changes, at most: the names after them are ignored
CHANGES_MAX = 10_000


class Change(NamedTuple):
    """One change of definitions, or of rows by a statement, in canal's terms."""

    #: CREATE ALTER ERASE RENAME TRUNCATE CINDEX DINDEX or QUERY; INSERT UPDATE DELETE
    op: str
    schema: str
    #: empty where the statement is about the schema as a whole, or about no table
    table: str
    #: whether rows of the table come or go without row events; TRUNCATE, ERASE and RENAME say so
    moves_rows: bool = False


_DEFINING = (Kind.DEFINITION, Kind.OTHER, Kind.UNKNOWN)


class Reading(NamedTuple):
    """The kind of a statement, and its changes."""

    kind: Kind
    #: the tables of a definition, in the statement's order, a RENAME's old name before its new name; the
    #: schema that a statement creates or drops; or the first table whose rows change. Empty: no table, or no
    #: table can be read
    changes: tuple[Change, ...] = ()
    #: of SAVEPOINT and ROLLBACK TO, as servers compare it
    savepoint: str = ""

    @property
    def defines(self) -> bool:
        """Whether it may change the definition of a table or a schema.

        CREATE TABLE ... SELECT does, besides rows.
        """
        return self.kind in _DEFINING or any(change.op == "CREATE" for change in self.changes)


_CONTROL = {
    "BEGIN": Reading(Kind.BEGIN),
    "COMMIT": Reading(Kind.COMMIT),
    "ROLLBACK": Reading(Kind.ROLLBACK),
}
_SAVEPOINTS = {"SAVEPOINT ": Kind.SAVEPOINT, "ROLLBACK TO ": Kind.ROLLBACK_TO}
_CONTROL_CHARS = max(map(len, _CONTROL))


def read_control(sql: str) -> Reading | None:
    """Return the reading of a statement that controls a transaction, as servers write it; else None."""
    if len(sql) <= _CONTROL_CHARS and sql in _CONTROL:
        return _CONTROL[sql]
    if sql.startswith("XA "):
        return Reading(Kind.XA)
    if not sql.startswith(("SAVEPOINT ", "ROLLBACK TO ")):
        return None
    verb, _, name = sql.partition("`")
    kind = _SAVEPOINTS.get(verb)
    inner = name[:-1].replace("``", "")
    if kind is None or not name.endswith("`") or not name[1:] or "`" in inner:
        return None
    return Reading(kind, savepoint=_compared(name[:-1].replace("``", "`")))


def read_statement(statement: Statement) -> Reading:
    """Return the kind and changes of a statement; UNKNOWN if its beginning cannot be read. Never raises."""
    try:
        return _read(statement)
    except Exception:  # noqa: BLE001 - any error of its reader means that the text is not understood
        return Reading(Kind.UNKNOWN)


def _read(statement: Statement) -> Reading:
    words = FirstWords(statement)
    kind = kind_of(words)
    match kind:
        case Kind.SAVEPOINT | Kind.ROLLBACK_TO:
            return Reading(kind, savepoint=_savepoint(words))
        case Kind.ROWS:
            return Reading(kind, _row_changes(words))
        case Kind.TEMPORARY:
            return Reading(Kind.ROWS if _fills_by_function(words) else kind)
        case Kind.OTHER:
            return _schema(words) or _definition(words)
        case _:
            return Reading(kind)


def _savepoint(words: Words) -> str:
    words.skip("ROLLBACK")
    words.skip("WORK")
    words.skip("TO")
    words.skip("SAVEPOINT")
    return _compared(words.take().text)


def _compared(name: str) -> str:
    """Return a savepoint's name as servers compare it: without case and accents."""
    # Character by character: what is normalized as a whole is also sorted, which takes long for many accents.
    letters = (each for char in name for each in unicodedata.normalize("NFD", char))
    return "".join(each for each in letters if not unicodedata.combining(each)).upper()


def _row_changes(words: Words) -> tuple[Change, ...]:
    try:
        if words.skip_any("INSERT", "REPLACE"):
            return (_of_rows(words, "INSERT"),)
        if words.skip("UPDATE"):
            return (_of_rows(words, "UPDATE"),)
        if words.skip("DELETE"):
            words.skip("HISTORY")
            return (_of_rows(words, "DELETE"),)
        if words.skip("LOAD"):
            while not words.skip("INTO", "TABLE"):
                words.take()
            return (_change(words, "INSERT"),)
    except UnreadableError:
        pass
    return ()


def _of_rows(words: Words, op: str) -> Change:
    while words.skip_any(*_ROW_OPTIONS, "INTO", "FROM"):
        pass
    return _change(words, op)


def _schema(words: Words) -> Reading | None:
    """Return the reading of a statement that creates or drops a schema; None: it is another one."""
    ahead = 3 if words.sees("CREATE", "OR", "REPLACE") else 1
    if not words.sees_any("CREATE", "DROP") or words.peek(ahead).word not in _SCHEMAS:
        return None
    for _ in range(ahead + 1):
        words.take()
    try:
        words.skip_if_exists()
        return Reading(Kind.DEFINITION, (Change("QUERY", _name(words), ""),))
    except UnreadableError:
        return Reading(Kind.OTHER)


def _definition(words: Words) -> Reading:
    """Return the reading of a statement that changes no rows, unless it creates a table with them.

    ALTER, TRUNCATE, RENAME and statements on indexes do not say that they concern a temporary table, which
    may have the name of another one: the session has logged its CREATE TEMPORARY TABLE then.
    """
    changes: list[Change] = []
    is_temporary = words.statement.temporary
    try:
        if words.skip("CREATE"):
            replaces = words.skip("OR", "REPLACE")
            if words.skip("TABLE"):
                return _create_table(words, replaces=replaces)
            _create_index(words, changes)
        elif words.skip("DROP"):
            if words.skip_any("TABLE", "TABLES"):
                is_temporary = False  # other tables may be dropped as well
                _drop_tables(words, changes)
            else:
                _drop_index(words, changes)
        elif words.skip("ALTER"):
            _alter_table(words, changes)
        elif words.skip("RENAME"):
            _rename_tables(words, changes)
        elif words.skip("TRUNCATE"):
            words.skip("TABLE")
            changes.append(_change(words, "TRUNCATE"))
    except UnreadableError:  # the changes that were read are right
        pass
    if not changes:
        return Reading(Kind.OTHER)
    return Reading(Kind.TEMPORARY) if is_temporary else Reading(Kind.DEFINITION, tuple(changes))


def _create_table(words: Words, *, replaces: bool) -> Reading:
    try:
        words.skip_if_exists()
        change = _change(words, "CREATE")._replace(moves_rows=replaces)
        return Reading(Kind.ROWS if _has_query(words) else Kind.DEFINITION, (change,))
    except UnreadableError:  # it may have a query
        return Reading(Kind.UNKNOWN)


def _has_query(words: Words) -> bool:
    """Return whether the rest of a CREATE TABLE has a query, whose rows it creates.

    Columns, partitions and values of options stand in parentheses; outside of them these words are not names.
    """
    while words.skip_to("(", "AS", *_QUERIES):
        if words.sees("("):
            if words.sees_query():
                return True
            words.skip_group()
        elif words.sees("WITH", "SYSTEM"):
            words.take()
        else:
            return True
    return False


def _fills_by_function(words: Words) -> bool:
    """Return whether a temporary table is filled by a query that may call a function which changes rows.

    MySQL refuses that; MariaDB logs nothing but this statement.
    """
    if not words.statement.server.mariadb or words.sees("DROP"):
        return False
    try:
        words.skip("CREATE")
        words.skip("OR", "REPLACE")
        if not words.skip("TEMPORARY", "TABLE"):
            return False
        words.skip_if_exists()
        _change(words, "CREATE")
        return _has_query(words) and calls_stored(words)
    except UnreadableError:
        return True


def _create_index(words: Words, changes: list[Change]) -> None:
    while words.skip_any(*_INDEX_WORDS):
        pass
    if not words.skip("INDEX"):
        return
    words.skip_if_exists()
    _name(words)
    if words.skip_any("USING", "TYPE"):
        words.take()
    words.expect("ON")
    changes.append(_change(words, "CINDEX"))


def _drop_index(words: Words, changes: list[Change]) -> None:
    while words.skip_any("ONLINE", "OFFLINE"):
        pass
    if not words.skip("INDEX"):
        return
    words.skip_if_exists()
    _name(words)
    words.expect("ON")
    changes.append(_change(words, "DINDEX"))


def _drop_tables(words: Words, changes: list[Change]) -> None:
    words.skip_if_exists()
    changes.append(_change(words, "ERASE"))
    while words.skip(",") and len(changes) < CHANGES_MAX:
        changes.append(_change(words, "ERASE"))


def _alter_table(words: Words, changes: list[Change]) -> None:
    """Find the table, and the name that it may get: then it is renamed, whatever else changes.

    Rows go from one table to another with a partition that is exchanged or converted. IGNORE removes rows
    that a new key or partition does not take.
    """
    moves_rows = False
    while words.sees_any("ONLINE", "OFFLINE", "IGNORE"):
        moves_rows |= words.take().word == "IGNORE"
    if not words.skip("TABLE"):
        return
    words.skip_if_exists()
    changes.append(_change(words, "ALTER"))
    while words.skip_to("RENAME", *_BEFORE_OTHER, flat=True):
        if words.skip("RENAME"):
            if not words.sees_any("COLUMN", "INDEX", "KEY"):
                words.skip_any("TO", "AS", "=")
                target = _change(words, "RENAME")
                changes[:] = [changes[0]._replace(op="RENAME"), target]
        elif len(changes) < CHANGES_MAX and any(words.skip(*each) for each in _OTHER_TABLE):
            changes.append(_change(words, "ALTER"))
            moves_rows = True
        else:
            moves_rows |= any(words.sees(*each) for each in _MOVES_ROWS)
            words.take()
    changes[:] = [each._replace(moves_rows=moves_rows) for each in changes]


def _rename_tables(words: Words, changes: list[Change]) -> None:
    if not words.skip_any("TABLE", "TABLES"):
        return
    words.skip_if_exists()
    while True:
        old = _change(words, "RENAME")
        if words.skip("WAIT"):
            words.number()
        words.skip("NOWAIT")
        words.expect("TO")
        changes += [old, _change(words, "RENAME")]
        if not words.skip(",") or len(changes) >= CHANGES_MAX:
            return


def _change(words: Words, op: str) -> Change:
    if words.skip("."):  # MariaDB: the session's schema
        return Change(op, words.statement.schema, _name(words))
    first = _name(words)
    if words.skip("."):
        return Change(op, first, _name(words))
    return Change(op, words.statement.schema, first)


def _name(words: Words) -> str:
    """Take a name; one with bytes that are not characters is shown with them as numbers."""
    if words.peek().kind not in (TokenKind.WORD, TokenKind.NAME):
        raise words.unexpected("a name should come")
    return printable(words.take().text)
