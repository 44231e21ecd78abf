"""Whether a table map may be one of a table's definition, and the table map that a definition makes."""

from __future__ import annotations

import pytest
from support.ddl.definition_text import MARIADB, MYSQL, played

from canal_group.binlog.columns.table_map import TableMap
from canal_group.binlog.columns.types.column import Column, Role
from canal_group.binlog.history.logged import table_of
from canal_group.binlog.history.verified import require_agreement
from canal_group.binlog.schema.definition import ColumnDefinition, TableDefinition
from canal_group.merge.errors import CorruptEvent, UnsupportedEvent
from canal_group.merge.values.types.table import ColumnType


def listed(count):
    return ", ".join(f"'{number}'" for number in range(count))


def defined(columns, server=MARIADB):
    return played(f"CREATE TABLE t ({columns})", server=server).table("app", "t")


def mapped(*columns, nullable=b""):
    return TableMap("app", "t", columns, (), named=False, nullable=nullable)


T = ColumnType


@pytest.mark.parametrize(
    ("kind", "column", "other"),
    [
        ("INT", Column(T.LONG), Column(T.LONGLONG)),
        ("YEAR", Column(T.YEAR), Column(T.TINY)),
        ("DECIMAL(10,2)", Column(T.NEWDECIMAL, precision=10, decimals=2), Column(T.NEWDECIMAL, precision=10)),
        (
            "DECIMAL(9,2)",
            Column(T.NEWDECIMAL, precision=9, decimals=2),
            Column(T.NEWDECIMAL, precision=10, decimals=2),
        ),
        ("DATETIME(3)", Column(T.DATETIME2, decimals=3), Column(T.DATETIME2, decimals=2)),
        ("DATETIME(3)", Column(T.DATETIME), Column(T.TIMESTAMP)),
        ("TIME", Column(T.TIME), Column(T.DATETIME)),
        ("TIMESTAMP(1) NULL", Column(T.TIMESTAMP2, decimals=1), Column(T.TIMESTAMP2)),
        ("TIMESTAMP NULL", Column(T.TIMESTAMP), Column(T.TIME)),
        ("BIT(9)", Column(T.BIT, size=9), Column(T.BIT, size=8)),
        ("CHAR(5) CHARSET latin1", Column(T.STRING, size=5), Column(T.STRING, size=20)),
        ("CHAR(5) CHARSET utf8mb3", Column(T.STRING, size=15), Column(T.STRING, size=5)),
        ("CHAR(5) CHARSET utf8mb3", Column(T.STRING, size=20), Column(T.VARCHAR, size=20)),
        ("UUID", Column(T.STRING, size=16), Column(T.STRING, size=4)),
        ("VARCHAR(5)", Column(T.VARCHAR, size=20), Column(T.VARCHAR, size=15)),
        ("VARCHAR(5)", Column(T.VARCHAR_COMPRESSED, size=21), Column(T.VARCHAR_COMPRESSED, size=20)),
        ("BLOB", Column(T.BLOB_COMPRESSED, size=2), Column(T.VARCHAR_COMPRESSED, size=2)),
        ("TINYTEXT", Column(T.BLOB, size=1), Column(T.BLOB, size=2)),
        ("BLOB", Column(T.BLOB, size=2), Column(T.BLOB, size=3)),
        ("MEDIUMBLOB", Column(T.BLOB, size=3), Column(T.BLOB, size=2)),
        ("LONGTEXT", Column(T.BLOB, size=4), Column(T.BLOB, size=3)),
        ("TEXT CHARSET utf8mb3", Column(T.BLOB, size=3), Column(T.BLOB, size=1)),
        (f"ENUM({listed(255)})", Column(T.ENUM, size=1), Column(T.ENUM, size=2)),
        (f"ENUM({listed(256)})", Column(T.ENUM, size=2), Column(T.ENUM, size=1)),
        (f"SET({listed(8)})", Column(T.SET, size=1), Column(T.SET, size=2)),
        (f"SET({listed(9)})", Column(T.SET, size=2), Column(T.SET, size=1)),
        (f"SET({listed(32)})", Column(T.SET, size=4), Column(T.SET, size=8)),
        (f"SET({listed(33)})", Column(T.SET, size=8), Column(T.SET, size=4)),
        ("VECTOR(3)", Column(T.VARCHAR, size=12), Column(T.VARCHAR, size=13)),
        ("VECTOR(3)", Column(T.VECTOR, size=4), Column(T.BLOB, size=4)),
    ],
)
def test_a_column_is_stored_as_its_type_says(kind, column, other):
    definition = defined(f"a {kind}")
    require_agreement(mapped(column), definition)
    with pytest.raises(
        CorruptEvent, match=f"stores column 1 as {other.type.name}.*definition the table has a "
    ):
        require_agreement(mapped(other), definition)


