"""Server processes: what database servers of any make have in common here.

A server owns its folder and its process. It listens on a free port of 127.0.0.1 only, is configured the way
a shard must be (row format), and holds two users: `root`, and `canal` with exactly the grants the manual asks
for. Their passwords are random, root connects by the socket in the server's folder, which other users of the
machine cannot enter, and statements write files nowhere else. The process dies with ours, even after
kill -9.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

import pymysql

from playground.database.child_process import free_port, run_as_root, start_child

CANAL_USER = "canal"
#: of this process's servers: every user of the machine reaches their ports. A rig of several processes may
#: choose it
CANAL_PASSWORD = os.environ.get("CANAL_GROUP_CANAL_PASSWORD", secrets.token_hex(16))
#: the same of root; a rig that connects by itself may choose it
ROOT_PASSWORD = os.environ.get("CANAL_GROUP_ROOT_PASSWORD", secrets.token_hex(16))
#: a private folder of processes with the same passwords: they share the data folders that servers begin with
_TEMPLATES = os.environ.get("CANAL_GROUP_DATA_TEMPLATES")

_LOG_TAIL_CHARS = 2000
#: of every server
_OPTIONS = [
    "--bind-address=127.0.0.1",
    "--skip-name-resolve",
    "--log-bin=mysql-bin",
    # A demo's data may be lost with the machine, never with the process.
    "--innodb-flush-log-at-trx-commit=2",
    "--sync-binlog=0",
    # Several side by side on a small machine.
    "--innodb-buffer-pool-size=16M",
    "--innodb-log-buffer-size=4M",
    "--key-buffer-size=1M",
    "--performance-schema=OFF",
    "--table-open-cache=64",
    "--max-connections=64",
]
#: what table maps say: the vendor's default unless this is set, to FULL, MINIMAL or NO_LOG
_ROW_METADATA = "CANAL_GROUP_ROW_METADATA"
_server_ids = itertools.count(1)


def _row_metadata() -> list[str]:
    value = os.environ.get(_ROW_METADATA)
    return [f"--binlog-row-metadata={value}"] if value else []


class ServerMissingError(RuntimeError):
    """The server's programs are not on this machine, and could not be had."""


