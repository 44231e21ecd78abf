"""Rows that are selected are those that the binlog has, value for value, of real servers."""

from __future__ import annotations

import contextlib
import os
import random
from dataclasses import replace
from pathlib import Path

import pytest
from integration.differential import kinds
from support.defaults import chunk_limits
from support.rows.all_types import ALL_TYPES, ROW_1
from support.rows.random_table import Table

from canal_group.binlog.columns.columns import Losses
from canal_group.binlog.files.binlog_files import BinlogFiles, files_in
from canal_group.binlog.schema.definition import SourceName
from canal_group.binlog.server.definitions.dictionary import Dictionary
from canal_group.binlog.server.server_lookup import ServerLookup
from canal_group.binlog.server.source import connect, query, server_facts
from canal_group.binlog.snapshot.page import PageQuery
from canal_group.binlog.snapshot.page_reader import PageReader, TableAltered, prepare_session
from canal_group.binlog.snapshot.selected_table import SelectedTable
from canal_group.merge.errors import SourceUnavailable
from canal_group.merge.values.chunk import Op, TableName
from canal_group.merge.values.rows.moments import is_moment, keys_of

SEEDS = int(os.environ.get("CANAL_GROUP_SEEDS", "2"))
NAME = TableName("app", "t")
#: what a session would take from its server
DEFAULTS = {
    "sql_mode": "'ANSI_QUOTES,PAD_CHAR_TO_FULL_LENGTH,NO_BACKSLASH_ESCAPES,STRICT_ALL_TABLES,NO_ZERO_DATE'",
    "time_zone": "'-07:30'",
    "sql_select_limit": "1",
    "max_join_size": "1",
    "character_set_results": "latin1",
    "net_write_timeout": "1",
    "sql_auto_is_null": "1",
}
OF_VENDOR = {
    "mariadb": {"max_statement_time": "77", "system_versioning_asof": "'2001-01-01 00:00:00'"},
    "mysql": {"max_execution_time": "77000", "show_gipk_in_create_table_and_information_schema": "0"},
}


@pytest.fixture
def mysql(two_mysqls):
    """A server whose binlogs, which are read from their beginning, have nothing of other files' tests."""
    server = two_mysqls[0].start()
    server.execute("RESET BINARY LOGS AND GTIDS", "DROP DATABASE IF EXISTS app", "CREATE DATABASE app")
    return server


@pytest.fixture
def otherwise(server):
    """A server whose defaults are unusual."""
    values = {**DEFAULTS, **OF_VENDOR[server.engine]}
    server.execute(*(f"SET GLOBAL {name} = {value}" for name, value in values.items()))
    yield server
    with contextlib.closing(server.connect()) as connection, connection.cursor() as cursor:
        for name in values:
            cursor.execute(f"SET GLOBAL {name} = DEFAULT")


class Source:
    """A server, and a reader of its pages."""

    def __init__(self, server, source_address, **changes):
        self.server = server
        self.address = source_address(server, user="root", password=server.password, **changes)
        self.connection = connect(self.address)
        self.losses = Losses()
        self.reader = PageReader(self.address, self.connection, self.losses)

    @contextlib.contextmanager
    def _asking(self):
        with contextlib.closing(connect(self.address)) as connection:
            prepare_session(self.address, connection)
            yield connection

    def table(self, name="t"):
        with self._asking() as connection:
            dictionary = Dictionary(self.address, connection, server_facts(self.address, connection))
            return SelectedTable.of(dictionary.definition(SourceName("app", name)), TableName("app", name))

    def pages(self, name="t", order=("id",), **options):
        bytes_max = options.pop("bytes_max", 1 << 26)
        return list(
            self.reader.pages(PageQuery(self.table(name), order=order, **options), bytes_max=bytes_max)
        )

    def logged(self, count, name="t"):
        """Return the rows that were written last, as the binlog has them."""
        with self._asking() as connection:
            lookup = ServerLookup(self.address, connection)
            paths, limits = files_in(Path(self.server.folder) / "data"), chunk_limits(bytes_max=1 << 30)
            files = BinlogFiles(paths, _only(name), limits, lookup=lookup)
            *_, found = (table for chunk in files for table in chunk.tables)
        return replace(found, rows=found.rows.slice(found.rows.num_rows - count))


