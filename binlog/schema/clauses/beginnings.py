"""Beginnings: the kind of a statement in the binlog for a reader of rows, by the words that it begins with.

`BEGINNINGS` has every word with which a statement can begin on a server of either vendor; a test asks the
servers. Statements that cannot change rows are listed one by one. All others may change them, or are unknown.
"""

from __future__ import annotations

from enum import Enum

from canal_group.binlog.schema.clauses.tokens import Kind as TokenKind
from canal_group.binlog.schema.clauses.words import Words


class Kind(Enum):
    """The kind of a statement in the binlog for a reader of rows."""

    BEGIN = "begin"
    COMMIT = "commit"
    ROLLBACK = "rollback"
    SAVEPOINT = "savepoint"
    ROLLBACK_TO = "rollback to"
    RELEASE = "release savepoint"
    XA = "xa"
    #: may change rows, logged as text: cannot be followed
    ROWS = "rows"
    #: not a statement: a server's filler for an event that an old reader would not know
    EMPTY = "empty"
    #: changes the definition of tables
    DEFINITION = "definition"
    #: defines a temporary table, which only its session sees
    TEMPORARY = "temporary"
    #: defines accounts and their rights
    ACCOUNT = "account"
    #: everything else that changes no rows: views, routines, schemas, maintenance
    OTHER = "other"
    #: begins with no known words: may do anything
    UNKNOWN = "unknown"


_BY_KIND = {
    Kind.BEGIN: ("BEGIN", "START TRANSACTION"),
    Kind.COMMIT: ("COMMIT",),
    Kind.ROLLBACK: ("ROLLBACK",),
    Kind.SAVEPOINT: ("SAVEPOINT",),
    Kind.ROLLBACK_TO: ("ROLLBACK TO", "ROLLBACK WORK TO"),
    Kind.RELEASE: ("RELEASE SAVEPOINT",),
    Kind.XA: ("XA",),
    # Several of these change rows only by a function that they call. Servers then log SELECT of the function.
    Kind.ROWS: (
        *("BEGIN NOT ATOMIC", "BINLOG", "CALL", "CASE", "DELETE", "DO", "EXECUTE", "FOR", "HANDLER", "IF"),
        *("IMPORT", "INSERT", "LOAD", "LOOP", "REPEAT", "REPLACE", "SELECT", "SET", "TABLE", "UPDATE"),
        *("VALUES", "WHILE", "WITH", "("),
    ),
    Kind.ACCOUNT: (
        *("GRANT", "REVOKE", "SET PASSWORD", "SET ROLE", "SET DEFAULT ROLE"),
        *("CREATE USER", "CREATE ROLE", "CREATE OR REPLACE USER", "CREATE OR REPLACE ROLE"),
        *("ALTER USER", "ALTER ROLE", "DROP USER", "DROP ROLE", "RENAME USER", "RENAME ROLE"),
    ),
    Kind.TEMPORARY: ("CREATE TEMPORARY", "CREATE OR REPLACE TEMPORARY", "DROP TEMPORARY"),
    Kind.OTHER: (
        *("ALTER", "ANALYZE", "BACKUP", "CACHE", "CHANGE", "CHECK", "CHECKSUM", "CLONE", "CREATE"),
        *("DEALLOCATE", "DESC", "DESCRIBE", "DROP", "EXPLAIN", "FLUSH", "GET", "HELP", "INSTALL", "KILL"),
        *("LOAD INDEX", "LOCK", "OPTIMIZE", "PREPARE", "PURGE", "RENAME", "REPAIR", "RESET", "RESIGNAL"),
        *("RESTART", "SHOW", "SHUTDOWN", "SIGNAL", "START", "STOP", "TRUNCATE", "UNINSTALL", "UNLOCK", "USE"),
    ),
}
#: the words with which a statement may begin -> its kind; the longest beginning counts
BEGINNINGS = {tuple(each.split()): kind for kind, texts in _BY_KIND.items() for each in texts}
_LONGEST = max(map(len, BEGINNINGS))
#: verbs of statements that may define a table; the words after the verb decide
_DEFINING = ("ALTER", "CREATE", "DROP", "IMPORT", "RENAME")
#: first words of statements that define no table; others decide about those that change rows
IDLE = {beginning[0] for beginning in BEGINNINGS}.difference(_DEFINING)
_EXPLAINS = ("EXPLAIN", "DESCRIBE", "DESC")
_ANALYZED_TABLES = ("TABLE", "TABLES", "LOCAL", "NO_WRITE_TO_BINLOG")


def kind_of(words: Words) -> Kind:
    """Return the kind of a statement by its first words, after skipping a prefix.

    Raises:
        UnreadableError: it cannot be cut into tokens.
    """
    while _skip_prefix(words):
        pass
    first = words.peek()
    if first.kind is TokenKind.END or words.sees(";"):
        return Kind.EMPTY
    if _is_compound(words):
        return Kind.ROWS
    for count in range(_LONGEST, 0, -1):
        kind = BEGINNINGS.get(tuple(words.peek(ahead).word for ahead in range(count)))
        if kind is not None:
            return kind
    return Kind.UNKNOWN


def _skip_prefix(words: Words) -> bool:
    """Skip a prefix that runs the statement after it: settings of MariaDB, a query plan that is measured."""
    if words.skip("SET", "STATEMENT"):
        words.skip_to("FOR", flat=True)
        words.take()
        return True
    explains = words.sees_any(*_EXPLAINS) and words.peek(1).word == "ANALYZE"
    measures = words.sees("ANALYZE") and words.peek(1).word not in _ANALYZED_TABLES
    if not explains and not measures:
        return False
    words.skip_any(*_EXPLAINS)
    words.expect("ANALYZE")
    if words.skip("FORMAT", "="):
        words.take()
    return True


def _is_compound(words: Words) -> bool:
    """Return whether statements between BEGIN and END follow, or a label."""
    if words.sees("BEGIN"):
        after = words.peek(1)
        return after.kind is not TokenKind.END and after.word not in ("WORK", ";")
    after = words.peek(1)
    return after.word == ":"
