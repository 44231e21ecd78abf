"""The proxy between two parties: open, frozen, cut."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from chaos.proxy import Proxy

#: seconds after which bytes that have not arrived are held up
SOON_S, HELD_S = 10.0, 0.2


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    """A proxy in front of an echo server."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_echo, args=(listener,), daemon=True).start()
        proxy = Proxy(f"127.0.0.1:{listener.getsockname()[1]}")
        yield proxy
        proxy.close()


def _echo(listener: socket.socket) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection:
            while part := connection.recv(1024):
                connection.sendall(part)


def _connect(proxy: Proxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=SOON_S)


def test_whole_it_passes_bytes_on(proxy: Proxy):
    with _connect(proxy) as connection:
        connection.sendall(b"one")
        assert connection.recv(16) == b"one"


def test_frozen_it_holds_bytes_up_and_loses_none(proxy: Proxy):
    with _connect(proxy) as connection:
        proxy.freeze()
        connection.sendall(b"one")
        connection.settimeout(HELD_S)
        with pytest.raises(TimeoutError):
            connection.recv(16)
        proxy.mend()
        connection.settimeout(SOON_S)
        assert connection.recv(16) == b"one"


def test_cut_its_connections_end_and_new_ones_too_until_it_is_mended(proxy: Proxy):
    with _connect(proxy) as connection:
        connection.sendall(b"one")
        assert connection.recv(16) == b"one"
        proxy.cut()
        assert connection.recv(16) == b""
    with _connect(proxy) as connection:
        assert connection.recv(16) == b""
    proxy.mend()
    with _connect(proxy) as connection:
        connection.sendall(b"two")
        assert connection.recv(16) == b"two"
