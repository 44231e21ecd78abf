"""What has a meaning for rows, and what is passed over. That the servers do so, the integration tests say."""

from __future__ import annotations

import pytest

from canal_group.binlog.schema.catalog import Catalog
from canal_group.binlog.schema.definition import TableDefinition, UnknownTable
from canal_group.binlog.schema.names import folded
from canal_group.binlog.schema.statement import ServerVersion, SqlMode, Statement

MYSQL = ServerVersion.parse("9.7.4")
MARIADB = ServerVersion.parse("10.11.6-MariaDB")
LATIN1, LATIN1_BIN, UTF8MB3, UTF8MB4, UTF8MB4_BIN, UTF8MB4_0900 = 8, 47, 33, 45, 46, 255
UCA1400_UTF8MB3, UCA1400_UTF8MB4 = 2048, 2304


def applied(*statements, server=MARIADB, mode=0, collation=UTF8MB4, **session):
    made = Catalog(collation)
    made.set_schema("app", collation)
    for sql in statements:
        made.apply(Statement(sql, "app", server, mode, **session))
    return made.table("app", "t")


def defined(*statements, **options):
    table = applied(*statements, **options)
    assert isinstance(table, TableDefinition), table
    return table


def columns(*statements, **options):
    return {column.name: column for column in defined(*statements, **options).columns}


def names(*statements, **options):
    return list(columns(*statements, **options))


def shown(text, server=MARIADB):
    return Catalog(UTF8MB4).show(Statement(text, "app", server))


# ---- what is passed over -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "tail",
    [
        "`PAGE_COMPRESSED`='1' `ENCRYPTED`='NO'",
        "ENGINE InnoDB, FROBNICATE FAST, MAX_ROWS 5",
        "FROBNICATE=(a, b) COMMENT='x) SELECT 1'",
        "STATS_SAMPLE_PAGES DEFAULT",
        "PACK_KEYS DEFAULT COMMENT 'x'",
        "FROBNICATE (x, y)",
        "PARTITION BY FROBNICATION (a) (PARTITION p0 VALUES OF (1, 2) FAST, PARTITION p1)",
    ],
)
def test_an_option_of_a_new_table_is_passed_over(tail):
    assert names(f"CREATE TABLE t (a INT, b INT) {tail}") == ["a", "b"]


@pytest.mark.parametrize(
    ("sql", "noted"),
    [
        ("CREATE TABLE t (a INT) ENGINE=InnoDB `page_compressed`=1 COMMENT 'x' ROW_FORMAT DYNAMIC", ()),
        ("CREATE TABLE t (a INT) PARTITION BY HASH (a) PARTITIONS 4", ()),
        ("CREATE TABLE t (a INT) UNION (b, c), DATA DIRECTORY '/x' CHARSET utf8mb4", ()),
        ("CREATE TABLE t (a INT, KEY (a) USING BTREE KEY_BLOCK_SIZE 8 COMMENT 'x' INVISIBLE) MAX_ROWS 1", ()),
        ("CREATE TABLE t (a TEXT, FULLTEXT KEY (a) WITH PARSER ngram)", ()),
        ("CREATE TABLE t (a INT) FROBNICATE=(x, y), SHINY 'secret'", ("FROBNICATE", "SHINY")),
        ("CREATE TABLE t (a INT COMMENT 'x' shiny = 'secret', KEY (a) FROBNICATE)", ("SHINY", "FROBNICATE")),
        ("ALTER TABLE t shiny = 'secret', ADD KEY (a) FROBNICATE", ("SHINY", "FROBNICATE")),
        (
            f"CREATE TABLE t (a INT) {' '.join(f'F{i}=1' for i in range(9))}",
            tuple(f"F{i}" for i in range(8)),
        ),
    ],
)
def test_what_is_passed_over_and_not_known_is_noted(sql, noted):
    made = Catalog(UTF8MB4)
    made.set_schema("app", UTF8MB4)
    made.apply(Statement("CREATE TABLE t (a INT)", "app", MARIADB))
    assert made.apply(Statement(sql, "app", MARIADB)).passed_over == noted
    assert isinstance(made.table("app", "t"), TableDefinition)