def _only(name):
    return lambda schema, table: TableName(schema, table) if (schema, table) == ("app", name) else None


@pytest.fixture
def source(server, source_address):
    found = Source(server, source_address)
    yield found
    found.reader.close()


def require_same(selected, logged, hashes=()):
    """Rows are the same, and so is what is under the nulls of dates that no calendar has."""
    assert (selected.name, selected.source) == (logged.name, logged.source)
    images = [table.rows.column("after") for table in (selected, logged)]
    names = [field.name for field in images[1].type if field.name not in hashes]
    assert [field.name for field in images[0].type] == names
    assert selected.rows.schema.metadata == logged.rows.schema.metadata
    for name in names:
        fields = [image.type.field(name) for image in images]
        assert fields[0].equals(fields[1], check_metadata=True)
        one, other = (image.field(name) for image in images)
        assert one.equals(other), f"{fields[0]}: {_different(one, other)}"
        if is_moment(one.type):
            assert keys_of(one).equals(keys_of(other)), f"{fields[0]}: what is under its nulls"
    assert selected.rows.column("before").null_count == len(selected.rows)
    assert set(selected.rows.column("_op").to_pylist()) == {Op.READ}


def _different(one, other):
    pairs = zip(one.to_pylist(), other.to_pylist(), strict=True)
    return next((pair for pair in pairs if pair[0] != pair[1]), "only in their buffers")


@pytest.mark.parametrize("seed", range(SEEDS))
def test_rows_are_those_of_the_binlog(otherwise, source_address, seed):
    """Of every type, of values by chance, whatever the defaults of the server's sessions are."""
    chance = random.Random(seed)
    table = Table(otherwise, "t", kinds(chance, mariadb=otherwise.engine == "mariadb"), chance)
    table.write()
    # The image after it of each row is what is there now.
    otherwise.execute("UPDATE app.t SET id = id + 1000 ORDER BY id")
    source = Source(otherwise, source_address)
    (page,) = source.pages()
    assert page.rows.rows.num_rows > 20
    assert page.last_key == (str(max(page.rows.rows.column("after").field("id").to_pylist())),)
    require_same(page.rows, source.logged(page.rows.rows.num_rows))
    limit = "max_statement_time" if otherwise.engine == "mariadb" else "max_execution_time"
    assert [
        row.number("most") for row in query(source.address, source.connection, f"SELECT @@{limit} AS most")
    ] == [0]
    source.reader.close()


def test_json_geometry_latin1_and_all_types(otherwise, source_address):
    otherwise.execute("SET time_zone = '+00:00'", "SET sql_mode = ''", "SET NAMES utf8mb4", ALL_TYPES, ROW_1)
    source = Source(otherwise, source_address)
    (page,) = source.pages()
    require_same(page.rows, source.logged(1))
    source.reader.close()


#: columns that SELECT * does not show, that the server fills, or whose text it pads
UNUSUAL = """v INT INVISIBLE DEFAULT 5, g DECIMAL(9,3) AS (a / 3) STORED,
    w VARCHAR(40) AS (CONCAT(a, 'é')) VIRTUAL, z INT(9) ZEROFILL, zd DECIMAL(12,2) ZEROFILL, f FLOAT(7,3),
    fl FLOAT, c CHAR(9) CHARACTER SET ucs2, y YEAR, e ENUM('', 'a', 'é') CHARACTER SET latin1,
    s SET('a', 'b', 'é') CHARACTER SET utf16, t TIME, ts TIMESTAMP NULL, dt DATETIME(1), b BINARY(4), j JSON,
    `we``ird {} é` INT DEFAULT 9, """
