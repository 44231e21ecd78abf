"""A server's binlogs as `mysqlbinlog --raw` writes them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from playground.database.mysql import MySqlServer, mysqlbinlog
from playground.database.server_process import DatabaseServer

_MARIADB = "mariadb-binlog"


def raw_binlogs(server: DatabaseServer, folder: Path) -> dict[str, bytes]:
    """Let the server's own program write its files to a new folder; return them by name."""
    folder.mkdir()
    is_mysql = isinstance(server, MySqlServer)
    tls = ["--ssl-mode=DISABLED", "--get-server-public-key"] if is_mysql else ["--no-defaults"]
    program = str(mysqlbinlog()) if is_mysql else shutil.which(_MARIADB)
    if program is None:
        pytest.skip(f"{_MARIADB} is not installed")
    login = server.address()
    where = [f"--host={login.host}", f"--port={login.port}", f"--user={login.user}"]
    options = ["--raw", "--read-from-remote-server", f"--result-file={folder}/", "--to-last-log"]
    ((first, *_), *_) = server.execute("SHOW BINARY LOGS")
    environment = {**os.environ, "MYSQL_PWD": login.password}
    subprocess.run([program, *tls, *options, *where, first], env=environment, check=True)
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
