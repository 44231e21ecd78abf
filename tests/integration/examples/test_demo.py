"""The demo itself, small: it proves a stream right, and ends with all it started, also at Ctrl-C."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from itertools import product
from pathlib import Path

import pymysql
import pytest
from integration.group_fixtures import all_started
from rich.cells import cell_len
from support.soak import patient
from support.sources.installed import require

from canal_group.programs.demo.recorded_shards import recorded_shards
from canal_group.programs.demo.show.progress import FIRST_ROWS
from canal_group.programs.demo.tables import schema_name
from playground.database.engine import Engine
from playground.database.mariadb import MariaDbServer
from playground.database.mysql import MySqlServer, Programs
from playground.database.server_process import CANAL_USER, ServerMissingError
from playground.load.held import read_tables
from playground.load.workload import Workload
from playground.load.writer import Writer, prepare

DEADLINE_S = patient(120.0)
WIDTH = 80
ROW = re.compile(r"[\d:.]{12}  shop-\d  shop\.")
#: the demo's two commands
IN_REPOSITORY = (sys.executable, "-m", "playground")
INSTALLED = (str(Path(sys.executable).with_name("canal-group")), "demo")
KEYS = [
    "shards",
    "transactions",
    "rows",
    "rows_per_s",
    "latency_ms_p50",
    "latency_ms_p99",
    "order_violations",
    "split_transactions",
    "missing",
    "duplicates",
    "tables_equal",
    "snapshot_rows",
]


@pytest.fixture(scope="module", params=[MariaDbServer, MySqlServer], ids=lambda make: make.engine)
def whole_server(request):
    with all_started(request.param()) as (server,):
        yield server


@pytest.fixture
def server(whole_server):
    """A server without what the last test's writer wrote."""
    whole_server.execute(f"DROP DATABASE IF EXISTS {schema_name(0)}")
    return whole_server


def test_a_stranger_on_the_machine_gets_into_no_server_of_ours(server):
    """Its port is everybody's: each account has a password, and root writes files in one folder only."""
    accounts = {user for user, _ in server.execute("SELECT user, host FROM mysql.user")}
    assert {"root", CANAL_USER} <= accounts
    for user, password in product({*accounts, ""}, ("", "root", "canal", server.engine)):
        with pytest.raises(pymysql.OperationalError, match=r"denied|not allowed|locked"):
            pymysql.connect(host="127.0.0.1", port=server.port, user=user, password=password)
    for user in ("root", CANAL_USER):
        where = server.address(user)
        pymysql.connect(
            host=where.host, port=where.port, user=user, password=where.password, ssl_disabled=True
        ).close()
    target = server.folder / "written"
    with pytest.raises(pymysql.OperationalError, match="secure-file-priv"):
        server.execute(f"SELECT 1 INTO OUTFILE '{target}'")
    assert not target.exists()
    server.execute("CREATE DATABASE files", "CREATE TABLE files.t (line TEXT)")
    with pytest.raises(pymysql.OperationalError, match="secure-file-priv"):
        server.execute("LOAD DATA INFILE '/etc/hostname' INTO TABLE files.t")
    assert server.execute("SELECT COUNT(*) FROM files.t") == ((0,),)
    assert server.execute("SELECT LOAD_FILE('/etc/hostname')") == ((None,),)
    assert server.folder.stat().st_mode & 0o077 == 0, "nobody else reaches the socket"
    command = Path(f"/proc/{server.pid}/cmdline").read_bytes().decode()
    for password in (server.password, server.address().password):
        assert len(password) == 32
        assert password not in command
        assert password not in server.log_path.read_text(errors="replace")
    users = server.template().with_name("users.sql")
    assert server.password in users.read_text()
    assert users.stat().st_mode & 0o777 == 0o600


@pytest.fixture
def folder():
    """A folder for temporary files; its name is short, because sockets lie in it."""
    with tempfile.TemporaryDirectory(prefix="cg-", dir="/tmp") as name:
        yield Path(name)


@pytest.fixture
def demo(tmp_path, folder):
    """Start demos as commands of their own, with a private folder for temporary files."""
    started = []

    def start(*arguments: str, command: tuple[str, ...] = IN_REPOSITORY) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*command, *arguments],
            stdout=subprocess.PIPE,
            stderr=(tmp_path / "stderr").open("w"),
            text=True,
            env={**os.environ, "TMPDIR": str(folder), "COLUMNS": str(WIDTH)},
            start_new_session=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
            process.wait()


