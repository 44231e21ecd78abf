"""A stranger with README and a clone: servers as README prepares them, and commands of its `.venv`."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from integration.shop import DEADLINE_S
from integration.zookeeper_fixtures import eventually
from support.readme import ROOT, block

from playground.database.child_process import free_port, run_as_root
from playground.database.mariadb import MariaDbServer

PASSWORD = "a-password"
COMMAND = "canal-group"
#: columns of a terminal
WIDTH = 80


def words(line: str) -> list[str]:
    """Return the words of a command line, without its comment."""
    return shlex.split(line, comments=True)


class OwnServer(MariaDbServer):
    """A server with default settings and README's lines in my.cnf; it has no user for us.

    Args:
        number: its `server_id`.
    """

    def __init__(self, number: int) -> None:
        super().__init__(server_id=number)
        self.lines = re.sub(r"server_id = 1.*", f"server_id = {number}", block("my.cnf"))
        assert f"server_id = {number}\n" in self.lines

    def command(self, datadir: Path) -> list[str]:
        file = self.folder / "my.cnf"
        file.write_text(self.lines)
        return [
            self.program()[0],
            f"--defaults-file={file}",
            f"--datadir={datadir}",
            f"--tmpdir={self.folder}",
            f"--socket={self.socket_path}",
            f"--port={self.port}",
            "--bind-address=127.0.0.1",
            "--innodb-buffer-pool-size=16M",
            *run_as_root(),
        ]


class Running:
    """A program that runs until Ctrl-C, and the file of what it prints."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process, self._log = process, log

    @property
    def printed(self) -> str:
        return self._log.read_text()

    def until(self, condition: Callable[[], object], what: str) -> str:
        """Wait for something that it does, and return its output so far."""

        def done() -> bool:
            assert self._process.poll() is None, self.printed
            return bool(condition())

        eventually(done, what, within_s=DEADLINE_S)
        return self.printed

    def says(self, text: str, times: int = 1) -> str:
        """Wait until it has printed a text, and return its output so far."""
        return self.until(lambda: self.printed.count(text) >= times, f"{text!r} to be printed")


class Stranger:
    """A folder beside a clone's `.venv`, and what is typed there.

    Args:
        folder: an empty one, which is the home folder, too.
        servers: of the shards, in order.
    """

    def __init__(self, folder: Path, servers: Sequence[OwnServer]) -> None:
        self.folder, self.servers = folder, servers
        self.gateway, self.canal = (f"127.0.0.1:{free_port()}" for _ in range(2))
        (folder / ".venv").symlink_to(sys.prefix)
        (folder / "examples").symlink_to(ROOT / "examples")
        self.variables = {
            **os.environ,
            "HOME": str(folder),
            "PATH": f"{folder / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "COLUMNS": str(WIDTH),
            "PYTHONUNBUFFERED": "1",
        }
        self.variables.pop("PYTHONPATH", None)

    def own(self, text: str) -> str:
        """Return a text with the ports, hosts and passwords of this machine."""
        for index, server in enumerate(self.servers, 1):
            text = text.replace(f"10.0.0.{index},", f"127.0.0.1, port: {server.port},")
        text = text.replace("'...'", f"'{PASSWORD}'").replace("127.0.0.1:11113", self.gateway)
        return text.replace("127.0.0.1:11111", self.canal)

    def export(self, line: str) -> None:
        """Set a variable, as a line `export NAME=VALUE` says."""
        command, assignment = words(self.own(line))
        assert command == "export"
        name, _, value = assignment.partition("=")
        self.variables[name] = value

    def line(self, line: str) -> list[str]:
        """Return the words of a command line, with the options that say which ports."""
        found = words(self.own(line))
        if found[0] == COMMAND:
            if found[1] == "serve":
                found += ["--http", "127.0.0.1:0"]
            elif "-d" in found:
                found += ["-g", f"grpc://{self.gateway}"]
        return found

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(self.own(text))

    def run(self, line: str) -> str:
        """Run a command line to its end and return its output."""
        options: dict[str, Any] = {"cwd": self.folder, "env": self.variables, "timeout": DEADLINE_S}
        done = subprocess.run(self.line(line), capture_output=True, text=True, check=False, **options)
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout + done.stderr

    @contextmanager
    def running(self, line: str, *, status: int = 0) -> Iterator[Running]:
        """Run a command line until Ctrl-C."""
        log = self.folder / "printed"
        log.write_text("")
        options: dict[str, Any] = {"cwd": self.folder, "env": self.variables, "stderr": subprocess.STDOUT}
        with log.open("w") as output, subprocess.Popen(self.line(line), stdout=output, **options) as process:
            running = Running(process, log.rename(self.folder / f"printed.{process.pid}"))
            try:
                yield running
            finally:
                process.send_signal(signal.SIGINT)
                process.wait(DEADLINE_S)
        assert process.returncode == status, running.printed

    def insert(self, number: int, *, shard: int) -> None:
        self.servers[shard].execute(f"INSERT INTO shop_{shard}.orders_{shard} VALUES ({number}, 'red', 0.75)")