@pytest.mark.parametrize(
    "key",
    [
        "KEY k (b) FROBNICATE FAST",
        "KEY k (b FAST (1, 2))",
        "FULLTEXT KEY k (b) WITH PARSER x FAST='1'",
        "CONSTRAINT c CHECK (a > 1) FROBNICATED",
        "CONSTRAINT c FOREIGN KEY (b) REFERENCES p (x) ON FROBNICATION (SET a, b)",
        "UNIQUE KEY k (b) FROBNICATE = (1, 2)",
    ],
)
def test_what_follows_a_key_is_passed_over(key):
    assert names(f"CREATE TABLE t (a INT, {key}, b INT)") == ["a", "b"]
    assert names("CREATE TABLE t (a INT, b INT)", f"ALTER TABLE t ADD {key}, ADD c INT") == ["a", "b", "c"]


@pytest.mark.parametrize(
    "value",
    [
        "CASE WHEN a IS NOT NULL THEN CASE 1 WHEN 1 THEN NULL END ELSE 2 END",
        "@@sql_mode",
        "@v:=1",
        "@@global.key",
        "_latin1'x'",
        "DATE '2020-01-01'",
        "NEXT VALUE FOR s",
        "frobnicated(1, (2))",
        "'a' 'b'",
        "-(1)",
        "1 + 2 * 3",
        "app.s.nextval",
        "NULL",
    ],
)
def test_a_default_is_passed_over(value):
    by_name = columns(
        f"CREATE TABLE t (a INT DEFAULT {value} NOT NULL, b INT DEFAULT {value})",
        f"ALTER TABLE t ALTER a SET DEFAULT {value}, ADD c INT DEFAULT {value} FIRST",
    )
    assert list(by_name) == ["c", "a", "b"]
    assert [column.nullable for column in by_name.values()] == [True, False, True]


@pytest.mark.parametrize("clause", ["DROP INDEX missing", "RENAME INDEX missing TO other", "DROP KEY fk_2"])
def test_an_index_that_is_not_known_is_not_unique(clause):
    """It is one that the server has made, such as that of a foreign key."""
    assert names("CREATE TABLE t (a INT UNIQUE, b INT)", f"ALTER TABLE t {clause}, ADD c INT") == [
        "a",
        "b",
        "c",
    ]


@pytest.mark.parametrize("clause", ["DROP INDEX a_2", "RENAME INDEX A_3 TO other", "DROP INDEX a"])
def test_an_index_may_be_unique_by_the_name_the_server_gave_it(clause):
    table = applied("CREATE TABLE t (a INT, b INT, KEY a_4 (b), UNIQUE a_7 (a))", f"ALTER TABLE t {clause}")
    assert isinstance(table, UnknownTable)
    assert "no index" in table.reason


# ---- columns -----------------------------------------------------------------------------------------------


def test_the_last_word_about_null_counts():
    by_name = columns(
        "CREATE TABLE t (a INT AUTO_INCREMENT NULL UNIQUE, b INT NULL NOT NULL, c INT NOT NULL NULL,"
        " d INT SERIAL DEFAULT VALUE NULL, e INT NULL AUTO_INCREMENT)"
    )
    assert [column.nullable for column in by_name.values()] == [True, False, True, True, False]


@pytest.mark.parametrize(
    ("attributes", "nullable"),
    [
        ("AUTO_INCREMENT COMMENT 'x'", True),
        ("AUTO_INCREMENT NOT NULL", False),
        ("`FROB`='x' NOT NULL", False),
        ("FROB=IGNORE NOT NULL", False),
        ("NOT SECONDARY NOT NULL", False),
        ("WITHOUT SYSTEM VERSIONING NOT NULL", False),
        ("COMPRESSED=zlib NOT NULL", False),
        ("REFERENCES p MATCH SIMPLE ON DELETE CASCADE NOT NULL", False),
    ],
)
def test_an_attribute_does_not_end_the_others(attributes, nullable):
    table = shown(f"CREATE TABLE `t` (`a` int {attributes}, `b` int) FROB=TABLE")
    assert [column.nullable for column in table.columns] == [nullable, True]


