"""Statements: what a statement in the binlog is, and which tables it changes.

`kind_of` classifies a statement by its first words: transaction control, rows in statement form, XA, or a
definition. `changes_of` names a definition's change in canal's terms. It tries sqlglot first (`ddl_trees`,
imported at the first definition), then regular expressions. What neither can read is still reported, as
QUERY: no statement is lost.

Names: canal's `CanalEntry.EventType`.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import NamedTuple

_COMMENTS = re.compile(r"^(?:\s+|/\*(?!M?!).*?\*/|--[ \t][^\n]*(?:\n|$)|#[^\n]*(?:\n|$))+", re.DOTALL)


class Kind(Enum):
    """What a statement in the binlog is to a reader of rows."""

    BEGIN = "begin"
    COMMIT = "commit"
    ROLLBACK = "rollback"
    SAVEPOINT = "savepoint"
    ROLLBACK_TO = "rollback to"
    RELEASE = "release savepoint"
    XA = "xa"
    #: changes rows, logged as text: cannot be followed
    ROWS = "rows"
    #: no statement: a server's filler for an event that an old reader would not know
    EMPTY = "empty"
    #: everything else: definitions, users, grants, maintenance
    DEFINITION = "definition"


_KINDS: tuple[tuple[re.Pattern[str], Kind], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), kind)
    for pattern, kind in (
        (r"(BEGIN|START\s+TRANSACTION)\b", Kind.BEGIN),
        (r"COMMIT\b", Kind.COMMIT),
        (r"ROLLBACK\s+(WORK\s+)?TO\b", Kind.ROLLBACK_TO),
        (r"ROLLBACK\b", Kind.ROLLBACK),
        (r"SAVEPOINT\b", Kind.SAVEPOINT),
        (r"RELEASE\s+SAVEPOINT\b", Kind.RELEASE),
        (r"XA\s", Kind.XA),
        (r"(INSERT|UPDATE|DELETE|REPLACE|LOAD|CALL|DO|SELECT|WITH|VALUES)\b", Kind.ROWS),
        (r"$", Kind.EMPTY),
    )
)
_SAVEPOINT_NAME = re.compile(
    r"(?:SAVEPOINT|TO(?:\s+SAVEPOINT)?)\s+(`(?:[^`]|``)+`|[^\s;]+)\s*;?\s*$", re.IGNORECASE
)


class Change(NamedTuple):
    """One change of definitions, or of rows by a statement, in canal's terms."""

    #: CREATE ALTER ERASE RENAME TRUNCATE CINDEX DINDEX or QUERY; INSERT UPDATE DELETE
    op: str
    schema: str
    #: empty where the statement is about no table
    table: str


def strip_comments(sql: str) -> str:
    """Return a statement without leading comments and blanks; executable comments stay."""
    return _COMMENTS.sub("", sql)


def kind_of(sql: str) -> Kind:
    """Return what a statement is, by its first words."""
    text = strip_comments(sql)
    for pattern, kind in _KINDS:
        if pattern.match(text):
            return kind
    return Kind.DEFINITION


def savepoint_name(sql: str) -> str:
    """Return the name in a SAVEPOINT or ROLLBACK TO, as written and lower case; empty if there is none."""
    match = _SAVEPOINT_NAME.search(strip_comments(sql))
    return match[1].strip("`").lower() if match else ""


def changes_of(sql: str, schema: str) -> list[Change]:
    """Return what a definition statement changes.

    Args:
        sql: the statement.
        schema: the schema it ran in, for tables named without one.

    Returns:
        At least one change. A statement becomes one QUERY without a table if it concerns no table (users,
        views, routines, schemas, maintenance), concerns a temporary table, or cannot be read.
    """
    from actors.parse.grammar.ddl_trees import tree_changes

    parsed = tree_changes(sql, schema)
    if parsed is None:
        return _by_expressions(sql, schema) or [Change("QUERY", schema, "")]
    return [Change(*change) for change in parsed] or [Change("QUERY", schema, "")]


