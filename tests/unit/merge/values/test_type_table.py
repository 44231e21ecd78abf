"""The table of column types: what its rows say together, and canal's numbers of the types."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

from canal_group.merge.rows.canal.jdbc import JdbcType, jdbc_type
from canal_group.merge.rows.text import text
from canal_group.merge.values.types.kinds import Spelling
from canal_group.merge.values.types.table import BY_NAME, TABLE, ColumnType, row_of

#: java.sql.Types as canal gives them to columns, by the names of types
JDBC = {
    -7: "bit",
    -6: "tinyint",
    -5: "bigint",
    1: "char enum set",
    3: "decimal",
    4: "mediumint int",
    5: "smallint",
    7: "float",
    8: "double",
    12: "varchar year json vector uuid inet4 inet6",
    91: "date",
    92: "time",
    93: "datetime timestamp",
    2004: "binary varbinary tinyblob blob mediumblob longblob geometry point linestring polygon multipoint "
    "multilinestring multipolygon geometrycollection geomcollection",
    2005: "tinytext text mediumtext longtext",
}


def test_a_word_means_one_type():
    words = Counter(word for row in TABLE for word in (row.name.upper(), *row.words))
    assert set(words.values()) == {1}


def test_every_type_byte_belongs_to_a_type():
    """Two others become other types when a table map is read, and VAR_STRING is read like STRING."""
    found = {code for row in TABLE for code in (row.code, row.old, row.packed) if code is not None}
    others = {ColumnType.NEWDATE, ColumnType.TYPED_ARRAY, ColumnType.VAR_STRING}
    assert (found, found & others) == (set(ColumnType) - others, set())


def test_rows_of_one_type_byte_are_stored_alike():
    storages = {(row.code, row.storage) for row in TABLE}
    assert len(storages) == len({row.code for row in TABLE})


def test_a_text_becomes_a_type_of_bytes_of_its_own_size():
    texts = [row for row in TABLE if row.of_bytes]
    assert len(texts) == 6
    for row in texts:
        of_bytes = BY_NAME[row.of_bytes]
        assert (of_bytes.code, of_bytes.length_size) == (row.code, row.length_size)
        assert row.has_charset
        assert not of_bytes.has_charset


def test_a_type_that_a_table_map_hides_says_which_sizes_it_has():
    hidden = [row for row in TABLE if row.hidden_in is not None]
    assert all(bool(row.size) != bool(row.unit) for row in hidden)
    assert [row.name for row in hidden if row.fits_hidden(16)] == ["uuid", "inet6", "vector"]
    assert [row.name for row in hidden if row.fits_hidden(12)] == ["vector"]
    assert not any(row.fits_hidden(0) for row in hidden)


@pytest.mark.parametrize(
    ("name", "number"), [(name, number) for number, names in JDBC.items() for name in names.split()]
)
def test_canal_gives_a_column_its_number(name, number):
    assert jdbc_type(name, BY_NAME[name].arrow or pa.utf8()) == JdbcType(number)


@pytest.mark.parametrize(
    ("mysql_type", "kind", "wider"),
    [
        ("tinyint unsigned", pa.uint8(), (5, 127)),
        ("smallint unsigned", pa.uint16(), (4, 32767)),
        ("int unsigned", pa.uint32(), (-5, 2147483647)),
        ("bigint unsigned", pa.uint64(), (3, 9223372036854775807)),
        ("mediumint unsigned", pa.uint32(), (0, None)),
        ("bit(3)", pa.uint64(), (0, None)),
    ],
)
def test_a_number_without_a_sign_may_need_a_wider_type(mysql_type, kind, wider):
    found = jdbc_type(mysql_type, kind)
    assert (found.wider, found.number_max) == wider


def test_a_type_is_found_by_what_a_columns_metadata_say():
    said = [
        "bigint unsigned",
        "DATETIME(3)",
        "point /* srid u32, wkb */",
        "decimal(5,2) unsigned",
        "enum('a')",
    ]
    assert [row.name for row in map(row_of, said)] == ["bigint", "datetime", "point", "decimal", "enum"]
    assert [row_of("computed"), row_of("")] == [None, None]


def test_a_year_has_four_digits():
    assert text(pa.array([0, 1901], pa.int16()), "year").to_pylist() == ["0000", "1901"]
    assert text(pa.array([0, 1901], pa.int16()), "smallint").to_pylist() == ["0", "1901"]


def test_only_enum_and_set_list_their_values():
    assert [row.name for row in TABLE if row.spelling is Spelling.LISTED] == ["enum", "set"]
