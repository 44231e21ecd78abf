"""Keys: the indexes and constraints in CREATE TABLE and ALTER TABLE."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from canal_group.binlog.schema.clauses.words import Words

#: a key's options that have no meaning for rows, those after which a word comes, and the words of others
_CHOICES = ("ALGORITHM", "DISTANCE", "LOCK")
_OPTIONS = {
    "CLUSTERING",
    "COMMENT",
    "ENGINE_ATTRIBUTE",
    "IGNORED",
    "INVISIBLE",
    "KEY_BLOCK_SIZE",
    "M",
    "NOT",
    "NOWAIT",
    "SECONDARY_ENGINE_ATTRIBUTE",
    "VISIBLE",
    "WAIT",
}
_CONSTRAINT_WORDS = (
    "CONSTRAINT",
    "PRIMARY",
    "UNIQUE",
    "INDEX",
    "KEY",
    "FULLTEXT",
    "SPATIAL",
    "FOREIGN",
    "CHECK",
)


class KeyKind(Enum):
    """The kind of a key, as far as it matters for rows."""

    PRIMARY = "primary"
    UNIQUE = "unique"
    INDEX = "index"
    #: an index that the server makes if no other serves
    FOREIGN = "foreign"
    CHECK = "check"


@dataclass(frozen=True, slots=True)
class KeyPart:
    """A column of a key."""

    #: empty for an expression
    column: str
    #: characters or bytes of a prefix; 0 for the whole
    prefix: int = 0
    #: whether `column` is a period instead, whose rows must not overlap
    is_period: bool = False


@dataclass(frozen=True, slots=True)
class KeyWords:
    """A key as a statement has it."""

    kind: KeyKind
    #: empty: the server names it
    name: str
    parts: tuple[KeyPart, ...] = ()
    #: whether USING HASH asks for a hash
    hashed: bool = False
    #: whether it is left out if a key of its name exists
    if_not_exists: bool = False


def sees_key(words: Words) -> bool:
    """Return whether a key or constraint comes next, instead of a column."""
    if words.sees("VECTOR"):  # a column may be called so
        return words.sees("VECTOR", "INDEX") or words.sees("VECTOR", "KEY") or words.sees("VECTOR", "(")
    return words.sees_any(*_CONSTRAINT_WORDS)


def read_key(words: Words) -> KeyWords:
    """Read a key or constraint, up to its end; options that are not understood do not matter.

    Raises:
        UnreadableError: its columns are not understood.
    """
    symbol = ""
    if words.skip("CONSTRAINT"):
        words.skip("IF", "NOT", "EXISTS")
        if not words.sees_any("PRIMARY", "UNIQUE", "FOREIGN", "CHECK"):
            symbol = words.name()
    if words.skip("PRIMARY", "KEY"):
        return _indexed(words, KeyKind.PRIMARY, symbol)
    if words.skip("UNIQUE"):
        words.skip_any("INDEX", "KEY")
        return _indexed(words, KeyKind.UNIQUE, symbol)
    if words.skip_any("INDEX", "KEY"):
        return _indexed(words, KeyKind.INDEX, "")
    if words.skip_any("FULLTEXT", "SPATIAL", "VECTOR"):
        words.skip_any("INDEX", "KEY")
        return _indexed(words, KeyKind.INDEX, "")
    if words.skip("FOREIGN", "KEY"):
        return _foreign(words, symbol)
    words.expect("CHECK")
    words.skip_item()
    return KeyWords(KeyKind.CHECK, symbol)


def read_index(words: Words, kind: KeyKind, name: str, *, hashed: bool) -> KeyWords:
    """Read CREATE INDEX after its table: the columns and the options that follow them.

    Args:
        words: the statement.
        kind: the kind of the key.
        name: its name.
        hashed: whether USING HASH came before.
    """
    parts = tuple(words.in_parentheses(lambda: _part(words)))
    return KeyWords(kind, name, parts, hashed=_options(words, hashed=hashed))


def skip_using(words: Words) -> bool:
    """Take USING with the index's type; return whether that is HASH."""
    if not words.skip_any("USING", "TYPE"):
        return False
    return words.name().upper() == "HASH"


def _indexed(words: Words, kind: KeyKind, symbol: str) -> KeyWords:
    if_not_exists = words.skip("IF", "NOT", "EXISTS")
    name = symbol
    if not words.sees_any("(", "USING"):  # TYPE is a name here, and follows one
        name = words.name()
    hashed = skip_using(words)
    parts = tuple(words.in_parentheses(lambda: _part(words)))
    hashed = _options(words, hashed=hashed)
    return KeyWords(kind, name, parts, hashed=hashed, if_not_exists=if_not_exists)


def _foreign(words: Words, symbol: str) -> KeyWords:
    if_not_exists = words.skip("IF", "NOT", "EXISTS")
    name = "" if words.sees("(") else words.name()
    parts = tuple(words.in_parentheses(lambda: _part(words)))
    words.skip_item()
    return KeyWords(KeyKind.FOREIGN, symbol or name, parts, if_not_exists=if_not_exists)


def _part(words: Words) -> KeyPart:
    if words.sees("("):
        part = KeyPart("")
    else:
        name = words.name()
        prefix = words.in_parentheses(words.number)[0] if words.sees("(") else 0
        part = KeyPart(name, prefix, is_period=words.sees("WITHOUT", "OVERLAPS"))
    words.skip_item()
    return part


def _options(words: Words, *, hashed: bool) -> bool:
    """Take a key's options; return whether the last USING, here or before, is USING HASH."""
    while not words.ended and not words.sees_any(",", ")"):
        if words.sees_any("USING", "TYPE"):
            hashed = skip_using(words)
        elif words.skip("WITH", "PARSER") or words.skip_any(*_CHOICES):
            words.skip("=")
            words.take()
        elif not words.skip_option(_OPTIONS):
            if words.peek().word not in _OPTIONS:
                words.pass_over()
            words.skip_part()
    return hashed
