"""A table has one set of columns: what is described of it is what its rows have, for consumers."""

from __future__ import annotations

import pyarrow as pa
import pytest
from integration.unprepared_servers import end_of
from support.defaults import definitions_of
from support.sources.recorder import await_rows, of_app, reading

from canal_group.actors.sink.consumer_view import ConsumerView, History
from canal_group.binlog.server.described import described, shown_now
from canal_group.merge.values.chunk import TableName

EXPLICIT = """id INT PRIMARY KEY, a INT, s TIMESTAMP(6) GENERATED ALWAYS AS ROW START,
    e TIMESTAMP(6) GENERATED ALWAYS AS ROW END INVISIBLE, b INT, PERIOD FOR SYSTEM_TIME (s, e)"""
#: name -> columns and options of a table with a column `id`
TABLES = {
    "numbers": """(id INT PRIMARY KEY, a TINYINT UNSIGNED, b SMALLINT, c MEDIUMINT UNSIGNED,
        d BIGINT UNSIGNED, e BIT(9), f FLOAT, g DOUBLE UNSIGNED, h DECIMAL(40,5), i DECIMAL(5,2) UNSIGNED,
        j YEAR, k BOOL)""",
    "moments": "(id INT PRIMARY KEY, a DATE, b TIME(3), c DATETIME(6), d TIMESTAMP(2) NULL, e DATETIME)",
    "texts": """(id INT PRIMARY KEY, a CHAR(5), b VARCHAR(300), c TINYTEXT, d TEXT,
        e LONGTEXT CHARACTER SET latin1, f CHAR(4) CHARACTER SET utf16, g VARCHAR(9) COLLATE utf8mb4_bin,
        h BINARY(9), i VARBINARY(99), j BLOB, k MEDIUMBLOB, l ENUM('x', 'y''z'), m SET('p', 'q'), n JSON)""",
    "shapes": "(id INT PRIMARY KEY, a GEOMETRY, b POINT, c GEOMETRYCOLLECTION)",
    "generated": """(id INT PRIMARY KEY, a INT, b INT AS (a + 1) VIRTUAL, c INT AS (a + 2) STORED,
        d INT INVISIBLE)""",
    "keyless": "(id INT, a INT)",
}
MARIADB = {
    "addresses": "(id INT PRIMARY KEY, a UUID, b INET4, c INET6, d BINARY(16))",
    "packed": "(id INT PRIMARY KEY, a VARCHAR(99) COMPRESSED, b TEXT COMPRESSED)",
    "hashed": "(id INT PRIMARY KEY, a TEXT UNIQUE, b BLOB, UNIQUE (b))",
    "implicit": "(id INT PRIMARY KEY, a INT) WITH SYSTEM VERSIONING",
    "explicit": f"({EXPLICIT}) WITH SYSTEM VERSIONING",
    "partly": "(id INT PRIMARY KEY, a INT, b INT WITHOUT SYSTEM VERSIONING) WITH SYSTEM VERSIONING",
    "by_column": "(id INT PRIMARY KEY, a INT WITH SYSTEM VERSIONING, b INT)",
    "taken_name": "(id INT PRIMARY KEY, DB_ROW_HASH_1 INT, a TEXT UNIQUE)",
    "both": "(id INT PRIMARY KEY, a TEXT UNIQUE) WITH SYSTEM VERSIONING",
}
#: columns that consumers do not see, without history and with it
UNSEEN = {
    "hashed": (2, 2),
    "implicit": (2, 0),
    "partly": (2, 0),
    "by_column": (2, 0),
    "taken_name": (1, 1),
    "both": (3, 1),
}
MYSQL = {
    "vectors": "(id INT PRIMARY KEY, a VECTOR(3))",
    "functional": "(id INT PRIMARY KEY, a INT, n JSON, KEY ((a + 1)), KEY ((CAST(n AS UNSIGNED ARRAY))))",
    "invisible_key": "(id INT, a INT)",
}


def without_dictionaries(columns):
    return [
        each.with_type(each.type.value_type) if pa.types.is_dictionary(each.type) else each
        for each in columns
    ]


@pytest.mark.parametrize("metadata", ["default", "FULL"])
def test_what_is_described_of_a_table_is_what_its_rows_have(unprepared, source_address, metadata):
    own = MARIADB if unprepared.engine == "mariadb" else MYSQL
    tables = TABLES | own
    address = source_address(unprepared)
    start = end_of(unprepared, source_address)
    (before,) = unprepared.execute("SELECT @@GLOBAL.binlog_row_metadata")[0]
    if metadata == "FULL":
        unprepared.execute("SET GLOBAL binlog_row_metadata = FULL")
    try:
        for name, columns in tables.items():
            key = "SET SESSION sql_generate_invisible_primary_key = ON"
            unprepared.execute(
                key if name == "invisible_key" else "DO 0",
                f"CREATE TABLE app.{name} {columns}",
                f"INSERT INTO app.{name} (id) VALUES (1)",
            )
        definitions = definitions_of(address.name, of_app)
        with reading(address, start=start, definitions=definitions) as recorder:
            await_rows(recorder, list(tables)[-1], 1)
    finally:
        unprepared.execute(f"SET GLOBAL binlog_row_metadata = {before}")
    now = {each.source: each for each in shown_now(address, lambda schema, _: schema == "app")}
    followed = {TableName(*table.name): described(table) for table in definitions.tables()}
    if followed:  # MySQL's table maps say everything with FULL metadata, and nothing has to be followed
        assert followed == now
    assert {table for _, table in now} == set(tables)
    for which, view in enumerate(map(ConsumerView, History)):
        rows = [table for chunk in recorder.chunks for table in view.apply(chunk).tables]
        assert {table.name.table for table in rows} == set(tables)
        for table in rows:
            shown, found = now[table.name], table.rows.schema.field("after").type
            columns = view.columns(shown.columns, shown.special)
            expected = pa.schema(without_dictionaries(found))
            assert columns.equals(expected, check_metadata=True), (columns, expected)
            unseen = UNSEEN.get(table.name.table, (0, 0))[which]
            assert len(columns) == len(shown.columns) - unseen