HIDDEN = {"mysql": "KEY ((a + 1)))", "mariadb": "x TEXT UNIQUE) WITH SYSTEM VERSIONING"}
VALUES = """(a, fl, c, z, zd, f, y, e, s, t, ts, dt, b, j) VALUES
    (1, 5592405.5, 'x  ', 7, 1.5, 1.2345, 0, '', '', '-838:59:59', 0, '0000-00-00 00:00:00.5', 0x00,
        '{"b": 1.0, "a": [] }'),
    (-2147483648, -0.0, '', 0, 0, -1e3, 2155, 3, 7, '00:00:00', '2001-02-03 04:05:06', '2020-02-31', 0x6100,
        NULL),
    (NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'none', 'a,none', NULL, NULL, NULL, NULL, '"\\\\u00e9"')"""


def test_invisible_column_generated_columns_float_text_zero_dates(otherwise, source_address):
    """Invisible, generated and hidden ones, ENUM's error value, zero dates, numbers padded with zeros."""
    server = otherwise
    invisible_key = ["SET sql_generate_invisible_primary_key = ON"] if server.engine == "mysql" else []
    server.execute(
        "SET sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'",
        *invisible_key,
        f"CREATE TABLE app.t (a INT, {UNUSUAL} {HIDDEN[server.engine]}",
        f"INSERT IGNORE INTO app.t {VALUES}",
    )
    source = Source(server, source_address)
    pages = source.pages(order=())
    assert sum(page.rows.rows.num_rows for page in pages) == 3
    require_same(pages[0].rows, source.logged(3), hashes={"DB_ROW_HASH_1"})
    special = pages[0].rows.special
    assert (special is not None and special.row_end == "row_end") == (server.engine == "mariadb")
    assert source.losses.zero_dates == 3
    source.reader.close()


def write_numbers(server, rows, size=10):
    depth = "max_recursive_iterations" if server.engine == "mariadb" else "cte_max_recursion_depth"
    server.execute(
        "CREATE TABLE app.t (id INT PRIMARY KEY, text LONGTEXT)",
        f"SET SESSION {depth} = 1000000",
        "INSERT INTO app.t WITH RECURSIVE n AS "
        f"(SELECT 1 AS id UNION ALL SELECT id + 1 FROM n WHERE id < {rows}) "
        f"SELECT id, REPEAT(CHAR(65 + id MOD 26), {size}) FROM n",
    )


def test_a_select_is_cut_into_pages(source):
    """1. Each page is of the bytes that are allowed, and a row. 2. They are all rows, in order."""
    write_numbers(source.server, 20_000, 100)
    pages = source.pages(bytes_max=100_000)
    assert len(pages) > 15
    assert all(100_000 <= page.bytes < 100_200 for page in pages[:-1])
    ids = [each for page in pages for each in page.rows.rows.column("after").field("id").to_pylist()]
    assert ids == list(range(1, 20_001))
    for page in pages:
        last = page.rows.rows.column("after").field("id")[-1].as_py()
        assert page.last_key == (str(last),)
        assert page.rows.rows.column("_row").to_pylist() == list(range(page.rows.rows.num_rows))
    (page,) = source.pages(where=f"id > {pages[0].last_key[0]}", limit=5)
    assert page.rows.rows.column("after").field("id").to_pylist() == [
        int(pages[0].last_key[0]) + 1 + each for each in range(5)
    ]
    assert source.pages(where="id < 0") == []


def test_a_row_of_more_than_a_packet(source):
    source.server.execute("SET GLOBAL max_allowed_packet = 67108864")
    write_numbers(source.server, 3, 17 << 20)
    source.reader.close()
    source = Source(source.server, lambda *_, **__: source.address)
    pages = source.pages(bytes_max=1 << 20)
    assert [len(page.rows.rows.column("after").field("text")[0].as_py()) for page in pages] == [17 << 20] * 3
    assert [page.last_key for page in pages] == [("1",), ("2",), ("3",)]
    source.reader.close()


