"""Processes for Ray's actors, forked from one that has imported what all of them import.

Ray starts two interpreters for each process, and both import Ray; then an actor imports what it needs. That
is more than a second of processor time, and the tests start hundreds of actors. Here Ray starts this file as
a script, which needs few modules. It has the process forked by a server, one for each environment, and
ends. The forked process does what Ray's own does: it runs the same script with the same arguments,
environment, folder and files.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

#: of Ray's environment: the folder of the servers' sockets
FOLDER = "CANAL_GROUP_TEST_WORKER_FORK"
#: the arguments of a process
REQUEST_BYTES_MAX = 1 << 16
#: what a process inherits: stdin, stdout, stderr
FILES = 3
#: Ray's processes find no module of the tests
_SERVE = """
import sys
sys.path.append(sys.argv[1])
from integration.worker_fork import serve
sys.path.pop()
serve(sys.argv[2])
"""


@contextlib.contextmanager
def used() -> Iterator[None]:
    """Let the Ray that is started meanwhile have its processes forked; end it before the block ends."""
    import tempfile
    from functools import partial

    from ray._private import parameter

    made = parameter.RayParams
    with tempfile.TemporaryDirectory(prefix="canal-group-fork-") as folder:
        os.environ[FOLDER] = folder
        parameter.RayParams = partial(made, setup_worker_path=__file__)
        try:
            yield
        finally:
            parameter.RayParams = made
            del os.environ[FOLDER]


def ask() -> None:
    """Ask for a process with the arguments, environment, folder and files of this one."""
    # Ray's own script has no use for the first two where no environment is to be prepared.
    left_out = "--language=", "--serialized-runtime-env-context="
    arguments = [each for each in sys.argv[1:] if not each.startswith(left_out)]
    with _connected() as connection:
        socket.send_fds(connection, [json.dumps(arguments).encode()], range(FILES))
        connection.recv(1)


def _connected() -> socket.socket:
    """Return a connection to the server of this environment, which is started if it does not run."""
    environment = hashlib.sha256(repr((Path.cwd(), sorted(os.environ.items()))).encode()).hexdigest()
    path = Path(os.environ[FOLDER], f"{environment[:16]}.fork")
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with path.with_suffix(".start").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            tests = str(Path(__file__).parents[1])
            server = subprocess.Popen(
                [sys.executable, "-P", "-c", _SERVE, tests, str(path)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                start_new_session=True,
            )
            assert server.stdout is not None
            assert server.stdout.readline(), "the server that forks processes did not start"
    connection.connect(str(path))
    return connection


def serve(path: str) -> None:
    """Fork a process for each request, until Ray ends."""
    import gc
    import select

    import ray._private.workers.default_worker  # noqa: F401  and all that Ray's processes import

    import canal_group.actors.gateway.gateway
    import canal_group.actors.group.group
    import canal_group.actors.shard.shard  # noqa: F401

    gc.collect()
    gc.freeze()
    # Nobody waits for the processes.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(path)
    listener.listen(16)
    os.write(1, b"ready\n")
    ray_ends = os.pidfd_open(int(os.environ["RAY_RAYLET_PID"]))
    while True:
        ready, _, _ = select.select([listener, ray_ends], [], [])
        if ray_ends in ready:
            return
        connection, _ = listener.accept()
        with connection:
            request, files, _, _ = socket.recv_fds(connection, REQUEST_BYTES_MAX, FILES)
            if not os.fork():
                break
            for file in files:
                os.close(file)
    listener.close()
    os.close(ray_ends)
    _run(json.loads(request), files)


def _run(arguments: list[str], files: list[int]) -> None:
    """Be the process that was asked for."""
    import runpy

    os.setpgid(0, 0)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    sys.argv = arguments
    sys.path.insert(0, str(Path(arguments[0]).parent))
    runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    ask()
