"""RabbitMQ settings: an output of kind `rabbitmq`."""

from __future__ import annotations

from typing import Literal

from canal_group.conf.relay.connection_settings import ConnectionSettings
from canal_group.conf.value import Count, Host, Port, Seconds, Text
from canal_group.merge.well_known import HOST

#: RabbitMQ's own ports, without and with TLS
PORT, TLS_PORT = 5672, 5671


class RabbitSettings(ConnectionSettings):
    """A RabbitMQ server. Without a login it is guest, which RabbitMQ admits from its own machine only."""

    kind: Literal["rabbitmq"] = "rabbitmq"
    host: Host = HOST
    #: None: 5672, and with `ca` 5671
    port: Port | None = None
    virtual_host: Text = "/"
    #: exchange that messages are published to; empty: the default one, where the routing key names the queue
    exchange: str = ""
    #: whether the routing key is topic.partition instead of topic
    partition_keys: bool = False
    #: messages that are sent and not confirmed
    in_flight_max: Count = 10_000
    #: how long the server may be silent before the publisher connects again
    silence_s: Seconds = 30.0

    @property
    def open_port(self) -> int:
        """The port that is connected to."""
        return self.port or (PORT if self.ca is None else TLS_PORT)

    @property
    def address(self) -> str:
        """The server's name in messages."""
        return f"RabbitMQ at {self.host}:{self.open_port}"
