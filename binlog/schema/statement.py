"""A statement with its context: the server, the schema that it ran in, and the session's settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import IntFlag
from typing import NamedTuple

from canal_group.binlog.native.sql_lexer import Lexer, UnreadableError

#: MariaDB puts 5.5.5- before its version for old replicas
_VERSION = re.compile(r"^(?:5\.5\.5-(?=1))?(\d+)\.(\d+)\.(\d+)")


#: characters that are enough of a statement for its title
BEGINNING_CHARS = 400
#: words of a title; a name or a value is none of them
_TITLE_WORDS = frozenset(
    [
        "ALTER",
        "ANALYZE",
        "BEGIN",
        "BINLOG",
        "CALL",
        "CHECK",
        "CREATE",
        "DATABASE",
        "DELAYED",
        "DELETE",
        "DO",
        "DROP",
        "EVENT",
        "EXECUTE",
        "FLUSH",
        "FULLTEXT",
        "FUNCTION",
        "GRANT",
        "IGNORE",
        "IMMEDIATE",
        "INDEX",
        "INSERT",
        "INSTALL",
        "LOAD",
        "DATA",
        "LOCAL",
        "LOW_PRIORITY",
        "OFFLINE",
        "ONLINE",
        "OPTIMIZE",
        "OR",
        "PACKAGE",
        "PREPARE",
        "PROCEDURE",
        "QUICK",
        "RENAME",
        "REPAIR",
        "REPLACE",
        "REVOKE",
        "ROLE",
        "ROLLBACK",
        "SAVEPOINT",
        "SCHEMA",
        "SELECT",
        "SEQUENCE",
        "SERVER",
        "SET",
        "SPATIAL",
        "STATEMENT",
        "TABLE",
        "TABLES",
        "TABLESPACE",
        "TEMPORARY",
        "TRIGGER",
        "TRUNCATE",
        "UNIQUE",
        "UPDATE",
        "USER",
        "VIEW",
        "WITH",
        "XA",
    ]
)
_TITLE_WORDS_MAX = 4
_VERB_CHARS_MAX = 16


class ServerVersion(NamedTuple):
    """The vendor and the version of a server that wrote a statement."""

    mariadb: bool
    major: int
    minor: int = 0
    patch: int = 0

    @staticmethod
    def parse(text: str) -> ServerVersion:
        """Return the version of a format description, or of `SELECT VERSION()`.

        Args:
            text: such as 9.7.4, 8.0.36-log, 10.11.6-MariaDB-log, 5.5.5-10.4.1-MariaDB.

        Raises:
            ValueError: it has no numbers.
        """
        match = _VERSION.search(text)
        if match is None:
            raise ValueError(f"{text!r:.100} is not a server's version.")
        return ServerVersion("mariadb" in text.lower(), *map(int, match.groups()))

    @property
    def number(self) -> int:
        """The version as executable comments have it: 90704, 101106."""
        return self.major * 10_000 + self.minor * 100 + self.patch


class SqlMode(IntFlag):
    """The bits of `sql_mode` that change what a definition means; the numbers of a QUERY event's status."""

    REAL_AS_FLOAT = 1 << 0
    ANSI_QUOTES = 1 << 2
    #: MariaDB's only: other names of types
    ORACLE = 1 << 9
    #: TIMESTAMP means DATETIME
    MAXDB = 1 << 12
    NO_BACKSLASH_ESCAPES = 1 << 20
    STRICT_TRANS_TABLES = 1 << 21
    STRICT_ALL_TABLES = 1 << 22
    #: MySQL's only: `utf8` means utf8mb4. MariaDB has another mode of this number.
    INTERPRET_UTF8_AS_UTF8MB4 = 1 << 33


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement, as a QUERY event or SHOW CREATE TABLE has it."""

    sql: str
    #: the schema in which the statement ran; empty: no schema
    schema: str
    server: ServerVersion
    #: bits as in `SqlMode`; others are ignored
    sql_mode: int = 0
    #: `collation_server` of the session; None: the catalog's
    server_collation: int | None = None
    #: None: the default of the server's version
    explicit_defaults_for_timestamp: bool | None = None
    #: charset -> its default collation, where the session has set one: `default_collation_for_utf8mb4` of
    #: MySQL, `character_set_collations` of MariaDB; None: the default of the server's version
    default_collations: Mapping[str, int] | None = None
    #: whether the server logged it with an error: it may have taken effect in part
    failed: bool = False
    #: `character_set_client` and `collation_connection` of the session; None: UTF-8
    client_collation: int | None = None
    connection_collation: int | None = None
    #: whether the server logged the statement with a transaction number of its data dictionary or DDL log: a
    #: CREATE ... IF NOT EXISTS with such a number has created something
    took_effect: bool = False
    #: whether the session's call has used a temporary table before, not that the statement is about it
    thread_specific: bool = False
    #: whether the session has logged that a table which the statement names is a temporary one of its own
    temporary: bool = False
    #: whether the statement stands for a statement that an operator has left out; its text lists the tables;
    #: an empty text means any table
    left_out: bool = False

    def has(self, flag: SqlMode) -> bool:
        """Return whether any bit of a flag is set in the session's `sql_mode`."""
        return bool(self.sql_mode & flag)

    @property
    def strict(self) -> bool:
        """Whether a value, or a column, that is too long is an error."""
        return self.has(SqlMode.STRICT_TRANS_TABLES | SqlMode.STRICT_ALL_TABLES)

    @property
    def timestamps_are_explicit(self) -> bool:
        """Whether a TIMESTAMP column may be NULL unless it says otherwise."""
        if self.explicit_defaults_for_timestamp is not None:
            return self.explicit_defaults_for_timestamp
        version = (self.server.major, self.server.minor, self.server.patch)
        return version >= ((10, 10, 0) if self.server.mariadb else (8, 0, 2))

    @property
    def says_effect(self) -> bool:
        """Whether its server says of each definition that it took effect.

        MySQL does of tables of its transactional engines, the default one among them.
        """
        version = (self.server.major, self.server.minor, self.server.patch)
        return version >= ((10, 6, 0) if self.server.mariadb else (8, 0, 3))

    @property
    def may_be_temporary(self) -> bool:
        """Whether a temporary table may be concerned, and not the table of that name.

        A server that logs rows logs nothing about temporary tables, and gives a definition a number.
        """
        return self.thread_specific and not self.took_effect

    def lexer(self, chars_max: int | None = None) -> Lexer:
        """Return the lexer of its server and session, at its beginning.

        Args:
            chars_max: how many characters it reads; None: all.
        """
        return Lexer(
            self.sql[:chars_max],
            mariadb=self.server.mariadb,
            version=self.server.number,
            ansi_quotes=self.has(SqlMode.ANSI_QUOTES),
            escapes=not self.has(SqlMode.NO_BACKSLASH_ESCAPES),
        )

    @property
    def title(self) -> str:
        """Its name in messages: its first keywords, such as ALTER TABLE, without names and values."""
        lexer = self.lexer(BEGINNING_CHARS)
        words: list[str] = []
        with suppress(UnreadableError):
            while len(words) < _TITLE_WORDS_MAX:
                word = lexer.next().word
                # A verb comes first, also one that is not known.
                verb = not words and word.isalpha() and word.isascii() and len(word) <= _VERB_CHARS_MAX
                if not verb and word not in _TITLE_WORDS:
                    break
                words.append(word)
        return " ".join(words) or "a statement"