def descendants(pid: int) -> set[int]:
    """Return the processes that a process started, and those that these did.

    It asks for children only: a look at every process, ten times a second, takes a tenth of a processor.
    """
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        parent = waiting.pop()
        for listed in Path(f"/proc/{parent}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                new = {int(child) for child in listed.read_text().split()} - found
                found |= new
                waiting += new
    return found


class Watch:
    """Collects a process's descendants while it lives."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.seen: set[int] = set()
        self._process = process
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while self._process.poll() is None and not self._over.wait(0.1):
            self.seen |= descendants(self._process.pid)

    def left(self) -> set[int]:
        """Return those that live on after the process, given a moment to die."""
        self._over.set()
        self._thread.join()
        deadline_s = time.monotonic() + 5
        while (alive := {pid for pid in self.seen if _lives(pid)}) and time.monotonic() < deadline_s:
            self._over.wait(0.1)
        return alive


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_for(condition, what: str) -> None:
    deadline_s, pause = time.monotonic() + DEADLINE_S, threading.Event()
    while not condition():
        assert time.monotonic() < deadline_s, f"still waiting for {what}"
        pause.wait(0.1)


def test_a_server_has_its_temporary_files_to_itself(server):
    """At its start it removes those that it finds."""
    ((folder,),) = server.execute("SELECT @@tmpdir")
    assert Path(folder) == server.folder


def test_a_writer_remembers_exactly_what_the_server_committed(server):
    """1. a writer runs its workload; 2. the last GTID is the record's; 3. the rows are those left."""
    record = prepare(server, 0, "shop-0")
    workload = Workload(shard=0, shards=2, seed=3, transactions=200, gentle=5, big_rows=1300)
    writer = Writer(server, 0, workload, record, gentle_rate=200, seconds=30)
    writer.start()
    writer.join(DEADLINE_S)
    assert writer.error is None
    assert writer.done
    assert writer.gentle_until_us

    source, number = server.last_gtid()
    by_gtid = dict(record.by_gtid())
    assert list(by_gtid)[-1] == f"{source}{number}"
    assert len(by_gtid) == 202

    changes = [change for each in record.transactions for change in each]
    assert sum(change.rows for change in changes) == record.rows
    left = {
        table: sum(c.rows * {"INSERT": 1, "DELETE": -1}.get(c.op, 0) for c in changes if c.table == table)
        for table in ("orders", "items")
    }
    rows = read_tables([server], ["shop-0"])
    assert {name: sum(key[1] == name for key in rows) for name in left} == left


def test_a_late_writer_still_adds_the_column_and_the_large_transaction(server):
    record = prepare(server, 0, "shop-0")
    workload = Workload(shard=0, shards=1, seed=3, transactions=50_000, big_rows=600)
    writer = Writer(server, 0, workload, record, gentle_rate=10, seconds=0.5)
    writer.start()
    writer.join(DEADLINE_S)
    assert writer.error is None
    assert len(record.transactions) < 50_000
    assert [changes[0].op for changes in record.transactions[-2:]] == ["ALTER", "INSERT"]
    assert sum(change.rows for change in record.transactions[-1]) == 600


@pytest.mark.soak
@pytest.mark.parametrize("snapshot", [(), ("--snapshot",)], ids=["empty", "full"])
@pytest.mark.parametrize("engine", list(Engine))
def test_the_demo_proves_its_stream_and_leaves_nothing_behind(demo, folder, tmp_path, engine, snapshot):
    """With full tables the stream begins with their rows, and an archive is written, which goes as well."""
    require(engine)
    sizes = ("--shards", "2", "--transactions", "300", "--seconds", "60", "--seed", "5")
    process = demo("--json", "--engine", engine, *sizes, *snapshot)
    watch = Watch(process)
    output, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0, (tmp_path / "stderr").read_text()
    (line,) = output.splitlines()
    report = json.loads(line)
    assert list(report) == KEYS
    assert (report["shards"], report["transactions"]) == (2, 303)
    assert report["rows"] > 20_000
    assert report["latency_ms_p50"] <= report["latency_ms_p99"]
    assert report["tables_equal"] is True
    assert not sum(report[name] for name in KEYS[6:10])
    assert (report["snapshot_rows"] > 20_000) == bool(snapshot)
    assert watch.seen
    assert not watch.left()
    assert not list(folder.iterdir())


@pytest.mark.soak
def test_the_demo_of_recorded_files_needs_no_server(demo, folder, tmp_path, monkeypatch):
    """No program of a database or of Java is found; what is read was written by both makes of servers."""
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent) + ":/bin")
    process = demo("--json", "--files", command=INSTALLED)
    watch = Watch(process)
    output, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0, (tmp_path / "stderr").read_text()
    report = json.loads(output)
    assert list(report) == KEYS
    recorded = recorded_shards()
    assert {each.record.gtid_source.count("-") for each in recorded} == {2, 4}, "of both makes"
    assert report["shards"] == len(recorded) == 4
    assert report["transactions"] == sum(len(each.record.transactions) for each in recorded)
    assert report["rows"] == sum(each.record.rows for each in recorded)
    assert (report["latency_ms_p50"], report["latency_ms_p99"]) == (None, None)
    assert report["tables_equal"] is True
    assert not sum(report[name] for name in KEYS[6:10])
    assert not watch.left()
    assert not list(folder.iterdir())


