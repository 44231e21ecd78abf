"""An archive of a real server has its binlogs byte for byte, over rotation, restart and a source's crash."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.binlog.archived import archive_up_to_now, content, position_of
from support.rows.all_types import ALL_TYPES, ROW_1
from support.soak import first_quick
from support.sources.raw_binlogs import raw_binlogs

from canal_group.binlog.archive.archive import Archive
from canal_group.binlog.archive.disk import Disk
from canal_group.binlog.archive.manifest import State
from canal_group.binlog.archive.operating.export import export
from canal_group.binlog.archive.operating.verification import verify
from canal_group.binlog.files.binlog_files import BinlogFiles, files_in
from canal_group.binlog.files.files_reader import listed
from canal_group.merge.values.chunk import TableName
from playground.database.mysql import MySqlServer
from playground.database.server_process import ServerMissingError

IN_USE_AT = 21
#: an event that takes several packets
BIG = "INSERT INTO app.big VALUES (REPEAT('z', 9 << 20), REPEAT('z', 9 << 20))"


@pytest.fixture(params=first_quick(2, ["mariadb", "mysql"]))
def source(request):
    """A server of the test's own."""
    if request.param == "mariadb":
        yield request.getfixturevalue("own_mariadb")
        return
    try:
        server = MySqlServer().start()
    except ServerMissingError as missing:
        pytest.skip(str(missing))
    server.execute("CREATE DATABASE app")
    yield server
    server.close()


def write(server, number):
    server.execute(f"CREATE TABLE app.t{number} (id INT PRIMARY KEY, v LONGTEXT)")
    server.execute(*(f"INSERT INTO app.t{number} VALUES ({n}, REPEAT('x', {n * 500}))" for n in range(60)))
    server.execute(
        f"UPDATE app.t{number} SET v = 'y' WHERE id < 20", f"DELETE FROM app.t{number} WHERE id > 50"
    )


def test_an_archive_has_the_files_of_a_server(source, source_address, tmp_path):
    """Rotations, a restart, an event of 18 MiB, XA; the archiving stops and goes on in between."""
    archive, address = Archive(Disk(), tmp_path / "archive"), source_address(source)
    source.execute("SET time_zone = '+00:00'", "SET sql_mode = ''", ALL_TYPES, ROW_1)
    write(source, 1)
    archive_up_to_now(archive, source, address)
    source.execute("FLUSH BINARY LOGS")
    write(source, 2)
    source.execute("CREATE TABLE app.big (v LONGTEXT, w LONGTEXT)", BIG)
    archive_up_to_now(archive, source, address)
    source.execute(
        "FLUSH BINARY LOGS", "FLUSH BINARY LOGS", "XA START 'x'", "INSERT INTO app.t1 VALUES (99, 'x')"
    )
    source.stop()
    source.start()
    write(source, 3)
    durable = archive_up_to_now(archive, source, address)

    (history,) = archive.histories()
    files = files_in(Path(source.folder) / "data")
    assert [each.name for each in history.manifest.files] == [path.name for path in files]
    assert (durable.file, durable.offset) == position_of(source)
    for path in files:
        data = bytearray(path.read_bytes())
        data[IN_USE_AT] &= ~1  # as a server sends it, and mysqlbinlog --raw writes it
        assert content(history, path.name) == bytes(data), path.name
    assert [each.wrong for each in verify(history)] == [""] * len(files)
    assert [each.state for each in history.manifest.files] == [State.CLOSED] * (len(files) - 1) + [State.OPEN]
    read = [
        table.rows
        for chunk in BinlogFiles(listed(str(tmp_path / "archive")), TableName)
        for table in chunk.tables
    ]
    assert read == [table.rows for chunk in BinlogFiles(files, TableName) for table in chunk.tables]


def test_exported_files_are_those_of_mysqlbinlog_raw(source, source_address, tmp_path):
    write(source, 1)
    source.execute("FLUSH BINARY LOGS")
    write(source, 2)
    archive = Archive(Disk(), tmp_path / "archive")
    archive_up_to_now(archive, source, source_address(source))
    (history,) = archive.histories()
    exported = [path for path, _ in export(history, (), tmp_path / "out")]
    raw = raw_binlogs(source, tmp_path / "raw")
    assert {path.name: path.read_bytes() for path in exported} == raw
