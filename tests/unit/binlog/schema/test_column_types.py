"""Which type each name of a type means. The answers are those of MariaDB 10.11 and MySQL 9.7."""

from __future__ import annotations

import pytest
from support.ddl.definition_text import cases, text_after

from canal_group.binlog.charsets.charsets import shown_bytes
from canal_group.binlog.schema.statement import ServerVersion, SqlMode

TYPES = """
CREATE TABLE t (a NATIONAL CHAR(3))
    both: a char(3) utf8mb3_general_ci
CREATE TABLE t (a NATIONAL CHARACTER VARYING(4))
    both: a varchar(4) utf8mb3_general_ci
CREATE TABLE t (a NATIONAL VARCHAR(5))
    both: a varchar(5) utf8mb3_general_ci
CREATE TABLE t (a NATIONAL VARCHARACTER(5))
    both: a varchar(5) utf8mb3_general_ci
CREATE TABLE t (a NCHAR)
    both: a char(1) utf8mb3_general_ci
CREATE TABLE t (a NCHAR(3))
    both: a char(3) utf8mb3_general_ci
CREATE TABLE t (a NCHAR VARYING(4))
    both: a varchar(4) utf8mb3_general_ci
CREATE TABLE t (a NCHAR VARCHAR(4))
    both: a varchar(4) utf8mb3_general_ci
CREATE TABLE t (a NCHAR VARCHARACTER(6))
    both: a varchar(6) utf8mb3_general_ci
CREATE TABLE t (a NVARCHAR(5))
    both: a varchar(5) utf8mb3_general_ci
CREATE TABLE t (a NATIONAL CHAR)
    both: a char(1) utf8mb3_general_ci
CREATE TABLE t (a SERIAL)
    both: a bigint unsigned NOT NULL, UNIQUE a(a)
CREATE TABLE t (a BIT)
    both: a bit(1)
CREATE TABLE t (a BIT(9))
    both: a bit(9)
CREATE TABLE t (a BIT(0))
    mariadb: a bit(1)
CREATE TABLE t (a BINARY)
    both: a binary(1)
CREATE TABLE t (a BINARY(0))
    both: a binary(0)
CREATE TABLE t (a BINARY(7))
    both: a binary(7)
CREATE TABLE t (a VARBINARY(5))
    both: a varbinary(5)
CREATE TABLE t (a VARBINARY(0))
    both: a varbinary(0)
CREATE TABLE t (a CHAR(0))
    both: a char(0)
CREATE TABLE t (a CHAR)
    both: a char(1)
CREATE TABLE t (a CHARACTER VARYING(3))
    both: a varchar(3)
CREATE TABLE t (a VARCHAR(0))
    both: a varchar(0)
CREATE TABLE t (a YEAR)
    both: a year
CREATE TABLE t (a YEAR(4) UNSIGNED)
    both: a year
CREATE TABLE t (a SQL_TSI_YEAR(4) UNSIGNED)
    both: a year
CREATE TABLE t (a YEAR ZEROFILL)
    both: a year
CREATE TABLE t (a TINYBLOB)
    both: a tinyblob
CREATE TABLE t (a LONGBLOB)
    both: a longblob
CREATE TABLE t (a BLOB(0))
    mariadb: a blob
    mysql: a tinyblob
CREATE TABLE t (a BLOB(255))
    both: a tinyblob
CREATE TABLE t (a BLOB(256))
    both: a blob
CREATE TABLE t (a TEXT(0))
    mariadb: a text
    mysql: a tinytext
CREATE TABLE t (a TEXT(63))
    both: a tinytext
CREATE TABLE t (a TEXT(64))
    both: a text
CREATE TABLE t (a TEXT(16384))
    both: a mediumtext
CREATE TABLE t (a JSON)
    mariadb: a longtext utf8mb4_bin
    mysql: a json
CREATE TABLE t (a VECTOR)
    mysql: a vector(2048)
CREATE TABLE t (a VECTOR(3))
    mysql: a vector(3)
CREATE TABLE t (a INET6)
    mariadb: a inet6
CREATE TABLE t (a INET4(5))
    mariadb: a inet4
CREATE TABLE t (a UUID)
    mariadb: a uuid
CREATE TABLE t (a DECIMAL)
    both: a decimal(10,0)
CREATE TABLE t (a DECIMAL(0))
    both: a decimal(10,0)
CREATE TABLE t (a DECIMAL(5))
    both: a decimal(5,0)
CREATE TABLE t (a DECIMAL(5,2) UNSIGNED)
    both: a decimal(5,2) unsigned
CREATE TABLE t (a DEC ZEROFILL)
    both: a decimal(10,0) unsigned
CREATE TABLE t (a DECIMAL SIGNED)
    both: a decimal(10,0)
CREATE TABLE t (a FLOAT)
    both: a float
CREATE TABLE t (a FLOAT(24))
    both: a float
CREATE TABLE t (a FLOAT(25))
    both: a double
CREATE TABLE t (a FLOAT(7,3))
    both: a float
CREATE TABLE t (a FLOAT(30,3))
    both: a float
CREATE TABLE t (a FLOAT4)
    both: a float
CREATE TABLE t (a FLOAT8)
    both: a double
CREATE TABLE t (a FLOAT8(9,2))
    both: a double
CREATE TABLE t (a REAL)
    both: a double
CREATE TABLE t (a DOUBLE PRECISION UNSIGNED)
    both: a double unsigned
CREATE TABLE t (a DOUBLE(9,2))
    both: a double
CREATE TABLE t (a FLOAT UNSIGNED)
    both: a float unsigned
CREATE TABLE t (a INT(5) UNSIGNED ZEROFILL)
    both: a int unsigned
CREATE TABLE t (a INT ZEROFILL)
    both: a int unsigned
CREATE TABLE t (a INT SIGNED UNSIGNED)
    mysql: a int unsigned
CREATE TABLE t (a BOOL)
    both: a tinyint
CREATE TABLE t (a BOOLEAN)
    both: a tinyint
CREATE TABLE t (a TIME(3))
    both: a time(3)
CREATE TABLE t (a GEOMETRYCOLLECTION)
    mariadb: a geometrycollection
    mysql: a geomcollection
CREATE TABLE t (a GEOMCOLLECTION)
    mysql: a geomcollection
CREATE TABLE t (a POINT)
    both: a point
CREATE TABLE t (a POINT(3))
    mariadb: a point
CREATE TABLE t (a GEOMETRY(25))
    mariadb: a geometry
CREATE TABLE t (a LONG)
    both: a mediumtext
CREATE TABLE t (a LONG VARBINARY)
    both: a mediumblob
CREATE TABLE t (a LONG VARCHAR)
    both: a mediumtext
CREATE TABLE t (a LONG CHARACTER VARYING)
    both: a mediumtext
CREATE TABLE t (a LONG CHARACTER SET latin1)
    both: a mediumtext latin1_swedish_ci
CREATE TABLE t (a LONG CHAR SET latin1)
    both: a mediumtext latin1_swedish_ci
CREATE TABLE t (a CHAR(5) ASCII)
    both: a char(5) latin1_swedish_ci
CREATE TABLE t (a CHAR(5) UNICODE)
    both: a char(5) ucs2_general_ci
CREATE TABLE t (a CHAR(5) BYTE)
    both: a binary(5)
CREATE TABLE t (a VARCHAR(5) BYTE)
    both: a varbinary(5)
CREATE TABLE t (a TEXT BYTE)
    both: a blob
CREATE TABLE t (a CHAR(5) ASCII BINARY)
    both: a char(5) latin1_bin
CREATE TABLE t (a CHAR(5) BINARY ASCII)
    both: a char(5) latin1_bin
CREATE TABLE t (a CHAR(5) BINARY UNICODE)
    both: a char(5) ucs2_bin
CREATE TABLE t (a VARCHAR(5) COMPRESSED)
    mariadb: a varchar(5)
CREATE TABLE t (a VARCHAR(5) COMPRESSED=zlib CHARACTER SET latin1)
    mariadb: a varchar(5) latin1_swedish_ci
CREATE TABLE t (a BLOB COMPRESSED)
    mariadb: a blob
CREATE TABLE t (a TEXT BINARY CHARSET latin1)
    both: a text latin1_bin
CREATE TABLE t (a ENUM('a ', 'b') CHARACTER SET latin1 COLLATE latin1_bin)
    both: a enum('a','b') latin1_bin
CREATE TABLE t (a ENUM(x'61', 0x62, b'1100011'))
    both: a enum('a','b','c')
CREATE TABLE t (a SET('a','b') BINARY)
    both: a set('a','b') utf8mb4_bin
CREATE TABLE t (a INT1)
    both: a tinyint
CREATE TABLE t (a INT2)
    both: a smallint
CREATE TABLE t (a INT3)
    both: a mediumint
CREATE TABLE t (a INT4)
    both: a int
CREATE TABLE t (a INT8)
    both: a bigint
CREATE TABLE t (a MIDDLEINT)
    both: a mediumint
CREATE TABLE t (a FIXED(4,1))
    both: a decimal(4,1)
CREATE TABLE t (a NUMERIC(9))
    both: a decimal(9,0)
CREATE TABLE t (a VARCHARACTER(4))
    both: a varchar(4)
"""


