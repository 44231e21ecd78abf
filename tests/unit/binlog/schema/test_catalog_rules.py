"""What statements do to a catalog. That the rules are the servers', the integration tests say."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from canal_group.binlog.schema.catalog import Catalog
from canal_group.binlog.schema.catalog_entry import ShownTable, entry_from_json
from canal_group.binlog.schema.definition import SourceName, TableDefinition, UnknownTable
from canal_group.binlog.schema.statement import ServerVersion, SqlMode, Statement

MYSQL = ServerVersion.parse("9.7.4")
MARIADB = ServerVersion.parse("10.11.6-MariaDB")
LATIN1, UTF8MB4_GENERAL, UTF8MB4_0900, UTF8MB4_BIN = 8, 45, 255, 46
T = SourceName("app", "t")


def catalog(**options):
    made = Catalog(UTF8MB4_0900, **options)
    made.set_schema("app", UTF8MB4_0900)
    return made


def applied(made, *statements, server=MYSQL, mode=SqlMode.STRICT_TRANS_TABLES, **options):
    for sql in statements:
        last = made.apply(Statement(sql, "app", server, mode, **options))
    return last


def defined(*statements, table="t", **options):
    made = catalog()
    applied(made, *statements, **options)
    definition = made.table("app", table)
    assert isinstance(definition, TableDefinition), definition
    return definition


def summary(table):
    return {column.name: column.type for column in table.columns}


# ---- tables come, go and are renamed -----------------------------------------------------------------------


def test_a_record_says_what_a_statement_did():
    made = catalog()
    assert applied(made, "CREATE TABLE t (a INT)").created == (T,)
    assert applied(made, "ALTER TABLE t ADD b INT").changed == (T,)
    assert not applied(made, "ALTER TABLE t ENGINE=InnoDB")
    assert not applied(made, "TRUNCATE TABLE t", "GRANT ALL ON *.* TO u", "CREATE TRIGGER x AFTER")
    assert applied(made, "CREATE VIEW v AS SELECT 1").created == (SourceName("app", "v"),)
    assert applied(made, "RENAME TABLE t TO u").renamed == ((T, SourceName("app", "u")),)
    assert applied(made, "DROP TABLE u, missing").dropped == (SourceName("app", "u"),)
    assert made.tables() == []


def test_a_ghost_table_replaces_its_original():
    """As gh-ost ends: both renames are one statement. As a swap by hand: three names go round."""
    made = catalog()
    applied(made, "CREATE TABLE t (a INT)", "CREATE TABLE _t_gho LIKE t", "ALTER TABLE _t_gho ADD b INT")
    applied(made, "RENAME /* gh-ost */ TABLE `app`.`t` TO `app`.`_t_del`, `app`.`_t_gho` TO `app`.`t`")
    assert summary(made.table("app", "t")) == {"a": "int", "b": "int"}
    applied(made, "RENAME TABLE t TO x, _t_del TO t, x TO _t_del")
    assert summary(made.table("app", "t")) == {"a": "int"}
    assert summary(made.table("app", "_t_del")) == {"a": "int", "b": "int"}


def test_a_schema_takes_its_tables_along():
    made = catalog()
    applied(made, "CREATE DATABASE o CHARSET latin1", "CREATE TABLE o.t (a TEXT)", "DROP DATABASE o")
    assert made.table("o", "t") is None
    assert made.schema_collation("o") is None


def test_names_are_compared_as_the_server_compares_them():
    made = catalog(lower_case_table_names=1)
    applied(made, "CREATE TABLE T (a INT)")
    assert made.table("APP", "t") is not None
    exact = catalog()
    applied(exact, "CREATE TABLE T (a INT)")
    assert exact.table("app", "t") is None


def test_a_statement_that_failed_is_not_believed():
    made = catalog()
    applied(made, "CREATE TABLE t (a INT)", "CREATE TABLE u (a INT)")
    record = applied(made, "CREATE OR REPLACE TABLE t (b INT, b INT)", server=MARIADB, failed=True)
    assert record.dropped == (T,)
    record = applied(made, "DROP TABLE u, v", failed=True)
    assert SourceName("app", "u") in record.unknown


# ---- nothing is guessed ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sql",
    [
        "ALTER TABLE t FROBNICATE",
        "ALTER TABLE t ADD b HYPERINT",
        "ALTER TABLE t DROP missing",
        "ALTER TABLE t ADD a INT",
        "ALTER TABLE t ADD b INT AFTER missing",
        "ALTER TABLE t ADD b TEXT COLLATE martian_ci",
        "ALTER TABLE t CONVERT TO CHARACTER SET latin1, CHARSET latin2",
        "CREATE TABLE t (a INT) AS SELECT 1",
        "CREATE TABLE t LIKE missing",
        "CREATE TABLE t (a INT, a INT)",
        "CREATE TABLE t (a INT",
        "CREATE INDEX i ON t (missing)",
    ],
)
def test_what_is_not_understood_makes_its_table_unknown(sql):
    made = catalog()
    applied(made, "CREATE TABLE t (a INT)", "CREATE TABLE other (a INT)")
    record = applied(made, sql)
    assert (record.unknown, record.any_unknown) == ((T,), False)
    definition = made.table("app", "t")
    assert isinstance(definition, UnknownTable)
    assert definition.reason.startswith(" ".join(sql.split()[:2]))
    for word in ("FROBNICATE", "(a INT", "SELECT", "latin2"):
        assert word not in definition.reason, "the text of a statement is not quoted"
    applied(made, "ALTER TABLE t ADD c INT")
    assert isinstance(made.table("app", "t"), UnknownTable), "it stays so"
    assert isinstance(made.table("app", "other"), TableDefinition)
    applied(made, "DROP TABLE t", "CREATE TABLE t (d INT)")
    assert summary(made.table("app", "t")) == {"d": "int"}


def test_the_new_name_is_unknown_too():
    made = catalog()
    applied(made, "CREATE TABLE t (a INT)")
    record = applied(made, "ALTER TABLE t FROBNICATE, RENAME TO u")
    assert record.unknown == (T, SourceName("app", "u"))


@pytest.mark.parametrize(
    "sql", ["FROBNICATE t", "DROP TABLE t; DROP TABLE u", "RENAME TABLE t", "IMPORT TABLE FROM 'x'"]
)
def test_a_statement_that_may_change_any_table_makes_all_unknown(sql):
    made = catalog()
    applied(made, "CREATE TABLE t (a INT)")
    assert applied(made, sql).any_unknown
    assert isinstance(made.table("app", "t"), UnknownTable)
    assert isinstance(made.table("app", "never_seen"), UnknownTable)


def test_an_unknown_schema_does_not_lend_its_collation():
    made = Catalog(UTF8MB4_0900)
    applied(made, "CREATE TABLE o.t (a INT)", "CREATE TABLE o.u (a TEXT)")
    assert isinstance(made.table("o", "t"), TableDefinition)
    assert isinstance(made.table("o", "u"), UnknownTable)


@pytest.mark.parametrize(
    ("kind", "mode", "type_"),
    [
        ("DATE", SqlMode.ORACLE, "datetime"),
        ("NUMBER", SqlMode.ORACLE, "double"),
        ("NUMBER(5)", SqlMode.ORACLE, "decimal"),
        ("VARCHAR2(5)", SqlMode.ORACLE, "varchar"),
        ("RAW(5)", SqlMode.ORACLE, "varbinary"),
        ("CLOB", SqlMode.ORACLE, "longtext"),
        ("BLOB", SqlMode.ORACLE, "longblob"),
        ("BLOB(5)", SqlMode.ORACLE, "tinyblob"),
        ("mariadb_schema.date", SqlMode.ORACLE, "date"),
        ("TIMESTAMP(3)", SqlMode.MAXDB, "datetime"),
        ("mariadb_schema.timestamp", SqlMode.MAXDB, "timestamp"),
        ("maxdb_schema.timestamp", 0, "datetime"),
        ("oracle_schema.date", 0, "datetime"),
        ("mariadb_schema.varchar(5)", 0, "varchar"),
    ],
)
def test_types_of_other_databases(kind, mode, type_):
    """As MariaDB 10.11 shows these columns."""
    table = defined(f"CREATE TABLE t (a {kind})", server=MARIADB, mode=mode)
    assert summary(table) == {"a": type_}


WORDS = [
    "CREATE",
    "TABLE",
    "ALTER",
    "DROP",
    "RENAME",
    "ADD",
    "COLUMN",
    "t",
    "a",
    "(",
    ")",
    ",",
    ";",
    ".",
    "'",
    "`",
    '"',
    "TO",
    "INT",
    "TEXT",
    "ENUM",
    "PRIMARY",
    "KEY",
    "UNIQUE",
    "DEFAULT",
    "/*!",
    "*/",
    "5",
    "CHARACTER",
    "SET",
    "COLLATE",
    "AS",
    "SELECT",
    "LIKE",
    "INDEX",
    "ON",
    "CONVERT",
    "PARTITION",
    "BY",
    "FIRST",
    "AFTER",
    "NULL",
    "NOT",
    "IF",
    "EXISTS",
    "DATABASE",
    "x'4'",
]


@given(st.lists(st.sampled_from(WORDS), max_size=14), st.booleans())
def test_no_text_makes_a_catalog_fail(words, mariadb):
    made = catalog()
    applied(made, "CREATE TABLE t (a INT)")
    applied(made, " ".join(words), server=MARIADB if mariadb else MYSQL)
    json.dumps([each.to_json() for each in made.held()])


# ---- columns, charsets, keys -------------------------------------------------------------------------------


def test_charsets_are_inherited_from_table_schema_and_server():
    made = catalog()
    applied(made, "CREATE DATABASE o", "CREATE TABLE o.t (a TEXT)", server_collation=LATIN1)
    assert made.table("o", "t").columns[0].collation == LATIN1
    applied(made, "ALTER DATABASE o CHARSET utf8mb4", "CREATE TABLE o.u (a TEXT, b TEXT COLLATE utf8mb4_bin)")
    assert [column.collation for column in made.table("o", "u").columns] == [UTF8MB4_0900, UTF8MB4_BIN]


@pytest.mark.parametrize(
    ("version", "options", "expected"),
    [
        ("8.0.36", {}, UTF8MB4_0900),
        ("8.0.36", {"default_collations": {"utf8mb4": UTF8MB4_GENERAL}}, UTF8MB4_GENERAL),
        ("5.7.44", {}, UTF8MB4_GENERAL),
        ("10.11.6-MariaDB", {}, UTF8MB4_GENERAL),
        ("11.8.1-MariaDB", {}, 2304),
        ("11.8.1-MariaDB", {"default_collations": {"latin1": 47}}, UTF8MB4_GENERAL),
    ],
)
def test_a_charset_means_its_default_collation_of_the_version(version, options, expected):
    table = defined("CREATE TABLE t (a TEXT CHARSET utf8mb4)", server=ServerVersion.parse(version), **options)
    assert table.columns[0].collation == expected


def test_a_converted_text_keeps_room_for_its_characters():
    table = defined(
        "CREATE TABLE t (a TINYTEXT, b TEXT, c VARCHAR(9), d BLOB, e ENUM('x')) CHARSET latin1",
        "ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4",
    )
    assert summary(table) == {"a": "text", "b": "mediumtext", "c": "varchar", "d": "blob", "e": "enum"}
    assert table.collation == UTF8MB4_0900


def test_a_varchar_too_long_after_a_conversion_becomes_a_text():
    for charset, mysql, mariadb in [
        ("ucs2", "text", "mediumtext"),
        ("utf8mb3", "text", "mediumtext"),
        ("latin1", "mediumtext", "mediumtext"),
    ]:
        for server, expected in [(MYSQL, mysql), (MARIADB, mariadb)]:
            table = defined(
                f"CREATE TABLE t (a VARCHAR(20000) CHARACTER SET {charset})",
                "ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4",
                server=server,
                mode=SqlMode(0),
            )
            assert summary(table) == {"a": expected}, (charset, server)


def test_a_varchar_that_is_too_long_becomes_a_text_without_strict_mode():
    table = defined("CREATE TABLE t (a VARCHAR(70000) CHARSET latin1)", mode=0)
    assert summary(table) == {"a": "mediumtext"}


@pytest.mark.parametrize(("explicit", "nullable"), [(True, True), (False, False)])
def test_a_timestamp_may_be_null_by_the_sessions_variable(explicit, nullable):
    table = defined("CREATE TABLE t (a TIMESTAMP)", explicit_defaults_for_timestamp=explicit)
    assert table.columns[0].nullable is nullable


def test_clauses_of_one_statement_are_applied_together():
    table = defined(
        "CREATE TABLE t (a INT PRIMARY KEY, b INT, c INT, UNIQUE (b, c))",
        "ALTER TABLE t CHANGE a z BIGINT UNSIGNED, DROP c, ADD d INT FIRST, ADD (e INT, f INT),"
        " MODIFY b INT AFTER z",
    )
    assert [column.name for column in table.columns] == ["d", "z", "b", "e", "f"]
    assert table.primary_key == ("z",)
    assert [key.columns for key in table.keys] == [("b",)]


def test_names_may_be_swapped_in_one_statement():
    table = defined(
        "CREATE TABLE t (a INT, b TEXT)", "ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a"
    )
    assert summary(table) == {"b": "int", "a": "text"}


def test_unique_keys_of_virtual_columns_come_after_others_like_them():
    columns = "v INT AS (1) VIRTUAL, w INT AS (1) VIRTUAL NOT NULL, a INT, n INT NOT NULL, x TEXT"
    for keys, order in [
        ("UNIQUE kv (v), UNIQUE ka (a)", ["ka", "kv"]),
        ("UNIQUE kw (w), UNIQUE kn (n)", ["kn", "kw"]),
        ("UNIQUE ka (a), UNIQUE kw (w)", ["kw", "ka"]),
        ("UNIQUE kx (x(3)), UNIQUE kv (v)", ["kv", "kx"]),
        ("UNIQUE kv (a, v), UNIQUE ka (a)", ["ka", "kv"]),
    ]:
        assert [key.name for key in defined(f"CREATE TABLE t ({columns}, {keys})").keys] == order, keys


def test_mysqls_keys_keep_the_bytes_of_an_enum_that_becomes_a_string():
    for column, prefixes in [
        ("SET('a', 'b') CHARSET latin1", (1,)),
        ("ENUM('a', 'b') CHARSET latin1", (1,)),
        ("ENUM('a', 'b') CHARSET utf8mb4", ()),
        ("CHAR(3) CHARSET latin1", ()),
    ]:
        table = defined(
            f"CREATE TABLE t (a {column} NOT NULL, UNIQUE k (a))",
            "ALTER TABLE t MODIFY a VARCHAR(9) CHARSET latin1 NOT NULL",
        )
        assert [key.prefixes for key in table.keys] == [prefixes], column


def test_mariadb_keeps_a_hash_if_an_alter_has_nothing_to_do():
    made = "CREATE TABLE t (a VARCHAR(5), b INT, CONSTRAINT cc UNIQUE (a(3)) USING HASH, KEY kb (b))"
    for change, kept in [
        ("ALTER TABLE t ADD IF NOT EXISTS a DATE", True),
        ("ALTER IGNORE TABLE t DROP COLUMN IF EXISTS nope, ADD IF NOT EXISTS (a INT, b INT)", True),
        ("ALTER TABLE t ADD INDEX IF NOT EXISTS kb (b)", True),
        ("ALTER TABLE t DROP INDEX IF EXISTS nope", True),
        ("ALTER TABLE t MODIFY IF EXISTS nope INT", True),
        ("CREATE INDEX IF NOT EXISTS kb ON t (b)", True),
        ("DROP INDEX IF EXISTS nope ON t", True),
        ("ALTER TABLE t", True),
        ("ALTER TABLE t ADD IF NOT EXISTS a DATE FIRST", False),
        ("ALTER TABLE t FORCE", False),
        ("ALTER TABLE t COMMENT 'y'", False),
        ("ALTER TABLE t RENAME COLUMN IF EXISTS nope TO x", False),
        ("ALTER TABLE t DROP COLUMN IF EXISTS nope, FORCE", False),
        ("ALTER TABLE t ADD IF NOT EXISTS c INT", False),
    ]:
        (key, *_) = [key for key in defined(made, change, server=MARIADB).keys if key.name == "cc"]
        assert key.hashed == kept, change


def test_partitions_change_no_definition():
    made = catalog()
    applied(
        made, "CREATE TABLE t (a INT) /*!50100 PARTITION BY RANGE (a) (PARTITION p VALUES LESS THAN (5)) */"
    )
    before = made.table("app", "t")
    for clause in (
        "ADD PARTITION (PARTITION q VALUES LESS THAN MAXVALUE)",
        "REORGANIZE PARTITION p INTO (PARTITION r VALUES LESS THAN (3))",
        "COALESCE PARTITION 1",
        "DROP PARTITION p",
        "REMOVE PARTITIONING",
    ):
        assert not applied(made, f"ALTER TABLE t {clause}")
    assert made.table("app", "t") == before


def test_a_partition_of_mariadb_becomes_a_table():
    made = catalog()
    applied(made, "CREATE TABLE t (a INT)", "ALTER TABLE t CONVERT PARTITION p TO TABLE u", server=MARIADB)
    assert summary(made.table("app", "u")) == {"a": "int"}
    applied(made, "ALTER TABLE t CONVERT TABLE u TO PARTITION p VALUES LESS THAN (5)", server=MARIADB)
    assert made.table("app", "u") is None


def test_settings_of_one_statement_are_skipped():
    table = defined(
        "CREATE TABLE t (a INT)",
        "SET STATEMENT max_statement_time=1 FOR ALTER TABLE t ADD b INT",
        server=MARIADB,
    )
    assert summary(table) == {"a": "int", "b": "int"}


def test_a_key_of_a_text_makes_mariadb_log_a_hash():
    table = defined("CREATE TABLE t (a INT NOT NULL, b TEXT, UNIQUE (b), UNIQUE (a))", server=MARIADB)
    assert [column.name for column in table.logged] == ["a", "b", "DB_ROW_HASH_1"]
    assert table.row_key == ("a",)


# ---- what is kept ------------------------------------------------------------------------------------------


def test_json_keeps_what_is_held():
    made = catalog()
    applied(
        made, "CREATE TABLE t (a ENUM('x', 'é'))", "CREATE TABLE u AS SELECT 1", "CREATE VIEW v AS SELECT 1"
    )
    made.set(ShownTable("app", "w", "CREATE TABLE `w` (b INT)", MYSQL))
    made.forget_schema("o", "why")
    applied(made, "DROP TABLE o.gone")
    again = Catalog(UTF8MB4_0900)
    again.load_schemas(json.loads(json.dumps(made.schemas_to_json())))
    for each in made.held():
        again.set(entry_from_json(json.loads(json.dumps(each.to_json()))))
    assert again.tables() == made.tables()
    assert list(again.held()) == list(made.held())
    for catalogue in (made, again):
        assert isinstance(catalogue.table("o", "x"), UnknownTable)
        assert catalogue.table("o", "gone") is None
        assert catalogue.schema_collation("app") == UTF8MB4_0900


def test_a_table_that_was_shown_is_read_when_it_is_needed():
    made = catalog()
    made.set(ShownTable("app", "t", "CREATE TABLE `t` (a INT)", MYSQL))
    made.set(ShownTable("app", "u", "CREATE TABLE `u` (a HYPERINT)", MYSQL))
    applied(made, "ALTER TABLE t ADD b INT", "RENAME TABLE t TO t2")
    assert summary(made.table("app", "t2")) == {"a": "int", "b": "int"}
    assert "HYPERINT" in made.table("app", "u").reason
    assert made.names() == [SourceName("app", "t2"), SourceName("app", "u")]


def test_show_reads_a_definition_without_holding_it():
    made = catalog()
    text = "CREATE TABLE `t` (\n  `a` int DEFAULT NULL /*!80023 INVISIBLE */\n) DEFAULT CHARSET=latin1"
    table = made.show(Statement(text, "app", MYSQL))
    assert (summary(table), table.collation, made.tables()) == ({"a": "int"}, LATIN1, [])
    with pytest.raises(ValueError, match="CREATE TABLE should come"):
        made.show(Statement("CREATE VIEW v AS SELECT 1", "app", MYSQL))


@pytest.mark.parametrize(
    ("clauses", "order"),
    [
        ("ADD c INT AFTER k, MODIFY k INT FIRST", "k id c v"),
        ("ADD c INT AFTER k, ADD d INT, MODIFY k BIGINT AFTER v", "id c v k d"),
        ("ADD c INT AFTER k, MODIFY k BIGINT AFTER c", "id c k v"),
        ("ADD c INT AFTER kk, CHANGE k kk INT AFTER v", "id c v kk"),
        ("MODIFY v INT AFTER k, MODIFY k INT AFTER id", "id k v"),
        ("MODIFY k INT AFTER v, MODIFY v INT FIRST", "v id k"),
    ],
)
def test_a_column_that_moves_has_its_old_position_for_the_clauses_before(clauses, order):
    """The orders are those of MariaDB 10.11 and MySQL 9.7."""
    catalog = Catalog(45)
    catalog.set_schema("app", 45)
    for sql in ("CREATE TABLE t (id INT, k INT, v INT)", f"ALTER TABLE t {clauses}"):
        catalog.apply(Statement(sql, "app", ServerVersion.parse("10.11.6-MariaDB")))
    assert [column.name for column in catalog.table("app", "t").columns] == order.split()


def test_keys_that_a_change_makes_whole_keep_their_order():
    """MariaDB sorts a hashed key last; the first one is what table maps name."""
    table = defined(
        "CREATE TABLE t (a TEXT, b INT NOT NULL, UNIQUE z (a(3), b), UNIQUE c (a, b))",
        "ALTER TABLE t MODIFY a VARCHAR(2) NOT NULL",
        server=MARIADB,
    )
    assert [key.name for key in table.keys] == ["z", "c"]
