"""What we decode is what SELECT returns, over all types of both vendors; `make fuzz` tries more seeds.

Each seed makes a table of every type, writes rows, and changes and deletes some. The rows are read off the
server's binlog and compared with SELECT: typed values or canal's text, whichever SELECT prints. Where
mysql-replication is right, it is a third witness.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
from pathlib import Path

import pyarrow.compute as pc
import pymysql
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from integration.differential import kinds
from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent
from support.rows.random_table import Table

from canal_group.binlog.charsets import charsets
from canal_group.binlog.charsets.charsets import charset_of, text_decoder
from canal_group.binlog.columns.columns import Losses
from canal_group.binlog.files.binlog_files import BinlogFiles, files_in
from canal_group.binlog.schema.definition import SourceName
from canal_group.binlog.schema.sql import quoted_table
from canal_group.binlog.server.definitions.dictionary import Dictionary
from canal_group.binlog.server.server_lookup import ServerLookup
from canal_group.binlog.server.source import connect, query, server_facts
from canal_group.binlog.snapshot.page import PageQuery
from canal_group.binlog.snapshot.page_reader import PageReader
from canal_group.binlog.snapshot.row_order import RowOrder
from canal_group.binlog.snapshot.selected_table import SelectedTable
from canal_group.binlog.snapshot.table_index import TableIndex
from canal_group.merge.rows.text import text
from canal_group.merge.snapshot.cursor import KeyRange
from canal_group.merge.snapshot.key import key_of_json
from canal_group.merge.snapshot.table_key import TableKey
from canal_group.merge.values.chunk import MYSQL_TYPE, Op, TableName

SEEDS = int(os.environ.get("CANAL_GROUP_SEEDS", "2"))
#: tables of random keys for each seed
KEYS = 30


@pytest.fixture
def mysql(two_mysqls):
    """A server whose binlogs, which are read from their beginning, have nothing of other files' tests."""
    server = two_mysqls[0].start()
    server.execute("RESET BINARY LOGS AND GTIDS")
    return server


class Decoded:
    """The rows of a table as the binlog has them, replayed in order."""

    def __init__(self, name, chunks):
        self.typed, self.texts, self.types = {}, {}, {}
        for chunk in chunks:
            for table in sorted(chunk.tables, key=lambda each: str(each.name)):
                if table.name.table == name:
                    self._replay(table.rows)

    def _replay(self, rows):
        images = {"before": _texts(rows.column("before")), "after": _texts(rows.column("after"))}
        self.types = {
            field.name: field.metadata[MYSQL_TYPE].decode() for field in rows.schema.field("after").type
        }
        for index, row in enumerate(rows.to_pylist()):
            before, after = (None if row[image] is None else images[image][index] for image in images)
            number = (row["after"] or row["before"])["id"]
            if row["_op"] != Op.INSERT:
                assert self.texts.pop(number) == before, "the image before is what there was"
                assert self.typed.pop(number) == row["before"]
            if after is not None:
                self.texts[number], self.typed[number] = after, row["after"]


def _texts(images):
    fields = list(images.type)
    columns = [
        text(pc.struct_field(images, [index]), field.metadata[MYSQL_TYPE].decode()).to_pylist()
        for index, field in enumerate(fields)
    ]
    return [
        dict(zip((field.name for field in fields), row, strict=True)) for row in zip(*columns, strict=True)
    ]


def decode(server, name, source_address):
    address = source_address(server, user="root", password=server.password)
    with contextlib.closing(connect(address)) as connection:
        lookup = ServerLookup(address, connection)
        return Decoded(name, BinlogFiles(files_in(Path(server.folder) / "data"), only(name), lookup=lookup))


def only(name):
    return lambda schema, table: TableName(schema, table) if (schema, table) == ("app", name) else None


def differences(table, decoded):
    """Yield each value that is not what SELECT says."""
    selected = table.selected()
    assert selected.keys() == decoded.texts.keys()
    for number, values in selected.items():
        for index, (kind, value) in enumerate(zip(table.columns, values, strict=True)):
            name = f"c{index}"
            found = decoded.typed[number][name] if kind.typed else decoded.texts[number][name]
            expected = value
            if kind.typed and found is not None:
                found = kind.typed(found)
                expected = float(value) if isinstance(found, float) and value is not None else value
            if found != expected and not is_lost_date(kind, value, found):
                yield f"{kind.sql} of row {number}: SELECT has {expected!r}, the binlog {found!r}"