@pytest.mark.parametrize(("server", "statements", "expected"), cases(TYPES))
def test_a_name_of_a_type_means_a_type(server, statements, expected):
    assert text_after(*statements, server=server) == expected


@pytest.mark.parametrize(
    ("kind", "mode", "expected"),
    [
        ("REAL", SqlMode.REAL_AS_FLOAT, "a float"),
        ("REAL(9,2)", SqlMode.REAL_AS_FLOAT, "a float"),
        ("REAL", 0, "a double"),
        ("DOUBLE", SqlMode.REAL_AS_FLOAT, "a double"),
        ("FLOAT8", SqlMode.REAL_AS_FLOAT, "a double"),
        ("VARBINARY(70000)", 0, "a mediumblob"),
        ("VARBINARY(70000)", SqlMode.STRICT_ALL_TABLES, "a varbinary(70000)"),
        ("VARBINARY(70000)", SqlMode.STRICT_TRANS_TABLES, "a varbinary(70000)"),
    ],
)
def test_the_mode_of_the_session_decides(kind, mode, expected):
    assert text_after(f"CREATE TABLE t (a {kind})", sql_mode=mode) == expected


@pytest.mark.parametrize(
    ("kind", "version", "expected"),
    [
        ("INET6", "10.5.0-MariaDB", "a inet6"),
        ("INET6", "10.4.30-MariaDB", "unknown"),
        ("UUID", "10.7.1-MariaDB", "a uuid"),
        ("UUID", "10.6.9-MariaDB", "unknown"),
        ("UUID", "11.4.2-MariaDB", "a uuid"),
        ("UUID", "9.7.4", "unknown"),
        ("GEOMETRYCOLLECTION", "5.7.44", "a geometrycollection"),
        ("GEOMETRYCOLLECTION", "8.0.11", "a geomcollection"),
        ("GEOMETRYCOLLECTION", "10.11.6-MariaDB", "a geometrycollection"),
        ("CHAR(3) CHARACTER SET utf8mb4", "5.7.44", "a char(3)"),
        ("TIMESTAMP", "5.7.44", "a timestamp NOT NULL"),
    ],
)
def test_the_version_of_the_server_decides(kind, version, expected):
    assert text_after(f"CREATE TABLE t (a {kind})", server=ServerVersion.parse(version)) == expected


