"""Kafka of one's own, of the jars that `scripts/get-brokers.sh` resolves."""

from __future__ import annotations

import shutil
import subprocess
from typing import Any, Final

from benchmarks._brokers import CACHE, HOST, PASSWORD, TAIL_CHARS, USER, Broker, BrokerMissingError
from playground.database.child_process import free_port
from playground.database.secret_file import secret_file

#: how a listener of Kafka checks logins that bring the password
PLAIN_LOGIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule required"


class KafkaBroker(Broker):
    """Kafka in KRaft mode, one node; both of its listeners ask for the password."""

    name = "Kafka"

    def __init__(self) -> None:
        super().__init__()
        self._controller_port = free_port()

    @property
    def output(self) -> dict[str, Any]:
        """The settings of a relay's `output` that publishes here."""
        login = {"username": USER, "password_file": str(self.password_file), "mechanism": "PLAIN"}
        return {"kind": "kafka", "servers": self.hosts, **login}

    @property
    def client(self) -> dict[str, str]:
        """The options with which librdkafka connects."""
        return {
            "bootstrap.servers": self.hosts,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": USER,
            "sasl.password": PASSWORD,
        }

    def _properties(self) -> dict[str, object]:
        """Return the content of its server.properties."""
        return {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@{HOST}:{self._controller_port}",
            "listeners": f"LOCAL://{self.hosts},CONTROLLER://{HOST}:{self._controller_port}",
            "advertised.listeners": f"LOCAL://{self.hosts}",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "LOCAL",
            "listener.security.protocol.map": "CONTROLLER:SASL_PLAINTEXT,LOCAL:SASL_PLAINTEXT",
            "sasl.mechanism.controller.protocol": "PLAIN",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            **self._login("controller"),
            **self._login("local"),
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

    def _login(self, listener: str) -> dict[str, object]:
        """Return the properties of a listener that the node calls itself, too."""
        prefix, known = f"listener.name.{listener}", f'username="{USER}" password="{PASSWORD}"'
        return {
            f"{prefix}.sasl.enabled.mechanisms": "PLAIN",
            f"{prefix}.plain.sasl.jaas.config": f'{PLAIN_LOGIN} {known} user_{USER}="{PASSWORD}";',
        }

    def _prepare(self) -> None:
        text = "".join(f"{key}={value}\n" for key, value in self._properties().items())
        properties = secret_file(self.folder / "server.properties", text)
        words = ["format", "-t", "4L6g3nShT-eMCtK--X86sw", "-c", str(properties)]
        done = subprocess.run(
            [*self._java("kafka.tools.StorageTool"), *words],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"Kafka's folder cannot be formatted: {done.stderr[-TAIL_CHARS:]}")

    def _command(self) -> list[str]:
        return [*self._java("kafka.Kafka"), str(self.folder / "server.properties")]

    def _java(self, main: str) -> list[str]:
        jars, java = CACHE / "kafka", shutil.which("java")
        if not jars.is_dir() or java is None:
            raise BrokerMissingError("Kafka is not on this machine: scripts/get-brokers.sh gets it.")
        tuned = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
        return [java, *tuned, "-cp", f"{jars}/*", main]
