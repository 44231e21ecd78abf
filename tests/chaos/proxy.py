"""A TCP proxy that can break the connections through it, or hold them up."""

from __future__ import annotations

import contextlib
import socket
import threading


class Proxy:
    """Passes bytes between its clients and one target.

    When it is cut, its connections break, and new ones are closed at once. When it is frozen, its connections
    stay open and pass nothing, as when packets are lost; the bytes are passed on when it is mended. A
    connection that it swallows stays open and is never answered.

    Args:
        hosts: "host:port" of the target.
    """

    def __init__(self, hosts: str) -> None:
        self.retarget(hosts)
        self._lock = threading.Lock()
        self._whole = True
        self._to_swallow = 0
        self._flows = threading.Event()
        self._flows.set()
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        #: "host:port" to connect to
        self.hosts = f"127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        """Where it listens on 127.0.0.1."""
        return int(self._listener.getsockname()[1])

    def retarget(self, hosts: str) -> None:
        """Connect new clients to another target, "host:port"; existing connections keep theirs."""
        host, _, port = hosts.partition(":")
        self._target = (host, int(port))

    def drop(self) -> None:
        """Break all connections; new ones are accepted, unless the proxy is cut."""
        with self._lock:
            sockets, self._sockets = self._sockets, []
        for one in sockets:
            _close(one)

    def cut(self) -> None:
        """Break all connections, and refuse new ones."""
        with self._lock:
            self._whole = False
        self.drop()

    def swallow_next(self) -> None:
        """Accept the next connection, and never answer on it."""
        with self._lock:
            self._to_swallow += 1

    @property
    def has_swallowed(self) -> bool:
        """Whether every connection that was to be swallowed has come."""
        return self._to_swallow == 0

    def freeze(self) -> None:
        """Hold up all bytes."""
        self._flows.clear()

    def mend(self) -> None:
        """Pass connections, and the bytes that were held up, again."""
        with self._lock:
            self._whole = True
        self._flows.set()

    def close(self) -> None:
        """End all connections and stop listening."""
        self.cut()
        self._flows.set()
        _close(self._listener)

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._connect, args=(near,), daemon=True).start()

    def _connect(self, near: socket.socket) -> None:
        self._flows.wait()
        with self._lock:
            if self._whole and self._to_swallow:
                self._to_swallow -= 1
                self._sockets.append(near)
                return
            try:
                far = socket.create_connection(self._target, timeout=5) if self._whole else None
            except OSError:
                far = None
            if far is None:
                _close(near)
                return
            far.settimeout(None)
            self._sockets += [near, far]
        for source, target in ((near, far), (far, near)):
            threading.Thread(target=self._copy, args=(source, target), daemon=True).start()

    def _copy(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while part := source.recv(65536):
                self._flows.wait()
                target.sendall(part)
        _close(source)
        _close(target)
        with self._lock:
            self._sockets = [one for one in self._sockets if one not in (source, target)]


def _close(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
