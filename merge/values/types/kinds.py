"""Kinds: what column types have in common, which is how they are stored, spelled and called by JDBC."""

from __future__ import annotations

from enum import IntEnum, StrEnum, auto


class Storage(StrEnum):
    """How values are stored in rows; a module of `canal_group.binlog.columns.types` reads each."""

    INTEGER = auto()
    REAL = auto()
    DECIMAL = auto()
    BIT = auto()
    YEAR = auto()
    DATE = auto()
    #: TIME, DATETIME and TIMESTAMP
    MOMENT = auto()
    #: CHAR and BINARY
    CHAR = auto()
    VARCHAR = auto()
    BLOB = auto()
    ENUM = auto()
    SET = auto()
    #: a length, then JSON in its binary form
    JSON = auto()
    #: a length, then elements one after the other
    LIST = auto()
    #: a length, then bytes
    BYTES = auto()


class Spelling(StrEnum):
    """What follows a type's name in a statement; `canal_group.binlog.schema.clauses.types` reads it."""

    #: nothing
    BARE = auto()
    #: a size, which has no meaning
    MEANINGLESS = auto()
    #: a length
    SIZED = auto()
    #: a number of bits, at least one
    BITS = auto()
    #: a width, and a sign
    INTEGER = auto()
    #: the same, without a meaning
    YEAR = auto()
    #: digits, and a sign
    DECIMAL = auto()
    #: digits that may make a DOUBLE of a FLOAT, and a sign
    FLOAT = auto()
    #: digits of a fraction of a second
    FRACTION = auto()
    #: values, and a charset
    LISTED = auto()
    #: a length, and a charset; VARYING before them makes a VARCHAR of a CHAR
    CHAR = auto()
    VARCHAR = auto()
    #: a length that decides which of the texts it is, and a charset
    TEXT = auto()
    #: a charset
    UNSIZED_TEXT = auto()
    #: a length that decides which BLOB type the column gets
    BLOB = auto()
    #: nothing; on MariaDB it is a text
    JSON = auto()


class Jdbc(IntEnum):
    """Numbers of java.sql.Types."""

    BIT = -7
    TINYINT = -6
    BIGINT = -5
    CHAR = 1
    DECIMAL = 3
    INTEGER = 4
    SMALLINT = 5
    REAL = 7
    DOUBLE = 8
    VARCHAR = 12
    DATE = 91
    TIME = 92
    TIMESTAMP = 93
    BLOB = 2004
    CLOB = 2005


class Vendor(StrEnum):
    """Whose server it is."""

    MARIADB = auto()
    MYSQL = auto()