def is_lost_date(kind, value, found):
    """Return whether a value is not a date of any calendar, which its Arrow type cannot hold."""
    if found is not None or not isinstance(value, str) or not kind.sql.startswith(("DATE", "TIMESTAMP")):
        return False
    return value.startswith("0000") or "-00" in value[:10]


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("server", ["mariadb", "mysql"], indirect=True)
def test_the_binlog_says_what_select_says(server, seed, source_address):
    chance = random.Random(seed)
    server.execute("DROP DATABASE IF EXISTS app", "CREATE DATABASE app")
    name = f"t{seed}"
    table = Table(server, name, kinds(chance, mariadb=server.engine == "mariadb"), chance)
    table.write()
    found = list(differences(table, decode(server, name, source_address)))
    assert not found, "\n".join(each[:400] for each in found[:10])


@contextlib.contextmanager
def keyed_tables(server, source_address, chance):
    """Yield the connections' reader, and tables `k0`, `k1`, ... whose key is of each type that may be one."""
    address = source_address(server, user="root", password=server.password)
    with contextlib.closing(connect(address)) as connection:
        facts, tables = server_facts(address, connection), []
        reader, dictionary = PageReader(address, connection, Losses()), Dictionary(address, connection, facts)
        for kind in kinds(chance, mariadb=server.engine == "mariadb"):
            name = SourceName("app", f"k{len(tables)}")
            key = f"k {kind.sql.removesuffix(' NULL')} NOT NULL PRIMARY KEY, id INT NOT NULL"
            with contextlib.suppress(pymysql.err.MySQLError):
                server.execute("SET sql_mode = ''", f"CREATE TABLE app.{name.table} ({key}) CHARSET utf8mb4")
                definition = dictionary.definition(name)
                table = SelectedTable.of(definition, TableName(*name))
                tables += [(kind, order, table) for order in RowOrder.all_of(definition)]
        indexes = {
            table.source.table: TableIndex(address, connection, facts, table.source, order)
            for _, order, table in tables
        }
        yield reader, lambda sql: query(address, connection, sql), indexes, tables


@pytest.mark.parametrize("server", ["mariadb", "mysql"], indirect=True)
def test_a_key_of_any_value_selects_its_row_and_nothing_else(server, source_address):
    """1. Rows with keys by chance are read, each with its key. 2. The condition of the key, also of the key
    as the binlog and the index have it, selects this row; the server reads no other table for it.
    """
    server.execute("DROP DATABASE IF EXISTS app", "CREATE DATABASE app")
    with (
        keyed_tables(server, source_address, random.Random(0)) as (reader, ask, indexes, tables),
        contextlib.closing(server.connect()) as connection,
        connection.cursor() as cursor,
    ):
        assert len(tables) > 50, "types that may be a key"
        cursor.execute("SET sql_mode = '', time_zone = '+00:00'")

        @settings(max_examples=KEYS * SEEDS, suppress_health_check=list(HealthCheck))
        @given(st.sampled_from(tables), st.randoms(use_true_random=False), st.lists(st.binary(max_size=40)))
        def every_key(drawn, chance, values):
            kind, order, table = drawn
            name = f"app.{table.source.table}"
            cursor.execute(f"DELETE FROM {name}")
            made = [kind.value(chance) for _ in range(4)]
            made += [("%s", (each,)) for each in values if "BINARY" in kind.sql]
            for number, (expression, given_values) in enumerate(made):
                cursor.execute(f"INSERT IGNORE INTO {name} VALUES ({expression}, {number})", given_values)
            check_keys(reader, ask, order, table, indexes[table.source.table])

        every_key()


def check_keys(reader, ask, order, table, index):
    """Check that each row of a table is the row of its keys, however they are made."""
    key_of = TableKey(order.names, (table.schema.arrow.field("after").type.field("k").type,))
    pages = list(reader.pages(PageQuery(table, order=order.names, hint=order.hint), bytes_max=1))
    keys = []
    for page in pages:
        (row_key,) = key_of.of([page.rows.rows.column("after").field("k")], 1)
        keys.append([page.last_key, key_of.for_server(row_key)])
    keys[0].append(index.first(""))
    keys[-1].append(index.first("", last=True))
    for page, several in zip(pages, keys, strict=True):
        numbers = page.rows.rows.column("after").field("id").to_pylist()
        assert order.takes(several)
        assert order.takes(KeyRange(page.last_key, page.last_key))
        for key in several:
            assert key_of_json(json.loads(json.dumps(key))) == key
            where = order.among([key])
            statement = f"SELECT id FROM {quoted_table(table.source)} {order.hint} WHERE {where}"
            assert [row["id"] for row in ask(statement)] == numbers, key
            assert len(ask(f"EXPLAIN {statement}")) == 1, "nothing else runs"


