"""A source whose readers read from a dump server."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from canal_group.binlog.server.dump_server.wire import socket_name
from canal_group.binlog.server.source import SourceAddress, connect, server_facts
from canal_group.merge.values.chunk import TableName
from playground.database.server_process import DatabaseServer

#: window of the dump servers of tests, unless they say otherwise, bytes
WINDOW_BYTES = 1 << 20


def dump_server_pids(address: SourceAddress) -> list[int]:
    """Return the process of a source's dump server, if there is one."""
    with contextlib.closing(connect(address)) as connection:
        name = socket_name(address, server_facts(address, connection).identity)
    shown = "@" + name.removeprefix("\0")
    lines = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
    sockets = {f"socket:[{fields[6]}]" for fields in lines if fields[-1] == shown}
    found = set()
    for each in Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            if str(each.readlink()) in sockets:
                found.add(int(each.parts[2]))
    return sorted(found - {os.getpid()})


@dataclass(frozen=True)
class Source:
    """A server, and readers' addresses of it, by number."""

    server: DatabaseServer
    address: Callable[..., SourceAddress]

    def reader(self, number: int = 0, **changes: Any) -> SourceAddress:
        """Return the address for a reader with an id of its own."""
        fields = {"name": f"s{number}", "server_id": 9100 + number, "dump_window_bytes_max": WINDOW_BYTES}
        return self.address(self.server, **{**fields, **changes})

    @property
    def dumps(self) -> list[int]:
        """The connections to which the server sends its binlog."""
        asked = "SELECT ID FROM information_schema.PROCESSLIST WHERE COMMAND LIKE 'Binlog Dump%'"
        return [int(row[0]) for row in self.server.execute(asked)]

    def dump_server(self) -> int:
        """Return the process of the dump server."""
        (pid,) = dump_server_pids(self.reader())
        return pid

    def insert(self, table: str, ids: range, text: str = "") -> None:
        """Insert rows, each in a transaction of its own."""
        self.server.execute(*(f"INSERT INTO app.{table} VALUES ({each}, '{text}')" for each in ids))

    def create(self, *tables: str) -> None:
        """Create tables of a number and a text."""
        self.server.execute(*(f"CREATE TABLE app.{name} (id INT PRIMARY KEY, v LONGTEXT)" for name in tables))


def only(table: str) -> Callable[[str, str], TableName | None]:
    """Return a filter that keeps one table of `app`."""
    return lambda schema, name: TableName(schema, name) if (schema, name) == ("app", table) else None


def ids(recorder: Any, table: str) -> list[int]:
    """Return the ids of the rows of a table in the order in which they came."""
    return [row["after"]["id"] for row in recorder.rows(table)]
