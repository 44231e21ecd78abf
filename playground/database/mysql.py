"""MySQL servers, of programs that `scripts/get-mysql.sh` unpacks into a cache at the first need."""

from __future__ import annotations

import fcntl
import subprocess
import threading
from pathlib import Path
from typing import Final

from playground.database.child_process import run_as_root
from playground.database.secret_file import secret_file
from playground.database.server_process import (
    CANAL_PASSWORD,
    CANAL_USER,
    ROOT_PASSWORD,
    DatabaseServer,
    DataTemplate,
    ServerMissingError,
    make_with,
)

#: the grants a shard's user needs
MYSQL_GRANTS = ("REPLICATION SLAVE", "REPLICATION CLIENT", "REFERENCES")

_PROJECT: Final = Path(__file__).parents[2]
_SCRIPT: Final = _PROJECT / "scripts" / "get-mysql.sh"
_PREFIX: Final = _PROJECT / ".cache" / "mysql"
_FETCH_TIMEOUT_S: Final = 300.0

_OPTIONS = [
    "--mysqlx=OFF",
    "--gtid-mode=ON",
    "--enforce-gtid-consistency=ON",
    "--innodb-redo-log-capacity=16M",
    "--innodb-doublewrite=OFF",
]


class MySqlServer(DatabaseServer):
    """One MySQL server; it stamps commits in microseconds. Users log in with caching_sha2_password."""

    engine = "mysql"

    @classmethod
    def template(cls) -> Path:
        """Return the data folder that new servers begin with a copy of, users included (a few seconds)."""
        return _template.path()

    def program(self) -> list[str]:
        """Return the server's program, with the options that are its engine's."""
        return [str(_programs.mysqld()), *_OPTIONS]

    def last_gtid(self) -> tuple[str, int]:
        """Return the newest GTID as ("uuid:", number)."""
        ((executed, uuid),) = self.execute("SELECT @@GLOBAL.gtid_executed, @@GLOBAL.server_uuid")
        number = str(executed).rpartition(":")[2].rpartition("-")[2]
        return f"{uuid}:", int(number or 0)


class Programs:
    """The unpacked programs; fetched at most once per process, also where that fails.

    Args:
        prefix: folder that the script unpacks into, or that it did unpack into before.
    """

    def __init__(self, prefix: Path = _PREFIX) -> None:
        self._prefix = prefix
        self._lock = threading.Lock()
        self._refused: str | None = None

    def mysqld(self) -> Path:
        """Return the server's program.

        Raises:
            ServerMissingError: it is not there and cannot be fetched; the message says why.
        """
        program = self._prefix / "bin" / "mysqld"
        with self._lock:
            if self._refused is None and not program.exists():
                self._refused = self._fetch(program)
            if self._refused is not None:
                raise ServerMissingError(f"MySQL's server is missing: {self._refused}.")
        return program

    def _fetch(self, program: Path) -> str | None:
        """Unpack the programs, one process at a time; return why it could not be done."""
        self._prefix.parent.mkdir(exist_ok=True)
        with self._prefix.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if program.exists():
                return None
            try:
                done = subprocess.run(
                    [str(_SCRIPT), str(self._prefix)],
                    check=False,
                    capture_output=True,
                    text=True,
                    timeout=_FETCH_TIMEOUT_S,
                )
            except (OSError, subprocess.TimeoutExpired) as error:
                return str(error)
        if not done.returncode:
            return None
        last = (done.stderr.strip() or f"{_SCRIPT.name} ended with {done.returncode}").splitlines()[-1]
        return last.removeprefix("get-mysql: ").rstrip(".")


_programs = Programs()


def is_fetched() -> bool:
    """Return whether MySQL's programs are on this machine: fetching them takes a while."""
    return (_PREFIX / "bin" / "mysqld").exists()


def mysqlbinlog() -> Path:
    """Return MySQL's own client for binlogs; `--no-defaults` is given to it already.

    Raises:
        ServerMissingError: see `Programs.mysqld`.
    """
    return _programs.mysqld().with_name("mysqlbinlog")


def _make_datadir(datadir: Path) -> None:
    users = datadir.with_name("users.sql")
    canal, root = f"'{CANAL_USER}'@'127.0.0.1'", "'root'@'127.0.0.1'"
    # Names are not resolved, so that root@localhost is for the socket alone. A statement a line.
    secret_file(
        users,
        f"ALTER USER 'root'@'localhost' IDENTIFIED BY '{ROOT_PASSWORD}';\n"
        f"CREATE USER {root} IDENTIFIED BY '{ROOT_PASSWORD}';\n"
        f"GRANT ALL ON *.* TO {root} WITH GRANT OPTION;\n"
        f"CREATE USER {canal} IDENTIFIED BY '{CANAL_PASSWORD}';\n"
        f"GRANT {', '.join(MYSQL_GRANTS)} ON *.* TO {canal};\n",
    )
    make_with(
        [
            str(_programs.mysqld()),
            "--initialize-insecure",
            f"--init-file={users}",
            "--skip-log-bin",
            f"--tmpdir={datadir.parent}",
            "--innodb-redo-log-capacity=16M",
            *run_as_root(),
            f"--datadir={datadir}",
        ],
        "mysqld --initialize-insecure",
    )
    # The identity of one server: each copy gets its own at its first start.
    (datadir / "auto.cnf").unlink(missing_ok=True)


_template = DataTemplate(MySqlServer.engine, _make_datadir)
