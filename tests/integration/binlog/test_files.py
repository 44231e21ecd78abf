"""Files of a real MariaDB server hold what its stream says; a server says what its files do not."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from support.rows.all_types import ALL_TYPES, ROW_1
from support.sources.recorder import await_rows, reading

from canal_group.binlog.files.binlog_files import BinlogFiles, files_in
from canal_group.binlog.server.server_lookup import ServerLookup
from canal_group.binlog.server.source import connect
from canal_group.merge.values.chunk import TableName
from canal_group.merge.values.position import Position
from canal_group.programs.command.binlog.tool import server_at, show


def rows_of(files, **options):
    return [
        row
        for chunk in BinlogFiles(files, TableName, **options)
        for table in chunk.tables
        if table.name.schema == "app"
        for row in table.rows.to_pylist()
    ]


def content(rows):
    return [(row["_op"], row["before"], row["after"]) for row in rows]


def test_files_hold_what_the_stream_says(own_mariadb, source_address, tmp_path):
    """1. A stream reads along. 2. The server's folder, with the file it writes now, is read afterwards."""
    server = own_mariadb
    server.execute("SET GLOBAL binlog_row_metadata = 'FULL'")
    with reading(source_address(server), start=Position("mysql-bin.000001", 4)) as recorder:
        server.execute("SET time_zone = '+00:00'", "SET sql_mode = ''", ALL_TYPES, ROW_1)
        server.execute("FLUSH BINARY LOGS", "UPDATE app.t SET u4 = 7", "FLUSH BINARY LOGS")
        server.execute("SET GLOBAL log_bin_compress = ON", "DELETE FROM app.t")
        await_rows(recorder, "t", 3)
    files = files_in(Path(server.folder) / "data")
    assert len(files) == 3
    assert content(rows_of(files)) == content(recorder.rows("t"))


def test_a_server_names_the_columns_of_its_files(own_mariadb, source_address):
    server = own_mariadb
    address = source_address(server, user="root", password=server.password)
    with reading(source_address(server), start=Position("mysql-bin.000001", 4)) as recorder:
        server.execute("SET time_zone = '+00:00'", "SET sql_mode = ''", ALL_TYPES, ROW_1)
        await_rows(recorder, "t", 1)
    server.execute("FLUSH BINARY LOGS", "SET GLOBAL binlog_row_metadata = NO_LOG")
    server.execute("DELETE FROM app.t")
    *_, last = files_in(Path(server.folder) / "data")
    with contextlib.closing(connect(address)) as connection:
        (named,) = rows_of([last], lookup=ServerLookup(address, connection))
    (unnamed,) = rows_of([last])
    expected = recorder.rows("t")[0]["after"]
    assert named["before"] == expected
    values = list(unnamed["before"].values())
    assert list(unnamed["before"]) == [f"@{index}" for index in range(1, len(expected) + 1)]
    assert values[1:3] == [-128, -1], "no sign is known"
    assert values[list(expected).index("vu")] == "日本😀".encode()
    assert values[list(expected).index("en")] == 3
    lines: list[str] = []
    where = server_at(f"root@127.0.0.1:{server.port}", server.password)
    show([last], lines.append, note=lines.append, as_json=True, lookup=where)
    assert list(json.loads(lines[0])["before"]) == list(expected)
