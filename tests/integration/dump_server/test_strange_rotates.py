"""A source that names a file outside of its folder stops its shard; nothing is written there."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
import zlib
from collections.abc import Iterator

import pytest
from support.deadline import await_true
from support.sources.archived_source import Archived
from support.sources.dumped_source import dump_server_pids, only
from support.sources.recorder import await_rows, reading

from canal_group.binlog.formats.event_types import EventType
from canal_group.merge.errors import DataError

#: as long as the base name of the servers' binlogs
TRUE, EVIL = b"mysql-bin.", b"../../evl."
NOT_A_NAME = r"'\.\./\.\./evl\.\d+' is not a binlog file name"


class RenamingProxy:
    """Passes bytes to a server; renames the files in the ROTATE events that come back, while `renames`."""

    def __init__(self, host: str, port: int, *, renames: bool) -> None:
        self.renames = renames
        self._server = host, port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets = [self._listener]
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        for each in self._sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(self._server)
                self._sockets += [near, far]
                threading.Thread(target=self._pass, args=(near, far), daemon=True).start()
                threading.Thread(target=self._rename, args=(far, near), daemon=True).start()

    def _pass(self, near: socket.socket, far: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := near.recv(1 << 16):
                far.sendall(data)
            far.shutdown(socket.SHUT_RDWR)

    def _rename(self, far: socket.socket, near: socket.socket) -> None:
        with contextlib.suppress(OSError), far.makefile("rb") as packets:
            while len(head := packets.read(4)) == 4:
                payload = packets.read(int.from_bytes(head[:3], "little"))
                near.sendall(head + (renamed(payload) if self.renames else payload))
            near.shutdown(socket.SHUT_RDWR)


def renamed(payload: bytes) -> bytes:
    """Return a packet of a dump with another name in a ROTATE, whose checksum is right."""
    if payload[:1] != b"\0" or len(payload) < 28 or payload[5] != EventType.ROTATE:
        return payload
    has_checksum = payload[-4:] == zlib.crc32(payload[1:-4]).to_bytes(4, "little")
    payload = payload.replace(TRUE, EVIL)
    return payload[:-4] + zlib.crc32(payload[1:-4]).to_bytes(4, "little") if has_checksum else payload


@contextlib.contextmanager
def through(archived: Archived, *, renames: bool) -> Iterator[RenamingProxy]:
    where = archived.server.address()
    proxy = RenamingProxy(where.host, where.port, renames=renames)
    try:
        yield proxy
    finally:
        for pid in dump_server_pids(archived.reader(host="127.0.0.1", port=proxy.port)):
            os.kill(pid, signal.SIGKILL)
        proxy.close()


@pytest.mark.parametrize("archives", [True, False], ids=["archived", "not archived"])
@pytest.mark.parametrize("archived", ["mariadb"], indirect=True)
def test_a_dump_that_begins_with_a_strange_name_is_refused(archived: Archived, archives: bool) -> None:
    archived.create("a")
    plain = {} if archives else {"archive": None, "dump_window_bytes_max": 0}
    with through(archived, renames=True) as proxy:
        address = archived.reader(host="127.0.0.1", port=proxy.port, **plain)
        with (
            pytest.raises(DataError, match=NOT_A_NAME) as refused,
            reading(address, select=only("a"), connects=False) as recorder,
        ):
            await_true(lambda: recorder.error, "the shard stops")
        assert "s0" in str(refused.value)
    assert not list(archived.archive.folder.parent.rglob("evl.*"))


@pytest.mark.parametrize("archives", [True, False], ids=["archived", "not archived"])
@pytest.mark.parametrize("archived", ["mariadb"], indirect=True)
def test_a_dump_that_goes_on_in_a_strange_name_is_refused(archived: Archived, archives: bool) -> None:
    """The rows before are read, and archived; the error says after which offset the name came."""
    archived.create("a")
    plain = {} if archives else {"archive": None, "dump_window_bytes_max": 0}
    with through(archived, renames=False) as proxy:
        address = archived.reader(host="127.0.0.1", port=proxy.port, **plain)
        with contextlib.ExitStack() as stack:
            refused = stack.enter_context(pytest.raises(DataError, match=NOT_A_NAME))
            recorder = stack.enter_context(reading(address, select=only("a")))
            archived.insert("a", range(10))
            await_rows(recorder, "a", 10)
            proxy.renames = True
            archived.server.execute("FLUSH BINARY LOGS")
            await_true(lambda: recorder.error, "the shard stops")
        assert "mysql-bin.0" in str(refused.value)
    assert not list(archived.archive.folder.parent.rglob("evl.*"))
