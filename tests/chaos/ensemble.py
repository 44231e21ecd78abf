"""An ensemble of three ZooKeeper servers, run from pyspark's jars."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Final

from canal_group.actors.coordination.embedded import HOST, _find_jars, _find_java, _serves
from playground.database.child_process import free_port, start_child

_MAIN: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_TICK_MS: Final = 500
#: ticks that a follower may be silent, and that joining may take at most
_SYNC_TICKS, _INIT_TICKS = 5, 20
_START_S: Final = 60.0
_POLL_S: Final = 0.05


class Member:
    """One server of the ensemble; its data survives `kill`.

    Args:
        number: its id, from 1.
        folder: where its data, configuration and log go.
    """

    def __init__(self, number: int, folder: Path) -> None:
        self.number = number
        self.folder = folder
        self.port = free_port()
        self.peers = (free_port(), free_port())
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def hosts(self) -> str:
        """`host:port` to connect to."""
        return f"{HOST}:{self.port}"

    @property
    def line(self) -> str:
        """Its configuration line for all members."""
        quorum, election = self.peers
        return f"server.{self.number}={HOST}:{quorum}:{election}"

    @property
    def pid(self) -> int | None:
        """The process; None: it does not run."""
        running = self._process is not None and self._process.poll() is None
        return self._process.pid if running and self._process is not None else None

    @property
    def serves(self) -> bool:
        """Whether it reports that it serves."""
        return self.pid is not None and _serves(self.port)

    @property
    def leads(self) -> bool:
        """Whether it is the leader."""
        return self.pid is not None and b"Mode: leader" in _asked(self.port)

    def configure(self, lines: list[str]) -> None:
        """Write its configuration, with the lines of all members."""
        data = self.folder / "data"
        data.mkdir(parents=True)
        (data / "myid").write_text(str(self.number))
        own = (
            f"tickTime={_TICK_MS}",
            f"initLimit={_INIT_TICKS}",
            f"syncLimit={_SYNC_TICKS}",
            f"dataDir={data}",
            f"clientPort={self.port}",
            f"clientPortAddress={HOST}",
            "admin.enableServer=false",
            "4lw.commands.whitelist=srvr",
            "maxClientCnxns=0",
            # The audit reads the logs: all of them are kept.
            "autopurge.purgeInterval=0",
        )
        (self.folder / "zoo.cfg").write_text("\n".join([*own, *lines]) + "\n")

    def start(self) -> None:
        """Start it, if it is not running; it serves once there is a majority."""
        if self.pid is not None:
            return
        command = [
            _find_java(),
            "-Xmx128m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-Dzookeeper.preAllocSize=1024",
            "-Dorg.apache.logging.log4j.level=WARN",
            "-cp",
            f"{_find_jars()}/*",
            _MAIN,
            str(self.folder / "zoo.cfg"),
        ]
        self._process = start_child(command, self.folder / "zookeeper.log")

    def restart(self) -> None:
        """Restart it after it was killed."""
        self.end()
        self.start()

    def end(self) -> None:
        """End it, even if it is paused."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()


class Ensemble:
    """All members; a context manager that starts and ends them.

    Args:
        folder: where their data goes.
        size: how many.
    """

    def __init__(self, folder: Path, size: int = 3) -> None:
        self.members = [Member(number, folder / f"zookeeper-{number}") for number in range(1, size + 1)]

    @property
    def hosts(self) -> str:
        """The connection string of all members."""
        return ",".join(member.hosts for member in self.members)

    def start(self) -> None:
        """Start the members; `wait` says when they serve."""
        lines = [member.line for member in self.members]
        for member in self.members:
            member.configure(lines)
            member.start()

    def wait(self) -> None:
        """Wait until all members serve.

        Raises:
            RuntimeError: they do not in time; the message has the end of a log.
        """
        deadline_s = time.monotonic() + _START_S
        for member in self.members:
            while not member.serves:
                if time.monotonic() > deadline_s:
                    log = (member.folder / "zookeeper.log").read_text(errors="replace")
                    raise RuntimeError(f"ZooKeeper {member.number} does not serve: {log[-1500:]}")
                time.sleep(_POLL_S)

    def close(self) -> None:
        """End all members."""
        for member in self.members:
            member.end()


def _asked(port: int) -> bytes:
    """Return a server's own status; an empty string if it does not answer."""
    answer = b""
    try:
        with socket.create_connection((HOST, port), timeout=1) as connection:
            connection.sendall(b"srvr")
            while part := connection.recv(4096):
                answer += part
    except OSError:
        pass
    return answer