@pytest.mark.parametrize(
    ("element", "expected"),
    [
        ("VECTOR INDEX (a)", ["a"]),
        ("VECTOR KEY k (a)", ["a"]),
        ("VECTOR (a) M=6 DISTANCE=cosine", ["a"]),
        ("VECTOR INT", ["a", "VECTOR"]),
    ],
)
def test_a_column_may_be_called_vector_as_an_index_begins(element, expected):
    assert names(f"CREATE TABLE t (a VECTOR(3) NOT NULL, {element})") == expected


def test_words_of_old_servers_before_an_index_are_passed_over():
    for word in ("ONLINE", "OFFLINE"):
        table = defined(
            "CREATE TABLE t (a INT, b INT, UNIQUE u (a))",
            f"CREATE {word} UNIQUE INDEX v ON t (b)",
            f"DROP {word} INDEX u ON t",
            server=ServerVersion.parse("5.5.62"),
        )
        assert [key.name for key in table.keys] == ["v"]


def test_a_name_of_other_bytes_than_characters_is_not_guessed():
    assert isinstance(applied("CREATE TABLE t (`a\udcff` INT)", client_collation=UTF8MB4), UnknownTable)


def test_a_versioning_period_is_not_an_application_time_period():
    sql = "a TIMESTAMP(6) AS ROW START, b TIMESTAMP(6) AS ROW END, PERIOD FOR SYSTEM_TIME (a, b)"
    assert defined(f"CREATE TABLE t (id INT, {sql}) WITH SYSTEM VERSIONING").period == ()


def test_show_create_table_always_says_not_null():
    table = shown(
        "CREATE TABLE `t` (`a` int(11) AUTO_INCREMENT, `b` int NOT NULL AUTO_INCREMENT, UNIQUE KEY `a` (`a`))"
    )
    assert [column.nullable for column in table.columns] == [True, False]


@pytest.mark.parametrize(("server", "keys"), [(MARIADB, []), (MYSQL, ["a"])])
def test_a_column_that_is_unique_and_primary(server, keys):
    table = defined("CREATE TABLE t (a INT UNIQUE PRIMARY KEY)", server=server)
    assert table.primary_key == ("a",)
    assert [key.name for key in table.keys] == keys


def test_names_of_columns_may_be_qualified():
    statements = (
        "CREATE TABLE t (t.a INT, app.t.b INT, .c INT)",
        "ALTER TABLE t MODIFY t.a BIGINT AFTER t.b, CHANGE app.t.c d INT FIRST",
    )
    assert names(*statements) == ["d", "b", "a"]


def test_a_first_column_may_be_called_as_a_query_begins():
    assert names("CREATE TABLE t (`select` INT, `values` INT)") == ["select", "values"]


@pytest.mark.parametrize(
    "query", ["(SELECT 1)", "((SELECT 1))", "(TABLE u)", "(a INT) (SELECT 1)", "(a INT) FAST AS SELECT 1"]
)
def test_a_query_is_seen_in_parentheses_and_after_options(query):
    table = applied(f"CREATE TABLE t {query}")
    assert isinstance(table, UnknownTable)
    assert "from a query" in table.reason


def test_a_number_with_a_point_is_taken_for_a_whole_one():
    by_name = columns("CREATE TABLE t (a DECIMAL(19.5), b CHAR(5.9))")
    assert (by_name["a"].precision, by_name["a"].scale, by_name["b"].length) == (19, 0, 5)


