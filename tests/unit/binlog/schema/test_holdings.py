"""Which names are tables', views' or free after statements, and the record of it."""

from __future__ import annotations

import pytest
from support.ddl.definition_text import MARIADB, MYSQL, cases, played, text_of

from canal_group.binlog.schema.catalog import Catalog
from canal_group.binlog.schema.catalog_entry import NoTable, View
from canal_group.binlog.schema.definition import SourceName, UnknownTable
from canal_group.binlog.schema.statement import ServerVersion, Statement

LATIN1, LATIN1_BIN, UTF8MB4 = 8, 47, 45


def run(made, sql, **session):
    return made.apply(Statement(sql, "app", session.pop("server", MARIADB), **session))


def names(*tables, schema="app"):
    return tuple(SourceName(schema, table) for table in tables)


# ---- names -------------------------------------------------------------------------------------------------

HELD = """
CREATE TABLE t (a INT)
RENAME TABLE IF EXISTS nope TO x, t TO u
    both: t none, u a int, x none
CREATE TABLE t (a INT)
RENAME TABLE nope TO x
    both: t a int, nope none, x unknown
CREATE TABLE t AS SELECT 1
RENAME TABLE t TO u
    both: t none, u unknown
CREATE TABLE t AS SELECT 1
RENAME TABLE IF EXISTS t TO u
    both: t unknown, u unknown
CREATE VIEW v AS SELECT 1
RENAME TABLE v TO w
    both: v none, w view
CREATE VIEW v AS SELECT 1
DROP VIEW v
    both: v none
CREATE VIEW v AS SELECT 1
DROP VIEW IF EXISTS nope, v CASCADE
    both: v none
CREATE VIEW v AS SELECT 1
DROP TABLE IF EXISTS v
    both: v view
CREATE TABLE t (a INT)
DROP VIEW IF EXISTS t
    both: t a int
CREATE TABLE t (a INT)
CREATE VIEW IF NOT EXISTS t AS SELECT 1
    both: t a int
CREATE VIEW IF NOT EXISTS v AS SELECT 1
    both: v view
CREATE TABLE t (a INT)
CREATE OR REPLACE DEFINER=`r`@`%` SQL SECURITY INVOKER VIEW v AS SELECT 1
    both: v view, t a int
CREATE ALGORITHM = MERGE DEFINER = CURRENT_USER VIEW v AS SELECT 1
    both: v view
CREATE TEMPORARY TABLE t (a INT)
    both: t none
CREATE TABLE t (a INT)
DROP TEMPORARY TABLE t
    both: t a int
CREATE SEQUENCE s AS INT
    both: s unknown, t none
CREATE TABLE t (a INT)
CREATE SEQUENCE IF NOT EXISTS t
    both: t a int
CREATE TABLE t (a INT)
DROP SEQUENCE IF EXISTS t
    both: t a int
CREATE SEQUENCE s
DROP SEQUENCE IF EXISTS nope, s
    both: s none
CREATE TABLE u (a INT)
ALTER TABLE u DROP nope, RENAME TO w
    both: u unknown, w unknown
ALTER TABLE u CONVERT PARTITION p TO TABLE w
    both: u unknown, w unknown
ALTER TABLE u CONVERT TABLE w TO PARTITION p VALUES LESS THAN (1)
    both: u unknown, w unknown
CREATE TABLE u (a INT)
ALTER TABLE u FROB, RENAME COLUMN a TO b, RENAME = w
    both: u unknown, w unknown, b none
CREATE TABLE u (a INT)
ALTER TABLE u FROB, RENAME 'x', RENAME INDEX i TO j, RENAME AS w
    both: u unknown, w unknown, j none
CREATE TABLE u (a INT)
CREATE TABLE w (a INT)
CREATE TABLE t (LIKE u
    both: t unknown, u a int, w a int
CREATE TABLE t (a INT)
ALTER TABLE IF EXISTS nope ADD b INT
    both: nope none, t a int
CREATE VIEW v AS SELECT 1
ALTER TABLE IF EXISTS v ADD b INT
    both: v view
CREATE TABLE t (a INT)
DROP INDEX nope.x ON t
    both: t unknown
CREATE TABLE t
    both: t unknown
CREATE TABLE t (a INT) PARTITION BY HASH (a) PARTITIONS 2 AS SELECT 1
    both: t unknown
CREATE TABLE t (a INT) PARTITION BY HASH (a) SELECT 1
    both: t unknown
CREATE TABLE t (a INT) FROB (1, 2) IGNORE SELECT 1
    both: t unknown
CREATE TABLE t (a INT) COMMENT='x' (SELECT 1)
    both: t unknown
CREATE TABLE t (a INT)
CREATE DATABASE o
CREATE TABLE o.t (a INT)
DROP DATABASE IF EXISTS app
    both: o.t a int, t none
CREATE TABLE t (a INT)
DROP INDEX i ON nope
    both: nope unknown, t a int
CREATE TABLE t (a INT)
DROP DATABASE o
    both: t a int
CREATE TABLE o.t (a INT) CHARACTER SET DEFAULT
    both: o.t a int
CREATE TABLE o.t (a CHAR(3) CHARACTER SET latin1)
ALTER TABLE o.t CONVERT TO CHARACTER SET DEFAULT
    mariadb: o.t unknown
CREATE TABLE t (a INT)
CREATE TABLE u (a INT)
RENAME TABLE t TO u2, u TO t FROB
    both: t unknown
"""


