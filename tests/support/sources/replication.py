"""Servers that log GTIDs, and replicas of them."""

from __future__ import annotations

import contextlib

import pytest
from support.sources.recorder import await_rows, reading

from canal_group.binlog.server.listener import position_after
from canal_group.binlog.server.source import connect, server_facts
from canal_group.merge.values.gtids.gtid import parse_gtid_set
from playground.database.mariadb import MariaDbServer
from playground.database.mysql import MySqlServer
from playground.database.server_process import ServerMissingError
from playground.database.servers import start_all

MAKES = pytest.mark.parametrize("make", [MySqlServer, MariaDbServer], ids=lambda make: make.engine)
#: both vendors; the second one takes some seconds a test
FIRST_MARIADB = pytest.mark.parametrize(
    "make", [MariaDbServer, pytest.param(MySqlServer, marks=pytest.mark.soak)], ids=["mariadb", "mysql"]
)
#: the other server's binlog has another name, and other offsets
OTHER_LOG = ["--log-bin=other-bin"]


@contextlib.contextmanager
def servers(make, *options):
    """Servers, each with its own options, all with an empty table `app.g` that no binlog tells of."""
    started = [make(options=each) for each in options]
    try:
        start_all(started)
        for server in started:
            server.execute(
                "SET SESSION sql_log_bin = 0",
                "CREATE DATABASE app",
                "CREATE TABLE app.g (id INT PRIMARY KEY, v VARCHAR(3000))",
            )
        yield started
    except ServerMissingError as error:
        pytest.skip(str(error))
    finally:
        for server in started:
            server.close()


def insert(server, *ids):
    server.execute(*(f"INSERT INTO app.g VALUES ({i}, 'row {i}')" for i in ids))


def ids_of(recorder):
    return [row["after"]["id"] for row in recorder.rows("g")]


def replicate(source, replica):
    """Let a replica apply everything that a source has."""
    source.execute(
        "SET SESSION sql_log_bin = 0",
        f"CREATE USER repl@'127.0.0.1' IDENTIFIED BY '{source.password}'",
        "GRANT REPLICATION SLAVE ON *.* TO repl@'127.0.0.1'",
    )
    if isinstance(source, MariaDbServer):
        replica.execute(
            f"CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {source.port}, "
            f"MASTER_USER = 'repl', MASTER_PASSWORD = '{source.password}', MASTER_USE_GTID = slave_pos",
            "START SLAVE",
        )
    else:
        replica.execute(
            f"CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = {source.port}, "
            f"SOURCE_USER = 'repl', SOURCE_PASSWORD = '{source.password}', SOURCE_AUTO_POSITION = 1,"
            " GET_SOURCE_PUBLIC_KEY = 1",
            "START REPLICA",
        )


def gtids(server):
    variable = "gtid_binlog_pos" if isinstance(server, MariaDbServer) else "gtid_executed"
    ((text,),) = server.execute(f"SELECT @@GLOBAL.{variable}")
    return parse_gtid_set(text)


def last_position(recorder, address):
    """Return where a reader goes on after all that was recorded."""
    with contextlib.closing(connect(address)) as connection:
        server = server_facts(address, connection).identity
    (position,) = recorder.of("opened")
    for chunk in recorder.chunks:
        position = position_after(position, chunk, server, {})
    return position


def read_all(address, count):
    """Read so many rows, and return where the reader then stood."""
    with reading(address, begin="earliest") as recorder:
        await_rows(recorder, "g", count)
    return last_position(recorder, address)
