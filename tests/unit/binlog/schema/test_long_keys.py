"""Which UNIQUE keys MariaDB 10.11 hashes: those that are longer than an index of the engine may be."""

from __future__ import annotations

import pytest
from support.ddl.definition_text import cases, text_after

KEYS = """
CREATE TABLE t (a VARCHAR(3000), UNIQUE (a))
    mariadb: a varchar(3000), UNIQUE a(a) hashed
CREATE TABLE t (a VARCHAR(700), UNIQUE k (a), b VARCHAR(100), UNIQUE l (a, b))
    mariadb: a varchar(700), b varchar(100), UNIQUE k(a), UNIQUE l(a, b) hashed
CREATE TABLE t (a VARCHAR(768), b INT, UNIQUE k (a), UNIQUE l (b))
    mariadb: a varchar(768), b int, UNIQUE k(a), UNIQUE l(b)
CREATE TABLE t (a VARCHAR(500) CHARACTER SET latin1, b VARCHAR(2572) CHARACTER SET latin1, UNIQUE k (a, b))
    mariadb: a varchar(500) latin1_swedish_ci, b varchar(2572) latin1_swedish_ci, UNIQUE k(a, b)
CREATE TABLE t (a VARCHAR(500) CHARACTER SET latin1, b VARCHAR(2573) CHARACTER SET latin1, UNIQUE k (a, b))
    mariadb: a varchar(500) latin1_swedish_ci, b varchar(2573) latin1_swedish_ci, UNIQUE k(a, b) hashed
CREATE TABLE t (a VARBINARY(3068), b INT, UNIQUE k (a, b))
    mariadb: a varbinary(3068), b int, UNIQUE k(a, b)
CREATE TABLE t (a VARBINARY(3069), b INT, UNIQUE k (a, b))
    mariadb: a varbinary(3069), b int, UNIQUE k(a, b) hashed
CREATE TABLE t (a VARBINARY(3064), b BIGINT, UNIQUE k (a, b))
    mariadb: a varbinary(3064), b bigint, UNIQUE k(a, b)
CREATE TABLE t (a VARBINARY(3065), b BIGINT, UNIQUE k (a, b))
    mariadb: a varbinary(3065), b bigint, UNIQUE k(a, b) hashed
CREATE TABLE t (a VARBINARY(3067), b DATETIME, UNIQUE k (a, b))
    mariadb: a varbinary(3067), b datetime, UNIQUE k(a, b)
CREATE TABLE t (a VARBINARY(3068), b DATETIME, UNIQUE k (a, b))
    mariadb: a varbinary(3068), b datetime, UNIQUE k(a, b) hashed
CREATE TABLE t (a VARBINARY(3066), b DATETIME(1), UNIQUE k (a, b))
    mariadb: a varbinary(3066), b datetime(1), UNIQUE k(a, b)
CREATE TABLE t (a VARBINARY(3067), b DATETIME(1), UNIQUE k (a, b))
    mariadb: a varbinary(3067), b datetime(1), UNIQUE k(a, b) hashed
CREATE TABLE t (a VARBINARY(3065), b DATETIME(3), UNIQUE k (a, b))
    mariadb: a varbinary(3065), b datetime(3), UNIQUE k(a, b)
CREATE TABLE t (a VARBINARY(3066), b DATETIME(3), UNIQUE k (a, b))
    mariadb: a varbinary(3066), b datetime(3), UNIQUE k(a, b) hashed
CREATE TABLE t (a VARBINARY(3064), b DATETIME(6), UNIQUE k (a, b))
    mariadb: a varbinary(3064), b datetime(6), UNIQUE k(a, b)
CREATE TABLE t (a VARBINARY(3065), b DATETIME(6), UNIQUE k (a, b))
    mariadb: a varbinary(3065), b datetime(6), UNIQUE k(a, b) hashed
CREATE TABLE t (a VARBINARY(3069), b TIME, UNIQUE k (a, b))
    mariadb: a varbinary(3069), b time, UNIQUE k(a, b)
CREATE TABLE t (a VARBINARY(3070), b TIME, UNIQUE k (a, b))
    mariadb: a varbinary(3070), b time, UNIQUE k(a, b) hashed
CREATE TABLE t (a VARBINARY(3068), b TIMESTAMP NULL, UNIQUE k (a, b))
    mariadb: a varbinary(3068), b timestamp, UNIQUE k(a, b)
CREATE TABLE t (a VARBINARY(3069), b TIMESTAMP NULL, UNIQUE k (a, b))
    mariadb: a varbinary(3069), b timestamp, UNIQUE k(a, b) hashed
CREATE TABLE t (a VARBINARY(3067), b DECIMAL(10,2), UNIQUE k (a, b))
    mariadb: a varbinary(3067), b decimal(10,2), UNIQUE k(a, b)
CREATE TABLE t (a VARBINARY(3068), b DECIMAL(10,2), UNIQUE k (a, b))
    mariadb: a varbinary(3068), b decimal(10,2), UNIQUE k(a, b) hashed
CREATE TABLE t (a VARBINARY(3068), b DECIMAL(9,0), UNIQUE k (a, b))
    mariadb: a varbinary(3068), b decimal(9,0), UNIQUE k(a, b)
CREATE TABLE t (a VARBINARY(3069), b DECIMAL(9,0), UNIQUE k (a, b))
    mariadb: a varbinary(3069), b decimal(9,0), UNIQUE k(a, b) hashed
CREATE TABLE t (a VARBINARY(3063), b DECIMAL(20,10), UNIQUE k (a, b))
    mariadb: a varbinary(3063), b decimal(20,10), UNIQUE k(a, b) hashed
CREATE TABLE t (a VARBINARY(3062), b DECIMAL(20,10), UNIQUE k (a, b))
    mariadb: a varbinary(3062), b decimal(20,10), UNIQUE k(a, b)
CREATE TABLE t (a VARBINARY(3070), b BIT(9), UNIQUE k (a, b))
    mariadb: a varbinary(3070), b bit(9), UNIQUE k(a, b)
CREATE TABLE t (a VARBINARY(3071), b BIT(9), UNIQUE k (a, b))
    mariadb: a varbinary(3071), b bit(9), UNIQUE k(a, b) hashed
CREATE TABLE t (a VARBINARY(3071), b BIT(8), UNIQUE k (a, b))
    mariadb: a varbinary(3071), b bit(8), UNIQUE k(a, b)
CREATE TABLE t (a VARBINARY(3072), b BIT(8), UNIQUE k (a, b))
    mariadb: a varbinary(3072), b bit(8), UNIQUE k(a, b) hashed
CREATE TABLE t (a VARBINARY(3071), b ENUM('x'), UNIQUE k (a, b))
    mariadb: a varbinary(3071), b enum('x'), UNIQUE k(a, b)
CREATE TABLE t (a VARBINARY(3072), b ENUM('x'), UNIQUE k (a, b))
    mariadb: a varbinary(3072), b enum('x'), UNIQUE k(a, b) hashed
CREATE TABLE t (a VARBINARY(3071), b SET('1','2','3','4','5','6','7','8'), UNIQUE k (a, b))
    mariadb: a varbinary(3071), b set('1','2','3','4','5','6','7','8'), UNIQUE k(a, b)
CREATE TABLE t (a VARBINARY(3070), b SET('1','2','3','4','5','6','7','8','9'), UNIQUE k (a, b))
    mariadb: a varbinary(3070), b set('1','2','3','4','5','6','7','8','9'), UNIQUE k(a, b)
CREATE TABLE t (a VARBINARY(3071), b SET('1','2','3','4','5','6','7','8','9'), UNIQUE k (a, b))
    mariadb: a varbinary(3071), b set('1','2','3','4','5','6','7','8','9'), UNIQUE k(a, b) hashed
CREATE TABLE t (a VARBINARY(3047), b POINT, UNIQUE k (a, b))
    mariadb: a varbinary(3047), b point, UNIQUE k(a, b(25))
CREATE TABLE t (a VARBINARY(3071), b TINYINT, UNIQUE k (a, b))
    mariadb: a varbinary(3071), b tinyint, UNIQUE k(a, b)
CREATE TABLE t (a VARBINARY(3072), b TINYINT, UNIQUE k (a, b))
    mariadb: a varbinary(3072), b tinyint, UNIQUE k(a, b) hashed
CREATE TABLE t (a TEXT, UNIQUE k (a(768)))
    mariadb: a text, UNIQUE k(a(768))
CREATE TABLE t (a TEXT, UNIQUE k (a(769)))
    mariadb: a text, UNIQUE k(a(769)) hashed
CREATE TABLE t (a TEXT, UNIQUE k (a))
    mariadb: a text, UNIQUE k(a) hashed
CREATE TABLE t (a VARCHAR(300), b INT, UNIQUE (a)) ENGINE=MyISAM CHARSET=latin1
    mariadb: a varchar(300) latin1_swedish_ci, b int, UNIQUE a(a)
CREATE TABLE t (a VARCHAR(251), b INT, UNIQUE (a)) ENGINE=MyISAM CHARSET=utf8mb4
    mariadb: a varchar(251), b int, UNIQUE a(a) hashed
CREATE TABLE t (a VARCHAR(250), b INT, UNIQUE (a)) ENGINE=MyISAM CHARSET=utf8mb4
    mariadb: a varchar(250), b int, UNIQUE a(a)
"""


@pytest.mark.parametrize(("server", "statements", "expected"), cases(KEYS))
def test_a_key_is_hashed_from_a_length_on(server, statements, expected):
    assert text_after(*statements, server=server) == expected
