"""Brokers of tests and benchmarks: every user of the machine reaches their ports, and gets no further."""

from __future__ import annotations

import re
import socket
import struct
from contextlib import suppress
from pathlib import Path

import pika
import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from pika.exceptions import ProbableAuthenticationError

from benchmarks._brokers import PASSWORD, USER, Broker
from benchmarks._kafka_broker import KafkaBroker
from benchmarks._rabbit_broker import RabbitBroker

#: how long a stranger waits for Kafka, seconds
WAIT_S = 5.0


def check_secret(broker: Broker) -> None:
    """The password is in private files, on no command line, and in no log."""
    assert broker.folder.stat().st_mode & 0o077 == 0
    assert Path(broker.output["password_file"]).read_text() == PASSWORD
    holding = [file for file in broker.folder.rglob("*") if file.is_file() and PASSWORD in text_of(file)]
    assert len(holding) >= 2, "its settings, and what relays read"
    for file in holding:
        assert file.stat().st_mode & 0o077 == 0, file
    assert PASSWORD not in text_of(broker.folder / "log")
    assert broker.pid is not None
    for process in Path("/proc").glob("[0-9]*"):
        try:
            assert PASSWORD not in text_of(process / "cmdline")
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended


def text_of(file: Path) -> str:
    return file.read_bytes().decode("latin-1")


def test_kafka_tells_nothing_without_the_password(kafka: KafkaBroker):
    assert AdminClient(kafka.client).list_topics(timeout=60).brokers
    plain = {"bootstrap.servers": kafka.hosts}
    for wrong in (plain, {**kafka.client, "sasl.password": "canal"}, {**kafka.client, "sasl.username": "x"}):
        with pytest.raises(KafkaException) as refused:
            AdminClient({**wrong, "log_level": 0}).list_topics(timeout=WAIT_S)
        assert refused.value.args[0].code() in {KafkaError._TRANSPORT, KafkaError._TIMED_OUT}
    check_secret(kafka)


def test_kafka_s_controller_asks_for_the_password(kafka: KafkaBroker):
    properties = (kafka.folder / "server.properties").read_text()
    (port,) = re.findall(r"^controller\.quorum\.voters=1@127\.0\.0\.1:(\d+)$", properties, re.MULTILINE)
    # DescribeCluster, which a controller answers to whoever may ask.
    request = struct.pack(">hhihx?bx", 60, 1, 7, -1, False, 2)
    with socket.create_connection(("127.0.0.1", int(port)), timeout=60) as stranger:
        stranger.sendall(struct.pack(">i", len(request)) + request)
        with suppress(ConnectionResetError):
            assert stranger.recv(4096) == b"", "it ends the connection"


def test_rabbitmq_refuses_a_client_without_the_password(rabbit: RabbitBroker):
    pika.BlockingConnection(rabbit.client).close()
    for user, password in (("guest", "guest"), (USER, USER), (USER, ""), ("guest", PASSWORD)):
        login = pika.PlainCredentials(user, password)
        with pytest.raises(ProbableAuthenticationError):
            pika.BlockingConnection(pika.ConnectionParameters(port=rabbit.port, credentials=login))
    check_secret(rabbit)
    cookie = rabbit.folder / ".erlang.cookie"
    assert cookie.stat().st_mode & 0o077 == 0
    assert re.fullmatch("[0-9a-f]{64}", cookie.read_text())