@pytest.mark.parametrize(
    ("client", "connection", "kind", "expected"),
    [
        (8, 8, "ENUM('é')", "a enum('é')"),
        (45, 8, "ENUM('é', '日')", "a enum('é','?')"),
        (45, 63, "ENUM('x') CHARACTER SET latin1", "a enum('x') latin1_swedish_ci"),
        (45, 63, "ENUM('é') CHARACTER SET latin1", "a enum('Ã©') latin1_swedish_ci"),
        (45, 60, "ENUM('x')", "a enum('x')"),
        (63, 60, "ENUM('x')", "unknown"),
        (45, 45, "ENUM('x', 'Ա') CHARACTER SET armscii8", "a enum('x','Ա')"),
        (45, 45, "ENUM('x', 'é日') CHARACTER SET armscii8", "a enum('x','??')"),
        (45, 45, "ENUM('x', 'é日') CHARACTER SET hp8", "a enum('x','é?')"),
        (45, 45, "ENUM('x', 'é日') CHARACTER SET dec8", "a enum('x','é?')"),
        (45, 45, "ENUM('x', 'é日') CHARACTER SET swe7", "a enum('x','é?')"),
        (45, 45, "ENUM('x', 'é日') CHARACTER SET keybcs2", "a enum('x','é?')"),
        (45, 45, "ENUM('x', '\u00a0') CHARACTER SET keybcs2", "a enum('x','\u00a0')"),
        (45, 45, "ENUM('x', 'é日') CHARACTER SET geostd8", "a enum('x','??')"),
        (45, 45, "ENUM('x', '日é①ⅰ\ue3ac\ue000Ա') CHARACTER SET eucjpms", "a enum('x','日é①ⅰ\ue3ac\ue000?')"),
        (45, 45, "ENUM('x', '日①\ue000') CHARACTER SET ujis", "a enum('x','日?\ue000')"),
        (45, 45, "ENUM('x', '日é') CHARACTER SET sjis", "a enum('x','日?')"),
    ],
)
def test_a_value_is_in_the_charset_of_the_connection(client, connection, kind, expected):
    """The client sends bytes of its charset, which the server converts to the connection's."""
    session = {"client_collation": client, "connection_collation": connection}
    assert text_after(f"CREATE TABLE t (a {kind})", **session) == expected


@pytest.mark.parametrize(
    ("size", "expected"),
    [(f"{'0' * 5_000}9", "a varchar(9)"), ("9" * 5_000, "unknown"), (f"9.{'9' * 5_000}", "a varchar(9)")],
    ids=["zeros", "nines", "fraction"],
)
def test_a_size_may_have_any_number_of_digits(size, expected):
    assert text_after(f"CREATE TABLE t (a VARCHAR({size}))") == expected


def test_an_integer_width_is_ignored():
    assert text_after(f"CREATE TABLE t (a YEAR({'9' * 50}), b INT(11))") == text_after(
        "CREATE TABLE t (a YEAR, b INT)"
    )


def test_bytes_of_a_binary_enum_that_are_not_utf8_are_question_marks():
    """SHOW CREATE TABLE has them so: what was followed is compared with that."""
    assert shown_bytes(b"\xa8\xa6a\xc3\xa9\xe8\x8c") == "??aé??"
    for kind in ("enum", "set"):
        shown = f"a {kind}('??aé')"
        assert text_after(f"CREATE TABLE t (a {kind}(x'a8a661c3a9') CHARACTER SET binary)") == shown