def test_a_type_that_is_not_known_agrees_with_nothing():
    definition = TableDefinition("app", "t", (ColumnDefinition("a", "hyperint"),))
    with pytest.raises(CorruptEvent, match="hyperint"):
        require_agreement(mapped(Column(T.LONG)), definition)
    with pytest.raises(UnsupportedEvent, match="hyperint"):
        table_of(definition)


def test_the_number_of_columns_must_agree():
    with pytest.raises(CorruptEvent, match="has 1 columns, but by its definition the table has 2: a, b"):
        require_agreement(mapped(Column(T.LONG)), defined("a INT, b INT"))


def test_which_columns_may_be_null_must_agree_where_that_is_logged():
    nine = ", ".join(f"c{number} INT {'NOT NULL' if number == 8 else ''}" for number in range(9))
    definition = defined(nine)
    columns = [Column(T.LONG)] * 9
    require_agreement(mapped(*columns), definition)
    require_agreement(mapped(*columns, nullable=b"\xff\x00"), definition)
    for nullable, phrase in (
        (b"\xff\x01", "column 9 may be null"),
        (b"\xfe\x00", "column 1 may not be null"),
    ):
        with pytest.raises(CorruptEvent, match=phrase):
            require_agreement(mapped(*columns, nullable=nullable), definition)
    hashed = defined("a TEXT, UNIQUE (a)")
    for nullable in (b"\x01", b"\x03"):
        require_agreement(mapped(Column(T.BLOB, size=2), Column(T.LONGLONG), nullable=nullable), hashed)


@pytest.mark.parametrize(
    ("kind", "stored", "size"),
    [
        ("CHAR(5)", T.STRING, 20),
        ("VARBINARY(5)", T.VARCHAR, 5),
        ("TINYBLOB", T.BLOB, 1),
        ("TEXT", T.BLOB, 2),
        ("MEDIUMTEXT", T.BLOB, 3),
        ("LONGBLOB", T.BLOB, 4),
        (f"ENUM({listed(255)})", T.ENUM, 1),
        (f"ENUM({listed(256)})", T.ENUM, 2),
        (f"SET({listed(8)})", T.SET, 1),
        (f"SET({listed(9)})", T.SET, 2),
        (f"SET({listed(25)})", T.SET, 4),
        (f"SET({listed(64)})", T.SET, 8),
        ("POINT", T.GEOMETRY, 4),
        ("BIT(9)", T.BIT, 9),
    ],
)
def test_the_table_map_that_a_definition_makes(kind, stored, size):
    definition = defined(f"a {kind}")
    (column,) = table_of(definition).columns
    assert (column.type, column.size) == (stored, size)
    require_agreement(mapped(column), definition)


def test_json_has_a_length_of_four_bytes():
    assert table_of(defined("a JSON", server=MYSQL)).columns[0].size == 4


@pytest.mark.parametrize(
    ("table", "roles"),
    [
        ("(a TEXT, UNIQUE (a))", [Role.PLAIN, Role.HASH]),
        ("(a INT) WITH SYSTEM VERSIONING", [Role.PLAIN, Role.IMPLICIT_ROW_START, Role.IMPLICIT_ROW_END]),
        (
            (
                "(s TIMESTAMP(6) AS ROW START, e TIMESTAMP(6) AS ROW END, PERIOD FOR SYSTEM_TIME (s, e))"
                " WITH SYSTEM VERSIONING"
            ),
            [Role.PLAIN, Role.ROW_END],
        ),
    ],
)
def test_the_columns_that_mariadb_fills_are_known(table, roles):
    definition = played(f"CREATE TABLE t {table}").table("app", "t")
    assert [column.role for column in table_of(definition).columns] == roles
