"""Positions that a dump server keeps an archive's files for: of keepers that are there, or have just left."""

from __future__ import annotations

import json
import socket
import threading
from pathlib import Path

import pytest
from support.binlog.archived import SERVER, options_of
from support.deadline import await_true
from support.defaults import address_of

from canal_group.binlog.dump_server import dump_server as module
from canal_group.binlog.dump_server.dump_server import DumpServer
from canal_group.binlog.server.dump_server.wire import packets_of
from canal_group.merge.values.position import Position


def test_the_position_of_a_keeper_that_left_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1. Two shards keep positions; nobody answers at their source. 2. One leaves for good."""
    monkeypatch.setattr(module, "ARCHIVE_UNUSED_S", 1.0)
    monkeypatch.setattr(module, "REPORT_EVERY_S", 0.05)
    monkeypatch.setattr(module, "_TICK_S", 0.05)
    address = address_of("s1", "127.0.0.1", port=1, archive=options_of(tmp_path))
    path = str(tmp_path / "socket")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    with DumpServer(listener, address, SERVER, "mysql-bin.000001", 4) as server:
        leaves, stays = (keeper_of(name, path) for name in ("a/s", "b/s"))
        serving = threading.Thread(target=server.run)
        serving.start()
        await_true(lambda: owners(server) == ["a/s", "b/s"], "both positions")
        leaves.close()
        await_true(lambda: owners(server) == ["b/s"], "that of the one that is there")
        stays.close()
        serving.join()


def keeper_of(name: str, path: str) -> socket.socket:
    """Return a connection that has said what a keeper says."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    position = Position("mysql-bin.000001", 4).to_dict()
    connection.sendall(packets_of(json.dumps({"keeps": name, "positions": [["1001", position]]}).encode()))
    return connection


def owners(server: DumpServer) -> list[str]:
    return sorted(each.owner.removeprefix("1001 of ") for each in server._kept() or ())
