"""What the clauses of ALTER TABLE make of a table. The answers are those of MariaDB 10.11 and MySQL 9.7."""

from __future__ import annotations

import pytest
from support.ddl.definition_text import MARIADB, MYSQL, cases, played, text_after

BEFORE = (
    "CREATE TABLE t (a INT NOT NULL, b VARCHAR(20), c TEXT, d INT,"
    " PRIMARY KEY (a), UNIQUE u (b), KEY k (d, b))"
)

ALTERED = """
DROP PRIMARY KEY
    both: a int NOT NULL, b varchar(20), c text, d int, UNIQUE u(b), k(d, b)
DROP PRIMARY KEY, ADD PRIMARY KEY (d)
    both: a int NOT NULL, b varchar(20), c text, d int NOT NULL, PRIMARY(d), UNIQUE u(b), k(d, b)
DROP KEY u
    both: a int NOT NULL, b varchar(20), c text, d int, PRIMARY(a), k(d, b)
DROP INDEX U, ADD UNIQUE (d)
    both: a int NOT NULL, b varchar(20), c text, d int, PRIMARY(a), UNIQUE d(d), k(d, b)
DROP CONSTRAINT u
    both: a int NOT NULL, b varchar(20), c text, d int, PRIMARY(a), k(d, b)
DROP CONSTRAINT PRIMARY KEY
    mariadb: a int NOT NULL, b varchar(20), c text, d int, UNIQUE u(b), k(d, b)
DROP CONSTRAINT IF EXISTS nope
    mariadb: a int NOT NULL, b varchar(20), c text, d int, PRIMARY(a), UNIQUE u(b), k(d, b)
DROP CONSTRAINT IF EXISTS u, ADD e INT
    mariadb: a int NOT NULL, b varchar(20), c text, d int, e int, PRIMARY(a), k(d, b)
DROP INDEX IF EXISTS nope, ADD e INT
    mariadb: a int NOT NULL, b varchar(20), c text, d int, e int, PRIMARY(a), UNIQUE u(b), k(d, b)
DROP INDEX IF EXISTS u
    mariadb: a int NOT NULL, b varchar(20), c text, d int, PRIMARY(a), k(d, b)
DROP COLUMN b
    both: a int NOT NULL, c text, d int, PRIMARY(a), k(d)
DROP b, DROP d
    both: a int NOT NULL, c text, PRIMARY(a)
DROP COLUMN IF EXISTS nope, ADD e INT
    mariadb: a int NOT NULL, b varchar(20), c text, d int, e int, PRIMARY(a), UNIQUE u(b), k(d, b)
DROP COLUMN IF EXISTS d, DROP c
    mariadb: a int NOT NULL, b varchar(20), PRIMARY(a), UNIQUE u(b), k(b)
DROP COLUMN d RESTRICT, ADD e INT
    both: a int NOT NULL, b varchar(20), c text, e int, PRIMARY(a), UNIQUE u(b), k(b)
DROP d CASCADE
    both: a int NOT NULL, b varchar(20), c text, PRIMARY(a), UNIQUE u(b), k(b)
DROP d, ADD d2 INT FIRST
    both: d2 int, a int NOT NULL, b varchar(20), c text, PRIMARY(a), UNIQUE u(b), k(b)
RENAME COLUMN b TO e
    both: a int NOT NULL, e varchar(20), c text, d int, PRIMARY(a), UNIQUE u(e), k(d, e)
RENAME COLUMN IF EXISTS nope TO e, ADD f INT
    mariadb: a int NOT NULL, b varchar(20), c text, d int, f int, PRIMARY(a), UNIQUE u(b), k(d, b)
RENAME COLUMN IF EXISTS b TO e
    mariadb: a int NOT NULL, e varchar(20), c text, d int, PRIMARY(a), UNIQUE u(e), k(d, e)
RENAME COLUMN a TO d, RENAME COLUMN d TO a
    both: d int NOT NULL, b varchar(20), c text, a int, PRIMARY(d), UNIQUE u(b), k(a, b)
RENAME INDEX u TO v
    both: a int NOT NULL, b varchar(20), c text, d int, PRIMARY(a), UNIQUE v(b), k(d, b)
RENAME KEY U TO v
    both: a int NOT NULL, b varchar(20), c text, d int, PRIMARY(a), UNIQUE v(b), k(d, b)
RENAME INDEX IF EXISTS nope TO v, ADD e INT
    mariadb: a int NOT NULL, b varchar(20), c text, d int, e int, PRIMARY(a), UNIQUE u(b), k(d, b)
RENAME INDEX IF EXISTS u TO v
    mariadb: a int NOT NULL, b varchar(20), c text, d int, PRIMARY(a), UNIQUE v(b), k(d, b)
ALTER COLUMN d SET DEFAULT 5, ADD e INT
    both: a int NOT NULL, b varchar(20), c text, d int, e int, PRIMARY(a), UNIQUE u(b), k(d, b)
ALTER d SET DEFAULT (1 + 2), ADD e INT
    both: a int NOT NULL, b varchar(20), c text, d int, e int, PRIMARY(a), UNIQUE u(b), k(d, b)
ALTER COLUMN d DROP DEFAULT, ADD e INT
    both: a int NOT NULL, b varchar(20), c text, d int, e int, PRIMARY(a), UNIQUE u(b), k(d, b)
ALTER COLUMN d SET INVISIBLE
    mysql: a int NOT NULL, b varchar(20), c text, d int invisible, PRIMARY(a), UNIQUE u(b), k(d, b)
ALTER COLUMN d SET INVISIBLE, ADD e INT
    mysql: a int NOT NULL, b varchar(20), c text, d int invisible, e int, PRIMARY(a), UNIQUE u(b), k(d, b)
ALTER COLUMN IF EXISTS nope SET DEFAULT 5, ADD e INT
    mariadb: a int NOT NULL, b varchar(20), c text, d int, e int, PRIMARY(a), UNIQUE u(b), k(d, b)
ALTER INDEX k INVISIBLE, ADD e INT
    mysql: a int NOT NULL, b varchar(20), c text, d int, e int, PRIMARY(a), UNIQUE u(b), k(d, b)
ALTER INDEX k IGNORED, ADD e INT
    mariadb: a int NOT NULL, b varchar(20), c text, d int, e int, PRIMARY(a), UNIQUE u(b), k(d, b)
MODIFY d BIGINT UNSIGNED
    both: a int NOT NULL, b varchar(20), c text, d bigint unsigned, PRIMARY(a), UNIQUE u(b), k(d, b)
MODIFY COLUMN d BIGINT FIRST
    both: d bigint, a int NOT NULL, b varchar(20), c text, PRIMARY(a), UNIQUE u(b), k(d, b)
MODIFY d INT NOT NULL AFTER a, MODIFY c VARCHAR(5)
    both: a int NOT NULL, d int NOT NULL, b varchar(20), c varchar(5), PRIMARY(a), UNIQUE u(b), k(d, b)
MODIFY IF EXISTS nope INT, ADD e INT
    mariadb: a int NOT NULL, b varchar(20), c text, d int, e int, PRIMARY(a), UNIQUE u(b), k(d, b)
MODIFY COLUMN IF EXISTS d BIGINT
    mariadb: a int NOT NULL, b varchar(20), c text, d bigint, PRIMARY(a), UNIQUE u(b), k(d, b)
MODIFY b VARCHAR(3)
    both: a int NOT NULL, b varchar(3), c text, d int, PRIMARY(a), UNIQUE u(b), k(d, b)
MODIFY b VARCHAR(20) UNIQUE
    both: a int NOT NULL, b varchar(20), c text, d int, PRIMARY(a), UNIQUE u(b), UNIQUE b(b), k(d, b)
MODIFY d INT UNIQUE
    both: a int NOT NULL, b varchar(20), c text, d int, PRIMARY(a), UNIQUE u(b), UNIQUE d(d), k(d, b)
CHANGE d e INT
    both: a int NOT NULL, b varchar(20), c text, e int, PRIMARY(a), UNIQUE u(b), k(e, b)
CHANGE COLUMN d d BIGINT AFTER a
    both: a int NOT NULL, d bigint, b varchar(20), c text, PRIMARY(a), UNIQUE u(b), k(d, b)
CHANGE IF EXISTS nope e INT, ADD f INT
    mariadb: a int NOT NULL, b varchar(20), c text, d int, f int, PRIMARY(a), UNIQUE u(b), k(d, b)
CHANGE IF EXISTS d e BIGINT
    mariadb: a int NOT NULL, b varchar(20), c text, e bigint, PRIMARY(a), UNIQUE u(b), k(e, b)
CHANGE a z INT, CHANGE b y VARCHAR(9)
    both: z int NOT NULL, y varchar(9), c text, d int, PRIMARY(z), UNIQUE u(y), k(d, y)
CHANGE b B2 VARCHAR(9) FIRST, ADD UNIQUE (B2)
    both: B2 varchar(9), a int NOT NULL, c text, d int, PRIMARY(a), UNIQUE u(B2), UNIQUE B2(B2), k(d, B2)
ADD e INT FIRST, ADD f INT FIRST
    both: f int, e int, a int NOT NULL, b varchar(20), c text, d int, PRIMARY(a), UNIQUE u(b), k(d, b)
ADD COLUMN e INT AFTER A, ADD f INT AFTER e
    both: a int NOT NULL, e int, f int, b varchar(20), c text, d int, PRIMARY(a), UNIQUE u(b), k(d, b)
ADD COLUMN (e INT, f INT NOT NULL, UNIQUE (e), INDEX i (f))
    both: a int NOT NULL, b varchar(20), c text, d int, e int, f int NOT NULL, PRIMARY(a), UNIQUE u(b),
        UNIQUE e(e), i(f), k(d, b)
ADD (e INT UNIQUE, PERIOD INT)
    both: a int NOT NULL, b varchar(20), c text, d int, e int, PERIOD int, PRIMARY(a), UNIQUE u(b), UNIQUE
        e(e), k(d, b)
ADD COLUMN IF NOT EXISTS d BIGINT, ADD e INT
    mariadb: a int NOT NULL, b varchar(20), c text, d int, e int, PRIMARY(a), UNIQUE u(b), k(d, b)
ADD COLUMN IF NOT EXISTS e INT UNIQUE
    mariadb: a int NOT NULL, b varchar(20), c text, d int, e int, PRIMARY(a), UNIQUE u(b), UNIQUE e(e), k(d,
        b)
ADD COLUMN IF NOT EXISTS d BIGINT UNIQUE, ADD e INT
    mariadb: a int NOT NULL, b varchar(20), c text, d int, e int, PRIMARY(a), UNIQUE u(b), UNIQUE d(d), k(d,
        b)
ADD COLUMN IF NOT EXISTS (d BIGINT, e INT)
    mariadb: a int NOT NULL, b varchar(20), c text, d int, e int, PRIMARY(a), UNIQUE u(b), k(d, b)
ADD e INT NOT NULL UNIQUE AFTER a
    both: a int NOT NULL, e int NOT NULL, b varchar(20), c text, d int, PRIMARY(a), UNIQUE e(e), UNIQUE
        u(b), k(d, b)
ADD INDEX (d), ADD INDEX (d)
    both: a int NOT NULL, b varchar(20), c text, d int, PRIMARY(a), UNIQUE u(b), d(d), d_2(d), k(d, b)
ADD UNIQUE (d), ADD UNIQUE d_2 (a), ADD UNIQUE (d, a)
    both: a int NOT NULL, b varchar(20), c text, d int, PRIMARY(a), UNIQUE d_2(a), UNIQUE u(b), UNIQUE d(d),
        UNIQUE d_3(d, a), k(d, b)
ADD UNIQUE INDEX v (d), ADD KEY w (a)
    both: a int NOT NULL, b varchar(20), c text, d int, PRIMARY(a), UNIQUE u(b), UNIQUE v(d), k(d, b), w(a)
ADD UNIQUE KEY IF NOT EXISTS u (d), ADD e INT
    mariadb: a int NOT NULL, b varchar(20), c text, d int, e int, PRIMARY(a), UNIQUE u(b), k(d, b)
ADD UNIQUE KEY IF NOT EXISTS v (d)
    mariadb: a int NOT NULL, b varchar(20), c text, d int, PRIMARY(a), UNIQUE u(b), UNIQUE v(d), k(d, b)
ADD CONSTRAINT v UNIQUE (d)
    both: a int NOT NULL, b varchar(20), c text, d int, PRIMARY(a), UNIQUE u(b), UNIQUE v(d), k(d, b)
ADD CONSTRAINT CHECK (d > 1), ADD e INT
    both: a int NOT NULL, b varchar(20), c text, d int, e int, PRIMARY(a), UNIQUE u(b), k(d, b)
ADD CONSTRAINT ch CHECK (d > 1)
    both: a int NOT NULL, b varchar(20), c text, d int, PRIMARY(a), UNIQUE u(b), k(d, b)
ADD CONSTRAINT f FOREIGN KEY (d) REFERENCES p (id)
    both: a int NOT NULL, b varchar(20), c text, d int, PRIMARY(a), UNIQUE u(b), k(d, b)
ADD CONSTRAINT f FOREIGN KEY (a) REFERENCES p (id)
    both: a int NOT NULL, b varchar(20), c text, d int, PRIMARY(a), UNIQUE u(b), k(d, b)
ADD FOREIGN KEY g (d) REFERENCES p (id) ON DELETE CASCADE
    both: a int NOT NULL, b varchar(20), c text, d int, PRIMARY(a), UNIQUE u(b), k(d, b)
ADD FOREIGN KEY IF NOT EXISTS g (d) REFERENCES p (id)
    mariadb: a int NOT NULL, b varchar(20), c text, d int, PRIMARY(a), UNIQUE u(b), k(d, b)
ADD e INT, ADD FOREIGN KEY (e) REFERENCES p (id) ON UPDATE NO ACTION
    both: a int NOT NULL, b varchar(20), c text, d int, e int, PRIMARY(a), UNIQUE u(b), e(e), k(d, b)
ADD e INT REFERENCES p (id)
    both: a int NOT NULL, b varchar(20), c text, d int, e int, PRIMARY(a), UNIQUE u(b), e(e), k(d, b)
ADD FULLTEXT INDEX ft (c), ADD e INT
    both: a int NOT NULL, b varchar(20), c text, d int, e int, PRIMARY(a), UNIQUE u(b), ft(c), k(d, b)
CONVERT TO CHARACTER SET latin1
    both: a int NOT NULL, b varchar(20) latin1_swedish_ci, c text latin1_swedish_ci, d int, PRIMARY(a),
        UNIQUE u(b), k(d, b)
CONVERT TO CHARACTER SET latin1 COLLATE latin1_bin
    both: a int NOT NULL, b varchar(20) latin1_bin, c text latin1_bin, d int, PRIMARY(a), UNIQUE u(b), k(d,
        b)
CONVERT TO CHARSET DEFAULT
    both: a int NOT NULL, b varchar(20), c text, d int, PRIMARY(a), UNIQUE u(b), k(d, b)
CONVERT TO CHARACTER SET latin1, ADD e VARCHAR(5), ADD f CHAR(5) CHARACTER SET utf8mb3
    both: a int NOT NULL, b varchar(20) latin1_swedish_ci, c text latin1_swedish_ci, d int, e varchar(5)
        latin1_swedish_ci, f char(5) latin1_swedish_ci, PRIMARY(a), UNIQUE u(b), k(d, b)
CONVERT TO CHARACTER SET latin1, ADD e CHAR(5) BINARY, ADD f CHAR(5) COLLATE DEFAULT
    mariadb: a int NOT NULL, b varchar(20) latin1_swedish_ci, c text latin1_swedish_ci, d int, e char(5)
        latin1_bin, f char(5) latin1_swedish_ci, PRIMARY(a), UNIQUE u(b), k(d, b)
CONVERT TO CHARACTER SET latin1, ADD e VARBINARY(5), ADD f INT, ADD g CHAR(3) BYTE
    both: a int NOT NULL, b varchar(20) latin1_swedish_ci, c text latin1_swedish_ci, d int, e varbinary(5),
        f int, g binary(3), PRIMARY(a), UNIQUE u(b), k(d, b)
CONVERT TO CHARACTER SET latin1, MODIFY b VARCHAR(9)
    both: a int NOT NULL, b varchar(9) latin1_swedish_ci, c text latin1_swedish_ci, d int, PRIMARY(a),
        UNIQUE u(b), k(d, b)
CONVERT TO CHARACTER SET binary
    both: a int NOT NULL, b varbinary(20), c blob, d int, PRIMARY(a), UNIQUE u(b), k(d, b)
CHARACTER SET latin1, ADD e VARCHAR(5)
    both: a int NOT NULL, b varchar(20), c text, d int, e varchar(5) latin1_swedish_ci, PRIMARY(a), UNIQUE
        u(b), k(d, b)
DEFAULT CHARACTER SET = latin1, ADD e VARCHAR(5)
    both: a int NOT NULL, b varchar(20), c text, d int, e varchar(5) latin1_swedish_ci, PRIMARY(a), UNIQUE
        u(b), k(d, b)
COLLATE latin1_bin, ADD e VARCHAR(5)
    both: a int NOT NULL, b varchar(20), c text, d int, e varchar(5) latin1_bin, PRIMARY(a), UNIQUE u(b),
        k(d, b)
COLLATE = latin1_bin, MODIFY c TEXT
    both: a int NOT NULL, b varchar(20), c text latin1_bin, d int, PRIMARY(a), UNIQUE u(b), k(d, b)
ORDER BY d DESC
    both: a int NOT NULL, b varchar(20), c text, d int, PRIMARY(a), UNIQUE u(b), k(d, b)
ENGINE=InnoDB, ADD e INT
    both: a int NOT NULL, b varchar(20), c text, d int, e int, PRIMARY(a), UNIQUE u(b), k(d, b)
COMMENT 'x', ADD e INT
    both: a int NOT NULL, b varchar(20), c text, d int, e int, PRIMARY(a), UNIQUE u(b), k(d, b)
COMMENT='x' AUTO_INCREMENT=7, ADD e INT
    both: a int NOT NULL, b varchar(20), c text, d int, e int, PRIMARY(a), UNIQUE u(b), k(d, b)
ROW_FORMAT DYNAMIC, ADD e INT
    both: a int NOT NULL, b varchar(20), c text, d int, e int, PRIMARY(a), UNIQUE u(b), k(d, b)
ALGORITHM=COPY, LOCK=SHARED, ADD e INT
    both: a int NOT NULL, b varchar(20), c text, d int, e int, PRIMARY(a), UNIQUE u(b), k(d, b)
ALGORITHM INPLACE, LOCK NONE, ADD e INT
    both: a int NOT NULL, b varchar(20), c text, d int, e int, PRIMARY(a), UNIQUE u(b), k(d, b)
FORCE, ADD e INT
    both: a int NOT NULL, b varchar(20), c text, d int, e int, PRIMARY(a), UNIQUE u(b), k(d, b)
DISABLE KEYS, ADD e INT
    both: a int NOT NULL, b varchar(20), c text, d int, e int, PRIMARY(a), UNIQUE u(b), k(d, b)
ENABLE KEYS
    both: a int NOT NULL, b varchar(20), c text, d int, PRIMARY(a), UNIQUE u(b), k(d, b)
WAIT 5 ADD e INT
    mariadb: a int NOT NULL, b varchar(20), c text, d int, e int, PRIMARY(a), UNIQUE u(b), k(d, b)
NOWAIT ADD e INT
    mariadb: a int NOT NULL, b varchar(20), c text, d int, e int, PRIMARY(a), UNIQUE u(b), k(d, b)
WITH VALIDATION, ADD e INT
    mysql: a int NOT NULL, b varchar(20), c text, d int, e int, PRIMARY(a), UNIQUE u(b), k(d, b)
WITHOUT VALIDATION, ADD e INT
    mysql: a int NOT NULL, b varchar(20), c text, d int, e int, PRIMARY(a), UNIQUE u(b), k(d, b)
ADD e INT, RENAME TO t
    both: a int NOT NULL, b varchar(20), c text, d int, e int, PRIMARY(a), UNIQUE u(b), k(d, b)
ADD e INT AS (d + 1) STORED UNIQUE, ADD f INT AS (d) VIRTUAL
    both: a int NOT NULL, b varchar(20), c text, d int, e int stored, f int virtual, PRIMARY(a), UNIQUE
        u(b), UNIQUE e(e), k(d, b)
ADD e INT PRIMARY KEY, DROP PRIMARY KEY
    both: a int NOT NULL, b varchar(20), c text, d int, e int NOT NULL, PRIMARY(e), UNIQUE u(b), k(d, b)
DROP PRIMARY KEY, DROP a
    both: b varchar(20), c text, d int, UNIQUE u(b), k(d, b)
STATS_PERSISTENT DEFAULT, ADD e INT
    both: a int NOT NULL, b varchar(20), c text, d int, e int, PRIMARY(a), UNIQUE u(b), k(d, b)
UNION=(), ADD e INT
    both: a int NOT NULL, b varchar(20), c text, d int, e int, PRIMARY(a), UNIQUE u(b), k(d, b)
DEFAULT COLLATE utf8mb4_bin, ADD e VARCHAR(5)
    both: a int NOT NULL, b varchar(20), c text, d int, e varchar(5) utf8mb4_bin, PRIMARY(a), UNIQUE u(b),
        k(d, b)
ADD COLUMN IF NOT EXISTS e INT AFTER a, DROP COLUMN IF EXISTS c
    mariadb: a int NOT NULL, e int, b varchar(20), d int, PRIMARY(a), UNIQUE u(b), k(d, b)
"""


