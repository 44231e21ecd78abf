"""Message brokers of one's own: processes on free ports of 127.0.0.1, which end with their owner.

Their programs are those that `scripts/get-brokers.sh` unpacks.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, Self

from playground.database.child_process import free_port, start_child

_CACHE = Path(__file__).parents[1] / ".cache"
HOST = "127.0.0.1"
#: seconds that a broker may take to start or to end
_START_S, _STOP_S = 90.0, 30.0
_TAIL_CHARS = 2_000


class BrokerMissingError(RuntimeError):
    """The programs of a broker are not on this machine."""


class Broker(ABC):
    """A broker's process and its folder. A context manager: started on entry, stopped and removed on exit."""

    #: name in messages
    name: ClassVar[str]

    def __init__(self) -> None:
        self.port = free_port()
        self._folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def hosts(self) -> str:
        """`host:port` to connect to."""
        return f"{HOST}:{self.port}"

    @property
    def folder(self) -> Path:
        """Where its data and its log are."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix=f"canal-group-{self.name.lower()}-"))
            self._prepare()
        return self._folder

    def start(self) -> None:
        """Start, and wait until it answers; do nothing if it runs.

        Raises:
            BrokerMissingError: its programs are missing.
            RuntimeError: it does not start.
        """
        if self._process is not None and self._process.poll() is None:
            return
        log = self.folder / "log"
        self._process = start_child(self._command(), log)
        deadline_s = time.monotonic() + _START_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline_s:
                self.kill()
                output = log.read_text(errors="replace")[-_TAIL_CHARS:]
                raise RuntimeError(f"{self.name} does not start: {output}")
            time.sleep(0.05)

    def kill(self) -> None:
        """End it as a crash would; its data stay."""
        self._end(signal.SIGKILL)

    def terminate(self) -> None:
        """End it in order; its data stay."""
        self._end(signal.SIGTERM)

    def pause(self) -> None:
        """Let it answer nothing until `resume`."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """End it, and remove its folder."""
        self.terminate()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        # Whatever it has started is of its session.
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, how)
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._process = None

    @abstractmethod
    def _prepare(self) -> None:
        """Fill a new folder."""

    @abstractmethod
    def _command(self) -> list[str]:
        """Return the command of its process."""

    def _answers(self) -> bool:
        with socket.socket() as probe:
            probe.settimeout(1.0)
            return probe.connect_ex((HOST, self.port)) == 0


class KafkaBroker(Broker):
    """Kafka in KRaft mode, one node."""

    name = "Kafka"

    def __init__(self) -> None:
        super().__init__()
        self._controller_port = free_port()

    def _properties(self) -> dict[str, object]:
        """Return the content of its server.properties."""
        return {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@{HOST}:{self._controller_port}",
            "listeners": f"PLAINTEXT://{self.hosts},CONTROLLER://{HOST}:{self._controller_port}",
            "advertised.listeners": f"PLAINTEXT://{self.hosts}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": self.folder / "data",
            "num.partitions": 1,
            "offsets.topic.num.partitions": 1,
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.num.partitions": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "share.coordinator.state.topic.replication.factor": 1,
            "share.coordinator.state.topic.min.isr": 1,
            "group.initial.rebalance.delay.ms": 0,
            "auto.create.topics.enable": "true",
        }

    def _format_options(self) -> list[str]:
        """Return more arguments of the tool that formats its folder."""
        return []

    def _prepare(self) -> None:
        properties = self.folder / "server.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in self._properties().items()))
        words = ["format", "-t", "4L6g3nShT-eMCtK--X86sw", "-c", str(properties), *self._format_options()]
        done = subprocess.run(
            [*self._java("kafka.tools.StorageTool"), *words],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"Kafka's folder cannot be formatted: {done.stderr[-_TAIL_CHARS:]}")

    def _command(self) -> list[str]:
        return [*self._java("kafka.Kafka"), str(self.folder / "server.properties")]

    def _java(self, main: str) -> list[str]:
        jars, java = _CACHE / "kafka", shutil.which("java")
        if not jars.is_dir() or java is None:
            raise BrokerMissingError("Kafka is not on this machine: scripts/get-brokers.sh gets it.")
        tuned = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
        return [java, *tuned, "-cp", f"{jars}/*", main]


class RabbitBroker(Broker):
    """RabbitMQ, one node, with an epmd of its own."""

    name = "RabbitMQ"

    def __init__(self) -> None:
        super().__init__()
        self._node_port, self._epmd_port = free_port(), free_port()
        self._epmd: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start, and wait until it answers; do nothing if it runs."""
        if self._epmd is None or self._epmd.poll() is not None:
            programs = sorted((self._root() / "usr/lib/erlang").glob("erts-*/bin/epmd"))
            command = [str(programs[0]), "-address", HOST, "-port", str(self._epmd_port)]
            self._epmd = start_child(command, self.folder / "epmd.log")
        super().start()

    def stop(self) -> None:
        """End it, and remove its folder."""
        super().stop()
        if self._epmd is not None:
            self._epmd.kill()
            self._epmd.wait()
            self._epmd = None

    def _properties(self) -> dict[str, object]:
        """Return the content of its rabbitmq.conf."""
        return {"listeners.tcp.default": self.hosts, "log.console": "true"}

    def _prepare(self) -> None:
        properties = self.folder / "rabbitmq.conf"
        properties.write_text("".join(f"{key} = {value}\n" for key, value in self._properties().items()))
        (self.folder / "plugins").write_text("[].\n")

    def _command(self) -> list[str]:
        root, folder = self._root(), self.folder
        (home,) = (root / "usr/lib/rabbitmq/lib").iterdir()
        variables = {
            "ERL_EPMD_ADDRESS": HOST,
            "ERL_EPMD_PORT": self._epmd_port,
            "HOME": folder,
            "PATH": f"{root}/usr/lib/erlang/bin:{os.environ['PATH']}",
            "RABBITMQ_CONFIG_FILE": folder / "rabbitmq",
            "RABBITMQ_CONF_ENV_FILE": folder / "none",
            "RABBITMQ_DIST_PORT": self._node_port,
            "RABBITMQ_ENABLED_PLUGINS_FILE": folder / "plugins",
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_MNESIA_BASE": folder / "data",
            "RABBITMQ_NODENAME": f"canal-group-{self.port}@localhost",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
            # Without it the process would be a shell that starts the broker.
            "RUNNING_UNDER_SYSTEMD": "true",
        }
        words = [f"{name}={value}" for name, value in variables.items()]
        return ["/usr/bin/env", *words, str(home / "sbin" / "rabbitmq-server")]

    def _root(self) -> Path:
        root = _CACHE / "rabbitmq"
        if not root.is_dir():
            raise BrokerMissingError("RabbitMQ is not on this machine: scripts/get-brokers.sh gets it.")
        return root