_NAME = r"(?:`(?:[^`]|``)+`|[\w$]+)"
_TABLE = rf"({_NAME}(?:\s*\.\s*{_NAME})?)"
_ONLINE = r"(?:(?:ONLINE|OFFLINE|IGNORE)\s+)*"
_OR_REPLACE = r"(?:OR\s+REPLACE\s+)?"
_IF_EXISTS = r"(?:IF\s+(?:NOT\s+)?EXISTS\s+)?"
_INDEX_KIND = r"(?:(?:ONLINE|OFFLINE|UNIQUE|FULLTEXT|SPATIAL)\s+)*"
_USING = r"(?:USING\s+\w+\s+)?"
_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE | re.DOTALL), op)
    for pattern, op in (
        (rf"CREATE\s+{_OR_REPLACE}TABLE\s+{_IF_EXISTS}{_TABLE}", "CREATE"),
        (rf"ALTER\s+{_ONLINE}TABLE\s+{_IF_EXISTS}{_TABLE}", "ALTER"),
        (rf"DROP\s+TABLES?\s+{_IF_EXISTS}({_TABLE}(?:\s*,\s*{_TABLE})*)", "ERASE"),
        (rf"TRUNCATE\s+(?:TABLE\s+)?{_TABLE}", "TRUNCATE"),
        (
            rf"CREATE\s+{_OR_REPLACE}{_INDEX_KIND}INDEX\s+{_IF_EXISTS}{_NAME}\s+{_USING}ON\s+{_TABLE}",
            "CINDEX",
        ),
        (rf"DROP\s+{_INDEX_KIND}INDEX\s+{_IF_EXISTS}{_NAME}\s+ON\s+{_TABLE}", "DINDEX"),
    )
)
_RENAME = re.compile(r"RENAME\s+TABLES?\s+(?:IF\s+EXISTS\s+)?(.*)$", re.IGNORECASE | re.DOTALL)
_RENAME_PAIR = re.compile(rf"{_TABLE}\s+(?:(?:NO)?WAIT\s+\d*\s*)?TO\s+{_TABLE}", re.IGNORECASE)
_EXECUTABLE = re.compile(r"/\*M?!\d*\s*(.*?)\*/", re.DOTALL)
#: quoted text, which is kept, or a comment anywhere in the statement, which is removed
_QUOTED_OR_COMMENT = re.compile(
    r"""('(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|`(?:[^`]|``)*`)|/\*(?!M?!).*?\*/""", re.DOTALL
)
_TEMPORARY = re.compile(r"(CREATE|DROP)\s+(OR\s+REPLACE\s+)?TEMPORARY\b", re.IGNORECASE)
_TRAILING_RENAME = re.compile(
    rf"\bRENAME\s+(?:(?:TO|AS)\s+)?(?!COLUMN\b|INDEX\b|KEY\b){_TABLE}\s*(?:,|;|$)", re.IGNORECASE
)


_ROW_OPTIONS = r"(?:(?:LOW_PRIORITY|DELAYED|HIGH_PRIORITY|QUICK|CONCURRENT|LOCAL|IGNORE)\s+)*"
_ROW_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE | re.DOTALL), op)
    for pattern, op in (
        (rf"(?:INSERT|REPLACE)\s+{_ROW_OPTIONS}(?:INTO\s+)?{_TABLE}", "INSERT"),
        (rf"UPDATE\s+{_ROW_OPTIONS}{_TABLE}", "UPDATE"),
        (rf"DELETE\s+{_ROW_OPTIONS}(?:FROM\s+)?{_TABLE}", "DELETE"),
        (rf"LOAD\s+DATA\s.*?\bINTO\s+TABLE\s+{_TABLE}", "INSERT"),
    )
)


def row_change_of(sql: str, schema: str) -> Change:
    """Return what a statement that changes rows does to the first table that it names.

    Args:
        sql: the statement, of kind ROWS.
        schema: the schema it ran in, for tables named without one.

    Returns:
        INSERT (also for REPLACE and LOAD), UPDATE or DELETE; else a QUERY without a table.
    """
    text = _QUOTED_OR_COMMENT.sub(lambda match: match[1] or " ", strip_comments(sql))
    for pattern, op in _ROW_PATTERNS:
        match = pattern.match(text)
        if match:
            return _named(op, match[1], schema)
    return Change("QUERY", schema, "")


def _by_expressions(sql: str, schema: str) -> list[Change]:
    bare = _QUOTED_OR_COMMENT.sub(lambda match: match[1] or " ", strip_comments(sql))
    text = strip_comments(_EXECUTABLE.sub(r"\1 ", bare))
    if _TEMPORARY.match(text):
        return []
    rename = _RENAME.match(text)
    if rename:
        pairs = _RENAME_PAIR.findall(rename[1])
        return [_named("RENAME", name, schema) for pair in pairs for name in pair]
    for pattern, op in _PATTERNS:
        match = pattern.match(text)
        if match and op == "ERASE":
            return [_named(op, name, schema) for name in re.findall(_TABLE, match[1])]
        if match and op == "ALTER":
            target = _TRAILING_RENAME.search(text, match.end())
            if target:
                return [_named("RENAME", match[1], schema), _named("RENAME", target[1], schema)]
        if match:
            return [_named(op, match[1], schema)]
    return []


def _named(op: str, name: str, schema: str) -> Change:
    parts = [part.strip("`").replace("``", "`") for part in re.findall(_NAME, name)]
    return Change(op, parts[0] if len(parts) > 1 else schema, parts[-1])
