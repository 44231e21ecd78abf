"""Outputs over TLS and with logins: right ones publish; wrong ones are a sentence, and publish nothing."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from integration.output.faults import Relay
from integration.output.published import Queue, in_kafka
from integration.output.relay_values import relay_values
from integration.output.running_broker import running
from integration.output.secure_brokers import MECHANISMS, SecureKafka, SecureRabbit
from integration.shared_servers import SharedShop
from integration.shop import DEADLINE_S
from support.security.certificates import Authority, Pair

from benchmarks._brokers import PASSWORD, USER
from canal_group.merge.errors import SinkRefused, SinkUnavailable
from canal_group.programs.conformance.sink import publish
from canal_group.programs.output.kinds import settings_of, sink_of
from canal_group.programs.output.sink import Sink
from playground.database.secret_file import secret_file

pytestmark = pytest.mark.soak  # each broker starts for this file alone
#: no wrong login or certificate is waited for as long as this
SILENCE_S = 60.0
#: times that a broker may be gone before its refusal is read
TRIES = 10


class Files:
    """An authority that the brokers trust, one that they do not, and what a relay has of them."""

    def __init__(self, folder: Path) -> None:
        self.authority, self.other = Authority(folder), Authority(folder, "other")
        self.pair = self.authority.pair("relay", of_consumer=True)
        self.other_pair = self.other.pair("other-relay", of_consumer=True)
        self.right = secret_file(folder / "right", f"{PASSWORD}\n")
        self.wrong = folder / "wrong"
        self.wrong.write_text("wrong-and-secret\n")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("secure"))


@pytest.fixture(scope="module")
def kafka_of_file(files: Files) -> Iterator[SecureKafka]:
    yield from running(SecureKafka(files.authority))


@pytest.fixture(scope="module")
def rabbit_of_file(files: Files) -> Iterator[SecureRabbit]:
    yield from running(SecureRabbit(files.authority))


def with_pair(pair: Pair) -> dict[str, Any]:
    return {"cert": pair.cert, "key": pair.key}


class TestKafka:
    @pytest.fixture
    def topic(self) -> str:
        return f"secure-{uuid.uuid4().hex[:8]}"

    def sink(self, broker: SecureKafka, topic: str, protocol: str, **changes: Any) -> Sink:
        values = {
            "servers": broker.servers(protocol),
            "protocol": protocol,
            "transactional_id": topic,
            "position_topic": f"{topic}-positions",
            "silence_s": SILENCE_S,
            **changes,
        }
        return sink_of(settings_of("kafka").model_validate(values), "shop/1001")

    def login(self, password: Path, mechanism: str = "SCRAM-SHA-512") -> dict[str, Any]:
        return {"username": USER, "password_file": password, "mechanism": mechanism}

    def check_published(self, broker: SecureKafka, topic: str, sink: Sink) -> None:
        sink.open()
        publish(sink, topic, range(0, 10, 2))
        sink.close()
        assert sink.open() is not None
        sink.close()
        assert len(in_kafka(broker, topic)) == 5

    def check_refused(self, broker: SecureKafka, topic: str, sink: Sink, sentence: str) -> SinkRefused:
        with pytest.raises(SinkRefused, match=sentence) as caught:
            sink.open()
        sink.close()
        assert "127.0.0.1:" in caught.value.message
        assert caught.value.hint
        assert "secret" not in str(caught.value)
        assert PASSWORD not in str(caught.value)
        topics = AdminClient(broker.client).list_topics(timeout=SILENCE_S).topics
        assert not [name for name in topics if name.startswith(topic)]
        return caught.value

    @pytest.mark.parametrize("mechanism", MECHANISMS)
    def test_a_login_over_tls_publishes(
        self, kafka_of_file: SecureKafka, files: Files, topic: str, mechanism: str
    ):
        login = self.login(files.right, mechanism)
        sink = self.sink(kafka_of_file, topic, "SASL_SSL", ca=files.authority.ca, **login)
        self.check_published(kafka_of_file, topic, sink)

    def test_a_login_in_clear_publishes(self, kafka_of_file: SecureKafka, files: Files, topic: str):
        sink = self.sink(kafka_of_file, topic, "SASL_PLAINTEXT", **self.login(files.right))
        self.check_published(kafka_of_file, topic, sink)

    def test_a_certificate_publishes(self, kafka_of_file: SecureKafka, files: Files, topic: str):
        sink = self.sink(kafka_of_file, topic, "SSL", ca=files.authority.ca, **with_pair(files.pair))
        self.check_published(kafka_of_file, topic, sink)

    @pytest.mark.parametrize("mechanism", MECHANISMS)
    def test_a_wrong_password_is_refused(
        self, kafka_of_file: SecureKafka, files: Files, topic: str, mechanism: str
    ):
        login = self.login(files.wrong, mechanism)
        sink = self.sink(kafka_of_file, topic, "SASL_SSL", ca=files.authority.ca, **login)
        said = self.check_refused(kafka_of_file, topic, sink, r"^Kafka at \S+ refuses the login\.")
        assert "output.username" in said.hint

    def test_a_relay_ends_with_the_sentence_and_shows_no_password(
        self, kafka_of_file: SecureKafka, files: Files, topic: str, served: SharedShop, tmp_path: Path
    ):
        output = {
            "kind": "kafka",
            "servers": kafka_of_file.servers("SASL_SSL"),
            "ca": str(files.authority.ca),
            "username": USER,
            "password_file": str(files.wrong),
        }
        with closing(Relay(tmp_path, relay_values(served, output, route={"topic": topic}))) as relay:
            command = Path(f"/proc/{relay.process.pid}/cmdline").read_text()
            assert relay.process.wait(DEADLINE_S) == 1, relay.said
        assert "refuses the login" in relay.said
        for word in ("wrong-and-secret", "Traceback"):
            assert word not in relay.said + command

    def test_another_authority_is_refused(self, kafka_of_file: SecureKafka, files: Files, topic: str):
        sink = self.sink(
            kafka_of_file, topic, "SASL_SSL", ca=files.other.ca, **self.login(files.right, "PLAIN")
        )
        said = self.check_refused(kafka_of_file, topic, sink, r"^Kafka at \S+ cannot be verified: ")
        assert "output.ca" in said.hint

    def test_a_name_that_the_certificate_lacks_is_refused(
        self, kafka_of_file: SecureKafka, files: Files, topic: str
    ):
        elsewhere = kafka_of_file.servers("SASL_SSL").replace("127.0.0.1", "localhost") + ",127.0.0.1:1"
        login = self.login(files.right)
        sink = self.sink(kafka_of_file, topic, "SASL_SSL", ca=files.authority.ca, servers=elsewhere, **login)
        self.check_refused(kafka_of_file, topic, sink, "has another name")

    @pytest.mark.parametrize("has_one", [True, False])
    def test_no_certificate_or_one_of_another_authority_is_refused(
        self, kafka_of_file: SecureKafka, files: Files, topic: str, has_one: bool
    ):
        pair = with_pair(files.other_pair) if has_one else {}
        sink = self.sink(kafka_of_file, topic, "SSL", ca=files.authority.ca, **pair)
        said = self.check_refused(kafka_of_file, topic, sink, "refuses our certificate")
        assert "output.cert" in said.hint


def open_again(sink: Sink) -> None:
    """Open as a relay does. A broker that refuses a certificate may be gone before that can be read."""
    for _ in range(TRIES):
        try:
            sink.open()
        except SinkUnavailable:
            sink.close()
        else:
            return


class TestRabbit:
    @pytest.fixture
    def queue(self, rabbit_of_file: SecureRabbit) -> Queue:
        return Queue(rabbit_of_file, f"secure-{uuid.uuid4().hex[:8]}")

    def sink(self, broker: SecureRabbit, **changes: Any) -> Sink:
        values = {"port": broker.tls_port, "silence_s": SILENCE_S, **changes}
        return sink_of(settings_of("rabbitmq").model_validate(values), "shop/1001")

    def check_refused(self, queue: Queue, sink: Sink, sentence: str) -> SinkRefused:
        with pytest.raises(SinkRefused, match=sentence) as caught:
            open_again(sink)
        sink.close()
        assert "127.0.0.1:" in caught.value.message
        assert "secret" not in str(caught.value)
        assert PASSWORD not in str(caught.value)
        assert not queue.take()
        return caught.value

    def test_a_certificate_and_a_login_publish(
        self, rabbit_of_file: SecureRabbit, queue: Queue, files: Files
    ):
        login = {"username": USER, "password_file": files.right}
        sink = self.sink(rabbit_of_file, ca=files.authority.ca, **with_pair(files.pair), **login)
        sink.open()
        publish(sink, queue.name, range(10))
        sink.close()
        assert len(queue.take()) == 10

    def test_a_wrong_password_is_refused(self, rabbit_of_file: SecureRabbit, queue: Queue, files: Files):
        login = {"username": USER, "password_file": files.wrong}
        sink = self.sink(rabbit_of_file, ca=files.authority.ca, **with_pair(files.pair), **login)
        said = self.check_refused(queue, sink, r"^RabbitMQ at \S+ refuses the login\.")
        assert "output.username" in said.hint

    def test_another_authority_is_refused(self, rabbit_of_file: SecureRabbit, queue: Queue, files: Files):
        sink = self.sink(rabbit_of_file, ca=files.other.ca, **with_pair(files.pair))
        said = self.check_refused(queue, sink, r"^RabbitMQ at \S+ cannot be verified: ")
        assert "output.ca" in said.hint

    @pytest.mark.parametrize("has_one", [True, False])
    def test_no_certificate_or_one_of_another_authority_is_refused(
        self, rabbit_of_file: SecureRabbit, queue: Queue, files: Files, has_one: bool
    ):
        pair = with_pair(files.other_pair) if has_one else {}
        sink = self.sink(rabbit_of_file, ca=files.authority.ca, **pair)
        said = self.check_refused(queue, sink, "refuses our certificate")
        assert "output.cert" in said.hint