#: type -> values in its order; keys of every kind that orders rows
KEYS = {
    "BIGINT UNSIGNED": "0, 1, 9223372036854775808, 18446744073709551615",
    "SMALLINT": "-32768, -1, 0, 32767",
    "MEDIUMINT": "-8388608, 0, 8388607",
    "DECIMAL(65,30)": "-99999999999999999999999999999999999.5, -0.1, 0, 1e-30, 7",
    "FLOAT": "-5592405.5, 0.1, 1e30",
    "DOUBLE": "-1e300, 0.1, 0.30000000000000004, 1.7976931348623157e308",
    "BIT(64)": "0, 1, b'1000000000000000000000000000000000000000000000000000000000000001'",
    "YEAR": "0, 1901, 2155",
    "DATE": "'0000-00-00', '2020-00-00', '2020-02-29', '9999-12-31'",
    "DATETIME(6)": "'0000-00-00 00:00:00', '2020-02-29 00:00:00.000001', '9999-12-31 23:59:59.999999'",
    "TIMESTAMP(3)": "'1970-01-01 00:00:01', '2021-11-07 05:30:00.5', '2021-11-07 06:30:00.5'",
    "TIME(6)": "'-838:59:59', '-00:00:00.000001', '0', '838:59:58.5'",
    "VARCHAR(20) CHARACTER SET utf8mb4": "'', 'a', 'b', 'É', 'ß,''\\\\', '😀'",
    "VARCHAR(20) CHARACTER SET latin1 COLLATE latin1_german2_ci": "'a', 'b', 'ö', 'ß'",
    "CHAR(5) CHARACTER SET utf16": "'', 'a', 'é'",
    "VARBINARY(20)": "'', 0x00, 0x0001, 0x61, 0xff, 0xff00",
    "BINARY(3)": "0x000000, 0x000001, 0xffff00",
}
OF_MARIADB = {
    "UUID": "'00000000-0000-1000-8000-000000000001', '6ccd780c-baba-1026-9564-5b8c656024db'",
    "INET6": "'::', '::ffff:1.2.3.4', 'ffff::'",
}


@pytest.mark.parametrize("server", ["mariadb", "mysql"], indirect=True)
def test_a_key_is_a_literal_that_finds_the_rows_after_it(server, source_address):
    """For every type that orders rows: a page of one row after the other, each behind the last key."""
    types = {**KEYS, **(OF_MARIADB if server.engine == "mariadb" else {})}
    server.execute("SET sql_mode = '', time_zone = '+00:00'", "SET NAMES utf8mb4")
    with contextlib.closing(server.connect("app")) as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'")
        for number, (kind, values) in enumerate(types.items()):
            cursor.execute(f"CREATE TABLE t{number} (k {kind} NOT NULL PRIMARY KEY)")
            cursor.execute(f"INSERT INTO t{number} VALUES ({'), ('.join(values.split(', '))})")
    source = Source(server, source_address)
    for number, kind in enumerate(types):
        table = source.table(f"t{number}")
        (whole,) = source.reader.pages(PageQuery(table, order=("k",)))
        expected = whole.rows.rows.column("after").field("k").to_pylist()
        assert len(expected) == types[kind].count(", ") + 1, kind
        found, keys, where = [], [], ""
        while pages := list(source.reader.pages(PageQuery(table, where, ("k",), 1))):
            found += pages[0].rows.rows.column("after").field("k").to_pylist()
            (key,) = pages[0].last_key
            keys.append(key)
            assert len(found) <= len(expected), f"{kind}: rows come again after {key}"
            where = f"k > {key}"
            (same,) = source.reader.pages(PageQuery(table, f"k = {key}"))
            assert same.rows.rows.num_rows == 1, f"{kind}: no row is {key}"
        assert found == expected, f"{kind}: {keys}"
    source.reader.close()


