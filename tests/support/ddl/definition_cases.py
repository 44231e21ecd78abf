"""Sequences of statements and rows that a history of definitions has to follow.

A step is a statement, also one that a client sends in another charset (`In`), or a `Row`: an INSERT whose row
is compared with what SELECT returns of it just then. Each case runs in a schema of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Row(NamedTuple):
    """An INSERT, and which row of the table it has made."""

    sql: str
    table: str = "t"
    where: str = "1=1"


class In(NamedTuple):
    """A statement that a client sends in a charset: the servers' name of it, and Python's."""

    charset: str
    codec: str
    sql: str


@dataclass(frozen=True)
class Case:
    """One sequence."""

    name: str
    steps: tuple[str | Row | In, ...]
    #: what is executed before the history begins
    before: tuple[str, ...] = ()
    #: tables that are read, of those of its schema; empty: all
    tables: tuple[str, ...] = ()
    engines: tuple[str, ...] = ("mariadb", "mysql")


M, Y = ("mariadb",), ("mysql",)
ADD = "ALTER TABLE t ADD z INT FIRST"
#: charset, Python's codec, a name, a value
CHARSETS = [
    ("latin1", "cp1252", "é", "ü"),
    ("gbk", "gbk", "表", "功"),
    ("sjis", "shift_jis", "表", "ソ"),
    ("big5", "big5", "功", "許"),
    ("gb18030", "gb18030", "表", "\U00020000"),
    ("ujis", "euc_jp", "表", "ソ"),
    ("cp1251", "cp1251", "ё", "Ж"),
]


def in_charset(charset: str, codec: str, name: str, value: str) -> Case:
    def sent(sql: str) -> In:
        return In(charset, codec, sql.format(name=name, value=value, charset=charset))

    return Case(
        f"a session in {charset}",
        (
            sent(
                "CREATE TABLE t (id INT, `{name}` INT, e ENUM('{value}', 'x{value}y') CHARACTER SET utf8mb4"
                " COMMENT '{value}', f ENUM('{value}') CHARACTER SET {charset}, `q{name}` INT)"
                " COMMENT '{name}{value}'"
            ),
            Row("INSERT INTO t VALUES (1, 2, 1, 1, 3)", where="id = 1"),
            sent("ALTER TABLE t CHANGE `{name}` `n{name}` INT, ADD `{name}` INT FIRST"),
            Row("INSERT INTO t VALUES (9, 11, 2, 2, 1, 3)", where="id = 11"),
        ),
        engines=Y if charset == "gb18030" else ("mariadb", "mysql"),
    )


def migrated(number: int) -> tuple[str, ...]:
    """What gh-ost does, with a column that it adds."""
    return (
        "CREATE TABLE _orders_gho LIKE orders",
        f"ALTER TABLE _orders_gho ADD COLUMN n{number} INT FIRST",
        "CREATE TABLE _orders_ghc (id BIGINT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(99))",
        "CREATE TABLE _orders_del (id INT) COMMENT='ghost-cut-over-sentry'",
        "DROP TABLE _orders_del",
        "RENAME TABLE orders TO _orders_del, _orders_gho TO orders",
        "DROP TABLE _orders_ghc",
        "DROP TABLE _orders_del",
    )


ORDERS = "CREATE TABLE orders (id INT PRIMARY KEY)"
CASES = [
    *(in_charset(*each) for each in CHARSETS),
    Case(
        "a session in latin1 alters a table that has an accent",
        (
            In("latin1", "cp1252", "ALTER TABLE `café` RENAME COLUMN a TO b, RENAME COLUMN b TO a"),
            Row("INSERT INTO `café` VALUES (1, 2)", "café"),
        ),
        before=("CREATE TABLE `café` (a INT, b INT)",),
    ),
    Case(
        "a client's broken comment",
        (
            In("latin1", "cp1252", "CREATE TABLE t (id INT, state ENUM('prêt','payé') COMMENT 'état')"),
            Row("INSERT INTO t VALUES (1, 2)"),
        ),
    ),
    Case(
        "a schema is replaced",
        (
            "CREATE TABLE t (a INT, b INT)",
            Row("INSERT INTO t VALUES (1, 2)"),
            "CREATE OR REPLACE DATABASE {schema}",
            "USE {schema}",
            "CREATE TABLE IF NOT EXISTS t (b INT, a INT)",
            Row("INSERT INTO t VALUES (3, 4)"),
        ),
        engines=M,
    ),
    Case(
        "a view is in the way",
        (
            "CREATE VIEW b AS SELECT 1 AS y, 2 AS x",
            "CREATE TABLE IF NOT EXISTS b (x INT, y INT)",
            "DROP VIEW b",
            "CREATE TABLE IF NOT EXISTS b (y INT, x INT)",
            Row("INSERT INTO b VALUES (1, 2)", "b"),
        ),
    ),
    Case(
        "a view is renamed out of the way",
        (
            "CREATE TABLE t (id INT UNSIGNED)",
            "CREATE VIEW v AS SELECT * FROM t",
            "RENAME TABLE v TO w",
            "DROP VIEW w",
            "CREATE TABLE IF NOT EXISTS w (id INT UNSIGNED)",
            Row("INSERT INTO w VALUES (4000000000)", "w"),
        ),
    ),
    Case(
        "a conditional create on a table that is another one by now",
        (
            "CREATE TABLE IF NOT EXISTS t (id INT PRIMARY KEY, n INT, m INT)",
            Row("INSERT INTO t VALUES (1, 2, 3)"),
        ),
        before=(
            "CREATE TABLE t (id INT PRIMARY KEY, n INT, m INT)",
            "ALTER TABLE t RENAME COLUMN n TO m, RENAME COLUMN m TO n",
        ),
    ),
    Case(
        "a rename of nothing",
        (
            "CREATE TABLE b (x INT, y INT)",
            "RENAME TABLE IF EXISTS nope TO b",
            Row("INSERT INTO b VALUES (1, 2)", "b"),
            "ALTER TABLE b ADD z INT FIRST",
            Row("INSERT INTO b VALUES (1, 2, 3)", "b", "z = 1"),
        ),
        engines=M,
    ),
    Case(
        "names begin with blanks that are none",
        (
            "CREATE TABLE t (id INT)",
            "ALTER TABLE t ADD COLUMN \u00a0note INT, ADD COLUMN \u3000x INT",
            Row("INSERT INTO t VALUES (1, 2, 3)"),
        ),
    ),
    Case(
        "a default of several words",
        (
            "CREATE TABLE t (a INT DEFAULT CASE WHEN 1=1 THEN 5 ELSE 6 END, b INT)",
            Row("INSERT INTO t VALUES (1, 2)"),
            ADD,
            Row("INSERT INTO t VALUES (1, 2, 3)", where="z = 1"),
        ),
        engines=M,
    ),
    Case(
        "an engine's options, as the source shows them",
        (Row("INSERT INTO t VALUES (1, 2)"),),
        before=("CREATE TABLE t (a INT, b INT) PAGE_COMPRESSED=1",),
        engines=M,
    ),
    Case(
        "an engine's options in quotes",
        (
            "CREATE TABLE t (a INT, b INT) `PAGE_COMPRESSED`=1",
            Row("INSERT INTO t VALUES (1, 2)"),
            "ALTER TABLE t ADD z INT FIRST, `PAGE_COMPRESSED`=0",
            Row("INSERT INTO t VALUES (1, 2, 3)", where="z = 1"),
        ),
        engines=M,
    ),
    Case(
        "utf8 of another old_mode",
        (
            "SET old_mode = ''",
            "CREATE TABLE t (a VARCHAR(10) CHARACTER SET utf8, b INT)",
            "SET old_mode = DEFAULT",
            Row("INSERT INTO t VALUES ('\u00e9', 2)"),
            ADD,
            Row("INSERT INTO t VALUES (1, '\u00e9', 2)", where="z = 1"),
        ),
        engines=M,
    ),
    Case(
        "a table's default charset",
        (
            "CREATE TABLE t (a VARCHAR(10), b INT) CHARACTER SET DEFAULT",
            Row("INSERT INTO t VALUES ('x', 2)"),
            ADD,
            Row("INSERT INTO t VALUES (1, 'x', 2)", where="z = 1"),
        ),
        engines=M,
    ),
    Case(
        "collations without their charset",
        (
            "CREATE TABLE t (a VARCHAR(9) COLLATE uca1400_ai_ci, b INT) COLLATE uca1400_nopad_ai_ci",
            Row("INSERT INTO t VALUES ('\u00e9', 2)"),
        ),
        engines=M,
    ),
    Case(
        "a key without overlaps",
        (Row("INSERT INTO t VALUES (1, '2020-01-01', '2021-01-01')"),),
        before=(
            "CREATE TABLE t (id INT, a DATE, b DATE, PERIOD FOR p(a, b), UNIQUE (id, p WITHOUT OVERLAPS))",
        ),
        engines=M,
    ),
    Case(
        "an index that a reference makes",
        (
            "CREATE TABLE p (id INT PRIMARY KEY)",
            Row("INSERT INTO p VALUES (1)", "p"),
            "CREATE TABLE c (id INT UNSIGNED PRIMARY KEY, pid INT REFERENCES p (id))",
            Row("INSERT INTO c VALUES (4000000000, 1)", "c"),
            "ALTER TABLE c RENAME INDEX pid TO pidx",
            "ALTER TABLE c DROP FOREIGN KEY c_ibfk_1, DROP INDEX pidx",
            Row("INSERT INTO c VALUES (4000000001, 1)", "c", "id > 4000000000"),
        ),
        engines=M,
    ),
    Case(
        "types by other words",
        (
            "SET SESSION sql_mode = ''",
            "CREATE TABLE t (t.id INT UNSIGNED, v LONG CHARACTER SET utf8mb4, d DECIMAL(19.5))",
            "ALTER TABLE t ADD a BINARY(5) COLLATE utf8mb4_bin, ADD b BLOB COLLATE utf8mb4_bin",
            Row("INSERT INTO t VALUES (4000000000, 'x', 12345, '\u00e9', '\u00e9')"),
            ADD,
            Row("INSERT INTO t VALUES (1, 2, 'y', 3, 'a', 'b')", where="z = 1"),
            "SET SESSION sql_mode = DEFAULT",
        ),
        engines=M,
    ),
    Case(
        "columns that are called as keywords",
        (
            "CREATE TABLE t (`select` INT, `key` INT, `primary` INT)",
            Row("INSERT INTO t VALUES (1, 2, 3)"),
            "ALTER TABLE t ADD `first` INT FIRST, DROP `key`",
            Row("INSERT INTO t VALUES (4, 5, 6)", where="`first` = 4"),
        ),
    ),
    Case(
        "a comment that ends in a slash and a star",
        (
            "/* a */ CREATE /* b /*/ TABLE t (a INT, /*/ c */ b INT)",
            Row("INSERT INTO t VALUES (1, 2)"),
        ),
    ),
    Case(
        "the key's column goes and comes back",
        (
            "CREATE TABLE t (a INT PRIMARY KEY, b INT)",
            "ALTER TABLE t DROP COLUMN a, ADD COLUMN a INT NOT NULL",
            Row("INSERT INTO t VALUES (1, 2)"),
        ),
    ),
    Case(
        "a migration of a table, and another one, when nothing else is read",
        (
            *migrated(1),
            Row("INSERT INTO orders (id) VALUES (1)", "orders"),
            *migrated(2),
            Row("INSERT INTO orders (id) VALUES (2)", "orders", "id = 2"),
            "ALTER TABLE orders ADD INDEX (id)",
            Row("INSERT INTO orders (id) VALUES (3)", "orders", "id = 3"),
        ),
        before=(ORDERS,),
        tables=("orders",),
    ),
    Case(
        "a template that is not read",
        (
            "CREATE TABLE orders_1 LIKE orders_template",
            Row("INSERT INTO orders_1 (id) VALUES (1)", "orders_1"),
            "ALTER TABLE orders_1 ADD x INT FIRST",
            Row("INSERT INTO orders_1 (id) VALUES (2)", "orders_1", "id = 2"),
        ),
        before=("CREATE TABLE orders_template (id INT PRIMARY KEY)",),
        tables=("orders_1",),
    ),
    Case(
        "a temporary table hides another one",
        (
            "CREATE TABLE t (a INT, b INT)",
            "SET SESSION binlog_format = MIXED",
            "CREATE TEMPORARY TABLE t (a INT, b INT)",
            "ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a",
            "ALTER TABLE t ADD c INT FIRST",
            "TRUNCATE TABLE t",
            "DROP TEMPORARY TABLE t",
            "SET SESSION binlog_format = ROW",
            Row("INSERT INTO t VALUES (1, 2)"),
        ),
        engines=M,
    ),
    Case(
        "a table with versions",
        (
            "CREATE TABLE t (x INT WITH SYSTEM VERSIONING, y INT)",
            Row("INSERT INTO t VALUES (1, 2)"),
        ),
        engines=M,
    ),
    Case(
        "long unique keys",
        (
            "CREATE TABLE t (a TEXT UNIQUE, b INT)",
            Row("INSERT INTO t VALUES ('x', 1)"),
            "ALTER TABLE t ADD c BLOB UNIQUE FIRST",
            Row("INSERT INTO t VALUES ('y', 'z', 2)", where="b = 2"),
            "ALTER TABLE t DROP INDEX a",
            Row("INSERT INTO t VALUES ('yy', 'z', 3)", where="b = 3"),
            "ALTER TABLE t MODIFY c VARBINARY(10)",
            Row("INSERT INTO t VALUES ('yyy', 'z', 4)", where="b = 4"),
        ),
        engines=M,
    ),
]
