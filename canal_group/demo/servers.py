"""Real MariaDB servers in private folders: what the demo reads from, and what the tests run against.

A `MariaDbServer` owns its folder and its process. It listens on a free port of 127.0.0.1 only, is configured
the way a shard must be (row format, full row metadata), and holds two users: `root` without a password, and
`canal` with exactly the grants the manual asks for. The process dies with ours, even after kill -9.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pymysql

CANAL_USER = "canal"
CANAL_PASSWORD = "canal"  # noqa: S105 - a private server of the demo, reachable from this machine only

#: the grants a shard's user needs on MariaDB 10.5 and later; older servers call the second REPLICATION CLIENT
MARIADB_GRANTS = ("REPLICATION SLAVE", "BINLOG MONITOR")

_SERVER = [
    "--no-defaults",
    "--bind-address=127.0.0.1",
    "--skip-name-resolve",
    "--character-set-server=utf8mb4",
    "--log-bin=mysql-bin",
    "--binlog-format=ROW",
    "--binlog-row-metadata=FULL",
    # A demo's data may be lost with the machine, never with the process.
    "--innodb-flush-log-at-trx-commit=2",
    "--sync-binlog=0",
    # Several side by side on a small machine.
    "--innodb-buffer-pool-size=16M",
    "--innodb-log-file-size=16M",
    "--innodb-log-buffer-size=4M",
    "--key-buffer-size=1M",
    "--aria-pagecache-buffer-size=1M",
    "--performance-schema=OFF",
    "--table-open-cache=64",
    "--max-connections=64",
]

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)
_template_lock = threading.Lock()
_template: list[tempfile.TemporaryDirectory[str]] = []
_server_ids = itertools.count(1)


class ServerMissingError(RuntimeError):
    """No MariaDB server is installed on this machine."""


class ServerFailedError(RuntimeError):
    """A MariaDB server did not come up; the message ends with the last lines of its log."""


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Where a demo server listens and who may read its binlog."""

    host: str
    port: int
    user: str
    password: str


def _die_with_parent(parent: int) -> Callable[[], None]:
    """Return what a child runs before exec, so that the kernel kills it when the parent is gone.

    The signal follows the thread that forked; servers are therefore started from `_starter`, a thread that
    lives as long as the process.
    """

    def prepare() -> None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # the parent died before the call above
            os._exit(1)

    return prepare


_starter = ThreadPoolExecutor(max_workers=1, thread_name_prefix="mariadb-starter")


def _popen(command: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    def start() -> subprocess.Popen[bytes]:
        with log.open("ab") as output:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                preexec_fn=_die_with_parent(os.getpid()),  # noqa: PLW1509 - two system calls, no lock
                start_new_session=True,
            )

    return _starter.submit(start).result()


def _program(*names: str) -> str:
    search = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])
    for name in names:
        found = shutil.which(name, path=search)
        if found:
            return found
    raise ServerMissingError(
        f"{names[0]} was not found: install the package mariadb-server (apt-get install mariadb-server)."
    )


def _run_as_root() -> list[str]:
    return ["--user=root"] if os.geteuid() == 0 else []


def template_datadir() -> Path:
    """Return a freshly installed, never started data folder to copy; built once per process (about 2 s).

    Raises:
        ServerMissingError: mariadb-install-db is not installed.
        ServerFailedError: it could not build a data folder.
    """
    with _template_lock:
        if not _template:
            program = _program("mariadb-install-db", "mysql_install_db")
            folder = tempfile.TemporaryDirectory(prefix="canal-group-mariadb-template-")
            datadir = Path(folder.name, "data")
            done = subprocess.run(
                [
                    program,
                    "--no-defaults",
                    "--auth-root-authentication-method=normal",
                    "--skip-test-db",
                    "--skip-name-resolve",
                    f"--datadir={datadir}",
                    *_run_as_root(),
                ],
                check=False,
                capture_output=True,
                text=True,
            )
            if done.returncode:
                folder.cleanup()
                raise ServerFailedError(f"mariadb-install-db failed: {(done.stdout + done.stderr)[-2000:]}")
            _template.append(folder)
        return Path(_template[0].name, "data")


