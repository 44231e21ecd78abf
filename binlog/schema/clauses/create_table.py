"""CREATE TABLE, and the text of SHOW CREATE TABLE."""

from __future__ import annotations

from dataclasses import dataclass, field

from canal_group.binlog.schema.clauses.charset_words import CharsetClauses, Charsets
from canal_group.binlog.schema.clauses.columns import ColumnWords, read_column
from canal_group.binlog.schema.clauses.keys import KeyKind, KeyPart, KeyWords, read_key, sees_key
from canal_group.binlog.schema.clauses.table_options import read_engine, skip_table_option
from canal_group.binlog.schema.clauses.tokens import UnreadableError
from canal_group.binlog.schema.clauses.words import CLAUSE, Words
from canal_group.binlog.schema.definition import ColumnDefinition, TableDefinition
from canal_group.binlog.schema.draft import Draft

#: words that begin a query, or come before one
_QUERY_WORDS = ("SELECT", "WITH", "VALUES", "TABLE", "AS", "IGNORE", "REPLACE")


@dataclass(slots=True)
class TableWords:
    """The content of a CREATE TABLE, before its schema's collation is known."""

    charset: CharsetClauses
    columns: list[ColumnWords] = field(default_factory=list)
    #: in the statement's order, with those of columns
    keys: list[KeyWords] = field(default_factory=list)
    #: the columns of each period
    periods: dict[str, tuple[str, ...]] = field(default_factory=dict)
    versioned: bool = False
    #: as `Draft` has it
    engine: str = ""
    #: whether columns come from a query as well
    queried: bool = False

    def defined(self, draft: Draft, default_collation: int | None, *, words: Words) -> TableDefinition:
        """Return the table.

        Args:
            draft: an empty one, of the table's name.
            default_collation: its schema's; None: unknown.
            words: the statement.

        Raises:
            UnreadableError: it cannot be decided.
        """
        if self.queried:
            raise UnreadableError("columns come from a query")
        draft.collation = self.charset.collation_or(default_collation)
        draft.versioned = self.versioned
        draft.engine = self.engine
        draft.add_periods(self.periods)
        for column in self.columns:
            draft.insert(define(draft, column, words=words), None)
        for key in self.keys:
            draft.add_key(key)
        return draft.finished()


def define(draft: Draft, column: ColumnWords, *, words: Words) -> ColumnDefinition:
    """Return a column's definition in a draft's table."""
    statement = words.statement
    return column.defined(
        draft.collation,
        explicit_timestamps=statement.timestamps_are_explicit,
        strict=statement.strict,
        mariadb=statement.server.mariadb,
    )


def keys_of(column: ColumnWords) -> list[KeyWords]:
    """Return the keys of a column's attributes."""
    part = (KeyPart(column.name),)
    kinds = (
        (column.primary, KeyKind.PRIMARY),
        (column.unique, KeyKind.UNIQUE),
        (column.refers, KeyKind.FOREIGN),
    )
    return [KeyWords(kind, "", part) for has_attribute, kind in kinds if has_attribute]


def read_table(words: Words, charsets: Charsets) -> TableWords:
    """Read CREATE TABLE after the table's name.

    Raises:
        UnreadableError: it is not understood.
    """
    table = TableWords(CharsetClauses(charsets))
    if words.sees("(") and not words.sees_query():
        words.in_parentheses(lambda: _element(words, charsets, table), CLAUSE)
    _read_options(words, table)
    return table


def _element(words: Words, charsets: Charsets, table: TableWords) -> None:
    if words.skip("PERIOD", "FOR"):
        table.periods |= read_period(words)
    elif sees_key(words):
        table.keys.append(read_key(words))
    else:
        column = read_column(words, charsets, words.column_name())
        table.columns.append(column)
        table.keys += keys_of(column)
        table.versioned |= column.versioned


def read_period(words: Words) -> dict[str, tuple[str, ...]]:
    """Read the name and the columns after PERIOD FOR; return the columns by the name."""
    return {words.name(): tuple(words.in_parentheses(words.name))}


def _read_options(words: Words, table: TableWords) -> None:
    """Read the options after the columns; an unknown one has no meaning for rows, and is recorded."""
    while not words.ended:
        if table.charset.read(words) or words.skip("DEFAULT"):
            continue
        if words.skip("WITH", "SYSTEM", "VERSIONING"):
            table.versioned = True
        elif words.sees("ENGINE"):
            table.engine = read_engine(words)
        elif words.sees_any(*_QUERY_WORDS) or words.sees_query():
            table.queried = True
            words.skip_rest()
        elif words.skip("PARTITION", "BY"):
            _skip_partitions(words)
        elif not (skip_table_option(words) or words.skip(",") or words.skip("START", "TRANSACTION")):
            words.pass_over()
            words.skip_part()


def _skip_partitions(words: Words) -> None:
    """Take everything up to a query, or the end."""
    while not (words.ended or words.sees_any(*_QUERY_WORDS) or words.sees_query()):
        words.skip_part()
