"""RabbitMQ of one's own, of the packages that `scripts/get-brokers.sh` unpacks."""

from __future__ import annotations

import os
import secrets
import subprocess
from pathlib import Path
from typing import Any

import pika

from benchmarks._brokers import CACHE, HOST, PASSWORD, USER, Broker, BrokerMissingError
from playground.database.child_process import free_port, start_child
from playground.database.secret_file import secret_file


class RabbitBroker(Broker):
    """RabbitMQ, one node, with an epmd of its own."""

    name = "RabbitMQ"

    def __init__(self) -> None:
        super().__init__()
        self._node_port, self._epmd_port = free_port(), free_port()
        self._epmd: subprocess.Popen[bytes] | None = None

    @property
    def output(self) -> dict[str, Any]:
        """The settings of a relay's `output` that publishes here."""
        login = {"username": USER, "password_file": str(self.password_file)}
        return {"kind": "rabbitmq", "port": self.port, **login}

    @property
    def client(self) -> pika.ConnectionParameters:
        """The parameters with which pika connects."""
        login = pika.PlainCredentials(USER, PASSWORD)
        return pika.ConnectionParameters(host=HOST, port=self.port, credentials=login)

    def start(self) -> None:
        """Start, and wait until it answers; do nothing if it runs."""
        if self._epmd is None or self._epmd.poll() is not None:
            found = sorted((self._root() / "usr/lib/erlang").glob("erts-*/bin/epmd"))
            command = [str(found[0]), "-address", HOST, "-port", str(self._epmd_port)]
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
        return {
            "listeners.tcp.default": self.hosts,
            "log.console": "true",
            "default_user": USER,
            "default_pass": PASSWORD,
        }

    def _prepare(self) -> None:
        text = "".join(f"{key} = {value}\n" for key, value in self._properties().items())
        secret_file(self.folder / "rabbitmq.conf", text)
        # Whoever knows it can run commands by the node's port, and Erlang's own is not hard to guess.
        secret_file(self.folder / ".erlang.cookie", secrets.token_hex(32))
        (self.folder / "plugins").write_text("[].\n")

    def _command(self) -> list[str]:
        root, folder = self._root(), self.folder
        (home,) = (root / "usr/lib/rabbitmq/lib").iterdir()
        said = {
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
        words = [f"{name}={value}" for name, value in said.items()]
        return ["/usr/bin/env", *words, str(home / "sbin" / "rabbitmq-server")]

    def _root(self) -> Path:
        root = CACHE / "rabbitmq"
        if not root.is_dir():
            raise BrokerMissingError("RabbitMQ is not on this machine: scripts/get-brokers.sh gets it.")
        return root
