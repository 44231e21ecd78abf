"""What statements make of a table one after another. The answers are those of MariaDB 10.11 and MySQL 9.7."""

from __future__ import annotations

import pytest
from support.ddl.definition_text import cases, text_after

IN_TURN = """
CREATE TABLE t (a INT, b INT, UNIQUE u (a))
CREATE UNIQUE INDEX v ON t (b)
    both: a int, b int, UNIQUE u(a), UNIQUE v(b)
CREATE TABLE t (a INT, b INT, UNIQUE u (a))
CREATE INDEX v ON t (b, a)
    both: a int, b int, UNIQUE u(a), v(b, a)
CREATE TABLE t (a INT, b VARCHAR(9))
CREATE UNIQUE INDEX v USING BTREE ON t (b(3)) COMMENT 'x'
    both: a int, b varchar(9), UNIQUE v(b(3))
CREATE TABLE t (a INT, b INT)
CREATE UNIQUE INDEX v ON t (a) ALGORITHM=COPY LOCK=SHARED
    both: a int, b int, UNIQUE v(a)
CREATE TABLE t (a INT, b INT)
CREATE UNIQUE INDEX v USING HASH ON t (a)
    mariadb: a int, b int, UNIQUE v(a) hashed
    mysql: a int, b int, UNIQUE v(a)
CREATE TABLE t (a INT, b INT)
CREATE UNIQUE INDEX v ON t (a) USING HASH
    mariadb: a int, b int, UNIQUE v(a) hashed
    mysql: a int, b int, UNIQUE v(a)
CREATE TABLE t (a INT, b INT)
CREATE UNIQUE INDEX v USING HASH ON t (a) USING BTREE
    both: a int, b int, UNIQUE v(a)
CREATE TABLE t (a INT, b INT)
CREATE UNIQUE INDEX v USING BTREE ON t (a) USING HASH
    mariadb: a int, b int, UNIQUE v(a) hashed
    mysql: a int, b int, UNIQUE v(a)
CREATE TABLE t (a INT, b INT)
CREATE UNIQUE INDEX v ON t (a) USING HASH USING BTREE
    both: a int, b int, UNIQUE v(a)
CREATE TABLE t (a INT, b INT)
CREATE UNIQUE INDEX v ON t (a) USING HASH COMMENT 'x'
    mariadb: a int, b int, UNIQUE v(a) hashed
    mysql: a int, b int, UNIQUE v(a)
CREATE TABLE t (a INT, b INT, KEY v (b))
CREATE OR REPLACE UNIQUE INDEX v ON t (a)
    mariadb: a int, b int, UNIQUE v(a)
CREATE TABLE t (a INT, b INT, UNIQUE v (b))
CREATE OR REPLACE INDEX w ON t (a)
    mariadb: a int, b int, UNIQUE v(b), w(a)
CREATE TABLE t (a INT, b INT, UNIQUE v (b))
CREATE UNIQUE INDEX IF NOT EXISTS v ON t (a)
    mariadb: a int, b int, UNIQUE v(b)
CREATE TABLE t (a INT, b INT, UNIQUE v (b))
CREATE UNIQUE INDEX IF NOT EXISTS w ON t (a)
    mariadb: a int, b int, UNIQUE v(b), UNIQUE w(a)
CREATE TABLE t (a INT, b TEXT)
CREATE FULLTEXT INDEX w ON t (b)
    both: a int, b text, w(b)
CREATE TABLE t (a INT, b INT, UNIQUE v (b))
DROP INDEX v ON t
    both: a int, b int
CREATE TABLE t (a INT, b INT, UNIQUE v (b))
DROP INDEX V ON t ALGORITHM=COPY
    mysql: a int, b int
CREATE TABLE t (a INT, b INT, UNIQUE v (b))
DROP INDEX IF EXISTS v ON t
    mariadb: a int, b int
CREATE TABLE t (a INT, b INT, UNIQUE v (b))
DROP INDEX IF EXISTS nope ON t
    mariadb: a int, b int, UNIQUE v(b)
CREATE TABLE t (a INT PRIMARY KEY, b INT, UNIQUE v (b))
DROP INDEX `PRIMARY` ON t
    both: a int NOT NULL, b int, UNIQUE v(b)
CREATE TABLE t (a INT PRIMARY KEY, b INT, UNIQUE v (b))
DROP INDEX `primary` ON t
    both: a int NOT NULL, b int, UNIQUE v(b)
CREATE TABLE t (a INT PRIMARY KEY, b INT, UNIQUE v (b))
ALTER TABLE t DROP INDEX `Primary`
    both: a int NOT NULL, b int, UNIQUE v(b)
CREATE TABLE u (a INT PRIMARY KEY, b VARCHAR(5) CHARACTER SET latin1, UNIQUE v (b))
CREATE TABLE t LIKE u
    both: a int NOT NULL, b varchar(5) latin1_swedish_ci, PRIMARY(a), UNIQUE v(b)
CREATE TABLE u (a INT PRIMARY KEY, b VARCHAR(5) CHARACTER SET latin1, UNIQUE v (b))
CREATE TABLE t (LIKE u)
    both: a int NOT NULL, b varchar(5) latin1_swedish_ci, PRIMARY(a), UNIQUE v(b)
CREATE TABLE u (a INT PRIMARY KEY, b INT, UNIQUE v (b) USING HASH)
CREATE TABLE t LIKE u
    both: a int NOT NULL, b int, PRIMARY(a), UNIQUE v(b)
CREATE TABLE t (a INT);;
    both: a int
CREATE TABLE t (a INT);
    both: a int
CREATE TABLE t (a INT)
ALTER TABLE t ADD b INT;
    both: a int, b int
CREATE TABLE t (a INT)
ALTER TABLE t ADD b INT, RENAME AS u
ALTER TABLE u ADD c INT, RENAME = t
    both: a int, b int, c int
CREATE TABLE t (a INT)
ALTER TABLE t RENAME u
ALTER TABLE u RENAME TO t
    both: a int
CREATE TABLE t (a INT)
ALTER TABLE app.t ADD b INT
    both: a int, b int
CREATE TABLE t (a INT)
ALTER TABLE IF EXISTS t ADD b INT
    mariadb: a int, b int
CREATE TABLE t (a INT)
ALTER TABLE IF EXISTS nope ADD b INT
    mariadb: a int
CREATE TABLE t (a INT)
ALTER ONLINE TABLE t ADD b INT
    mariadb: a int, b int
CREATE TABLE t (a INT)
ALTER IGNORE TABLE t ADD b INT
    mariadb: a int, b int
CREATE TABLE t (a INT)
RENAME TABLE t TO u, u TO w
RENAME TABLE w TO t
    both: a int
CREATE TABLE t (a INT)
RENAME TABLES t TO u
RENAME TABLE u TO t
    both: a int
CREATE TABLE t (a INT)
RENAME TABLE t WAIT 5 TO u
RENAME TABLE u NOWAIT TO t
    mariadb: a int
CREATE TABLE t (a INT)
RENAME TABLE IF EXISTS t TO u, nope TO x
RENAME TABLE u TO t
    mariadb: a int
CREATE TABLE t (a INT)
CREATE OR REPLACE TABLE t (b INT)
    mariadb: b int
CREATE TABLE t (a INT)
CREATE TABLE IF NOT EXISTS t (b INT)
    both: a int
CREATE TABLE t (a INT)
DROP TABLE t
    both: none
CREATE TABLE t (a INT)
DROP TABLE IF EXISTS nope, t CASCADE
    both: none
CREATE TABLE t (a INT)
DROP TABLE t RESTRICT
    both: none
CREATE TABLE t (a INT)
DROP TABLE t WAIT 3
    mariadb: none
CREATE TABLE t (a INT)
DROP TABLE t NOWAIT
    mariadb: none
CREATE TABLE t (a INT)
DROP TABLES t
    both: none
CREATE TABLE t (a INT)
DROP VIEW IF EXISTS t
    both: a int
CREATE TABLE t (a INT)
DROP TEMPORARY TABLE IF EXISTS t
    both: a int
CREATE TABLE t (a INT)
DROP SEQUENCE IF EXISTS t
    mariadb: a int
CREATE TABLE t (a INT)
CREATE OR REPLACE VIEW v AS SELECT 1
DROP TABLE IF EXISTS v
    both: a int
CREATE SEQUENCE t
    mariadb: next_not_cached_value bigint NOT NULL, minimum_value bigint NOT NULL, maximum_value bigint NOT
        NULL, start_value bigint NOT NULL, increment bigint NOT NULL, cache_size bigint unsigned NOT NULL,
        cycle_option tinyint unsigned NOT NULL, cycle_count bigint NOT NULL
CREATE TABLE t (a INT)
CREATE OR REPLACE SEQUENCE t
    mariadb: next_not_cached_value bigint NOT NULL, minimum_value bigint NOT NULL, maximum_value bigint NOT
        NULL, start_value bigint NOT NULL, increment bigint NOT NULL, cache_size bigint unsigned NOT NULL,
        cycle_option tinyint unsigned NOT NULL, cycle_count bigint NOT NULL
CREATE SEQUENCE t
DROP SEQUENCE t
    mariadb: none
CREATE SEQUENCE t
DROP TABLE t
    mariadb: none
CREATE TABLE t (a INT) WITH SYSTEM VERSIONING
    mariadb: a int, versioned
CREATE TABLE t (a INT, s TIMESTAMP(6) GENERATED ALWAYS AS ROW START, e TIMESTAMP(6) GENERATED ALWAYS AS ROW
        END, PERIOD FOR SYSTEM_TIME (s, e)) WITH SYSTEM VERSIONING
    mariadb: a int, s timestamp(6) NOT NULL row start, e timestamp(6) NOT NULL row end, versioned
CREATE TABLE t (a INT, s TIMESTAMP(6) GENERATED ALWAYS AS ROW START INVISIBLE, e TIMESTAMP(6) AS ROW END
        INVISIBLE, PERIOD FOR SYSTEM_TIME (s, e)) WITH SYSTEM VERSIONING
    mariadb: a int, s timestamp(6) NOT NULL row start invisible, e timestamp(6) NOT NULL row end
        invisible, versioned
CREATE TABLE t (id INT, a DATE, b DATE, PERIOD FOR p (a, b))
    mariadb: id int, a date NOT NULL, b date NOT NULL
CREATE TABLE t (id INT, a DATE, b DATE)
ALTER TABLE t ADD PERIOD FOR p (a, b)
    mariadb: id int, a date NOT NULL, b date NOT NULL
CREATE TABLE t (id INT, a DATE, b DATE)
ALTER TABLE t ADD PERIOD IF NOT EXISTS FOR p (a, b)
    mariadb: id int, a date NOT NULL, b date NOT NULL
CREATE TABLE t (id INT, a DATE, b DATE, PERIOD FOR p (a, b))
ALTER TABLE t ADD PERIOD IF NOT EXISTS FOR p (a, b), ADD UNIQUE (id, p WITHOUT OVERLAPS)
    mariadb: id int, a date NOT NULL, b date NOT NULL, UNIQUE id(id, b, a)
CREATE TABLE t (id INT, a DATE, b DATE, PERIOD FOR p (a, b))
ALTER TABLE t DROP PERIOD FOR p
    mariadb: id int, a date NOT NULL, b date NOT NULL
CREATE TABLE t (id INT, a DATE, b DATE, PERIOD FOR p (a, b))
ALTER TABLE t DROP PERIOD IF EXISTS FOR p, ADD x INT
    mariadb: id int, a date NOT NULL, b date NOT NULL, x int
CREATE TABLE t (id INT)
ALTER TABLE t ADD (a DATE, b DATE, PERIOD FOR p (a, b))
    mariadb: id int, a date NOT NULL, b date NOT NULL
CREATE TABLE t (a INT) CHARACTER SET latin1
ALTER TABLE t ADD b TEXT, ADD c TEXT COLLATE utf8mb4_bin
    both: a int, b text latin1_swedish_ci, c text utf8mb4_bin
CREATE TABLE t (a TINYTEXT CHARACTER SET latin1, b TEXT CHARACTER SET latin1, c MEDIUMTEXT CHARACTER SET
        latin1, d LONGTEXT CHARACTER SET latin1)
ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4
    mariadb: a text, b mediumtext, c longtext, d longtext
    mysql: a text utf8mb4_0900_ai_ci, b mediumtext utf8mb4_0900_ai_ci, c longtext utf8mb4_0900_ai_ci, d
        longtext utf8mb4_0900_ai_ci
CREATE TABLE t (a TINYTEXT CHARACTER SET utf8mb4, b TEXT CHARACTER SET utf8mb4)
ALTER TABLE t CONVERT TO CHARACTER SET latin1
    both: a tinytext latin1_swedish_ci, b text latin1_swedish_ci
CREATE TABLE t (a INT NOT NULL UNIQUE, b TEXT AS (a) STORED, c INT INVISIBLE, d VARCHAR(9) NOT NULL)
ALTER TABLE t CONVERT TO CHARACTER SET latin1
    both: a int NOT NULL, b text latin1_swedish_ci stored, c int invisible, d varchar(9) latin1_swedish_ci
        NOT NULL, UNIQUE a(a)
CREATE TABLE t (a ENUM('x','y') CHARACTER SET latin1)
ALTER TABLE t CONVERT TO CHARACTER SET binary
    both: a enum('x','y')
CREATE TABLE t (a INT, b INT INVISIBLE)
ALTER TABLE t ALTER COLUMN b SET VISIBLE, ALTER a SET INVISIBLE
    mysql: a int invisible, b int
CREATE TABLE t (a INT, b INT INVISIBLE)
ALTER TABLE t MODIFY b INT
    both: a int, b int
CREATE TABLE t (a INT, b INT, c INT, UNIQUE k (a, b, c), KEY l (b))
ALTER TABLE t DROP b
    mysql: a int, c int, UNIQUE k(a, c)
CREATE TABLE t (a VARCHAR(20), b VARCHAR(20), UNIQUE k (a(5), b(7)))
ALTER TABLE t DROP a
    mysql: b varchar(20), UNIQUE k(b(7))
CREATE TABLE t (a VARCHAR(20), b VARCHAR(20), UNIQUE k (a(5), b(7)))
ALTER TABLE t RENAME COLUMN a TO z, MODIFY b VARCHAR(7)
    both: z varchar(20), b varchar(7), UNIQUE k(z(5), b)
SET STATEMENT max_statement_time=5 FOR CREATE TABLE t (a INT)
    mariadb: a int
CREATE TABLE t (a INT)
ALTER TABLE t CHANGE a A BIGINT
ALTER TABLE t ADD UNIQUE (a)
    both: A bigint, UNIQUE A(A)
CREATE TABLE t (a INT, b INT, UNIQUE (a, b))
ALTER TABLE t RENAME COLUMN A TO b, RENAME COLUMN b TO a
    both: b int, a int, UNIQUE a(b, a)
CREATE TABLE t (a INT, UNIQUE (a))
ALTER TABLE t DROP KEY a, DROP a, ADD b INT
    both: b int
CREATE TABLE t (a INT, b INT, FOREIGN KEY (a) REFERENCES p (id), UNIQUE (a, b))
    both: a int, b int, UNIQUE a(a, b)
CREATE TABLE t (a INT, b INT)
ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES p (id), ADD UNIQUE (a, b)
    both: a int, b int, UNIQUE a(a, b)
CREATE TABLE t (a INT, s TIMESTAMP NULL)
ALTER TABLE t ADD SYSTEM VERSIONING
    mariadb: a int, s timestamp, versioned
CREATE TABLE t (a INT, s TIMESTAMP(6) AS ROW START, e TIMESTAMP(6) AS ROW END, PERIOD FOR SYSTEM_TIME (s,
        e)) WITH SYSTEM VERSIONING
SET system_versioning_alter_history=KEEP
ALTER TABLE t ADD b INT
    mariadb: a int, s timestamp(6) NOT NULL row start, e timestamp(6) NOT NULL row end, b int, versioned
CREATE TABLE t (a INT) WITH SYSTEM VERSIONING
ALTER TABLE t DROP SYSTEM VERSIONING, ADD b INT
    mariadb: a int, b int
CREATE TABLE t (a INT WITH SYSTEM VERSIONING, b INT WITHOUT SYSTEM VERSIONING NOT NULL)
    mariadb: a int, b int NOT NULL, versioned
CREATE TABLE t (a INT, b INT, CONSTRAINT f FOREIGN KEY (a) REFERENCES p (id))
ALTER TABLE t DROP FOREIGN KEY f, ADD c INT
    both: a int, b int, c int, f(a)
CREATE TABLE t (a INT, b INT, CONSTRAINT f FOREIGN KEY (a) REFERENCES p (id))
ALTER TABLE t DROP FOREIGN KEY IF EXISTS f, ADD c INT
    mariadb: a int, b int, c int, f(a)
CREATE TABLE t (a INT, b INT, CONSTRAINT f CHECK (a > 1))
ALTER TABLE t DROP CHECK f, ADD c INT
    mysql: a int, b int, c int
CREATE TABLE t (a INT, b INT, CONSTRAINT f CHECK (a > 1))
ALTER TABLE t DROP CONSTRAINT f, ADD c INT
    both: a int, b int, c int
CREATE TABLE t (a INT, b INT, CONSTRAINT f CHECK (a > 1))
ALTER TABLE t ALTER CHECK f NOT ENFORCED, ADD c INT
    mysql: a int, b int, c int
CREATE TABLE t (a INT, b INT, CONSTRAINT f CHECK (a > 1))
ALTER TABLE t ALTER CONSTRAINT f NOT ENFORCED, ADD c INT
    mysql: a int, b int, c int
CREATE TABLE t (a INT PRIMARY KEY, b INT)
ALTER TABLE t ADD COLUMN IF NOT EXISTS a INT PRIMARY KEY, ADD c INT
    mariadb: a int NOT NULL, b int, c int, PRIMARY(a)
CREATE TABLE t (a INT PRIMARY KEY, b INT)
ALTER TABLE t ADD PRIMARY KEY IF NOT EXISTS (b), ADD c INT
    mariadb: a int NOT NULL, b int, c int, PRIMARY(a)
CREATE TABLE t (a INT, b INT)
ALTER TABLE t ADD PRIMARY KEY IF NOT EXISTS (b)
    mariadb: a int, b int NOT NULL, PRIMARY(b)
CREATE TABLE t (a INT, b INT)
ALTER TABLE t ADD COLUMN IF NOT EXISTS c INT, ADD COLUMN IF NOT EXISTS c BIGINT
    mariadb: a int, b int, c int
CREATE TABLE t (a INT, b INT, UNIQUE k (a))
ALTER TABLE t DROP a, ADD COLUMN IF NOT EXISTS a BIGINT
    mariadb: b int
CREATE TABLE t (a INT, b INT, UNIQUE k (a))
ALTER TABLE t DROP a, CHANGE b a INT
    both: a int
CREATE TABLE t (a INT, b INT, UNIQUE k (a))
ALTER TABLE t DROP a, RENAME COLUMN b TO a
    both: a int
CREATE TABLE t (a INT, b INT)
ALTER TABLE t MODIFY IF EXISTS a INT UNIQUE, ADD c INT
    mariadb: a int, b int, c int, UNIQUE a(a)
CREATE TABLE t (a INT, b INT) CHARSET latin1
ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, ADD c CHAR(3)
    both: a int, b int, c char(3) utf8mb4_bin
CREATE TABLE t (a INT, b CHAR(3))
ALTER TABLE t CONVERT TO CHARACTER SET latin1, COMMENT 'x'
    both: a int, b char(3) latin1_swedish_ci
CREATE TABLE t (a INT, b INT) /*!50100 PARTITION BY HASH (a) (PARTITION p0 ENGINE = InnoDB, PARTITION p1
        ENGINE = InnoDB) */
ALTER TABLE t ADD c INT
    both: a int, b int, c int
CREATE TABLE t (a INT, b INT) PARTITION BY LIST (a) (PARTITION p0 VALUES IN (1, 2), PARTITION p1 VALUES IN
        (3))
ALTER TABLE t ADD c INT PARTITION BY HASH (a) PARTITIONS 3
    both: a int, b int, c int
CREATE TABLE t (a INT, b INT) ENGINE=MyISAM UNION=() INSERT_METHOD=NO COMMENT='x'
    both: a int, b int
CREATE TABLE t (a VARCHAR(70000) CHARACTER SET latin1, b INT)
    both: a mediumtext latin1_swedish_ci, b int
CREATE TABLE t (a VARBINARY(70000), b INT)
    both: a mediumblob, b int
CREATE TABLE t (a VARBINARY(65535), b INT)
    mariadb: a blob, b int
CREATE TABLE t (a VARBINARY(65536))
    both: a mediumblob
CREATE TABLE t (a VARBINARY(65532) NOT NULL)
    both: a varbinary(65532) NOT NULL
CREATE TABLE t (a VARBINARY(65533) NOT NULL)
    mariadb: a blob NOT NULL
    mysql: a varbinary(65533) NOT NULL
CREATE TABLE t (a VARCHAR(65532) CHARACTER SET latin1 NOT NULL)
    both: a varchar(65532) latin1_swedish_ci NOT NULL
CREATE TABLE t (a VARCHAR(65535) CHARACTER SET latin1, b INT)
    mariadb: a text latin1_swedish_ci, b int
CREATE TABLE t (a VARCHAR(65536) CHARACTER SET latin1)
    both: a mediumtext latin1_swedish_ci
CREATE TABLE t (a ENUM('é','😀') CHARACTER SET latin1)
    both: a enum('é','?') latin1_swedish_ci
CREATE TABLE t (a ENUM('é ','x') CHARACTER SET utf8mb3, b ENUM('x ') CHARACTER SET binary, c SET('ä')
        CHARACTER SET cp1251)
    both: a enum('é','x') utf8mb3_general_ci, b enum('x '), c set('?') cp1251_general_ci
CREATE TABLE t (a ENUM('é','x') CHARACTER SET latin1)
ALTER TABLE t CONVERT TO CHARACTER SET latin1 COLLATE latin1_bin
    both: a enum('é','x') latin1_bin
CREATE TABLE t (a BINARY(5), b BLOB, c CHAR(3) CHARACTER SET binary, d INT)
ALTER TABLE t CONVERT TO CHARACTER SET latin1
    both: a binary(5), b blob, c binary(3), d int
CREATE TABLE t (a CHAR(3))
ALTER TABLE t CONVERT TO CHARACTER SET latin1, ADD b CHAR(3) COLLATE utf8mb4_bin, ADD c CHAR(3) COLLATE
        DEFAULT, ADD d INT
    mariadb: a char(3) latin1_swedish_ci, b char(3) latin1_swedish_ci, c char(3) latin1_swedish_ci, d int
CREATE TABLE t (a CHAR(3))
ALTER TABLE t CONVERT TO CHARACTER SET latin1 COLLATE latin1_bin, ADD c CHAR(3) COLLATE DEFAULT, ADD d
        BINARY(3) COLLATE utf8mb4_bin
    mariadb: a char(3) latin1_bin, c char(3) latin1_swedish_ci, d char(3) latin1_bin
CREATE TABLE u (a INT)
CREATE TABLE t (LIKE u)
    both: a int
CREATE TABLE t (a INT, b INT)
ALTER TABLE t ADD INDEX IF NOT EXISTS k (a), ADD UNIQUE INDEX IF NOT EXISTS l (b)
    mariadb: a int, b int, UNIQUE l(b), k(a)
CREATE TABLE t (a SET('x','y') CHARACTER SET latin1 NOT NULL, b CHAR(3), UNIQUE k (a, b(2)))
ALTER TABLE t MODIFY a VARCHAR(9) CHARACTER SET latin1 NOT NULL
    mariadb: a varchar(9) latin1_swedish_ci NOT NULL, b char(3), UNIQUE k(a, b(2))
    mysql: a varchar(9) latin1_swedish_ci NOT NULL, b char(3), UNIQUE k(a(1), b(2))
CREATE TABLE t (a SET('x','y') CHARACTER SET latin1 NOT NULL, UNIQUE k (a))
ALTER TABLE t MODIFY a TEXT CHARACTER SET latin1 NOT NULL
    mariadb: a text latin1_swedish_ci NOT NULL, UNIQUE k(a) hashed
    mysql: a text latin1_swedish_ci NOT NULL, UNIQUE k(a(1))
CREATE TABLE t (id INT, a DATE, b DATE, PERIOD FOR p (a, b))
ALTER TABLE t RENAME COLUMN a TO s
ALTER TABLE t ADD UNIQUE (id, p WITHOUT OVERLAPS)
    mariadb: id int, s date NOT NULL, b date NOT NULL, UNIQUE id(id, b, s)
CREATE TABLE t (a INT);
ALTER TABLE t ADD b INT;;
    both: a int, b int
CREATE TABLE t (a INT, b INT)
ALTER TABLE t ALTER COLUMN IF EXISTS b SET DEFAULT 3, ADD c INT
    mariadb: a int, b int, c int
CREATE TABLE t (a INT, b INT)
ALTER TABLE t DATA DIRECTORY='/tmp', INDEX DIRECTORY '/tmp', ADD c INT
    both: a int, b int, c int
CREATE TABLE t (a CHAR(3))
ALTER TABLE t CONVERT TO CHARACTER SET latin1, ADD d BINARY(3) COLLATE binary
    mysql: a char(3) latin1_swedish_ci, d binary(3)
CREATE TABLE t (a CHAR(3))
ALTER TABLE t CONVERT TO CHARACTER SET latin1, ADD d BLOB COLLATE utf8mb4_bin, ADD e VARBINARY(3)
    mariadb: a char(3) latin1_swedish_ci, d text latin1_swedish_ci, e varbinary(3)
CREATE TABLE t (a CHAR(3))
ALTER TABLE t CONVERT TO CHARACTER SET latin1 COLLATE latin1_bin, MODIFY a BINARY(3) COLLATE utf8mb4_bin
    mariadb: a char(3) latin1_bin
CREATE TABLE t (a INT, b INT)
ALTER TABLE t ENGINE=MyISAM, UNION (), ADD c INT
    both: a int, b int, c int
CREATE TABLE t (a INT, b INT, UNIQUE (a), CONSTRAINT a_2 CHECK (a > 1))
ALTER TABLE t DROP CONSTRAINT a_2
    both: a int, b int, UNIQUE a(a)
CREATE TABLE t (a INT, b INT, UNIQUE (a))
ALTER TABLE t DROP INDEX IF EXISTS a_2, ADD c INT
    mariadb: a int, b int, c int, UNIQUE a(a)
CREATE TABLE t (a INT, b INT, UNIQUE (a))
CREATE UNIQUE INDEX a_2 ON t (b)
    both: a int, b int, UNIQUE a(a), UNIQUE a_2(b)
CREATE TABLE t (a INT, b INT, UNIQUE (a))
CREATE OR REPLACE UNIQUE INDEX a_2 ON t (b)
    mariadb: a int, b int, UNIQUE a(a), UNIQUE a_2(b)
CREATE TABLE t (a INT, b INT, UNIQUE k (a))
ALTER TABLE t DROP a, CHANGE b a INT FIRST
    both: a int
CREATE TABLE t (id INT, a DATE, b DATE, c DATE NOT NULL, d DATE NOT NULL, PERIOD FOR p (a, b))
ALTER TABLE t ADD PERIOD IF NOT EXISTS FOR p (c, d), ADD UNIQUE k (id, p WITHOUT OVERLAPS)
    mariadb: id int, a date NOT NULL, b date NOT NULL, c date NOT NULL, d date NOT NULL, UNIQUE k(id, b, a)
CREATE TABLE t (id INT, a DATE, b DATE)
ALTER TABLE t ADD PERIOD IF NOT EXISTS FOR p (a, b), ADD UNIQUE k (id, p WITHOUT OVERLAPS)
    mariadb: id int, a date NOT NULL, b date NOT NULL, UNIQUE k(id, b, a)
CREATE TABLE t (a INT UNIQUE)
ALTER TABLE t MODIFY a INT UNIQUE
    both: a int, UNIQUE a(a), UNIQUE a_2(a)
CREATE TABLE t (b INT, UNIQUE a (b))
ALTER TABLE t ADD a INT UNIQUE
    both: b int, a int, UNIQUE a(b), UNIQUE a_2(a)
CREATE TABLE t (a INT UNIQUE)
ALTER TABLE t ADD COLUMN IF NOT EXISTS a INT UNIQUE, ADD e INT
    mariadb: a int, e int, UNIQUE a(a)
CREATE TABLE t (a INT)
ALTER TABLE t ADD CONSTRAINT IF NOT EXISTS c CHECK (a > 1), ADD e INT
    mariadb: a int, e int
CREATE TABLE t (a INT) WITH SYSTEM VERSIONING
    mariadb: a int, versioned
CREATE TABLE t (a INT)
ALTER TABLE t ADD SYSTEM VERSIONING
    mariadb: a int, versioned
CREATE TABLE t (a INT) WITH SYSTEM VERSIONING
ALTER TABLE t DROP SYSTEM VERSIONING
    mariadb: a int
CREATE TABLE t (a VARCHAR(5) NOT NULL COMPRESSED COMMENT 'x', b INT)
    mariadb: a varchar(5) NOT NULL, b int
CREATE TABLE t (a VARCHAR(5) DEFAULT 'x' COMPRESSED=zlib NOT NULL, b INT)
    mariadb: a varchar(5) NOT NULL, b int
CREATE TABLE t (a INT REFERENCES p, b INT)
    mysql: a int, b int, a(a)
CREATE TABLE t (a ENUM('x') CHARACTER SET binary)
ALTER TABLE t CONVERT TO CHARACTER SET latin1
    both: a enum('x')
CREATE TABLE t (a SET('x','y') CHARACTER SET latin1 NOT NULL, b CHAR(3), UNIQUE k (a, b))
ALTER TABLE t MODIFY a VARCHAR(9) CHARACTER SET latin1 NOT NULL
    mariadb: a varchar(9) latin1_swedish_ci NOT NULL, b char(3), UNIQUE k(a, b)
    mysql: a varchar(9) latin1_swedish_ci NOT NULL, b char(3), UNIQUE k(a(1), b)
CREATE TABLE t (a INT, b INT)
ALTER TABLE t ORDER BY a DESC, t.b
    both: a int, b int
CREATE TABLE t (a INT, b INT)
CREATE UNIQUE INDEX i ON t (a) WAIT 5
    mariadb: a int, b int, UNIQUE i(a)
CREATE TABLE t (a INT, b INT)
CREATE UNIQUE INDEX i ON t (a) NOWAIT
    mariadb: a int, b int, UNIQUE i(a)
CREATE TABLE t (a INT, b INT, UNIQUE (a, b))
ALTER TABLE t ALTER COLUMN IF EXISTS b SET DEFAULT 5, ADD c INT
    mariadb: a int, b int, c int, UNIQUE a(a, b)
"""


@pytest.mark.parametrize(("server", "statements", "expected"), cases(IN_TURN))
def test_a_table_after_statements(server, statements, expected):
    assert text_after(*statements, server=server) == expected