@pytest.mark.parametrize(("server", "statements", "expected"), cases(HELD))
def test_names_after_statements(server, statements, expected):
    made = played(*statements, server=server)
    texts = []
    for each in expected.split(", "):
        name = each.split(" ")[0]
        schema, _, table = name.rpartition(".")
        held = made.resolved(SourceName(schema or "app", table))
        texts.append(f"{name} {'view' if isinstance(held, View) else text_of(held)}")
    assert ", ".join(texts) == expected


WITHOUT_ROWS = [
    "CREATE DEFINER=`r`@`%` PROCEDURE p () SELECT 1",
    "CREATE AGGREGATE FUNCTION f RETURNS INT SONAME 'x'",
    "CREATE USER u IDENTIFIED BY 'TABLE'",
    "CREATE ROLE r",
    "CREATE SPATIAL REFERENCE SYSTEM 4120 NAME 'x'",
    "ALTER USER u IDENTIFIED BY 'x'",
    "ALTER DEFINER=r EVENT e DISABLE",
    "ALTER VIEW v AS SELECT 1",
    "DROP FUNCTION IF EXISTS f",
    "DROP USER u",
    "DROP ROLE r",
    "GRANT ALL ON t TO u",
]


@pytest.mark.parametrize("failed", [False, True])
@pytest.mark.parametrize("sql", WITHOUT_ROWS)
def test_a_statement_that_defines_no_table_changes_nothing(sql, failed):
    made = played("CREATE TABLE t (a INT)")
    assert not run(made, sql, failed=failed)
    assert text_of(made.table("app", "t")) == "a int"


@pytest.mark.parametrize(
    "sql",
    [
        "ALTER SEQUENCE s RESTART 5",
        "DROP DATABASE nope",
        "DROP TABLE IF EXISTS nope",
        "RENAME USER u TO t",
        "SET STATEMENT a=1 FOR ANALYZE TABLE t",
        "",
        ";",
        "/* nothing */",
    ],
)
def test_a_statement_that_finds_nothing_to_do_changes_nothing(sql):
    made = played("CREATE TABLE t (a INT)")
    assert not run(made, sql)
    assert text_of(made.table("app", "t")) == "a int"


@pytest.mark.parametrize(
    ("sql", "failed"),
    [
        ("CREATE FROB x", False),
        ("CREATE FROB TABLE t (user INT)", False),
        ("ALTER FROB TABLE t ADD user INT", False),
        ("CREATE TABLE t (a INT) 'no end", False),
        ("ALTER FROB x", False),
        ("DROP FROB x", False),
        ("RENAME FROB x", False),
        ("CREATE TABLE", False),
        ("'CREATE' USER u", False),
        ("`DROP` USER u", False),
        ("FROB", True),
        ("CREATE INDEX i ON t (a)", True),
    ],
)
def test_a_statement_that_may_have_changed_any_table_leaves_none_known(sql, failed):
    assert run(played("CREATE TABLE t (a INT)"), sql, failed=failed).any_unknown


def test_a_failed_statement_leaves_unknown_what_it_names():
    for sql, unknown in [
        ("DROP TABLE IF EXISTS t, u", names("t", "u")),
        ("RENAME TABLE t TO x, u TO y", names("t", "x", "u", "y")),
        ("ALTER TABLE t ADD b INT, RENAME TO z", names("t", "z")),
    ]:
        made = played("CREATE TABLE t (a INT)", "CREATE TABLE u (a INT)", "CREATE TABLE w (a INT)")
        record = run(made, sql, failed=True)
        assert (record.unknown, record.any_unknown) == (unknown, False)
        assert text_of(made.table("app", "w")) == "a int"


def test_what_is_unknown_stays_so_for_the_reason_it_had():
    for sql in (
        "ALTER TABLE t ADD b INT",
        "CREATE INDEX i ON t (a)",
        "DROP INDEX i ON t",
        "CREATE OR REPLACE INDEX i ON t (a)",
    ):
        made = played("CREATE TABLE t AS SELECT 1")
        reason = made.table("app", "t").reason
        record = run(made, sql)
        assert (record.changed, record.unknown) == (names("t"), ())
        assert made.table("app", "t").reason == reason


