"""MariaDB servers, of the programs that the system's packages install."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from playground.database.child_process import run_as_root
from playground.database.server_process import (
    CANAL_PASSWORD,
    CANAL_USER,
    DatabaseServer,
    DataTemplate,
    ServerMissingError,
    make_with,
)

#: the grants a shard's user needs on MariaDB 10.5 and later; older servers call the second REPLICATION CLIENT
MARIADB_GRANTS = ("REPLICATION SLAVE", "BINLOG MONITOR", "REFERENCES")

_OPTIONS = [
    "--no-defaults",
    "--character-set-server=utf8mb4",
    "--binlog-format=ROW",
    "--innodb-log-file-size=16M",
    "--aria-pagecache-buffer-size=1M",
]


class MariaDbServer(DatabaseServer):
    """One MariaDB server; it stamps commits in whole seconds."""

    engine = "mariadb"

    @classmethod
    def template(cls) -> Path:
        """Return the data folder that new servers begin with a copy of (about 2 s)."""
        return _template.path()

    def program(self) -> list[str]:
        """Return the server's program, with the options that are its engine's."""
        return [_program("mariadbd", "mysqld"), *_OPTIONS]

    def prepare(self) -> None:
        """Create the user that reads the binlog."""
        account = f"'{CANAL_USER}'@'127.0.0.1'"
        self.execute(
            "SET SESSION sql_log_bin = 0",
            f"CREATE USER {account} IDENTIFIED BY '{CANAL_PASSWORD}'",
            f"GRANT {', '.join(MARIADB_GRANTS)} ON *.* TO {account}",
        )

    def last_gtid(self) -> tuple[str, int]:
        """Return the newest GTID as ("domain-server-", number)."""
        ((position,),) = self.execute("SELECT @@GLOBAL.gtid_binlog_pos")
        domain, server_id, number = str(position or f"0-{self.server_id}-0").split("-")
        return f"{domain}-{server_id}-", int(number)


def _program(*names: str) -> str:
    search = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])
    for name in names:
        path = shutil.which(name, path=search)
        if path:
            return path
    raise ServerMissingError(
        f"{names[0]} was not found: install the package mariadb-server (apt-get install mariadb-server)."
    )


def _make_datadir(datadir: Path) -> None:
    program = _program("mariadb-install-db", "mysql_install_db")
    make_with(
        [
            program,
            "--no-defaults",
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
            "--skip-name-resolve",
            f"--datadir={datadir}",
            f"--tmpdir={datadir.parent}",
            *run_as_root(),
        ],
        "mariadb-install-db",
    )


_template = DataTemplate(MariaDbServer.engine, _make_datadir)
