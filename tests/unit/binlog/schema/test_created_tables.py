"""What CREATE TABLE makes. The answers are those of MariaDB 10.11 and MySQL 9.7."""

from __future__ import annotations

import pytest
from support.ddl.definition_text import cases, text_after

CREATED = """
CREATE TABLE t (a INT NOT NULL PRIMARY KEY)
    both: a int NOT NULL, PRIMARY(a)
CREATE TABLE t (a INT PRIMARY KEY, b INT UNIQUE)
    both: a int NOT NULL, b int, PRIMARY(a), UNIQUE b(b)
CREATE TABLE t (a INT KEY)
    both: a int NOT NULL, PRIMARY(a)
CREATE TABLE t (a INT NOT NULL, b INT, PRIMARY KEY (b, a))
    both: a int NOT NULL, b int NOT NULL, PRIMARY(b, a)
CREATE TABLE t (a SERIAL)
    both: a bigint unsigned NOT NULL, UNIQUE a(a)
CREATE TABLE t (a BIGINT SERIAL DEFAULT VALUE, b INT PRIMARY KEY)
    both: a bigint NOT NULL, b int NOT NULL, PRIMARY(b), UNIQUE a(a)
CREATE TABLE t (a INT UNIQUE KEY, b INT UNIQUE)
    both: a int, b int, UNIQUE a(a), UNIQUE b(b)
CREATE TABLE t (a INT UNIQUE PRIMARY KEY)
    mariadb: a int NOT NULL, PRIMARY(a)
    mysql: a int NOT NULL, PRIMARY(a), UNIQUE a(a)
CREATE TABLE t (a INT NULL DEFAULT NULL)
    both: a int
CREATE TABLE t (a INT DEFAULT -5 NOT NULL, b INT DEFAULT +5)
    both: a int NOT NULL, b int
CREATE TABLE t (a INT DEFAULT (1 + (2 * 3)) NOT NULL, b INT)
    both: a int NOT NULL, b int
CREATE TABLE t (a INT DEFAULT (CASE WHEN 1 THEN 2 ELSE 3 END), b INT)
    both: a int, b int
CREATE TABLE t (a DATETIME DEFAULT NOW() ON UPDATE NOW(), b INT)
    both: a datetime, b int
CREATE TABLE t (a DATETIME(3) DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3) NOT NULL, b INT)
    both: a datetime(3) NOT NULL, b int
CREATE TABLE t (a TIMESTAMP NULL, b TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE
        CURRENT_TIMESTAMP)
    both: a timestamp, b timestamp NOT NULL
CREATE TABLE t (a INT COMMENT 'x, y', b INT)
    both: a int, b int
CREATE TABLE t (a INT COLUMN_FORMAT FIXED STORAGE DISK, b INT)
    mysql: a int, b int
CREATE TABLE t (a INT CONSTRAINT c CHECK (a > 1), b INT)
    mysql: a int, b int
CREATE TABLE t (a INT CONSTRAINT CHECK (a > 1), b INT)
    mysql: a int, b int
CREATE TABLE t (a INT CHECK (a > 1) NOT NULL, b INT)
    mysql: a int NOT NULL, b int
CREATE TABLE t (a INT CHECK (a > 1) NOT ENFORCED NOT NULL, b INT)
    mysql: a int NOT NULL, b int
CREATE TABLE t (a INT CHECK (a > 1) ENFORCED, b INT NOT NULL)
    mysql: a int, b int NOT NULL
CREATE TABLE t (a INT, b INT AS (a + 1), c INT GENERATED ALWAYS AS (a + 2) STORED, d INT AS (a) VIRTUAL NOT
        NULL)
    mysql: a int, b int virtual, c int stored, d int NOT NULL virtual
CREATE TABLE t (a INT, b INT AS (a + 1) PERSISTENT, c INT AS (a) STORED UNIQUE)
    mariadb: a int, b int stored, c int stored, UNIQUE c(c)
CREATE TABLE t (a INT, b INT GENERATED ALWAYS AS (a) VIRTUAL COMMENT 'x', c INT)
    both: a int, b int virtual, c int
CREATE TABLE t (a INT, b INT INVISIBLE, c INT NOT NULL DEFAULT 1 INVISIBLE)
    both: a int, b int invisible, c int NOT NULL invisible
CREATE TABLE t (a INT, b INT VISIBLE)
    mysql: a int, b int
CREATE TABLE t (a POINT NOT NULL SRID 0, b INT)
    mysql: a point NOT NULL, b int
CREATE TABLE t (a INT NOT SECONDARY, b INT)
    mysql: a int, b int
CREATE TABLE t (a INT REFERENCES p (id) ON DELETE CASCADE ON UPDATE SET NULL, b INT)
    both: a int, b int, a(a)
CREATE TABLE t (a INT, b INT, FOREIGN KEY (a) REFERENCES p (id))
    both: a int, b int, a(a)
CREATE TABLE t (a INT, b INT, CONSTRAINT c FOREIGN KEY (a) REFERENCES p (id) ON DELETE SET NULL)
    both: a int, b int, c(a)
CREATE TABLE t (a INT, b INT, CONSTRAINT c FOREIGN KEY d (a) REFERENCES p (id))
    both: a int, b int, c(a)
CREATE TABLE t (a INT, b INT, FOREIGN KEY d (a) REFERENCES p (id))
    both: a int, b int, d(a)
CREATE TABLE t (a INT, b INT, KEY k (a, b), FOREIGN KEY (a) REFERENCES p (id))
    both: a int, b int, k(a, b)
CREATE TABLE t (a INT PRIMARY KEY, b INT, FOREIGN KEY (a) REFERENCES p (id))
    both: a int NOT NULL, b int, PRIMARY(a)
CREATE TABLE t (a INT, b INT, KEY k (b, a), FOREIGN KEY (a) REFERENCES p (id))
    both: a int, b int, a(a), k(b, a)
CREATE TABLE t (a INT, b INT, UNIQUE (a, b), UNIQUE (a), UNIQUE a_3 (b))
    both: a int, b int, UNIQUE a(a, b), UNIQUE a_2(a), UNIQUE a_3(b)
CREATE TABLE t (a INT, b INT, UNIQUE KEY k (a DESC, b ASC) COMMENT 'x')
    both: a int, b int, UNIQUE k(a, b)
CREATE TABLE t (a INT, b INT, UNIQUE INDEX k USING BTREE (a), KEY (b) USING BTREE)
    both: a int, b int, UNIQUE k(a), b(b)
CREATE TABLE t (a INT, b INT, UNIQUE k (a) KEY_BLOCK_SIZE=4 COMMENT 'y', INDEX (b))
    both: a int, b int, UNIQUE k(a), b(b)
CREATE TABLE t (a INT, b INT, CONSTRAINT u UNIQUE (a), CONSTRAINT p PRIMARY KEY (b))
    both: a int, b int NOT NULL, PRIMARY(b), UNIQUE u(a)
CREATE TABLE t (a INT, b INT, CONSTRAINT UNIQUE (a), CONSTRAINT PRIMARY KEY (b))
    both: a int, b int NOT NULL, PRIMARY(b), UNIQUE a(a)
CREATE TABLE t (a INT, b INT, CONSTRAINT u UNIQUE k (a), PRIMARY KEY k2 (b))
    both: a int, b int NOT NULL, PRIMARY(b), UNIQUE k(a)
CREATE TABLE t (a INT, b INT, PRIMARY KEY USING BTREE (b))
    both: a int, b int NOT NULL, PRIMARY(b)
CREATE TABLE t (a VARCHAR(10) CHARACTER SET latin1, b INT, UNIQUE k (a(5)), UNIQUE l (a(10)), KEY m (a(3)))
    both: a varchar(10) latin1_swedish_ci, b int, UNIQUE l(a), UNIQUE k(a(5)), m(a)
CREATE TABLE t (a VARCHAR(10) NOT NULL, b TEXT, UNIQUE k (b(5), a), FULLTEXT f (a), FULLTEXT KEY g (b),
        FULLTEXT INDEX (b))
    both: a varchar(10) NOT NULL, b text, UNIQUE k(b(5), a), b(b), f(a), g(b)
CREATE TABLE t (a BLOB, UNIQUE (a(8)))
    both: a blob, UNIQUE a(a(8))
CREATE TABLE t (a POINT NOT NULL, SPATIAL KEY s (a), b GEOMETRY NOT NULL, SPATIAL INDEX (b))
    both: a point NOT NULL, b geometry NOT NULL, b(b), s(a)
CREATE TABLE t (a INT, b INT, UNIQUE k ((a + b)), UNIQUE l (b))
    mysql: a int, b int, UNIQUE l(b), UNIQUE k(<expression>)
CREATE TABLE t (a INT, b INT, UNIQUE ((a + b)), KEY ((a * 2)))
    mysql: a int, b int, UNIQUE functional_index(<expression>), functional_index_2(<expression>)
CREATE TABLE t (a INT, b INT, UNIQUE (a, (b + 1)), UNIQUE (b))
    mysql: a int, b int, UNIQUE b(b), UNIQUE functional_index(a, <expression>)
CREATE TABLE t (a INT, b INT, UNIQUE type TYPE BTREE (a), KEY type2 TYPE HASH (b), INDEX USING BTREE (b, a))
    both: a int, b int, UNIQUE type(a), b(b, a), type2(b)
CREATE TABLE t (a INT, b INT, UNIQUE INDEX type (a), PRIMARY KEY type USING BTREE (b))
    both: a int, b int NOT NULL, PRIMARY(b), UNIQUE type(a)
CREATE TABLE .t (a INT)
ALTER TABLE .t ADD b INT
    mariadb: a int, b int
CREATE TABLE .u (a INT)
CREATE TABLE .v LIKE .u
RENAME TABLE .v TO .w, .u TO .x
ALTER TABLE .w ADD b INT, RENAME .t
DROP TABLE .x
    mariadb: a int, b int
CREATE TABLE t (a INT, b INT, UNIQUE f ((a + b), b))
    mysql: a int, b int, UNIQUE f(<expression>, b)
CREATE TABLE t (a INT, b INT, CHECK (a > 1), CONSTRAINT c CHECK (b < 5))
    both: a int, b int
CREATE TABLE t (a INT, b INT, CONSTRAINT c CHECK (b < 5) NOT ENFORCED)
    mysql: a int, b int
CREATE TABLE t (a INT, `primary` INT, UNIQUE (`primary`))
    both: a int, primary int, UNIQUE primary_2(primary)
CREATE TABLE t (a INT, A2 INT, UNIQUE k (A), UNIQUE l (a2))
    both: a int, A2 int, UNIQUE k(a), UNIQUE l(A2)
CREATE TABLE t (a ENUM('x','y') NOT NULL UNIQUE, b SET('p','q') UNIQUE)
    both: a enum('x','y') NOT NULL, b set('p','q'), UNIQUE a(a), UNIQUE b(b)
CREATE TABLE t (a CHAR(5) COLLATE utf8mb4_bin, b CHAR(5) CHARACTER SET latin1 COLLATE latin1_bin)
    both: a char(5) utf8mb4_bin, b char(5) latin1_bin
CREATE TABLE t (a CHAR(5) COLLATE 'utf8mb4_bin', b CHAR(5) CHARSET 'latin1', c CHAR(5) CHAR SET latin1)
    both: a char(5) utf8mb4_bin, b char(5) latin1_swedish_ci, c char(5) latin1_swedish_ci
CREATE TABLE t (a INT COLLATE utf8mb4_bin, b DATE)
    both: a int, b date
CREATE TABLE t (a TIMESTAMP(6) NULL, b TIMESTAMP(3) NULL, c TIME(1))
    both: a timestamp(6), b timestamp(3), c time(1)
CREATE TABLE t (a CHAR(5) NOT NULL DEFAULT 'x' COLLATE utf8mb4_bin, b INT)
    both: a char(5) utf8mb4_bin NOT NULL, b int
CREATE TABLE t (a VARCHAR(5) DEFAULT N'x', b CHAR(5) DEFAULT _utf8mb4'x' COLLATE utf8mb4_bin)
    both: a varchar(5), b char(5) utf8mb4_bin
CREATE TABLE t (a INT DEFAULT 0x10 NOT NULL, b BIT(3) DEFAULT b'101' NOT NULL)
    both: a int NOT NULL, b bit(3) NOT NULL
CREATE TABLE t (a INT DEFAULT NULL UNIQUE, b INT DEFAULT 1 PRIMARY KEY)
    both: a int, b int NOT NULL, PRIMARY(b), UNIQUE a(a)
CREATE TABLE t (a INT, b TEXT) CHARACTER SET latin1
    both: a int, b text latin1_swedish_ci
CREATE TABLE t (a INT, b TEXT) DEFAULT CHARSET=latin1 COLLATE=latin1_bin
    both: a int, b text latin1_bin
CREATE TABLE t (a INT, b TEXT) COLLATE latin1_bin
    both: a int, b text latin1_bin
CREATE TABLE t (a INT, b TEXT) DEFAULT COLLATE = latin1_bin ENGINE=InnoDB
    both: a int, b text latin1_bin
CREATE TABLE t (a INT, b TEXT) ENGINE=InnoDB COMMENT='CHARSET=latin1' CHARSET latin1
    both: a int, b text latin1_swedish_ci
CREATE TABLE t (a INT, b TEXT) ROW_FORMAT=DYNAMIC AUTO_INCREMENT 5 CHARSET=latin1
    both: a int, b text latin1_swedish_ci
CREATE TABLE t (a INT, b INT) PARTITION BY HASH (a) PARTITIONS 4
    both: a int, b int
CREATE TABLE t (a INT, b INT) PARTITION BY RANGE (a) (PARTITION p0 VALUES LESS THAN (1) COMMENT 'AS SELECT',
        PARTITION p1 VALUES LESS THAN MAXVALUE)
    both: a int, b int
CREATE TABLE t (a INT, b INT) COMMENT='x' PARTITION BY KEY (a)
    both: a int, b int
CREATE TABLE t (a INT, UNIQUE (a) USING HASH) ENGINE=InnoDB
    mariadb: a int, UNIQUE a(a) hashed
    mysql: a int, UNIQUE a(a)
CREATE TABLE t (a INT, UNIQUE k USING HASH (a))
    mariadb: a int, UNIQUE k(a) hashed
    mysql: a int, UNIQUE k(a)
CREATE TABLE t (a INT, UNIQUE k TYPE HASH (a))
    mariadb: a int, UNIQUE k(a) hashed
    mysql: a int, UNIQUE k(a)
CREATE TABLE t (a INT, UNIQUE k (a) COMMENT 'x' USING HASH)
    mariadb: a int, UNIQUE k(a) hashed
    mysql: a int, UNIQUE k(a)
CREATE TABLE t (a INT, UNIQUE k USING HASH (a) USING BTREE)
    both: a int, UNIQUE k(a)
CREATE TABLE t (a INT, UNIQUE k USING BTREE (a) USING HASH)
    mariadb: a int, UNIQUE k(a) hashed
    mysql: a int, UNIQUE k(a)
CREATE TABLE t (a VARCHAR(5) NOT NULL COMPRESSED, b INT)
    mariadb: a varchar(5) NOT NULL, b int
CREATE TABLE t (a INT NOT SECONDARY NOT NULL)
    mysql: a int NOT NULL
CREATE TABLE t (a INT WITHOUT SYSTEM VERSIONING NOT NULL, b INT)
    mariadb: a int NOT NULL, b int
CREATE TABLE t (a INT CHECK (a > ')') NOT NULL, b INT)
    mysql: a int NOT NULL, b int
CREATE TABLE t (a ENUM('a''b', "c""d"))
    both: a enum('a''b','c"d')
CREATE TABLE t (a ENUM(b'', b'100000001', b'11111111') CHARACTER SET latin1)
    both: a enum('','','ÿ') latin1_swedish_ci
CREATE TABLE t (a ENUM(x'E9') CHARACTER SET latin1)
    both: a enum('é') latin1_swedish_ci
CREATE TABLE t (a INT, VECTOR INT, UNIQUE (vector))
    both: a int, VECTOR int, UNIQUE VECTOR(VECTOR)
CREATE TABLE t (a INT AS (1) STORED NOT NULL, b INT AS (2) VIRTUAL NOT NULL)
    mysql: a int NOT NULL stored, b int NOT NULL virtual
CREATE TABLE t (a TEXT, FULLTEXT k (a) WITH PARSER ngram, b INT)
    mysql: a text, b int, k(a)
CREATE TABLE t (a TEXT, FULLTEXT k (a) /*!50100 WITH PARSER ngram */, b INT)
    mysql: a text, b int, k(a)
CREATE TABLE t (a INT, b INT, UNIQUE k (a, (b + 1)), UNIQUE l (b))
    mysql: a int, b int, UNIQUE l(b), UNIQUE k(a, <expression>)
CREATE TABLE t (a INT, b INT, UNIQUE z (a, (b + 1)), UNIQUE y ((a + 1)), UNIQUE x (b), KEY w (b))
    mysql: a int, b int, UNIQUE x(b), w(b), UNIQUE y(<expression>), UNIQUE z(a, <expression>)
CREATE TABLE t (a ENUM('x','y') CHARACTER SET latin1, b VARCHAR(5), UNIQUE k (a, b(3)))
    both: a enum('x','y') latin1_swedish_ci, b varchar(5), UNIQUE k(a, b(3))
CREATE TABLE t (a INT, b INT, KEY z (a), KEY y (b), UNIQUE k (a))
    both: a int, b int, UNIQUE k(a), y(b), z(a)
CREATE TABLE t (a LINESTRING NOT NULL, UNIQUE k (a(25)))
    mariadb: a linestring NOT NULL, UNIQUE k(a(25))
CREATE TABLE t (a LINESTRING NOT NULL, UNIQUE k (a(30)))
    mariadb: a linestring NOT NULL, UNIQUE k(a(30))
CREATE TABLE t (a POINT NOT NULL, UNIQUE k (a(10)))
    mariadb: a point NOT NULL, UNIQUE k(a(25))
CREATE TABLE t (a POINT NOT NULL, UNIQUE k (a))
    mariadb: a point NOT NULL, UNIQUE k(a(25))
CREATE TABLE t (a VARCHAR(0), b CHAR(0) NOT NULL)
    both: a varchar(0), b char(0) NOT NULL
CREATE TABLE t (a VARCHAR(16383) CHARACTER SET latin1)
    both: a varchar(16383) latin1_swedish_ci
CREATE TABLE t (a INT, b INT, CONSTRAINT `PRIMARY` PRIMARY KEY (a), UNIQUE (b))
    both: a int NOT NULL, b int, PRIMARY(a), UNIQUE b(b)
CREATE TABLE t (a DECIMAL(.5))
    mysql: a decimal(10,0)
CREATE TABLE t (a DECIMAL(5.))
    both: a decimal(5,0)
"""


@pytest.mark.parametrize(("server", "statements", "expected"), cases(CREATED))
def test_columns_and_keys_of_a_new_table(server, statements, expected):
    assert text_after(*statements, server=server) == expected
