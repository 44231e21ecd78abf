"""A statement with what decides its meaning: the server, the schema it ran in, and the session's settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntFlag
from types import MappingProxyType
from typing import Mapping, NamedTuple


class ServerVersion(NamedTuple):
    """Whose server wrote a statement, and its version."""

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
        raise NotImplementedError


class SqlMode(IntFlag):
    """The bits of `sql_mode` that change what a definition means; the numbers of a QUERY event's status."""

    REAL_AS_FLOAT = 1 << 0
    ANSI_QUOTES = 1 << 2
    #: MariaDB's only: other names of types
    ORACLE = 1 << 9
    NO_BACKSLASH_ESCAPES = 1 << 20
    STRICT_TRANS_TABLES = 1 << 21
    STRICT_ALL_TABLES = 1 << 22


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement, as a QUERY event or SHOW CREATE TABLE has it."""

    sql: str
    #: the schema that it ran in; empty if none
    schema: str
    server: ServerVersion
    #: bits as in `SqlMode`; others are ignored
    sql_mode: int = 0
    #: `collation_server` of the session; None: the catalog's
    server_collation: int | None = None
    #: None: the default of the server's version
    explicit_defaults_for_timestamp: bool | None = None
    #: charset -> its default collation, where the session has set another than the server's version has:
    #: `default_collation_for_utf8mb4` of MySQL, `character_set_collations` of MariaDB
    default_collations: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