def free_port() -> int:
    """Return a TCP port of 127.0.0.1 that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class MariaDbServer:
    """One MariaDB server with its own folder, port and process.

    Usable as a context manager. `stop` and `kill` keep the data: `restart` starts the same server on the same
    port again. `close` removes the folder.

    Args:
        server_id: unique among the servers of a demo; default: the next number of this process.
        options: further mariadbd options; the last one wins.
        folder: where its data lives; default: a temporary folder, removed by `close`.
        start_timeout_s: how long it may take to answer.

    Raises:
        ServerMissingError: mariadbd is not installed.
        ServerFailedError: it did not answer in time.
    """

    def __init__(
        self,
        *,
        server_id: int | None = None,
        options: Iterable[str] = (),
        folder: Path | None = None,
        start_timeout_s: float = 60.0,
    ) -> None:
        self.server_id = next(_server_ids) if server_id is None else server_id
        self.options = tuple(options)
        self.port = free_port()
        self._start_timeout_s = start_timeout_s
        self._temporary = None if folder else tempfile.TemporaryDirectory(prefix="canal-group-mariadb-")
        self.folder = folder or Path(self._temporary.name if self._temporary else "")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def socket_path(self) -> Path:
        """The server's Unix socket."""
        return self.folder / "mariadb.sock"

    @property
    def log_path(self) -> Path:
        """The server's error log."""
        return self.folder / "mariadb.log"

    @property
    def running(self) -> bool:
        """Whether the process is alive."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        """Start the server and wait until it answers; a first start creates the users too."""
        if self.running:
            return self
        datadir = self.folder / "data"
        fresh = not datadir.exists()
        if fresh:
            self.folder.mkdir(parents=True, exist_ok=True)
            shutil.copytree(template_datadir(), datadir)
        self._launch(datadir)
        if fresh:
            self._create_user()
        return self

    def restart(self) -> Self:
        """Start the server again on the same data and port, after `stop` or `kill` (or stop it first)."""
        self.stop()
        return self.start()

    def stop(self) -> None:
        """Shut the server down in good order."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End the server with SIGKILL, as a crash would."""
        self._end(signal.SIGKILL)

    def close(self) -> None:
        """End the server and remove its folder."""
        self.kill()
        if self._temporary is not None:
            self._temporary.cleanup()

    def address(self, user: str = CANAL_USER, password: str = CANAL_PASSWORD) -> ServerAddress:
        """Return where to connect, by default as the user that may only read the binlog."""
        return ServerAddress("127.0.0.1", self.port, user, password)

    def connect(self, database: str | None = None, **options: Any) -> pymysql.Connection[Any]:
        """Return a connection as root, with autocommit."""
        return pymysql.connect(
            host="127.0.0.1",
            port=self.port,
            user="root",
            database=database,
            charset="utf8mb4",
            autocommit=True,
            connect_timeout=5,
            ssl_disabled=True,
            **options,
        )

    def execute(self, *statements: str, database: str | None = None) -> tuple[tuple[Any, ...], ...]:
        """Run statements as root in one session and return the rows of the last one."""
        rows: tuple[tuple[Any, ...], ...] = ()
        with contextlib.closing(self.connect(database)) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
                rows = tuple(tuple(row) for row in cursor.fetchall())
        return rows

    def _launch(self, datadir: Path) -> None:
        command = [
            _program("mariadbd", "mysqld"),
            *_SERVER,
            *_run_as_root(),
            f"--datadir={datadir}",
            f"--socket={self.socket_path}",
            f"--pid-file={self.folder / 'mariadb.pid'}",
            f"--port={self.port}",
            f"--server-id={self.server_id}",
            *self.options,
        ]
        self._process = _popen(command, self.log_path)
        deadline = time.monotonic() + self._start_timeout_s
        while True:
            try:
                self.connect().close()
            except pymysql.Error as error:
                if not self.running or time.monotonic() > deadline:
                    self.kill()
                    raise ServerFailedError(f"mariadbd did not come up: {self._log_tail()}") from error
                time.sleep(0.05)
            else:
                return

    def _create_user(self) -> None:
        account = f"'{CANAL_USER}'@'127.0.0.1'"
        self.execute(
            "SET SESSION sql_log_bin = 0",
            f"CREATE USER {account} IDENTIFIED BY '{CANAL_PASSWORD}'",
            f"GRANT {', '.join(MARIADB_GRANTS)} ON *.* TO {account}",
        )

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:
            process.send_signal(how)
            try:
                process.wait(self._start_timeout_s)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _log_tail(self) -> str:
        return self.log_path.read_text(errors="replace")[-2000:] if self.log_path.exists() else "no log"

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def start_all(servers: Sequence[MariaDbServer]) -> None:
    """Start several servers side by side; if one fails, end them all and raise its error."""
    template_datadir()
    with ThreadPoolExecutor(max_workers=max(1, len(servers))) as pool:
        futures = [pool.submit(server.start) for server in servers]
    try:
        for future in futures:
            future.result()
    except Exception:
        for server in servers:
            server.close()
        raise
