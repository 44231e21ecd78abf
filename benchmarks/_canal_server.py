"""canal's own server: a process with one instance for each destination, on a free port of 127.0.0.1.

Its jars are those that `scripts/get-brokers.sh canal-server` resolves at the first need; `CanalPeer.java` is
compiled each time.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pymysql

from benchmarks._load import SCHEMA, binlogs
from benchmarks._rivals import PASSWORD_VARIABLE
from playground.database.child_process import free_port, start_child
from playground.database.server_process import CANAL_PASSWORD, CANAL_USER, DatabaseServer

#: destinations with the same servers
WARM, MEASURED = "warm", "measured"

_PROJECT = Path(__file__).parents[1]
_JARS = _PROJECT / ".cache" / "canal-server"
_SCRIPT = _PROJECT / "scripts" / "get-brokers.sh"
_SOURCE = Path(__file__).with_name("CanalPeer.java")
_HOST = "127.0.0.1"
#: seconds that the jars, the compiler and the server's start and end may take
_FETCH_S, _COMPILE_S, _START_S, _STOP_S = 300.0, 120.0, 60.0, 30.0
#: MiB of its heap, all of which it has from the start
_HEAP_MIB = 1_024
_TAIL_CHARS = 2_000
#: how a server calls a dump's command
_DUMP = "Binlog Dump"


class CanalMissingError(RuntimeError):
    """canal's server cannot run on this machine; the message says why."""


@contextmanager
def canal_server(made: Sequence[DatabaseServer]) -> Iterator[str]:
    """Run canal's server over the binlogs of servers; yield its address.

    Raises:
        CanalMissingError: its jars or a JDK are missing.
        RuntimeError: it does not start.
    """
    java, javac = jdk()
    fetch()
    with tempfile.TemporaryDirectory(prefix="cg-bench-canal-") as folder:
        classpath = f"{folder}{os.pathsep}{_JARS}/*"
        _bounded([javac, "-nowarn", "-d", folder, "-cp", classpath, str(_SOURCE)], _COMPILE_S, "compile")
        port, log = free_port(), Path(folder, "log")
        heap = (f"-Xms{_HEAP_MIB}m", f"-Xmx{_HEAP_MIB}m")
        source = [SCHEMA + r"\..*", CANAL_USER, _first_binlog(made)]
        ports = [str(server.port) for server in made]
        command = [
            java,
            *heap,
            "-cp",
            classpath,
            "CanalPeer",
            str(port),
            f"{WARM},{MEASURED}",
            *source,
            *ports,
        ]
        process = start_child(command, log, {PASSWORD_VARIABLE: CANAL_PASSWORD})
        try:
            _await(process, port, log)
            yield f"{_HOST}:{port}"
        finally:
            # It keeps nothing.
            process.kill()
            process.wait(_STOP_S)
            _end_dumps(made)


def jdk() -> tuple[str, str]:
    """Return the paths of java and javac.

    Raises:
        CanalMissingError: one of them is missing.
    """
    home = os.environ.get("JAVA_HOME")
    java, javac = (shutil.which(f"{home}/bin/{name}" if home else name) for name in ("java", "javac"))
    if java is None or javac is None:
        raise CanalMissingError("There is no JDK (java and javac) on this machine: install one.")
    return java, javac


def fetch(jars: Path = _JARS, script: Path = _SCRIPT) -> None:
    """Get canal's jars, if they are not there.

    Args:
        jars: the folder that the script makes.
        script: gets them.

    Raises:
        CanalMissingError: they cannot be had; the message says why.
    """
    if jars.is_dir():
        return
    output = _bounded([str(script), "canal-server"], _FETCH_S, "fetch")
    if not jars.is_dir():
        raise CanalMissingError(f"canal's jars cannot be had: {output.strip().rpartition(chr(10))[2]}")


def _bounded(command: list[str], limit_s: float, what: str) -> str:
    """Run a command and return its output on stderr."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False)
    except subprocess.TimeoutExpired as error:
        raise CanalMissingError(f"canal's server: the {what} took more than {limit_s:g} s.") from error
    if done.returncode:
        raise RuntimeError(f"canal's server: the {what} failed: {done.stderr[-_TAIL_CHARS:]}")
    return done.stderr


def _end_dumps(made: Sequence[DatabaseServer]) -> None:
    """End the servers' dumps.

    A server notices only at the next event that the reader is gone, and no binlog may be removed meanwhile.
    """
    deadline_s = time.monotonic() + _STOP_S
    for server in made:
        while dumps := [row[0] for row in server.execute("SHOW PROCESSLIST") if row[4].startswith(_DUMP)]:
            if time.monotonic() > deadline_s:
                raise RuntimeError(f"{len(dumps)} dumps to canal's server did not end within {_STOP_S:g} s")
            for each in dumps:
                # It may end meanwhile.
                with suppress(pymysql.Error):
                    server.execute(f"KILL {each}")
            time.sleep(0.05)


def _first_binlog(made: Sequence[DatabaseServer]) -> str:
    """Return the name of the servers' oldest binlog: canal begins at one position on all of them."""
    (name,) = {binlogs(server)[0][0] for server in made}
    return name


def _await(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline_s = time.monotonic() + _START_S
    while True:
        with socket.socket() as probe:
            probe.settimeout(1.0)
            if probe.connect_ex((_HOST, port)) == 0:
                return
        if process.poll() is not None or time.monotonic() > deadline_s:
            output = log.read_text(errors="replace")[-_TAIL_CHARS:]
            raise RuntimeError(f"canal's server does not start: {output}")
        time.sleep(0.05)
