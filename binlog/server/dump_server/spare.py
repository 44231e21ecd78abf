"""Spare: a process that has imported what a dump server needs, and waits until it is told of which source.

An archive begins when its dump server does, and most of that is the start of a process. A shard that will
need one has it ready before its source is reached.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import subprocess
import sys
import threading

#: how long the process may take to detach itself, seconds
_DETACH_S = 30.0


class WaitingProcess:
    """A process that becomes a dump server, or ends when this object is closed, or with our process.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self) -> None:
        self._sock, theirs = socket.socketpair()
        try:
            with theirs:
                # The child detaches itself, because a dump server outlives this process and serves other
                # readers.
                self._started = subprocess.Popen(
                    # -P: what lies in the working folder is not a module of ours.
                    [sys.executable, "-P", "-m", "canal_group.binlog.dump_server"],
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                    start_new_session=True,
                )
        except BaseException:
            self._sock.close()
            raise

    @property
    def ended(self) -> bool:
        """Whether the process has ended: a waiting process sends nothing."""
        return bool(select.select([self._sock], [], [], 0)[0])

    def serve(self, listener: socket.socket, order: bytes) -> None:
        """Let it serve readers that connect to a socket, which it owns from now on; this object is closed.

        Args:
            listener: the socket.
            order: see `canal_group.binlog.dump_server.__main__`.

        Raises:
            OSError: it has ended.
        """
        with contextlib.closing(self):
            sent = socket.send_fds(self._sock, [order], [listener.fileno()])
            self._sock.sendall(order[sent:])

    def close(self) -> None:
        """Let it end, unless it serves."""
        self._sock.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._started.wait(_DETACH_S)


class Spare:
    """The spare of this process, if there is one. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: WaitingProcess | None = None

    def prepare(self) -> None:
        """Have a process ready; if it cannot be started now, it is when it is needed."""
        with self._lock:
            if self._process is None:
                with contextlib.suppress(OSError):
                    self._process = WaitingProcess()

    def take(self) -> WaitingProcess:
        """Return the process that is ready, or one that starts.

        Raises:
            OSError: it cannot be started.
        """
        with self._lock:
            process, self._process = self._process, None
        if process is not None and process.ended:
            process.close()
            process = None
        return process or WaitingProcess()

    def drop(self) -> None:
        """Need it no more: there is a dump server."""
        with self._lock:
            process, self._process = self._process, None
        if process is not None:
            process.close()


#: that of this process
SPARE = Spare()