@pytest.mark.soak
def test_the_demo_shows_rows_and_says_the_result_in_words(demo, tmp_path):
    process = demo("--files", command=INSTALLED)
    output, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0, (tmp_path / "stderr").read_text()
    assert not (tmp_path / "stderr").read_text()
    lines = output.splitlines()
    assert max(map(cell_len, lines)) <= WIDTH
    assert "None" not in output
    rows = [line.split() for line in lines if ROW.match(line)]
    assert {shard for _, shard, *_ in rows} == {each.record.shard for each in recorded_shards()}
    assert [clock for clock, *_ in rows] == sorted(clock for clock, *_ in rows)
    assert len(rows) >= FIRST_ROWS
    written = sum(each.record.rows for each in recorded_shards())
    assert f"  {written} of {written} written rows have arrived\n" in output
    result = lines[lines.index("The stream is right:") :]
    assert f", {written} rows." in result[1]
    assert any(line.startswith("The page was http://127.0.0.1:") for line in result)
    assert "Try next:" in result


@pytest.mark.parametrize("command", [IN_REPOSITORY, INSTALLED], ids=["repository", "installed"])
def test_ctrl_c_in_the_first_seconds_is_a_line(demo, folder, tmp_path, command):
    """1. the demo imports; 2. when it has come to Ray's compiled module, Ctrl-C; 3. it ends, and says so."""
    process = demo("--files", command=command)
    wait_for(lambda: "_raylet" in Path(f"/proc/{process.pid}/maps").read_text(), "the import of Ray")
    os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 130
    assert (tmp_path / "stderr").read_text() == "Interrupted: nothing was started yet.\n"
    assert not output
    assert not list(folder.iterdir())


@pytest.mark.soak
@pytest.mark.parametrize("phase", ["starting ZooKeeper", "writing and reading"])
def test_ctrl_c_ends_all_of_it(demo, folder, tmp_path, phase):
    """1. the demo starts; 2. in a phase, Ctrl-C reaches its whole process group; 3. nothing is left."""
    require(Engine.MARIADB)
    process = demo("--shards", "2", "--zookeeper", "--json")
    watch = Watch(process)
    wait_for(
        lambda: phase in (tmp_path / "stderr").read_text() or process.poll() is not None, f"the phase {phase}"
    )
    assert process.poll() is None, (tmp_path / "stderr").read_text()
    os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=DEADLINE_S)
    printed = (tmp_path / "stderr").read_text()
    assert process.returncode == 130, printed
    assert printed.count("Interrupted: stopping what was started") == 1
    assert "Traceback" not in printed
    assert not output
    assert watch.seen
    assert not watch.left()
    assert not list(folder.iterdir())


def test_a_missing_server_is_a_sentence(monkeypatch):
    monkeypatch.setattr("playground.database.mariadb.shutil.which", lambda *_, **__: None)
    from canal_group.merge.errors import ConfigError
    from playground.options import DemoOptions
    from playground.run import run_servers

    with pytest.raises(ConfigError, match="install the package mariadb-server"):
        run_servers(DemoOptions(shards=1))


def test_a_mysql_that_cannot_be_had_is_a_sentence(monkeypatch, tmp_path):
    """The script that unpacks it says why it cannot, and so does the demo; it is asked once."""
    script = tmp_path / "get-mysql.sh"
    script.write_text(f"#!/bin/sh\necho asked >> {tmp_path}/asked\necho 'get-mysql: no mirror' >&2\nexit 1\n")
    script.chmod(0o755)
    monkeypatch.setattr("playground.database.mysql._SCRIPT", script)
    programs = Programs(tmp_path / "cache" / "mysql")
    for _ in range(2):
        with pytest.raises(ServerMissingError, match=r"MySQL's server is missing: no mirror\."):
            programs.mysqld()
    assert (tmp_path / "asked").read_text() == "asked\n"