def test_a_long_is_a_mediumtext():
    types = ["LONG", "LONG CHARACTER SET latin1", "LONG CHAR VARYING", "LONG BINARY", "LONG BYTE"]
    listed = ", ".join(f"c{number} {kind}" for number, kind in enumerate(types))
    definitions = list(columns(f"CREATE TABLE t ({listed})").values())
    assert [column.type for column in definitions] == ["mediumtext"] * 4 + ["mediumblob"]
    assert [column.collation for column in definitions][:4] == [UTF8MB4, LATIN1, UTF8MB4, UTF8MB4_BIN]


# ---- names -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "same"),
    [("Id", "iD"), ("É", "é"), ("\u03a3", "\u03c3"), ("İ", "i"), ("\u0391\u03a3", "\u03b1\u03c3")],
)
def test_names_that_are_the_same(name, same):
    assert folded(name) == folded(same)


@pytest.mark.parametrize(
    ("name", "other"),
    [("e", "é"), ("i", "\u0131"), ("\u03c3", "\u03c2"), ("s", "\u017f"), ("ss", "ß"), ("\u00b5", "\u03bc")],
)
def test_names_that_differ(name, other):
    assert folded(name) != folded(other)
    assert names(f"CREATE TABLE t (`{name}` INT, `{other}` INT)") == [name, other]


def test_a_name_has_a_question_mark_for_what_utf8mb3_lacks():
    assert names("CREATE TABLE t (`a\U0001f600` INT)", server=MYSQL) == ["a?"]


# ---- charsets ----------------------------------------------------------------------------------------------


def test_a_collation_without_its_charset_refers_to_the_charset_around_it():
    table = defined(
        "CREATE TABLE t (a TEXT COLLATE uca1400_ai_ci, b TEXT CHARSET utf8mb3 COLLATE uca1400_ai_ci, c TEXT)"
        " COLLATE uca1400_ai_ci CHARACTER SET utf8mb4",
        collation=LATIN1,
    )
    assert [column.collation for column in table.columns] == [
        UCA1400_UTF8MB4,
        UCA1400_UTF8MB3,
        UCA1400_UTF8MB4,
    ]


def test_default_is_a_charset_of_the_schema_and_a_collation_of_the_charset():
    table = defined(
        "CREATE TABLE t (a TEXT CHARSET latin1 COLLATE DEFAULT, b TEXT COLLATE DEFAULT) COLLATE utf8mb4_bin",
        "ALTER TABLE t CHARACTER SET DEFAULT, ADD c TEXT",
        collation=LATIN1_BIN,
    )
    assert [column.collation for column in table.columns] == [LATIN1, UTF8MB4, LATIN1]
    assert defined("CREATE TABLE t (a TEXT) CHARACTER SET DEFAULT", collation=LATIN1_BIN).collation == LATIN1


def test_a_schema_returns_to_the_servers_charset():
    statements = ("ALTER DATABASE app CHARACTER SET latin1", "ALTER DATABASE app CHARACTER SET DEFAULT")
    assert columns(*statements, "CREATE TABLE t (a TEXT)")["a"].collation == UTF8MB4


def test_a_type_of_bytes_with_a_collation_is_a_text():
    by_name = columns(
        "CREATE TABLE t (a BINARY(5) COLLATE latin1_bin, b BLOB(100) COLLATE utf8mb4_bin,"
        " c TINYBLOB COLLATE latin1_bin)"
    )
    assert [column.type for column in by_name.values()] == ["char", "text", "tinytext"]


def test_a_binary_text_is_not_converted():
    convert = "ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4, ADD b CHAR(5) COLLATE binary, ADD c CHAR(5)"
    by_name = columns("CREATE TABLE t (a INT)", convert)
    assert [column.type for column in by_name.values()] == ["int", "binary", "char"]


def test_a_binary_enum_has_the_bytes_of_the_connections_charset():
    sql = "CREATE TABLE t (a ENUM('x') CHARACTER SET binary, b ENUM('x'))"
    by_name = columns(sql, client_collation=UTF8MB4, connection_collation=60)  # utf32
    assert [column.values for column in by_name.values()] == [("\0\0\0x",), ("x",)]


# ---- keys --------------------------------------------------------------------------------------------------