@pytest.mark.parametrize("server", ["mariadb", "mysql"], indirect=True)
def test_mysql_replication_says_the_same_where_it_is_right(server, source_address):
    server.execute("DROP DATABASE IF EXISTS app", "CREATE DATABASE app", "FLUSH BINARY LOGS")
    chance = random.Random(99)
    columns = [kind for kind in kinds(chance, mariadb=server.engine == "mariadb") if kind.known_elsewhere]
    table = Table(server, "w", columns, chance)
    ((usual,),) = server.execute("SELECT @@global.binlog_row_metadata")
    server.execute("SET GLOBAL binlog_row_metadata = 'FULL'")  # the other library needs names
    try:
        table.write()
        decoded = decode(server, "w", source_address)
        elsewhere = _elsewhere(server, files_in(Path(server.folder) / "data")[-1].name)
    finally:
        server.execute(f"SET GLOBAL binlog_row_metadata = '{usual}'")
    assert elsewhere.keys() == decoded.typed.keys()
    for number, values in elsewhere.items():
        assert values == decoded.typed[number], number


def _elsewhere(server, file):
    where = server.address("root")
    reader = BinLogStreamReader(
        connection_settings={
            "host": where.host,
            "port": where.port,
            "user": "root",
            "passwd": where.password,
        },
        server_id=8123,
        log_file=file,
        log_pos=4,
        only_events=[WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent],
        only_schemas=["app"],
    )
    rows = {}
    with contextlib.closing(reader):
        for event in reader:
            for row in event.rows:
                values = row.get("after_values") or row.get("values")
                if isinstance(event, DeleteRowsEvent):
                    del rows[values["id"]]
                else:
                    rows[values["id"]] = values
    return rows


#: per vendor: where its collations are listed by number
COLLATIONS = {"mysql": "COLLATIONS", "mariadb": "COLLATION_CHARACTER_SET_APPLICABILITY"}


@pytest.mark.parametrize("server", ["mariadb", "mysql"], indirect=True)
def test_every_collation_is_known(server):
    rows = server.execute(
        f"SELECT ID, CHARACTER_SET_NAME FROM information_schema.{COLLATIONS[server.engine]} WHERE ID > 0"
    )
    assert len(rows) > 250
    assert [(number, name) for number, name in rows if charset_of(number).name != name] == []


@pytest.mark.parametrize("server", ["mariadb", "mysql"], indirect=True)
def test_characters_of_every_charset_are_those_of_the_server(server):
    """Every byte where a character has one, else every ninth pair of bytes; with `make fuzz` each."""
    step = 9 if SEEDS < 10 else 1
    every = [lead * 256 + trail for lead in range(0x81, 0xFF) for trail in range(0x40, 0xFF)]
    pairs = every[::step]
    known = {
        name for (name,) in server.execute("SELECT CHARACTER_SET_NAME FROM information_schema.CHARACTER_SETS")
    }
    server.execute("DROP DATABASE IF EXISTS app", "CREATE DATABASE app", CODES)
    with contextlib.closing(server.connect("app")) as connection, connection.cursor() as cursor:
        cursor.executemany("INSERT INTO q VALUES (%s)", [(number,) for number in (*range(256), *pairs)])
        for charset in sorted(known - WIDE):
            cursor.execute(
                f"SELECT n, CONVERT(CONVERT(CHAR(n USING binary) USING {charset}) USING utf8mb4) FROM q "
                f"WHERE n {'<' if charsets._CHARSETS[charset].width == 1 else '>='} 256"
            )
            assert list(_read_otherwise(charset, cursor.fetchall())) == []


CODES = "CREATE TABLE app.q (n INT PRIMARY KEY)"
#: charsets that are UTF, and bytes
WIDE = {"binary", "utf8mb3", "utf8mb4", "utf16", "utf16le", "utf32", "ucs2"}


def _read_otherwise(charset, characters):
    """Yield what a charset's characters are to the server and to us, where that is not the same."""
    codec, errors = text_decoder(charsets._CHARSETS[charset])
    for number, expected in characters:
        stored = number.to_bytes(2 if number > 255 else 1, "big")
        if not expected or len(expected) != 1 or expected == "\ufffd" or (expected == "?" and stored != b"?"):
            continue  # no character, or two
        try:
            found = stored.decode(codec, errors)
        except UnicodeDecodeError:
            found = None
        if found != expected and not (charset == "ujis" and found is None):
            yield stored.hex(), expected, found