def test_a_renamed_table_is_unknown_for_the_reason_it_had():
    made = played("CREATE TABLE t AS SELECT 1", "RENAME TABLE t TO u")
    assert "from a query" in made.table("app", "u").reason
    made.set(UnknownTable("app", "t", ""))
    run(made, "RENAME TABLE t TO w, nope TO x")
    for name in ("w", "x"):
        assert "whose definition is not known" in made.table("app", name).reason
    run(made, "RENAME TABLE IF EXISTS u TO y")
    assert "whose definition is not known" in made.table("app", "y").reason


@pytest.mark.parametrize(("kind", "other"), [("TABLE", "view"), ("VIEW", "table")])
def test_a_drop_of_what_is_unknown_may_have_done_nothing(kind, other):
    made = played("CREATE TABLE t AS SELECT 1")
    assert run(made, f"DROP {kind} IF EXISTS t").changed == names("t")
    assert f"has dropped it, unless it is a {other}" in made.table("app", "t").reason


def test_temporary_tables_of_a_session():
    made = played("CREATE TABLE t (a INT)", "CREATE TABLE u (a INT)")
    for sql in (
        "ALTER TABLE t ADD b INT",
        "CREATE INDEX i ON t (a)",
        "DROP INDEX i ON t",
        "RENAME TABLE t TO x",
    ):
        assert not run(made, sql, temporary=True)
    assert run(made, "CREATE TABLE v LIKE u", temporary=True).unknown == names("v")


ON_A_TABLE = (
    "ALTER TABLE t ADD b INT",
    "CREATE INDEX i ON t (a)",
    "DROP INDEX j ON t",
    "RENAME TABLE t TO x",
    "RENAME TABLE u TO y, t TO x",
    "CREATE TABLE v LIKE t",
)


@pytest.mark.parametrize("sql", ON_A_TABLE)
def test_a_call_with_a_temporary_table_changes_other_tables(sql):
    """1. With the number of a definition it is understood. 2. Without one, what it names is asked for."""
    before = ("CREATE TABLE t (a INT, KEY j (a))", "CREATE TABLE u (a INT)")
    plain, numbered, unnumbered = (played(*before) for _ in range(3))
    expected = run(plain, sql)
    assert run(numbered, sql, thread_specific=True, took_effect=True) == expected
    assert numbered.tables() == plain.tables()
    record = run(unnumbered, sql, thread_specific=True)
    assert record.unknown
    assert expected.names <= record.names | {SourceName("app", "u")}
    assert run(unnumbered, "ALTER TABLE none ADD b INT", thread_specific=True).unknown == names("none")


def test_a_view_that_is_there_is_not_created_again():
    made = played("CREATE VIEW v AS SELECT 1")
    assert not run(made, "CREATE OR REPLACE VIEW v AS SELECT 2")
    made = played("CREATE TABLE t (a INT)")
    # MariaDB logs one that has done nothing as if it had taken effect.
    assert not run(made, "CREATE VIEW IF NOT EXISTS t AS SELECT 1", took_effect=True)


def test_the_collation_of_a_table_is_as_far_known_as_its_schemas():
    assert played("CREATE TABLE t (a INT)").table("app", "t").collation == UTF8MB4
    assert played("CREATE TABLE o.t (a INT)").table("o", "t").collation == 0


def test_a_clause_that_renames_a_column_names_no_table():
    made = played("CREATE TABLE t (a INT)")
    assert run(made, "ALTER TABLE t FROB, RENAME COLUMN a TO b, RENAME KEY k TO l").unknown == names("t")


@pytest.mark.parametrize(
    ("version", "columns"),
    [
        ("10.3.39-MariaDB", 1),
        ("10.4.0-MariaDB", 2),
        ("10.5.1-MariaDB", 2),
        ("11.4.2-MariaDB", 2),
        ("11.4.2", 1),
    ],
)
def test_mariadb_hashes_long_keys_from_a_version_on(version, columns):
    made = played("CREATE TABLE t (a TEXT, UNIQUE k (a))", server=ServerVersion.parse(version))
    assert len(made.table("app", "t").logged) == columns


def test_a_sequence_has_the_collation_of_its_schema_if_known():
    assert played("CREATE SEQUENCE s").table("app", "s").collation == UTF8MB4
    assert played("CREATE SEQUENCE o.s").table("o", "s").collation == 0