class ServerFailedError(RuntimeError):
    """A server did not come up; the message ends with the last lines of its log."""


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Where a demo server listens and who may read its binlog."""

    host: str
    port: int
    user: str
    password: str


class DataTemplate:
    """A freshly made, never started data folder, to be copied; made once per process, or for several.

    Args:
        engine: part of its folder's name.
        make: makes the data folder at a path that does not exist yet.
        shared: a folder whose processes share it; None: it is this process's own.
    """

    def __init__(self, engine: str, make: Callable[[Path], None], shared: str | None = _TEMPLATES) -> None:
        self._engine, self._make, self._shared = engine, make, shared
        self._lock = threading.Lock()
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def path(self) -> Path:
        """Return the data folder; the first call makes it.

        Raises:
            ServerMissingError: the server's programs are missing.
            ServerFailedError: they could not make it.
        """
        with self._lock:
            return self._own() if self._shared is None else self._of_all(Path(self._shared))

    def _own(self) -> Path:
        if self._folder is None:
            folder = tempfile.TemporaryDirectory(prefix=f"canal-group-{self._engine}-template-")
            try:
                self._make(Path(folder.name, "data"))
            except BaseException:
                folder.cleanup()
                raise
            self._folder = folder
        return Path(self._folder.name, "data")

    def _of_all(self, shared: Path) -> Path:
        """Return the folder that one process makes while the others wait."""
        made, part = shared / self._engine, shared / f"{self._engine}.part"
        with (shared / f"{self._engine}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not made.exists():
                # What a process left that did not finish.
                shutil.rmtree(part, ignore_errors=True)
                part.mkdir()
                self._make(part / "data")
                part.rename(made)
        return made / "data"


class DatabaseServer(ABC):
    """One database server with its own folder, port and process.

    Usable as a context manager. `stop` and `kill` keep the data: `restart` starts the same server on the same
    port again. `close` removes the folder.

    Args:
        server_id: unique among the servers of a demo; default: the next number of this process.
        options: further options of the server; the last one wins.
        folder: where its data lives; default: a temporary folder, removed by `close`.
        start_timeout_s: how long it may take to answer.

    Raises:
        ServerMissingError: the server's programs are missing.
        ServerFailedError: it did not answer in time.
    """

    #: one word: part of names, and what the demo calls it
    engine: ClassVar[str]

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
        self._temporary = (
            None if folder else tempfile.TemporaryDirectory(prefix=f"canal-group-{self.engine}-")
        )
        self.folder = folder or Path(self._temporary.name if self._temporary else "")
        self._process: subprocess.Popen[bytes] | None = None

    # ---- what differs ----------------------------------------------------------------------------------

    @classmethod
    @abstractmethod
    def template(cls) -> Path:
        """Return the data folder that new servers begin with a copy of; see `DataTemplate.path`."""

    @abstractmethod
    def program(self) -> list[str]:
        """Return the server's program, with the options that are its engine's."""

    def command(self, datadir: Path) -> list[str]:
        """Return the command that runs the server in the foreground, without `options`."""
        return [
            *self.program(),
            *_OPTIONS,
            *_row_metadata(),
            *run_as_root(),
            f"--datadir={datadir}",
            # What a server finds there when it starts it removes: also what a running one has there.
            f"--tmpdir={self.folder}",
            f"--secure-file-priv={self._files}",
            f"--socket={self.socket_path}",
            f"--pid-file={self.folder / 'server.pid'}",
            f"--port={self.port}",
            f"--server-id={self.server_id}",
        ]

    @abstractmethod
    def last_gtid(self) -> tuple[str, int]:
        """Return the newest transaction's GTID: all before its number, and the number (0: there is none)."""

    # ---- life ------------------------------------------------------------------------------------------

    @property
    def socket_path(self) -> Path:
        """The server's Unix socket."""
        return self.folder / f"{self.engine}.sock"

    @property
    def _files(self) -> Path:
        """The only folder that statements read and write files in."""
        return self.folder / "files"

    @property
    def log_path(self) -> Path:
        """The server's error log."""
        return self.folder / f"{self.engine}.log"

    @property
    def running(self) -> bool:
        """Whether the process is alive."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int | None:
        """The process; None: it was not started, or was ended by us."""
        return self._process.pid if self._process is not None else None

    def start(self) -> Self:
        """Start the server and wait until it answers."""
        if self.running:
            return self
        datadir = self.folder / "data"
        if not datadir.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            self.folder.chmod(0o700)
            self._files.mkdir(exist_ok=True)
            copy_sparse(self.template(), datadir)
        self._process = start_child([*self.command(datadir), *self.options], self.log_path)
        self._await_answer()
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

    # ---- talking to it ---------------------------------------------------------------------------------

    @property
    def password(self) -> str:
        """Root's password."""
        return ROOT_PASSWORD

    def address(self, user: str = CANAL_USER, password: str | None = None) -> ServerAddress:
        """Return where to connect, by default as the user that may only read the binlog.

        Args:
            user: whose address it is.
            password: the user's; None: as the server was made, of `canal` or `root`.
        """
        if password is None:
            password = CANAL_PASSWORD if user == CANAL_USER else ROOT_PASSWORD
        return ServerAddress("127.0.0.1", self.port, user, password)

    def connect(self, database: str | None = None, **options: Any) -> pymysql.Connection[Any]:
        """Return a connection as root by the server's socket, with autocommit."""
        return pymysql.connect(
            unix_socket=str(self.socket_path),
            user="root",
            password=ROOT_PASSWORD,
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

    # ---- inside ----------------------------------------------------------------------------------------

    def _await_answer(self) -> None:
        deadline_s = time.monotonic() + self._start_timeout_s
        while True:
            try:
                self.connect().close()
            except pymysql.Error as error:
                if not self.running or time.monotonic() > deadline_s:
                    self.kill()
                    raise ServerFailedError(f"{self.engine} did not start: {self._log_tail()}") from error
                time.sleep(0.05)
            else:
                return

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
        if not self.log_path.exists():
            return "no log"
        return self.log_path.read_text(errors="replace")[-_LOG_TAIL_CHARS:]

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def make_with(command: Sequence[str], program: str) -> None:
    """Run a command that makes a data folder.

    Raises:
        ServerFailedError: it failed; the message has the end of its output.
    """
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise ServerFailedError(f"{program} failed: {(done.stdout + done.stderr)[-_LOG_TAIL_CHARS:]}")


def copy_sparse(source: Path, target: Path) -> None:
    """Copy a folder; where files are mostly holes, as log files and tablespaces are, holes stay holes."""
    copy = shutil.which("cp")
    sparse = [copy, "-a", "--sparse=always", str(source), str(target)] if copy else []
    if not sparse or subprocess.run(sparse, check=False, capture_output=True).returncode:
        shutil.copytree(source, target, dirs_exist_ok=True)
