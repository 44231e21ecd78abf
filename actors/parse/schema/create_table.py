"""CREATE TABLE, and the text of SHOW CREATE TABLE."""

from __future__ import annotations

from dataclasses import dataclass, field

from actors.parse.schema.charset_words import Charsets, read_charset, read_collation, skip_charset_words
from actors.parse.schema.columns import ColumnWords, read_column
from actors.parse.schema.definition import PRIMARY, ColumnDefinition, TableDefinition
from actors.parse.schema.draft import Draft
from actors.parse.schema.keys import KeyKind, KeyPart, KeyWords, read_key, sees_key
from actors.parse.schema.tokens import Kind, UnreadableError
from actors.parse.schema.words import Words

_QUERY_WORDS = ("SELECT", "WITH", "VALUES", "TABLE", "AS", "IGNORE", "REPLACE", "(")
#: options of a table that need no equals sign, of more words than one
_LONG_OPTIONS = (("DATA", "DIRECTORY"), ("INDEX", "DIRECTORY"))
_OPTIONS = {
    "AUTO_INCREMENT",
    "AUTOEXTEND_SIZE",
    "AVG_ROW_LENGTH",
    "CHECKSUM",
    "COMMENT",
    "COMPRESSION",
    "CONNECTION",
    "DELAY_KEY_WRITE",
    "ENCRYPTION",
    "ENGINE",
    "ENGINE_ATTRIBUTE",
    "INSERT_METHOD",
    "KEY_BLOCK_SIZE",
    "MAX_ROWS",
    "MIN_ROWS",
    "PACK_KEYS",
    "PAGE_CHECKSUM",
    "PASSWORD",
    "ROW_FORMAT",
    "SECONDARY_ENGINE",
    "SECONDARY_ENGINE_ATTRIBUTE",
    "SEQUENCE",
    "STATS_AUTO_RECALC",
    "STATS_PERSISTENT",
    "STATS_SAMPLE_PAGES",
    "STORAGE",
    "TABLESPACE",
    "TRANSACTIONAL",
    "TYPE",
}


@dataclass(slots=True)
class TableCharset:
    """The charset clauses of a table or a schema."""

    charsets: Charsets
    #: the default of the charset that a clause names; None: none does
    charset: int | None = None
    collation: int | None = None

    def read(self, words: Words) -> bool:
        """Take a clause that begins with CHARACTER SET or COLLATE, or DEFAULT and one of them."""
        if words.sees("DEFAULT") and not words.sees("DEFAULT", "="):
            words.take()
        if skip_charset_words(words):
            words.skip("=")
            self.charset = read_charset(words, self.charsets)
            if self.charset is None:
                raise UnreadableError("CHARACTER SET DEFAULT is not followed")
            return True
        if words.skip("COLLATE"):
            words.skip("=")
            if words.skip("DEFAULT"):
                raise UnreadableError("COLLATE DEFAULT is not followed")
            self.collation = read_collation(words, self.charsets, self.charset)
            return True
        return False

    def chosen(self, default: int | None) -> int | None:
        """Return the collation that the clauses choose; `default` if there are none."""
        if self.collation is not None:
            return self.collation
        return default if self.charset is None else self.charset


@dataclass(slots=True)
class TableWords:
    """What a CREATE TABLE says, before its schema's collation is known."""

    charset: TableCharset
    columns: list[ColumnWords] = field(default_factory=list)
    #: in the statement's order, with those of columns
    keys: list[KeyWords] = field(default_factory=list)
    periods: list[str] = field(default_factory=list)
    versioned: bool = False
    #: whether columns come from a query as well
    queried: bool = False

    def defined(self, draft: Draft, default_collation: int | None, *, words: Words) -> TableDefinition:
        """Return the table.

        Args:
            draft: an empty one, of the table's name.
            default_collation: its schema's; None: not known.
            words: the statement.

        Raises:
            UnreadableError: it cannot be decided.
        """
        if self.queried:
            raise UnreadableError("columns come from a query")
        draft.collation = self.charset.chosen(default_collation)
        draft.versioned = self.versioned
        draft.filled = {name.lower() for name in self.periods}
        for column in self.columns:
            draft.insert(define(draft, column, words=words), None)
        for key in self.keys:
            draft.add_key(key)
        return draft.finished()


def define(draft: Draft, column: ColumnWords, *, words: Words) -> ColumnDefinition:
    """Return a column's definition in a draft's table."""
    statement = words.statement
    return column.defined(
        draft.collation, explicit_timestamps=statement.timestamps_are_explicit, strict=statement.strict
    )


def keys_of(column: ColumnWords) -> list[KeyWords]:
    """Return the keys that a column's attributes ask for."""
    part = (KeyPart(column.name),)
    primary = [KeyWords(KeyKind.PRIMARY, PRIMARY, part)] if column.primary else []
    return [*primary, KeyWords(KeyKind.UNIQUE, "", part)] if column.unique else primary


def read_table(words: Words, charsets: Charsets) -> TableWords:
    """Read CREATE TABLE after the table's name.

    Raises:
        UnreadableError: it is not understood.
    """
    table = TableWords(TableCharset(charsets))
    if words.sees("(") and words.peek(1).text.upper() not in ("SELECT", "WITH", "("):
        words.in_parentheses(lambda: _element(words, charsets, table))
    _read_options(words, table)
    return table


def _element(words: Words, charsets: Charsets, table: TableWords) -> None:
    if words.sees("PERIOD", "FOR"):
        table.periods += read_period(words)
    elif sees_key(words):
        table.keys.append(read_key(words))
    else:
        column = read_column(words, charsets, words.name())
        table.columns.append(column)
        table.keys += keys_of(column)


def read_period(words: Words) -> list[str]:
    """Read PERIOD FOR with its name and columns; return the columns."""
    words.expect("PERIOD", "FOR")
    words.name()
    return words.in_parentheses(words.name)


def _read_options(words: Words, table: TableWords) -> None:
    while not words.ended:
        if words.skip(",") or table.charset.read(words):
            continue
        if words.skip("WITH", "SYSTEM", "VERSIONING"):
            table.versioned = True
        elif words.skip("START", "TRANSACTION"):
            continue
        elif words.skip("PARTITION", "BY"):
            table.queried |= _skip_partitions(words)
        elif words.sees_any(*_QUERY_WORDS):
            table.queried = True
            words.skip_rest()
        elif not skip_option(words):
            raise words.unexpected()


def _skip_partitions(words: Words) -> bool:
    """Take everything after PARTITION BY; return whether a query comes in it."""
    queried = False
    while not words.ended:
        queried |= words.sees("SELECT") or words.sees("AS")
        if words.sees("("):
            words.skip_group()
        else:
            words.take()
    return queried


def skip_option(words: Words) -> bool:
    """Take an option of a table that has no meaning for rows; return whether one came."""
    token = words.peek()
    if token.kind is not Kind.WORD:
        return False
    if words.skip("UNION"):
        words.skip("=")
        words.skip_group()
        return True
    if any(words.skip(*option) for option in _LONG_OPTIONS):
        words.skip("=")
        words.text()
        return True
    valued = words.peek(1).text == "=" and words.peek(1).kind is Kind.SYMBOL
    if not valued and token.text.upper() not in _OPTIONS:
        return False
    words.take()
    words.skip("=")
    words.take()
    return True