def test_a_key_goes_on_with_a_new_column_of_the_name_of_one_that_goes():
    statements = ("CREATE TABLE t (id INT PRIMARY KEY, b INT)", "ALTER TABLE t DROP id, ADD ID BIGINT")
    table = defined(*statements)
    assert table.primary_key == ("ID",)
    assert not table.columns[1].nullable
    create = "CREATE TABLE t (id INT PRIMARY KEY, b INT)"
    assert defined(create, "ALTER TABLE t DROP id, CHANGE b id INT").primary_key == ()
    assert defined(create, "ALTER TABLE t ADD IF NOT EXISTS id INT, DROP id").primary_key == ()


@pytest.mark.parametrize(
    ("server", "indexes"),
    [
        (MARIADB, ["a", "b"]),
        (ServerVersion.parse("10.5.0-MariaDB"), ["a", "b"]),
        (ServerVersion.parse("10.4.9-MariaDB"), ["b"]),
        (MYSQL, ["a", "b"]),
        (ServerVersion.parse("9.0.0"), ["a", "b"]),
        (ServerVersion.parse("8.4.0"), ["b"]),
    ],
)
def test_a_columns_reference_makes_an_index(server, indexes):
    table = defined("CREATE TABLE t (a INT REFERENCES p (x), b INT UNIQUE REFERENCES p (x))", server=server)
    assert sorted(key.name for key in table.keys) == indexes


def test_a_key_without_overlaps_ends_with_its_period():
    sql = "CREATE TABLE t (id INT, a DATE, b DATE, PERIOD FOR p (a, b), PRIMARY KEY (id, p WITHOUT OVERLAPS))"
    assert defined(sql).primary_key == ("id", "b", "a")


@pytest.mark.parametrize(
    ("columns_", "key", "tail", "hashes"),
    [
        ("a VARCHAR(384), b VARCHAR(384)", "a, b", "", 0),
        ("a VARCHAR(384), b VARCHAR(384), c INT", "a, b, c", "", 1),
        ("a VARCHAR(500), b VARCHAR(500)", "a, b(268)", "", 0),
        ("a INT NOT NULL", "a", "ENGINE=MEMORY", 0),
        ("a VARCHAR(300)", "a", "ENGINE = 'MyISAM'", 1),
        ("a VARCHAR(300)", "a", "", 0),
        ("a POINT", "a", "", 0),
        ("a LINESTRING", "a", "", 1),
    ],
)
def test_mariadb_hashes_a_key_that_is_too_long(columns_, key, tail, hashes):
    using = " USING HASH" if "MEMORY" in tail else ""
    table = defined(f"CREATE TABLE t ({columns_}, UNIQUE ({key}){using}) {tail}")
    assert sum(column.name.startswith("DB_ROW_HASH") for column in table.logged) == hashes


def test_a_column_with_versioning_makes_its_table_versioned():
    assert defined("CREATE TABLE t (a INT WITH SYSTEM VERSIONING, b INT)").versioned
    assert defined("CREATE TABLE t (a INT)", "ALTER TABLE t WITH SYSTEM VERSIONING").versioned
    assert not defined(
        "CREATE TABLE t (a INT WITHOUT SYSTEM VERSIONING)", mode=SqlMode.STRICT_ALL_TABLES
    ).versioned


def test_a_period_is_kept_for_keys_that_later_statements_add():
    create = "CREATE TABLE t (id INT, a DATE, b DATE, PERIOD FOR p (a, b))"
    add = "ALTER TABLE t ADD PRIMARY KEY (id, P WITHOUT OVERLAPS)"
    table = defined(create, add)
    assert (table.primary_key, table.period) == (("id", "b", "a"), ("p", "a", "b"))
    assert TableDefinition.from_json(table.to_json()) == table
    assert isinstance(applied(create, "ALTER TABLE t DROP PERIOD FOR p", add), UnknownTable)


