"""What brokers hold, as their consumers read it, and publishers for tests."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pika
from confluent_kafka import Consumer, KafkaError, TopicPartition
from integration.shop import DEADLINE_S

from benchmarks._kafka_broker import KafkaBroker
from benchmarks._rabbit_broker import RabbitBroker
from canal_group.conf.relay.relay_settings import RelaySettings, build_relay
from canal_group.programs.output.kinds import settings_of
from canal_group.programs.output.publisher import Publisher


@dataclass(frozen=True, slots=True)
class Published:
    """A message as a consumer has it."""

    topic: str
    partition: int
    headers: dict[str, str]
    value: bytes

    @property
    def json(self) -> dict[str, Any]:
        return dict(json.loads(self.value))

    @property
    def position(self) -> tuple[str, str]:
        """What identifies the change."""
        return self.headers["shard"], self.headers["position"]


def in_kafka(broker: KafkaBroker, topic: str, *, committed: bool = True) -> list[Published]:
    """Return the messages of a topic, by partition in order of offsets; empty if there is no topic."""
    reader = Consumer(
        {
            **broker.client,
            "group.id": f"look-{uuid.uuid4().hex}",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed" if committed else "read_uncommitted",
        }
    )
    try:
        partitions = reader.list_topics(topic, timeout=DEADLINE_S).topics[topic].partitions
        reader.assign([TopicPartition(topic, number, 0) for number in partitions])
        found: list[Published] = []
        open_ends = set(partitions)
        deadline_s = time.monotonic() + DEADLINE_S
        while open_ends:
            assert time.monotonic() < deadline_s, f"{topic} is not read to its end"
            message = reader.poll(1.0)
            if message is None:
                continue
            if message.error() is None:
                headers = {name: text.decode() for name, text in message.headers() or []}
                found.append(Published(topic, message.partition(), headers, message.value()))
            elif message.error().code() == KafkaError._PARTITION_EOF:
                open_ends.discard(message.partition())
        return sorted(found, key=lambda each: each.partition)
    finally:
        reader.close()


class Queue:
    """A durable queue of RabbitMQ's default exchange, and all that was taken from it."""

    def __init__(self, broker: RabbitBroker, name: str) -> None:
        self._broker, self.name = broker, name
        self.taken: list[Published] = []
        with self._channel() as channel:
            channel.queue_declare(name, durable=True)

    def purge(self) -> None:
        """Remove what is in the queue."""
        with self._channel() as channel:
            channel.queue_purge(self.name)

    def take(self) -> list[Published]:
        """Take what is in the queue now, and return everything that was taken."""
        with self._channel() as channel:
            while True:
                method, properties, body = channel.basic_get(self.name)
                if method is None:
                    return self.taken
                headers = {key: str(value) for key, value in properties.headers.items()}
                self.taken.append(Published(method.routing_key, int(headers["partition"]), headers, body))
                channel.basic_ack(method.delivery_tag)

    @contextmanager
    def _channel(self) -> Iterator[Any]:
        connection = pika.BlockingConnection(self._broker.client)
        try:
            yield connection.channel()
        finally:
            connection.close()


def in_lines(path: Path) -> list[Published]:
    """Return the messages of a file of lines."""
    return [
        Published(each["topic"], each["partition"], each["headers"], json.dumps(each["value"]).encode())
        for each in map(json.loads, path.read_text().splitlines())
    ]


class Running:
    """A publisher on a thread of the test's own process, and how it ended."""

    def __init__(self, settings: RelaySettings) -> None:
        self._stop = threading.Event()
        self.publisher = Publisher(settings, self._stop)
        self.error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="publisher")
        self._thread.start()

    def _run(self) -> None:
        try:
            self.publisher.run()
        except Exception as error:  # noqa: BLE001  the test looks at it
            self.error = error

    @property
    def ended(self) -> bool:
        return not self._thread.is_alive()

    def stop(self) -> None:
        """End it as a signal does."""
        self._stop.set()
        self.join()

    def join(self) -> None:
        self._thread.join(DEADLINE_S)
        assert self.ended, "the publisher does not end"


@contextmanager
def publishing(values: dict[str, Any]) -> Iterator[Running]:
    """Run a publisher, and end it."""
    running = Running(relay_settings(values))
    try:
        yield running
    finally:
        running.stop()


def relay_settings(values: dict[str, Any]) -> RelaySettings:
    return build_relay(values, settings_of)
