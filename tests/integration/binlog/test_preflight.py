"""Preflight, connections and clocks on a real MariaDB server; the demo's server itself."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from pathlib import Path

import pymysql
import pytest
from support.deadline import await_true

from canal_group.binlog.server.clock import SourceClock
from canal_group.binlog.server.dump.registration import register
from canal_group.binlog.server.preflight.preflight import preflight, require
from canal_group.binlog.server.source import connect, server_facts
from canal_group.conf.load import build_instance
from canal_group.merge.errors import SourceUnavailable, SourceUnfit
from canal_group.programs.command.check.snapshot_check import check_snapshot
from playground.database import mariadb as mariadb_programs
from playground.database.child_process import free_port
from playground.database.mariadb import MariaDbServer
from playground.database.mysql import MySqlServer
from playground.database.server_process import ServerMissingError
from playground.database.servers import start_all


def failing(checks):
    return {check.name: check for check in checks if not check.ok}


def test_a_fit_source_passes_with_the_documented_grants(mariadb, source_address):
    checks = preflight(source_address(mariadb))
    assert failing(checks) == {}
    assert {c.name for c in checks} >= {"log_bin", "binlog_row_image", "REPLICATION SLAVE", "server_id"}
    require(checks)


@pytest.mark.parametrize(
    ("name", "bad", "fix"),
    [
        ("binlog_format", "MIXED", "SET GLOBAL binlog_format = 'ROW';"),
        ("binlog_format", "STATEMENT", "SET GLOBAL binlog_format = 'ROW';"),
    ],
)
def test_each_setting_is_checked_and_its_fix_mends_it(mariadb, source_address, name, bad, fix):
    address = source_address(mariadb)
    mariadb.execute(f"SET GLOBAL {name} = {bad}")
    try:
        found = failing(preflight(address))
        assert list(found) == [name]
        assert (found[name].found, found[name].fix) == (bad, fix)
        with pytest.raises(SourceUnfit, match=f"{name} is {bad}") as caught:
            require(preflight(address), "s1")
        assert caught.value.hint == fix
        assert failing(preflight(address, allow={name})) == {}
    finally:
        mariadb.execute(fix)
    assert failing(preflight(address)) == {}


def sessions_of(checks):
    return [(each.ok, each.found, each.fix) for each in checks if each.name == "binlog_format of sessions"]


def test_a_format_set_by_a_statement_may_not_apply_to_older_sessions(own_mariadb, source_address):
    address = source_address(own_mariadb)
    assert sessions_of(preflight(address)) == []
    own_mariadb.execute("SET GLOBAL binlog_format = 'ROW'")
    ((ok, found, fix),) = sessions_of(preflight(address))
    assert (ok, found.split(":")[0]) == (True, "set by a statement since the server was started")
    assert "configuration" in fix
    assert "pools" in fix


def test_mysql_names_the_sessions_that_write_statements(source_address):
    """1. Only an account that may see them is told. 2. What mends it mends it."""
    try:
        server = MySqlServer(options=["--performance-schema=ON"]).start()
    except ServerMissingError as error:
        pytest.skip(str(error))
    with server, server.connect() as connection, connection.cursor() as cursor:
        address = source_address(server)
        assert sessions_of(preflight(address)) == []
        cursor.execute("SET SESSION binlog_format = 'MIXED'")
        ((_, found, _),) = sessions_of(preflight(address))
        assert "older sessions" in found
        server.execute("GRANT SELECT ON performance_schema.* TO canal@'127.0.0.1'")
        session = f"MIXED in session {connection.thread_id()} of root@"
        ((ok, found, fix),) = sessions_of(preflight(address))
        assert (ok, found.startswith(session), fix) == (True, True, f"KILL {connection.thread_id()};")
        server.execute(fix)
        await_true(lambda: sessions_of(preflight(address)) == [], "the session is gone")


def test_missing_binlog(source_address):
    with MariaDbServer(options=["--skip-log-bin"]) as server:
        found = failing(preflight(source_address(server)))
        assert "log_bin" in found
        assert "restart" in found["log_bin"].fix


@pytest.mark.parametrize("missing", ["REPLICATION SLAVE", "BINLOG MONITOR"])
def test_each_privilege_is_checked_and_its_fix_mends_it(mariadb, source_address, missing):
    mariadb.execute(
        "CREATE OR REPLACE USER 'half'@'127.0.0.1' IDENTIFIED BY 'x'",
        "GRANT REPLICATION SLAVE, BINLOG MONITOR, REFERENCES ON *.* TO 'half'@'127.0.0.1'",
        f"REVOKE {missing} ON *.* FROM 'half'@'127.0.0.1'",
    )
    address = source_address(mariadb, user="half", password="x")
    found = failing(preflight(address))
    assert list(found) == [missing]
    assert found[missing].fix == f"GRANT {missing} ON *.* TO `half`@`127.0.0.1`;"
    mariadb.execute(found[missing].fix)
    assert failing(preflight(address)) == {}


def test_an_account_that_sees_no_table_is_told_of_the_grant(mariadb, source_address):
    """With full row metadata it may be read without; the statement that is named makes columns known."""
    name = "SELECT or REFERENCES"
    mariadb.execute(
        "CREATE OR REPLACE USER 'blind'@'127.0.0.1' IDENTIFIED BY 'x'",
        "GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO 'blind'@'127.0.0.1'",
        "CREATE TABLE app.t (u UUID)",
    )
    address = source_address(mariadb, user="blind", password="x")

    def found():
        checks = preflight(address)
        require(checks)
        (check,) = (check for check in checks if check.name == name)
        return check

    with pytest.raises(SourceUnfit, match="not granted: rows come without column names") as told:
        found()
    assert told.value.hint == "GRANT REFERENCES ON *.* TO `blind`@`127.0.0.1`;"
    mariadb.execute("SET GLOBAL binlog_row_metadata = 'FULL'")
    try:
        check = found()
    finally:
        mariadb.execute("SET GLOBAL binlog_row_metadata = 'NO_LOG'")
    assert check.found.startswith("not granted: UUID")
    assert check.fix == "GRANT REFERENCES ON *.* TO `blind`@`127.0.0.1`;"
    mariadb.execute("GRANT SELECT ON app.t TO 'blind'@'127.0.0.1'")
    assert (found().found, found().fix) == ("granted on some tables", "")
    mariadb.execute(check.fix)
    assert (found().found, found().fix) == ("granted", "")


def test_schemas_that_snapshots_may_not_select_are_named(mariadb, source_address, tmp_path):
    mariadb.execute(
        "CREATE OR REPLACE USER 'half'@'127.0.0.1' IDENTIFIED BY 'x'",
        "GRANT REPLICATION SLAVE, BINLOG MONITOR, REFERENCES ON *.* TO 'half'@'127.0.0.1'",
        "CREATE TABLE app.t (id INT PRIMARY KEY)",
    )
    address = source_address(mariadb, user="half", password="x")
    shard = {"name": "s1", "host": "h", "user": "half"}
    value = {"preset": "memory", "destination": "d", "shards": [shard], "filter": {"white": r"app\..*"}}
    assert check_snapshot(build_instance(value), address) == []
    archive = {"folder": str(tmp_path)}
    settings = build_instance({**value, "archive": archive, "consumer": {"snapshot": "initial"}})
    (check,) = failing(check_snapshot(settings, address)).values()
    assert (check.name, check.fix) == ("SELECT", "GRANT SELECT ON `app`.* TO `half`@`127.0.0.1`;")
    mariadb.execute(check.fix)
    checks = check_snapshot(settings, address)
    assert failing(checks) == {}
    assert checks[-1].found == "granted on 1 schemas"


def test_a_limit_of_snapshots_that_may_not_be_asked_for_is_named(server, source_address, tmp_path):
    on_mariadb = server.engine == "mariadb"
    monitor = "BINLOG MONITOR" if on_mariadb else "REPLICATION CLIENT"
    server.execute(
        "DROP USER IF EXISTS 'half'@'127.0.0.1'",
        "CREATE USER 'half'@'127.0.0.1' IDENTIFIED BY 'x'",
        f"GRANT REPLICATION SLAVE, {monitor}, REFERENCES ON *.* TO 'half'@'127.0.0.1'",
    )
    address = source_address(server, user="half", password="x")
    limits = {"replica_lag_max_s": 10, "history_list_max": 1_000_000}
    shard = {"name": "s1", "host": "h", "user": "half"}
    value = {"preset": "memory", "destination": "d", "shards": [shard], "snapshot": limits}
    settings = build_instance({**value, "archive": {"folder": str(tmp_path)}})
    name, right = ("replica_lag_max_s", "SLAVE MONITOR") if on_mariadb else ("history_list_max", "PROCESS")
    (check,) = failing(check_snapshot(settings, address)).values()
    expected = f"snapshot.{name}", f"GRANT {right} ON *.* TO `half`@`127.0.0.1`;"
    assert (check.name, check.fix) == expected
    server.execute(check.fix)
    found = {each.name: (each.ok, each.found) for each in check_snapshot(settings, address)}
    assert all(ok for ok, _ in found.values())
    assert found["snapshot.replica_lag_max_s"][1] == "it replicates nothing"
    assert "history list has" in found["snapshot.history_list_max"][1]
    assert found["snapshot"][1].startswith("exact" if on_mariadb else "by GTIDs")


def test_server_id_of_the_source_itself(mariadb, source_address):
    found = failing(preflight(source_address(mariadb, server_id=mariadb.server_id)))
    assert list(found) == ["server_id"]
    assert "server_id other than" in found["server_id"].fix


def test_server_id_of_another_replica(mariadb, source_address):
    mariadb.execute(
        "CREATE OR REPLACE USER 'lister'@'127.0.0.1' IDENTIFIED BY 'x'",
        "GRANT REPLICATION SLAVE, BINLOG MONITOR, REPLICATION MASTER ADMIN ON *.* TO 'lister'@'127.0.0.1'",
        "GRANT REFERENCES ON *.* TO 'lister'@'127.0.0.1'",
    )
    address = source_address(mariadb, user="lister", password="x", server_id=777)
    other = source_address(mariadb, destination="other", server_id=777)
    with contextlib.closing(connect(other)) as connection:
        register(connection, other)
        found = failing(preflight(address))
        assert list(found) == ["other replicas"]
        assert "canal-group:other/s1" in found["other replicas"].found
        assert failing(preflight(source_address(mariadb, user="lister", password="x", server_id=778))) == {}
        same_name = source_address(mariadb, user="lister", password="x", destination="other", server_id=777)
        assert failing(preflight(same_name)) == {}, "our own former connection"


def test_host_names_are_cut_to_sixty_bytes(mariadb, source_address):
    address = source_address(mariadb, destination="é" * 40)
    assert len(address.host_name.encode()) <= 60
    with contextlib.closing(connect(address)) as connection:
        register(connection, address)


def test_errors_are_ours(mariadb, source_address):
    wrong = source_address(mariadb, password="wrong-secret")
    with pytest.raises(SourceUnfit) as denied:
        connect(wrong)
    assert "GRANT REPLICATION SLAVE, REPLICATION CLIENT, REFERENCES ON" in denied.value.hint
    assert "wrong-secret" not in f"{denied.value} {wrong!r} {wrong}"
    with pytest.raises(SourceUnavailable):
        connect(source_address(mariadb, port=free_port()))


@pytest.mark.parametrize("present", ["nowhere", "elsewhere", "here"])
def test_the_hint_tells_a_missing_account_from_a_wrong_password(mariadb, source_address, present):
    """The server answers all three alike; its answer to the query in the hint chooses what mends it."""
    mariadb.execute("DROP USER IF EXISTS 'far'@'10.9.9.9', 'far'@'127.0.0.1'")
    if present != "nowhere":
        host = "127.0.0.1" if present == "here" else "10.9.9.9"
        mariadb.execute(
            f"CREATE USER 'far'@'{host}' IDENTIFIED BY 'another'",
            f"GRANT REPLICATION SLAVE, BINLOG MONITOR, REFERENCES ON *.* TO 'far'@'{host}'",
        )
    address = source_address(mariadb, user="far", password="mine")
    with pytest.raises(SourceUnfit) as refused:
        preflight(address)
    hint = refused.value.hint
    query = hint[hint.index("SELECT") : hint.index(";")]
    hosts = [host for _, host in mariadb.execute(query)]
    assert hosts == {"nowhere": [], "elsewhere": ["10.9.9.9"], "here": ["127.0.0.1"]}[present]
    missing, wrong = hint.split("A row whose host matches:")
    assert "No row whose host matches 127.0.0.1: the account is missing, or is for other hosts." in missing
    fix = wrong[wrong.index("ALTER") :] if present == "here" else missing[missing.index("CREATE") :]
    fix = fix.replace("<password>", "mine").replace("<that host>", "127.0.0.1")
    mariadb.execute(*(each for each in fix.split(";") if each.strip()))
    assert failing(preflight(address)) == {}


def test_every_missing_right_is_named_by_its_grant(mariadb, source_address):
    mariadb.execute("CREATE OR REPLACE USER 'bare'@'127.0.0.1' IDENTIFIED BY 'x'")
    address = source_address(mariadb, user="bare", password="x")
    with pytest.raises(SourceUnfit) as refused:
        require(preflight(address))
    grants = [each.strip() for each in refused.value.hint.split(";") if each.strip()]
    assert grants == [
        f"GRANT {each} ON *.* TO `bare`@`127.0.0.1`"
        for each in ("REPLICATION SLAVE", "BINLOG MONITOR", "REFERENCES")
    ]
    mariadb.execute(*grants)
    assert failing(preflight(address)) == {}


def test_facts(mariadb, source_address):
    address = source_address(mariadb)
    with contextlib.closing(connect(address)) as connection:
        facts = server_facts(address, connection)
    assert facts.mariadb
    assert facts.number >= (10, 5)
    assert facts.server_id == mariadb.server_id


@pytest.mark.parametrize("ahead_s", [0, 3600, -3600])
def test_the_source_clock_is_found_from_a_clock_that_is_off(mariadb, source_address, ahead_s):
    def our_time_ns():
        return time.time_ns() + ahead_s * 1_000_000_000

    address = source_address(mariadb)
    with contextlib.closing(connect(address)) as connection:
        clock = SourceClock.measure(address, connection, time_ns=our_time_ns)
    true_us = time.time_ns() // 1000
    # The server runs on this machine: its clock is the true one.
    assert abs(clock.skew_us + ahead_s * 1_000_000) <= clock.uncertainty_us + 10_000
    assert abs(clock.source_now_us() - true_us) < clock.uncertainty_us + 1_000_000
    assert 0 < clock.uncertainty_us < 5_000_000


def test_several_servers_start_side_by_side_and_keep_their_data():
    group = [MariaDbServer() for _ in range(3)]
    try:
        start_all(group)
        assert len({server.port for server in group}) == 3
        assert len({server.execute("SELECT @@server_id")[0][0] for server in group}) == 3
        first = group[0]
        first.execute("CREATE DATABASE app", "CREATE TABLE app.t (id INT)", "INSERT INTO app.t VALUES (1)")
        port = first.port
        first.kill()
        assert not first.running
        with pytest.raises(pymysql.Error):
            first.connect()
        first.restart()
        assert (first.port, first.execute("SELECT id FROM app.t")) == (port, ((1,),))
    finally:
        for server in group:
            server.close()
    assert not any(server.folder.exists() for server in group)


def test_a_missing_server_names_its_package(monkeypatch):
    monkeypatch.setattr(mariadb_programs.shutil, "which", lambda *_args, **_options: None)
    with pytest.raises(ServerMissingError, match="install the package mariadb-server"):
        mariadb_programs._program("mariadbd")


def test_servers_die_with_their_parent():
    """The kernel ends the server when the process that started it is killed."""
    program = textwrap.dedent("""
        from playground.database.mariadb import MariaDbServer
        server = MariaDbServer().start()
        print(server.pid, flush=True)
        input()
    """)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with tempfile.TemporaryDirectory(prefix="cg-") as folder:
        environment = {**os.environ, "TMPDIR": folder}
        with subprocess.Popen([sys.executable, "-c", program], env=environment, **pipes) as parent:
            pid = int(parent.stdout.readline())
            assert alive(pid)
            parent.send_signal(signal.SIGKILL)
        deadline, pause = time.monotonic() + 20, threading.Event()
        while alive(pid):
            assert time.monotonic() < deadline, "the server outlives its parent"
            pause.wait(0.02)


def alive(pid):
    """Return whether a process runs; one that nobody has waited for yet does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rsplit(")", 1)[1].split()[0] not in "ZX"
