"""Kafka settings: an output of kind `kafka`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from canal_group.conf.relay.connection_settings import ConnectionSettings
from canal_group.conf.value import Count, Name, Seconds, Text, ZookeeperHosts, unfit

#: options that are ours: the guarantees depend on them
_OURS = frozenset(
    {
        "acks",
        "bootstrap.servers",
        "metadata.broker.list",
        "enable.idempotence",
        "message.send.max.retries",
        "request.required.acks",
        "retries",
        "transactional.id",
    }
)
#: begin options of the connection: they are keys of `output`, whose passwords are in files
_OF_CONNECTION = ("enable.sasl.", "enable.ssl.", "sasl.", "security.", "ssl.")


class KafkaSettings(ConnectionSettings):
    """A Kafka cluster; with a login by SASL."""

    kind: Literal["kafka"] = "kafka"
    #: `host:port` of brokers, separated by commas
    servers: ZookeeperHosts
    #: id of the transactions; None: canal-group-<destination>-<client id>
    transactional_id: Text | None = None
    #: topic of the positions; it is created, compacted, with one partition
    position_topic: Name = "canal-group-positions"
    #: how long a transaction may take, and how long brokers wait for one whose producer has vanished
    transaction_timeout_s: Seconds = 60.0
    #: how long a broker may be silent before the publisher connects again
    silence_s: Seconds = 30.0
    #: compression of messages
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] = "lz4"
    #: SASL's mechanism, of a login
    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = "SCRAM-SHA-512"
    #: protocol of the connection; None: derived from `ca` and `username`
    protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] | None = None
    #: further options of librdkafka's producer, by their names
    options: Annotated[dict[str, str | int | float | bool], Field(strict=False)] = Field(default_factory=dict)
    #: bytes of one message
    message_bytes_max: Count = 1 << 20

    @model_validator(mode="after")
    def _fitting(self) -> KafkaSettings:
        if self.username is None and "mechanism" in self.model_fields_set:
            raise unfit("be given together with `mechanism`", key="username", found="is missing")
        if self.protocol is None:
            return self
        for key, value, part in (("ca", self.ca, "SSL"), ("username", self.username, "SASL")):
            needed = part in self.protocol.split("_")
            if needed != (value is not None):
                expected = f"be {'given' if needed else 'left out'} with the protocol {self.protocol}"
                raise unfit(expected, key=key, found="is missing" if needed else "is given")
        return self

    @model_validator(mode="after")
    def _free_options(self) -> KafkaSettings:
        for name in self.options:
            if name in _OURS:
                raise unfit("leave this one to canal-group", key=f"options.{name}", found="is set")
            if name.startswith(_OF_CONNECTION):
                raise unfit(
                    "be left out: `ca`, `cert`, `key`, `username`, `password_file` and `mechanism` say it",
                    key=f"options.{name}",
                    found="is set",
                )
        return self

    @property
    def address(self) -> str:
        """The cluster's name in messages."""
        return f"Kafka at {self.servers}"

    def connection(self) -> dict[str, Any]:
        """Return librdkafka's options for a connection."""
        tls = "ssl" if self.ca is not None else "plaintext"
        options: dict[str, Any] = {
            "bootstrap.servers": self.servers,
            "security.protocol": tls if self.username is None else f"sasl_{tls}",
        }
        if self.ca is not None:
            options["ssl.ca.location"] = str(self.ca)
        if self.cert is not None:
            options |= {"ssl.certificate.location": str(self.cert), "ssl.key.location": str(self.key)}
        if self.username is not None:
            options |= {
                "sasl.mechanism": self.mechanism,
                "sasl.username": self.username,
                "sasl.password": self.password,
            }
        return options