@pytest.mark.parametrize(("server", "clauses", "expected"), cases(ALTERED))
def test_a_table_after_clauses(server, clauses, expected):
    assert text_after(BEFORE, f"ALTER TABLE t {clauses[0]}", server=server) == expected


@pytest.mark.parametrize(
    "clauses",
    [
        "RENAME COLUMN nope TO e",
        "ALTER COLUMN nope SET INVISIBLE",
        "MODIFY nope INT",
        "CHANGE nope e INT",
        "RENAME COLUMN d TO b",
        "ADD e INT, ADD E INT",
        "DROP a, DROP b, DROP c, DROP d",
        "ADD INDEX (nope)",
        "CONVERT TO CHARACTER SET latin1, CHARSET latin1",
        "CONVERT TO FROB",
        "ADD UNIQUE (a) FROB) x",
        "ADD CONSTRAINT c FROB",
        "ADD e DECIMAL(1,2,3)",
        "ADD e VARCHAR(1,2)",
        "ADD e VARCHAR(1,2,3)",
        "ADD e VARCHAR(1e1)",
        "ADD e VARCHAR(x)",
        "ADD e 'INT'",
        "ADD e `INT`",
        "ADD e CHAR(3) CHARACTER SET martian",
        "ADD e CHAR(3) COLLATE martian_ci",
        "ADD 'e' INT",
        "ADD e INT REFERENCES p (id) ON DELETE FROB",
        "ADD e ENUM(x, y)",
        "ADD e NATIONAL TEXT",
        "ALTER COLUMN d SET FROB",
        "FROB",
        "FROB 5",
    ],
)
@pytest.mark.parametrize("server", [MARIADB, MYSQL], ids=["mariadb", "mysql"])
def test_what_cannot_be_told_makes_the_table_unknown(clauses, server):
    assert text_after(BEFORE, f"ALTER TABLE t {clauses}", server=server) == "unknown"


@pytest.mark.parametrize("clauses", ["ADD e TEXT", "ADD e BLOB", "MODIFY b MEDIUMTEXT"])
def test_a_mysql_text_defined_in_a_conversion_is_not_guessed(clauses):
    clauses = f"CONVERT TO CHARACTER SET latin1, {clauses}"
    assert text_after(BEFORE, f"ALTER TABLE t {clauses}", server=MYSQL) == "unknown"


@pytest.mark.parametrize(
    ("clause", "word"),
    [
        ("ADD e CHAR(3) CHARACTER SET martian", "charset martian is unknown"),
        ("ADD e CHAR(3) COLLATE martian_ci", "collation martian_ci is unknown"),
        ("ADD e INT FROB", "at character 24: it is not understood"),
        ("ADD", "the statement ends, and a name should come"),
        ("ADD e VARCHAR(1,2)", "more sizes than one"),
        ("ADD e 'INT'", "a type should come"),
        ("ADD e ENUM(x)", "a text should come"),
        ("ADD 'e' INT", "a name should come"),
    ],
)
def test_the_reason_says_which_word_it_is(clause, word):
    table = played("CREATE TABLE t (a INT)", f"ALTER TABLE t {clause}").table("app", "t")
    assert word in table.reason
