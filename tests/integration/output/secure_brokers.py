"""Brokers that ask for TLS, certificates and passwords, each with a listener for what tests look at."""

from __future__ import annotations

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from support.security.certificates import Authority, Pair

from benchmarks._brokers import HOST, PASSWORD, USER
from benchmarks._kafka_broker import PLAIN_LOGIN, KafkaBroker
from benchmarks._rabbit_broker import RabbitBroker
from playground.database.child_process import free_port

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
_ITERATIONS = 4_096
#: seconds until a listener knows a password
_KNOWN_S = 60.0


class SecureKafka(KafkaBroker):
    """Kafka with one listener for each protocol; that of SSL asks for a certificate.

    Args:
        authority: signs its certificate, and those of its clients.
    """

    def __init__(self, authority: Authority) -> None:
        super().__init__()
        self._authority = authority
        self._ports = {name: free_port() for name in ("SSL", "SASL_PLAINTEXT", "SASL_SSL")}

    def servers(self, protocol: str) -> str:
        """Return `host:port` of the listener of a protocol."""
        return f"{HOST}:{self._ports[protocol]}"

    def _properties(self) -> dict[str, object]:
        pair = self._authority.pair("kafka")
        store = self.folder / "kafka.pem"
        store.write_text(pair.key.read_text() + pair.cert.read_text())
        secure = [f"{name}://{HOST}:{port}" for name, port in self._ports.items()]
        properties = super()._properties()
        return {
            **properties,
            "listeners": ",".join([str(properties["listeners"]), *secure]),
            "advertised.listeners": ",".join([str(properties["advertised.listeners"]), *secure]),
            "listener.security.protocol.map": ",".join(
                [
                    str(properties["listener.security.protocol.map"]),
                    *(f"{name}:{name}" for name in self._ports),
                ]
            ),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": store,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self._authority.ca,
            "listener.name.ssl.ssl.client.auth": "required",
            **_logins("sasl_plaintext"),
            **_logins("sasl_ssl"),
        }

    def start(self) -> None:
        """Start, and wait until it knows the password in every mechanism; do nothing if it runs."""
        super().start()
        admin = AdminClient(self.client)
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            # Not by the tool that formats its folder: a command line can be read by every user.
            known = UserScramCredentialUpsertion(
                USER, ScramCredentialInfo(mechanism, _ITERATIONS), PASSWORD.encode()
            )
            admin.alter_user_scram_credentials([known])[USER].result()
        for name in MECHANISMS:
            login = {"bootstrap.servers": self.servers("SASL_PLAINTEXT"), "sasl.mechanism": name}
            # A listener learns of them a moment after they are stored; until then the client tries again.
            AdminClient({**self.client, **login, "log_level": 0}).list_topics(timeout=_KNOWN_S)


def _logins(listener: str) -> dict[str, object]:
    """Return the properties of a listener that asks for a password."""
    prefix = f"listener.name.{listener}"
    return {
        f"{prefix}.sasl.enabled.mechanisms": ",".join(MECHANISMS),
        f"{prefix}.plain.sasl.jaas.config": f'{PLAIN_LOGIN} user_{USER}="{PASSWORD}";',
        f"{prefix}.scram-sha-256.sasl.jaas.config": _SCRAM,
        f"{prefix}.scram-sha-512.sasl.jaas.config": _SCRAM,
    }


class SecureRabbit(RabbitBroker):
    """RabbitMQ with a listener for TLS that asks for a certificate.

    Args:
        authority: signs its certificate, and those of its clients.
    """

    def __init__(self, authority: Authority) -> None:
        super().__init__()
        self._authority = authority
        self.tls_port = free_port()

    def _properties(self) -> dict[str, object]:
        pair: Pair = self._authority.pair("rabbitmq")
        return {
            **super()._properties(),
            "listeners.ssl.default": f"{HOST}:{self.tls_port}",
            "ssl_options.cacertfile": self._authority.ca,
            "ssl_options.certfile": pair.cert,
            "ssl_options.keyfile": pair.key,
            "ssl_options.verify": "verify_peer",
            "ssl_options.fail_if_no_peer_cert": "true",
        }
