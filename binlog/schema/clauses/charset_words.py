"""Charset words: the meaning of names of charsets and collations in a statement of a server and session."""

from __future__ import annotations

from dataclasses import dataclass

from canal_group.binlog.charsets.charsets import charset_of
from canal_group.binlog.charsets.collations import collation_number, default_collation
from canal_group.binlog.schema.clauses.tokens import Kind, UnreadableError
from canal_group.binlog.schema.clauses.words import Words
from canal_group.binlog.schema.statement import SqlMode, Statement


class Charsets:
    """The meaning of names of charsets and collations in a statement.

    Args:
        statement: the statement, with its server and session.
        utf8_is_utf8mb3: the meaning of `utf8`.
    """

    def __init__(self, statement: Statement, *, utf8_is_utf8mb3: bool = True) -> None:
        self._statement = statement
        aliased = not statement.server.mariadb and statement.has(SqlMode.INTERPRET_UTF8_AS_UTF8MB4)
        self._utf8 = "utf8mb3" if utf8_is_utf8mb3 and not aliased else "utf8mb4"

    def default(self, charset: str) -> int:
        """Return the default collation of a charset.

        Raises:
            UnreadableError: the charset is unknown.
        """
        server, name = self._statement.server, charset.lower()
        name = self._utf8 if name == "utf8" else name
        session = self._statement.default_collations
        if session is not None and name in session:
            return session[name]
        # A session that has set some has set them instead of the defaults of MariaDB 11.5.
        version = (server.major, server.minor) if session is None else (min(server.major, 10), server.minor)
        number = default_collation(name, mariadb=server.mariadb, version=version)
        if number is None:
            raise UnreadableError(f"charset {charset} is unknown")
        return number

    def collation(self, name: str, charset: int | None) -> int:
        """Return a collation's number.

        Args:
            name: as the statement has it; DEFAULT: the default of the charset.
            charset: a collation of the charset that a name without one refers to; None: unknown.

        Raises:
            UnreadableError: the collation is unknown.
        """
        own = charset_of(charset).name if charset is not None else ""
        if name.upper() == "DEFAULT" and own:
            return self.default(own)
        if name.lower().startswith("utf8_"):
            name = self._utf8 + name[len("utf8") :]
        server = self._statement.server
        number = collation_number(name, mariadb=server.mariadb, charset=own)
        if number is None:
            raise UnreadableError(f"collation {name} is unknown")
        return number


_CLAUSE_WORDS = ("CHARACTER", "CHAR", "CHARSET", "COLLATE")


@dataclass(slots=True)
class CharsetClauses:
    """The charset clauses of a column, a table or a schema."""

    charsets: Charsets
    #: the default collation of the charset that a clause names; None: none does
    charset: int | None = None
    #: a collation's name, which may refer to the charset; empty: no clause names one
    collation: str = ""
    #: whether a clause is CHARACTER SET DEFAULT
    to_default: bool = False

    def read(self, words: Words) -> bool:
        """Take a clause that begins with CHARACTER SET or COLLATE, or DEFAULT and one of them."""
        if words.peek(1).word in _CLAUSE_WORDS:
            words.skip("DEFAULT")
        if skip_charset_words(words):
            words.skip("=")
            self.charset = read_charset(words, self.charsets)
            self.to_default = self.charset is None
            return True
        if words.skip("COLLATE"):
            words.skip("=")
            self.collation = read_name(words)
            return True
        return False

    @property
    def any(self) -> bool:
        """Whether there is any clause."""
        return self.charset is not None or bool(self.collation) or self.to_default

    def collation_or(self, default: int | None, outer: int | None = None) -> int | None:
        """Return the collation of the clauses, or a default; None if it is unknown.

        Args:
            default: the collation without a clause.
            outer: a collation of the charset that CHARACTER SET DEFAULT means; None: `default`.

        Raises:
            UnreadableError: the collation is unknown.
        """
        base = default if self.charset is None else self.charset
        if self.to_default:
            base = default if outer is None else outer
            base = None if base is None else self.charsets.collation("DEFAULT", base)
        return self.charsets.collation(self.collation, base) if self.collation else base


def read_charset(words: Words, charsets: Charsets) -> int | None:
    """Read CHARACTER SET with its name, without its equals sign; return its default collation.

    Returns:
        None for DEFAULT; the default collation otherwise.

    Raises:
        UnreadableError: the charset is unknown.
    """
    name = read_name(words)
    return None if name.upper() == "DEFAULT" else charsets.default(name)


def skip_charset_words(words: Words) -> bool:
    """Take CHARACTER SET, CHAR SET or CHARSET; return whether one came."""
    return words.skip("CHARACTER", "SET") or words.skip("CHAR", "SET") or words.skip("CHARSET")


def read_name(words: Words) -> str:
    """Read the name of a charset or a collation, which may be given as a text."""
    return words.text() if words.peek().kind is Kind.TEXT else words.name()
