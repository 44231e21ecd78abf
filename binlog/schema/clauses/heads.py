"""Heads: the kind of object that a statement defines, by its first words, and the tables that it names."""

from __future__ import annotations

from canal_group.binlog.schema.clauses.tokens import UnreadableError
from canal_group.binlog.schema.clauses.words import Words
from canal_group.binlog.schema.definition import SourceName

OBJECTS_WITHOUT_ROWS = {
    "AGGREGATE",
    "EVENT",
    "FUNCTION",
    "INSTANCE",
    "LIBRARY",
    "LOGFILE",
    "MASKING",
    "PACKAGE",
    "PREPARE",
    "PROCEDURE",
    "RESOURCE",
    "ROLE",
    "SERVER",
    "SPATIAL",
    "SQL",
    "TABLESPACE",
    "TRIGGER",
    "UNDO",
    "USER",
    "VIEW",
}
INDEX_WORDS = ("UNIQUE", "FULLTEXT", "SPATIAL", "VECTOR", "INDEX", "ONLINE", "OFFLINE")
#: new names of tables in one statement
NEW_NAMES_MAX = 1000


def is_without_rows(words: Words) -> bool:
    """Return whether an object without rows follows; DEFINER, ALGORITHM and such may come before its kind."""
    return words.finds(*OBJECTS_WITHOUT_ROWS, "TABLE", "SELECT") in OBJECTS_WITHOUT_ROWS


def skip_modifiers(words: Words) -> None:
    """Take the words before the kind of a view or a routine, which say how it is run."""
    while True:
        if words.skip("DEFINER"):
            words.skip("=")
            words.take()
            if words.skip("@"):
                words.take()
        elif words.skip("ALGORITHM"):
            words.skip("=")
            words.take()
        elif words.skip("SQL", "SECURITY"):
            words.take()
        else:
            return


def all_names(words: Words) -> list[SourceName]:
    """Return the tables of a DROP, RENAME or ALTER TABLE, as far as their names follow one another."""
    words.skip_if_exists()
    names = []
    while words.sees_table_name:
        names.append(words.table_name())
        if not words.skip("TO") and not words.skip(","):
            break
    return [*names, *later_names(words)]


def later_names(words: Words) -> list[SourceName]:
    """Return the name that the rest of an ALTER TABLE may give the table.

    Raises:
        UnreadableError: there are more than any statement has.
    """
    names: list[SourceName] = []
    while words.skip_to("RENAME"):
        if len(names) == NEW_NAMES_MAX:
            raise words.unexpected("a table has too many new names")
        words.take()
        if words.sees_any("COLUMN", "INDEX", "KEY"):
            continue
        words.skip_any("TO", "AS", "=")
        try:
            names.append(words.table_name())
        except UnreadableError:
            continue
    return names
