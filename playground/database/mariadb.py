"""MariaDB servers, of the programs that the system's packages install."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

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
        """Return the data folder that new servers begin with a copy of, users included (about 2 s)."""
        return _template.path()

    def program(self) -> list[str]:
        """Return the server's program, with the options that are its engine's."""
        return [_program("mariadbd", "mysqld"), *_OPTIONS]

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
    users, canal = datadir.with_name("users.sql"), f"'{CANAL_USER}'@'127.0.0.1'"
    # Before anybody can connect: root is made without a password, once for each name of this machine.
    secret_file(
        users,
        "FLUSH PRIVILEGES;\n"
        f"CREATE USER {canal} IDENTIFIED BY '{CANAL_PASSWORD}';\n"
        f"GRANT {', '.join(MARIADB_GRANTS)} ON *.* TO {canal};\n"
        "UPDATE mysql.global_priv SET priv = json_set(priv, '$.plugin', 'mysql_native_password',"
        f" '$.authentication_string', PASSWORD('{ROOT_PASSWORD}')) WHERE User = 'root';\n",
    )
    make_with(
        [
            program,
            "--no-defaults",
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
            f"--extra-file={users}",
            "--skip-name-resolve",
            f"--datadir={datadir}",
            f"--tmpdir={datadir.parent}",
            *run_as_root(),
        ],
        "mariadb-install-db",
    )


_template = DataTemplate(MariaDbServer.engine, _make_datadir)