# ---- schemas -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "schema", "collation"),
    [
        ("ALTER DATABASE CHARACTER SET latin1", "app", LATIN1),
        ("ALTER DATABASE COLLATE = latin1_bin", "app", LATIN1_BIN),
        ("ALTER DATABASE DEFAULT COLLATE latin1_bin", "app", LATIN1_BIN),
        ("ALTER DATABASE app READ ONLY = 1 CHARSET latin1", "app", LATIN1),
        ("ALTER DATABASE `comment` CHARSET latin1", "comment", LATIN1),
        ("ALTER SCHEMA app COLLATE martian_ci", "app", None),
        ("CREATE DATABASE o COMMENT 'x' CHARSET latin1", "o", LATIN1),
        ("CREATE DATABASE o CHARACTER SET DEFAULT", "o", UTF8MB4),
        ("CREATE DATABASE o COLLATE martian_ci", "o", None),
        ("CREATE DATABASE IF NOT EXISTS app CHARSET latin1", "app", UTF8MB4),
        ("CREATE DATABASE IF NOT EXISTS o CHARSET latin1", "o", LATIN1),
        ("CREATE OR REPLACE DATABASE app CHARSET latin1", "app", LATIN1),
        ("DROP DATABASE app", "app", None),
    ],
)
def test_the_collation_of_a_schema(sql, schema, collation):
    assert played(sql).schema_collation(schema) == collation


def test_a_schema_that_took_effect_was_created():
    made = played()
    record = run(made, "CREATE DATABASE IF NOT EXISTS app CHARSET latin1", took_effect=True)
    assert (made.schema_collation("app"), record.schemas) == (LATIN1, ("app",))
    assert not run(made, "ALTER DATABASE app CHARSET latin1")
    assert not run(made, "CREATE DATABASE IF NOT EXISTS app CHARSET latin2")


def test_a_schema_goes_with_its_tables_only():
    made = played("CREATE DATABASE o", "CREATE TABLE o.t (a INT)", "CREATE TABLE t (a INT)")
    record = run(made, "DROP DATABASE o")
    assert (record.gone, record.dropped) == (("o",), names("t", schema="o"))
    assert made.names() == [*names("t")]
    assert not run(made, "DROP DATABASE o")
    record = run(made, "CREATE OR REPLACE DATABASE app")
    assert (record.gone, made.tables()) == (("app",), [])
    assert run(made, "CREATE DATABASE o").gone == ()
    assert "unsure" not in made.schemas_to_json()
    assert made.held() == []
    made.forget_all("why")
    assert run(made, "CREATE DATABASE o2").gone == ()


def test_a_forgotten_schema_leaves_others_known():
    made = played("CREATE DATABASE o", "CREATE TABLE o.t (a INT)", "CREATE TABLE t (a INT)")
    made.forget_schema("o", "why")
    assert made.table("o", "t") == UnknownTable("o", "t", "why")
    assert made.table("o", "never") == UnknownTable("o", "never", "why")
    assert (made.schema_collation("o"), made.schema_collation("app")) == (None, UTF8MB4)
    assert text_of(made.table("app", "t")) == "a int"
    assert run(made, "DROP TABLE o.x").dropped == names("x", schema="o")
    assert made.resolved(SourceName("o", "x")) is None
    assert NoTable("o", "x") in made.held()
    made.forget_all("since")
    assert (made.table("o", "x").reason, made.schema_collation("app")) == ("since", None)


def test_what_is_dropped_of_what_is_unknown_is_free():
    made = played("CREATE TABLE t (a INT)")
    made.forget_all("why")
    copy = made.copy()
    assert copy.table("app", "x").reason == "why"
    record = run(made, "DROP DATABASE app")
    assert (record.gone, made.table("app", "x")) == (("app",), None)
    assert made.table("o", "x").reason == "why"
    assert run(made, "CREATE DATABASE IF NOT EXISTS o CHARSET latin1").conditional == (SourceName("o", ""),)
    assert (made.schema_collation("o"), made.table("o", "x").reason) == (None, "why")
    loaded = Catalog(UTF8MB4)
    loaded.load_schemas(copy.schemas_to_json())
    assert loaded.table("app", "x").reason == "why"


def test_what_is_held_is_in_the_order_of_names():
    made = played("CREATE TABLE u (a INT)", "CREATE VIEW a AS SELECT 1", "CREATE TABLE t (a INT)")
    assert [each.name.table for each in made.held()] == ["a", "t", "u"]
    assert [each.table for each in made.names()] == ["t", "u"]
    assert [each.table for each in made.tables()] == ["t", "u"]
    assert Catalog(UTF8MB4).schemas_to_json() == {}
    run(made, "DROP TABLE t")
    assert [each.name.table for each in made.held()] == ["a", "u"]


@pytest.mark.parametrize("server", [MARIADB, MYSQL])
def test_a_hash_is_mariadbs(server):
    table = played("CREATE TABLE t (a TEXT, UNIQUE k (a(4000)))", server=server).table("app", "t")
    assert [each.name for each in table.logged[1:]] == ["DB_ROW_HASH_1"] * server.mariadb
    assert all(each.unsigned for each in table.logged[1:])
