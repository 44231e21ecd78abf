"""`canal-group check --decode`: the last part of real servers' binlogs, read by two decoders."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
from integration.differential import kinds
from support.rows.random_table import Table

from canal_group.binlog.second_opinion.tail import tail_of_server
from canal_group.binlog.server.dump.dump_request import dump_from
from canal_group.binlog.server.dump.registration import register
from canal_group.binlog.server.source import connect
from playground.database.secret_file import secret_file

PROGRAM = [sys.executable, "-m", "canal_group.programs.command.cli"]


@pytest.fixture
def server(request):
    if request.param == "mysql":
        found = request.getfixturevalue("two_mysqls")[0].start()
        found.execute("RESET BINARY LOGS AND GTIDS")
        return found
    found = request.getfixturevalue("mariadb")
    found.execute("RESET MASTER")  # what other tests have left would be read too
    return found


def check(folder, server, *arguments, white="app\\..*"):
    where = server.address()
    secret_file(folder / "password", where.password)
    source = f"host: 127.0.0.1, port: {where.port}, user: {where.user}, password_file: password"
    file = folder / "shop.yaml"
    file.write_text(
        f"preset: memory\ndestination: shop\nshards:\n  - {{name: s1, {source}}}\n"
        f"filter: {{white: '{white}'}}\n"
    )
    done = subprocess.run(
        [*PROGRAM, "check", "-c", str(file), *map(str, arguments)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stderr, done.stderr
    return done


def written(server, name, seed):
    chance = random.Random(seed)
    every = kinds(chance, mariadb=server.engine == "mariadb")
    readable = [
        kind for kind in every if not kind.sql.startswith(("VECTOR", "JSON")) and "COMPRESSED" not in kind.sql
    ]
    Table(server, name, readable, chance).write(12)


@pytest.mark.parametrize("server", ["mariadb", "mysql"], indirect=True)
def test_rows_of_all_types_are_read_alike(server, tmp_path):
    server.execute("DROP DATABASE IF EXISTS app", "CREATE DATABASE app", "FLUSH BINARY LOGS")
    # Dates without a day or month end mysql-replication's reading of an event: most seeds have some.
    chance = random.Random(5)
    plain = [kind for kind in kinds(chance, mariadb=server.engine == "mariadb") if kind.known_elsewhere]
    Table(server, "t", plain, chance).write(40)
    server.execute("FLUSH BINARY LOGS", "INSERT INTO app.t (id) VALUES (1000), (1001)")
    done = check(tmp_path, server, "--decode", "8MiB", "--json")
    found = json.loads(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert found["ok"], found
    assert found["difference"] is None
    assert found["rows"] >= 50
    assert found["values"] > 1000
    tail = json.loads(check(tmp_path, server, "--decode", "12KiB", "--json").stdout)
    assert tail["ok"]
    assert 2 <= tail["rows"] < found["rows"]


@pytest.mark.parametrize("server", ["mariadb", "mysql"], indirect=True)
def test_values_that_are_known_to_be_read_otherwise_are_named(server, tmp_path):
    server.execute("DROP DATABASE IF EXISTS app", "CREATE DATABASE app", "FLUSH BINARY LOGS")
    written(server, "u", 3)
    done = check(tmp_path, server, "--decode", "1MiB")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "not compared: " in done.stdout
    decoding = done.stdout[done.stdout.index("decoding") :]
    assert max(map(len, decoding.splitlines())) <= 80


@pytest.mark.parametrize("server", ["mariadb", "mysql"], indirect=True)
def test_tables_without_full_metadata_are_compared_by_position(server, tmp_path):
    server.execute(
        "DROP DATABASE IF EXISTS app", "CREATE DATABASE app", "FLUSH BINARY LOGS",
        "SET GLOBAL binlog_row_metadata = 'MINIMAL'",
        "CREATE TABLE app.m (id INT UNSIGNED PRIMARY KEY, name VARCHAR(20), data BLOB)",
        "INSERT INTO app.m VALUES (1, 'one', x'80ff'), (4000000000, NULL, 'x')",
        "SET GLOBAL binlog_row_metadata = DEFAULT",
    )  # fmt: skip
    found = json.loads(check(tmp_path, server, "--decode", "1MiB", "--json", white="app.m").stdout)
    assert (found["rows"], found["difference"]) == (2, None), found


def test_a_running_reader_of_the_same_source_stays_connected(mariadb, tmp_path, source_address):
    mariadb.execute("CREATE TABLE app.r (id INT)", "FLUSH BINARY LOGS", "INSERT INTO app.r VALUES (1)")
    address = source_address(mariadb)
    reader = connect(address)
    reader.cursor().execute("SET @master_binlog_checksum = @@global.binlog_checksum")
    register(reader, address)
    file = mariadb.execute("SHOW BINARY LOGS")[-1][0]
    request = dump_from(file, 4, address.server_id)
    reader._execute_command(request.command, request.payload)
    dumps = "SELECT ID FROM information_schema.PROCESSLIST WHERE COMMAND = 'Binlog Dump'"
    before = mariadb.execute(dumps)
    assert tail_of_server(address, tmp_path, 1 << 20)
    assert (reader.thread_id(),) in before
    assert (reader.thread_id(),) in mariadb.execute(dumps)
    reader._force_close()


def test_a_difference_ends_with_a_failure_and_a_damaged_file_too(mariadb, tmp_path):
    mariadb.execute("CREATE TABLE app.d (id INT)", "FLUSH BINARY LOGS", "INSERT INTO app.d VALUES (1), (2)")
    mariadb.execute("FLUSH BINARY LOGS")
    file = sorted((Path(mariadb.folder) / "data").glob("*.0*"))[-2]
    done = check(tmp_path, mariadb, "--decode", "1MiB", file)
    assert done.returncode == 0, done.stdout + done.stderr
    copy = tmp_path / file.name
    data = bytearray(file.read_bytes())
    data[-60] ^= 0xFF
    copy.write_bytes(data)
    done = check(tmp_path, mariadb, "--decode", "1MiB", copy)
    assert done.returncode == 1
    assert "FAIL  files: decoding:" in done.stdout