def test_an_engine_is_kept_where_its_keys_differ():
    create = "CREATE TABLE t (a INT, UNIQUE (a) USING HASH) ENGINE=MEMORY"
    table = defined(create, "ALTER TABLE t ADD b INT, ADD UNIQUE (b) USING HASH")
    assert (table.engine, [column.name for column in table.logged]) == ("MEMORY", ["a", "b"])
    assert isinstance(applied(create, "ALTER TABLE t ENGINE=InnoDB"), UnknownTable)
    changed = defined(
        create, "ALTER TABLE t DROP INDEX a", "ALTER TABLE t ENGINE=InnoDB, ADD UNIQUE (a) USING HASH"
    )
    assert (changed.engine, [column.name for column in changed.logged]) == ("", ["a", "DB_ROW_HASH_1"])


@pytest.mark.parametrize(("server", "kind"), [(MARIADB, "text"), (MYSQL, "varchar")])
def test_a_varchar_is_a_text_of_mariadb_from_65533_bytes_on(server, kind):
    by_name = columns("CREATE TABLE t (a VARCHAR(65533) CHARACTER SET latin1 NOT NULL)", server=server)
    assert by_name["a"].type == kind


def test_a_foreign_key_may_be_shown_without_its_column():
    for key in ("(`b`) REFERENCES `p` (`b`)", "(`c`, `b`) REFERENCES `p` (`c`, `b`)"):
        table = shown(f"CREATE TABLE `t` (`a` int, `c` int, KEY `a` (`a`), CONSTRAINT `c` FOREIGN KEY {key})")
        assert [key.name for key in table.keys] == ["a"]


def test_texts_of_a_binary_client_are_in_the_connections_charset():
    made = Catalog(UTF8MB4)
    text = "CREATE TABLE t (a ENUM('\udce9') CHARACTER SET utf8mb4)"  # as the client's bytes are read
    made.apply(Statement(text, "", MARIADB, client_collation=63, connection_collation=LATIN1))
    (table,) = made.tables()
    assert isinstance(table, TableDefinition), table
    assert table.columns[0].values == ("\u00e9",)


def test_utf8_is_utf8mb4_in_a_mode_of_mysql():
    sql = "CREATE TABLE t (a TEXT CHARACTER SET utf8, b TEXT COLLATE utf8_bin, c NCHAR(5))"
    mode = SqlMode.INTERPRET_UTF8_AS_UTF8MB4
    collations = [column.collation for column in columns(sql, server=MYSQL, mode=mode).values()]
    assert collations == [UTF8MB4_0900, UTF8MB4_BIN, UTF8MB3]
    assert columns(sql, server=MARIADB, mode=mode)["a"].collation == UTF8MB3, "another mode has the number"


@pytest.mark.parametrize(("server", "collation"), [(MYSQL, LATIN1_BIN), (MARIADB, LATIN1)])
def test_conversion_to_the_default_takes_the_collation_of_mysqls_schema(server, collation):
    statements = ("CREATE TABLE t (a TEXT) CHARSET utf8mb4", "ALTER TABLE t CONVERT TO CHARACTER SET DEFAULT")
    assert columns(*statements, server=server, collation=LATIN1_BIN)["a"].collation == collation


@pytest.mark.parametrize(
    "clause", ["DISABLE KEYS", "ENABLE KEYS", "OPTIMIZE PARTITION p0", "TRUNCATE PARTITION ALL"]
)
def test_a_statement_that_needs_no_new_table_leaves_the_definition_alone(clause):
    create = "CREATE TABLE t (a INT, UNIQUE (a) USING HASH)"
    assert defined(create, f"ALTER TABLE t {clause}") == defined(create)
    assert applied(f"ALTER TABLE t {clause}") is None, "MySQL logs some of a table that is not there"


def test_a_masking_policy_changes_no_definition():
    create = "CREATE TABLE t (a INT DEFAULT 5 MASKING POLICY p NOT NULL, b INT)"
    changes = ("ALTER TABLE t ALTER COLUMN b SET MASKING POLICY p, ALTER b DROP MASKING POLICY",)
    assert [column.nullable for column in columns(create, *changes, server=MYSQL).values()] == [False, True]
