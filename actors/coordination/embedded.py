"""An embedded ZooKeeper server for a single machine, from pyspark's jars.

It is an ordinary ZooKeeper without replicas: its data survives a restart of its owner, but not the loss of
its folder. pyspark itself is not imported; only its folder is looked up.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from canal_group.actors.process.durable import (
    PRIVATE,
    PRIVATE_FOLDER,
    make_folder,
    others_may_write,
    replace_file,
)
from canal_group.merge.errors import ConfigError, CoordinatorUnavailable

HOST = "127.0.0.1"
_MAIN = "org.apache.zookeeper.server.ZooKeeperServerMain"
_JAVA_HINT = "Install the Debian package default-jre-headless."
_CONFIG = "zoo.cfg"
_POLL_S = 0.05
_STOP_S = 5.0
#: attempts to start on a port that was free a moment ago
STARTS_MAX = 5

# Runs between fork and java: asks the kernel to kill this process when the thread that started it ends (also
# on kill -9 of its process), then executes java. A preexec_fn would do the same, but inside a forked copy of
# a threaded process.
_DIE_WITH_OWNER = """
import ctypes, os, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, 9)
if os.getppid() != int(sys.argv[1]):
    sys.exit("the owner is gone")
os.execv(sys.argv[2], sys.argv[2:])
"""


class EmbeddedZooKeeper:
    """A ZooKeeper server process on 127.0.0.1 that ends with its owner.

    Guarantees: ready when `start` returns; ended when the owner has ended, however it ended (on Linux). As a
    context manager it starts on entry and stops on exit.

    Args:
        port: port to listen on; 0: a free one, which stays the same when started again.
        folder: where data, configuration and log go; None: a temporary folder, removed by `stop`.
        tick_ms: milliseconds of a tick. Sessions expire after 2 to 20 ticks, as the client requests.
        start_timeout_s: seconds that starting may take.
        starts_max: attempts to start on a port that was free a moment ago.
    """

    def __init__(
        self,
        port: int = 0,
        folder: Path | None = None,
        *,
        tick_ms: int = 1000,
        start_timeout_s: float = 60.0,
        starts_max: int = STARTS_MAX,
    ) -> None:
        self._port = port
        self._any_port = port == 0
        self._folder = folder
        self._private = folder is None
        self._tick_ms = tick_ms
        self._start_timeout_s = start_timeout_s
        self._starts_max = starts_max
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def hosts(self) -> str:
        """`host:port` to connect to."""
        return f"{HOST}:{self._port}"

    @property
    def pid(self) -> int | None:
        """Id of the server's process; None while it is stopped."""
        return None if self._process is None else self._process.pid

    @property
    def log_file(self) -> Path | None:
        """Where the server logs; None while it has no folder."""
        return None if self._folder is None else _data(self._folder) / "zookeeper.log"

    def start(self) -> None:
        """Start the server and wait until it answers; do nothing if it runs.

        Raises:
            ConfigError: there is no java or no pyspark, the given port is taken, or the folder cannot be
                used or is writable for other users.
            CoordinatorUnavailable: it did not start.
        """
        if self._process is not None and self._process.poll() is None:
            return
        java, jars = _find_java(), _find_jars()
        if self._port and not _is_free(self._port):
            raise ConfigError(f"Port {self._port} of {HOST} is taken.", hint="Choose another one, or 0.")
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="canal-group-zookeeper-"))
        _make_private(self._folder)
        for attempt in range(1, self._starts_max + 1):
            self._port = self._port or _free_port()
            try:
                self._start_once(java, jars, self._folder)
            except CoordinatorUnavailable:
                self._end_process()
                if not self._any_port or attempt == self._starts_max or _is_free(self._port):
                    raise
                self._port = 0
            else:
                return

    def stop(self) -> None:
        """End the server, and remove its folder if it is temporary. May be called again."""
        self._end_process()
        if self._private and self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _start_once(self, java: str, jars: Path, folder: Path) -> None:
        # In a folder closed to other users, so that no link can redirect our writes.
        data = _data(folder)
        config, log = data / _CONFIG, data / "zookeeper.log"
        replace_file(config, _config(data, self._port, self._tick_ms))
        command = [
            java,
            "-Xmx128m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-Dzookeeper.preAllocSize=1024",
            "-Dorg.apache.logging.log4j.level=WARN",
            "-cp",
            f"{jars}/*",
            _MAIN,
            str(config),
        ]
        self._process = _Started(command, log).process()
        deadline_s = time.monotonic() + self._start_timeout_s
        while not _serves(self._port):
            if self._process.poll() is not None or time.monotonic() > deadline_s:
                raise CoordinatorUnavailable(
                    f"The embedded ZooKeeper did not start. {_tail(log)}",
                    hint=f"Its log is {log}.",
                )
            time.sleep(_POLL_S)

    def _end_process(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(signal.SIGTERM)
        # The process may be paused.
        process.send_signal(signal.SIGCONT)
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def running_in(folder: Path) -> str | None:
    """Return `host:port` of the server that runs in a folder; None: none does."""
    try:
        config = (_data(folder) / _CONFIG).read_text(encoding="utf-8")
    except OSError:
        return None
    for port in re.findall(r"(?m)^clientPort=(\d+)$", config):
        # The file stays when its server ends, and another server may have the port now.
        for data in re.findall(r"(?m)^dataDir=(.+)$", _ask(int(port), "conf")):
            if _data(folder).resolve() in Path(data).resolve().parents:
                return f"{HOST}:{port}"
    return None


class _Started:
    """Starts a process from a thread that lives as long as the process.

    The kernel's "die with your parent" follows the parent *thread*: started from a short-lived one, the
    server would be killed when that thread returns.
    """

    def __init__(self, command: list[str], log_file: Path) -> None:
        self._command = [sys.executable, "-I", "-S", "-c", _DIE_WITH_OWNER, str(os.getpid()), *command]
        self._log_file = log_file
        self._started = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._error: OSError | None = None
        threading.Thread(target=self._run, name="embedded-zookeeper", daemon=True).start()

    def process(self) -> subprocess.Popen[bytes]:
        """Return the process once it is started."""
        self._started.wait()
        if self._process is None:
            raise CoordinatorUnavailable(f"The embedded ZooKeeper did not start ({self._error}).")
        return self._process

    def _run(self) -> None:
        try:
            made = os.open(
                self._log_file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, PRIVATE
            )
            with os.fdopen(made, "ab") as log:
                self._process = subprocess.Popen(  # noqa: S603 - our own java command, no shell
                    self._command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    # Ctrl-C on a terminal is for the owner alone, which hands over first and then ends this.
                    start_new_session=True,
                )
        except OSError as error:
            self._error = error
        finally:
            self._started.set()
        if self._process is not None:
            self._process.wait()


def _make_private(folder: Path) -> None:
    """Make the folder of a server, closed to other users, because java makes files that all can read."""
    try:
        make_folder(folder)
        if others_may_write(folder):
            raise ConfigError(
                f"Other users may write to {folder}, the embedded ZooKeeper's folder: they could replace its"
                " data.",
                hint=f"chmod go-w {folder}, if it is yours; or set coordination.folder to another folder.",
            )
        make_folder(_data(folder))
        _data(folder).chmod(PRIVATE_FOLDER)
    except OSError as error:
        raise ConfigError(
            f"{folder} cannot be the embedded ZooKeeper's folder ({error.strerror}).",
            hint="Set coordination.folder to a folder of the user who runs the server.",
        ) from error


def _data(folder: Path) -> Path:
    return folder / "data"


def _find_java() -> str:
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin") if home else None
    java = java or shutil.which("java")
    if java is None:
        raise ConfigError("The embedded ZooKeeper needs java, which is not installed.", hint=_JAVA_HINT)
    return java


def _find_jars() -> Path:
    spec = importlib.util.find_spec("pyspark")
    for location in (spec.submodule_search_locations or ()) if spec is not None else ():
        jars = Path(location) / "jars"
        if any(jars.glob("zookeeper-3*.jar")):
            return jars
    raise ConfigError(
        "The embedded ZooKeeper is one of pyspark's jars, and pyspark is not installed.",
        hint=f"Install it with: pip install 'canal-group[spark]'. {_JAVA_HINT}",
    )


def _config(data: Path, port: int, tick_ms: int) -> str:
    lines = (
        f"tickTime={tick_ms}",
        f"dataDir={data}",
        f"clientPort={port}",
        f"clientPortAddress={HOST}",
        "admin.enableServer=false",
        "4lw.commands.whitelist=srvr,conf",
        "maxClientCnxns=0",
        "autopurge.snapRetainCount=3",
        "autopurge.purgeInterval=1",
    )
    return "\n".join(lines) + "\n"


def _serves(port: int) -> bool:
    """Return whether a ZooKeeper server reports a mode: connections are accepted earlier."""
    return "Mode:" in _ask(port, "srvr")


def _ask(port: int, word: str) -> str:
    """Return the answer to one of ZooKeeper's words of four letters; "" if none comes."""
    answer = b""
    try:
        with socket.create_connection((HOST, port), timeout=1) as connection:
            connection.sendall(word.encode())
            while part := connection.recv(4096):
                answer += part
    except OSError:
        return ""
    return answer.decode(errors="replace")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def _tail(log_file: Path) -> str:
    try:
        lines = log_file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return " | ".join(lines[-3:])
