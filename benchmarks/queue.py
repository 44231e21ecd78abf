"""Queue: messages a second of a relay to Kafka and to RabbitMQ, beside a plain producer of the library.

An instance over four servers holds a backlog of transactions of a hundred rows. A publisher in this process
reads it, makes flat messages with headers, publishes and acknowledges: to Kafka in transactions with the
position, to RabbitMQ with confirms. The plain producer sends the messages of one batch, made before, over and
over: to Kafka in transactions of the same size, to RabbitMQ with confirms. The brokers share the machine.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import confluent_kafka
import pika

from benchmarks._kafka_broker import KafkaBroker
from benchmarks._load import BULK_ROWS, NAME, SHARDS, cpus, fill, servers
from benchmarks._pipeline import DESTINATION, instance
from benchmarks._rabbit_broker import RabbitBroker
from canal_group.client.client import connect
from canal_group.conf.relay.relay_settings import RouteSettings, build_relay
from canal_group.programs.output.formats import format_of
from canal_group.programs.output.kinds import settings_of
from canal_group.programs.output.messages import Messages
from canal_group.programs.output.publisher import Publisher
from canal_group.programs.output.routing.router import Router
from canal_group.shapes.maps import tidied

#: messages to each broker
_KAFKA, _RABBIT = 1_000_000, 60_000
#: rows of a batch, and so messages of a transaction
_BATCH_ROWS = 20_000
_TOPIC = "bench"
_WAIT_S = 600.0
_LOOK_EVERY_S = 0.02


def measure(size: float) -> dict[str, Any]:
    """Return messages a second to both brokers, and the ratios to plain producers."""
    # The first batch is not measured.
    kafka, rabbit = (max(2 * _BATCH_ROWS, int(count * size)) for count in (_KAFKA, _RABBIT))
    with servers() as made:
        backlog = fill(made, "bulk", max(kafka, rabbit) // SHARDS // BULK_ROWS)
        with instance(made, store={"size": 1 << 17}) as running:
            sample = _sample(running.uri)
            with KafkaBroker() as broker:
                to_kafka = _relayed(running.uri, broker.output, min(kafka, backlog.rows))
                plain_kafka = _plain_kafka(broker, sample, kafka)
            with RabbitBroker() as broker:
                _declare(broker)
                to_rabbit = _relayed(running.uri, broker.output, min(rabbit, backlog.rows))
                _declare(broker)
                plain_rabbit = _plain_rabbit(broker, sample, rabbit)
    return {
        "message_bytes": round(sample.value.nbytes / len(sample)),
        "kafka": _report(to_kafka, plain_kafka),
        "rabbitmq": _report(to_rabbit, plain_rabbit),
        "cpus": cpus(),
    }


def _report(relayed: tuple[float, float], plain: float) -> dict[str, float]:
    rate, cpu_us = relayed
    return {
        "messages_per_s": round(rate),
        "cpu_us_per_message": round(cpu_us, 2),
        "plain_per_s": round(plain),
        "ratio": round(rate / plain, 3),
    }


def _sample(uri: str) -> Messages:
    """Return the messages of one batch."""
    with connect(uri, destination=DESTINATION, client_id="sample", start="earliest") as consumer:
        batch = consumer.get_without_ack(_BATCH_ROWS)
        assert batch is not None
        rows = tidied(batch.envelope(definitions=True))
        messages = format_of("flat").make(rows, Router(RouteSettings(topic=_TOPIC)).routes(rows))
        consumer.unsubscribe()
    return messages


def _relayed(uri: str, output: dict[str, Any], count: int) -> tuple[float, float]:
    """Publish messages; return how many a second, and the processor time of each in this process, us."""
    values = {
        "destination": DESTINATION,
        "read": {"gateway": uri, "client_id": f"to-{output['kind']}", "start": "earliest", "filter": NAME},
        "route": {"topic": _TOPIC},
        "batch": {"rows_max": _BATCH_ROWS},
        "output": output,
    }
    stop = threading.Event()
    publisher = Publisher(build_relay(values, settings_of), stop)
    thread = threading.Thread(target=publisher.run, name="publisher")
    thread.start()
    pause = threading.Event()

    def until(target: int) -> None:
        end_s = time.monotonic() + _WAIT_S
        while publisher.published < target:
            assert thread.is_alive(), "the relay has ended"
            assert time.monotonic() < end_s, "the relay does not publish"
            pause.wait(_LOOK_EVERY_S)

    try:
        until(1)  # connected, and every code path ran once
        began, since_s, cpu_s = publisher.published, time.monotonic(), time.process_time()
        until(count)
        done = publisher.published - began
        spent_s, cpu_s = time.monotonic() - since_s, time.process_time() - cpu_s
    finally:
        stop.set()
        thread.join()
    return done / spent_s, cpu_s / done * 1e6


def _plain_kafka(broker: KafkaBroker, sample: Messages, count: int) -> float:
    producer = confluent_kafka.Producer(
        {
            **broker.client,
            "transactional.id": "plain",
            "compression.type": "lz4",
            "linger.ms": 5,
            "queue.buffering.max.messages": 200_000,
        }
    )
    producer.init_transactions(60)
    values, headers = sample.value.to_pylist(), _headers(sample)

    def batch() -> None:
        producer.begin_transaction()
        for value, message_headers in zip(values, headers, strict=True):
            producer.produce("plain", value, None, 0, headers=message_headers)
        producer.commit_transaction(60)

    return _rate(batch, len(sample), count)


def _plain_rabbit(broker: RabbitBroker, sample: Messages, count: int) -> float:
    """Return the rate of pika's blocking connection with confirms: it waits for each."""
    connection = pika.BlockingConnection(broker.client)
    channel = connection.channel()
    channel.confirm_delivery()
    values, headers = sample.value.to_pylist()[:1_000], _headers(sample)

    def batch() -> None:
        for value, message_headers in zip(values, headers, strict=False):
            properties = pika.BasicProperties(delivery_mode=2, headers=dict(message_headers))
            channel.basic_publish("", _TOPIC, value, properties, mandatory=True)

    rate = _rate(batch, len(values), max(len(values), count // 10))
    connection.close()
    return rate


def _headers(sample: Messages) -> list[list[tuple[str, str]]]:
    names = list(sample.headers)
    columns = (sample.headers[name].to_pylist() for name in names)
    return [list(zip(names, texts, strict=True)) for texts in zip(*columns, strict=True)]


def _rate(batch: Callable[[], None], size: int, count: int) -> float:
    batch()
    began_s, done = time.monotonic(), 0
    while done < count:
        batch()
        done += size
    return done / (time.monotonic() - began_s)


def _declare(broker: RabbitBroker) -> None:
    """Make the queue anew: what is in it takes memory."""
    connection = pika.BlockingConnection(broker.client)
    channel = connection.channel()
    channel.queue_delete(_TOPIC)
    channel.queue_declare(_TOPIC, durable=True)
    connection.close()