def test_an_altered_table_is_noticed(server, source_address):
    server.execute(
        "CREATE TABLE app.t (id INT PRIMARY KEY, a INT, e ENUM('a'))", "INSERT INTO app.t VALUES (1, 2, 'a')"
    )
    for statement in (
        "ALTER TABLE app.t MODIFY e ENUM('a', 'b')",
        "ALTER TABLE app.t MODIFY a INT UNSIGNED",
        "ALTER TABLE app.t MODIFY a VARCHAR(20)",
        "ALTER TABLE app.t DROP COLUMN a",
        "DROP TABLE app.t",
    ):
        source = Source(server, source_address)
        table = source.table()
        assert len(list(source.reader.pages(PageQuery(table)))) == 1
        server.execute(statement)
        if "ENUM" in statement:
            server.execute("UPDATE app.t SET e = 'b'")
        with pytest.raises(TableAltered, match=r"app\.t"):
            list(source.reader.pages(PageQuery(table)))
        source.reader.close()


def test_an_error_of_the_server_leaves_the_connection(source):
    """Before rows, and in the middle of them."""
    write_numbers(source.server, 20_000)
    table = source.table()
    with pytest.raises(SourceUnavailable, match=r"error \(1305\)"):
        list(source.reader.pages(PageQuery(table, "app.no_such_function(id)")))
    pages = source.reader.pages(PageQuery(table, "18446744073709531616 + id > 0"), bytes_max=1000)
    next(pages)
    with pytest.raises(SourceUnavailable, match=r"error \(1690\)"):
        list(pages)
    source.server.execute("DROP TABLE app.t")
    with pytest.raises(TableAltered, match=r"app\.t.*1146"):
        list(source.reader.pages(PageQuery(table)))
    assert [row["one"] for row in query(source.address, source.connection, "SELECT 1 AS one")] == [1]


def test_a_snapshot_is_the_callers(source):
    """Rows are those of the caller's transaction, and a table that is altered in it is noticed."""
    server = source.server
    server.execute("CREATE TABLE app.t (id INT PRIMARY KEY)", "INSERT INTO app.t VALUES (1)")
    table = source.table()
    query(source.address, source.connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
    server.execute("INSERT INTO app.t VALUES (2)")
    (page,) = source.reader.pages(PageQuery(table))
    assert page.rows.rows.num_rows == 1
    query(source.address, source.connection, "COMMIT")
    query(source.address, source.connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
    server.execute("ALTER TABLE app.t ADD COLUMN a INT, ADD KEY (a)")
    with pytest.raises(TableAltered):
        list(source.reader.pages(PageQuery(table)))


def test_an_iterator_that_is_closed_early_closes_the_connection(source):
    write_numbers(source.server, 20_000, 1000)
    pages = source.reader.pages(PageQuery(source.table()), bytes_max=1000)
    next(pages)
    pages.close()
    with pytest.raises(SourceUnavailable):
        query(source.address, source.connection, "SELECT 1")


def test_pages_come_over_tls(tls_mysql, source_address):
    server = tls_mysql.server
    server.execute("CREATE DATABASE app")
    write_numbers(server, 20_000, 100)
    source = Source(server, source_address, ssl={"ca": str(tls_mysql.ca), "verify": True})
    pages = source.pages(bytes_max=100_000)
    ids = [each for page in pages for each in page.rows.rows.column("after").field("id").to_pylist()]
    assert ids == list(range(1, 20_001))
    source.reader.close()


def test_a_server_that_stops_sending_is_given_up(server, source_address):
    server.execute("CREATE TABLE app.t (id INT PRIMARY KEY)", "INSERT INTO app.t VALUES (1)")
    source = Source(server, source_address, read_timeout_s=0.5)
    with pytest.raises(SourceUnavailable, match=r"no more rows of app\.t"):
        source.pages(where="SLEEP(20) = 0")
    with pytest.raises(SourceUnavailable):
        query(source.address, source.connection, "SELECT 1")
